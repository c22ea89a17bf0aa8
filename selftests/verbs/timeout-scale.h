/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TIMEOUT_SCALE_H
#define TIMEOUT_SCALE_H

#include <stdlib.h>

/* How many times slower than usual the guest may be: KSFT_TIMEOUT_SCALE, as wait_scale() of rxe_peer.c has it. */
static inline unsigned int timeout_scale(void)
{
	const char *scale = getenv("KSFT_TIMEOUT_SCALE");

	return scale && atoi(scale) > 0 ? atoi(scale) : 1;
}

#endif

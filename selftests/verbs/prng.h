/* SPDX-License-Identifier: GPL-2.0 */
/* Pseudo-random numbers: the same seed gives the same run. */
#ifndef PRNG_H
#define PRNG_H

#include <linux/types.h>

struct prng {
	__u64 state;
};

/* xorshift64*; its state is never 0. */
static inline __u32 prng_next(struct prng *prng)
{
	prng->state ^= prng->state >> 12;
	prng->state ^= prng->state << 25;
	prng->state ^= prng->state >> 27;
	return prng->state * 0x2545f4914f6cdd1dull >> 32;
}

static inline struct prng prng_of_seed(__u64 seed)
{
	struct prng prng = { seed * 2 + 1 };
	int i;

	/* Seeds that resemble each other shall give runs that do not. */
	for (i = 0; i < 8; i++)
		prng_next(&prng);
	return prng;
}

/* 0 to @n - 1. */
static inline __u32 prng_below(struct prng *prng, __u32 n)
{
	return prng_next(prng) % n;
}

/* True once in @n times. */
static inline int prng_once_in(struct prng *prng, __u32 n)
{
	return !prng_below(prng, n);
}

#endif /* PRNG_H */

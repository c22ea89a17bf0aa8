/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What answers prove.  A request is executed some time after it came, in no order with those of other QPs; the target's
 * answer says that it has been:
 *
 *	FLUSH		what it names is there, whatever its placement
 *	ATOMIC WRITE	itself and all that its QP stored before
 *	READ, Atomic	all that its QP stored before
 *	what a READ or an Atomic of any QP has found in a word: the store that gave the word this value
 *	DREP, or DREQ, of the connection manager: all that the QP stored
 *
 * So do the CPU's write-back of what it sees, and a fence.  A plain ACKNOWLEDGE says nothing of it.
 */
#ifndef PROOF_H
#define PROOF_H

#include "history.h"

/* Sets `proven` of all requests, and `settled` of all updates. */
void proofs_find(struct history *history);

#endif /* PROOF_H */

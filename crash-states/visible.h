/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is visible to a consumer, which is a program of the target, when it has a *signal* of an initiator: by rules_of_consumer(),
 * a word's floor is what the specification promises it then, and a flush is one for global visibility.
 *
 * A *completion* is the last packet of a SEND, a WRITE with immediate, or an Atomic that updates its word.  The consumer that has
 * it may count on what the QP stored before, without a FLUSH.  Completions of a QP come in order, but may pass its FLUSHes, so
 * they are flushes of a flow of their own: struct flow, completions.  An ATOMIC WRITE waits for them, as for FLUSHes.
 *
 * So says IBTA volume 1, 9.5: an application shall not depend on what a WRITE has stored until that completed with an immediate, a
 * later SEND completed, or a later Atomic updated its word.  That speaks of WRITE.  A completion may pass an ATOMIC WRITE, which may have to wait for a FLUSH, unless its answer has come before.
 * With rules->in_order, each store is a completion: a target that executes the requests of a QP one by one.  This is
 * RDMA^TSO (Ambal and others, "Semantics of Remote Direct Memory Access", OOPSLA 2024), the published model for x86.
 */
#ifndef VISIBLE_H
#define VISIBLE_H

#include "history.h"

/* Add the flows of completions, if the rules are those of a consumer. */
void completions_add(struct history *history);

/* Which completion says of each update that it is visible? */
void completions_find(struct history *history);

/* So many completions of its QP have come where a store of the request is seen in the memory. */
uint32_t completions_implied(const struct history *history, const struct request *request);

/* May a consumer wait for the request? */
bool is_signal(const struct history *history, const struct request *request);

/* Does a consumer poll the stretch? */
bool is_polled(const struct history *history, uint32_t s);

#endif /* VISIBLE_H */

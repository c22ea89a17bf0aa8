/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which stores cannot be left one without the other, although each word, and each part of a word, holds a value of its own.
 * A word is untorn: what a request has stored to two parts of it is there or not.  What a QP has stored to a word is there
 * in order, unless a flush has made only the later part durable.  And a cache writes a line back as a whole, so the CPU's
 * stores to it are there in order (Px86), except those past the cache.
 *
 * Such words, and parts, are *tied*: they are in one cache line.
 */
#ifndef ORDER_H
#define ORDER_H

#include "history.h"

/* The words, by their numbers, of a line of which some are tied. */
struct tied {
	uint32_t first, end;
	uint32_t when;		/* for those who look at each line once */
};

typedef LIST(struct tied) tied_list;

/* In the order of their places. */
void order_find(const struct history *history, tied_list *tied);

/* That which has the word, or the first one of those after it, or NULL. */
struct tied *order_from(const tied_list *tied, uint32_t word);

/*
 * Where the update @second of a tied word is, is @first, of another word of the line, too?  @durable: a flush that was
 * executed covers @second.
 */
bool order_forces(const struct history *history, const struct update *first, const struct update *second, bool durable);

/* Is it a store by the CPU that goes by its cache? */
bool order_is_cached(const struct history *history, const struct update *update);

#endif /* ORDER_H */

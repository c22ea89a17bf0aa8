/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Chooses the states that are checked.  There are far too many to check them all, so first comes a part
 * that is always complete, and small:
 *
 * Cuts are alike if the newest requests in flight are alike.  Each such shape stands for its cuts: a
 * program that appends 5000 records does the same 5000 times.  At some cuts of each shape, each request
 * in flight and each pair of requests is lost alone, and is left alone, and so is each prefix; in a group, so is
 * all that is in flight to each set of targets.
 *
 * Messages are of one *kind* if they have the same opcode and size, and change the same of their words.  Each kind is in flight
 * at some cut that is looked at, and of each opcode and size each word of one message is lost alone, and left alone.
 *
 * Then @states more: one cache line, or one word, lost or left at these cuts; and by chance, at all cuts.
 * Half of those by chance go where the other half has made the checker print what it had not printed before.
 * Without a number of @states, this goes on, with twice as many each time, until all were tried or @seconds have passed.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdio.h>

#include "model.h"

#define ANY_NUMBER	SIZE_MAX

/* What a checker printed: two states of which it prints the same are alike to it. */
struct view {
	uint64_t hash;		/* of the text */
	size_t number;		/* of the first state that has it */
	unsigned int moment;	/* the cut of that */
};

/* The views of all states that were taken so far, each once; *@n of them. */
typedef const struct view *(*sample_views)(void *arg, size_t *n);

struct sample_options {
	size_t states;		/* beyond the complete part, or ANY_NUMBER */
	unsigned int seconds;	/* for all, or 0: no limit */
	size_t limit;		/* of all states */
	uint64_t seed;
	bool each_cut;		/* is looked at, not only some of each shape */
	sample_views views;	/* or NULL */
};

/* What was tried, of what there is. */
struct count {
	size_t done, all;
};

struct coverage {
	unsigned int targets;
	size_t cuts;		/* of the run */
	size_t shapes;
	size_t alike;		/* so many requests make the shape of a cut */
	bool any_size;		/* not their sizes and places, but what they are, and their FLUSHes */
	size_t looked_at;	/* cuts that have the complete part */
	bool older;		/* some of them have more requests in flight than are told apart */
	bool weak;		/* cuts that are not looked at may have other shapes */
	bool complete;		/* the complete part is */
	bool all;		/* each state of each cut was tried */
	size_t planned;		/* states of the complete part, at most */
	struct count messages;	/* of each opcode and size: its words */
	struct count lines, words;
	bool out_of_time, at_limit;	/* what ended it, but for failures enough */
	size_t by_chance;
	size_t by_views;	/* of these: at cuts that had just shown a new view */
	size_t views;
};

/* Is given each state, with a number from 1 on.  False ends it all. */
typedef bool (*sample_take)(void *arg, struct model *model, const struct state *state, size_t number);

/* Give @take states of the cuts @moments, which are in order; each differs from all before it. */
void sample(struct model *model, const unsigned int *moments, size_t n,
	    const struct sample_options *options, sample_take take, void *arg,
	    struct coverage *coverage);

/* What the result is worth, in words and numbers. */
void coverage_print(const struct coverage *coverage, FILE *file);

#endif /* SAMPLE_H */

/* SPDX-License-Identifier: GPL-2.0 */
/* Explains why a state fails: the least that must be lost, and what must have come. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include <stdio.h>

#include "cause.h"
#include "checker.h"

struct explanation {
	struct state state;		/* the smallest that fails */
	bool cut_short;			/* a smaller one may fail, but takes too many runs to find */
	held_list needed;	/* words without whose newest values it would not fail */
	struct cause cause;
	char *why;			/* the cause in words */
};

/*
 * Make the failing @state as small as it can be and still fails, and say why it does.  The model goes
 * to its cut.
 */
void explain(struct explanation *explanation, struct model *model, struct checker *checker,
	     const struct state *state);

/* Words that are old and words that count, one per line; and with the reason. */
void explanation_words(const struct explanation *explanation, const struct model *model, FILE *file);
void explanation_print(const struct explanation *explanation, const struct model *model, FILE *file);

/* The frames of the requests whose values are lost, "4,7-9", for the ladder. */
void explanation_frames(const struct explanation *explanation, const struct model *model, FILE *file);

/* Of the requests that are marked: "4,7,8" */
void print_frames(const struct history *history, const uint8_t *marked, FILE *file);

void explanation_free(struct explanation *explanation);

#endif /* EXPLAIN_H */

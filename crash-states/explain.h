/* SPDX-License-Identifier: GPL-2.0 */
/* Explains why a state fails: the least that must be lost, and what must have come. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include <stdio.h>

#include "checker.h"

/* Which mistake it is. */
enum culprit {
	CULPRIT_NOTHING_LOST,	/* the state fails though all that came is there */
	CULPRIT_IN_PARTS,	/* one word, by two requests */
	CULPRIT_RACE,		/* one word, by two QPs that do not wait for each other */
	CULPRIT_PASSED,		/* a WRITE passed a FLUSH that was not waited for */
	CULPRIT_TOO_EARLY,	/* the FLUSH was not answered yet */
	CULPRIT_GLOBAL,		/* FLUSH for visibility only */
	CULPRIT_RANGE,		/* the FLUSH names other bytes */
	CULPRIT_STRICT,		/* the FLUSH is of another key, or names a part of the WRITE */
	CULPRIT_OTHER_QP,	/* the FLUSH is of another QP */
	CULPRIT_READ,		/* a READ in its place */
	CULPRIT_QPS,		/* what relies on it is of another QP, and did not wait */
	CULPRIT_BEFORE,		/* the FLUSH was sent before the store */
	CULPRIT_WROTE_BACK_BEFORE,	/* the CPU wrote the line back before its store */
	CULPRIT_NO_FENCE,	/* the CPU wrote the line back, and did not wait for it */
	CULPRIT_NO_WRITE_BACK,	/* the CPU did not */
	CULPRIT_NO_FLUSH,	/* none at all, or only after what relies on it */
	CULPRIT_CHECKER,	/* it refused the state, and then accepted it */
};

/* For other programs: a word that stays. */
const char *culprit_name(enum culprit culprit);

struct explanation {
	enum culprit culprit;
	struct state state;		/* the smallest that fails */
	bool cut_short;			/* a smaller one may fail, but takes too many runs to find */
	held_list needed;	/* words without whose newest values it would not fail */
	uint32_t lost;			/* request, or NEVER */
	uint32_t seen;			/* request that is there though @lost is not, or NEVER */
	uint32_t flush;			/* request that made the difference, or NEVER */
	char *why;			/* a sentence, or some */
};

/*
 * Make the failing @state as small as it can be and still fails, and say why it does.  The model goes
 * to its cut.
 */
void explain(struct explanation *explanation, struct model *model, struct checker *checker,
	     const struct state *state);

/* Words that are old and words that count, one per line. */
void explanation_print(const struct explanation *explanation, const struct model *model, FILE *file);

/* The frames of the requests whose values are lost, "4,7-9", for the ladder. */
void explanation_frames(const struct explanation *explanation, const struct model *model, FILE *file);

void explanation_free(struct explanation *explanation);

#endif /* EXPLAIN_H */

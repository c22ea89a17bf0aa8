/* SPDX-License-Identifier: GPL-2.0 */
/* Which mistake a state shows that fails: first what kind it is and which requests are to blame, then the words for that. */
#ifndef CAUSE_H
#define CAUSE_H

#include <stdio.h>

#include "model.h"

/* Which mistake it is. */
enum culprit {
	CULPRIT_NOTHING_LOST,	/* the state fails though all that came is there */
	CULPRIT_IN_PARTS,	/* one word, by two requests */
	CULPRIT_RACE,		/* one word, by two QPs that do not wait for each other */
	CULPRIT_PASSED,		/* a WRITE passed a FLUSH that was not waited for */
	CULPRIT_TOO_EARLY,	/* the FLUSH was not answered yet */
	CULPRIT_GLOBAL,		/* FLUSH for visibility only */
	CULPRIT_PERSISTENT,	/* the other way round: see visible.h */
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

/* The requests are NULL where the kind has none. */
struct cause {
	enum culprit kind;
	const struct model *model;
	const struct held *held;	/* the word that is lost, of the state */
	const struct request *lost;	/* its store */
	const struct request *seen;	/* is there though @lost is not */
	const struct request *flush;	/* makes @lost durable: a FLUSH that covers it, or a fence of the CPU */
	const struct request *near;	/* what looks like the FLUSH, or the write-back, that is missing */
};

/*
 * What is wrong with a state of the cut of @model, of which nothing can be left out: @held are its old words, @needed the words
 * without whose newest values it would not fail.  The model was asked about the state last.
 */
struct cause classify(const struct model *model, const held_list *held, const held_list *needed);

/* A sentence, or some; @held as above. */
void cause_print(const struct cause *cause, const held_list *held, FILE *file);

/* The same, in memory of its own. */
char *cause_words(const struct cause *cause, const held_list *held);

#endif /* CAUSE_H */

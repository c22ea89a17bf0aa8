/* SPDX-License-Identifier: GPL-2.0 */
/* FLUSHes and waits that a program could spare, as far as its packets tell. */
#ifndef LINT_H
#define LINT_H

#include <stdio.h>

#include "model.h"

enum lint_kind {
	LINT_TWO,		/* FLUSHes, with nothing between them: @other is the second */
	LINT_WIDE,		/* a range of more cache lines than are new */
	LINT_WAIT,		/* for a FLUSH, before the WRITE @other of one word */
	LINT_NOTHING,		/* a FLUSH for persistence of which nothing is new */
	LINT_LEFT,		/* a FLUSH whose initiator had left before the answer */
	LINTS
};

struct lint {
	enum lint_kind kind;
	uint32_t request, other;	/* NEVER: there is no other */
	unsigned int packets, round_trips;	/* that it would save */
	uint64_t lines;			/* cache lines that are not new */
};

typedef LIST(struct lint) lint_list;

void lint_find(const struct model *model, lint_list *lints);

/* The first ones of each kind, one a line, what to do, and what all of them would save. */
void lint_print(const struct history *history, const lint_list *lints, FILE *file);

#endif /* LINT_H */

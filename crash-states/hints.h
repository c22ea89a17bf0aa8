/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is suspicious in a history, found without a checker.  A hint is true whatever the program is, but
 * it may be no mistake: only a checker knows what relies on what.
 */
#ifndef HINTS_H
#define HINTS_H

#include <stdio.h>

#include "history.h"

enum hint_kind {
	HINT_NOT_COVERED,	/* an ATOMIC WRITE, before which no FLUSH covers @other */
	HINT_OTHER_QP,		/* a FLUSH that covers nothing; @other, which it names, is of another QP */
	HINT_BEFORE,		/* a FLUSH that covers nothing; @other, which it names, was sent after it */
	HINT_NOTHING,		/* any other FLUSH that covers nothing */
	HINT_CHANGED,		/* sent again with other bytes */
	HINT_TWO_QPS,		/* stores to a word that @other, of another QP, has stored to */
	HINTS
};

struct hint {
	enum hint_kind kind;
	uint32_t request, other;	/* NEVER: there is no other */
	size_t more;			/* messages like @other */
	uint64_t offset;		/* of the word of two QPs */
};

typedef LIST(struct hint) hint_list;

/* Add all hints to @hints. */
void hints_find(const struct history *history, hint_list *hints);

/* One of them, in a line; the text is the caller's. */
char *hint_text(const struct history *history, const struct hint *hint);

/* The first ones of each kind, one a line, how many more there are, and what to do. */
void hints_print(const struct history *history, const hint_list *hints, FILE *file);

#endif /* HINTS_H */

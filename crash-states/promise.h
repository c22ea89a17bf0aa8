/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What printed lines promise, without a checker: all that their initiator had stored before is durable.
 *
 * A line is known to have been printed when its frame came, and may have been printed before.  An initiator that waits has
 * moments when all of its stores are durable: each line that came when something was not belongs to such a moment before it.
 * A line that has none is broken: as many lines as the initiator prints at a time had been printed for the last one.
 */
#ifndef PROMISE_H
#define PROMISE_H

#include "cause.h"

/* A line that came too early: the oldest store of its initiator that could be lost then tells why. */
struct broken_promise {
	const struct told *line;
	struct cause cause;
	char *why;		/* the same in words, of the moment of the line */
};

typedef LIST(struct broken_promise) broken_promises;

/*
 * By rules of a consumer: each signal promises that all is visible which its initiator has stored before by this QP, and by those that
 * have no signal.  It stands for a line.
 */
void signals_check(struct model *model, broken_promises *broken);

/* Have several QPs of an initiator signals?  Then no signal says anything of what the other QPs have stored. */
bool signals_of_several_qps(const struct model *model);

/* Of the lines that match the extended regular expression @pattern.  Ends the program if there are none, or it is none. */
void promises_check(struct model *model, const char *pattern, broken_promises *broken);

/* How many lines there were that the pattern matches, by promises_check(). */
size_t promises_checked(void);

/*
 * By promises_check(): did an initiator print none of its lines while all was durable?  Where lines come at once, it prints too early,
 * which a moment before its first store hides; or it has sent more by then.
 */
bool promises_none_was_quiet(void);

/* Does the line match the pattern?  Ends the program if it is no pattern. */
bool promise_matches(const char *pattern, const struct told *line);

/*
 * How the answers and the lines that match @pattern, or all if it is NULL, lie in time.  Where each line came long after the
 * answer to a FLUSH, nothing shows that the program waits for the answer: it may have done something else for so long.  Where
 * the answers took longer than that, it has waited.
 */
struct schedule {
	double gap;		/* in seconds: the shortest from an answer to a line; 0 without lines */
	double tail;		/* to a WRITE of a word that WRITEs store to again, such as a tail; 0 without one after an answer */
	double hold;		/* the shortest from a FLUSH to its answer */
};
struct schedule promise_schedule(const struct model *model, const char *pattern);

/* One line: when it came, what it says, and what of its initiator was not durable then; false if all was. */
bool promise_print_open(struct model *model, const struct told *line, FILE *file);

#endif /* PROMISE_H */

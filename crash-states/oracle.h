/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A program's own recovery as the judge: what it prints of a state must be what it prints of the memory with nothing lost, at
 * some moment between the request of the last FLUSH that was answered before the last promise, and the cut.  So recovery
 * may lose what was not promised, but must find what there once was.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "checker.h"

struct oracle;

/*
 * For the checker with @options, which judges by it then.  @promise: a pattern for lines, see promise.h; NULL: none is one,
 * so each moment before the cut will do.
 */
struct oracle *oracle_new(const struct history *history, const struct model *model, const char *promise,
			  struct checker_options *options);

/* Can states of a cut at @moment be judged? */
bool oracle_is_ready(const struct oracle *oracle, unsigned int moment);

/* Let @checker, of which nothing runs, see the memory with nothing lost, as far as the cut at @moment needs it. */
void oracle_prepare(struct oracle *oracle, struct checker *checker, unsigned int moment);

/* What it prints of all that had come at @moment, with nothing lost: the newest that is right.  It stays until the next call. */
const char *oracle_expected(struct oracle *oracle, struct checker *checker, unsigned int moment);

/*
 * The first that it prints with nothing lost, of what was looked at, and at neither of the promises around that: then no state
 * that recovery may find is wrong, but the program's stores are no transaction.  NULL if there is none.
 */
const char *oracle_between(struct oracle *oracle, struct checker *checker, unsigned int *moment);

/* Ends the program if it prints the same of the start and the end, something else each time, or fails on the end. */
void oracle_try(struct oracle *oracle, struct checker *checker);

#endif /* ORACLE_H */

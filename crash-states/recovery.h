/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A power failure in recovery.  Recovery runs on states that the checker passes, and what it stores is followed (trace.h).  The
 * power fails again after each store, or with one of those that are not durable lost, or alone there.  Recovery that begins
 * anew on that must end as right as without the second power failure.
 */
#ifndef RECOVERY_H
#define RECOVERY_H

#include "checker.h"

struct recovery;

/* @command is for the shell. */
struct recovery *recovery_new(const char *command, uint64_t seed);

/* Take a state that the checker passes. */
void recovery_note(struct recovery *recovery, const struct state *state, size_t number);

/* A second power failure after which recovery ends wrong, or recovery that does so without one: @words is empty then. */
struct recovery_failure {
	const struct state *state;
	word_list words;	/* what recovery had left in it */
	const char *kind, *why, *said;
	char *title, *lines;	/* what is there, and what is lost */
	char *posted;		/* the line of the store at fault, or NULL */
};

struct recovery_count {
	size_t passed, traced;	/* states */
	size_t stores, cut;	/* of the traced ones; the power failed at so many */
	size_t tried, wrong;	/* second power failures */
	size_t slow;		/* states left out, as recovery did not end in time when it was followed, but does otherwise */
	size_t alike;		/* states left out, as recovery had stored in the same way on others */
	bool out_of_time, enough, guessed;
};

/* Given the checker, in which nothing runs; each cause once. */
typedef void (*recovery_report)(void *arg, struct checker *checker, const struct recovery_failure *failure);

/* For @seconds, or if that is 0, for @limit power failures.  @checker is what judges the states, or the oracle. */
struct recovery_count recovery_judge(struct recovery *recovery, struct model *model, const struct content *content,
				     const struct checker_options *checker, unsigned int seconds, size_t limit,
				     recovery_report report, void *arg);

/* In lines, for people. */
void recovery_print(const struct recovery_count *count, FILE *file);

#endif /* RECOVERY_H */

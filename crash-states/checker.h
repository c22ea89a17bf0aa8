/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The user's checker: a program that looks at what a power failure left.  It is started for each state, or
 * it stays: then it reads one line for each state, and answers by one.  Several run at once, each
 * with a file of its own.  Only the words that differ from the previous state are written to it, and
 * only a file that a checker had open for writing is compared with what it shall hold.
 */
#ifndef CHECKER_H
#define CHECKER_H

#include <sys/types.h>

#include "content.h"
#include "model.h"

/* A word of the device, and what it holds. */
struct word_content {
	uint64_t offset, value;
};

typedef LIST(struct word_content) word_list;

struct checker;

/* What became of a state.  A recovery that crashes or hangs on it is a finding like any other. */
enum verdict {
	CONSISTENT,
	INCONSISTENT,
	CRASHED,		/* the checker was killed by a signal, ended with a status above 1, took too much memory,
				 * or gave no answer
				 */
	TOO_SLOW,		/* and was killed here */
};

struct checker_options {
	char **argv;
	bool serve;		/* it stays, and is asked once for each state */
	unsigned int jobs;	/* so many at a time */
	unsigned int seconds;	/* that it may take for a state */
	unsigned int mib;	/* of memory that it may take */
	/* Unless NULL, judges by a hash of all that was printed what the verdict on a state of the cut at @moment is. */
	enum verdict (*judge)(void *arg, unsigned int moment, enum verdict verdict, uint64_t said);
	void *judge_arg;
};

/*
 * Called for each state that was checked.  @said is what became of the checker, unless it gave a verdict,
 * and what it printed.
 */
typedef void (*checker_result)(void *arg, size_t number, const struct state *state,
			       enum verdict verdict, const char *said);

/* @options has to stay as long as the checker. */
struct checker *checker_new(const struct history *history, const struct content *content,
			    const struct checker_options *options);

/* Let the checker look at @state, of the cut where @model stands; @number is for checker_result. */
void checker_check(struct checker *checker, const struct model *model, const struct state *state,
		   size_t number, checker_result result, void *arg);

/* Wait for all that run. */
void checker_wait(struct checker *checker, checker_result result, void *arg);

/* Check one state and wait for it.  @said, unless NULL, is valid until the next call. */
enum verdict checker_look(struct checker *checker, const struct model *model,
			  const struct state *state, const char **said);

/* The same with @content, and all that was answered before the cut where @model stands. */
enum verdict checker_look_at(struct checker *checker, const struct model *model,
			     const struct content *content, const char **said);

/* The same with the state, but for some words that hold something else. */
enum verdict checker_look_with(struct checker *checker, const struct model *model, const struct state *state,
			       const word_list *words, const char **said);

/* The same, as checker_check() does it. */
void checker_check_with(struct checker *checker, const struct model *model, const struct state *state,
			const word_list *words, size_t number, checker_result result, void *arg);

/* What a checker of the state would be given, until the next call; nothing runs.  The image may be changed. */
struct lent {
	const char *image;
	int fd;
	const uint8_t *map;
	uint64_t size;
	char *const *environment;
};

struct lent checker_lend(struct checker *checker, const struct model *model, const struct state *state);

/* What a checker of the state would find, in files of @folder: image, answered, told. */
void checker_keep(struct checker *checker, const struct model *model, const struct state *state,
		  const char *folder);

void checker_free(struct checker *checker);

#endif /* CHECKER_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Follows what a program stores to a file that it maps, or writes to, by ptrace: the program stays as it is.
 *
 * The pages of a shared mapping of the file are kept from being written.  The first store faults.  Then the page can be
 * written, and the program goes instruction by instruction, until all that it has stored is durable.  So its write-backs and
 * fences are seen, too.
 */
#ifndef TRACE_H
#define TRACE_H

#include "checker.h"

#define SITES	3	/* addresses that tell where a store is: its own, and those of callers */

/* An address in a program, as addr2line wants it. */
struct site {
	char *program;		/* NULL: not known */
	uint64_t offset;
};

/* A word that an instruction, or the kernel, has changed. */
struct store {
	uint64_t offset;	/* in the file, of the word */
	uint64_t value;		/* of all of the word since then */
	uint64_t address;	/* of the instruction */
	uint32_t instruction;	/* a number that all have that it changed: these have no order among each other */
	bool is_free;		/* it has no order in its cache line, as it is non-temporal or by the kernel */
	uint32_t made, durable;	/* in window so-and-so; up to the window before that, it may be lost */
	struct site sites[SITES];
};

/*
 * A window ends when something becomes durable.  A power failure in window w has left each store of a window before, or
 * this one, that is durable by w.
 */
struct trace {
	LIST(struct store) stores;
	uint32_t windows;
	uint64_t kind;		/* a hash of which instructions have stored */
	int status;		/* as of waitpid() */
	bool too_slow;		/* and killed */
	bool guessed;		/* it ran on for long, so what it had stored is taken for durable */
};

#define LASTS	UINT32_MAX	/* as a window: never durable */

/* Run @command by the shell on what was lent, for so many seconds at most.  What it prints is of no interest. */
void trace_run(struct trace *trace, const char *command, const struct lent *lent, unsigned int seconds);

void trace_free(struct trace *trace);

#endif /* TRACE_H */

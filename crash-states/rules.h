/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the platforms of --model promise.  They differ in which requests are *flushes*, in what a flush covers,
 * and in what may pass it: see "Models" in Documentation/crash-states-reference.rst.
 */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>

struct rules {
	const char *name;
	const char *flushes;	/* the requests that are flushes, for messages */
	bool in_order;		/* nothing passes a flush */
	bool strict;		/* a flush covers requests by its key that lie in its range as a whole, and no others */
	bool read;		/* a READ of persistent memory is a flush of all that its QP stored before */
	bool global;		/* so is a FLUSH for global visibility, of what it names */
};

/* The first is the default; the last has no name. */
extern const struct rules all_rules[];

/* NULL if there are none of this name. */
const struct rules *rules_find(const char *name);

#endif /* RULES_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the platforms of --model promise.  They differ in which requests are *flushes*, in what a flush covers,
 * and in what may pass it: see "Models" in Documentation/crash-states-reference.rst.
 */
#ifndef RULES_H
#define RULES_H

#include "util.h"

/* Bytes of the device that a program of the target polls. */
struct polled {
	uint64_t offset, length;
};

struct rules {
	const char *name;
	const char *flushes;	/* the requests that are flushes, for messages */
	bool in_order;		/* nothing passes a flush */
	bool strict;		/* a flush covers requests by its key that lie in its range as a whole, and no others */
	bool read;		/* a READ of persistent memory is a flush of all that its QP stored before */
	bool global;		/* so is a FLUSH for global visibility, of what it names */
	bool visible;		/* what is visible to a consumer at the target, in place of what is durable */
	LIST(struct polled) polled;	/* it polls these; none: it waits for messages */
};

/* The first is the default; the last has no name. */
extern const struct rules all_rules[];

/* NULL if there are none of this name.  "NAME/visible" are those of rules_of_consumer(). */
const struct rules *rules_find(const char *name);

/* By the same platform, what a consumer sees; memory of its own. */
struct rules *rules_of_consumer(const struct rules *rules);

#endif /* RULES_H */

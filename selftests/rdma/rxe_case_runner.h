/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Runs those of a program's cases whose names match: FIXTURE.ROW.TEST, or FIXTURE.TEST if there are
 * no rows.
 */
#ifndef RXE_CASE_RUNNER_H
#define RXE_CASE_RUNNER_H

#include "rxe_cases.h"

#define NAME_LEN	128

struct selection {
	char **patterns;	/* ends with NULL; none: all */
	const char *after;	/* not yet seen; NULL: it was, or there is none */
	bool once;		/* skip what matches only patterns of which a case has failed */
};

/* What is done with one case. */
typedef void (*case_fn)(struct __fixture_metadata *fixture,
			struct __fixture_variant_metadata *row, struct __test_metadata *test,
			const char *name);

void walk_cases(struct selection selection, case_fn fn);

/* Those that match, as KTAP.  Does not return. */
void run_cases(struct selection selection);

#endif /* RXE_CASE_RUNNER_H */

// SPDX-License-Identifier: GPL-2.0
/* Runs those of a program's cases whose names match, see rxe_case_runner.h. */
#include <err.h>
#include <fnmatch.h>

/*
 * The harness counts results in each file for itself, so this file must not run the __run_test() of
 * another one.
 */
#define __run_test	run_test_and_count
#include "rxe_case_runner.h"

/* The cases in which the kernel posts FLUSH are then replaced by one that is skipped. */
#ifdef NO_IBV_WR_FLUSH
#define CASES_LACKING	1
#else
#define CASES_LACKING	0
#endif

static unsigned int cases_selected;
static char **wanted;	/* with `once` the patterns, "" for one of which a case has failed */

/* As for bash, with @(ONE|OTHER). */
static bool matches(const char *pattern, const char *name)
{
	return !fnmatch(pattern, name, FNM_EXTMATCH);
}

static bool is_selected(struct selection *selection, const char *name)
{
	char **pattern;

	if (selection->after) {
		if (!strcmp(selection->after, name))
			selection->after = NULL;
		return false;
	}
	for (pattern = selection->patterns; *pattern; pattern++)
		if (matches(*pattern, name))
			return true;
	return !*selection->patterns;
}

void walk_cases(struct selection selection, case_fn fn)
{
	static struct __fixture_variant_metadata no_row = { .name = "" };
	struct __fixture_variant_metadata *row;
	struct __fixture_metadata *fixture;
	struct __test_metadata *test;
	char name[NAME_LEN];

	for (fixture = __fixture_list; fixture; fixture = fixture->next) {
		for (row = fixture->variant ?: &no_row; row; row = row->next) {
			for (test = fixture->tests; test; test = test->next) {
				snprintf(name, sizeof(name), "%s%s%s.%s", fixture->name,
					 row->name[0] ? "." : "", row->name, test->name);
				if (is_selected(&selection, name))
					fn(fixture, row, test, name);
			}
		}
	}
	if (selection.after)
		errx(1, "there is no case \"%s\" to start after; see --list", selection.after);
}

static void count_case(struct __fixture_metadata *fixture __attribute__((unused)),
		       struct __fixture_variant_metadata *row __attribute__((unused)),
		       struct __test_metadata *test __attribute__((unused)),
		       const char *name __attribute__((unused)))
{
	cases_selected++;
}

/* A pattern that matches nothing is a mistake. */
static void check_patterns(char **patterns)
{
	char *one[2] = { };

	for (; *patterns; patterns++) {
		one[0] = *patterns;
		cases_selected = 0;
		walk_cases((struct selection) { .patterns = one }, count_case);
		if (!cases_selected)
			errx(2, "no case matches \"%s\"; see --list", *patterns);
	}
	cases_selected = 0;
}

static void want_each_once(char **patterns)
{
	size_t n = 0;

	while (patterns[n++])
		;
	wanted = calloc(n, sizeof(*wanted));
	memcpy(wanted, patterns, n * sizeof(*wanted));
}

static bool is_wanted(const char *name)
{
	struct selection selection = { .patterns = wanted };

	return !wanted || is_selected(&selection, name);
}

static void want_no_more_like(const char *name)
{
	char **pattern;

	for (pattern = wanted; pattern && *pattern; pattern++)
		if (matches(*pattern, name))
			*pattern = "";
}

static void run_case(struct __fixture_metadata *fixture, struct __fixture_variant_metadata *row,
		     struct __test_metadata *test, const char *name)
{
	static struct __test_results *results;
	int timeout = TEST_TIMEOUT_DEFAULT * wait_scale();
	const int failed = ksft_get_fail_cnt();

	if (!is_wanted(name)) {
		ksft_print_msg(" RUN           %s ...\n", name);
		ksft_test_result_skip("one like it has failed\n");
		return;
	}
	if (!results)
		results = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	test->results = results;
	if (test->timeout < timeout)
		test->timeout = timeout;
	__run_test(fixture, row, test);
	if (ksft_get_fail_cnt() != failed)
		want_no_more_like(name);
	fflush(stdout);
}

void run_cases(struct selection selection)
{
	peer_open();
	ksft_print_header();
	if (!rxe_offers_verbs()) {
		printf("1..0 # SKIP the kernel's rxe offers neither FLUSH nor ATOMIC WRITE\n");
		exit(KSFT_SKIP);
	}
	if (rxe_on_demand && !rxe_has_odp()) {
		printf("1..0 # SKIP the kernel's rxe has no on-demand paging\n");
		exit(KSFT_SKIP);
	}
	check_patterns(selection.patterns);
	if (selection.once)
		want_each_once(selection.patterns);
	walk_cases(selection, count_case);
	ksft_set_plan(cases_selected + CASES_LACKING);
	walk_cases(selection, run_case);
	if (CASES_LACKING)
		ksft_test_result_skip("requester: built with a libibverbs without %s\n",
				      "ibv_wr_flush()");
	ksft_finished();
}

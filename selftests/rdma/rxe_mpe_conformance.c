// SPDX-License-Identifier: GPL-2.0
/*
 * FLUSH and ATOMIC WRITE of rdma_rxe on the wire: a raw RoCEv2 peer (rxe_mpe_peer.h) plays the
 * requester against the kernel's responder (rxe_mpe_responder*_cases.c) and the responder against
 * the kernel's requester (rxe_mpe_requester*_cases.c).  Needs root; makes its own network link and
 * rxe device, and takes them away.
 *
 *	rxe_mpe_conformance [--legacy-icrc] [--after CASE] [PATTERN...]	run the cases that match, as KTAP
 *	rxe_mpe_conformance --list [PATTERN...]				name, rule and purpose of each
 *
 *	--legacy-icrc	be a peer like Linux 6.2 to 7.3: send FLUSH with their ICRC, take no other. The
 *			kernel has to find that out, on each QP; no switch tells it.
 *	--after CASE	start behind this case, say because it took the kernel down
 *
 * KSFT_TIMEOUT_SCALE=N in the environment makes all deadlines N times longer. Exit status: 0 all
 * passed, 1 some failed, 4 the kernel has not got the verbs.
 */
#include <err.h>
#include <fnmatch.h>
#include <getopt.h>
#include <sched.h>

#include "rxe_mpe_cases.h"

#define NAME_LEN	128

/* The cases that have the kernel post FLUSH are then one that is skipped. */
#ifdef NO_IBV_WR_FLUSH
#define CASES_LACKING	1
#else
#define CASES_LACKING	0
#endif

extern const struct case_doc *const __start_case_docs[], *const __stop_case_docs[];

struct selection {
	char **patterns;	/* ends with NULL; none: all */
	const char *after;	/* not yet seen; NULL: it was, or there is none */
};

/* What is done with one case. */
typedef void (*case_fn)(struct __fixture_metadata *fixture,
			struct __fixture_variant_metadata *row, struct __test_metadata *test,
			const char *name);

static unsigned int cases_selected;

static bool is_selected(struct selection *selection, const char *name)
{
	char **pattern;

	if (selection->after) {
		if (!strcmp(selection->after, name))
			selection->after = NULL;
		return false;
	}
	for (pattern = selection->patterns; *pattern; pattern++)
		if (!fnmatch(*pattern, name, 0))
			return true;
	return !*selection->patterns;
}

static void for_each_case(struct selection selection, case_fn fn)
{
	static struct __fixture_variant_metadata no_row = { .name = "" };
	struct __fixture_variant_metadata *row;
	struct __fixture_metadata *fixture;
	struct __test_metadata *test;
	char name[NAME_LEN];

	for (fixture = __fixture_list; fixture; fixture = fixture->next)
		for (row = fixture->variant ?: &no_row; row; row = row->next)
			for (test = fixture->tests; test; test = test->next) {
				snprintf(name, sizeof(name), "%s%s%s.%s", fixture->name,
					 row->name[0] ? "." : "", row->name, test->name);
				if (is_selected(&selection, name))
					fn(fixture, row, test, name);
			}
	if (selection.after)
		errx(1, "there is no case \"%s\" to start behind; see --list", selection.after);
}

static const struct case_doc *find_doc(const char *fixture, const char *part)
{
	const struct case_doc *const *doc;
	char name[NAME_LEN];

	snprintf(name, sizeof(name), "%s.%s", fixture, part);
	for (doc = __start_case_docs; doc < __stop_case_docs; doc++)
		if (!strcmp((*doc)->name, name))
			return *doc;
	errx(1, "%s lacks its documentation: use CASE() and ROW()", name);
}

static void list_case(struct __fixture_metadata *fixture, struct __fixture_variant_metadata *row,
		      struct __test_metadata *test, const char *name)
{
	const struct case_doc *doc = find_doc(fixture->name, test->name), *row_doc;

	printf("%s\t[%s] %s", name, doc->rule, doc->proves);
	if (row->name[0]) {
		row_doc = find_doc(fixture->name, row->name);
		printf(": [%s] %s", row_doc->rule, row_doc->proves);
	}
	putchar('\n');
}

static void count_case(struct __fixture_metadata *fixture __attribute__((unused)),
		       struct __fixture_variant_metadata *row __attribute__((unused)),
		       struct __test_metadata *test __attribute__((unused)),
		       const char *name __attribute__((unused)))
{
	cases_selected++;
}

static void run_case(struct __fixture_metadata *fixture, struct __fixture_variant_metadata *row,
		     struct __test_metadata *test, const char *name __attribute__((unused)))
{
	static struct __test_results *results;

	if (!results)
		results = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	test->results = results;
	test->timeout = TEST_TIMEOUT_DEFAULT * wait_scale();
	__run_test(fixture, row, test);
	fflush(stdout);
}

/* Frames keep their order better, and emulation runs faster, if one CPU does it all. */
static void stay_on_one_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "staying on CPU 0");
}

static void run_cases(struct selection selection)
{
	stay_on_one_cpu();
	peer_open();
	ksft_print_header();
	if (!rxe_offers_verbs()) {
		printf("1..0 # SKIP the kernel's rxe offers neither FLUSH nor ATOMIC WRITE\n");
		exit(KSFT_SKIP);
	}
	for_each_case(selection, count_case);
	ksft_set_plan(cases_selected + CASES_LACKING);
	for_each_case(selection, run_case);
	if (CASES_LACKING)
		ksft_test_result_skip("requester: built with a libibverbs without ibv_wr_flush()\n");
	ksft_finished();
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "legacy-icrc", no_argument, NULL, 'i' },
		{ "after", required_argument, NULL, 'a' },
		{ }
	};
	struct selection selection = { 0 };
	bool list = false;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'l')
			list = true;
		else if (option == 'i')
			peer_legacy_icrc = true;
		else if (option == 'a')
			selection.after = optarg;
		else
			errx(2, "usage: rxe_mpe_conformance [--list] [--legacy-icrc] [--after CASE] "
				"[PATTERN]...");
	}
	selection.patterns = argv + optind;
	if (list)
		for_each_case(selection, list_case);
	else
		run_cases(selection);
	return 0;
}

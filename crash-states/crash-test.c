// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of crash-states: runs made by hand, and all states that their cuts allow.
 *
 *	crash-test [--short] [PATTERN...]
 *
 *	PATTERN		run only cases whose names, such as run.psns_wrap, match this pattern of the shell
 *	--short		leave out the rings of 5000 records, which take longer than all other cases
 *
 * A word holds one byte eight times.  A state is written as a string with one digit for each word,
 * from offset 0 on.  So { "00", "10", "11" } says that the second word is never new without the first.
 *
 * The cases are in cases-*.h, by subject: each may use what those that it includes have.  The compiler has to see one file,
 * because kselftest_harness.h makes a list of cases for each.
 */
#include "cases-lint.h"
#include "cases-visible.h"
#include "cases-recovery.h"

/******************************************************************************
 * Which cases run: some kernels' harness has no option for it
 */

struct selection {
	bool no_long_rings;
	char **patterns;	/* with NULL at the end; none: all */
};

static bool is_selected(const struct selection *selection, const char *fixture, const char *test)
{
	bool selected = !*selection->patterns;
	char *name = xasprintf("%s.%s", fixture, test);

	for (char **pattern = selection->patterns; *pattern; pattern++)
		selected |= !fnmatch(*pattern, name, 0);
	selected &= !selection->no_long_rings || fnmatch("*_5000_records", name, 0);
	free(name);
	return selected;
}

/* Take the others out of the harness's lists.  So many cases are left. */
static size_t select_cases(const struct selection *selection)
{
	struct __test_metadata **test;
	size_t n = 0;

	for (struct __fixture_metadata *fixture = __fixture_list; fixture; fixture = fixture->next)
		for (test = &fixture->tests; *test;)
			if (is_selected(selection, fixture->name, (*test)->name)) {
				test = &(*test)->next;
				n++;
			} else {
				*test = (*test)->next;
			}
	return n;
}

#define main run_harness	/* ours comes before it */
TEST_HARNESS_MAIN
#undef main

/* A checker that stays: it refuses an image that lacks word 0, or has a word that it has written itself. */
static int spoil_the_image(void)
{
	int fd = open(getenv("IMAGE"), O_RDWR);
	volatile uint64_t *words = mmap(NULL, DEVICE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char line[16];

	close(fd);
	while (words != MAP_FAILED && fgets(line, sizeof(line), stdin)) {
		if (words[1])
			puts("1 word 1 was not restored");
		else
			puts(words[0] ? "0" : "1 word 0 is 0");
		words[1] = 1;
		fflush(stdout);
	}
	return 3;
}

int main(int argc, char **argv)
{
	struct selection selection = { .patterns = argv + 1 };

	if (argc > 1 && !strcmp(argv[1], "--spoil-the-image"))
		return spoil_the_image();
	if (argc > 2 && !strcmp(argv[1], "--recover"))
		return ring_recover(getenv("IMAGE"), argv[2]);
	if (argc > 1 && !strcmp(argv[1], "--recovered"))
		return ring_is_recovered(getenv("IMAGE"));
	if (argc > 1 && !strcmp(argv[1], "--short")) {
		selection.no_long_rings = true;
		selection.patterns++;
	}
	if (*selection.patterns && **selection.patterns == '-')
		fail("%s: say crash-test [--short] [PATTERN...]", *selection.patterns);
	if (!select_cases(&selection))
		fail("no case of crash-test has such a name");
	return run_harness(1, argv);
}

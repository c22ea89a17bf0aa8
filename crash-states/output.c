// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"

static bool is_ktap;
static FILE *page;			/* or NULL: it is not wanted */
static LIST(struct finding) findings;
static LIST(struct section) sections;	/* `length` is the place in what was printed, until the end */
static const char *run_folder;
static char run_date[32];

/* The standard output as it was, or NULL before output_begin() and after the end. */
static FILE *screen;
static char *said_text;			/* all that was printed, up to the last fflush(stdout) */
static size_t said_size;

/* A stream of diagnoses of KTAP. */
static ssize_t diagnose(void *to, const char *text, size_t n)
{
	static bool in_line;

	for (size_t i = 0; i < n; i++) {
		if (!in_line)
			fputs("# ", to);
		in_line = text[i] != '\n';
		fputc(text[i], to);
	}
	fflush(to);
	return n;
}

/* What the exit status says, in words. */
static struct verdict {
	int status;
	const char *colour, *word, *sentence;
} verdicts[] = {
	{ 0, "32", "CONSISTENT", "nothing that was tried fails" },
	{ 1, "31", "NOT CONSISTENT", NULL },
	{ STATUS_NOT_JUDGED, "33", "NOT JUDGED", "nothing fails, and not enough was tried" },
	{ STATUS_ERROR, "31", "NO VERDICT", "this run cannot be judged" },
};

void output_begin(const char *run, bool ktap, const char *html, const char *wrong)
{
	verdicts[1].sentence = wrong;
	run_folder = run;
	is_ktap = ktap;
	page = html ? fopen(html, "w") : NULL;
	if (html && !page)
		fail_errno("--html %s", html);
	screen = stdout;
	stdout = open_memstream(&said_text, &said_size);
	if (!stdout)
		fail("no memory");
	if (!ktap)
		return;
	fputs("KTAP version 1\n", screen);
	stderr = fopencookie(screen, "w", (cookie_io_functions_t){ .write = diagnose });
	if (!stderr)
		fail("no memory");
	setvbuf(stderr, NULL, _IOLBF, 0);
}

static const struct verdict *verdict_of(int status)
{
	const struct verdict *verdict = verdicts;

	while (verdict->status != status)
		verdict++;
	return verdict;
}

/* In colour on a terminal (https://no-color.org). */
static void print_verdict(const struct verdict *verdict, FILE *file)
{
	if (file == screen && isatty(fileno(file)) && !getenv("NO_COLOR"))
		fprintf(file, "\033[1;%sm%s: %s\033[0m\n", verdict->colour, verdict->word, verdict->sentence);
	else
		fprintf(file, "%s: %s\n", verdict->word, verdict->sentence);
}

/* Print what was held, between the verdict and the verdict; an error is none.  From now on, what is printed goes out at once. */
static void release(int status)
{
	FILE *file = is_ktap ? stderr : screen;

	fflush(stdout);
	if (status != STATUS_ERROR)
		print_verdict(verdict_of(status), file);
	fwrite(said_text, 1, said_size, file);
	if (status != STATUS_ERROR) {
		fputc('\n', file);
		print_verdict(verdict_of(status), file);
	}
	fflush(file);
	stdout = screen;
	screen = NULL;
}

/* A capture that was made by hand begins at 0. */
void output_date(time_t began)
{
	if (began)
		strftime(run_date, sizeof(run_date), " of %Y-%m-%d %H:%M UTC", gmtime(&began));
}

void output_section(const char *heading)
{
	fflush(stdout);
	if (page)
		*list_add(&sections) = (struct section){ heading, NULL, said_size };
}

void output_finding(const struct finding *finding)
{
	*list_add(&findings) = *finding;
}

/* The first line of @text as a description of KTAP, where a "#" has a meaning. */
static void describe(const char *text)
{
	for (; *text && *text != '\n'; text++)
		fputc(*text == '#' ? ' ' : *text, stdout);
	fputc('\n', stdout);
}

static void print_results(int status, const struct coverage *coverage)
{
	unsigned int n = 0;

	for (size_t i = 0; i < findings.n; i++) {
		const struct finding *finding = &findings.v[i];

		printf("not ok %u %s: ", ++n, finding->id);
		describe(finding->why);
	}
	if (!n)
		printf("%sok %u %s\n", status == 1 ? "not " : "", ++n,
			coverage ? "all states are consistent" : "all promises are kept");
	if (!coverage) {
		printf("1..%u\n", n);
		return;
	}
	n++;
	printf("%sok %u coverage is complete%s\n", coverage->complete && !coverage->weak ? "" : "not ", n,
		coverage->weak ? ", at a few cuts only" : "");
	printf("1..%u\n", n);
}

/******************************************************************************
 * The page
 */

/* What the lab has run in @guest, or NULL: "RXE_COMMAND='...'" of RUN/GUEST.env, the first line of it, where '\'' is a quote. */
static char *command_of(const char *guest)
{
	static const char name[] = "RXE_COMMAND='";
	FILE *file = fopen(xasprintf("%s/%s.env", run_folder, guest), "r");
	char *line = NULL, *command = NULL, *to;
	size_t size;

	while (file && !command && getline(&line, &size, file) > 0)
		if (strncmp(line, name, strlen(name)) == 0)
			command = to = line + strlen(name);
	for (const char *from = command; from && *from && *from != '\n'; from++) {
		bool quote = strncmp(from, "'\\''", 4) == 0;

		if (quote || *from != '\'')
			*to++ = *from;
		from += quote ? 3 : 0;
	}
	if (command)
		*to = '\0';
	if (file)
		fclose(file);
	return command;
}

/* A line that came too early and a state that fails for the same cause are one finding of the page: that of the state. */
static size_t merge_findings(void)
{
	size_t n = 0;

	for (size_t i = 0; i < findings.n; i++) {
		struct finding f = findings.v[i];
		size_t other = i + 1;

		while (other < findings.n && (!f.cause || findings.v[other].cause != f.cause))
			other++;
		if (other < findings.n)
			findings.v[other].promised = f.said;
		else
			findings.v[n++] = f;
	}
	return n;
}

/* The first line of the section after that of the run sums it up; sections without a heading are findings. */
static void write_page(int status, const char *error)
{
	const struct verdict *verdict = verdict_of(status);
	struct page p = {
		status, verdict->word, xasprintf("%c%s", toupper(verdict->sentence[0]), verdict->sentence + 1), error, run_folder,
		command_of("client") ?: command_of("client1"), command_of("server") ?: command_of("server1"),
		run_date, merge_findings(), 0, findings.v, sections.v,
	};
	FILE *file = page;

	page = NULL;
	for (size_t i = 0; i < sections.n; i++) {
		struct section section = { sections.v[i].heading, said_text + sections.v[i].length, 0 };
		const char *end = said_text + (i + 1 < sections.n ? sections.v[i + 1].length : said_size);

		section.text += strspn(section.text, "\n");
		if (i && !*p.summary && section.heading) {
			size_t line = strcspn(section.text, "\n");

			p.summary = xasprintf("%.*s", (int)line, section.text);
			section.text += line + strspn(section.text + line, "\n");
		}
		section.length = section.text < end ? end - section.text : 0;
		if (section.heading && section.length)
			sections.v[p.sections++] = section;
	}
	page_write(file, &p);
	if (fclose(file))
		fail_errno("--html");
}

/******************************************************************************
 * The end
 */

void output_held(void)
{
	if (screen)
		release(STATUS_ERROR);
}

void output_error(const char *error)
{
	if (is_ktap) {
		fputs("Bail out! ", stdout);
		describe(error);
	}
	if (page)
		write_page(STATUS_ERROR, error);
}

void output_end(int status, const struct coverage *coverage)
{
	release(status);
	if (is_ktap)
		print_results(status, coverage);
	if (page)
		write_page(status, "");
}

// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"

struct finding {
	char *why, *folder;
};

static bool is_ktap;
static FILE *page;			/* or NULL: it is not wanted */
static LIST(struct finding) findings;

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

void output_begin(bool ktap, const char *html)
{
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

/* What the exit status says, in words; in colour on a terminal (https://no-color.org). */
static void print_verdict(int status, FILE *file)
{
	static const struct {
		int status;
		const char *colour, *words;
	} verdicts[] = {
		{ 0, "32", "CONSISTENT: nothing that was tried fails" },
		{ 1, "31", "NOT CONSISTENT: a power failure may take what the program counts on" },
		{ STATUS_NOT_JUDGED, "33", "NOT JUDGED: nothing fails, and not enough was tried" },
	};
	bool coloured = file == screen && isatty(fileno(file)) && !getenv("NO_COLOR");
	unsigned int i = 0;

	while (verdicts[i].status != status)
		i++;
	fprintf(file, coloured ? "\033[1;%sm%s\033[0m\n" : "%.0s%s\n", verdicts[i].colour, verdicts[i].words);
}

/* Print what was held, between the verdict and the verdict; an error is none.  From now on, what is printed goes out at once. */
static void release(int status)
{
	FILE *file = is_ktap ? stderr : screen;

	fflush(stdout);
	if (status != STATUS_ERROR)
		print_verdict(status, file);
	fwrite(said_text, 1, said_size, file);
	if (status != STATUS_ERROR) {
		fputc('\n', file);
		print_verdict(status, file);
	}
	fflush(file);
	stdout = screen;
	screen = NULL;
}

void output_finding(const char *why, const char *folder)
{
	*list_add(&findings) = (struct finding){ xasprintf("%s", why), xasprintf("%s", folder) };
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

		printf("not ok %u state %s: ", ++n, strrchr(finding->folder, '/') + 1);
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

static void escape(const char *text, FILE *file)
{
	for (; *text; text++)
		switch (*text) {
		case '&': fputs("&amp;", file); break;
		case '<': fputs("&lt;", file); break;
		case '>': fputs("&gt;", file); break;
		default: fputc(*text, file);
		}
}

/* Without the head that a picture has if it is a file of its own. */
static void put_picture_of(const char *line, FILE *file)
{
	if (strncmp(line, "<?xml", 5) && strncmp(line, "<!DOCTYPE", 9))
		fputs(line, file);
}

/* A file that was not made is left out. */
static void put_file(const char *folder, const char *name, void (*put)(const char *line, FILE *file), FILE *file)
{
	char *path = xasprintf("%s/%s", folder, name), *line = NULL;
	FILE *from = fopen(path, "r");
	size_t room = 0;

	while (from && getline(&line, &room, from) >= 0)
		put(line, file);
	if (from)
		fclose(from);
	free(line);
	free(path);
}

static const char *verdict(int status, const struct coverage *coverage)
{
	switch (status) {
	case 0: return coverage ? "All states are consistent" : "All promises are kept";
	case 1: return coverage ? "Some states are not consistent" : "Not durable";
	case STATUS_NOT_JUDGED: return "Not judged";
	default: return "An error";
	}
}

static void write_page(const char *title, const char *error)
{
	FILE *file = page;

	page = NULL;
	fprintf(file, "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>crash-states: %s</title><h1>%s</h1><pre>\n",
		title, title);
	escape(said_text, file);
	escape(error, file);
	fputs("</pre>\n", file);
	for (size_t i = 0; i < findings.n; i++) {
		const char *folder = findings.v[i].folder;

		fprintf(file, "<h2>State %s</h2><pre>\n", strrchr(folder, '/') + 1);
		put_file(folder, "why", escape, file);
		fputs("</pre>\n", file);
		put_file(folder, "ladder.svg", put_picture_of, file);
	}
	fputs("</html>\n", file);
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
		write_page(verdict(STATUS_ERROR, NULL), error);
}

void output_end(int status, const struct coverage *coverage)
{
	release(status);
	if (is_ktap)
		print_results(status, coverage);
	if (page)
		write_page(verdict(status, coverage), "");
}

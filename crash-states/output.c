// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

struct finding {
	char *why, *folder;
};

static bool is_ktap;
static FILE *page;			/* or NULL: it is not wanted */
static LIST(struct finding) findings;

/* The standard output as it was, or NULL before output_begin(). */
static FILE *screen;
static FILE *said;			/* all that was printed: `said_text`, up to the last fflush() */
static char *said_text;
static size_t said_size;

static ssize_t take(void *to, const char *text, size_t n)
{
	static bool in_line;

	for (size_t i = 0; i < n; i++) {
		if (is_ktap && !in_line)
			fputs("# ", to);
		in_line = text[i] != '\n';
		fputc(text[i], to);
	}
	fwrite(text, 1, n, said);
	fflush(to);
	return n;
}

static FILE *taken(FILE *to)
{
	FILE *file = fopencookie(to, "w", (cookie_io_functions_t){ .write = take });

	if (!file)
		fail("no memory");
	setvbuf(file, NULL, _IOLBF, 0);		/* so that errors stand where they belong */
	return file;
}

void output_begin(bool ktap, const char *html)
{
	FILE *errors = stderr;

	if (!ktap && !html)
		return;
	is_ktap = ktap;
	page = html ? fopen(html, "w") : NULL;
	if (html && !page)
		fail_errno("--html %s", html);
	said = open_memstream(&said_text, &said_size);
	if (!said)
		fail("no memory");
	if (ktap)
		puts("KTAP version 1");
	screen = stdout;
	stdout = taken(screen);
	stderr = taken(ktap ? screen : errors);
}

void output_finding(const char *why, const char *folder)
{
	*list_add(&findings) = (struct finding){ xasprintf("%s", why), xasprintf("%s", folder) };
}

/* The first line of @text as a description of KTAP, where a "#" has a meaning. */
static void describe(const char *text)
{
	for (; *text && *text != '\n'; text++)
		fputc(*text == '#' ? ' ' : *text, screen);
	fputc('\n', screen);
}

static void print_results(int status, const struct coverage *coverage)
{
	unsigned int n = 0;

	for (size_t i = 0; i < findings.n; i++) {
		const struct finding *finding = &findings.v[i];

		fprintf(screen, "not ok %u state %s: ", ++n, strrchr(finding->folder, '/') + 1);
		describe(finding->why);
	}
	if (!n)
		fprintf(screen, "%sok %u %s\n", status == 1 ? "not " : "", ++n,
			coverage ? "all states are consistent" : "all promises are kept");
	if (!coverage) {
		fprintf(screen, "1..%u\n", n);
		return;
	}
	n++;
	fprintf(screen, "%sok %u coverage is complete%s\n", coverage->complete && !coverage->weak ? "" : "not ", n,
		coverage->weak ? ", at a few cuts only" : "");
	fprintf(screen, "1..%u\n", n);
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

static void write_page(const char *title)
{
	FILE *file = page;

	page = NULL;
	fprintf(file, "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>crash-states: %s</title><h1>%s</h1><pre>\n",
		title, title);
	escape(said_text, file);
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

/* Nothing more is printed. */
static void end(const char *title)
{
	fflush(stdout);
	fflush(said);
	if (page)
		write_page(title);
	fflush(screen);
}

void output_error(const char *error)
{
	if (!screen)
		return;
	if (is_ktap) {
		fputs("Bail out! ", screen);
		describe(error);
	}
	end(verdict(STATUS_ERROR, NULL));
}

void output_end(int status, const struct coverage *coverage)
{
	if (!screen)
		return;
	fflush(stdout);
	if (is_ktap)
		print_results(status, coverage);
	end(verdict(status, coverage));
}

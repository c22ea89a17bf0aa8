// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "draw.h"
#include "page.h"

#define HEADING	100	/* the longest heading in bytes */

/* Begins each page of the project.  It asks for nothing from elsewhere, and no script of it would run. */
static const char head[] =
#include "page-head.h"
;

/* What a reader who does not know the tool has to know; it ends the header. */
static const char words[] =
	"</dl>\n</header>\n<p class=\"weak\">A <i>state</i> is what the target's persistent memory may hold after a power failure "
	"at one moment of the run, a <i>cut</i> (with --visible: what a program may see then).  What was not made durable by then, as a FLUSH does, may "
	"be lost, in pieces of 8 bytes, <i>words</i>.  A QP is a connection, a psn the number of one of its packets.  Cuts are of one "
	"<i>shape</i> if the same kinds of requests are in flight, that is, may still be lost.</p>\n";

/* What the program, its checker, and its name say is nothing but text. */
static void put_text(const char *text, size_t n, FILE *file)
{
	for (size_t i = 0; i < n; i++)
		switch (text[i]) {
		case '&': fputs("&amp;", file); break;
		case '<': fputs("&lt;", file); break;
		case '>': fputs("&gt;", file); break;
		default: fputc((unsigned char)text[i] < ' ' && text[i] != '\n' ? '?' : text[i], file);
		}
}

static void put(const char *text, FILE *file)
{
	put_text(text, strlen(text), file);
}

/* @text is there, or NULL. */
static void put_item(const char *name, const char *class, const char *text, FILE *file)
{
	if (!text)
		return;
	fprintf(file, "<dt>%s<dd%s>", name, class);
	put(text, file);
	fputc('\n', file);
}

/* A line of words: "old", "lost" or "there", and the word. */
static void put_word(const char *line, size_t n, FILE *file)
{
	size_t start = strspn(line, " "), end = start + strcspn(line + start, " \n"), rest;
	bool lost = strncmp(line + start, "there ", 6) != 0;
	const char *class = lost ? " class=\"lost\"" : "";

	if (end >= n)
		return;
	rest = end + strspn(line + end, " ");
	fprintf(file, "<dt%s>%s<dd%s>", class, lost ? "Lost" : "There", class);
	put_text(line + rest, n - rest, file);
	fputc('\n', file);
}

static void each_line(const char *text, size_t n, void (*put_line)(const char *line, size_t n, FILE *file), FILE *file)
{
	const char *end = text + n;

	while (text < end) {
		size_t length = strcspn(text, "\n");

		if (length > (size_t)(end - text))
			length = end - text;
		if (length)
			put_line(text, length, file);
		text += length + 1;
	}
}

/* "note: ...", or "  ..." that goes on with the line before it */
static void put_line(const char *line, size_t n, FILE *file)
{
	static const char *const names[] = { "note", "hint", "coverage", "recovery", "not tried" };
	size_t start = strspn(line, " ");

	fprintf(file, "<li%s>", start ? " class=\"more\"" : "");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(line, names[i], length) || line[length] != ':')
			continue;
		fprintf(file, "<b>%s:</b>", names[i]);
		start = length + 1;
	}
	put_text(line + start, n - start, file);
	fputc('\n', file);
}

static void put_section(const struct section *section, FILE *file)
{
	fprintf(file, "<h2>%s</h2>\n<ul>\n", section->heading);
	each_line(section->text, section->length, put_line, file);
	fputs("</ul>\n", file);
}

static void put_finding(const struct finding *finding, size_t number, FILE *file)
{
	/* What a checker says in a line tells more than when it says so. */
	bool says = finding->folder && !finding->expected && *finding->said && strlen(finding->said) <= HEADING && !strchr(finding->said, '\n');
	const char *heading = says ? finding->said : finding->title;
	char first = toupper((unsigned char)*heading);

	fprintf(file, "<section class=\"finding\">\n<h2>%zu. ", number);
	put_text(&first, 1, file);
	put(heading + 1, file);
	fputs("</h2>\n<p>", file);
	put(finding->why, file);
	fputs("</p>\n<dl>\n", file);
	put_item("Posted by", " class=\"code\"", finding->posted, file);
	if (says)
		put_item("When", "", finding->title, file);
	else
		put_item(finding->judge, "", finding->said, file);
	put_item("Expected", "", finding->expected, file);
	put_item("Promised", "", finding->promised, file);
	each_line(finding->words, strlen(finding->words), put_word, file);
	put_item("Alike", "", finding->alike, file);
	put_item("Kept", " class=\"code\"", finding->folder, file);
	fputs("</dl>\n", file);
	if (finding->recorded) {
		fputs("<p>The ladder of packets; what is lost is red.</p>\n<div class=\"ladder\" tabindex=\"0\" role=\"img\" aria-label=\"The packets until the power fails\">\n", file);
		if (!draw_picture(finding->frame, finding->lost, finding->recorded, file))
			fputs("<p>ladder cannot draw the packets.</p>\n", file);
		fputs("</div>\n", file);
	}
	fputs("</section>\n", file);
}

void page_write(FILE *file, const struct page *page)
{
	static const char *const colours[] = { "good", "bad", "bad", "open", "open" };

	fputs(head, file);
	fprintf(file, "<title>crash-states: %s</title>\n", page->verdict);
	fprintf(file, "<header style=\"--colour: var(--%s)\">\n<b>%s</b>\n<h1>%s</h1>\n<p>", colours[page->status], page->verdict,
		page->sentence);
	put(page->summary, file);
	fputs("</p>\n<dl>\n", file);
	put_item("Initiator", " class=\"code\"", page->initiator, file);
	put_item("Target", " class=\"code\"", page->target, file);
	fputs(words, file);
	for (size_t i = 0; i < page->findings; i++)
		put_finding(&page->finding[i], i + 1, file);
	/* The first is the run, which is the last that one wants to read of. */
	for (size_t i = 1; i <= page->sections; i++)
		put_section(&page->section[i % page->sections], file);
	fputs("<footer>Made by crash-states from the run", file);
	put(page->date, file);
	fputs(", ", file);
	put(page->run, file);
	fputs(".</footer>\n</html>\n", file);
}

// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "draw.h"
#include "page.h"

/* The page asks for nothing from elsewhere, and no script of it would run. */
static const char head[] =
"<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
"<meta name=\"color-scheme\" content=\"light dark\">\n"
"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";

static const char style[] =
"<style>\n"
":root { --ground: #fff; --text: #1f2328; --weak: #59636e; --edge: #d1d9e0; --box: #f6f8fa; --good: #1a7f37; --bad: #c01c28; --open: #8a5a00; }\n"
"@media (prefers-color-scheme: dark) {\n"
"  :root { --ground: #16191d; --text: #e6e9ec; --weak: #9ba4ad; --edge: #3a4149; --box: #1f2429; --good: #4cc26a; --bad: #ff7b72; --open: #e0a93a; }\n"
"  .ladder svg { filter: invert(0.9) hue-rotate(180deg); }\n"
"}\n"
"* { box-sizing: border-box; }\n"
"body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 76rem; background: var(--ground); color: var(--text);\n"
"  font: 1rem/1.5 system-ui, \"DejaVu Sans\", Verdana, sans-serif; overflow-wrap: anywhere; }\n"
"header { border-left: 0.4rem solid var(--colour); padding: 0.1rem 0 0.1rem 1rem; }\n"
"header b { color: var(--colour); letter-spacing: 0.04em; }\n"
"h1 { font-size: 1.75rem; line-height: 1.2; margin: 0.2rem 0 0.5rem; }\n"
"h2 { font-size: 1.2rem; line-height: 1.3; margin: 2rem 0 0.5rem; }\n"
"p { margin: 0.5rem 0; max-width: 48rem; }\n"
"dt, footer { color: var(--weak); }\n"
".finding { border: 1px solid var(--edge); border-radius: 0.5rem; padding: 0 1rem 1rem; margin-top: 2rem; }\n"
".finding h2 { margin-top: 1rem; }\n"
".finding p { font-size: 1.1rem; max-width: 60rem; }\n"
"dl { margin: 0.75rem 0; display: grid; grid-template-columns: max-content 1fr; gap: 0.35rem 1rem; }\n"
"dd { margin: 0; max-width: 60rem; }\n"
"dd.code { font-family: ui-monospace, \"DejaVu Sans Mono\", monospace; font-size: 0.9em; }\n"
"dt.lost, dd.lost { color: var(--bad); }\n"
".ladder { overflow-x: auto; border: 1px solid var(--edge); border-radius: 0.35rem; margin: 1rem 0 0; background: #fff; }\n"
"@media (prefers-color-scheme: dark) { .ladder { background: #1a1a1a; } }\n"
".ladder svg { display: block; }\n"
"ul { padding: 0; margin: 0.5rem 0; list-style: none; }\n"
"li { margin: 0.3rem 0; max-width: 70rem; }\n"
"li.more { margin-left: 1rem; white-space: pre-wrap; }\n"
"footer { margin-top: 3rem; border-top: 1px solid var(--edge); padding-top: 0.75rem; font-size: 0.9rem; }\n"
"@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0.1rem; } dd { margin-bottom: 0.5rem; } h1 { font-size: 1.4rem; } }\n"
"</style>\n";

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

/* A line of explanation_words(): "old" or "there", and the word. */
static void put_word(const char *line, size_t n, FILE *file)
{
	size_t start = strspn(line, " "), end = start + strcspn(line + start, " \n"), rest;
	bool lost = !strncmp(line + start, "old ", 4);
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
	static const char *const names[] = { "note", "hint", "coverage", "not tried" };
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
	fprintf(file, "<section class=\"finding\">\n<h2>%zu. %c", number, toupper((unsigned char)*finding->title));
	put(finding->title + 1, file);
	fputs("</h2>\n<p>", file);
	put(finding->why, file);
	fputs("</p>\n<dl>\n", file);
	put_item("Posted by", " class=\"code\"", finding->posted, file);
	put_item(finding->judge, "", finding->said, file);
	each_line(finding->words, strlen(finding->words), put_word, file);
	put_item("Alike", "", finding->alike, file);
	put_item("Kept", " class=\"code\"", finding->folder, file);
	fputs("</dl>\n", file);
	if (finding->recorded) {
		fputs("<div class=\"ladder\" tabindex=\"0\" role=\"img\" aria-label=\"The packets until the power fails\">\n", file);
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
	fprintf(file, "<title>crash-states: %s</title>\n%s", page->verdict, style);
	fprintf(file, "<header style=\"--colour: var(--%s)\">\n<b>%s</b>\n<h1>%s</h1>\n<p>", colours[page->status], page->verdict,
		page->sentence);
	put(page->summary, file);
	fputs("</p>\n</header>\n", file);
	for (size_t i = 0; i < page->findings; i++)
		put_finding(&page->finding[i], i + 1, file);
	/* The first is the run, which is the last that one wants to read of. */
	for (size_t i = 1; i <= page->sections; i++)
		put_section(&page->section[i % page->sections], file);
	fputs("<footer>A state is what a power failure at one moment of the run may leave in the target's persistent memory.  Made by crash-states from ", file);
	put(page->run, file);
	fputs(".</footer>\n</html>\n", file);
}

/* SPDX-License-Identifier: GPL-2.0 */
/* The result as a page that stands for itself: one file, which loads nothing. */
#ifndef PAGE_H
#define PAGE_H

#include <stdint.h>
#include <stdio.h>

/* A state that fails, or a line that came too early.  What is not known is NULL, but for the title, the reason and the words. */
struct finding {
	const char *id;			/* one word, or some */
	const char *title, *why;
	const char *posted;		/* the line of the program that has posted what is lost */
	const char *judge, *said;	/* who refuses it, and with what words */
	const char *expected;		/* what an oracle should have said */
	const char *promised;		/* the line that came too early for the same cause */
	const char *words;		/* lines: what is lost, and what is there */
	const char *alike, *folder;
	unsigned int frame;		/* the power fails after it */
	uint64_t cause;			/* equal for findings of one cause; 0: not known */
	const char *lost, *recorded;	/* for draw_picture() */
};

/* Lines of the report. */
struct section {
	const char *heading, *text;
	size_t length;
};

struct page {
	int status;
	const char *verdict, *sentence, *summary, *run;
	const char *initiator, *target;	/* their commands, or NULL */
	const char *date;		/* " of ..."; empty if nothing is known */
	size_t findings, sections;
	const struct finding *finding;
	const struct section *section;
};

void page_write(FILE *file, const struct page *page);

#endif /* PAGE_H */

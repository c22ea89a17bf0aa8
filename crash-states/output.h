/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The result for people and for CI: as text, as KTAP, and as a page.  The verdict stands before all that is printed and after it,
 * so that nothing goes out until the end.  Without output_begin(), what is printed goes out as it is.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "page.h"
#include "sample.h"

/*
 * From now on all that is printed is held.  With @ktap it is a diagnosis, and so are errors; @html is a page to write it to, too, or
 * NULL; @wrong is what a status of 1 says.
 */
void output_begin(const char *run, bool ktap, const char *html, const char *wrong);

/* When the run began, for the page. */
void output_date(time_t began);

/* The page has what is printed from now on under this heading; NULL: it does not, as output_finding() tells it. */
void output_section(const char *heading);

/* What it points to has to stay. */
void output_finding(const struct finding *finding);

/* What was printed so far goes out before an error does. */
void output_held(void);

/* The program ends by an error. */
void output_error(const char *error);

/* @status is that of the program; @coverage is NULL if there is no checker. */
void output_end(int status, const struct coverage *coverage);

#endif /* OUTPUT_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The result for people and for CI: as KTAP, and as a page.  Without output_begin(), the other functions do nothing, and
 * what is printed goes out as it is.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "sample.h"

/*
 * From now on all that is printed, errors included, is a diagnosis of @ktap, and is kept for the page @html; either may be
 * unwanted: false, NULL.
 */
void output_begin(bool ktap, const char *html);

/* A state that is reported; @folder has what is kept of it. */
void output_finding(const char *why, const char *folder);

/* The program ends by an error. */
void output_error(const char *error);

/* @status is that of the program; @coverage is NULL if there is no checker. */
void output_end(int status, const struct coverage *coverage);

#endif /* OUTPUT_H */

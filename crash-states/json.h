/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The result for other programs: an object, which is complete only if it has "status".  Without json_begin(), the other
 * functions do nothing.
 */
#ifndef JSON_H
#define JSON_H

#include "explain.h"
#include "sample.h"

/* Begins the file. */
void json_begin(const char *path);

/* What was recorded. */
void json_run(const struct history *history, const char *run);

/* What was checked, as it is printed.  json_finding() may follow. */
void json_states(size_t checked, size_t failed, size_t crashed, size_t slow, uint64_t seed, const struct coverage *coverage);

void json_finding(const struct model *model, const struct explanation *e, size_t alike, const char *said,
		  const char *folder);

/* The program ends by an error. */
void json_error(const char *error);

/* The exit status. */
void json_end(int status);

#endif /* JSON_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The result for other programs: an object, which is complete only if it has "status".  Without json_begin(), the other
 * functions do nothing, but note().
 */
#ifndef JSON_H
#define JSON_H

#include "explain.h"
#include "recovery.h"
#include "sample.h"

/* Begins the file. */
void json_begin(const char *path);

/* What was recorded. */
void json_run(const struct history *history, const char *run);

/* How many flushes, and how many of the stores none of them covers. */
void json_counts(unsigned int flushes, unsigned int answered, uint64_t not_covered);

/* At most so many hints are kept, and none without a file: is there room for one more?  json_hint() takes @text then. */
#define JSON_HINTS	1000
bool json_takes_hints(void);
void json_hint(char *text);

/* Prints the line "note: ...", and keeps the text. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What was checked, as it is printed.  json_finding() may follow. */
void json_states(size_t checked, size_t failed, size_t crashed, size_t slow, uint64_t seed, const struct coverage *coverage);

void json_finding(const struct model *model, const struct explanation *e, size_t alike, const char *said,
		  const char *folder, const char *posted);

/* Power failures in recovery.  json_recovery_finding() may follow, and then the end. */
void json_recovery(void);
void json_recovery_finding(const char *kind, const char *why, const char *said, const char *folder, const char *posted);
void json_recovery_end(const struct recovery_count *count);

/* How many lines promise something, and are broken.  json_promise() may follow. */
void json_promises(size_t lines, size_t broken);

void json_promise(const struct told *line, const char *kind, const char *why, const char *posted);

/* The program ends by an error. */
void json_error(const char *error);

/* The exit status. */
void json_end(int status);

#endif /* JSON_H */

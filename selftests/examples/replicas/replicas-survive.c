// SPDX-License-Identifier: GPL-2.0
/*
 * The checker of the replicated log for crash-states:
 *
 *	qemu-scripts/crash-states --serve RUN -- replicas-survive TEXT --serve
 *
 * RUN is the folder of a group in which remote-log-replicate has appended the lines of TEXT.  $IMAGE1, $IMAGE2, ...
 * hold what a power failure left at each target, $TOLD what the initiators had printed: how many records are
 * acknowledged.  A copy that counted has to be whole.  Whichever majority of the copies that count a new initiator
 * reads, it has to go on with a log of lines of TEXT that has all records that are acknowledged.
 *
 * With --serve it stays, and answers each line of its stdin.  Without it, the exit status is 0 if the state is
 * consistent, 1 if not.
 */
#include <err.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "remote-log-replicas.h"

static struct line {
	const char *bytes;
	size_t length;
} *lines;
static __u32 n_lines;

/* What a power failure left. */
static struct {
	const struct log_header *header;
	size_t size;
} copies[REPLICAS_MAX];
static unsigned int targets;
static unsigned int counting;	/* the set of those that count */

/* What this says of the state: its last line is what is wrong, if anything is. */
static char said[1024];

__attribute__((format(printf, 1, 2)))
static bool wrong(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said, sizeof(said), format, arguments);
	va_end(arguments);
	return false;
}

static void read_text(const char *path)
{
	FILE *file = fopen(path, "r");
	ssize_t length;
	size_t size = 0;
	char *line = NULL;

	if (!file)
		err(2, "%s", path);
	while ((length = getline(&line, &size, file)) >= 0) {
		lines = realloc(lines, (n_lines + 1) * sizeof(*lines));
		lines[n_lines++] = (struct line){ line, length };
		line = NULL;
		size = 0;
	}
	fclose(file);
}

/* What the initiators have said to be acknowledged.  A new one says so of what it has recovered. */
static __u32 read_told(void)
{
	const char *path = getenv("TOLD");
	FILE *file = fopen(path, "r");
	__u32 told = 0, records;
	char line[256];
	int end;

	if (!file)
		err(2, "%s", path);
	while (fgets(line, sizeof(line), file)) {
		end = 0;
		sscanf(line, "%u of %*u records acknowledged%n", &records, &end);
		if (!end)
			sscanf(line, "recovered %u records,%n", &records, &end);
		if (end && records > told)
			told = records;
	}
	fclose(file);
	return told;
}

/* "1 and 3" */
static const char *text_of(unsigned int set)
{
	static char text[4 * REPLICAS_MAX];
	size_t at = 0;

	for (unsigned int i = 0; i < targets; i++)
		if (set & (1u << i))
			at += snprintf(text + at, sizeof(text) - at, "%s%u", at ? " and " : "", i + 1);
	return text;
}

/* A log is made, and brought into line, before it counts; what is repaired later is cut first. */
static bool are_whole(void)
{
	counting = 0;
	for (unsigned int i = 0; i < targets; i++) {
		const struct log_header *header = copies[i].header;
		const char *unfit = replicas_unfit(header, copies[i].size);

		if (!unfit)
			counting |= 1u << i;
		else if (header->magic == LOG_MAGIC && header->epoch)
			return wrong("target %u: %s, but its copy has counted since epoch %llu", i + 1, unfit,
				     (unsigned long long)header->epoch);
	}
	return true;
}

static bool majority_has(unsigned int set, __u32 acknowledged)
{
	const struct log_header *some[REPLICAS_MAX] = { }, *log;
	__u32 offset = 0;

	for (unsigned int i = 0; i < targets; i++)
		if (set & (1u << i))
			some[i] = copies[i].header;
	log = replicas_choose(some, targets);
	if (log->tail.records < acknowledged)
		return wrong("targets %s: %u records are acknowledged, and they have only %u", text_of(set), acknowledged,
			     log->tail.records);
	for (__u32 seq = 0; seq < log->tail.records; seq++) {
		const struct log_record *record = replicas_record(log, offset);

		if (seq >= n_lines || record->length != lines[seq].length ||
		    memcmp(record->data, lines[seq].bytes, record->length))
			return wrong("targets %s: record %u is not line %u of the text", text_of(set), seq, seq + 1);
		offset += log_record_size(record->length);
	}
	return true;
}

static bool each_majority_has(__u32 acknowledged)
{
	unsigned int first = replicas_next_majority(0, counting, targets);

	for (unsigned int set = first; set; set = replicas_next_majority(set, counting, targets))
		if (!majority_has(set, acknowledged))
			return false;
	if (!first && acknowledged)
		return wrong("%u records are acknowledged, and the copies that count are no majority", acknowledged);
	return true;
}

/* If nothing is wrong. */
static void say_what_they_hold(__u32 acknowledged)
{
	size_t at = snprintf(said, sizeof(said), "%u acknowledged;", acknowledged);

	for (unsigned int i = 0; i < targets; i++) {
		bool counts = counting & (1u << i);

		at += snprintf(said + at, sizeof(said) - at, " %s%u", counts ? "" : "no ",
			       counts ? copies[i].header->tail.records : 0);
	}
}

static bool check(void)
{
	__u32 acknowledged = read_told();
	char name[16];
	bool good;

	for (unsigned int i = 0; i < targets; i++) {
		snprintf(name, sizeof(name), "IMAGE%u", i + 1);
		copies[i].header = log_map(getenv(name), O_RDONLY, &copies[i].size);
	}
	good = are_whole() && each_majority_has(acknowledged);
	if (good)
		say_what_they_hold(acknowledged);
	for (unsigned int i = 0; i < targets; i++)
		munmap((void *)copies[i].header, copies[i].size);
	return good;
}

static void serve(void)
{
	char line[32];

	while (fgets(line, sizeof(line), stdin)) {
		printf("%d %s\n", !check(), said);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	bool good, stays = argc == 3 && !strcmp(argv[2], "--serve");
	char name[16];

	for (; targets < REPLICAS_MAX; targets++) {
		snprintf(name, sizeof(name), "IMAGE%u", targets + 1);
		if (!getenv(name))
			break;
	}
	if (argc < 2 || argc != 2 + stays || !targets || !getenv("TOLD"))
		errx(2, "usage: crash-states --serve RUN -- replicas-survive TEXT --serve (RUN: of a group)");
	read_text(argv[1]);
	if (stays) {
		serve();
		return 0;
	}
	good = check();
	puts(said);
	return !good;
}

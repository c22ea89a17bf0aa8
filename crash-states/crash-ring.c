// SPDX-License-Identifier: GPL-2.0
/*
 * The ring of ring.h for the suite of crash-states.  It makes synthetic captures; no guest runs.
 *
 *	crash-ring FOLDER MODE RECORDS	makes a run
 *	crash-ring FOLDER buffered RECORDS	the same, right, but all lines are printed at the end
 *	crash-ring FOLDER pulled RECORDS	the same, right, and the target has pulled some bytes by a READ of its own
 *	crash-ring FOLDER slow RECORDS	a program that prints each line 300 ms after the answer
 *	crash-ring FOLDER slow-tail RECORDS	the same, but it stores a tail by WRITE then
 *	crash-ring			checks one state, as the checker of crash-states
 *	crash-ring --serve		stays, and checks each
 *	crash-ring recover MODE		recovers $IMAGE, see ring-recovery.c
 *	crash-ring recovered		has that ended right?
 *
 *	crash-ring FOLDER copies RECORDS		the same of a group of three targets, each with a copy
 *	crash-ring FOLDER flawed-copies RECORDS
 *	crash-ring [ANSWERS]		a record counts as acknowledged after so many answers (2)
 */
#include <endian.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made.h"
#include "ring.h"

#define COPIES	3

/* Each line is a promise: of a daemon, which has no FLUSHes. */
static uint64_t count_told(const char *path)
{
	FILE *file = path ? fopen(path, "r") : NULL;
	uint64_t n = 0;
	int c;

	while (file && (c = fgetc(file)) != EOF)
		n += c == '\n';
	if (file)
		fclose(file);
	return n;
}

static uint64_t count_acknowledged(const char *path)
{
	unsigned long long offset, length;
	FILE *file = fopen(path, "r");
	uint64_t n = 0;

	if (!file)
		err(3, "%s", path);
	while (fscanf(file, "%*u %*u %llu %llu", &offset, &length) == 2)
		n += offset == 0 && length == 8;
	fclose(file);
	return n;
}

static void read_image(const char *image, uint64_t words[DEVICE / 8])
{
	FILE *file = fopen(image, "r");

	if (!file || fread(words, 1, DEVICE, file) != DEVICE)
		err(3, "%s", image);
	fclose(file);
}

static const char *check(const char *image, const char *answered)
{
	static uint64_t words[DEVICE / 8];
	uint64_t by_answers = count_acknowledged(answered), by_lines = count_told(getenv("TOLD"));

	read_image(image, words);
	return ring_look(words, by_answers > by_lines ? by_answers : by_lines);
}

static void serve(const char *image, const char *answered)
{
	char line[16];

	while (fgets(line, sizeof(line), stdin)) {
		const char *why = check(image, answered);

		printf("%s%s\n", why ? "1 " : "0", why ? why : "");
		fflush(stdout);
	}
}

/* The longer copy of @a and @b is what a new initiator goes on with. */
static int check_majority(uint64_t words[COPIES][DEVICE / 8], unsigned int a, unsigned int b, uint64_t acknowledged)
{
	const char *why = ring_look(words[le64toh(words[a][0]) > le64toh(words[b][0]) ? a : b], acknowledged);

	if (why)
		printf("targets %u and %u: %s\n", a + 1, b + 1, why);
	return why ? 1 : 0;
}

/* So many records have @answers answers at least. */
static uint64_t acknowledged_by(const uint64_t answered[COPIES], unsigned int answers)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < COPIES; i++) {
		unsigned int have = 0;

		for (unsigned int j = 0; j < COPIES; j++)
			have += answered[j] >= answered[i];
		if (have >= answers && answered[i] > most)
			most = answered[i];
	}
	return most;
}

static int check_copies(unsigned int answers)
{
	static uint64_t words[COPIES][DEVICE / 8];
	uint64_t answered[COPIES], acknowledged;
	char name[16];

	for (unsigned int i = 0; i < COPIES; i++) {
		snprintf(name, sizeof(name), "IMAGE%u", i + 1);
		read_image(getenv(name), words[i]);
		snprintf(name, sizeof(name), "ANSWERED%u", i + 1);
		answered[i] = count_acknowledged(getenv(name));
	}
	acknowledged = acknowledged_by(answered, answers);
	return check_majority(words, 0, 1, acknowledged) || check_majority(words, 0, 2, acknowledged) ||
	       check_majority(words, 1, 2, acknowledged);
}

static bool make(const char *folder, const char *mode, unsigned int records)
{
	bool flawed = !strcmp(mode, "flawed-copies");

	if (flawed || !strcmp(mode, "copies")) {
		begin_group(folder, COPIES);
		ring_make_copies(COPIES, records, flawed);
		return true;
	}
	begin(folder);
	if (!strcmp(mode, "slow") || !strcmp(mode, "slow-tail")) {
		for (unsigned int i = 0, psn = 1; i < records; i++) {
			write_bytes(psn++, KEY, 64 * i + 64, 64, 1);
			flush(psn, 8 * i + 8, 8);
			response(psn++);
			net.ms += 300;
			if (strcmp(mode, "slow"))
				write_word(psn++, 0, i + 1);
			else
				told("a record is durable");
		}
		return true;
	}
	if (!strcmp(mode, "pulled")) {
		packet(true, ROCE_RC_READ_RESPONSE_ONLY, 9000, "\x1f\0\0\1" "12345678", 12);
		return ring_make("right", records);
	}
	if (strcmp(mode, "buffered"))
		return ring_make(mode, records);
	ring_make("right", records);
	for (unsigned int i = 0; i < records; i++)
		told("a record is durable");
	return true;
}

int main(int argc, char **argv)
{
	const char *image = getenv("IMAGE"), *answered = getenv("ANSWERED"), *why;

	if (argc == 1 && image && answered) {
		why = check(image, answered);
		if (why)
			puts(why);
		return why ? 1 : 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--serve") && image && answered) {
		serve(image, answered);
		return 0;
	}
	if (argc == 3 && image && !strcmp(argv[1], "recover"))
		return ring_recover(image, argv[2]);
	if (argc == 2 && image && !strcmp(argv[1], "recovered"))
		return ring_is_recovered(image);
	if (argc <= 2 && getenv("IMAGE1"))
		return check_copies(argc == 2 ? atoi(argv[1]) : COPIES / 2 + 1);
	if (argc != 4)
		errx(3, "usage: crash-ring FOLDER MODE RECORDS");
	if (!make(argv[1], argv[2], strtoul(argv[3], NULL, 10)))
		errx(3, "there is no mode %s", argv[2]);
	end();
	return 0;
}

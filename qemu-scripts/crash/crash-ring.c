// SPDX-License-Identifier: GPL-2.0
/*
 * The ring of ring.h for the suite of crash-states:
 *
 *	crash-ring FOLDER MODE RECORDS	makes a run
 *	crash-ring			checks one state, as the checker of crash-states
 *	crash-ring --serve		stays, and checks each
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made.h"
#include "ring.h"

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

static const char *check(const char *image, const char *answered)
{
	static uint64_t words[DEVICE / 8];
	FILE *file = fopen(image, "r");

	if (!file || fread(words, 1, DEVICE, file) != DEVICE)
		err(3, "%s", image);
	fclose(file);
	return ring_look(words, count_acknowledged(answered));
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
	if (argc != 4)
		errx(3, "usage: crash-ring FOLDER MODE RECORDS");
	begin(argv[1]);
	if (!ring_make(argv[2], strtoul(argv[3], NULL, 10)))
		errx(3, "there is no mode %s", argv[2]);
	if (fclose(net.pcap))
		err(3, "%s", argv[1]);
	return 0;
}

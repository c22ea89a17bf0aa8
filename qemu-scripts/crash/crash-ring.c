// SPDX-License-Identifier: GPL-2.0
/*
 * The ring of ring.h for the suite of crash-states:
 *
 *	crash-ring FOLDER MODE RECORDS	makes a run
 *	crash-ring			checks one state, as the checker of crash-states
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

static int check(const char *image, const char *answered)
{
	static uint64_t words[DEVICE / 8];
	FILE *file = fopen(image, "r");
	const char *why;

	if (!file || fread(words, 1, DEVICE, file) != DEVICE)
		err(3, "%s", image);
	fclose(file);
	why = ring_look(words, count_acknowledged(answered));
	if (why)
		puts(why);
	return why ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 1 && getenv("IMAGE") && getenv("ANSWERED"))
		return check(getenv("IMAGE"), getenv("ANSWERED"));
	if (argc != 4)
		errx(3, "usage: crash-ring FOLDER MODE RECORDS");
	begin(argv[1]);
	if (!ring_make(argv[2], strtoul(argv[3], NULL, 10)))
		errx(3, "there is no mode %s", argv[2]);
	if (fclose(net.pcap))
		err(3, "%s", argv[1]);
	return 0;
}

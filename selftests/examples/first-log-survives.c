// SPDX-License-Identifier: GPL-2.0
/*
 * The checker of first-log for crash-states, the smallest one to start from:
 *
 *	qemu-scripts/crash-states --serve RUN -- first-log-survives
 *
 * For each line on stdin, it looks at $IMAGE, what a power failure left, and $TOLD, what the initiator had printed before.
 * It answers "0" and what it has recovered, or "1" and why that is wrong.  Without a line, so without --serve, it looks
 * once, and its exit status says the same.  In the lab, IMAGE=/dev/dax0.0 lets it judge what a power cut has left.
 *
 *	cc -o first-log-survives first-log-survives.c
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE	(2 << 20)	/* as first-log.c has them */
#define RECORD	64
#define MOST	(SIZE / RECORD - 1)

/* How many records the initiator has called durable. */
static uint64_t promised(void)
{
	FILE *told = fopen(getenv("TOLD"), "r");
	uint64_t records = 0;
	char line[256];

	if (!told)
		err(3, "%s", getenv("TOLD"));
	while (fgets(line, sizeof(line), told))
		records += strstr(line, "is durable") != NULL;
	fclose(told);
	return records;
}

/* What recovery does: it reads the tail, and then each record that the tail counts.  False if that is wrong; @say tells why. */
static bool check(const uint64_t *log, char *say, size_t size)
{
	const uint64_t tail = log[0], promises = promised();

	if (tail < promises) {
		snprintf(say, size, "the tail is %" PRIu64 ", but %" PRIu64 " records were promised", tail, promises);
		return false;
	}
	if (tail > MOST) {
		snprintf(say, size, "the tail is %" PRIu64 ", more than there is room for", tail);
		return false;
	}
	for (uint64_t i = 0; i < tail; i++)
		for (int word = 0; word < RECORD / 8; word++)
			if (log[RECORD / 8 * (i + 1) + word] != i + 1) {
				snprintf(say, size, "record %" PRIu64 " is lost or torn, but the tail counts it", i);
				return false;
			}
	snprintf(say, size, "%" PRIu64 " records", tail);
	return true;
}

static bool check_image(char *say, size_t size)
{
	int image = open(getenv("IMAGE"), O_RDONLY);
	void *log = image < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ, MAP_SHARED, image, 0);
	bool survives;

	if (log == MAP_FAILED)
		err(3, "%s", getenv("IMAGE"));
	survives = check(log, say, size);
	munmap(log, SIZE);
	close(image);
	return survives;
}

int main(void)
{
	char line[256], say[256];
	bool serves = false, survives;

	if (!getenv("IMAGE") || !getenv("TOLD"))
		errx(3, "usage: crash-states [--serve] RUN -- first-log-survives");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; fgets(line, sizeof(line), stdin); serves = true) {
		survives = check_image(say, sizeof(say));
		printf("%d %s\n", !survives, say);
	}
	if (serves)
		return 0;
	survives = check_image(say, sizeof(say));
	puts(say);
	return !survives;
}

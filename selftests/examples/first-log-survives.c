// SPDX-License-Identifier: GPL-2.0
/*
 * The checker of first-log for crash-states, the smallest one to start from:
 *
 *	qemu-scripts/crash-states --serve RUN -- first-log-survives
 *
 * For each line on stdin, it looks at $IMAGE, what a power failure left, and $TOLD, what the initiator had printed before.
 * It answers "0" and what it has recovered, or "1" and why that is wrong.
 *
 *	cc -o first-log-survives first-log-survives.c
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
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

/* What recovery does: it reads the tail, and then each record that the tail counts. */
static void check(const uint64_t *log)
{
	const uint64_t tail = log[0];

	if (tail < promised()) {
		printf("1 the tail is %" PRIu64 ", but %" PRIu64 " records were promised\n", tail, promised());
		return;
	}
	if (tail > MOST) {
		printf("1 the tail is %" PRIu64 ", more than there is room for\n", tail);
		return;
	}
	for (uint64_t i = 0; i < tail; i++)
		for (int word = 0; word < RECORD / 8; word++)
			if (log[RECORD / 8 * (i + 1) + word] != i + 1) {
				printf("1 record %" PRIu64 " is lost or torn, but the tail counts it\n", i);
				return;
			}
	printf("0 %" PRIu64 " records\n", tail);
}

int main(void)
{
	char line[256];
	int answers = 0;

	if (!getenv("IMAGE") || !getenv("TOLD"))
		errx(3, "usage: crash-states --serve RUN -- first-log-survives");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; fgets(line, sizeof(line), stdin); answers++) {
		int image = open(getenv("IMAGE"), O_RDONLY);
		void *log = image < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, image, 0);

		if (log == MAP_FAILED)
			err(3, "%s", getenv("IMAGE"));
		check(log);
		munmap(log, SIZE);
		close(image);
	}
	if (!answers)
		errx(3, "no line on stdin: start crash-states with --serve");
	return 0;
}

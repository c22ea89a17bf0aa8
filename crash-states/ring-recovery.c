// SPDX-License-Identifier: GPL-2.0
/*
 * A recovery of the ring, for --recovery: it copies the newest record and counts the records, and then says that it is done.
 * Each mode but the first five is wrong if the power fails again.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "made.h"
#include "ring.h"

#define COPIED	7

const char *const recovery_modes[] = {
	"right", "msync", "same-line", "non-temporal", "pwrite", NULL,
	"counts-again", "done-first", "no-write-back", "no-fence", "no-msync", "unordered", "no-fsync", NULL
};

/* In lines of their own, or the first two in one. */
struct recovered {
	volatile uint64_t copy[COPIED], done_there;
	volatile uint64_t done __attribute__((aligned(64)));
	volatile uint64_t counted __attribute__((aligned(64)));
};

static const char *mode;
static int fd;
static struct recovered *recovered;

static bool is(const char *name) { return !strcmp(mode, name); }
static bool is_same_line(void) { return is("same-line") || is("unordered"); }
static volatile uint64_t *place_of_done(void) { return is_same_line() ? &recovered->done_there : &recovered->done; }

static void store(volatile uint64_t *to, uint64_t value)
{
	if (is("pwrite") || is("no-fsync")) {
		if (pwrite(fd, &value, sizeof(value), DEVICE / 2 + ((uint8_t *)to - (uint8_t *)recovered)) != sizeof(value))
			_exit(3);
		return;
	}
#ifdef __x86_64__
	if (is("non-temporal") || is("unordered"))
		asm volatile("movnti %1, %0" : "=m" (*to) : "r" (value));
	else
#endif
		*to = value;
}

static void make_durable(const volatile uint64_t *line)
{
	if (is("msync") || is("no-msync"))
		msync(recovered, sizeof(*recovered), MS_SYNC);
	else if (is("pwrite") || is("no-fsync"))
		fsync(fd);
#ifdef __x86_64__
	else
		asm volatile("clflushopt %0" : : "m" (*line) : "memory");
	if (!is("no-fence"))
		asm volatile("sfence" : : : "memory");
#else
	(void)line;
#endif
}

static void recover(const uint64_t *ring)
{
	uint64_t tail = ring[0], before = *place_of_done();

	if (before == tail)
		return;
	if (is("done-first")) {
		store(place_of_done(), tail);
		make_durable(place_of_done());
	}
	store(&recovered->counted, is("counts-again") ? recovered->counted + tail - before : tail);
	make_durable(&recovered->counted);
	for (unsigned int i = 0; i < COPIED; i++)
		store(&recovered->copy[i], tail);
	if (!is_same_line() && strncmp(mode, "no-", 3))
		make_durable(recovered->copy);
	if (is("no-fence"))
		make_durable(recovered->copy);
	store(place_of_done(), tail);
	make_durable(place_of_done());
}

/* NULL if it cannot be mapped. */
static uint64_t *map(const char *image)
{
	uint64_t *ring;

	fd = image ? open(image, O_RDWR) : -1;
	ring = mmap(NULL, DEVICE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return NULL;
	recovered = (struct recovered *)(ring + DEVICE / 16);
	return ring;
}

int ring_recover(const char *image, const char *which)
{
	const uint64_t *ring = map(image);

	mode = which;
	if (!ring)
		return 3;
	recover(ring);
	return 0;
}

int ring_is_recovered(const char *image)
{
	uint64_t done;

	if (!map(image))
		return 3;
	done = recovered->done | recovered->done_there;
	for (unsigned int i = 0; done && i < COPIED; i++)
		if (recovered->copy[i] != done || recovered->counted != done) {
			printf("done is %lu, word %u of the copy %lu, counted %lu\n", done, i, recovered->copy[i], recovered->counted);
			return 1;
		}
	printf("done is %lu\n", done);
	return 0;
}

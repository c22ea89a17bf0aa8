// SPDX-License-Identifier: GPL-2.0
/*
 * A recovery of the ring, for --recovery: it copies the newest record and counts the records, and then says that it is done.
 * The modes up to the first NULL are right, the others are wrong if the power fails again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "made.h"
#include "ring.h"

#define COPIED	7
#define SIGNALS	300
#define PAGE	4096

const char *const recovery_modes[] = {
	"right", "msync", "same-line", "non-temporal", "pwrite",
	"thread", "mprotect", "half-non-temporal", "rwf-dsync", "read-only-first", "signals", NULL,
	"counts-again", "done-first", "no-write-back", "no-fence", "no-msync", "unordered", "no-fsync", "no-range", NULL
};

/* In lines of their own, or the first two in one. */
struct recovered {
	volatile uint64_t copy[COPIED], done_there;
	volatile uint64_t done __attribute__((aligned(64)));
	volatile uint64_t counted __attribute__((aligned(64)));
};

static const char *mode = "";
static int fd;
static struct recovered *recovered;
static volatile int signals;
static volatile bool ended;

static bool is(const char *name) { return !strcmp(mode, name); }
static bool is_same_line(void) { return is("same-line") || is("unordered"); }
static volatile uint64_t *place_of_done(void) { return is_same_line() ? &recovered->done_there : &recovered->done; }

static void store(volatile uint64_t *to, uint64_t value)
{
	struct iovec from = { &value, sizeof(value) };

	if (is("pwrite") || is("no-fsync") || is("rwf-dsync") || (is("no-range") && to == &recovered->counted)) {
		if (pwritev2(fd, &from, 1, DEVICE / 2 + ((uint8_t *)to - (uint8_t *)recovered), is("rwf-dsync") ? RWF_DSYNC : 0) !=
		    sizeof(value))
			_exit(3);
		return;
	}
#ifdef __x86_64__
	if (is("half-non-temporal") && to == &recovered->copy[COPIED - 1])
		asm volatile("movnti %1, %0\n\tsfence" : "=m" (*to) : "r" (value) : "memory");
	else if (is("non-temporal") || is("unordered"))
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
	else if (is("rwf-dsync"))
		return;
#ifdef __x86_64__
	else
		asm volatile("clflushopt %0" : : "m" (*line) : "memory");
	if (!is("no-fence"))
		asm volatile("sfence" : : : "memory");
#else
	(void)line;
#endif
}

static void count(uint64_t tail, uint64_t before)
{
	store(&recovered->counted, is("counts-again") ? recovered->counted + tail - before : tail);
	make_durable(&recovered->counted);
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
	if (!is("no-range"))
		count(tail, before);
	for (unsigned int i = 0; i < COPIED; i++)
		store(&recovered->copy[i], tail);
	if (!is_same_line() && strncmp(mode, "no-", 3))
		make_durable(recovered->copy);
	if (is("no-fence"))
		make_durable(recovered->copy);
	if (is("no-range"))
		count(tail, before);
	store(place_of_done(), tail);
	make_durable(place_of_done());
}

static void *recover_in_thread(void *ring)
{
	recover(ring);
	ended = true;
	return NULL;
}

/* While another thread makes calls, each of which has to be made */
static void recover_beside(uint64_t *ring)
{
	pthread_t thread;

	pthread_create(&thread, NULL, recover_in_thread, ring);
	while (!ended)
		if (syscall(SYS_getppid) <= 0)
			abort();
	pthread_join(thread, NULL);
}

static void count_signal(int signal)
{
	(void)signal;
	signals++;
}

/* While timers send signals, each of which has to come */
static void recover_disturbed(const uint64_t *ring)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	timer_t timer;

	signal(SIGRTMIN, count_signal);
	for (int i = 1; i <= SIGNALS; i++) {
		struct itimerspec once = { .it_value.tv_nsec = i * 20000 };

		if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &once, NULL))
			abort();
	}
	recover(ring);
	for (int i = 0; i < 1000 && signals < SIGNALS; i++)
		usleep(1000);
	if (signals != SIGNALS)
		abort();
}

/* What is before it becomes writable, too, and its first page does not stay so. */
static uint64_t *map_by_mprotect(void)
{
	uint8_t *before = mmap(NULL, PAGE + DEVICE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *ring;

	ring = mmap(before + PAGE, DEVICE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
	if (mprotect(before, PAGE + DEVICE, PROT_READ | PROT_WRITE) || mprotect(ring, PAGE, PROT_READ))
		return MAP_FAILED;
	*before = 1;
	return (uint64_t *)ring;
}

/* NULL if it cannot be mapped. */
static uint64_t *map(const char *image)
{
	uint64_t *ring;

	fd = image ? open(image, is("read-only-first") ? O_RDONLY : is("no-range") ? O_RDWR | O_DSYNC : O_RDWR) : -1;
	if (is("read-only-first") && mmap(NULL, DEVICE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		fd = open(image, O_RDWR);
	ring = is("mprotect") ? map_by_mprotect() : mmap(NULL, DEVICE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		return NULL;
	recovered = (struct recovered *)(ring + DEVICE / 16);
	return ring;
}

int ring_recover(const char *image, const char *which)
{
	uint64_t *ring;

	mode = which;
	ring = map(image);
	if (!ring)
		return 3;
	if (is("thread"))
		recover_beside(ring);
	else if (is("signals"))
		recover_disturbed(ring);
	else
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

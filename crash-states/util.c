// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

void (*before_failure)(void);
void (*on_failure)(const char *error);

static void __attribute__((noreturn)) vfail(const char *why, const char *format, va_list args)
{
	char *text;

	if (before_failure)
		before_failure();
	fflush(stdout);
	if (vasprintf(&text, format, args) < 0)
		text = "no memory";
	if (why && asprintf(&text, "%s: %s", text, why) < 0)
		text = "no memory";
	fprintf(stderr, "crash-states: error: %s\n", text);
	if (on_failure)
		on_failure(text);
	exit(STATUS_ERROR);
}

void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfail(NULL, format, args);
}

void fail_errno(const char *format, ...)
{
	const char *why = strerror(errno);
	va_list args;

	va_start(args, format);
	vfail(why, format, args);
}

/* The fault is that of an instruction here, so this is no worse a place to fail() at than any other. */
static void fail_at_fault(int signal)
{
	(void)signal;
	fail("a part of a file cannot be read or written: its disk is full (a memory disk wants room for what is read, too), or it was cut off meanwhile.  Make room where the run's folder and TMPDIR are");
}

void fail_without_room(void)
{
	/* A second one would be in what fail() does. */
	struct sigaction action = { .sa_handler = fail_at_fault, .sa_flags = SA_RESETHAND };

	sigaction(SIGBUS, &action, NULL);
}

void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		fail("no memory for %zu bytes", size);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		fail("no memory for %zu times %zu bytes", n, size);
	return p;
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		fail("no memory");
	va_end(args);
	return text;
}

void *list_grow(void *v, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return v;
	*room = *room ? *room * 2 : 16;
	return xrealloc(v, *room * size);
}

size_t count_up_to(const void *elements, size_t n, size_t size, size_t offset, unsigned int limit)
{
	size_t from = 0, to = n;

	while (from < to) {
		size_t middle = (from + to) / 2;

		if (*(const unsigned int *)((const char *)elements + middle * size + offset) <= limit)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

double seconds_since(const struct timespec *began)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - began->tv_sec + (now.tv_nsec - began->tv_nsec) / 1e9;
}

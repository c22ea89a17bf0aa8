/* SPDX-License-Identifier: GPL-2.0 */
/* Used by all files of crash-states: lists that grow, and errors that end the program. */
#ifndef UTIL_H
#define UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* What cannot be gone on with: wrong usage, what cannot be followed, a checker in trouble. */
#define STATUS_ERROR	2
/* No state fails, but not all that a pass stands for was checked.  3 is a lost guest of rxe-vm. */
#define STATUS_NOT_JUDGED	4

/* Called before an error is printed, and with it before the program ends by it, unless NULL. */
extern void (*before_failure)(void);
extern void (*on_failure)(const char *error);

/* Say "crash-states: error: ..." and end with STATUS_ERROR. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The same, and then what errno says. */
void fail_errno(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* From now on fail() where a mapped file has no room, or has lost its end, which is a SIGBUS otherwise. */
void fail_without_room(void);

void *xrealloc(void *p, size_t size);
void *xcalloc(size_t n, size_t size);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A list: LIST(struct thing) things = { }; *list_add(&things) = thing; things.v[i], i < things.n
 */
#define LIST(type) struct { type *v; size_t n, room; }

#define list_add(list) \
	((list)->v = list_grow((list)->v, (list)->n, &(list)->room, sizeof(*(list)->v)), \
	 &(list)->v[(list)->n++])

void *list_grow(void *v, size_t n, size_t *room, size_t size);

/*
 * How many elements of a list have at most @limit in @member, an unsigned int?  They are in the order of that.
 */
#define COUNT_UP_TO(list, member, limit) \
	count_up_to((list)->v, (list)->n, sizeof(*(list)->v), offsetof(typeof(*(list)->v), member), limit)

size_t count_up_to(const void *elements, size_t n, size_t size, size_t offset, unsigned int limit);

/* Numbers as the wire has them. */
static inline uint16_t get16(const uint8_t *p) { return p[0] << 8 | p[1]; }
static inline uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }
static inline uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }

/* By CLOCK_MONOTONIC */
double seconds_since(const struct timespec *began);

/* Mixes the bits of @x; no two have the same result. */
static inline uint64_t mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

#endif /* UTIL_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ring of records in persistent memory, for tests: its run of any length made by hand, right or with a
 * mistake, and its checker.
 */
#ifndef RING_H
#define RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the packets that append so many records.  False if there is no such mode. */
bool ring_make(const char *mode, unsigned int records);

/* All modes; the first few, up to NULL, are right by "spec", the others, up to NULL, are wrong. */
extern const char *const ring_modes[];

/*
 * Makes the packets that append so many records to copies of the ring at @targets targets, each next one when a
 * majority has answered.  @flawed: the first target gets no FLUSH of the record in the middle.
 */
void ring_make_copies(unsigned int targets, unsigned int records, bool flawed);

/*
 * Why a ring with @image is not consistent after so many acknowledged records, or NULL.  The text stays
 * until the next call.
 */
const char *ring_look(const uint64_t *image, uint64_t acknowledged);

/* Those that survive a power failure in them, NULL, those that do not, NULL. */
extern const char *const recovery_modes[];

/* The exit status of a program that recovers the ring in the file @image, and of one that checks what that has left. */
int ring_recover(const char *image, const char *mode);
int ring_is_recovered(const char *image);

#endif /* RING_H */

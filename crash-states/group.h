/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A run of `rxe-vm group`: several targets, and one client whose capture gives all that they were sent, and answered,
 * an order.  They are followed as one target that has the devices of all, one after the other, so that a state of it is a
 * joint state: what a power failure leaves of all targets at once.  A checker gets the device of each by itself.
 */
#ifndef GROUP_H
#define GROUP_H

#include "content.h"
#include "model.h"

#define TARGETS_MAX	7

/* How many targets the run in @folder has, or 0 if it is none of a group.  Ends the program if it cannot be read. */
unsigned int group_targets(const char *folder);

/* Read what the lab wrote down of each of them into @memory[@targets]. */
void group_read(struct memory *memory, unsigned int targets, const char *folder);

/* @content of all devices: FOLDER/serverN.NAME of each target.  False if one of these files is not there. */
bool group_map(struct content *content, const struct memory *memory, unsigned int targets, const char *folder,
	       const char *name);

/*
 * Write what each target has of @image, of which only some pages are not zero, and what it had answered before the cut
 * of @model, into the files PREFIXimageN and PREFIXansweredN.
 */
void group_write(const struct history *history, const struct model *model, const uint8_t *image,
		 const uint32_t *pages, size_t n, const char *prefix);

void group_unlink(unsigned int targets, const char *prefix);

#endif /* GROUP_H */

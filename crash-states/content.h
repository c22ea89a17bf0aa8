/* SPDX-License-Identifier: GPL-2.0 */
/* What the target's persistent memory holds, in a file. */
#ifndef CONTENT_H
#define CONTENT_H

#include "memory.h"

#define PAGE	4096

/* Mapped. */
struct content {
	const char *path;
	uint64_t size;		/* of the device */
	uint64_t start;		/* of the device, in the file */
	int fd;
	const uint8_t *bytes;
};

/* Ends the program if @path does not hold the device of @memory. */
void content_map(struct content *content, const char *path, const struct memory *memory);

void content_unmap(struct content *content);

#endif /* CONTENT_H */

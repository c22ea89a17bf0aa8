// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "content.h"

void content_map(struct content *content, const char *path, const struct memory *memory)
{
	struct stat st;
	void *map;

	content->path = path;
	content->size = memory->size;
	content->start = memory->start;
	content->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);	/* a FIFO has no writer yet */
	if (content->fd < 0 || fstat(content->fd, &st))
		fail_errno("%s", path);
	if (!S_ISREG(st.st_mode))
		fail("%s is no regular file", path);
	if ((uint64_t)st.st_size < memory->start + memory->size)
		fail("%s has %" PRIi64 " bytes; %s says that the target's device ends at %" PRIu64,
		     path, (int64_t)st.st_size, memory->path, memory->start + memory->size);
	if (memory->start % PAGE)
		fail("%s: the device does not begin at a page of the NVDIMM", memory->path);
	map = mmap(NULL, memory->size, PROT_READ, MAP_PRIVATE, content->fd, memory->start);
	if (map == MAP_FAILED)
		fail_errno("%s: mmap", path);
	content->bytes = map;
}

void content_unmap(struct content *content)
{
	munmap((void *)content->bytes, content->size);
	close(content->fd);
}

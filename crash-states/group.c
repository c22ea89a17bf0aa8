// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "group.h"


static char *file_of(const char *folder, unsigned int target, const char *name)
{
	return xasprintf("%s/server%u.%s", folder, target + 1, name);
}

static bool has_file(const char *path)
{
	return !access(path, R_OK);
}

unsigned int group_targets(const char *folder)
{
	unsigned int n = 0;

	while (has_file(file_of(folder, n, "pcap")))
		n++;
	if (!n)
		return 0;
	if (n > TARGETS_MAX)
		fail("%s: a group of more than %u targets", folder, TARGETS_MAX);
	if (!has_file(xasprintf("%s/client1.pcap", folder)))
		fail("%s: a group without a client1.pcap, which gives all that was sent an order", folder);
	if (has_file(xasprintf("%s/client2.pcap", folder)))
		fail("%s: a group of two clients: nothing tells what one of them knew when the other one sent something.  Let one guest run both programs, or name the folder of one target, *.recording",
		     folder);
	for (unsigned int i = 0; i < n; i++) {
		if (has_file(xasprintf("%s/server%u.2.pcap", folder, i + 1)))
			fail("%s: server%u has booted twice: joint states are those of a run in which each target boots once.  Name the folder of one boot, *.recording",
			     folder, i + 1);
		if (!has_file(file_of(folder, i, "memory")) || !has_file(file_of(folder, i, "pmem0.start")))
			fail("%s: server%u has no persistent memory (--server%u-pmem), or was never ready", folder,
			     i + 1, i + 1);
	}
	return n;
}

void group_read(struct memory *memory, unsigned int targets, const char *folder)
{
	uint64_t base = 0;

	for (unsigned int i = 0; i < targets; i++) {
		memory_read(&memory[i], file_of(folder, i, "memory"));
		memory_move(&memory[i], i + 1, base);
		base += memory[i].size;
	}
}

/* Copy what the file is not all zero of. */
static void copy_data(int to, const struct content *from, uint64_t base)
{
	off_t at = from->start, end = from->start + from->size, next;

	while ((at = lseek(from->fd, at, SEEK_DATA)) >= 0 && at < end) {
		next = lseek(from->fd, at, SEEK_HOLE);
		if (next > end)
			next = end;
		for (; at < next; at += PAGE) {
			size_t length = next - at < PAGE ? next - at : PAGE;

			if (pwrite(to, from->bytes + (at - from->start), length, base + (at - from->start)) !=
			    (ssize_t)length)
				fail_errno("%s", from->path);
		}
	}
}

bool group_map(struct content *content, const struct memory *memory, unsigned int targets, const char *folder,
	       const char *name)
{
	const struct memory *last = &memory[targets - 1];
	struct content part;

	for (unsigned int i = 0; i < targets; i++)
		if (!has_file(file_of(folder, i, name)))
			return false;
	*content = (struct content){
		.path = xasprintf("%s/server*.%s", folder, name), .size = last->base + last->size,
		.fd = memfd_create("crash-states", MFD_CLOEXEC),
	};
	if (content->fd < 0 || ftruncate(content->fd, content->size))
		fail_errno("%s", content->path);
	for (unsigned int i = 0; i < targets; i++) {
		content_map(&part, file_of(folder, i, name), &memory[i]);
		copy_data(content->fd, &part, memory[i].base);
		content_unmap(&part);
	}
	content->bytes = mmap(NULL, content->size, PROT_READ, MAP_PRIVATE, content->fd, 0);
	if (content->bytes == MAP_FAILED)
		fail_errno("%s: mmap", content->path);
	return true;
}

/******************************************************************************
 * What a checker gets
 */

static char *part_of(const char *prefix, const char *name, unsigned int target)
{
	return xasprintf("%s%s%u", prefix, name, target + 1);
}

/* A new file each time: nothing is left in it that a checker wrote. */
static void write_image(const struct memory *memory, const uint8_t *image, const uint32_t *pages, size_t n,
			const char *path)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, memory->size))
		fail_errno("%s", path);
	for (size_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)pages[i] * PAGE;

		if (at - memory->base < memory->size &&
		    pwrite(fd, image + at, PAGE, at - memory->base) != PAGE)
			fail("%s: no room for it (TMPDIR= may name a folder that has some)", path);
	}
	close(fd);
}

static void write_answered(const struct history *history, const struct model *model, unsigned int target,
			   const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		fail_errno("%s", path);
	for (uint32_t i = 0; i < model->answers; i++) {
		const struct request *flush = &history->requests.v[model->answer[i]];

		if (flush->packet->target == target)
			request_print_answered(flush, file);
	}
	if (fclose(file))
		fail_errno("%s", path);
}

void group_write(const struct history *history, const struct model *model, const uint8_t *image,
		 const uint32_t *pages, size_t n, const char *prefix)
{
	for (unsigned int i = 0; i < history->targets; i++) {
		char *path = part_of(prefix, "image", i), *answered = part_of(prefix, "answered", i);

		write_image(&history->memory[i], image, pages, n, path);
		write_answered(history, model, i, answered);
		free(path);
		free(answered);
	}
}

void group_unlink(unsigned int targets, const char *prefix)
{
	for (unsigned int i = 0; i < targets; i++) {
		char *path = part_of(prefix, "image", i), *answered = part_of(prefix, "answered", i);

		unlink(path);
		unlink(answered);
		free(path);
		free(answered);
	}
}

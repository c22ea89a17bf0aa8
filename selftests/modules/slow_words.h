/* SPDX-License-Identifier: GPL-2.0 */
/* A program's words that the kernel is to be slow on, by the module slow_words, which is loaded. */
#ifndef SLOW_WORDS_H
#define SLOW_WORDS_H

#include <err.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Where @address is in physical memory; it is pinned there. */
static inline __u64 physical_address(const void *address)
{
	const __u64 page_size = sysconf(_SC_PAGESIZE), at = (uintptr_t)address;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	__u64 entry;

	if (fd < 0 || pread(fd, &entry, sizeof(entry), at / page_size * sizeof(entry)) != sizeof(entry))
		err(1, "/proc/self/pagemap");
	close(fd);
	return (entry & ((1ull << 55) - 1)) * page_size + at % page_size;
}

/* @word is of a registered region, aligned, and one of four at most. */
static inline void slow_down(const void *word)
{
	const char *path = "/sys/module/slow_words/parameters/word";
	int fd = open(path, O_WRONLY);

	if (dprintf(fd, "0x%llx", (unsigned long long)physical_address(word)) < 0)
		err(1, "%s", path);
	close(fd);
}

#endif /* SLOW_WORDS_H */

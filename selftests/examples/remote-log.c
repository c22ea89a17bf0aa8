// SPDX-License-Identifier: GPL-2.0
/* Shared by the programs of the remote log, see remote-log.h. */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "remote-log.h"

size_t log_record_size(size_t length)
{
	return (sizeof(struct log_record) + length + 7) & ~(size_t)7;
}

/* The CRC-32 of Ethernet and zlib, continued from @crc over @size bytes; 0 begins one. */
static __u32 crc32(__u32 crc, const void *data, size_t size)
{
	const __u8 *byte = data;

	crc = ~crc;
	for (; size; size--, byte++) {
		crc ^= *byte;
		for (unsigned int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

size_t log_record_make(struct log_record *record, __u64 seq, const void *data, size_t length)
{
	size_t size = log_record_size(length);

	memset(record, 0, size);
	record->length = length;
	record->seq = seq;
	memcpy(record->data, data, length);
	record->crc = log_record_crc(record);
	return size;
}

__u32 log_record_crc(const struct log_record *record)
{
	size_t from = offsetof(struct log_record, length);

	return crc32(0, (const char *)record + from, sizeof(*record) - from + record->length);
}

/* A device DAX is a character device; stat(2) does not know its size. */
static size_t device_size(const char *path, dev_t device)
{
	char attribute[64];
	size_t size;
	FILE *file;

	snprintf(attribute, sizeof(attribute), "/sys/dev/char/%u:%u/size", major(device),
		 minor(device));
	file = fopen(attribute, "r");
	if (!file || fscanf(file, "%zu", &size) != 1)
		errx(1, "%s is not a device DAX (it has no %s)", path, attribute);
	fclose(file);
	return size;
}

void *log_map(const char *path, int flags, size_t *size)
{
	int prot = PROT_READ | (flags == O_RDWR ? PROT_WRITE : 0);
	struct stat st;
	void *map;
	int fd;

	fd = open(path, flags);
	if (fd < 0 || fstat(fd, &st))
		err(1, "%s", path);
	*size = S_ISCHR(st.st_mode) ? device_size(path, st.st_rdev) : (size_t)st.st_size;
	if (*size < LOG_RECORDS)
		errx(1, "%s is too small for a log: %zu bytes", path, *size);
	map = mmap(NULL, *size, prot, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		err(1, "%s: mmap", path);
	close(fd);
	return map;
}

__u32 log_number(const char *text)
{
	unsigned long number;
	char *end;

	number = strtoul(text, &end, 10);
	if (end == text || *end || number > UINT32_MAX)
		errx(1, "\"%s\" is not a number of records", text);
	return number;
}

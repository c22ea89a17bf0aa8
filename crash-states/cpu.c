// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu.h"

#define FIRST_LINE	"cpu 1\n"

static const struct {
	const char *word, *name;
} operations[] = {
	[CPU_STORE - CPU_STORE] = { "store", "STORE" },
	[CPU_VECTOR_STORE - CPU_STORE] = { "vector-store", "STORE" },
	[CPU_NT_STORE - CPU_STORE] = { "nt-store", "non-temporal STORE" },
	[CPU_CLWB - CPU_STORE] = { "clwb", "CLWB" },
	[CPU_CLFLUSHOPT - CPU_STORE] = { "clflushopt", "CLFLUSHOPT" },
	[CPU_CLFLUSH - CPU_STORE] = { "clflush", "CLFLUSH" },
	[CPU_SFENCE - CPU_STORE] = { "sfence", "SFENCE" },
	[CPU_MFENCE - CPU_STORE] = { "mfence", "MFENCE" },
	[CPU_LOCK - CPU_STORE] = { "lock", "locked instruction" },
};

const char *cpu_name(uint8_t operation)
{
	return operations[operation - CPU_STORE].name;
}

/* All of a file, and a zero after it. */
static char *read_all(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n = 0;
	char *text;

	if (fd < 0 || fstat(fd, &st))
		fail_errno("%s", path);
	text = xcalloc(st.st_size + 1, 1);
	for (*size = 0; *size < (size_t)st.st_size; *size += n) {
		n = read(fd, text + *size, st.st_size - *size);
		if (n < 0)
			fail_errno("%s", path);
		if (!n)
			break;
	}
	close(fd);
	return text;
}

/* A number without a sign, and the space or the end of the line after it. */
static bool take_number(char **at, uint64_t *number)
{
	char *end;

	if (!isdigit(**at))
		return false;
	errno = 0;
	*number = strtoull(*at, &end, 10);
	if (end == *at || errno || (*end && *end != ' '))
		return false;
	*at = end + (*end == ' ');
	return true;
}

static bool take_operation(char **at, uint8_t *operation)
{
	size_t length = strcspn(*at, " ");

	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		if (strlen(operations[i].word) == length && !strncmp(*at, operations[i].word, length)) {
			*operation = CPU_STORE + i;
			*at += length + ((*at)[length] == ' ');
			return true;
		}
	return false;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes take the place of their own text. */
static bool take_bytes(char **at, struct cpu_event *event)
{
	uint8_t *bytes = (uint8_t *)*at;
	size_t n = 0;

	for (; digit((*at)[0]) >= 0 && digit((*at)[1]) >= 0 && n < CPU_LINE; *at += 2)
		bytes[n++] = digit((*at)[0]) << 4 | digit((*at)[1]);
	event->bytes = bytes;
	event->length = n;
	return n;
}

static bool read_line(char *at, struct cpu_event *event)
{
	uint64_t thread;

	*event = (struct cpu_event){ };
	if (!take_number(&at, &event->position) || !take_number(&at, &thread) || !thread || thread > CPU_THREADS ||
	    !take_operation(&at, &event->operation))
		return false;
	event->thread = thread;
	if (!cpu_is_fence(event->operation) && !take_number(&at, &event->place))
		return false;
	if (cpu_is_store(event->operation) && !take_bytes(&at, event))
		return false;
	return !*at;
}

/* False if it lies outside of the device.  A device has no part of a cache line. */
static bool find_place(struct cpu_event *event, const struct memory *memory)
{
	if (cpu_is_fence(event->operation))
		return true;
	if (cpu_is_write_back(event->operation))
		event->place = event->place / CPU_LINE * CPU_LINE;
	if (event->place < memory->start)
		return false;
	event->place -= memory->start;
	return event->place < memory->size && event->length <= memory->size - event->place;
}

static void read_events(struct cpu *cpu, char *text, size_t size, const struct memory *memory, uint64_t capture_bytes)
{
	uint64_t position = 0;
	struct cpu_event event;
	unsigned int number = 1;
	char *at, *end;

	if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)))
		fail("%s does not begin with the line \"cpu 1\", so that nothing tells what it has", cpu->path);
	for (at = text + strlen(FIRST_LINE); at < text + size; at = end + 1) {
		number++;
		end = memchr(at, '\n', text + size - at);
		if (!end) {
			cpu->half_line = true;
			break;
		}
		*end = 0;
		if (!strcmp(at, "full"))
			fail("%s: the target's CPU did too much to record all of it: let your program do less", cpu->path);
		if (!read_line(at, &event))
			fail("%s, line %u: not understood: %.80s", cpu->path, number, at);
		if (event.position < position || event.position > capture_bytes)
			fail("%s, line %u: the capture cannot have had %llu bytes then: the two files are not of one run",
			     cpu->path, number, (unsigned long long)event.position);
		position = event.position;
		if (cpu->events.n >= UINT32_MAX / 2)
			fail("%s: too much for one history", cpu->path);
		if (find_place(&event, memory))
			*list_add(&cpu->events) = event;
	}
}

void cpu_read(struct cpu *cpu, const char *path, const struct memory *memory, uint64_t capture_bytes)
{
	size_t size;
	char *text;

	*cpu = (struct cpu){ .path = path };
	text = read_all(path, &size);
	/* The text stays, with the bytes of the stores. */
	read_events(cpu, text, size, memory, capture_bytes);
}

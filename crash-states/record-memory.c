// SPDX-License-Identifier: GPL-2.0
/*
 * Records for crash-states what an unmodified target registers, with any provider of libibverbs:
 *
 *	RECORD_TO=DIR RECORD_PMEM=FILE LD_PRELOAD=.../record-memory.so TARGET...
 *
 * FILE is the target's persistent memory, as it maps it, such as /dev/dax0.0.  In the folder DIR it writes
 *
 *	server.memory		as qemu-scripts/guest/registrations does in the lab
 *	server.pmem0.start	what each registered part of FILE held before its first registration
 *
 * So nothing that an initiator stores comes before its copy.  Memory windows are not recorded.
 */
#include <dlfcn.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* They are macros as well, which would call others of these. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define PAGE	4096

#define PIECES_MAX	4096		/* of one target */

struct piece {
	uint64_t from, to;		/* in FILE */
};

struct recording {
	FILE *memory;			/* server.memory, locked: several processes may write to it */
	const char *pmem, *name;	/* FILE, and how its lines call it */
	uint64_t size;			/* of FILE */
	int start;			/* server.pmem0.start */
	unsigned int pieces;		/* that were registered before */
	struct piece piece[PIECES_MAX];
};

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	if (!value || !*value)
		errx(127, "record-memory.so: say %s=, see the head of record-memory.c", name);
	return value;
}

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, mode);
	if (!file)
		err(127, "record-memory.so: %s", path);
	return file;
}

/* A device tells its size in sysfs. */
static uint64_t size_of(const char *path, const char *name)
{
	char sysfs[4096];
	uint64_t size = 0;
	struct stat st;
	FILE *file;

	snprintf(sysfs, sizeof(sysfs), "/sys/bus/dax/devices/%s/size", name);
	file = fopen(sysfs, "r");
	if (file && fscanf(file, "%" SCNu64, &size) != 1)
		size = 0;
	if (file)
		fclose(file);
	else if (!stat(path, &st))
		size = st.st_size;
	if (!size)
		errx(127, "record-memory.so: RECORD_PMEM=%s: cannot learn its size", path);
	return size;
}

/* "link MAC" of the network device of the first GID, and the device. */
static void write_head(struct recording *r, struct ibv_context *context)
{
	char path[4096], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/ports/1/gid_attrs/ndevs/0", context->device->ibdev_path);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%255s", text) != 1)
		errx(127, "record-memory.so: %s: cannot learn the network device of %s", path, context->device->name);
	fclose(file);
	snprintf(path, sizeof(path), "/sys/class/net/%.200s/address", text);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%255s", text) != 1)
		errx(127, "record-memory.so: cannot read %s", path);
	fclose(file);
	fprintf(r->memory, "link %s\ndevice %s 0 %" PRIu64 "\n", text, r->name, r->size);
}

static void read_pieces(struct recording *r)
{
	uint64_t length, place;
	char line[256];

	rewind(r->memory);
	for (r->pieces = 0; fgets(line, sizeof(line), r->memory);) {
		if (sscanf(line, "piece %*u %" SCNu64 " %*s %" SCNu64, &length, &place) != 2)
			continue;
		if (r->pieces == PIECES_MAX)
			errx(127, "record-memory.so: more than %u registrations", PIECES_MAX);
		r->piece[r->pieces++] = (struct piece){ place, place + length };
	}
	fseek(r->memory, 0, SEEK_END);
}

static void begin(struct recording *r, struct ibv_context *context)
{
	const char *folder = variable("RECORD_TO");
	char path[4096];

	r->pmem = variable("RECORD_PMEM");
	r->name = strrchr(r->pmem, '/') ? strrchr(r->pmem, '/') + 1 : r->pmem;
	r->size = size_of(r->pmem, r->name);
	r->memory = open_in(folder, "server.memory", "a+");
	flock(fileno(r->memory), LOCK_EX);
	snprintf(path, sizeof(path), "%s/server.pmem0.start", folder);
	r->start = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (r->start < 0 || ftruncate(r->start, r->size))
		err(127, "record-memory.so: %s", path);
	read_pieces(r);
	if (!ftell(r->memory))
		write_head(r, context);
}

static void copy(const struct recording *r, const uint8_t *bytes, uint64_t from, uint64_t to)
{
	static const uint8_t zeros[PAGE];

	while (from < to) {
		uint64_t n = PAGE - from % PAGE < to - from ? PAGE - from % PAGE : to - from;

		if (memcmp(bytes, zeros, n) && pwrite(r->start, bytes, n, from) != (ssize_t)n)
			err(127, "record-memory.so: server.pmem0.start");
		bytes += n;
		from += n;
	}
}

/* The @bytes from @from to @to in FILE, but for what was copied at an earlier registration, of the pieces from @i on. */
static void copy_new(const struct recording *r, unsigned int i, const uint8_t *bytes, uint64_t from, uint64_t to)
{
	for (; i < r->pieces; i++) {
		const struct piece *piece = &r->piece[i];

		if (piece->to <= from || piece->from >= to)
			continue;
		if (piece->from > from)
			copy_new(r, i + 1, bytes, from, piece->from);
		if (piece->to < to)
			copy_new(r, i + 1, bytes + (piece->to - from), piece->to, to);
		return;
	}
	copy(r, bytes, from, to);
}

/* The parts of the region that lie in FILE. */
static void record_pieces(struct recording *r, uint64_t addr, uint64_t length)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[8192], path[4096];
	uint64_t from, to, place;

	while (maps && fgets(line, sizeof(line), maps)) {
		*path = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095[^\n]", &from, &to, &place,
			   path) < 4 || strcmp(path, r->pmem))
			continue;
		if (from < addr) {
			place += addr - from;
			from = addr;
		}
		if (to > addr + length)
			to = addr + length;
		if (from >= to || from < addr)
			continue;
		fprintf(r->memory, "piece %" PRIu64 " %" PRIu64 " %s %" PRIu64 "\n", from - addr, to - from, r->name,
			place);
		copy_new(r, 0, (const uint8_t *)(uintptr_t)from, place, place + to - from);
	}
	if (maps)
		fclose(maps);
}

/* The library may register by another function of its own, which is one of these. */
static __thread unsigned int depth;

static struct ibv_mr *record(struct ibv_mr *mr, uint64_t iova)
{
	static struct recording r;
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	int error = errno;

	if (--depth || !mr)
		return mr;
	pthread_mutex_lock(&one_at_a_time);
	begin(&r, mr->context);
	fprintf(r.memory, "region 0x%x 0x%x 0x%" PRIx64 " %zu\n", mr->rkey, mr->lkey, iova, mr->length);
	record_pieces(&r, (uintptr_t)mr->addr, mr->length);
	close(r.start);
	if (fclose(r.memory))
		err(127, "record-memory.so: server.memory");
	pthread_mutex_unlock(&one_at_a_time);
	errno = error;
	return mr;
}

#define REAL(name) (depth++, (__typeof__(&name))dlsym(RTLD_NEXT, #name))

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return record(REAL(ibv_reg_mr)(pd, addr, length, access), (uintptr_t)addr);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return record(REAL(ibv_reg_mr_iova)(pd, addr, length, iova, access), iova);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return record(REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access), iova);
}

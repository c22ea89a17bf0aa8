// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded by rxe-vm --pmem-malloc SIZE: what a program allocates with malloc() and its kin, or attaches with shmat(), is
 * in the guest's first NVDIMM if it has SIZE bytes ($RXE_PMEM_MALLOC) or more.  So a program that knows nothing of device
 * DAX can be judged by crash-states.  If there is no room, the program gets what it would have got.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEVICE	"/dev/dax0.0"
#define PAGE	4096
#define BLOCKS	1024

/* glibc has these for whoever replaces malloc(). */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

/* In the order of their places; what is between them is free. */
static struct block {
	char *start;
	size_t size;	/* with the rest of the last page */
} blocks[BLOCKS];
static unsigned int nr_blocks;
static char *device;
static size_t device_size, threshold = SIZE_MAX;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t size_of_device(int fd)
{
	char path[64], text[32] = "";
	struct stat st;
	ssize_t n = -1;
	int file;

	if (fstat(fd, &st))
		return 0;
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/size", major(st.st_rdev), minor(st.st_rdev));
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file >= 0) {
		n = read(file, text, sizeof(text) - 1);
		close(file);
	}
	return n > 0 ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *wanted = getenv("RXE_PMEM_MALLOC");
	void *map;
	int fd;

	if (!wanted)
		return;
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	device_size = size_of_device(fd);
	map = mmap(NULL, device_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return;
	device = map;
	threshold = strtoull(wanted, NULL, 10);
}

/* Called with the lock; NULL if there is no room. */
static struct block *take(size_t align, size_t size)
{
	char *start = device, *end = device + device_size;
	unsigned int i;

	if (align < PAGE)
		align = PAGE;
	if (size > device_size || nr_blocks == BLOCKS)
		return NULL;
	size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
	for (i = 0; ; i++) {
		char *stop = i < nr_blocks ? blocks[i].start : end;

		start = (char *)(((uintptr_t)start + align - 1) & ~(align - 1));
		if (start <= stop && (size_t)(stop - start) >= size)
			break;
		if (i == nr_blocks)
			return NULL;
		start = blocks[i].start + blocks[i].size;
	}
	memmove(&blocks[i + 1], &blocks[i], (nr_blocks++ - i) * sizeof(*blocks));
	blocks[i] = (struct block){ start, size };
	return &blocks[i];
}

static void give_back(struct block *block)
{
	memmove(block, block + 1, (&blocks[--nr_blocks] - block) * sizeof(*blocks));
}

static struct block *find(const void *p)
{
	for (unsigned int i = 0; i < nr_blocks; i++)
		if (blocks[i].start == p)
			return &blocks[i];
	return NULL;
}

/* Is it in the device?  No lock: this does not change. */
static int is_ours(const void *p)
{
	return device && (const char *)p >= device && (const char *)p < device + device_size;
}

static void *place(size_t align, size_t size)
{
	struct block *block;
	void *p = NULL;

	if (size < threshold)
		return NULL;
	pthread_mutex_lock(&lock);
	block = take(align, size);
	if (block)
		p = block->start;
	pthread_mutex_unlock(&lock);
	return p;
}

void *malloc(size_t size)
{
	void *p = place(1, size);

	return p ? p : __libc_malloc(size);
}

void free(void *p)
{
	struct block *block;

	if (!is_ours(p)) {
		__libc_free(p);
		return;
	}
	pthread_mutex_lock(&lock);
	block = find(p);
	if (block)
		give_back(block);
	pthread_mutex_unlock(&lock);
}

void *memalign(size_t align, size_t size)
{
	void *p = place(align, size);

	return p ? p : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

void *valloc(size_t size)
{
	return memalign(PAGE, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	void *got;

	if (align < sizeof(void *) || (align & (align - 1)))
		return EINVAL;
	got = memalign(align, size);
	if (!got)
		return ENOMEM;
	*p = got;
	return 0;
}

void *calloc(size_t n, size_t size)
{
	size_t total;
	void *p = NULL;

	if (!__builtin_mul_overflow(n, size, &total))
		p = place(1, total);
	return p ? memset(p, 0, total) : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	struct block *block;
	size_t had;
	void *new;

	if (!p)
		return malloc(size);
	/* What grows beyond the threshold stays where it is: how much of it to copy is not known. */
	if (!is_ours(p))
		return __libc_realloc(p, size);
	pthread_mutex_lock(&lock);
	block = find(p);
	had = block ? block->size : 0;
	pthread_mutex_unlock(&lock);
	new = size ? malloc(size) : NULL;
	if (new)
		memcpy(new, p, size < had ? size : had);
	if (new || !size)
		free(p);
	return new;
}

/*
 * The segment is there for others, but in this process it is in the device.  A segment that cannot be there, as it is attached
 * at a given place or cannot be written to, stays what it is.
 */
void *shmat(int shmid, const void *at, int flags)
{
	void *(*next)(int shmid, const void *at, int flags) = dlsym(RTLD_NEXT, "shmat");
	struct shmid_ds info;
	void *p = NULL;

	if (!at && !(flags & SHM_RDONLY) && !shmctl(shmid, IPC_STAT, &info))
		p = place(1, info.shm_segsz);
	if (!p)
		return next(shmid, at, flags);
	memset(p, 0, info.shm_segsz);
	return p;
}

int shmdt(const void *p)
{
	int (*next)(const void *p) = dlsym(RTLD_NEXT, "shmdt");

	if (!is_ours(p))
		return next(p);
	free((void *)p);
	return 0;
}

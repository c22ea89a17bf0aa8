// SPDX-License-Identifier: GPL-2.0
/* Memory of a dma-buf, see dma-buf-memory.h. */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bar_dmabuf.h"
#include "dma-buf-memory.h"

#define PAGE		4096ul
#define PFN_MASK	((1ull << 55) - 1)
#define BARS		6

const char *dmabuf_exporter(void)
{
	const char *exporter = getenv("RXE_DMABUF");

	if (!exporter)
		errx(2, "set RXE_DMABUF to the exporter: udmabuf, heap or bar");
	return exporter;
}

static int open_or_end(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

static int make_udmabuf(size_t len)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = len };
	int device = open_or_end("/dev/udmabuf", O_RDWR), memfd, fd;

	memfd = memfd_create("dma-buf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memfd < 0 || ftruncate(memfd, len) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		err(1, "a memfd for udmabuf");
	create.memfd = memfd;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		err(1, "UDMABUF_CREATE");
	close(memfd);
	close(device);
	return fd;
}

static int make_heap(size_t len)
{
	struct dma_heap_allocation_data data = { .len = len, .fd_flags = O_RDWR | O_CLOEXEC };
	int heap = open_or_end("/dev/dma_heap/system", O_RDONLY);

	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		err(1, "DMA_HEAP_IOCTL_ALLOC");
	close(heap);
	return data.fd;
}

/* ---- Memory of a PCI device ---- */

#define DEVICES		"/sys/bus/pci/devices/"
#define FIRST_NVME	"/sys/class/nvme/nvme0/address"

/* Its address stays, though it may be nvme1 when it comes again. */
const char *dmabuf_device(void)
{
	static char device[16];
	FILE *file;

	if (device[0])
		return device;
	file = fopen(FIRST_NVME, "re");
	if (!file || fscanf(file, "%15s", device) != 1)
		errx(1, "there is no NVMe device: give the guest one with rxe-vm --nvme");
	fclose(file);
	return device;
}

static FILE *open_of_device(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), DEVICES "%s/%s", dmabuf_device(), name);
	file = fopen(path, "r+e") ? : fopen(path, "re");
	if (!file)
		err(1, "%s", path);
	return file;
}

static uint64_t physical(const void *page)
{
	int pagemap = open_or_end("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (pread(pagemap, &entry, sizeof(entry), (uintptr_t)page / PAGE * sizeof(entry)) != sizeof(entry) ||
	    !(entry & PFN_MASK))
		errx(1, "/proc/self/pagemap says nothing of a page of %s: be root", dmabuf_device());
	close(pagemap);
	return (entry & PFN_MASK) * PAGE;
}

/* Which BAR holds this address, and where. */
static void find_in_bars(uint64_t address, struct bar_dmabuf_range *range)
{
	FILE *file = open_of_device("resource");
	uint64_t start, end, flags;

	for (range->bar = 0; range->bar < BARS; range->bar++) {
		if (fscanf(file, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end, &flags) != 3)
			break;
		if (address >= start && address <= end) {
			range->offset[0] = address - start;
			fclose(file);
			return;
		}
	}
	errx(1, "address 0x%" PRIx64 " is in no BAR of %s", address, dmabuf_device());
}

int dmabuf_control(void)
{
	static int control = -1;

	if (control < 0)
		control = open_or_end(BAR_DMABUF, O_RDWR);
	return control;
}

static int export_range(struct bar_dmabuf_range *range)
{
	int fd;

	snprintf(range->device, sizeof(range->device), "%s", dmabuf_device());
	fd = ioctl(dmabuf_control(), BAR_DMABUF_EXPORT, range);
	if (fd < 0)
		err(1, "BAR_DMABUF_EXPORT");
	return fd;
}

static void *pages;

void *dmabuf_pages(void)
{
	return pages;
}

/* Two places of this length, which it can move between.  They are ours as long as they are mapped here. */
static int make_bar(size_t len)
{
	struct bar_dmabuf_range range = { .length = len };
	FILE *file = open_of_device("p2pmem/allocate");

	pages = mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	if (pages == MAP_FAILED)
		err(1, "%zu bytes of memory of %s", 2 * len, dmabuf_device());
	fclose(file);
	find_in_bars(physical(pages), &range);
	range.offset[1] = range.offset[0] + len;
	return export_range(&range);
}

/* ---- The persistent memory region: NVM Express Base Specification 1.4, 3.1 ---- */

#define REGISTERS	4096
#define PMRCAP		0xe00
#define PMRCTL		0xe04
#define PMRSTS		0xe08
#define PMRCAP_BIR(cap)	((cap) >> 5 & 7)
#define PMRCTL_EN	1
#define PMRSTS_NRDY	(1 << 8)

static volatile uint32_t *nvme_register(size_t offset)
{
	static void *registers = MAP_FAILED;

	if (registers == MAP_FAILED) {
		FILE *file = open_of_device("resource0");

		registers = mmap(NULL, REGISTERS, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
		if (registers == MAP_FAILED)
			err(1, "the registers of %s", dmabuf_device());
		fclose(file);
	}
	return (volatile uint32_t *)((char *)registers + offset);
}

static int make_pmr(size_t len)
{
	struct bar_dmabuf_range range = { .length = len };
	uint32_t cap = *nvme_register(PMRCAP);

	if (!PMRCAP_BIR(cap))
		errx(1, "%s has no persistent memory region: give the guest one with rxe-vm --pmr", dmabuf_device());
	*nvme_register(PMRCTL) = PMRCTL_EN;
	while (*nvme_register(PMRSTS) & PMRSTS_NRDY)
		usleep(1000);
	range.bar = PMRCAP_BIR(cap);
	return export_range(&range);
}

int dmabuf_make(const char *exporter, size_t len)
{
	if (!strcmp(exporter, "udmabuf"))
		return make_udmabuf(len);
	if (!strcmp(exporter, "heap"))
		return make_heap(len);
	if (!strcmp(exporter, "bar"))
		return make_bar(len);
	if (!strcmp(exporter, "pmr"))
		return make_pmr(len);
	errx(2, "no exporter \"%s\": choose of udmabuf, heap, bar, pmr", exporter);
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of a dma-buf, by one of these exporters:
 *
 *	udmabuf		pages of a memfd
 *	heap		the kernel's dma-heap "system"
 *	bar		the controller memory buffer of the first NVMe device: pages that its driver offers as peer-to-peer
 *			memory, exported by modules/bar_dmabuf.c
 *	pmr		that device's persistent memory region, by the same module
 */
#ifndef DMA_BUF_MEMORY_H
#define DMA_BUF_MEMORY_H

#include <stddef.h>

/* The exporter that the environment variable RXE_DMABUF names. */
const char *dmabuf_exporter(void);

/* A new dma-buf of @len bytes, as a file descriptor.  What goes wrong ends the program with a message. */
int dmabuf_make(const char *exporter, size_t len);

/* Of the exporter bar: where BAR_DMABUF_MOVE and BAR_DMABUF_REVOKE go; the device, 0000:00:04.0; and */
int dmabuf_control(void);
const char *dmabuf_device(void);
/* the pages of the newest dma-buf, which can be given to read() and write() with O_DIRECT. */
void *dmabuf_pages(void);

/* The dma-buf that the newest end's memory is of, see dma-buf-end.c. */
int dmabuf_of_end(void);

#endif /* DMA_BUF_MEMORY_H */

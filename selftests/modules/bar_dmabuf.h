/* SPDX-License-Identifier: GPL-2.0 */
/* What /dev/bar_dmabuf takes, see bar_dmabuf.c. */
#ifndef BAR_DMABUF_H
#define BAR_DMABUF_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define BAR_DMABUF	"/dev/bar_dmabuf"

struct bar_dmabuf_range {
	char	device[16];	/* of the PCI bus: 0000:00:04.0 */
	__u32	bar;
	__u32	reserved;
	__u64	offset[2];	/* where it is, and where it moves to and back from: twice the same if it does not */
	__u64	length;
};

/* Returns the file descriptor of a dma-buf. */
#define BAR_DMABUF_EXPORT	_IOW('B', 0, struct bar_dmabuf_range)
/* On a dma-buf of this module: move the data to the other place, and spoil what was there; take the memory away for ever. */
#define BAR_DMABUF_MOVE		_IO('B', 1)
#define BAR_DMABUF_REVOKE	_IO('B', 2)

#endif /* BAR_DMABUF_H */

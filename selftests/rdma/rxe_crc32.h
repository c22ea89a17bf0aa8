/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The CRC-32 of Ethernet, zlib and RoCE: polynomial 0x04c11db7, bits reflected.  It stands here
 * once more so that what the kernel computed is checked with code that the kernel does not use.
 * It is not zlib's crc32(), for which everybody who builds the selftests of a kernel would have to
 * install a library more.
 */
#ifndef RXE_CRC32_H
#define RXE_CRC32_H

#include <stddef.h>
#include <linux/types.h>

/*
 * Continue @crc, which is 0 at the start, over @len bytes: crc32(crc32(0, a), b) is the CRC of a
 * followed by b.
 */
static inline __u32 crc32(__u32 crc, const void *data, size_t len)
{
	/* What the polynomial makes of each half byte. */
	static const __u32 table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
		0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	const __u8 *p = data;

	crc = ~crc;
	while (len--) {
		crc ^= *p++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

#endif /* RXE_CRC32_H */

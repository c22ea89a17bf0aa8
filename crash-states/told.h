/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a line of an initiator's standard output stands in the captures: in a frame of its own, which tell-lines
 * broadcasts in the initiator's guest before it passes the line on.  Nothing answers such a frame.
 */
#ifndef TOLD_H
#define TOLD_H

#include <stdint.h>

#define TOLD_ETHERTYPE	0x88b5		/* IEEE 802: for local experiments */
#define TOLD_MAGIC	"rxe-told"
#define TOLD_MAX	1024		/* bytes of a line; of a longer one these are told */
#define TOLD_IN_TIME	0x8000		/* in the length: the write() of the line returned after this */

struct told_head {
	uint8_t to[6], from[6];
	uint16_t ethertype;		/* this and length are in network order */
	char magic[8];
	uint16_t length;		/* of the line, which follows, without its end */
} __attribute__((packed));

#endif /* TOLD_H */

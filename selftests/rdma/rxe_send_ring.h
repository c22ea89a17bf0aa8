/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The send queue of a queue pair, in memory that the kernel shares with the program: only
 * libibverbs keeps a program from writing there what it likes.
 *
 * A test spoils a work request after libibverbs has built the WQE in the ring (ibv_wr_start() and
 * a builder), where send_ring_next() finds it, and before ibv_wr_complete() hands it to the kernel.
 */
#ifndef RXE_SEND_RING_H
#define RXE_SEND_RING_H

#include <rdma/rdma_user_rxe.h>

#include "rxe_end.h"

/* All of the ring that is not in use holds it: where it turns up, something was read too far. */
#define RING_PATTERN	0xa5

struct send_ring {
	struct rxe_queue_buf	*queue;
	/* Its header, which a test may spoil. */
	__u32			index_mask;
	unsigned int		log2_elem_size;
};

/* Find the ring of the QP that was made last in this process, and fill it with the pattern. */
void send_ring_open(struct send_ring *ring);

struct rxe_send_wqe *send_ring_slot(const struct send_ring *ring, __u32 index);
/* The slot that the next work request is built in. */
struct rxe_send_wqe *send_ring_next(const struct send_ring *ring);

/* The queue that was made last in this process, whatever it is for; it is not the only one. */
struct rxe_queue_buf *last_queue(void);

/* Let the kernel look at the ring again. */
void send_ring_doorbell(struct rxe_qp *qp);

#endif /* RXE_SEND_RING_H */

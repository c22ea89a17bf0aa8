// SPDX-License-Identifier: GPL-2.0
/* The send queue in shared memory, see rxe_send_ring.h. */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "rxe_send_ring.h"

struct mapping {
	unsigned long long offset;
	struct rxe_queue_buf *queue;
};

/* Keeps the two mappings of rxe's queues that have the highest offsets in the device's file. */
static void note_mapping(const char *line, struct mapping last[2])
{
	unsigned long long offset;
	unsigned long start;

	if (!strstr(line, "/dev/infiniband/uverbs") ||
	    sscanf(line, "%lx-%*x %*s %llx", &start, &offset) != 2)
		return;
	if (offset > last[0].offset) {
		last[1] = last[0];
		last[0] = (struct mapping) { offset, (void *)start };
	} else if (offset > last[1].offset) {
		last[1] = (struct mapping) { offset, (void *)start };
	}
}

/* rxe gives each queue a higher offset than all before it. */
static void find_last(struct mapping last[2])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	if (!maps)
		err(1, "/proc/self/maps");
	memset(last, 0, 2 * sizeof(*last));
	while (fgets(line, sizeof(line), maps))
		note_mapping(line, last);
	fclose(maps);
	if (!last[0].queue || !last[1].queue)
		errx(1, "no queues of rxe in /proc/self/maps");
}

struct rxe_queue_buf *last_queue(void)
{
	struct mapping last[2];

	find_last(last);
	return last[0].queue;
}

/*
 * The last two are the QP's send and receive queue, and a send WQE is much larger than a receive
 * WQE.
 */
void send_ring_open(struct send_ring *ring)
{
	struct mapping last[2];

	find_last(last);
	ring->queue = last[last[0].queue->log2_elem_size < last[1].queue->log2_elem_size].queue;
	ring->index_mask = ring->queue->index_mask;
	ring->log2_elem_size = ring->queue->log2_elem_size;
	memset(ring->queue->data, RING_PATTERN,
	       ((size_t)ring->index_mask + 1) << ring->log2_elem_size);
}

struct rxe_send_wqe *send_ring_slot(const struct send_ring *ring, __u32 index)
{
	index &= ring->index_mask;
	return (void *)(ring->queue->data + ((size_t)index << ring->log2_elem_size));
}

struct rxe_send_wqe *send_ring_next(const struct send_ring *ring)
{
	return send_ring_slot(ring, ring->queue->producer_index);
}

void send_ring_doorbell(struct rxe_qp *qp)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp->qp);

	/* A list of no work requests: libibverbs stores the producer index that it finds. */
	ibv_wr_start(qpx);
	if (ibv_wr_complete(qpx))
		errx(1, "the kernel refuses the doorbell");
}

// SPDX-License-Identifier: GPL-2.0
/*
 * A device whose memory is in use goes away, again and again: its driver is unbound while two QPs of rxe0 write to that
 * memory, read from it and flush it.  What they ask for then fails with the errors that are documented, nothing
 * succeeds after the driver is unbound, and all can be destroyed.
 *
 *	dma-buf-removal [TIMES]
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dma-buf-memory.h"
#include "rxe_end.h"
#include "rxe_peer.h"

#define DRIVER	"/sys/bus/pci/drivers/nvme/"
#define RIGHTS	(ACCESS_DRAM & ~IBV_ACCESS_MW_BIND)
#define LEAST	20	/* requests before the device goes */
#define PART	3000	/* bytes: three packets, across a page boundary */

struct load {
	struct rxe_end	end;
	struct ibv_mr	*own, *device;
	struct rxe_qp	pair[2];
	atomic_bool	unbound;	/* the driver is */
	atomic_uint	served;
};

/* Takes a while: the driver waits for its device. */
static void tell_driver(const char *file)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	const char *device = dmabuf_device();

	if (fd < 0 || write(fd, device, strlen(device)) != (ssize_t)strlen(device))
		err(1, "%s", file);
	close(fd);
}

static void *unbind(void *arg)
{
	struct load *load = arg;

	while (atomic_load(&load->served) < LEAST)
		usleep(1000);
	usleep(rand() % 20000);
	tell_driver(DRIVER "unbind");
	atomic_store(&load->unbound, true);
	return NULL;
}

/* Both ends of each request are in the device's memory, or one of them, in turn. */
static void post(struct load *load, unsigned int n)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(load->pair[0].qp);
	const __u64 own = (uintptr_t)load->end.memory;
	struct ibv_mr *local = n & 1 ? load->device : load->own;
	__u64 value = n, from = local == load->own ? own : 0;

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	switch (n % 5) {
	case 0:
	case 1:
		ibv_wr_rdma_write(qpx, load->device->rkey, PAGE - 100);
		ibv_wr_set_sge(qpx, local->lkey, from, PART);
		break;
	case 2:
		ibv_wr_rdma_read(qpx, load->device->rkey, PAGE - 100);
		ibv_wr_set_sge(qpx, local->lkey, from, PART);
		break;
	case 3:
		ibv_wr_atomic_write(qpx, load->device->rkey, 8, &value);
		break;
	default:
		ibv_wr_flush(qpx, load->device->rkey, 0, MEMORY_LEN, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	}
	if (ibv_wr_complete(qpx))
		errx(1, "a request cannot be posted");
}

/* Does the QP go on?  What came to be @after the driver was unbound must not succeed. */
static bool completed(struct load *load, bool after)
{
	struct ibv_wc wc;

	if (!rxe_wait_wc(&load->end, &wc, 20000))
		errx(1, "no completion within 20 s");
	switch (wc.status) {
	case IBV_WC_SUCCESS:
		if (after)
			errx(1, "a request succeeded whose memory was gone");
		load->served++;
		return true;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_LOC_PROT_ERR:
		return false;
	default:
		errx(1, "a request ended with \"%s\"", ibv_wc_status_str(wc.status));
	}
}

static void once(unsigned int *served)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct load load = { };
	pthread_t unbinder;
	unsigned int n = 0;
	bool after;
	int fd;

	rxe_open(&load.end, false);
	load.own = rxe_reg_mr(&load.end, 0, MEMORY_LEN, RIGHTS);
	fd = dmabuf_make("bar", MEMORY_LEN);
	load.device = ibv_reg_dmabuf_mr(load.end.pd, 0, MEMORY_LEN, 0, fd, RIGHTS);
	if (!load.own || !load.device)
		err(1, "memory regions");
	close(fd);
	rxe_make_pair(&load.end, &config, load.pair);
	if (pthread_create(&unbinder, NULL, unbind, &load))
		errx(1, "a thread");
	do {
		after = atomic_load(&load.unbound);
		post(&load, n++);
	} while (completed(&load, after));
	pthread_join(unbinder, NULL);
	*served += load.served;
	if (ibv_dereg_mr(load.device))
		errx(1, "the region cannot be deregistered");
	rxe_close(&load.end);
	tell_driver(DRIVER "bind");
}

int main(int argc, char **argv)
{
	unsigned int times = argc > 1 ? atoi(argv[1]) : 10, served = 0, i;

	if (!times || argc > 2)
		errx(2, "usage: dma-buf-removal [TIMES]");
	peer_open();
	for (i = 0; i < times; i++)
		once(&served);
	printf("# the device went %u times, after %u requests\n", times, served);
	return 0;
}

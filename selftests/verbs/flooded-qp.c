// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs enter the error state in the middle of a flood of WRITEs.  The responder then drops the packets that wait,
 * while more of them arrive.
 *
 *	flooded-qp target ADDRESS ROUNDS
 *	flooded-qp initiator ADDRESS ROUNDS
 *
 * Several floods go on side by side, each in ROUNDS queue pairs, one after the other.  When a flood is under way, the
 * target modifies its queue pair to the error state, and waits for the flush of a receive: the responder has seen the
 * state.
 *
 * The memory of a packet may be of a page pool, whose lock enables bottom halves when the packet is freed.  virtio_net
 * of Linux 7.3 does so, that of 6.12 does not.  A CPU that hangs there tells nobody: the target, on another one, panics.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "timeout-scale.h"

#define PORT		"7471"
#define FLOODS		4
#define BLOCK		(64 * 1024)	/* many packets */
#define IN_FLIGHT	32		/* WRITEs of a queue pair */
#define UNDER_WAY	1		/* so many have been executed: most of the first are queued */
#define ACK_TIMEOUT	17		/* 537 ms, as in struct ibv_qp_attr, and */
#define RETRIES		6		/* a flood ends four seconds after the error */
#define SOON		15		/* seconds */

/* What the initiator writes to, in network order as anything private to a connection */
struct region {
	__be64 address;
	__be32 rkey;
};

/* A new one each time: rdma_create_ep() keeps its CQs there. */
static struct ibv_qp_init_attr queues(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = IN_FLIGHT, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
}

static struct rdma_cm_id *listener;	/* of the target */
static pthread_mutex_t listening = PTHREAD_MUTEX_INITIALIZER;
static struct rdma_addrinfo *address;	/* of the target, for the initiator */
static int rounds;
static void (*one_round)(void);	/* of a flood, at this end */

static void tell(const char *path, const char *words)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, words, strlen(words)) < 0)
		warn("%s", path);
}

/* Only the console of the kernel gets out, if CPU 0 hangs. */
static void panic(void)
{
	tell("/dev/kmsg", "flooded-qp: a QP in the error state flushes no receive: does the CPU of its task hang?\n");
	tell("/proc/sysrq-trigger", "l");	/* what the CPUs do */
	tell("/proc/sysrq-trigger", "c");
}

static void wait_for_the_flush(struct rdma_cm_id *id)
{
	const time_t end = time(NULL) + SOON * timeout_scale();
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(id->recv_cq, 1, &wc))) {
		if (time(NULL) > end)
			panic();
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	if (found < 0 || wc.status != IBV_WC_WR_FLUSH_ERR)
		errx(1, "a receive ends with: %s", found < 0 ? "no completion" : ibv_wc_status_str(wc.status));
}

static void accept_and_stop(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct region region;
	struct rdma_conn_param param = {
		.private_data = &region, .private_data_len = sizeof(region),
		.responder_resources = 1, .initiator_depth = 1,
	};
	volatile char *memory = calloc(1, BLOCK);
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	/* The listener belongs to one thread at a time. */
	pthread_mutex_lock(&listening);
	if (rdma_get_request(listener, &id))
		err(2, "rdma_get_request");
	pthread_mutex_unlock(&listening);
	mr = memory ? rdma_reg_write(id, (void *)memory, BLOCK) : NULL;
	if (!mr || rdma_post_recv(id, NULL, (void *)memory, 1, mr))
		err(2, "memory");
	region.address = htobe64((uintptr_t)memory);
	region.rkey = htobe32(mr->rkey);
	if (rdma_accept(id, &param))
		err(2, "rdma_accept");
	while (memory[BLOCK - 1] < UNDER_WAY)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	if (ibv_modify_qp(id->qp, &attr, IBV_QP_STATE))
		err(2, "ibv_modify_qp");
	wait_for_the_flush(id);
	rdma_destroy_ep(id);
	rdma_dereg_mr(mr);
	free((void *)memory);
}

static void flood_until_stopped(void)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = RETRIES };
	struct ibv_qp_init_attr attr = queues();
	char *memory = calloc(1, BLOCK);	/* its last byte counts the WRITEs, up to UNDER_WAY */
	__u8 timeout = ACK_TIMEOUT;
	struct rdma_cm_id *id;
	struct region region;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	int posted = 0;

	if (rdma_create_ep(&id, address, NULL, &attr) ||
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)) ||
	    rdma_connect(id, &param))
		err(2, "cannot connect");
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));
	mr = memory ? rdma_reg_msgs(id, memory, BLOCK) : NULL;
	if (!mr)
		err(2, "memory");
	do {
		while (posted < IN_FLIGHT) {
			if (rdma_post_write(id, NULL, memory, BLOCK, mr, IBV_SEND_SIGNALED,
					    be64toh(region.address), be32toh(region.rkey)))
				err(2, "rdma_post_write");
			posted++;
		}
		if (rdma_get_send_comp(id, &wc) != 1)
			err(2, "rdma_get_send_comp");
		posted--;
		if (!wc.status && memory[BLOCK - 1] < UNDER_WAY)
			memory[BLOCK - 1]++;
	} while (!wc.status);
	if (memory[BLOCK - 1] < UNDER_WAY || wc.status != IBV_WC_RETRY_EXC_ERR)
		errx(1, "after %d WRITEs one ends with: %s", memory[BLOCK - 1], ibv_wc_status_str(wc.status));
	rdma_destroy_ep(id);
	rdma_dereg_mr(mr);
	free(memory);
}

static void *run_flood(void *unused)
{
	int i;

	for (i = 0; i < rounds; i++)
		one_round();
	return unused;
}

int main(int argc, char **argv)
{
	const bool is_target = argc == 4 && !strcmp(argv[1], "target");
	struct rdma_addrinfo hints = { .ai_flags = is_target ? RAI_PASSIVE : 0, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = queues();
	pthread_t threads[FLOODS];
	cpu_set_t cpu;
	int i;

	rounds = argc == 4 ? atoi(argv[3]) : 0;
	if (rounds < 1 || (!is_target && strcmp(argv[1], "initiator")))
		errx(2, "usage: flooded-qp target|initiator ADDRESS ROUNDS");
	if (rdma_getaddrinfo(argv[2], PORT, &hints, &address))
		err(2, "%s", argv[2]);
	if (is_target && (rdma_create_ep(&listener, address, NULL, &attr) || rdma_listen(listener, FLOODS)))
		err(2, "cannot listen on %s", argv[2]);
	/* Its timers are those of its CPU. */
	CPU_ZERO(&cpu);
	CPU_SET(1, &cpu);
	if (is_target && sched_setaffinity(0, sizeof(cpu), &cpu))
		err(2, "no CPU 1");
	one_round = is_target ? accept_and_stop : flood_until_stopped;
	for (i = 0; i < FLOODS; i++) {
		errno = pthread_create(&threads[i], NULL, run_flood, NULL);
		if (errno)
			err(2, "pthread_create");
	}
	for (i = 0; i < FLOODS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The target of the benchmark: lends persistent memory to bench-client, and is the daemon of the
 * method that needs one.
 *
 *	bench-target ADDRESS DEVDAX
 *
 * Serves one bench-client on ADDRESS, and ends with it.
 */
#include <cpuid.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "remote-log.h"

#define MAX_QPS		64
#define RECEIVES	16	/* messages on their way to the daemon */
#define CACHE_LINE	64
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_FLUSH_GLOBAL | \
			 IBV_ACCESS_FLUSH_PERSISTENT)

struct target {
	struct end end;
	char *memory;
	size_t size;
	struct ibv_qp *qps[MAX_QPS];
	unsigned int nr_qps;
	struct bench_message messages[RECEIVES], answer;
	struct ibv_mr *messages_mr, *answer_mr;
};

/* --- Durable as libpmem does it: write back the cache lines, then a fence --- */

__attribute__((target("clwb")))
static void write_back_clwb(char *line, const char *end)
{
	for (; line < end; line += CACHE_LINE)
		_mm_clwb(line);
}

__attribute__((target("clflushopt")))
static void write_back_clflushopt(char *line, const char *end)
{
	for (; line < end; line += CACHE_LINE)
		_mm_clflushopt(line);
}

static void (*write_back)(char *line, const char *end);

static void choose_write_back(void)
{
	unsigned int eax, ebx = 0, ecx, edx;

	__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
	if (ebx & bit_CLWB)
		write_back = write_back_clwb;
	else if (ebx & bit_CLFLUSHOPT)
		write_back = write_back_clflushopt;
	else
		errx(1, "this CPU has neither CLWB nor CLFLUSHOPT");
}

static void persist(void *data, size_t size)
{
	write_back((char *)((uintptr_t)data & -(uintptr_t)CACHE_LINE), (char *)data + size);
	_mm_sfence();
}

/* --- The daemon --- */

static void post_receive(struct target *target, struct ibv_qp *qp, __u64 slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&target->messages[slot],
		.length = sizeof(target->messages[slot]),
		.lkey = target->messages_mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(qp, &wr, &bad))
		errx(1, "ibv_post_recv");
}

/* Soft-RoCE frees the queue's entry when the request is done: nothing has to be signaled. */
static void answer(struct target *target, struct ibv_qp *qp)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&target->answer,
		.length = sizeof(target->answer),
		.lkey = target->answer_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_send(qp, &wr, &bad))
		errx(1, "ibv_post_send");
}

/* Record first, then the pointer to it, as the client's requests do it where there is no daemon. */
static void make_durable(struct target *target, const struct bench_message *message)
{
	__u64 *pointer = (__u64 *)(target->memory + BENCH_POINTER);

	persist(target->memory + message->record, message->size);
	__atomic_store_n(pointer, message->pointer, __ATOMIC_RELEASE);
	persist(pointer, sizeof(*pointer));
}

static void serve(struct target *target, struct ibv_qp *qp, unsigned int count)
{
	struct ibv_wc wc;

	while (count--) {
		wc = end_completion(&target->end);
		if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV)
			errx(1, "the daemon's receive: %s", ibv_wc_status_str(wc.status));
		make_durable(target, &target->messages[wc.wr_id]);
		target->answer = target->messages[wc.wr_id];
		post_receive(target, qp, wc.wr_id);
		answer(target, qp);
	}
}

/* --- What the client asks for --- */

static void connect_as_asked(struct target *target, const struct bench_ask *ask,
			     struct bench_told *told)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = target->end.cq,
		.recv_cq = target->end.cq,
		.cap = { .max_send_wr = RECEIVES, .max_recv_wr = RECEIVES, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	__u64 slot;

	if (ask->size > target->size)
		errx(1, "the device has only %zu bytes, not %llu", target->size, ask->size);
	if (target->nr_qps == MAX_QPS)
		errx(1, "the client wants more than %d QPs", MAX_QPS);
	mr = ibv_reg_mr(target->end.pd, target->memory, ask->size, ACCESS);
	if (!mr) {
		told->error = errno;
		return;
	}
	qp = ibv_create_qp(target->end.pd, &attr);
	if (!qp)
		err(1, "ibv_create_qp");
	end_connect_qp(&target->end, qp, END_QP_ACCESS | IBV_ACCESS_REMOTE_READ, &ask->address);
	for (slot = 0; slot < RECEIVES; slot++)
		post_receive(target, qp, slot);
	target->qps[target->nr_qps++] = qp;
	told->address = end_address(&target->end, qp);
	told->addr = (uintptr_t)target->memory;
	told->rkey = mr->rkey;
}

static bool is_wrong(const struct target *target, const struct bench_ask *ask)
{
	const __u64 *word = (const __u64 *)(target->memory + BENCH_RECORDS);
	__u32 n;
	size_t i;

	if (ask->pointer &&
	    *(const __u64 *)(target->memory + BENCH_POINTER) != ask->first + ask->count - 1)
		return true;
	for (n = 0; ask->records && n < ask->count; n++)
		for (i = 0; i < ask->size / sizeof(*word); i++)
			if (*word++ != bench_word(ask->first + n, i))
				return true;
	return false;
}

int main(int argc, char **argv)
{
	static struct target target;
	struct bench_ask ask, batch = {};
	__u64 busy = 0;
	int fd;

	if (argc != 3)
		errx(1, "usage: bench-target ADDRESS DEVDAX");
	choose_write_back();
	bench_count_cpu();
	end_open(&target.end);
	target.end.timeout = BENCH_TIMEOUT;
	target.memory = log_map(argv[2], O_RDWR, &target.size);
	target.messages_mr = ibv_reg_mr(target.end.pd, target.messages, sizeof(target.messages),
					IBV_ACCESS_LOCAL_WRITE);
	target.answer_mr = ibv_reg_mr(target.end.pd, &target.answer, sizeof(target.answer), 0);
	if (!target.messages_mr || !target.answer_mr)
		err(1, "ibv_reg_mr");

	fd = end_serve(argv[1]);
	while (end_receive(fd, &ask, sizeof(ask))) {
		struct bench_told told = {};

		switch (ask.what) {
		case BENCH_CONNECT:
			connect_as_asked(&target, &ask, &told);
			end_send(fd, &told, sizeof(told));
			break;
		case BENCH_BEGIN:
			batch = ask;
			end_send(fd, &told, sizeof(told));
			busy = bench_busy();
			if (batch.serve)
				serve(&target, target.qps[batch.qp], batch.count);
			break;
		case BENCH_END:
			told.busy = bench_busy() - busy;
			told.wrong = is_wrong(&target, &batch);
			end_send(fd, &told, sizeof(told));
			break;
		}
	}
	return 0;
}

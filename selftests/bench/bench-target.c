// SPDX-License-Identifier: GPL-2.0
/*
 * The target of the benchmark: lends persistent memory to bench-client, is the daemon of the
 * methods that need one, and keeps its CPUs as busy as it is asked to.
 *
 *	bench-target [--count-cpu | --last-cpu] ADDRESS DEVDAX
 *
 * With --last-cpu the daemon keeps to the last CPU.  What the driver does for a packet stays where the
 * packet arrived.
 *
 * Serves one bench-client on ADDRESS, and ends with it.
 */
#include <arpa/inet.h>
#include <cpuid.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "remote-log.h"

#define MAX_QPS		1024
#define RECEIVES	8	/* messages of one client to the daemon at once */
#define CACHE_LINE	64
#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_FLUSH_GLOBAL | \
			 IBV_ACCESS_FLUSH_PERSISTENT)

struct target {
	struct end end;
	char *memory;
	size_t size;
	struct connection {
		struct ibv_qp *qp;
		struct bench_message messages[RECEIVES], answers[RECEIVES];
		/* That come with the messages, of @record_size each; or none */
		char *records;
		size_t record_size;
		struct ibv_mr *records_mr;
	} connections[MAX_QPS];
	unsigned int nr_connections;
	struct ibv_mr *connections_mr;
	pid_t *programs;	/* that keep the CPUs busy */
	unsigned int nr_programs;
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

static char *record_of(const struct connection *connection, unsigned int slot)
{
	return connection->records + slot * connection->record_size;
}

static void post_receive(struct target *target, struct connection *connection, unsigned int slot)
{
	struct bench_message *message = &connection->messages[slot];
	struct ibv_sge parts[] = {
		{ (uintptr_t)message, sizeof(*message), target->connections_mr->lkey },
		{},
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = (connection - target->connections) * RECEIVES + slot,
		.sg_list = parts,
		.num_sge = 1,
	};

	if (connection->record_size) {
		parts[wr.num_sge++] = (struct ibv_sge){
			.addr = (uintptr_t)record_of(connection, slot),
			.length = connection->record_size,
			.lkey = connection->records_mr->lkey,
		};
	}
	if (ibv_post_recv(connection->qp, &wr, &bad))
		errx(1, "ibv_post_recv");
}

/* Soft-RoCE frees the queue's entry when the request is done, so nothing has to be signaled. */
static void answer(struct target *target, struct connection *connection, unsigned int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&connection->answers[slot],
		.length = sizeof(connection->answers[slot]),
		.lkey = target->connections_mr->lkey,
	};
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_send(connection->qp, &wr, &bad))
		errx(1, "ibv_post_send");
}

/* Record first, then the pointer to it, as the client's requests do it where there is no daemon. */
static void make_durable(struct target *target, const struct bench_message *message)
{
	__u64 *pointer = (__u64 *)(target->memory + message->pointer);

	persist(target->memory + message->record, message->size);
	__atomic_store_n(pointer, message->number, __ATOMIC_RELEASE);
	persist(pointer, sizeof(*pointer));
}

/* What a SEND would have said of the @nth append of a batch */
static struct bench_message message_of(const struct bench_ask *batch, __u32 nth)
{
	__u32 client = nth % batch->clients;

	return (struct bench_message){
		.record = bench_record(client, batch->count, batch->size, nth / batch->clients),
		.size = batch->size,
		.pointer = bench_log(client, batch->count, batch->size) + BENCH_POINTER,
		.number = batch->first + nth,
	};
}

/* One daemon, and one thread of it, for all clients. */
static void serve(struct target *target, const struct bench_ask *batch)
{
	__u32 left = batch->clients * batch->count;
	struct connection *connection;
	struct bench_message *message;
	unsigned int slot;
	struct ibv_wc wc;

	while (left--) {
		wc = batch->daemon == BENCH_POLLS ? bench_poll(&target->end)
						  : end_completion(&target->end);
		if (wc.status != IBV_WC_SUCCESS || !(wc.opcode & IBV_WC_RECV))
			errx(1, "the daemon's receive: %s", ibv_wc_status_str(wc.status));
		connection = &target->connections[wc.wr_id / RECEIVES];
		slot = wc.wr_id % RECEIVES;
		message = &connection->messages[slot];
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			*message = message_of(batch, ntohl(wc.imm_data));
		else if (connection->record_size)
			memcpy(target->memory + message->record, record_of(connection, slot),
			       message->size);
		make_durable(target, message);
		connection->answers[slot] = *message;
		post_receive(target, connection, slot);
		answer(target, connection, slot);
	}
}

/* --- Programs that keep the CPUs busy --- */

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "a program on CPU %d", cpu);
}

static pid_t start_program(int cpu)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid)
		return pid;
	run_on(cpu);
	if (prctl(PR_SET_NAME, "busy-program") || prctl(PR_SET_PDEATHSIG, SIGKILL))
		err(1, "prctl");
	/* It may have died before it could send that signal. */
	while (getppid() == parent)
		for (volatile int i = 0; i < 1000000; i++)
			;
	exit(0);
}

/* @count programs for each CPU. */
static void keep_busy(struct target *target, unsigned int count)
{
	unsigned int cpus = sysconf(_SC_NPROCESSORS_ONLN), i;

	for (i = 0; i < target->nr_programs; i++)
		if (kill(target->programs[i], SIGKILL) || waitpid(target->programs[i], NULL, 0) < 0)
			err(1, "a program that kept a CPU busy");
	free(target->programs);
	target->nr_programs = count * cpus;
	target->programs = calloc(target->nr_programs + 1, sizeof(*target->programs));
	if (!target->programs)
		err(1, "memory");
	for (i = 0; i < target->nr_programs; i++)
		target->programs[i] = start_program(i % cpus);
}

/* --- What the client asks for --- */

/* Where records come to that messages bring */
static void lend_records(struct target *target, struct connection *connection)
{
	size_t size = RECEIVES * connection->record_size;

	connection->records = malloc(size);
	if (!connection->records)
		err(1, "memory");
	connection->records_mr = ibv_reg_mr(target->end.pd, connection->records, size,
					    IBV_ACCESS_LOCAL_WRITE);
	if (!connection->records_mr)
		err(1, "ibv_reg_mr");
}

static void connect_as_asked(struct target *target, const struct bench_ask *ask,
			     struct bench_told *told)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = target->end.cq,
		.recv_cq = target->end.cq,
		.cap = { .max_send_wr = RECEIVES, .max_recv_wr = RECEIVES, .max_send_sge = 1,
			 .max_recv_sge = 2 },
		.qp_type = IBV_QPT_RC,
	};
	struct connection *connection;
	struct ibv_mr *mr;
	unsigned int slot;

	if (ask->size > target->size)
		errx(1, "the device has only %zu bytes, not %llu", target->size, ask->size);
	if (target->nr_connections == MAX_QPS)
		errx(1, "the client wants more than %d QPs", MAX_QPS);
	mr = ibv_reg_mr(target->end.pd, target->memory, ask->size, ACCESS);
	if (!mr) {
		told->error = errno;
		return;
	}
	connection = &target->connections[target->nr_connections++];
	connection->record_size = ask->message;
	if (connection->record_size)
		lend_records(target, connection);
	connection->qp = ibv_create_qp(target->end.pd, &attr);
	if (!connection->qp)
		err(1, "ibv_create_qp");
	end_connect_qp(&target->end, connection->qp, END_QP_ACCESS | IBV_ACCESS_REMOTE_READ,
		       &ask->address);
	for (slot = 0; slot < RECEIVES; slot++)
		post_receive(target, connection, slot);
	told->address = end_address(&target->end, connection->qp);
	told->addr = (uintptr_t)target->memory;
	told->rkey = mr->rkey;
}

static bool log_is_wrong(const struct target *target, const struct bench_ask *ask, __u32 client)
{
	const char *log = target->memory + bench_log(client, ask->count, ask->size);
	const __u64 *word = (const __u64 *)(log + BENCH_RECORDS);
	__u32 n, number = ask->first + client;
	size_t i;

	for (n = 0; n < ask->count; n++, number += ask->clients)
		for (i = 0; ask->records && i < ask->size / sizeof(*word); i++)
			if (*word++ != bench_word(number, i))
				return true;
	return ask->pointer && *(const __u64 *)(log + BENCH_POINTER) != number - ask->clients;
}

static bool is_wrong(const struct target *target, const struct bench_ask *ask)
{
	__u32 client;

	for (client = 0; client < ask->clients; client++)
		if (log_is_wrong(target, ask, client))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	static struct target target;
	struct bench_ask ask, batch = {};
	__u64 busy = 0;
	int fd;

	if (argc > 1 && !strcmp(argv[1], "--count-cpu")) {
		bench_count_cpu();
		argc--;
		argv++;
	} else if (argc > 1 && !strcmp(argv[1], "--last-cpu")) {
		run_on(sysconf(_SC_NPROCESSORS_ONLN) - 1);
		argc--;
		argv++;
	}
	if (argc != 3)
		errx(2, "usage: bench-target [--count-cpu | --last-cpu] ADDRESS DEVDAX");
	choose_write_back();
	end_open(&target.end);
	target.end.timeout = BENCH_TIMEOUT;
	target.memory = log_map(argv[2], O_RDWR, &target.size);
	target.connections_mr = ibv_reg_mr(target.end.pd, target.connections,
					   sizeof(target.connections), IBV_ACCESS_LOCAL_WRITE);
	if (!target.connections_mr)
		err(1, "ibv_reg_mr");

	fd = end_serve(argv[1]);
	while (end_receive(fd, &ask, sizeof(ask))) {
		struct bench_told told = {};

		switch (ask.what) {
		case BENCH_CONNECT:
			connect_as_asked(&target, &ask, &told);
			end_send(fd, &told, sizeof(told));
			break;
		case BENCH_CONDITION:
			keep_busy(&target, ask.busy);
			bench_delay(ask.delay);
			end_send(fd, &told, sizeof(told));
			break;
		case BENCH_BEGIN:
			batch = ask;
			end_send(fd, &told, sizeof(told));
			busy = bench_busy();
			if (batch.daemon)
				serve(&target, &batch);
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

// SPDX-License-Identifier: GPL-2.0
/*
 * A log whose target makes durable by its CPU what it is sent, for crash-states: a server of today, whose NIC has no
 * FLUSH.
 *
 *	daemon-log target ADDRESS DEVICE RECORDS MISTAKE	none, no-clwb, no-fence or late-fence
 *	daemon-log initiator ADDRESS RECORDS
 *
 * The layout is that of first-log: the tail is at offset 0, and record i, of 8 words that are i + 1, at 64 * (i + 1).  The
 * initiator stores a record of an even number by WRITE, and sends one of an odd number; the daemon stores this one.  Then
 * it writes the record back, stores the tail, writes that back, and answers.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PORT	"7475"
#define SIZE	(2 << 20)
#define WORDS	8		/* of a record, which is a cache line */
#define MOST	(SIZE / 64 - 1)

struct record {
	uint64_t word[WORDS];
};

/* What the target tells. */
struct region {
	uint64_t addr;
	uint32_t rkey;
};

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info) || rdma_create_ep(&id, info, NULL, &attr))
		err(1, "%s", address);
	rdma_freeaddrinfo(info);
	return id;
}

static void received(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	if (rdma_get_recv_comp(id, wc) != 1)
		err(1, "rdma_get_recv_comp");
	if (wc->status != IBV_WC_SUCCESS)
		errx(1, "receive: %s", ibv_wc_status_str(wc->status));
}

static void sent(struct rdma_cm_id *id, unsigned int requests)
{
	struct ibv_wc wc;

	for (; requests; requests--) {
		if (rdma_get_send_comp(id, &wc) != 1)
			err(1, "rdma_get_send_comp");
		if (wc.status != IBV_WC_SUCCESS)
			errx(1, "send: %s", ibv_wc_status_str(wc.status));
	}
}

static void clwb(void *line)
{
	asm volatile("clwb %0" : "+m"(*(struct record *)line));
}

static void sfence(void)
{
	asm volatile("sfence" ::: "memory");
}

/* Record @n is durable before the tail counts it. */
static void append(struct record *memory, uint64_t n, const struct record *message, const char *mistake)
{
	struct record *record = &memory[n + 1];

	if (message)
		*record = *message;
	if (strcmp(mistake, "no-clwb"))
		clwb(record);
	if (strcmp(mistake, "no-fence"))
		sfence();
	*(volatile uint64_t *)memory->word = n + 1;
	clwb(memory);
	if (strcmp(mistake, "late-fence"))
		sfence();
}

static void target(const char *address, const char *device, uint64_t records, const char *mistake)
{
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	static struct record message;
	int fd = open(device, O_RDWR);
	struct record *memory;
	struct region region;
	struct ibv_mr *mr, *buffer;
	struct ibv_wc wc;

	if (fd < 0)
		err(1, "%s", device);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "%s", device);
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "no initiator");
	mr = rdma_reg_write(id, memory, SIZE);
	buffer = rdma_reg_msgs(id, &message, sizeof(message));
	if (!mr || !buffer)
		err(1, "ibv_reg_mr");
	region = (struct region){ .addr = (uintptr_t)memory, .rkey = mr->rkey };
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	if (rdma_post_recv(id, NULL, &message, sizeof(message), buffer) || rdma_accept(id, &param))
		err(1, "rdma_accept");
	for (uint64_t n = 0; n < records; n++) {
		received(id, &wc);
		append(memory, n, wc.byte_len ? &message : NULL, mistake);
		if (n + 1 < records && rdma_post_recv(id, NULL, &message, sizeof(message), buffer))
			err(1, "rdma_post_recv");
		if (rdma_post_sendv(id, NULL, NULL, 0, 0))
			err(1, "rdma_post_sendv");
		sent(id, 1);
		if (!strcmp(mistake, "late-fence"))
			sfence();
	}
	printf("the tail is %" PRIu64 "\n", memory->word[0]);
}

static void initiator(const char *address, uint64_t records)
{
	struct rdma_conn_param param = { .retry_count = 6 };
	struct rdma_cm_id *id = endpoint(address, 0);
	static struct record record;
	struct region log;
	struct ibv_mr *mr = rdma_reg_msgs(id, &record, sizeof(record));
	struct ibv_wc wc;

	if (!mr || rdma_connect(id, &param))
		err(1, "%s", address);
	memcpy(&log, id->event->param.conn.private_data, sizeof(log));
	setvbuf(stdout, NULL, _IOLBF, 0);	/* a promise counts when it is out */
	for (uint64_t n = 0; n < records; n++) {
		bool by_write = !(n % 2);

		for (unsigned int i = 0; i < WORDS; i++)
			record.word[i] = n + 1;
		if (rdma_post_recvv(id, NULL, NULL, 0) ||
		    (by_write && rdma_post_write(id, NULL, &record, sizeof(record), mr, 0, log.addr + sizeof(record) * (n + 1),
						 log.rkey)) ||
		    rdma_post_send(id, NULL, &record, by_write ? 0 : sizeof(record), mr, 0))
			err(1, "record %" PRIu64, n);
		sent(id, 1 + by_write);
		received(id, &wc);
		printf("record %" PRIu64 " is durable\n", n);
	}
}

int main(int argc, char **argv)
{
	const bool is_target = argc == 6 && !strcmp(argv[1], "target");
	const char *count = is_target ? argv[4] : argc == 4 ? argv[3] : "";
	char *end;
	uint64_t records = strtoull(count, &end, 10);

	if (!records || *end || records > MOST || (!is_target && strcmp(argv[1], "initiator")))
		errx(1, "usage: daemon-log target ADDRESS DEVICE RECORDS MISTAKE | daemon-log initiator ADDRESS RECORDS (1 to %d)",
		     MOST);
	if (is_target)
		target(argv[2], argv[3], records, argv[5]);
	else
		initiator(argv[2], records);
	return 0;
}

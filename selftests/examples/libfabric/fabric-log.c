// SPDX-License-Identifier: GPL-2.0
/*
 * The log of first-log.c, by libfabric; first-log-survives.c is its checker, too.
 *
 *	fabric-log target ADDRESS DEVICE		lends the memory, such as /dev/dax0.0, and prints the tail in the end
 *	fabric-log initiator ADDRESS RECORDS [CALL]	appends records, one by one
 *
 * CALL is what a record is stored by: writemsg (default), write, writev or writedata; the tail is stored by
 * fi_atomicmsg().  All complete when the data is durable.  With CALL transmit the record need not be: the provider says
 * only that the target has got it.
 *
 * It needs a provider with FI_COMMIT_COMPLETE, such as verbs with the series of this project (`make libfabric`):
 *
 *	cc -o fabric-log fabric-log.c -lfabric
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PORT	"7475"
#define SIZE	(2 << 20)
#define RECORD	64
#define MOST	(SIZE / RECORD - 1)

/* What the target tells: where its memory is, and by which key it can be reached. */
struct region {
	uint64_t addr;
	uint64_t key;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *events;
static struct fid_cq *completions;
static struct fid_ep *ep;

static void must(int ret, const char *what)
{
	if (ret < 0)
		errx(1, "%s: %s", what, fi_strerror(-ret));
}

/* Without FI_RMA_PMEM a provider may take FI_COMMIT_COMPLETE and mean nothing by it. */
static void find_provider(const char *address, uint64_t flags, uint64_t op_flags)
{
	const char *provider = getenv("FI_PROVIDER");
	struct fi_info *hints = fi_allocinfo();
	int ret;

	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_PMEM;
	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->tx_attr->op_flags = op_flags;
	hints->fabric_attr->prov_name = strdup(provider ? provider : "verbs");
	ret = fi_getinfo(FI_VERSION(2, 1), address, PORT, flags, hints, &info);
	if (ret == -FI_ENODATA)
		errx(1, "%s offers no FI_RMA_PMEM at %s", hints->fabric_attr->prov_name, address);
	must(ret, "fi_getinfo");
	fi_freeinfo(hints);
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	must(fi_eq_open(fabric, &(struct fi_eq_attr){ .wait_obj = FI_WAIT_UNSPEC }, &events, NULL), "fi_eq_open");
}

static void open_endpoint(struct fi_info *of)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };

	must(fi_domain(fabric, of, &domain, NULL), "fi_domain");
	must(fi_cq_open(domain, &attr, &completions, NULL), "fi_cq_open");
	must(fi_endpoint(domain, of, &ep, NULL), "fi_endpoint");
	must(fi_ep_bind(ep, &events->fid, 0), "fi_ep_bind");
	must(fi_ep_bind(ep, &completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	must(fi_enable(ep), "fi_enable");
}

/* Wait for an event of the connection. */
static struct fi_eq_cm_entry *event(uint32_t expected)
{
	static char buffer[sizeof(struct fi_eq_cm_entry) + 256];
	struct fi_eq_err_entry error = {};
	uint32_t got;
	ssize_t ret = fi_eq_sread(events, &got, buffer, sizeof(buffer), -1, 0);

	if (ret == -FI_EAVAIL && fi_eq_readerr(events, &error, 0) > 0)
		errx(1, "no connection: %s", fi_strerror(error.err));
	must(ret, "fi_eq_sread");
	if (got != expected)
		errx(1, "the connection is gone");
	return (struct fi_eq_cm_entry *)buffer;
}

/* Wait for an operation to be done. */
static void completed(void)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_data_entry entry;
	ssize_t ret = fi_cq_sread(completions, &entry, 1, NULL, -1);

	if (ret == -FI_EAVAIL && fi_cq_readerr(completions, &error, 0) > 0)
		errx(1, "%s: %s", fi_strerror(error.err), fi_cq_strerror(completions, error.prov_errno, NULL, NULL, 0));
	must(ret, "fi_cq_sread");
}

static void target(const char *address, const char *device)
{
	int fd = open(device, O_RDWR);
	struct region region;
	struct fid_pep *listener;
	struct fid_mr *mr;
	uint64_t *memory;

	if (fd < 0)
		err(1, "%s", device);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "%s", device);
	find_provider(address, FI_SOURCE, 0);
	must(fi_passive_ep(fabric, info, &listener, NULL), "fi_passive_ep");
	must(fi_pep_bind(listener, &events->fid, 0), "fi_pep_bind");
	must(fi_listen(listener), "fi_listen");
	open_endpoint(event(FI_CONNREQ)->info);
	must(fi_mr_reg(domain, memory, SIZE, FI_REMOTE_WRITE, 0, 0, FI_RMA_PMEM, &mr, NULL), "fi_mr_reg");
	region = (struct region){ .addr = (uintptr_t)memory, .key = fi_mr_key(mr) };
	/* Remote CQ data takes a receive. */
	for (int i = 0; i < 64; i++)
		must(fi_recv(ep, NULL, 0, NULL, 0, NULL), "fi_recv");
	must(fi_accept(ep, &region, sizeof(region)), "fi_accept");
	event(FI_CONNECTED);
	event(FI_SHUTDOWN);
	printf("the tail is %" PRIu64 "\n", *memory);
}

/* append-begin */
static void store_record(const char *call, uint64_t *record, void *desc, uint64_t to, uint64_t key)
{
	struct iovec iov = { .iov_base = record, .iov_len = RECORD };
	struct fi_rma_iov rma = { .addr = to, .len = RECORD, .key = key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1,
	};
	uint64_t durable = strcmp(call, "transmit") ? FI_COMMIT_COMPLETE : FI_TRANSMIT_COMPLETE;

	if (!strcmp(call, "write"))
		must(fi_write(ep, record, RECORD, desc, 0, to, key, NULL), call);
	else if (!strcmp(call, "writev"))
		must(fi_writev(ep, &iov, &desc, 1, 0, to, key, NULL), call);
	else if (!strcmp(call, "writedata"))
		must(fi_writedata(ep, record, RECORD, desc, 0, 0, to, key, NULL), call);
	else
		must(fi_writemsg(ep, &msg, FI_COMPLETION | durable), call);
}

static void store_tail(uint64_t *tail, void *desc, const struct region *log)
{
	struct fi_rma_ioc rma = { .addr = log->addr, .count = 1, .key = log->key };
	struct fi_ioc ioc = { .addr = tail, .count = 1 };
	struct fi_msg_atomic msg = {
		.msg_iov = &ioc, .desc = &desc, .iov_count = 1, .rma_iov = &rma, .rma_iov_count = 1,
		.datatype = FI_UINT64, .op = FI_ATOMIC_WRITE,
	};

	must(fi_atomicmsg(ep, &msg, FI_COMPLETION | FI_COMMIT_COMPLETE), "fi_atomicmsg");
}
/* append-end */

static void initiator(const char *address, unsigned long records, const char *call)
{
	/* Those without flags take the endpoint's. */
	const int by_default = !strcmp(call, "write") || !strcmp(call, "writev") || !strcmp(call, "writedata");
	static uint64_t words[RECORD / 8 + 1];
	uint64_t *tail = words + RECORD / 8;
	struct region log;
	struct fid_mr *mr;

	find_provider(address, 0, by_default ? FI_COMMIT_COMPLETE : 0);
	open_endpoint(info);
	must(fi_mr_reg(domain, words, sizeof(words), FI_WRITE, 0, 0, 0, &mr, NULL), "fi_mr_reg");
	must(fi_connect(ep, info->dest_addr, NULL, 0), "fi_connect");
	memcpy(&log, event(FI_CONNECTED)->data, sizeof(log));
	setvbuf(stdout, NULL, _IOLBF, 0);	/* a promise counts when it is out */
	for (unsigned long i = 0; i < records; i++) {
		for (int word = 0; word <= RECORD / 8; word++)
			words[word] = i + 1;
		store_record(call, words, fi_mr_desc(mr), log.addr + RECORD * (i + 1), log.key);
		completed();
		store_tail(tail, fi_mr_desc(mr), &log);
		completed();
		printf("record %lu is durable\n", i);
	}
	must(fi_shutdown(ep, 0), "fi_shutdown");
}

int main(int argc, char **argv)
{
	const char *calls = " writemsg write writev writedata transmit ", *call = argc == 5 ? argv[4] : "writemsg";
	unsigned long records = 0;
	char *end = "";

	if (argc > 3 && !strcmp(argv[1], "initiator"))
		records = strtoul(argv[3], &end, 10);
	if (argc == 4 && !strcmp(argv[1], "target"))
		target(argv[2], argv[3]);
	else if (records && !*end && records <= MOST && strstr(calls, call))
		initiator(argv[2], records, call);
	else
		errx(1, "usage: fabric-log target ADDRESS DEVICE | fabric-log initiator ADDRESS RECORDS (1 to %d) [CALL]", MOST);
	return 0;
}

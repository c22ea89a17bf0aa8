// SPDX-License-Identifier: GPL-2.0
/*
 * Every way into persistent memory, with stores of every shape: is what they store out of the caches when it has to
 * be?  Two QPs of this machine do it, by loopback, and the oracle, write_back_oracle.c, judges.  Prints KTAP: a
 * result for each path and shape, named PATH.SHAPE.
 *
 *	store-paths DEVICE	a device DAX; the oracle watches it, and kernel_target lends the region of it
 *	store-paths --region	prints where that lies: OFFSET SIZE
 *
 * A row changes all bytes that it stores to, looks whether they have arrived, and posts a persistent FLUSH after
 * the store: the oracle has to have checked that, and to miss nothing.  What a requester stores into memory of its
 * own, by the response to a READ or an Atomic, is checked when that has completed.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <kselftest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "remote-log.h"
#include "verbs-end.h"

#define ORACLE		"/sys/kernel/debug/write_back_oracle/"
#define KERNEL_TARGET	"/sys/kernel/debug/kernel_target/"

/* The region begins and ends within a page, and has more pages than the driver keeps in one map. */
#define PAGE		4096ul
#define LINE		64ul
#define MAP		(256 * PAGE)
#define START		2040ul
#define REGION		(MAP + 16 * PAGE + 136)
/* Edges of the memory, counted from the start of the region. */
#define MAP_EDGE	(MAP - START)
#define PAGE_EDGE	(9 * PAGE - START)
#define LINE_EDGE	(PAGE_EDGE + 20 * LINE)
#define MTU		1024
#define MAX_SGES	4

#define RIGHTS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC)
#define FLUSH_RIGHTS	(IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)

/* --- Shapes --- */

enum kind {
	WRITE, WRITE_IMM, ATOMIC_WRITE, FETCH_ADD, CMP_SWAP, SEND,
	READ, OLD_VALUE,	/* into memory of the requester */
};

static const struct shape {
	const char *name;
	enum kind kind;
	size_t at, length;
	unsigned int sges;	/* of the source; of SEND and READ where it goes to */
	bool into_dram;		/* the last of them is DRAM */
	bool whole;		/* the FLUSH names no range, but all of the region */
} shapes[] = {
	{ "write_one_byte", WRITE, 1, 1, .sges = 1 },
	{ "write_first_byte", WRITE, 0, 1, .sges = 1 },
	{ "write_last_byte", WRITE, REGION - 1, 1, .sges = 1 },
	{ "write_one_word", WRITE, LINE_EDGE, 8, .sges = 1 },
	{ "write_of_unaligned_ends", WRITE, LINE_EDGE + 13, 3 * LINE + 9, .sges = 1 },
	{ "write_across_a_cache_line", WRITE, LINE_EDGE - 3, 5, .sges = 1 },
	{ "write_across_a_page", WRITE, PAGE_EDGE - 5, 11, .sges = 1 },
	{ "write_of_a_packet_across_a_page", WRITE, PAGE_EDGE - 500, MTU, .sges = 1 },
	{ "write_across_a_map", WRITE, MAP_EDGE - 7, 15, .sges = 1 },
	{ "write_of_many_pages", WRITE, MAP_EDGE - 5 * PAGE + 3, 7 * PAGE + 77, .sges = 1 },
	{ "write_from_several_sges", WRITE, PAGE_EDGE - 91, 301, .sges = 3 },
	{ "write_of_the_region", WRITE, 0, REGION, .sges = 1, .whole = true },
	{ "write_with_immediate", WRITE_IMM, LINE_EDGE - 20, 40, .sges = 1 },
	{ "atomic_write", ATOMIC_WRITE, LINE_EDGE + 8, 8, .sges = 1 },
	{ "atomic_write_of_the_last_word", ATOMIC_WRITE, REGION - 8, 8, .sges = 1 },
	{ "fetch_add", FETCH_ADD, PAGE_EDGE - 8, 8, .sges = 1 },
	{ "cmp_swap", CMP_SWAP, PAGE_EDGE, 8, .sges = 1 },
	{ "send_one_byte", SEND, LINE_EDGE + 7, 1, .sges = 1 },
	{ "send_of_many_pages", SEND, PAGE_EDGE - 33, 3 * PAGE + 55, .sges = 1 },
	{ "send_to_several_sges", SEND, PAGE_EDGE - 91, 301, .sges = 3 },
	{ "send_to_dram_at_last", SEND, LINE_EDGE - 9, 100, .sges = 2, .into_dram = true },
	{ "send_up_to_the_last_byte", SEND, REGION - 70, 70, .sges = 1 },
	{ "read_one_byte", READ, LINE_EDGE + 7, 1, .sges = 1 },
	{ "read_of_many_pages", READ, PAGE_EDGE - 33, 3 * PAGE + 55, .sges = 1 },
	{ "read_to_several_sges", READ, PAGE_EDGE - 91, 301, .sges = 3 },
	{ "read_to_dram_at_last", READ, LINE_EDGE - 9, 100, .sges = 2, .into_dram = true },
	{ "read_up_to_the_last_byte", READ, REGION - 70, 70, .sges = 1 },
	{ "old_value_of_fetch_add", OLD_VALUE, LINE_EDGE - 4, 8, .sges = 1 },
};

/* --- Paths --- */

struct path {
	const char *name;
	enum { USER_MR, NO_FLUSH_RIGHT, WINDOW, KERNEL } by;
	enum ibv_mw_type window;
	bool zero_based, ipv6;
	unsigned int key;	/* of kernel_target */
};

static const struct path paths[] = {
	{ "user_mr", .by = USER_MR },
	{ "user_mr_without_right_to_flush", .by = NO_FLUSH_RIGHT },
	{ "user_mr_over_ipv6", USER_MR, .ipv6 = true },
	{ "window_1", WINDOW, .window = IBV_MW_TYPE_1 },
	{ "window_2", WINDOW, .window = IBV_MW_TYPE_2 },
	{ "window_2_zero_based", WINDOW, .window = IBV_MW_TYPE_2, .zero_based = true },
	{ "fast_mr", KERNEL, .key = 0 },
	{ "dma_mr", KERNEL, .key = 1 },
};

/* A key, and the address of the region's first byte by it. */
struct key {
	__u32 key;
	__u64 va;
};

static struct end end;
static struct ibv_qp *requester, *responder;
static struct ibv_mr *region, *source_mr, *dram_mr;
static struct key store, flush;		/* what stores come by, and FLUSHes */
static struct ibv_mr *local;		/* what the region's owner knows it by; none by a window */
static struct prng prng;
static char *memory;
static char source[REGION] __attribute__((aligned(8)));
static char dram[REGION];

/* A window has no key for its owner. */
static bool applies(const struct path *path, const struct shape *shape)
{
	if (shape->into_dram && path->by == KERNEL)
		return false;
	return path->by != WINDOW || shape->kind < SEND;
}

static void find_gid(bool ipv6)
{
	struct ibv_gid_entry entry;

	for (end.gid_index = 0; !ibv_query_gid_ex(end.context, 1, end.gid_index, &entry, 0);
	     end.gid_index++) {
		end.gid = entry.gid;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && ipv6 == !!entry.gid.global.subnet_prefix)
			return;
	}
	errx(1, "no GID of IPv%d", ipv6 ? 6 : 4);
}

static struct ibv_qp *create_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = end.cq, .recv_cq = end.cq, .pd = end.pd,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = MAX_SGES,
			 .max_recv_sge = MAX_SGES },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_FLUSH |
				  IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(end.context, &attr);

	if (!qp)
		err(1, "ibv_create_qp_ex");
	return qp;
}

static struct ibv_mr *reg_mr(void *start, size_t size, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(end.pd, start, size, access);

	if (!mr)
		err(1, "ibv_reg_mr");
	return mr;
}

static void complete(unsigned int n)
{
	struct ibv_wc wc;

	while (n--) {
		wc = end_completion(&end);
		if (wc.status != IBV_WC_SUCCESS)
			errx(1, "completion: %s", ibv_wc_status_str(wc.status));
	}
}

static void command(const char *file, const char *format, ...)
{
	char line[128];
	va_list values;
	int fd, length;

	va_start(values, format);
	length = vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	fd = open(file, O_WRONLY);
	if (fd < 0 || write(fd, line, length) != length)
		err(1, "%s: %s", file, line);
	close(fd);
}

/* The responder binds it. */
static struct key bind_window(const struct path *path)
{
	struct ibv_mw *mw = ibv_alloc_mw(end.pd, path->window);
	struct ibv_mw_bind_info info = {
		.mr = region, .addr = (uintptr_t)memory, .length = REGION,
		.mw_access_flags = (RIGHTS & ~IBV_ACCESS_LOCAL_WRITE) | FLUSH_RIGHTS |
				   (path->zero_based ? IBV_ACCESS_ZERO_BASED : 0),
	};
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(responder);
	struct key key = { .va = path->zero_based ? 0 : info.addr };

	if (!mw)
		err(1, "ibv_alloc_mw");
	if (path->window == IBV_MW_TYPE_1) {
		if (ibv_bind_mw(responder, mw, &bind))
			err(1, "ibv_bind_mw");
		key.key = mw->rkey;
	} else {
		key.key = ibv_inc_rkey(mw->rkey);
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(qp, mw, key.key, &info);
		if (ibv_wr_complete(qp))
			err(1, "ibv_wr_bind_mw");
	}
	complete(1);
	return key;
}

static struct end_address connect_kernel_target(const struct path *path)
{
	struct end_address address = { .gid = end.gid };
	unsigned int fast, dma, qpn;
	unsigned long long fast_va, dma_va;
	FILE *told;

	command(KERNEL_TARGET "command", "connect %u %u", requester->qp_num, path->ipv6);
	told = fopen(KERNEL_TARGET "told", "r");
	if (!told || fscanf(told, "%u %u %llu %u %llu", &qpn, &fast, &fast_va, &dma, &dma_va) != 5)
		errx(1, "kernel_target tells nothing");
	fclose(told);
	address.qpn = qpn;
	flush = (struct key){ fast, fast_va };
	store = path->key ? (struct key){ dma, dma_va } : flush;
	local = NULL;
	return address;
}

static void open_path(const struct path *path)
{
	struct end_address address;

	find_gid(path->ipv6);
	requester = create_qp();
	if (path->by == KERNEL) {
		address = connect_kernel_target(path);
	} else {
		responder = create_qp();
		address = end_address(&end, requester);
		end_connect_qp(&end, responder, RIGHTS | FLUSH_RIGHTS, &address);
		address = end_address(&end, responder);
		flush = store = (struct key){ region->rkey, (uintptr_t)memory };
		local = region;
	}
	end_connect_qp(&end, requester, RIGHTS, &address);
	if (path->by == NO_FLUSH_RIGHT) {
		local = reg_mr(memory, REGION, RIGHTS);
		store.key = local->rkey;
	}
	if (path->by == WINDOW)
		flush = store = bind_window(path);
}

static void close_path(const struct path *path)
{
	if (ibv_destroy_qp(requester) || (path->by != KERNEL && ibv_destroy_qp(responder)))
		err(1, "ibv_destroy_qp");
}

/* --- One row --- */

struct report {
	unsigned long checked, lost, missed;
};

static struct report read_report(void)
{
	FILE *file = fopen(ORACLE "report", "r");
	struct report report;

	if (!file || fscanf(file, "checked %lu\nlost %lu\nmissed %lu", &report.checked, &report.lost,
			    &report.missed) != 3)
		err(1, ORACLE "report");
	fclose(file);
	return report;
}

/* @length bytes at @start, in @n SGEs that follow one another. */
static void make_sges(struct ibv_sge *sges, const struct ibv_mr *mr, char *start, size_t length,
		      unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)start + length / n * i,
			.length = i + 1 < n ? length / n : length - length / n * i,
			.lkey = mr->lkey,
		};
}

/* Where a SEND, or the response to a READ, goes to.  Returns how many. */
static unsigned int local_sges(const struct shape *shape, struct ibv_sge *sges)
{
	unsigned int n = shape->sges;

	make_sges(sges, local, memory + shape->at, shape->length, n - shape->into_dram);
	if (shape->into_dram)
		make_sges(sges + n - 1, dram_mr, dram, shape->length, 1);
	return n;
}

static void post_receive(const struct path *path, const struct shape *shape)
{
	struct ibv_sge sges[MAX_SGES];
	struct ibv_recv_wr wr = { .sg_list = sges }, *bad;

	if (path->by == KERNEL) {
		command(KERNEL_TARGET "command", "receive %u %zu %zu %u", path->key, shape->at,
			shape->length, shape->sges);
		return;
	}
	wr.num_sge = local ? local_sges(shape, sges) : 0;
	if (ibv_post_recv(responder, &wr, &bad))
		err(1, "ibv_post_recv");
}

/* Every byte of the region that is stored to gets another value; these go to @expected. */
static void choose_values(const struct shape *shape, char *expected)
{
	size_t i;

	for (i = 0; i < shape->length; i++)
		expected[i] = memory[shape->at + i] ^ (1 + prng_below(&prng, 255));
}

/* The store, and a FLUSH after it, at once. */
static void store_and_flush(const struct path *path, const struct shape *shape, const char *expected)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(requester);
	size_t length = shape->kind == SEND && shape->into_dram ? 2 * shape->length : shape->length;
	bool receives = shape->kind == SEND || shape->kind == WRITE_IMM;
	__u64 va = store.va + shape->at, old, new;
	struct ibv_sge sges[MAX_SGES];

	memcpy(&old, memory + shape->at, 8 < shape->length ? 8 : shape->length);
	memcpy(&new, expected, 8 < shape->length ? 8 : shape->length);
	memcpy(source, expected, shape->length);
	if (receives)
		post_receive(path, shape);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	switch (shape->kind) {
	case WRITE:
		ibv_wr_rdma_write(qp, store.key, va);
		break;
	case WRITE_IMM:
		ibv_wr_rdma_write_imm(qp, store.key, va, 1);
		break;
	case ATOMIC_WRITE:
		ibv_wr_atomic_write(qp, store.key, va, expected);
		break;
	case FETCH_ADD:
		ibv_wr_atomic_fetch_add(qp, store.key, va, new - old);
		break;
	case CMP_SWAP:
		ibv_wr_atomic_cmp_swp(qp, store.key, va, old, new);
		break;
	default:
		ibv_wr_send(qp);
	}
	if (shape->kind != ATOMIC_WRITE) {
		make_sges(sges, source_mr, source, length, shape->sges);
		ibv_wr_set_sge_list(qp, shape->sges, sges);
	}
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, flush.key, shape->whole ? 0 : flush.va + shape->at,
		     shape->whole ? 0 : shape->length, IBV_FLUSH_PERSISTENT,
		     shape->whole ? IBV_FLUSH_MR : IBV_FLUSH_RANGE);
	if (ibv_wr_complete(qp))
		err(1, "ibv_wr_complete");
	complete(1 + (receives && path->by != KERNEL));
}

/* The region's owner asks for what @expected holds. */
static void fetch(const struct path *path, const struct shape *shape, const char *expected)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(requester);
	struct ibv_sge sges[MAX_SGES];
	__u64 va = (uintptr_t)source;
	unsigned int n;

	memcpy(source, expected, shape->length);
	if (path->by == KERNEL) {
		if (shape->kind == READ)
			command(KERNEL_TARGET "command", "read %u %zu %zu %u %llu %u", path->key,
				shape->at, shape->length, shape->sges, va, source_mr->rkey);
		else
			command(KERNEL_TARGET "command", "fetch-add %u %zu %llu %u", path->key,
				shape->at, va, source_mr->rkey);
	} else {
		n = local_sges(shape, sges);
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		if (shape->kind == READ)
			ibv_wr_rdma_read(qp, source_mr->rkey, va);
		else
			ibv_wr_atomic_fetch_add(qp, source_mr->rkey, va, 1);
		ibv_wr_set_sge_list(qp, n, sges);
		if (ibv_wr_complete(qp))
			err(1, "ibv_wr_complete");
		complete(1);
	}
	command(ORACLE "check", "%zu %zu", START + shape->at, shape->length);
}

/* The oracle has made one check more, which has found @lost. */
static bool judged(struct report before, unsigned long lost)
{
	struct report after = read_report();

	if (after.missed != before.missed || after.checked != before.checked + 1)
		ksft_print_msg("the oracle has made %lu checks, and missed %lu\n",
			       after.checked - before.checked, after.missed - before.missed);
	else if (after.lost != before.lost + lost)
		ksft_print_msg("the oracle has found %lu losses\n", after.lost - before.lost);
	else
		return true;
	return false;
}

static bool has_arrived(const struct shape *shape, const char *expected)
{
	if (!memcmp(memory + shape->at, expected, shape->length))
		return true;
	ksft_print_msg("the memory does not hold what was stored\n");
	return false;
}

static void run_row(const struct path *path, const struct shape *shape)
{
	struct report before = read_report();
	static char expected[REGION];
	bool arrived;

	choose_values(shape, expected);
	if (shape->kind < READ)
		store_and_flush(path, shape, expected);
	else
		fetch(path, shape, expected);
	arrived = has_arrived(shape, expected);
	ksft_test_result(judged(before, 0) && arrived, "%s.%s\n", path->name, shape->name);
}

/* Otherwise nothing above proves anything.  What this stores is not written back. */
static void run_plain_store(void)
{
	const struct shape word = { .kind = WRITE, .at = LINE_EDGE, .length = 8, .sges = 1 };
	struct report before;
	char expected[8];
	bool arrived;

	open_path(&paths[0]);
	before = read_report();
	memory[LINE_EDGE + 8]++;
	choose_values(&word, expected);
	store_and_flush(&paths[0], &word, expected);
	arrived = has_arrived(&word, expected);
	ksft_test_result(judged(before, 0) && arrived, "oracle.looks_at_what_the_flush_names\n");
	before = read_report();
	memory[LINE_EDGE]++;
	command(ORACLE "check", "%zu %zu", START + LINE_EDGE, 8ul);
	ksft_test_result(judged(before, 1), "oracle.notices_a_store_that_is_not_written_back\n");
	close_path(&paths[0]);
}

int main(int argc, char **argv)
{
	const size_t num_paths = sizeof(paths) / sizeof(*paths);
	const size_t num_shapes = sizeof(shapes) / sizeof(*shapes);
	unsigned int rows = 2;
	size_t size, i, j;
	char *device;

	if (argc == 2 && !strcmp(argv[1], "--region")) {
		printf("%lu %lu\n", START, REGION);
		return 0;
	}
	if (argc != 2)
		errx(2, "usage: store-paths DEVICE | store-paths --region");
	setlinebuf(stdout);
	device = log_map(argv[1], O_RDWR, &size);
	if (size < START + REGION)
		errx(1, "%s is too small: %zu bytes", argv[1], size);
	memory = device + START;
	prng = prng_of_seed(1);
	end_open(&end);
	region = reg_mr(memory, REGION, RIGHTS | FLUSH_RIGHTS | IBV_ACCESS_MW_BIND);
	source_mr = reg_mr(source, sizeof(source), RIGHTS);
	dram_mr = reg_mr(dram, sizeof(dram), RIGHTS);

	for (i = 0; i < num_paths; i++)
		for (j = 0; j < num_shapes; j++)
			rows += applies(&paths[i], &shapes[j]);
	ksft_print_header();
	ksft_set_plan(rows);
	for (i = 0; i < num_paths; i++) {
		open_path(&paths[i]);
		for (j = 0; j < num_shapes; j++)
			if (applies(&paths[i], &shapes[j]))
				run_row(&paths[i], &shapes[j]);
		close_path(&paths[i]);
	}
	run_plain_store();
	ksft_finished();
}

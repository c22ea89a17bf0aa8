// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of FLUSH and ATOMIC WRITE as an application meets them: by ibv_post_send() and ibv_wr_*(),
 * through an MR and a memory window, with everything that has to be refused.  Prints KTAP.
 *
 *	verbs-api [--no-refusals] [--no-post-send] ADDRESS
 *
 * ADDRESS is that of verbs-api-target, in this machine or another.  On a device without FLUSH and
 * ATOMIC WRITE it tests that it says so.
 *
 *	--no-refusals	only what has to succeed, also between any two implementations
 *	--no-post-send	not by ibv_post_send(), which stock rdma-core does not have for these
 */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include <kselftest.h>
#include <rdma/rdma_verbs.h>

#include "verbs-end.h"

#define BOTH		(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)
#define UNKNOWN_TYPE	(1 << 2)
#define UNKNOWN_LEVEL	2
#define MAX_RANGE	0x7fffffffUL
#define MAX_SEND_WR	16
#define MAX_SEND_SGE	2
/* More than the send queue can have become by rounding up. */
#define TOO_MANY	128
#define MARKER		4711

#define MR_ACCESS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL)

enum api { POST_SEND, WR, APIS };
static const char *const api_names[] = { "ibv_post_send", "ibv_wr_*" };

struct initiator {
	struct end end;
	int fd;			/* to the target */
	struct ibv_qp *qp;
	struct ibv_qp_cap cap;
	enum api api;
	struct end_told remote;
	__u8 memory[END_MEMORY];	/* what the target's has to hold */
	__u8 data[END_MEMORY];	/* to be sent */
	struct ibv_mr *mr;
};

/* One work request of either API, for a place from the start of what can be reached. */
struct request {
	enum ibv_wr_opcode opcode;
	__u64 offset;
	size_t length;
	__u8 type, level;
};

/* --- Results --- */

static unsigned int cases;
static char failure[256];

/* The first one in a case is told. */
__attribute__((format(printf, 2, 3)))
static bool check(bool good, const char *format, ...)
{
	va_list args;

	if (!good && !failure[0]) {
		va_start(args, format);
		vsnprintf(failure, sizeof(failure), format, args);
		va_end(args);
	}
	return good;
}

/* The checks since the last one were those of this case; @skip, if not NULL, is why there are none. */
__attribute__((format(printf, 2, 3)))
static void end_case(const char *skip, const char *format, ...)
{
	char title[256];
	va_list args;

	va_start(args, format);
	vsnprintf(title, sizeof(title), format, args);
	va_end(args);
	cases++;
	if (failure[0]) {
		ksft_print_msg("%s\n", failure);
		ksft_test_result_fail("%s\n", title);
	} else if (skip) {
		ksft_test_result_skip("%s: %s\n", title, skip);
	} else {
		ksft_test_result_pass("%s\n", title);
	}
	failure[0] = 0;
}

/* --- The target --- */

static void ask(struct initiator *me, const struct end_ask *ask, void *answer, size_t size)
{
	end_send(me->fd, ask, sizeof(*ask));
	if (!end_receive(me->fd, answer, size))
		errx(1, "the target has gone");
}

/* What the target's memory holds is what it should. */
static void check_memory(struct initiator *me)
{
	static __u8 memory[END_MEMORY];
	struct end_ask now = { .what = END_MEMORY_NOW };
	size_t i;

	ask(me, &now, memory, sizeof(memory));
	for (i = 0; i < sizeof(memory) && memory[i] == me->memory[i]; i++)
		;
	check(i == sizeof(memory), "the target's memory differs at %zu", i);
}

static struct ibv_qp *create_qp(struct initiator *me, enum ibv_qp_type type, __u64 send_ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = me->end.cq,
		.recv_cq = me->end.cq,
		.cap = {
			.max_send_wr = MAX_SEND_WR,
			.max_recv_wr = 1,
			.max_send_sge = MAX_SEND_SGE,
			.max_recv_sge = 1,
		},
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = me->end.pd,
		.send_ops_flags = send_ops,
	};
	struct ibv_qp *qp;

	if (send_ops)
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp = ibv_create_qp_ex(me->end.context, &attr);
	me->cap = attr.cap;
	return qp;
}

/* A new QP, to the target with the rights that @wanted says. */
static void connect_qp(struct initiator *me, enum api api, struct end_ask wanted)
{
	const __u64 ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH |
			  IBV_QP_EX_WITH_ATOMIC_WRITE;

	if (me->qp && ibv_destroy_qp(me->qp))
		err(1, "ibv_destroy_qp");
	me->api = api;
	me->qp = create_qp(me, IBV_QPT_RC, api == WR ? ops : 0);
	if (!me->qp)
		err(1, "ibv_create_qp_ex");
	wanted.what = END_CONNECT;
	wanted.address = end_address(&me->end, me->qp);
	ask(me, &wanted, &me->remote, sizeof(me->remote));
	if (!me->remote.error)
		end_connect_qp(&me->end, me->qp, 0, &me->remote.address);
}

/* --- Posting --- */

static struct ibv_sge sge_of(struct initiator *me, __u64 offset, size_t length)
{
	return (struct ibv_sge){
		/* where it goes to does not matter for what comes from here */
		.addr = (uintptr_t)me->data + offset % END_PAGE,
		.length = length,
		.lkey = me->mr->lkey,
	};
}

static struct ibv_send_wr wr_of(struct initiator *me, const struct request *request,
				struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .opcode = request->opcode, .send_flags = IBV_SEND_SIGNALED };
	__u64 addr = me->remote.addr + request->offset;

	if (request->opcode == IBV_WR_FLUSH) {
		wr.wr.flush.remote_addr = addr;
		wr.wr.flush.rkey = me->remote.rkey;
		wr.wr.flush.length = request->length;
		wr.wr.flush.type = request->type;
		wr.wr.flush.level = request->level;
		return wr;
	}
	*sge = sge_of(me, request->offset, request->length);
	wr.sg_list = sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = me->remote.rkey;
	return wr;
}

static int post_send(struct initiator *me, const struct request *requests, int n, int *bad)
{
	struct ibv_send_wr wrs[TOO_MANY], *bad_wr = NULL;
	struct ibv_sge sges[TOO_MANY];
	int i, error;

	for (i = 0; i < n; i++) {
		wrs[i] = wr_of(me, &requests[i], &sges[i]);
		wrs[i].wr_id = i;
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
	}
	error = ibv_post_send(me->qp, wrs, &bad_wr);
	*bad = error && bad_wr ? bad_wr - wrs : -1;
	return error;
}

static void build(struct initiator *me, const struct request *request)
{
	struct ibv_sge sge = sge_of(me, request->offset, request->length);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(me->qp);
	__u64 addr = me->remote.addr + request->offset;

	qp->wr_flags = IBV_SEND_SIGNALED;
	switch (request->opcode) {
	case IBV_WR_FLUSH:
		ibv_wr_flush(qp, me->remote.rkey, addr, request->length, request->type,
			     request->level);
		break;
	case IBV_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(qp, me->remote.rkey, addr, (void *)(uintptr_t)sge.addr);
		break;
	default:
		ibv_wr_rdma_write(qp, me->remote.rkey, addr);
		ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
	}
}

static int post_wr(struct initiator *me, const struct request *requests, int n)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(me->qp);
	int i;

	ibv_wr_start(qp);
	for (i = 0; i < n; i++) {
		qp->wr_id = i;
		build(me, &requests[i]);
	}
	return ibv_wr_complete(qp);
}

/* Post all of them at once.  The bad one of ibv_post_send() goes to @bad; of ibv_wr_*(), 0. */
static int post(struct initiator *me, const struct request *requests, int n, int *bad)
{
	*bad = 0;
	return me->api == POST_SEND ? post_send(me, requests, n, bad) :
				      post_wr(me, requests, n);
}

static void expect_completion(struct initiator *me, __u64 wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = end_completion(&me->end);

	check(wc.wr_id == wr_id && wc.status == status,
	      "completion of request %llu with \"%s\", not of %llu with \"%s\"",
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
	      (unsigned long long)wr_id, ibv_wc_status_str(status));
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_FLUSH:
		return IBV_WC_FLUSH;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_RDMA_WRITE;
	}
}

static void fill(struct initiator *me)
{
	size_t i;

	for (i = 0; i < sizeof(me->data); i++)
		me->data[i] = random();
}

/* All succeed, in order, and the memory is as they make it. */
static void succeed(struct initiator *me, const struct request *requests, int n)
{
	struct ibv_wc wc;
	int i, bad;

	fill(me);
	if (!check(!post(me, requests, n, &bad), "not posted"))
		return;
	for (i = 0; i < n; i++) {
		wc = end_completion(&me->end);
		check(wc.wr_id == (__u64)i && wc.status == IBV_WC_SUCCESS &&
		      wc.opcode == wc_opcode(requests[i].opcode),
		      "completion %d: request %llu, opcode %d, %s", i,
		      (unsigned long long)wc.wr_id, wc.opcode, ibv_wc_status_str(wc.status));
		if (requests[i].opcode != IBV_WR_FLUSH)
			memcpy(me->memory + me->remote.offset + requests[i].offset,
			       (void *)(uintptr_t)sge_of(me, requests[i].offset, 0).addr,
			       requests[i].length);
	}
	check_memory(me);
}

/* Whatever was posted before has completed: the next completion is that of the marker. */
static void expect_nothing_posted(struct initiator *me)
{
	struct request request = { .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge;

	wr = wr_of(me, &request, &sge);
	wr.wr_id = MARKER;
	check(!ibv_post_send(me->qp, &wr, &bad), "the QP takes nothing any more");
	expect_completion(me, MARKER, IBV_WC_SUCCESS);
	check_memory(me);
}

static void expect_error(int error, int expected)
{
	check(error == expected, "\"%s\", not \"%s\"", strerror(error), strerror(expected));
}

/* --- What works --- */

static const struct {
	const char *name;
	struct end_ask ask;
} ways[] = {
	{ "MR", { .mr_access = MR_ACCESS, .qp_access = END_QP_ACCESS } },
	{ "window", { .mr_access = MR_ACCESS | IBV_ACCESS_MW_BIND, .qp_access = END_QP_ACCESS,
		      .mw_access = MR_ACCESS } },
};

static const struct {
	const char *name;
	__u8 type;
} types[] = {
	{ "GLOBAL", IBV_FLUSH_GLOBAL },
	{ "PERSISTENT", IBV_FLUSH_PERSISTENT },
	{ "GLOBAL|PERSISTENT", BOTH },
};

static const struct {
	const char *name;
	__u64 offset;
	size_t length;	/* END_REGION: all of it */
} ranges[] = {
	{ "nothing", 64, 0 },
	{ "1 byte", 5, 1 },
	{ "64 bytes", 64, 64 },
	{ "a page boundary", END_PAGE - 100, 200 },
	{ "all", 0, END_REGION },
};

/* Both rights, if the target's memory is persistent. */
static struct end_ask with_rights(struct end_ask wanted, bool persistent)
{
	if (!persistent)
		return wanted;
	wanted.mr_access |= IBV_ACCESS_FLUSH_PERSISTENT;
	if (wanted.mw_access)
		wanted.mw_access |= IBV_ACCESS_FLUSH_PERSISTENT;
	return wanted;
}

static void write_and_flush(struct initiator *me, int type, int level, int range)
{
	size_t length = MIN(ranges[range].length, me->remote.size);
	const struct request requests[] = {
		{ IBV_WR_RDMA_WRITE, ranges[range].offset, length, 0, 0 },
		/* Of a region neither address nor length count. */
		{ IBV_WR_FLUSH, level == IBV_FLUSH_MR ? -1ULL << 40 : ranges[range].offset,
		  level == IBV_FLUSH_MR ? (1UL << 40) + length : length, types[type].type, level },
	};

	succeed(me, requests, ARRAY_SIZE(requests));
}

static void test_flush(struct initiator *me, bool persistent, int api, int way)
{
	size_t type, range;
	const char *skip;
	int level;

	connect_qp(me, api, with_rights(ways[way].ask, persistent));
	for (type = 0; type < ARRAY_SIZE(types); type++)
		for (level = IBV_FLUSH_RANGE; level <= IBV_FLUSH_MR; level++)
			for (range = 0; range < ARRAY_SIZE(ranges); range++) {
				skip = NULL;
				if (types[type].type & IBV_FLUSH_PERSISTENT && !persistent)
					skip = "the target has no persistent memory";
				else
					write_and_flush(me, type, level, range);
				end_case(skip, "%s, %s: WRITE, FLUSH %s %s, %s", api_names[api],
					 ways[way].name, types[type].name,
					 level == IBV_FLUSH_MR ? "region" : "range",
					 ranges[range].name);
			}
}

static void test_atomic_write(struct initiator *me, int api, int way)
{
	const __u64 offsets[] = { 0, 8, END_PAGE - 8, me->remote.size - 8 };
	struct request request = { .opcode = IBV_WR_ATOMIC_WRITE, .length = 8 };
	size_t i;

	connect_qp(me, api, ways[way].ask);
	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		request.offset = offsets[i];
		succeed(me, &request, 1);
		end_case(NULL, "%s, %s: ATOMIC WRITE to %llu", api_names[api], ways[way].name,
			 (unsigned long long)offsets[i]);
	}
}

static void test_append(struct initiator *me, int api, int way)
{
	struct request requests[] = {
		{ IBV_WR_RDMA_WRITE, 0, 1000, 0, 0 },
		{ IBV_WR_FLUSH, 0, 1000, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE },
		{ IBV_WR_ATOMIC_WRITE, 8, 8, 0, 0 },
		{ IBV_WR_FLUSH, 8, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE },
	};
	int i;

	connect_qp(me, api, ways[way].ask);
	for (i = 1; i <= 10; i++) {
		requests[0].offset = i * 1000;
		requests[1].offset = i * 1000;
		succeed(me, requests, ARRAY_SIZE(requests));
	}
	end_case(NULL, "%s, %s: ten pipelined appends", api_names[api], ways[way].name);
}

/* The eight bytes may come in pieces, inline or not, and are taken when they are posted. */
static void test_atomic_write_data(struct initiator *me)
{
	const size_t pieces[][MAX_SEND_SGE] = { { 8, 0 }, { 3, 5 } };
	struct request request = { .opcode = IBV_WR_ATOMIC_WRITE };
	struct ibv_sge sges[MAX_SEND_SGE];
	struct ibv_send_wr *bad, wr;
	int inlined;
	size_t i;

	connect_qp(me, POST_SEND, ways[0].ask);
	for (i = 0; i < ARRAY_SIZE(pieces); i++)
		for (inlined = 0; inlined <= IBV_SEND_INLINE; inlined += IBV_SEND_INLINE) {
			fill(me);
			wr = wr_of(me, &request, &sges[0]);
			wr.send_flags |= inlined;
			wr.sg_list = sges;
			wr.num_sge = MAX_SEND_SGE;
			sges[0] = sge_of(me, 1, pieces[i][0]);
			sges[1] = sge_of(me, 1001, pieces[i][1]);
			memcpy(me->memory, me->data + 1, pieces[i][0]);
			memcpy(me->memory + pieces[i][0], me->data + 1001, pieces[i][1]);
			check(!ibv_post_send(me->qp, &wr, &bad), "not posted");
			fill(me);
			expect_completion(me, 0, IBV_WC_SUCCESS);
			check_memory(me);
			end_case(NULL, "ibv_post_send: ATOMIC WRITE of %zu + %zu bytes%s",
				 pieces[i][0], pieces[i][1], inlined ? ", inline" : "");
		}
}

/* --- What the initiator refuses --- */

static const struct {
	const char *name;
	struct request request;
} bad_requests[] = {
	{ "FLUSH without a type", { IBV_WR_FLUSH, 0, 8, 0, IBV_FLUSH_RANGE } },
	{ "FLUSH of a region without a type", { IBV_WR_FLUSH, 0, 8, 0, IBV_FLUSH_MR } },
	{ "FLUSH of an unknown type", { IBV_WR_FLUSH, 0, 8, UNKNOWN_TYPE, IBV_FLUSH_RANGE } },
	{ "FLUSH of a known and an unknown type",
	  { IBV_WR_FLUSH, 0, 8, IBV_FLUSH_GLOBAL | 1 << 7, IBV_FLUSH_RANGE } },
	{ "FLUSH of an unknown level", { IBV_WR_FLUSH, 0, 8, IBV_FLUSH_GLOBAL, UNKNOWN_LEVEL } },
	{ "FLUSH of level 255", { IBV_WR_FLUSH, 0, 8, IBV_FLUSH_GLOBAL, 255 } },
	{ "FLUSH of 2 GiB", { IBV_WR_FLUSH, 0, MAX_RANGE + 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE } },
	{ "FLUSH of 4 GiB", { IBV_WR_FLUSH, 0, 1UL << 32, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE } },
	{ "FLUSH of 4 GiB and 8 bytes",
	  { IBV_WR_FLUSH, 0, (1UL << 32) + 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE } },
	{ "ATOMIC WRITE to an odd address", { IBV_WR_ATOMIC_WRITE, 1, 8, 0, 0 } },
	{ "ATOMIC WRITE to a multiple of 4", { IBV_WR_ATOMIC_WRITE, 4, 8, 0, 0 } },
};

/*
 * Third of four.  By ibv_post_send() the two before it are posted, by ibv_wr_*() nothing is.  What
 * follows it never is.
 */
static void test_bad_request(struct initiator *me, int api, const struct request *request)
{
	const struct request requests[] = {
		{ IBV_WR_FLUSH, 0, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE },
		{ IBV_WR_FLUSH, 0, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR },
		*request,
		{ IBV_WR_RDMA_WRITE, 0, 64, 0, 0 },
	};
	const int posted = api == POST_SEND ? 2 : 0;
	int i, bad;

	fill(me);
	expect_error(post(me, requests, ARRAY_SIZE(requests), &bad), EINVAL);
	check(bad == posted, "bad_wr is request %d", bad);
	for (i = 0; i < posted; i++)
		expect_completion(me, i, IBV_WC_SUCCESS);
	expect_nothing_posted(me);
}

static void test_bad_requests(struct initiator *me)
{
	size_t i;
	int api;

	for (api = 0; api < APIS; api++) {
		connect_qp(me, api, ways[0].ask);
		for (i = 0; i < ARRAY_SIZE(bad_requests); i++) {
			test_bad_request(me, api, &bad_requests[i].request);
			end_case(NULL, "%s refuses %s", api_names[api], bad_requests[i].name);
		}
	}
}

/* What only ibv_post_send() can be given. */
static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
	int num_sge;
	__u32 lengths[MAX_SEND_SGE];
	unsigned int flags;
} bad_wrs[] = {
	{ "FLUSH with data", IBV_WR_FLUSH, 1, { 8 }, 0 },
	{ "FLUSH with an empty SGE", IBV_WR_FLUSH, 1, { 0 }, 0 },
	{ "FLUSH with inline data", IBV_WR_FLUSH, 1, { 8 }, IBV_SEND_INLINE },
	{ "FLUSH with -1 SGEs", IBV_WR_FLUSH, -1, { 0 }, 0 },
	{ "ATOMIC WRITE without data", IBV_WR_ATOMIC_WRITE, 0, { 0 }, 0 },
	{ "ATOMIC WRITE of 0 bytes", IBV_WR_ATOMIC_WRITE, 1, { 0 }, 0 },
	{ "ATOMIC WRITE of 4 bytes", IBV_WR_ATOMIC_WRITE, 1, { 4 }, 0 },
	{ "ATOMIC WRITE of 4 bytes inline", IBV_WR_ATOMIC_WRITE, 1, { 4 }, IBV_SEND_INLINE },
	{ "ATOMIC WRITE of 7 bytes", IBV_WR_ATOMIC_WRITE, 2, { 3, 4 }, 0 },
	{ "ATOMIC WRITE of 9 bytes", IBV_WR_ATOMIC_WRITE, 1, { 9 }, 0 },
	{ "ATOMIC WRITE of 16 bytes", IBV_WR_ATOMIC_WRITE, 2, { 8, 8 }, 0 },
	{ "ATOMIC WRITE of 4 GiB and 8 bytes", IBV_WR_ATOMIC_WRITE, 2, { UINT32_MAX, 9 }, 0 },
	{ "WRITE of 4 GiB and 8 bytes", IBV_WR_RDMA_WRITE, 2, { UINT32_MAX, 9 }, 0 },
	{ "WRITE of 4 GiB and 8 bytes inline", IBV_WR_RDMA_WRITE, 2, { UINT32_MAX, 9 },
	  IBV_SEND_INLINE },
	{ "more inline data than there is room for", IBV_WR_RDMA_WRITE, 1, { END_PAGE },
	  IBV_SEND_INLINE },
	{ "TSO", IBV_WR_TSO, 1, { 8 }, 0 },
	{ "DRIVER1", IBV_WR_DRIVER1, 1, { 8 }, 0 },
	{ "opcode 12", 12, 1, { 8 }, 0 },
	{ "opcode 13", 13, 1, { 8 }, 0 },
	{ "opcode 16", 16, 1, { 8 }, 0 },
	{ "opcode 255", 255, 1, { 8 }, 0 },
};

static void test_bad_wrs(struct initiator *me)
{
	struct ibv_sge sges[MAX_SEND_SGE];
	struct request request = { .type = IBV_FLUSH_GLOBAL };
	struct ibv_send_wr *bad, wr;
	size_t i, sge;

	connect_qp(me, POST_SEND, ways[0].ask);
	for (i = 0; i < ARRAY_SIZE(bad_wrs); i++) {
		request.opcode = bad_wrs[i].opcode;
		wr = wr_of(me, &request, &sges[0]);
		for (sge = 0; sge < MAX_SEND_SGE; sge++)
			sges[sge] = sge_of(me, 0, bad_wrs[i].lengths[sge]);
		wr.sg_list = sges;
		wr.num_sge = bad_wrs[i].num_sge;
		wr.send_flags |= bad_wrs[i].flags;
		bad = NULL;
		expect_error(ibv_post_send(me->qp, &wr, &bad), EINVAL);
		check(bad == &wr, "bad_wr is not the bad one");
		expect_nothing_posted(me);
		end_case(NULL, "ibv_post_send refuses %s", bad_wrs[i].name);
	}
}

/* Eight bytes, of which the lists make two pieces. */
static void set_sge(struct initiator *me, struct ibv_qp_ex *qp)
{
	ibv_wr_set_sge(qp, me->mr->lkey, (uintptr_t)me->data, 8);
}

static void set_sge_list(struct initiator *me, struct ibv_qp_ex *qp)
{
	struct ibv_sge sges[] = { sge_of(me, 0, 3), sge_of(me, 3, 5) };

	ibv_wr_set_sge_list(qp, ARRAY_SIZE(sges), sges);
}

static void set_inline_data(struct initiator *me, struct ibv_qp_ex *qp)
{
	ibv_wr_set_inline_data(qp, me->data, 8);
}

static void set_inline_data_list(struct initiator *me, struct ibv_qp_ex *qp)
{
	struct ibv_data_buf bufs[] = { { me->data, 3 }, { me->data + 3, 5 } };

	ibv_wr_set_inline_data_list(qp, ARRAY_SIZE(bufs), bufs);
}

static void test_setters(struct initiator *me)
{
	static const struct {
		const char *name;
		void (*set)(struct initiator *me, struct ibv_qp_ex *qp);
	} setters[] = {
		{ "sge", set_sge },
		{ "sge_list", set_sge_list },
		{ "inline_data", set_inline_data },
		{ "inline_data_list", set_inline_data_list },
	};
	static const struct request builders[] = {
		{ IBV_WR_FLUSH, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE },
		{ IBV_WR_ATOMIC_WRITE, 0, 8, 0, 0 },
	};
	struct ibv_qp_ex *qp;
	size_t i, b;

	connect_qp(me, WR, ways[0].ask);
	qp = ibv_qp_to_qp_ex(me->qp);
	for (i = 0; i < ARRAY_SIZE(setters); i++) {
		fill(me);
		memcpy(me->memory, me->data, 8);
		ibv_wr_start(qp);
		qp->wr_id = i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, me->remote.rkey, me->remote.addr);
		setters[i].set(me, qp);
		expect_error(ibv_wr_complete(qp), 0);
		expect_completion(me, i, IBV_WC_SUCCESS);
		check_memory(me);
		end_case(NULL, "ibv_wr_set_%s gives WRITE its data", setters[i].name);
	}
	for (b = 0; b < ARRAY_SIZE(builders); b++)
		for (i = 0; i < ARRAY_SIZE(setters); i++) {
			ibv_wr_start(qp);
			build(me, &builders[b]);
			setters[i].set(me, qp);
			expect_error(ibv_wr_complete(qp), EINVAL);
			expect_nothing_posted(me);
			end_case(NULL, "ibv_wr_set_%s is refused after %s", setters[i].name,
				 ibv_wr_opcode_str(builders[b].opcode));
		}
}

/* What fits is posted, by ibv_post_send(), or nothing at all. */
static void test_full_queue(struct initiator *me, int api)
{
	struct request requests[TOO_MANY];
	int i, bad;

	for (i = 0; i < TOO_MANY; i++)
		requests[i] = (struct request){ IBV_WR_FLUSH, 0, 0, IBV_FLUSH_GLOBAL,
						i % 2 ? IBV_FLUSH_MR : IBV_FLUSH_RANGE };
	connect_qp(me, api, ways[0].ask);
	expect_error(post(me, requests, TOO_MANY, &bad), api == POST_SEND ? ENOMEM : ENOSPC);
	if (api == POST_SEND)
		check(bad >= MAX_SEND_WR && bad < TOO_MANY, "bad_wr is request %d", bad);
	for (i = 0; i < bad; i++)
		expect_completion(me, i, IBV_WC_SUCCESS);
	expect_nothing_posted(me);
	end_case(NULL, "%s: the send queue is full", api_names[api]);
}

/* A batch that was given up leaves nothing behind. */
static void test_abort(struct initiator *me)
{
	const struct request request = { IBV_WR_ATOMIC_WRITE, 0, 8, 0, 0 };
	struct ibv_qp_ex *qp;

	connect_qp(me, WR, ways[0].ask);
	qp = ibv_qp_to_qp_ex(me->qp);
	ibv_wr_start(qp);
	build(me, &request);
	ibv_wr_abort(qp);
	expect_nothing_posted(me);
	end_case(NULL, "ibv_wr_abort: nothing is posted");
}

/* Queue pairs of other types have neither. */
static void test_qp_types(struct initiator *me)
{
	static const struct {
		const char *name;
		enum ibv_qp_type type;
	} qp_types[] = { { "UC", IBV_QPT_UC }, { "UD", IBV_QPT_UD } };
	static const struct request requests[] = {
		{ IBV_WR_FLUSH, 0, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE },
		{ IBV_WR_ATOMIC_WRITE, 0, 8, 0, 0 },
	};
	static const __u64 ops[] = { IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_ATOMIC_WRITE };
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	size_t type, i;

	for (type = 0; type < ARRAY_SIZE(qp_types); type++)
		for (i = 0; i < ARRAY_SIZE(requests); i++) {
			qp = create_qp(me, qp_types[type].type, 0);
			if (!qp)
				err(1, "ibv_create_qp_ex");
			wr = wr_of(me, &requests[i], &sge);
			expect_error(ibv_post_send(qp, &wr, &bad), EINVAL);
			ibv_destroy_qp(qp);
			end_case(NULL, "ibv_post_send to a %s QP refuses %s", qp_types[type].name,
				 ibv_wr_opcode_str(requests[i].opcode));

			qp = create_qp(me, qp_types[type].type, ops[i]);
			if (check(!qp, "it was created"))
				expect_error(errno, EOPNOTSUPP);
			else
				ibv_destroy_qp(qp);
			end_case(NULL, "no %s QP with %s", qp_types[type].name,
				 ibv_wr_opcode_str(requests[i].opcode));
		}
}

/* --- What the target refuses --- */

#define FLUSH(offset, length, type)	{ IBV_WR_FLUSH, offset, length, type, IBV_FLUSH_RANGE }
#define FLUSH_REGION(type)		{ IBV_WR_FLUSH, 0, 0, type, IBV_FLUSH_MR }
#define ATOMIC_WRITE(offset)		{ IBV_WR_ATOMIC_WRITE, offset, 8, 0, 0 }

#define MR_RIGHTS(mr)		{ .mr_access = mr, .qp_access = END_QP_ACCESS }
#define QP_RIGHTS(qp)		{ .mr_access = MR_ACCESS, .qp_access = qp }
#define MW_RIGHTS(mw)		{ .mr_access = MR_ACCESS | IBV_ACCESS_MW_BIND, \
				  .qp_access = END_QP_ACCESS, .mw_access = mw }

static const struct {
	const char *name;
	struct end_ask ask;
	struct request request;
	enum ibv_wc_status status;
} refusals[] = {
	{ "FLUSH GLOBAL: right of the MR", MR_RIGHTS(IBV_ACCESS_REMOTE_WRITE),
	  FLUSH(0, 8, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH GLOBAL of nothing: right of the MR", MR_RIGHTS(IBV_ACCESS_REMOTE_WRITE),
	  FLUSH(0, 0, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH GLOBAL region: right of the MR", MR_RIGHTS(IBV_ACCESS_REMOTE_WRITE),
	  FLUSH_REGION(IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH PERSISTENT: right of the MR", MR_RIGHTS(MR_ACCESS),
	  FLUSH(0, 8, IBV_FLUSH_PERSISTENT), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH GLOBAL|PERSISTENT: right of the MR", MR_RIGHTS(MR_ACCESS),
	  FLUSH(0, 8, BOTH), IBV_WC_REM_ACCESS_ERR },
	{ "ATOMIC WRITE: right of the MR", MR_RIGHTS(IBV_ACCESS_FLUSH_GLOBAL),
	  ATOMIC_WRITE(0), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH GLOBAL: right of the window", MW_RIGHTS(IBV_ACCESS_REMOTE_WRITE),
	  FLUSH(0, 8, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH GLOBAL region: right of the window", MW_RIGHTS(IBV_ACCESS_REMOTE_WRITE),
	  FLUSH_REGION(IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "ATOMIC WRITE: right of the window", MW_RIGHTS(IBV_ACCESS_FLUSH_GLOBAL),
	  ATOMIC_WRITE(0), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH GLOBAL: right of the QP", QP_RIGHTS(END_QP_ACCESS & ~IBV_ACCESS_FLUSH_GLOBAL),
	  FLUSH(0, 8, IBV_FLUSH_GLOBAL), IBV_WC_REM_INV_REQ_ERR },
	{ "FLUSH PERSISTENT: right of the QP",
	  QP_RIGHTS(END_QP_ACCESS & ~IBV_ACCESS_FLUSH_PERSISTENT),
	  FLUSH(0, 8, IBV_FLUSH_PERSISTENT), IBV_WC_REM_INV_REQ_ERR },
	{ "ATOMIC WRITE: right of the QP", QP_RIGHTS(END_QP_ACCESS & ~IBV_ACCESS_REMOTE_WRITE),
	  ATOMIC_WRITE(0), IBV_WC_REM_INV_REQ_ERR },
	{ "FLUSH: one byte too long for the MR", MR_RIGHTS(MR_ACCESS),
	  FLUSH(0, END_REGION + 1, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH: one byte before the MR", MR_RIGHTS(MR_ACCESS),
	  FLUSH(-1ULL, 8, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH: the longest", MR_RIGHTS(MR_ACCESS),
	  FLUSH(0, MAX_RANGE, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "ATOMIC WRITE behind the MR", MR_RIGHTS(MR_ACCESS),
	  ATOMIC_WRITE(END_REGION), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH: one byte too long for the window", MW_RIGHTS(MR_ACCESS),
	  FLUSH(0, END_WINDOW + 1, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "FLUSH: one byte before the window", MW_RIGHTS(MR_ACCESS),
	  FLUSH(-1ULL, 8, IBV_FLUSH_GLOBAL), IBV_WC_REM_ACCESS_ERR },
	{ "ATOMIC WRITE behind the window", MW_RIGHTS(MR_ACCESS),
	  ATOMIC_WRITE(END_WINDOW), IBV_WC_REM_ACCESS_ERR },
	{ "ATOMIC WRITE before the window", MW_RIGHTS(MR_ACCESS),
	  ATOMIC_WRITE(-8ULL), IBV_WC_REM_ACCESS_ERR },
};

static void test_refusals(struct initiator *me, int api)
{
	size_t i;
	int bad;

	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		connect_qp(me, api, refusals[i].ask);
		fill(me);
		check(!post(me, &refusals[i].request, 1, &bad), "not posted");
		expect_completion(me, 0, refusals[i].status);
		check_memory(me);
		end_case(NULL, "%s: the target refuses: %s", api_names[api], refusals[i].name);
	}
}

static void test_wrong_rkey(struct initiator *me, int api)
{
	static const struct request requests[] = {
		FLUSH(0, 8, IBV_FLUSH_GLOBAL), FLUSH_REGION(IBV_FLUSH_GLOBAL), ATOMIC_WRITE(0),
	};
	size_t i;
	int bad;

	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		connect_qp(me, api, ways[0].ask);
		me->remote.rkey ^= 0x55;
		check(!post(me, &requests[i], 1, &bad), "not posted");
		expect_completion(me, 0, IBV_WC_REM_ACCESS_ERR);
		check_memory(me);
	}
	end_case(NULL, "%s: the target refuses a wrong R_Key", api_names[api]);
}

/* Neither door leads to persistence that is not there. */
static void test_registration(struct initiator *me, bool persistent)
{
	const struct end_ask mr = MR_RIGHTS(MR_ACCESS | IBV_ACCESS_FLUSH_PERSISTENT);
	const struct end_ask mw = MW_RIGHTS(MR_ACCESS | IBV_ACCESS_FLUSH_PERSISTENT);
	struct ibv_mr *dram;

	connect_qp(me, POST_SEND, mr);
	expect_error(me->remote.error, persistent ? 0 : EINVAL);
	end_case(NULL, "persistence of the target's memory is %s", persistent ? "granted" : "refused");

	connect_qp(me, POST_SEND, mw);
	expect_error(me->remote.error, 0);
	check(me->remote.bind_status != IBV_WC_SUCCESS, "it was bound");
	end_case(NULL, "a window does not get persistence that its MR does not have");

	dram = ibv_reg_mr(me->end.pd, me->data, sizeof(me->data),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_PERSISTENT);
	if (check(!dram, "it was registered"))
		expect_error(errno, EINVAL);
	end_case(NULL, "persistence of DRAM is refused");
}

/* --- Before posting --- */

/* ibv_post_send() takes all of RC, FLUSH and ATOMIC WRITE if the kernel has them. */
static void test_asking(const struct ibv_device_attr_ex *attr)
{
	const __u64 flush = IBV_DEVICE_FLUSH_GLOBAL | IBV_DEVICE_FLUSH_PERSISTENT;
	const __u64 always =
		IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
		IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
	const __u64 wanted = always |
		(attr->device_cap_flags_ex & flush ? IBV_QP_EX_WITH_FLUSH : 0) |
		(attr->device_cap_flags_ex & IBV_DEVICE_ATOMIC_WRITE ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0);

	check(attr->post_send_ops_flags == wanted, "0x%llx, not 0x%llx",
	      (unsigned long long)attr->post_send_ops_flags, (unsigned long long)wanted);
	end_case(NULL, "asked for: post_send_ops_flags");
}

/* Nothing is posted, and nothing is kept for later. */
static void test_before_rts(struct initiator *me, int api)
{
	static const struct request requests[] = {
		{ .opcode = IBV_WR_RDMA_WRITE, .length = 8 }, ATOMIC_WRITE(8),
	};
	struct end_ask wanted = MR_RIGHTS(MR_ACCESS);
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	const __u64 ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_WRITE;
	int state, bad;

	for (state = IBV_QPS_RESET; state <= IBV_QPS_INIT; state++) {
		ibv_destroy_qp(me->qp);
		me->api = api;
		me->qp = create_qp(me, IBV_QPT_RC, api == WR ? ops : 0);
		if (!me->qp || (state == IBV_QPS_INIT &&
				ibv_modify_qp(me->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
							     IBV_QP_ACCESS_FLAGS)))
			err(1, "a QP in state %d", state);
		fill(me);
		expect_error(post(me, requests, ARRAY_SIZE(requests), &bad), EINVAL);
		check(bad == 0, "bad_wr is not the first");
		wanted.what = END_CONNECT;
		wanted.address = end_address(&me->end, me->qp);
		ask(me, &wanted, &me->remote, sizeof(me->remote));
		end_connect_qp(&me->end, me->qp, 0, &me->remote.address);
		expect_nothing_posted(me);
		end_case(NULL, "%s: refused in state %s, and not sent later", api_names[api],
			 state == IBV_QPS_RESET ? "RESET" : "INIT");
	}
}

/* --- librdmacm --- */

/*
 * A record, a FLUSH, a pointer to it, and all of the region, by what only needs the QP of an
 * rdma_cm_id.  The record goes by ibv_post_send(), the others by ibv_wr_*().
 */
static void test_rdma_post(struct initiator *me)
{
	struct rdma_cm_id id = {};
	struct ibv_sge sge;
	__u64 tail;
	int i;

	connect_qp(me, WR, (struct end_ask)MR_RIGHTS(MR_ACCESS));
	id.qp = me->qp;
	fill(me);
	sge = sge_of(me, 64, 100);
	memcpy(&tail, me->data + 512, sizeof(tail));
	check(!rdma_post_writev(&id, (void *)0, &sge, 1, IBV_SEND_SIGNALED, me->remote.addr + 64,
				me->remote.rkey), "rdma_post_writev: %m");
	check(!rdma_post_flush(&id, (void *)1, 100, IBV_SEND_SIGNALED, me->remote.addr + 64,
			       me->remote.rkey, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), "rdma_post_flush: %m");
	check(!rdma_post_atomic_write(&id, (void *)2, &tail, IBV_SEND_SIGNALED, me->remote.addr + 8,
				      me->remote.rkey), "rdma_post_atomic_write: %m");
	check(!rdma_post_flush(&id, (void *)3, 0, IBV_SEND_SIGNALED, 0, me->remote.rkey, IBV_FLUSH_GLOBAL,
			       IBV_FLUSH_MR), "rdma_post_flush of the region: %m");
	memcpy(me->memory + me->remote.offset + 64, (void *)(uintptr_t)sge.addr, 100);
	memcpy(me->memory + me->remote.offset + 8, &tail, sizeof(tail));
	for (i = 0; i < 4; i++)
		expect_completion(me, i, IBV_WC_SUCCESS);
	check_memory(me);
	end_case(NULL, "rdma_post_flush and rdma_post_atomic_write");

	check(rdma_post_flush(&id, NULL, MAX_RANGE + 1, 0, me->remote.addr, me->remote.rkey,
			      IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE) == -1, "it was posted");
	expect_error(errno, EINVAL);
	expect_nothing_posted(me);
	end_case(NULL, "rdma_post_flush says EINVAL by errno");

	connect_qp(me, POST_SEND, (struct end_ask)MR_RIGHTS(MR_ACCESS));
	id.qp = me->qp;
	fill(me);
	check(rdma_post_flush(&id, NULL, 8, 0, me->remote.addr, me->remote.rkey, IBV_FLUSH_GLOBAL,
			      IBV_FLUSH_RANGE) == -1, "FLUSH was posted");
	expect_error(errno, EOPNOTSUPP);
	check(rdma_post_atomic_write(&id, NULL, &tail, 0, me->remote.addr, me->remote.rkey) == -1,
	      "ATOMIC WRITE was posted");
	expect_error(errno, EOPNOTSUPP);
	expect_nothing_posted(me);
	end_case(NULL, "rdma_post_flush and rdma_post_atomic_write need a QP that was made for them");
}

/* --- A device that has neither --- */

static void test_unsupported(struct initiator *me)
{
	static const int rights[] = {
		IBV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_PERSISTENT,
		IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	};
	static const struct request requests[] = {
		FLUSH(0, 8, IBV_FLUSH_GLOBAL), FLUSH_REGION(IBV_FLUSH_GLOBAL), ATOMIC_WRITE(0),
	};
	static const __u64 ops[] = { IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_ATOMIC_WRITE };
	const struct end_ask plain = MR_RIGHTS(IBV_ACCESS_REMOTE_WRITE);
	const struct end_ask window = {
		.mr_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND,
		.mw_access = IBV_ACCESS_FLUSH_GLOBAL,
		.qp_access = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	size_t i;
	int bad;

	for (i = 0; i < ARRAY_SIZE(rights); i++) {
		mr = ibv_reg_mr(me->end.pd, me->data, sizeof(me->data),
				IBV_ACCESS_LOCAL_WRITE | rights[i]);
		if (check(!mr, "it was registered"))
			expect_error(errno, EOPNOTSUPP);
		end_case(NULL, "not supported: ibv_reg_mr with access 0x%x", rights[i]);
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		qp = create_qp(me, IBV_QPT_RC, ops[i]);
		if (check(!qp, "it was created"))
			expect_error(errno, EOPNOTSUPP);
		end_case(NULL, "not supported: ibv_create_qp_ex with operations 0x%llx",
			 (unsigned long long)ops[i]);
	}
	connect_qp(me, POST_SEND, window);
	expect_error(me->remote.error, EOPNOTSUPP);
	end_case(NULL, "not supported: a window that can be flushed");

	connect_qp(me, POST_SEND, plain);
	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		expect_error(post(me, &requests[i], 1, &bad), EOPNOTSUPP);
		check(bad == 0, "bad_wr is not set");
		expect_nothing_posted(me);
		end_case(NULL, "not supported: ibv_post_send of %s",
			 ibv_wr_opcode_str(requests[i].opcode));
	}
}

static void test_what_works(struct initiator *me, bool persistent, int api)
{
	size_t way;

	for (way = 0; way < ARRAY_SIZE(ways); way++) {
		test_flush(me, persistent, api, way);
		test_atomic_write(me, api, way);
		test_append(me, api, way);
	}
	if (api == POST_SEND)
		test_atomic_write_data(me);
}

static void test_what_does_not(struct initiator *me, bool persistent)
{
	int api;

	for (api = 0; api < APIS; api++) {
		test_before_rts(me, api);
		test_full_queue(me, api);
		test_refusals(me, api);
		test_wrong_rkey(me, api);
	}
	test_bad_requests(me);
	test_bad_wrs(me);
	test_setters(me);
	test_abort(me);
	test_qp_types(me);
	test_registration(me, persistent);
}

int main(int argc, char **argv)
{
	const __u64 placement = IBV_DEVICE_FLUSH_GLOBAL | IBV_DEVICE_FLUSH_PERSISTENT |
				IBV_DEVICE_ATOMIC_WRITE;
	const struct end_ask now = { .what = END_MEMORY_NOW };
	static struct initiator me;
	struct ibv_device_attr_ex attr;
	int no_refusals = 0, no_post_send = 0, option, api;
	const struct option options[] = {
		{ "no-refusals", no_argument, &no_refusals, 1 },
		{ "no-post-send", no_argument, &no_post_send, 1 },
		{}
	};

	do
		option = getopt_long(argc, argv, "", options, NULL);
	while (!option);
	if (option != -1 || argc - optind != 1)
		errx(2, "usage: verbs-api [--no-refusals] [--no-post-send] ADDRESS");
	end_open(&me.end);
	if (ibv_query_device_ex(me.end.context, NULL, &attr))
		err(1, "ibv_query_device_ex");
	me.mr = ibv_reg_mr(me.end.pd, me.data, sizeof(me.data), IBV_ACCESS_LOCAL_WRITE);
	if (!me.mr)
		err(1, "ibv_reg_mr");
	me.fd = end_dial(argv[optind]);
	ask(&me, &now, me.memory, sizeof(me.memory));

	ksft_print_header();
	if (!no_post_send)
		test_asking(&attr);
	if (attr.device_cap_flags_ex & placement) {
		connect_qp(&me, POST_SEND, (struct end_ask)MR_RIGHTS(MR_ACCESS));
		for (api = no_post_send ? WR : POST_SEND; api < APIS; api++)
			test_what_works(&me, me.remote.persistent, api);
		if (!no_post_send && !no_refusals)
			test_rdma_post(&me);
		if (!no_refusals)
			test_what_does_not(&me, me.remote.persistent);
	} else if (no_refusals) {
		errx(1, "the device has neither FLUSH nor ATOMIC WRITE");
	} else {
		test_unsupported(&me);
	}
	ksft_set_plan(cases);
	ksft_finished();
}

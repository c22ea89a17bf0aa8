// SPDX-License-Identifier: GPL-2.0
/*
 * An application to be built with one version of rdma-core and run with another.
 *
 *	verbs-abi layout	print how the structs lie in memory that both sides see
 *	verbs-abi run		one work request of each kind between two QPs, the memory checked;
 *				FLUSH by ibv_wr_flush() and by ibv_post_send(), if it is there,
 *				which is asked before and told
 */
#include <endian.h>
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "verbs-end.h"

#define SIZE		64
#define IMMEDIATE	0x12345678

struct side {
	struct end end;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char memory[SIZE] __attribute__((aligned(8)));
};

static struct side near, far;
static bool wr_flush;

#define SIZEOF(type)		printf("%s: %zu bytes\n", #type, sizeof(type))
#define OFFSET(type, member)	printf("%s.%s: at %zu\n", #type, #member, offsetof(type, member))

static void print_layout(void)
{
	SIZEOF(struct ibv_send_wr);
	OFFSET(struct ibv_send_wr, next);
	OFFSET(struct ibv_send_wr, sg_list);
	OFFSET(struct ibv_send_wr, num_sge);
	OFFSET(struct ibv_send_wr, opcode);
	OFFSET(struct ibv_send_wr, send_flags);
	OFFSET(struct ibv_send_wr, imm_data);
	OFFSET(struct ibv_send_wr, wr);
	OFFSET(struct ibv_send_wr, wr.rdma.rkey);
	OFFSET(struct ibv_send_wr, wr.atomic.rkey);
	OFFSET(struct ibv_send_wr, wr.ud.remote_qkey);
	OFFSET(struct ibv_send_wr, qp_type);
	OFFSET(struct ibv_send_wr, bind_mw);
	OFFSET(struct ibv_send_wr, bind_mw.bind_info);
	OFFSET(struct ibv_send_wr, tso.mss);
	SIZEOF(struct ibv_recv_wr);
	SIZEOF(struct ibv_sge);
	SIZEOF(struct ibv_wc);
	SIZEOF(struct ibv_mw_bind);
	SIZEOF(struct ibv_mr);
	SIZEOF(struct ibv_qp);
	SIZEOF(struct ibv_qp_ex);
	SIZEOF(struct ibv_cq);
	SIZEOF(struct ibv_context);
	SIZEOF(struct ibv_qp_attr);
	SIZEOF(struct ibv_qp_init_attr);
	SIZEOF(struct ibv_qp_init_attr_ex);
	SIZEOF(struct ibv_device_attr);
	/* It may grow after its last member, so the caller says how much it has. */
	OFFSET(struct ibv_device_attr_ex, device_cap_flags_ex);
	OFFSET(struct ibv_device_attr_ex, phys_port_cnt_ex);
}

/* With FLUSH by ibv_wr_flush(), if the library has that. */
static struct ibv_qp *create_qp(struct side *side, bool flush)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.send_cq = side->end.cq,
		.recv_cq = side->end.cq,
		.pd = side->end.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (flush ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = flush ? IBV_QP_EX_WITH_FLUSH : 0,
	};

	return ibv_create_qp_ex(side->end.context, &attr);
}

static void open_side(struct side *side)
{
	end_open(&side->end);
	wr_flush = (side->qp = create_qp(side, true));
	if (!wr_flush)
		side->qp = create_qp(side, false);
	side->mr = ibv_reg_mr(side->end.pd, side->memory, SIZE,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			      IBV_ACCESS_FLUSH_GLOBAL);
	if (!side->qp || !side->mr)
		err(1, "ibv_create_qp or ibv_reg_mr");
}

static void connect_sides(void)
{
	const unsigned int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL;
	struct end_address address = end_address(&far.end, far.qp);

	end_connect_qp(&near.end, near.qp, access, &address);
	address = end_address(&near.end, near.qp);
	end_connect_qp(&far.end, far.qp, access, &address);
}

static void complete(struct side *side, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = end_completion(&side->end);

	if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode)
		errx(1, "completion of opcode %d: %s, of %d was expected", wc.opcode,
		     ibv_wc_status_str(wc.status), opcode);
	if (opcode == IBV_WC_RECV && be32toh(wc.imm_data) != IMMEDIATE)
		errx(1, "the immediate data are 0x%x", be32toh(wc.imm_data));
}

/* From the near side, with @length bytes of its memory. */
static void post(struct ibv_send_wr *wr, size_t length, enum ibv_wc_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)near.memory, length, near.mr->lkey };
	struct ibv_send_wr *bad;
	int error;

	wr->sg_list = &sge;
	wr->num_sge = length ? 1 : 0;
	wr->send_flags = IBV_SEND_SIGNALED;
	error = ibv_post_send(near.qp, wr, &bad);
	if (error)
		errx(1, "ibv_post_send of opcode %d: %s", wr->opcode, strerror(error));
	complete(&near, opcode);
}

static void expect(const void *memory, const void *wanted, size_t length, enum ibv_wr_opcode opcode)
{
	if (memcmp(memory, wanted, length))
		errx(1, "opcode %d: the memory is not what it should be", opcode);
}

static void post_rdma(enum ibv_wr_opcode opcode, enum ibv_wc_opcode completion)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	wr.wr.rdma.remote_addr = (uintptr_t)far.memory;
	wr.wr.rdma.rkey = far.mr->rkey;
	post(&wr, SIZE, completion);
	expect(near.memory, far.memory, SIZE, opcode);
}

static void post_atomic(enum ibv_wr_opcode opcode, enum ibv_wc_opcode completion, __u64 compare_add,
			__u64 swap, __u64 result)
{
	struct ibv_send_wr wr = { .opcode = opcode };

	wr.wr.atomic.remote_addr = (uintptr_t)far.memory;
	wr.wr.atomic.rkey = far.mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	post(&wr, 8, completion);
	expect(far.memory, &result, sizeof(result), opcode);
}

static void post_message(void)
{
	struct ibv_sge sge = { (uintptr_t)far.memory, SIZE, far.mr->lkey };
	struct ibv_recv_wr *bad, receive = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(IMMEDIATE) };

	if (ibv_post_recv(far.qp, &receive, &bad))
		errx(1, "ibv_post_recv");
	strcpy(near.memory, "a message");
	post(&wr, SIZE, IBV_WC_SEND);
	complete(&far, IBV_WC_RECV);
	expect(near.memory, far.memory, SIZE, IBV_WR_SEND_WITH_IMM);
}

static void bind_window(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };
	struct ibv_mw *mw = ibv_alloc_mw(near.end.pd, IBV_MW_TYPE_2);

	if (!mw)
		err(1, "ibv_alloc_mw");
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = near.mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)near.memory;
	wr.bind_mw.bind_info.length = SIZE;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	post(&wr, 0, IBV_WC_BIND_MW);
	ibv_dealloc_mw(mw);
}

static void flush_by_builder(void)
{
	struct ibv_qp_ex *qp;
	int error;

	printf("ibv_wr_flush(): %s\n", wr_flush ? "yes" : "no");
	if (!wr_flush)
		return;
	qp = ibv_qp_to_qp_ex(near.qp);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, far.mr->rkey, (uintptr_t)far.memory, SIZE, IBV_FLUSH_GLOBAL,
		     IBV_FLUSH_RANGE);
	error = ibv_wr_complete(qp);
	if (error)
		errx(1, "ibv_wr_complete: %s", strerror(error));
	complete(&near, IBV_WC_FLUSH);
}

/* Beyond what a library may fill in. */
static struct {
	struct ibv_device_attr_ex attr;
	__u64 guard;
} device = { .guard = ~0ULL };

static void flush_by_post_send(void)
{
	bool there = false;

	if (ibv_query_device_ex(near.end.context, NULL, &device.attr))
		errx(1, "ibv_query_device_ex");
	if (device.guard != ~0ULL)
		errx(1, "the library writes beyond struct ibv_device_attr_ex");
/* The headers have had it as long as this. */
#ifdef IBV_DEVICE_FLUSH_GLOBAL
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_FLUSH,
		.wr.flush = {
			.remote_addr = (uintptr_t)far.memory,
			.rkey = far.mr->rkey,
			.length = SIZE,
			.type = IBV_FLUSH_GLOBAL,
			.level = IBV_FLUSH_RANGE,
		},
	};

	there = device.attr.post_send_ops_flags & IBV_QP_EX_WITH_FLUSH;
	if (there)
		post(&wr, 0, IBV_WC_FLUSH);
#endif
	printf("FLUSH by ibv_post_send(): %s\n", there ? "yes" : "no");
}

static void run(void)
{
	open_side(&near);
	open_side(&far);
	connect_sides();

	strcpy(near.memory, "to the far side");
	post_rdma(IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE);
	strcpy(far.memory, "to the near side");
	post_rdma(IBV_WR_RDMA_READ, IBV_WC_RDMA_READ);
	post_message();
	memset(far.memory, 0, SIZE);
	post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 41, 0, 41);
	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 41, 42, 42);
	bind_window();
	flush_by_builder();
	flush_by_post_send();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "layout"))
		print_layout();
	else if (argc == 2 && !strcmp(argv[1], "run"))
		run();
	else
		errx(1, "usage: verbs-abi layout | run");
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * rxe as a kernel module uses it: KUnit cases, which run when the module is
 * loaded, on rxe0. Some are about fast-registered MRs, which only users in the
 * kernel have. The others are about FLUSH and ATOMIC WRITE by struct
 * ib_flush_wr, struct ib_atomic_write_wr and ib_post_send().
 *
 *	insmod kernel_user.ko [pmem=PHYSICAL] [only=PATTERN,...]
 *
 * In each, one RC QP posts and another one of the same device answers. The
 * memory is two pages of a fast-registered MR; a model of it is changed
 * along with every request, and compared at the end.
 *
 * As long as it is loaded, the module is also a client of rxe0, with QPs and an
 * MR of its own, so that a test can remove the device while it is in use.
 */

#include <kunit/test.h>
#include <linux/glob.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pfn.h>
#include <linux/version.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define DEVICE		"rxe0"
#define PORT		1
#define GID_INDEX	1	/* IPv4 */
#define PAGES		2
#define QUEUE		32	/* requests and their completions */
#define DEPTH		2	/* initiator depth, responder resources */
#define DEADLINE	(60 * HZ)
#define UNTOUCHED	0xee

/* The series for 6.1 adds them. Newer kernels have both requests only for programs. */
#define HAS_REQUESTS	(LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0))

/* Not macros: KUnit cuts what a case says after 512 bytes, its result too, and it would spell them out. */
enum {
	/* what memory of any kind can be registered with */
	DRAM_RIGHTS	= IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
			  IB_ACCESS_REMOTE_WRITE | IB_ACCESS_FLUSH_GLOBAL,
	ALL_RIGHTS	= DRAM_RIGHTS | IB_ACCESS_FLUSH_PERSISTENT,
};

static ulong pmem;
module_param(pmem, ulong, 0400);
MODULE_PARM_DESC(pmem, "physical address of two pages of persistent memory, which get overwritten");

static char *only[8];
static int patterns;
module_param_array(only, charp, &patterns, 0400);
MODULE_PARM_DESC(only, "run only the cases whose names match one of these patterns");

/* What the client below has been given. */
static struct ib_device *rxe0;

struct ulp {
	struct ib_device	*device;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
	struct ib_qp		*qp;		/* posts */
	struct ib_qp		*peer;		/* answers */
	struct ib_mr		*mr;
	struct ib_mr		*dma_mr;

	struct page		*dram[PAGES];
	struct scatterlist	sg[PAGES];	/* what mr is of */
	int			mapped;
	u8			*model;		/* what those pages should hold */
	u8			*local;		/* source of WRITE, sink of READ */

	struct ulp		*stranger;	/* another one, if the case has one */

	struct ib_cqe		cqe[QUEUE];	/* of the n-th request of a chain */
	struct ib_wc		wc[QUEUE];	/* the last completions, a ring */
	unsigned int		completions;
	unsigned int		expected;
	struct completion	completed;

	struct ib_cqe		receive;	/* of the peer */
	enum ib_wc_status	received;
	struct completion	has_received;
};

/* ------------------------------------------------------------------------
 * Two connected QPs
 */

static int connect(struct ib_qp *qp, struct ib_qp *peer)
{
	/* what the other types don't have */
	int rc = qp->qp_type == IB_QPT_RC ? ~0 : 0;
	const struct ib_gid_attr *gid;
	struct ib_qp_attr attr = {
		.qp_state		= IB_QPS_INIT,
		.port_num		= PORT,
		.qp_access_flags	= ALL_RIGHTS,
		.path_mtu		= IB_MTU_1024,
		.dest_qp_num		= peer->qp_num,
		.max_rd_atomic		= DEPTH,
		.max_dest_rd_atomic	= DEPTH,
		.min_rnr_timer		= 1,
		.timeout		= 17,
		.retry_cnt		= 7,
		.rnr_retry		= 7,
	};
	int err;

	gid = rdma_get_gid_attr(qp->device, PORT, GID_INDEX);
	if (IS_ERR(gid))
		return PTR_ERR(gid);

	attr.ah_attr.type = rdma_ah_find_type(qp->device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, GID_INDEX,
			64, 0);
	err = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	rdma_put_gid_attr(gid);

	if (!err)
		err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
				   IB_QP_PORT | IB_QP_ACCESS_FLAGS);

	attr.qp_state = IB_QPS_RTR;
	if (!err)
		err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV |
				   IB_QP_PATH_MTU | IB_QP_DEST_QPN |
				   IB_QP_RQ_PSN |
				   (rc & (IB_QP_MAX_DEST_RD_ATOMIC |
					  IB_QP_MIN_RNR_TIMER)));

	attr.qp_state = IB_QPS_RTS;
	if (!err)
		err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
				   (rc & (IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
					  IB_QP_RNR_RETRY |
					  IB_QP_MAX_QP_RD_ATOMIC)));

	return err;
}

static struct ib_qp *create_qp(struct ulp *ulp, enum ib_qp_type type)
{
	struct ib_qp_init_attr attr = {
		.qp_type	= type,
		.sq_sig_type	= IB_SIGNAL_REQ_WR,
		.send_cq	= ulp->cq,
		.recv_cq	= ulp->cq,
		.cap = {
			.max_send_wr	= QUEUE,
			.max_recv_wr	= 1,
			.max_send_sge	= 1,
			.max_recv_sge	= 1,
		},
	};

	return ib_create_qp(ulp->pd, &attr);
}

static void on_completion(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ulp *ulp = cq->cq_context;

	ulp->wc[ulp->completions++ % QUEUE] = *wc;
	complete(&ulp->completed);
}

static void on_receive(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ulp *ulp = cq->cq_context;

	ulp->received = wc->status;
	complete(&ulp->has_received);
}

/* Both QPs, connected. */
static int open_qps(struct ulp *ulp)
{
	int err;

	ulp->qp = create_qp(ulp, IB_QPT_RC);
	err = PTR_ERR_OR_ZERO(ulp->qp);
	if (err)
		return err;

	ulp->peer = create_qp(ulp, IB_QPT_RC);
	err = PTR_ERR_OR_ZERO(ulp->peer);
	if (err)
		return err;

	err = connect(ulp->qp, ulp->peer);
	if (err)
		return err;

	return connect(ulp->peer, ulp->qp);
}

static void close_qps(struct ulp *ulp)
{
	if (!IS_ERR_OR_NULL(ulp->qp))
		ib_destroy_qp(ulp->qp);
	if (!IS_ERR_OR_NULL(ulp->peer))
		ib_destroy_qp(ulp->peer);
	ulp->qp = NULL;
	ulp->peer = NULL;
}

/* Also of what was opened by half. */
static void close_ulp(struct ulp *ulp)
{
	int i;

	if (!IS_ERR_OR_NULL(ulp->stranger))
		close_ulp(ulp->stranger);
	close_qps(ulp);
	if (!IS_ERR_OR_NULL(ulp->mr))
		ib_dereg_mr(ulp->mr);
	if (!IS_ERR_OR_NULL(ulp->dma_mr))
		ulp->device->ops.dereg_mr(ulp->dma_mr, NULL);
	if (!IS_ERR_OR_NULL(ulp->cq))
		ib_free_cq(ulp->cq);
	if (!IS_ERR_OR_NULL(ulp->pd))
		ib_dealloc_pd(ulp->pd);

	if (ulp->mapped)
		ib_dma_unmap_sg(ulp->device, ulp->sg, PAGES,
				DMA_BIDIRECTIONAL);
	for (i = 0; i < PAGES; i++)
		if (ulp->dram[i])
			__free_page(ulp->dram[i]);
	kfree(ulp->model);
	kfree(ulp->local);
	kfree(ulp);
}

static struct ulp *open_ulp(struct ib_device *device)
{
	struct ulp *ulp;
	int err = -ENOMEM;
	int i;

	ulp = kzalloc(sizeof(*ulp), GFP_KERNEL);
	if (!ulp)
		return ERR_PTR(-ENOMEM);

	ulp->device = device;
	init_completion(&ulp->completed);
	init_completion(&ulp->has_received);
	ulp->receive.done = on_receive;
	for (i = 0; i < QUEUE; i++)
		ulp->cqe[i].done = on_completion;

	ulp->model = kmalloc(PAGES * PAGE_SIZE, GFP_KERNEL);
	ulp->local = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!ulp->model || !ulp->local)
		goto err_close;
	for (i = 0; i < PAGE_SIZE; i++)
		ulp->local[i] = i * 7 + 1;

	for (i = 0; i < PAGES; i++) {
		ulp->dram[i] = alloc_page(GFP_KERNEL);
		if (!ulp->dram[i])
			goto err_close;
	}

	ulp->pd = ib_alloc_pd(device, 0);
	err = PTR_ERR_OR_ZERO(ulp->pd);
	if (err)
		goto err_close;

	ulp->cq = ib_alloc_cq(device, ulp, 2 * QUEUE, 0, IB_POLL_WORKQUEUE);
	err = PTR_ERR_OR_ZERO(ulp->cq);
	if (err)
		goto err_close;

	err = open_qps(ulp);
	if (err)
		goto err_close;

	ulp->mr = ib_alloc_mr(ulp->pd, IB_MR_TYPE_MEM_REG, PAGES);
	err = PTR_ERR_OR_ZERO(ulp->mr);
	if (err)
		goto err_close;

	return ulp;

err_close:
	close_ulp(ulp);
	return ERR_PTR(err);
}

/* ------------------------------------------------------------------------
 * Requests
 */

/* A part of ulp->local. */
static struct ib_sge local_sge(struct ulp *ulp, u32 offset, u32 length)
{
	return (struct ib_sge) {
		/* of rxe's, this is what ib_dma_map_single() gives */
		.addr	= (uintptr_t)ulp->local + offset,
		.length	= length,
		.lkey	= ulp->pd->local_dma_lkey,
	};
}

static struct ib_rdma_wr rdma(struct ulp *ulp, enum ib_wr_opcode opcode,
			      struct ib_sge *sge, u32 offset)
{
	return (struct ib_rdma_wr) {
		.wr.opcode	= opcode,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.wr.sg_list	= sge,
		.wr.num_sge	= 1,
		.remote_addr	= ulp->mr->iova + offset,
		.rkey		= ulp->mr->rkey,
	};
}

/* post(USER, &BAD_WR, WR, ...): all at once, in this order. */
#define post(ulp, bad, ...) ({						\
	struct ib_send_wr *_chain[] = { __VA_ARGS__ };			\
									\
	post_chain(ulp, bad, _chain, ARRAY_SIZE(_chain));		\
})

static int post_chain(struct ulp *ulp, const struct ib_send_wr **bad,
		      struct ib_send_wr **chain, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		chain[i]->next = i + 1 < n ? chain[i + 1] : NULL;
		chain[i]->wr_cqe = &ulp->cqe[i];
	}

	*bad = NULL;
	return ib_post_send(ulp->qp, chain[0], bad);
}

#define post_all(test, ulp, ...) do {					\
	const struct ib_send_wr *_bad;					\
									\
	KUNIT_ASSERT_EQ(test, 0, post(ulp, &_bad, __VA_ARGS__));	\
} while (0)

/* The next completion is that of the n-th request of the chain. */
static const struct ib_wc *expect_status(struct kunit *test, int n,
					 enum ib_wc_status status)
{
	struct ulp *ulp = test->priv;
	struct ib_wc *wc;

	KUNIT_ASSERT_NE_MSG(test, 0,
			    wait_for_completion_timeout(&ulp->completed,
							DEADLINE),
			    "request %d never completes", n);
	wc = &ulp->wc[ulp->expected++ % QUEUE];
	KUNIT_ASSERT_EQ(test, n, (int)(wc->wr_cqe - ulp->cqe));
	KUNIT_ASSERT_STREQ_MSG(test, ib_wc_status_msg(status),
			       ib_wc_status_msg(wc->status), "request %d", n);
	KUNIT_EXPECT_PTR_EQ(test, ulp->qp, wc->qp);

	return wc;
}

/* That of the next completion, whatever it is. */
static enum ib_wc_status next_status(struct kunit *test, struct ulp *ulp)
{
	KUNIT_ASSERT_NE(test, 0, wait_for_completion_timeout(&ulp->completed,
							     DEADLINE));
	return ulp->wc[ulp->expected++ % QUEUE].status;
}

static const struct ib_wc *expect_success(struct kunit *test, int n,
					  enum ib_wc_opcode opcode)
{
	const struct ib_wc *wc = expect_status(test, n, IB_WC_SUCCESS);

	KUNIT_EXPECT_EQ_MSG(test, opcode, wc->opcode, "request %d", n);
	return wc;
}

/* ------------------------------------------------------------------------
 * Memory
 */

static u8 *target(struct ulp *ulp, int page)
{
	return page_address(sg_page(&ulp->sg[page]));
}

/* Asks for the fast registration of two pages: the status of that. */
static enum ib_wc_status try_register(struct kunit *test, struct page *first,
				      struct page *second, int access)
{
	struct ulp *ulp = test->priv;
	struct ib_reg_wr reg = {
		.wr.opcode	= IB_WR_REG_MR,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.mr		= ulp->mr,
		.access		= access,
	};
	int i;

	if (ulp->mapped)
		ib_dma_unmap_sg(ulp->device, ulp->sg, PAGES,
				DMA_BIDIRECTIONAL);
	sg_init_table(ulp->sg, PAGES);
	sg_set_page(&ulp->sg[0], first, PAGE_SIZE, 0);
	sg_set_page(&ulp->sg[1], second, PAGE_SIZE, 0);
	ulp->mapped = ib_dma_map_sg(ulp->device, ulp->sg, PAGES,
				    DMA_BIDIRECTIONAL);
	KUNIT_ASSERT_EQ(test, PAGES, ulp->mapped);
	KUNIT_ASSERT_EQ(test, PAGES, ib_map_mr_sg(ulp->mr, ulp->sg, PAGES,
						  NULL, PAGE_SIZE));

	for (i = 0; i < PAGES; i++)
		memset(target(ulp, i), UNTOUCHED, PAGE_SIZE);
	memset(ulp->model, UNTOUCHED, PAGES * PAGE_SIZE);

	ib_update_fast_reg_key(ulp->mr, ib_inc_rkey(ulp->mr->rkey));
	reg.key = ulp->mr->rkey;
	post_all(test, ulp, &reg.wr);
	return next_status(test, ulp);
}

static void register_pages(struct kunit *test, struct page *first,
			   struct page *second, int access)
{
	KUNIT_ASSERT_EQ(test, IB_WC_SUCCESS,
			try_register(test, first, second, access));
}

static void register_dram(struct kunit *test, int access)
{
	struct ulp *ulp = test->priv;

	register_pages(test, ulp->dram[0], ulp->dram[1], access);
}

static struct ib_send_wr invalidation(struct ulp *ulp, enum ib_wr_opcode opcode)
{
	return (struct ib_send_wr) {
		.opcode			= opcode,
		.send_flags		= IB_SEND_SIGNALED,
		.ex.invalidate_rkey	= ulp->mr->rkey,
	};
}

static void invalidate(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_send_wr inv = invalidation(ulp, IB_WR_LOCAL_INV);

	post_all(test, ulp, &inv);
	expect_success(test, 0, IB_WC_LOCAL_INV);
}

static void expect_memory(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	int i;

	for (i = 0; i < PAGES * PAGE_SIZE; i++) {
		u8 is = target(ulp, i / PAGE_SIZE)[i % PAGE_SIZE];

		if (is != ulp->model[i]) {
			KUNIT_FAIL(test, "byte %d is %#x, not %#x", i, is,
				   ulp->model[i]);
			return;
		}
	}
}

static int set_up(struct kunit *test)
{
	struct ulp *ulp;

	KUNIT_ASSERT_NOT_NULL_MSG(test, rxe0, "no device " DEVICE);
	ulp = open_ulp(rxe0);
	if (IS_ERR(ulp))
		return PTR_ERR(ulp);

	test->priv = ulp;
	return 0;
}

static void clean_up(struct kunit *test)
{
	if (test->priv)
		close_ulp(test->priv);
}

/* ------------------------------------------------------------------------
 * Which requests invalidate an MR
 */

/* The MR has remote rights: a WRITE to it ends so. */
static void expect_write(struct kunit *test, enum ib_wc_status status)
{
	struct ulp *ulp = test->priv;
	struct ib_sge sge = local_sge(ulp, 0, 3000);
	struct ib_rdma_wr write = rdma(ulp, IB_WR_RDMA_WRITE, &sge, 2000);

	if (status == IB_WC_SUCCESS)
		memcpy(ulp->model + 2000, ulp->local, 3000);
	post_all(test, ulp, &write.wr);
	expect_status(test, 0, status);
	expect_memory(test);
}

static void expect_received(struct kunit *test, struct ulp *ulp,
			    enum ib_wc_status status)
{
	KUNIT_ASSERT_NE_MSG(test, 0,
			    wait_for_completion_timeout(&ulp->has_received,
							DEADLINE),
			    "the receive never completes");
	KUNIT_ASSERT_STREQ(test, ib_wc_status_msg(status),
			   ib_wc_status_msg(ulp->received));
}

/* Posts a SEND. The receive that it finds ends so. */
static void expect_sent(struct kunit *test, struct ulp *ulp,
			struct ib_send_wr *wr, enum ib_wc_status status)
{
	struct ib_sge sge = local_sge(ulp, 0, PAGE_SIZE);
	struct ib_recv_wr receive = {
		.wr_cqe		= &ulp->receive,
		.sg_list	= &sge,
		.num_sge	= 1,
	};

	KUNIT_ASSERT_EQ(test, 0, ib_post_recv(ulp->peer, &receive, NULL));
	post_all(test, ulp, wr);
	expect_received(test, ulp, status);
}

static struct ulp *open_stranger(struct kunit *test)
{
	struct ulp *ulp = test->priv;

	ulp->stranger = open_ulp(ulp->device);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ulp->stranger));
	return ulp->stranger;
}

/* Another user of the device, with a protection domain of its own. */
static void a_stranger_does_not_invalidate_an_mr(struct kunit *test)
{
	struct ulp *ulp = test->priv, *stranger;
	struct ib_send_wr inv;

	register_dram(test, DRAM_RIGHTS);
	stranger = open_stranger(test);
	inv = invalidation(ulp, IB_WR_LOCAL_INV);
	post_all(test, stranger, &inv);
	KUNIT_EXPECT_NE(test, IB_WC_SUCCESS, next_status(test, stranger));
	expect_write(test, IB_WC_SUCCESS);
}

static void the_peer_of_a_stranger_does_not_invalidate_an_mr(struct kunit *test)
{
	struct ulp *ulp = test->priv, *stranger;
	struct ib_send_wr inv;

	register_dram(test, DRAM_RIGHTS);
	stranger = open_stranger(test);
	inv = invalidation(ulp, IB_WR_SEND_WITH_INV);
	expect_sent(test, stranger, &inv, IB_WC_REM_INV_REQ_ERR);
	expect_write(test, IB_WC_SUCCESS);
}

static void a_peer_invalidates_an_mr_with_remote_rights(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_send_wr inv;

	register_dram(test, DRAM_RIGHTS);
	inv = invalidation(ulp, IB_WR_SEND_WITH_INV);
	expect_sent(test, ulp, &inv, IB_WC_SUCCESS);
	expect_success(test, 0, IB_WC_SEND);
	expect_write(test, IB_WC_REM_ACCESS_ERR);
}

/* The MR is what is sent. */
static struct ib_send_wr send(struct ulp *ulp, struct ib_sge *sge)
{
	*sge = (struct ib_sge) {
		.addr	= ulp->mr->iova,
		.length	= 8,
		.lkey	= ulp->mr->lkey,
	};
	return (struct ib_send_wr) {
		.opcode		= IB_WR_SEND,
		.send_flags	= IB_SEND_SIGNALED,
		.sg_list	= sge,
		.num_sge	= 1,
	};
}

static void a_peer_does_not_invalidate_an_mr_without_remote_rights(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_send_wr wr;
	struct ib_sge sge;

	register_dram(test, IB_ACCESS_LOCAL_WRITE);
	wr = invalidation(ulp, IB_WR_SEND_WITH_INV);
	expect_sent(test, ulp, &wr, IB_WC_REM_INV_REQ_ERR);

	/* that was the end of this connection, whatever becomes of the SEND */
	ib_drain_sq(ulp->qp);
	ulp->expected = ulp->completions;
	reinit_completion(&ulp->completed);
	close_qps(ulp);
	KUNIT_ASSERT_EQ(test, 0, open_qps(ulp));
	wr = send(ulp, &sge);
	expect_sent(test, ulp, &wr, IB_WC_SUCCESS);
	expect_success(test, 0, IB_WC_SEND);
}

static void its_user_invalidates_an_mr_without_remote_rights(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_send_wr wr;
	struct ib_sge sge;

	register_dram(test, IB_ACCESS_LOCAL_WRITE);
	invalidate(test);
	wr = send(ulp, &sge);
	post_all(test, ulp, &wr);
	expect_status(test, 0, IB_WC_LOC_PROT_ERR);
}

/* ------------------------------------------------------------------------
 * Allocations that fail
 */

/* Larger pages need a longer list: here of 1 GiB, which is more memory than the guest has. */
static void an_mr_is_mapped_after_no_memory_was_left_for_that(struct kunit *test)
{
	struct ulp *ulp = test->priv;

	ib_dereg_mr(ulp->mr);
	ulp->mr = ib_alloc_mr(ulp->pd, IB_MR_TYPE_MEM_REG, 128);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ulp->mr));
	if (ib_map_mr_sg(ulp->mr, ulp->sg, 0, NULL, 1U << 31) != -ENOMEM)
		kunit_skip(test, "this kernel maps an MR without an allocation");

	register_dram(test, DRAM_RIGHTS);
	expect_write(test, IB_WC_SUCCESS);
}

static struct task_struct *starving;

/* kmalloc(SIZE, FLAGS) of this thread asks for more than there can be; these are the registers of x86-64. */
static int starve(struct kprobe *probe, struct pt_regs *regs)
{
	if (current == starving) {
		regs->di = SIZE_MAX;
		regs->si |= __GFP_NOWARN;
	}
	return 0;
}

static int modify_depth(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .max_dest_rd_atomic = 2 * DEPTH };

	return ib_modify_qp(qp, &attr, IB_QP_MAX_DEST_RD_ATOMIC);
}

static int modify_depth_without_memory(struct ib_qp *qp)
{
	struct kprobe probe = {
		.symbol_name	= LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0) ?
				  "__kmalloc" : "__kmalloc_noprof",
		.pre_handler	= starve,
	};
	int err;

	err = register_kprobe(&probe);
	if (err)
		return err;

	starving = current;
	err = modify_depth(qp);
	starving = NULL;
	unregister_kprobe(&probe);

	return err;
}

static void a_qp_answers_after_no_memory_was_left_to_modify_it(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_qp_attr drain = { .qp_state = IB_QPS_SQD };
	struct ib_sge sge = local_sge(ulp, 0, 3000);
	struct ib_rdma_wr wr;

	register_dram(test, DRAM_RIGHTS);
	KUNIT_ASSERT_EQ(test, 0, ib_modify_qp(ulp->peer, &drain, IB_QP_STATE));
	KUNIT_ASSERT_EQ(test, -ENOMEM, modify_depth_without_memory(ulp->peer));

	/* a WRITE needs nothing of what there was no memory for */
	wr = rdma(ulp, IB_WR_RDMA_WRITE, &sge, 2000);
	memcpy(ulp->model + 2000, ulp->local, 3000);
	post_all(test, ulp, &wr.wr);
	expect_success(test, 0, IB_WC_RDMA_WRITE);
	expect_memory(test);

	KUNIT_ASSERT_EQ(test, 0, modify_depth(ulp->peer));
	wr = rdma(ulp, IB_WR_RDMA_READ, &sge, 0);
	post_all(test, ulp, &wr.wr);
	expect_success(test, 0, IB_WC_RDMA_READ);
}

#if HAS_REQUESTS
/* ------------------------------------------------------------------------
 * What FLUSH and ATOMIC WRITE do
 */

static struct ib_flush_wr flush(struct ulp *ulp, u32 offset, u32 length,
				u8 type)
{
	return (struct ib_flush_wr) {
		.wr.opcode	= IB_WR_FLUSH,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.remote_addr	= ulp->mr->iova + offset,
		.length		= length,
		.rkey		= ulp->mr->rkey,
		.type		= type,
		.level		= IB_FLUSH_RANGE,
	};
}

static struct ib_flush_wr flush_all(struct ulp *ulp, u8 type)
{
	struct ib_flush_wr wr = flush(ulp, 0, 0, type);

	wr.level = IB_FLUSH_MR;
	return wr;
}

static struct ib_atomic_write_wr atomic_write(struct ulp *ulp, u32 offset,
					      u64 value)
{
	struct ib_atomic_write_wr wr = {
		.wr.opcode	= IB_WR_ATOMIC_WRITE,
		.wr.send_flags	= IB_SEND_SIGNALED,
		.remote_addr	= ulp->mr->iova + offset,
		.rkey		= ulp->mr->rkey,
	};

	memcpy(wr.data, &value, sizeof(value));
	return wr;
}

static void a_range_is_flushed(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_flush_wr some, all, none;

	register_dram(test, DRAM_RIGHTS);
	some = flush(ulp, 8, PAGE_SIZE, IB_FLUSH_GLOBAL);
	all = flush(ulp, 0, PAGES * PAGE_SIZE, IB_FLUSH_GLOBAL);
	none = flush(ulp, PAGES * PAGE_SIZE, 0, IB_FLUSH_GLOBAL);
	post_all(test, ulp, &some.wr, &all.wr, &none.wr);
	KUNIT_EXPECT_EQ(test, (u32)PAGE_SIZE,
			expect_success(test, 0, IB_WC_FLUSH)->byte_len);
	KUNIT_EXPECT_EQ(test, (u32)(PAGES * PAGE_SIZE),
			expect_success(test, 1, IB_WC_FLUSH)->byte_len);
	KUNIT_EXPECT_EQ(test, 0U,
			expect_success(test, 2, IB_WC_FLUSH)->byte_len);
	expect_memory(test);
}

static void a_range_beyond_the_mr_is_an_access_error(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_flush_wr wr, behind;

	register_dram(test, DRAM_RIGHTS);
	wr = flush(ulp, 8, PAGES * PAGE_SIZE - 7, IB_FLUSH_GLOBAL);
	behind = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
	post_all(test, ulp, &wr.wr, &behind.wr);
	expect_status(test, 0, IB_WC_REM_ACCESS_ERR);
	expect_status(test, 1, IB_WC_WR_FLUSH_ERR);
}

static void the_whole_mr_is_flushed_whatever_the_range(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_flush_wr wr;

	register_dram(test, DRAM_RIGHTS);
	wr = flush_all(ulp, IB_FLUSH_GLOBAL);
	wr.remote_addr = ~0ULL;
	wr.length = ~0U;
	post_all(test, ulp, &wr.wr);
	expect_success(test, 0, IB_WC_FLUSH);
}

static void atomic_write_stores_eight_bytes(struct kunit *test)
{
	static const u32 offset[] = { 0, 8, PAGE_SIZE - 8, PAGE_SIZE,
				      PAGES * PAGE_SIZE - 8 };
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr wr;
	const struct ib_wc *wc;
	int i;

	register_dram(test, DRAM_RIGHTS);
	for (i = 0; i < ARRAY_SIZE(offset); i++) {
		wr = atomic_write(ulp, offset[i], 0x0102030405060708 + i);
		memcpy(ulp->model + offset[i], wr.data, sizeof(wr.data));
		post_all(test, ulp, &wr.wr);
		wc = expect_success(test, 0, IB_WC_ATOMIC_WRITE);
		KUNIT_EXPECT_EQ(test, 8U, wc->byte_len);
	}
	expect_memory(test);
}

/* ATOMIC WRITE there is refused by the peer. */
static void expect_no_access(struct kunit *test, struct ib_atomic_write_wr wr)
{
	struct ulp *ulp = test->priv;

	post_all(test, ulp, &wr.wr);
	expect_status(test, 0, IB_WC_REM_ACCESS_ERR);
	expect_memory(test);
}

static void atomic_write_beyond_the_mr_is_an_access_error(struct kunit *test)
{
	register_dram(test, DRAM_RIGHTS);
	expect_no_access(test, atomic_write(test->priv, PAGES * PAGE_SIZE, 1));
}

static void a_request_may_change_once_it_is_posted(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr wr;
	struct ib_flush_wr fl;

	register_dram(test, DRAM_RIGHTS);
	wr = atomic_write(ulp, 0, 0x1122334455667788);
	memcpy(ulp->model, wr.data, sizeof(wr.data));
	fl = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
	post_all(test, ulp, &fl.wr, &wr.wr);
	memset(&wr, 0xff, sizeof(wr));
	memset(&fl, 0xff, sizeof(fl));
	expect_success(test, 0, IB_WC_FLUSH);
	expect_success(test, 1, IB_WC_ATOMIC_WRITE);
	expect_memory(test);
}

/* WRITE over the pages' border, FLUSH, ATOMIC WRITE, FLUSH, posted at once. */
static void append(struct kunit *test, u8 type)
{
	struct ulp *ulp = test->priv;
	struct ib_sge sge = local_sge(ulp, 0, 3000);
	struct ib_rdma_wr record = rdma(ulp, IB_WR_RDMA_WRITE, &sge, 2000);
	struct ib_flush_wr data = flush(ulp, 2000, 3000, type);
	struct ib_atomic_write_wr tail = atomic_write(ulp, 64, 3000);
	struct ib_flush_wr all = flush_all(ulp, type);

	memcpy(ulp->model + 2000, ulp->local, 3000);
	memcpy(ulp->model + 64, tail.data, sizeof(tail.data));
	post_all(test, ulp, &record.wr, &data.wr, &tail.wr, &all.wr);
	expect_success(test, 0, IB_WC_RDMA_WRITE);
	expect_success(test, 1, IB_WC_FLUSH);
	expect_success(test, 2, IB_WC_ATOMIC_WRITE);
	expect_success(test, 3, IB_WC_FLUSH);
	expect_memory(test);
}

static void a_chain_completes_in_order(struct kunit *test)
{
	register_dram(test, DRAM_RIGHTS);
	append(test, IB_FLUSH_GLOBAL);
}

static void what_is_not_signaled_does_not_complete(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr quiet_write, write;
	struct ib_flush_wr quiet_flush;

	register_dram(test, DRAM_RIGHTS);
	quiet_write = atomic_write(ulp, 0, 1);
	quiet_flush = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
	write = atomic_write(ulp, 8, 2);
	quiet_write.wr.send_flags = 0;
	quiet_flush.wr.send_flags = 0;
	memcpy(ulp->model, quiet_write.data, 8);
	memcpy(ulp->model + 8, write.data, 8);
	post_all(test, ulp, &quiet_write.wr, &quiet_flush.wr, &write.wr);
	expect_success(test, 2, IB_WC_ATOMIC_WRITE);
	expect_memory(test);
}

static void more_than_the_initiator_depth_take_their_turns(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr write[4 * DEPTH];
	struct ib_flush_wr fl[4 * DEPTH];
	struct ib_send_wr *chain[8 * DEPTH];
	const struct ib_send_wr *bad;
	int i;

	register_dram(test, DRAM_RIGHTS);
	for (i = 0; i < 4 * DEPTH; i++) {
		write[i] = atomic_write(ulp, 0, i);
		fl[i] = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
		chain[2 * i] = &write[i].wr;
		chain[2 * i + 1] = &fl[i].wr;
	}
	memcpy(ulp->model, write[4 * DEPTH - 1].data, 8);
	KUNIT_ASSERT_EQ(test, 0, post_chain(ulp, &bad, chain, 8 * DEPTH));
	for (i = 0; i < 8 * DEPTH; i++)
		expect_success(test, i, i % 2 ? IB_WC_FLUSH : IB_WC_ATOMIC_WRITE);
	expect_memory(test);
}

/* The WRITE sends what the READ has to bring first. */
static void a_fence_holds(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr tail;
	struct ib_rdma_wr read, write;
	struct ib_flush_wr fl;
	struct ib_sge sge;

	register_dram(test, DRAM_RIGHTS);
	sge = local_sge(ulp, 0, PAGE_SIZE);
	read = rdma(ulp, IB_WR_RDMA_READ, &sge, 0);
	tail = atomic_write(ulp, 0, 3);
	fl = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
	write = rdma(ulp, IB_WR_RDMA_WRITE, &sge, PAGE_SIZE);
	tail.wr.send_flags |= IB_SEND_FENCE;
	fl.wr.send_flags |= IB_SEND_FENCE;
	write.wr.send_flags |= IB_SEND_FENCE;
	memset(target(ulp, 0), 0x33, PAGE_SIZE);
	memset(ulp->model, 0x33, PAGES * PAGE_SIZE);
	memcpy(ulp->model, tail.data, 8);
	post_all(test, ulp, &read.wr, &tail.wr, &fl.wr, &write.wr);
	expect_success(test, 0, IB_WC_RDMA_READ);
	expect_success(test, 1, IB_WC_ATOMIC_WRITE);
	expect_success(test, 2, IB_WC_FLUSH);
	expect_success(test, 3, IB_WC_RDMA_WRITE);
	expect_memory(test);
}

/* ------------------------------------------------------------------------
 * What ib_post_send() refuses
 */

/* BAD in the middle of a chain: what is before it is posted, nothing else. */
static void expect_refusal(struct kunit *test, struct ib_send_wr *wr,
			   const char *why)
{
	struct ulp *ulp = test->priv;
	struct ib_flush_wr before = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
	struct ib_atomic_write_wr behind = atomic_write(ulp, 0, 1);
	const struct ib_send_wr *bad;

	KUNIT_EXPECT_EQ_MSG(test, -EINVAL,
			    post(ulp, &bad, &before.wr, wr, &behind.wr),
			    "%s", why);
	KUNIT_ASSERT_PTR_EQ_MSG(test, (const struct ib_send_wr *)wr, bad,
				"%s", why);
	expect_success(test, 0, IB_WC_FLUSH);
}

static void bad_flushes_are_refused(struct kunit *test)
{
	static const struct {
		const char *why;
		u8 type;
		u8 level;
		u32 length;
		int send_flags;
		int num_sge;
	} bad[] = {
		{ "no placement type", 0, IB_FLUSH_RANGE, 8 },
		{ "no placement type, whole MR", 0, IB_FLUSH_MR },
		{ "reserved placement type", BIT(2), IB_FLUSH_RANGE, 8 },
		{ "reserved beside a known type", IB_FLUSH_GLOBAL | BIT(7),
		  IB_FLUSH_MR },
		{ "reserved selectivity", IB_FLUSH_GLOBAL, 2, 8 },
		{ "selectivity of more than two bits", IB_FLUSH_GLOBAL, 5, 8 },
		{ "2^31 bytes", IB_FLUSH_GLOBAL, IB_FLUSH_RANGE, 1U << 31 },
		{ "inline data", IB_FLUSH_GLOBAL, IB_FLUSH_RANGE, 8,
		  IB_SEND_INLINE },
		{ "data", IB_FLUSH_GLOBAL, IB_FLUSH_RANGE, 8, 0, 1 },
	};
	struct ulp *ulp = test->priv;
	struct ib_sge sge = local_sge(ulp, 0, 8);
	struct ib_flush_wr wr;
	int i;

	register_dram(test, DRAM_RIGHTS);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		wr = flush(ulp, 0, bad[i].length, bad[i].type);
		wr.level = bad[i].level;
		wr.wr.send_flags |= bad[i].send_flags;
		wr.wr.sg_list = &sge;
		wr.wr.num_sge = bad[i].num_sge;
		expect_refusal(test, &wr.wr, bad[i].why);
	}
	expect_memory(test);
}

static void bad_atomic_writes_are_refused(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_sge sge = local_sge(ulp, 0, 8);
	struct ib_atomic_write_wr wr;
	int i;

	register_dram(test, DRAM_RIGHTS);
	for (i = 1; i < 8; i++) {
		wr = atomic_write(ulp, i, 1);
		expect_refusal(test, &wr.wr, "not aligned");
	}
	wr = atomic_write(ulp, 0, 1);
	wr.wr.sg_list = &sge;
	wr.wr.num_sge = 1;
	expect_refusal(test, &wr.wr, "data by sge");
	expect_memory(test);
}

static void other_qp_types_refuse_both(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr write;
	const struct ib_send_wr *bad;
	struct ib_flush_wr fl;

	ib_destroy_qp(ulp->qp);
	ulp->qp = create_qp(ulp, IB_QPT_UC);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ulp->qp));
	KUNIT_ASSERT_EQ(test, 0, connect(ulp->qp, ulp->peer));

	fl = flush_all(ulp, IB_FLUSH_GLOBAL);
	KUNIT_EXPECT_EQ(test, -EINVAL, post(ulp, &bad, &fl.wr));
	KUNIT_EXPECT_PTR_EQ(test, (const struct ib_send_wr *)&fl.wr, bad);
	write = atomic_write(ulp, 0, 1);
	KUNIT_EXPECT_EQ(test, -EINVAL, post(ulp, &bad, &write.wr));
	KUNIT_EXPECT_PTR_EQ(test, (const struct ib_send_wr *)&write.wr, bad);
}

/* ------------------------------------------------------------------------
 * Rights
 */

/* After registration with ACCESS. */
static void expect_no_right(struct kunit *test, int access, u8 type)
{
	struct ulp *ulp = test->priv;
	struct ib_flush_wr wr;

	register_dram(test, access);
	wr = flush_all(ulp, type);
	post_all(test, ulp, &wr.wr);
	expect_status(test, 0, IB_WC_REM_ACCESS_ERR);
}

static void flush_needs_the_right_to_flush(struct kunit *test)
{
	expect_no_right(test, DRAM_RIGHTS & ~IB_ACCESS_FLUSH_GLOBAL,
			IB_FLUSH_GLOBAL);
}

static void flush_needs_the_right_to_each_type(struct kunit *test)
{
	expect_no_right(test, DRAM_RIGHTS,
			IB_FLUSH_GLOBAL | IB_FLUSH_PERSISTENT);
}

static void atomic_write_needs_the_right_to_write(struct kunit *test)
{
	register_dram(test, DRAM_RIGHTS & ~IB_ACCESS_REMOTE_WRITE);
	expect_no_access(test, atomic_write(test->priv, 0, 1));
}

static void an_invalidated_mr_is_not_flushed(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_flush_wr wr;

	register_dram(test, DRAM_RIGHTS);
	wr = flush_all(ulp, IB_FLUSH_GLOBAL);
	invalidate(test);
	post_all(test, ulp, &wr.wr);
	expect_status(test, 0, IB_WC_REM_ACCESS_ERR);
}

static void an_invalidated_mr_is_not_written(struct kunit *test)
{
	struct ib_atomic_write_wr wr;

	register_dram(test, DRAM_RIGHTS);
	wr = atomic_write(test->priv, 0, 1);
	invalidate(test);
	expect_no_access(test, wr);
}

/* There is no other way to have more rights than IB_PD_UNSAFE_GLOBAL_RKEY has. */
static int get_dma_mr(struct ulp *ulp, int access)
{
	ulp->dma_mr = ulp->device->ops.get_dma_mr(ulp->pd, access);
	return PTR_ERR_OR_ZERO(ulp->dma_mr);
}

static void a_dma_mr_is_flushed_and_written(struct kunit *test)
{
	struct ulp *ulp = test->priv;
	struct ib_atomic_write_wr write;
	struct ib_flush_wr range, all;

	register_dram(test, DRAM_RIGHTS);
	KUNIT_ASSERT_EQ(test, 0, get_dma_mr(ulp, DRAM_RIGHTS));
	write = atomic_write(ulp, 0, 0x1122334455667788);
	range = flush(ulp, 0, 8, IB_FLUSH_GLOBAL);
	all = flush_all(ulp, IB_FLUSH_GLOBAL);
	write.remote_addr = (uintptr_t)target(ulp, 0);
	range.remote_addr = (uintptr_t)target(ulp, 0);
	write.rkey = ulp->dma_mr->rkey;
	range.rkey = ulp->dma_mr->rkey;
	all.rkey = ulp->dma_mr->rkey;
	memcpy(ulp->model, write.data, sizeof(write.data));
	post_all(test, ulp, &write.wr, &range.wr, &all.wr);
	expect_success(test, 0, IB_WC_ATOMIC_WRITE);
	expect_success(test, 1, IB_WC_FLUSH);
	expect_success(test, 2, IB_WC_FLUSH);
	expect_memory(test);
}

/* ------------------------------------------------------------------------
 * Persistence: only for what can keep its content
 */

static void persistence_of_a_dma_mr_is_refused(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, -EINVAL, get_dma_mr(test->priv, ALL_RIGHTS));
}

static void expect_no_persistence(struct kunit *test, struct page *first,
				  struct page *second)
{
	KUNIT_EXPECT_EQ(test, IB_WC_LOC_QP_OP_ERR,
			try_register(test, first, second, ALL_RIGHTS));
}

static void persistence_of_dram_is_refused(struct kunit *test)
{
	struct ulp *ulp = test->priv;

	expect_no_persistence(test, ulp->dram[0], ulp->dram[1]);
}

static struct page *pmem_page(struct kunit *test, int page)
{
	KUNIT_ASSERT_NE_MSG(test, 0, pmem, "parameter pmem is not given");
	KUNIT_ASSERT_TRUE_MSG(test, pfn_valid(PHYS_PFN(pmem)),
			      "parameter pmem: no memory at %#lx", pmem);

	return pfn_to_page(PHYS_PFN(pmem) + page);
}

static void persistence_of_dram_before_pmem_is_refused(struct kunit *test)
{
	struct ulp *ulp = test->priv;

	expect_no_persistence(test, ulp->dram[0], pmem_page(test, 1));
}

static void persistence_of_dram_behind_pmem_is_refused(struct kunit *test)
{
	struct ulp *ulp = test->priv;

	expect_no_persistence(test, pmem_page(test, 0), ulp->dram[1]);
}

static void register_pmem(struct kunit *test, int access)
{
	register_pages(test, pmem_page(test, 0), pmem_page(test, 1), access);
}

static void pmem_is_written_without_persistence(struct kunit *test)
{
	register_pmem(test, DRAM_RIGHTS);
	append(test, IB_FLUSH_GLOBAL);
}

static void persistence_of_pmem_is_granted(struct kunit *test)
{
	register_pmem(test, ALL_RIGHTS);
	append(test, IB_FLUSH_GLOBAL | IB_FLUSH_PERSISTENT);
}

/* Each mapping of pages counts anew. */
static void pmem_may_take_the_place_of_dram(struct kunit *test)
{
	register_dram(test, DRAM_RIGHTS);
	invalidate(test);
	register_pmem(test, ALL_RIGHTS);
	append(test, IB_FLUSH_PERSISTENT);
}

static void dram_does_not_take_the_place_of_pmem(struct kunit *test)
{
	struct ulp *ulp = test->priv;

	register_pmem(test, ALL_RIGHTS);
	invalidate(test);
	expect_no_persistence(test, ulp->dram[0], ulp->dram[1]);
}

#else /* !HAS_REQUESTS */

static void flush_and_atomic_write(struct kunit *test)
{
	kunit_skip(test, "this kernel has no work request of its own for FLUSH");
}

#endif /* !HAS_REQUESTS */

static struct kunit_case cases[] = {
	KUNIT_CASE(a_stranger_does_not_invalidate_an_mr),
	KUNIT_CASE(the_peer_of_a_stranger_does_not_invalidate_an_mr),
	KUNIT_CASE(a_peer_invalidates_an_mr_with_remote_rights),
	KUNIT_CASE(a_peer_does_not_invalidate_an_mr_without_remote_rights),
	KUNIT_CASE(its_user_invalidates_an_mr_without_remote_rights),
	KUNIT_CASE(an_mr_is_mapped_after_no_memory_was_left_for_that),
	KUNIT_CASE(a_qp_answers_after_no_memory_was_left_to_modify_it),
#if HAS_REQUESTS
	KUNIT_CASE(a_range_is_flushed),
	KUNIT_CASE(a_range_beyond_the_mr_is_an_access_error),
	KUNIT_CASE(the_whole_mr_is_flushed_whatever_the_range),
	KUNIT_CASE(atomic_write_stores_eight_bytes),
	KUNIT_CASE(atomic_write_beyond_the_mr_is_an_access_error),
	KUNIT_CASE(a_request_may_change_once_it_is_posted),
	KUNIT_CASE(a_chain_completes_in_order),
	KUNIT_CASE(what_is_not_signaled_does_not_complete),
	KUNIT_CASE(more_than_the_initiator_depth_take_their_turns),
	KUNIT_CASE(a_fence_holds),
	KUNIT_CASE(bad_flushes_are_refused),
	KUNIT_CASE(bad_atomic_writes_are_refused),
	KUNIT_CASE(other_qp_types_refuse_both),
	KUNIT_CASE(flush_needs_the_right_to_flush),
	KUNIT_CASE(flush_needs_the_right_to_each_type),
	KUNIT_CASE(atomic_write_needs_the_right_to_write),
	KUNIT_CASE(an_invalidated_mr_is_not_flushed),
	KUNIT_CASE(an_invalidated_mr_is_not_written),
	KUNIT_CASE(a_dma_mr_is_flushed_and_written),
	KUNIT_CASE(persistence_of_a_dma_mr_is_refused),
	KUNIT_CASE(persistence_of_dram_is_refused),
	KUNIT_CASE(persistence_of_dram_before_pmem_is_refused),
	KUNIT_CASE(persistence_of_dram_behind_pmem_is_refused),
	KUNIT_CASE(pmem_is_written_without_persistence),
	KUNIT_CASE(persistence_of_pmem_is_granted),
	KUNIT_CASE(pmem_may_take_the_place_of_dram),
	KUNIT_CASE(dram_does_not_take_the_place_of_pmem),
#else
	KUNIT_CASE(flush_and_atomic_write),
#endif
	{}
};

static struct kunit_suite suite = {
	.name		= "kernel_user",
	.init		= set_up,
	.exit		= clean_up,
	.test_cases	= cases,
};

static struct kunit_suite *suites[] = { &suite };

static bool chosen(const char *name)
{
	int i;

	for (i = 0; i < patterns; i++)
		if (glob_match(only[i], name))
			return true;

	return !patterns;
}

/* Leaves in cases those that are chosen; false if none is. */
static bool choose_cases(void)
{
	struct kunit_case *from, *to = cases;

	for (from = cases; from->run_case; from++)
		if (chosen(from->name))
			*to++ = *from;
	*to = (struct kunit_case) {};

	return to != cases;
}

/* ------------------------------------------------------------------------
 * A client that has the device in use
 */

static struct ib_client client;

static int add_device(struct ib_device *device)
{
	struct ulp *ulp;

	if (strcmp(dev_name(&device->dev), DEVICE))
		return -EOPNOTSUPP;

	ulp = open_ulp(device);
	if (IS_ERR(ulp))
		return PTR_ERR(ulp);

	ib_set_client_data(device, &client, ulp);
	rxe0 = device;
	return 0;
}

static void remove_device(struct ib_device *device, void *ulp)
{
	rxe0 = NULL;
	close_ulp(ulp);
}

static struct ib_client client = {
	.name	= "kernel_user",
	.add	= add_device,
	.remove	= remove_device,
};

static int __init start(void)
{
	int err;

	if (!choose_cases()) {
		pr_err("kernel_user: parameter only: no case matches\n");
		return -EINVAL;
	}

	err = ib_register_client(&client);
	if (err)
		return err;

	/* on 6.1, kunit_test_suite() would do this before there are parameters */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	return __kunit_test_suites_init(suites, ARRAY_SIZE(suites));
#else
	return __kunit_test_suites_init(suites, ARRAY_SIZE(suites), true);
#endif
}
module_init(start);

static void __exit stop(void)
{
	__kunit_test_suites_exit(suites, ARRAY_SIZE(suites));
	ib_unregister_client(&client);
}
module_exit(stop);

MODULE_DESCRIPTION("Test of rxe as users in the kernel use it");
MODULE_LICENSE("GPL");

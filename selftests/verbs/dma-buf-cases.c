// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions of dma-bufs: which are refused, what outlives what, and what becomes of them when the exporter moves
 * the memory or takes it away.  That they serve as other regions do, the cases of rxe_conformance prove, which are
 * in the same program.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "bar_dmabuf.h"
#include "change-access.h"
#include "dma-buf-memory.h"
#include "rxe_responder.h"

#define RIGHTS	(ACCESS_DRAM & ~IBV_ACCESS_MW_BIND)

/* ---- What is refused ---- */

DRAM_FIXTURE(dma_buf)

static void refuses(struct __test_metadata *_metadata, struct rig *rig, __u64 offset, __u64 len, __u64 iova, int fd,
		    unsigned int access, int error)
{
	errno = 0;
	EXPECT_EQ(NULL, ibv_reg_dmabuf_mr(rig->end.pd, offset, len, iova, fd, access)) {
		TH_LOG("offset 0x%llx, length 0x%llx, access 0x%x", offset, len, access);
	}
	EXPECT_STREQ(strerror(error), strerror(errno));
}

CASE(dma_buf, range, "5 range", "a region is refused that is not all within the dma-buf, or empty")
{
	static const struct { __u64 offset, len; } ranges[] = {
		{ 0, MEMORY_LEN + 1 },
		{ 0, MEMORY_LEN + PAGE },
		{ PAGE, MEMORY_LEN },
		{ MEMORY_LEN - 8, 16 },
		{ MEMORY_LEN, PAGE },
		{ -PAGE, 2 * PAGE },
		{ PAGE, -PAGE },
		{ 0, -1 },
		{ 0, 0 },
		{ MEMORY_LEN, 0 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ranges); i++)
		refuses(_metadata, &self->rig, ranges[i].offset, ranges[i].len, ranges[i].offset, dmabuf_of_end(),
			RIGHTS, EINVAL);
}

CASE(dma_buf, place_in_page, "5 range", "a region is refused whose iova is at another place in its page")
{
	refuses(_metadata, &self->rig, 8, PAGE, 16, dmabuf_of_end(), RIGHTS, EINVAL);
	refuses(_metadata, &self->rig, 0, PAGE, 1, dmabuf_of_end(), RIGHTS, EINVAL);
}

CASE(dma_buf, no_dma_buf, "5 rights", "a file that is no dma-buf is refused")
{
	int memfd = memfd_create("memory", MFD_CLOEXEC);

	ASSERT_EQ(0, ftruncate(memfd, MEMORY_LEN));
	refuses(_metadata, &self->rig, 0, PAGE, 0, memfd, RIGHTS, EINVAL);
	refuses(_metadata, &self->rig, 0, PAGE, 0, self->rig.end.context->cmd_fd, RIGHTS, EINVAL);
	close(memfd);
	refuses(_metadata, &self->rig, 0, PAGE, 0, memfd, RIGHTS, EBADF);
	refuses(_metadata, &self->rig, 0, PAGE, 0, -1, RIGHTS, EBADF);
}

CASE(dma_buf, rights, "5 rights", "rights to persistence, windows and paging on demand are refused")
{
	const int fd = dmabuf_of_end();

	refuses(_metadata, &self->rig, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_FLUSH_PERSISTENT, EINVAL);
	refuses(_metadata, &self->rig, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_MW_BIND, EINVAL);
	refuses(_metadata, &self->rig, 0, PAGE, 0, fd, RIGHTS | IBV_ACCESS_ON_DEMAND, EINVAL);
	refuses(_metadata, &self->rig, 0, PAGE, 0, fd, RIGHTS & ~IBV_ACCESS_LOCAL_WRITE, EINVAL);
}

CASE(dma_buf, other_rights_later, "5 rights", "its rights can't be changed later, and it stays as it is")
{
	struct rig *rig = &self->rig;

	EXPECT_STREQ(strerror(EOPNOTSUPP), strerror(change_access(rig->mr, RIGHTS | IBV_ACCESS_FLUSH_PERSISTENT)));
	EXPECT_STREQ(strerror(EOPNOTSUPP), strerror(change_access(rig->mr, RIGHTS | IBV_ACCESS_MW_BIND)));
	served(_metadata, rig, write_only(rig));
	refused(_metadata, rig, flush(rig, PERSISTENT, rig->start, 64), ROCE_AETH_NAK_ACCESS);
}

CASE(dma_buf, persistent, "5 rights", "a FLUSH for persistence is refused, also if it asks for visibility, too")
{
	struct rig *rig = &self->rig;

	refused(_metadata, rig, flush(rig, GLOBAL | PERSISTENT, rig->start, 64), ROCE_AETH_NAK_ACCESS);
}

CASE(dma_buf, read_only_region, "5 rights", "what a region gives no right to is refused")
{
	struct rig *rig = &self->rig;
	struct packet rq = write_only(rig);
	struct ibv_mr *mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, IBV_ACCESS_REMOTE_READ);

	ASSERT_NE(NULL, mr);
	rq.rkey = mr->rkey;
	refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
}

/* ---- What outlives what ---- */

static void all_served(struct __test_metadata *_metadata, struct rig *rig)
{
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
	served(_metadata, rig, atomic_write(rig));
	served(_metadata, rig, fetch_add(rig));
	served(_metadata, rig, flush_range(rig));
	served(_metadata, rig, flush_region(rig));
}

CASE(dma_buf, descriptor_is_closed, "2 user API", "a region outlives the descriptor that it was registered by")
{
	ASSERT_EQ(0, close(dmabuf_of_end()));
	all_served(_metadata, &self->rig);
}

CASE(dma_buf, forked, "2 user API", "a region serves while a child has the dma-buf, and when the child has ended")
{
	struct rig *rig = &self->rig;
	int wait_here[2], status;
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(wait_here));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(wait_here[1]);
		rig->end.memory[0]++;	/* shared, not copied */
		_exit(read(wait_here[0], &byte, 1) != 0);
	}
	while (rig->end.memory[0] == rig->model[0])
		usleep(1000);
	rig->model[0]++;
	all_served(_metadata, rig);
	close(wait_here[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	all_served(_metadata, rig);
}

CASE(dma_buf, other_iova, "5 range", "by any iova, what is stored is in place")
{
	static const __u64 iovas[] = { 0, PAGE, 1ull << 40, -(MEMORY_LEN + PAGE) };
	struct rig *rig = &self->rig;
	struct packet rq, ack;
	struct ibv_mr *mr;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(iovas); i++) {
		mr = ibv_reg_dmabuf_mr(rig->end.pd, REGION_OFFSET, REGION_LEN, iovas[i] + REGION_OFFSET % PAGE,
				       dmabuf_of_end(), RIGHTS);
		ASSERT_NE(NULL, mr);
		rq = write_only(rig);
		ack = model_execute(rig, &rig->flow, &rq);
		rq.va += iovas[i] + REGION_OFFSET % PAGE - rig->start;
		rq.rkey = mr->rkey;
		send_raw(&rig->flow, &rq);
		rig->flow.psn++;
		expect_packet(_metadata, &ack);
		expect_memory(_metadata, rig);
	}
}

CASE(dma_buf, last_byte, "5 range", "a region may end with the dma-buf")
{
	struct rig *rig = &self->rig;
	struct packet rq = write_only(rig);

	rig->mr = rxe_reg_mr(&rig->end, MEMORY_LEN - 32, 32, RIGHTS);
	ASSERT_NE(NULL, rig->mr);
	rq.rkey = rig->mr->rkey;
	rq.va = (uintptr_t)rig->end.memory + MEMORY_LEN - 32;
	served(_metadata, rig, rq);
	rq.va++;
	refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
}

CASE(dma_buf, many_regions, "2 user API", "many regions of one dma-buf come and go, and one that stays serves")
{
	struct rig *rig = &self->rig;
	struct ibv_mr *mr[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mr); i++) {
		mr[i] = rxe_reg_mr(&rig->end, i, PAGE, RIGHTS);
		ASSERT_NE(NULL, mr[i]);
	}
	all_served(_metadata, rig);
	for (i = 0; i < ARRAY_SIZE(mr); i++)
		ASSERT_EQ(0, ibv_dereg_mr(mr[i]));
	all_served(_metadata, rig);
}

/* A WRITE of two packets holds the region from one to the other. */
CASE(dma_buf, deregistered_amid_a_write, "2 user API",
     "ibv_dereg_mr() amid a WRITE waits for the QP that is in it, and then the region is gone")
{
	struct rig *rig = &self->rig;
	struct rxe_destroy destroy = { .mr = rig->mr };

	served(_metadata, rig, write_first(rig));
	if (!rxe_destroys_within(&destroy, 200))
		rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	rxe_destroyed(&destroy);
	EXPECT_EQ(0, destroy.error);
	flow_reopen(rig, &RXE_QP_DEFAULT);
	refused(_metadata, rig, read_only(rig), ROCE_AETH_NAK_ACCESS);
}

/* ---- The exporter moves the memory (exporter bar) ---- */

static void move(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, ioctl(dmabuf_control(), BAR_DMABUF_MOVE, dmabuf_of_end()));
}

DRAM_FIXTURE(moved)

CASE(moved, and_back, "5 range", "what comes after a move is stored at the new place, and read from there")
{
	struct rig *rig = &self->rig;
	int i;

	for (i = 0; i < 3; i++) {
		all_served(_metadata, rig);
		move(_metadata);
		expect_memory(_metadata, rig);
	}
	all_served(_metadata, rig);
}

CASE(moved, read_first, "5 range", "the first request after a move may be a READ")
{
	move(_metadata);
	served(_metadata, &self->rig, read_only(&self->rig));
}

CASE(moved, atomic_write_first, "5 range", "the first request after a move may be an ATOMIC WRITE")
{
	move(_metadata);
	served(_metadata, &self->rig, atomic_write(&self->rig));
}

CASE(moved, fetch_add_first, "5 range", "the first request after a move may be an Atomic")
{
	move(_metadata);
	served(_metadata, &self->rig, fetch_add(&self->rig));
}

CASE(moved, flush_first, "5 range", "the first request after a move may be a FLUSH")
{
	move(_metadata);
	served(_metadata, &self->rig, flush_region(&self->rig));
	served(_metadata, &self->rig, read_only(&self->rig));
}

CASE(moved, amid_a_write, "5 range", "a move between the packets of a WRITE loses none of them")
{
	struct rig *rig = &self->rig;

	served(_metadata, rig, write_first(rig));
	move(_metadata);
	served(_metadata, rig, write_last(rig));
}

CASE(moved, deregistered, "2 user API", "a region can be deregistered after a move that no request followed")
{
	struct rig *rig = &self->rig;

	move(_metadata);
	ASSERT_EQ(0, ibv_dereg_mr(rig->mr));
	rig->mr = rig->open_mr;
	all_served(_metadata, rig);
}

/* ---- The exporter takes the memory away (exporter bar) ---- */

/* From then on the memory that is compared is ordinary memory, which is open_mr's, too. */
static void open_and_revoke(struct __test_metadata *_metadata, struct rig *rig)
{
	void *memory;

	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	all_served(_metadata, rig);
	ASSERT_EQ(0, ioctl(dmabuf_control(), BAR_DMABUF_REVOKE, dmabuf_of_end()));
	memory = mmap(rig->end.memory, MEMORY_LEN, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ASSERT_EQ(rig->end.memory, memory);
	memcpy(memory, rig->model, MEMORY_LEN);
	rig->open_mr = ibv_reg_mr(rig->end.pd, memory + REGION_OFFSET, REGION_LEN, ACCESS_DRAM);
	ASSERT_NE(NULL, rig->open_mr);
}

FIXTURE(revoked) {
	struct rig rig;
};

FIXTURE_VARIANT(revoked) {
	__u8 opcode;
};

FIXTURE_TEARDOWN(revoked)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(revoked)
{
	open_and_revoke(_metadata, &self->rig);
}

ROW(revoked, write, "5 rights", "WRITE") { ROCE_RC_WRITE_ONLY };
ROW(revoked, read, "5 rights", "READ") { ROCE_RC_READ_REQUEST };
ROW(revoked, atomic_write, "5 rights", "ATOMIC WRITE") { ROCE_RC_ATOMIC_WRITE };
ROW(revoked, fetch_add, "5 rights", "FETCH ADD") { ROCE_RC_FETCH_ADD };
ROW(revoked, flush, "5 rights", "FLUSH") { ROCE_RC_FLUSH };

static struct packet request_of(struct rig *rig, __u8 opcode)
{
	switch (opcode) {
	case ROCE_RC_WRITE_ONLY:
		return write_only(rig);
	case ROCE_RC_READ_REQUEST:
		return read_only(rig);
	case ROCE_RC_ATOMIC_WRITE:
		return atomic_write(rig);
	case ROCE_RC_FETCH_ADD:
		return fetch_add(rig);
	default:
		return flush_range(rig);
	}
}

CASE(revoked, refused, "5 rights", "a request for memory that its exporter took away gets a NAK Remote Access Error")
{
	/* rxe counts a READ before it copies. */
	self->rig.flow.msn += variant->opcode == ROCE_RC_READ_REQUEST;
	refused(_metadata, &self->rig, request_of(&self->rig, variant->opcode), ROCE_AETH_NAK_ACCESS);
}

FIXTURE(revoked_region) {
	struct rig rig;
};

FIXTURE_TEARDOWN(revoked_region)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(revoked_region)
{
	open_and_revoke(_metadata, &self->rig);
}

CASE(revoked_region, registered_again, "5 rights", "no region can be registered of memory that its exporter took away")
{
	refuses(_metadata, &self->rig, 0, PAGE, 0, dmabuf_of_end(), RIGHTS, ENODEV);
}

CASE(revoked_region, deregistered, "2 user API", "a region can be deregistered after its memory was taken away")
{
	EXPECT_EQ(0, ibv_dereg_mr(self->rig.mr));
}

CASE(revoked_region, sent, "5 rights", "a WRITE from memory that its exporter took away ends with a local error")
{
	struct rig *rig = &self->rig;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(rig->flow.qp.qp);
	struct ibv_wc wc;

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, 0x1234, 0);
	ibv_wr_set_sge(qpx, rig->mr->lkey, rig->start, 64);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_STREQ(ibv_wc_status_str(IBV_WC_LOC_PROT_ERR), ibv_wc_status_str(wc.status));
	both_verbs_served_elsewhere(_metadata, rig);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Regions that are paged on demand: what is stored to them and read from them is where it ought to
 * be, wherever the access begins within a page, and nothing else is touched.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "rxe_responder.h"

#define ACCESS_ODP	(ACCESS_DRAM | IBV_ACCESS_ON_DEMAND)
/* Where the second page begins in the region. */
#define OF_PAGE_END	(PAGE - REGION_OFFSET % PAGE)

FIXTURE(odp) {
	struct rig rig;
};

FIXTURE_VARIANT(odp) {
	__u32 offset;	/* in the region, which does not begin with a page */
	__u32 len;
};

FIXTURE_TEARDOWN(odp)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(odp)
{
	need_odp(_metadata);
	rig_open(&self->rig, false, ACCESS_ODP, &RXE_QP_DEFAULT);
}

ROW(odp, first, "5 range", "the first bytes, amid a page") { 0, 64 };
ROW(odp, inside, "5 range", "within a page") { 128, 64 };
ROW(odp, page_end, "5 range", "the last bytes of a page") { OF_PAGE_END - 64, 64 };
ROW(odp, across, "5 range", "across a page boundary") { OF_PAGE_END - 32, 64 };
ROW(odp, across_by_a_packet, "5 range", "a whole packet across a page boundary") {
	OF_PAGE_END - 200, MTUS(1, 0) };
ROW(odp, page_start, "5 range", "the first bytes of a page") { OF_PAGE_END, 64 };
ROW(odp, last, "5 range", "the last bytes") { REGION_LEN - 64, 64 };

CASE(odp, written, "5 range", "a WRITE is stored where it says, and nowhere else")
{
	const __u32 len = row_len(variant->len);
	struct packet rq = write_part(&self->rig, ROCE_RC_WRITE_ONLY, len, len);

	rq.va = self->rig.start + variant->offset;
	memset(rq.payload, 0xcc, rq.payload_len / 2);
	served(_metadata, &self->rig, rq);
}

CASE(odp, read, "5 range", "a READ brings what the memory holds")
{
	struct packet rq = read_only(&self->rig);

	rq.va = self->rig.start + variant->offset;
	rq.dmalen = row_len(variant->len);
	served(_metadata, &self->rig, rq);
}

CASE(odp, received, "5 range", "a SEND is stored in the receive buffer, and nowhere else")
{
	struct packet rq = write_part(&self->rig, ROCE_RC_SEND_ONLY, 0, row_len(variant->len));
	struct ibv_wc wc;

	rq.va = self->rig.start + variant->offset;
	memset(rq.payload, 0xcc, rq.payload_len / 2);
	rxe_post_recv(&self->rig.flow.qp, self->rig.mr, rq.va, row_len(variant->len));
	served(_metadata, &self->rig, rq);
	ASSERT_TRUE(rxe_wait_wc(&self->rig.end, &wc, ANSWER_MS));
	EXPECT_STREQ("success", ibv_wc_status_str(wc.status));
}

CASE(odp, atomically_written, "5 range",
     "an ATOMIC WRITE is stored where it says, and nowhere else")
{
	const __u64 va = (self->rig.start + variant->offset) & -8ull;

	served(_metadata, &self->rig, atomic_write_to(&self->rig, va));
}

CASE(odp, fetched_and_added, "5 range", "a FETCH ADD is executed where it says, and nowhere else")
{
	struct packet rq = fetch_add(&self->rig);

	rq.va = (self->rig.start + variant->offset) & -8ull;
	served(_metadata, &self->rig, rq);
}

CASE(odp, flushed, "5 range", "a FLUSH is answered with success, and changes nothing")
{
	struct rig *rig = &self->rig;

	served(_metadata, rig,
	       flush(rig, GLOBAL, rig->start + variant->offset, row_len(variant->len)));
	served(_metadata, rig, flush_region(rig));
}

/* The kernel's own request, posted on the main flow with one SGE of the region. */
static struct packet request_with(struct __test_metadata *_metadata, struct rig *rig, bool read,
				  __u64 addr, __u32 len)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(rig->flow.qp.qp);
	struct packet rq;
	struct frame frame;

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	if (read)
		ibv_wr_rdma_read(qpx, 0x1234, 0);
	else
		ibv_wr_rdma_write(qpx, 0x1234, 0);
	ibv_wr_set_sge(qpx, rig->mr->lkey, addr, len);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	ASSERT_TRUE(frame_to_packet(&frame, &rq));
	ASSERT_EQ(read ? ROCE_RC_READ_REQUEST : ROCE_RC_WRITE_ONLY, rq.opcode);
	return rq;
}

static void answer_own(struct __test_metadata *_metadata, struct rig *rig, struct packet answer)
{
	struct ibv_wc wc;

	answer.qpn = rig->flow.qp.qp->qp_num;
	answer.syndrome = 0x1f;
	answer.msn = 1;
	peer_send(&answer);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	ASSERT_STREQ("success", ibv_wc_status_str(wc.status));
}

CASE(odp, sent, "5 range", "a WRITE from it brings what it holds to the wire")
{
	struct rig *rig = &self->rig;
	const __u64 addr = rig->start + variant->offset;
	struct packet rq = request_with(_metadata, rig, false, addr, row_len(variant->len));

	ASSERT_EQ(row_len(variant->len), rq.payload_len);
	EXPECT_EQ(0, memcmp(model_at(rig, addr), rq.payload, rq.payload_len));
	answer_own(_metadata, rig, (struct packet) { .opcode = ROCE_RC_ACK, .psn = rq.psn });
	expect_memory(_metadata, rig);
}

CASE(odp, filled, "5 range",
     "the response to a READ is stored where it ought to be, and nowhere else")
{
	struct rig *rig = &self->rig;
	const __u64 addr = rig->start + variant->offset;
	struct packet rq = request_with(_metadata, rig, true, addr, row_len(variant->len));
	struct packet answer = {
		.opcode = ROCE_RC_READ_RESPONSE_ONLY, .psn = rq.psn,
		.payload_len = row_len(variant->len),
	};
	size_t i;

	for (i = 0; i < row_len(variant->len); i++)
		answer.payload[i] = 0xff - i;
	memcpy(model_at(rig, addr), answer.payload, row_len(variant->len));
	answer_own(_metadata, rig, answer);
	expect_memory(_metadata, rig);
}

/* ---- Messages of more than a packet, and pages that go ---- */

FIXTURE(odp_region) {
	struct rig rig;
};

FIXTURE_TEARDOWN(odp_region)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(odp_region)
{
	need_odp(_metadata);
	rig_open(&self->rig, false, ACCESS_ODP, &RXE_QP_DEFAULT);
}

CASE(odp_region, long_write, "5 range",
     "each packet of a WRITE is stored after the one before, across a page boundary")
{
	struct rig *rig = &self->rig;
	struct packet first = write_first(rig), last = write_last(rig);

	first.va = rig->start + REGION_LEN - 2 * MTU - 20;
	last.va = first.va + MTU;
	served(_metadata, rig, first);
	served(_metadata, rig, last);
}

CASE(odp_region, page_is_gone, "5 range",
     "a page that has gone comes again, empty, with what is stored then")
{
	struct rig *rig = &self->rig;
	struct packet rq = write_only(rig);

	served(_metadata, rig, rq);
	ASSERT_EQ(0, madvise(rig->end.memory + PAGE, PAGE, MADV_DONTNEED));
	memset(rig->model + PAGE, 0, PAGE);
	served(_metadata, rig, read_only(rig));
	ASSERT_EQ(0, madvise(rig->end.memory + PAGE, PAGE, MADV_DONTNEED));
	served(_metadata, rig, rq);
	ASSERT_EQ(0, madvise(rig->end.memory + PAGE, PAGE, MADV_DONTNEED));
	memset(rig->model + PAGE, 0, PAGE);
	served(_metadata, rig, atomic_write(rig));
	served(_metadata, rig, fetch_add(rig));
	served(_metadata, rig, flush_range(rig));
}

/* @rq, whose key or address the model does not know, is answered with success. */
static void served_beside_the_model(struct __test_metadata *_metadata, struct rig *rig,
				    struct packet rq)
{
	struct packet ack = {
		.opcode = ROCE_RC_ACK, .psn = rig->flow.psn, .msn = 1,
		.qpn = rig->flow.qp.peer_qpn,
	};

	send_raw(&rig->flow, &rq);
	expect_packet(_metadata, &ack);
}

/* A page of this file, mapped and registered. */
static __u8 *map_on_demand(struct __test_metadata *_metadata, struct rig *rig, int fd,
			   struct ibv_mr **mr)
{
	__u8 *page;

	ASSERT_EQ(0, ftruncate(fd, PAGE));
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, page);
	close(fd);
	*mr = ibv_reg_mr(rig->end.pd, page, PAGE, ACCESS_ODP);
	ASSERT_NE(NULL, *mr);
	return page;
}

static struct packet write_to(struct rig *rig, struct ibv_mr *mr)
{
	struct packet rq = write_only(rig);

	rq.rkey = mr->rkey;
	rq.va = (uintptr_t)mr->addr;
	return rq;
}

/* The MMU lets the CPU store to a page that was only read, and the page table calls it clean. */
CASE(odp_region, page_is_reclaimed, "5 range",
     "what was stored to a page of a file that was only read before survives a lack of memory")
{
	struct rig *rig = &self->rig;
	struct packet rq;
	struct ibv_mr *mr;
	cpu_set_t here;
	__u8 *page = map_on_demand(_metadata, rig, memfd_create("page", 0), &mr);

	/* MADV_PAGEOUT looks at what this CPU has touched. */
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(here), &here));
	ASSERT_EQ(0, memcmp(page, (__u8[64]) { }, 64));
	rq = write_to(rig, mr);
	served_beside_the_model(_metadata, rig, rq);
	ASSERT_EQ(0, madvise(page, PAGE, MADV_PAGEOUT));
	EXPECT_EQ(0, memcmp(page, rq.payload, rq.payload_len));
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(page, PAGE);
}

CASE(odp_region, secret, "5 range",
     "memory that the kernel can't reach (memfd_secret) is refused, and the kernel lives")
{
	struct rig *rig = &self->rig;
	int fd = syscall(SYS_memfd_secret, 0);
	struct ibv_mr *mr;
	__u8 *page;

	if (fd < 0)
		SKIP_CASE("this kernel has no memfd_secret()");
	page = map_on_demand(_metadata, rig, fd, &mr);
	refused(_metadata, rig, write_to(rig, mr), ROCE_AETH_NAK_ACCESS);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
	munmap(page, PAGE);
}

/* ---- An I/O virtual address that is no address ---- */

CASE(odp_region, other_iova, "5 range",
     "by another iova than the address, it is refused, or what is stored is in place")
{
	const __u64 distance = 1ull << 40;
	struct rig *rig = &self->rig;
	struct packet rq = write_only(rig);
	struct ibv_mr *mr = ibv_reg_mr_iova(rig->end.pd, rig->end.memory, MEMORY_LEN,
					    (uintptr_t)rig->end.memory + distance, ACCESS_ODP);

	if (!mr) {
		EXPECT_STREQ(strerror(EOPNOTSUPP), strerror(errno));
		return;
	}
	memcpy(model_at(rig, rq.va), rq.payload, rq.payload_len);
	rq.rkey = mr->rkey;
	rq.va += distance;
	served_beside_the_model(_metadata, rig, rq);
	expect_memory(_metadata, rig);
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For cases in which the kernel is the responder: the peer's requests, and what must become of
 * them.
 *
 * A model says at each moment what the memory must hold.  Each request that ought to be executed
 * is executed in the model, too, and each check of an answer compares all of the memory with it;
 * so nothing stored where it should not be goes unseen.
 */
#ifndef RXE_RESPONDER_H
#define RXE_RESPONDER_H

#include "rxe_cases.h"

/*
 * The region and a memory window in the midst of it.  Both are odd on purpose. They start within a
 * page, cross a page boundary, and do not end at a multiple of 8.
 */
#define REGION_OFFSET	(PAGE + 24)
#define REGION_LEN	(4 * PAGE + 100)	/* three packets of the longest MTU, and more */
#define WINDOW_OFFSET	(REGION_OFFSET + 40)
#define WINDOW_LEN	(REGION_LEN - 80)

/* One QP of the kernel, and how far the peer's talk with it has come. */
struct flow {
	struct rxe_qp	qp;
	__u32		psn;	/* of the next request */
	__u32		msn;	/* of the last answer */
};

struct rig {
	struct rxe_end	end;
	struct ibv_mr	*mr;		/* the region, with the rights that the case wants */
	struct ibv_mr	*open_mr;	/* the same memory with all rights */
	__u64		start;		/* of the region */
	__u8		model[MEMORY_LEN];
	struct flow	flow;
};

void flow_open(struct rig *rig, struct flow *flow, const struct rxe_qp_config *config);
void rig_open(struct rig *rig, bool pmem, unsigned int mr_access,
	      const struct rxe_qp_config *config);

/* Another QP for the main flow. */
void flow_reopen(struct rig *rig, const struct rxe_qp_config *config);

void flow_with_resources(struct rig *rig, unsigned int resources);
void flow_from_psn(struct rig *rig, __u32 psn);
void flow_in_state(struct rig *rig, enum ibv_qp_state state);

/* The R_Key of the window, bound for the main flow. */
__u32 bind_window(struct rig *rig, int type, unsigned int access);

/* A window of all of the region, so that the same requests fit. */
struct ibv_mw *bind_all(struct rig *rig, struct flow *flow, int type, unsigned int access);

/* Requests, sound unless spoilt.  QP number and PSN are filled in when they are sent. */

struct packet flush(struct rig *rig, __u32 placement, __u64 va, __u32 len);
struct packet flush_range(struct rig *rig);

/* VA and length are to be ignored. */
struct packet flush_region(struct rig *rig);

/* Each time another value, so that each store is seen. */
struct packet atomic_write_to(struct rig *rig, __u64 va);

struct packet atomic_write(struct rig *rig);
struct packet write_part(struct rig *rig, __u8 opcode, __u32 dmalen, size_t len);
struct packet write_only(struct rig *rig);

/* The first of two packets; write_last() is the other. */
struct packet write_first(struct rig *rig);

struct packet write_last(struct rig *rig);
struct packet read_only(struct rig *rig);
struct packet fetch_add(struct rig *rig);

/* Execution in the model, and the answer that the kernel owes. */

void *model_at(struct rig *rig, __u64 va);
struct packet model_execute(struct rig *rig, struct flow *flow, const struct packet *rq);

/* Send without a word to the model, and without going on to the next PSN. */
void send_raw(struct flow *flow, struct packet *rq);

/* The same for a frame that packet_to_frame() made and the case spoilt: only QP and PSN are set. */
void send_raw_frame(struct flow *flow, struct frame *frame);

/* With the opcode bits of @service. */
void send_by_service(struct flow *flow, const struct packet *rq, __u8 service);

/* Send a request that ought to be executed; the answer that it ought to get. */
struct packet ask(struct rig *rig, struct flow *flow, struct packet *rq);

void expect_memory(struct __test_metadata *_metadata, struct rig *rig);

/* @rq is executed, and answered with success; that answer. */
struct packet serve(struct __test_metadata *_metadata, struct rig *rig, struct packet *rq);

void served(struct __test_metadata *_metadata, struct rig *rig, struct packet rq);
void window_serves(struct __test_metadata *_metadata, struct rig *rig, struct ibv_mw *mw);
void both_verbs_served_elsewhere(struct __test_metadata *_metadata, struct rig *rig);

/* A SEND with Invalidate of this key: what becomes of the receive request that it finds. */
struct ibv_wc peer_invalidates(struct __test_metadata *_metadata, struct rig *rig,
			       struct flow *flow, __u32 rkey, bool ack_req);

/* It ends the QP that it came to, with an error, and nothing else. */
void peer_cannot_invalidate(struct __test_metadata *_metadata, struct rig *rig, struct flow *flow,
			    __u32 rkey);

/*
 * What was sent with the flow's next PSN gets this NAK, leaves the memory alone, and hurts no
 * other QP.
 */
void expect_nak(struct __test_metadata *_metadata, struct rig *rig, __u8 syndrome);

bool is_nak(const struct packet *answer, __u8 syndrome);
void refused(struct __test_metadata *_metadata, struct rig *rig, struct packet rq, __u8 syndrome);

/* The packet sent last was ignored: the next request with its PSN is the next to get an answer. */
void expect_dropped(struct __test_metadata *_metadata, struct rig *rig);

/* Send once more what was sent before, as it was. */
void send_again(const struct packet *rq);

/* The answer to a duplicate: as the first time, but the MSN may have moved on. */
void expect_again(struct __test_metadata *_metadata, struct rig *rig, const struct packet *answer);

void answered_again(struct __test_metadata *_metadata, struct rig *rig, const struct packet *rq,
		    const struct packet *answer);
void need_odp(struct __test_metadata *_metadata);

/*
 * At the end of a case nothing else has been sent.  This runs after a failed test, too, and must
 * not fail by ASSERT, which would come back here.
 */
void rig_close(struct __test_metadata *_metadata, struct rig *rig);

/* FIXTURE_SETUP() of a fixture that has a rig and nothing else. */
#define RIG_FIXTURE(name)							\
	FIXTURE(name) { struct rig rig; };					\
	FIXTURE_TEARDOWN(name)							\
	{									\
		rig_close(_metadata, &self->rig);				\
	}									\
	FIXTURE_SETUP(name)

#define DRAM_FIXTURE(name)							\
	RIG_FIXTURE(name)							\
	{									\
		rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);	\
	}

void need_pmem(struct __test_metadata *_metadata);

#endif /* RXE_RESPONDER_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For cases in which the kernel is the requester: work requests, the packets that they must
 * become, and the peer's answers.
 *
 * That something does not happen is shown by a pulse: a WRITE on another QP, whose packet and
 * completion are then the next to be seen.
 */
#ifndef RXE_REQUESTER_H
#define RXE_REQUESTER_H

#include "rxe_cases.h"

#define REMOTE_VA	0x7f00aa12345678ull	/* no memory: the peer has none */
#define REMOTE_RKEY	0x00c0ffee
#define REMOTE_DATA	0x1122334455667788ull	/* what it says that this holds */

/*
 * As in struct ibv_qp_attr: 67 ms and 268 ms, and longer if the machine is slow.  The long one is
 * for cases that would mind if it ran out before the peer had its turn.
 */
#define SHORT_TIMEOUT	14
#define LONG_TIMEOUT	16

/* A work request, and the order in which it was posted (also its wr_id). */
struct wr {
	enum ibv_wr_opcode	opcode;
	__u32			placement;	/* FLUSH: ROCE_FETH_* */
	__u64			va;
	__u32			len;
	__u64			value;		/* ATOMIC WRITE */
	unsigned int		flags;
	bool			outside;	/* WRITE: outside of the region, not to be sent */
};

struct line {
	struct rxe_qp	qp;
	__u32		psn;	/* of the next new request */
	__u32		msn;
	__u64		id;	/* of the last work request */
	/* The peer's own requests: */
	__u32		peer_psn;	/* of the first */
	__u32		peer_asked;	/* so many were answered */
};

struct client {
	struct rxe_end	end;
	struct ibv_mr	*mr;
	struct line	line;
	struct line	pulse;
};

/* The kernel does not know yet how the peer computes the ICRC of FLUSH: see line_meet(). */
void line_open(struct client *client, struct line *line, const struct rxe_qp_config *config);

/* The same QP once more, through RESET. */
void line_reopen(struct client *client, struct line *line, const struct rxe_qp_config *config);

void client_open(struct client *client, const struct rxe_qp_config *config);
struct rxe_qp_config with_timeout(unsigned int timeout, unsigned int retries);

/* Work requests. */

struct wr wr_to(enum ibv_wr_opcode opcode, __u64 va, __u32 len);
struct wr wr_flush(void);
struct wr wr_flush_region(void);
struct wr wr_atomic_write(void);
struct wr wr_write(void);
struct wr wr_read(void);
struct wr wr_fetch_add(void);
struct wr wr_send(void);

/* Those that take of the initiator depth, in turn. */
struct wr wr_of_depth(int i);

void set_sge(struct client *client, struct ibv_qp_ex *qpx, __u32 len);
void build_wr(struct client *client, struct ibv_qp_ex *qpx, const struct wr *wr);
void fill_request(struct client *client, const struct wr *wr, struct packet *rq);

/*
 * A bind of a new window of type 2, which goes before the QPs that exist by now when all is
 * closed.
 */
void build_bind(struct __test_metadata *_metadata, struct client *client, struct ibv_qp_ex *qpx);

/* Add @wr to what is about to be posted: the request that the kernel owes the wire for it. */
struct packet build_on(struct client *client, struct line *line, const struct wr *wr);

/* Post @wr: the request that the kernel owes the wire, once its turn has come. */
struct packet post_on(struct __test_metadata *_metadata, struct client *client, struct line *line,
		      struct wr wr);

struct packet post(struct __test_metadata *_metadata, struct client *client, struct wr wr);

/*
 * Post a SEND or an RDMA WRITE of @len bytes at @data, which are not in the client's region.  The
 * first @registered of them are in the region that is returned.  The PSNs are up to the caller.
 */
struct ibv_mr *post_long(struct __test_metadata *_metadata, struct client *client,
			 enum ibv_wr_opcode opcode, void *data, size_t registered, size_t len);

/* Post @n of them by one doorbell. */
void post_all(struct __test_metadata *_metadata, struct client *client, const struct wr *wr, int n,
	      struct packet *rq);

struct packet post_and_expect(struct __test_metadata *_metadata, struct client *client,
			      struct wr wr);

/* The success response to @rq. */
struct packet response_on(struct line *line, const struct packet *rq);

struct packet response(struct client *client, const struct packet *rq);
void respond(struct client *client, const struct packet *rq);

/* An ACKNOWLEDGE of @rq with any syndrome. */
void acknowledge_on(struct line *line, const struct packet *rq, __u8 syndrome);

void acknowledge(struct client *client, const struct packet *rq, __u8 syndrome);

/* The next FLUSH of the peer's own. */
struct packet peer_flush(struct client *client, struct line *line);

/*
 * Let the kernel be certain how the peer computes the ICRC of FLUSH: one is answered that was sent
 * in this form only.  From then on what is sent again is the same to the last byte.  The peer
 * ignores one in the other form.  It sends a FLUSH of its own, which shows its form, and then asks
 * for what it misses, as if it had seen a request after it.
 */
void line_meet(struct client *client, struct line *line);

void expect_wc(struct __test_metadata *_metadata, struct client *client, __u64 id,
	       enum ibv_wc_status status);

/* All that was posted since request @first has succeeded, in order. */
void expect_successes(struct __test_metadata *_metadata, struct client *client, __u64 first);

/* Neither a packet nor a completion follows. */
void expect_silence(struct __test_metadata *_metadata, struct client *client);

/* The kernel sends @rq, @n of them, once more, byte for byte. */
void expect_retransmission(struct __test_metadata *_metadata, const struct packet *rq, int n);

/*
 * The kernel sends @rq, all @n outstanding requests, once more; then they are answered, and
 * succeed.
 */
void expect_healing(struct __test_metadata *_metadata, struct client *client,
		    const struct packet *rq, int n);

/* A request is sent once more, where only the count of transmissions matters: by opcode and PSN. */
void expect_again_roughly(struct __test_metadata *_metadata, const struct packet *rq);

/* The kernel's next step: a completion or a packet.  The time-out makes it take one. */
bool next_is_completion(struct __test_metadata *_metadata, struct client *client,
			struct frame *frame, struct ibv_wc *wc);

/* What an answer that is none does. */
enum consequence {
	ANSWER_IGNORED,	/* the request is sent again as it was; the true response completes it */
	ANSWER_IS_BAD,	/* it fails with BAD_RESP_ERR, and with it the QP */
};

void expect_consequence(struct __test_metadata *_metadata, struct client *client,
			const struct packet *rq, enum consequence consequence);
void client_close(struct client *client);

/* FIXTURE_SETUP() of a fixture that has a client and nothing else. */
#define CLIENT_FIXTURE(name)					\
	FIXTURE(name) { struct client client; };		\
	FIXTURE_TEARDOWN(name)					\
	{							\
		client_close(&self->client);			\
	}							\
	FIXTURE_SETUP(name)

/* Its QP never times out. */
#define PATIENT_FIXTURE(name)					\
	CLIENT_FIXTURE(name)					\
	{							\
		client_open(&self->client, &RXE_QP_DEFAULT);	\
	}

/* Its QP sends again what is not answered in time. */
#define IMPATIENT_FIXTURE(name, timeout)					\
	CLIENT_FIXTURE(name)							\
	{									\
		struct rxe_qp_config config = with_timeout(timeout, 7);		\
										\
		client_open(&self->client, &config);				\
	}

#endif /* RXE_REQUESTER_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's end of the link: the rxe device under test, used through libibverbs.  It is the
 * target of what the raw peer asks for, or asks for something that the raw peer then answers.
 *
 * What goes wrong here before anything is tested ends the program with a message.
 */
#ifndef RXE_END_H
#define RXE_END_H

#include <infiniband/verbs.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Rights that a libibverbs without ibv_wr_flush() does not name, but passes on to the kernel. */
#ifdef NO_IBV_WR_FLUSH
#define IBV_ACCESS_FLUSH_GLOBAL		(1 << 8)
#define IBV_ACCESS_FLUSH_PERSISTENT	(1 << 9)
#define SEND_OPS_MPE			0
#else
#define SEND_OPS_MPE			(IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE)
#endif

#define DAX_DEVICE	"/dev/dax0.0"

#define PAGE		4096ul
#define MEMORY_LEN	(8 * PAGE)

#define ACCESS_FLUSH	(IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)
/* All rights that ordinary memory can have. */
#define ACCESS_DRAM	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | \
			 IBV_ACCESS_MW_BIND | IBV_ACCESS_FLUSH_GLOBAL)
#define ACCESS_WINDOW	(ACCESS_DRAM & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND))
#define ACCESS_ALL	(ACCESS_DRAM | IBV_ACCESS_FLUSH_PERSISTENT)

struct rxe_end {
	struct ibv_context	*context;
	struct ibv_comp_channel	*channel;
	struct ibv_cq		*cq;
	struct ibv_pd		*pd;
	int			gid_index;
	__u8			*memory;	/* MEMORY_LEN bytes, page-aligned */
	bool			is_pmem;
};

/*
 * @len bytes, a multiple of RXE_PIECE: one piece of memory, again and again.  So a long region
 * needs no more than that, and what is stored at one place is then seen at all of them.
 */
#define RXE_PIECE	(2ul << 20)
__u8 *rxe_map_pieces(size_t len);

struct rxe_qp {
	struct ibv_qp	*qp;
	__u32		peer_qpn;
};

/* As in struct ibv_qp_attr; RXE_QP_DEFAULT allows and has everything, and never times out. */
struct rxe_qp_config {
	enum ibv_qp_type	type;
	enum ibv_qp_state	state;		/* how far to take it: RESET, INIT, RTR, RTS */
	unsigned int		access;
	unsigned int		queue;		/* max_send_wr */
	unsigned int		resources;	/* max_dest_rd_atomic */
	unsigned int		depth;		/* max_rd_atomic */
	unsigned int		mtu;		/* 0: that of the link */
	__u32			peer_psn;	/* the first that the peer will use */
	__u32			own_psn;
	unsigned int		timeout;
	unsigned int		retries;
	unsigned int		rnr_retries;
	bool			all_signaled;	/* sq_sig_all */
	bool			no_sge;		/* max_send_sge and max_inline_data 0 */
	struct ibv_srq		*srq;		/* NULL: it has receives of its own */
};

extern const struct rxe_qp_config RXE_QP_DEFAULT;

#define RXE_QKEY	0x1111

/* Does the device RXE_DEVICE offer both verbs? */
bool rxe_offers_verbs(void);
bool rxe_has_pmem(void);
bool rxe_has_odp(void);

void rxe_open(struct rxe_end *end, bool pmem);
void rxe_close(struct rxe_end *end);

/* From now on regions are paged on demand. */
extern bool rxe_on_demand;

/* NULL: refused, see errno. */
struct ibv_mr *rxe_reg_mr(struct rxe_end *end, size_t offset, size_t len, unsigned int access);

/*
 * The same by UVERBS_METHOD_REG_MR: the keys.  False: refused, see errno; EPROTONOSUPPORT is a
 * kernel without it. It goes with the context.
 */
bool rxe_reg_mr_by_method(struct rxe_end *end, size_t offset, size_t len, unsigned int access,
			  __u32 *lkey, __u32 *rkey);

void rxe_make_qp(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp);
/* One that @config has left in RESET or INIT: on to RTS. */
void rxe_finish_qp(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp);
/* Through RESET to a new QP of the peer; @config is as before but for PSNs and the like. */
void rxe_reconnect_qp(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp);
/*
 * Two that are connected with each other, and not with the peer; the second's PSNs are the first's,
 * crossed.
 */
void rxe_make_pair(struct rxe_end *end, const struct rxe_qp_config *both, struct rxe_qp pair[2]);
void rxe_modify_qp(struct rxe_qp *qp, enum ibv_qp_state state);
enum ibv_qp_state rxe_qp_state(struct rxe_qp *qp);
/* From INIT to RTR, as @config says, but with this path MTU: as ibv_modify_qp(). */
int rxe_try_path_mtu(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp,
		     unsigned int path_mtu);
/* In SQD: from now on the peer is at @addr. */
void rxe_move_peer(struct rxe_end *end, struct rxe_qp *qp, __u32 addr);
/* To SQD, and ask for the event that tells when it is drained. */
void rxe_drain_qp(struct rxe_qp *qp);
/* That event; false: not within @ms milliseconds (scaled). */
bool rxe_wait_drained(struct rxe_end *end, struct rxe_qp *qp, unsigned int ms);

/* An event of this type of the QP; others meanwhile are dropped. */
bool rxe_wait_event(struct rxe_end *end, struct rxe_qp *qp, enum ibv_event_type type,
		    unsigned int ms);
void rxe_post_recv(struct rxe_qp *qp, struct ibv_mr *mr, __u64 addr, __u32 len);

struct ibv_mw *rxe_alloc_mw(struct rxe_end *end, int type);
/*
 * Bind @mw to @len bytes of @mr from @addr on, by @qp, to which a window of type 2 then belongs.
 * False: refused, and @qp is in error.
 */
bool rxe_try_bind_mw(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr,
		     __u64 addr, size_t len, unsigned int access);
/* The same for a window that was invalidated, and its key stays; fails never. */
void rxe_rebind_mw(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr,
		   __u64 addr, size_t len, unsigned int access);
/* A new window, bound. */
struct ibv_mw *rxe_bind_mw(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mr *mr, int type,
			   __u64 addr, size_t len, unsigned int access);
void rxe_local_invalidate(struct rxe_end *end, struct rxe_qp *qp, __u32 rkey);
bool rxe_refuses_local_invalidate(struct rxe_end *end, struct rxe_qp *qp, __u32 rkey);

/*
 * The kernel completes a request that it refuses as if it were flushed (--flushes-refused), as
 * Linux 6.2 to 7.3 do.
 */
extern bool rxe_flushes_refused;

/* The status of a request that is refused, where a kernel that gives it its own gives @own */
enum ibv_wc_status rxe_refused_status(enum ibv_wc_status own);

/* The next completion; false: none within @ms milliseconds (scaled). */
bool rxe_wait_wc(struct rxe_end *end, struct ibv_wc *wc, unsigned int ms);

/*
 * The destruction of a QP, an MR or an MW, in a thread of its own: if the kernel waits for what the
 * case holds, the case can still let go of it.
 */
struct rxe_destroy {
	struct ibv_qp	*qp;
	struct ibv_mr	*mr;	/* in place of @qp */
	struct ibv_mw	*mw;	/* the same */
	pthread_t	thread;
	bool		ended;
	int		error;
};

/* Begin it.  False: it has not ended within @ms milliseconds (scaled). */
bool rxe_destroys_within(struct rxe_destroy *destroy, unsigned int ms);
/* The same of one that has begun and not ended. */
bool rxe_ends_within(struct rxe_destroy *destroy, unsigned int ms);
/* The end of it, whenever that is. */
void rxe_destroyed(struct rxe_destroy *destroy);

/* A counter of RXE_DEVICE; not every kernel has all. */
bool rxe_has_counter(const char *name);
unsigned long long rxe_counter(const char *name);
/* The same when it has reached @value, or, if it does not, after @ms milliseconds (scaled). */
unsigned long long rxe_wait_counter(const char *name, unsigned long long value, unsigned int ms);

/* Let the kernel keep what this tracepoint of rxe tells from now on.  False: rxe has none such. */
bool rxe_trace(const char *event);
/* The end of that: the last line, in @line, or "" if it told nothing. */
void rxe_end_trace(const char *event, char *line, size_t len);

#endif /* RXE_END_H */

// SPDX-License-Identifier: GPL-2.0
/* The kernel's end of the link, see rxe_end.h. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "rxe_peer.h"
#include "rxe_end.h"

#define QUEUE_LEN	256
#define DAX_ALIGN	(2ul << 20)
#define IBV_SMALLEST_MTU	256	/* enum ibv_mtu counts its doublings from 1 on */

const struct rxe_qp_config RXE_QP_DEFAULT = {
	.type = IBV_QPT_RC,
	.state = IBV_QPS_RTS,
	.access = ACCESS_ALL,
	.queue = QUEUE_LEN / 2,
	.resources = 16,
	.depth = 16,
	.peer_psn = 0x1000,
	.own_psn = 0x2000,
	.timeout = 0,		/* none */
	.retries = 7,
	.rnr_retries = 7,
};

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device;
	struct ibv_context *context = NULL;

	if (!list)
		err(1, "the list of RDMA devices");
	for (device = list; *device; device++)
		if (!strcmp(ibv_get_device_name(*device), RXE_DEVICE))
			context = ibv_open_device(*device);
	ibv_free_device_list(list);
	if (!context)
		errx(1, "cannot open RDMA device " RXE_DEVICE
			" (is libibverbs' provider for rxe installed, ibverbs-providers?)");
	return context;
}

static struct ibv_device_attr_ex query_device(void)
{
	struct ibv_context *context = open_device();
	struct ibv_device_attr_ex attr;

	if (ibv_query_device_ex(context, NULL, &attr))
		err(1, "the capabilities of " RXE_DEVICE);
	ibv_close_device(context);
	return attr;
}

/*
 * Of device_cap_flags_ex: enum ib_uverbs_device_cap_flags, which may be older in the system's
 * headers.
 */
#define CAP_FLUSH_GLOBAL	(1ull << 38)
#define CAP_ATOMIC_WRITE	(1ull << 40)

bool rxe_offers_verbs(void)
{
	const __u64 wanted = CAP_FLUSH_GLOBAL | CAP_ATOMIC_WRITE;

	return (query_device().device_cap_flags_ex & wanted) == wanted;
}

bool rxe_has_odp(void)
{
	return query_device().odp_caps.general_caps & IBV_ODP_SUPPORT;
}

bool rxe_has_pmem(void)
{
	return !access(DAX_DEVICE, R_OK | W_OK);
}

static int find_gid(struct ibv_context *context)
{
	struct ibv_gid_entry entry;
	__u8 gid[16];
	int i;

	peer_gid(RXE_ADDR, gid);
	for (i = 0; !ibv_query_gid_ex(context, 1, i, &entry, 0); i++)
		if (!memcmp(&entry.gid, gid, sizeof(gid)))
			return i;
	errx(1, RXE_DEVICE " has no GID for its IP address");
}

static __u8 *map_memory(bool pmem)
{
	int dax = pmem ? open(DAX_DEVICE, O_RDWR) : -1;
	void *memory;

	if (pmem && dax < 0)
		err(1, DAX_DEVICE);
	memory = pmem ? mmap(NULL, DAX_ALIGN, PROT_READ | PROT_WRITE, MAP_SHARED, dax, 0) :
			mmap(NULL, MEMORY_LEN, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		err(1, "memory for the test");
	if (pmem)
		close(dax);
	return memory;
}

void rxe_open(struct rxe_end *end, bool pmem)
{
	end->context = open_device();
	end->gid_index = find_gid(end->context);
	end->pd = ibv_alloc_pd(end->context);
	end->channel = ibv_create_comp_channel(end->context);
	if (!end->pd || !end->channel)
		err(1, "a protection domain, a completion channel");
	end->cq = ibv_create_cq(end->context, QUEUE_LEN, NULL, end->channel, 0);
	if (!end->cq)
		err(1, "a completion queue");
	end->memory = map_memory(pmem);
	end->is_pmem = pmem;
}

/* The kernel destroys what was made through the context. */
void rxe_close(struct rxe_end *end)
{
	ibv_close_device(end->context);
	munmap(end->memory, end->is_pmem ? DAX_ALIGN : MEMORY_LEN);
}

#define FAULT_AROUND	(16 * PAGE)

__u8 *rxe_map_pieces(size_t len)
{
	__u8 *memory = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			    -1, 0);
	int piece = memfd_create("piece", MFD_CLOEXEC);
	size_t at;

	if (memory == MAP_FAILED || piece < 0 || ftruncate(piece, RXE_PIECE))
		err(1, "a piece of memory");
	for (at = 0; at < len; at += RXE_PIECE)
		if (mmap(memory + at, RXE_PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 piece, 0) == MAP_FAILED)
			err(1, "mapping it at %zu MiB", at >> 20);
	close(piece);
	memset(memory, 0, RXE_PIECE);
	/* A read maps what is around it, too.  Registration would map each page by itself. */
	for (at = 0; at < len; at += FAULT_AROUND)
		__atomic_load_n(memory + at, __ATOMIC_RELAXED);
	return memory;
}

bool rxe_on_demand;

struct ibv_mr *rxe_reg_mr(struct rxe_end *end, size_t offset, size_t len, unsigned int access)
{
	if (rxe_on_demand)
		access |= IBV_ACCESS_ON_DEMAND;
	return ibv_reg_mr(end->pd, end->memory + offset, len, access);
}

/* UVERBS_METHOD_REG_MR and its attributes; older headers of the kernel have no names for them. */
#define METHOD_REG_MR	5
enum {
	REG_MR_HANDLE	= 0,
	REG_MR_PD	= 1,
	REG_MR_IOVA	= 3,
	REG_MR_ADDR	= 4,
	REG_MR_LENGTH	= 5,
	REG_MR_ACCESS	= 6,
	REG_MR_LKEY	= 9,
	REG_MR_RKEY	= 10,
};

static struct ib_uverbs_attr reg_mr_attr(__u16 id, __u16 len, __u64 data)
{
	return (struct ib_uverbs_attr) {
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data,
	};
}

bool rxe_reg_mr_by_method(struct rxe_end *end, size_t offset, size_t len, unsigned int access,
			  __u32 *lkey, __u32 *rkey)
{
	const __u64 addr = (uintptr_t)end->memory + offset;
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[8];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd), .object_id = UVERBS_OBJECT_MR,
			.method_id = METHOD_REG_MR, .num_attrs = 8, .driver_id = RDMA_DRIVER_RXE,
		},
		.attrs = {
			reg_mr_attr(REG_MR_HANDLE, 0, 0),
			reg_mr_attr(REG_MR_PD, 0, end->pd->handle),
			reg_mr_attr(REG_MR_IOVA, sizeof(addr), addr),
			reg_mr_attr(REG_MR_ADDR, sizeof(addr), addr),
			reg_mr_attr(REG_MR_LENGTH, sizeof(__u64), len),
			reg_mr_attr(REG_MR_ACCESS, sizeof(__u64), access),
			reg_mr_attr(REG_MR_LKEY, sizeof(*lkey), (uintptr_t)lkey),
			reg_mr_attr(REG_MR_RKEY, sizeof(*rkey), (uintptr_t)rkey),
		},
	};

	return !ioctl(end->context->cmd_fd, RDMA_VERBS_IOCTL, &cmd);
}

static struct ibv_qp *create_qp(struct rxe_end *end, const struct rxe_qp_config *config)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = config->type,
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.pd = end->pd,
		.srq = config->srq,
		.sq_sig_all = config->all_signaled,
		.cap = {
			.max_send_wr = config->queue, .max_send_sge = !config->no_sge,
			.max_recv_wr = 4, .max_recv_sge = 1,
			.max_inline_data = config->no_sge ? 0 : 64,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp;

	if (config->type == IBV_QPT_RC)
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				       IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				       SEND_OPS_MPE;
	qp = ibv_create_qp_ex(end->context, &attr);
	if (!qp)
		err(1, "a queue pair");
	return qp;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(qp, attr, mask | IBV_QP_STATE);

	errno = error;
	if (error)
		err(1, "a queue pair to state %d", attr->qp_state);
}

static void to_init(const struct rxe_qp_config *config, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = config->access,
		.qkey = RXE_QKEY,
	};

	modify(qp, &attr, IBV_QP_PORT | IBV_QP_PKEY_INDEX |
	       (config->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static struct ibv_ah_attr address_vector(const struct rxe_end *end, __u32 addr)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .hop_limit = 64, .sgid_index = end->gid_index },
	};

	peer_gid(addr, attr.grh.dgid.raw);
	return attr;
}

static int try_rtr(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp,
		   __u32 peer_addr, unsigned int path_mtu)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path_mtu,
		.dest_qp_num = qp->peer_qpn,
		.rq_psn = config->peer_psn,
		.max_dest_rd_atomic = config->resources,
		.min_rnr_timer = 1,
		.ah_attr = address_vector(end, peer_addr),
	};
	int mask = IBV_QP_STATE;

	if (config->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (config->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp->qp, &attr, mask);
}

int rxe_try_path_mtu(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp,
		     unsigned int path_mtu)
{
	return try_rtr(end, config, qp, PEER_ADDR, path_mtu);
}

static void to_rtr(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp,
		   __u32 peer_addr)
{
	unsigned int path_mtu = ffs((config->mtu ? : peer_link.mtu) / IBV_SMALLEST_MTU);
	int error = try_rtr(end, config, qp, peer_addr, path_mtu);

	errno = error;
	if (error)
		err(1, "a queue pair to state %d", IBV_QPS_RTR);
}

static void to_rts(const struct rxe_qp_config *config, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = config->own_psn,
		.timeout = config->timeout,
		.retry_cnt = config->retries,
		.rnr_retry = config->rnr_retries,
		.max_rd_atomic = config->depth,
	};
	int mask = IBV_QP_SQ_PSN;

	if (config->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	modify(qp, &attr, mask);
}

static void connect_with_peer(struct rxe_end *end, const struct rxe_qp_config *config,
			      struct rxe_qp *qp)
{
	qp->peer_qpn = peer_new_qpn();
	if (config->state >= IBV_QPS_INIT)
		to_init(config, qp->qp);
	if (config->state >= IBV_QPS_RTR)
		to_rtr(end, config, qp, PEER_ADDR);
	if (config->state >= IBV_QPS_RTS)
		to_rts(config, qp->qp);
}

void rxe_make_qp(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp)
{
	qp->qp = create_qp(end, config);
	connect_with_peer(end, config, qp);
}

void rxe_finish_qp(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp)
{
	if (config->state < IBV_QPS_INIT)
		to_init(config, qp->qp);
	if (config->state < IBV_QPS_RTR)
		to_rtr(end, config, qp, PEER_ADDR);
	to_rts(config, qp->qp);
}

void rxe_reconnect_qp(struct rxe_end *end, const struct rxe_qp_config *config, struct rxe_qp *qp)
{
	rxe_modify_qp(qp, IBV_QPS_RESET);
	connect_with_peer(end, config, qp);
}

void rxe_make_pair(struct rxe_end *end, const struct rxe_qp_config *both, struct rxe_qp pair[2])
{
	struct rxe_qp_config config[2] = { *both, *both };
	int i;

	config[1].own_psn = config[0].peer_psn;
	config[1].peer_psn = config[0].own_psn;
	for (i = 0; i < 2; i++) {
		pair[i].qp = create_qp(end, &config[i]);
		pair[!i].peer_qpn = pair[i].qp->qp_num;
	}
	for (i = 0; i < 2; i++) {
		to_init(&config[i], pair[i].qp);
		to_rtr(end, &config[i], &pair[i], RXE_ADDR);
		to_rts(&config[i], pair[i].qp);
	}
}

void rxe_modify_qp(struct rxe_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	modify(qp->qp, &attr, 0);
}

/* The state, and whether it drains in SQD. */
static struct ibv_qp_attr query_state(struct rxe_qp *qp)
{
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	int error = ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init_attr);

	errno = error;
	if (error)
		err(1, "the state of a queue pair");
	return attr;
}

enum ibv_qp_state rxe_qp_state(struct rxe_qp *qp)
{
	return query_state(qp).qp_state;
}

void rxe_move_peer(struct rxe_end *end, struct rxe_qp *qp, __u32 addr)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_SQD, .ah_attr = address_vector(end, addr),
	};

	modify(qp->qp, &attr, IBV_QP_AV);
	/* rxe drains it again, and refuses RTS meanwhile */
	while (query_state(qp).sq_draining)
		;
}

void rxe_drain_qp(struct rxe_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	modify(qp->qp, &attr, IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

bool rxe_wait_event(struct rxe_end *end, struct rxe_qp *qp, enum ibv_event_type type,
		    unsigned int ms)
{
	struct pollfd poll_events = { .fd = end->context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	bool found;

	while (poll(&poll_events, 1, ms * wait_scale()) == 1) {
		if (ibv_get_async_event(end->context, &event))
			err(1, "an asynchronous event");
		found = event.event_type == type && event.element.qp == qp->qp;
		ibv_ack_async_event(&event);
		if (found)
			return true;
	}
	return false;
}

bool rxe_wait_drained(struct rxe_end *end, struct rxe_qp *qp, unsigned int ms)
{
	return rxe_wait_event(end, qp, IBV_EVENT_SQ_DRAINED, ms);
}

void rxe_post_recv(struct rxe_qp *qp, struct ibv_mr *mr, __u64 addr, __u32 len)
{
	struct ibv_sge sge = { .addr = addr, .length = len, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	int error = ibv_post_recv(qp->qp, &wr, &bad);

	errno = error;
	if (error)
		err(1, "a receive request");
}

/* Post the local operation that was begun on @qp, and wait for it. */
static enum ibv_wc_status complete_local(struct rxe_end *end, struct rxe_qp *qp)
{
	int error = ibv_wr_complete(ibv_qp_to_qp_ex(qp->qp));
	struct ibv_wc wc;

	errno = error;
	if (error)
		err(1, "posting a local operation");
	if (!rxe_wait_wc(end, &wc, ANSWER_MS))
		errx(1, "no completion of a local operation");
	return wc.status;
}

struct ibv_mw *rxe_alloc_mw(struct rxe_end *end, int type)
{
	struct ibv_mw *mw = ibv_alloc_mw(end->pd, type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);

	if (!mw)
		err(1, "a memory window");
	return mw;
}

static bool bind_mw_as(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mw *mw, __u32 rkey,
		       struct ibv_mr *mr, __u64 addr, size_t len, unsigned int access)
{
	const struct ibv_mw_bind_info info = { mr, addr, len, access };
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp->qp);

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qpx, mw, rkey, &info);
	if (complete_local(end, qp) != IBV_WC_SUCCESS)
		return false;
	mw->rkey = rkey;
	return true;
}

bool rxe_try_bind_mw(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr,
		     __u64 addr, size_t len, unsigned int access)
{
	return bind_mw_as(end, qp, mw, ibv_inc_rkey(mw->rkey), mr, addr, len, access);
}

void rxe_rebind_mw(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mw *mw, struct ibv_mr *mr,
		   __u64 addr, size_t len, unsigned int access)
{
	if (!bind_mw_as(end, qp, mw, mw->rkey, mr, addr, len, access))
		errx(1, "cannot bind a memory window by the key that it has");
}

struct ibv_mw *rxe_bind_mw(struct rxe_end *end, struct rxe_qp *qp, struct ibv_mr *mr, int type,
			   __u64 addr, size_t len, unsigned int access)
{
	struct ibv_mw *mw = rxe_alloc_mw(end, type);

	if (!rxe_try_bind_mw(end, qp, mw, mr, addr, len, access))
		errx(1, "cannot bind a memory window with access 0x%x", access);
	return mw;
}

static enum ibv_wc_status local_invalidate(struct rxe_end *end, struct rxe_qp *qp, __u32 rkey)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp->qp);

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(qpx, rkey);
	return complete_local(end, qp);
}

void rxe_local_invalidate(struct rxe_end *end, struct rxe_qp *qp, __u32 rkey)
{
	if (local_invalidate(end, qp, rkey) != IBV_WC_SUCCESS)
		errx(1, "cannot invalidate a memory window");
}

bool rxe_refuses_local_invalidate(struct rxe_end *end, struct rxe_qp *qp, __u32 rkey)
{
	return local_invalidate(end, qp, rkey) != IBV_WC_SUCCESS;
}

bool rxe_flushes_refused;

enum ibv_wc_status rxe_refused_status(enum ibv_wc_status own)
{
	return rxe_flushes_refused ? IBV_WC_WR_FLUSH_ERR : own;
}

bool rxe_wait_wc(struct rxe_end *end, struct ibv_wc *wc, unsigned int ms)
{
	struct pollfd poll_channel = { .fd = end->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	while (!ibv_poll_cq(end->cq, 1, wc)) {
		if (ibv_req_notify_cq(end->cq, 0))
			err(1, "asking for a completion event");
		/* It may have come before the asking took effect. */
		if (ibv_poll_cq(end->cq, 1, wc))
			return true;
		if (poll(&poll_channel, 1, ms * wait_scale()) != 1)
			return false;
		if (ibv_get_cq_event(end->channel, &cq, &context))
			err(1, "a completion event");
		ibv_ack_cq_events(cq, 1);
	}
	return true;
}

static void *destroy_beside(void *argument)
{
	struct rxe_destroy *destroy = argument;

	if (destroy->mr)
		destroy->error = ibv_dereg_mr(destroy->mr);
	else if (destroy->mw)
		destroy->error = ibv_dealloc_mw(destroy->mw);
	else
		destroy->error = ibv_destroy_qp(destroy->qp);
	return NULL;
}

bool rxe_ends_within(struct rxe_destroy *destroy, unsigned int ms)
{
	struct timespec end;

	ms *= wait_scale();
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000 + (end.tv_nsec + ms % 1000 * 1000000) / 1000000000;
	end.tv_nsec = (end.tv_nsec + ms % 1000 * 1000000) % 1000000000;
	destroy->ended = !pthread_timedjoin_np(destroy->thread, NULL, &end);
	return destroy->ended;
}

bool rxe_destroys_within(struct rxe_destroy *destroy, unsigned int ms)
{
	errno = pthread_create(&destroy->thread, NULL, destroy_beside, destroy);
	if (errno)
		err(1, "a thread");
	return rxe_ends_within(destroy, ms);
}

void rxe_destroyed(struct rxe_destroy *destroy)
{
	if (!destroy->ended)
		pthread_join(destroy->thread, NULL);
	if (destroy->error) {
		errno = destroy->error;
		err(1, "destroying a %s", destroy->mr ? "memory region" :
		    destroy->mw ? "memory window" : "queue pair");
	}
}

#define LONGEST_TICK_MS	11	/* and a bit: HZ is 100 at least */
#define COUNTERS	"/sys/class/infiniband/" RXE_DEVICE "/ports/1/hw_counters/"

static bool write_word(const char *path, const char *word)
{
	FILE *file = fopen(path, "w");
	bool done = file && fputs(word, file) >= 0;

	return file && !fclose(file) && done;
}

bool rxe_has_counter(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), COUNTERS "%s", name);
	return !access(path, R_OK);
}

unsigned long long rxe_counter(const char *name)
{
	unsigned long long value;
	char path[128];
	FILE *file;

	/*
	 * The kernel answers with what it has read last, if that was less than this, or than a
	 * tick, ago.
	 */
	write_word(COUNTERS "lifespan", "0");
	poll(NULL, 0, LONGEST_TICK_MS);
	snprintf(path, sizeof(path), COUNTERS "%s", name);
	file = fopen(path, "r");
	if (!file)
		err(1, "the kernel's rxe has no counter %s: %s", name, path);
	if (fscanf(file, "%llu", &value) != 1)
		errx(1, "%s holds no number", path);
	fclose(file);
	return value;
}

unsigned long long rxe_wait_counter(const char *name, unsigned long long value, unsigned int ms)
{
	unsigned long long now = rxe_counter(name);

	for (ms *= wait_scale(); now < value && ms; ms--) {
		poll(NULL, 0, 1);
		now = rxe_counter(name);
	}
	return now;
}

#define TRACEFS		"/sys/kernel/tracing/"

static bool switch_event(const char *event, const char *on)
{
	char path[128];

	snprintf(path, sizeof(path), TRACEFS "events/rxe/%s/enable", event);
	return write_word(path, on);
}

bool rxe_trace(const char *event)
{
	/* Most systems have mounted it. */
	if (access(TRACEFS "trace", F_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	/* Opened for writing, it is emptied. */
	write_word(TRACEFS "trace", "");
	return switch_event(event, "1");
}

void rxe_end_trace(const char *event, char *line, size_t len)
{
	FILE *file = fopen(TRACEFS "trace", "r");
	char next[512];

	if (!file)
		err(1, TRACEFS "trace");
	*line = '\0';
	while (fgets(next, sizeof(next), file))
		if (*next != '#')
			snprintf(line, len, "%s", next);
	fclose(file);
	switch_event(event, "0");
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that use verbs at random, and are killed.
 *
 *	killed-programs COUNT SEED
 *
 * Four programs run at a time, each with two threads and a context, whose objects both threads use.  They create,
 * modify, query, reregister, resize, bind, invalidate, attach, post, poll, write to their rings, and fork.  To destroy
 * an object they ask the kernel alone, so that the library still has it: another thread, or the same one later, uses
 * what is gone.  At any time a program is killed, or exits, and another one begins, until all of them have given COUNT
 * commands.  The raw peer (rxe_peer.h) sends them packets meanwhile.  What must hold:
 *  - a program that is killed ends;
 *  - nothing is left of it, and the kernel's objects have not grown much;
 *  - a fresh connection is served.
 * The kernel's console shows whether the kernel is in trouble: rxe-vm looks at it.
 *
 * Which numbers a program draws depends on the seed and its number alone.  When it is killed, and what the threads do
 * to each other, is left to the machine.
 */
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prng.h"
#include "rxe_end.h"
#include "rxe_peer.h"

#define PROGRAMS	4
#define THREADS		2
#define SLOTS		6	/* of each kind, in a program */
#define PORT		1
#define LIFE_MS		400	/* at most, until it is killed */
#define MEMORY		(16 * PAGE)
#define QPNS		64	/* the last ones, for the peer */
#define MOST_GROWTH_KIB	(4 << 10)	/* of the kernel's objects */

enum kind { PD, MR, MW, CQ, SRQ, QP, AH, KINDS };

/* What all share */
struct shared {
	__u64 commands;
	__u32 qpns[QPNS], next_qpn;
	__u32 rkeys[QPNS];
} *shared;

struct program {
	struct ibv_context *context;
	void *objects[KINDS][SLOTS];
	char *memory;
	int gid_index;
	__u64 seed;
};

struct thread {
	struct program *program;
	struct prng prng;
};

static __u32 draw(struct thread *t, __u32 n)
{
	return prng_below(&t->prng, n);
}

/* Maybe NULL, and maybe destroyed. */
static void *any(struct thread *t, enum kind kind)
{
	return __atomic_load_n(&t->program->objects[kind][draw(t, SLOTS)], __ATOMIC_ACQUIRE);
}

/* ---- Destroy: by the kernel's command, for the library would free what others use ---- */

struct destroy_command {
	struct ib_uverbs_cmd_hdr header;
	union {
		__u32 handle;
		struct {
			__u64 response;
			__u32 handle;
			__u32 reserved;
		} __attribute__((packed)) with_response;
	} body;
} __attribute__((packed));

static void destroy(struct ibv_context *context, enum kind kind, __u32 handle)
{
	static const __u8 commands[KINDS] = {
		[PD] = IB_USER_VERBS_CMD_DEALLOC_PD, [MR] = IB_USER_VERBS_CMD_DEREG_MR,
		[MW] = IB_USER_VERBS_CMD_DEALLOC_MW, [CQ] = IB_USER_VERBS_CMD_DESTROY_CQ,
		[SRQ] = IB_USER_VERBS_CMD_DESTROY_SRQ, [QP] = IB_USER_VERBS_CMD_DESTROY_QP,
		[AH] = IB_USER_VERBS_CMD_DESTROY_AH,
	};
	struct ib_uverbs_destroy_cq_resp response;	/* the longest */
	struct destroy_command command = { .header.command = commands[kind] };
	size_t size = sizeof(command.header) + sizeof(command.body.handle);

	command.body.handle = handle;
	if (kind == CQ || kind == SRQ || kind == QP) {
		command.body.with_response.response = (uintptr_t)&response;
		command.body.with_response.handle = handle;
		size = sizeof(command);
		command.header.out_words = (kind == CQ ? sizeof(struct ib_uverbs_destroy_cq_resp) :
					    kind == QP ? sizeof(struct ib_uverbs_destroy_qp_resp) :
					    sizeof(struct ib_uverbs_destroy_srq_resp)) / 4;
	}
	command.header.in_words = size / 4;
	if (write(context->cmd_fd, &command, size) < 0)
		return;		/* in use, or destroyed already */
}

static __u32 handle_of(enum kind kind, const void *object)
{
	switch (kind) {
	case PD:
		return ((const struct ibv_pd *)object)->handle;
	case MR:
		return ((const struct ibv_mr *)object)->handle;
	case MW:
		return ((const struct ibv_mw *)object)->handle;
	case CQ:
		return ((const struct ibv_cq *)object)->handle;
	case SRQ:
		return ((const struct ibv_srq *)object)->handle;
	case QP:
		return ((const struct ibv_qp *)object)->handle;
	default:
		return ((const struct ibv_ah *)object)->handle;
	}
}

/* ---- Create ---- */

static unsigned int draw_access(struct thread *t)
{
	return IBV_ACCESS_LOCAL_WRITE | draw(t, 2 * IBV_ACCESS_MW_BIND) |
		(draw(t, 2) ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND : 0);
}

static struct ibv_ah_attr path_of(struct thread *t)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .sgid_index = t->program->gid_index, .hop_limit = 64 },
	};

	/* to itself, or to the raw peer */
	peer_gid(draw(t, 2) ? RXE_ADDR : PEER_ADDR, attr.grh.dgid.raw);
	return attr;
}

static void *create_qp(struct thread *t)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_qp_init_attr init = {
		.cap = { 1 + draw(t, 16), 1 + draw(t, 16), 1 + draw(t, 3), 1 + draw(t, 3), draw(t, 64) },
		.qp_type = types[draw(t, 4)],
		.sq_sig_all = draw(t, 2),
		.send_cq = any(t, CQ),
		.recv_cq = any(t, CQ),
		.srq = draw(t, 2) ? any(t, SRQ) : NULL,
	};
	struct ibv_pd *pd = any(t, PD);
	struct ibv_qp *qp;

	if (!pd || !init.send_cq || !init.recv_cq)
		return NULL;
	qp = ibv_create_qp(pd, &init);
	if (qp)
		shared->qpns[__atomic_fetch_add(&shared->next_qpn, 1, __ATOMIC_RELAXED) % QPNS] = qp->qp_num;
	return qp;
}

static void *create(struct thread *t, enum kind kind)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1 + draw(t, 32), .max_sge = 1 + draw(t, 3) } };
	struct ibv_pd *pd = any(t, PD);
	struct ibv_ah_attr path;
	struct ibv_mr *mr;
	__u32 offset;

	if (!pd && kind != PD && kind != CQ)
		return NULL;
	switch (kind) {
	case PD:
		return ibv_alloc_pd(t->program->context);
	case CQ:
		return ibv_create_cq(t->program->context, 1 + draw(t, 64), NULL, NULL, 0);
	case MR:
		offset = draw(t, MEMORY);
		mr = ibv_reg_mr(pd, t->program->memory + offset, 1 + draw(t, MEMORY - offset), draw_access(t));
		if (mr)
			shared->rkeys[draw(t, QPNS)] = mr->rkey;
		return mr;
	case MW:
		return ibv_alloc_mw(pd, draw(t, 2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	case SRQ:
		return ibv_create_srq(pd, &srq);
	case AH:
		path = path_of(t);
		return ibv_create_ah(pd, &path);
	default:
		return create_qp(t);
	}
}

/* In place of what was there, which goes with the context at the latest. */
static void replace(struct thread *t)
{
	enum kind kind = draw(t, KINDS);
	void *old, **slot = &t->program->objects[kind][draw(t, SLOTS)];

	old = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (old)
		destroy(t->program->context, kind, handle_of(kind, old));
	if (!old || draw(t, 2))
		__atomic_store_n(slot, create(t, kind), __ATOMIC_RELEASE);
}

/* ---- Use ---- */

static void modify_qp(struct thread *t)
{
	struct ibv_qp *qp = any(t, QP), *peer = any(t, QP);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = draw_access(t),
		.qkey = RXE_QKEY,
		.path_mtu = IBV_MTU_256 + draw(t, 3),
		.dest_qp_num = peer ? peer->qp_num : 0,
		.max_dest_rd_atomic = draw(t, 5),
		.max_rd_atomic = draw(t, 5),
		.timeout = 8 + draw(t, 6),
		.retry_cnt = draw(t, 3),
		.rnr_retry = draw(t, 8),
		.ah_attr = path_of(t),
	};
	bool rc = qp && qp->qp_type == IBV_QPT_RC, ud = qp && qp->qp_type == IBV_QPT_UD;
	static const enum ibv_qp_state others[] = { IBV_QPS_RESET, IBV_QPS_ERR, IBV_QPS_SQD, IBV_QPS_RTS };

	if (!qp)
		return;
	if (!draw(t, 3)) {
		attr.qp_state = others[draw(t, 4)];
		ibv_modify_qp(qp, &attr, IBV_QP_STATE);
		return;
	}
	ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		      (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	ibv_modify_qp(qp, &attr, ud ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		      IBV_QP_RQ_PSN | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	attr.qp_state = IBV_QPS_RTS;
	ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

static struct ibv_sge draw_sge(struct thread *t)
{
	struct ibv_mr *mr = any(t, MR);
	struct ibv_sge sge = { .addr = (uintptr_t)t->program->memory + draw(t, MEMORY), .length = draw(t, 3 * PAGE) };

	if (mr) {
		sge.lkey = mr->lkey;
		if (draw(t, 4))
			sge.addr = (uintptr_t)mr->addr;
		if (draw(t, 4) && sge.length > mr->length)
			sge.length = mr->length;
	}
	return sge;
}

static void post_send(struct thread *t)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV,
	};
	struct ibv_sge sge = draw_sge(t);
	struct ibv_qp *qp = any(t, QP);
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcodes[draw(t, 8)],
		.send_flags = draw(t, 16) & ~(draw(t, 4) ? IBV_SEND_INLINE : 0),
	};

	if (!qp)
		return;
	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = any(t, AH);
		wr.wr.ud.remote_qpn = shared->qpns[draw(t, QPNS)];
		wr.wr.ud.remote_qkey = RXE_QKEY;
		wr.opcode = IBV_WR_SEND;
		if (!wr.wr.ud.ah)
			return;
	} else {
		wr.wr.rdma.remote_addr = sge.addr & ~7ull;
		wr.wr.rdma.rkey = shared->rkeys[draw(t, QPNS)];
		if (wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP && wr.opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.rkey = shared->rkeys[draw(t, QPNS)];
			wr.wr.atomic.remote_addr = sge.addr & ~7ull;
			sge.length = 8;
		}
	}
	ibv_post_send(qp, &wr, &bad);
}

static void post_recv(struct thread *t)
{
	struct ibv_sge sge = draw_sge(t);
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_qp *qp = any(t, QP);
	struct ibv_srq *srq = any(t, SRQ);

	if (srq && draw(t, 2))
		ibv_post_srq_recv(srq, &wr, &bad);
	else if (qp && !qp->srq)
		ibv_post_recv(qp, &wr, &bad);
}

static void bind_or_invalidate(struct thread *t)
{
	struct ibv_qp *qp = any(t, QP);
	struct ibv_mw *mw = any(t, MW);
	struct ibv_mr *mr = any(t, MR);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mw_bind bind;

	if (!qp || !mw || !mr)
		return;
	bind = (struct ibv_mw_bind){ .bind_info = { mr, (uintptr_t)mr->addr, mr->length,
						    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE } };
	if (draw(t, 3) == 0) {
		wr.invalidate_rkey = draw(t, 2) ? mw->rkey : mr->rkey;
	} else if (mw->type == IBV_MW_TYPE_1) {
		ibv_bind_mw(qp, mw, &bind);
		shared->rkeys[draw(t, QPNS)] = mw->rkey;
		return;
	} else {
		wr.opcode = IBV_WR_BIND_MW;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = bind.bind_info;
		shared->rkeys[draw(t, QPNS)] = wr.bind_mw.rkey;
	}
	ibv_post_send(qp, &wr, &bad);
}

static void change_size(struct thread *t)
{
	struct ibv_srq_attr attr = { .max_wr = 1 + draw(t, 64), .srq_limit = draw(t, 4) };
	struct ibv_srq *srq = any(t, SRQ);
	struct ibv_cq *cq = any(t, CQ);

	if (cq && draw(t, 2))
		ibv_resize_cq(cq, 1 + draw(t, 128));
	else if (srq)
		ibv_modify_srq(srq, &attr, 1 + draw(t, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
}

static void rereg(struct thread *t)
{
	struct ibv_mr *mr = any(t, MR);
	__u32 offset = draw(t, MEMORY);

	if (mr)
		ibv_rereg_mr(mr, 1 + draw(t, 7), any(t, PD), t->program->memory + offset,
			     1 + draw(t, MEMORY - offset), draw_access(t));
}

static void attach(struct thread *t)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 + draw(t, 3) } };
	struct ibv_qp *qp = any(t, QP);

	if (qp && draw(t, 2))
		ibv_attach_mcast(qp, &group, 0);
	else if (qp)
		ibv_detach_mcast(qp, &group, 0);
}

static void look(struct thread *t)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp = any(t, QP);
	struct ibv_cq *cq = any(t, CQ);
	struct ibv_qp_attr attr;
	struct ibv_wc wc[4];

	if (cq) {
		ibv_req_notify_cq(cq, 0);
		ibv_poll_cq(cq, 4, wc);
	}
	if (qp)
		ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
}

/* A word of any ring, or of its indexes; the next post of any queue pair shows it to the kernel. */
static void scribble(struct thread *t)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, rings = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/dev/infiniband/uverbs") || sscanf(line, "%lx-%lx", &start, &end) != 2 ||
		    draw(t, ++rings))
			continue;
		start += 4 * draw(t, draw(t, 8) ? (end - start) / 4 : 64);
		*(volatile __u32 *)start = draw(t, 2) ? prng_next(&t->prng) : draw(t, 64);
	}
	if (maps)
		fclose(maps);
}

/* The child has the rings, too, and goes while its parent uses them. */
static void fork_child(struct thread *t)
{
	pid_t child;

	if (draw(t, 50))
		return;
	child = fork();
	if (!child) {
		usleep(draw(t, 20000));
		_exit(0);
	}
}

static void one_command(struct thread *t)
{
	static void (*const commands[])(struct thread *t) = {
		replace, replace, replace, modify_qp, modify_qp, post_send, post_send, post_send, post_recv, post_recv,
		bind_or_invalidate, bind_or_invalidate, change_size, rereg, attach, look, fork_child,
		scribble,
	};

	commands[draw(t, sizeof(commands) / sizeof(*commands))](t);
	__atomic_fetch_add(&shared->commands, 1, __ATOMIC_RELAXED);
}

/* ---- A program ---- */

static void *live(void *arg)
{
	struct thread *t = arg;

	for (;;)
		one_command(t);
	return NULL;
}

static int gid_index(struct ibv_context *context)
{
	__u8 wanted[16];
	union ibv_gid gid;
	int i;

	peer_gid(RXE_ADDR, wanted);
	for (i = 0; !ibv_query_gid(context, PORT, i, &gid); i++)
		if (!memcmp(gid.raw, wanted, sizeof(wanted)))
			return i;
	errx(1, "%s has no GID of its address", RXE_DEVICE);
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; list && list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), RXE_DEVICE))
			context = ibv_open_device(list[i]);
	if (!context)
		err(1, "opening " RXE_DEVICE);
	return context;
}

static void run_program(__u64 seed)
{
	struct program program = { .context = open_device(), .seed = seed };
	struct thread threads[THREADS];
	pthread_t ids[THREADS];
	int i;

	program.gid_index = gid_index(program.context);
	program.memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < THREADS; i++)
		threads[i] = (struct thread){ &program, prng_of_seed(seed * THREADS + i) };
	for (i = 0; i < KINDS * SLOTS; i++)
		program.objects[i / SLOTS][i % SLOTS] = create(&threads[0], i / SLOTS);
	for (i = 0; i < THREADS; i++) {
		if (pthread_create(&ids[i], NULL, live, &threads[i]))
			errx(1, "pthread_create");
	}
	usleep(LIFE_MS * 2000);		/* killed before, most of the time */
	exit(0);
}

/* ---- All of them ---- */

struct child {
	pid_t pid;		/* 0: none */
	int status;
	bool ended;
};

static struct child start(__u64 seed)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		/* what it breaks in itself is its own matter */
		freopen("/dev/null", "w", stderr);
		run_program(seed);
	}
	return (struct child){ .pid = pid };
}

/* Reaps the programs that have ended, and their children, which the kernel gives to us when a program ends. */
static void reap(struct child *programs)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < PROGRAMS; i++)
			if (programs[i].pid == pid)
				programs[i] = (struct child){ pid, status, true };
}

/* True if it had ended before it was killed, by what it did to itself. */
static bool kill_program(struct child *programs, int i)
{
	long long end = now_ms() + 30000ll * wait_scale();
	struct child *program = &programs[i];

	for (reap(programs); !program->ended; reap(programs)) {
		kill(program->pid, SIGKILL);
		if (now_ms() > end)
			errx(1, "a program that was killed does not end");
		usleep(1000);
	}
	return !WIFSIGNALED(program->status) || WTERMSIG(program->status) != SIGKILL;
}

static void send_packet(struct prng *prng)
{
	struct packet packet = {
		.opcode = prng_once_in(prng, 4) ? prng_below(prng, 256) : prng_below(prng, 24),
		.qpn = shared->qpns[prng_below(prng, QPNS)],
		.psn = prng_below(prng, 3),
		.ack_req = prng_below(prng, 2),
		.rkey = shared->rkeys[prng_below(prng, QPNS)],
		.dmalen = prng_below(prng, 3 * MTU),
		.syndrome = prng_below(prng, 256),
		.payload_len = prng_below(prng, 2) ? peer_link.mtu : 4 * prng_below(prng, MTU / 4),
	};

	peer_send(&packet);
}

static void check_service(void)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rxe_end end = {};
	struct rxe_qp pair[2];
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	rxe_open(&end, false);
	mr = rxe_reg_mr(&end, 0, PAGE, ACCESS_DRAM);
	rxe_make_pair(&end, &config, pair);
	sge = (struct ibv_sge){ (uintptr_t)end.memory, 8, mr->lkey };
	wr.wr.rdma.remote_addr = sge.addr + 8;
	wr.wr.rdma.rkey = mr->rkey;
	if (ibv_post_send(pair[0].qp, &wr, &bad) || !rxe_wait_wc(&end, &wc, ANSWER_MS) || wc.status)
		errx(1, "a fresh connection is not served");
	ibv_destroy_qp(pair[0].qp);
	ibv_destroy_qp(pair[1].qp);
	ibv_dereg_mr(mr);
	rxe_close(&end);
}

/* What `rdma resource` counts, which goes a moment after the program. */
static void resources(char *line, size_t len)
{
	FILE *pipe = popen("rdma resource show " RXE_DEVICE, "r");

	if (!pipe || !fgets(line, len, pipe) || pclose(pipe))
		errx(1, "rdma resource show");
}

static void check_nothing_left(const char *before)
{
	long long end = now_ms() + 10000ll * wait_scale();
	char now[256];

	do {
		resources(now, sizeof(now));
		if (!strcmp(now, before))
			return;
		usleep(50000);
	} while (now_ms() < end);
	errx(1, "what is left of the programs: %swas %s", now, before);
}

/* Of the kernel's objects that it cannot give back. */
static long slab_kib(void)
{
	FILE *meminfo = fopen("/proc/meminfo", "r");
	char line[128];
	long kib = -1;

	while (meminfo && kib < 0 && fgets(line, sizeof(line), meminfo))
		sscanf(line, "SUnreclaim: %ld", &kib);
	if (kib < 0)
		errx(1, "no SUnreclaim in /proc/meminfo");
	fclose(meminfo);
	return kib;
}

/* What it frees after a grace period goes a moment later. */
static void check_growth(long before)
{
	long long end = now_ms() + 10000ll * wait_scale();
	long growth;

	while ((growth = slab_kib() - before) > MOST_GROWTH_KIB && now_ms() < end)
		usleep(50000);
	printf("# objects of the kernel: %ld KiB more\n", growth);
	if (growth > MOST_GROWTH_KIB)
		errx(1, "the kernel's objects have grown by %ld KiB", growth);
}

/* Answers, which the socket would keep. */
static void drop_answers(void)
{
	struct frame frame;

	while (peer_recv_frame(&frame, 0))
		;
}

static void run(__u64 count, __u64 seed)
{
	struct prng prng = prng_of_seed(seed);
	struct child programs[PROGRAMS] = {};
	__u64 started = 0, ended = 0;
	char before[256];
	long slab;
	int i;

	peer_open();
	peer_forget_qpns();
	check_service();
	resources(before, sizeof(before));
	slab = slab_kib();
	while (shared->commands < count) {
		i = prng_below(&prng, PROGRAMS);
		if (programs[i].pid)
			ended += kill_program(programs, i);
		programs[i] = start(seed * 1000003 + started++);
		for (long long end = now_ms() + prng_below(&prng, LIFE_MS / PROGRAMS * 2); now_ms() < end; usleep(2000))
			send_packet(&prng);
		drop_answers();
	}
	for (i = 0; i < PROGRAMS; i++)
		if (programs[i].pid)
			kill_program(programs, i);
	check_nothing_left(before);
	check_service();
	drop_answers();
	printf("# %llu commands of %llu programs, %llu of which ended by themselves; %u QPs\n", shared->commands, started,
	       ended, shared->next_qpn);
	check_growth(slab);
	if (shared->next_qpn < count / 100)
		errx(1, "that is too little to show anything");
}

int main(int argc, char **argv)
{
	__u64 count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;

	if (!count)
		errx(2, "usage: killed-programs COUNT SEED");
	setlinebuf(stdout);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		err(1, "prctl");
	printf("# SEED=%s\n", argv[2]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	run(count, strtoull(argv[2], NULL, 10));
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded in an initiator's guest: notes which line of the program has posted each request, so that a report can name
 * it.  The program is unchanged.  It appends to the file $RXE_POSTED
 *
 *	posted site N PROGRAM+0xOFFSET ...	a caller, the innermost first; others of the program after it
 *	posted request QP PSN N			the request that begins with PSN, for the peer's QP, came from site N
 *
 * A PSN is the one that the QP was told, and what was posted since; a request takes as many as it has packets.  After
 * MOST requests no more are noted, so a long run is as fast as without.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST	20000
#define QPS	64
#define SITES	256
#define DEPTH	4	/* callers of a site */
#define PENDING	256	/* between wr_start() and wr_complete() */
#define PSNS	0x1000000

struct pending {
	bool local, reads;	/* no packet; as many as its response has */
	uint64_t length;
	unsigned int site;
};

struct queue {
	struct ibv_qp *qp;
	uint32_t peer, psn, mtu;
	struct ibv_qp_ex real;	/* its functions, if `hooked` */
	bool hooked;
	struct pending pending[PENDING];
	unsigned int n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue queues[QPS];
static struct { void *at[DEPTH]; } sites[SITES];
static unsigned int nr_sites, noted;
static int file = -1;
static bool has_flush;
static int (*real_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static struct ibv_qp_ex *(*real_to_ex)(struct ibv_qp *qp);
static int (*real_destroy)(struct ibv_qp *qp);
static pthread_once_t found = PTHREAD_ONCE_INIT;
static int (*real_post)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* libibverbs.so.1.14.56.1 is of rdma-core 56.  Since 45 struct ibv_qp_ex ends with wr_atomic_write and wr_flush. */
static bool library_has_flush(void)
{
	char path[PATH_MAX], *release;
	Dl_info info;

	if (!dladdr((void *)real_to_ex, &info) || !realpath(info.dli_fname, path))
		return false;
	release = strstr(path, ".so.1.");
	release = release ? strchr(release + strlen(".so.1."), '.') : NULL;
	return release && atoi(release + 1) >= 45;
}

/* The main program's code. */
static uintptr_t text_start, text_end;

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			text_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			text_end = text_start + info->dlpi_phdr[i].p_memsz;
		}
	return 1;	/* the first one is the program */
}

/* At the first call, because a program, as Python, may load libibverbs late, and for itself alone. */
static void find_library(void)
{
	const char *path = getenv("RXE_POSTED");
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY), *warm[1];

	if (library) {
		*(void **)&real_modify = dlsym(library, "ibv_modify_qp");
		*(void **)&real_to_ex = dlsym(library, "ibv_qp_to_qp_ex");
		*(void **)&real_destroy = dlsym(library, "ibv_destroy_qp");
	}
	if (!real_modify || !real_to_ex || !real_destroy) {
		fputs("record-posts.so: a function of libibverbs.so.1 is missing\n", stderr);
		abort();
	}
	if (!path)
		return;
	has_flush = library_has_flush();
	dl_iterate_phdr(find_text, NULL);
	backtrace(warm, 1);	/* the first call allocates */
	file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void __attribute__((format(printf, 1, 2))) tell(const char *format, ...)
{
	char line[3000];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n < (int)sizeof(line) && write(file, line, n) != n)
		file = -1;
}

/******************************************************************************
 * Which lines of the program call
 */

static int describe(char *text, size_t size, void *at)
{
	struct link_map *map;
	char path[PATH_MAX];
	Dl_info info;

	if (!dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP))
		return 0;
	if (!realpath(*map->l_name ? map->l_name : "/proc/self/exe", path) || strchr(path, ' '))
		return 0;
	/* The call is before the address that it returns to. */
	return snprintf(text, size, " %s+0x%" PRIxPTR, path, (uintptr_t)at - 1 - (uintptr_t)map->l_addr);
}

/* The linker sets both: where this library begins and ends. */
extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

static bool is_own(const void *at)
{
	return (const char *)at >= __ehdr_start && (const char *)at < _end;
}

/*
 * A word for the callers, found without backtrace(), which takes most of the time of a post where CPUs are emulated: where the
 * call came from, and all on the stack that may be a return address to the program, or to what is near the caller.
 */
static uint64_t __attribute__((no_sanitize("all"))) callers_key(const uintptr_t *frame, uintptr_t from)
{
	uint64_t key = 0;	/* @from is among the words */

	for (int i = 0; i < 64; i++)
		if ((frame[i] >= text_start && frame[i] < text_end) || frame[i] - from + (8 << 20) < 16 << 20)
			key = (key ^ frame[i]) * 0x9e3779b97f4a7c15 + i;
	return key;
}

/* What was found for a key. */
#define KEYS	1024
static struct { uint64_t key; unsigned int site; } known[KEYS];

static unsigned int new_site(void);

/* The number of what has called the function of this library that has this frame, and returns there. */
static unsigned int site(const void *frame, const void *from)
{
	uint64_t key = callers_key(frame, (uintptr_t)from);
	unsigned int at = key >> 32 & (KEYS - 1);

	if (known[at].key != key) {
		known[at].site = new_site();
		known[at].key = key;
	}
	return known[at].site;
}

/* The same by backtrace().  A sanitizer may put its own before that. */
static unsigned int new_site(void)
{
	void *at[2 * DEPTH + 4] = { };
	char text[2500] = "";
	int n = backtrace(at, DEPTH + 4), skip = 0, used = 0;

	for (int i = 0; i < n; i++)
		if (is_own(at[i]))
			skip = i + 1;
	if (n > skip + DEPTH)
		n = skip + DEPTH;
	memset(at + n, 0, sizeof(at) - n * sizeof(*at));
	for (unsigned int i = 0; i < nr_sites; i++)
		if (!memcmp(sites[i].at, at + skip, sizeof(sites[i].at)))
			return i;
	if (nr_sites == SITES)
		return SITES;
	memcpy(sites[nr_sites].at, at + skip, sizeof(sites[0].at));
	for (int i = skip; i < n && used < 2000; i++)
		used += describe(text + used, sizeof(text) - used, at[i]);
	tell("posted site %u.%u%s\n", (unsigned int)getpid(), nr_sites, text);
	return nr_sites++;
}

/******************************************************************************
 * What is posted
 */

static struct queue *find(struct ibv_qp *qp, bool make)
{
	struct queue *unused = NULL;

	for (int i = 0; i < QPS; i++) {
		if (queues[i].qp == qp)
			return &queues[i];
		if (!queues[i].qp && !unused)
			unused = &queues[i];
	}
	if (!make || !unused)
		return NULL;
	*unused = (struct queue){ .qp = qp };
	return unused;
}

static void note(struct queue *q, const struct pending *p)
{
	uint64_t packets = q->mtu && p->length ? (p->length + q->mtu - 1) / q->mtu : 1;

	if (p->local)
		return;
	if (p->site < SITES && noted < MOST && file >= 0) {
		noted++;
		tell("posted request 0x%x %u %u.%u\n", q->peer, q->psn, (unsigned int)getpid(), p->site);
	}
	q->psn = (q->psn + packets) % PSNS;
}

static bool is_on(void)
{
	return file >= 0 && noted < MOST;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *failed = NULL;
	struct queue *q;
	int ret;

	ret = real_post(qp, wr, &failed);
	if (ret)
		*bad = failed;
	if (!is_on())
		return ret;
	pthread_mutex_lock(&lock);
	q = find(qp, false);
	for (unsigned int from = q ? site(__builtin_frame_address(0), __builtin_return_address(0)) : 0; q && wr && wr != failed; wr = wr->next) {
		struct pending p = {
			.site = from,
			.local = wr->opcode == IBV_WR_LOCAL_INV || wr->opcode == IBV_WR_BIND_MW,
		};

		/* FLUSH and ATOMIC WRITE, which only some headers know, have one packet, as Atomics do. */
		if (wr->opcode <= IBV_WR_SEND_WITH_IMM || wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_SEND_WITH_INV)
			for (int i = 0; i < wr->num_sge; i++)
				p.length += wr->sg_list[i].length;
		note(q, &p);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* What ibv_qp_ex has.  Between wr_start() and wr_complete() a QP belongs to one thread. */
static struct queue *of(struct ibv_qp_ex *qp)
{
	return find(&qp->qp_base, false);
}

static void add(struct ibv_qp_ex *qp, bool local, const void *frame, const void *from)
{
	struct queue *q = of(qp);

	if (q->n == PENDING)
		return;
	pthread_mutex_lock(&lock);
	q->pending[q->n++] = (struct pending){ .local = local, .site = is_on() ? site(frame, from) : SITES };
	pthread_mutex_unlock(&lock);
}

static void lengthen(struct ibv_qp_ex *qp, uint64_t length)
{
	struct queue *q = of(qp);

	if (q->n)
		q->pending[q->n - 1].length += length;
}

#define WRAP(name, local, declared, given)				\
static void name declared						\
{									\
	add(qp, local, __builtin_frame_address(0), __builtin_return_address(0)); \
	of(qp)->real.name given;					\
}

WRAP(wr_atomic_cmp_swp, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap),
     (qp, rkey, addr, compare, swap))
WRAP(wr_atomic_fetch_add, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t more), (qp, rkey, addr, more))
WRAP(wr_bind_mw, true, (struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info),
     (qp, mw, rkey, info))
WRAP(wr_local_inv, true, (struct ibv_qp_ex *qp, uint32_t rkey), (qp, rkey))
WRAP(wr_rdma_read, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr), (qp, rkey, addr))
WRAP(wr_rdma_write, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr), (qp, rkey, addr))
WRAP(wr_rdma_write_imm, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm), (qp, rkey, addr, imm))
WRAP(wr_send, false, (struct ibv_qp_ex *qp), (qp))
WRAP(wr_send_imm, false, (struct ibv_qp_ex *qp, __be32 imm), (qp, imm))
WRAP(wr_send_inv, false, (struct ibv_qp_ex *qp, uint32_t rkey), (qp, rkey))
WRAP(wr_atomic_write, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *word), (qp, rkey, addr, word))
WRAP(wr_flush, false, (struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level),
     (qp, rkey, addr, length, type, level))

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	lengthen(qp, length);
	of(qp)->real.wr_set_sge(qp, lkey, addr, length);
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_sge *list)
{
	for (size_t i = 0; i < n; i++)
		lengthen(qp, list[i].length);
	of(qp)->real.wr_set_sge_list(qp, n, list);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	lengthen(qp, length);
	of(qp)->real.wr_set_inline_data(qp, addr, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t n, const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < n; i++)
		lengthen(qp, list[i].length);
	of(qp)->real.wr_set_inline_data_list(qp, n, list);
}

static void wr_start(struct ibv_qp_ex *qp)
{
	of(qp)->n = 0;
	of(qp)->real.wr_start(qp);
}

static int wr_complete(struct ibv_qp_ex *qp)
{
	struct queue *q = of(qp);
	int ret;

	ret = q->real.wr_complete(qp);
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; !ret && i < q->n; i++)
		note(q, &q->pending[i]);
	pthread_mutex_unlock(&lock);
	q->n = 0;
	return ret;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	of(qp)->n = 0;
	of(qp)->real.wr_abort(qp);
}

/* A new QP may have the place of an old one; then its functions are those of the library again. */
static void hook(struct queue *q, struct ibv_qp_ex *qp)
{
	if (qp->wr_start == wr_start)
		return;
	q->n = 0;
	/* Of an older library the struct ends with wr_abort. */
	memcpy(&q->real, qp, has_flush ? sizeof(*qp) : offsetof(struct ibv_qp_ex, wr_abort) + sizeof(void *));
	q->hooked = true;
#define HOOK(name) (qp->name = qp->name ? name : NULL)
	HOOK(wr_atomic_cmp_swp);
	HOOK(wr_atomic_fetch_add);
	HOOK(wr_bind_mw);
	HOOK(wr_local_inv);
	HOOK(wr_rdma_read);
	HOOK(wr_rdma_write);
	HOOK(wr_rdma_write_imm);
	HOOK(wr_send);
	HOOK(wr_send_imm);
	HOOK(wr_send_inv);
	HOOK(wr_set_sge);
	HOOK(wr_set_sge_list);
	HOOK(wr_set_inline_data);
	HOOK(wr_set_inline_data_list);
	HOOK(wr_start);
	HOOK(wr_complete);
	HOOK(wr_abort);
	if (has_flush) {
		HOOK(wr_atomic_write);
		HOOK(wr_flush);
	}
}

/******************************************************************************
 * What is exported
 */

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex;
	struct queue *q;

	pthread_once(&found, find_library);
	ex = real_to_ex(qp);
	if (!ex || file < 0)
		return ex;
	pthread_mutex_lock(&lock);
	q = find(qp, true);
	if (q)
		hook(q, ex);
	pthread_mutex_unlock(&lock);
	return ex;
}

/* Each QP is told its PSN, its peer and the MTU here, by rdma_cm as well. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct queue *q;
	int ret;

	pthread_once(&found, find_library);
	ret = real_modify(qp, attr, mask);
	if (ret || file < 0 || qp->qp_type != IBV_QPT_RC)
		return ret;
	pthread_mutex_lock(&lock);
	q = find(qp, true);
	if (q) {
		if (mask & IBV_QP_DEST_QPN)
			q->peer = attr->dest_qp_num;
		if (mask & IBV_QP_PATH_MTU)
			q->mtu = 128 << attr->path_mtu;
		if (mask & IBV_QP_SQ_PSN)
			q->psn = attr->sq_psn % PSNS;
		/* Of a second provider nothing is noted. */
		if (qp->context->ops.post_send != post && (!real_post || real_post == qp->context->ops.post_send)) {
			real_post = qp->context->ops.post_send;
			qp->context->ops.post_send = post;
		}
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct queue *q;
	int ret;

	pthread_once(&found, find_library);
	ret = real_destroy(qp);
	if (ret)
		return ret;
	pthread_mutex_lock(&lock);
	q = find(qp, false);
	if (q)
		q->qp = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Is an ATOMIC WRITE atomic?  Several threads, each with a queue pair of its own on the device rxe0
 * of this machine, store to the same words and count in them, while others look on.
 *
 *	atomicity [THREADS [ROUNDS [torn | lost | early | slow | on-demand]]]
 *
 * With one of the first three words, a saboteur breaks one of the rules below by means of the CPU, and
 * that has to be noticed.  With the last two the kernel module slow_words, which is loaded, makes the
 * kernel slow on the words, up to four.  With the last, ATOMIC WRITE names the words by a region of its
 * own, whose pages come on demand; status 4 on a kernel without such.
 *
 * Each thread has a word, and only it stores there, by ATOMIC WRITE: the generation, which grows,
 * with a count of 0.  All threads count in all words, by FETCH ADD and CMP SWAP:
 *
 *	 63     48 47  32 31      16 15     0
 *	| generation, count | generation, count |	both halves are always the same
 *
 * From this follows what must hold, whatever comes first:
 *  - no torn value: the halves of all that is ever read are equal;
 *  - no lost count: in each generation of a word, FETCH ADD and CMP SWAP have found the counts 0,
 *    1, 2, ..., each once;
 *  - no lost store: once an ATOMIC WRITE has completed, no reader finds an older generation;
 *  - nothing goes back: a reader that looks twice finds the same or more;
 *  - release: the data that a thread wrote before its word says generation N are of generation N
 *    for everybody who has read N, by the CPU or by READ.  There are two places for them, used in
 *    turn: that of N is written to again after N + 1 was stored.  So it counts what is read there
 *    between two looks at the word that both find N.
 */
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prng.h"
#include "slow_words.h"

#define DEVICE		"rxe0"
#define GID		1	/* that of IPv4 in the guests of rxe-vm */
#define MAX_THREADS	8
#define COUNT_BITS	16
#define BOTH_HALVES	0x100000001ull
#define DATA		96	/* numbers, written before each ATOMIC WRITE: some cache lines */
#define DEPTH		16

/* What is fought for; the word is by itself on its cache line. */
struct shared {
	_Atomic(__u64) word __attribute__((aligned(64)));
	_Atomic(__u64) data[2][DATA] __attribute__((aligned(64)));
};

static struct shared shared[MAX_THREADS];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *shared_mr, *stored_mr;	/* ATOMIC WRITE names the second one */
static unsigned int threads = 4, rounds = 500;
static atomic_uint running;
static atomic_ullong looks, data_looks;

/* The newest generation of each word whose ATOMIC WRITE has completed. */
static _Atomic(__u32) completed[MAX_THREADS];

/* An increment: the value that it found. */
struct found {
	unsigned int word;
	__u32 value;
};

struct worker {
	pthread_t thread;
	unsigned int number;
	struct ibv_cq *cq;
	struct ibv_qp_ex *qp;
	struct ibv_mr *mr;
	struct prng prng;
	__u32 seen[MAX_THREADS];
	struct found *found;
	size_t found_count;
	/* What READ and Atomics bring back, and what is written. */
	__u64 back, back_later;
	__u64 back_data[2][DATA];
	__u64 data[DATA];
};

static __u32 generation_of(__u32 value)
{
	return value >> COUNT_BITS;
}

/* A value of @word that a reader has found, which had found *@seen before. */
static __u32 look_at(unsigned int word, __u64 value, __u32 least, __u32 *seen)
{
	__u32 half = value;

	if (value != half * BOTH_HALVES)
		errx(1, "word %u is torn: 0x%016llx", word, (unsigned long long)value);
	if (generation_of(half) < least)
		errx(1, "word %u: generation %u was stored, and now it is %u", word, least,
		     generation_of(half));
	if (half < *seen)
		errx(1, "word %u goes back: generation %u, count %u, after 0x%08x", word,
		     generation_of(half), half & ((1 << COUNT_BITS) - 1), *seen);
	*seen = half;
	return half;
}

/* @data were read while @word was of @generation. */
static void check_data(unsigned int word, const __u64 data[DATA], __u32 generation,
		       const char *reader)
{
	unsigned int i;

	for (i = 0; i < DATA; i++)
		if (data[i] != generation)
			errx(1, "word %u: %s sees generation %u, but data of %llu", word, reader,
			     generation, (unsigned long long)data[i]);
	data_looks++;
}

/* ---- The local reader ---- */

static __u32 look_locally(unsigned int word, __u32 *seen)
{
	__u32 least = atomic_load(&completed[word]);

	looks++;
	return look_at(word, atomic_load_explicit(&shared[word].word, memory_order_acquire), least,
		       seen);
}

static void look_at_both(unsigned int word, __u32 *seen)
{
	__u32 generation = generation_of(look_locally(word, seen));
	__u64 data[DATA];
	unsigned int i;

	for (i = 0; i < DATA; i++)
		data[i] = atomic_load_explicit(&shared[word].data[generation % 2][i],
					       memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (generation_of(look_locally(word, seen)) == generation)
		check_data(word, data, generation, "the CPU");
}

static void *look_on(void *arg)
{
	__u32 seen[MAX_THREADS] = { 0 };
	unsigned int word;

	while (running)
		for (word = 0; word < threads; word++)
			look_at_both(word, &seen[word]);
	return arg;
}

/* ---- The saboteur ---- */

/*
 * A half differs from the other, an update is not atomic, data come too late.  Each shows itself as
 * nothing else: a half that was read long ago must not be stored, for that would be an older value.
 */
static void *spoil(void *arg)
{
	volatile __u32 *halves = (volatile __u32 *)&shared[0].word;
	const char *how = arg;
	__u64 value;

	while (running) {
		if (!strcmp(how, "torn")) {
			halves[0] = ~halves[1];
		} else if (!strcmp(how, "lost")) {
			value = shared[0].word;
			sched_yield();
			shared[0].word = value;
		} else {
			shared[0].data[0][DATA - 1] = 0;
			shared[0].data[1][DATA - 1] = 0;
		}
	}
	return NULL;
}

/* ---- The queue pairs ---- */

static bool has_on_demand_paging(void)
{
	struct ibv_device_attr_ex attr;

	if (ibv_query_device_ex(context, NULL, &attr))
		err(1, "the capabilities of " DEVICE);
	return attr.odp_caps.general_caps & IBV_ODP_SUPPORT;
}

static struct ibv_mr *reg_shared(unsigned int more)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, shared, sizeof(shared), more |
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	if (!mr)
		err(1, "registering memory on " DEVICE);
	return mr;
}

static void open_device(bool on_demand)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device;

	for (device = list; device && *device; device++)
		if (!strcmp(ibv_get_device_name(*device), DEVICE))
			context = ibv_open_device(*device);
	if (!context)
		errx(1, "no RDMA device " DEVICE);
	if (on_demand && !has_on_demand_paging())
		exit(4);	/* suites/atomicity.sh says why */
	pd = ibv_alloc_pd(context);
	shared_mr = reg_shared(0);
	stored_mr = on_demand ? reg_shared(IBV_ACCESS_ON_DEMAND) : shared_mr;
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr attr, int mask)
{
	errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
	if (errno)
		err(1, "a queue pair to state %d", attr.qp_state);
}

/* A queue pair that is its own peer. */
static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = DEPTH, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = GID } },
	};

	if (ibv_query_gid(context, 1, GID, &rtr.ah_attr.grh.dgid))
		err(1, "the GID of " DEVICE);
	modify(qp, (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC,
	}, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	modify(qp, rtr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(qp, (struct ibv_qp_attr) {
		/* 2 s: nothing is lost, but a guest may be slow */
		.qp_state = IBV_QPS_RTS, .timeout = 19, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = DEPTH,
	}, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	   IBV_QP_MAX_QP_RD_ATOMIC);
}

static void open_worker(struct worker *me)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp *qp;

	me->cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = me->cq;
	me->mr = ibv_reg_mr(pd, me, sizeof(*me), IBV_ACCESS_LOCAL_WRITE);
	qp = me->cq ? ibv_create_qp_ex(context, &attr) : NULL;
	if (!qp || !me->mr)
		err(1, "a queue pair with ATOMIC WRITE");
	me->qp = ibv_qp_to_qp_ex(qp);
	connect_to_itself(qp);
	me->found = calloc(rounds * 2, sizeof(*me->found));
	if (!me->found)
		err(1, "memory");
}

static void begin(struct worker *me, unsigned int flags)
{
	ibv_wr_start(me->qp);
	me->qp->wr_flags = flags;
}

static void set_sge(struct worker *me, void *buffer, size_t len)
{
	ibv_wr_set_sge(me->qp, me->mr->lkey, (uintptr_t)buffer, len);
}

/* Post what was begun, and wait until it is done. */
static void finish(struct worker *me)
{
	struct ibv_wc wc;

	errno = ibv_wr_complete(me->qp);
	if (errno)
		err(1, "posting");
	while (!ibv_poll_cq(me->cq, 1, &wc))
		;
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "completion with status: %s", ibv_wc_status_str(wc.status));
}

/* ---- What a worker does ---- */

/* Data of the next generation, then the generation: in one post. */
static void store(struct worker *me)
{
	struct shared *mine = &shared[me->number];
	__u32 generation = atomic_load(&completed[me->number]) + 1;
	__u64 value = (generation << COUNT_BITS) * BOTH_HALVES;
	unsigned int i;

	for (i = 0; i < DATA; i++)
		me->data[i] = generation;
	begin(me, 0);
	ibv_wr_rdma_write(me->qp, shared_mr->rkey, (uintptr_t)mine->data[generation % 2]);
	set_sge(me, me->data, sizeof(me->data));
	me->qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(me->qp, stored_mr->rkey, (uintptr_t)&mine->word, &value);
	finish(me);
	atomic_store(&completed[me->number], generation);
}

static void keep_found(struct worker *me, unsigned int word, __u32 value)
{
	me->seen[word] = value + 1;
	me->found[me->found_count++] = (struct found) { word, value };
}

static void fetch_add(struct worker *me, unsigned int word)
{
	__u32 least = atomic_load(&completed[word]);

	begin(me, IBV_SEND_SIGNALED);
	ibv_wr_atomic_fetch_add(me->qp, shared_mr->rkey, (uintptr_t)&shared[word].word,
				BOTH_HALVES);
	set_sge(me, &me->back, 8);
	finish(me);
	keep_found(me, word, look_at(word, me->back, least, &me->seen[word]));
}

/* Counts as well, but only if the word is still what was last seen there. */
static void cmp_swap(struct worker *me, unsigned int word)
{
	__u32 least = atomic_load(&completed[word]), compare = me->seen[word], value;

	begin(me, IBV_SEND_SIGNALED);
	ibv_wr_atomic_cmp_swp(me->qp, shared_mr->rkey, (uintptr_t)&shared[word].word,
			      compare * BOTH_HALVES, (compare + 1) * BOTH_HALVES);
	set_sge(me, &me->back, 8);
	finish(me);
	value = look_at(word, me->back, least, &me->seen[word]);
	if (value == compare)
		keep_found(me, word, value);
}

/* The word, then the data, then the word again: in one post. */
static void read_both(struct worker *me, unsigned int word)
{
	__u32 least = atomic_load(&completed[word]), generation;

	begin(me, 0);
	ibv_wr_rdma_read(me->qp, shared_mr->rkey, (uintptr_t)&shared[word].word);
	set_sge(me, &me->back, 8);
	ibv_wr_rdma_read(me->qp, shared_mr->rkey, (uintptr_t)shared[word].data);
	set_sge(me, me->back_data, sizeof(me->back_data));
	me->qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(me->qp, shared_mr->rkey, (uintptr_t)&shared[word].word);
	set_sge(me, &me->back_later, 8);
	finish(me);
	generation = generation_of(look_at(word, me->back, least, &me->seen[word]));
	if (generation_of(look_at(word, me->back_later, least, &me->seen[word])) == generation)
		check_data(word, me->back_data[generation % 2], generation, "READ");
}

static void *work(void *arg)
{
	struct worker *me = arg;
	unsigned int round, word;

	for (round = 0; round < rounds; round++) {
		word = prng_below(&me->prng, threads);
		if (prng_once_in(&me->prng, 3))
			store(me);
		fetch_add(me, word);
		cmp_swap(me, word);
		read_both(me, word);
	}
	return NULL;
}

/* ---- Afterwards: were all increments counted? ---- */

static int by_word_and_value(const void *one, const void *other)
{
	const struct found *a = one, *b = other;

	if (a->word != b->word)
		return a->word < b->word ? -1 : 1;
	return a->value < b->value ? -1 : a->value > b->value;
}

/* The increments of a word and generation, sorted, have found the counts 0, 1, 2, ... */
static void check_counts(const struct found *found, size_t n)
{
	__u32 expected;
	size_t i;

	for (i = 0; i < n; i++) {
		bool same = i && found[i].word == found[i - 1].word &&
			    generation_of(found[i].value) == generation_of(found[i - 1].value);

		expected = same ? found[i - 1].value + 1 :
				  generation_of(found[i].value) << COUNT_BITS;
		if (found[i].value != expected)
			errx(1, "word %u: an update was lost: 0x%08x was found, expected 0x%08x",
			     found[i].word, found[i].value, expected);
	}
}

/* What a word holds at the end is what the last increment has made of it. */
static void check_end(const struct found *found, size_t n, unsigned int word)
{
	__u32 expected = atomic_load(&completed[word]) << COUNT_BITS;
	size_t i;

	for (i = 0; i < n; i++)
		if (found[i].word == word && found[i].value >= expected)
			expected = found[i].value + 1;
	if (shared[word].word != expected * BOTH_HALVES)
		errx(1, "word %u: at the end 0x%016llx, expected 0x%08x twice", word,
		     (unsigned long long)shared[word].word, expected);
}

static void check_all(const struct worker *workers)
{
	struct found *all = calloc(threads, rounds * 2 * sizeof(*all));
	unsigned int i, stores = 0;
	size_t n = 0;

	if (!all)
		err(1, "memory");
	for (i = 0; i < threads; i++) {
		memcpy(all + n, workers[i].found, workers[i].found_count * sizeof(*all));
		n += workers[i].found_count;
		stores += completed[i];
	}
	qsort(all, n, sizeof(*all), by_word_and_value);
	check_counts(all, n);
	for (i = 0; i < threads; i++)
		check_end(all, n, i);
	printf("# %u threads: %u ATOMIC WRITE, %zu increments, %llu looks, %llu at data, too\n",
	       threads, stores, n, looks, data_looks);
	if (!stores || n < rounds * threads || !looks || data_looks < rounds)
		errx(1, "that is too little to show anything");
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[3] : "";
	const bool on_demand = !strcmp(how, "on-demand");
	const bool slow = on_demand || !strcmp(how, "slow");
	const bool spoilt = *how && !slow;
	static struct worker workers[MAX_THREADS];
	pthread_t reader, saboteur;
	unsigned int i;

	if (argc > 1)
		threads = atoi(argv[1]);
	if (argc > 2)
		rounds = atoi(argv[2]);
	/* All increments fit the count, even if they are made in one generation of one word. */
	if (!threads || threads > MAX_THREADS || !rounds ||
	    rounds >= (1 << COUNT_BITS) / 2 / threads)
		errx(2, "usage: atomicity [THREADS (1 to %d) [ROUNDS (8191 for 4 threads)]]",
		     MAX_THREADS);
	open_device(on_demand);
	for (i = 0; i < threads; i++) {
		workers[i].number = i;
		workers[i].prng = prng_of_seed(i);
		open_worker(&workers[i]);
	}
	for (i = 0; slow && i < threads; i++)
		slow_down(&shared[i].word);
	running = true;
	if (pthread_create(&reader, NULL, look_on, NULL) ||
	    (spoilt && pthread_create(&saboteur, NULL, spoil, argv[3])))
		errx(1, "no thread");
	for (i = 0; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			errx(1, "no thread");
	for (i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	running = false;
	pthread_join(reader, NULL);
	if (spoilt)
		pthread_join(saboteur, NULL);
	check_all(workers);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Is an aligned word ever torn in a READ that has more in it?  Somebody changes three words all the time while a
 * queue pair READs them: of any length, from any offset, within a packet and where one ends, at the end and the
 * start of a page, to an aligned place and to another.
 *
 *	read-words WRITER [ROUNDS [slow [split]]]
 *
 * WRITER changes the words: a queue pair, by atomic-write, fetch-add or cmp-swap; cpu, a thread that stores 8 bytes;
 * or halves, a thread that stores 4 and 4, which has to be noticed.  With `slow` the kernel module slow_words, which
 * must be loaded, makes the kernel wait at each access to the words, so that a word read in parts is noticed each time.
 * Words that lie in two packets, because the READ starts at an odd place, are left out; with `split` all others are.
 *
 * All bytes of a word are the same, and change all at once; the bytes around the words never change.
 */
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slow_words.h"
#include "verbs-end.h"

#define PAGE		4096
#define ARENA		(4 * PAGE)
#define MTU		1024	/* end_connect_qp() asks for it */
#define ALL_BYTES	0x0101010101010101ull
#define MISALIGNED	3	/* where a READ goes to, if not to an aligned place */
#define SHOWN		20	/* torn words that are told */
#define RIGHTS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_ATOMIC)

/* The words: amid a page, at its end, and at the start of the next one. */
static const unsigned int words[] = { PAGE + PAGE / 2, 2 * PAGE - 8, 2 * PAGE };
#define WORDS		(sizeof(words) / sizeof(*words))

/*
 * How far before a word a READ starts, and how long it is, if that holds the word.  After a packet's worth of bytes
 * and some less than eight, the word lies in two packets.
 */
static const unsigned int before[] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 29, 64, MTU - 8, MTU - 7, MTU - 4, MTU - 1, MTU, 2 * MTU - 4,
};
static const unsigned int lengths[] = {
	8, 9, 11, 12, 15, 16, 17, 24, 32, 40, 64, 200, MTU, MTU + 8, 2 * MTU + 100, 4000,
};

struct party {
	struct end end;
	struct ibv_qp_ex *qp;
	struct ibv_mr *arena;
	struct ibv_mr *local;
};

static __u8 arena[ARENA] __attribute__((aligned(PAGE)));
static __u8 local[ARENA] __attribute__((aligned(PAGE)));
static __u64 found;		/* by an Atomic: of no interest */
static atomic_bool stop;
static atomic_uint generation;	/* of the words, which the writer makes last */
static bool split;
static unsigned int reads, looks, changes, torn;
static __u64 last[WORDS];

static __u8 pattern(unsigned int offset)
{
	return offset * 7 + offset / 256;
}

static __u64 value_of(unsigned int of_generation)
{
	return (of_generation % 251 + 1) * ALL_BYTES;
}

static volatile __u64 *word_at(unsigned int i)
{
	return (volatile __u64 *)(arena + words[i]);
}

/* ---- Queue pairs, each of which is its own peer ---- */

static void open_party(struct party *party, void *buffer, size_t size)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
	struct end_address itself;
	struct ibv_qp *qp;

	end_open(&party->end);
	attr.pd = party->end.pd;
	attr.send_cq = attr.recv_cq = party->end.cq;
	qp = ibv_create_qp_ex(party->end.context, &attr);
	if (!qp)
		err(1, "a queue pair with ATOMIC WRITE");
	itself = end_address(&party->end, qp);
	end_connect_qp(&party->end, qp, RIGHTS, &itself);
	party->qp = ibv_qp_to_qp_ex(qp);
	party->arena = ibv_reg_mr(party->end.pd, arena, ARENA, RIGHTS);
	party->local = ibv_reg_mr(party->end.pd, buffer, size, IBV_ACCESS_LOCAL_WRITE);
	if (!party->arena || !party->local)
		err(1, "memory regions");
}

static void begin(struct party *party, unsigned int flags)
{
	ibv_wr_start(party->qp);
	party->qp->wr_flags = flags;
}

static void finish(struct party *party)
{
	struct ibv_wc wc;

	errno = ibv_wr_complete(party->qp);
	if (errno)
		err(1, "posting");
	wc = end_completion(&party->end);
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "completion with status: %s", ibv_wc_status_str(wc.status));
}

/* ---- The writers, which change all words to the next generation ---- */

static struct party writer;

static void by_queue_pair(enum ibv_wr_opcode opcode, __u64 old, __u64 new)
{
	unsigned int i;

	begin(&writer, 0);
	for (i = 0; i < WORDS; i++) {
		if (i == WORDS - 1)
			writer.qp->wr_flags = IBV_SEND_SIGNALED;
		if (opcode == IBV_WR_ATOMIC_WRITE)
			ibv_wr_atomic_write(writer.qp, writer.arena->rkey, (uintptr_t)word_at(i), &new);
		else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			ibv_wr_atomic_fetch_add(writer.qp, writer.arena->rkey, (uintptr_t)word_at(i),
						new - old);
		else
			ibv_wr_atomic_cmp_swp(writer.qp, writer.arena->rkey, (uintptr_t)word_at(i), old,
					      new);
		if (opcode != IBV_WR_ATOMIC_WRITE)
			ibv_wr_set_sge(writer.qp, writer.local->lkey, (uintptr_t)&found, sizeof(found));
	}
	finish(&writer);
	for (i = 0; i < WORDS; i++)
		if (*word_at(i) != new)
			errx(1, "a word is 0x%016llx, and 0x%016llx was stored", *word_at(i), new);
}

static void by_atomic_write(__u64 old, __u64 new)
{
	by_queue_pair(IBV_WR_ATOMIC_WRITE, old, new);
}

static void by_fetch_add(__u64 old, __u64 new)
{
	by_queue_pair(IBV_WR_ATOMIC_FETCH_AND_ADD, old, new);
}

static void by_cmp_swap(__u64 old, __u64 new)
{
	by_queue_pair(IBV_WR_ATOMIC_CMP_AND_SWP, old, new);
}

static void by_cpu(__u64 old __attribute__((unused)), __u64 new)
{
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		*word_at(i) = new;
}

static void by_halves(__u64 old __attribute__((unused)), __u64 new)
{
	volatile __u32 *half;
	unsigned int i, n;

	for (i = 0; i < WORDS; i++) {
		half = (volatile __u32 *)word_at(i);
		for (n = 0; n < 100; n++)
			half[0] = new;
		half[1] = new;
	}
}

static const struct {
	const char *name;
	void (*change)(__u64 old, __u64 new);
} writers[] = {
	{ "atomic-write", by_atomic_write },
	{ "fetch-add", by_fetch_add },
	{ "cmp-swap", by_cmp_swap },
	{ "cpu", by_cpu },
	{ "halves", by_halves },
};

static void *go_on_writing(void *arg)
{
	void (*change)(__u64 old, __u64 new) = *(void (**)(__u64, __u64))arg;

	while (!stop) {
		change(value_of(generation), value_of(generation + 1));
		generation++;
	}
	return NULL;
}

/* ---- The readers ---- */

/* A word that is so far behind the start of a READ */
static bool lies_in_two_packets(unsigned int offset)
{
	return offset % MTU > MTU - 8;
}

static void look_at(unsigned int i, unsigned int start, unsigned int len, const __u8 *got)
{
	__u64 value;

	if (words[i] < start || words[i] + 8 > start + len || lies_in_two_packets(words[i] - start) != split)
		return;
	memcpy(&value, got + (words[i] - start), sizeof(value));
	looks++;
	changes += value != last[i];
	last[i] = value;
	if (value == (value & 0xff) * ALL_BYTES)
		return;
	if (torn++ < SHOWN)
		printf("# torn in a READ of %u bytes from %u before it, %s: 0x%016llx\n", len,
		       words[i] - start,
		       words[i] % PAGE == 0 ? "the word at the start of a page" :
		       words[i] % PAGE == PAGE - 8 ? "the word at the end of a page" :
						     "the word amid a page", value);
}

static bool is_in_a_word(unsigned int offset)
{
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		if (offset >= words[i] && offset < words[i] + 8)
			return true;
	return false;
}

/* Once the words are of another generation than at the last READ. */
static void read_once(struct party *reader, unsigned int start, unsigned int len, __u8 *to)
{
	static unsigned int before_this;
	unsigned int i;

	while (generation == before_this)
		;
	before_this = generation;
	memset(local, 0, sizeof(local));
	begin(reader, IBV_SEND_SIGNALED);
	ibv_wr_rdma_read(reader->qp, reader->arena->rkey, (uintptr_t)arena + start);
	ibv_wr_set_sge(reader->qp, reader->local->lkey, (uintptr_t)to, len);
	finish(reader);
	reads++;
	for (i = 0; i < WORDS; i++)
		look_at(i, start, len, to);
	for (i = 0; i < len; i++)
		if (to[i] != pattern(start + i) && !is_in_a_word(start + i))
			errx(1, "a READ of %u bytes from offset %u: byte %u is 0x%02x, not 0x%02x", len,
			     start, i, to[i], pattern(start + i));
}

/* All lengths from all places around all words. */
static void read_all(struct party *reader)
{
	unsigned int w, b, l;

	for (w = 0; w < WORDS; w++)
		for (b = 0; b < sizeof(before) / sizeof(*before); b++)
			for (l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
				if (before[b] + 8 <= lengths[l] && lies_in_two_packets(before[b]) == split)
					read_once(reader, words[w] - before[b], lengths[l],
						  local + PAGE + (reads % 2) * MISALIGNED);
}

int main(int argc, char **argv)
{
	static struct party reader;
	const bool slow = argc > 3 && !strcmp(argv[3], "slow");
	int rounds = argc > 2 ? atoi(argv[2]) : 1;
	unsigned int i, n = sizeof(writers) / sizeof(*writers);
	pthread_t thread;

	for (i = 0; argc > 1 && i < n && strcmp(argv[1], writers[i].name); i++)
		;
	split = argc > 4 && !strcmp(argv[4], "split");
	if (argc < 2 || i == n || rounds < 1 || (argc > 3 && !slow) || (argc > 4 && !split))
		errx(2, "usage: read-words atomic-write|fetch-add|cmp-swap|cpu|halves [ROUNDS [slow [split]]]");
	for (n = 0; n < ARENA; n++)
		arena[n] = pattern(n);
	for (n = 0; n < WORDS; n++)
		*word_at(n) = value_of(0);
	open_party(&reader, local, sizeof(local));
	open_party(&writer, &found, sizeof(found));
	for (n = 0; slow && n < WORDS; n++)
		slow_down(arena + words[n]);
	if (pthread_create(&thread, NULL, go_on_writing, (void *)&writers[i].change))
		errx(1, "no thread");
	while (rounds--)
		read_all(&reader);
	stop = true;
	pthread_join(thread, NULL);
	printf("# %s: %u READs, %u looks at words; %u times a word had changed, in %u generations\n",
	       writers[i].name, reads, looks, changes, generation);
	if (torn)
		errx(1, "%u of %u looks found a torn word", torn, looks);
	if (changes < looks / 2)
		errx(1, "that is too little to show anything");
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "made.h"
#include "ring.h"

/*
 * Word 0 is the tail: how many records there are.  Record n, from 1 on, is in slot n % SLOTS, and each of
 * its words is n.  The newest READABLE records can be read.
 */
#define SLOTS		32
#define READABLE	8
#define RECORD_WORDS	8
#define FIRST_SLOT	RECORD_WORDS
#define DEPTH		4	/* records that are sent before the first of them is answered */
#define PSNS_OF_RECORD	8

const char *const ring_modes[] = {
	"right", "one-by-one", "loss", "daemon", NULL,
	"no-flush", "no-flush-once", "short-once", "write-tail", "fetch-add-tail", "flush-first", "early-tail",
	"other-qp-tail", "global", "few-slots", "heartbeat", "two-mistakes", "read", "read-unwaited",
	"daemon-no-clwb-once", "daemon-no-fence", "daemon-late-fence", NULL
};

static struct {
	const char *mode;
	unsigned int records, slots;
	uint32_t psn[2];	/* the next one of each QP */
	/* PSNs of what the record was stored by, at [n % (DEPTH + 1)] */
	struct {
		uint32_t qp[PSNS_OF_RECORD], psn[PSNS_OF_RECORD], n;
		uint8_t opcode[PSNS_OF_RECORD];
		uint64_t number;
	} sent[DEPTH + 1];
} ring;

static bool is(const char *mode)
{
	return !strcmp(ring.mode, mode);
}

/* For once, in the middle. */
static bool is_once(const char *mode, unsigned int n)
{
	return is(mode) && n == (ring.records + 1) / 2;
}

static void use_tail_qp(bool tail)
{
	net.qp = tail ? QP + 1 : QP;
	net.peer = tail ? 34 : 33;
	net.port = tail ? 50001 : 50000;
}

/* What is sent next belongs to record @n, and is answered by @opcode. */
static uint32_t next_psn(unsigned int n, uint8_t opcode)
{
	typeof(ring.sent[0]) *sent = &ring.sent[n % (DEPTH + 1)];

	sent->qp[sent->n] = net.qp;
	sent->psn[sent->n] = ring.psn[net.qp - QP];
	sent->opcode[sent->n++] = opcode;
	sent->number = n;
	return ring.psn[net.qp - QP]++;
}

static unsigned int slot_word(unsigned int n)
{
	return FIRST_SLOT + n % ring.slots * RECORD_WORDS;
}

static void store_record(unsigned int n)
{
	uint64_t words[RECORD_WORDS];

	for (unsigned int i = 0; i < RECORD_WORDS; i++)
		words[i] = htole64(n);
	request(ROCE_RC_WRITE_ONLY, next_psn(n, ROCE_RC_ACK), KEY, slot_word(n) * 8, sizeof(words),
		words, sizeof(words));
}

static bool reads(void)
{
	return is("read") || is("read-unwaited");
}

/* In place of a FLUSH: it reads the first word. */
static void read_word(unsigned int n, unsigned int word)
{
	request(ROCE_RC_READ_REQUEST, next_psn(n, ROCE_RC_READ_RESPONSE_ONLY), KEY, word * 8, 8, "", 0);
}

static void flush_record(unsigned int n)
{
	unsigned int words = RECORD_WORDS - is_once("short-once", n);

	if (reads())
		read_word(n, slot_word(n));
	else
		flush_as(next_psn(n, ROCE_RC_READ_RESPONSE_ONLY), KEY, slot_word(n) * 8, words * 8,
			 is("global") ? GLOBAL : DURABLE);
}

static void flush_tail(unsigned int n)
{
	if (reads())
		read_word(n, 0);
	else
		flush_as(next_psn(n, ROCE_RC_READ_RESPONSE_ONLY), KEY, 0, 8, DURABLE);
}

static void store_tail(unsigned int n)
{
	struct roce_atomic_eth add = { htobe64(VA), htobe32(KEY), htobe64(1), 0 };
	uint64_t tail = htole64(n);

	if (is("fetch-add-tail"))
		packet(true, ROCE_RC_FETCH_ADD, next_psn(n, ROCE_RC_ATOMIC_ACK), &add, sizeof(add));
	else if (is("write-tail") || reads())
		request(ROCE_RC_WRITE_ONLY, next_psn(n, ROCE_RC_ACK), KEY, 0, 8, &tail, 8);
	else
		request(ROCE_RC_ATOMIC_WRITE, next_psn(n, ROCE_RC_READ_RESPONSE_ONLY), KEY, 0, 8, &tail, 8);
}

/* As the target answers it, in order. */
static void answer_record(unsigned int n)
{
	typeof(ring.sent[0]) *sent = &ring.sent[n % (DEPTH + 1)];
	struct {
		uint32_t aeth;
		uint64_t original;
	} __attribute__((packed)) told = { htobe32(0x1f000001), htobe64(n - 1) };

	for (unsigned int i = 0; i < sent->n; i++) {
		use_tail_qp(sent->qp[i] != QP);
		if (sent->opcode[i] == ROCE_RC_ATOMIC_ACK)
			packet(false, ROCE_RC_ATOMIC_ACK, sent->psn[i], &told, sizeof(told));
		else
			answer(sent->opcode[i], sent->psn[i], 0x1f);
	}
	use_tail_qp(false);
	sent->n = 0;
}

static void append(unsigned int n)
{
	if (is("flush-first"))
		flush_record(n);
	if (!is("early-tail") || n % 2 || n == 1)
		store_record(n);
	if (!is("no-flush") && !is_once("no-flush-once", n) && !is_once("heartbeat", n) &&
	    !is_once("two-mistakes", n) && !is("flush-first"))
		flush_record(n);
	if (is("read"))
		answer_record(n);
	/* The second of two records is stored before the tail, and flushed after it. */
	if (is("early-tail") && n % 2 && n < ring.records)
		store_record(n + 1);
	use_tail_qp(is("other-qp-tail"));
	/* Besides the record without a FLUSH, a FLUSH that comes before what it is for. */
	if (is("two-mistakes") && n == (ring.records + 3) / 4)
		flush_tail(n);
	store_tail(n + (is("early-tail") && n % 2 && n < ring.records));
	if (!is("two-mistakes") || n != (ring.records + 3) / 4)
		flush_tail(n);
	use_tail_qp(false);
}

/* No FLUSH covers it, so that it is in flight for the rest of the run. */
static void store_heartbeat(void)
{
	uint64_t beat = htole64(1);

	request(ROCE_RC_WRITE_ONLY, next_psn(1, ROCE_RC_ACK), KEY, 8, sizeof(beat), &beat, sizeof(beat));
}

/* Each seventh record is lost before the target's driver, which asks for it again. */
static void lose_and_repeat(unsigned int n)
{
	uint32_t psn = ring.psn[0];

	append(n);
	nak(psn, ROCE_AETH_NAK_PSN);
	ring.psn[0] = psn;
	ring.sent[n % (DEPTH + 1)].n = 0;
	append(n);
}

/* The lines of these words. */
static void write_back(unsigned int thread, unsigned int word)
{
	cpu(thread, "clwb %u", word * 8);
}

/*
 * A message brings the record, which the target's program stores by itself.  Its answer is a promise, which the initiator
 * passes on.
 */
static void append_by_daemon(unsigned int n)
{
	unsigned int thread = 1 + n % 2, word = slot_word(n);

	packet(true, ROCE_RC_SEND_ONLY, n, "", 0);
	for (unsigned int i = 0; i < RECORD_WORDS; i += 2)
		cpu(thread, "store %u %016" PRIx64 "%016" PRIx64, (word + i) * 8, htobe64(htole64(n)), htobe64(htole64(n)));
	if (!is_once("daemon-no-clwb-once", n))
		write_back(thread, word);
	if (!is("daemon-no-fence"))
		cpu(thread, "sfence");
	cpu(thread, "store 0 %016" PRIx64, htobe64(htole64(n)));
	write_back(thread, 0);
	if (!is("daemon-late-fence"))
		cpu(thread, "sfence");
	ack(n);
	packet(false, ROCE_RC_SEND_ONLY, n, "", 0);
	told("a record is durable");
	if (is("daemon-late-fence"))
		cpu(thread, "sfence");
}

bool ring_make(const char *mode, unsigned int records)
{
	unsigned int depth, answered = 0, known = 0;

	for (size_t i = 0, ends = 0; ends < 2; i++) {
		known += ring_modes[i] && !strcmp(ring_modes[i], mode);
		ends += !ring_modes[i];
	}
	if (!known)
		return false;
	memset(&ring, 0, sizeof(ring));
	ring.mode = mode;
	ring.records = records;
	ring.slots = is("few-slots") ? READABLE : SLOTS;
	ring.psn[0] = 1;
	ring.psn[1] = 10000000;
	depth = is("one-by-one") || is("heartbeat") || is("read") ? 1 : DEPTH;
	if (is("heartbeat"))
		store_heartbeat();
	if (!strncmp(mode, "daemon", strlen("daemon"))) {
		for (unsigned int n = 1; n <= records; n++)
			append_by_daemon(n);
		return true;
	}
	for (unsigned int n = 1; n <= records; n++) {
		if (is("loss") && n % 7 == 0)
			lose_and_repeat(n);
		else
			append(n);
		if (n - answered == depth)
			answer_record(++answered);
	}
	while (answered < records)
		answer_record(++answered);
	return true;
}

/* PSNs of a record; the first record is number 1. */
static uint32_t psn_of_copy(unsigned int n, unsigned int request)
{
	return 4 * n + request;
}

/* The QPs of all targets have one number. */
static void use_copy(unsigned int target)
{
	net.target = target;
	net.peer = 33 + target;
	net.port = 50000 + target;
}

static void append_copy(unsigned int target, unsigned int n, bool flushed)
{
	uint64_t words[RECORD_WORDS], tail = htole64(n);

	for (unsigned int i = 0; i < RECORD_WORDS; i++)
		words[i] = htole64(n);
	use_copy(target);
	request(ROCE_RC_WRITE_ONLY, psn_of_copy(n, 0), KEY, slot_word(n) * 8, sizeof(words), words, sizeof(words));
	if (flushed)
		flush_as(psn_of_copy(n, 1), KEY, slot_word(n) * 8, sizeof(words), DURABLE);
	else
		request(ROCE_RC_READ_REQUEST, psn_of_copy(n, 1), KEY, slot_word(n) * 8, 8, "", 0);
	request(ROCE_RC_ATOMIC_WRITE, psn_of_copy(n, 2), KEY, 0, 8, &tail, 8);
	flush_as(psn_of_copy(n, 3), KEY, 0, 8, DURABLE);
}

static void answer_copy(unsigned int target, unsigned int n)
{
	use_copy(target);
	ack(psn_of_copy(n, 0));
	for (unsigned int request = 1; request < 4; request++)
		response(psn_of_copy(n, request));
}

/* The slowest target is another one for each record, and answers when the next record is on its way. */
void ring_make_copies(unsigned int targets, unsigned int records, bool flawed)
{
	ring.mode = "copies";
	ring.slots = SLOTS;
	for (unsigned int n = 1; n <= records; n++) {
		for (unsigned int i = 0; i < targets; i++)
			append_copy((n + i) % targets, n, !flawed || (n + i) % targets || n != (records + 1) / 2);
		if (n > 1)
			answer_copy((n + targets - 2) % targets, n - 1);
		for (unsigned int i = 0; i + 1 < targets; i++)
			answer_copy((n + i) % targets, n);
	}
}

const char *ring_look(const uint64_t *image, uint64_t acknowledged)
{
	static char why[128];
	uint64_t tail = le64toh(image[0]), slots = SLOTS;

	if (tail < acknowledged) {
		snprintf(why, sizeof(why), "the tail is %" PRIu64 ", and %" PRIu64 " records are acknowledged",
			 tail, acknowledged);
		return why;
	}
	if (ring.mode && is("few-slots"))
		slots = READABLE;
	for (uint64_t n = tail > READABLE ? tail - READABLE + 1 : 1; n <= tail; n++)
		for (unsigned int i = 0; i < RECORD_WORDS; i++)
			if (le64toh(image[FIRST_SLOT + n % slots * RECORD_WORDS + i]) != n) {
				snprintf(why, sizeof(why), "record %" PRIu64 " is torn", n);
				return why;
			}
	return NULL;
}

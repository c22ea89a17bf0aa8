/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cases: what a consumer sees when it has a signal.  Word 0 is the data, word 1 the flag that it polls, unless its signal is a
 * message.  "01" says that the flag may be there without the data.
 *
 * IBTA: volume 1, 9.5, what an application shall not depend on: see visible.h.  A19: what is public of its annex, as in
 * Documentation/promises.rst; the IETF draft (draft-talpey-rdma-commit) has the same rules.  TSO: RDMA^TSO, the published model
 * for x86, which --model ordered stands for.  Where it allows less than the specification, the default is the
 * specification: TSO describes a target with PCIe in order and coherent caches.
 */
#ifndef CASES_VISIBLE_H
#define CASES_VISIBLE_H

#include "cases-promise.h"

/* By the rules of that name, for a consumer that polls so many words from @word on. */
static void load_polled(const char *name, unsigned int word, unsigned int words)
{
	struct rules *rules = rules_of_consumer(rules_find(name));

	*list_add(&rules->polled) = (struct polled){ word * WORD, words * WORD };
	load_by(rules);
}

/* What a consumer may see of data and flag that has the flag of @frame. */
#define EXPECT_SEEN(rules, frame, wanted) do { \
	load_polled(rules, 1, 1); \
	EXPECT_STATES(frame, 2, wanted); \
} while (0)

/* The same, that has the message of @frame, of @words words. */
#define EXPECT_SEEN_BY_MESSAGE(rules, frame, words, wanted) do { \
	load(rules "/visible"); \
	EXPECT_STATES(frame, words, wanted); \
} while (0)

static void send_nothing(uint32_t psn) { packet(true, ROCE_RC_SEND_ONLY, psn, "", 0); }

static void write_with_immediate(uint32_t psn, unsigned int word, uint8_t value)
{
	struct {
		struct roce_reth reth;
		uint32_t immediate;
		uint64_t payload;
	} __attribute__((packed)) rest = { { htobe64(VA + word * 8), htobe32(KEY), htobe32(8) }, 0, value * 0x0101010101010101 };

	packet(true, ROCE_RC_WRITE_ONLY_IMM, psn, &rest, sizeof(rest));
}

static void read_word(uint32_t psn, unsigned int word) { request(ROCE_RC_READ_REQUEST, psn, KEY, word * 8, 8, "", 0); }

/* By FETCH ADD, without its answer. */
static void add_to_word(uint32_t psn, unsigned int word)
{
	struct roce_atomic_eth add = { htobe64(VA + word * 8), htobe32(KEY), htobe64(0x0101010101010101), 0 };

	packet(true, ROCE_RC_FETCH_ADD, psn, &add, sizeof(add));
}

static void flush_globally(uint32_t psn, unsigned int word) { flush_as(psn, KEY, word * 8, 8, GLOBAL); }

/* IBTA: no later WRITE says so.  TSO: two WRITEs of a QP are in order, so the data is there. */
TEST_F(run, seen_write_then_write_of_a_flag)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	EXPECT_SEEN("spec", 2, "01 11");
	EXPECT_SEEN("ordered", 2, "11");
}

/* IBTA, TSO: QPs have no order, and an ACKNOWLEDGE says that the target has the packet, not that it is in its memory. */
TEST_F(run, seen_flag_of_another_qp)
{
	write_word(1, 0, 1);
	ack(1);
	use_second_qp();
	atomic_write(100, 1, 1);
	EXPECT_SEEN("spec", 3, "01 11");
	EXPECT_SEEN("ordered", 3, "01 11");
}

/* A19: the ATOMIC WRITE waits for the FLUSH, whose answer need not have come.  TSO has neither. */
TEST_F(run, seen_write_then_flush_then_atomic_write)
{
	write_word(1, 0, 1);
	flush_globally(2, 0);
	atomic_write(3, 1, 1);
	EXPECT_SEEN("spec", 3, "11");
}

/* A19: an ATOMIC WRITE alone makes nothing visible.  TSO, if it were a WRITE: in order. */
TEST_F(run, seen_write_then_atomic_write)
{
	write_word(1, 0, 1);
	atomic_write(2, 1, 1);
	EXPECT_SEEN("spec", 2, "01 11");
	EXPECT_SEEN("ordered", 2, "11");
}

/*
 * A19: they are executed in order, but neither promises visibility, for itself or others.  So the first need not be seen: a
 * decision of this project.
 */
TEST_F(run, seen_atomic_write_then_atomic_write)
{
	atomic_write(1, 0, 1);
	response(1);
	atomic_write(2, 1, 1);
	EXPECT_SEEN("spec", 3, "01 11");
	EXPECT_SEEN("ordered", 3, "11");
}

/* A19: a FLUSH speaks for what it names. */
TEST_F(run, seen_flush_of_another_range)
{
	write_word(1, 0, 1);
	flush_globally(2, 2);
	atomic_write(3, 1, 1);
	EXPECT_SEEN("spec", 3, "01 11");
}

/* A19: neither placement includes the other. */
TEST_F(run, seen_flush_for_persistence_only)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	atomic_write(3, 1, 1);
	EXPECT_SEEN("spec", 4, "01 11");
	EXPECT_SEEN("eadr", 4, "01 11");
}

TEST_F(run, seen_flush_for_both)
{
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 8, GLOBAL | DURABLE);
	atomic_write(3, 1, 1);
	EXPECT_SEEN("spec", 3, "11");
}

/* A19: a WRITE may pass a FLUSH; after the answer it does not. */
TEST_F(run, seen_flush_that_the_flag_passes)
{
	write_word(1, 0, 1);
	flush_globally(2, 0);
	write_word(3, 1, 1);
	response(2);
	write_word(4, 1, 2);
	EXPECT_SEEN("spec", 3, "01 11");
	EXPECT_STATES(5, 2, "12");
	EXPECT_STATES(3, 2, "01 11");
}

/* A19: its answer says it to all QPs. */
TEST_F(run, seen_flush_of_another_qp)
{
	write_word(1, 0, 1);
	flush_globally(2, 0);
	use_second_qp();
	atomic_write(100, 1, 1);
	use_first_qp();
	response(2);
	use_second_qp();
	atomic_write(101, 1, 2);
	EXPECT_SEEN("spec", 3, "01 11");
	EXPECT_STATES(5, 2, "12");
}

/* IBTA: a later SEND that has completed.  TSO: in order. */
TEST_F(run, seen_send_after_write)
{
	write_word(1, 0, 1);
	send_nothing(2);
	EXPECT_SEEN_BY_MESSAGE("spec", 2, 1, "1");
	EXPECT_SEEN_BY_MESSAGE("ordered", 2, 1, "1");
}

/* A19: an ATOMIC WRITE may have to wait for a FLUSH that the SEND passes; but not if it has been answered. */
TEST_F(run, seen_send_after_atomic_write)
{
	atomic_write(1, 0, 1);
	send_nothing(2);
	response(1);
	send_nothing(3);
	EXPECT_SEEN_BY_MESSAGE("spec", 2, 1, "0 1");
	EXPECT_STATES(4, 1, "1");
	EXPECT_SEEN_BY_MESSAGE("ordered", 2, 1, "1");
}

/* Each SEND speaks for its own QP, and the consumer of one need not have seen the other. */
TEST_F(run, seen_send_of_another_qp)
{
	write_word(1, 0, 1);
	send_nothing(2);
	use_second_qp();
	write_word(100, 1, 1);
	send_nothing(101);
	use_first_qp();
	send_nothing(3);
	EXPECT_SEEN_BY_MESSAGE("spec", 2, 2, "10");
	EXPECT_STATES(4, 2, "01 11");
	EXPECT_STATES(5, 2, "10 11");
}

/* IBTA: its last packet has completed.  A consumer that polls its data has not waited for that. */
TEST_F(run, seen_immediate_after_write)
{
	write_word(1, 0, 1);
	write_with_immediate(2, 1, 1);
	EXPECT_SEEN_BY_MESSAGE("spec", 2, 2, "11");
	EXPECT_SEEN("spec", 2, "01 11");
}

/* IBTA names no READ.  TSO: a READ after a WRITE pushes it into memory, which is what adr-read stands for, too. */
TEST_F(run, seen_read_in_place_of_a_flush)
{
	write_word(1, 0, 1);
	read_word(2, 0);
	write_word(3, 1, 1);
	response(2);
	write_word(4, 1, 2);
	EXPECT_SEEN("spec", 5, "02 12");
	EXPECT_SEEN("adr-read", 5, "12");
	EXPECT_STATES(3, 2, "01 11");
	EXPECT_SEEN("ordered", 5, "12");
}

/* IBTA: a later Atomic has updated its word.  TSO has no Atomics. */
TEST_F(run, seen_atomic_as_a_flag)
{
	write_word(1, 0, 1);
	atomic_returns(ROCE_RC_FETCH_ADD, 2, 1, 0, 1, 0);
	EXPECT_SEEN("spec", 2, "11");
}

/* It updates nothing, and is no signal. */
TEST_F(run, seen_compare_swap_that_fails)
{
	write_word(1, 0, 1);
	atomic_returns(ROCE_RC_CMP_SWAP, 2, 1, 5, 1, 0);
	use_second_qp();
	atomic_write(100, 1, 1);
	EXPECT_SEEN("spec", 4, "01 11");
	EXPECT_EQ(1, model.signals.n);
}

/* Where a counter of another QP is seen, or its answer has come, what that QP stored before is visible. */
TEST_F(run, seen_atomic_of_another_qp)
{
	write_word(1, 0, 1);
	atomic_returns(ROCE_RC_FETCH_ADD, 2, 2, 0, 1, 0);
	use_second_qp();
	atomic_write(100, 1, 1);
	load_polled("spec", 1, 1);
	EXPECT_STATES(4, 3, "111");
	begin(net.folder);
	write_word(1, 0, 1);
	add_to_word(2, 2);
	use_second_qp();
	atomic_write(100, 1, 1);
	load_polled("spec", 1, 1);
	EXPECT_STATES(3, 3, "010 110 111");
}

/* Atomics of two QPs hand a counter over, and so what was stored before the first. */
TEST_F(run, seen_atomic_that_has_found_another)
{
	write_word(1, 0, 1);
	add_to_word(2, 1);
	use_second_qp();
	atomic_returns(ROCE_RC_FETCH_ADD, 100, 1, 0, 1, 1);
	EXPECT_SEEN("spec", 3, "12");
}

/* A19: an ATOMIC WRITE waits for all before it, so the SEND has been executed. */
TEST_F(run, seen_atomic_write_after_send)
{
	write_word(1, 0, 1);
	send_nothing(2);
	atomic_write(3, 1, 1);
	EXPECT_SEEN("spec", 3, "11");
}

/* IBTA: the data of a message has no order. */
TEST_F(run, seen_flag_in_the_write_of_the_data)
{
	write_bytes(1, KEY, 0, 16, 1);
	EXPECT_SEEN("spec", 1, "01 11");
	EXPECT_SEEN("ordered", 1, "01 11");
}

/* The flag that it has seen is there, whatever other QPs store to it. */
TEST_F(run, seen_flag_of_two_qps)
{
	write_word(1, 1, 1);
	use_second_qp();
	write_word(100, 1, 2);
	EXPECT_SEEN("spec", 2, "02");
}

/* The flag of a consumer of its own. */
TEST_F(run, seen_flags_by_themselves)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	load_polled("spec", 0, 2);
	EXPECT_STATES(2, 2, "01 11");
}

/* IBTA, TSO: the ACKNOWLEDGE completes the WRITE at its initiator, whose flag, a printed line, says nothing of the target. */
TEST_F(run, seen_flag_at_the_initiator)
{
	broken_promises broken = { };

	write_word(1, 0, 1);
	ack(1);
	told("ready");
	flush_globally(2, 0);
	response(2);
	told("now");
	load("spec/visible");
	promises_check(&model, "ready", &broken);
	ASSERT_EQ(1, broken.n);
	EXPECT_EQ(CULPRIT_TOO_EARLY, broken.v[0].cause.kind);
	broken.n = 0;
	promises_check(&model, "now", &broken);
	EXPECT_EQ(0, broken.n);
}

/* What the target's CPU stores its other programs see at once. */
TEST_F(run, seen_store_by_the_cpu)
{
	cpu_store(0, 1);
	write_word(1, 1, 1);
	load_polled("spec", 1, 1);
	EXPECT_STATES(2, 2, "11");
}

/* What the broken signals say, or "none". */
static const char *signals_said(const char *name, unsigned int word)
{
	broken_promises broken = { };

	if (word == NEVER)
		load_by(rules_of_consumer(rules_find(name)));
	else
		load_polled(name, word, 1);
	signals_check(&model, &broken);
	return broken.n ? broken.v[0].why : "none";
}

#define EXPECT_SAID(word, wanted) do { \
	const char *said = signals_said("spec", word); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

/* Without a checker. */
TEST_F(run, signals_say_why)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	EXPECT_SAID(1, "WRITE psn 1 (0x0 to 0x8) may not be visible yet, 1 of its 1 words.  FLUSH psn 2 (0x0 to 0x8) asks for persistence only, which makes nothing visible, and ATOMIC WRITE psn 3 (0x8 to 0x10) is there");
	begin(net.folder);
	write_word(1, 0, 1);
	flush_globally(2, 0);
	write_word(3, 1, 1);
	EXPECT_SAID(1, "had not been executed, and WRITE psn 3 (0x8 to 0x10) is there: a WRITE may pass a FLUSH");
	begin(net.folder);
	write_word(1, 0, 1);
	use_second_qp();
	send_nothing(100);
	EXPECT_SAID(NEVER, "The signal is of another QP, which does not wait for it");
	begin(net.folder);
	write_bytes(1, KEY, 0, 16, 1);
	EXPECT_SAID(1, "It has the signal in it");
	begin(net.folder);
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	EXPECT_SAID(1, "No global FLUSH of its QP that covers it follows, and WRITE psn 2 (0x8 to 0x10) is there.  What relies on other data must come after a global FLUSH of that.");
	begin(net.folder);
	write_word(1, 0, 1);
	send_nothing(2);
	EXPECT_SAID(NEVER, "none");
}

/* Two QPs, each with a consumer of its own. */
TEST_F(run, signals_speak_for_their_own_qps)
{
	for (unsigned int i = 0; i < 3; i++) {
		write_word(2 * i + 1, i, 1);
		use_second_qp();
		write_word(2 * i + 100, 8 + i, 1);
		send_nothing(2 * i + 101);
		use_first_qp();
		send_nothing(2 * i + 2);
	}
	EXPECT_SAID(NEVER, "none");
	EXPECT_EQ(true, signals_of_several_qps(&model));
	begin(net.folder);
	write_word(1, 0, 1);
	send_nothing(2);
	use_second_qp();
	write_word(100, 1, 1);
	use_first_qp();
	send_nothing(3);
	EXPECT_SAID(NEVER, "The signal is of another QP");
	EXPECT_EQ(false, signals_of_several_qps(&model));
}

/* The frames of the broken signals of words 1 and 3, as they are named. */
TEST_F(run, signals_of_two_words_are_named_as_they_came)
{
	struct rules *rules = rules_of_consumer(rules_find("spec"));
	broken_promises broken = { };

	for (unsigned int i = 0; i < 4; i++) {
		write_word(2 * i + 1, 4 + i, 1);
		atomic_write(2 * i + 2, i % 2 ? 1 : 3, i + 1);
	}
	*list_add(&rules->polled) = (struct polled){ WORD, WORD };
	*list_add(&rules->polled) = (struct polled){ 3 * WORD, WORD };
	load_by(rules);
	signals_check(&model, &broken);
	ASSERT_EQ(4, broken.n);
	for (unsigned int i = 0; i < 4; i++)
		EXPECT_EQ(2 * i + 2, broken.v[i].line->frame);
}

#endif /* CASES_VISIBLE_H */

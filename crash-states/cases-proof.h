/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: what answers prove, of the order of two QPs and of FLUSHes that were not answered. */
#ifndef CASES_PROOF_H
#define CASES_PROOF_H

#include "cases-explain.h"

/* What a READ of word @word found. */
static void read_returns(uint32_t psn, unsigned int word, uint8_t value)
{
	uint8_t rest[12] = { 0x1f };

	read_memory(psn, KEY, word * 8, 8);
	memset(rest + 4, value, 8);
	packet(false, ROCE_RC_READ_RESPONSE_ONLY, psn, rest, sizeof(rest));
}

static void atomic_returns(uint8_t opcode, uint32_t psn, unsigned int word, uint8_t compare, uint8_t value, uint8_t found)
{
	const uint64_t all = 0x0101010101010101;
	struct roce_atomic_eth eth = { htobe64(VA + word * 8), htobe32(KEY), htobe64(value * all), htobe64(compare * all) };
	struct {
		uint32_t aeth;
		uint64_t original;
	} __attribute__((packed)) answer = { htobe32(0x1f000001), htobe64(found * all) };

	packet(true, opcode, psn, &eth, sizeof(eth));
	packet(false, ROCE_RC_ATOMIC_ACK, psn, &answer, sizeof(answer));
}

/* Two QPs hand a word over. */
TEST_F(run, an_answered_atomic_write_is_there_before_another_qp_stores)
{
	atomic_write(1, 0, 1);
	response(1);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(5, 1, "2");
	EXPECT_STREQ("", hints_text());
}

TEST_F(run, an_answer_that_came_later_orders_nothing)
{
	atomic_write(1, 0, 1);
	second_qp_stores(2);
	use_first_qp();
	response(1);
	load("spec");
	EXPECT_STATES(4, 1, "1 2");
}

TEST_F(run, an_answered_atomic_write_says_that_what_precedes_it_is_there)
{
	write_word(1, 0, 1);
	atomic_write(2, 1, 1);
	write_word(3, 2, 1);
	response(2);
	second_qp_stores(2);
	write_word(102, 2, 2);
	flush(103, 2, 1);
	response(103);
	load("spec");
	EXPECT_STATES(10, 3, "201 202 211 212");
}

TEST_F(run, a_plain_acknowledge_says_not_that_a_store_is_there)
{
	write_word(1, 0, 1);
	ack(1);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(5, 1, "1 2");
}

TEST_F(run, an_answered_read_says_that_what_precedes_it_is_there)
{
	write_word(1, 0, 1);
	read_returns(2, 5, 0);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(6, 1, "2");
}

/* A lock by COMPARE SWAP of word 1. */
TEST_F(run, an_answered_atomic_says_that_what_precedes_it_is_there)
{
	atomic_returns(ROCE_RC_CMP_SWAP, 1, 1, 0, 1, 0);
	write_word(2, 0, 1);
	atomic_returns(ROCE_RC_CMP_SWAP, 3, 1, 1, 0, 1);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(8, 1, "2");
}

TEST_F(run, a_flush_for_visibility_says_that_what_it_names_is_there)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	flush_as(3, KEY, 0, 8, GLOBAL);
	response(3);
	second_qp_stores(2);
	write_word(102, 1, 2);
	flush(103, 1, 1);
	response(103);
	load("spec");
	EXPECT_STATES(10, 2, "21 22");
}

TEST_F(run, a_value_that_a_read_found_is_there)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	use_second_qp();
	read_returns(99, 0, 1);
	second_qp_stores(2);
	write_word(102, 1, 2);
	flush(103, 1, 1);
	response(103);
	load("spec");
	EXPECT_STATES(10, 2, "21 22");
}

/* Nothing tells which of two equal stores the READ has found. */
TEST_F(run, a_value_of_two_stores_proves_nothing)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	use_second_qp();
	write_word(100, 1, 1);
	read_returns(101, 1, 1);
	load("spec");
	EXPECT_STATES(6, 2, "00 01 10 11");
}

/* The FLUSH before the ATOMIC WRITE that was seen has been executed. */
TEST_F(run, an_atomic_write_that_a_read_found_says_that_flushes_before_it_are_executed)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	use_second_qp();
	read_returns(100, 1, 1);
	write_word(101, 2, 1);
	load("spec");
	EXPECT_STATES(4, 3, "000 100 110");
	EXPECT_STATES(6, 3, "100 101 110 111");
}

TEST_F(run, so_does_one_that_an_atomic_found)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	use_second_qp();
	atomic_returns(ROCE_RC_CMP_SWAP, 100, 1, 7, 9, 1);	/* it fails */
	load("spec");
	EXPECT_STATES(4, 2, "00 10 11");
	EXPECT_STATES(5, 2, "10 11");
}

/* What it stores is seen only where the ATOMIC WRITE that it found was executed. */
TEST_F(run, an_atomic_needs_what_it_found)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	use_second_qp();
	atomic_returns(ROCE_RC_FETCH_ADD, 100, 1, 0, 1, 1);
	atomic_returns(ROCE_RC_FETCH_ADD, 101, 1, 0, 1, 2);
	load("spec");
	EXPECT_STATES(4, 2, "00 10 11 12");
	EXPECT_STATES(6, 2, "10 11 12 13");
}

/* It is seen only when that has come. */
TEST_F(run, what_an_atomic_found_may_have_come_after_it)
{
	const uint64_t all = 0x0101010101010101;
	struct roce_atomic_eth eth = { htobe64(VA + 8), htobe32(KEY), htobe64(all), 0 };
	struct {
		uint32_t aeth;
		uint64_t original;
	} __attribute__((packed)) answer = { htobe32(0x1f000001), htobe64(all) };

	use_second_qp();
	packet(true, ROCE_RC_FETCH_ADD, 100, &eth, sizeof(eth));
	use_first_qp();
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	use_second_qp();
	packet(false, ROCE_RC_ATOMIC_ACK, 100, &answer, sizeof(answer));
	load("spec");
	EXPECT_STATES(1, 2, "00");
	EXPECT_STATES(2, 2, "00 10");
	EXPECT_STATES(5, 2, "10 11 12");
}

/* A WRITE may have passed the FLUSH. */
TEST_F(run, a_write_that_a_read_found_says_nothing_of_flushes)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	use_second_qp();
	read_returns(100, 1, 1);
	load("spec");
	EXPECT_STATES(5, 2, "00 01 10 11");
	load("ordered");
	EXPECT_STATES(5, 2, "10 11");
}

/* Two packets of 8 bytes: the READ begins one word before. */
TEST_F(run, each_packet_of_a_long_response_is_looked_at)
{
	uint8_t rest[12] = { 0x1f };

	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 2, 1);
	use_second_qp();
	read_memory(100, KEY, 8, 16);
	packet(false, ROCE_RC_READ_RESPONSE_FIRST, 100, rest, sizeof(rest));
	memset(rest + 4, 1, 8);
	packet(false, ROCE_RC_READ_RESPONSE_LAST, 101, rest, sizeof(rest));
	load("spec");
	EXPECT_STATES(5, 3, "000 100 101");
	EXPECT_STATES(6, 3, "100 101");
}

/* A datagram of the connection manager: to, or from, the target. */
static void manage(bool to_target, uint8_t attribute, const char ids[8], uint32_t qpn)
{
	uint8_t rest[8 + 256] = { [8] = 1, 7, 2, 3, [8 + 17] = attribute };
	uint32_t qp = net.qp, peer = net.peer, be = htobe32(qpn << 8);

	memcpy(rest + 8 + 24, ids, 8);
	memcpy(rest + 8 + 32, &be, 4);
	net.qp = net.peer = 1;
	packet(to_target, 0x64, 1, rest, sizeof(rest));
	net.qp = qp;
	net.peer = peer;
}

#define DREQ	0x15
#define DREP	0x16

TEST_F(run, an_answered_disconnect_says_that_all_is_there)
{
	write_word(1, 0, 1);
	manage(true, DREQ, "aaaabbbb", QP);
	manage(false, DREP, "bbbbaaaa", 0);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(6, 1, "2");
}

TEST_F(run, a_disconnect_by_the_target_says_the_same)
{
	write_word(1, 0, 1);
	ack(1);
	manage(false, DREQ, "bbbbaaaa", 33);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(6, 1, "2");
}

TEST_F(run, a_disconnect_of_another_connection_says_nothing)
{
	write_word(1, 0, 1);
	manage(true, DREQ, "aaaabbbb", QP + 1);
	manage(false, DREP, "bbbbaaaa", 0);
	manage(true, DREQ, "ccccdddd", QP);
	manage(false, DREP, "ddddxxxx", 0);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(8, 1, "1 2");
}

#endif /* CASES_PROOF_H */

/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: which requests a target takes, what they do to its memory, and which states that allows. */
#ifndef CASES_HISTORY_H
#define CASES_HISTORY_H

#include "crash-test.h"

/******************************************************************************
 * The model
 */

TEST_F(run, what_is_not_flushed_may_be_there_or_not)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	ack(2);
	load("spec");
	EXPECT_STATES(0, 2, "00");
	EXPECT_STATES(1, 2, "00 10");
	EXPECT_STATES(3, 2, "00 01 10 11");
}

TEST_F(run, an_answered_persistent_flush_is_a_floor)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	write_word(3, 0, 2);
	load("spec");
	EXPECT_STATES(2, 1, "0 1");
	EXPECT_STATES(3, 1, "1");
	EXPECT_STATES(4, 1, "1 2");
}

TEST_F(run, all_values_above_the_floor_may_be_left)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 0, 2);
	write_word(4, 0, 3);
	response(2);
	load("spec");
	EXPECT_STATES(4, 1, "0 1 2 3");
	EXPECT_STATES(5, 1, "1 2 3");
}

TEST_F(run, a_write_is_torn_between_words)
{
	write_bytes(1, KEY, 0, 24, 1);
	load("spec");
	EXPECT_STATES(1, 3, "000 001 010 011 100 101 110 111");
}

TEST_F(run, a_write_may_pass_a_flush)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	load("spec");
	EXPECT_STATES(3, 2, "00 01 10 11");
}

TEST_F(run, an_ordered_target_lets_nothing_pass)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	load("ordered");
	EXPECT_STATES(3, 2, "00 10 11");
}

TEST_F(run, an_atomic_write_never_passes_a_flush)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	load("spec");
	EXPECT_STATES(3, 2, "00 10 11");
}

TEST_F(run, an_atomic_write_may_come_before_a_write_that_is_not_flushed)
{
	write_word(1, 0, 1);
	atomic_write(2, 1, 1);
	flush(3, 1, 1);
	response(3);
	load("spec");
	EXPECT_STATES(3, 2, "00 01 10 11");
	EXPECT_STATES(4, 2, "01 11");
}

TEST_F(run, two_appends_at_once_keep_their_order)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 2, 1);
	flush(4, 2, 1);
	write_word(5, 1, 1);
	flush(6, 1, 1);
	atomic_write(7, 2, 2);
	load("spec");
	EXPECT_STATES(7, 3, "000 010 100 101 110 111 112");
}

TEST_F(run, a_global_flush_is_no_floor)
{
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 8, GLOBAL);
	response(2);
	write_word(3, 1, 1);
	flush_as(4, KEY, 8, 8, GLOBAL | DURABLE);
	response(4);
	load("spec");
	EXPECT_STATES(6, 2, "01 11");
}

TEST_F(run, a_flush_holds_what_lies_in_its_range)
{
	write_bytes(1, KEY, 0, 24, 1);
	flush(2, 1, 1);
	response(2);
	load("spec");
	EXPECT_STATES(3, 3, "010 011 110 111");
}

TEST_F(run, a_range_one_byte_short_leaves_the_last_word)
{
	write_bytes(1, KEY, 0, 16, 1);
	flush_as(2, KEY, 0, 15, DURABLE);
	response(2);
	load("spec");
	EXPECT_STATES(3, 2, "10 11");
}

TEST_F(run, a_range_that_ends_with_the_write_holds_its_last_bytes)
{
	write_bytes(1, KEY, 0, 11, 1);
	flush_as(2, KEY, 0, 11, DURABLE);
	response(2);
	load("spec");
	EXPECT_STATES(3, 2, "1/");
}

TEST_F(run, a_flush_of_the_region_holds_all_that_its_key_names)
{
	write_bytes(1, KEY, 0, 40, 1);
	flush_as(2, OTHER, 4711, 3, DURABLE | ROCE_FETH_SEL_MR);
	response(2);
	load("spec");
	EXPECT_STATES(3, 5, "11110 11111");
}

TEST_F(run, a_flush_of_a_window_holds_the_window)
{
	write_bytes(1, KEY, 0, 32, 1);
	flush_as(2, 0x404, 0, 0, DURABLE | ROCE_FETH_SEL_MR);
	response(2);
	load("spec");
	EXPECT_STATES(3, 4, "0110 0111 1110 1111");
}

TEST_F(run, a_plain_acknowledge_does_not_answer_a_flush)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	ack(2);
	ack(3);
	load("spec");
	EXPECT_STATES(5, 1, "0 1");
	EXPECT_EQ(0, model.all_answers);
}

static void read_memory(uint32_t psn, uint32_t key, uint64_t place, uint32_t length)
{
	request(ROCE_RC_READ_REQUEST, psn, key, place, length, "", 0);
}

TEST_F(run, a_read_gives_no_floor)
{
	write_word(1, 0, 1);
	read_memory(2, KEY, 0, 8);
	response(2);
	load("spec");
	EXPECT_STATES(3, 1, "0 1");
}

/* Of another place, on the same device. */
TEST_F(run, by_adr_read_a_read_is_a_flush)
{
	write_word(1, 0, 1);
	read_memory(2, KEY, 4096, 8);
	response(2);
	load("adr-read");
	EXPECT_STATES(2, 1, "0 1");
	EXPECT_STATES(3, 1, "1");
	load("ordered");
	EXPECT_STATES(3, 1, "0 1");
	load("strict");
	EXPECT_STATES(3, 1, "0 1");
}

TEST_F(run, by_adr_read_a_read_of_nothing_or_elsewhere_is_none)
{
	write_word(1, 0, 1);
	read_memory(2, KEY, 0, 0);
	response(2);
	read_memory(3, 0x303, 0x1000 - VA, 8);
	response(3);
	load("adr-read");
	EXPECT_EQ(0, model.all_answers);
	EXPECT_STATES(5, 1, "0 1");
}

TEST_F(run, by_adr_read_a_read_speaks_for_its_own_qp_and_what_precedes_it)
{
	write_word(1, 0, 1);
	use_second_qp();
	write_word(100, 1, 1);
	read_memory(101, KEY, 0, 8);
	write_word(102, 2, 1);
	response(101);
	load("adr-read");
	EXPECT_STATES(5, 3, "010 011 110 111");
}

/* Its first response may leave before the rest was read. */
TEST_F(run, by_adr_read_the_last_response_answers_a_long_read)
{
	uint8_t rest[4 + 1024] = { 0x1f };

	write_word(1, 0, 1);
	read_memory(2, KEY, 0, 3072);
	packet(false, ROCE_RC_READ_RESPONSE_FIRST, 2, rest, sizeof(rest));
	packet(false, ROCE_RC_READ_RESPONSE_MIDDLE, 3, rest + 4, sizeof(rest) - 4);
	packet(false, ROCE_RC_READ_RESPONSE_LAST, 4, rest, sizeof(rest));
	load("adr-read");
	EXPECT_STATES(3, 1, "0 1");
	EXPECT_STATES(4, 1, "0 1");
	EXPECT_STATES(5, 1, "1");
}

TEST_F(run, by_adr_read_a_write_passes_a_read_and_an_atomic_write_does_not)
{
	write_word(1, 0, 1);
	read_memory(2, KEY, 0, 8);
	write_word(3, 1, 1);
	atomic_write(4, 2, 1);
	load("adr-read");
	EXPECT_STATES(4, 3, "000 010 100 101 110 111");
}

TEST_F(run, by_eadr_what_is_visible_is_durable)
{
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 8, GLOBAL);
	response(2);
	write_word(3, 1, 1);
	read_memory(4, KEY, 0, 8);
	response(4);
	write_word(5, 2, 1);
	ack(5);
	load("eadr");
	EXPECT_STATES(3, 1, "1");
	EXPECT_STATES(8, 3, "110 111");
	load("adr-read");
	EXPECT_STATES(3, 1, "0 1");
}

/* The same memory, by two keys. */
TEST_F(run, by_strict_a_flush_covers_what_its_key_stored)
{
	write_word(1, 0, 1);
	flush_as(2, OTHER, 0, 8, DURABLE);
	response(2);
	load("spec");
	EXPECT_STATES(3, 1, "1");
	EXPECT_EQ(1, history.loosely);
	load("strict");
	EXPECT_STATES(3, 1, "0 1");
}

TEST_F(run, by_strict_a_flush_covers_no_part_of_a_write)
{
	uint8_t bytes[8];

	memset(bytes, 1, 8);
	write_bytes(1, KEY, 0, 16, 1);
	flush(2, 0, 1);
	request(ROCE_RC_WRITE_FIRST, 3, KEY, 16, 16, bytes, 8);
	packet(true, ROCE_RC_WRITE_LAST, 4, bytes, 8);
	flush(5, 3, 1);		/* all of its last packet */
	response(5);
	load("spec");
	EXPECT_STATES(6, 4, "1001 1011 1101 1111");
	load("strict");
	EXPECT_STATES(6, 4, "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 1100 1101 1110 1111");
}

TEST_F(run, by_strict_a_flush_covers_a_whole_write)
{
	uint8_t bytes[8];

	memset(bytes, 1, 8);
	request(ROCE_RC_WRITE_FIRST, 1, KEY, 8, 16, bytes, 8);
	packet(true, ROCE_RC_WRITE_LAST, 2, bytes, 8);
	flush(3, 1, 2);
	atomic_write(4, 0, 1);
	flush_as(5, KEY, 4711, 3, DURABLE | ROCE_FETH_SEL_MR);
	response(5);
	load("strict");
	EXPECT_EQ(0, history.loosely);
	EXPECT_STATES(6, 3, "111");
}

/* Nothing has told the MTU, so the READ may have taken several PSNs; the FLUSH is before it. */
TEST_F(run, a_flush_before_a_long_read_is_answered)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	request(ROCE_RC_READ_REQUEST, 3, KEY, 0, 512, "", 0);
	response(2);
	load("spec");
	EXPECT_EQ(1, model.all_answers);
	EXPECT_STATES(4, 1, "1");
}

TEST_F(run, an_answered_flush_says_that_those_before_it_are_executed)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	flush(4, 1, 1);
	response(4);
	load("spec");
	EXPECT_STATES(5, 2, "11");
}

/* It was executed after them, although the target answers it first. */
TEST_F(run, an_answered_atomic_write_says_that_the_flushes_before_it_are_executed)
{
	unsigned int *cuts;
	size_t n;

	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 2, 1);
	atomic_write(4, 1, 1);
	write_word(5, 0, 2);
	response(4);
	response(2);
	load("spec");
	EXPECT_STATES(3, 3, "000 001 100 101");
	EXPECT_STATES(6, 3, "100 101 110 111 200 201 210 211");
	cuts = model_cuts(&model, &n);
	ASSERT_EQ(3, n);
	EXPECT_EQ(5, cuts[0]);
	EXPECT_EQ(6, cuts[1]);
	EXPECT_EQ(7, cuts[2]);
	free(cuts);
}

/* The FLUSH has been answered before, so that the answer says nothing new. */
TEST_F(run, an_atomic_write_after_an_answered_flush_makes_no_cut)
{
	size_t n;

	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	response(2);
	response(3);
	load("spec");
	free(model_cuts(&model, &n));
	EXPECT_EQ(2, n);
}

TEST_F(run, two_stores_of_half_a_word_leave_it_in_parts)
{
	write_bytes(1, KEY, 0, 4, 1);
	write_bytes(2, KEY, 4, 4, 1);
	load("spec");
	EXPECT_STATES(2, 1, "/ 0 1");
}

/* Each ends elsewhere, in the midst of words, too. */
TEST_F(run, stores_that_overlap_are_told_apart)
{
	write_bytes(1, KEY, 0, 64, 1);
	write_bytes(2, KEY, 20, 24, 2);		/* half of word 2, words 3 and 4, half of word 5 */
	flush_as(3, KEY, 8, 36, DURABLE);	/* and half of word 5 */
	response(3);
	write_bytes(4, KEY, 24, 8, 3);
	load("spec");
	EXPECT_EQ(10, history.words);
	EXPECT_EQ(9, history.stretches.n);
	EXPECT_STATES(4, 8, "01/22/00 01/22/01 01/22/10 01/22/11 11/22/00 11/22/01 11/22/10 11/22/11");
	EXPECT_STATES(5, 4, "01/2 01/3 11/2 11/3");
	EXPECT_EQ(0x01010101, model_value(&history, history_word(&history, 16), 0));
	EXPECT_EQ(0x02020202, model_value(&history, history_word(&history, 20), 1));
	EXPECT_EQ(0x02020202, model_value(&history, history_word(&history, 40), 1));
	EXPECT_EQ(0x01010101, model_value(&history, history_word(&history, 44), 0));
	EXPECT_EQ(NEVER, history_word(&history, 22));
}

/* Its words are next to each other: one stretch, but each may be old or new. */
TEST_F(run, a_long_write_is_one_stretch)
{
	struct state state = { };

	write_bytes(1, KEY, 0, 4096, 1);
	write_bytes(2, KEY, 4096, 8, 1);
	load("spec");
	EXPECT_EQ(2, history.stretches.n);
	EXPECT_EQ(513, history.words);
	model_cut(&model, 2);
	*list_add(&state.held) = (struct held){ history_word(&history, 4088), START };
	*list_add(&state.held) = (struct held){ history_word(&history, 8), START };
	EXPECT_EQ(true, model_allows(&model, &state));
	EXPECT_EQ(2, state.held.n);
	EXPECT_EQ(NEVER, history_word(&history, 4104));
	free(state.held.v);
}

TEST_F(run, atomics_store_what_their_answers_tell)
{
	struct roce_atomic_eth add = { htobe64(VA), htobe32(KEY), htobe64(0x0202020202020202), 0 };
	struct {
		uint32_t aeth;
		uint64_t original;
	} __attribute__((packed)) told = { htobe32(0x1f000001), htobe64(0x0101010101010101) };

	write_word(1, 0, 1);
	packet(true, ROCE_RC_FETCH_ADD, 2, &add, sizeof(add));
	packet(false, ROCE_RC_ATOMIC_ACK, 2, &told, sizeof(told));
	add.compare = htobe64(0x0303030303030303);
	add.swap_or_add = htobe64(0x0404040404040404);
	packet(true, ROCE_RC_CMP_SWAP, 3, &add, sizeof(add));
	load("spec");
	EXPECT_STATES(4, 1, "0 1 3 4");
}

/******************************************************************************
 * QPs
 */

TEST_F(run, a_flush_speaks_for_its_own_qp)
{
	use_first_qp();
	write_word(1, 0, 1);
	ack(1);
	use_second_qp();
	write_word(100, 1, 1);
	flush(101, 0, 2);
	response(101);
	load("spec");
	EXPECT_STATES(5, 2, "01 11");
}

/* The port is that of Linux, by the numbers of both QPs. */
static uint16_t port_of(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;

	v ^= v >> 20;
	v ^= v >> 40;
	return 0xc000 | ((v & 0x3fff) ^ ((v >> 14) & 0x3f));
}

TEST_F(run, qps_with_the_same_psns_are_told_apart_by_their_ports)
{
	use_qp(17, 33, port_of(17, 33));
	write_word(1, 0, 1);
	flush(2, 0, 1);
	use_qp(18, 35, port_of(18, 35));
	write_word(1, 1, 1);
	flush(2, 1, 1);
	response(2);	/* of QP 18 */
	use_qp(17, 33, port_of(17, 33));
	ack(1);
	load("spec");
	EXPECT_STATES(6, 2, "01 11");
}

TEST_F(run, qps_that_cannot_be_told_apart_are_an_error)
{
	use_first_qp();
	write_word(1, 0, 1);
	use_qp(18, 35, 50000);
	write_word(1, 1, 1);
	ack(1);
	use_first_qp();
	ack(1);
	EXPECT_ERROR("it may answer one of several QPs, and nothing tells which");
}

TEST_F(run, qps_share_words)
{
	use_first_qp();
	write_word(1, 0, 1);
	use_second_qp();
	write_word(100, 0, 2);
	use_first_qp();
	flush(2, 0, 1);
	response(2);
	load("spec");
	EXPECT_STATES(4, 1, "1 2");
}

/******************************************************************************
 * What got lost, and how packets look
 */

TEST_F(run, psns_wrap)
{
	write_word(0xfffffe, 0, 1);
	flush(0xffffff, 0, 1);
	response(0xffffff);
	write_word(0, 1, 1);
	flush(1, 1, 1);
	response(1);
	load("spec");
	EXPECT_STATES(4, 2, "10 11");
	EXPECT_STATES(6, 2, "11");
}

TEST_F(run, duplicates_change_nothing)
{
	write_word(1, 0, 1);
	write_word(2, 0, 2);
	ack(2);
	write_word(1, 0, 1);
	flush(3, 0, 1);
	response(3);
	flush(3, 0, 1);
	response(3);
	load("spec");
	EXPECT_EQ(3, history.requests.n);
	EXPECT_STATES(8, 1, "2");
}

TEST_F(run, a_repeat_with_other_bytes_is_noticed)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	write_word(1, 0, 1);
	write_word(2, 1, 3);
	ack(2);
	load("spec");
	EXPECT_EQ(2, history.requests.n);
	EXPECT_EQ(NULL, history.requests.v[0].changed);
	ASSERT_NE(NULL, history.requests.v[1].changed);
	EXPECT_EQ(4, history.requests.v[1].changed->frame);
}

TEST_F(run, what_comes_out_of_order_is_not_received)
{
	write_word(1, 0, 1);
	write_word(3, 1, 3);
	nak(2, ROCE_AETH_NAK_PSN);
	load("spec");
	EXPECT_STATES(3, 2, "00 10");
}

TEST_F(run, what_the_target_asks_for_again_it_has_not_got)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);	/* lost behind the card */
	write_word(3, 2, 1);
	nak(2, ROCE_AETH_NAK_PSN);
	write_word(2, 1, 1);
	load("spec");
	EXPECT_STATES(4, 3, "000 100");
	EXPECT_STATES(5, 3, "000 010 100 110");
}

TEST_F(run, what_was_sent_again_before_the_target_asked_is_found)
{
	write_word(1, 0, 1);	/* lost behind the card */
	write_word(2, 1, 1);
	write_word(1, 0, 1);
	nak(1, ROCE_AETH_NAK_PSN);
	write_word(2, 1, 1);
	ack(2);
	load("spec");
	EXPECT_STATES(2, 2, "00");
	EXPECT_STATES(3, 2, "00 10");
	EXPECT_STATES(6, 2, "00 01 10 11");
}

/* The NAK is for what came out of order before. */
TEST_F(run, a_nak_that_is_late_takes_nothing_back)
{
	write_word(1, 0, 1);
	write_word(4, 1, 1);
	write_word(2, 1, 2);
	nak(2, ROCE_AETH_NAK_PSN);
	write_word(3, 2, 1);
	ack(3);
	load("spec");
	EXPECT_STATES(3, 3, "000 020 100 120");
	EXPECT_STATES(6, 3, "000 001 020 021 100 101 120 121");
}

TEST_F(run, what_is_refused_changes_nothing)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	nak(2, ROCE_AETH_NAK_ACCESS);
	write_word(3, 2, 1);
	load("spec");
	EXPECT_STATES(4, 3, "000 100");
}

TEST_F(run, a_packet_with_a_wrong_icrc_is_not_received)
{
	net.broken = true;
	write_word(1, 0, 1);
	net.broken = false;
	load("spec");
	EXPECT_EQ(1, capture.broken);
	EXPECT_STATES(1, 1, "0");
}

TEST_F(run, a_flush_with_the_icrc_of_linux_6_2_is_received)
{
	write_word(1, 0, 1);
	net.legacy = true;
	flush(2, 0, 1);
	net.legacy = false;
	response(2);
	load("spec");
	EXPECT_STATES(3, 1, "1");
}

TEST_F(run, each_packet_of_a_write_counts_by_itself)
{
	uint8_t bytes[8];

	memset(bytes, 1, 8);
	request(ROCE_RC_WRITE_FIRST, 1, KEY, 0, 16, bytes, 8);
	packet(true, ROCE_RC_WRITE_LAST, 2, bytes, 8);
	flush(3, 0, 2);
	response(3);
	load("spec");
	EXPECT_STATES(1, 2, "00 10");
	EXPECT_STATES(2, 2, "00 01 10 11");
	EXPECT_STATES(4, 2, "11");
}

TEST_F(run, a_long_read_takes_several_psns)
{
	write_bytes(1, KEY, 0, 8, 1);
	request(ROCE_RC_READ_REQUEST, 2, KEY, 0, 2048, "", 0);
	write_word(4, 1, 1);	/* two PSNs: an MTU of 1024 */
	ack(4);
	load("spec");
	EXPECT_STATES(4, 2, "00 01 10 11");
}

TEST_F(run, ipv6_and_vlans_are_read)
{
	net.ipv6 = true;
	net.vlans = 2;
	write_bytes(1, KEY, 0, 11, 1);	/* and a pad */
	flush(2, 0, 2);
	response(2);
	load("spec");
	EXPECT_EQ(0, capture.broken);
	EXPECT_STATES(2, 2, "0/ 00 1/ 10");
	EXPECT_STATES(3, 2, "1/");
}

/* A fragment, the first one: the port of UDP comes after its header. */
TEST_F(run, a_packet_with_another_header_of_ipv6_is_an_error)
{
	const uint8_t frame[14 + 40 + 8 + 8] = {
		0x52, 0x54, 0, 0, 0, 1, [12] = 0x86, 0xdd, 0x60, [14 + 6] = 44,
		[14 + 40] = 17, [14 + 40 + 8 + 2] = ROCE_UDP_PORT >> 8, ROCE_UDP_PORT & 0xff,
	};

	write_word(1, 0, 1);
	put32(net.pcap, 0);
	put32(net.pcap, 0);
	put32(net.pcap, sizeof(frame));
	put32(net.pcap, sizeof(frame));
	fwrite(frame, sizeof(frame), 1, net.pcap);
	EXPECT_ERROR("frame 2: a RoCE packet with an extension header of IPv6, which crash-states does not read");
}

static void add_to_memory(const char *line);

/* What the lab writes of a SEND that came as packet @psn: see memory.c. */
static void sent(uint64_t va, uint32_t length, uint8_t opcode, uint32_t psn, bool more)
{
	/* The length of a datagram of some 800 bytes is before the BTH, or an immediate after it. */
	uint32_t word[5] = { 0x2203, opcode, htobe32(net.qp), htobe32(psn), 0xabcd }, *w = word + more;

	add_to_memory(xasprintf("sent 0x%llx %u 0x%x 0x%x 0x%x 0x%x", (unsigned long long)va, length, w[0], w[1], w[2],
				w[3]));
}

static void send_word(uint8_t opcode, uint32_t psn, uint8_t value, bool more)
{
	uint8_t rest[12];

	memset(rest, value, sizeof(rest));
	packet(true, opcode, psn, rest + 4 * !more, 8 + 4 * more);
}

TEST_F(run, a_send_stores_where_the_kernel_was_seen_to_store_it)
{
	send_word(ROCE_RC_SEND_ONLY, 1, 1, false);
	sent(VA + 8, 8, ROCE_RC_SEND_ONLY, 1, false);
	send_word(ROCE_RC_SEND_ONLY_IMM, 2, 2, true);
	sent(VA + 16, 8, ROCE_RC_SEND_ONLY_IMM, 2, true);
	flush(3, 0, 2);
	send_word(ROCE_RC_SEND_ONLY, 4, 3, false);	/* to ordinary memory */
	sent(0x1000, 8, ROCE_RC_SEND_ONLY, 4, false);
	response(3);
	load("spec");
	EXPECT_EQ(0, history.somewhere);
	EXPECT_EQ(2, history.words);
	EXPECT_STATES(4, 3, "000 002 010 012");
	EXPECT_STATES(5, 3, "010 012");
	load("strict");		/* it has no key */
	EXPECT_STATES(5, 3, "000 002 010 012");
}

/* Nothing is stored that is only guessed. */
TEST_F(run, a_send_to_an_unknown_place_stores_nothing)
{
	send_word(ROCE_RC_SEND_ONLY, 1, 1, false);
	send_word(ROCE_RC_SEND_ONLY, 2, 1, false);
	sent(VA, 4, ROCE_RC_SEND_ONLY, 2, false);	/* the rest went elsewhere */
	send_word(ROCE_RC_SEND_ONLY, 3, 1, false);
	sent(VA, 8, ROCE_RC_SEND_ONLY, 3, false);
	sent(VA + 8, 8, ROCE_RC_SEND_ONLY, 3, false);
	send_word(ROCE_RC_SEND_ONLY, 4, 1, false);
	sent(0x99000, 8, ROCE_RC_SEND_ONLY, 4, false);	/* in no region */
	packet(true, ROCE_RC_SEND_ONLY, 5, "", 0);
	load("spec");
	EXPECT_EQ(4, history.somewhere);
	EXPECT_EQ(0, history.words);
}

/* Two regions at one address, as of two programs. */
TEST_F(run, a_send_to_one_of_two_places_stores_nothing)
{
	add_to_memory("region 0x0 0x505 0x7f0000000000 64\npiece 0 64 dax0.0 64");
	send_word(ROCE_RC_SEND_ONLY, 1, 1, false);
	sent(VA, 8, ROCE_RC_SEND_ONLY, 1, false);
	send_word(ROCE_RC_SEND_ONLY, 2, 1, false);
	sent(VA + 64, 8, ROCE_RC_SEND_ONLY, 2, false);
	load("spec");
	EXPECT_EQ(1, history.somewhere);
	EXPECT_STATES(2, 9, "000000000 000000001");
}

TEST_F(run, ordinary_memory_is_left_alone)
{
	request(ROCE_RC_WRITE_ONLY, 1, 0x303, 0x1000 - VA, 8, "abcdefgh", 8);
	write_word(2, 0, 1);
	load("spec");
	EXPECT_EQ(1, history.words);
}

/******************************************************************************
 * What cannot be followed
 */

TEST_F(run, a_gap_is_an_error)
{
	write_word(1, 0, 1);
	write_word(3, 1, 1);
	ack(3);
	EXPECT_ERROR("frame 3 (ACKNOWLEDGE, psn 3, QP 33): the target of QP 17 has got as far as psn 3, but psn 2 has not come: the capture has a gap");
}

TEST_F(run, an_unknown_key_is_an_error)
{
	write_bytes(1, 0x999, 0, 8, 1);
	ack(1);
	EXPECT_ERROR("frame 1 (WRITE, psn 1, QP 17): its key was never registered");
}

TEST_F(run, an_unknown_opcode_is_an_error)
{
	packet(true, 0x1f, 1, "", 0);
	ack(1);
	EXPECT_ERROR("frame 1 (opcode 0x1f, psn 1, QP 17): an opcode that is unknown here");
}

TEST_F(run, an_unreliable_write_is_an_error)
{
	request(ROCE_SERVICE_UC | ROCE_RC_WRITE_ONLY, 1, KEY, 0, 8, "abcdefgh", 8);
	EXPECT_ERROR("it goes to persistent memory by an unreliable connection");
}

TEST_F(run, a_qp_used_again_is_an_error)
{
	write_word(1000, 0, 1);
	ack(1000);
	write_word(1, 0, 1);
	ack(1);
	EXPECT_ERROR("a QP used again cannot be followed");
}

static void load_stores(const char *rules)
{
	load(rules);
	history_needs_stores(&history);
}

TEST_F(run, no_request_is_an_error)
{
	EXPECT_EQ(NULL, strstr(error_of(load), "error:"));
	EXPECT_NE(NULL, strstr(error_of(load_stores), "nothing to check: the capture has 0 frames, and no request to the target"));
}

TEST_F(run, no_store_to_persistent_memory_is_an_error)
{
	request(ROCE_RC_WRITE_ONLY, 1, 0x303, 0x1000 - VA, 8, "abcdefgh", 8);
	flush(2, 0, 1);
	response(2);
	EXPECT_NE(NULL, strstr(error_of(load_stores), "no request stored to persistent memory.  The target took 2 packets"));
}

TEST_F(run, a_store_is_enough)
{
	write_word(1, 0, 1);
	EXPECT_STREQ("no error", error_of(load_stores));
}

/* What the device holds when the target boots, or is ready: the first words, as digits. */
static void hold(const char *name, const char *words)
{
	static uint8_t bytes[DEVICE];
	FILE *file = fopen(in_folder(name), "w");

	for (size_t i = 0; words[i]; i++)
		memset(bytes + i * 8, words[i] - '0', 8);
	fwrite(bytes, DEVICE, 1, file);
	fclose(file);
}

/*
 * The copy is made when the first of two requests has come.  What the target stored itself until it was
 * ready stays: word 1.
 */
TEST_F(run, what_came_before_the_copy_is_told_from_what_was_there)
{
	write_word(1, 0, 7);
	before.copied = ftell(net.pcap);
	write_word(2, 1, 9);
	hold("server.pmem0.start", "75");
	hold("server.pmem0.boot", "34");
	load("spec");
	EXPECT_STATES(2, 2, "75 79");
	content_map(&boot, in_folder("server.pmem0.boot"), &memory);
	before.booted = boot.bytes;
	load("spec");
	EXPECT_STATES(0, 2, "35");
	EXPECT_STATES(1, 2, "35 75");
	EXPECT_STATES(2, 2, "35 39 75 79");
	/* A byte less, and the request came after the copy. */
	before.copied--;
	load("spec");
	EXPECT_STATES(2, 2, "75 79");
	unlink(in_folder("server.pmem0.boot"));
}

/* The head of a capture, of the record of a frame. */
#define PCAP_HEAD	24
#define RECORD_HEAD	16

TEST_F(run, half_a_frame_at_the_end_is_left_out)
{
	long whole, end;

	write_word(1, 0, 1);
	whole = ftell(net.pcap);
	write_word(2, 1, 1);
	end = ftell(net.pcap);
	load("spec");
	EXPECT_EQ(false, capture.half_frame);
	EXPECT_EQ(2, capture.frames);
	while (--end > whole) {
		if (truncate(in_folder("server.pcap"), end))
			exit(1);
		load("spec");
		EXPECT_EQ(true, capture.half_frame);
		EXPECT_EQ(1, capture.frames);
		EXPECT_STATES(1, 2, "00 10");
	}
}

/* The length that the record at @at says. */
static void damage_length(long at, uint32_t length)
{
	fseek(net.pcap, at + RECORD_HEAD / 2, SEEK_SET);
	put32(net.pcap, length);
	fseek(net.pcap, 0, SEEK_END);
}

TEST_F(run, a_damaged_capture_is_an_error)
{
	write_word(1, 0, 1);
	damage_length(PCAP_HEAD, UINT32_MAX);
	EXPECT_ERROR("server.pcap: the capture is damaged: it ends in frame 1");
}

TEST_F(run, a_frame_longer_than_any_is_an_error)
{
	write_word(1, 0, 1);
	damage_length(PCAP_HEAD, 200000);
	write_word(2, 1, 1);
	EXPECT_ERROR("server.pcap: the capture is damaged: frame 1 says that it has 200000 bytes");
}

/* It looks like half a frame, but a killed QEMU writes nothing after that. */
TEST_F(run, a_length_that_hides_the_rest_is_an_error)
{
	long second;

	write_word(1, 0, 1);
	second = ftell(net.pcap);
	write_word(2, 1, 1);
	write_word(3, 2, 1);
	damage_length(second, 5000);
	EXPECT_ERROR("server.pcap: the capture is damaged: frame 2 goes beyond the end of the file, and yet other frames follow it");
}

TEST_F(run, so_is_one_of_the_first_frame)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	damage_length(PCAP_HEAD, 5000);
	EXPECT_ERROR("frame 1 goes beyond the end of the file");
}

static void add_to_memory(const char *line)
{
	FILE *file = fopen(in_folder("server.memory"), "a");

	fprintf(file, "%s\n", line);
	fclose(file);
}

TEST_F(run, what_the_lab_could_not_learn_is_an_error)
{
	add_to_memory("unknown no kprobes");
	EXPECT_ERROR("could not learn what was registered: no kprobes");
}

TEST_F(run, a_target_without_an_address_is_an_error)
{
	FILE *file = fopen(in_folder("server.memory"), "w");

	fprintf(file, "device dax0.0 0 %u\n", DEVICE);
	fclose(file);
	write_word(1, 0, 1);
	EXPECT_ERROR("it has no line \"link MAC\"");
}

TEST_F(run, a_line_that_is_not_understood_is_an_error)
{
	add_to_memory("region what");
	EXPECT_ERROR("line 9: not understood: region what");
}

TEST_F(run, a_key_that_is_given_twice_and_not_used_is_no_error)
{
	add_to_memory("region 0x101 0x101 0x1000 4096");
	write_bytes(1, OTHER, 0, 8, 1);
	EXPECT_STREQ("no error", error_of(load));
}

TEST_F(run, a_key_that_is_given_twice_is_an_error)
{
	add_to_memory("region 0x101 0x101 0x1000 4096");
	write_word(1, 0, 1);
	EXPECT_ERROR("frame 1 (WRITE, psn 1, QP 17): the key 0x101 was given twice, for other memory");
}

/* A window that was bound anew 256 times, and a region that was registered anew. */
TEST_F(run, a_key_that_means_the_same_again_is_no_error)
{
	add_to_memory("window 0x404 0x7f0000000008 16 0x101 0x2");
	add_to_memory("region 0x202 0x202 0x7f0000000000 32\npiece 0 32 dax0.0 0");
	write_bytes(1, 0x404, 8, 8, 1);
	flush_as(2, OTHER, 0, 0, DURABLE | ROCE_FETH_SEL_MR);
	response(2);
	load("spec");
	EXPECT_STATES(3, 2, "01");
}

/* Its bytes may be the same, but lie elsewhere. */
TEST_F(run, a_key_of_another_place_is_an_error)
{
	add_to_memory("region 0x202 0x202 0x7f0000000000 32\npiece 0 32 dax0.0 64");
	write_bytes(1, OTHER, 0, 8, 1);
	EXPECT_ERROR("the key 0x202 was given twice");
}

/* READ RESPONSE ONLY and an Atomic's answer, to the target; a refusal brings nothing. */
TEST_F(run, what_the_target_pulls_is_counted)
{
	uint8_t rest[12] = { 0x1f };

	write_word(1, 0, 1);
	packet(true, ROCE_RC_READ_RESPONSE_ONLY, 900, rest, sizeof(rest));
	packet(true, ROCE_RC_READ_RESPONSE_ONLY, 901, rest, 4);
	packet(true, ROCE_RC_ATOMIC_ACK, 902, rest, sizeof(rest));
	packet(true, ROCE_RC_ACK, 903, rest, 4);
	load("spec");
	EXPECT_EQ(2, history.pulled);
	begin(net.folder);
	packet(true, ROCE_RC_SEND_ONLY, 1, "", 0);
	packet(true, ROCE_RC_READ_RESPONSE_ONLY, 900, rest, sizeof(rest));
	EXPECT_NE(NULL, strstr(error_of(load_stores), "so a program that pulls cannot be judged"));
}

#endif /* CASES_HISTORY_H */

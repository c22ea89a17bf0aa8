/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: parts of words, and the CPU's stores to a line: what can be left without what. */
#ifndef CASES_ORDER_H
#define CASES_ORDER_H

#include "cases-cpu.h"

/* A half of word 0: "aabb" is the bytes of the low and of the high one. */
static void write_half(uint32_t psn, unsigned int half, uint8_t value) { write_bytes(psn, KEY, half * 4, 4, value); }

/* As states_at(), of the two halves of word 0. */
static const char *halves_at(unsigned int moment)
{
	static char text[4096];
	struct state state = { };
	char states[64][3];
	size_t n = 0;

	model_cut(&model, moment);
	for (size_t i = 0; i < model_choices(&model); i++)
		if (model_choice(&model, i, &state)) {
			uint64_t value = value_in_state(&state, 0);

			snprintf(states[n++], sizeof(states[0]), "%c%c", '0' + (char)(value & 0xf), '0' + (char)(value >> 32 & 0xf));
		}
	qsort(states, n, sizeof(*states), by_text);
	text[0] = 0;
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(states[i], states[i - 1]))
			strcat(strcat(text, i ? " " : ""), states[i]);
	free(state.held.v);
	return text;
}

#define EXPECT_HALVES(moment, wanted) EXPECT_STREQ(wanted, halves_at(moment))

/* The first one never flushes its half. */
TEST_F(run, a_flush_of_one_half_says_nothing_of_that_of_another_qp)
{
	write_half(1, 0, 1);
	ack(1);
	use_second_qp();
	write_half(100, 1, 2);
	flush(101, 0, 1);
	response(101);
	load("spec");
	EXPECT_HALVES(5, "02 12");
}

TEST_F(run, each_qp_keeps_its_half_by_its_flush)
{
	write_half(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	use_second_qp();
	write_half(100, 1, 2);
	flush(101, 0, 1);
	response(101);
	load("spec");
	EXPECT_HALVES(5, "10 12");
	EXPECT_HALVES(6, "12");
}

TEST_F(run, a_half_that_is_replaced_may_hold_each_value)
{
	write_half(1, 0, 1);
	write_half(2, 0, 3);
	use_second_qp();
	write_half(100, 1, 2);
	flush(101, 0, 1);
	response(101);
	load("spec");
	EXPECT_HALVES(5, "02 12 32");
}

/* Nothing orders the two QPs. */
TEST_F(run, halves_of_two_qps_come_in_any_order)
{
	write_half(1, 0, 1);
	use_second_qp();
	write_half(100, 1, 2);
	load("spec");
	EXPECT_HALVES(2, "00 02 10 12");
}

TEST_F(run, halves_of_a_qp_come_in_order)
{
	write_half(1, 0, 1);
	write_half(2, 1, 2);
	load("spec");
	EXPECT_HALVES(2, "00 10 12");
}

TEST_F(run, a_flush_of_the_second_half_leaves_the_first)
{
	write_half(1, 0, 1);
	write_half(2, 1, 2);
	flush_as(3, KEY, 4, 4, DURABLE);
	response(3);
	load("spec");
	EXPECT_HALVES(4, "02 12");
}

/* A word by one request is untorn, also where others store parts of it. */
TEST_F(run, a_word_stays_whole_where_others_store_parts)
{
	write_half(1, 0, 1);
	write_word(2, 0, 3);
	load("spec");
	EXPECT_HALVES(2, "00 10 33");
}

TEST_F(run, a_whole_word_of_another_qp_stays_whole)
{
	write_half(1, 0, 1);
	use_second_qp();
	write_word(100, 0, 3);
	flush(101, 0, 1);
	response(101);
	load("spec");
	EXPECT_HALVES(4, "13 33");
}

TEST_F(run, a_half_flush_covers_no_whole_word_with_parts)
{
	write_half(1, 0, 1);
	write_word(2, 0, 3);
	flush_as(3, KEY, 0, 4, DURABLE);
	response(3);
	load("spec");
	EXPECT_HALVES(4, "10 33");
}

TEST_F(run, the_half_of_the_cpu_is_not_durable_by_a_flush)
{
	cpu(1, "store 0 01010101");
	write_half(1, 1, 2);
	flush(2, 0, 1);
	response(2);
	load("spec");
	EXPECT_HALVES(4, "02 12");
}

TEST_F(run, the_cpu_writes_back_both_halves)
{
	write_half(1, 1, 2);
	send_message(2);
	cpu(1, "store 0 01010101");
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_HALVES(3, "00 02 12");
	EXPECT_HALVES(5, "12");
}

TEST_F(run, an_atomic_stores_both_parts)
{
	write_half(1, 0, 1);
	fetch_add(2);
	load("spec");
	EXPECT_HALVES(2, "00 10 20");
}

/* A checker that wants one half; the other one is another QP's. */
TEST_F(run, a_half_that_is_lost_is_named)
{
	write_half(1, 0, 1);
	use_second_qp();
	write_half(100, 1, 2);
	flush(101, 0, 1);
	response(101);
	load("spec");
	EXPECT_EXPLANATION("0", "[ $(od -A n -t u1 -N 1 \"$IMAGE\") = 1 ]",
			   "Why: WRITE psn 1 (0x0 to 0x4) is lost.  FLUSH psn 101 (0x0 to 0x8) was sent on QP 18");
}

/******************************************************************************
 * A line of the CPU's
 */

TEST_F(run, the_cpus_stores_to_a_line_are_there_in_order)
{
	cpu_store(1, 1);
	cpu_store(0, 1);
	cpu_store(8, 1);
	load("spec");
	EXPECT_STATES(2, 2, "00 01 11");
	EXPECT_STATES(3, 9, "000000000 000000001 010000000 010000001 110000000 110000001");
}

/* An entry and the word that says that it is valid, the last one in their line. */
TEST_F(run, an_entry_and_its_valid_word_need_one_write_back)
{
	for (unsigned int i = 1; i < 8; i++)
		cpu_store(i, 1);
	cpu_store(0, 1);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(8, 8, "00000000 01000000 01100000 01110000 01111000 01111100 01111110 01111111 11111111");
	take_sample(8, 1000, 10000, 1);
	EXPECT_EQ(true, taken.all_allowed);
}

/* Too many states to make each. */
TEST_F(run, states_by_chance_keep_the_order_of_a_line)
{
	for (unsigned int value = 1; value <= 3; value++)
		for (unsigned int i = 0; i < 8; i++)
			cpu_store(i, value);
	load("spec");
	take_sample(8, 200, 10000, 1);
	EXPECT_EQ(true, taken.all_allowed);
	EXPECT_GE(taken.n, 25);
}

TEST_F(run, a_value_that_is_replaced_counts_for_the_order)
{
	cpu_store(0, 1);
	cpu_store(1, 1);
	cpu_store(0, 2);
	load("spec");
	EXPECT_STATES(3, 2, "00 10 11 21");
}

/* Where the peer's value is left, so is what the CPU had stored to the word before, and so are its stores before that. */
TEST_F(run, a_cpus_store_below_that_of_a_peer_counts_for_the_order)
{
	cpu_store(1, 1);
	cpu_store(0, 1);
	write_word(1, 0, 2);
	load("spec");
	EXPECT_STATES(3, 2, "00 01 11 21");
}

TEST_F(run, stores_past_the_cache_have_no_order)
{
	cpu(1, "nt-store 0 0101010101010101");
	cpu(1, "nt-store 8 0101010101010101");
	cpu_store(2, 1);
	load("spec");
	EXPECT_STATES(3, 3, "000 001 010 011 100 101 110 111");
}

/* One instruction stores all parts. */
TEST_F(run, the_parts_of_one_instruction_have_no_order)
{
	cpu(1, "vector-store 0 0101010101010101");
	cpu(1, "vector-store 8 0101010101010101");
	cpu_store(2, 1);
	load("spec");
	EXPECT_STATES(3, 3, "000 010 100 110 111");
}

TEST_F(run, a_peers_stores_to_a_line_have_no_order)
{
	write_bytes(1, KEY, 0, 16, 1);
	send_message(2);
	cpu_store(2, 1);
	load("spec");
	EXPECT_STATES(3, 3, "000 001 010 011 100 101 110 111");
}

#endif /* CASES_ORDER_H */

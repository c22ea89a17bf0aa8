/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: what a program could spare, and what only looks like that. */
#ifndef CASES_LINT_H
#define CASES_LINT_H

#include "cases-promise.h"
#include "lint.h"

/* Which kinds were found, each as its number, and what all of them would save: "0 2 packets 1 round trips". */
static const char *lint_said(void)
{
	unsigned int packets = 0, round_trips = 0;
	lint_list lints = { };
	static char *text;
	size_t size;
	FILE *file;

	load("spec");
	lint_find(&model, &lints);
	free(text);
	file = open_memstream(&text, &size);
	for (size_t i = 0; i < lints.n; i++) {
		packets += lints.v[i].packets;
		round_trips += lints.v[i].round_trips;
		fprintf(file, "%d ", lints.v[i].kind);
	}
	fprintf(file, "%u packets %u round trips", packets, round_trips);
	fclose(file);
	return text;
}

#define EXPECT_LINT(wanted) EXPECT_STREQ(wanted, lint_said())

/* A FLUSH, and its answer. */
static void flush_now(uint32_t psn, unsigned int word, unsigned int words)
{
	flush(psn, word, words);
	response(psn);
}

TEST_F(run, lint_says_nothing_of_a_right_program)
{
	next = 1;
	for (unsigned int n = 0; n < RECORDS; n++)
		right_at_once(n);
	EXPECT_LINT("0 packets 0 round trips");
}

TEST_F(run, lint_names_two_flushes_that_one_could_replace)
{
	write_word(1, 0, 1);
	write_word(2, 4, 1);
	flush_now(3, 0, 1);
	flush_now(4, 4, 1);
	EXPECT_LINT("0 2 packets 1 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	write_word(2, 4, 1);
	flush(3, 0, 1);
	flush(4, 4, 1);
	response(3);
	response(4);
	EXPECT_LINT("0 2 packets 0 round trips");
}

/* A store stands between them, or what was promised by the first, or they are of other keys or kinds. */
TEST_F(run, lint_says_nothing_of_two_flushes_that_differ)
{
	write_word(1, 0, 1);
	flush_now(2, 0, 1);
	write_word(3, 4, 1);
	flush_now(4, 4, 1);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	write_word(2, 4, 1);
	flush_now(3, 0, 1);
	told("word 0 is durable");
	flush_now(4, 4, 1);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_bytes(1, OTHER, 0, 8, 1);
	write_word(2, 4, 1);
	flush_as(3, OTHER, 0, 8, DURABLE);
	flush_now(4, 4, 1);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	write_word(2, 4, 1);
	flush_as(3, KEY, 0, 8, DURABLE | GLOBAL);
	flush_now(4, 4, 1);
	EXPECT_LINT("0 packets 0 round trips");
}

/* One cache line is new of 65, of 17, of all. */
TEST_F(run, lint_names_a_range_that_is_too_wide)
{
	write_word(1, 0, 1);
	flush_now(2, 0, 8 * 65);
	EXPECT_LINT("1 0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	flush_now(2, 0, 8 * 16);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	write_word(2, 8 * 60, 1);
	flush_now(3, 0, 8 * 65);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 0, DURABLE | ROCE_FETH_SEL_MR);
	EXPECT_LINT("0 packets 0 round trips");
}

/* A record, and a tail by WRITE that waits for it if it is to. */
static void record_and_tail(unsigned int n, bool waits, const char *line)
{
	write_bytes(next++, KEY, slot(n) * 8, 64, n + 1);
	flush(next++, slot(n), 8);
	if (waits)
		response(next - 1);
	if (line)
		told(line);
	write_word(next++, 0, n + 1);
	if (!waits)
		response(next - 2);
	flush_now(next++, 0, 1);
	told("durable");
}

TEST_F(run, lint_names_a_wait_that_an_atomic_write_would_spare)
{
	next = 1;
	for (unsigned int n = 0; n < 3; n++)
		record_and_tail(n, true, NULL);
	EXPECT_LINT("2 2 2 0 packets 3 round trips");
	begin(net.folder);
	next = 1;
	record_and_tail(0, true, NULL);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	next = 1;
	record_and_tail(0, true, NULL);
	record_and_tail(1, false, NULL);
	record_and_tail(2, true, NULL);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	next = 1;
	for (unsigned int n = 0; n < 3; n++)
		record_and_tail(n, true, "the record is durable");
	EXPECT_LINT("0 packets 0 round trips");
}

/* A record on two QPs, of which the second one may have to be answered before the tail, or was before the FLUSH came. */
static void striped_record_and_tail(unsigned int n, bool late)
{
	use_second_qp();
	write_bytes(next_of_second++, KEY, slot(n + RECORDS) * 8, 64, n + 1);
	flush(next_of_second++, slot(n + RECORDS), 8);
	if (!late)
		response(next_of_second - 1);
	use_first_qp();
	write_bytes(next++, KEY, slot(n) * 8, 64, n + 1);
	flush_now(next++, slot(n), 8);
	if (late) {
		use_second_qp();
		response(next_of_second - 1);
		use_first_qp();
	}
	write_word(next++, 0, n + 1);
}

TEST_F(run, lint_knows_that_a_tail_may_wait_for_another_qp)
{
	next = 1;
	next_of_second = 100;
	for (unsigned int n = 0; n < 3; n++)
		striped_record_and_tail(n, true);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	next = 1;
	next_of_second = 100;
	for (unsigned int n = 0; n < 3; n++)
		striped_record_and_tail(n, false);
	EXPECT_LINT("2 2 2 0 packets 3 round trips");
}

/* It would overwrite the other half. */
TEST_F(run, lint_wants_no_atomic_write_for_half_a_word)
{
	for (unsigned int n = 0; n < 3; n++) {
		write_bytes(3 * n + 1, KEY, slot(n) * 8, 64, n + 1);
		flush_now(3 * n + 2, slot(n), 8);
		write_bytes(3 * n + 3, KEY, 0, 4, n + 1);
	}
	EXPECT_LINT("0 packets 0 round trips");
}

/* What is durable need not be visible. */
TEST_F(run, lint_says_nothing_of_a_flush_that_makes_visible_what_is_durable)
{
	write_word(1, 0, 1);
	flush_now(2, 0, 1);
	flush_as(3, KEY, 0, 8, DURABLE | GLOBAL);
	response(3);
	write_word(4, 8 * 60, 1);
	flush_as(5, KEY, 0, 8 * 8 * 65, DURABLE | GLOBAL);
	response(5);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 8, DURABLE | GLOBAL);
	response(2);
	flush_as(3, KEY, 0, 8, DURABLE | GLOBAL);
	response(3);
	EXPECT_LINT("3 2 packets 0 round trips");
}

/* What another QP stores between two FLUSHes may count on the first, if that was answered. */
TEST_F(run, lint_knows_that_another_qp_may_count_on_the_first_of_two)
{
	for (int waits = 1; waits >= 0; waits--) {
		begin(net.folder);
		write_word(1, 0, 1);
		write_word(2, 4, 1);
		flush(3, 0, 1);
		if (waits)
			response(3);
		use_second_qp();
		write_word(100, 512, 1);
		use_first_qp();
		flush(4, 4, 1);
		if (!waits)
			response(3);
		response(4);
		EXPECT_LINT(waits ? "0 packets 0 round trips" : "0 2 packets 0 round trips");
	}
}

TEST_F(run, lint_says_nothing_of_a_word_that_is_flushed_itself)
{
	for (unsigned int n = 0; n < 3; n++) {
		write_word(2 * n + 1, 0, n + 1);
		flush_now(2 * n + 2, 0, 1);
	}
	EXPECT_LINT("0 packets 0 round trips");
}

TEST_F(run, lint_names_a_flush_of_nothing_new)
{
	write_word(1, 0, 1);
	flush_now(2, 0, 1);
	flush_now(3, 0, 1);
	write_word(4, 0, 2);
	flush_now(5, 0, 1);
	EXPECT_LINT("3 2 packets 1 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	flush(2, 0, 1);
	flush(3, 0, 1);
	response(2);
	response(3);
	EXPECT_LINT("3 2 packets 0 round trips");
}

/* Nothing tells where a SEND is stored. */
TEST_F(run, lint_says_nothing_of_a_flush_for_a_send)
{
	packet(true, ROCE_RC_SEND_ONLY, 1, "abcdefgh", 8);
	flush_now(2, 0, 1);
	EXPECT_LINT("0 packets 0 round trips");
}

TEST_F(run, lint_names_a_flush_that_its_initiator_did_not_wait_for)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	manage(true, DREQ, "aaaabbbb", QP);
	response(2);
	EXPECT_LINT("4 2 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	flush_now(2, 0, 1);
	manage(true, DREQ, "aaaabbbb", QP);
	EXPECT_LINT("0 packets 0 round trips");
	begin(net.folder);
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 4, 1);
	manage(true, DREQ, "aaaabbbb", QP);
	EXPECT_LINT("0 packets 0 round trips");
}

#endif /* CASES_LINT_H */

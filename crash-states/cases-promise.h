/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: programs that are judged by the lines that they print, right ones and wrong ones. */
#ifndef CASES_PROMISE_H
#define CASES_PROMISE_H

#include "cases-order.h"
#include "promise.h"

#define RECORDS	6

/* The PSN of the next request of the first QP, and of the second one. */
static uint32_t next, next_of_second;

static uint32_t slot(unsigned int n) { return 8 + n * 8; }

static void store_slot(unsigned int n) { write_bytes(next++, KEY, slot(n) * 8, 64, n + 1); }

/* By the FLUSH @feth of @words, answered. */
static void flush_slot(unsigned int n, unsigned int words, uint32_t feth)
{
	flush_as(next, KEY, slot(n) * 8, words * 8, feth);
	response(next++);
}

static void store_tail(unsigned int n)
{
	atomic_write(next, 0, n + 1);
	response(next++);
}

static void flush_tail(void)
{
	flush(next, 0, 1);
	response(next++);
}

static void promise(void) { told("record is durable"); }

static void right_record(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 8, DURABLE);
	promise();
}

static void right_with_tail(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 8, DURABLE);
	store_tail(n);
	flush_tail();
	promise();
}

/* All is posted at once, and the answers come at the end. */
static void right_at_once(unsigned int n)
{
	store_slot(n);
	flush_as(next, KEY, slot(n) * 8, 64, DURABLE);
	atomic_write(next + 1, 0, n + 1);
	flush(next + 2, 0, 1);
	for (unsigned int i = 0; i < 3; i++)
		response(next++);
	promise();
}

/* The line comes while the next record is on its way. */
static void right_and_late(unsigned int n)
{
	store_slot(n);
	if (n)
		promise();
	flush_slot(n, 8, DURABLE);
	if (n + 1 == RECORDS)
		promise();
}

static void right_and_two_lines(unsigned int n)
{
	right_record(n);
	promise();
}

static void right_and_two_late_lines(unsigned int n)
{
	store_slot(n);
	if (n) {
		promise();
		promise();
	}
	flush_slot(n, 8, DURABLE);
}

static void right_and_progress(unsigned int n)
{
	told("a record is on its way");
	store_slot(n);
	told("and stored, though not for good");
	flush_slot(n, 8, DURABLE);
	promise();
}

static void right_by_region(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 0, DURABLE | ROCE_FETH_SEL_MR);
	promise();
}

static void right_by_both_kinds(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 8, DURABLE | GLOBAL);
	promise();
}

static void right_by_another_key(unsigned int n)
{
	write_bytes(next++, KEY, 0, 32, n + 1);
	flush_as(next, OTHER, 0, 32, DURABLE);
	response(next++);
	promise();
}

static void right_in_batches(unsigned int n)
{
	store_slot(n);
	if (n % 3 == 2) {
		flush_as(next, KEY, 0, 4096, DURABLE);
		response(next++);
		promise();
	}
}

static void right_by_two_packets(unsigned int n)
{
	uint8_t bytes[32];

	memset(bytes, n + 1, sizeof(bytes));
	request(ROCE_RC_WRITE_FIRST, next++, KEY, slot(n) * 8, 64, bytes, 32);
	packet(true, ROCE_RC_WRITE_LAST, next++, bytes, 32);
	flush_slot(n, 8, DURABLE);
	promise();
}

static void right_by_two_qps(unsigned int n)
{
	right_record(n);
	use_second_qp();
	write_word(next_of_second++, 512 + n, 1);
	flush(next_of_second, 512 + n, 1);
	response(next_of_second++);
	use_first_qp();
	promise();
}

static void right_by_atomic(unsigned int n)
{
	(void)n;
	fetch_add(next++);
	flush_tail();
	promise();
}

static void right_after_a_repeat(unsigned int n)
{
	store_slot(n);
	flush_as(next, KEY, slot(n) * 8, 64, DURABLE);
	flush_slot(n, 8, DURABLE);
	promise();
}

static void right_only_at_the_end(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 8, DURABLE);
	if (n + 1 == RECORDS)
		promise();
}

static void right_by_the_cpu(unsigned int n)
{
	send_message(next++);
	cpu_store(slot(n), n + 1);
	cpu_write_back("clwb", slot(n));
	cpu_sfence();
	promise();
}

static void right_by_clflush(unsigned int n)
{
	send_message(next++);
	cpu_store(slot(n), n + 1);
	cpu_write_back("clflush", slot(n));
	promise();
}

static void right_past_the_cache(unsigned int n)
{
	send_message(next++);
	cpu(1, "nt-store %u 0101010101010101", slot(n) * 8);
	cpu_sfence();
	promise();
}

/* A message brings the slot, and the daemon makes it durable. */
static void flush_by_a_daemon(unsigned int n)
{
	store_slot(n);
	send_message(next++);
	cpu_write_back("clwb", slot(n));
	cpu_sfence();
}

static void right_by_a_daemon_that_flushes(unsigned int n)
{
	flush_by_a_daemon(n);
	promise();
}

/* It stores the tail, too. */
static void right_by_a_daemon_with_a_tail(unsigned int n)
{
	flush_by_a_daemon(n);
	cpu_store(0, n + 1);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	promise();
}

static void right_by_a_flush_of_all_before(unsigned int n)
{
	store_slot(n);
	write_word(next++, 4, n + 1);
	flush_as(next, KEY, 0, 4096, DURABLE);
	response(next++);
	promise();
}

static void wrong_without_a_flush(unsigned int n)
{
	store_slot(n);
	ack(next - 1);
	promise();
}

static void wrong_once(unsigned int n)
{
	store_slot(n);
	if (n != 3)
		flush_slot(n, 8, DURABLE);
	promise();
}

static void wrong_by_visibility(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 8, GLOBAL);
	promise();
}

static void wrong_by_a_short_range(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 7, DURABLE);
	promise();
}

static void wrong_by_no_length(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 0, DURABLE);
	promise();
}

static void wrong_by_another_place(unsigned int n)
{
	store_slot(n);
	flush_slot(n + 1, 8, DURABLE);
	promise();
}

static void wrong_by_a_flush_before(unsigned int n)
{
	flush_slot(n, 8, DURABLE);
	store_slot(n);
	ack(next - 1);
	promise();
}

static void wrong_and_early(unsigned int n)
{
	store_slot(n);
	promise();
	flush_slot(n, 8, DURABLE);
}

static void wrong_and_early_at_once(unsigned int n)
{
	store_slot(n);
	flush_as(next, KEY, slot(n) * 8, 64, DURABLE);
	promise();
	response(next++);
}

static void wrong_by_another_qp(unsigned int n)
{
	store_slot(n);
	ack(next - 1);
	use_second_qp();
	flush_as(next_of_second, KEY, slot(n) * 8, 64, DURABLE);
	response(next_of_second++);
	use_first_qp();
	promise();
}

static void wrong_by_a_read(unsigned int n)
{
	store_slot(n);
	read_returns(next++, slot(n), n + 1);
	promise();
}

static void wrong_tail(unsigned int n)
{
	store_slot(n);
	flush_slot(n, 8, DURABLE);
	store_tail(n);
	promise();
}

static void wrong_record_of_a_tail(unsigned int n)
{
	store_slot(n);
	store_tail(n);
	flush_tail();
	promise();
}

static void wrong_by_atomic(unsigned int n)
{
	(void)n;
	atomic_returns(ROCE_RC_FETCH_ADD, next++, 0, 0, 1, n);
	promise();
}

static void wrong_by_a_packet(unsigned int n)
{
	uint8_t bytes[32];

	memset(bytes, n + 1, sizeof(bytes));
	request(ROCE_RC_WRITE_FIRST, next++, KEY, slot(n) * 8, 64, bytes, 32);
	packet(true, ROCE_RC_WRITE_LAST, next++, bytes, 32);
	flush_slot(n, 4, DURABLE);
	promise();
}

static void wrong_half(unsigned int n)
{
	write_bytes(next++, KEY, slot(n) * 8, 4, n + 1);
	use_second_qp();
	write_bytes(next_of_second++, KEY, slot(n) * 8 + 4, 4, n + 1);
	flush(next_of_second, slot(n), 1);
	response(next_of_second++);
	use_first_qp();
	promise();
}

/* As a server does that answers its client before the data is durable. */
static void wrong_by_a_daemon_that_answers(unsigned int n)
{
	store_slot(n);
	send_message(next++);
	ack(next - 1);
	promise();
	cpu_write_back("clwb", slot(n));
	cpu_sfence();
}

/* It gets no message, but polls ordinary memory. */
static void wrong_by_a_daemon_that_polls(unsigned int n)
{
	write_bytes(next++, 0x303, 0x1000 - VA, 8, n + 1);
	cpu_store(slot(n), n + 1);
	promise();
}

static void wrong_tail_by_a_daemon(unsigned int n)
{
	flush_by_a_daemon(n);
	cpu_store(0, n + 1);
	promise();
}

static void wrong_without_a_write_back(unsigned int n)
{
	send_message(next++);
	cpu_store(slot(n), n + 1);
	cpu_sfence();
	promise();
}

static void wrong_without_a_fence(unsigned int n)
{
	send_message(next++);
	cpu_store(slot(n), n + 1);
	cpu_write_back("clwb", slot(n));
	promise();
}

static void wrong_write_back_before(unsigned int n)
{
	send_message(next++);
	cpu_write_back("clwb", slot(n));
	cpu_store(slot(n), n + 1);
	cpu_sfence();
	promise();
}

#define PROGRAM(name) { #name, name }
static const struct {
	const char *name;
	void (*append)(unsigned int n);
} programs[] = {
	PROGRAM(right_record), PROGRAM(right_with_tail), PROGRAM(right_at_once), PROGRAM(right_and_late),
	PROGRAM(right_and_two_lines), PROGRAM(right_and_two_late_lines), PROGRAM(right_and_progress),
	PROGRAM(right_by_region), PROGRAM(right_by_both_kinds), PROGRAM(right_by_another_key), PROGRAM(right_in_batches),
	PROGRAM(right_by_two_packets), PROGRAM(right_by_two_qps), PROGRAM(right_by_atomic), PROGRAM(right_after_a_repeat),
	PROGRAM(right_only_at_the_end), PROGRAM(right_by_the_cpu), PROGRAM(right_by_clflush), PROGRAM(right_past_the_cache),
	PROGRAM(right_by_a_daemon_that_flushes), PROGRAM(right_by_a_daemon_with_a_tail), PROGRAM(right_by_a_flush_of_all_before),
	PROGRAM(wrong_without_a_flush), PROGRAM(wrong_once), PROGRAM(wrong_by_visibility), PROGRAM(wrong_by_a_short_range),
	PROGRAM(wrong_by_no_length), PROGRAM(wrong_by_another_place), PROGRAM(wrong_by_a_flush_before),
	PROGRAM(wrong_and_early), PROGRAM(wrong_and_early_at_once), PROGRAM(wrong_by_another_qp), PROGRAM(wrong_by_a_read),
	PROGRAM(wrong_tail), PROGRAM(wrong_record_of_a_tail), PROGRAM(wrong_by_atomic), PROGRAM(wrong_by_a_packet),
	PROGRAM(wrong_half), PROGRAM(wrong_by_a_daemon_that_answers), PROGRAM(wrong_tail_by_a_daemon), PROGRAM(wrong_by_a_daemon_that_polls),
	PROGRAM(wrong_without_a_write_back),
	PROGRAM(wrong_without_a_fence), PROGRAM(wrong_write_back_before),
};

/* What is said of the first line that is broken, or "". */
static const char *broken_promise(const char *pattern)
{
	broken_promises broken = { };

	promises_check(&model, pattern, &broken);
	return broken.n ? broken.v[0].why : "";
}

TEST_F(run, promises_tell_right_programs_from_wrong_ones)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const char *said;

		begin(net.folder);
		next = 1;
		next_of_second = 100;
		for (unsigned int n = 0; n < RECORDS; n++)
			programs[i].append(n);
		load("spec");
		said = broken_promise("durable$");
		EXPECT_EQ(!strncmp(programs[i].name, "wrong", 5), *said != 0) TH_LOG("%s: %s", programs[i].name, said);
	}
}

static void run_after_a_format(void (*record)(unsigned int n))
{
	next = 1;
	store_tail(0);
	flush_tail();
	for (unsigned int n = 0; n < RECORDS; n++)
		record(n);
	load("spec");
}

/* A log that is formatted first has a moment when all is durable for each line that comes too early. */
TEST_F(run, lines_that_are_all_too_early_are_noticed_after_a_format)
{
	run_after_a_format(wrong_and_early);
	EXPECT_STREQ("", broken_promise("durable"));
	EXPECT_EQ(true, promises_none_was_quiet());
}

/* It ends with a line for the last record, when all is durable. */
TEST_F(run, a_program_that_sends_the_next_record_first_is_not_taken_for_it)
{
	run_after_a_format(right_and_late);
	EXPECT_STREQ("", broken_promise("durable"));
	EXPECT_EQ(false, promises_none_was_quiet());
}

TEST_F(run, a_broken_promise_names_its_culprit)
{
	write_word(1, 0, 1);
	told("durable");
	flush(2, 0, 1);
	response(2);
	load("spec");
	EXPECT_STREQ("WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8), which covers it, came only later (frame 3): until that FLUSH has completed, nothing may count on it.",
		     broken_promise("durable"));
}

TEST_F(run, a_flush_that_ends_too_early_says_by_how_much)
{
	uint8_t bytes[32] = { 1 };

	request(ROCE_RC_WRITE_FIRST, 1, KEY, 0, 64, bytes, 32);
	packet(true, ROCE_RC_WRITE_LAST, 2, bytes, 32);
	flush(3, 0, 4);		/* all of its first packet */
	response(3);
	told("durable");
	load("spec");
	EXPECT_NE(NULL, strstr(broken_promise("durable"), "FLUSH psn 3 (0x0 to 0x20) ends 32 bytes too early"));
}

TEST_F(run, a_flush_of_no_length_is_named)
{
	write_word(1, 4, 1);
	flush(2, 4, 0);
	response(2);
	told("durable");
	load("spec");
	EXPECT_NE(NULL, strstr(broken_promise("durable"), "FLUSH psn 2 has length 0, so it makes nothing durable"));
}

TEST_F(run, a_read_is_not_called_a_flush)
{
	write_word(1, 0, 1);
	read_memory(2, KEY, 0, 8);
	told("durable");
	response(2);
	load("adr-read");
	EXPECT_STREQ("WRITE psn 1 (0x0 to 0x8) is lost.  READ psn 2 (0x0 to 0x8), which covers it, was answered only later (frame 4): until that READ has completed, nothing may count on it.",
		     broken_promise("durable"));
}

static void expect_schedule(struct __test_metadata *_metadata, double gap, double hold)
{
	struct schedule schedule;

	load("spec");
	schedule = promise_schedule(&model, "durable");
	EXPECT_EQ(gap, (int)(schedule.gap * 1000 + 0.5));
	EXPECT_EQ(hold, (int)(schedule.hold * 1000 + 0.5));
}

/* It works for 300 ms in place of a wait for the answer, which comes after 10. */
TEST_F(run, lines_long_after_the_answers_show_no_wait)
{
	for (unsigned int i = 0; i < 3; i++) {
		write_word(2 * i + 1, 0, i + 1);
		flush(2 * i + 2, 0, 1);
		net.ms += 10;
		response(2 * i + 2);
		net.ms += 290 + 100 * i;
		told("durable");
	}
	told("another line");
	expect_schedule(_metadata, 290, 10);
}

TEST_F(run, answers_that_come_late_show_it)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	net.ms += 600;
	response(2);
	net.ms += 300;
	told("durable");
	expect_schedule(_metadata, 300, 600);
}

/* So does a tail that is stored by WRITE; what is larger is no tail. */
TEST_F(run, tails_long_after_the_answers_show_no_wait)
{
	for (unsigned int i = 0; i < 3; i++) {
		write_bytes(4 * i + 1, KEY, 64, 64, i + 1);
		flush(4 * i + 2, 8, 8);
		net.ms += 10;
		response(4 * i + 2);
		net.ms += 50;
		write_bytes(4 * i + 3, KEY, 128, 64, i + 1);
		net.ms += 240 + 100 * i;
		write_word(4 * i + 4, 0, i + 1);
	}
	load("spec");
	EXPECT_EQ(290, (int)(promise_schedule(&model, NULL).tail * 1000 + 0.5));
	begin(net.folder);
	for (unsigned int i = 0; i < 3; i++) {
		atomic_write(2 * i + 1, 0, i + 1);
		flush(2 * i + 2, 0, 1);
		response(2 * i + 2);
		net.ms += 300;
	}
	load("spec");
	EXPECT_EQ(0, promise_schedule(&model, NULL).tail);
}

/* Records of one word, and a tail by ATOMIC WRITE, which need not wait. */
TEST_F(run, words_that_are_stored_once_are_no_tails)
{
	write_word(1, 0, 9);
	for (unsigned int i = 0; i < 3; i++) {
		write_word(4 * i + 2, 8 + i, i + 1);
		flush(4 * i + 3, 8 + i, 1);
		atomic_write(4 * i + 4, 0, i + 1);
		flush(4 * i + 5, 0, 1);
		for (unsigned int n = 3; n < 6; n++)
			response(4 * i + n);
		net.ms += 300;
	}
	load("spec");
	EXPECT_EQ(0, promise_schedule(&model, NULL).tail);
}

static void check_promises(const char *pattern)
{
	broken_promises broken = { };

	load("spec");
	promises_check(&model, pattern, &broken);
}

static void check_promises_of_no_line(const char *rules) { (void)rules; check_promises("lasting"); }
static void check_promises_of_no_pattern(const char *rules) { (void)rules; check_promises("(durable"); }

TEST_F(run, a_pattern_that_no_line_matches_is_an_error)
{
	write_word(1, 0, 1);
	told("durable");
	EXPECT_NE(NULL, strstr(error_of(check_promises_of_no_line), "--promise lasting: none of the 1 lines"));
}

TEST_F(run, a_pattern_that_is_none_is_an_error)
{
	write_word(1, 0, 1);
	told("durable");
	EXPECT_NE(NULL, strstr(error_of(check_promises_of_no_pattern), "--promise (durable: no extended regular expression"));
}

#endif /* CASES_PROMISE_H */

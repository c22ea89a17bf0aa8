/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: what the target's CPU does. */
#ifndef CASES_CPU_H
#define CASES_CPU_H

#include "cases-proof.h"

/******************************************************************************
 * The target's CPU.  Moments count frames and what the CPU does
 */

static void send_message(uint32_t psn) { packet(true, ROCE_RC_SEND_ONLY, psn, "", 0); }

TEST_F(run, a_store_by_the_cpu_may_be_left_at_once)
{
	cpu_store(0, 1);
	cpu_store(1, 1);
	load("spec");
	EXPECT_STATES(0, 2, "00");
	EXPECT_STATES(1, 2, "00 10");
	EXPECT_STATES(2, 2, "00 10 11");
}

TEST_F(run, a_write_back_and_a_fence_are_a_floor)
{
	cpu_store(0, 1);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	cpu_store(0, 2);
	load("spec");
	EXPECT_STATES(2, 1, "0 1");
	EXPECT_STATES(3, 1, "1");
	EXPECT_STATES(4, 1, "1 2");
	/* It is no answer to a FLUSH. */
	EXPECT_EQ(0, model.all_answers);
}

TEST_F(run, a_fence_without_a_write_back_is_no_floor)
{
	cpu_store(0, 1);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(2, 1, "0 1");
}

TEST_F(run, a_write_back_without_a_fence_is_no_floor)
{
	cpu_store(0, 1);
	cpu_write_back("clwb", 0);
	cpu_store(1, 1);
	cpu_write_back("clflushopt", 1);
	load("spec");
	EXPECT_STATES(4, 2, "00 10 11");
}

TEST_F(run, each_fence_waits_for_each_write_back)
{
	cpu_store(0, 1);
	cpu_write_back("clflushopt", 0);
	cpu(1, "mfence");
	cpu_store(1, 1);
	cpu_write_back("clwb", 1);
	cpu(1, "lock");
	load("spec");
	EXPECT_STATES(3, 2, "10");
	EXPECT_STATES(6, 2, "11");
}

TEST_F(run, clflush_needs_no_fence)
{
	cpu_store(0, 1);
	cpu_write_back("clflush", 0);
	load("spec");
	EXPECT_STATES(2, 1, "1");
}

TEST_F(run, a_store_after_the_write_back_is_not_covered)
{
	cpu_store(0, 1);
	cpu_write_back("clwb", 0);
	cpu_store(0, 2);
	cpu_store(1, 1);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(5, 2, "10 20 21");
}

TEST_F(run, a_fence_is_that_of_its_thread)
{
	cpu_store(0, 1);
	cpu_write_back("clwb", 0);
	cpu(2, "sfence");
	cpu(2, "nt-store 8 0101010101010101");
	cpu_sfence();
	load("spec");
	EXPECT_STATES(3, 1, "0 1");
	EXPECT_STATES(5, 2, "10 11");
}

/* The first that fences makes it durable, although another one has written it back before. */
TEST_F(run, a_line_is_durable_by_the_first_thread_that_fences)
{
	cpu_store(0, 1);
	cpu_write_back("clwb", 0);
	cpu(2, "clwb 0");
	cpu(2, "sfence");
	cpu_sfence();
	load("spec");
	EXPECT_STATES(3, 1, "0 1");
	EXPECT_STATES(4, 1, "1");
}

TEST_F(run, a_write_back_covers_its_line)
{
	cpu_store(0, 1);
	cpu(1, "store 56 %032x", 0);	/* two words, of which the line has one */
	cpu(1, "store 56 0101010101010101%016x", 0x01010101);
	cpu_write_back("clwb", 3);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(4, 8, "00000000 10000000 10000001");
	EXPECT_STATES(5, 9, "10000001/ 100000010");
}

TEST_F(run, a_non_temporal_store_needs_a_fence_only)
{
	cpu(1, "nt-store 0 0101010101010101");
	cpu_store(1, 1);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(2, 2, "00 01 10 11");
	EXPECT_STATES(3, 2, "10 11");
}

TEST_F(run, the_cpu_writes_back_what_a_peer_has_stored)
{
	write_word(1, 0, 1);
	send_message(2);
	write_word(3, 1, 1);
	cpu_write_back("clwb", 0);
	write_word(4, 0, 2);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(5, 2, "00 01 10 11 20 21");
	EXPECT_STATES(6, 2, "10 11 20 21");
}

/* What no SEND has followed may not have reached the memory. */
TEST_F(run, the_cpu_sees_what_a_completion_follows)
{
	write_word(1, 0, 1);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	send_message(2);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(3, 1, "0 1");
	EXPECT_STATES(6, 1, "1");
	load("ordered");
	EXPECT_STATES(3, 1, "1");
}

TEST_F(run, a_write_with_immediate_is_a_completion)
{
	struct {
		struct roce_reth reth;
		uint32_t immediate;
	} rest = { { htobe64(VA + 8), htobe32(KEY), 0 }, 0 };

	write_word(1, 0, 1);
	packet(true, ROCE_RC_WRITE_ONLY_IMM, 2, &rest, sizeof(rest));
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(4, 1, "1");
}

/* A SEND of several packets completes by its last. */
TEST_F(run, the_first_packet_of_a_send_is_no_completion)
{
	write_word(1, 0, 1);
	packet(true, ROCE_RC_SEND_FIRST, 2, "1234", 4);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	packet(true, ROCE_RC_SEND_LAST, 3, "1234", 4);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(4, 1, "0 1");
	EXPECT_STATES(7, 1, "1");
}

TEST_F(run, the_cpu_races_with_what_it_does_not_see)
{
	write_word(1, 0, 1);
	cpu_store(0, 2);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(4, 1, "1 2");
	load("ordered");
	EXPECT_STATES(4, 1, "2");
}

TEST_F(run, the_cpu_has_no_race_with_what_it_sees)
{
	write_word(1, 0, 1);
	send_message(2);
	cpu_store(0, 2);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(5, 1, "2");
}

TEST_F(run, a_packet_that_comes_later_has_no_race_with_the_cpu)
{
	cpu_store(0, 1);
	write_word(1, 0, 2);
	flush(2, 0, 1);
	response(2);
	load("spec");
	EXPECT_STATES(3, 1, "0 1 2");
	EXPECT_STATES(4, 1, "2");
}

/* QP 18 may have waited for what the CPU did. */
TEST_F(run, what_the_cpu_has_made_durable_has_no_race_with_another_qp)
{
	write_word(1, 0, 1);
	send_message(2);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(7, 1, "2");
}

/* QP 17 races with QP 18, whose own first store is over all the same. */
TEST_F(run, what_the_cpu_has_made_durable_supersedes)
{
	use_second_qp();
	write_word(100, 0, 1);
	write_word(101, 0, 2);
	use_first_qp();
	write_word(1, 0, 3);
	use_second_qp();
	send_message(102);
	cpu_write_back("clwb", 0);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(5, 1, "0 1 2 3");
	EXPECT_STATES(6, 1, "2 3");
}

TEST_F(run, by_eadr_a_store_by_the_cpu_is_durable)
{
	cpu_store(0, 1);
	cpu_store(0, 2);
	load("eadr");
	EXPECT_STATES(1, 1, "1");
	EXPECT_STATES(2, 1, "2");
}

/* A flush of a peer says nothing of what the CPU has in its caches. */
TEST_F(run, a_flush_covers_no_store_by_the_cpu)
{
	cpu_store(0, 1);
	write_word(1, 1, 1);
	flush(2, 0, 1);
	response(2);
	load("spec");
	EXPECT_STATES(4, 2, "00 01 10 11");
}

TEST_F(run, the_power_fails_before_each_fence)
{
	unsigned int *cuts;
	size_t n;

	cpu_store(0, 1);
	cpu_sfence();			/* waits for nothing */
	cpu_write_back("clwb", 0);
	write_word(1, 1, 1);
	cpu_sfence();
	flush(2, 1, 1);
	response(2);
	load("spec");
	cuts = model_cuts(&model, &n);
	ASSERT_EQ(3, n);
	EXPECT_STREQ("1+0", moment_text(&capture, cuts[0]));
	EXPECT_STREQ("2", moment_text(&capture, cuts[1]));
	EXPECT_STREQ("3", moment_text(&capture, cuts[2]));
	EXPECT_EQ(4, cuts[0]);
	EXPECT_EQ(7, cuts[2]);
	free(cuts);
}

TEST_F(run, a_moment_is_a_frame_and_what_the_cpu_did_after_it)
{
	cpu_store(0, 1);
	cpu_store(1, 1);
	write_word(1, 2, 1);
	told("a line");
	cpu_store(3, 1);
	load("spec");
	EXPECT_EQ(5, capture_last_moment(&capture));
	EXPECT_STREQ("0+0", moment_text(&capture, 0));
	EXPECT_STREQ("0+1", moment_text(&capture, 1));
	EXPECT_STREQ("0", moment_text(&capture, 2));
	EXPECT_STREQ("1", moment_text(&capture, 3));
	EXPECT_STREQ("2+0", moment_text(&capture, 4));
	EXPECT_STREQ("2", moment_text(&capture, 5));
	EXPECT_EQ(1, capture_moment(&capture, 0, 1));
	EXPECT_EQ(NO_MOMENT, capture_moment(&capture, 1, 1));
	EXPECT_EQ(5, capture_moment(&capture, 2, 1));
	EXPECT_EQ(NO_MOMENT, capture_moment(&capture, 3, ALL_LINES));
	EXPECT_EQ(0, capture_told(&capture, 3));
	EXPECT_EQ(1, capture_told(&capture, 4));
}

/* A record that a SEND brings, stored by the CPU, and then the tail; the answer promises it. */
static void daemon_appends(const char *record_by, const char *fence, const char *tail_by)
{
	send_message(1);
	cpu_store(0, 1);
	if (*record_by)
		cpu_write_back(record_by, 0);
	if (*fence)
		cpu(1, "%s", fence);
	cpu_store(8, 1);
	if (*tail_by)
		cpu_write_back(tail_by, 8);
	cpu_sfence();
	told("durable");
	load("spec");
}

TEST_F(run, a_daemon_that_writes_back_and_fences_is_right)
{
	daemon_appends("clwb", "sfence", "clwb");
	EXPECT_STATES(capture_last_moment(&capture) - 2, 9, "100000000 100000001");
	EXPECT_STATES(capture_last_moment(&capture), 9, "100000001");
}

TEST_F(run, a_daemon_that_forgets_the_write_back_is_found)
{
	daemon_appends("", "sfence", "clwb");
	EXPECT_STATES(capture_last_moment(&capture), 9, "000000001 100000001");
	EXPECT_EXPLANATION("0", WANTS(0, 1) " || " WANTS(64, 0),
			   "Why: STORE by the CPU (0x0 to 0x8) is lost.  No CLWB, CLFLUSHOPT or CLFLUSH of its line had been executed.  Write the line back, and let SFENCE follow");
	EXPECT_EXPLANATION("0", WANTS(0, 1), "old     0x0  holds what it held at the start, 0x0000000000000000, not what STORE by the CPU (0x0 to 0x8) gave it, 0x0101010101010101\n");
}

TEST_F(run, a_daemon_that_forgets_the_fence_is_found)
{
	daemon_appends("clwb", "", "clwb");
	/* Before the fence of the tail. */
	EXPECT_STATES(capture_last_moment(&capture) - 2, 9, "000000000 000000001 100000000 100000001");
	EXPECT_EXPLANATION_AT(capture_last_moment(&capture) - 2, "0", WANTS(0, 1) " || " WANTS(64, 0),
			   "Why: STORE by the CPU (0x0 to 0x8) is lost.  CLWB by the CPU (0x0 to 0x40) writes it back, at frame 1+2, but no fence of that thread had been executed, and STORE by the CPU (0x40 to 0x48) is there, so it may not have reached the memory.  SFENCE waits for that.  SFENCE by the CPU, which makes it durable, came only later, at frame 1+5.");
}

TEST_F(run, a_daemon_that_writes_back_too_early_is_found)
{
	cpu_write_back("clwb", 0);
	cpu_store(0, 1);
	cpu_sfence();
	load("spec");
	EXPECT_STATES(3, 1, "0 1");
	EXPECT_EXPLANATION("0", WANTS(0, 1), "Why: STORE by the CPU (0x0 to 0x8) is lost.  CLWB by the CPU (0x0 to 0x40) wrote its line back, at frame 0+1, before it was stored.");
}

TEST_F(run, a_peer_whose_store_the_cpu_does_not_write_back_is_found)
{
	write_word(1, 0, 1);
	send_message(2);
	cpu_store(8, 1);
	load("spec");
	EXPECT_EXPLANATION("0", WANTS(0, 1),
			   "Nor did the target's CPU make it durable, by a write-back of its line when it was visible, and a fence after that.");
}

/* Stores of words may mean something one by one; those of vector registers, and those past the cache, copy. */
TEST_F(run, a_copy_by_the_cpu_is_one_message)
{
	for (unsigned int i = 0; i < 4; i++)
		cpu(1, "store %u 01010101010101010101010101010101", i * 16);
	cpu_store(8, 1);
	cpu(2, "store 72 01010101010101010101010101010101");
	cpu_store(11, 1);
	cpu_store(12, 1);
	cpu(1, "vector-store 104 0101010101010101");
	cpu(1, "vector-store 112 0101010101010101");
	cpu(1, "nt-store 120 0101010101010101");
	cpu(1, "nt-store 128 0101010101010101");
	load("spec");
	for (unsigned int i = 0; i < 4; i++)
		EXPECT_EQ(0, history.requests.v[i].message);
	for (unsigned int i = 4; i < 9; i++)
		EXPECT_EQ(i, history.requests.v[i].message);
	EXPECT_EQ(8, history.requests.v[9].message);
	EXPECT_EQ(10, history.requests.v[10].message);
	EXPECT_EQ(10, history.requests.v[11].message);
}

/* The device has a place in the NVDIMM, and so has what the CPU stores. */
TEST_F(run, what_the_cpu_stores_elsewhere_is_left_out)
{
	FILE *file = fopen(in_folder("server.memory"), "w");

	fprintf(file, "link 52:54:00:00:00:01\ndevice dax0.0 4096 4096\n");
	fclose(file);
	cpu(1, "store 4088 0101010101010101");
	cpu(1, "store 4096 0101010101010101");
	cpu(1, "store 8192 0101010101010101");
	load("spec");
	EXPECT_EQ(1, history.words);
	EXPECT_STATES(1, 1, "0 1");
}

#define EXPECT_CPU_ERROR(line, wanted) do { \
	cpu(1, line); \
	EXPECT_ERROR(wanted); \
	truncate_cpu(); \
} while (0)

static void truncate_cpu(void)
{
	net.cpu = fopen(in_folder("server.cpu"), "w");
	fputs("cpu 1\n", net.cpu);
	net.pcap = fopen(in_folder("server.pcap"), "a");
}

TEST_F(run, a_damaged_recording_of_the_cpu_is_an_error)
{
	write_word(1, 0, 1);
	EXPECT_CPU_ERROR("stores 0 01", "server.cpu, line 2: not understood: ");
	EXPECT_CPU_ERROR("store 0", "line 2: not understood");
	EXPECT_CPU_ERROR("store 0 0", "line 2: not understood");
	EXPECT_CPU_ERROR("store 0 0g", "line 2: not understood");
	EXPECT_CPU_ERROR("store -1 00", "line 2: not understood");
	EXPECT_CPU_ERROR("clwb", "line 2: not understood");
	EXPECT_CPU_ERROR("sfence 0", "line 2: not understood");
	EXPECT_CPU_ERROR("store 99999999999999999999 00", "line 2: not understood");
	fprintf(net.cpu, "0 0 sfence\n");
	EXPECT_ERROR("line 2: not understood");
	truncate_cpu();
	fprintf(net.cpu, "0 65536 sfence\n");
	EXPECT_ERROR("line 2: not understood");
	truncate_cpu();
	fprintf(net.cpu, "1000 1 sfence\n");
	EXPECT_ERROR("line 2: the capture cannot have had 1000 bytes then: the two files are not of one run");
	truncate_cpu();
	fprintf(net.cpu, "24 1 sfence\n0 1 sfence\n");
	EXPECT_ERROR("line 3: the capture cannot have had 0 bytes then");
	truncate_cpu();
	fprintf(net.cpu, "full\n");
	EXPECT_ERROR("the target's CPU did too much to record all of it");
	net.cpu = fopen(in_folder("server.cpu"), "w");
	fputs("cpu 2\n", net.cpu);
	EXPECT_ERROR("does not begin with the line \"cpu 1\"");
}

/* QEMU was killed in the middle of it. */
TEST_F(run, half_a_line_of_the_cpu_is_left_out)
{
	cpu_store(0, 1);
	fputs("24 1 store 8 01", net.cpu);
	load("spec");
	EXPECT_EQ(true, capture.cpu.half_line);
	EXPECT_STATES(1, 2, "00 10");
}

#endif /* CASES_CPU_H */

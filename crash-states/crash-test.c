// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of crash-states: runs made by hand, and all states that their cuts allow.
 *
 *	crash-test [--short] [PATTERN...]
 *
 *	PATTERN		run only cases whose names, such as run.psns_wrap, match this pattern of the shell
 *	--short		leave out the rings of 5000 records, which take longer than all other cases
 *
 * A word holds one byte eight times.  A state is written as a string with one digit for each word,
 * from offset 0 on.  So { "00", "10", "11" } says that the second word is never new without the first.
 */
#include <endian.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kselftest_harness.h>

#include "../selftests/rdma/rxe_mpe_roce.h"
#include "checker.h"
#include "explain.h"
#include "group.h"
#include "hints.h"
#include "made.h"
#include "ring.h"
#include "sample.h"

/******************************************************************************
 * What is read of it
 */

static struct memory memory, memories[TARGETS_MAX];
static struct capture capture;
static struct content content, boot;
static struct history history;
static struct model model;
static struct before before;

/* By the rules of that name. */
static void load(const char *rules)
{
	end();
	memory_read(&memory, in_folder("server.memory"));
	capture_read(&capture, in_folder("server.pcap"), &memory, 1);
	if (!access(in_folder("server.cpu"), F_OK))
		capture_read_cpu(&capture, in_folder("server.cpu"), &memory);
	content_map(&content, in_folder("server.pmem0.start"), &memory);
	before.ready = content.bytes;
	history_read(&history, &capture, &memory, 1, &before, rules_find(rules));
	model_init(&model, &history, 1);
}

/* All targets of a group at once. */
static void load_group(const char *rules)
{
	unsigned int targets;

	end();
	targets = group_targets(net.folder);
	group_read(memories, targets, net.folder);
	capture_read(&capture, in_folder("client1.pcap"), memories, targets);
	group_map(&content, memories, targets, net.folder, "pmem0.start");
	before.ready = content.bytes;
	history_read(&history, &capture, memories, targets, &before, rules_find(rules));
	model_init(&model, &history, 1);
}

/* Where digit @i of a state is: in a group, the first words of all targets come first. */
static uint64_t offset_of_digit(unsigned int i)
{
	return net.targets ? i % net.targets * DEVICE + i / net.targets * 8 : i * 8;
}

static void remove_folder(void)
{
	unlink(in_folder("client1.pcap"));
	for (unsigned int i = 1; i <= net.targets; i++) {
		unlink(in_folder(xasprintf("server%u.pcap", i)));
		unlink(in_folder(xasprintf("server%u.memory", i)));
		unlink(in_folder(xasprintf("server%u.pmem0.start", i)));
	}
	unlink(in_folder("server.pcap"));
	unlink(in_folder("server.cpu"));
	unlink(in_folder("server.memory"));
	unlink(in_folder("server.pmem0.start"));
	rmdir(net.folder);
}

/* The digits of a state: of the words from 0 on. */
static void digits(const struct state *state, unsigned int words, char *text)
{
	for (unsigned int i = 0; i < words; i++) {
		uint32_t w = history_word(&history, offset_of_digit(i));
		int32_t position = w == NEVER ? START : model_top(&model, w);
		uint64_t value;

		for (size_t h = 0; h < state->held.n; h++)
			if (state->held.v[h].word == w)
				position = state->held.v[h].position;
		value = w == NEVER ? 0 : model_value(&history, w, position);
		/* A word of two values is one that was stored in parts. */
		text[i] = value == (value & 0xff) * 0x0101010101010101ull ? '0' + (value & 0xff) : '/';
	}
	text[words] = 0;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* All states of a cut, sorted, with a space between. */
static const char *states_at(unsigned int moment, unsigned int words)
{
	static char text[65536];
	static char all[4096][16];
	struct state state = { };
	size_t n = 0;

	model_cut(&model, moment);
	for (size_t i = 0; i < model_choices(&model); i++)
		if (model_choice(&model, i, &state))
			digits(&state, words, all[n++]);
	qsort(all, n, sizeof(*all), by_text);
	text[0] = 0;
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(all[i], all[i - 1]))
			strcat(strcat(text, i ? " " : ""), all[i]);
	free(state.held.v);
	return text;
}

#define EXPECT_STATES(moment, words, wanted) EXPECT_STREQ(wanted, states_at(moment, words))

/* What the program says when it cannot go on. */
static const char *error_of(void (*what)(const char *rules))
{
	static char text[4096];
	size_t have = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds))
		exit(1);
	end();
	pid = fork();
	if (!pid) {
		dup2(fds[1], 2);
		what("spec");
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + have, sizeof(text) - 1 - have)) > 0)
		have += n;
	text[have] = 0;
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status) == STATUS_ERROR ? text : "no error";
}

#define EXPECT_ERROR(wanted) do { \
	const char *said = error_of(load); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

FIXTURE(run) {};
FIXTURE_SETUP(run)
{
	static char folder[32];

	strcpy(folder, "/tmp/crash-test.XXXXXX");
	if (!mkdtemp(folder))
		exit(1);
	memset(&before, 0, sizeof(before));
	begin(folder);
}
FIXTURE_TEARDOWN(run) { remove_folder(); }

static void use_qp(uint32_t qp, uint32_t peer, uint16_t port)
{
	net.qp = qp;
	net.peer = peer;
	net.port = port;
}

static void use_first_qp(void) { use_qp(QP, 33, 50000); }
static void use_second_qp(void) { use_qp(18, 34, 50001); }

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
	EXPECT_EQ(8, history.words);
	EXPECT_EQ(7, history.stretches.n);
	EXPECT_STATES(4, 8, "01/22/00 01/22/01 01/22/10 01/22/11 11/22/00 11/22/01 11/22/10 11/22/11");
	EXPECT_STATES(5, 4, "01/2 01/3 11/2 11/3");
	EXPECT_EQ(0x0202020201010101, model_value(&history, history_word(&history, 16), 1));
	EXPECT_EQ(0x0101010102020202, model_value(&history, history_word(&history, 40), 1));
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

TEST_F(run, a_key_that_is_given_twice_is_an_error)
{
	add_to_memory("region 0x101 0x101 0x1000 4096");
	EXPECT_ERROR("the key 0x101 was given twice");
}

/******************************************************************************
 * Hints
 */

/* All that is printed. */
static const char *hints_text(void)
{
	hint_list hints = { };
	static char *text;
	size_t size;
	FILE *file;

	free(text);
	file = open_memstream(&text, &size);
	hints_find(&history, &hints);
	hints_print(&history, &hints, file);
	fclose(file);
	free(hints.v);
	return text;
}

#define EXPECT_HINT(wanted) do { \
	const char *said = hints_text(); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

TEST_F(run, hints_say_nothing_of_a_record_and_its_tail)
{
	write_bytes(1, KEY, 64, 64, 1);
	flush_as(2, KEY, 64, 64, DURABLE);
	atomic_write(3, 0, 1);
	flush(4, 0, 1);
	response(4);
	load("spec");
	EXPECT_STREQ("", hints_text());
}

/* No FLUSH of the tail: the next tail replaces it. */
TEST_F(run, hints_say_nothing_of_a_tail_that_the_next_replaces)
{
	atomic_write(1, 0, 1);
	write_word(2, 1, 1);
	flush(3, 1, 1);
	atomic_write(4, 0, 2);
	load("spec");
	EXPECT_STREQ("", hints_text());
}

/* The word is as before, so that its loss changes nothing. */
TEST_F(run, hints_say_nothing_of_a_store_that_changes_nothing)
{
	write_word(1, 1, 0);
	atomic_write(2, 0, 1);
	load("spec");
	EXPECT_STREQ("", hints_text());
}

TEST_F(run, hints_name_a_store_that_no_flush_covers_before_an_atomic_write)
{
	write_bytes(1, KEY, 64, 64, 1);
	write_word(2, 2, 1);
	write_word(3, 3, 1);
	flush(4, 3, 1);
	atomic_write(5, 0, 1);
	flush_as(6, KEY, 0, 128, DURABLE);
	load("spec");
	EXPECT_STREQ("hint: frame 5, ATOMIC WRITE psn 5 (0x0 to 0x8) of QP 17: no persistent FLUSH before it covers all of WRITE psn 1 (0x40 to 0x80), frame 1, nor of 1 other store\n  A power failure may leave the ATOMIC WRITE without the store.  If it relies on that, send a FLUSH between the two.\n",
		     hints_text());
}

TEST_F(run, hints_name_a_flush_that_leaves_a_byte)
{
	write_bytes(1, KEY, 64, 16, 1);
	flush_as(2, KEY, 64, 15, DURABLE);
	atomic_write(3, 0, 1);
	load("spec");
	EXPECT_HINT("covers all of WRITE psn 1 (0x40 to 0x50), frame 1\n");
}

TEST_F(run, hints_name_a_flush_that_covers_nothing)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	flush(3, 0, 1);
	load("spec");
	EXPECT_STREQ("hint: frame 3, FLUSH psn 3 (0x0 to 0x8) of QP 17: it covers nothing\n  No store of its QP lies wholly in its range, unless an earlier FLUSH covers that.\n",
		     hints_text());
}

/* What the SEND stored, and where, is not known. */
TEST_F(run, hints_say_nothing_of_a_flush_for_a_send)
{
	packet(true, ROCE_RC_SEND_ONLY, 1, "abcdefgh", 8);
	flush(2, 0, 1);
	load("spec");
	EXPECT_STREQ("", hints_text());
}

TEST_F(run, hints_name_a_flush_before_its_write)
{
	flush(1, 0, 1);
	write_word(2, 0, 1);
	load("spec");
	EXPECT_HINT("hint: frame 1, FLUSH psn 1 (0x0 to 0x8) of QP 17: it covers nothing; WRITE psn 2 (0x0 to 0x8), frame 2, which it names, was sent after it");
}

TEST_F(run, hints_name_a_flush_of_another_qp)
{
	write_word(1, 0, 1);
	use_second_qp();
	flush(100, 0, 1);
	load("spec");
	EXPECT_HINT("hint: frame 2, FLUSH psn 100 (0x0 to 0x8) of QP 18: it covers nothing; WRITE psn 1 (0x0 to 0x8), frame 1, which it names, is of QP 17");
}

/* Its own QP has flushed it already. */
TEST_F(run, hints_blame_no_other_qp_for_what_is_covered)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	use_second_qp();
	flush(100, 0, 1);
	load("spec");
	EXPECT_HINT("hint: frame 3, FLUSH psn 100 (0x0 to 0x8) of QP 18: it covers nothing\n");
}

TEST_F(run, hints_name_a_repeat_with_other_bytes)
{
	write_word(1, 0, 1);
	write_word(1, 0, 3);
	load("spec");
	EXPECT_HINT("hint: frame 1, WRITE psn 1 (0x0 to 0x8) of QP 17: frame 2 sends it again with other bytes\n");
}

TEST_F(run, hints_name_two_qps_on_one_word)
{
	write_bytes(1, KEY, 0, 24, 1);
	flush(2, 0, 3);
	use_second_qp();
	write_word(100, 1, 2);
	use_first_qp();
	response(2);
	load("spec");
	EXPECT_HINT("hint: frame 3, WRITE psn 100 (0x8 to 0x10) of QP 18: WRITE psn 1 (0x0 to 0x18), frame 1, of QP 17 stored to the same word, 0x8, and no FLUSH");
}

/* The second may have waited for the answer. */
TEST_F(run, hints_say_nothing_of_two_qps_after_each_other)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	use_second_qp();
	write_word(100, 0, 2);
	load("spec");
	EXPECT_STREQ("", hints_text());
}

static void fetch_add(uint32_t psn)
{
	struct roce_atomic_eth add = { htobe64(VA), htobe32(KEY), htobe64(1), 0 };

	packet(true, ROCE_RC_FETCH_ADD, psn, &add, sizeof(add));
}

TEST_F(run, hints_say_nothing_of_a_counter_of_two_qps)
{
	fetch_add(1);
	use_second_qp();
	fetch_add(100);
	load("spec");
	EXPECT_STREQ("", hints_text());
}

TEST_F(run, hints_show_some_of_each_kind)
{
	for (unsigned int i = 1; i <= 5; i++)
		flush(i, i, 1);
	load("spec");
	EXPECT_NE(NULL, strstr(hints_text(), "frame 3, FLUSH"));
	EXPECT_EQ(NULL, strstr(hints_text(), "frame 4, FLUSH"));
	EXPECT_HINT("hint: and 2 more like these\n");
}

/* Which hint tells of the mistakes of a ring; of the other mistakes it needs a checker. */
TEST_F(run, hints_tell_the_right_rings_from_some_of_the_wrong_ones)
{
	static const struct {
		const char *mode, *hint;
	} rings[] = {
		{ "right", NULL }, { "one-by-one", NULL }, { "loss", NULL },
		{ "no-flush", "covers all of WRITE psn 1 " }, { "no-flush-once", "covers all of WRITE psn" },
		{ "short-once", "covers all of WRITE psn" }, { "early-tail", "covers all of WRITE psn" },
		{ "global", "covers all of WRITE psn 1 " }, { "flush-first", "was sent after it" },
	};

	for (size_t i = 0; i < sizeof(rings) / sizeof(*rings); i++) {
		begin(net.folder);
		ASSERT_EQ(true, ring_make(rings[i].mode, 60));
		load("spec");
		if (rings[i].hint)
			EXPECT_HINT(rings[i].hint);
		else
			EXPECT_STREQ("", hints_text());
	}
}

/******************************************************************************
 * The sample
 */

/* The states that a sample takes, as digits. */
static struct {
	unsigned int words;
	char text[4096][16];
	size_t n;
	bool all_allowed;
} taken;

static bool take_digits(void *arg, struct model *at, const struct state *state, size_t number)
{
	struct state copy = { .moment = state->moment };

	(void)arg;
	for (size_t h = 0; h < state->held.n; h++)
		*list_add(&copy.held) = state->held.v[h];
	taken.all_allowed &= model_allows(at, &copy) && copy.hash == state->hash && number == taken.n + 1;
	free(copy.held.v);
	digits(state, taken.words, taken.text[taken.n++]);
	return taken.n < 4096;
}

static struct coverage take_sample(unsigned int words, size_t states, size_t limit, uint64_t seed)
{
	const struct sample_options options = { .states = states, .limit = limit, .seed = seed };
	unsigned int last = capture.frames;
	struct coverage coverage;

	taken.words = words;
	taken.n = 0;
	taken.all_allowed = true;
	sample(&model, &last, 1, &options, take_digits, NULL, &coverage);
	return coverage;
}

static bool was_taken(const char *text)
{
	for (size_t i = 0; i < taken.n; i++)
		if (!strcmp(taken.text[i], text))
			return true;
	return false;
}

/* All sets of 0, 1, 2, 4, 5, 6 of six requests, with two words each, and both halves. */
TEST_F(run, each_request_and_each_pair_is_lost_and_left)
{
	struct coverage coverage;
	char text[16];

	for (unsigned int i = 0; i < 6; i++)
		write_bytes(i + 1, KEY, i * 16, 16, 1);
	load("spec");
	coverage = take_sample(12, 0, 1000, 1);
	EXPECT_EQ(true, coverage.complete);
	EXPECT_EQ(46, taken.n);
	EXPECT_EQ(true, taken.all_allowed);
	for (unsigned int set = 0; set < 64; set++) {
		int n = __builtin_popcount(set);

		for (unsigned int i = 0; i < 12; i++)
			text[i] = set & 1 << i / 2 ? '1' : '0';
		text[12] = 0;
		EXPECT_EQ(n != 3 || set == 7 || set == 56, was_taken(text)) TH_LOG("%s", text);
	}
}

TEST_F(run, each_value_of_a_tail_is_left)
{
	for (unsigned int i = 1; i < 9; i++)
		write_word(i, 0, i);
	load("spec");
	take_sample(1, 0, 1000, 1);
	EXPECT_EQ(9, taken.n);
}

TEST_F(run, what_is_lost_takes_along_what_waits_for_it)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	write_word(4, 2, 1);
	load("spec");
	take_sample(3, 0, 1000, 1);
	EXPECT_EQ(true, taken.all_allowed);
	EXPECT_EQ(true, was_taken("001"));	/* without the first */
	EXPECT_EQ(true, was_taken("110"));	/* the second alone, and what it waits for */
	EXPECT_EQ(false, was_taken("010"));
}

/* A WRITE of two packets is one request; the words of each come after the complete part. */
TEST_F(run, the_packets_of_a_message_are_lost_together)
{
	uint8_t bytes[16];

	memset(bytes, 1, 16);
	request(ROCE_RC_WRITE_FIRST, 1, KEY, 0, 24, bytes, 16);
	packet(true, ROCE_RC_WRITE_LAST, 2, bytes, 8);
	write_word(3, 3, 1);
	load("spec");
	take_sample(4, 0, 1000, 1);
	EXPECT_EQ(4, taken.n);
	EXPECT_EQ(true, was_taken("1110"));
	EXPECT_EQ(false, was_taken("1100"));
	take_sample(4, 1000, 1000, 1);
	EXPECT_EQ(16, taken.n);
}

TEST_F(run, all_states_of_a_small_run_are_taken)
{
	struct coverage coverage;

	write_bytes(1, KEY, 0, 64, 1);
	load("spec");
	coverage = take_sample(8, 253, 1000, 1);
	EXPECT_EQ(false, coverage.all);
	coverage = take_sample(8, 1000, 1000, 1);
	EXPECT_EQ(true, coverage.all);
	EXPECT_EQ(256, taken.n);
}

/* Beyond: each line, then each word, and as many by chance. */
TEST_F(run, lines_and_words_are_lost_and_left)
{
	struct coverage coverage;
	bool lost[12] = { }, left[12] = { };

	write_bytes(1, KEY, 0, 96, 1);
	flush(2, 0, 4);
	write_bytes(3, KEY, 0, 32, 2);
	atomic_write(4, 0, 3);
	load("spec");
	coverage = take_sample(12, 200, 1000, 1);
	EXPECT_EQ(true, taken.all_allowed);
	EXPECT_EQ(12, coverage.words.all);
	EXPECT_EQ(12, coverage.words.done);
	EXPECT_EQ(2, coverage.lines.all);
	EXPECT_EQ(2, coverage.lines.done);
	EXPECT_LT(100, coverage.by_chance);
	EXPECT_EQ(true, was_taken("322211110000"));	/* the second line is lost */
	EXPECT_EQ(true, was_taken("000000001111"));	/* and left */
	for (size_t i = 0; i < taken.n; i++) {
		unsigned int new = 0, which_new = 0, which_old = 0;

		/* Where the ATOMIC WRITE is, the FLUSH has been executed. */
		if (taken.text[i][0] == '3')
			EXPECT_EQ(NULL, memchr(taken.text[i] + 1, '0', 3));
		for (unsigned int w = 4; w < 12; w++) {
			new += taken.text[i][w] == '1';
			*(taken.text[i][w] == '1' ? &which_new : &which_old) = w;
		}
		if (new == 1)
			left[which_new] = true;
		if (new == 7)
			lost[which_old] = true;
	}
	for (unsigned int w = 4; w < 12; w++) {
		EXPECT_EQ(true, lost[w]);
		EXPECT_EQ(true, left[w]);
	}
}

TEST_F(run, a_limit_leaves_the_complete_part_incomplete)
{
	write_bytes(1, KEY, 0, 64, 1);
	write_bytes(2, KEY, 64, 32, 1);
	load("spec");
	EXPECT_EQ(false, take_sample(12, 1000, 3, 1).complete);
	EXPECT_EQ(3, taken.n);
	EXPECT_EQ(true, take_sample(12, 1000, 4, 1).complete);
	EXPECT_EQ(4, taken.n);
}

/* More than are told apart: the oldest are one. */
TEST_F(run, many_requests_in_flight_are_few_states)
{
	struct coverage coverage;

	for (unsigned int i = 0; i < 200; i++)
		write_word(i + 1, i, 1);
	load("spec");
	coverage = take_sample(1, 0, SIZE_MAX, 1);
	EXPECT_EQ(true, coverage.complete);
	EXPECT_EQ(true, coverage.older);
	EXPECT_LT(250, taken.n);
	EXPECT_GT(350, taken.n);
}

static bool take_all(void *arg, struct model *at, const struct state *state, size_t number)
{
	(void)arg;
	(void)at;
	(void)state;
	(void)number;
	return true;
}

TEST_F(run, sizes_alone_do_not_make_a_coverage_weak)
{
	struct sample_options options = { .states = 0, .limit = SIZE_MAX, .seed = 1 };
	struct coverage coverage;
	unsigned int cuts[120];

	for (unsigned int i = 0; i < 120; i++) {
		write_bytes(i + 1, KEY, i / 2 % 2 ? 4092 : 0, (8 << i / 4 % 9) + i % 2, i + 1);
		cuts[i] = i + 1;
	}
	load("spec");
	sample(&model, cuts, 120, &options, take_all, NULL, &coverage);
	EXPECT_EQ(true, coverage.any_size);
	EXPECT_EQ(1, coverage.shapes);
	EXPECT_LT(60, coverage.looked_at);
	EXPECT_EQ(false, coverage.weak);
}

/*
 * No two WRITEs are alike, not even by the FLUSHes before them, of which none is answered.  So a cut that is looked at
 * says nothing of another one.
 */
TEST_F(run, too_many_shapes_give_a_weak_coverage)
{
	struct sample_options options = { .states = 0, .limit = SIZE_MAX, .seed = 1 };
	struct coverage coverage;
	unsigned int cuts[80], n = 0;
	char *text;
	size_t size;
	FILE *file;

	for (unsigned int i = 0; i < 80; i++) {
		unsigned int length = (8 << i / 4 % 9) + i % 2;	/* 8 to 2048 bytes, and one more */

		write_bytes(2 * i + 1, KEY, i / 2 % 2 ? 4092 : 0, length, i + 1);
		flush_as(2 * i + 2, KEY, 8192, 8, DURABLE);
		cuts[n++] = 2 * i + 1;
	}
	load("spec");
	sample(&model, cuts, n, &options, take_all, NULL, &coverage);
	EXPECT_EQ(0, coverage.alike);
	EXPECT_EQ(true, coverage.weak);
	EXPECT_EQ(true, coverage.complete);
	file = open_memstream(&text, &size);
	coverage_print(&coverage, file);
	fclose(file);
	EXPECT_NE(NULL, strstr(text, "coverage: weak: ")) TH_LOG("%s", text);
	EXPECT_NE(NULL, strstr(text, "coverage: complete at these cuts only: ")) TH_LOG("%s", text);
	free(text);
	options.each_cut = true;
	sample(&model, cuts, n, &options, take_all, NULL, &coverage);
	EXPECT_EQ(false, coverage.weak);
	/* The first cuts have few shapes. */
	options.each_cut = false;
	sample(&model, cuts, 20, &options, take_all, NULL, &coverage);
	EXPECT_EQ(false, coverage.weak);
}

/* The checker prints something new at each state of one cut, and always the same at all others. */
static struct {
	unsigned int moment;
	struct view view[4096];
	size_t n, there;
} shown;

static bool take_and_show(void *arg, struct model *at, const struct state *state, size_t number)
{
	(void)arg;
	(void)at;
	if (state->moment == shown.moment) {
		shown.view[shown.n++] = (struct view){ number, number, state->moment };
		shown.there++;
	}
	return shown.n < 4096;
}

static const struct view *shown_views(void *arg, size_t *n)
{
	(void)arg;
	*n = shown.n;
	return shown.view;
}

/* Twenty cuts with the same requests: half of what is left to chance would be 1/20 each. */
TEST_F(run, cuts_where_the_checker_shows_something_new_have_more_states)
{
	struct sample_options options = { .states = 2000, .limit = SIZE_MAX, .seed = 1 };
	struct coverage coverage;
	unsigned int *cuts;
	size_t n, without;

	for (unsigned int i = 0; i < 20; i++) {
		write_bytes(3 * i + 1, KEY, i * 512, 256, i + 1);
		flush_as(3 * i + 2, KEY, i * 512, 256, DURABLE);
		write_bytes(3 * i + 3, KEY, i * 512 + 256, 256, i + 1);
		response(3 * i + 2);
	}
	load("spec");
	cuts = model_cuts(&model, &n);
	ASSERT_EQ(21, n);
	memset(&shown, 0, sizeof(shown));
	shown.moment = cuts[10];
	sample(&model, cuts, n, &options, take_and_show, NULL, &coverage);
	without = shown.there;
	EXPECT_EQ(0, coverage.by_views);
	memset(&shown, 0, sizeof(shown));
	shown.moment = cuts[10];
	options.views = shown_views;
	sample(&model, cuts, n, &options, take_and_show, NULL, &coverage);
	EXPECT_LT(without + 300, shown.there);
	EXPECT_LT(400, coverage.by_views);
	EXPECT_EQ(shown.n, coverage.views);
	free(cuts);
}

/******************************************************************************
 * The checker
 */

static struct checker_options staying = { .serve = true, .jobs = 1, .seconds = 1, .mib = 64 };

/* A checker that runs this script of the shell. */
static struct checker *new_checker(bool serve, const char *script)
{
	static char *argv[4];

	argv[0] = "sh";
	argv[1] = "-c";
	argv[2] = (char *)script;
	staying.argv = argv;
	staying.serve = serve;
	return checker_new(&history, &content, &staying);
}

/* What it says of the state where all that came is there, or without the word 0. */
static enum verdict look(struct checker *checker, bool without, const char **said)
{
	struct state state = { .moment = capture.frames };
	enum verdict verdict;

	model_cut(&model, capture.frames);
	if (without)
		*list_add(&state.held) = (struct held){ 0, START };
	verdict = checker_look(checker, &model, &state, said);
	free(state.held.v);
	return verdict;
}

#define EXPECT_LOOK(verdict, checker, without, wanted) do { \
	const char *said; \
	EXPECT_EQ(verdict, look(checker, without, &said)) TH_LOG("%s", said); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

static void one_word(void)
{
	write_word(1, 0, '1');
	load("spec");
}

TEST_F(run, a_checker_that_stays_is_asked_again)
{
	struct checker *checker;

	one_word();
	checker = new_checker(true, "n=0; while read -r cut; do n=$((n + 1)); read -r word <$IMAGE; "
			      "[ \"$word\" ] && echo 0 no $n, cut $cut || echo 1 it lacks the word, no $n; done 2>/dev/null");
	EXPECT_LOOK(CONSISTENT, checker, false, "no 1, cut 1");
	EXPECT_LOOK(INCONSISTENT, checker, true, "it lacks the word, no 2");
	EXPECT_LOOK(CONSISTENT, checker, false, "no 3, cut 1");
	checker_free(checker);
}

TEST_F(run, a_checker_that_dies_is_started_again)
{
	struct checker *checker;

	one_word();
	checker = new_checker(true, "while read -r cut; do read -r word <$IMAGE; [ \"$word\" ] || kill -SEGV $$; "
			      "echo 0 $$; done 2>/dev/null");
	EXPECT_LOOK(CONSISTENT, checker, false, "");
	EXPECT_LOOK(CRASHED, checker, true, "the checker was killed by signal 11 (Segmentation fault) before it gave an answer");
	EXPECT_LOOK(CONSISTENT, checker, false, "");
	EXPECT_LOOK(CRASHED, checker, true, "killed by signal 11");
	checker_free(checker);
	checker = new_checker(true, "read -r cut; echo bye >&2; exit 7");
	EXPECT_LOOK(CRASHED, checker, false, "the checker ended with status 7 before it gave an answer; with --serve it answers each line of its stdin: bye");
	checker_free(checker);
}

TEST_F(run, a_checker_that_gives_no_answer_is_too_slow)
{
	struct checker *checker;

	one_word();
	checker = new_checker(true, "while read -r cut; do read -r word <$IMAGE; [ \"$word\" ] && echo 0; done 2>/dev/null");
	EXPECT_LOOK(CONSISTENT, checker, false, "");
	EXPECT_LOOK(TOO_SLOW, checker, true, "the checker ran longer than 1 s (--timeout)");
	EXPECT_LOOK(CONSISTENT, checker, false, "");
	checker_free(checker);
}

TEST_F(run, an_answer_is_one_line_that_begins_with_0_or_1)
{
	struct checker *checker;
	const char *script;

	one_word();
	checker = new_checker(true, "read -r cut; echo fine");
	EXPECT_LOOK(CRASHED, checker, false, "the checker's answer is neither \"0\" nor \"1 WHY\": fine");
	checker_free(checker);
	checker = new_checker(true, "read -r cut; echo 01");
	EXPECT_LOOK(CRASHED, checker, false, "neither \"0\" nor \"1 WHY\": 01");
	checker_free(checker);
	checker = new_checker(true, "while read -r cut; do printf '0\\n0\\n'; done");
	EXPECT_LOOK(CRASHED, checker, false, "answers one question with more than one line");
	checker_free(checker);
	/* The second line comes too late for that, but not for the next question. */
	script = xasprintf("while read -r cut; do echo 0; sleep 0.1; echo 0; >%s; done", in_folder("printed"));
	checker = new_checker(true, script);
	EXPECT_LOOK(CONSISTENT, checker, false, "");
	for (int i = 0; i < 600 && access(in_folder("printed"), F_OK); i++)
		usleep(100000);
	EXPECT_LOOK(CRASHED, checker, false, "the checker printed a line before it was asked");
	checker_free(checker);
	unlink(in_folder("printed"));
	checker = new_checker(true, "read -r cut; head -c 5000 /dev/zero; sleep 10");
	EXPECT_LOOK(CRASHED, checker, false, "the checker's answer is longer than 4 KiB");
	checker_free(checker);
}

TEST_F(run, a_checker_that_takes_too_much_is_ended)
{
	struct checker *checker;

	one_word();
	staying.seconds = 60;
	for (int serve = 0; serve < 2; serve++) {
		checker = new_checker(serve, "head -c 100M /dev/zero | { sort | sort; read -r _; }");
		EXPECT_LOOK(CRASHED, checker, false, "the checker took more than 64 MiB of memory (--checker-memory)");
		checker_free(checker);
		checker = new_checker(serve, "yes 'a long line, for there to be many bytes' >&2");
		EXPECT_LOOK(CRASHED, checker, false, "the checker printed more than 64 MiB");
		checker_free(checker);
	}
}

/* It looks for all that it was told, and that no more was. */
TEST_F(run, a_checker_is_told_what_was_printed_before_the_cut)
{
	static const char *const wanted[] = { "", "", "", "one", "one", "one", "one two  words" };
	struct state state = { };
	struct checker *checker;
	const char *said;

	write_word(1, 0, 1);
	flush(2, 0, 1);
	told("one");
	response(2);
	write_word(3, 0, 2);
	told("two  words");
	load("spec");
	ASSERT_EQ(6, capture.frames);
	EXPECT_EQ(2, history.requests.v[1].packet->frame);
	checker = new_checker(true, "while read -r cut; do printf '0 '; tr '\\n' ' ' <$TOLD; echo; done");
	for (int way = 1; way >= -1; way -= 2)
		for (unsigned int i = 0; i <= 6; i++) {
			state.moment = way > 0 ? i : 6 - i;
			model_cut(&model, state.moment);
			EXPECT_EQ(CONSISTENT, checker_look(checker, &model, &state, &said));
			EXPECT_STREQ(wanted[state.moment], said) TH_LOG("cut %u", state.moment);
		}
	checker_free(checker);
}

/* The words and the answers are the same at both cuts. */
TEST_F(run, a_state_with_more_lines_is_another_state)
{
	struct sample_options options = { .states = 0, .limit = SIZE_MAX, .seed = 1, .each_cut = true };
	unsigned int cuts[] = { 2, 3 };
	struct coverage coverage;

	write_word(1, 0, 1);
	write_word(2, 1, 1);
	told("both are durable");
	load("spec");
	taken.words = 2;
	taken.n = 0;
	sample(&model, cuts, 2, &options, take_digits, NULL, &coverage);
	EXPECT_EQ(8, taken.n);
}

TEST_F(run, half_a_printed_line_is_an_error)
{
	told("one");
	fseek(net.pcap, -5, SEEK_CUR);
	fputc(42, net.pcap);
	EXPECT_ERROR("frame 1: a printed line of");
}

/* A store to a mapping that stays is no event: the image is compared all the same. */
TEST_F(run, what_a_checker_that_stays_has_mapped_is_restored)
{
	static char *argv[] = { "/proc/self/exe", "--spoil-the-image", NULL };
	struct checker *checker;

	one_word();
	staying.argv = argv;
	staying.serve = true;
	checker = checker_new(&history, &content, &staying);
	for (int i = 0; i < 4; i++)
		EXPECT_LOOK(i % 2 ? INCONSISTENT : CONSISTENT, checker, i % 2, i % 2 ? "word 0 is 0" : "");
	checker_free(checker);
}

/******************************************************************************
 * Two QPs and one word
 */

/* It stores to word 0, and its FLUSH is answered. */
static void second_qp_stores(uint64_t value)
{
	use_second_qp();
	write_word(100, 0, value);
	flush(101, 0, 1);
	response(101);
}

TEST_F(run, two_qps_store_to_a_word_in_either_order)
{
	write_word(1, 0, 1);
	use_second_qp();
	write_word(100, 0, 2);
	flush(101, 0, 1);
	use_first_qp();
	flush(2, 0, 1);
	use_second_qp();
	response(101);
	use_first_qp();
	response(2);
	load("spec");
	EXPECT_STATES(4, 1, "0 1 2");
	EXPECT_STATES(5, 1, "1 2");
	EXPECT_STATES(6, 1, "1 2");
	EXPECT_EQ(true, take_sample(1, 0, 1000, 1).complete);
	EXPECT_EQ(true, taken.all_allowed);
	EXPECT_EQ(true, was_taken("1"));
}

/* The initiator may have waited for that. */
TEST_F(run, a_qp_that_stores_after_an_answered_flush_of_another_is_second)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(6, 1, "2");
}

/* The other QP may have stored before, between and after them, but the QP's own order holds. */
TEST_F(run, a_qp_keeps_its_own_order_for_a_word)
{
	write_word(1, 0, 1);
	use_second_qp();
	write_word(100, 0, 2);
	write_word(101, 0, 3);
	flush(102, 0, 1);
	response(102);
	use_first_qp();
	write_word(2, 0, 4);
	load("spec");
	EXPECT_STATES(5, 1, "1 3");
	EXPECT_STATES(6, 1, "1 3 4");
}

/* The other QP's store may have been executed before the second one, but the first one came before that. */
TEST_F(run, a_qp_has_no_race_with_what_it_has_stored_since)
{
	write_word(1, 0, 1);
	write_word(2, 0, 4);
	flush(3, 0, 1);
	second_qp_stores(3);
	use_first_qp();
	response(3);
	load("spec");
	EXPECT_STATES(6, 1, "1 3 4");
	EXPECT_STATES(7, 1, "3 4");
}

TEST_F(run, a_part_of_a_word_does_not_undo_the_other_part)
{
	write_bytes(1, KEY, 0, 4, 1);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(4, 1, "2");
}

TEST_F(run, atomics_keep_the_order_in_which_they_came)
{
	write_word(1, 0, 1);
	use_second_qp();
	fetch_add(100);
	flush(101, 0, 1);
	response(101);
	load("spec");
	EXPECT_STATES(4, 1, "/");	/* 1 more than the first one stored, in the target's byte order */
}

/* What is seen of an ATOMIC WRITE says which FLUSHes have been executed, also if it was overtaken. */
TEST_F(run, an_atomic_write_that_was_overtaken_has_not_passed_a_flush)
{
	write_word(1, 1, 1);
	flush(2, 1, 1);
	atomic_write(3, 0, 1);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(6, 2, "11 20 21");
	EXPECT_EQ(true, take_sample(2, 100, 1000, 1).complete);
	EXPECT_EQ(true, taken.all_allowed);
	EXPECT_EQ(3, taken.n);
}

/* So many stores are told apart. */
TEST_F(run, of_many_stores_to_a_word_the_last_ones_race)
{
	write_word(1, 0, 1);
	write_word(2, 0, 3);
	use_second_qp();
	for (unsigned int i = 0; i < 64; i++)
		write_word(100 + i, 0, 2);
	flush(164, 0, 1);
	response(164);
	load("spec");
	EXPECT_STATES(65, 1, "0 1 2 3");
	EXPECT_STATES(68, 1, "2 3");
}

/******************************************************************************
 * Explanations
 */

/* What is said of the state of the cut @moment in which the words with a digit below their newest value have that, by this checker. */
static const char *explanation_at(unsigned int moment, const char *words, const char *script)
{
	char *argv[] = { "sh", "-c", (char *)script, NULL };
	const struct checker_options options = { .argv = argv, .jobs = 1, .seconds = 60, .mib = 1000 };
	struct checker *checker = checker_new(&history, &content, &options);
	struct state state = { .moment = moment };
	struct explanation e;
	static char *text;
	size_t size;
	FILE *file;

	model_cut(&model, moment);
	for (unsigned int i = 0; words[i]; i++) {
		uint32_t w = history_word(&history, offset_of_digit(i));

		for (int32_t p = START; w != NEVER && p < model_top(&model, w); p++)
			if ((model_value(&history, w, p) & 0xff) == (uint64_t)(words[i] - '0'))
				*list_add(&state.held) = (struct held){ w, p };
	}
	explain(&e, &model, checker, &state);
	free(text);
	file = open_memstream(&text, &size);
	explanation_print(&e, &model, file);
	fclose(file);
	explanation_free(&e);
	checker_free(checker);
	free(state.held.v);
	return text;
}

#define EXPECT_EXPLANATION_AT(moment, words, script, wanted) do { \
	const char *said = explanation_at(moment, words, script); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

#define EXPECT_EXPLANATION(words, script, wanted) \
	EXPECT_EXPLANATION_AT(capture_last_moment(&capture), words, script, wanted)

/* A checker that wants of byte @at of the image that it is @value. */
#define WANTS(at, value) "[ $(od -A n -t u1 -j " #at " -N 1 $IMAGE) = " #value " ]"

TEST_F(run, an_old_value_is_raised_as_far_as_it_fails)
{
	for (unsigned int i = 1; i < 9; i++)
		write_word(i, 0, i);
	load("spec");
	EXPECT_EXPLANATION("2", WANTS(0, 8), "old     0x0  holds what WRITE psn 7 (0x0 to 0x8) gave it, 0x0707070707070707, not what WRITE psn 8 (0x0 to 0x8) gave it, 0x0808080808080808; key 0x101 + 0x0\n");
	EXPECT_EXPLANATION("2", "[ $(od -A n -t u1 -N 1 $IMAGE) -gt 5 ]", "holds what WRITE psn 5 ");
}

TEST_F(run, a_race_of_two_qps_is_the_mistake)
{
	write_word(1, 0, 1);
	second_qp_stores(2);
	load("spec");
	EXPECT_EXPLANATION("1", WANTS(0, 2),
			   "Why: WRITE psn 1 (0x0 to 0x8) of QP 17 and WRITE psn 100 (0x0 to 0x8) of QP 18 store to the word at 0x0, and the first is left: a QP does not wait for another QP");
}

/* Word 1 may be lost whatever comes; that word 0 is lost without word 2 is the mistake. */
TEST_F(run, what_came_after_it_makes_the_loss_a_mistake)
{
	use_second_qp();
	write_word(100, 1, 1);
	use_first_qp();
	write_word(1, 0, 1);
	flush(2, 3, 1);
	atomic_write(3, 2, 1);
	load("spec");
	EXPECT_EXPLANATION("001", WANTS(0, 1) " || " WANTS(8, 1) " || " WANTS(16, 0),
			   "Why: WRITE psn 1 (0x0 to 0x8) is lost.  No persistent FLUSH of its QP that covers it follows, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there.");
	EXPECT_EXPLANATION("001", WANTS(0, 1) " || " WANTS(8, 1) " || " WANTS(16, 0),
			   "  FLUSH psn 2 (0x18 to 0x20) stands between the two, and names other memory.");
}

/* The tail is durable, so it is none of what is needed; a later record's FLUSH covers the store, by chance. */
TEST_F(run, a_durable_tail_without_its_record_is_the_mistake)
{
	write_word(1, 0, 1);
	atomic_write(2, 1, 1);
	flush(3, 1, 1);
	response(3);
	flush(4, 0, 1);
	load("spec");
	EXPECT_EXPLANATION("0", WANTS(0, 1),
			   "Why: WRITE psn 1 (0x0 to 0x8) is lost.  No FLUSH stands between the two, and ATOMIC WRITE psn 2 (0x8 to 0x10) is there; FLUSH psn 4 (0x0 to 0x8), which covers it, was sent later.");
}

/* One FLUSH covers both. */
TEST_F(run, a_tail_that_is_durable_with_its_record_is_none)
{
	write_word(1, 0, 1);
	atomic_write(2, 1, 1);
	flush(3, 0, 2);
	load("spec");
	EXPECT_EXPLANATION("0", WANTS(0, 1), "FLUSH psn 3 (0x0 to 0x10), which covers it, was never answered: until that FLUSH");
}

/* It reads what has nothing to do with the store. */
TEST_F(run, a_read_of_other_memory_is_not_taken_for_a_flush)
{
	write_word(1, 0, 1);
	read_memory(2, 0x303, 0x1000 - VA, 8);
	atomic_write(3, 2, 1);
	load("spec");
	EXPECT_EXPLANATION("001", WANTS(0, 1) " || " WANTS(16, 0), "No persistent FLUSH of its QP that covers it follows");
}

/* Word 0 is lost, and word 2 is there. */
#define WITHOUT_WORD_0	WANTS(0, 1) " || " WANTS(16, 0)
#define EXPECT_WHY(rules, wanted) do { \
	load(rules); \
	EXPECT_EXPLANATION("001", WITHOUT_WORD_0, "Why: " wanted "\n"); \
} while (0)

TEST_F(run, a_word_in_two_parts_is_the_mistake)
{
	write_bytes(1, KEY, 0, 4, 1);
	write_bytes(2, KEY, 4, 4, 2);
	load("spec");
	EXPECT_EXPLANATION("1", WANTS(4, 2),
			   "Why: WRITE psn 2 (0x4 to 0x8) is lost.  WRITE psn 1 (0x0 to 0x4) has stored the other part of the same word, and is there: what two requests store a power failure may tear.  One ATOMIC WRITE stores the word at once.\n");
}

TEST_F(run, a_write_that_passes_a_flush_is_the_mistake)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8), which covers it, had not been executed, and WRITE psn 3 (0x10 to 0x18) is there: a WRITE may pass a FLUSH.  Wait until the FLUSH has completed, or store by ATOMIC WRITE, which never passes it.");
}

TEST_F(run, a_flush_of_another_qp_that_was_not_waited_for_is_the_mistake)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	use_second_qp();
	write_word(100, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8), which covers it, had not been executed, and WRITE psn 100 (0x10 to 0x18) of QP 18 is there: a QP does not wait for a FLUSH of another QP.  Wait until the FLUSH has completed, or use one QP.");
}

TEST_F(run, a_flush_has_to_have_completed)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	load("spec");
	EXPECT_EXPLANATION_AT(1, "0", WANTS(0, 1),
			      "Why: WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8), which covers it, came only later (frame 2): until that FLUSH has completed, nothing may count on it.\n");
	EXPECT_EXPLANATION_AT(2, "0", WANTS(0, 1),
			      "Why: WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8), which covers it, was answered only later (frame 3): until that FLUSH has completed, nothing may count on it.\n");
}

TEST_F(run, a_global_flush_is_not_the_one_that_was_meant)
{
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 8, GLOBAL);
	atomic_write(3, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8) asks for global visibility only, which makes nothing durable, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there.  It has to ask for persistence.");
}

TEST_F(run, a_flush_of_half_a_word_is_not_the_one_that_was_meant)
{
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 4, DURABLE);
	atomic_write(3, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x4) does not hold all that was stored to the word at 0x0, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there.  Its range, or its key, has to cover what is to be durable.");
}

TEST_F(run, by_strict_a_flush_of_another_key_is_not_the_one_that_was_meant)
{
	write_word(1, 0, 1);
	flush_as(2, OTHER, 0, 8, DURABLE);
	atomic_write(3, 2, 1);
	EXPECT_WHY("strict", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x8) names it by the key 0x202, and the WRITE has the key 0x101, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there: by --model strict, a FLUSH covers what was stored by its own key.");
}

TEST_F(run, by_strict_a_flush_of_a_part_is_not_the_one_that_was_meant)
{
	write_bytes(1, KEY, 0, 16, 1);
	flush(2, 0, 1);
	atomic_write(3, 2, 1);
	EXPECT_WHY("strict", "WRITE psn 1 (0x0 to 0x10) has lost 1 of its 2 words: it is torn.  FLUSH psn 2 (0x0 to 0x8) holds a part of the WRITE only, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there: by --model strict, a FLUSH covers what lies in its range as a whole.");
}

TEST_F(run, a_flush_of_another_qp_is_not_the_one_that_was_meant)
{
	write_word(1, 0, 1);
	use_second_qp();
	flush(100, 0, 1);
	use_first_qp();
	atomic_write(2, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 100 (0x0 to 0x8) was sent on QP 18, and the store on QP 17, and ATOMIC WRITE psn 2 (0x10 to 0x18) is there: a FLUSH speaks for its own QP only.");
}

TEST_F(run, a_read_is_not_the_flush_that_was_meant)
{
	write_word(1, 0, 1);
	read_memory(2, KEY, 0, 8);
	atomic_write(3, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  READ psn 2 (0x0 to 0x8) follows it, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there, but a READ makes nothing durable.  A persistent FLUSH does.");
}

TEST_F(run, a_flush_before_the_store_is_the_mistake)
{
	flush(1, 0, 1);
	write_word(2, 0, 1);
	atomic_write(3, 2, 1);
	EXPECT_WHY("spec", "WRITE psn 2 (0x0 to 0x8) is lost.  FLUSH psn 1 (0x0 to 0x8) names it, but was sent before it, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there: a FLUSH covers what precedes it.  Send the FLUSH after the store.");
}

TEST_F(run, a_non_temporal_store_wants_a_fence)
{
	write_word(1, 1, 1);
	cpu(1, "nt-store 0 0101010101010101");
	load("spec");
	EXPECT_EXPLANATION("0", WANTS(0, 1),
			   "Why: non-temporal STORE by the CPU (0x0 to 0x8) is lost.  It is non-temporal, but no fence of that thread had been executed, so it may not have reached the memory.  SFENCE waits for that.\n");
}

TEST_F(run, a_checker_that_refuses_all_that_came_is_the_mistake)
{
	write_word(1, 0, 1);
	load("spec");
	EXPECT_EXPLANATION("0", WANTS(0, 2), "Why: All that came is there, and nothing is lost: the checker refuses what the program itself has made, or counts on what was not sent yet.\n");
	EXPECT_EXPLANATION("0", "true", "Why: The checker refuses this state, and then accepts the same state: it depends on time, on chance, or on what an earlier call has left.\n");
}

/******************************************************************************
 * Groups
 */

static void use_target(unsigned int target)
{
	net.target = target;
	use_qp(17, 33 + target, 50000);
}

/* Both targets have the same QP and keys, and are sent the same PSNs. */
TEST_F(run, the_targets_of_a_group_are_told_apart)
{
	begin_group(net.folder, 2);
	use_target(0);
	write_word(1, 0, 1);
	flush(2, 0, 1);
	use_target(1);
	write_word(1, 0, 2);
	flush(2, 0, 1);
	use_target(0);
	response(2);
	use_target(1);
	response(2);
	load_group("spec");
	EXPECT_EQ(2, history.flows.n);
	EXPECT_STATES(4, 2, "00 02 10 12");
	EXPECT_STATES(5, 2, "10 12");
	EXPECT_STATES(6, 2, "12");
	EXPECT_STREQ("target 2, 0x0", history_place(&history, DEVICE));
	EXPECT_STREQ("WRITE psn 1 to target 2 (0x0 to 0x8)", request_text(&history.requests.v[2]));
}

/* No target waits for another one: what orders them is the client alone. */
TEST_F(run, all_that_is_in_flight_to_some_targets_is_lost)
{
	begin_group(net.folder, 3);
	for (unsigned int target = 0; target < 3; target++)
		for (unsigned int i = 0; i < 3; i++) {
			use_target(target);
			write_word(1 + i, i, 1);
		}
	load_group("spec");
	EXPECT_EQ(true, take_sample(9, 0, 1000, 1).complete);
	EXPECT_EQ(true, taken.all_allowed);
	EXPECT_EQ(true, was_taken("100100100"));
	EXPECT_EQ(true, was_taken("101101101"));
	EXPECT_EQ(true, was_taken("010010010"));
}

static void read_digits(const char *name, char *text)
{
	uint8_t bytes[DEVICE];
	FILE *file = fopen(in_folder(name), "r");

	if (!file || fread(bytes, 1, sizeof(bytes), file) != sizeof(bytes) || fgetc(file) != EOF)
		exit(1);
	for (unsigned int i = 0; i < 2; i++)
		text[i] = '0' + bytes[i * 8];
	text[2] = 0;
	fclose(file);
	unlink(in_folder(name));
}

/* As a checker would. */
TEST_F(run, each_target_has_an_image_of_its_own)
{
	char *argv[] = { "sh", "-c", "cp $IMAGE1 $0/one; cp $IMAGE2 $0/two; cp $ANSWERED2 $0/answered; [ -z \"$IMAGE\" ]",
			 (char *)net.folder, NULL };
	const struct checker_options options = { .argv = argv, .jobs = 1, .seconds = 60, .mib = 1000 };
	struct state state = { };
	struct checker *checker;
	char text[3], line[64];
	FILE *file;

	begin_group(net.folder, 2);
	use_target(0);
	write_word(1, 0, 1);
	flush(2, 0, 1);
	use_target(1);
	write_word(1, 1, 2);
	flush(2, 1, 1);
	response(2);
	load_group("spec");
	model_cut(&model, 5);
	*list_add(&state.held) = (struct held){ history_word(&history, 0), START };
	ASSERT_EQ(true, model_allows(&model, &state));
	checker = checker_new(&history, &content, &options);
	EXPECT_EQ(CONSISTENT, checker_look(checker, &model, &state, NULL));
	read_digits("one", text);
	EXPECT_STREQ("00", text);
	read_digits("two", text);
	EXPECT_STREQ("02", text);
	file = fopen(in_folder("answered"), "r");
	EXPECT_NE(NULL, fgets(line, sizeof(line), file));
	EXPECT_STREQ("17 2 8 8\n", line);
	fclose(file);
	unlink(in_folder("answered"));
	checker_free(checker);
}

#define EXPECT_GROUP_ERROR(wanted) do { \
	const char *said = error_of(load_group); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

TEST_F(run, a_group_that_has_no_one_order_is_an_error)
{
	begin_group(net.folder, 2);
	fclose(fopen(in_folder("server2.2.pcap"), "w"));
	EXPECT_GROUP_ERROR("server2 has booted twice");
	rename(in_folder("server2.2.pcap"), in_folder("client2.pcap"));
	EXPECT_GROUP_ERROR("a group of two clients");
	unlink(in_folder("client2.pcap"));
	unlink(in_folder("server2.memory"));
	EXPECT_GROUP_ERROR("server2 has no persistent memory");
}

/******************************************************************************
 * A ring, by all of it
 */

struct look {
	size_t failed;
	uint64_t image[DEVICE / 8];
};

/* As many FLUSHes of the tail as have been answered, and lines of a daemon's initiator as were printed. */
static uint64_t acknowledged(const struct model *at)
{
	uint64_t n = capture_told(&capture, at->moment);

	for (uint32_t i = 0; i < at->answers; i++) {
		const struct request *flush = &history.requests.v[at->answer[i]];

		n += flush->va == VA && flush->length == 8;
	}
	return n;
}

static bool look_at(void *arg, struct model *at, const struct state *state, size_t number)
{
	struct look *look = arg;

	(void)number;
	for (uint32_t s = 0; s < history.stretches.n; s++) {
		const struct stretch *stretch = &history.stretches.v[s];

		memcpy(look->image + stretch->offset / 8, stretch_bytes(&history, s, at->top[s]),
		       stretch->words * 8);
	}
	for (size_t h = 0; h < state->held.n; h++)
		look->image[history_offset(&history, state->held.v[h].word) / 8] =
			model_value(&history, state->held.v[h].word, state->held.v[h].position);
	look->failed += ring_look(look->image, acknowledged(at)) != NULL;
	return true;
}

static size_t failures(uint64_t seed, struct coverage *coverage)
{
	const struct sample_options options = { .states = 1000, .limit = SIZE_MAX, .seed = seed };
	static struct look look;
	unsigned int *cuts;
	size_t n;

	memset(&look, 0, sizeof(look));
	cuts = model_cuts(&model, &n);
	sample(&model, cuts, n, &options, look_at, &look, coverage);
	free(cuts);
	return look.failed;
}

/* The length of a run must not hide a mistake: with more cuts than states, some never had their turn. */
static void try_rings(struct __test_metadata *_metadata, unsigned int records)
{
	struct coverage coverage;
	bool right = true;

	for (size_t i = 0; right || ring_modes[i]; i++) {
		if (!ring_modes[i]) {
			right = false;
			continue;
		}
		begin(net.folder);
		ASSERT_EQ(true, ring_make(ring_modes[i], records));
		load("spec");
		for (uint64_t seed = 1; seed <= 5; seed++) {
			size_t n = failures(seed, &coverage);

			EXPECT_EQ(right, !n) TH_LOG("%s, %u records, seed %u: %zu fail", ring_modes[i],
						    records, (unsigned int)seed, n);
			EXPECT_EQ(true, coverage.complete);
			EXPECT_GE(32, coverage.shapes);
		}
	}
}

TEST_F_TIMEOUT(run, mistakes_are_found_in_60_records, 300) { try_rings(_metadata, 60); }
TEST_F_TIMEOUT(run, mistakes_are_found_in_300_records, 300) { try_rings(_metadata, 300); }
TEST_F_TIMEOUT(run, mistakes_are_found_in_600_records, 300) { try_rings(_metadata, 600); }
TEST_F_TIMEOUT(run, mistakes_are_found_in_5000_records, 300) { try_rings(_metadata, 5000); }

/* Which platform forgives which mistake. */
TEST_F(run, models_judge_rings_as_their_rules_say)
{
	static const struct {
		const char *rules, *mode;
		bool right;
	} rings[] = {
		{ "strict", "right", true }, { "strict", "loss", true }, { "strict", "read", false },
		{ "ordered", "right", true }, { "ordered", "write-tail", true }, { "ordered", "no-flush", false },
		{ "adr-read", "right", true }, { "adr-read", "read", true }, { "adr-read", "read-unwaited", false },
		{ "adr-read", "write-tail", false }, { "adr-read", "global", false },
		{ "eadr", "right", true }, { "eadr", "read", true }, { "eadr", "global", true },
		{ "eadr", "no-flush", false }, { "eadr", "read-unwaited", false },
	};
	struct coverage coverage;

	for (size_t i = 0; i < sizeof(rings) / sizeof(*rings); i++) {
		begin(net.folder);
		ASSERT_EQ(true, ring_make(rings[i].mode, 60));
		load(rings[i].rules);
		EXPECT_EQ(rings[i].right, !failures(1, &coverage)) TH_LOG("%s by %s", rings[i].mode,
									  rings[i].rules);
	}
}

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
	EXPECT_STATES(2, 2, "00 01 10 11");
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
	EXPECT_STATES(4, 2, "00 01 10 11");
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
	EXPECT_STATES(5, 2, "10 11 20 21");
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
	EXPECT_STATES(4, 8, "00000000 00000001 10000000 10000001");
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
			   "Why: STORE by the CPU (0x0 to 0x8) is lost.  CLWB by the CPU (0x0 to 0x40) writes it back, at frame 1+2, but no fence of that thread had been executed, and STORE by the CPU (0x40 to 0x48) is there, so it may not have reached the memory.  SFENCE waits for that.  SFENCE by the CPU, which makes it durable, came only later, at frame 1.");
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

/******************************************************************************
 * Which cases run: some kernels' harness has no option for it
 */

struct selection {
	bool no_long_rings;
	char **patterns;	/* with NULL at the end; none: all */
};

static bool is_selected(const struct selection *selection, const char *fixture, const char *test)
{
	bool selected = !*selection->patterns;
	char *name = xasprintf("%s.%s", fixture, test);

	for (char **pattern = selection->patterns; *pattern; pattern++)
		selected |= !fnmatch(*pattern, name, 0);
	selected &= !selection->no_long_rings || fnmatch("*_5000_records", name, 0);
	free(name);
	return selected;
}

/* Take the others out of the harness's lists.  So many cases are left. */
static size_t select_cases(const struct selection *selection)
{
	struct __test_metadata **test;
	size_t n = 0;

	for (struct __fixture_metadata *fixture = __fixture_list; fixture; fixture = fixture->next)
		for (test = &fixture->tests; *test;)
			if (is_selected(selection, fixture->name, (*test)->name)) {
				test = &(*test)->next;
				n++;
			} else {
				*test = (*test)->next;
			}
	return n;
}

#define main run_harness	/* ours comes before it */
TEST_HARNESS_MAIN
#undef main

/* A checker that stays: it refuses an image that lacks word 0, or has a word that it has written itself. */
static int spoil_the_image(void)
{
	int fd = open(getenv("IMAGE"), O_RDWR);
	volatile uint64_t *words = mmap(NULL, DEVICE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char line[16];

	close(fd);
	while (words != MAP_FAILED && fgets(line, sizeof(line), stdin)) {
		if (words[1])
			puts("1 word 1 was not restored");
		else
			puts(words[0] ? "0" : "1 word 0 is 0");
		words[1] = 1;
		fflush(stdout);
	}
	return 3;
}

int main(int argc, char **argv)
{
	struct selection selection = { .patterns = argv + 1 };

	if (argc > 1 && !strcmp(argv[1], "--spoil-the-image"))
		return spoil_the_image();
	if (argc > 1 && !strcmp(argv[1], "--short")) {
		selection.no_long_rings = true;
		selection.patterns++;
	}
	if (*selection.patterns && **selection.patterns == '-')
		fail("%s: say crash-test [--short] [PATTERN...]", *selection.patterns);
	if (!select_cases(&selection))
		fail("no case of crash-test has such a name");
	return run_harness(1, argv);
}

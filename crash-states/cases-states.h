/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: hints, which states are sampled, and how a checker is asked. */
#ifndef CASES_STATES_H
#define CASES_STATES_H

#include "cases-history.h"

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
	EXPECT_HINT("hint: frame 3, WRITE psn 100 (0x8 to 0x10) of QP 18: WRITE psn 1 (0x0 to 0x18), frame 1, of QP 17 stored to the same word, 0x8, and no answer said before that it is there");
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

/* What an Atomic has found was there before it: a lock that the other QP has just released by an ATOMIC WRITE. */
TEST_F(run, hints_say_nothing_of_an_atomic_on_a_word_of_another_qp)
{
	write_word(1, 0, 1);
	use_second_qp();
	fetch_add(100);
	use_first_qp();
	write_word(2, 0, 2);
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
	unsigned int last = capture_last_moment(&capture);
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
	EXPECT_EQ(46 + 4, taken.n);		/* and the two words of one of them */
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

/* A WRITE of two packets is one request.  Its three words are lost, and left, alone, too. */
TEST_F(run, the_packets_of_a_message_are_lost_together)
{
	uint8_t bytes[16];

	memset(bytes, 1, 16);
	request(ROCE_RC_WRITE_FIRST, 1, KEY, 0, 24, bytes, 16);
	packet(true, ROCE_RC_WRITE_LAST, 2, bytes, 8);
	write_word(3, 3, 1);
	load("spec");
	take_sample(4, 0, 1000, 1);
	EXPECT_EQ(4 + 6, taken.n);
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
	coverage = take_sample(8, 230, 1000, 1);
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
	EXPECT_EQ(false, take_sample(12, 1000, 27, 1).complete);
	EXPECT_EQ(true, take_sample(12, 1000, 4 + 24, 1).complete);
	EXPECT_EQ(28, taken.n);
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

/* How many states hold so many old words, at the cut @moment if there is one. */
static struct {
	size_t with[4097];
	unsigned int moment;
} old_words;

static bool count_old_words(void *arg, struct model *at, const struct state *state, size_t number)
{
	(void)arg;
	(void)at;
	(void)number;
	if (!old_words.moment || state->moment == old_words.moment)
		old_words.with[state->held.n]++;
	return true;
}

/* A checksum that leaves out one of its words needs this one state. */
TEST_F(run, each_word_of_a_message_is_lost_and_left_alone)
{
	struct sample_options options = { .states = 0, .limit = SIZE_MAX, .seed = 1 };
	struct coverage coverage;
	unsigned int *cuts;
	size_t n;

	for (unsigned int i = 0; i < 20; i++) {
		write_bytes(2 * i + 1, KEY, 0, 4096, i + 1);
		flush_as(2 * i + 2, KEY, 0, 4096, DURABLE);
		response(2 * i + 2);
	}
	load("spec");
	cuts = model_cuts(&model, &n);
	memset(&old_words, 0, sizeof(old_words));
	sample(&model, cuts, n, &options, count_old_words, NULL, &coverage);
	EXPECT_EQ(512, old_words.with[1]);
	EXPECT_EQ(512, old_words.with[511]);
	EXPECT_EQ(512, coverage.messages.all);
	EXPECT_EQ(512, coverage.messages.done);
	/* A limit that leaves some out is no pass. */
	options.limit = 500;
	sample(&model, cuts, n, &options, count_old_words, NULL, &coverage);
	EXPECT_EQ(false, coverage.complete);
	free(cuts);
}

/* A counter of two words, of which the second one changes once. */
TEST_F(run, a_message_that_changes_other_words_is_looked_at)
{
	struct sample_options options = { .states = 0, .limit = SIZE_MAX, .seed = 1 };
	struct coverage coverage;
	unsigned int *cuts;
	uint64_t words[2];
	size_t n;

	for (unsigned int i = 0; i < 500; i++) {
		words[0] = i + 1;
		words[1] = i >= 237;
		request(ROCE_RC_WRITE_ONLY, 2 * i + 1, KEY, 0, 16, words, 16);
		flush(2 * i + 2, 0, 2);
		response(2 * i + 2);
	}
	load("spec");
	cuts = model_cuts(&model, &n);
	memset(&old_words, 0, sizeof(old_words));
	old_words.moment = 3 * 237 + 2;
	sample(&model, cuts, n, &options, count_old_words, NULL, &coverage);
	EXPECT_EQ(1, old_words.with[0]);
	EXPECT_EQ(1, old_words.with[2]);
	free(cuts);
}

/* Without a number of states: 16 words of 3 values at one cut are too many to try in a second. */
TEST_F(run, the_time_ends_a_sample)
{
	struct sample_options options = { .states = ANY_NUMBER, .limit = SIZE_MAX, .seed = 1, .seconds = 1 };
	struct coverage coverage;
	unsigned int cut = 2;
	time_t began = time(NULL);

	write_bytes(1, KEY, 0, 512, 1);
	write_bytes(2, KEY, 0, 512, 2);
	load("spec");
	sample(&model, &cut, 1, &options, take_all, NULL, &coverage);
	EXPECT_EQ(true, coverage.out_of_time);
	EXPECT_EQ(true, coverage.complete);
	EXPECT_EQ(false, coverage.all);
	EXPECT_GE(3, time(NULL) - began);
	EXPECT_LT(1000, coverage.by_chance);
}

TEST_F(run, few_states_are_all_tried_without_a_number)
{
	struct sample_options options = { .states = ANY_NUMBER, .limit = SIZE_MAX, .seed = 1, .seconds = 60 };
	struct coverage coverage;
	unsigned int *cuts;
	size_t n;

	/* Of 600 counters in place, each cut has some states of its own. */
	for (unsigned int i = 0; i < 600; i++) {
		write_bytes(2 * i + 1, KEY, i * 64, 24, i + 1);
		flush(2 * i + 2, i * 8, 3);
		response(2 * i + 2);
	}
	load("spec");
	cuts = model_cuts(&model, &n);
	sample(&model, cuts, n, &options, take_all, NULL, &coverage);
	EXPECT_EQ(true, coverage.all);
	EXPECT_EQ(false, coverage.out_of_time);
	free(cuts);
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

#endif /* CASES_STATES_H */

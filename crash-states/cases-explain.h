/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: races, explanations, groups, and rings as a whole. */
#ifndef CASES_EXPLAIN_H
#define CASES_EXPLAIN_H

#include "cases-states.h"

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

/* As a program does that connects anew, and sends what may not have come. */
TEST_F(run, a_qp_that_stores_the_same_as_another_makes_it_durable)
{
	write_word(1, 0, 1);
	second_qp_stores(1);
	use_first_qp();
	write_word(2, 0, 2);
	load("spec");
	EXPECT_STATES(3, 1, "0 1");
	EXPECT_STATES(4, 1, "1");
	EXPECT_STATES(5, 1, "1 2");
	model_cut(&model, 4);
	EXPECT_EQ(0, model.open.n);
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

TEST_F(run, a_part_of_a_word_may_come_after_the_whole_of_another_qp)
{
	write_bytes(1, KEY, 0, 4, 1);
	second_qp_stores(2);
	load("spec");
	EXPECT_STATES(4, 1, "/ 2");
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

static bool pick_request(const struct model *at, const struct update *update, uint32_t word, const void *request)
{
	(void)at;
	(void)word;
	return update->request == *(const uint32_t *)request;
}

/* And left alone, it is there although later ones are not. */
TEST_F(run, a_word_that_loses_its_newest_value_has_the_one_before)
{
	const uint32_t second = 1, third = 2;
	struct state state = { };
	char text[2];

	for (unsigned int i = 1; i <= 3; i++)
		write_word(i, 0, i);
	load("spec");
	model_cut(&model, 3);
	model_lose(&model, pick_request, &third, &state);
	digits(&state, 1, text);
	EXPECT_STREQ("2", text);
	model_leave(&model, pick_request, &second, &state);
	digits(&state, 1, text);
	EXPECT_STREQ("2", text);
	free(state.held.v);
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
		for (uint64_t byte = 0; byte < WORD; byte++) {
			uint32_t w = history_word(&history, offset_of_digit(i) + byte);

			for (int32_t p = w == NEVER ? START : model_floor(&model, w); w != NEVER && p < model_top(&model, w); p++)
				if ((model_value(&history, w, p) & 0xff) == (uint64_t)(words[i] - '0'))
					*list_add(&state.held) = (struct held){ w, p };
		}
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
			   "Why: WRITE psn 1 (0x0 to 0x8) is lost.  No persistent FLUSH that covers it stands between the two, and ATOMIC WRITE psn 2 (0x8 to 0x10) is there; FLUSH psn 4 (0x0 to 0x8), which covers it, was sent later.");
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
	EXPECT_EXPLANATION("0", WANTS(4, 2),
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
	EXPECT_WHY("spec", "WRITE psn 1 (0x0 to 0x8) is lost.  FLUSH psn 2 (0x0 to 0x4) ends 4 bytes too early, and does not hold all that was stored to the word at 0x0, and ATOMIC WRITE psn 3 (0x10 to 0x18) is there.  Its range, or its key, has to cover what is to be durable.");
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

#endif /* CASES_EXPLAIN_H */

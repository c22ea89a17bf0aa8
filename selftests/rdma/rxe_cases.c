// SPDX-License-Identifier: GPL-2.0
/* What the cases compare with, in words: see rxe_cases.h. */
#include <string.h>

#include "rxe_cases.h"

/* Of the ICRC nothing is said if it is the conforming one. */
static const char *add_icrc(char words[WORDS_LEN], enum icrc icrc)
{
	size_t len = strlen(words);

	if (icrc != ICRC_CONFORMING)
		snprintf(words + len, WORDS_LEN - len, ", %s ICRC",
			 icrc == ICRC_LEGACY ? "legacy" : "wrong");
	return words;
}

static const char *words_with_icrc(const struct packet *packet, enum icrc icrc,
				   char words[WORDS_LEN])
{
	packet_in_words(packet, words);
	return add_icrc(words, icrc);
}

const char *wanted_words(const struct packet *want, char words[WORDS_LEN])
{
	return words_with_icrc(want, peer_icrc(want->opcode), words);
}

const char *words_or_nothing(const struct frame *frame, bool got, char words[WORDS_LEN])
{
	struct packet packet;

	if (!got)
		return "nothing";
	if (!frame_to_packet(frame, &packet))
		return "a packet shorter than its headers";
	return words_with_icrc(&packet, frame->icrc, words);
}

static void log_difference(struct __test_metadata *_metadata, const struct frame *want,
			   const struct frame *got)
{
	size_t i;

	for (i = 0; i < want->len; i++)
		if (want->wire.roce[i] != got->wire.roce[i])
			TH_LOG("byte %zu after the UDP header is %02x, expected %02x", i,
			       got->wire.roce[i], want->wire.roce[i]);
}

void expect_packet_with(struct __test_metadata *_metadata, const struct packet *want,
			enum icrc icrc)
{
	char want_words[WORDS_LEN], got_words[WORDS_LEN];
	struct packet exact = *want;
	struct frame frame, expected;
	bool got = peer_recv_frame(&frame, ANSWER_MS);
	struct packet packet;

	ASSERT_STREQ(words_with_icrc(want, icrc, want_words),
		     words_or_nothing(&frame, got, got_words));
	frame_to_packet(&frame, &packet);
	if ((want->syndrome & ROCE_AETH_KIND_MASK) == ROCE_AETH_ACK)
		exact.syndrome = packet.syndrome;
	packet_to_frame(&exact, &expected);
	ASSERT_EQ(expected.len, frame.len);
	ASSERT_EQ(0, memcmp(expected.wire.roce, frame.wire.roce, frame.len)) {
		log_difference(_metadata, &expected, &frame);
	}
}

void expect_packet(struct __test_metadata *_metadata, const struct packet *want)
{
	expect_packet_with(_metadata, want, peer_icrc(want->opcode));
}

/* Damage that makes a receiver ignore any packet. */

void spoil_icrc(struct frame *frame)
{
	frame->icrc = ICRC_WRONG;
}

void spoil_source(struct frame *frame)
{
	frame->source = PEER_ADDR + 1;
}

void spoil_pkey(struct frame *frame)
{
	frame->wire.bth.pkey = htobe16(0x1234);
}

void spoil_version(struct frame *frame)
{
	frame->wire.bth.flags |= 1;
}

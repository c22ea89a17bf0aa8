// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel as requester: the ICRC of its FLUSHes, while it does not know what the peer computes.
 *
 * A QP begins with the conforming form.  When it has to send again, after a time-out or a NAK PSN
 * sequence, and the first request that is not answered is a FLUSH, it keeps the form once, and then
 * sends its FLUSHes in the other form, in turn.  It keeps to the form that it sent last when an
 * answer comes.  It is certain when a FLUSH is answered that it has sent in one form only, or when
 * the peer sends a legacy FLUSH on this QP; then nothing changes the form any more but RESET.
 *
 * The series for Linux 6.1 takes the other form with the first retry.
 */
#include <ctype.h>

#include "rxe_requester.h"

/*
 * A QP that has not met its peer.  --legacy-icrc makes no difference: each case says itself what
 * the peer takes.
 */
static void open_stranger_client(struct client *client, unsigned int timeout)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	peer_legacy_icrc = false;
	if (timeout)
		config = with_timeout(timeout, 7);
	client_open(client, &RXE_QP_DEFAULT);
	line_open(client, &client->line, &config);
}

#define STRANGER_FIXTURE(name, timeout)				\
	CLIENT_FIXTURE(name)					\
	{							\
		open_stranger_client(&self->client, timeout);	\
	}

static bool first_retry_keeps_form(void)
{
	return !rxe_has_counter("flush_legacy_icrc_sent");
}

/*
 * The kernel sends @rq once for each letter of @forms: C conforming, L legacy.  A small letter is a
 * first retry that keeps the form.
 */
static void expect_forms(struct __test_metadata *_metadata, const struct packet *rq,
			 const char *forms)
{
	for (; *forms; forms++)
		if (isupper(*forms) || first_retry_keeps_form())
			expect_packet_with(_metadata, rq,
					   toupper(*forms) == 'L' ? ICRC_LEGACY : ICRC_CONFORMING);
}

/* A new FLUSH is sent so often, in these forms, without an answer. */
static struct packet flush_unanswered_on(struct __test_metadata *_metadata, struct client *client,
					 struct line *line, const char *forms)
{
	struct packet rq = post_on(_metadata, client, line, wr_flush());

	expect_forms(_metadata, &rq, forms);
	return rq;
}

static struct packet flush_unanswered(struct __test_metadata *_metadata, struct client *client,
				      const char *forms)
{
	return flush_unanswered_on(_metadata, client, &client->line, forms);
}

static void answer_on(struct __test_metadata *_metadata, struct client *client, struct line *line,
		      const struct packet *rq)
{
	struct packet answer = response_on(line, rq);

	peer_send(&answer);
	expect_wc(_metadata, client, line->id, IBV_WC_SUCCESS);
}

/* A new FLUSH is sent so often, and answered then. */
static void flush_answered_on(struct __test_metadata *_metadata, struct client *client,
			      struct line *line, const char *forms)
{
	struct packet rq = flush_unanswered_on(_metadata, client, line, forms);

	answer_on(_metadata, client, line, &rq);
}

static void flush_answered(struct __test_metadata *_metadata, struct client *client,
			   const char *forms)
{
	flush_answered_on(_metadata, client, &client->line, forms);
}

/* The peer sends a FLUSH of its own, and gets its answer. */
static void peer_flushes(struct __test_metadata *_metadata, struct client *client,
			 struct line *line, enum icrc icrc)
{
	struct packet rq = peer_flush(client, line);
	struct packet answer = {
		.opcode = ROCE_RC_READ_RESPONSE_ONLY, .qpn = line->qp.peer_qpn,
		.psn = rq.psn, .msn = line->peer_asked,
	};
	struct frame frame;

	packet_to_frame(&rq, &frame);
	frame.icrc = icrc;
	peer_send_frame(&frame);
	expect_packet(_metadata, &answer);
}

/* ---- Time-outs ---- */

STRANGER_FIXTURE(icrc, LONG_TIMEOUT)

CASE(icrc, in_turn, "1 ICRC trap",
     "a FLUSH without an answer is sent in both forms in turn, otherwise byte-identical")
{
	flush_answered(_metadata, &self->client, "CcLCLCL");
}

CASE(icrc, lost_once, "1 ICRC trap",
     "one loss costs a conforming peer nothing: sent again in the same form, it is certain")
{
	struct client *client = &self->client;

	if (!first_retry_keeps_form())
		SKIP_CASE("this kernel takes the other form with the first retry");
	flush_answered(_metadata, client, "Cc");
	flush_answered(_metadata, client, "CCCC");
}

CASE(icrc, kept, "1 ICRC trap",
     "the form that was answered goes out at once; answered again, it is certain")
{
	struct client *client = &self->client;

	flush_answered(_metadata, client, "CcL");
	flush_answered(_metadata, client, "L");
	flush_answered(_metadata, client, "LLLL");
	flush_answered(_metadata, client, "L");
}

CASE(icrc, conforming_is_certain, "1 ICRC trap",
     "answered at the first time: no FLUSH is ever sent in the other form")
{
	struct client *client = &self->client;

	flush_answered(_metadata, client, "C");
	flush_answered(_metadata, client, "CCCC");
	flush_answered(_metadata, client, "C");
}

CASE(icrc, ambiguous, "1 ICRC trap",
     "answered when both forms were sent, it is not certain: the next may change it again")
{
	struct client *client = &self->client;

	flush_answered(_metadata, client, "CcL");
	flush_answered(_metadata, client, "LlC");
	flush_answered(_metadata, client, "CcLC");
	flush_answered(_metadata, client, "C");
	flush_answered(_metadata, client, "CCC");
}

CASE(icrc, several_outstanding, "1 ICRC trap",
     "all FLUSHes that are sent again change together, and the one that was not answered once more")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = flush_unanswered(_metadata, client, "C");
	rq[1] = flush_unanswered(_metadata, client, "C");
	expect_forms(_metadata, &rq[0], "c");
	expect_forms(_metadata, &rq[1], "c");
	expect_forms(_metadata, &rq[0], "L");
	expect_forms(_metadata, &rq[1], "L");
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_forms(_metadata, &rq[1], "lCL");
	answer_on(_metadata, client, &client->line, &rq[1]);
	flush_answered(_metadata, client, "L");
	flush_answered(_metadata, client, "LL");
}

CASE(icrc, certain_by_an_earlier_one, "1 ICRC trap",
     "of two the first is answered at once: the other, sent again, does not change")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = flush_unanswered(_metadata, client, "C");
	rq[1] = flush_unanswered(_metadata, client, "C");
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_forms(_metadata, &rq[1], "CC");
	answer_on(_metadata, client, &client->line, &rq[1]);
}

CASE(icrc, behind_a_lost_write, "1 ICRC trap",
     "while a WRITE before it is not answered, nothing is known of the FLUSH: it does not change")
{
	struct client *client = &self->client;
	struct packet rq[2];
	int i;

	rq[0] = post(_metadata, client, wr_write());
	rq[1] = post(_metadata, client, wr_flush());
	for (i = 0; i < 3; i++)
		expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	answer_on(_metadata, client, &client->line, &rq[1]);
	/* It was sent again, but not in the other form. */
	flush_answered(_metadata, client, "CCC");
}

CASE(icrc, behind_an_answered_write, "1 ICRC trap",
     "when the WRITE before it is answered at last, the FLUSH is the first, and changes")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post(_metadata, client, wr_write());
	rq[1] = post(_metadata, client, wr_flush());
	expect_retransmission(_metadata, rq, 2);
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_forms(_metadata, &rq[1], "cLC");
	answer_on(_metadata, client, &client->line, &rq[1]);
}

/* An unsignalled WRITE and a FLUSH, posted at once; does the WRITE ask for its acknowledgment? */
static void post_with_write(struct __test_metadata *_metadata, struct client *client, bool asks,
			    struct packet rq[2])
{
	struct wr wr[] = { wr_write(), wr_flush() };

	wr[0].flags = 0;
	post_all(_metadata, client, wr, 2, rq);
	rq[0].ack_req = asks;
	expect_packet(_metadata, &rq[0]);
}

CASE(icrc, behind_an_unsignaled_write, "3 acknowledge request",
     "no form is certain, an unsignalled WRITE before it asks; as the first, it changes at once")
{
	struct client *client = &self->client;
	struct packet rq[2];
	static const char *const forms[] = { "CL", "LC" };
	int i;

	NEED_SAVED_ACKS();
	for (i = 0; i < 2; i++) {
		post_with_write(_metadata, client, true, rq);
		respond(client, &rq[0]);
		expect_forms(_metadata, &rq[1], forms[i]);
		answer_on(_metadata, client, &client->line, &rq[1]);
	}
	/* Now it was sent in one form only. */
	flush_answered(_metadata, client, "C");
	post_with_write(_metadata, client, false, rq);
	expect_forms(_metadata, &rq[1], "C");
	client->line.msn++;
	answer_on(_metadata, client, &client->line, &rq[1]);
}

CASE(icrc, behind_an_unsignaled_write_to_legacy, "3 acknowledge request",
     "where legacy is certain, an unsignalled WRITE before it does not ask")
{
	struct client *client = &self->client;
	struct packet rq[2];

	NEED_SAVED_ACKS();
	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	post_with_write(_metadata, client, false, rq);
	expect_forms(_metadata, &rq[1], "L");
	client->line.msn++;
	answer_on(_metadata, client, &client->line, &rq[1]);
}

CASE(icrc, no_answer, "3 completion",
     "a plain ACKNOWLEDGE at its PSN is no answer, and teaches nothing")
{
	struct client *client = &self->client;
	struct packet rq = flush_unanswered(_metadata, client, "C");

	acknowledge(client, &rq, 0x1f);
	expect_forms(_metadata, &rq, "cLC");
	answer_on(_metadata, client, &client->line, &rq);
	flush_answered(_metadata, client, "CcL");
}

CASE(icrc, retries_are_counted, "4 retry counters",
     "with so many retries that it is sent once in the other form: then RETRY_EXC_ERR")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 1 + first_retry_keeps_form());
	struct client *client = &self->client;

	line_open(client, &client->line, &config);
	flush_unanswered(_metadata, client, "CcL");
	expect_wc(_metadata, client, 1, IBV_WC_RETRY_EXC_ERR);
	expect_silence(_metadata, client);
}

/* ---- What the peer sends itself ---- */

CASE(icrc, legacy_received, "1 ICRC trap",
     "a legacy FLUSH of the peer came first: legacy at once, and certain")
{
	struct client *client = &self->client;

	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	flush_answered(_metadata, client, "LLL");
	flush_answered(_metadata, client, "L");
}

CASE(icrc, legacy_received_while_waiting, "1 ICRC trap",
     "a legacy FLUSH of the peer comes while one is not answered: sent again as legacy only")
{
	struct client *client = &self->client;
	struct packet rq = flush_unanswered(_metadata, client, "C");

	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	expect_forms(_metadata, &rq, "LLL");
	answer_on(_metadata, client, &client->line, &rq);
	flush_answered(_metadata, client, "LL");
}

CASE(icrc, legacy_received_when_ambiguous, "1 ICRC trap",
     "a legacy FLUSH of the peer ends what was ambiguous")
{
	struct client *client = &self->client;

	flush_answered(_metadata, client, "CcLC");
	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	flush_answered(_metadata, client, "LLL");
}

CASE(icrc, legacy_received_too_late, "1 ICRC trap",
     "a legacy FLUSH of the peer changes nothing when conforming was certain")
{
	struct client *client = &self->client;

	flush_answered(_metadata, client, "C");
	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	flush_answered(_metadata, client, "CCC");
}

/* ---- Other QPs, other connections ---- */

CASE(icrc, other_qp, "1 ICRC trap", "what one QP has learnt is not for another one, old or new")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct line old, new;

	line_open(client, &old, &config);
	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	flush_answered(_metadata, client, "L");
	line_open(client, &new, &config);
	flush_answered_on(_metadata, client, &old, "C");
	flush_answered_on(_metadata, client, &new, "C");
	flush_answered_on(_metadata, client, &old, "CC");
	flush_answered_on(_metadata, client, &new, "CC");
	flush_answered(_metadata, client, "LL");
}

CASE(icrc, reset_forgets_legacy, "1 ICRC trap",
     "legacy was certain; after RESET and a new connection it begins as conforming")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;

	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	flush_answered(_metadata, client, "L");
	line_reopen(client, &client->line, &config);
	flush_answered(_metadata, client, "C");
	flush_answered(_metadata, client, "CCC");
}

CASE(icrc, reset_forgets_conforming, "1 ICRC trap",
     "conforming was certain; after RESET and a new connection it is not")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;

	flush_answered(_metadata, client, "C");
	line_reopen(client, &client->line, &config);
	flush_answered(_metadata, client, "CcL");
	flush_answered(_metadata, client, "L");
}

/* ---- Counters ---- */

#define LEGACY_SENT	"flush_legacy_icrc_sent"
#define LEGACY_RECEIVED	"flush_legacy_icrc"

CASE(icrc, sent_are_counted, "1 ICRC trap",
     LEGACY_SENT " counts each legacy FLUSH that was sent, the same one again too, and no other")
{
	struct client *client = &self->client;
	unsigned long long before;

	NEED_COUNTERS();
	before = rxe_counter(LEGACY_SENT);
	flush_answered(_metadata, client, "CL");
	flush_answered(_metadata, client, "L");
	flush_answered(_metadata, client, "LLLL");
	EXPECT_EQ(before + 6, rxe_wait_counter(LEGACY_SENT, before + 6, ANSWER_MS));
}

CASE(icrc, received_are_counted, "1 ICRC trap",
     LEGACY_RECEIVED " counts each legacy FLUSH that was received, and no other")
{
	struct client *client = &self->client;
	unsigned long long before;
	int i;

	NEED_COUNTERS();
	before = rxe_counter(LEGACY_RECEIVED);
	for (i = 0; i < 3; i++) {
		peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
		peer_flushes(_metadata, client, &client->line, ICRC_CONFORMING);
	}
	EXPECT_EQ(before + 3, rxe_wait_counter(LEGACY_RECEIVED, before + 3, ANSWER_MS));
}

/* ---- NAK PSN sequence ---- */

/* Without time-outs: what is sent again is sent for the NAK. */
STRANGER_FIXTURE(icrc_nak, 0)

/* The form of the first retry. */
static const char *after_a_nak(void)
{
	return first_retry_keeps_form() ? "C" : "L";
}

CASE(icrc_nak, at_the_flush, "1 ICRC trap",
     "NAK at its PSN, as of a peer that saw only the ATOMIC WRITE after it: that is a retry")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = flush_unanswered(_metadata, client, "C");
	rq[1] = post_and_expect(_metadata, client, wr_atomic_write());
	acknowledge(client, &rq[0], ROCE_AETH_NAK_PSN);
	expect_forms(_metadata, &rq[0], after_a_nak());
	expect_forms(_metadata, &rq[1], "C");
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
	flush_answered(_metadata, client, after_a_nak());
}

CASE(icrc_nak, at_the_flush_then_a_timeout, "1 ICRC trap",
     "NAK at its PSN, and no answer to the retry either: with the time-out it changes")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq[2];

	line_open(client, &client->line, &config);
	rq[0] = flush_unanswered(_metadata, client, "C");
	rq[1] = post_and_expect(_metadata, client, wr_atomic_write());
	acknowledge(client, &rq[0], ROCE_AETH_NAK_PSN);
	if (first_retry_keeps_form())
		expect_retransmission(_metadata, rq, 2);
	expect_forms(_metadata, &rq[0], "L");
	expect_forms(_metadata, &rq[1], "C");
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
	flush_answered(_metadata, client, "L");
}

CASE(icrc_nak, at_the_flush_behind_a_write, "1 ICRC trap",
     "NAK at its PSN acknowledges the WRITE before it: the FLUSH is the first, and is repeated")
{
	struct client *client = &self->client;
	struct packet rq[3];

	rq[0] = post_and_expect(_metadata, client, wr_write());
	rq[1] = flush_unanswered(_metadata, client, "C");
	rq[2] = post_and_expect(_metadata, client, wr_atomic_write());
	acknowledge(client, &rq[1], ROCE_AETH_NAK_PSN);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_forms(_metadata, &rq[1], after_a_nak());
	expect_forms(_metadata, &rq[2], "C");
	respond(client, &rq[1]);
	respond(client, &rq[2]);
	expect_successes(_metadata, client, 2);
}

CASE(icrc_nak, when_certain, "1 ICRC trap", "NAK at its PSN when conforming is certain: no change")
{
	struct client *client = &self->client;
	struct packet rq;

	flush_answered(_metadata, client, "C");
	rq = flush_unanswered(_metadata, client, "C");
	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_forms(_metadata, &rq, "C");
	answer_on(_metadata, client, &client->line, &rq);
}

CASE(icrc_nak, when_legacy_is_certain, "1 ICRC trap",
     "NAK at its PSN when legacy is certain: no change")
{
	struct client *client = &self->client;
	struct packet rq;

	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	rq = flush_unanswered(_metadata, client, "L");
	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_forms(_metadata, &rq, "L");
	answer_on(_metadata, client, &client->line, &rq);
}

CASE(icrc_nak, at_the_write_before, "1 ICRC trap",
     "NAK at the PSN of the WRITE before it: the FLUSH does not change")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, wr_write());
	rq[1] = flush_unanswered(_metadata, client, "C");
	acknowledge(client, &rq[0], ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

/* The peer goes on after the FLUSH, so it has taken it.  What got lost is the response. */

CASE(icrc_nak, behind_the_flush, "1 ICRC trap",
     "NAK at the PSN of the WRITE after it: the peer has the FLUSH, which does not change")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = flush_unanswered(_metadata, client, "C");
	rq[1] = post_and_expect(_metadata, client, wr_write());
	acknowledge(client, &rq[1], ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(icrc_nak, later_ack, "1 ICRC trap",
     "the WRITE after it is acknowledged: the peer has the FLUSH, which does not change")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = flush_unanswered(_metadata, client, "C");
	rq[1] = post_and_expect(_metadata, client, wr_write());
	acknowledge(client, &rq[1], 0x1f);
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

/* ---- All but FLUSH ---- */

FIXTURE_VARIANT(icrc_of) {
	struct wr (*make)(void);
};

STRANGER_FIXTURE(icrc_of, LONG_TIMEOUT)

ROW(icrc_of, write, "1 ICRC", "WRITE") { wr_write };
ROW(icrc_of, send, "1 ICRC", "SEND") { wr_send };
ROW(icrc_of, read, "1 ICRC", "READ") { wr_read };
ROW(icrc_of, fetch_add, "1 ICRC", "FETCH ADD") { wr_fetch_add };
ROW(icrc_of, atomic_write, "1 ICRC", "ATOMIC WRITE") { wr_atomic_write };

CASE(icrc_of, alone, "1 ICRC", "sent again, it is conforming each time")
{
	struct client *client = &self->client;
	struct packet rq = post(_metadata, client, variant->make());

	expect_forms(_metadata, &rq, "CCC");
	answer_on(_metadata, client, &client->line, &rq);
	/* Nor has it changed the form of FLUSH. */
	flush_answered(_metadata, client, "C");
}

CASE(icrc_of, on_a_legacy_qp, "1 ICRC",
     "conforming, and so when it is sent again, where FLUSH is legacy")
{
	struct client *client = &self->client;
	struct packet rq;

	peer_flushes(_metadata, client, &client->line, ICRC_LEGACY);
	rq = post(_metadata, client, variant->make());
	expect_forms(_metadata, &rq, "CCC");
	answer_on(_metadata, client, &client->line, &rq);
}

CASE(icrc_of, behind_a_flush, "1 ICRC",
     "sent again after a FLUSH that changes its form, it does not")
{
	struct client *client = &self->client;
	struct packet rq[2];
	const char *form = first_retry_keeps_form() ? "CCLC" : "CLCL";

	rq[0] = post(_metadata, client, wr_flush());
	rq[1] = post(_metadata, client, variant->make());
	for (; *form; form++) {
		expect_packet_with(_metadata, &rq[0],
				   *form == 'L' ? ICRC_LEGACY : ICRC_CONFORMING);
		expect_forms(_metadata, &rq[1], "C");
	}
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(icrc_of, before_a_flush, "1 ICRC",
     "lost with a FLUSH after it: conforming, and so is the FLUSH")
{
	struct client *client = &self->client;
	struct packet rq[2];
	int i;

	rq[0] = post(_metadata, client, variant->make());
	rq[1] = post(_metadata, client, wr_flush());
	for (i = 0; i < 3; i++)
		expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

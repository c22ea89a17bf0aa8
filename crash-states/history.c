// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "history.h"
#include "proof.h"
#include "visible.h"

#define PSNS		(1 << 24)
#define MAX_MTU		4096

/* From PSN @a to @b, the short way round. */
static int32_t distance(uint32_t a, uint32_t b)
{
	return (int32_t)((b - a) << 8) >> 8;
}

static bool is_response(uint8_t opcode)
{
	return opcode >= ROCE_RC_READ_RESPONSE_FIRST && opcode <= ROCE_RC_ATOMIC_ACK;
}

static bool is_reliable(uint8_t opcode)
{
	return (opcode & ROCE_SERVICE_MASK) == ROCE_SERVICE_RC;
}

static uint32_t selectivity(const struct packet *flush)
{
	return flush->feth & ROCE_FETH_SEL_MASK;
}

/* A response that says: executed. */
static bool is_success(const struct packet *packet)
{
	return packet->opcode == ROCE_RC_READ_RESPONSE_MIDDLE ||
	       (packet->syndrome & ROCE_AETH_KIND_MASK) == ROCE_AETH_ACK;
}

/* A response that says: send this, and all after it, again. */
static bool is_retry(const struct packet *packet)
{
	return !is_success(packet) &&
	       ((packet->syndrome & ROCE_AETH_KIND_MASK) == ROCE_AETH_RNR_NAK ||
		packet->syndrome == ROCE_AETH_NAK_PSN);
}

static bool same_address(const struct address *a, const struct address *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static void __attribute__((noreturn, format(printf, 3, 4)))
fail_at(const struct history *history, const struct packet *packet, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		fail("no memory");
	fail("%s, frame %u (%s, psn %u, QP %u): %s", history->capture->path, packet->frame,
	     opcode_name(packet->opcode), packet->psn, packet->qpn, text);
}

/******************************************************************************
 * Which response belongs to which QP?  It names the QP of the initiator only.
 */

/* Packets that belong together: their places in the capture, in order. */
typedef LIST(uint32_t) packet_list;

/* The responses that go to one QP of an initiator. */
struct answers {
	unsigned int target;
	struct address to;
	uint32_t qpn;
	uint16_t port;
	packet_list packets;
	uint32_t flow;			/* that they answer, or NEVER */
	size_t can;			/* so many flows they may answer, that have no answers yet */
};

struct matching {
	LIST(struct answers) answers;
	packet_list *asked;		/* of each flow: its requests */
	bool *can;			/* answers, flow -> may they answer it? */
};

/* The source port that Linux gives both ends of a connection that has no flow label. */
static uint16_t port_of(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;

	v ^= v >> 20;
	v ^= v >> 40;
	return 0xc000 | ((v & 0x3fff) ^ (v & 0xfc000) >> 14);
}

static uint64_t hash_of_end(const struct packet *packet)
{
	uint64_t hash = (uint64_t)packet->target << 32 | packet->qpn;

	for (size_t i = 0; !packet->to_target && i < sizeof(packet->to.byte); i++)
		hash = mix64(hash << 8 ^ packet->to.byte[i]);
	return mix64(hash << 1 | packet->to_target);
}

/* The flow of a request, or answers of a response; a new one if there is none. */
static uint32_t find_end(struct history *history, struct matching *matching,
			 const struct packet *packet, uint32_t *slots, size_t size)
{
	size_t at = hash_of_end(packet) & (size - 1);

	for (; slots[at] != NEVER; at = (at + 1) & (size - 1)) {
		uint32_t i = slots[at] / 2;

		if (slots[at] % 2 != packet->to_target)
			continue;
		if (packet->to_target ?
		    history->flows.v[i].qpn == packet->qpn && history->flows.v[i].target == packet->target :
		    matching->answers.v[i].qpn == packet->qpn && matching->answers.v[i].target == packet->target &&
		    same_address(&matching->answers.v[i].to, &packet->to))
			return i;
	}
	if (packet->to_target) {
		slots[at] = history->flows.n * 2 + 1;
		*list_add(&history->flows) = (struct flow) {
			.target = packet->target, .qpn = packet->qpn, .initiator = packet->from, .port = packet->port,
			.ended = NEVER, .left = NEVER, .completions = NEVER,
		};
	} else {
		slots[at] = matching->answers.n * 2;
		*list_add(&matching->answers) = (struct answers) {
			.target = packet->target, .qpn = packet->qpn, .to = packet->to, .port = packet->port,
			.flow = NEVER,
		};
	}
	return slots[at] / 2;
}

static bool is_followed(const struct packet *packet)
{
	return is_reliable(packet->opcode) && packet->to_target != is_response(packet->opcode);
}

static void sort_packets(struct history *history, struct matching *matching)
{
	const struct capture *capture = history->capture;
	uint32_t *end = xcalloc(capture->packets.n, sizeof(*end)), *slots;
	size_t size = 16;

	/* An end has a packet at least. */
	while (size < capture->packets.n * 2)
		size *= 2;
	slots = xcalloc(size, sizeof(*slots));
	memset(slots, 0xff, size * sizeof(*slots));
	for (size_t i = 0; i < capture->packets.n; i++)
		if (is_followed(&capture->packets.v[i]))
			end[i] = find_end(history, matching, &capture->packets.v[i], slots, size);
	free(slots);
	matching->asked = xcalloc(history->flows.n, sizeof(*matching->asked));
	for (size_t i = 0; i < capture->packets.n; i++) {
		const struct packet *packet = &capture->packets.v[i];

		if (is_followed(packet))
			*list_add(packet->to_target ? &matching->asked[end[i]] :
				  &matching->answers.v[end[i]].packets) = i;
	}
	free(end);
}

/* When was a PSN asked for first? */
struct asking {
	uint32_t psn, packet;
};

static int by_psn(const void *a, const void *b)
{
	const struct asking *x = a, *y = b;

	if (x->psn != y->psn)
		return x->psn < y->psn ? -1 : 1;
	return x->packet < y->packet ? -1 : x->packet > y->packet;
}

/* Was @psn asked for before @packet? */
static bool was_asked(const struct asking *asked, size_t n, uint32_t psn, uint32_t packet)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (asked[middle].psn < psn)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && asked[low].psn == psn && asked[low].packet < packet;
}

/* Can all these responses be to requests of this flow?  Each must have come before. */
static bool can_answer(const struct history *history, const struct answers *answers,
		       const struct flow *flow, const struct asking *asked, size_t n)
{
	if (answers->target != flow->target || !same_address(&answers->to, &flow->initiator))
		return false;
	for (size_t i = 0; i < answers->packets.n; i++) {
		const struct packet *packet = &history->capture->packets.v[answers->packets.v[i]];

		if (!is_retry(packet) && packet->opcode != ROCE_RC_READ_RESPONSE_MIDDLE &&
		    packet->opcode != ROCE_RC_READ_RESPONSE_LAST &&
		    !was_asked(asked, n, packet->psn, answers->packets.v[i]))
			return false;
	}
	return true;
}

static void find_candidates(const struct history *history, struct matching *matching)
{
	size_t nf = history->flows.n;

	matching->can = xcalloc(nf * matching->answers.n, sizeof(bool));
	for (size_t f = 0; f < nf; f++) {
		const packet_list *packets = &matching->asked[f];
		struct asking *asked = xcalloc(packets->n, sizeof(*asked));

		for (size_t i = 0; i < packets->n; i++)
			asked[i] = (struct asking){ history->capture->packets.v[packets->v[i]].psn,
						    packets->v[i] };
		qsort(asked, packets->n, sizeof(*asked), by_psn);
		for (size_t a = 0; a < matching->answers.n; a++) {
			struct answers *answers = &matching->answers.v[a];
			bool can = can_answer(history, answers, &history->flows.v[f], asked,
					      packets->n);

			matching->can[a * nf + f] = can;
			answers->can += can;
		}
		free(asked);
	}
}

/* The one flow that the answers can belong to, or NEVER if there is none, or more than one. */
static uint32_t only_candidate(const struct history *history, const struct matching *matching, size_t a,
			       bool by_port)
{
	const struct answers *answers = &matching->answers.v[a];
	uint32_t which = NEVER;

	for (uint32_t f = 0; f < history->flows.n; f++) {
		const struct flow *flow = &history->flows.v[f];

		if (!matching->can[a * history->flows.n + f] || flow->answers ||
		    (by_port && (flow->port != answers->port ||
				 flow->port != port_of(flow->qpn, answers->qpn))))
			continue;
		if (which != NEVER)
			return NEVER;
		which = f;
	}
	return which;
}

static void settle(struct history *history, struct matching *matching, size_t a, uint32_t f)
{
	matching->answers.v[a].flow = f;
	history->flows.v[f].answers = true;
	history->flows.v[f].peer_qpn = matching->answers.v[a].qpn;
	for (size_t other = 0; other < matching->answers.n; other++)
		matching->answers.v[other].can -= matching->can[other * history->flows.n + f];
}

static void __attribute__((noreturn))
fail_at_answers(const struct history *history, const struct answers *answers, const char *why)
{
	fail_at(history, &history->capture->packets.v[answers->packets.v[0]], "%s", why);
}

/* Settle one of the answers, if there are some left. */
static bool settle_one(struct history *history, struct matching *matching)
{
	const struct answers *left = NULL;

	for (int by_port = 0; by_port < 2; by_port++)
		for (size_t a = 0; a < matching->answers.n; a++) {
			const struct answers *answers = &matching->answers.v[a];
			uint32_t f;

			if (answers->flow != NEVER)
				continue;
			if (!answers->can)
				fail_at_answers(history, answers,
						"what this answers is not in the capture: it has a gap");
			left = left ? left : answers;
			if (!by_port && answers->can > 1)
				continue;
			f = only_candidate(history, matching, a, by_port);
			if (f == NEVER)
				continue;
			settle(history, matching, a, f);
			return true;
		}
	if (left)
		fail_at_answers(history, left,
				"it may answer one of several QPs, and nothing tells which");
	return false;
}

/* A target's QP has one peer, so what fits nowhere else settles the rest. */
static void match_answers(struct history *history, struct matching *matching)
{
	find_candidates(history, matching);
	while (settle_one(history, matching))
		;
	free(matching->can);
}

/* All packets of each flow, in order. */
static packet_list *packets_of_flows(const struct history *history, const struct matching *matching)
{
	packet_list *of_flows = xcalloc(history->flows.n, sizeof(*of_flows));
	uint32_t *flow_of = xcalloc(history->capture->packets.n, sizeof(*flow_of));

	memset(flow_of, 0xff, history->capture->packets.n * sizeof(*flow_of));
	for (uint32_t f = 0; f < history->flows.n; f++)
		for (size_t i = 0; i < matching->asked[f].n; i++)
			flow_of[matching->asked[f].v[i]] = f;
	for (size_t a = 0; a < matching->answers.n; a++)
		for (size_t i = 0; i < matching->answers.v[a].packets.n; i++)
			flow_of[matching->answers.v[a].packets.v[i]] = matching->answers.v[a].flow;
	for (uint32_t i = 0; i < history->capture->packets.n; i++)
		if (flow_of[i] != NEVER)
			*list_add(&of_flows[flow_of[i]]) = i;
	free(flow_of);
	return of_flows;
}

static void free_matching(const struct history *history, struct matching *matching)
{
	for (size_t f = 0; f < history->flows.n; f++)
		free(matching->asked[f].v);
	for (size_t a = 0; a < matching->answers.n; a++)
		free(matching->answers.v[a].packets.v);
	free(matching->asked);
	free(matching->answers.v);
}

/* Payload of a packet that others follow is as long as the path MTU. */
static void learn_mtu(struct history *history, struct flow *flow, const packet_list *packets)
{
	for (size_t i = 0; i < packets->n; i++) {
		const struct packet *packet = &history->capture->packets.v[packets->v[i]];

		switch (packet->opcode) {
		case ROCE_RC_SEND_FIRST:
		case ROCE_RC_SEND_MIDDLE:
		case ROCE_RC_WRITE_FIRST:
		case ROCE_RC_WRITE_MIDDLE:
		case ROCE_RC_READ_RESPONSE_FIRST:
		case ROCE_RC_READ_RESPONSE_MIDDLE:
			flow->mtu = packet->payload_length;
		}
	}
}

/******************************************************************************
 * What did the target take?
 */

/* The responder of one QP. */
struct responder {
	struct flow *flow;
	uint32_t index;
	bool begun, dead;
	uint64_t expected;		/* PSN, going on beyond 24 bits */
	uint64_t first;
	uint64_t write_va;
	uint32_t write_rkey, write_left;
	bool write_open;
	bool read_open;			/* the READ before may have taken more PSNs, see next_psn() */
};

/* @psn, near the expected one, as a number that goes on. */
static uint64_t unwrapped(const struct responder *responder, uint32_t psn)
{
	return responder->expected + distance(responder->expected & (PSNS - 1), psn);
}

static const char *take_write(struct responder *r, struct request *request)
{
	const struct packet *packet = request->packet;
	bool first = packet->has_reth;
	bool last = packet->opcode != ROCE_RC_WRITE_FIRST && packet->opcode != ROCE_RC_WRITE_MIDDLE;

	if (first) {
		if (r->write_open)
			return "a WRITE begins where another has not ended";
		r->write_va = packet->va;
		r->write_rkey = packet->rkey;
		r->write_left = packet->length;
	} else if (!r->write_open) {
		return "a WRITE goes on that has not begun";
	}
	if (last ? packet->payload_length != r->write_left : packet->payload_length >= r->write_left)
		return "a WRITE has not the length that its RETH says";
	request->va = r->write_va;
	request->rkey = r->write_rkey;
	request->length = packet->payload_length;
	r->write_va += packet->payload_length;
	r->write_left -= packet->payload_length;
	r->write_open = !last;
	return NULL;
}

/* The receive buffer is the target's choice, which the lab has seen its kernel store to. */
static void take_send(const struct history *history, struct request *request)
{
	const struct packet *packet = request->packet;
	const struct memory *memory = &history->memory[packet->target];
	const struct sent *sent = memory_sent(memory, packet->qpn, packet->psn);

	request->rkey = 0;
	request->length = packet->payload_length;
	if (!request->length)
		return;
	if (sent && sent->length == request->length) {
		request->va = sent->va;
		request->region = memory_at(memory, sent->va, sent->length);
	}
	request->somewhere = !request->region;
}

/* Looks at what the request is about.  NULL, or why a target has to refuse it. */
static const char *take_request(struct history *history, struct responder *r,
				struct request *request)
{
	const struct packet *packet = request->packet;
	const char *odd;

	request->va = packet->va;
	request->rkey = packet->rkey;
	request->length = packet->length;
	request->psns = 1;
	switch (packet->opcode) {
	case ROCE_RC_SEND_FIRST ... ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
		take_send(history, request);
		return NULL;
	case ROCE_RC_WRITE_FIRST ... ROCE_RC_WRITE_ONLY_IMM:
		odd = take_write(r, request);
		if (odd)
			return odd;
		break;
	case ROCE_RC_READ_REQUEST:
		if (r->flow->mtu && packet->length)
			request->psns = (packet->length - 1) / r->flow->mtu + 1;
		break;
	case ROCE_RC_CMP_SWAP:
	case ROCE_RC_FETCH_ADD:
		break;
	case ROCE_RC_FLUSH:
		if (selectivity(packet) != ROCE_FETH_SEL_RANGE && selectivity(packet) != ROCE_FETH_SEL_MR)
			return "a FLUSH with a reserved selectivity";
		break;
	case ROCE_RC_ATOMIC_WRITE:
		if (packet->payload_length != WORD || packet->length != WORD)
			return "an ATOMIC WRITE that has not 8 bytes";
		break;
	default:
		return "an opcode that is unknown here";
	}
	/* The key of nothing is not looked at, except by FLUSH. */
	if (!request->length && packet->opcode != ROCE_RC_FLUSH)
		return NULL;
	request->region = memory_region(&history->memory[packet->target], request->rkey);
	if (!request->region)
		return "its key was never registered, as far as the lab saw";
	if (request->region->ambiguous)
		fail_at(history, packet, "the key 0x%x was given twice, for other memory, so that nothing tells what this request means",
			request->rkey);
	if (packet->opcode == ROCE_RC_FLUSH && selectivity(packet) == ROCE_FETH_SEL_MR) {
		request->va = request->region->va;
		request->length = request->region->length;
		return NULL;
	}
	if (request->length > request->region->length || request->va < request->region->va ||
	    request->va - request->region->va > request->region->length - request->length)
		return "it goes beyond the region of its key";
	return NULL;
}

static void take(struct history *history, struct responder *r, const struct packet *packet)
{
	struct request request = {
		.packet = packet, .flow = r->index, .psn = r->expected,
		.write_va = r->write_va, .write_rkey = r->write_rkey,
		.write_left = r->write_left, .write_open = r->write_open, .base = NEVER, .found = NEVER, .proven = NEVER,
	};

	request.odd = take_request(history, r, &request);
	*list_add(&r->flow->requests) = history->requests.n;
	*list_add(&history->requests) = request;
	r->expected += request.psns;
	r->read_open = packet->opcode == ROCE_RC_READ_REQUEST && !r->flow->mtu && packet->length > 256;
}

/*
 * How many PSNs a long READ took is unknown as long as nothing has told the path MTU.  The PSN of the
 * request after it tells then.
 */
static void learn_read(struct history *history, struct responder *r, uint32_t psn)
{
	struct request *read = &history->requests.v[r->flow->requests.v[r->flow->requests.n - 1]];
	uint32_t behind = distance(read->packet->psn, psn);

	for (uint32_t mtu = 256; mtu <= MAX_MTU; mtu *= 2) {
		if ((read->length - 1) / mtu + 1 != behind)
			continue;
		read->psns = behind;
		r->expected = read->psn + behind;
		r->read_open = false;
		return;
	}
}

static struct request *last_request(struct history *history, const struct responder *r)
{
	return &history->requests.v[r->flow->requests.v[r->flow->requests.n - 1]];
}

/* The target has got neither @psn nor what came after it.  The frame to go on after, or 0. */
static unsigned int give_back(struct history *history, struct responder *r, uint64_t psn)
{
	unsigned int lost = 0;

	while (r->flow->requests.n && last_request(history, r)->psn >= psn) {
		const struct request *request = last_request(history, r);

		lost = request->packet->frame;
		r->write_va = request->write_va;
		r->write_rkey = request->write_rkey;
		r->write_left = request->write_left;
		r->write_open = request->write_open;
		r->read_open = false;
		r->flow->requests.n--;
	}
	r->expected = psn;
	return lost;
}

/* The place in the flow of the request that has this PSN, or of the next one. */
static size_t first_from(const struct history *history, const struct responder *r, uint64_t psn)
{
	size_t low = 0, high = r->flow->requests.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (history->requests.v[r->flow->requests.v[middle]].psn < psn)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A program that reuses its buffer before the completion sends other bytes the second time. */
static void compare_repeat(struct history *history, const struct responder *r,
			   const struct packet *packet, uint64_t psn)
{
	size_t n = first_from(history, r, psn);
	struct request *request;

	if (n == r->flow->requests.n)
		return;
	request = &history->requests.v[r->flow->requests.v[n]];
	if (request->psn == psn && request->packet->opcode == packet->opcode &&
	    (request->packet->payload_length != packet->payload_length ||
	     memcmp(request->packet->payload, packet->payload, packet->payload_length)))
		request->changed = packet;
}

static void take_from_initiator(struct history *history, struct responder *r,
				const struct packet *packet)
{
	uint64_t psn;

	if (r->dead)
		return;
	if (!r->begun) {
		r->begun = true;
		r->expected = r->first = PSNS + (uint64_t)packet->psn;
	}
	if (r->read_open)
		learn_read(history, r, packet->psn);
	psn = unwrapped(r, packet->psn);
	/* What was the first here was not the first that was sent. */
	if (psn < r->first) {
		if (r->flow->any_done)
			fail_at(history, packet, "it precedes what the QP has begun with: a QP used again cannot be followed");
		give_back(history, r, psn);
		r->first = psn;
	}
	/* Otherwise it is a duplicate, or something before it is missing. */
	if (psn == r->expected)
		take(history, r, packet);
	else if (psn < r->expected)
		compare_repeat(history, r, packet, psn);
}

/* The request that a response with this PSN completes, or NULL. */
static struct request *answered_by(struct history *history, const struct responder *r, uint64_t psn)
{
	size_t n = first_from(history, r, psn + 1);
	struct request *request = n ? &history->requests.v[r->flow->requests.v[n - 1]] : NULL;

	/* A long READ takes several PSNs, and its last response has the last one. */
	return request && psn == request->psn + request->psns - 1 ? request : NULL;
}

/* What a READ returned tells what had been executed.  Responses after the first are as long as the path MTU before them. */
static void keep_returned(struct history *history, const struct responder *r, const struct packet *packet, uint64_t psn)
{
	size_t n = first_from(history, r, psn + 1);
	const struct request *read = n ? &history->requests.v[r->flow->requests.v[n - 1]] : NULL;

	if (read && read->packet->opcode == ROCE_RC_READ_REQUEST && packet->opcode != ROCE_RC_ACK && packet->payload_length &&
	    psn < read->psn + read->psns)
		*list_add(&history->returned) = (struct returned){
			packet, read->va + (psn - read->psn) * r->flow->mtu, read->region,
		};
}

/* False if what is answered has not come, as far as is known here. */
static bool take_success(struct history *history, struct responder *r, const struct packet *packet)
{
	uint64_t psn = unwrapped(r, packet->psn);
	struct request *request;
	bool own;

	/* What a READ of unknown PSNs sends back.  What precedes the READ has an answer of its own. */
	if (r->read_open && packet->opcode != ROCE_RC_ACK && psn >= r->expected)
		return true;
	if (psn >= r->expected)
		return false;
	if (!r->flow->any_done || psn > r->flow->done)
		r->flow->done = psn;
	r->flow->any_done = true;
	keep_returned(history, r, packet, psn);
	request = answered_by(history, r, psn);
	if (!request || request->answer)
		return true;
	switch (request->packet->opcode) {
	case ROCE_RC_FLUSH:
	case ROCE_RC_ATOMIC_WRITE:
		own = packet->opcode == ROCE_RC_READ_RESPONSE_ONLY;
		break;
	case ROCE_RC_CMP_SWAP:
	case ROCE_RC_FETCH_ADD:
		own = packet->opcode == ROCE_RC_ATOMIC_ACK;
		break;
	case ROCE_RC_READ_REQUEST:
		own = packet->opcode != ROCE_RC_ACK;
		break;
	default:
		own = true;
	}
	if (own)
		request->answer = packet;
	return true;
}

/* What a NAK of the sequence means. */
enum nak {
	NAK_NEW,
	NAK_LOST,	/* the packet that it asks for came, but not as far as the driver */
	NAK_LATE,	/* it was going out when that packet came */
};

/*
 * All packets of one connection, in the order in which they passed the target's network card.  Returns
 * the packet that contradicts what the NAKs were taken for, or NULL.
 */
static const struct packet *follow_once(struct history *history, const packet_list *packets,
					struct responder *r, enum nak *naks, size_t *latest)
{
	const struct packet *all = history->capture->packets.v;

	for (size_t i = 0; i < packets->n; i++) {
		const struct packet *packet = &all[packets->v[i]];
		unsigned int lost;
		uint64_t psn;

		if (packet->to_target) {
			take_from_initiator(history, r, packet);
			continue;
		}
		if (is_success(packet)) {
			if (!take_success(history, r, packet))
				return packet;
			continue;
		}
		if (naks[i] != NAK_NEW || !r->begun)
			continue;
		psn = unwrapped(r, packet->psn);
		/* An old one. */
		if (r->flow->any_done && psn <= r->flow->done)
			continue;
		if (psn > r->expected)
			return packet;
		lost = give_back(history, r, psn);
		if (psn < r->first)
			r->first = psn;
		if (!is_retry(packet)) {
			r->dead = true;
		} else if (lost) {
			/* What is sent again may have passed the card before the NAK: look again from there. */
			naks[i] = NAK_LOST;
			*latest = i;
			while (all[packets->v[i]].frame > lost)
				i--;
		}
	}
	return NULL;
}

/*
 * A NAK says that a packet which came had not got to the driver, or it was on its way out when that
 * came.  The first is taken for true until what follows contradicts it.
 */
static void follow(struct history *history, const packet_list *packets, uint32_t index)
{
	struct flow *flow = &history->flows.v[index];
	size_t n = packets->n, before = history->requests.n, returned = history->returned.n, latest;
	enum nak *naks = xcalloc(n, sizeof(*naks));

	for (;;) {
		struct responder r = { .flow = flow, .index = index };
		const struct packet *wrong;

		flow->any_done = false;
		flow->requests.n = 0;
		history->requests.n = before;
		history->returned.n = returned;
		latest = n;
		wrong = follow_once(history, packets, &r, naks, &latest);
		if (!wrong)
			break;
		if (latest == n)
			fail_at(history, wrong, "the target of QP %u has got as far as psn %u, but psn %u has not come: the capture has a gap",
				flow->qpn, wrong->psn, (unsigned int)(r.expected & (PSNS - 1)));
		/* The others are looked at anew. */
		for (size_t i = 0; i < n; i++)
			if (naks[i] == NAK_LOST)
				naks[i] = NAK_NEW;
		naks[latest] = NAK_LATE;
	}
	free(naks);
}

/* What the target has pulled. */
static bool brings_bytes(const struct packet *packet)
{
	return packet->to_target && is_reliable(packet->opcode) && is_response(packet->opcode) &&
	       packet->opcode != ROCE_RC_ACK && is_success(packet) && (packet->payload_length || packet->opcode == ROCE_RC_ATOMIC_ACK);
}

/* Requests of other services are not followed. */
static void refuse_others(struct history *history)
{
	for (size_t i = 0; i < history->capture->packets.n; i++) {
		const struct packet *packet = &history->capture->packets.v[i];
		const struct region *region;

		history->pulled += brings_bytes(packet);
		if (!packet->to_target || is_reliable(packet->opcode))
			continue;
		if ((packet->opcode & ROCE_SERVICE_MASK) == ROCE_SERVICE_XRC)
			fail_at(history, packet, "XRC is not followed");
		region = packet->has_reth ? memory_region(&history->memory[packet->target], packet->rkey) : NULL;
		if (region && region_is_persistent(region))
			fail_at(history, packet, "it goes to persistent memory by an unreliable connection, which is not followed");
	}
}

/******************************************************************************
 * What did the target's CPU do?
 */

/* Is the store one of those by which memory is copied? */
static bool copies(const struct cpu_event *event)
{
	return event->operation != CPU_STORE || event->length > WORD;
}

/* A copy is one message, of which each store goes on where the one before it ended. */
static bool goes_on(const struct cpu_event *event, const struct cpu_event *last)
{
	return event->operation == last->operation && event->thread == last->thread && copies(event) && copies(last) &&
	       event->place == last->place + last->length;
}

/* After those of the QPs. */
static void add_cpu_flow(struct history *history)
{
	const struct memory *memory = history->memory;

	history->cpu = NEVER;
	if (!history->capture->cpu.path)
		return;
	history->cpu = history->flows.n;
	/* All has been executed. */
	*list_add(&history->flows) = (struct flow){
		.any_done = true, .done = UINT64_MAX, .ended = NEVER, .left = NEVER, .completions = NEVER,
	};
	history->device = (struct region){ .length = memory->size };
	*list_add(&history->device.pieces) = (struct piece){ .length = memory->size };
}

/* As requests in @taken, from place @n on. */
static void add_cpu_requests(struct history *history, struct request *taken)
{
	const struct cpu *cpu = &history->capture->cpu;

	history->cpu_packets = xcalloc(cpu->events.n, sizeof(*history->cpu_packets));
	for (size_t i = 0; i < cpu->events.n; i++) {
		const struct cpu_event *event = &cpu->events.v[i];

		history->cpu_packets[i] = (struct packet){
			.frame = event->frame, .moment = event->moment, .end = event->position, .to_target = true,
			.opcode = event->operation, .qpn = event->thread, .payload = event->bytes,
			.payload_length = event->length,
		};
		taken[i] = (struct request){
			.packet = &history->cpu_packets[i], .flow = history->cpu, .psn = i, .psns = 1,
			.va = event->place, .region = &history->device,
			.length = cpu_is_write_back(event->operation) ? CPU_LINE : event->length, .base = NEVER,
			.found = NEVER, .proven = NEVER,
			.write_open = i && cpu_is_store(event->operation) && goes_on(event, event - 1),
		};
	}
}

static int by_moment(const void *a, const void *b)
{
	unsigned int x = ((const struct request *)a)->packet->moment;
	unsigned int y = ((const struct request *)b)->packet->moment;

	return x < y ? -1 : x > y;
}

bool completes(const struct request *request)
{
	switch (request->packet->opcode) {
	case ROCE_RC_SEND_LAST:
	case ROCE_RC_SEND_LAST_IMM:
	case ROCE_RC_SEND_ONLY:
	case ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
	case ROCE_RC_WRITE_LAST_IMM:
	case ROCE_RC_WRITE_ONLY_IMM:
	case ROCE_RC_CMP_SWAP:
	case ROCE_RC_FETCH_ADD:
		return true;
	}
	return false;
}

static void add_to_flow(struct history *history, uint32_t index)
{
	struct request *request = &history->requests.v[index];
	struct flow *flow = &history->flows.v[request->flow];

	request->message = request->write_open && flow->requests.n ?
			   history->requests.v[flow->requests.v[flow->requests.n - 1]].message : index;
	*list_add(&flow->requests) = index;
	if (history->cpu != NEVER && completes(request))
		*list_add(&flow->completes) = index;
}

/*
 * Leaves of all requests those that were taken, in the order in which they came, with what the CPU did.  What a target
 * has to refuse but answered cannot be followed.
 */
static void keep_taken(struct history *history)
{
	size_t n = 0, total = history->capture->cpu.events.n;
	struct request *taken;

	for (size_t f = 0; f < history->flows.n; f++)
		total += history->flows.v[f].requests.n;
	taken = xcalloc(total, sizeof(*taken));
	for (size_t f = 0; f < history->flows.n; f++) {
		struct flow *flow = &history->flows.v[f];

		for (size_t i = 0; i < flow->requests.n; i++) {
			const struct request *request = &history->requests.v[flow->requests.v[i]];

			/* No answer to it was seen, nor has it taken what came after. */
			if (request->odd && !(flow->any_done && request->psn <= flow->done))
				break;
			if (request->odd)
				fail_at(history, request->packet, "%s, and yet the target did not refuse it",
					request->odd);
			taken[n++] = *request;
		}
		flow->requests.n = 0;
	}
	add_cpu_requests(history, taken + n);
	n += history->capture->cpu.events.n;
	free(history->requests.v);
	history->requests.v = taken;
	history->requests.n = history->requests.room = n;
	qsort(taken, n, sizeof(*taken), by_moment);
	for (size_t i = 0; i < n; i++)
		add_to_flow(history, i);
}

/******************************************************************************
 * What did that do to the memory?
 */

/* Where a stretch may begin or end; of a store, @depth says where it begins and ends. */
struct mark {
	uint64_t offset;
	int depth;
};

typedef LIST(struct mark) mark_list;

static void mark(mark_list *marks, uint64_t offset, int depth)
{
	*list_add(marks) = (struct mark){ offset, depth };
}

/* The words from @place on.  What is stored of one in part is a stretch by itself; a flush takes the whole or nothing. */
static void mark_run(mark_list *marks, uint64_t place, uint64_t length, bool stores)
{
	uint64_t end = place + length;

	mark(marks, stores ? place : place / WORD * WORD, stores);
	mark(marks, stores ? end : (end + WORD - 1) / WORD * WORD, -stores);
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t edge = i ? end : place;

		if (edge % WORD) {
			mark(marks, edge / WORD * WORD, 0);
			mark(marks, (edge / WORD + 1) * WORD, 0);
		}
	}
}

static bool is_store(const struct request *request)
{
	switch (request->packet->opcode) {
	case ROCE_RC_SEND_FIRST ... ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
	case ROCE_RC_WRITE_FIRST ... ROCE_RC_WRITE_ONLY_IMM:
	case ROCE_RC_ATOMIC_WRITE:
	case ROCE_RC_CMP_SWAP:
	case ROCE_RC_FETCH_ADD:
		return true;
	}
	return cpu_is_store(request->packet->opcode);
}

/* Does it make durable what its QP stored before? */
static bool is_flush(const struct history *history, const struct request *request)
{
	switch (request->packet->opcode) {
	case ROCE_RC_FLUSH:
		if (history->rules->visible)
			return request->packet->feth & ROCE_FETH_PLT_GLOBAL;
		return request->packet->feth &
		       (ROCE_FETH_PLT_PERSISTENT | (history->rules->global ? ROCE_FETH_PLT_GLOBAL : 0));
	case ROCE_RC_READ_REQUEST:
		return history->rules->read && request->length && request->region &&
		       region_is_persistent(request->region);
	}
	return false;
}

static void mark_request(mark_list *marks, const struct request *request)
{
	uint64_t va, run, place;

	if (!request->region ||
	    !(is_store(request) || cpu_is_write_back(request->packet->opcode) || request->packet->opcode == ROCE_RC_FLUSH))
		return;
	for (size_t i = 0;
	     region_run(request->region, request->va, request->length, i, &va, &run, &place); i++)
		mark_run(marks, place, run, is_store(request));
}

static int by_offset(const void *a, const void *b)
{
	uint64_t x = ((const struct mark *)a)->offset, y = ((const struct mark *)b)->offset;

	return x < y ? -1 : x > y;
}

static void add_stretch(struct history *history, uint64_t from, uint64_t to)
{
	uint64_t words = (to - from + WORD - 1) / WORD;

	if (words >= NEVER - history->words)
		fail("%s: too much for one history", history->capture->path);
	*list_add(&history->stretches) = (struct stretch) {
		.offset = from, .length = to - from, .word = history->words, .words = words, .last = NEVER,
	};
	history->words += words;
}

static void find_stretches(struct history *history)
{
	mark_list marks = { };
	int depth = 0;

	for (size_t i = 0; i < history->requests.n; i++)
		mark_request(&marks, &history->requests.v[i]);
	for (size_t i = 0; i < history->rules->polled.n; i++)
		mark_run(&marks, history->rules->polled.v[i].offset, history->rules->polled.v[i].length, false);
	if (marks.n)
		qsort(marks.v, marks.n, sizeof(*marks.v), by_offset);
	for (size_t i = 0; i < marks.n; i++) {
		if (depth && marks.v[i].offset != marks.v[i - 1].offset)
			add_stretch(history, marks.v[i - 1].offset, marks.v[i].offset);
		depth += marks.v[i].depth;
	}
	free(marks.v);
}

uint32_t history_stretch_at(const struct history *history, uint64_t offset)
{
	uint32_t low = 0, high = history->stretches.n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct stretch *stretch = &history->stretches.v[middle];

		if (stretch->offset + stretch->length <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t history_word(const struct history *history, uint64_t offset)
{
	uint32_t s = history_stretch_at(history, offset);

	if (s == history->stretches.n || history->stretches.v[s].offset > offset ||
	    (offset - history->stretches.v[s].offset) % WORD)
		return NEVER;
	return history->stretches.v[s].word + (offset - history->stretches.v[s].offset) / WORD;
}

uint32_t history_stretch_of(const struct history *history, uint32_t word)
{
	uint32_t low = 0, high = history->stretches.n;

	while (low + 1 < high) {
		uint32_t middle = low + (high - low) / 2;

		if (history->stretches.v[middle].word <= word)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Stretches whose newest updates of one QP no FLUSH covers yet. */
typedef LIST(uint32_t) open_list;

/* What a stretch held before @request stores to it as the first. */
static const uint8_t *bytes_before(const struct history *history, const struct request *request,
				   uint64_t offset)
{
	const struct before *before = history->before;
	bool early = before->booted && request->packet->end <= before->copied;

	return (early ? before->booted : before->ready) + offset;
}

/* What the stretch holds, which is one word or a part of one, after the stores that are known so far. */
static const void *newest_bytes(const struct history *history, const struct stretch *stretch)
{
	return stretch->last == NEVER ? stretch->start : (const void *)&history->updates.v[stretch->last].value;
}

/* The request stores @bytes to the stretch, and to @mask of each word. */
static void store(struct history *history, uint32_t index, uint32_t s, const uint8_t *bytes, uint8_t mask, open_list *open)
{
	struct stretch *stretch = &history->stretches.v[s];
	struct update update = {
		.stretch = s, .request = index, .bytes = bytes, .mask = mask, .covered = NEVER, .settled = NEVER,
		.before = stretch->last,
	};

	if (history->updates.n >= NEVER - 1)
		fail("%s: too much for one history", history->capture->path);
	if (!stretch->start)
		stretch->start = bytes_before(history, &history->requests.v[index], stretch->offset);
	if (stretch->words == 1) {
		update.value = 0;
		memcpy(&update.value, bytes, stretch->length);
	}
	stretch->last = history->updates.n;
	stretch->n++;
	history->stores += stretch->words;
	*list_add(&history->updates) = update;
	if (history->cpu != NEVER || history->rules->visible)
		*list_add(&history->written_back) = NEVER;
	*list_add(open) = s;
}

/* Those of the word of the stretch that are among the @length from @place on; of several words, all. */
static uint8_t part_of(const struct stretch *stretch, uint64_t place, uint64_t length)
{
	uint64_t word = stretch->offset / WORD * WORD;
	uint8_t part = 0;

	if (stretch->words > 1)
		return 0xff;
	for (unsigned int i = 0; i < WORD; i++)
		if (word + i >= place && word + i - place < length)
			part |= 1 << i;
	return part;
}

/* @length bytes from @place on, which is where a stretch begins. */
static void store_bytes(struct history *history, uint32_t index, uint64_t place, const uint8_t *bytes, uint64_t length,
			open_list *open)
{
	uint32_t s = history_stretch_at(history, place);

	for (uint64_t done = 0; done < length; s++) {
		const struct stretch *stretch = &history->stretches.v[s];

		store(history, index, s, bytes + done, part_of(stretch, place, length), open);
		done += stretch->length;
	}
}

/* The request stores what is in persistent memory of the @length bytes at its VA. */
static void store_run(struct history *history, uint32_t index, const uint8_t *bytes, uint32_t length,
		      open_list *open)
{
	struct request *request = &history->requests.v[index];
	uint64_t va, run, place;

	if (!length || !request->region)
		return;
	for (size_t i = 0; region_run(request->region, request->va, length, i, &va, &run, &place); i++)
		store_bytes(history, index, place, bytes + (va - request->va), run, open);
}

/* What a word holds that no power failure has taken, before @request stores to it. */
static uint64_t newest_value(struct history *history, const struct request *request, uint64_t place)
{
	uint64_t value;

	for (uint32_t s = history_stretch_at(history, place), done = 0; done < WORD; s++) {
		struct stretch *stretch = &history->stretches.v[s];

		if (!stretch->start)
			stretch->start = bytes_before(history, request, stretch->offset);
		memcpy((uint8_t *)&value + done, newest_bytes(history, stretch), stretch->length);
		done += stretch->length;
	}
	return value;
}

/* Its answer tells what was there; without one, what the requests before it left. */
static void store_atomic(struct history *history, uint32_t index, open_list *open)
{
	struct request *request = &history->requests.v[index];
	const struct packet *packet = request->packet;
	uint64_t va, run, place, old, new;

	if (!region_run(request->region, request->va, WORD, 0, &va, &run, &place) || run != WORD ||
	    place % WORD)
		return;
	old = le64toh(newest_value(history, request, place));
	if (request->answer)
		old = request->answer->original;
	if (packet->opcode == ROCE_RC_CMP_SWAP && old != packet->compare)
		return;
	new = htole64(packet->opcode == ROCE_RC_FETCH_ADD ? old + packet->swap_or_add : packet->swap_or_add);
	store_bytes(history, index, place, (uint8_t *)&new, WORD, open);
}

/*
 * "Writes to the same R_Key, wholly inside the range": the narrowest that the specification can mean.  A WRITE of
 * several packets is one WRITE.
 */
static bool covers_strictly(const struct history *history, const struct request *flush, uint32_t index)
{
	const struct request *store = &history->requests.v[history->requests.v[index].message];
	const struct packet *first = store->packet;

	return flush->rkey == store->rkey && first->va >= flush->va &&
	       first->va - flush->va <= flush->length &&
	       first->length <= flush->length - (first->va - flush->va);
}

/* The flush covers what its QP did to the bytes from @place on.  One for global visibility only says that it is there. */
static void cover_stretch(struct history *history, struct request *flush, uint32_t s, uint64_t place,
			  uint64_t length)
{
	uint8_t held = part_of(&history->stretches.v[s], place, length);

	for (uint32_t u = history->stretches.v[s].last; u != NEVER; u = history->updates.v[u].before) {
		struct update *update = &history->updates.v[u];

		if (history->requests.v[update->request].flow != flush->flow)
			continue;
		if (update->covered != NEVER)
			break;
		if (update->mask & ~held)
			continue;
		if (flush->packet->opcode == ROCE_RC_FLUSH && !covers_strictly(history, flush, update->request)) {
			if (history->rules->strict)
				continue;
			history->loosely += history->stretches.v[s].words;
		}
		if (flush->answer)
			settle_update(update, flush->answer->moment);
		if (!flush->flush)
			continue;
		update->covered = flush->flush;
		*list_add(&flush->covers) = u;
	}
}

/* True if the newest update of @flow is not covered. */
static bool is_open(const struct history *history, uint32_t s, uint32_t flow)
{
	for (uint32_t u = history->stretches.v[s].last; u != NEVER; u = history->updates.v[u].before)
		if (history->requests.v[history->updates.v[u].request].flow == flow)
			return history->updates.v[u].covered == NEVER;
	return false;
}

/* A READ pushes all before it, wherever that goes. */
static void cover_all(struct history *history, struct request *read, open_list *open)
{
	for (size_t o = 0; o < open->n; o++)
		cover_stretch(history, read, open->v[o], 0, UINT64_MAX);
	open->n = 0;
}

/* A FLUSH pushes what it names. */
static void cover_named(struct history *history, uint32_t index, open_list *open)
{
	struct request *flush = &history->requests.v[index];
	uint64_t va, run, place;
	uint32_t from, to, s;

	for (size_t i = 0;
	     region_run(flush->region, flush->va, flush->length, i, &va, &run, &place); i++) {
		from = history_stretch_at(history, place);
		to = history_stretch_at(history, (place + run + WORD - 1) / WORD * WORD);
		if (to - from <= open->n) {
			for (s = from; s < to; s++)
				cover_stretch(history, flush, s, place, run);
			continue;
		}
		for (size_t o = 0; o < open->n;) {
			s = open->v[o];
			if (s >= from && s < to)
				cover_stretch(history, flush, s, place, run);
			if (!flush->flush || is_open(history, s, flush->flow))
				o++;
			else
				open->v[o] = open->v[--open->n];
		}
	}
}

/* The updates of a thread that its next fence makes durable. */
typedef LIST(uint32_t) update_list;

/* Does the CPU see it at @moment, whatever the program may know of it? */
static bool is_visible(const struct history *history, const struct update *update, unsigned int moment)
{
	const struct request *request = &history->requests.v[update->request];
	const struct flow *flow = &history->flows.v[request->flow];
	size_t low = 0, high = flow->completes.n;

	if (is_cpu(request) || history->rules->in_order)
		return true;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (history->requests.v[flow->completes.v[middle]].psn < request->psn)
			low = middle + 1;
		else
			high = middle;
	}
	return low < flow->completes.n && history->requests.v[flow->completes.v[low]].packet->moment <= moment;
}

/* All that the line holds now, whatever stored it.  What is older than an update that a fence has covered is durable. */
static void write_back(const struct history *history, const struct request *request, update_list *pending)
{
	uint32_t s = history->rules->visible ? history->stretches.n : history_stretch_at(history, request->va);

	for (; s < history->stretches.n && history->stretches.v[s].offset < request->va + CPU_LINE; s++)
		for (uint32_t u = history->stretches.v[s].last; u != NEVER; u = history->updates.v[u].before) {
			if (history->written_back.v[u] != NEVER)
				break;
			if (is_visible(history, &history->updates.v[u], request->packet->moment))
				*list_add(pending) = u;
		}
}

/* The request of the CPU makes these durable. */
static void make_durable(struct history *history, uint32_t index, update_list *pending)
{
	struct request *request = &history->requests.v[index];
	struct flow *flow = &history->flows.v[history->cpu];

	for (size_t i = 0; i < pending->n; i++) {
		struct update *update = &history->updates.v[pending->v[i]];

		if (history->written_back.v[pending->v[i]] != NEVER)
			continue;
		if (!request->flush) {
			request->flush = ++flow->flushes;
			request->answer = request->packet;
			*list_add(&flow->flush) = index;
		}
		history->written_back.v[pending->v[i]] = request->flush;
		settle_update(update, request->packet->moment);
		if (history->requests.v[update->request].flow == history->cpu)
			update->covered = request->flush;
		*list_add(&request->covers) = pending->v[i];
	}
	pending->n = 0;
}

static void apply_cpu(struct history *history, uint32_t index, update_list *threads, open_list *open)
{
	struct request *request = &history->requests.v[index];
	update_list *pending = &threads[request->packet->qpn], now = { };

	request->flushes_before = history->flows.v[history->cpu].flushes;
	request->first_update = history->updates.n;
	switch (request->packet->opcode) {
	case CPU_STORE:
	case CPU_VECTOR_STORE:
	case CPU_NT_STORE:
		store_run(history, index, request->packet->payload, request->length, open);
		open->n = 0;
		request->updates = history->updates.n - request->first_update;
		/* Either goes past the caches, or these survive. */
		for (uint32_t u = 0; u < request->updates; u++)
			if (history->rules->global)
				*list_add(&now) = request->first_update + u;
			else if (request->packet->opcode == CPU_NT_STORE)
				*list_add(pending) = request->first_update + u;
		break;
	case CPU_CLWB:
	case CPU_CLFLUSHOPT:
		write_back(history, request, pending);
		break;
	case CPU_CLFLUSH:
		write_back(history, request, &now);
		break;
	default:
		make_durable(history, index, pending);
	}
	make_durable(history, index, &now);
	free(now.v);
}

static void apply(struct history *history, uint32_t index, open_list *open)
{
	struct request *request = &history->requests.v[index];
	struct flow *flow = &history->flows.v[request->flow];

	request->flushes_before = flow->flushes;
	request->first_update = history->updates.n;
	switch (request->packet->opcode) {
	case ROCE_RC_SEND_FIRST ... ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
		history->somewhere += request->somewhere;
		store_run(history, index, request->packet->payload, request->length, open);
		break;
	case ROCE_RC_WRITE_FIRST ... ROCE_RC_WRITE_ONLY_IMM:
	case ROCE_RC_ATOMIC_WRITE:
		store_run(history, index, request->packet->payload, request->length, open);
		break;
	case ROCE_RC_READ_REQUEST:
		flow->reads += request->region && region_is_persistent(request->region);
		break;
	case ROCE_RC_CMP_SWAP:
	case ROCE_RC_FETCH_ADD:
		store_atomic(history, index, open);
		break;
	}
	if (is_flush(history, request)) {
		request->flush = ++flow->flushes;
		*list_add(&flow->flush) = index;
		if (request->packet->opcode == ROCE_RC_READ_REQUEST)
			cover_all(history, request, open);
	}
	if (request->packet->opcode == ROCE_RC_FLUSH && request->length)
		cover_named(history, index, open);
	history->requests.v[index].updates = history->updates.n -
					     history->requests.v[index].first_update;
}

static void sort_by_stretch(struct history *history)
{
	uint32_t at = 0;

	history->of_stretches = xcalloc(history->updates.n, sizeof(*history->of_stretches));
	for (size_t s = 0; s < history->stretches.n; s++) {
		history->stretches.v[s].first = at;
		at += history->stretches.v[s].n;
		history->stretches.v[s].n = 0;
		/* What an Atomic names that no target executes. */
		if (!history->stretches.v[s].start)
			history->stretches.v[s].start =
				history->before->ready + history->stretches.v[s].offset;
	}
	for (uint32_t u = 0; u < history->updates.n; u++) {
		struct stretch *stretch = &history->stretches.v[history->updates.v[u].stretch];

		history->updates.v[u].position = stretch->n;
		history->of_stretches[stretch->first + stretch->n++] = u;
	}
}

void history_read(struct history *history, const struct capture *capture, const struct memory *memory,
		  unsigned int targets, const struct before *before, const struct rules *rules)
{
	struct matching matching = { };
	packet_list *packets;
	update_list *threads;
	open_list *open;

	*history = (struct history){
		.capture = capture, .memory = memory, .targets = targets, .before = before, .rules = rules,
	};
	refuse_others(history);
	sort_packets(history, &matching);
	match_answers(history, &matching);
	packets = packets_of_flows(history, &matching);
	free_matching(history, &matching);
	for (uint32_t f = 0; f < history->flows.n; f++) {
		learn_mtu(history, &history->flows.v[f], &packets[f]);
		follow(history, &packets[f], f);
		free(packets[f].v);
	}
	free(packets);
	add_cpu_flow(history);
	completions_add(history);
	keep_taken(history);

	find_stretches(history);
	open = xcalloc(history->flows.n, sizeof(*open));
	threads = xcalloc(history->cpu == NEVER ? 0 : CPU_THREADS + 1, sizeof(*threads));
	for (uint32_t i = 0; i < history->requests.n; i++) {
		uint32_t flow = history->requests.v[i].flow;

		if (flow == history->cpu)
			apply_cpu(history, i, threads, &open[flow]);
		else
			apply(history, i, &open[flow]);
	}
	completions_find(history);
	for (size_t f = 0; f < history->flows.n; f++)
		free(open[f].v);
	free(open);
	for (size_t t = 0; threads && t <= CPU_THREADS && history->cpu != NEVER; t++)
		free(threads[t].v);
	free(threads);
	proofs_find(history);
	sort_by_stretch(history);
}

void history_needs_stores(const struct history *history)
{
	const struct capture *capture = history->capture;

	if (history->updates.n)
		return;
	if (!history->flows.n)
		fail("%s: nothing to check: the capture has %u frames, and no request to the target among them.  Does the initiator run, and connect to RXE_PEER_ADDR?",
		     capture->path, capture->frames);
	if (history->pulled)
		fail("%s: nothing to check: no request stored to persistent memory, and no packet tells where the target stores what its own READs or Atomics return, so a program that pulls cannot be judged",
		     capture->path);
	fail("%s: nothing to check: no request stored to persistent memory.  The target took %zu packets of requests.  Does it map /dev/%s, and register that?",
	     capture->path, history->requests.n, history->memory->device);
}

bool request_holds(const struct request *flush, uint64_t offset, uint8_t mask)
{
	uint64_t va, run, place;
	uint8_t held = 0;

	offset = offset / WORD * WORD;
	for (size_t i = 0; flush->region &&
	     region_run(flush->region, flush->va, flush->length, i, &va, &run, &place); i++)
		for (unsigned int b = 0; b < WORD; b++)
			if (offset + b >= place && offset + b - place < run)
				held |= 1 << b;
	return !(mask & ~held);
}

bool is_atomic(const struct request *request)
{
	return request->packet->opcode == ROCE_RC_FETCH_ADD || request->packet->opcode == ROCE_RC_CMP_SWAP;
}

/* Had an answer said that the first is there before the second came?  Then the initiator may have waited for that. */
static bool is_settled(const struct update *first, const struct request *second)
{
	return first->settled <= second->packet->moment;
}

bool history_race(const struct history *history, const struct update *first, const struct update *second)
{
	const struct request *a = &history->requests.v[first->request];
	const struct request *b = &history->requests.v[second->request];

	if (is_cpu(a) || (is_cpu(b) && is_visible(history, first, b->packet->moment)))
		return false;
	return a->flow != b->flow && !is_atomic(a) && !is_atomic(b) && !is_settled(first, b);
}

const struct memory *history_target(const struct history *history, uint64_t offset)
{
	unsigned int i = history->targets - 1;

	while (i && offset < history->memory[i].base)
		i--;
	return &history->memory[i];
}

const char *history_place(const struct history *history, uint64_t offset)
{
	static char text[4][64];
	static int next;
	char *t = text[next++ % 4];
	const struct memory *target = history_target(history, offset);
	int n = 0;

	if (history->targets > 1)
		n = snprintf(t, sizeof(text[0]), "target %u, ", (unsigned int)(target - history->memory + 1));
	snprintf(t + n, sizeof(text[0]) - n, "0x%" PRIx64, offset - target->base);
	return t;
}

void request_print_answered(const struct request *request, FILE *file)
{
	uint64_t va, run, place = request->region->base;

	region_run(request->region, request->va, request->length, 0, &va, &run, &place);
	fprintf(file, "%u %u %" PRIu64 " %u\n", request->packet->qpn, request->packet->psn,
		place - request->region->base, request->length);
}

const char *request_text(const struct request *request)
{
	static char text[4][128];
	static int next;
	char *t = text[next++ % 4];
	uint64_t va, run, place;
	const struct region *region = request->region;
	int n;

	if (is_cpu(request))
		n = snprintf(t, sizeof(text[0]), "%s by the CPU", opcode_name(request->packet->opcode));
	else
		n = snprintf(t, sizeof(text[0]), "%s psn %u", opcode_name(request->packet->opcode), request->packet->psn);
	if (region && region->target)
		n += snprintf(t + n, sizeof(text[0]) - n, " to target %u", region->target);
	if (region && region_run(region, request->va, request->length, 0, &va, &run, &place))
		snprintf(t + n, sizeof(text[0]) - n, " (0x%" PRIx64 " to 0x%" PRIx64 ")", place - region->base,
			 place - region->base + run);
	return t;
}

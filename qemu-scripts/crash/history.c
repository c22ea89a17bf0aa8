// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../selftests/rdma/rxe_mpe_roce.h"
#include "history.h"

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
	return opcode < 0x20;
}

/* A response that says: executed. */
static bool is_success(const struct packet *packet)
{
	return packet->opcode == ROCE_RC_READ_RESPONSE_MIDDLE ||
	       (packet->syndrome & ROCE_AETH_KIND_MASK) == ROCE_AETH_ACK;
}

/* A response that says: send this, and all behind it, again. */
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

/* The responses that go to one QP of an initiator. */
struct answers {
	struct address to;
	uint32_t qpn;
	uint16_t port;
	const struct packet *first;
	uint32_t flow;			/* that they answer, or NEVER */
};

struct matching {
	LIST(struct answers) answers;
	uint32_t *flow_of;		/* packet -> flow or answers; NEVER: none */
};

/* The source port that Linux gives both ends of a connection that has no flow label. */
static uint16_t port_of(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;

	v ^= v >> 20;
	v ^= v >> 40;
	return 0xc000 | ((v & 0x3fff) ^ (v & 0xfc000) >> 14);
}

static void sort_packets(struct history *history, struct matching *matching)
{
	const struct capture *capture = history->capture;

	for (size_t i = 0; i < capture->packets.n; i++) {
		const struct packet *packet = &capture->packets.v[i];
		size_t f;

		matching->flow_of[i] = NEVER;
		if (!is_reliable(packet->opcode) || packet->to_target == is_response(packet->opcode))
			continue;
		if (packet->to_target) {
			for (f = 0; f < history->flows.n; f++)
				if (history->flows.v[f].qpn == packet->qpn)
					break;
			if (f == history->flows.n)
				*list_add(&history->flows) = (struct flow) {
					.qpn = packet->qpn, .initiator = packet->from,
					.port = packet->port,
				};
		} else {
			for (f = 0; f < matching->answers.n; f++)
				if (matching->answers.v[f].qpn == packet->qpn &&
				    same_address(&matching->answers.v[f].to, &packet->to))
					break;
			if (f == matching->answers.n)
				*list_add(&matching->answers) = (struct answers) {
					.qpn = packet->qpn, .to = packet->to, .first = packet,
					.port = packet->port, .flow = NEVER,
				};
		}
		matching->flow_of[i] = f;
	}
}

/* Can all these responses be to requests of this flow?  Each must have come before. */
static bool can_answer(const struct history *history, const struct matching *matching,
		       uint32_t answers, uint32_t flow, uint8_t *asked)
{
	const struct capture *capture = history->capture;
	bool can = same_address(&matching->answers.v[answers].to,
				&history->flows.v[flow].initiator);

	memset(asked, 0, PSNS / 8);
	for (size_t i = 0; can && i < capture->packets.n; i++) {
		const struct packet *packet = &capture->packets.v[i];

		if (packet->to_target && matching->flow_of[i] == flow)
			asked[packet->psn / 8] |= 1 << packet->psn % 8;
		else if (!packet->to_target && matching->flow_of[i] == answers &&
			 !is_retry(packet) && packet->opcode != ROCE_RC_READ_RESPONSE_MIDDLE &&
			 packet->opcode != ROCE_RC_READ_RESPONSE_LAST)
			can = asked[packet->psn / 8] & 1 << packet->psn % 8;
	}
	return can;
}

/* A target's QP has one peer, so what fits nowhere else settles the rest. */
static void match_answers(struct history *history, struct matching *matching)
{
	size_t nf = history->flows.n, na = matching->answers.n, left = na;
	bool *can = xcalloc(nf * na, sizeof(bool));
	uint8_t *asked = xcalloc(1, PSNS / 8);
	bool by_port = false, progress;

	for (size_t a = 0; a < na; a++)
		for (size_t f = 0; f < nf; f++)
			can[a * nf + f] = can_answer(history, matching, a, f, asked);
	free(asked);

	while (left) {
		progress = false;
		for (size_t a = 0; a < na; a++) {
			struct answers *answers = &matching->answers.v[a];
			size_t found = 0, which = 0;

			if (answers->flow != NEVER)
				continue;
			for (size_t f = 0; f < nf; f++) {
				struct flow *flow = &history->flows.v[f];

				if (!can[a * nf + f] || flow->answers ||
				    (by_port && (flow->port != answers->port ||
						 flow->port != port_of(flow->qpn, answers->qpn))))
					continue;
				found++;
				which = f;
			}
			if (!found && !by_port)
				fail_at(history, answers->first,
					"what this answers is not in the capture: it has a gap");
			if (found != 1)
				continue;
			answers->flow = which;
			history->flows.v[which].answers = true;
			history->flows.v[which].peer_qpn = answers->qpn;
			progress = true;
			by_port = false;
			left--;
		}
		for (size_t a = 0; !progress && by_port && a < na; a++)
			if (matching->answers.v[a].flow == NEVER)
				fail_at(history, matching->answers.v[a].first,
					"it may answer one of several QPs, and nothing tells which");
		by_port = !progress;
	}
	free(can);
}

/* Payload of a packet that others follow is as long as the path MTU. */
static void learn_mtus(struct history *history, const struct matching *matching)
{
	for (size_t i = 0; i < history->capture->packets.n; i++) {
		const struct packet *packet = &history->capture->packets.v[i];
		uint32_t flow = matching->flow_of[i];

		if (flow != NEVER && !packet->to_target)
			flow = matching->answers.v[flow].flow;
		if (flow == NEVER)
			continue;
		switch (packet->opcode) {
		case ROCE_RC_SEND_FIRST:
		case ROCE_RC_SEND_MIDDLE:
		case ROCE_RC_WRITE_FIRST:
		case ROCE_RC_WRITE_MIDDLE:
		case ROCE_RC_READ_RESPONSE_FIRST:
		case ROCE_RC_READ_RESPONSE_MIDDLE:
			history->flows.v[flow].mtu = packet->payload_length;
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
	uint64_t expected;		/* PSN, going on behind 24 bits */
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
		if (packet->feth & 0x30 && (packet->feth & 0x30) != ROCE_FETH_SEL_MR)
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
	request->region = memory_region(history->memory, request->rkey);
	if (!request->region)
		return "its key was never registered, as far as the lab saw";
	if (packet->opcode == ROCE_RC_FLUSH && (packet->feth & 0x30) == ROCE_FETH_SEL_MR) {
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
		.write_left = r->write_left, .write_open = r->write_open,
	};

	request.odd = take_request(history, r, &request);
	*list_add(&r->flow->requests) = history->requests.n;
	*list_add(&history->requests) = request;
	r->expected += request.psns;
	r->read_open = packet->opcode == ROCE_RC_READ_REQUEST && !r->flow->mtu && packet->length > 256;
}

/*
 * How many PSNs a long READ took is unknown as long as nothing has told the path MTU.  The PSN of the
 * request behind it tells then.
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

/* The target has not got @psn: nor what came behind it.  The frame to go on behind, or 0. */
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
	/* Else it is a duplicate, or something before it is missing. */
	if (psn == r->expected)
		take(history, r, packet);
}

/* The request that a response is for: that which has its PSN. */
static struct request *request_of(struct history *history, const struct responder *r, uint64_t psn)
{
	size_t low = 0, high = r->flow->requests.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (history->requests.v[r->flow->requests.v[middle]].psn < psn)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == r->flow->requests.n)
		return NULL;
	return &history->requests.v[r->flow->requests.v[low]];
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
	request = request_of(history, r, psn);
	if (!request || request->psn != psn || request->answer)
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
	NAK_LATE,	/* it was on its way out when that packet came */
};

/*
 * All packets of one connection, in the order in which they passed the target's network card.  Returns
 * the packet that contradicts what the NAKs were taken for, or NULL.
 */
static const struct packet *follow_once(struct history *history, const struct matching *matching,
					struct responder *r, enum nak *naks, size_t *latest)
{
	const struct capture *capture = history->capture;

	for (size_t i = 0; i < capture->packets.n; i++) {
		const struct packet *packet = &capture->packets.v[i];
		uint32_t flow = matching->flow_of[i];
		unsigned int lost;
		uint64_t psn;

		if (flow != NEVER && !packet->to_target)
			flow = matching->answers.v[flow].flow;
		if (flow != r->index)
			continue;
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
			while (capture->packets.v[i].frame > lost)
				i--;
		}
	}
	return NULL;
}

/*
 * A NAK says that a packet which came had not got to the driver, or it was on its way out when that
 * came.  The first is taken for true until what follows contradicts it.
 */
static void follow(struct history *history, const struct matching *matching, uint32_t index)
{
	struct flow *flow = &history->flows.v[index];
	size_t n = history->capture->packets.n, before = history->requests.n, latest;
	enum nak *naks = xcalloc(n, sizeof(*naks));

	for (;;) {
		struct responder r = { .flow = flow, .index = index };
		const struct packet *wrong;

		flow->any_done = false;
		flow->requests.n = 0;
		history->requests.n = before;
		latest = n;
		wrong = follow_once(history, matching, &r, naks, &latest);
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

/* Requests of other services are followed by nobody. */
static void refuse_others(const struct history *history)
{
	for (size_t i = 0; i < history->capture->packets.n; i++) {
		const struct packet *packet = &history->capture->packets.v[i];
		const struct region *region;

		if (!packet->to_target || is_reliable(packet->opcode))
			continue;
		if (packet->opcode >= 0xa0 && packet->opcode < 0xc0)
			fail_at(history, packet, "XRC is not followed");
		region = packet->has_reth ? memory_region(history->memory, packet->rkey) : NULL;
		if (region && region_is_persistent(region))
			fail_at(history, packet, "it goes to persistent memory by an unreliable connection, which is not followed");
	}
}

static int by_frame(const void *a, const void *b)
{
	unsigned int x = ((const struct request *)a)->packet->frame;
	unsigned int y = ((const struct request *)b)->packet->frame;

	return x < y ? -1 : x > y;
}

/*
 * Leaves of all requests those that were taken, in the order in which they came.  What a target has
 * to refuse but answered cannot be followed.
 */
static void keep_taken(struct history *history)
{
	size_t n = 0, total = 0;
	struct request *taken;

	for (size_t f = 0; f < history->flows.n; f++)
		total += history->flows.v[f].requests.n;
	taken = xcalloc(total, sizeof(*taken));
	for (size_t f = 0; f < history->flows.n; f++) {
		struct flow *flow = &history->flows.v[f];

		for (size_t i = 0; i < flow->requests.n; i++) {
			const struct request *request = &history->requests.v[flow->requests.v[i]];

			/* No answer to it was seen: nor has it taken what is behind. */
			if (request->odd && !(flow->any_done && request->psn <= flow->done))
				break;
			if (request->odd)
				fail_at(history, request->packet, "%s, and yet the target did not refuse it",
					request->odd);
			taken[n++] = *request;
		}
		flow->requests.n = 0;
	}
	free(history->requests.v);
	history->requests.v = taken;
	history->requests.n = history->requests.room = n;
	qsort(taken, n, sizeof(*taken), by_frame);
	for (size_t i = 0; i < n; i++)
		*list_add(&history->flows.v[taken[i].flow].requests) = i;
}

/******************************************************************************
 * What did that do to the memory?
 */

/* Words whose newest updates of one QP no FLUSH covers yet. */
typedef LIST(uint32_t) open_words;

static size_t slot_of(const struct history *history, uint64_t offset)
{
	size_t slot = mix64(offset) & (history->table_size - 1);

	while (history->table[slot] != NEVER &&
	       history->words.v[history->table[slot]].offset != offset)
		slot = (slot + 1) & (history->table_size - 1);
	return slot;
}

uint32_t history_word(const struct history *history, uint64_t offset)
{
	return history->table[slot_of(history, offset)];
}

static void enlarge_table(struct history *history)
{
	if (history->words.n * 2 < history->table_size)
		return;
	history->table_size = history->table_size ? history->table_size * 2 : 1024;
	history->table = xrealloc(history->table, history->table_size * sizeof(*history->table));
	memset(history->table, 0xff, history->table_size * sizeof(*history->table));
	for (uint32_t w = 0; w < history->words.n; w++)
		history->table[slot_of(history, history->words.v[w].offset)] = w;
}

/* Of a word that nobody has stored to, before @request does so. */
static uint64_t value_before(const struct history *history, const struct request *request,
			     uint64_t offset)
{
	const struct before *before = history->before;
	bool early = before->booted && request->packet->end <= before->copied;
	uint64_t value;

	memcpy(&value, (early ? before->booted : before->ready) + offset, WORD);
	return value;
}

/* The word at @offset, which @request stores to. */
static uint32_t add_word(struct history *history, const struct request *request, uint64_t offset)
{
	size_t slot;

	enlarge_table(history);
	slot = slot_of(history, offset);
	if (history->table[slot] == NEVER) {
		struct word word = {
			.offset = offset, .start = value_before(history, request, offset),
			.last = NEVER,
		};

		history->table[slot] = history->words.n;
		*list_add(&history->words) = word;
	}
	return history->table[slot];
}

static uint64_t newest_value(const struct history *history, const struct word *word)
{
	return word->last == NEVER ? word->start : history->updates.v[word->last].value;
}

/* The request stores @length bytes, which are all in one word, at @place. */
static void store(struct history *history, uint32_t request, uint64_t place, const uint8_t *bytes,
		  size_t length, open_words *open)
{
	uint32_t w = add_word(history, &history->requests.v[request],
			      place & ~(uint64_t)(WORD - 1));
	struct word *word = &history->words.v[w];
	struct update update = {
		.word = w, .request = request, .value = newest_value(history, word),
		.mask = ((1u << length) - 1) << place % WORD, .covered = NEVER,
		.before = word->last,
	};

	memcpy((uint8_t *)&update.value + place % WORD, bytes, length);
	if (history->updates.n >= NEVER - 1)
		fail("%s: too much for one history", history->capture->path);
	word->last = history->updates.n;
	word->n++;
	*list_add(&history->updates) = update;
	*list_add(open) = w;
}

/* The request stores what is in persistent memory of the @length bytes at its VA. */
static void store_run(struct history *history, uint32_t index, const uint8_t *bytes, uint32_t length,
		      open_words *open)
{
	struct request *request = &history->requests.v[index];
	uint64_t va, run, place, part;

	if (!length || !request->region)
		return;
	for (size_t i = 0; region_run(request->region, request->va, length, i, &va, &run, &place); i++)
		for (uint64_t done = 0; done < run; done += part) {
			part = WORD - (place + done) % WORD;
			if (part > run - done)
				part = run - done;
			store(history, index, place + done, bytes + (va - request->va) + done, part,
			      open);
		}
}

/* Its answer tells what was there; without one, what the requests before it left. */
static void store_atomic(struct history *history, uint32_t index, open_words *open)
{
	struct request *request = &history->requests.v[index];
	const struct packet *packet = request->packet;
	uint64_t va, run, place, old, new;
	uint32_t w;

	if (!region_run(request->region, request->va, WORD, 0, &va, &run, &place) || run != WORD ||
	    place % WORD)
		return;
	w = add_word(history, request, place);
	old = request->answer ? request->answer->original :
	      le64toh(newest_value(history, &history->words.v[w]));
	new = packet->opcode == ROCE_RC_FETCH_ADD ? old + packet->swap_or_add :
	      old == packet->compare ? packet->swap_or_add : old;
	new = htole64(new);
	store(history, index, place, (uint8_t *)&new, WORD, open);
}

/* FLUSH number @number of the QP covers what its QP did to the bytes from @place on. */
static void cover_word(struct history *history, struct request *flush, uint32_t w, uint64_t place,
		       uint64_t length)
{
	uint64_t offset = history->words.v[w].offset;
	uint8_t held = 0;

	for (unsigned int i = 0; i < WORD; i++)
		if (offset + i >= place && offset + i - place < length)
			held |= 1 << i;
	for (uint32_t u = history->words.v[w].last; u != NEVER; u = history->updates.v[u].before) {
		struct update *update = &history->updates.v[u];

		if (history->requests.v[update->request].flow != flush->flow)
			continue;
		if (update->covered != NEVER)
			break;
		if (update->mask & ~held)
			continue;
		update->covered = flush->flush;
		*list_add(&flush->covers) = u;
	}
}

/* True if the newest update of @flow is not covered. */
static bool is_open(const struct history *history, uint32_t w, uint32_t flow)
{
	for (uint32_t u = history->words.v[w].last; u != NEVER; u = history->updates.v[u].before)
		if (history->requests.v[history->updates.v[u].request].flow == flow)
			return history->updates.v[u].covered == NEVER;
	return false;
}

static void cover(struct history *history, uint32_t index, open_words *open)
{
	struct request *flush = &history->requests.v[index];
	uint64_t va, run, place, first, words;
	uint32_t w;

	for (size_t i = 0;
	     region_run(flush->region, flush->va, flush->length, i, &va, &run, &place); i++) {
		first = place & ~(uint64_t)(WORD - 1);
		words = (place + run - first + WORD - 1) / WORD;
		if (words <= open->n) {
			for (; words; words--, first += WORD) {
				w = history_word(history, first);
				if (w != NEVER)
					cover_word(history, flush, w, place, run);
			}
			continue;
		}
		for (size_t o = 0; o < open->n;) {
			w = open->v[o];
			if (history->words.v[w].offset + WORD > place &&
			    history->words.v[w].offset < place + run)
				cover_word(history, flush, w, place, run);
			if (is_open(history, w, flush->flow))
				o++;
			else
				open->v[o] = open->v[--open->n];
		}
	}
}

static void apply(struct history *history, uint32_t index, open_words *open)
{
	struct request *request = &history->requests.v[index];
	struct flow *flow = &history->flows.v[request->flow];

	request->flushes_before = flow->flushes;
	request->first_update = history->updates.n;
	switch (request->packet->opcode) {
	case ROCE_RC_SEND_FIRST ... ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
		history->sends += request->packet->payload_length > 0;
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
	case ROCE_RC_FLUSH:
		if (!(request->packet->feth & ROCE_FETH_PLT_PERSISTENT))
			break;
		request->flush = ++flow->flushes;
		*list_add(&flow->flush) = index;
		if (request->length)
			cover(history, index, open);
		break;
	}
	history->requests.v[index].updates = history->updates.n -
					     history->requests.v[index].first_update;
}

static void sort_by_word(struct history *history)
{
	uint32_t at = 0;

	history->of_words = xcalloc(history->updates.n, sizeof(*history->of_words));
	for (size_t w = 0; w < history->words.n; w++) {
		history->words.v[w].first = at;
		at += history->words.v[w].n;
		history->words.v[w].n = 0;
	}
	for (uint32_t u = 0; u < history->updates.n; u++) {
		struct word *word = &history->words.v[history->updates.v[u].word];

		history->updates.v[u].position = word->n;
		history->of_words[word->first + word->n++] = u;
	}
}

void history_read(struct history *history, const struct capture *capture,
		  const struct memory *memory, const struct before *before)
{
	struct matching matching = { };
	open_words *open;

	*history = (struct history){ .capture = capture, .memory = memory, .before = before };
	matching.flow_of = xcalloc(capture->packets.n, sizeof(*matching.flow_of));
	refuse_others(history);
	sort_packets(history, &matching);
	match_answers(history, &matching);
	learn_mtus(history, &matching);
	for (uint32_t f = 0; f < history->flows.n; f++)
		follow(history, &matching, f);
	free(matching.flow_of);
	free(matching.answers.v);
	keep_taken(history);

	enlarge_table(history);
	open = xcalloc(history->flows.n, sizeof(*open));
	for (uint32_t i = 0; i < history->requests.n; i++)
		apply(history, i, &open[history->requests.v[i].flow]);
	for (size_t f = 0; f < history->flows.n; f++)
		free(open[f].v);
	free(open);
	sort_by_word(history);
}

void history_needs_stores(const struct history *history)
{
	const struct capture *capture = history->capture;

	if (history->words.n)
		return;
	if (!history->flows.n)
		fail("%s: nothing to check: the capture has %u frames, and no request to the target among them.  Does the initiator run, and connect to RXE_PEER_ADDR?",
		     capture->path, capture->frames);
	fail("%s: nothing to check: no request stored to persistent memory.  The target took %zu packets of requests.  Does it map /dev/%s, and register that?",
	     capture->path, history->requests.n, history->memory->device);
}

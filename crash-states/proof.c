// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "proof.h"

#define NEWEST	64	/* stores to a word that a READ may have found */

/* UD, to QP 1: a datagram of the connection manager. */
#define UD_SEND_ONLY	0x64
#define QP_OF_MANAGER	1
#define DETH_BYTES	8
#define MAD_HEAD	24
#define MAD_CLASS	1	/* places in it */
#define MAD_ATTRIBUTE	16
#define CLASS_CM	7
#define ATTRIBUTE_DREQ	0x15
#define ATTRIBUTE_DREP	0x16

static void prove(struct request *request, unsigned int moment)
{
	if (moment < request->proven)
		request->proven = moment;
}

/******************************************************************************
 * The end of a connection
 */

/* What the datagram has after its head, if it has this attribute; otherwise NULL. */
static const uint8_t *manager_says(const struct packet *packet, uint8_t attribute)
{
	const uint8_t *mad = packet->payload + DETH_BYTES;

	if (packet->opcode != UD_SEND_ONLY || packet->qpn != QP_OF_MANAGER ||
	    packet->payload_length < DETH_BYTES + MAD_HEAD + 12 || mad[MAD_CLASS] != CLASS_CM ||
	    mad[MAD_ATTRIBUTE] || mad[MAD_ATTRIBUTE + 1] != attribute)
		return NULL;
	return mad + MAD_HEAD;
}

/* It has the identifiers of both ends, its own first. */
static bool answers_dreq(const uint8_t *drep, const uint8_t *dreq)
{
	return drep && !memcmp(drep, dreq + 4, 4) && !memcmp(drep + 4, dreq, 4);
}

/* The moment when the target answered the DREQ of packet @n, or NEVER. */
static unsigned int find_drep(const struct capture *capture, size_t n, const uint8_t *dreq)
{
	for (size_t i = n + 1; i < capture->packets.n; i++) {
		const struct packet *packet = &capture->packets.v[i];

		if (!packet->to_target && packet->target == capture->packets.v[n].target &&
		    answers_dreq(manager_says(packet, ATTRIBUTE_DREP), dreq))
			return packet->moment;
	}
	return NEVER;
}

/* A DREQ names the QP at its receiver. */
static void end_flow(struct history *history, size_t n, const uint8_t *dreq)
{
	const struct packet *packet = &history->capture->packets.v[n];
	uint32_t qpn = get32(dreq + 8) >> 8;

	for (size_t f = 0; f < history->flows.n; f++) {
		struct flow *flow = &history->flows.v[f];

		if (f == history->cpu || flow->target != packet->target || flow->ended != NEVER)
			continue;
		if (packet->to_target && flow->qpn == qpn && flow->left == NEVER)
			flow->left = packet->moment;
		if (packet->to_target && flow->qpn == qpn)
			flow->ended = find_drep(history->capture, n, dreq);
		else if (!packet->to_target && flow->answers && flow->peer_qpn == qpn &&
			 !memcmp(&flow->initiator, &packet->to, sizeof(packet->to)))
			flow->ended = packet->moment;
	}
}

static void find_ends(struct history *history)
{
	const struct capture *capture = history->capture;

	for (size_t i = 0; i < capture->packets.n; i++) {
		const uint8_t *dreq = manager_says(&capture->packets.v[i], ATTRIBUTE_DREQ);

		if (dreq)
			end_flow(history, i, dreq);
	}
}

/******************************************************************************
 * What was found in a word
 */

/* The update's bytes of its stretch. */
static const uint8_t *bytes_of(const struct history *history, const struct update *update)
{
	return history->stretches.v[update->stretch].words == 1 ? (const uint8_t *)&update->value : update->bytes;
}

/*
 * An answer at @moment to @by, an Atomic or NULL, has found @found in the word, or the part of one, that is @at bytes from the
 * start of stretch @s.  If one store alone can have given it that, this was executed, and its request is returned; otherwise
 * NEVER.  Those before the newest few are over.
 */
static uint32_t find_store(struct history *history, uint32_t s, uint64_t at, const uint8_t *found, unsigned int moment,
			   const struct request *by)
{
	const struct stretch *stretch = &history->stretches.v[s];
	size_t length = word_length(stretch), looked = 0;
	struct update *only = NULL;

	for (uint32_t u = stretch->last; u != NEVER && looked < NEWEST; u = history->updates.v[u].before) {
		struct update *update = &history->updates.v[u];

		const struct request *request = &history->requests.v[update->request];

		if (request->packet->moment > moment || request == by)
			continue;
		looked++;
		if (memcmp(bytes_of(history, update) + at, found, length))
			continue;
		if (only)
			return NEVER;
		only = update;
	}
	if (!only || (looked < NEWEST && !memcmp(stretch->start + at, found, length)))
		return NEVER;
	settle_update(only, moment);
	prove(&history->requests.v[only->request], moment);
	return only->request;
}

/* The same of all that lies in the @length bytes at @place. */
static void find_stores(struct history *history, uint64_t place, const uint8_t *found, uint64_t length, unsigned int moment)
{
	for (uint32_t s = history_stretch_at(history, place);
	     s < history->stretches.n && history->stretches.v[s].offset < place + length; s++) {
		const struct stretch *stretch = &history->stretches.v[s];
		uint64_t from = stretch->offset < place ? (place - stretch->offset + WORD - 1) / WORD * WORD : 0;

		for (uint64_t at = from; stretch->last != NEVER && at < stretch->length; at += WORD)
			if (stretch->offset + at + word_length(stretch) <= place + length)
				find_store(history, s, at, found + (stretch->offset + at - place), moment, NULL);
	}
}

static void look_at_returned(struct history *history, const struct returned *returned)
{
	const struct packet *packet = returned->packet;
	uint64_t va, run, place;

	for (size_t i = 0; returned->region &&
	     region_run(returned->region, returned->va, packet->payload_length, i, &va, &run, &place); i++)
		find_stores(history, place, packet->payload + (va - returned->va), run, packet->moment);
}

/* In the order in which they came, so that an Atomic that this one found has its base. */
static void look_at_atomic(struct history *history, struct request *request)
{
	uint64_t va, run, place, found = htole64(request->answer->original);
	uint32_t s;

	if (!region_run(request->region, request->va, WORD, 0, &va, &run, &place) || run != WORD || place % WORD)
		return;
	s = history_stretch_at(history, place);
	/* What it found in parts has no base. */
	if (s == history->stretches.n || history->stretches.v[s].offset > place || history->stretches.v[s].length % WORD)
		return;
	request->base = find_store(history, s, place - history->stretches.v[s].offset, (uint8_t *)&found,
				   request->answer->moment, request);
	request->found = request->base;
	if (request->base != NEVER && is_atomic(&history->requests.v[request->base]))
		request->base = history->requests.v[request->base].base;
}

/******************************************************************************
 * One QP
 */

/* Do all stores of its QP before it precede it, when it is executed? */
static bool follows_all(const struct request *request)
{
	return request->packet->opcode == ROCE_RC_READ_REQUEST || request->packet->opcode == ROCE_RC_ATOMIC_WRITE ||
	       is_atomic(request);
}

static void settle_flow(struct history *history, const struct flow *flow)
{
	unsigned int all = flow->ended;

	for (size_t i = flow->requests.n; i--;) {
		struct request *request = &history->requests.v[flow->requests.v[i]];

		if (follows_all(request)) {
			if (request->answer)
				prove(request, request->answer->moment);
			if (request->proven < all)
				all = request->proven;
		}
		for (uint32_t u = 0; u < request->updates; u++)
			settle_update(&history->updates.v[request->first_update + u], all);
	}
}

/* A READ of long ago may have been the first that saw what another QP stored, so look at these first. */
void proofs_find(struct history *history)
{
	for (size_t i = 0; i < history->returned.n; i++)
		look_at_returned(history, &history->returned.v[i]);
	for (size_t i = 0; i < history->requests.n; i++)
		if (is_atomic(&history->requests.v[i]) && history->requests.v[i].answer && history->requests.v[i].region)
			look_at_atomic(history, &history->requests.v[i]);
	find_ends(history);
	for (size_t f = 0; f < history->flows.n; f++)
		if (f != history->cpu)
			settle_flow(history, &history->flows.v[f]);
}

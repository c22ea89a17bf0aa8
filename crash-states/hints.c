// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "hints.h"
#include "model.h"

#define NEAR	64	/* so many requests before a FLUSH are looked at */
#define SHOWN	3	/* hints of a kind */

/* One QP, request by request. */
struct look {
	const struct history *history;
	hint_list *hints;
	LIST(uint32_t) pending;		/* updates since the last ATOMIC WRITE */
	bool sent;			/* a SEND came, and nothing tells where it stored */
};

static const struct request *request_at(const struct history *history, uint32_t index)
{
	return &history->requests.v[index];
}

/* Can its loss be seen? */
static bool changes(const struct history *history, const struct update *update)
{
	int32_t position = update->position;

	return memcmp(stretch_bytes(history, update->stretch, position),
		      stretch_bytes(history, update->stretch, position - 1),
		      history->stretches.v[update->stretch].length);
}

/* May the ATOMIC WRITE be left without the update?  What it replaces itself does not count. */
static bool may_be_missing(const struct history *history, const struct update *update,
			   const struct request *atomic_write)
{
	return (update->covered == NEVER || update->covered > atomic_write->flushes_before) &&
	       history->stretches.v[update->stretch].offset / WORD !=
		       history->stretches.v[history->updates.v[atomic_write->first_update].stretch].offset / WORD &&
	       changes(history, update);
}

static void look_at_atomic_write(struct look *look, uint32_t index)
{
	const struct history *history = look->history;
	struct hint hint = { .kind = HINT_NOT_COVERED, .request = index, .other = NEVER };
	uint32_t last = NEVER;

	for (size_t p = 0; p < look->pending.n; p++) {
		const struct update *update = &history->updates.v[look->pending.v[p]];
		uint32_t message = request_at(history, update->request)->message;

		if (message == last || !may_be_missing(history, update, request_at(history, index)))
			continue;
		last = message;
		if (hint.other == NEVER)
			hint.other = update->request;
		else
			hint.more++;
	}
	look->pending.n = 0;
	if (hint.other != NEVER)
		*list_add(look->hints) = hint;
}

/* Does the FLUSH name what the request stored first? */
static bool names(const struct history *history, const struct request *flush, const struct request *request)
{
	const struct update *update = &history->updates.v[request->first_update];

	return request->updates &&
	       request_holds(flush, history->stretches.v[update->stretch].offset, update->mask);
}

/* Has a FLUSH of its own QP come before @moment that covers what the request stored first? */
static bool was_covered(const struct history *history, const struct request *request, unsigned int moment)
{
	uint32_t covered = history->updates.v[request->first_update].covered;

	return covered != NEVER &&
	       request_at(history, history->flows.v[request->flow].flush.v[covered - 1])->packet->moment < moment;
}

/* The store of another QP, shortly before the FLUSH, that it was meant for; or NEVER */
static uint32_t named_of_another_qp(const struct history *history, uint32_t index)
{
	const struct request *flush = request_at(history, index);

	for (uint32_t i = index; i-- && index - i <= NEAR;) {
		const struct request *request = request_at(history, i);

		if (request->flow != flush->flow && names(history, flush, request) &&
		    !is_cpu(request) && !was_covered(history, request, flush->packet->moment))
			return i;
	}
	return NEVER;
}

/* The store of its own QP, between the FLUSH and the next one, that it was meant for; or NEVER */
static uint32_t named_after(const struct history *history, const struct flow *flow, size_t place)
{
	const struct request *flush = request_at(history, flow->requests.v[place]);

	for (size_t i = place + 1; i < flow->requests.n; i++) {
		const struct request *request = request_at(history, flow->requests.v[i]);

		if (request->flush)
			break;
		if (names(history, flush, request))
			return flow->requests.v[i];
	}
	return NEVER;
}

static void look_at_empty_flush(struct look *look, const struct flow *flow, size_t place)
{
	struct hint hint = { .kind = HINT_BEFORE, .request = flow->requests.v[place] };

	hint.other = named_after(look->history, flow, place);
	if (hint.other == NEVER) {
		hint.other = named_of_another_qp(look->history, hint.request);
		hint.kind = hint.other == NEVER ? HINT_NOTHING : HINT_OTHER_QP;
	}
	*list_add(look->hints) = hint;
}

static void look_at_request(struct look *look, const struct flow *flow, size_t place)
{
	const struct request *request = request_at(look->history, flow->requests.v[place]);

	if (request->packet->opcode == ROCE_RC_ATOMIC_WRITE && request->updates)
		look_at_atomic_write(look, flow->requests.v[place]);
	/* It may be for what a SEND stored. */
	look->sent |= request->somewhere;
	if (request->flush && !request->covers.n && !look->sent)
		look_at_empty_flush(look, flow, place);
	if (request->changed)
		*list_add(look->hints) = (struct hint){
			.kind = HINT_CHANGED, .request = flow->requests.v[place], .other = NEVER,
		};
	for (uint32_t u = 0; u < request->updates; u++)
		*list_add(&look->pending) = request->first_update + u;
}

static void look_at_flow(const struct history *history, const struct flow *flow, hint_list *hints)
{
	struct look look = { .history = history, .hints = hints };

	for (size_t i = 0; i < flow->requests.n; i++)
		look_at_request(&look, flow, i);
	free(look.pending.v);
}

static void look_at_stretch(const struct history *history, uint32_t s, hint_list *hints)
{
	const struct stretch *stretch = &history->stretches.v[s];

	for (uint32_t position = 1; position < stretch->n; position++) {
		const struct update *first = stretch_update(history, s, position - 1);
		const struct update *second = stretch_update(history, s, position);

		if (is_cpu(request_at(history, second->request)) || !history_race(history, first, second))
			continue;
		*list_add(hints) = (struct hint){
			HINT_TWO_QPS, second->request, first->request, 0, stretch->offset,
		};
		return;
	}
}

void hints_find(const struct history *history, hint_list *hints)
{
	for (size_t f = 0; f < history->flows.n; f++)
		if (f != history->cpu)
			look_at_flow(history, &history->flows.v[f], hints);
	for (uint32_t s = 0; s < history->stretches.n; s++)
		look_at_stretch(history, s, hints);
}

/* What to do about those of a kind. */
static const char *const advice[HINTS] = {
	[HINT_NOT_COVERED] = "A power failure may leave the ATOMIC WRITE without the store.  If it relies on that, send a FLUSH between the two.",
	[HINT_OTHER_QP] = "A FLUSH speaks for its own QP only.  Send it on the QP of the store.",
	[HINT_BEFORE] = "A FLUSH covers what precedes it.  Send it after the store.",
	[HINT_NOTHING] = "No store of its QP lies wholly in its range, unless an earlier FLUSH covers that.",
	[HINT_CHANGED] = "The program changed its buffer before the completion.  The target may have taken either; the first bytes are taken here.",
	[HINT_TWO_QPS] = "QPs do not wait for each other: the bytes of either may be left.  Wait for the answer to a FLUSH of the first, or to an ATOMIC WRITE, READ or Atomic after it.",
};

static void print_hint(const struct history *history, const struct hint *hint, FILE *file)
{
	const struct request *request = request_at(history, hint->request);
	const struct request *other = hint->other == NEVER ? NULL : request_at(history, hint->other);

	fprintf(file, "frame %u, %s of QP %u: ", request->packet->frame, request_text(request),
		request->packet->qpn);
	switch (hint->kind) {
	case HINT_NOT_COVERED:
		fprintf(file, "no persistent FLUSH before it covers all of %s, frame %u", request_text(other),
			other->packet->frame);
		if (hint->more)
			fprintf(file, ", nor of %zu other store%s", hint->more, hint->more > 1 ? "s" : "");
		break;
	case HINT_OTHER_QP:
		fprintf(file, "it covers nothing; %s, frame %u, which it names, is of QP %u", request_text(other),
			other->packet->frame, other->packet->qpn);
		break;
	case HINT_BEFORE:
		fprintf(file, "it covers nothing; %s, frame %u, which it names, was sent after it",
			request_text(other), other->packet->frame);
		break;
	case HINT_NOTHING:
		fputs("it covers nothing", file);
		break;
	case HINT_CHANGED:
		fprintf(file, "frame %u sends it again with other bytes", request->changed->frame);
		break;
	case HINT_TWO_QPS:
		fprintf(file, "%s, frame %u, of QP %u stored to the same word, %s, and no answer said before that it is there",
			request_text(other), other->packet->frame, other->packet->qpn,
			history_place(history, hint->offset));
		break;
	case HINTS:
		break;
	}
}

char *hint_text(const struct history *history, const struct hint *hint)
{
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		fail("no memory");
	print_hint(history, hint, file);
	if (fclose(file))
		fail("no memory");
	return text;
}

void hints_print(const struct history *history, const hint_list *hints, FILE *file)
{
	size_t n[HINTS] = { };

	for (unsigned int kind = 0; kind < HINTS; kind++) {
		for (size_t i = 0; i < hints->n; i++)
			if (hints->v[i].kind == kind && n[kind]++ < SHOWN) {
				fputs("hint: ", file);
				print_hint(history, &hints->v[i], file);
				fputc('\n', file);
			}
		if (n[kind] > SHOWN)
			fprintf(file, "hint: and %zu more like these\n", n[kind] - SHOWN);
		if (n[kind])
			fprintf(file, "  %s\n", advice[kind]);
	}
}

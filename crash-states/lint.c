// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "lint.h"

#define SHOWN		3	/* of a kind */
#define FEW_LINES	16	/* more cache lines than are new say nothing */

/* A request of one QP, and what follows it. */
struct look {
	const struct history *history;
	const struct model *model;
	lint_list *lints;
	const struct flow *flow;
	size_t place;
	const struct request *request, *after;	/* NULL: there is none */
	uint64_t tail;			/* the last VA that WRITEs of a tail went to, or 0 */
	bool tail_waits;
	bool persistence_only;		/* a flush came that makes nothing visible: what one for both has new, none tells */
};

static bool is_flush(const struct request *request)
{
	return request && request->packet->opcode == ROCE_RC_FLUSH && request->flush;
}

/* The moment when the target answered it, or NEVER. */
static unsigned int answer_of(const struct request *request)
{
	return request->answer ? request->answer->moment : NEVER;
}

/* Has the initiator printed a line after @from, up to @to? */
static bool has_told(const struct look *look, unsigned int from, unsigned int to)
{
	const struct capture *capture = look->history->capture;

	for (size_t i = capture_told(capture, from); i < capture->told.n && capture->told.v[i].moment <= to; i++)
		if (!memcmp(capture->told.v[i].mac, look->request->packet->mac, sizeof(capture->told.v[i].mac)))
			return true;
	return false;
}

/* Did the same initiator send @request, on another QP? */
static bool is_beside(const struct look *look, const struct request *request)
{
	return request->flow != look->request->flow && !is_cpu(request) &&
	       !memcmp(request->packet->mac, look->request->packet->mac, sizeof(request->packet->mac));
}

/* Has the initiator sent a request on another QP after @from, and before @to? */
static bool has_sent_beside(const struct look *look, unsigned int from, const struct request *to)
{
	for (const struct request *r = to; r > look->history->requests.v && r[-1].packet->moment > from; r--)
		if (is_beside(look, r - 1))
			return true;
	return false;
}

/* Has the initiator got an answer on another QP after @from, up to @to? */
static bool has_answer_beside(const struct look *look, unsigned int from, unsigned int to)
{
	const struct request *requests = look->history->requests.v;
	size_t low = 0, high = look->model->all_answers;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (answer_of(&requests[look->model->answer[middle]]) <= from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < look->model->all_answers && answer_of(&requests[look->model->answer[low]]) <= to; low++)
		if (is_beside(look, &requests[look->model->answer[low]]))
			return true;
	return false;
}

static void add(const struct look *look, struct lint lint)
{
	lint.request = look->request - look->history->requests.v;
	*list_add(look->lints) = lint;
}

/* What is promised, or sent by another QP, between them the first one may be for. */
static void look_for_two(const struct look *look)
{
	const struct request *first = look->request, *second = look->after;
	bool waited = answer_of(first) < second->packet->moment;

	if (first->rkey != second->rkey || !first->covers.n || !second->covers.n ||
	    (first->packet->feth & ~ROCE_FETH_SEL_MASK) != (second->packet->feth & ~ROCE_FETH_SEL_MASK) ||
	    (waited && (has_told(look, answer_of(first), second->packet->moment) || has_sent_beside(look, answer_of(first), second))))
		return;
	add(look, (struct lint){ .kind = LINT_TWO, .other = second - look->history->requests.v, .packets = 2, .round_trips = waited });
}

static uint64_t lines_of(uint64_t from, uint64_t end)
{
	return (end - 1) / CPU_LINE - from / CPU_LINE + 1;
}

/* From the first new byte to the last one. */
static void look_for_wide(const struct look *look)
{
	const struct history *history = look->history;
	const struct request *flush = look->request;
	uint64_t va, run, place, from = UINT64_MAX, end = 0, named, new;

	if ((flush->packet->feth & ROCE_FETH_SEL_MASK) != ROCE_FETH_SEL_RANGE ||
	    !region_run(flush->region, flush->va, flush->length, 0, &va, &run, &place) || run != flush->length)
		return;
	for (size_t i = 0; i < flush->covers.n; i++) {
		const struct stretch *stretch = &history->stretches.v[history->updates.v[flush->covers.v[i]].stretch];

		if (stretch->offset < from)
			from = stretch->offset;
		if (stretch->offset + stretch->length > end)
			end = stretch->offset + stretch->length;
	}
	named = lines_of(place, place + run);
	new = lines_of(from, end);
	if (named > 2 * new && named - new >= FEW_LINES)
		add(look, (struct lint){ .kind = LINT_WIDE, .other = NEVER, .lines = named - new });
}

/* A WRITE of one word, as an ATOMIC WRITE could store it, to other memory than the FLUSH before it has named. */
static bool is_tail(const struct request *flush, const struct request *store)
{
	uint64_t va, run, place;

	return is_flush(flush) && store->packet->opcode == ROCE_RC_WRITE_ONLY && store->updates && store->va % WORD == 0 && store->length == WORD &&
	       region_run(store->region, store->va, store->length, 0, &va, &run, &place) && !request_holds(flush, place, 0xff);
}

/*
 * Do the WRITEs of the flow to @va wait for the FLUSHes before them?  What waited once only need not be a tail, and a WRITE that
 * did not wait once may never do: the answers were quick.  A line that was printed in between may be what it has waited for, and so
 * may the answer to a FLUSH of another QP.
 */
static bool tails_wait(const struct look *look, uint64_t va)
{
	const struct request *requests = look->history->requests.v;
	size_t tails = 0;

	for (size_t i = 0; i + 1 < look->flow->requests.n; i++) {
		const struct request *flush = &requests[look->flow->requests.v[i]], *store = &requests[look->flow->requests.v[i + 1]];

		if (store->va != va || !is_tail(flush, store))
			continue;
		if (answer_of(flush) > store->packet->moment || has_told(look, answer_of(flush), store->packet->moment) ||
		    has_answer_beside(look, flush->packet->moment, store->packet->moment))
			return false;
		tails++;
	}
	return tails > 1;
}

static void look_for_wait(struct look *look)
{
	if (!is_tail(look->request, look->after))
		return;
	if (look->tail != look->after->va) {
		look->tail = look->after->va;
		look->tail_waits = tails_wait(look, look->tail);
	}
	if (look->tail_waits)
		add(look, (struct lint){ .kind = LINT_WAIT, .other = look->after - look->history->requests.v, .round_trips = 1 });
}

/* Sent when what precedes it was answered, and answered when what follows was sent: it has a round trip of its own. */
static bool is_alone(const struct look *look)
{
	const struct request *requests = look->history->requests.v;

	return look->place && answer_of(&requests[look->flow->requests.v[look->place - 1]]) < look->request->packet->moment &&
	       look->after && answer_of(look->request) < look->after->packet->moment;
}

static bool has_atomic_write_after(const struct look *look)
{
	for (size_t i = look->place + 1; i < look->flow->requests.n; i++)
		if (look->history->requests.v[look->flow->requests.v[i]].packet->opcode == ROCE_RC_ATOMIC_WRITE)
			return true;
	return false;
}

static void look_at_flush(struct look *look, bool sent)
{
	bool shows = look->persistence_only && look->request->packet->feth & ROCE_FETH_PLT_GLOBAL;

	if (!look->request->covers.n) {
		if (!sent && !shows)
			add(look, (struct lint){ .kind = LINT_NOTHING, .other = NEVER, .packets = 2, .round_trips = is_alone(look) });
		return;
	}
	if (!shows)
		look_for_wide(look);
	if (is_flush(look->after))
		look_for_two(look);
	else if (look->after)
		look_for_wait(look);
	if (look->flow->left < answer_of(look->request) && !has_atomic_write_after(look))
		add(look, (struct lint){ .kind = LINT_LEFT, .other = NEVER, .packets = 2 });
}

void lint_find(const struct model *model, lint_list *lints)
{
	const struct history *history = model->history;
	struct look look = { .history = history, .model = model, .lints = lints };

	for (size_t f = 0; f < history->flows.n; f++) {
		bool sent = false;	/* something, and nothing tells where it is stored */

		if (f == history->cpu)
			continue;
		look.flow = &history->flows.v[f];
		look.tail = 0;
		look.persistence_only = false;
		for (look.place = 0; look.place < look.flow->requests.n; look.place++) {
			look.request = &history->requests.v[look.flow->requests.v[look.place]];
			look.after = look.place + 1 < look.flow->requests.n ?
				     &history->requests.v[look.flow->requests.v[look.place + 1]] : NULL;
			sent |= look.request->somewhere;
			if (is_flush(look.request))
				look_at_flush(&look, sent);
			look.persistence_only |= look.request->flush && !(look.request->packet->feth & ROCE_FETH_PLT_GLOBAL);
		}
	}
}

static const char *const advice[LINTS] = {
	[LINT_TWO] = "One FLUSH does for both: let it name a range that holds both, or the region.",
	[LINT_WIDE] = "A target may write back each cache line that a FLUSH names: let it name what is new.",
	[LINT_WAIT] = "An ATOMIC WRITE never passes a FLUSH: store the word by that, and post it with the FLUSH, without a wait, if it has waited for nothing else.",
	[LINT_NOTHING] = "Leave it out.",
	[LINT_LEFT] = "Wait for the answer, or leave the FLUSH out: so it promises nothing to anyone.",
};

static void print_lint(const struct history *history, const struct lint *lint, FILE *file)
{
	const struct request *request = &history->requests.v[lint->request];
	const struct request *other = lint->other == NEVER ? NULL : &history->requests.v[lint->other];

	fprintf(file, "lint: frame %u, %s of QP %u: ", request->packet->frame, request_text(request), request->packet->qpn);
	switch (lint->kind) {
	case LINT_TWO:
		fprintf(file, "only %s, frame %u, follows before anything else", request_text(other), other->packet->frame);
		break;
	case LINT_WIDE:
		fprintf(file, "%" PRIu64 " of its cache lines have nothing new", lint->lines);
		break;
	case LINT_WAIT:
		fprintf(file, "%s, frame %u, waited for its answer", request_text(other), other->packet->frame);
		break;
	case LINT_NOTHING:
		fputs("nothing of it was new", file);
		break;
	case LINT_LEFT:
		fputs("its initiator had left before the answer", file);
		break;
	case LINTS:
		break;
	}
	fputc('\n', file);
}

void lint_print(const struct history *history, const lint_list *lints, FILE *file)
{
	for (unsigned int kind = 0; kind < LINTS; kind++) {
		size_t n = 0, packets = 0, round_trips = 0;
		uint64_t lines = 0;

		for (size_t i = 0; i < lints->n; i++) {
			const struct lint *lint = &lints->v[i];

			if (lint->kind != kind)
				continue;
			if (n++ < SHOWN)
				print_lint(history, lint, file);
			packets += lint->packets;
			round_trips += lint->round_trips;
			lines += lint->lines;
		}
		if (n > SHOWN)
			fprintf(file, "lint: and %zu more like these\n", n - SHOWN);
		if (!n)
			continue;
		fprintf(file, "  %s  That saves %zu packets and %zu round trips", advice[kind], packets, round_trips);
		if (lines)
			fprintf(file, ", and the write-back of up to %" PRIu64 " cache lines", lines);
		fputs(".\n", file);
	}
	if (!lints->n)
		fputs("no FLUSH and no wait is superfluous, as far as the packets tell\n", file);
}

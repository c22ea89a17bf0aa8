// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <stdlib.h>

#include "../selftests/rdma/rxe_roce.h"
#include "visible.h"

void completions_add(struct history *history)
{
	size_t n = history->flows.n;

	for (size_t f = 0; f < n && history->rules->visible; f++) {
		if (f == history->cpu)
			continue;
		history->flows.v[f].completions = history->flows.n;
		*list_add(&history->flows) = (struct flow){ .ended = NEVER, .left = NEVER, .completions = NEVER };
	}
}

/* A COMPARE SWAP that has found another value updates nothing. */
static bool has_updated(const struct request *request)
{
	return request->updates || request->packet->opcode != ROCE_RC_CMP_SWAP ||
	       (request->answer && request->answer->original == request->packet->compare);
}

static bool is_completion(const struct history *history, const struct request *request)
{
	if (history->rules->in_order)
		return request->updates || completes(request);
	return completes(request) && (!is_atomic(request) || has_updated(request));
}

/* The updates of a QP that no completion has said to be visible. */
typedef LIST(uint32_t) update_list;

/* May the completion come without what the request has stored?  It has come before. */
static bool passes(const struct history *history, const struct request *completion, const struct request *request)
{
	return request->packet->opcode == ROCE_RC_ATOMIC_WRITE && !history->rules->in_order &&
	       !answered(request, completion->packet->moment);
}

static void complete(struct history *history, uint32_t index, update_list *open)
{
	struct request *completion = &history->requests.v[index];
	struct flow *flow = &history->flows.v[history->flows.v[completion->flow].completions];
	size_t left = 0;

	completion->completion = ++flow->flushes;
	*list_add(&flow->flush) = index;
	for (size_t i = 0; i < open->n; i++) {
		uint32_t u = open->v[i];

		if (passes(history, completion, &history->requests.v[history->updates.v[u].request])) {
			open->v[left++] = u;
			continue;
		}
		history->written_back.v[u] = completion->completion;
		*list_add(&completion->covers) = u;
	}
	open->n = left;
}

void completions_find(struct history *history)
{
	update_list *open;

	if (!history->rules->visible)
		return;
	open = xcalloc(history->flows.n, sizeof(*open));
	for (size_t i = 0; i < history->requests.n; i++) {
		struct request *request = &history->requests.v[i];

		if (request->flow == history->cpu)
			continue;
		request->completions_before = history->flows.v[history->flows.v[request->flow].completions].flushes;
		for (uint32_t u = 0; u < request->updates; u++)
			*list_add(&open[request->flow]) = request->first_update + u;
		if (is_completion(history, request))
			complete(history, i, &open[request->flow]);
	}
	for (size_t f = 0; f < history->flows.n; f++)
		free(open[f].v);
	free(open);
}

uint32_t completions_implied(const struct history *history, const struct request *request)
{
	if (is_atomic(request) && request->completion)
		return request->completion;
	return history->rules->in_order || request->packet->opcode == ROCE_RC_ATOMIC_WRITE ? request->completions_before : 0;
}

bool is_polled(const struct history *history, uint32_t s)
{
	const struct stretch *stretch = &history->stretches.v[s];

	for (size_t i = 0; i < history->rules->polled.n; i++) {
		const struct polled *polled = &history->rules->polled.v[i];

		if (stretch->offset < polled->offset + polled->length && polled->offset < stretch->offset + stretch->length)
			return true;
	}
	return false;
}

bool is_signal(const struct history *history, const struct request *request)
{
	if (!history->rules->visible || is_cpu(request))
		return false;
	if (!history->rules->polled.n)
		return completes(request) && !is_atomic(request);
	for (uint32_t u = 0; u < request->updates; u++)
		if (is_polled(history, history->updates.v[request->first_update + u].stretch))
			return true;
	return false;
}

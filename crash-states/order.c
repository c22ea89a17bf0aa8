// SPDX-License-Identifier: GPL-2.0
#include "order.h"

bool order_is_cached(const struct history *history, const struct update *update)
{
	uint8_t opcode = history->requests.v[update->request].packet->opcode;

	return opcode == CPU_STORE || opcode == CPU_VECTOR_STORE;
}

/* Are they parts of one word?  The words themselves are not. */
static bool share_a_word(const struct stretch *a, const struct stretch *b)
{
	return a->length < WORD && b->length < WORD && a->offset / WORD == b->offset / WORD;
}

/* Parts of what one instruction stores have no order. */
static bool in_one_instruction(const struct request *a, const struct request *b)
{
	return a->message == b->message && a->packet->opcode == CPU_VECTOR_STORE;
}

bool order_forces(const struct history *history, const struct update *first, const struct update *second, bool durable)
{
	const struct request *a = &history->requests.v[first->request], *b = &history->requests.v[second->request];
	bool same_word = share_a_word(&history->stretches.v[first->stretch], &history->stretches.v[second->stretch]);

	if (a == b)
		return same_word;
	if (a > b)
		return false;
	if (order_is_cached(history, first) && order_is_cached(history, second))
		return !in_one_instruction(a, b);
	return same_word && !durable && !history_race(history, first, second);
}

static bool has_cached_stores(const struct history *history, const struct stretch *stretch)
{
	for (uint32_t u = stretch->last; u != NEVER && history->cpu != NEVER; u = history->updates.v[u].before)
		if (order_is_cached(history, &history->updates.v[u]))
			return true;
	return false;
}

/* Add the words from @first to @end, unless they are one. */
static void add_tied(tied_list *tied, uint32_t first, uint32_t end)
{
	struct tied *last = tied->n ? &tied->v[tied->n - 1] : NULL;

	if (end - first < 2)
		return;
	if (last && last->end > first)
		last->end = end > last->end ? end : last->end;
	else
		*list_add(tied) = (struct tied){ .first = first, .end = end };
}

/* The word at @offset of the stretch @s, or the first one of those after it. */
static uint32_t word_from(const struct history *history, uint32_t s, uint64_t offset)
{
	const struct stretch *stretch = &history->stretches.v[s];

	if (s == history->stretches.n)
		return history->words;
	return stretch->word + (stretch->offset < offset ? (offset - stretch->offset) / WORD : 0);
}

/* All words of the line are. */
static void tie_line(const struct history *history, uint64_t line, tied_list *tied)
{
	uint32_t from = history_stretch_at(history, line), to = history_stretch_at(history, line + CPU_LINE);

	add_tied(tied, word_from(history, from, line), word_from(history, to, line + CPU_LINE));
}

void order_find(const struct history *history, tied_list *tied)
{
	for (uint32_t s = 0; s < history->stretches.n; s++) {
		const struct stretch *stretch = &history->stretches.v[s];

		if (stretch->length >= WORD && !has_cached_stores(history, stretch))
			continue;
		for (uint64_t line = stretch->offset / CPU_LINE * CPU_LINE; line < stretch->offset + stretch->length;
		     line += CPU_LINE)
			tie_line(history, line, tied);
	}
}

struct tied *order_from(const tied_list *tied, uint32_t word)
{
	size_t n = COUNT_UP_TO(tied, end, word);

	return n < tied->n ? &tied->v[n] : NULL;
}

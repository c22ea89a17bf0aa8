// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"

/******************************************************************************
 * The smallest state that fails
 */

/* Runs of the checker for one explanation.  One that is too slow counts for many. */
#define RUNS		1000
#define RUNS_IF_SLOW	100

struct search {
	struct model *model;
	struct checker *checker;
	unsigned int runs;			/* that are left */
	held_list *lost;			/* fixed while `needed` is looked for, otherwise NULL */
};

static bool fails_now(struct search *search, const struct state *state)
{
	enum verdict verdict;
	unsigned int runs;

	if (!search->runs)
		return false;
	verdict = checker_look(search->checker, search->model, state, NULL);
	runs = verdict == TOO_SLOW ? RUNS_IF_SLOW : 1;
	search->runs -= runs < search->runs ? runs : search->runs;
	return verdict != CONSISTENT;
}

/* True if a state is allowed and fails in which only these words are not the newest. */
static bool fails_without(struct search *search, const held_list *lost)
{
	struct state state = { .moment = search->model->moment };
	bool fails;

	for (size_t i = 0; i < lost->n; i++)
		*list_add(&state.held) = lost->v[i];
	fails = model_allows(search->model, &state) && fails_now(search, &state);
	free(state.held.v);
	return fails;
}

/* All open words at their floors, or at those that the state asked about last has raised. */
static void hold_floors(const struct model *model, bool raised, held_list *held)
{
	held->n = 0;
	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t s = model->open.v[i];
		const struct stretch *stretch = &model->history->stretches.v[s];
		int32_t position = raised ? model_raised_floor(model, s) : model->floor[s];

		for (uint32_t w = 0; w < stretch->words; w++)
			*list_add(held) = (struct held){ stretch->word + w, position };
	}
}

/*
 * True if a state is allowed and fails in which the lost words are lost, these are there, and all
 * others have the floor, as far as the model lets them.
 */
static bool fails_with(struct search *search, const held_list *there)
{
	struct model *model = search->model;
	struct state state = { .moment = model->moment };
	bool fails = false, allowed = false;

	/* What has come says which FLUSHes have been executed.  That raises floors, so look again. */
	for (int tries = 0; tries < 2 && !allowed; tries++) {
		hold_floors(model, tries, &state.held);
		/* What comes later in the list counts. */
		for (size_t j = 0; j < search->lost->n; j++)
			*list_add(&state.held) = search->lost->v[j];
		for (size_t j = 0; j < there->n; j++)
			*list_add(&state.held) = there->v[j];
		allowed = model_allows(model, &state);
	}
	if (allowed)
		fails = fails_now(search, &state);
	free(state.held.v);
	return fails;
}

/* What is left out together: the words of a request, of a cache line, or one. */
enum grain { REQUEST, LINE, ONE_WORD, GRAINS };

struct grouping {
	const struct model *model;
	enum grain grain;
};

static uint64_t group_of(const struct grouping *grouping, const struct held *held)
{
	const struct model *model = grouping->model;

	switch (grouping->grain) {
	case REQUEST:
		return model_update(model->history, held->word, model_top(model, held->word))->request;
	case LINE:
		return history_offset(model->history, held->word) / 64;
	default:
		return held->word;
	}
}

static int by_group(const void *a, const void *b, void *grouping)
{
	uint64_t x = group_of(grouping, a), y = group_of(grouping, b);

	return x < y ? -1 : x > y;
}

static void copy_list(held_list *to, const held_list *from)
{
	to->n = 0;
	for (size_t i = 0; i < from->n; i++)
		*list_add(to) = from->v[i];
}

/* @all without @some groups from group @first on.  How many groups there are. */
static size_t without_groups(const struct grouping *grouping, const held_list *all, size_t first,
			     size_t some, held_list *rest)
{
	size_t group = 0;

	rest->n = 0;
	for (size_t i = 0; i < all->n; i++) {
		group += i && by_group(&all->v[i], &all->v[i - 1], (void *)grouping) != 0;
		if (group < first || group >= first + some)
			*list_add(rest) = all->v[i];
	}
	return all->n ? group + 1 : 0;
}

/* Leave out what the failure does not need: halves of all groups first, single ones last. */
static void leave_out_groups(struct search *search, held_list *all, enum grain grain,
			     bool (*fails)(struct search *search, const held_list *some))
{
	const struct grouping grouping = { search->model, grain };
	size_t groups, size, at;
	held_list rest = { };
	bool again;

	if (all->n)
		qsort_r(all->v, all->n, sizeof(*all->v), by_group, (void *)&grouping);
	groups = without_groups(&grouping, all, 0, 0, &rest);
	size = (groups + 1) / 2;
	do {
		again = size > 1;
		for (at = 0; at < groups && all->n && search->runs;) {
			without_groups(&grouping, all, at, size, &rest);
			if (!fails(search, &rest)) {
				at += size;
				continue;
			}
			copy_list(all, &rest);
			groups = without_groups(&grouping, all, 0, 0, &rest);
			again = true;
		}
		size = (size + 1) / 2;
	} while (again && search->runs && groups > 1);
	free(rest.v);
}

static void minimise(struct search *search, held_list *all,
		     bool (*fails)(struct search *search, const held_list *some))
{
	const held_list none = { };

	if (all->n && fails(search, &none)) {
		all->n = 0;
		return;
	}
	for (enum grain grain = REQUEST; grain < GRAINS; grain++)
		leave_out_groups(search, all, grain, fails);
}

/* An old value that is nearer to the newest one is easier to understand. */
static void raise_position(struct search *search, held_list *lost, size_t i)
{
	int32_t fails = lost->v[i].position, passes = model_top(search->model, lost->v[i].word);

	/* Often the value before the newest one will do. */
	for (int32_t next = passes - 1; fails < next && search->runs; next = fails + (passes - fails) / 2) {
		lost->v[i].position = next;
		if (fails_without(search, lost))
			fails = next;
		else
			passes = next;
	}
	lost->v[i].position = fails;
}

static void raise_positions(struct search *search, held_list *lost)
{
	for (size_t i = 0; i < lost->n && search->runs; i++)
		raise_position(search, lost, i);
}

/******************************************************************************
 * The explanation
 */

static int by_word(const void *a, const void *b)
{
	uint32_t x = ((const struct held *)a)->word, y = ((const struct held *)b)->word;

	return x < y ? -1 : x > y;
}

/* All open words but the lost ones, with their newest values. */
static void add_others(const struct model *model, held_list *lost, held_list *others)
{
	if (lost->n)
		qsort(lost->v, lost->n, sizeof(*lost->v), by_word);
	for (size_t i = 0; i < model->open.n; i++) {
		const struct stretch *stretch = &model->history->stretches.v[model->open.v[i]];

		for (uint32_t w = stretch->word; w < stretch->word + stretch->words; w++) {
			struct held held = { w, model->top[model->open.v[i]] };

			if (!lost->n || !bsearch(&held, lost->v, lost->n, sizeof(held), by_word))
				*list_add(others) = held;
		}
	}
}

void explain(struct explanation *e, struct model *model, struct checker *checker,
	     const struct state *state)
{
	struct search search = { .model = model, .checker = checker, .runs = RUNS };
	held_list lost = { };

	*e = (struct explanation){ .cause = { .kind = CULPRIT_CHECKER, .model = model } };
	model_cut(model, state->moment);
	for (size_t i = 0; i < state->held.n; i++)
		*list_add(&lost) = state->held.v[i];
	e->state.moment = state->moment;
	if (!fails_without(&search, &lost)) {
		e->state.held = lost;
		model_allows(model, &e->state);
		e->why = cause_words(&e->cause, &e->state.held);
		return;
	}
	minimise(&search, &lost, fails_without);
	raise_positions(&search, &lost);
	for (size_t i = 0; i < lost.n; i++)
		*list_add(&e->state.held) = lost.v[i];
	model_allows(model, &e->state);

	add_others(model, &lost, &e->needed);
	search.lost = &lost;
	e->cut_short = !search.runs;
	search.runs = RUNS;
	if (lost.n)
		minimise(&search, &e->needed, fails_with);
	else
		e->needed.n = 0;
	e->cut_short |= !search.runs;
	model_allows(model, &e->state);
	e->cause = classify(model, &e->state.held, &e->needed);
	e->why = cause_words(&e->cause, &e->state.held);
	free(lost.v);
}

/* Where the word is for the initiator: in the region of the key that its newest store used. */
static void print_key(const struct model *model, FILE *file, uint32_t word)
{
	const struct history *history = model->history;
	const struct request *request = model_request(model, word, model_top(model, word));
	size_t length = word_length(&history->stretches.v[history_stretch_of(history, word)]);
	uint64_t va, run, place, offset = history_offset(history, word);

	if (!request->rkey)
		return;
	for (size_t i = 0; region_run(request->region, request->va, request->length, i, &va, &run, &place); i++)
		if (offset + length > place && offset < place + run)
			fprintf(file, "; key 0x%x + 0x%" PRIx64, request->rkey,
				va + (offset > place ? offset - place : 0) - request->region->va);
}

static void print_word(const struct model *model, FILE *file, const char *what, uint32_t word,
		       int32_t position)
{
	const struct history *history = model->history;

	fprintf(file, "  %s %s  holds ", what, history_place(history, history_offset(history, word)));
	if (position == START)
		fputs("what it held at the start", file);
	else
		fprintf(file, "what %s gave it",
			request_text(model_request(model, word, position)));
	fprintf(file, ", 0x%016" PRIx64, le64toh(model_value(history, word, position)));
	if (position < model_top(model, word))
		fprintf(file, ", not what %s gave it, 0x%016" PRIx64,
			request_text(model_request(model, word, model_top(model, word))),
			le64toh(model_value(history, word, model_top(model, word))));
	print_key(model, file, word);
	fputc('\n', file);
}

void explanation_words(const struct explanation *e, const struct model *model, FILE *file)
{
	const size_t enough = 8;

	for (size_t i = 0; i < e->state.held.n && i < enough; i++)
		print_word(model, file, "old    ", e->state.held.v[i].word,
			   e->state.held.v[i].position);
	if (e->state.held.n > enough)
		fprintf(file, "  old     and %zu words more\n", e->state.held.n - enough);
	for (size_t i = 0; i < e->needed.n && i < enough; i++)
		print_word(model, file, "there  ", e->needed.v[i].word, e->needed.v[i].position);
	if (e->needed.n > enough)
		fprintf(file, "  there   and %zu words more\n", e->needed.n - enough);
}

void explanation_print(const struct explanation *e, const struct model *model, FILE *file)
{
	explanation_words(e, model, file);
	if (e->cut_short)
		fprintf(file, "  A smaller state may fail, too: the search for it ended after %u runs of the checker.\n",
			RUNS);
	fprintf(file, "  Why: %s\n", e->why);
}

void print_frames(const struct history *history, const uint8_t *marked, FILE *file)
{
	const char *comma = "";

	for (uint32_t r = 0; r < history->requests.n; r++)
		if (marked[r] && !is_cpu(&history->requests.v[r])) {
			fprintf(file, "%s%u", comma, history->requests.v[r].packet->frame);
			comma = ",";
		}
}

void explanation_frames(const struct explanation *e, const struct model *model, FILE *file)
{
	const struct history *history = model->history;
	uint8_t *lost = xcalloc(history->requests.n, 1);

	for (size_t i = 0; i < e->state.held.n; i++) {
		const struct held *held = &e->state.held.v[i];

		for (int32_t p = held->position + 1; p <= model_top(model, held->word); p++)
			lost[model_update(history, held->word, p)->request] = 1;
	}
	print_frames(history, lost, file);
	free(lost);
}

void explanation_free(struct explanation *e)
{
	free(e->state.held.v);
	free(e->needed.v);
	free(e->why);
}

// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "../../selftests/rdma/rxe_mpe_roce.h"
#include "model.h"

#define FEW_STATES	1024	/* so many are made one by one */

uint64_t model_value(const struct history *history, uint32_t word, int32_t position)
{
	return position == START ? history->words.v[word].start :
				   model_update(history, word, position)->value;
}

static uint64_t hash_of(const struct history *history, uint32_t word, int32_t position)
{
	return mix64(history->words.v[word].offset * 0x9e3779b97f4a7c15ull +
		     mix64(model_value(history, word, position)));
}

static const struct request *request_of(const struct model *model, const struct update *update)
{
	return &model->history->requests.v[update->request];
}

static bool is_persistent_flush(const struct request *request)
{
	return request->flush;
}

static int by_answer(const void *a, const void *b, void *history)
{
	const struct request *requests = ((const struct history *)history)->requests.v;
	unsigned int x = requests[*(const uint32_t *)a].answer->frame;
	unsigned int y = requests[*(const uint32_t *)b].answer->frame;

	return x < y ? -1 : x > y;
}

static void restart(struct model *model)
{
	const struct history *history = model->history;

	model->frame = model->requests = model->updates = model->answers = 0;
	model->hash = 0;
	memset(model->executed, 0, history->flows.n * sizeof(*model->executed));
	memset(model->received, 0, history->flows.n * sizeof(*model->received));
	for (uint32_t w = 0; w < history->words.n; w++) {
		model->top[w] = model->floor[w] = START;
		model->open_at[w] = NEVER;
		model->hash ^= hash_of(history, w, START);
	}
	model->open.n = 0;
	model->in_flight = NEVER;
}

void model_init(struct model *model, const struct history *history, enum order order, uint64_t seed)
{
	size_t words = history->words.n, flows = history->flows.n;

	*model = (struct model){ .history = history, .order = order, .seed = seed };
	model->executed = xcalloc(flows, sizeof(*model->executed));
	model->received = xcalloc(flows, sizeof(*model->received));
	model->chosen = xcalloc(flows, sizeof(*model->chosen));
	model->top = xcalloc(words, sizeof(*model->top));
	model->floor = xcalloc(words, sizeof(*model->floor));
	model->open_at = xcalloc(words, sizeof(*model->open_at));
	model->raised = xcalloc(words, sizeof(*model->raised));
	model->raised_when = xcalloc(words, sizeof(*model->raised_when));
	model->choice = xcalloc(words, sizeof(*model->choice));
	model->older = xcalloc(history->requests.n, sizeof(*model->older));
	model->newer = xcalloc(history->requests.n, sizeof(*model->newer));
	model->above = xcalloc(history->requests.n, sizeof(*model->above));
	model->answer = xcalloc(history->requests.n, sizeof(*model->answer));
	for (uint32_t i = 0; i < history->requests.n; i++)
		if (is_persistent_flush(&history->requests.v[i]) && history->requests.v[i].answer)
			model->answer[model->all_answers++] = i;
	qsort_r(model->answer, model->all_answers, sizeof(*model->answer), by_answer,
		(void *)history);
	restart(model);
}

static void set_open(struct model *model, uint32_t w)
{
	bool open = model->floor[w] < model->top[w];
	uint32_t last;

	if (open == (model->open_at[w] != NEVER))
		return;
	if (open) {
		model->open_at[w] = model->open.n;
		*list_add(&model->open) = w;
		return;
	}
	last = model->open.v[--model->open.n];
	model->open.v[model->open_at[w]] = last;
	model->open_at[last] = model->open_at[w];
	model->open_at[w] = NEVER;
}

static void add_in_flight(struct model *model, uint32_t index, uint32_t updates)
{
	model->above[index] = updates;
	if (!updates)
		return;
	model->newer[index] = NEVER;
	model->older[index] = model->in_flight;
	if (model->in_flight != NEVER)
		model->newer[model->in_flight] = index;
	model->in_flight = index;
}

static void remove_in_flight(struct model *model, uint32_t index)
{
	uint32_t older = model->older[index], newer = model->newer[index];

	if (older != NEVER)
		model->newer[older] = newer;
	if (newer != NEVER)
		model->older[newer] = older;
	else
		model->in_flight = older;
}

static void receive(struct model *model, uint32_t index)
{
	const struct history *history = model->history;
	const struct request *request = &history->requests.v[index];

	for (uint32_t u = request->first_update; u < request->first_update + request->updates; u++) {
		uint32_t w = history->updates.v[u].word;

		model->hash ^= hash_of(history, w, model->top[w]);
		model->top[w]++;
		model->hash ^= hash_of(history, w, model->top[w]);
		set_open(model, w);
	}
	model->updates += request->updates;
	add_in_flight(model, index, request->updates);
	if (is_persistent_flush(request))
		model->received[request->flow]++;
}

static void raise_floor(struct model *model, uint32_t w, int32_t position)
{
	while (model->floor[w] < position) {
		uint32_t r = model_update(model->history, w, ++model->floor[w])->request;

		if (!--model->above[r])
			remove_in_flight(model, r);
	}
	set_open(model, w);
}

/* An answered FLUSH says that those before it on its QP have been executed, too. */
static void answer(struct model *model, const struct request *request)
{
	const struct flow *flow = &model->history->flows.v[request->flow];

	while (model->executed[request->flow] < request->flush) {
		uint32_t f = flow->flush.v[model->executed[request->flow]++];
		const struct request *flush = &model->history->requests.v[f];

		for (size_t i = 0; i < flush->covers.n; i++) {
			const struct update *update = &model->history->updates.v[flush->covers.v[i]];

			raise_floor(model, update->word, update->position);
		}
	}
}

void model_cut(struct model *model, unsigned int frame)
{
	const struct history *history = model->history;

	if (frame < model->frame)
		restart(model);
	model->frame = frame;
	for (; model->requests < history->requests.n &&
	       history->requests.v[model->requests].packet->frame <= frame; model->requests++)
		receive(model, model->requests);
	for (; model->answers < model->all_answers &&
	       answered(&history->requests.v[model->answer[model->answers]], frame); model->answers++)
		answer(model, &history->requests.v[model->answer[model->answers]]);
}

unsigned int *model_cuts(const struct model *model, size_t *n)
{
	unsigned int *cuts = xcalloc(model->all_answers + 1, sizeof(*cuts));
	const struct history *history = model->history;

	*n = 0;
	for (uint32_t i = 0; i < model->all_answers; i++)
		cuts[(*n)++] = history->requests.v[model->answer[i]].answer->frame - 1;
	cuts[(*n)++] = history->capture->frames;
	return cuts;
}

/******************************************************************************
 * Floors, when so many FLUSHes are taken for executed
 */

/* Of each flow model->chosen[]. */
static void raise_floors(struct model *model)
{
	const struct history *history = model->history;

	model->now++;
	for (uint32_t f = 0; f < history->flows.n; f++)
		for (uint32_t n = model->executed[f]; n < model->chosen[f]; n++) {
			const struct request *flush =
				&history->requests.v[history->flows.v[f].flush.v[n]];

			for (size_t i = 0; i < flush->covers.n; i++) {
				const struct update *update = &history->updates.v[flush->covers.v[i]];
				uint32_t w = update->word;

				if (model->raised_when[w] != model->now) {
					model->raised_when[w] = model->now;
					model->raised[w] = model->floor[w];
				}
				if ((int32_t)update->position > model->raised[w])
					model->raised[w] = update->position;
			}
		}
}

static int32_t floor_of(const struct model *model, uint32_t w)
{
	return model->raised_when[w] == model->now ? model->raised[w] : model->floor[w];
}

static void choose(struct model *model, const uint32_t *flushes)
{
	memcpy(model->chosen, flushes, model->history->flows.n * sizeof(*flushes));
}

/* So many persistent FLUSHes of its QP have been executed where this update is seen. */
static uint32_t needs(const struct model *model, const struct update *update)
{
	const struct request *request = request_of(model, update);

	if (model->order == ORDER_ALL || request->packet->opcode == ROCE_RC_ATOMIC_WRITE)
		return request->flushes_before;
	return 0;
}

/* May the word hold this, with the FLUSHes in chosen[], and no more, executed? */
static bool permits(const struct model *model, uint32_t w, int32_t position)
{
	const struct update *update;

	if (position < floor_of(model, w) || position > model->top[w])
		return false;
	if (position == START)
		return true;
	update = model_update(model->history, w, position);
	return needs(model, update) <= model->chosen[request_of(model, update)->flow];
}

/* The newest value that it may hold so, and that @lost does not pick; the floor is one. */
static int32_t newest(const struct model *model, uint32_t w, model_pick lost, const void *arg)
{
	int32_t position = model->top[w];

	while (position > floor_of(model, w) &&
	       (!permits(model, w, position) ||
		(lost && lost(model, model_update(model->history, w, position), arg))))
		position--;
	return position;
}

/* The newest value that @left picks, or the floor. */
static int32_t newest_left(const struct model *model, uint32_t w, model_pick left, const void *arg)
{
	int32_t position = model->top[w];

	while (position > floor_of(model, w) &&
	       !left(model, model_update(model->history, w, position), arg))
		position--;
	return position;
}

/******************************************************************************
 * States
 */

/* From choice[] of the open words. */
static void set_state(struct model *model, struct state *state)
{
	const struct history *history = model->history;

	state->frame = model->frame;
	state->held.n = 0;
	state->hash = model->hash ^ mix64(model->answers + 1);
	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t w = model->open.v[i];

		if (model->choice[i] == model->top[w])
			continue;
		*list_add(&state->held) = (struct held){ w, model->choice[i] };
		state->hash ^= hash_of(history, w, model->top[w]) ^
			       hash_of(history, w, model->choice[i]);
	}
}

/* Is choice[] allowed?  As few FLUSHes as can be are taken for executed, which allows most. */
static bool is_allowed(struct model *model)
{
	const struct history *history = model->history;

	choose(model, model->executed);
	for (size_t i = 0; i < model->open.n; i++) {
		const struct update *update;
		uint32_t flow;

		if (model->choice[i] == START)
			continue;
		update = model_update(history, model->open.v[i], model->choice[i]);
		flow = request_of(model, update)->flow;
		if (needs(model, update) > model->chosen[flow])
			model->chosen[flow] = needs(model, update);
	}
	raise_floors(model);
	for (size_t i = 0; i < model->open.n; i++)
		if (model->choice[i] < floor_of(model, model->open.v[i]) ||
		    model->choice[i] > model->top[model->open.v[i]])
			return false;
	return true;
}

bool model_allows(struct model *model, struct state *state)
{
	for (size_t i = 0; i < model->open.n; i++)
		model->choice[i] = model->top[model->open.v[i]];
	for (size_t i = 0; i < state->held.n; i++) {
		const struct held *held = &state->held.v[i];

		if (model->open_at[held->word] == NEVER) {
			if (held->position != model->top[held->word])
				return false;
			continue;
		}
		model->choice[model->open_at[held->word]] = held->position;
	}
	if (!is_allowed(model))
		return false;
	set_state(model, state);
	return true;
}

/* Of these ways the model need not allow all. */
size_t model_choices(const struct model *model)
{
	size_t count = 1;

	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t w = model->open.v[i];

		count *= model->top[w] - model->floor[w] + 1;
		if (count > FEW_STATES)
			return 0;
	}
	return count;
}

bool model_choice(struct model *model, size_t n, struct state *state)
{
	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t w = model->open.v[i];
		size_t values = model->top[w] - model->floor[w] + 1;

		model->choice[i] = model->floor[w] + n % values;
		n /= values;
	}
	if (n || !is_allowed(model))
		return false;
	set_state(model, state);
	return true;
}

/* A FLUSH that covers what is lost has not been executed. */
void model_lose(struct model *model, model_pick pick, const void *arg, struct state *state)
{
	choose(model, model->received);
	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t w = model->open.v[i];

		for (int32_t p = model->floor[w] + 1; p <= model->top[w]; p++) {
			const struct update *update = model_update(model->history, w, p);
			uint32_t *chosen = &model->chosen[request_of(model, update)->flow];

			if (update->covered != NEVER && update->covered <= *chosen &&
			    pick(model, update, arg))
				*chosen = update->covered - 1;
		}
	}
	raise_floors(model);
	for (size_t i = 0; i < model->open.n; i++)
		model->choice[i] = newest(model, model->open.v[i], pick, arg);
	set_state(model, state);
}

void model_leave(struct model *model, model_pick pick, const void *arg, struct state *state)
{
	choose(model, model->executed);
	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t w = model->open.v[i];

		for (int32_t p = model->floor[w] + 1; p <= model->top[w]; p++) {
			const struct update *update = model_update(model->history, w, p);
			uint32_t *chosen = &model->chosen[request_of(model, update)->flow];

			if (needs(model, update) > *chosen && pick(model, update, arg))
				*chosen = needs(model, update);
		}
	}
	raise_floors(model);
	for (size_t i = 0; i < model->open.n; i++)
		model->choice[i] = newest_left(model, model->open.v[i], pick, arg);
	set_state(model, state);
}

/* What is lost together: words, cache lines, packets, requests. */
static uint64_t lost_together(const struct model *model, unsigned int grain, uint32_t w)
{
	const struct update *update = model_update(model->history, w, model->top[w]);
	uint64_t offset = model->history->words.v[w].offset;

	switch (grain) {
	case 0:
		return offset;
	case 1:
		return offset / 64;
	case 2:
		return update->request;
	default:
		return request_of(model, update)->flushes_before;
	}
}

static void choose_by_chance(struct model *model, uint64_t seed)
{
	const struct history *history = model->history;
	unsigned int bias, grain;

	seed = mix64(seed);
	grain = seed % 4;
	bias = seed / 4 % 7 * 32 + 32;	/* of 256 */
	for (uint32_t f = 0; f < history->flows.n; f++)
		model->chosen[f] = model->executed[f] + mix64(seed + f + 1) %
				   (model->received[f] - model->executed[f] + 1);
	raise_floors(model);
	for (size_t i = 0; i < model->open.n; i++) {
		uint32_t w = model->open.v[i];
		uint64_t chance = mix64(seed ^ mix64(lost_together(model, grain, w) + 1));
		int32_t low = floor_of(model, w), high = newest(model, w, NULL, NULL);

		model->choice[i] = chance % 256 < bias ? high : low;
		/* Now and then a value between them. */
		chance = mix64(chance ^ w);
		if (high - low > 1 && chance % 4 == 0) {
			model->choice[i] = low + chance / 4 % (high - low + 1);
			if (!permits(model, w, model->choice[i]))
				model->choice[i] = low;
		}
	}
}

void model_random(struct model *model, uint64_t seed, struct state *state)
{
	choose_by_chance(model, seed);
	set_state(model, state);
}

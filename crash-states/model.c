// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "model.h"
#include "visible.h"

#define FEW_STATES	1024	/* so many are made one by one */
#define TURNS		4096	/* to bring the words of a line in order */
#define RACERS		64	/* so many updates of a word may have been executed in another order */

const uint8_t *stretch_bytes(const struct history *history, uint32_t s, int32_t position)
{
	const struct stretch *stretch = &history->stretches.v[s];
	const struct update *update;

	if (position == START)
		return stretch->start;
	update = stretch_update(history, s, position);
	return stretch->words == 1 ? (const uint8_t *)&update->value : update->bytes;
}

static bool holds_the_same(const struct history *history, uint32_t s, int32_t a, int32_t b)
{
	return !memcmp(stretch_bytes(history, s, a), stretch_bytes(history, s, b), history->stretches.v[s].length);
}

static uint64_t value_in(const struct history *history, uint32_t s, uint32_t word, int32_t position)
{
	size_t at = (size_t)(word - history->stretches.v[s].word) * WORD;
	uint64_t value = 0;

	/* Nearly all are whole words, which a copy of a known size reads at once. */
	if (history->stretches.v[s].length >= WORD)
		memcpy(&value, stretch_bytes(history, s, position) + at, WORD);
	else
		memcpy(&value, stretch_bytes(history, s, position), history->stretches.v[s].length);
	return value;
}

uint64_t model_value(const struct history *history, uint32_t word, int32_t position)
{
	return value_in(history, history_stretch_of(history, word), word, position);
}

static uint64_t hash_in(const struct history *history, uint32_t s, uint32_t word, int32_t position)
{
	const struct stretch *stretch = &history->stretches.v[s];
	uint64_t offset = stretch->offset + (uint64_t)(word - stretch->word) * WORD;

	return mix64(offset * 0x9e3779b97f4a7c15ull + mix64(value_in(history, s, word, position)));
}

static uint64_t hash_of_stretch(const struct history *history, uint32_t s, int32_t position)
{
	const struct stretch *stretch = &history->stretches.v[s];
	uint64_t hash = 0;

	for (uint32_t w = stretch->word; w < stretch->word + stretch->words; w++)
		hash ^= hash_in(history, s, w, position);
	return hash;
}

static const struct request *request_of(const struct model *model, const struct update *update)
{
	return &model->history->requests.v[update->request];
}

static int by_answer(const void *a, const void *b, void *history)
{
	const struct request *requests = ((const struct history *)history)->requests.v;
	unsigned int x = requests[*(const uint32_t *)a].answer->moment;
	unsigned int y = requests[*(const uint32_t *)b].answer->moment;

	return x < y ? -1 : x > y;
}

static void restart(struct model *model)
{
	const struct history *history = model->history;

	model->moment = model->requests = model->updates = model->answers = model->witnessed = 0;
	model->hash = 0;
	memset(model->executed, 0, history->flows.n * sizeof(*model->executed));
	memset(model->unsettled, 0, history->flows.n * sizeof(*model->unsettled));
	memset(model->received, 0, history->flows.n * sizeof(*model->received));
	for (uint32_t s = 0; s < history->stretches.n; s++) {
		model->top[s] = model->floor[s] = model->durable[s] = START;
		model->open_at[s] = NEVER;
	}
	memset(model->in_message, 0, history->requests.n * sizeof(*model->in_message));
	model->open.n = model->open_words = 0;
	model->in_flight = NEVER;
	model->signal = NEVER;
}

/* So many flushes of its QP have been executed before it is. */
static uint32_t waits_for(const struct history *history, const struct request *request)
{
	return history->rules->in_order || request->packet->opcode == ROCE_RC_ATOMIC_WRITE ? request->flushes_before : 0;
}

/* What proves that it is executed says the same of the flushes before it, even if they have not been answered yet. */
static bool is_witness(const struct history *history, const struct request *request)
{
	uint32_t flushes = waits_for(history, request);

	return request->proven != NEVER && flushes &&
	       !answered(&history->requests.v[history->flows.v[request->flow].flush.v[flushes - 1]], request->proven);
}

static int by_proof(const void *a, const void *b, void *history)
{
	const struct request *requests = ((const struct history *)history)->requests.v;
	unsigned int x = requests[*(const uint32_t *)a].proven, y = requests[*(const uint32_t *)b].proven;

	return x < y ? -1 : x > y;
}

static void find_witnesses(struct model *model)
{
	const struct history *history = model->history;

	for (uint32_t i = 0; i < history->requests.n; i++)
		if (is_witness(history, &history->requests.v[i]))
			*list_add(&model->witnesses) = i;
		else if (history->requests.v[i].proven != NEVER && completions_implied(history, &history->requests.v[i]))
			*list_add(&model->witnesses) = i;
	if (model->witnesses.n)
		qsort_r(model->witnesses.v, model->witnesses.n, sizeof(*model->witnesses.v), by_proof,
			(void *)history);
}

static void find_signals(struct model *model)
{
	for (uint32_t i = 0; i < model->history->requests.n; i++)
		if (is_signal(model->history, &model->history->requests.v[i]))
			*list_add(&model->signals) = i;
}

static bool is_raced(const struct history *history, uint32_t s)
{
	for (uint32_t position = 1; position < history->stretches.v[s].n; position++)
		if (history_race(history, stretch_update(history, s, position - 1),
				 stretch_update(history, s, position)))
			return true;
	return false;
}

void model_init(struct model *model, const struct history *history, uint64_t seed)
{
	size_t stretches = history->stretches.n, flows = history->flows.n;

	*model = (struct model){ .history = history, .seed = seed };
	model->executed = xcalloc(flows, sizeof(*model->executed));
	model->received = xcalloc(flows, sizeof(*model->received));
	model->unsettled = xcalloc(flows, sizeof(*model->unsettled));
	model->chosen = xcalloc(flows, sizeof(*model->chosen));
	model->top = xcalloc(stretches, sizeof(*model->top));
	model->floor = xcalloc(stretches, sizeof(*model->floor));
	model->durable = xcalloc(stretches, sizeof(*model->durable));
	model->raced = xcalloc(stretches, sizeof(*model->raced));
	for (uint32_t s = 0; s < stretches; s++)
		model->raced[s] = is_raced(history, s);
	model->open_at = xcalloc(stretches, sizeof(*model->open_at));
	model->raised = xcalloc(stretches, sizeof(*model->raised));
	model->raised_when = xcalloc(stretches, sizeof(*model->raised_when));
	model->choice = xcalloc(history->words, sizeof(*model->choice));
	model->older = xcalloc(history->requests.n, sizeof(*model->older));
	model->newer = xcalloc(history->requests.n, sizeof(*model->newer));
	model->newest = xcalloc(history->requests.n, sizeof(*model->newest));
	model->in_message = xcalloc(history->requests.n, sizeof(*model->in_message));
	model->above = xcalloc(history->requests.n, sizeof(*model->above));
	model->answer = xcalloc(history->requests.n, sizeof(*model->answer));
	for (uint32_t i = 0; i < history->requests.n; i++)
		if (history->requests.v[i].flush && history->requests.v[i].answer && !is_cpu(&history->requests.v[i]))
			model->answer[model->all_answers++] = i;
	qsort_r(model->answer, model->all_answers, sizeof(*model->answer), by_answer,
		(void *)history);
	model->waits = xcalloc(history->requests.n, sizeof(*model->waits));
	for (uint32_t i = 0; i < history->requests.n; i++)
		model->waits[i] = history->requests.v[i].base != NEVER || waits_for(history, &history->requests.v[i]) ||
				  completions_implied(history, &history->requests.v[i]);
	find_witnesses(model);
	find_signals(model);
	order_find(history, &model->tied);
	restart(model);
}

/******************************************************************************
 * QPs that race for a word
 *
 * The target may have executed their stores in another order than that in which they came.  So the value of one is
 * left although a later one, of another QP, is durable.
 */

/* Is it durable with so many flushes executed? */
static bool is_durable(const struct model *model, const struct update *update, const uint32_t *executed)
{
	uint32_t other = other_flow(model->history, update);

	return update->covered <= executed[request_of(model, update)->flow] ||
	       (other != NEVER && written_back(model->history, update) <= executed[other]);
}

/* Does an update up to @durable follow that is durable with so many flushes executed, and that it cannot overtake, or not change? */
static bool is_superseded(const struct model *model, uint32_t s, int32_t position, int32_t durable,
			  const uint32_t *executed)
{
	const struct history *history = model->history;
	const struct update *first;

	if (position == START || durable - position > RACERS)
		return position < durable;
	first = stretch_update(history, s, position);
	for (int32_t p = position + 1; p <= durable; p++) {
		const struct update *second = stretch_update(history, s, p);

		if (is_durable(model, second, executed) &&
		    (!history_race(history, first, second) || holds_the_same(history, s, position, p)))
			return true;
	}
	return false;
}

/* The lowest position that words of the stretch may hold. */
static int32_t lowest(const struct model *model, uint32_t s, int32_t durable, const uint32_t *executed)
{
	int32_t position = model->floor[s];

	if (!model->raced[s])
		return durable;
	if (position < durable - RACERS)
		position = durable - RACERS;
	while (is_superseded(model, s, position, durable, executed))
		position++;
	return position;
}

static void set_open(struct model *model, uint32_t s)
{
	bool open = model->floor[s] < model->top[s];
	uint32_t last;

	if (open == (model->open_at[s] != NEVER))
		return;
	if (open) {
		model->open_at[s] = model->open.n;
		model->open_words += model->history->stretches.v[s].words;
		*list_add(&model->open) = s;
		return;
	}
	last = model->open.v[--model->open.n];
	model->open_words -= model->history->stretches.v[s].words;
	model->open.v[model->open_at[s]] = last;
	model->open_at[last] = model->open_at[s];
	model->open_at[s] = NEVER;
}

static void remove_in_flight(struct model *model, uint32_t message)
{
	uint32_t older = model->older[message], newer = model->newer[message];

	model->unsettled[model->history->requests.v[message].flow]--;

	if (older != NEVER)
		model->newer[older] = newer;
	if (newer != NEVER)
		model->older[newer] = older;
	else
		model->in_flight = older;
}

/* The message of the packet is the newest, then. */
static void add_in_flight(struct model *model, uint32_t index, uint32_t updates)
{
	uint32_t message = model->history->requests.v[index].message;

	model->above[index] = updates;
	if (!updates)
		return;
	if (model->in_message[message])
		remove_in_flight(model, message);
	model->unsettled[model->history->requests.v[message].flow]++;
	model->in_message[message] += updates;
	model->newest[message] = index;
	model->newer[message] = NEVER;
	model->older[message] = model->in_flight;
	if (model->in_flight != NEVER)
		model->newer[model->in_flight] = message;
	model->in_flight = message;
}

static void receive(struct model *model, uint32_t index)
{
	const struct history *history = model->history;
	const struct request *request = &history->requests.v[index];

	for (uint32_t u = request->first_update; u < request->first_update + request->updates; u++) {
		uint32_t s = history->updates.v[u].stretch;

		model->hash ^= hash_of_stretch(history, s, model->top[s]);
		model->top[s]++;
		model->hash ^= hash_of_stretch(history, s, model->top[s]);
		set_open(model, s);
	}
	model->updates += request->updates;
	add_in_flight(model, index, request->updates);
	if (request->flush)
		model->received[request->flow]++;
	if (request->completion)
		model->received[history->flows.v[request->flow].completions]++;
}

static void lift_floor(struct model *model, uint32_t s, int32_t position)
{
	while (model->floor[s] < position) {
		uint32_t r = stretch_update(model->history, s, ++model->floor[s])->request;
		uint32_t message = model->history->requests.v[r].message;

		model->above[r]--;
		if (!--model->in_message[message])
			remove_in_flight(model, message);
	}
	set_open(model, s);
}

/* What the flush numbered model->executed[] covers, at @position, is durable. */
static void raise_floor(struct model *model, uint32_t s, int32_t position)
{
	if (position <= model->durable[s] && !model->raced[s])
		return;
	if (position > model->durable[s])
		model->durable[s] = position;
	lift_floor(model, s, lowest(model, s, model->durable[s], model->executed));
}

/* So many flushes of the flow have been executed. */
static void execute(struct model *model, uint32_t index, uint32_t flushes)
{
	const struct flow *flow = &model->history->flows.v[index];

	while (model->executed[index] < flushes) {
		uint32_t f = flow->flush.v[model->executed[index]++];
		const struct request *flush = &model->history->requests.v[f];

		for (size_t i = 0; i < flush->covers.n; i++) {
			const struct update *update = &model->history->updates.v[flush->covers.v[i]];

			raise_floor(model, update->stretch, update->position);
		}
	}
}

/* Where the store of the request is seen, so many flushes have been executed, and completions come, of those received. */
static void execute_before(struct model *model, const struct request *request, uint32_t flushes)
{
	uint32_t other = model->history->flows.v[request->flow].completions, completions;

	execute(model, request->flow, flushes < model->received[request->flow] ? flushes : model->received[request->flow]);
	if (other == NEVER)
		return;
	completions = completions_implied(model->history, request);
	execute(model, other, completions < model->received[other] ? completions : model->received[other]);
}

uint32_t model_signal_at(const struct model *model, unsigned int moment)
{
	const struct request *requests = model->history->requests.v;
	size_t low = 0, high = model->signals.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (requests[model->signals.v[middle]].packet->moment < moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low < model->signals.n && requests[model->signals.v[low]].packet->moment == moment ? model->signals.v[low] : NEVER;
}

/* Does a consumer that has the signal @next know what it knew by @last?  It need not have seen that one. */
static bool implies(const struct history *history, const struct request *next, const struct request *last)
{
	if (next->flow != last->flow || next < last)
		return false;
	if (!history->rules->polled.n)
		return true;
	return (next->found == NEVER ? last->found == NEVER : &history->requests.v[next->found] == last) && next->updates == 1 && last->updates == 1 &&
	       history->updates.v[next->first_update].stretch == history->updates.v[last->first_update].stretch &&
	       waits_for(history, next) >= waits_for(history, last) &&
	       completions_implied(history, next) >= completions_implied(history, last);
}

/* The consumer has the signal. */
static void see(struct model *model, uint32_t signal)
{
	const struct history *history = model->history;
	const struct request *seen = &history->requests.v[signal];

	model->signal = signal;
	if (!history->rules->polled.n) {
		execute(model, history->flows.v[seen->flow].completions, seen->completion);
		return;
	}
	for (const struct request *r = seen; r; r = r->found == NEVER ? NULL : &history->requests.v[r->found])
		execute_before(model, r, waits_for(history, r));
	for (uint32_t u = seen->first_update; u < seen->first_update + seen->updates; u++) {
		uint32_t s = history->updates.v[u].stretch;

		if (!is_polled(history, s))
			continue;
		model->durable[s] = model->top[s];
		lift_floor(model, s, model->top[s]);
	}
}

void model_cut(struct model *model, unsigned int moment)
{
	const struct history *history = model->history;
	uint32_t signal = model_signal_at(model, moment);

	if (moment < model->moment ||
	    (model->signal != NEVER && (signal == NEVER || !implies(history, &history->requests.v[signal], &history->requests.v[model->signal]))))
		restart(model);
	model->moment = moment;
	for (; model->requests < history->requests.n &&
	       history->requests.v[model->requests].packet->moment <= moment; model->requests++)
		receive(model, model->requests);
	for (; model->answers < model->all_answers; model->answers++) {
		const struct request *flush = &history->requests.v[model->answer[model->answers]];

		if (!answered(flush, moment))
			break;
		execute_before(model, flush, flush->flush);
	}
	for (; model->witnessed < model->witnesses.n; model->witnessed++) {
		const struct request *witness = &history->requests.v[model->witnesses.v[model->witnessed]];

		if (witness->proven > moment)
			break;
		execute_before(model, witness, waits_for(history, witness));
	}
	while (cpu_fences(history) && model->executed[history->cpu] < cpu_fences(history)) {
		const struct request *fence = cpu_fence(history, model->executed[history->cpu] + 1);

		if (!answered(fence, moment))
			break;
		execute(model, history->cpu, fence->flush);
	}
	if (signal != NEVER)
		see(model, signal);
}

static int by_moment(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return x < y ? -1 : x > y;
}

static unsigned int *signal_cuts(const struct model *model, size_t *n)
{
	unsigned int *cuts = xcalloc(model->signals.n, sizeof(*cuts));

	for (*n = 0; *n < model->signals.n; ++*n)
		cuts[*n] = model->history->requests.v[model->signals.v[*n]].packet->moment;
	return cuts;
}

unsigned int *model_cuts(const struct model *model, size_t *n)
{
	const struct history *history = model->history;
	unsigned int *cuts;

	*n = 0;
	if (history->rules->visible)
		return signal_cuts(model, n);
	cuts = xcalloc(model->all_answers + model->witnesses.n + cpu_fences(history) + 1, sizeof(*cuts));

	for (uint32_t i = 0; i < model->all_answers; i++)
		cuts[(*n)++] = history->requests.v[model->answer[i]].answer->moment - 1;
	for (size_t i = 0; i < model->witnesses.n; i++)
		cuts[(*n)++] = history->requests.v[model->witnesses.v[i]].proven - 1;
	for (uint32_t number = 1; number <= cpu_fences(history); number++)
		cuts[(*n)++] = cpu_fence(history, number)->packet->moment - 1;
	qsort(cuts, *n, sizeof(*cuts), by_moment);
	cuts[(*n)++] = capture_last_moment(history->capture);
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
				uint32_t s = update->stretch;

				if (model->raised_when[s] != model->now) {
					model->raised_when[s] = model->now;
					model->raised[s] = model->durable[s];
				}
				if ((int32_t)update->position > model->raised[s])
					model->raised[s] = update->position;
			}
		}
}

static int32_t durable_of(const struct model *model, uint32_t s)
{
	return model->raised_when[s] == model->now ? model->raised[s] : model->durable[s];
}

const struct update *model_overtaken(const struct model *model, uint32_t word, int32_t position)
{
	uint32_t s = history_stretch_of(model->history, word);
	int32_t durable = durable_of(model, s);

	return model->raced[s] && position < durable ? stretch_update(model->history, s, durable) : NULL;
}

static void choose(struct model *model, const uint32_t *flushes)
{
	memcpy(model->chosen, flushes, model->history->flows.n * sizeof(*flushes));
}

/* What stands before the request where its store is seen, besides itself: what an Atomic found, or NULL. */
static const struct request *base_of(const struct model *model, const struct request *request)
{
	return request && request->base != NEVER ? &model->history->requests.v[request->base] : NULL;
}

/* Have all flushes been executed, by chosen[], that have to be where this update is seen? */
static bool is_enabled(const struct model *model, const struct update *update)
{
	if (!model->waits[update->request])
		return true;
	for (const struct request *r = request_of(model, update); r; r = base_of(model, r)) {
		uint32_t completions = completions_implied(model->history, r);

		if (waits_for(model->history, r) > model->chosen[r->flow] ||
		    (completions && completions > model->chosen[model->history->flows.v[r->flow].completions]))
			return false;
	}
	return true;
}

/* Of those that came. */
static void choose_executed(struct model *model, uint32_t flow, uint32_t flushes)
{
	if (flushes > model->chosen[flow] && flushes <= model->received[flow])
		model->chosen[flow] = flushes;
}

/* Let all of them have been executed, of those that came: what an Atomic found may have come after it. */
static void enable(struct model *model, const struct update *update)
{
	for (const struct request *r = request_of(model, update); r; r = base_of(model, r)) {
		choose_executed(model, r->flow, waits_for(model->history, r));
		if (completions_implied(model->history, r))
			choose_executed(model, model->history->flows.v[r->flow].completions, completions_implied(model->history, r));
	}
}

/* May words of the stretch hold this, with the FLUSHes in chosen[], and no more, executed? */
static bool permits(const struct model *model, uint32_t s, int32_t position)
{
	int32_t durable = durable_of(model, s);

	if (position > model->top[s] ||
	    (position < durable && (!model->raced[s] || is_superseded(model, s, position, durable, model->chosen))))
		return false;
	return position == START || is_enabled(model, stretch_update(model->history, s, position));
}

int32_t model_raised_floor(const struct model *model, uint32_t s)
{
	int32_t position = durable_of(model, s);

	if (!model->raced[s])
		return position;
	position = lowest(model, s, position, model->chosen);
	while (!permits(model, s, position))
		position++;
	return position;
}

/* The newest value up to @position that words of the stretch may hold so; the floor is one. */
static int32_t newest_permitted(const struct model *model, uint32_t s, int32_t floor, int32_t position)
{
	while (position > floor && !permits(model, s, position))
		position--;
	return position;
}

/* Each word of the stretch gets the newest value that it may hold so, and for which @pick says @picked; or the floor. */
static void choose_newest(struct model *model, uint32_t s, model_pick pick, const void *arg, bool picked)
{
	const struct stretch *stretch = &model->history->stretches.v[s];
	int32_t floor = model_raised_floor(model, s), top = newest_permitted(model, s, floor, model->top[s]);

	for (uint32_t w = stretch->word; w < stretch->word + stretch->words; w++) {
		int32_t position = top;

		while (position > floor && pick(model, stretch_update(model->history, s, position), w, arg) != picked)
			position = newest_permitted(model, s, floor, position - 1);
		model->choice[w] = position;
	}
}

/* Is one of the words, for the update that gave them all a value? */
static bool picks_any(const struct model *model, const struct update *update, model_pick pick, const void *arg)
{
	const struct stretch *stretch = &model->history->stretches.v[update->stretch];

	for (uint32_t w = stretch->word; w < stretch->word + stretch->words; w++)
		if (pick(model, update, w, arg))
			return true;
	return false;
}

/* Each of the open stretches */
#define for_each_open_stretch(model, s) \
	for (size_t open_ = 0; open_ < (model)->open.n; open_++) \
		for (uint32_t s = (model)->open.v[open_], once_ = 1; once_; once_ = 0)

/* Each word @w of the open stretches @s */
#define for_each_open(model, s, w) \
	for (size_t open_ = 0; open_ < (model)->open.n; open_++) \
		for (uint32_t s = (model)->open.v[open_], w = (model)->history->stretches.v[s].word, \
		     end_ = w + (model)->history->stretches.v[s].words; w < end_; w++)

/******************************************************************************
 * Words that are tied
 */

/* A word of a line that shall not be there, or shall, as another one has not or has come. */
struct conflict {
	uint32_t missing, there;	/* words */
	int32_t missing_at, there_at;	/* the positions of the updates */
};

static int32_t choice_of(const struct model *model, uint32_t s, uint32_t w)
{
	return model->open_at[s] == NEVER ? model->top[s] : model->choice[w];
}

/* Of the updates of @s above @position, up to what came: the first that is there where @there is, or START. */
static int32_t find_missing(const struct model *model, uint32_t s, int32_t position, const struct update *there)
{
	const struct history *history = model->history;
	bool durable = is_durable(model, there, model->chosen);
	int32_t last = position + RACERS < model->top[s] ? position + RACERS : model->top[s];

	for (int32_t p = position + 1; p <= last; p++) {
		const struct update *missing = stretch_update(history, s, p);

		if (missing->request > there->request)
			break;
		if (order_forces(history, missing, there, durable) &&
		    (position == START || !history_race(history, stretch_update(history, s, position), missing)))
			return p;
	}
	return START;
}

/* The newest store by the CPU at @position or below it, as far as the line tells, or START. */
static int32_t newest_cached(const struct model *model, uint32_t s, int32_t position)
{
	for (int32_t p = position; p >= 0 && p > position - RACERS; p--)
		if (order_is_cached(model->history, stretch_update(model->history, s, p)))
			return p;
	return START;
}

/* Does some word of the line lack what @conflict->there and ->there_at force? */
static bool lacks(const struct model *model, const struct tied *tied, struct conflict *conflict)
{
	const struct history *history = model->history;
	uint32_t there_in = history_stretch_of(history, conflict->there), s = history_stretch_of(history, tied->first);
	const struct update *there;

	if (conflict->there_at == START)
		return false;
	there = stretch_update(history, there_in, conflict->there_at);
	for (uint32_t w = tied->first; w < tied->end; w++) {
		s = history_stretch_near(history, w, s);
		if (w == conflict->there || model->open_at[s] == NEVER)
			continue;
		conflict->missing = w;
		conflict->missing_at = find_missing(model, s, model->choice[w], there);
		if (conflict->missing_at != START)
			return true;
	}
	return false;
}

static bool find_conflict(const struct model *model, const struct tied *tied, struct conflict *conflict)
{
	uint32_t s = history_stretch_of(model->history, tied->first);

	for (uint32_t w = tied->first; w < tied->end; w++) {
		s = history_stretch_near(model->history, w, s);
		conflict->there = w;
		conflict->there_at = choice_of(model, s, w);
		if (lacks(model, tied, conflict))
			return true;
		if (model->history->cpu == NEVER)
			continue;
		conflict->there_at = newest_cached(model, s, conflict->there_at);
		if (lacks(model, tied, conflict))
			return true;
	}
	return false;
}

/* Take away what is there without the other.  False if it is durable. */
static bool take_away(struct model *model, const struct conflict *conflict)
{
	uint32_t s = history_stretch_of(model->history, conflict->there);
	int32_t position = conflict->there_at - 1, floor = model_raised_floor(model, s);

	while (position > floor && !permits(model, s, position))
		position--;
	if (model->open_at[s] == NEVER || position < floor)
		return false;
	model->choice[conflict->there] = position;
	return true;
}

/* Let the other be there, too.  False if it cannot be. */
static bool add_missing(struct model *model, const struct conflict *conflict)
{
	uint32_t s = history_stretch_of(model->history, conflict->missing);

	if (!permits(model, s, conflict->missing_at))
		return false;
	model->choice[conflict->missing] = conflict->missing_at;
	return true;
}

/* Each line that has open words of which some are tied, once. */
static struct tied *next_tied(struct model *model, size_t *open, uint32_t *word)
{
	const struct history *history = model->history;

	for (; *open < model->open.n; ++*open, *word = 0) {
		const struct stretch *stretch = &history->stretches.v[model->open.v[*open]];

		while (*word < stretch->words) {
			struct tied *tied = order_from(&model->tied, stretch->word + *word);

			if (!tied || tied->first >= stretch->word + stretch->words)
				break;
			*word = tied->end - stretch->word;
			if (tied->when == model->looked)
				continue;
			tied->when = model->looked;
			return tied;
		}
	}
	return NULL;
}

/* No conflict is left of choice[]: what is @lost takes along what needs it, or what is left takes along what it needs. */
static void keep_order(struct model *model, bool lost)
{
	struct conflict conflict;
	struct tied *tied;
	size_t open = 0;
	uint32_t word = 0;

	if (!model->tied.n)
		return;
	model->looked++;
	while ((tied = next_tied(model, &open, &word)))
		/* Each turn loses or adds one value, but what one of them cannot do the other does. */
		for (int turns = 0; turns < TURNS && find_conflict(model, tied, &conflict); turns++)
			if (lost ? !take_away(model, &conflict) && !add_missing(model, &conflict) :
				   !add_missing(model, &conflict) && !take_away(model, &conflict))
				break;
}

static bool is_in_order(struct model *model)
{
	struct conflict conflict;
	struct tied *tied;
	size_t open = 0;
	uint32_t word = 0;

	if (!model->tied.n)
		return true;
	model->looked++;
	while ((tied = next_tied(model, &open, &word)))
		if (find_conflict(model, tied, &conflict))
			return false;
	return true;
}

/******************************************************************************
 * States
 */

/* From choice[] of the open words. */
static void set_state(struct model *model, struct state *state)
{
	const struct history *history = model->history;

	state->moment = model->moment;
	state->held.n = 0;
	state->hash = model->hash ^ mix64(model->answers + 1);
	for_each_open(model, s, w) {
		if (model->choice[w] == model->top[s])
			continue;
		*list_add(&state->held) = (struct held){ w, model->choice[w] };
		state->hash ^= hash_in(history, s, w, model->top[s]) ^
			       hash_in(history, s, w, model->choice[w]);
	}
}

/* Is choice[] allowed?  As few FLUSHes as can be are taken for executed, which allows most. */
static bool is_allowed(struct model *model)
{
	choose(model, model->executed);
	for_each_open(model, s, w)
		if (model->choice[w] != START)
			enable(model, stretch_update(model->history, s, model->choice[w]));
	raise_floors(model);
	for_each_open(model, s, w)
		if (!permits(model, s, model->choice[w]))
			return false;
	return is_in_order(model);
}

bool model_allows(struct model *model, struct state *state)
{
	uint32_t near = 0;

	for_each_open(model, s, w)
		model->choice[w] = model->top[s];
	for (size_t i = 0; i < state->held.n; i++) {
		const struct held *held = &state->held.v[i];

		near = history_stretch_near(model->history, held->word, near);
		if (model->open_at[near] == NEVER) {
			if (held->position != model->top[near])
				return false;
			continue;
		}
		model->choice[held->word] = held->position;
	}
	if (!is_allowed(model))
		return false;
	set_state(model, state);
	return true;
}

void model_open_words(const struct model *model, uint32_t message, held_list *words)
{
	const struct history *history = model->history;

	for (uint32_t r = message; r <= model->newest[message]; r++) {
		const struct request *request = &history->requests.v[r];

		for (uint32_t u = 0; request->message == message && u < request->updates; u++) {
			const struct update *update = &history->updates.v[request->first_update + u];
			const struct stretch *stretch = &history->stretches.v[update->stretch];
			int32_t position = update->position;

			for (uint32_t w = 0; w < stretch->words && position > model->floor[update->stretch]; w++)
				*list_add(words) = (struct held){ stretch->word + w, position };
		}
	}
}

/* Of these ways the model need not allow all. */
size_t model_choices(const struct model *model)
{
	size_t count = 1;

	for_each_open(model, s, w) {
		count *= model->top[s] - model->floor[s] + 1;
		if (count > FEW_STATES)
			return 0;
	}
	return count;
}

bool model_choice(struct model *model, size_t n, struct state *state)
{
	for_each_open(model, s, w) {
		size_t values = model->top[s] - model->floor[s] + 1;

		model->choice[w] = model->floor[s] + n % values;
		n /= values;
	}
	if (n || !is_allowed(model))
		return false;
	set_state(model, state);
	return true;
}

/* A flush that holds what is lost has not been executed. */
static void choose_without(struct model *model, uint32_t flow, uint32_t flush)
{
	if (flush > model->executed[flow] && flush <= model->chosen[flow])
		model->chosen[flow] = flush - 1;
}

void model_lose(struct model *model, model_pick pick, const void *arg, struct state *state)
{
	choose(model, model->received);
	for_each_open_stretch(model, s)
		for (int32_t p = model->floor[s] + 1; p <= model->top[s]; p++) {
			const struct update *update = stretch_update(model->history, s, p);

			if (!picks_any(model, update, pick, arg))
				continue;
			choose_without(model, request_of(model, update)->flow, update->covered);
			if (other_flow(model->history, update) != NEVER)
				choose_without(model, other_flow(model->history, update), written_back(model->history, update));
		}
	raise_floors(model);
	for_each_open_stretch(model, s)
		choose_newest(model, s, pick, arg, false);
	keep_order(model, true);
	set_state(model, state);
}

void model_leave(struct model *model, model_pick pick, const void *arg, struct state *state)
{
	choose(model, model->executed);
	for_each_open_stretch(model, s)
		for (int32_t p = model->floor[s] + 1; p <= model->top[s]; p++) {
			const struct update *update = stretch_update(model->history, s, p);

			if (!is_enabled(model, update) && picks_any(model, update, pick, arg))
				enable(model, update);
		}
	raise_floors(model);
	for_each_open_stretch(model, s)
		choose_newest(model, s, pick, arg, true);
	keep_order(model, false);
	set_state(model, state);
}

/* What is lost together: words, cache lines, packets, requests. */
static uint64_t lost_together(const struct model *model, unsigned int grain, uint32_t s, uint32_t w)
{
	const struct stretch *stretch = &model->history->stretches.v[s];
	const struct update *update = stretch_update(model->history, s, model->top[s]);
	uint64_t offset = stretch->offset + (uint64_t)(w - stretch->word) * WORD;

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

static void choose_words_by_chance(struct model *model, uint32_t s, uint64_t seed, unsigned int grain, unsigned int bias)
{
	const struct stretch *stretch = &model->history->stretches.v[s];
	int32_t low = model_raised_floor(model, s), high = newest_permitted(model, s, low, model->top[s]);

	for (uint32_t w = stretch->word; w < stretch->word + stretch->words; w++) {
		uint64_t chance = mix64(seed ^ mix64(lost_together(model, grain, s, w) + 1));

		model->choice[w] = chance % 256 < bias ? high : low;
		/* Now and then a value between them. */
		chance = mix64(chance ^ w);
		if (high - low > 1 && chance % 4 == 0) {
			model->choice[w] = low + chance / 4 % (high - low + 1);
			if (!permits(model, s, model->choice[w]))
				model->choice[w] = low;
		}
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
	for_each_open_stretch(model, s)
		choose_words_by_chance(model, s, seed, grain, bias);
}

void model_random(struct model *model, uint64_t seed, struct state *state)
{
	choose_by_chance(model, seed);
	keep_order(model, mix64(seed) % 2);
	set_state(model, state);
}

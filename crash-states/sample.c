// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../selftests/rdma/rxe_roce.h"
#include "sample.h"

#define UNITS		16u	/* requests in flight that are told apart: the newest */
#define LENGTHS		7	/* a shape is made of 16, 8, 4, 2, 1, 1 without its size, or 0 of them */
#define ANY_SIZE	5	/* of these */
#define MAX_SHAPES	32
#define MAX_OF_ANY_SIZE	64
#define BY_CHANCE	2	/* cuts of a shape, besides its first and its last */
#define BY_CHANCE_ALONE	32	/* the same, if the cuts have too many shapes to tell them apart */
#define MAX_KINDS	64	/* of messages, that are looked for */
#define MAX_SIZES	16	/* of messages, of which each word is tried */
#define MAX_WORDS	512	/* of such a message */
#define FEW_WORDS	8	/* of which it matters which ones change */
#define FIRST_BATCH	1000	/* states, if no number is given */
#define STAGES		4	/* of the states that go where views are new */
#define SCATTER		2654435761	/* a prime, more than there are states or words */

struct cut {
	unsigned int moment;
	uint64_t order;			/* by chance */
	uint64_t shape[LENGTHS];
	bool looked_at;
	size_t next;			/* of its states by chance */
	size_t next_line, next_word;	/* of its parts */
	bool has_counted;		/* its parts */
	size_t new_views;		/* since the last stage */
	bool has_turn, exhausted;
};

/* The states that were taken, by their hash. */
struct seen {
	uint64_t *slot;
	size_t n, size;
};

/* Messages that are alike by themselves. */
struct kind {
	uint64_t hash;
	uint32_t message;		/* the first of them */
	size_t cut;			/* the last one where it is in flight */
	bool new_size;			/* of its opcode */
};

struct sampling {
	struct model *model;
	const struct sample_options *options;
	sample_take take;
	void *arg;
	struct coverage *coverage;
	struct cut *cuts;
	struct seen seen;
	struct state state;
	bool stopped;
	struct timespec began;
	LIST(struct kind) kinds;
	uint32_t *kind_of;		/* each message: a number from 1 on, NEVER if it is none of them, or 0 */

	/* Of the cut where the model stands. */
	uint8_t *unit;			/* of each message in flight */
	unsigned int units;
	LIST(uint64_t) lines;		/* that have open words */
	LIST(uint32_t) words;		/* the open words */
};

/* False if it was known already.  0 is no hash. */
static bool add_seen(struct seen *seen, uint64_t hash)
{
	size_t at;

	if (seen->n * 2 >= seen->size) {
		struct seen larger = { .size = seen->size ? seen->size * 2 : 4096 };

		larger.slot = xcalloc(larger.size, sizeof(*larger.slot));
		for (size_t i = 0; i < seen->size; i++)
			if (seen->slot[i])
				add_seen(&larger, seen->slot[i]);
		free(seen->slot);
		*seen = larger;
	}
	hash += !hash;
	for (at = hash & (seen->size - 1); seen->slot[at]; at = (at + 1) & (seen->size - 1))
		if (seen->slot[at] == hash)
			return false;
	seen->slot[at] = hash;
	seen->n++;
	return true;
}

/* Has the time passed? */
static bool is_late(const struct sampling *s)
{
	return s->options->seconds && seconds_since(&s->began) >= s->options->seconds;
}

/* Take the state, unless an equal one was.  True if it was new. */
static bool take_state(struct sampling *s)
{
	/* A checker that is told more may refuse what it accepted before. */
	size_t told = capture_told(s->model->history->capture, s->state.moment);

	if (s->stopped || !add_seen(&s->seen, s->state.hash ^ mix64(told)))
		return false;
	s->coverage->out_of_time = is_late(s);
	s->coverage->at_limit = s->seen.n > s->options->limit;
	if (s->coverage->at_limit || s->coverage->out_of_time) {
		s->seen.n--;
		s->stopped = true;
		return false;
	}
	s->stopped = !s->take(s->arg, s->model, &s->state, s->seen.n);
	return true;
}

/******************************************************************************
 * Messages in flight
 */

/* A message that may be lost, in part at least. */
struct message {
	uint32_t first, last;		/* its packets; @last is the newest that came and stored */
};

/* The newest messages in flight, newest first. */
struct messages {
	struct message v[UNITS];
	unsigned int n;
	bool older;			/* there are more */
};

static void find_messages(const struct model *model, struct messages *messages)
{
	uint32_t m;

	messages->n = 0;
	for (m = model->in_flight; m != NEVER && messages->n < UNITS; m = model->older[m])
		messages->v[messages->n++] = (struct message){ m, model->newest[m] };
	messages->older = m != NEVER;
}

/******************************************************************************
 * Shapes
 */

/* How messages are told apart. */
struct outline {
	uint8_t opcode;
	uint32_t flow;
	const struct region *region;
	uint64_t place, length;
};

static struct outline outline_of(const struct model *model, const struct message *message)
{
	const struct history *history = model->history;
	const struct request *first = &history->requests.v[message->first];
	const struct request *last = &history->requests.v[message->last];

	return (struct outline){
		.opcode = first->packet->opcode, .flow = first->flow, .region = first->region,
		.place = history->stretches.v[history->updates.v[last->first_update].stretch].offset -
			 (last->va - first->va),
		.length = last->va + last->length - first->va,
	};
}

/* QPs have no names, nor have regions: each is the first one, or the second one, of the shape. */
static unsigned int nth_flow(const struct outline *seen, unsigned int n)
{
	unsigned int i = 0;

	while (seen[i].flow != seen[n].flow)
		i++;
	return i;
}

static unsigned int nth_region(const struct outline *seen, unsigned int n)
{
	unsigned int i = 0;

	while (seen[i].region != seen[n].region)
		i++;
	return i;
}

/* Where it lies, seen from the next message of its kind: a ring that wraps goes back. */
static unsigned int direction(const struct outline *seen, unsigned int n)
{
	const struct outline *older = &seen[n];

	while (n--) {
		const struct outline *newer = &seen[n];

		if (newer->opcode == older->opcode && newer->flow == older->flow &&
		    newer->region == older->region)
			return newer->place > older->place ? 1 : newer->place < older->place ? 2 : 3;
	}
	return 0;
}

/*
 * A FLUSH, by how many persistent ones of its QP precede it that have not been executed for sure.  Those that have
 * been are alike, because otherwise a store that no FLUSH covers would make each later cut a shape of its own.
 */
static uint32_t flush_from_here(const struct model *model, uint32_t flow, uint32_t number)
{
	if (number == NEVER)
		return NEVER;
	if (number > model->received[flow])
		return NEVER - 1;
	if (number <= model->executed[flow])
		return 0;
	return number - model->executed[flow];
}

/* What may be lost of a packet, which FLUSHes cover that, and which it may have to wait for. */
static uint64_t hash_of_packet(const struct model *model, uint32_t r)
{
	const struct history *history = model->history;
	const struct request *request = &history->requests.v[r];
	const struct update *first = &history->updates.v[request->first_update];
	uint64_t hash = model->above[r] == request->updates;

	if (!request->updates)
		return 0;
	hash = mix64(hash << 32 | flush_from_here(model, request->flow, first->covered));
	hash = mix64(hash ^ flush_from_here(model, request->flow,
					    first[request->updates - 1].covered));
	return mix64(hash ^ flush_from_here(model, request->flow, request->flushes_before));
}

/* @seen[n]; those before it are newer. */
static uint64_t hash_of_message(const struct model *model, const struct message *message,
				const struct outline *seen, unsigned int n)
{
	const struct outline *o = &seen[n];
	unsigned int size = o->length ? 64 - __builtin_clzll(o->length) : 0;
	bool crosses = o->length && o->place / 4096 != (o->place + o->length - 1) / 4096;
	uint64_t hash = o->opcode;

	hash = hash << 8 | size;
	hash = hash << 8 | nth_flow(seen, n);
	hash = hash << 8 | nth_region(seen, n);
	hash = hash << 8 | direction(seen, n) << 2 | (o->length % WORD != 0) << 1 | crosses;
	hash = mix64(hash ^ hash_of_packet(model, message->first));
	return mix64(hash ^ hash_of_packet(model, message->last));
}

/* Only what it is, and which FLUSHes it has to do with: one that lacks its FLUSH is not like the others. */
static uint64_t hash_of_any_size(const struct model *model, const struct message *message, const struct outline *seen)
{
	uint64_t hash = mix64(seen->opcode ^ hash_of_packet(model, message->first));

	return mix64(hash ^ hash_of_packet(model, message->last));
}

/* shape[0] is made of UNITS messages, each next one of half as many, and the last ones of one or none. */
static void find_shape(const struct model *model, struct cut *cut)
{
	struct outline seen[UNITS];
	struct messages messages;
	uint64_t hash = 1;
	unsigned int n = 0;

	find_messages(model, &messages);
	cut->shape[LENGTHS - 1] = 0;
	for (int length = ANY_SIZE - 1; length >= 0; length--) {
		for (; n < UNITS >> length && n < messages.n; n++) {
			seen[n] = outline_of(model, &messages.v[n]);
			hash = mix64(hash + hash_of_message(model, &messages.v[n], seen, n));
		}
		cut->shape[length] = mix64(hash + (n < messages.n || messages.older));
	}
	cut->shape[ANY_SIZE] = messages.n ? hash_of_any_size(model, &messages.v[0], seen) : 0;
}

/******************************************************************************
 * Kinds of messages
 */

/* Does the update give word @i of its stretch another value? */
static bool changes_word(const struct model *model, const struct update *update, uint32_t i)
{
	const struct stretch *stretch = &model->history->stretches.v[update->stretch];
	const uint8_t *new = stretch_bytes(model->history, update->stretch, update->position);
	const uint8_t *old = stretch_bytes(model->history, update->stretch, (int32_t)update->position - 1);

	return memcmp(new + (size_t)i * WORD, old + (size_t)i * WORD, word_length(stretch));
}

/* Which of a few words change; of more, whether some do, and whether some do not. */
static uint64_t hash_of_changes(const struct model *model, const struct message *message)
{
	const struct history *history = model->history;
	unsigned int n = 0, changed = 0;
	uint64_t few = 0;

	for (uint32_t r = message->first; r <= message->last; r++) {
		const struct request *request = &history->requests.v[r];

		for (uint32_t u = 0; request->message == message->first && u < request->updates; u++) {
			const struct update *update = &history->updates.v[request->first_update + u];

			for (uint32_t i = 0; i < history->stretches.v[update->stretch].words; i++, n++)
				if (changes_word(model, update, i)) {
					changed++;
					few |= 1u << n % FEW_WORDS;
				}
		}
	}
	return n <= FEW_WORDS ? few : (uint64_t)FEW_WORDS + 256 * (changed > 0) + 512 * (changed < n);
}

static uint64_t hash_of_size(const struct model *model, const struct message *message)
{
	struct outline outline = outline_of(model, message);

	return mix64(outline.length << 8 | outline.opcode);
}

/* The number of the message's kind, see struct sampling. */
static uint32_t add_kind(struct sampling *s, const struct message *message)
{
	struct kind kind = { .message = message->first, .new_size = true };
	uint64_t size = hash_of_size(s->model, message);

	kind.hash = mix64(size ^ hash_of_changes(s->model, message));
	for (size_t k = 0; k < s->kinds.n; k++) {
		const struct message other = { s->kinds.v[k].message, s->model->newest[s->kinds.v[k].message] };

		if (s->kinds.v[k].hash == kind.hash)
			return NEVER;
		kind.new_size &= hash_of_size(s->model, &other) != size;
	}
	if (s->kinds.n == MAX_KINDS)
		return NEVER;
	*list_add(&s->kinds) = kind;
	return s->kinds.n;
}

/* Those of what is in flight where the model stands. */
static void note_kinds(struct sampling *s, size_t cut)
{
	struct messages messages;

	find_messages(s->model, &messages);
	for (unsigned int i = 0; i < messages.n; i++) {
		uint32_t *kind = &s->kind_of[messages.v[i].first];

		if (!*kind)
			*kind = add_kind(s, &messages.v[i]);
		if (*kind != NEVER)
			s->kinds.v[*kind - 1].cut = cut;
	}
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static size_t count_shapes(const struct cut *cuts, size_t n, int length)
{
	uint64_t *shapes = xcalloc(n, sizeof(*shapes));
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		shapes[i] = cuts[i].shape[length];
	qsort(shapes, n, sizeof(*shapes), by_number);
	for (size_t i = 0; i < n; i++)
		count += !i || shapes[i] != shapes[i - 1];
	free(shapes);
	return count;
}

/* Where many requests of many sizes are in flight, fewer of them make the shape. */
static int choose_length(struct sampling *s)
{
	int length = 0;

	while ((s->coverage->shapes = count_shapes(s->cuts, s->coverage->cuts, length)) >
	       (length == ANY_SIZE ? MAX_OF_ANY_SIZE : MAX_SHAPES))
		length++;
	s->coverage->any_size = length == ANY_SIZE;
	s->coverage->alike = length == LENGTHS - 1 ? 0 : length == ANY_SIZE ? 1 : UNITS >> length;
	return length;
}

static int by_shape_and_order(const void *a, const void *b, void *arg)
{
	const struct cut *x = *(struct cut *const *)a, *y = *(struct cut *const *)b;
	int length = *(int *)arg;

	if (x->shape[length] != y->shape[length])
		return x->shape[length] < y->shape[length] ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* The first cut of each shape, its last, and some by chance. */
static void choose_cuts(struct sampling *s)
{
	size_t n = s->coverage->cuts, from, to;
	struct cut **order = xcalloc(n, sizeof(*order)), *first, *last;
	size_t by_chance;
	int length;

	for (size_t i = 0; i < n; i++) {
		model_cut(s->model, s->cuts[i].moment);
		find_shape(s->model, &s->cuts[i]);
		note_kinds(s, i);
		order[i] = &s->cuts[i];
	}
	length = choose_length(s);
	by_chance = s->coverage->alike ? BY_CHANCE : BY_CHANCE_ALONE;
	/* A few shapes of any size leave room for more of their sizes. */
	if (s->coverage->any_size)
		by_chance = BY_CHANCE * MAX_SHAPES / s->coverage->shapes;
	qsort_r(order, n, sizeof(*order), by_shape_and_order, &length);
	for (from = 0; from < n; from = to) {
		first = last = order[from];
		for (to = from; to < n && order[to]->shape[length] == first->shape[length]; to++) {
			if (order[to] < first)
				first = order[to];
			if (order[to] > last)
				last = order[to];
			order[to]->looked_at = s->options->each_cut || to < from + by_chance;
		}
		first->looked_at = last->looked_at = true;
	}
	free(order);
	for (size_t k = 0; k < s->kinds.n; k++)
		s->cuts[s->kinds.v[k].cut].looked_at = true;
	for (size_t i = 0; i < n; i++)
		s->coverage->looked_at += s->cuts[i].looked_at;
	s->coverage->weak = !s->coverage->alike && s->coverage->looked_at < n;
}

/******************************************************************************
 * The complete part: requests
 */

/* Units of what is in flight at a cut: @a and @b, or those up to @a. */
struct some_units {
	const uint8_t *unit;
	unsigned int a, b;
	bool up_to;
};

static bool pick_units(const struct model *model, const struct update *update, uint32_t word,
		       const void *arg)
{
	const struct some_units *some = arg;
	unsigned int unit = some->unit[model->history->requests.v[update->request].message];

	(void)word;
	return some->up_to ? unit <= some->a : unit == some->a || unit == some->b;
}

/* Units have numbers in the order in which they came.  What is older than all others is one, number 0. */
static void find_units(struct sampling *s)
{
	const struct model *model = s->model;
	unsigned int n = 0;

	for (uint32_t m = model->in_flight; m != NEVER && n <= UNITS; m = model->older[m])
		n++;
	s->units = n;
	s->coverage->older |= n > UNITS;
	for (uint32_t m = model->in_flight; m != NEVER; m = model->older[m])
		s->unit[m] = n ? --n : 0;
}

static void lose_and_leave(struct sampling *s, model_pick pick, const void *what)
{
	model_lose(s->model, pick, what, &s->state);
	take_state(s);
	model_leave(s->model, pick, what, &s->state);
	take_state(s);
}

/* Every request and every pair of them, lost and left; every prefix.  The whole, and nothing, are prefixes. */
static void check_requests(struct sampling *s)
{
	struct some_units some = { .unit = s->unit };

	for (some.a = 0; some.a < s->units && !s->stopped; some.a++)
		for (some.b = some.a; some.b < s->units; some.b++)
			lose_and_leave(s, pick_units, &some);
	some.up_to = true;
	for (some.a = 0; some.a < s->units && !s->stopped; some.a++)
		lose_and_leave(s, pick_units, &some);
}

static bool pick_none(const struct model *model, const struct update *update, uint32_t word,
		      const void *arg)
{
	(void)model;
	(void)update;
	(void)word;
	(void)arg;
	return false;
}

/* In a group: those that went to a set of targets, which is a bit for each of them. */
static bool pick_targets(const struct model *model, const struct update *update, uint32_t word, const void *set)
{
	(void)word;
	return *(const unsigned int *)set >> model->history->requests.v[update->request].packet->target & 1;
}

/* All that is in flight to each set of targets, lost and left: no target waits for another one. */
static void check_targets(struct sampling *s)
{
	for (unsigned int set = 1; set < (1u << s->model->history->targets) - 1 && !s->stopped; set++)
		lose_and_leave(s, pick_targets, &set);
}

/* The @n-th of @count, in an order that leaps; each is met once, as no count has that prime factor. */
static size_t scattered(const struct sampling *s, size_t n, size_t count)
{
	return (n % count * SCATTER + mix64(s->options->seed ^ s->model->moment) % count) % count;
}

static bool pick_word(const struct model *model, const struct update *update, uint32_t word,
		      const void *which)
{
	(void)model;
	(void)update;
	return word == *(const uint32_t *)which;
}

/* The words of the message that may be lost. */
static void find_words(struct sampling *s, uint32_t message)
{
	held_list open = { };

	model_open_words(s->model, message, &open);
	s->words.n = 0;
	for (size_t i = 0; i < open.n; i++)
		*list_add(&s->words) = open.v[i].word;
	free(open.v);
}

/* Of one message of each opcode and size each word is lost alone, and left alone; of a long one, some. */
static void check_messages(struct sampling *s)
{
	unsigned int sizes = 0;

	for (size_t k = 0; k < s->kinds.n; k++) {
		if (!s->kinds.v[k].new_size)
			continue;
		model_cut(s->model, s->cuts[s->kinds.v[k].cut].moment);
		find_words(s, s->kinds.v[k].message);
		s->coverage->messages.all += s->words.n;
		if (++sizes > MAX_SIZES)
			continue;
		for (size_t i = 0; i < s->words.n && i < MAX_WORDS && !s->stopped; i++, s->coverage->messages.done++)
			lose_and_leave(s, pick_word, &s->words.v[scattered(s, i, s->words.n)]);
	}
}

/* At most: many of them are equal. */
static void plan(struct sampling *s)
{
	size_t sets = (1u << s->model->history->targets) - 2;

	for (size_t i = 0; i < s->coverage->cuts; i++) {
		if (!s->cuts[i].looked_at)
			continue;
		model_cut(s->model, s->cuts[i].moment);
		find_units(s);
		s->coverage->planned += 2 + 2 * sets + (size_t)s->units * (s->units + 1) + 2 * s->units;
	}
	for (size_t k = 0, sizes = 0; k < s->kinds.n && sizes < MAX_SIZES; k++)
		if (s->kinds.v[k].new_size) {
			model_cut(s->model, s->cuts[s->kinds.v[k].cut].moment);
			find_words(s, s->kinds.v[k].message);
			s->coverage->planned += 2 * (s->words.n < MAX_WORDS ? s->words.n : MAX_WORDS);
			sizes++;
		}
}

static void check_complete_part(struct sampling *s)
{
	for (size_t i = 0; i < s->coverage->cuts && !s->stopped; i++) {
		if (!s->cuts[i].looked_at)
			continue;
		model_cut(s->model, s->cuts[i].moment);
		lose_and_leave(s, pick_none, NULL);
		check_targets(s);
		find_units(s);
		check_requests(s);
	}
	check_messages(s);
	s->coverage->complete = !s->stopped;
}

/******************************************************************************
 * Beyond: cache lines, words
 */

static bool pick_line(const struct model *model, const struct update *update, uint32_t word,
		      const void *line)
{
	const struct stretch *stretch = &model->history->stretches.v[update->stretch];

	return (stretch->offset + (uint64_t)(word - stretch->word) * WORD) / CPU_LINE ==
	       *(const uint64_t *)line;
}

/* The lines, and the words, that may hold more than one value. */
static void find_parts(struct sampling *s)
{
	const struct model *model = s->model;
	size_t n = 0;

	s->lines.n = s->words.n = 0;
	for (size_t i = 0; i < model->open.n; i++) {
		const struct stretch *stretch = &model->history->stretches.v[model->open.v[i]];
		uint64_t end = stretch->offset + stretch->length;

		for (uint64_t line = stretch->offset / CPU_LINE; line * CPU_LINE < end; line++)
			*list_add(&s->lines) = line;
		for (uint32_t w = 0; w < stretch->words; w++)
			*list_add(&s->words) = stretch->word + w;
	}
	if (s->lines.n)
		qsort(s->lines.v, s->lines.n, sizeof(*s->lines.v), by_number);
	for (size_t i = 0; i < s->lines.n; i++)
		if (!n || s->lines.v[i] != s->lines.v[n - 1])
			s->lines.v[n++] = s->lines.v[i];
	s->lines.n = n;
}

/* Lose and leave each of @n parts of @size bytes, from @next on, until @tries were tried or the states are @end. */
static void check_parts(struct sampling *s, model_pick pick, const void *parts, size_t size, size_t n, size_t *next,
			size_t tries, size_t end, struct count *count)
{
	for (size_t i = 0; *next < n && i < tries && s->seen.n < end && !s->stopped; i++, ++*next, count->done++)
		lose_and_leave(s, pick, (const char *)parts + scattered(s, *next, n) * size);
}

/* Each line, then each word, until @most states are new. */
static void check_lines_and_words(struct sampling *s, struct cut *cut, size_t most)
{
	size_t end = s->seen.n + most, tries = 4 * most + 64;

	find_parts(s);
	if (!cut->has_counted) {
		s->coverage->lines.all += s->lines.n;
		s->coverage->words.all += s->words.n;
		cut->has_counted = true;
	}
	check_parts(s, pick_line, s->lines.v, sizeof(*s->lines.v), s->lines.n, &cut->next_line, tries, end,
		    &s->coverage->lines);
	check_parts(s, pick_word, s->words.v, sizeof(*s->words.v), s->words.n, &cut->next_word, tries, end,
		    &s->coverage->words);
}

/* Each cut has the same share; what it leaves of that goes to those after it. */
static void check_parts_of_requests(struct sampling *s, size_t most)
{
	size_t end = s->seen.n + most, cuts = s->coverage->looked_at;

	for (size_t i = 0; i < s->coverage->cuts; i++) {
		if (!s->cuts[i].looked_at)
			continue;
		model_cut(s->model, s->cuts[i].moment);
		check_lines_and_words(s, &s->cuts[i], s->seen.n < end ? (end - s->seen.n) / cuts : 0);
		cuts--;
	}
}

/******************************************************************************
 * Beyond: chance
 */

static int by_order(const void *a, const void *b)
{
	const struct cut *x = *(struct cut *const *)a, *y = *(struct cut *const *)b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/* If there are fewer states to check than cuts, chance says which cuts have one. */
static void give_turns(struct sampling *s, size_t states)
{
	struct cut **order = xcalloc(s->coverage->cuts, sizeof(*order));

	for (size_t i = 0; i < s->coverage->cuts; i++)
		order[i] = &s->cuts[i];
	qsort(order, s->coverage->cuts, sizeof(*order), by_order);
	for (size_t i = 0; i < s->coverage->cuts; i++)
		order[i]->has_turn = i < states;
	free(order);
}

/* Check up to @share new states of this cut.  If it has few states, each has its turn. */
static void check_by_chance(struct sampling *s, struct cut *cut, size_t share)
{
	size_t choices, added = 0;

	model_cut(s->model, cut->moment);
	choices = model_choices(s->model);
	/* Where chance finds nothing new any more, there is hardly something. */
	for (size_t tries = 0; added < share && !s->stopped && (choices || tries < 4 * share + 64);
	     tries++, cut->next++) {
		if (choices && cut->next == choices) {
			cut->exhausted = true;
			break;
		}
		if (!choices)
			model_random(s->model, mix64(s->options->seed) ^ mix64(cut->moment) * 31 ^
				     mix64(cut->next), &s->state);
		else if (!model_choice(s->model, scattered(s, cut->next, choices), &s->state))
			continue;
		added += take_state(s);
	}
	s->coverage->by_chance += added;
}

/* In rounds; all cuts have the same share, and what a cut with few states leaves goes to the others. */
static void check_all_by_chance(struct sampling *s, size_t end)
{
	size_t cuts = s->coverage->cuts, share, begun;

	if (s->seen.n >= end)
		return;
	give_turns(s, end - s->seen.n);
	/* A round that finds nothing new may have met what others found: twice, and it is all there is. */
	for (int idle = 0; s->seen.n < end && idle < 2 && !s->stopped;
	     idle = s->seen.n > begun ? 0 : idle + 1) {
		share = (end - s->seen.n) / cuts;
		share += !share;
		begun = s->seen.n;
		for (size_t i = 0; i < cuts && s->seen.n < end; i++) {
			if (s->cuts[i].has_turn && !s->cuts[i].exhausted)
				check_by_chance(s, &s->cuts[i], share);
			/* In the next round, those that had none have one. */
			s->cuts[i].has_turn = true;
		}
	}
}

static int by_moment(const void *key, const void *element)
{
	unsigned int moment = *(const unsigned int *)key, of = ((const struct cut *)element)->moment;

	return moment < of ? -1 : moment > of;
}

/* Those that no state up to number @begun had.  How many they are. */
static size_t find_new_views(struct sampling *s, size_t begun)
{
	size_t n, found = 0;
	const struct view *views = s->options->views(s->arg, &n);

	for (size_t i = 0; i < s->coverage->cuts; i++)
		s->cuts[i].new_views = 0;
	for (size_t i = 0; i < n; i++) {
		struct cut *cut;

		if (views[i].number <= begun)
			continue;
		cut = bsearch(&views[i].moment, s->cuts, s->coverage->cuts, sizeof(*s->cuts), by_moment);
		cut->new_views++;
		found++;
	}
	s->coverage->views = n;
	return found;
}

/* A cut has the more states the more new views the last stage has seen there. */
static void check_where_views_are_new(struct sampling *s, size_t begun, size_t end)
{
	size_t found = find_new_views(s, begun), states = end - s->seen.n, before = s->coverage->by_chance;

	for (size_t i = 0; found && i < s->coverage->cuts && s->seen.n < end; i++) {
		struct cut *cut = &s->cuts[i];
		size_t share = (states * cut->new_views + found - 1) / found;

		if (cut->new_views && !cut->exhausted)
			check_by_chance(s, cut, share < end - s->seen.n ? share : end - s->seen.n);
	}
	s->coverage->by_views += s->coverage->by_chance - before;
}

static void check_rest_by_chance(struct sampling *s, size_t most)
{
	size_t begun = s->seen.n, end = begun + most, middle = begun + most / 2;

	if (s->options->views) {
		check_all_by_chance(s, middle);
		for (int stage = 0; stage < STAGES && s->seen.n < end && !s->stopped; stage++) {
			size_t seen = s->seen.n;

			check_where_views_are_new(s, begun, seen + (end - seen) / (STAGES - stage));
			begun = seen;
		}
	}
	check_all_by_chance(s, end);
	if (s->options->views)
		find_new_views(s, 0);
	s->coverage->all = !s->stopped;
	for (size_t i = 0; i < s->coverage->cuts; i++)
		s->coverage->all &= s->cuts[i].exhausted;
}

/* So many states more, as far as there are. */
static void check_batch(struct sampling *s, size_t states)
{
	size_t begun = s->seen.n;

	check_parts_of_requests(s, states / 2);
	check_rest_by_chance(s, begun + states - s->seen.n);
}

/* Beyond the complete part. */
static void check_more(struct sampling *s)
{
	size_t begun;

	if (s->options->states != ANY_NUMBER) {
		check_batch(s, s->options->states);
		return;
	}
	for (size_t batch = FIRST_BATCH; !s->stopped && !s->coverage->all; batch *= 2) {
		begun = s->seen.n;
		check_batch(s, batch);
		if (s->seen.n == begun)
			break;
	}
}

void sample(struct model *model, const unsigned int *moments, size_t n,
	    const struct sample_options *options, sample_take take, void *arg,
	    struct coverage *coverage)
{
	struct sampling s = {
		.model = model, .options = options, .take = take, .arg = arg, .coverage = coverage,
		.cuts = xcalloc(n, sizeof(*s.cuts)), .unit = xcalloc(model->history->requests.n, 1),
		.kind_of = xcalloc(model->history->requests.n, sizeof(*s.kind_of)),
	};

	*coverage = (struct coverage){ .cuts = n, .targets = model->history->targets };
	for (size_t i = 0; i < n; i++)
		s.cuts[i] = (struct cut){ .moment = moments[i],
					  .order = mix64(mix64(options->seed) ^ moments[i]) };
	clock_gettime(CLOCK_MONOTONIC, &s.began);
	choose_cuts(&s);
	plan(&s);
	check_complete_part(&s);
	check_more(&s);
	free(s.lines.v);
	free(s.words.v);
	free(s.state.held.v);
	free(s.seen.slot);
	free(s.unit);
	free(s.kind_of);
	free(s.kinds.v);
	free(s.cuts);
}

static unsigned int percent(struct count count)
{
	return count.all ? 100 * count.done / count.all : 100;
}

/* Why the complete part is none. */
static const char *what_ended_it(const struct coverage *c)
{
	return c->out_of_time ? "the time was over (--seconds)" : c->at_limit ? "--limit ended it" : "there were failures enough";
}

/* In a line, for people. */
static void print_not_tried(const struct coverage *c, FILE *file)
{
	fputs("not tried: ", file);
	if (!c->complete)
		fprintf(file, "some of these, because %s; ", what_ended_it(c));
	if (c->looked_at < c->cuts)
		fprintf(file, "%zu cuts%s, but by chance; ", c->cuts - c->looked_at, c->weak ? "" : " that are like those looked at");
	if (c->words.done < c->words.all)
		fprintf(file, "%u %% of the single words that may be lost; ", 100 - percent(c->words));
	fprintf(file, "other mixes of old and new words, but for %zu by chance\n", c->by_chance);
}

void coverage_print(const struct coverage *c, FILE *file)
{
	fprintf(file, "coverage: %zu shape%s of %zu cuts (", c->shapes, c->shapes == 1 ? "" : "s", c->cuts);
	if (c->alike)
		fprintf(file, "by the newest %zu request%s in flight%s", c->alike, c->alike == 1 ? "" : "s",
			c->any_size ? ", of any size" : "");
	else
		fprintf(file, "too many to tell apart");
	fprintf(file, "), %zu cuts looked at\n", c->looked_at);
	if (c->all) {
		fprintf(file, "coverage: these are all states of all cuts\n");
		return;
	}
	if (c->weak)
		fprintf(file, "coverage: weak: run fewer records, let fewer FLUSHes wait for their answers, or raise --states\n");
	fprintf(file, "coverage: %s: every prefix, every request and every pair of requests in flight%s, and each word of one request of each size, lost and left%s\n",
		!c->complete ? "NOT COMPLETE" : c->weak ? "complete at these cuts only" : "complete",
		c->targets > 1 ? ", all those of each set of targets" : "",
		c->older ? "; those before the newest 16 as one" : "");
	if (c->views > 1)
		fprintf(file, "coverage: the checker printed %zu different texts; %zu states by chance are at cuts where it had just printed a new one\n",
			c->views, c->by_views);
	print_not_tried(c, file);
}

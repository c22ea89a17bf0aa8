// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../selftests/rdma/rxe_mpe_roce.h"
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
 * Which request, which FLUSH?
 */

static const struct request *request_at(const struct model *model, uint32_t word, int32_t position,
					uint32_t *index)
{
	*index = model_update(model->history, word, position)->request;
	return &model->history->requests.v[*index];
}

static bool is_flush(const struct request *request)
{
	return request->packet->opcode == ROCE_RC_FLUSH;
}

/* Do two ranges overlap? */
static bool meets(const struct request *flush, const struct request *request)
{
	uint64_t va, run, place, flush_run, flush_place;

	return flush->region && request->region &&
	       region_run(flush->region, flush->va, flush->length, 0, &va, &flush_run, &flush_place) &&
	       region_run(request->region, request->va, request->length, 0, &va, &run, &place) &&
	       flush_place < place + run && place < flush_place + flush_run;
}

/* What looks like the FLUSH that is missing, between @lost and @limit. */
static enum culprit look_for_near_miss(const struct model *model, const struct request *lost,
				       uint64_t offset, uint8_t mask, const struct request *limit,
				       uint32_t *which)
{
	const struct history *history = model->history;
	enum culprit best = CULPRIT_NO_FLUSH;

	*which = NEVER;
	for (uint32_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];
		bool same_qp = request->flow == lost->flow;
		enum culprit found;

		if (request->packet->moment <= lost->packet->moment ||
		    (limit && request->packet->moment >= limit->packet->moment))
			continue;
		if (same_qp && request->packet->opcode == ROCE_RC_READ_REQUEST && !request->flush &&
		    (request->rkey == lost->rkey || meets(request, lost))) {
			found = CULPRIT_READ;
		} else if (!is_flush(request)) {
			continue;
		} else if (request_holds(request, offset, mask)) {
			/* A good one would have been found already. */
			found = !request->flush ? CULPRIT_GLOBAL :
				!same_qp ? CULPRIT_OTHER_QP :
				history->rules->strict ? CULPRIT_STRICT : CULPRIT_NO_FLUSH;
		} else if (same_qp && meets(request, lost)) {
			found = CULPRIT_RANGE;
		} else {
			continue;
		}
		if (found < best) {
			best = found;
			*which = i;
		}
	}
	return best;
}

/* The earliest request after @lost on its QP that has come and had to. */
static uint32_t find_seen(const struct explanation *e, const struct model *model,
			  const struct request *lost)
{
	const struct history *history = model->history;
	uint32_t best = NEVER, index;

	/* An old value may be too new, as well. */
	for (size_t i = 0; i < e->needed.n + e->state.held.n; i++) {
		const struct held *held = i < e->needed.n ? &e->needed.v[i] :
							    &e->state.held.v[i - e->needed.n];
		const struct request *request;

		if (held->position == START)
			continue;
		request = request_at(model, held->word, held->position, &index);
		if (request->flow == lost->flow && request->psn > lost->psn &&
		    (best == NEVER || request->psn < history->requests.v[best].psn))
			best = index;
	}
	return best;
}

/* The earliest request of another QP that came after @lost and has to be there. */
static uint32_t find_seen_elsewhere(const struct explanation *e, const struct model *model,
				    const struct request *lost)
{
	const struct history *history = model->history;
	uint32_t best = NEVER, index;

	for (size_t i = 0; i < e->needed.n; i++) {
		const struct request *request;

		if (e->needed.v[i].position == START)
			continue;
		request = request_at(model, e->needed.v[i].word, e->needed.v[i].position, &index);
		if (request->flow != lost->flow && request->packet->moment > lost->packet->moment &&
		    (best == NEVER || request->packet->moment < history->requests.v[best].packet->moment))
			best = index;
	}
	return best;
}

/*
 * An ATOMIC WRITE after @lost, and before its @flush if there is one, that an earlier FLUSH has made durable:
 * the failure cannot be without it, so it is none of those that are needed.  Or NEVER.
 */
static uint32_t find_durable_before(const struct model *model, const struct request *lost, const struct update *update,
				    const struct request *flush)
{
	const struct history *history = model->history;

	for (uint32_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];
		const struct update *stored = &history->updates.v[request->first_update];
		uint32_t by;

		if (request->packet->opcode != ROCE_RC_ATOMIC_WRITE || !request->updates ||
		    request->flow != lost->flow || request->psn <= lost->psn || (flush && request->psn > flush->psn) ||
		    stored->stretch == update->stretch || stored->covered >= update->covered)
			continue;
		by = history->flows.v[lost->flow].flush.v[stored->covered - 1];
		if (answered(&history->requests.v[by], model->moment))
			return i;
	}
	return NEVER;
}

/* The request just before @lost on its QP, if it is a FLUSH that would have covered the store after it. */
static uint32_t find_flush_before(const struct model *model, uint32_t lost, uint64_t offset,
				  uint8_t mask)
{
	const struct history *history = model->history;
	const struct request *requests = history->requests.v;

	for (uint32_t i = lost; i--;)
		if (requests[i].flow == requests[lost].flow)
			return requests[i].flush && request_holds(&requests[i], offset, mask) ? i : NEVER;
	return NEVER;
}

/* How many words of the message are lost, of how many. */
static void count_words(const struct explanation *e, const struct model *model, uint32_t request,
			unsigned int *lost, unsigned int *all)
{
	const struct history *history = model->history;
	const struct request *r = &history->requests.v[request];

	*all = *lost = 0;
	for (uint32_t u = r->first_update; u < r->first_update + r->updates; u++)
		*all += history->stretches.v[history->updates.v[u].stretch].words;
	for (size_t i = 0; i < e->state.held.n; i++) {
		const struct held *held = &e->state.held.v[i];

		for (int32_t p = held->position + 1; p <= model_top(model, held->word); p++)
			if (model_update(history, held->word, p)->request == request)
				++*lost;
	}
}

/* The lost one that was sent first.  One without which something is there that was sent after it goes before. */
static const struct held *find_lost(struct explanation *e, const struct model *model)
{
	const struct held *held = NULL;
	bool passed = false;

	for (size_t i = 0; i < e->state.held.n; i++) {
		const struct held *other = &e->state.held.v[i];
		uint32_t index;
		const struct request *lost = request_at(model, other->word, other->position + 1, &index);
		bool is_passed = find_seen(e, model, lost) != NEVER;

		if (!held || is_passed > passed || (is_passed == passed && index < e->lost)) {
			e->lost = index;
			held = other;
			passed = is_passed;
		}
	}
	return held;
}

/* A persistent FLUSH of its QP between @lost and @limit, which does not name what is lost; or NEVER */
static uint32_t find_flush_of_others(const struct model *model, const struct request *lost, const struct request *limit)
{
	const struct history *history = model->history;

	for (uint32_t i = 0; limit && i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];

		if (request->flush && request->flow == lost->flow && request->psn > lost->psn &&
		    request->psn < limit->psn)
			return i;
	}
	return NEVER;
}

/* The store of another QP to the word that came after what is @held, and is durable; or NULL */
static const struct request *find_overtaken(struct explanation *e, struct model *model, const struct held *held)
{
	const struct update *overtaken;

	model_allows(model, &e->state);
	overtaken = model_overtaken(model, held->word, held->position);
	return overtaken ? &model->history->requests.v[overtaken->request] : NULL;
}

static void print_loss(const struct explanation *e, const struct model *model, FILE *why)
{
	const struct request *lost = &model->history->requests.v[e->lost];
	unsigned int words_lost, words_all;

	count_words(e, model, e->lost, &words_lost, &words_all);
	if (words_lost < words_all)
		fprintf(why, "%s has lost %u of its %u words: it is torn.  ", request_text(lost), words_lost, words_all);
	else
		fprintf(why, "%s is lost.  ", request_text(lost));
}

/******************************************************************************
 * The target's CPU
 */

/* Is it what the CPU's write-backs and fences are for?  That is what it stored, and what they make durable too late. */
static bool is_made_durable_by_cpu(const struct history *history, const struct request *lost, const struct update *update)
{
	return is_cpu(lost) || (update->covered == NEVER && written_back(history, update) != NEVER);
}

/* The newest request of the CPU between the moments @from and @to that writes the line of @offset back, or NULL */
static const struct request *find_write_back(const struct history *history, uint64_t offset, unsigned int from,
					     unsigned int to)
{
	const struct request *found = NULL;

	for (uint32_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];

		if (cpu_is_write_back(request->packet->opcode) && request->packet->moment > from &&
		    request->packet->moment < to && offset - request->va < CPU_LINE)
			found = request;
	}
	return found;
}

static const char *moment_of(const struct model *model, const struct request *request)
{
	return moment_text(model->history->capture, request->packet->moment);
}

/* Which instruction is missing, or too late?  @elsewhere is a request of a QP that has to have come, or NEVER. */
static void find_cpu_culprit(struct explanation *e, const struct model *model, const struct update *update,
			     uint32_t elsewhere, FILE *why)
{
	const struct history *history = model->history;
	const struct request *lost = &history->requests.v[e->lost], *seen, *fence = NULL, *line;
	uint64_t offset = history->stretches.v[update->stretch].offset;
	unsigned int limit = model->moment + 1;
	const char *tail = "";

	if (e->seen == NEVER)
		e->seen = elsewhere;
	seen = e->seen == NEVER ? NULL : &history->requests.v[e->seen];
	if (seen) {
		limit = seen->packet->moment;
		tail = xasprintf(", and %s is there", request_text(seen));
	}
	if (written_back(history, update) != NEVER) {
		fence = cpu_fence(history, written_back(history, update));
		e->flush = fence - history->requests.v;
	}
	line = find_write_back(history, offset, lost->packet->moment, limit);
	if (line || (lost->packet->opcode == CPU_NT_STORE && is_cpu(lost))) {
		e->culprit = CULPRIT_NO_FENCE;
		fprintf(why, "%s%s%s, but no fence of that thread had been executed%s, so it may not have reached the memory.  SFENCE waits for that.",
			line ? request_text(line) : "It is non-temporal", line ? " writes it back, at frame " : "",
			line ? moment_of(model, line) : "", tail);
	} else if ((line = find_write_back(history, offset, 0, lost->packet->moment)) &&
		   (!fence || find_write_back(history, offset, lost->packet->moment, UINT32_MAX) == NULL)) {
		e->culprit = CULPRIT_WROTE_BACK_BEFORE;
		fprintf(why, "%s wrote its line back, at frame %s, before it was stored%s.  Write the line back after the store, and let SFENCE follow.",
			request_text(line), moment_of(model, line), tail);
	} else {
		e->culprit = CULPRIT_NO_WRITE_BACK;
		fprintf(why, "No CLWB, CLFLUSHOPT or CLFLUSH of its line had been executed%s.  Write the line back, and let SFENCE follow, before anything counts on it.",
			tail);
	}
	if (fence)
		fprintf(why, "  %s, which makes it durable, came only later, at frame %s.", request_text(fence), moment_of(model, fence));
}

static void find_culprit(struct explanation *e, struct model *model)
{
	const struct history *history = model->history;
	const struct request *lost, *seen, *overtaken, *flush = NULL;
	const struct held *held = NULL;
	const struct update *update;
	uint32_t near, elsewhere;
	char *tail;
	size_t size;
	FILE *why;

	e->lost = e->seen = e->flush = NEVER;
	why = open_memstream(&e->why, &size);
	if (!why)
		fail("no memory");
	held = find_lost(e, model);
	if (!held) {
		e->culprit = CULPRIT_NOTHING_LOST;
		fprintf(why, "All that came is there, and nothing is lost: the checker refuses what the program itself has made, or counts on what was not sent yet.");
		fclose(why);
		return;
	}
	update = model_update(history, held->word, held->position + 1);
	lost = &history->requests.v[e->lost];
	overtaken = find_overtaken(e, model, held);
	if (overtaken) {
		e->culprit = CULPRIT_RACE;
		e->lost = overtaken - history->requests.v;
		lost = request_at(model, held->word, held->position, &e->seen);
		fprintf(why, "%s of QP %u and %s of QP %u store to the word at %s, and the first is left: a QP does not wait for another QP, so the target may execute them in either order.  Wait until a FLUSH of one has completed before you send the other, or use one QP.",
			request_text(lost), lost->packet->qpn, request_text(overtaken), overtaken->packet->qpn,
			history_place(history, history_offset(history, held->word)));
		fclose(why);
		return;
	}
	e->seen = find_seen(e, model, lost);
	elsewhere = find_seen_elsewhere(e, model, lost);
	if (update->covered != NEVER) {
		e->flush = history->flows.v[lost->flow].flush.v[update->covered - 1];
		flush = &history->requests.v[e->flush];
	}
	if (e->seen == NEVER && elsewhere == NEVER)
		e->seen = find_durable_before(model, lost, update, flush);
	seen = e->seen == NEVER ? NULL : &history->requests.v[e->seen];
	print_loss(e, model, why);
	if (is_made_durable_by_cpu(history, lost, update)) {
		find_cpu_culprit(e, model, update, elsewhere, why);
		fclose(why);
		return;
	}
	tail = seen ? xasprintf(", and %s is there", request_text(seen)) : xasprintf("%s", "");

	near = NEVER;
	if (held->position != START &&
	    !(model_update(history, held->word, held->position)->mask & update->mask) &&
	    update->mask != 0xff) {
		e->culprit = CULPRIT_IN_PARTS;
		request_at(model, held->word, held->position, &near);
		e->seen = near;
		fprintf(why, "%s has stored the other part of the same word, and is there: what two requests store a power failure may tear.  One ATOMIC WRITE stores the word at once.",
			request_text(&history->requests.v[near]));
	} else if (flush && seen && flush->psn < seen->psn) {
		e->culprit = CULPRIT_PASSED;
		fprintf(why, "%s, which covers it, had not been executed%s: a %s may pass a %s.  Wait until the %s has completed, or store by ATOMIC WRITE, which never passes it.",
			request_text(flush), tail, opcode_name(seen->packet->opcode),
			opcode_name(flush->packet->opcode), opcode_name(flush->packet->opcode));
	} else if (flush && !seen && elsewhere != NEVER) {
		e->culprit = CULPRIT_QPS;
		e->seen = elsewhere;
		seen = &history->requests.v[elsewhere];
		fprintf(why, "%s, which covers it, had not been executed, and %s of QP %u is there: a QP does not wait for a FLUSH of another QP.  Wait until the FLUSH has completed, or use one QP.",
			request_text(flush), request_text(seen), seen->packet->qpn);
	} else if (flush && !seen) {
		e->culprit = CULPRIT_TOO_EARLY;
		fprintf(why, "%s, which covers it, ", request_text(flush));
		if (flush->packet->moment > model->moment)
			fprintf(why, "came only later (frame %u)", flush->packet->frame);
		else if (flush->answer)
			fprintf(why, "was answered only later (frame %u)", flush->answer->frame);
		else
			fprintf(why, "was never answered");
		fprintf(why, ": until that FLUSH has completed, nothing may count on it.");
	} else {
		e->culprit = look_for_near_miss(model, lost, history_offset(history, held->word),
						update->mask, seen, &near);
		if (near == NEVER) {
			near = find_flush_before(model, e->lost, history_offset(history, held->word),
						 update->mask);
			/* If a later FLUSH covers the store, one that names more than the store was meant for others. */
			if (near != NEVER && update->covered != NEVER &&
			    history->requests.v[near].va != lost->va)
				near = NEVER;
			if (near != NEVER)
				e->culprit = CULPRIT_BEFORE;
		}
		flush = near == NEVER ? NULL : &history->requests.v[near];
		switch (e->culprit) {
		case CULPRIT_GLOBAL:
			fprintf(why, "%s asks for global visibility only, which makes nothing durable%s.  It has to ask for persistence.",
				request_text(flush), tail);
			break;
		case CULPRIT_RANGE:
			fprintf(why, "%s does not hold all that was stored to the word at %s%s.  Its range, or its key, has to cover what is to be durable.",
				request_text(flush), history_place(history, history_offset(history, held->word)),
				tail);
			break;
		case CULPRIT_STRICT:
			if (flush->rkey != lost->rkey)
				fprintf(why, "%s names it by the key 0x%x, and the %s has the key 0x%x%s: by --model strict, a FLUSH covers what was stored by its own key.",
					request_text(flush), flush->rkey, opcode_name(lost->packet->opcode),
					lost->rkey, tail);
			else
				fprintf(why, "%s holds a part of the %s only%s: by --model strict, a FLUSH covers what lies in its range as a whole.",
					request_text(flush), opcode_name(lost->packet->opcode), tail);
			break;
		case CULPRIT_BEFORE:
			fprintf(why, "%s names it, but was sent before it%s: a FLUSH covers what precedes it.  Send the FLUSH after the store.",
				request_text(flush), tail);
			break;
		case CULPRIT_OTHER_QP:
			fprintf(why, "%s was sent on QP %u, and the store on QP %u%s: a FLUSH speaks for its own QP only.",
				request_text(flush), flush->packet->qpn, lost->packet->qpn, tail);
			break;
		case CULPRIT_READ:
			fprintf(why, "%s follows it%s, but a READ makes nothing durable.  A persistent FLUSH does.",
				request_text(flush), tail);
			break;
		default:
			if (e->flush != NEVER)
				fprintf(why, "No FLUSH stands between the two%s; %s, which covers it, was sent later.  What relies on other data must come after a persistent FLUSH of that.",
					tail, request_text(&history->requests.v[e->flush]));
			else
				fprintf(why, "No persistent FLUSH of its QP that covers it follows%s.  What relies on other data must come after a persistent FLUSH of that.",
					tail);
			near = find_flush_of_others(model, lost, seen);
			if (near != NEVER)
				fprintf(why, "  %s stands between the two, and names other memory.",
					request_text(&history->requests.v[near]));
			if (history->cpu != NEVER)
				fputs("  Nor did the target's CPU make it durable, by a write-back of its line when it was visible, and a fence after that.",
				      why);
		}
		if (near != NEVER)
			e->flush = near;
	}
	free(tail);
	if (fclose(why))
		fail("no memory");
}

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

	*e = (struct explanation){ .lost = NEVER };
	model_cut(model, state->moment);
	for (size_t i = 0; i < state->held.n; i++)
		*list_add(&lost) = state->held.v[i];
	e->state.moment = state->moment;
	if (!fails_without(&search, &lost)) {
		e->culprit = CULPRIT_CHECKER;
		e->why = xasprintf("The checker refuses this state, and then accepts the same state: it depends on time, on chance, or on what an earlier call has left.");
		e->state.held = lost;
		model_allows(model, &e->state);
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
	find_culprit(e, model);
	free(lost.v);
}

/* Where the word is for the initiator: in the region of the key that its newest store used. */
static void print_key(const struct model *model, FILE *file, uint32_t word)
{
	const struct history *history = model->history;
	const struct request *request;
	uint64_t va, run, place, offset = history_offset(history, word);
	uint32_t index;

	request = request_at(model, word, model_top(model, word), &index);
	if (!request->rkey)
		return;
	for (size_t i = 0; region_run(request->region, request->va, request->length, i, &va, &run, &place); i++)
		if (offset + WORD > place && offset < place + run)
			fprintf(file, "; key 0x%x + 0x%" PRIx64, request->rkey,
				va + (offset > place ? offset - place : 0) - request->region->va);
}

static void print_word(const struct model *model, FILE *file, const char *what, uint32_t word,
		       int32_t position)
{
	const struct history *history = model->history;
	uint32_t request;

	fprintf(file, "  %s %s  holds ", what, history_place(history, history_offset(history, word)));
	if (position == START)
		fputs("what it held at the start", file);
	else
		fprintf(file, "what %s gave it",
			request_text(request_at(model, word, position, &request)));
	fprintf(file, ", 0x%016" PRIx64, le64toh(model_value(history, word, position)));
	if (position < model_top(model, word))
		fprintf(file, ", not what %s gave it, 0x%016" PRIx64,
			request_text(request_at(model, word, model_top(model, word), &request)),
			le64toh(model_value(history, word, model_top(model, word))));
	print_key(model, file, word);
	fputc('\n', file);
}

const char *culprit_name(enum culprit culprit)
{
	switch (culprit) {
	case CULPRIT_NOTHING_LOST: return "nothing-lost";
	case CULPRIT_IN_PARTS: return "in-parts";
	case CULPRIT_RACE: return "race";
	case CULPRIT_PASSED: return "passed-a-flush";
	case CULPRIT_TOO_EARLY: return "too-early";
	case CULPRIT_GLOBAL: return "global-only";
	case CULPRIT_RANGE: return "range";
	case CULPRIT_STRICT: return "strict";
	case CULPRIT_OTHER_QP: return "flush-of-other-qp";
	case CULPRIT_READ: return "read";
	case CULPRIT_QPS: return "other-qp";
	case CULPRIT_BEFORE: return "flush-before-store";
	case CULPRIT_WROTE_BACK_BEFORE: return "written-back-before-store";
	case CULPRIT_NO_FENCE: return "no-fence";
	case CULPRIT_NO_WRITE_BACK: return "no-write-back";
	case CULPRIT_NO_FLUSH: return "no-flush";
	case CULPRIT_CHECKER: return "checker";
	}
	return "other";
}

void explanation_print(const struct explanation *e, const struct model *model, FILE *file)
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
	if (e->cut_short)
		fprintf(file, "  A smaller state may fail, too: the search for it ended after %u runs of the checker.\n",
			RUNS);
	fprintf(file, "  Why: %s\n", e->why);
}

void explanation_frames(const struct explanation *e, const struct model *model, FILE *file)
{
	const struct history *history = model->history;
	uint8_t *lost = xcalloc(history->requests.n, 1);
	const char *comma = "";

	for (size_t i = 0; i < e->state.held.n; i++) {
		const struct held *held = &e->state.held.v[i];

		for (int32_t p = held->position + 1; p <= model_top(model, held->word); p++)
			lost[model_update(history, held->word, p)->request] = 1;
	}
	for (uint32_t r = 0; r < history->requests.n; r++)
		if (lost[r] && !is_cpu(&history->requests.v[r])) {
			fprintf(file, "%s%u", comma, history->requests.v[r].packet->frame);
			comma = ",";
		}
	free(lost);
}

void explanation_free(struct explanation *e)
{
	free(e->state.held.v);
	free(e->needed.v);
	free(e->why);
}

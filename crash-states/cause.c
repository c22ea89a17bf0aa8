// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "cause.h"

/******************************************************************************
 * What is lost, and what is there
 */

/* The earliest request after @lost on its QP that has come and had to. */
static const struct request *find_seen(const struct model *model, const held_list *list, const struct request *lost,
				       const struct request *best)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct held *held = &list->v[i];
		const struct request *request;

		if (held->position == START)
			continue;
		request = model_request(model, held->word, held->position);
		if (request->flow == lost->flow && request->psn > lost->psn && (!best || request->psn < best->psn))
			best = request;
	}
	return best;
}

/* An old value may be too new, as well. */
static const struct request *find_seen_on_qp(const struct model *model, const held_list *held, const held_list *needed,
					     const struct request *lost)
{
	return find_seen(model, held, lost, find_seen(model, needed, lost, NULL));
}

/* The earliest request of another QP that came after @lost and has to be there. */
static const struct request *find_seen_elsewhere(const struct model *model, const held_list *needed,
						 const struct request *lost)
{
	const struct request *best = NULL;

	for (size_t i = 0; i < needed->n; i++) {
		const struct request *request;

		if (needed->v[i].position == START)
			continue;
		request = model_request(model, needed->v[i].word, needed->v[i].position);
		if (request->flow != lost->flow && request->packet->moment > lost->packet->moment &&
		    (!best || request->packet->moment < best->packet->moment))
			best = request;
	}
	return best;
}

/*
 * An ATOMIC WRITE after @lost, and before its @flush if there is one, that an earlier FLUSH has made durable:
 * the failure cannot be without it, so it is none of those that are needed.
 */
static const struct request *find_durable_before(const struct model *model, const struct request *lost,
						 const struct update *update, const struct request *flush)
{
	const struct history *history = model->history;

	for (uint32_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];
		const struct update *stored = &history->updates.v[request->first_update];
		uint32_t by;

		if (request->packet->opcode != ROCE_RC_ATOMIC_WRITE || !request->updates ||
		    request->flow != lost->flow || request->psn <= lost->psn || (flush && request->psn > flush->psn) ||
		    history->stretches.v[stored->stretch].offset / WORD == history->stretches.v[update->stretch].offset / WORD ||
		    stored->covered >= update->covered)
			continue;
		by = history->flows.v[lost->flow].flush.v[stored->covered - 1];
		if (answered(&history->requests.v[by], model->moment))
			return request;
	}
	return NULL;
}

/* The lost one that was sent first.  One without which something is there that was sent after it goes before. */
static void find_lost(struct cause *c, const struct model *model, const held_list *held, const held_list *needed)
{
	bool passed = false;

	for (size_t i = 0; i < held->n; i++) {
		const struct request *lost = model_request(model, held->v[i].word, held->v[i].position + 1);
		bool is_passed = find_seen_on_qp(model, held, needed, lost) != NULL;

		if (!c->held || is_passed > passed || (is_passed == passed && lost < c->lost)) {
			c->lost = lost;
			c->held = &held->v[i];
			passed = is_passed;
		}
	}
}

/* Is what is held there only because QPs race, though another one's store to the word, which came later, is durable? */
static bool find_race(struct cause *c, const struct model *model)
{
	const struct update *overtaken = model_overtaken(model, c->held->word, c->held->position);

	if (!overtaken)
		return false;
	c->kind = CULPRIT_RACE;
	c->lost = &model->history->requests.v[overtaken->request];
	c->seen = model_request(model, c->held->word, c->held->position);
	return true;
}

/******************************************************************************
 * Which FLUSH?
 */

static bool is_flush(const struct request *request)
{
	return request->packet->opcode == ROCE_RC_FLUSH;
}

/* Do two ranges overlap?  Of a request of several packets, all of it counts. */
static bool meets(const struct history *history, const struct request *flush, const struct request *request)
{
	const struct request *first = &history->requests.v[request->message];
	uint64_t va, run, place, flush_run, flush_place;

	if (flush->region && flush->region == first->region && first->packet->has_reth)
		return flush->va < first->packet->va + first->packet->length && first->packet->va < flush->va + flush->length;
	return flush->region && request->region &&
	       region_run(flush->region, flush->va, flush->length, 0, &va, &flush_run, &flush_place) &&
	       region_run(request->region, request->va, request->length, 0, &va, &run, &place) &&
	       flush_place < place + run && place < flush_place + flush_run;
}

/* Does it begin in the same region, with no length? */
static bool names_nothing(const struct request *flush, const struct request *request)
{
	return !flush->length && flush->flush && flush->region && flush->region == request->region;
}

/* What looks like the FLUSH that is missing, between what is lost and what is there. */
static void find_near_miss(struct cause *c, const struct model *model, uint64_t offset, uint8_t mask)
{
	const struct history *history = model->history;
	const struct request *lost = c->lost;

	c->kind = CULPRIT_NO_FLUSH;
	for (uint32_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];
		bool same_qp = request->flow == lost->flow;
		enum culprit found;

		if (request->packet->moment <= lost->packet->moment ||
		    (c->seen && request->packet->moment >= c->seen->packet->moment))
			continue;
		if (same_qp && request->packet->opcode == ROCE_RC_READ_REQUEST && !request->flush &&
		    (request->rkey == lost->rkey || meets(history, request, lost))) {
			found = CULPRIT_READ;
		} else if (!is_flush(request)) {
			continue;
		} else if (request_holds(request, offset, mask)) {
			/* A good one would have been found already. */
			found = !request->flush ? history->rules->visible ? CULPRIT_PERSISTENT : CULPRIT_GLOBAL :
				!same_qp ? CULPRIT_OTHER_QP :
				history->rules->strict ? CULPRIT_STRICT : CULPRIT_NO_FLUSH;
		} else if (same_qp && (meets(history, request, lost) || names_nothing(request, lost))) {
			found = CULPRIT_RANGE;
		} else {
			continue;
		}
		if (found < c->kind) {
			c->kind = found;
			c->near = request;
		}
	}
}

/* The request just before @lost on its QP, if it is a FLUSH that would have covered the store after it. */
static const struct request *find_flush_before(const struct model *model, const struct request *lost, uint64_t offset,
					       uint8_t mask)
{
	const struct request *request = lost;

	while (request-- != model->history->requests.v)
		if (request->flow == lost->flow)
			return request->flush && request_holds(request, offset, mask) ? request : NULL;
	return NULL;
}

/* A persistent FLUSH of its QP between @lost and @limit, which does not name what is lost */
static const struct request *find_flush_of_others(const struct model *model, const struct request *lost,
						  const struct request *limit)
{
	const struct history *history = model->history;

	for (uint32_t i = 0; limit && i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];

		if (request->flush && request->flow == lost->flow && request->psn > lost->psn &&
		    request->psn < limit->psn)
			return request;
	}
	return NULL;
}

/* No FLUSH covers it in time. */
static void classify_missing_flush(struct cause *c, const struct model *model, const struct update *update)
{
	uint64_t offset = history_offset(model->history, c->held->word);
	const struct request *before;

	find_near_miss(c, model, offset, update->mask);
	if (c->kind != CULPRIT_NO_FLUSH)
		return;
	before = find_flush_before(model, c->lost, offset, update->mask);
	/* If a later FLUSH covers the store, one that names more than the store was meant for others. */
	if (before && (!c->flush || before->va == c->lost->va)) {
		c->kind = CULPRIT_BEFORE;
		c->near = before;
	} else {
		c->near = find_flush_of_others(model, c->lost, c->seen);
	}
}

/* What the word, or the part of one, holds in the state: of the request that stored it, or NULL. */
static const struct request *holder_of(const struct model *model, const held_list *held, uint32_t word)
{
	int32_t position = model_top(model, word);

	for (size_t i = 0; i < held->n; i++)
		if (held->v[i].word == word)
			position = held->v[i].position;
	return position == START ? NULL : model_request(model, word, position);
}

/*
 * The request of the same QP that has stored another part of the word just before, and is there; or NULL.  What a flush
 * stands between, the program has told apart.
 */
static const struct request *find_other_part(const struct cause *c, const struct model *model, const held_list *held)
{
	const struct history *history = model->history;
	uint64_t word = history_offset(history, c->held->word) / WORD;
	uint32_t s = history_stretch_at(history, word * WORD);

	for (; s < history->stretches.n && history->stretches.v[s].offset / WORD == word; s++) {
		const struct request *other;

		if (history->stretches.v[s].length >= WORD || history->stretches.v[s].word == c->held->word)
			continue;
		other = holder_of(model, held, history->stretches.v[s].word);
		if (other && other->flow == c->lost->flow && other->psn < c->lost->psn &&
		    other->flushes_before == c->lost->flushes_before)
			return other;
	}
	return NULL;
}

static void classify_by_flush(struct cause *c, const struct model *model, const struct update *update,
			      const held_list *held, const struct request *elsewhere)
{
	c->near = find_other_part(c, model, held);
	if (c->near) {
		c->kind = CULPRIT_IN_PARTS;
	} else if (c->flush && c->seen && c->flush->psn < c->seen->psn) {
		c->kind = CULPRIT_PASSED;
	} else if (c->flush && !c->seen && elsewhere) {
		c->kind = CULPRIT_QPS;
		c->seen = elsewhere;
	} else if (c->flush && !c->seen) {
		c->kind = CULPRIT_TOO_EARLY;
	} else {
		classify_missing_flush(c, model, update);
	}
}

/******************************************************************************
 * The target's CPU
 */

/* Is it what the CPU's write-backs and fences are for?  That is what it stored, and what they make durable too late. */
static bool is_made_durable_by_cpu(const struct history *history, const struct request *lost, const struct update *update)
{
	return is_cpu(lost) || (!history->rules->visible && update->covered == NEVER && written_back(history, update) != NEVER);
}

/* The newest request of the CPU between the moments @from and @to that writes the line of @offset back */
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

/* Which instruction is missing, or too late? */
static void classify_by_cpu(struct cause *c, const struct model *model, const struct update *update,
			    const struct request *elsewhere)
{
	const struct history *history = model->history;
	uint64_t offset = history->stretches.v[update->stretch].offset;
	unsigned int stored = c->lost->packet->moment;
	const struct request *before = find_write_back(history, offset, 0, stored);

	if (!c->seen)
		c->seen = elsewhere;
	c->flush = written_back(history, update) == NEVER ? NULL : cpu_fence(history, written_back(history, update));
	c->near = find_write_back(history, offset, stored, c->seen ? c->seen->packet->moment : model->moment + 1);
	if (c->near || (c->lost->packet->opcode == CPU_NT_STORE && is_cpu(c->lost))) {
		c->kind = CULPRIT_NO_FENCE;
	} else if (before && (!c->flush || !find_write_back(history, offset, stored, UINT32_MAX))) {
		c->kind = CULPRIT_WROTE_BACK_BEFORE;
		c->near = before;
	} else {
		c->kind = CULPRIT_NO_WRITE_BACK;
	}
}

/******************************************************************************
 * What kind is it?
 */

/* The signal of a consumer stands for a store that is there. */
static void find_signal(struct cause *c, const struct model *model, const struct request **elsewhere)
{
	const struct request *signal;

	if (model->signal == NEVER)
		return;
	signal = &model->history->requests.v[model->signal];
	if (signal->flow != c->lost->flow)
		*elsewhere = signal;
	else if (signal->psn > c->lost->psn)
		c->seen = signal;
}

struct cause classify(const struct model *model, const held_list *held, const held_list *needed)
{
	const struct history *history = model->history;
	struct cause c = { .kind = CULPRIT_NOTHING_LOST, .model = model };
	const struct request *elsewhere;
	const struct update *update;

	find_lost(&c, model, held, needed);
	if (!c.held || find_race(&c, model))
		return c;
	update = model_update(history, c.held->word, c.held->position + 1);
	if (update->covered != NEVER)
		c.flush = &history->requests.v[history->flows.v[c.lost->flow].flush.v[update->covered - 1]];
	c.seen = find_seen_on_qp(model, held, needed, c.lost);
	elsewhere = find_seen_elsewhere(model, needed, c.lost);
	if (!c.seen && !elsewhere)
		find_signal(&c, model, &elsewhere);
	if (!c.seen && !elsewhere)
		c.seen = find_durable_before(model, c.lost, update, c.flush);
	if (is_made_durable_by_cpu(history, c.lost, update))
		classify_by_cpu(&c, model, update, elsewhere);
	else
		classify_by_flush(&c, model, update, held, elsewhere);
	return c;
}

/******************************************************************************
 * In words
 */

static bool comes_later(const struct cause *c) { return c->flush->packet->moment > c->model->moment; }
static bool is_answered(const struct cause *c) { return c->flush->answer; }
static bool of_other_key(const struct cause *c) { return c->near->rkey != c->lost->rkey; }
static bool is_written_back(const struct cause *c) { return c->near; }
static bool is_covered(const struct cause *c) { return c->flush; }
static bool is_one_message(const struct cause *c) { return c->model->signal != NEVER && c->lost->message == c->model->history->requests.v[c->model->signal].message; }
static bool has_signal_of_other_qp(const struct cause *c)
{
	return c->model->signal != NEVER && c->lost->flow != c->model->history->requests.v[c->model->signal].flow;
}
static bool has_no_length(const struct cause *c) { return !c->near->length; }

/* By how many bytes the FLUSH ends before what was stored, if it begins before that; or 0. */
static uint64_t too_early(const struct cause *c)
{
	const struct request *first = &c->model->history->requests.v[c->lost->message];
	uint64_t end = c->near->va + c->near->length, wanted = first->packet->va + first->packet->length;

	return c->near->rkey == first->rkey && first->packet->has_reth && c->near->va <= first->packet->va && end < wanted ? wanted - end : 0;
}

static bool ends_too_early(const struct cause *c) { return too_early(c); }

/*
 * What is in braces is filled in by fill_in().  The first sentence of a kind that applies is printed; `name` is for
 * other programs.
 */
static const struct {
	enum culprit kind;
	const char *name;
	bool (*applies)(const struct cause *c);	/* NULL: always */
	const char *text;
} sentences[] = {
	{ CULPRIT_NOTHING_LOST, "nothing-lost", NULL,
	  "All that came is there, and nothing is lost: the checker refuses what the program itself has made, or counts on what was not sent yet." },
	{ CULPRIT_IN_PARTS, "in-parts", NULL,
	  "{near} has stored the other part of the same word, and is there: what two requests store a power failure may tear.  One ATOMIC WRITE stores the word at once." },
	{ CULPRIT_RACE, "race", NULL,
	  "{seen} of QP {seen.qp} and {lost} of QP {lost.qp} store to the word at {place}, and the first is left: a QP does not wait for another QP, so the target may execute them in either order.  Wait until a FLUSH of one, or an ATOMIC WRITE, READ or Atomic after it, has completed before you send the other, or use one QP." },
	{ CULPRIT_PASSED, "passed-a-flush", NULL,
	  "{flush}, which covers it, had not been executed{and seen}: a {seen.op} may pass a {flush.op}.  Wait until the {flush.op} has completed, or store by ATOMIC WRITE, which never passes it." },
	{ CULPRIT_TOO_EARLY, "too-early", comes_later,
	  "{flush}, which covers it, came only later (frame {flush.frame}): until that {flush.op} has completed, nothing may count on it." },
	{ CULPRIT_TOO_EARLY, "too-early", is_answered,
	  "{flush}, which covers it, was answered only later (frame {flush.answer}): until that {flush.op} has completed, nothing may count on it." },
	{ CULPRIT_TOO_EARLY, "too-early", NULL,
	  "{flush}, which covers it, was never answered: until that {flush.op} has completed, nothing may count on it." },
	{ CULPRIT_GLOBAL, "global-only", NULL,
	  "{near} asks for global visibility only, which makes nothing durable{and seen}.  It has to ask for persistence." },
	{ CULPRIT_PERSISTENT, "persistent-only", NULL,
	  "{near} asks for persistence only, which makes nothing visible{and seen}.  It has to ask for global visibility, too." },
	{ CULPRIT_RANGE, "range", has_no_length,
	  "{near} has length 0, so it makes nothing {durable}{and seen}.  Its range has to cover what is to be {durable}." },
	{ CULPRIT_RANGE, "range", ends_too_early,
	  "{near} ends {missing} bytes too early, and does not hold all that was stored to the word at {place}{and seen}.  Its range, or its key, has to cover what is to be {durable}." },
	{ CULPRIT_RANGE, "range", NULL,
	  "{near} does not hold all that was stored to the word at {place}{and seen}.  Its range, or its key, has to cover what is to be {durable}." },
	{ CULPRIT_STRICT, "strict", of_other_key,
	  "{near} names it by the key {near.key}, and the {lost.op} has the key {lost.key}{and seen}: by --model strict, a FLUSH covers what was stored by its own key." },
	{ CULPRIT_STRICT, "strict", NULL,
	  "{near} holds a part of the {lost.op} only{and seen}: by --model strict, a FLUSH covers what lies in its range as a whole." },
	{ CULPRIT_OTHER_QP, "flush-of-other-qp", NULL,
	  "{near} was sent on QP {near.qp}, and the store on QP {lost.qp}{and seen}: a FLUSH speaks for its own QP only." },
	{ CULPRIT_READ, "read", NULL,
	  "{near} follows it{and seen}, but a READ makes nothing {durable}.  A {placing} FLUSH does." },
	{ CULPRIT_QPS, "other-qp", NULL,
	  "{flush}, which covers it, had not been executed, and {seen} of QP {seen.qp} is there: a QP does not wait for a {flush.op} of another QP.  Wait until the {flush.op} has completed, or use one QP." },
	{ CULPRIT_BEFORE, "flush-before-store", NULL,
	  "{near} names it, but was sent before it{and seen}: a FLUSH covers what precedes it.  Send the FLUSH after the store." },
	{ CULPRIT_WROTE_BACK_BEFORE, "written-back-before-store", NULL,
	  "{near} wrote its line back, at frame {near.moment}, before it was stored{and seen}.  Write the line back after the store, and let SFENCE follow." },
	{ CULPRIT_NO_FENCE, "no-fence", is_written_back,
	  "{near} writes it back, at frame {near.moment}, but no fence of that thread had been executed{and seen}, so it may not have reached the memory.  SFENCE waits for that." },
	{ CULPRIT_NO_FENCE, "no-fence", NULL,
	  "It is non-temporal, but no fence of that thread had been executed{and seen}, so it may not have reached the memory.  SFENCE waits for that." },
	{ CULPRIT_NO_WRITE_BACK, "no-write-back", NULL,
	  "No CLWB, CLFLUSHOPT or CLFLUSH of its line had been executed{and seen}.  Write the line back, and let SFENCE follow, before anything counts on it." },
	{ CULPRIT_NO_FLUSH, "no-flush", is_one_message,
	  "It has the signal in it: what one request stores may become visible in any order.  Send the signal by a request of its own." },
	{ CULPRIT_NO_FLUSH, "no-flush", has_signal_of_other_qp,
	  "The signal is of another QP, which does not wait for it, and no {placing} FLUSH of its own QP that covers it had been answered.  Send the signal on that QP, or wait for a {placing} FLUSH." },
	{ CULPRIT_NO_FLUSH, "no-flush", is_covered,
	  "No {placing} FLUSH that covers it stands between the two{and seen}; {flush}, which covers it, was sent later.  What relies on other data must come after a {placing} FLUSH of that." },
	{ CULPRIT_NO_FLUSH, "no-flush", NULL,
	  "No {placing} FLUSH of its QP that covers it follows{and seen}.  What relies on other data must come after a {placing} FLUSH of that." },
	{ CULPRIT_CHECKER, "checker", NULL,
	  "The checker refuses this state, and then accepts the same state: it depends on time, on chance, or on what an earlier call has left." },
};

const char *culprit_name(enum culprit culprit)
{
	size_t i = 0;

	while (sentences[i].kind != culprit)
		i++;
	return sentences[i].name;
}

static const char *sentence(const struct cause *c)
{
	size_t i = 0;

	while (sentences[i].kind != c->kind || (sentences[i].applies && !sentences[i].applies(c)))
		i++;
	return sentences[i].text;
}

/* As moment_text(), but the last instruction of a frame has a number, too. */
static void print_moment_of_cpu(const struct capture *capture, unsigned int moment, FILE *file)
{
	unsigned int frame = capture_frame(capture, moment);

	fprintf(file, "%u+%u", frame, moment - capture_moment(capture, frame, 0));
}

/* @request itself, or what is asked for of it. */
static void print_request(const struct request *request, const char *what, const struct model *model, FILE *file)
{
	if (!what)
		fputs(request_text(request), file);
	else if (!strcmp(what, ".op"))
		fputs(opcode_name(request->packet->opcode), file);
	else if (!strcmp(what, ".qp"))
		fprintf(file, "%u", request->packet->qpn);
	else if (!strcmp(what, ".key"))
		fprintf(file, "0x%x", request->rkey);
	else if (!strcmp(what, ".frame"))
		fprintf(file, "%u", request->packet->frame);
	else if (!strcmp(what, ".answer"))
		fprintf(file, "%u", request->answer->frame);
	else if (!strcmp(what, ".moment"))
		print_moment_of_cpu(model->history->capture, request->packet->moment, file);
	else
		fail("cause.c has no {%s}", what);
}

/* A place of a sentence: "place", "and seen", or a request of the cause. */
static void fill_in(const char *name, const struct cause *c, FILE *file)
{
	const struct history *history = c->model->history;
	const char *what = strchr(name, '.');

	if (!strcmp(name, "durable"))
		fputs(history->rules->visible ? "visible" : "durable", file);
	else if (!strcmp(name, "placing"))
		fputs(history->rules->visible ? "global" : "persistent", file);
	else if (!strcmp(name, "place"))
		fputs(history_place(history, history_offset(history, c->held->word)), file);
	else if (!strcmp(name, "missing"))
		fprintf(file, "%" PRIu64, too_early(c));
	else if (strcmp(name, "and seen"))
		print_request(*name == 'l' ? c->lost : *name == 's' ? c->seen : *name == 'f' ? c->flush : c->near, what,
			      c->model, file);
	else if (c->seen)
		fprintf(file, ", and %s is there", request_text(c->seen));
}

static void say(const char *text, const struct cause *c, FILE *file)
{
	char name[16];

	for (;;) {
		size_t n = strcspn(text, "{");

		fwrite(text, 1, n, file);
		text += n;
		if (sscanf(text, "{%15[^}]", name) != 1)
			return;
		fill_in(name, c, file);
		text = strchr(text, '}') + 1;
	}
}

/* How many words of the message are lost, of how many. */
static void count_words(const struct model *model, const struct request *request, const held_list *held,
			unsigned int *lost, unsigned int *all)
{
	const struct history *history = model->history;

	*all = *lost = 0;
	for (uint32_t u = request->first_update; u < request->first_update + request->updates; u++)
		*all += history->stretches.v[history->updates.v[u].stretch].words;
	for (size_t i = 0; i < held->n; i++)
		for (int32_t p = held->v[i].position + 1; p <= model_top(model, held->v[i].word); p++)
			*lost += model_request(model, held->v[i].word, p) == request;
}

static void print_loss(const struct cause *c, const held_list *held, FILE *file)
{
	unsigned int lost, all;

	count_words(c->model, c->lost, held, &lost, &all);
	if (c->model->history->rules->visible)
		fprintf(file, "%s may not be visible yet, %u of its %u words.  ", request_text(c->lost), lost, all);
	else if (lost < all)
		fprintf(file, "%s has lost %u of its %u words: it is torn.  ", request_text(c->lost), lost, all);
	else
		fprintf(file, "%s is lost.  ", request_text(c->lost));
}

void cause_print(const struct cause *c, const held_list *held, FILE *file)
{
	bool by_cpu = c->kind == CULPRIT_WROTE_BACK_BEFORE || c->kind == CULPRIT_NO_FENCE ||
		      c->kind == CULPRIT_NO_WRITE_BACK;

	if (c->lost && c->kind != CULPRIT_RACE)
		print_loss(c, held, file);
	say(sentence(c), c, file);
	if (by_cpu && c->flush)
		say("  {flush}, which makes it durable, came only later, at frame {flush.moment}.", c, file);
	if (c->kind == CULPRIT_NO_FLUSH && c->near)
		say("  {near} stands between the two, and names other memory.", c, file);
	if (c->kind == CULPRIT_NO_FLUSH && c->model->history->cpu != NEVER && !c->model->history->rules->visible)
		say("  Nor did the target's CPU make it durable, by a write-back of its line when it was visible, and a fence after that.",
		    c, file);
}

char *cause_words(const struct cause *cause, const held_list *held)
{
	size_t size;
	char *text;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		fail("no memory");
	cause_print(cause, held, file);
	if (fclose(file))
		fail("no memory");
	return text;
}

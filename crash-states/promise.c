// SPDX-License-Identifier: GPL-2.0
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "promise.h"

static size_t checked;
static bool none_was_quiet;

size_t promises_checked(void)
{
	return checked;
}

bool promises_none_was_quiet(void)
{
	return none_was_quiet;
}

bool promise_matches(const char *pattern, const struct told *line)
{
	static const char *compiled;
	static regex_t regex;
	char text[2048], why[256];
	int error;

	if (compiled != pattern) {
		error = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);
		if (error) {
			regerror(error, &regex, why, sizeof(why));
			fail("--promise %s: no extended regular expression: %s", pattern, why);
		}
		compiled = pattern;
	}
	snprintf(text, sizeof(text), "%.*s", (int)line->length, line->text);
	return !regexec(&regex, text, 0, NULL, 0);
}

/******************************************************************************
 * What an initiator has stored
 */

/* The flows that a line speaks for. */
struct speaker {
	const uint8_t *mac;
	bool *flows;
};

static bool stores_anything(const struct history *history, uint32_t f)
{
	const struct flow *flow = &history->flows.v[f];

	for (size_t i = 0; i < flow->requests.n; i++)
		if (history->requests.v[flow->requests.v[i]].updates)
			return true;
	return false;
}

/*
 * Does the target's CPU work for it?  It is the only initiator, and had sent a message before its first line, which a daemon
 * has answered, as a rule.
 */
static bool is_served(const struct history *history, const struct speaker *speaker)
{
	const struct capture *capture = history->capture;
	bool served = false;
	size_t line = 0;

	while (line < capture->told.n && memcmp(capture->told.v[line].mac, speaker->mac, 6))
		line++;
	if (line == capture->told.n || history->cpu == NEVER || history->rules->visible)
		return false;
	for (size_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];

		if (is_cpu(request))
			continue;
		if (!speaker->flows[request->flow])
			return false;
		served |= completes(request) && !is_atomic(request) && request->packet->moment < capture->told.v[line].moment;
	}
	return served;
}

/*
 * Those from its address.  If none is, as behind a router, it speaks for all; so it does for the target's CPU, if that
 * alone has stored something, or a daemon stores beside what the initiator sends.
 */
static void find_flows(const struct history *history, struct speaker *speaker)
{
	bool any = false, stores = false;

	for (uint32_t f = 0; f < history->flows.n; f++) {
		const struct flow *flow = &history->flows.v[f];

		speaker->flows[f] = f != history->cpu && flow->requests.n &&
				    !memcmp(history->requests.v[flow->requests.v[0]].packet->mac, speaker->mac, 6);
		any |= speaker->flows[f];
		stores |= f != history->cpu && stores_anything(history, f);
	}
	for (uint32_t f = 0; f < history->flows.n; f++)
		speaker->flows[f] |= f == history->cpu ? !stores || is_served(history, speaker) : !any;
}

static bool is_quiet(const struct model *model, const struct speaker *speaker)
{
	for (uint32_t f = 0; f < model->history->flows.n; f++)
		if (speaker->flows[f] && model->unsettled[f])
			return false;
	return true;
}

/* The oldest of its messages that may be lost, or NEVER. */
static uint32_t oldest_open(const struct model *model, const struct speaker *speaker)
{
	uint32_t oldest = NEVER;

	for (uint32_t m = model->in_flight; m != NEVER; m = model->older[m])
		if (speaker->flows[model->history->requests.v[m].flow] && (oldest == NEVER || m < oldest))
			oldest = m;
	return oldest;
}

/******************************************************************************
 * Which line is broken?
 */

/* Each word that may be lost holds what it held before the message. */
static void lose_message(const struct model *model, uint32_t message, struct state *state)
{
	state->moment = model->moment;
	model_open_words(model, message, &state->held);
	for (size_t i = 0; i < state->held.n; i++)
		state->held.v[i].position--;
}

static struct broken_promise explain_promise(struct model *model, const struct told *line, const struct speaker *speaker)
{
	struct broken_promise broken = { .line = line };
	struct state state = { };
	const held_list none = { };

	lose_message(model, oldest_open(model, speaker), &state);
	model_allows(model, &state);
	broken.cause = classify(model, &state.held, &none);
	broken.why = cause_words(&broken.cause, &state.held);
	broken.cause.held = NULL;
	free(state.held.v);
	return broken;
}

/* An initiator, as its lines come.  Lines that it prints together come together, as a rule. */
struct walk {
	struct speaker speaker;
	size_t quiet, used;	/* moments when all was durable, after stores; those that lines belong to */
	size_t lines, of_used;	/* all, and those of the last one that is used */
	size_t at_quiet;	/* lines that came in such a moment */
	size_t group, largest;	/* lines with no store between them, now, and at most */
	uint32_t updates;	/* when the last one came */
	bool was_quiet;
};

/* The model has gone on by a moment. */
static void look(struct walk *walk, const struct model *model)
{
	bool quiet = is_quiet(model, &walk->speaker);

	walk->quiet += quiet && !walk->was_quiet;
	walk->was_quiet = quiet;
}

/* Does the line, which came now, belong to a moment when all was durable?  @usual: so many lines do to each. */
static bool is_kept(struct walk *walk, const struct model *model, size_t usual)
{
	walk->lines++;
	walk->group = walk->updates == model->updates ? walk->group + 1 : 1;
	walk->updates = model->updates;
	if (walk->group > walk->largest)
		walk->largest = walk->group;
	walk->at_quiet += walk->was_quiet;
	if (!walk->was_quiet && walk->used == walk->quiet && walk->of_used >= usual)
		return false;
	if (walk->was_quiet || walk->used < walk->quiet) {
		size_t next = walk->was_quiet ? walk->quiet : walk->used + 1;

		walk->of_used = next == walk->used ? walk->of_used : 0;
		walk->used = next;
	}
	walk->of_used++;
	return true;
}

/* All lines of one initiator.  Those that are broken are added to @broken unless it is NULL. */
static void walk_lines(struct model *model, const char *pattern, struct walk *walk, size_t usual, broken_promises *broken)
{
	const struct capture *capture = model->history->capture;
	unsigned int last = capture_last_moment(capture);
	size_t line = 0;

	walk->quiet = walk->used = walk->lines = walk->at_quiet = walk->group = walk->updates = 0;
	walk->was_quiet = true;
	walk->of_used = usual;		/* nothing was stored yet, so no line is late */
	for (unsigned int moment = 0; moment <= last; moment++) {
		model_cut(model, moment);
		look(walk, model);
		for (; line < capture->told.n && capture->told.v[line].moment <= moment; line++) {
			const struct told *told = &capture->told.v[line];

			if (memcmp(told->mac, walk->speaker.mac, 6) || !promise_matches(pattern, told))
				continue;
			if (!is_kept(walk, model, usual) && broken)
				*list_add(broken) = explain_promise(model, told, &walk->speaker);
		}
	}
}

static bool was_before(const struct capture *capture, size_t line)
{
	for (size_t i = 0; i < line; i++)
		if (!memcmp(capture->told.v[i].mac, capture->told.v[line].mac, 6))
			return true;
	return false;
}

void promises_check(struct model *model, const char *pattern, broken_promises *broken)
{
	const struct capture *capture = model->history->capture;
	struct walk walk = { .speaker.flows = xcalloc(model->history->flows.n, sizeof(bool)) };

	checked = 0;
	none_was_quiet = false;
	for (size_t i = 0; i < capture->told.n; i++) {
		if (was_before(capture, i))
			continue;
		walk.speaker.mac = capture->told.v[i].mac;
		walk.largest = 0;
		find_flows(model->history, &walk.speaker);
		walk_lines(model, pattern, &walk, 1, NULL);
		checked += walk.lines;
		none_was_quiet |= walk.lines && !walk.at_quiet;
		walk_lines(model, pattern, &walk, walk.largest, broken);
	}
	free(walk.speaker.flows);
	if (!checked)
		fail("--promise %s: none of the %zu lines that initiators printed matches it", pattern, capture->told.n);
}

/* The stretch that a signal stores to, if the consumer polls; the same for all messages. */
static uint32_t signal_place(const struct history *history, const struct request *signal)
{
	return history->rules->polled.n ? history->updates.v[signal->first_update].stretch : 0;
}

/* Those of a QP and place together, which the model takes one after the other: see implies() in model.c. */
static int by_place(const void *a, const void *b, void *history)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct request *x = &((const struct history *)history)->requests.v[i];
	const struct request *y = &((const struct history *)history)->requests.v[j];
	uint32_t first = signal_place(history, x), second = signal_place(history, y);

	if (x->flow != y->flow)
		return x->flow < y->flow ? -1 : 1;
	if (first != second)
		return first < second ? -1 : 1;
	return i < j ? -1 : i > j;
}

static int by_line(const void *a, const void *b)
{
	unsigned int x = ((const struct broken_promise *)a)->line->moment, y = ((const struct broken_promise *)b)->line->moment;

	return x < y ? -1 : x > y;
}

/* It speaks for its own QP, and for those of its initiator that have no signal. */
static void find_flows_of_signal(const struct model *model, struct speaker *speaker, const struct request *signal)
{
	find_flows(model->history, speaker);
	for (size_t i = 0; i < model->signals.n; i++)
		speaker->flows[model->history->requests.v[model->signals.v[i]].flow] = false;
	speaker->flows[signal->flow] = true;
}

bool signals_of_several_qps(const struct model *model)
{
	const struct request *requests = model->history->requests.v;

	for (size_t i = 0; i < model->signals.n; i++) {
		const struct request *signal = &requests[model->signals.v[i]], *first;
		size_t j = 0;

		do	/* the first signal of the same initiator, which is this one at the latest */
			first = &requests[model->signals.v[j++]];
		while (memcmp(first->packet->mac, signal->packet->mac, sizeof(signal->packet->mac)));
		if (first->flow != signal->flow)
			return true;
	}
	return false;
}

void signals_check(struct model *model, broken_promises *broken)
{
	struct speaker speaker = { NULL, xcalloc(model->history->flows.n, sizeof(bool)) };
	uint32_t *signals = xcalloc(model->signals.n, sizeof(*signals)), flow = NEVER;

	for (size_t i = 0; i < model->signals.n; i++)
		signals[i] = model->signals.v[i];
	qsort_r(signals, model->signals.n, sizeof(*signals), by_place, (void *)model->history);
	for (size_t i = 0; i < model->signals.n; i++) {
		const struct request *signal = &model->history->requests.v[signals[i]];
		struct told *line = xcalloc(1, sizeof(*line));

		*line = (struct told){
			.frame = signal->packet->frame, .moment = signal->packet->moment, .time = signal->packet->time,
			.text = xasprintf("%s", request_text(signal)), .length = strlen(request_text(signal)),
		};
		memcpy(line->mac, signal->packet->mac, sizeof(line->mac));
		speaker.mac = line->mac;
		if (signal->flow != flow)
			find_flows_of_signal(model, &speaker, signal);
		flow = signal->flow;
		model_cut(model, line->moment);
		if (!is_quiet(model, &speaker))
			*list_add(broken) = explain_promise(model, line, &speaker);
	}
	if (broken->n)
		qsort(broken->v, broken->n, sizeof(*broken->v), by_line);
	free(signals);
	free(speaker.flows);
}

bool promise_print_open(struct model *model, const struct told *line, FILE *file)
{
	struct speaker speaker = { line->mac, xcalloc(model->history->flows.n, sizeof(bool)) };
	uint32_t oldest;

	find_flows(model->history, &speaker);
	model_cut(model, line->moment);
	oldest = oldest_open(model, &speaker);
	if (oldest != NEVER)
		fprintf(file, "  frame %u, \"%.*s\": not durable then: %s, frame %u\n", line->frame,
			line->length < 60 ? (int)line->length : 60, line->text,
			request_text(&model->history->requests.v[oldest]), model->history->requests.v[oldest].packet->frame);
	free(speaker.flows);
	return oldest != NEVER;
}

/* The last answer to a flush that had been sent at @moment, or NULL. */
static const struct packet *last_answer(const struct model *model, unsigned int moment)
{
	const struct packet *last = NULL;
	size_t low = 0, high = model->all_answers;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct packet *answer = model->history->requests.v[model->answer[middle]].answer;

		if (answer->moment <= moment) {
			last = answer;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return last;
}

static bool is_write(const struct request *request)
{
	return !strcmp(opcode_name(request->packet->opcode), "WRITE");
}

/* A WRITE of a word to where another WRITE has stored before, or does next: a tail is stored again and again, a record is not. */
static bool may_be_tail(const struct model *model, const struct request *request)
{
	const struct history *history = model->history;
	const struct update *update;

	if (!is_write(request) || !request->updates || request->length > WORD)
		return false;
	update = &history->updates.v[request->first_update];
	return (update->position && is_write(&history->requests.v[stretch_update(history, update->stretch, update->position - 1)->request])) ||
	       (update->position + 1 < history->stretches.v[update->stretch].n &&
		is_write(&history->requests.v[stretch_update(history, update->stretch, update->position + 1)->request]));
}

/* A WRITE may pass a FLUSH, so one that counts on it must wait.  (An ATOMIC WRITE need not.) */
static double find_tail_gap(const struct model *model)
{
	double gap = 0;

	for (size_t r = 0; r < model->history->requests.n; r++) {
		const struct request *request = &model->history->requests.v[r];
		const struct packet *answer = last_answer(model, request->packet->moment);

		if (!answer || !may_be_tail(model, request))
			continue;
		if (!gap || request->packet->time - answer->time < gap)
			gap = request->packet->time - answer->time;
	}
	return gap;
}

struct schedule promise_schedule(const struct model *model, const char *pattern)
{
	const struct capture *capture = model->history->capture;
	struct schedule schedule = { .tail = find_tail_gap(model) };
	bool any = false;

	for (size_t i = 0; i < capture->told.n; i++) {
		const struct told *line = &capture->told.v[i];
		const struct packet *answer = last_answer(model, line->moment);

		if (!answer || (pattern && !promise_matches(pattern, line)))
			continue;
		if (!any || line->time - answer->time < schedule.gap)
			schedule.gap = line->time - answer->time;
		any = true;
	}
	for (uint32_t a = 0; a < model->all_answers; a++) {
		const struct request *flush = &model->history->requests.v[model->answer[a]];
		double hold = flush->answer->time - flush->packet->time;

		if (!a || hold < schedule.hold)
			schedule.hold = hold;
	}
	return schedule;
}

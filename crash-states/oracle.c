// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>

#include "oracle.h"
#include "promise.h"

/* What is printed of the memory with nothing lost. */
struct reference {
	bool known;
	uint64_t said;
};

/* From this line on, the memory is not older than when so many requests had come.  When it came, @came had. */
struct bound {
	unsigned int moment;
	uint32_t requests, came;
};

struct oracle {
	const struct history *history;
	struct model model;			/* with nothing lost */
	struct reference *references;		/* by how many requests had come */
	LIST(struct bound) bounds;
	bool refers;				/* it looks at a reference now */
	uint64_t said;				/* of that */
	enum verdict verdict;
};

/* So many requests had come at @moment. */
static uint32_t requests_at(const struct history *history, unsigned int moment)
{
	size_t low = 0, high = history->requests.n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (history->requests.v[middle].packet->moment <= moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint32_t oldest_at(const struct oracle *oracle, unsigned int moment)
{
	size_t i = oracle->bounds.n;

	while (i && oracle->bounds.v[i - 1].moment > moment)
		i--;
	return i ? oracle->bounds.v[i - 1].requests : 0;
}

/* That which stands for so many requests: one that stores nothing changes nothing. */
static struct reference *reference_of(const struct oracle *oracle, uint32_t requests)
{
	while (requests && !oracle->history->requests.v[requests - 1].updates)
		requests--;
	return &oracle->references[requests];
}

static enum verdict judge(void *arg, unsigned int moment, enum verdict verdict, uint64_t said)
{
	struct oracle *oracle = arg;

	/* That recovery fails is a part of what it says. */
	said = mix64(said ^ verdict);
	if (oracle->refers) {
		oracle->said = said;
		oracle->verdict = verdict;
		return CONSISTENT;
	}
	if (verdict == TOO_SLOW)
		return verdict;
	for (uint32_t n = oldest_at(oracle, moment); n <= requests_at(oracle->history, moment); n++) {
		const struct reference *reference = reference_of(oracle, n);

		if (reference->known && reference->said == said)
			return CONSISTENT;
	}
	return verdict == CRASHED ? CRASHED : INCONSISTENT;
}

/* Each line that promises something, and the last FLUSH that was answered before it. */
static void find_bounds(struct oracle *oracle, const struct model *model, const char *promise)
{
	const struct history *history = oracle->history;
	const struct capture *capture = history->capture;
	uint32_t answers = 0, newest = 0;

	for (size_t i = 0; promise && i < capture->told.n; i++) {
		const struct told *line = &capture->told.v[i];

		if (!promise_matches(promise, line))
			continue;
		for (; answers < model->all_answers; answers++) {
			const struct request *flush = &history->requests.v[model->answer[answers]];
			uint32_t requests = flush - history->requests.v + 1;

			if (flush->answer->moment > line->moment)
				break;
			if (requests > newest)
				newest = requests;
		}
		*list_add(&oracle->bounds) = (struct bound){ line->moment, newest, requests_at(history, line->moment) };
	}
}

struct oracle *oracle_new(const struct history *history, const struct model *model, const char *promise,
			  struct checker_options *options)
{
	struct oracle *oracle = xcalloc(1, sizeof(*oracle));

	oracle->history = history;
	model_init(&oracle->model, history, 1);
	oracle->references = xcalloc(history->requests.n + 1, sizeof(*oracle->references));
	find_bounds(oracle, model, promise);
	options->judge = judge;
	options->judge_arg = oracle;
	return oracle;
}

const char *oracle_expected(struct oracle *oracle, struct checker *checker, unsigned int moment)
{
	struct state state = { .moment = moment };
	const char *said;

	model_cut(&oracle->model, moment);
	oracle->refers = true;
	checker_look(checker, &oracle->model, &state, &said);
	oracle->refers = false;
	return said;
}

static uint64_t look(struct oracle *oracle, struct checker *checker, unsigned int moment)
{
	oracle_expected(oracle, checker, moment);
	return oracle->said;
}

bool oracle_is_ready(const struct oracle *oracle, unsigned int moment)
{
	for (uint32_t n = oldest_at(oracle, moment); n <= requests_at(oracle->history, moment); n++)
		if (!reference_of(oracle, n)->known)
			return false;
	return true;
}

void oracle_prepare(struct oracle *oracle, struct checker *checker, unsigned int moment)
{
	for (uint32_t n = oldest_at(oracle, moment); n <= requests_at(oracle->history, moment); n++) {
		struct reference *reference = reference_of(oracle, n);
		uint32_t requests = reference - oracle->references;

		if (reference->known)
			continue;
		reference->said = look(oracle, checker, requests ? oracle->history->requests.v[requests - 1].packet->moment : 0);
		reference->known = true;
	}
}

const char *oracle_between(struct oracle *oracle, struct checker *checker, unsigned int *moment)
{
	const struct history *history = oracle->history;
	const struct reference *last = &oracle->references[0];
	size_t line = 0;

	for (uint32_t n = 1; n <= history->requests.n; n++) {
		const struct reference *now = reference_of(oracle, n), *next;

		while (line < oracle->bounds.n && oracle->bounds.v[line].came < n)
			last = reference_of(oracle, oracle->bounds.v[line++].came);
		if (line == oracle->bounds.n)
			break;
		next = reference_of(oracle, oracle->bounds.v[line].came);
		if (!last->known || !now->known || !next->known || now->said == last->said || now->said == next->said)
			continue;
		*moment = history->requests.v[n - 1].packet->moment;
		return oracle_expected(oracle, checker, *moment);
	}
	return NULL;
}

void oracle_try(struct oracle *oracle, struct checker *checker)
{
	unsigned int last = capture_last_moment(oracle->history->capture);
	uint64_t start = look(oracle, checker, 0), end = look(oracle, checker, last);

	if (oracle->verdict > INCONSISTENT)
		fail("--oracle: it fails on what the program has made, with nothing lost: run it by hand on server.pmem0, or on that of a state");
	if (end != look(oracle, checker, last))
		fail("--oracle: it prints something else each time of the same memory: let it print no times, addresses or names of temporary files");
	if (start == end)
		fail("--oracle: it prints the same of the memory at the start and at the end: does it look at $IMAGE?");
}

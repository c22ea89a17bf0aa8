// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "draw.h"
#include "recovery.h"
#include "trace.h"

#define CANDIDATES	512	/* states that are kept, of those that the checker passes */
#define OFTEN		8	/* so much rather those that are always checked, which come first */
#define FIRST		1000
#define ALIKE		4	/* states on which recovery stores by the same instructions */
#define LONG_RUN	8	/* stores of a copy: of more, the first, middle and last ones are looked at */
#define REPORTED	3	/* causes */
#define ENOUGH		1000	/* failures */
#define ENOUGH_AT_ONCE	8	/* of recovery that no second power failure meets, or that is too slow */

typedef LIST(uint64_t) hash_list;

struct candidate {
	uint64_t order;
	struct state state;
};

/* What the power leaves of the stores that are not durable. */
enum left { UP_TO, WITHOUT, ALONE };

struct cut {
	enum left left;
	uint32_t store, window;
};

struct bad {
	size_t cut;		/* the first one in the list */
	size_t n;
	enum verdict verdict;
	char *said;
};

struct recovery {
	const char *command;
	uint64_t seed;
	struct candidate candidates[CANDIDATES];
	size_t n;
	struct recovery_count count;
	unsigned int wrong_at_once;

	const struct checker_options *checker;
	struct checker_options options;		/* recovery, and then the checker */
	bool refers;				/* to recovery without a second power failure */
	uint64_t said;				/* by the oracle, then */
	struct bad bad;
	hash_list kinds;			/* of traces */
	hash_list causes;			/* which are reported */
	hash_list images;			/* of one state */
};

struct recovery *recovery_new(const char *command, uint64_t seed)
{
	struct recovery *recovery = xcalloc(1, sizeof(*recovery));

	recovery->command = command;
	recovery->seed = seed;
	return recovery;
}

/* Those of the smallest order are kept, so the choice does not depend on which checker is the quickest. */
void recovery_note(struct recovery *recovery, const struct state *state, size_t number)
{
	uint64_t order = mix64(mix64(recovery->seed) ^ number) / (number < FIRST ? OFTEN : 1);
	struct candidate *at = recovery->candidates;
	size_t i = recovery->n;

	recovery->count.passed++;
	if (i == CANDIDATES && at[i - 1].order <= order)
		return;
	if (i == CANDIDATES)
		free(at[--i].state.held.v);
	else
		recovery->n++;
	for (; i && at[i - 1].order > order; i--)
		at[i] = at[i - 1];
	at[i] = (struct candidate){ order, { .moment = state->moment, .hash = state->hash } };
	for (size_t h = 0; h < state->held.n; h++)
		*list_add(&at[i].state.held) = state->held.v[h];
}

/******************************************************************************
 * What a second power failure leaves
 */

/* Is @b never there without @a, which was stored before it? */
static bool precedes(const struct store *a, const struct store *b)
{
	return a->offset == b->offset ||
	       (a->offset / CPU_LINE == b->offset / CPU_LINE && a->instruction < b->instruction && !a->is_free && !b->is_free);
}

static bool is_open(const struct store *store, uint32_t window)
{
	return store->made <= window && store->durable > window;
}

/* Marks in @there which stores are left. */
static void choose(const struct trace *trace, const struct cut *cut, bool *there)
{
	const struct store *stores = trace->stores.v;
	LIST(uint32_t) marked = { };
	size_t n = trace->stores.n;

	for (size_t i = 0; i < n; i++)
		there[i] = cut->left == UP_TO ? i <= cut->store : stores[i].durable <= cut->window ||
			   (cut->left == WITHOUT && stores[i].made <= cut->window);
	if (cut->left == UP_TO)
		return;
	there[cut->store] = cut->left == ALONE;
	*list_add(&marked) = cut->store;
	/* What cannot be there without it is lost, too; or what it cannot be without is there. */
	for (size_t i = cut->store; cut->left == WITHOUT && ++i < n;)
		for (size_t m = 0; m < marked.n && there[i]; m++)
			if (precedes(&stores[marked.v[m]], &stores[i])) {
				there[i] = false;
				*list_add(&marked) = i;
			}
	for (size_t i = cut->store; cut->left == ALONE && i--;)
		for (size_t m = 0; m < marked.n && !there[i]; m++)
			if (precedes(&stores[i], &stores[marked.v[m]])) {
				there[i] = true;
				*list_add(&marked) = i;
			}
	free(marked.v);
}

static int by_place(const void *a, const void *b)
{
	const struct store *x = *(const struct store *const *)a, *y = *(const struct store *const *)b;

	return x->offset != y->offset ? x->offset < y->offset ? -1 : 1 : x < y ? -1 : x > y;
}

/* The newest value of each word; a hash of them. */
static uint64_t make_words(const struct trace *trace, const bool *there, word_list *words)
{
	const struct store **all = xcalloc(trace->stores.n, sizeof(*all));
	uint64_t hash = 0;
	size_t n = 0;

	words->n = 0;
	for (size_t i = 0; i < trace->stores.n; i++)
		if (there[i])
			all[n++] = &trace->stores.v[i];
	qsort(all, n, sizeof(*all), by_place);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || all[i + 1]->offset != all[i]->offset) {
			*list_add(words) = (struct word_content){ all[i]->offset, all[i]->value };
			hash = mix64(mix64(hash ^ all[i]->offset) ^ all[i]->value);
		}
	free(all);
	return hash;
}

typedef LIST(struct cut) cut_list;

static bool goes_on(const struct store *store, const struct store *before)
{
	return store->address == before->address && store->offset == before->offset + WORD;
}

/* Of many stores of a copy, some stand for all. */
static bool is_looked_at(const struct trace *trace, uint32_t store)
{
	const struct store *stores = trace->stores.v;
	uint32_t first = store, end = store + 1;

	while (first && goes_on(&stores[first], &stores[first - 1]))
		first--;
	while (end < trace->stores.n && goes_on(&stores[end], &stores[end - 1]))
		end++;
	return end - first <= LONG_RUN || store < first + 2 || store + 2 >= end || store == (first + end) / 2;
}

/* Between two of the moments when something becomes durable, the later power failure leaves all that the earlier one does. */
static void find_cuts(const struct trace *trace, bool caches_survive, cut_list *cuts)
{
	LIST(uint32_t) looked_at = { };

	for (uint32_t i = 0; i < trace->stores.n; i++)
		if (is_looked_at(trace, i))
			*list_add(&looked_at) = i;
	for (size_t i = 0; i < looked_at.n; i++)
		*list_add(cuts) = (struct cut){ UP_TO, looked_at.v[i], trace->stores.v[looked_at.v[i]].made };
	for (size_t i = 0; i < looked_at.n && !caches_survive; i++) {
		const struct store *store = &trace->stores.v[looked_at.v[i]];
		uint32_t last = store->durable > trace->windows ? trace->windows : store->durable - 1;

		*list_add(cuts) = (struct cut){ WITHOUT, looked_at.v[i], last };
		*list_add(cuts) = (struct cut){ ALONE, looked_at.v[i], store->made };
		if (last != store->made) {
			*list_add(cuts) = (struct cut){ WITHOUT, looked_at.v[i], store->made };
			*list_add(cuts) = (struct cut){ ALONE, looked_at.v[i], last };
		}
	}
	free(looked_at.v);
}

/******************************************************************************
 * Judging
 */

/* What the oracle prints after recovery must be what it prints after recovery without a second power failure. */
static enum verdict judge(void *arg, unsigned int moment, enum verdict verdict, uint64_t said)
{
	struct recovery *r = arg;
	uint64_t all = mix64(said ^ verdict);

	if (!r->checker->judge)
		return verdict;
	if (r->refers) {
		r->said = all;
		return r->checker->judge(r->checker->judge_arg, moment, verdict, said);
	}
	if (all == r->said)
		return CONSISTENT;
	return verdict == CONSISTENT ? INCONSISTENT : verdict;
}

/* A checker that stays is asked once, here. */
static void make_options(struct recovery *r, const struct checker_options *checker)
{
	static const char run[] = "sh -c \"$0\" </dev/null >/dev/null 2>&1; s=$?; "
		"[ $s -le 128 ] || { echo \"recovery was killed by signal $((s - 128))\"; exit 1; }; ";
	const char *judges = checker->serve ?
		"a=$(echo \"$CUT\" | \"$@\"); b=${a#?}; echo \"${b# }\"; case $a in 0*) exit 0;; 1*) exit 1;; esac; exit 3" : "exec \"$@\"";
	size_t n = 0;
	char **argv;

	while (checker->argv[n])
		n++;
	argv = xcalloc(n + 5, sizeof(*argv));
	argv[0] = "sh";
	argv[1] = "-c";
	argv[2] = xasprintf("%s%s", run, judges);
	argv[3] = (char *)r->command;
	memcpy(argv + 4, checker->argv, n * sizeof(*argv));
	r->checker = checker;
	r->options = *checker;
	r->options.argv = argv;
	r->options.serve = false;
	r->options.judge = judge;
	r->options.judge_arg = r;
}

static void note_verdict(void *arg, size_t number, const struct state *state, enum verdict verdict, const char *said)
{
	struct recovery *r = arg;

	(void)state;
	if (verdict == CONSISTENT)
		return;
	r->count.wrong++;
	if (!r->bad.n++ || number < r->bad.cut) {
		r->bad.cut = number;
		r->bad.verdict = verdict;
		free(r->bad.said);
		r->bad.said = xasprintf("%s", said);
	}
}

static bool is_new(hash_list *list, uint64_t hash)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i] == hash)
			return false;
	*list_add(list) = hash;
	return true;
}

static bool seen_enough(struct recovery *r, uint64_t kind)
{
	unsigned int n = 0;

	for (size_t i = 0; i < r->kinds.n; i++)
		n += r->kinds.v[i] == kind;
	*list_add(&r->kinds) = kind;
	return n >= ALIKE;
}

/******************************************************************************
 * Words
 */

/* "my-log.c:42 recover(), my-log+0x11f3", and "" if nothing is known */
static char *place_of(const struct store *store)
{
	char *sites[SITES + 1] = { }, *line;

	for (size_t i = 0; i < SITES && store->sites[i].program; i++)
		sites[i] = xasprintf("%s+0x%" PRIx64, store->sites[i].program, store->sites[i].offset);
	if (!*sites)
		return xasprintf("address 0x%" PRIx64, store->address);
	line = source_line_at(sites);
	return line ? xasprintf("%s, %s", line, basename(*sites)) : xasprintf("%s", basename(*sites));
}

static void print_store(const struct trace *trace, const char *what, uint32_t i, FILE *file)
{
	const struct store *store = &trace->stores.v[i];

	fprintf(file, "  %s 0x%" PRIx64 "  store %u of %zu by recovery, 0x%016" PRIx64 ": %s\n", what, store->offset, i + 1,
		trace->stores.n, store->value, place_of(store));
}

/* The first store that is lost, or with @last the last one that is there; NEVER: there is none. */
static uint32_t other_store(const struct trace *trace, const struct cut *cut, const bool *there, bool last)
{
	uint32_t found = NEVER;

	for (uint32_t i = 0; i < trace->stores.n && (last || found == NEVER); i++)
		if (i != cut->store && there[i] == last && (cut->left == UP_TO || is_open(&trace->stores.v[i], cut->window) ||
							    (last && i > cut->store)))
			found = i;
	return found;
}

static char *lines_of(const struct trace *trace, const struct cut *cut, const bool *there)
{
	uint32_t other = other_store(trace, cut, there, cut->left == WITHOUT);
	char *text;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	print_store(trace, cut->left == WITHOUT ? "lost   " : "there  ", cut->store, file);
	if (other != NEVER)
		print_store(trace, cut->left == WITHOUT ? "there  " : "lost   ", other, file);
	fclose(file);
	return text;
}

static const struct {
	const char *kind, *why;
} words_of[] = {
	[UP_TO] = { "recovery-not-idempotent", "the power fails again just after this store of recovery.  Recovery begins anew on what it has left, and ends wrong: what it has done must do no harm when it is done again" },
	[WITHOUT] = { "recovery-not-durable", "the power fails again, and this store of recovery is lost, although later ones are there: it was not durable yet.  Write it back, and wait for that, before the next store that counts on it" },
	[ALONE] = { "recovery-not-durable", "the power fails again, and of what is not durable, this store of recovery alone is there: nothing orders it after the stores before it.  Write those back, and wait for that, before it" },
};

struct again {
	struct recovery *r;
	struct model *model;
	struct checker *checker;
	recovery_report report;
	void *arg;
	struct timespec began;
	unsigned int seconds;
	size_t limit;
};

static bool is_over(struct again *a)
{
	struct recovery_count *count = &a->r->count;

	if (a->seconds && seconds_since(&a->began) > a->seconds)
		count->out_of_time = true;
	if ((!a->seconds && count->tried >= a->limit) || count->slow >= ENOUGH_AT_ONCE)
		count->out_of_time = true;
	count->enough |= count->wrong >= ENOUGH || a->r->wrong_at_once >= ENOUGH_AT_ONCE || a->r->causes.n >= REPORTED;
	return count->out_of_time || count->enough;
}

static void report_cut(struct again *a, const struct state *state, const struct trace *trace, const struct cut *cut)
{
	const struct store *store = &trace->stores.v[cut->store];
	uint64_t cause = store->sites->program ? store->sites->offset : store->address;
	bool *there = xcalloc(trace->stores.n, sizeof(*there));
	struct recovery_failure failure = {
		.state = state, .kind = words_of[cut->left].kind, .why = words_of[cut->left].why, .said = a->r->bad.said,
		.title = xasprintf("passes, and then the power fails in its recovery, at store %u of %zu", cut->store + 1,
				   trace->stores.n),
	};

	if (is_new(&a->r->causes, mix64(cause ^ cut->left))) {
		choose(trace, cut, there);
		make_words(trace, there, &failure.words);
		failure.lines = lines_of(trace, cut, there);
		failure.posted = place_of(store);
		a->report(a->arg, a->checker, &failure);
	}
	free(there);
}

/* Without a second power failure */
static void report_recovery(struct again *a, const struct state *state, const char *why, const char *said)
{
	const struct recovery_failure failure = {
		.state = state, .kind = "recovery-fails", .title = "passes, and its recovery ends wrong, without a second power failure",
		.why = why, .said = said, .lines = "",
	};

	a->r->count.wrong++;
	a->r->wrong_at_once++;
	if (is_new(&a->r->causes, (uint64_t)(uintptr_t)why))
		a->report(a->arg, a->checker, &failure);
}

/******************************************************************************
 * One state
 */

static void try_cuts(struct again *a, const struct state *state, const struct trace *trace, const cut_list *cuts)
{
	bool *there = xcalloc(trace->stores.n, sizeof(*there)), *is_cut = xcalloc(trace->stores.n, sizeof(*is_cut));
	struct recovery *r = a->r;
	word_list words = { };

	r->bad.n = 0;
	r->images.n = 0;
	r->count.stores += trace->stores.n;
	for (size_t i = 0; i < cuts->n && !is_over(a); i++) {
		choose(trace, &cuts->v[i], there);
		if (!is_new(&r->images, make_words(trace, there, &words)))
			continue;
		r->count.tried++;
		r->count.cut += !is_cut[cuts->v[i].store];
		is_cut[cuts->v[i].store] = true;
		checker_check_with(a->checker, a->model, state, &words, i, note_verdict, r);
	}
	checker_wait(a->checker, note_verdict, r);
	if (r->bad.n)
		report_cut(a, state, trace, &cuts->v[r->bad.cut]);
	free(there);
	free(is_cut);
	free(words.v);
}

/* Does recovery end right if the power does not fail again? */
static bool ends_right(struct again *a, const struct state *state)
{
	enum verdict verdict;
	const char *said;

	a->r->refers = true;
	verdict = checker_look(a->checker, a->model, state, &said);
	a->r->refers = false;
	if (verdict == TOO_SLOW)
		report_recovery(a, state, "recovery and the checker do not end in time (--timeout)", said);
	else if (verdict != CONSISTENT)
		report_recovery(a, state, "what recovery leaves of this state does not pass, although the state does", said);
	return verdict == CONSISTENT;
}

/* False if there is nothing to go on with. */
static bool trace_state(struct again *a, const struct state *state, struct trace *trace)
{
	const struct lent lent = checker_lend(a->checker, a->model, state);
	int status;

	trace_run(trace, a->r->command, &lent, a->r->options.seconds);
	a->r->count.traced++;
	a->r->count.guessed |= trace->guessed;
	status = WIFEXITED(trace->status) ? WEXITSTATUS(trace->status) : 128 + WTERMSIG(trace->status);
	if (status == 126 || status == 127)
		fail("--recovery %s: the shell cannot run it (status %d)", a->r->command, status);
	if (trace->too_slow)
		a->r->count.slow += ends_right(a, state);
	else if (status > 128)	/* or the shell says so */
		report_recovery(a, state, "recovery is killed by a signal", strsignal(status - 128));
	return !trace->too_slow && status <= 128;
}

static void try_state(struct again *a, const struct state *state)
{
	cut_list cuts = { };
	struct trace trace;

	model_cut(a->model, state->moment);
	if (trace_state(a, state, &trace)) {
		if (trace.stores.n && seen_enough(a->r, trace.kind)) {
			a->r->count.alike++;
		} else if (ends_right(a, state) && trace.stores.n) {
			find_cuts(&trace, a->model->history->rules->global, &cuts);
			try_cuts(a, state, &trace, &cuts);
		}
	}
	free(cuts.v);
	trace_free(&trace);
}

struct recovery_count recovery_judge(struct recovery *r, struct model *model, const struct content *content,
				     const struct checker_options *checker, unsigned int seconds, size_t limit,
				     recovery_report report, void *arg)
{
	struct again a = { .r = r, .model = model, .report = report, .arg = arg, .seconds = seconds, .limit = limit };

	make_options(r, checker);
	a.checker = checker_new(model->history, content, &r->options);
	clock_gettime(CLOCK_MONOTONIC, &a.began);
	for (size_t i = 0; i < r->n && !is_over(&a); i++)
		try_state(&a, &r->candidates[i].state);
	checker_free(a.checker);
	return r->count;
}

void recovery_print(const struct recovery_count *c, FILE *file)
{
	fprintf(file, "recovery: the power failed again %zu times, at %zu of the %zu stores of recovery to %zu states: %zu end wrong\n",
		c->tried, c->cut, c->stores, c->traced - c->alike - c->slow, c->wrong);
	fprintf(file, "recovery: not tried: ");
	if (c->out_of_time || c->enough)
		fprintf(file, "what was left when %s; ", c->enough ? "there were failures enough" : "the time was over (--seconds), or the number of states (--states)");
	if (c->traced < c->passed)
		fprintf(file, "%zu of the %zu states that pass; ", c->passed - c->traced, c->passed);
	if (c->slow)
		fprintf(file, "%zu states on which recovery is too slow when its stores are followed (--timeout); ", c->slow);
	if (c->alike)
		fprintf(file, "%zu states on which the same instructions store as on others; ", c->alike);
	if (c->guessed)
		fprintf(file, "stores that were not written back long after: they are taken for durable; ");
	fprintf(file, "two or more stores lost, while others are there\n");
}

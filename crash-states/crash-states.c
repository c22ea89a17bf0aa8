// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the states that a power failure may leave in the persistent memory of a target, from what the
 * lab recorded of a run, and runs the user's checker on them.  `crash-states --help` shows the usage;
 * "What a power failure may leave" in Documentation/crash-states-rules.rst is the model.
 *
 *	capture.c	the packets of a capture
 *	cpu.c		what the target's CPU did
 *	memory.c	what was registered
 *	content.c	what the memory held
 *	group.c		several targets at once
 *	history.c	what the target took, and did to its memory
 *	visible.c	what a consumer may count on
 *	hints.c		what is suspicious without a checker
 *	lint.c		what is superfluous
 *	model.c		the states that are allowed
 *	sample.c	which of them are checked
 *	checker.c	images, and the checker's processes
 *	cause.c		which mistake a state shows
 *	explain.c	why a state fails
 *	oracle.c	a program's own recovery as the judge
 *	promise.c	what printed lines promise, without a checker
 *	recovery.c	a power failure in recovery
 *	trace.c		what recovery stores
 *	draw.c		a picture of it, and the line of the program
 *	json.c		the result for other programs
 *	output.c	for people, and for CI
 *	page.c		as a page
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../selftests/rdma/rxe_roce.h"
#include "draw.h"
#include "explain.h"
#include "group.h"
#include "hints.h"
#include "json.h"
#include "lint.h"
#include "oracle.h"
#include "output.h"
#include "promise.h"
#include "recovery.h"
#include "sample.h"

#define SECONDS		30	/* for all states, unless the user says how many */
#define FEW		10	/* states tell how long all will take */
#define LONG_AFTER	0.2	/* s: no line comes so late because the host is busy */
#define QUICK		0.01	/* s: an answer that is later comes after the lines that the program has printed before */
#define LINES_SHOWN	5	/* of those that came while something was not durable */
#define EXPLAINED	3	/* failures of different kinds */
#define TRIED		12	/* to find these */
#define ALIKE		3	/* of these, by what the checker says */
#define ENOUGH		1000	/* failures */
#define ENOUGH_SLOW	8	/* checkers that took too long */

struct options {
	size_t states, limit;
	unsigned int seconds;		/* for all states; 0: no limit */
	uint64_t seed;
	const char *promise, *oracle, *recovery;	/* or NULL */
	const char *cuts, *json, *html, *replay, *lose, *run;
	const char *capture, *memory, *start, *end;	/* or NULL: those of the run */
	const struct rules *rules;
	bool strict, ktap, visible, lint;
	LIST(struct polled) signals;	/* --signal; with --visible */
	bool messages;			/* --signal messages */
	struct checker_options checker;
};

/* All that is known of a run. */
struct run {
	const char *folder;
	unsigned int targets;		/* of a group, or 1 */
	struct memory memory[TARGETS_MAX];
	const char *end;		/* what the memory held at the end; there need be no such file */
	struct capture capture;
	struct content start;
	struct before before;
	struct history history;
	struct model model;
};

static uint64_t number(const char *option, const char *text, uint64_t most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end || errno || *text == '-' || value > most)
		fail("--%s %s: not a number up to %" PRIu64, option, text, most);
	return value;
}

/* Half of the machine's memory, for so many checkers: in MiB, for each. */
static unsigned int half_of_memory(unsigned int jobs)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), mib = bytes / 2 / jobs >> 20;

	return mib < 64 ? 64 : mib < UINT32_MAX ? mib : UINT32_MAX;
}

/* The next run moves the link `latest`, and what is printed shall stay true. */
static const char *resolved(const char *run)
{
	struct stat st;
	char *path;

	if (lstat(run, &st) || !S_ISLNK(st.st_mode))
		return run;
	path = realpath(run, NULL);
	return path ? path : run;
}

/* The folder of the tools knows it. */
static void __attribute__((noreturn)) print_version(void)
{
	if (!tools_folder())
		fail("--version: qemu-scripts/crash-states knows the version");
	execlp("bash", "bash", "-c", ". \"$0/places.sh\" && version crash-states", tools_folder(), NULL);
	fail_errno("--version: bash");
}

/* It is a checker of which what it prints counts. */
static void use_oracle(struct options *o)
{
	static char *argv[] = { "sh", "-c", NULL, NULL };

	if (!o->oracle)
		return;
	if (o->checker.argv || o->checker.serve)
		fail("--oracle stands in place of a checker, and takes no --serve");
	argv[2] = (char *)o->oracle;
	o->checker.argv = argv;
}

/* "0x40" or "0x40/16" */
static void add_signal(struct options *o, const char *text)
{
	struct polled polled = { .length = WORD };
	char *end;

	if (!strcmp(text, "messages")) {
		o->messages = true;
		return;
	}
	polled.offset = strtoull(text, &end, 0);
	if (end != text && *end == '/' && end[1])
		polled.length = strtoull(end + 1, &end, 0);
	if (end == text || *end || *text == '-' || !polled.length || polled.length > SIZE_MAX / 2 || polled.offset > SIZE_MAX / 2)
		fail("--signal %s: say where it is in IMAGE, and, unless it is 8 bytes, how long: 0x40/16", text);
	*list_add(&o->signals) = polled;
}

static bool names_signals(const struct options *o)
{
	return o->signals.n || o->messages;
}

/* It has to do with no power failure. */
static void use_visible(struct options *o)
{
	struct rules *rules;

	if (!o->visible && names_signals(o))
		fail("--signal goes with --visible");
	if (o->signals.n && o->messages)
		fail("--signal messages goes with no other --signal: a consumer that polls counts on what it polls");
	if (!o->visible)
		return;
	if (o->oracle || o->lose)
		fail("--visible takes neither --oracle nor --lose");
	if (o->promise && (o->checker.argv || names_signals(o)))
		fail("--visible with --promise takes neither a checker nor --signal: its signals are lines");
	rules = rules_of_consumer(o->rules);
	for (size_t i = 0; i < o->signals.n; i++)
		*list_add(&rules->polled) = o->signals.v[i];
	o->rules = rules;
}

/* Which ones go together? */
static void check_options(const struct options *o)
{
	if (o->lint && (o->checker.argv || o->promise || o->visible || o->replay || o->lose || o->recovery ||
			o->ktap || o->html || o->json))
		fail("--lint judges nothing, and takes no checker and none of --promise, --visible, --replay, --lose, --recovery, --json, --ktap and --html");
	if (o->lose && (o->checker.argv || o->replay || o->cuts || o->promise))
		fail("--lose takes neither a checker nor --replay nor --cuts nor --promise");
	if (o->recovery && (o->lose || o->replay || o->visible))
		fail("--recovery takes none of --lose, --replay and --visible");
	if (o->recovery && !o->checker.argv)
		fail("--recovery wants a judge: a checker, or --oracle, for which the same command will do if it prints what it recovers");
	if ((o->ktap || o->html) && (o->lose || o->replay))
		fail("--ktap and --html take neither --lose nor --replay");
	if (o->ktap && !o->checker.argv && !o->promise && !o->visible)
		fail("--ktap wants a checker or --promise: without one nothing is judged (crash-states --help)");
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "version", no_argument, NULL, 'V' },
		{ "states", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 'd' },
		{ "limit", required_argument, NULL, 'x' },
		{ "seed", required_argument, NULL, 's' },
		{ "cuts", required_argument, NULL, 'c' },
		{ "model", required_argument, NULL, 'm' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "timeout", required_argument, NULL, 't' },
		{ "json", required_argument, NULL, 'o' },
		{ "ktap", no_argument, NULL, 'k' },
		{ "html", required_argument, NULL, 'w' },
		{ "capture", required_argument, NULL, 'C' },
		{ "memory", required_argument, NULL, 'M' },
		{ "start", required_argument, NULL, 'S' },
		{ "end", required_argument, NULL, 'E' },
		{ "serve", no_argument, NULL, 'v' },
		{ "promise", required_argument, NULL, 'p' },
		{ "oracle", required_argument, NULL, 'O' },
		{ "visible", no_argument, NULL, 'i' },
		{ "lint", no_argument, NULL, 'L' },
		{ "signal", required_argument, NULL, 'g' },
		{ "recovery", required_argument, NULL, 'R' },
		{ "checker-memory", required_argument, NULL, 'b' },
		{ "strict", no_argument, NULL, 'e' },
		{ "replay", required_argument, NULL, 'r' },
		{ "lose", required_argument, NULL, 'l' },
		{ }
	};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool has_seconds = false;
	int c;

	*o = (struct options){
		.rules = all_rules, .states = ANY_NUMBER, .limit = SIZE_MAX, .seed = 1,
		.checker = { .jobs = cpus > 0 ? cpus : 1, .seconds = 60 },
	};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		switch (c) {
		case 'V': print_version();
		case 'n': o->states = number("states", optarg, UINT32_MAX); break;
		case 'd':
			o->seconds = number("seconds", optarg, 1000000);
			has_seconds = true;
			break;
		case 'x': o->limit = number("limit", optarg, UINT32_MAX); break;
		case 's': o->seed = number("seed", optarg, UINT64_MAX); break;
		case 'c': o->cuts = optarg; break;
		case 'm':
			o->rules = rules_find(optarg);
			if (!o->rules)
				fail("--model %s: there are spec, strict, ordered, adr-read and eadr", optarg);
			break;
		case 'j': o->checker.jobs = number("jobs", optarg, 256); break;
		case 't': o->checker.seconds = number("timeout", optarg, 1000000); break;
		case 'b': o->checker.mib = number("checker-memory", optarg, UINT32_MAX); break;
		case 'v': o->checker.serve = true; break;
		case 'p': o->promise = optarg; break;
		case 'O': o->oracle = optarg; break;
		case 'i': o->visible = true; break;
		case 'L': o->lint = true; break;
		case 'g': add_signal(o, optarg); break;
		case 'R': o->recovery = optarg; break;
		case 'o': o->json = optarg; break;
		case 'k': o->ktap = true; break;
		case 'w': o->html = optarg; break;
		case 'C': o->capture = optarg; break;
		case 'M': o->memory = optarg; break;
		case 'S': o->start = optarg; break;
		case 'E': o->end = optarg; break;
		case 'e': o->strict = true; break;
		case 'r': o->replay = optarg; break;
		case 'l': o->lose = optarg; break;
		default:
			fail("%s: no such option, or it wants a value (crash-states --help)",
			     argv[optind - 1]);
		}
	}
	/* getopt has eaten a "--" before the folder. */
	if (optind == argc)
		fail("name the folder of a run, such as build/out/latest (crash-states --help)");
	o->run = resolved(argv[optind++]);
	if (optind < argc) {
		if (strcmp(argv[optind], "--"))
			fail("'%s': the checker stands behind -- (crash-states --help)", argv[optind]);
		optind++;
		if (optind == argc)
			fail("no checker behind -- (crash-states --help)");
		o->checker.argv = argv + optind;
	}
	if (!o->limit || !o->checker.jobs || !o->checker.seconds || (has_seconds && !o->seconds))
		fail("--limit, --jobs, --seconds and --timeout are not 0");
	if (!has_seconds && o->states == ANY_NUMBER)
		o->seconds = SECONDS;
	use_oracle(o);
	if (!o->checker.mib)
		o->checker.mib = half_of_memory(o->checker.jobs);
	use_visible(o);
	check_options(o);
}

/* In a group an initiator may have come before the copy of the NVDIMM was made: see struct before. */
static void read_before(struct run *run, const char *start)
{
	const char *booted = xasprintf("%s/server.pmem0.boot", run->folder);
	const char *copied = xasprintf("%s/server.pmem0.copied", run->folder);
	struct content content;
	FILE *file;

	content_map(&run->start, start, run->memory);
	run->before = (struct before){ .ready = run->start.bytes };
	if (access(booted, F_OK))
		return;
	content_map(&content, booted, run->memory);
	run->before.booted = content.bytes;
	file = fopen(copied, "r");
	if (!file)
		fail_errno("%s", copied);
	if (fscanf(file, "%" SCNu64, &run->before.copied) != 1)
		fail("%s: not understood", copied);
	fclose(file);
}

/* The folders of tests and of the demo have those of runs inside. */
static const char *runs_inside(const char *folder)
{
	glob_t found;

	if (glob(xasprintf("%s/*/server.pcap", folder), 0, NULL, &found) || !found.gl_pathc)
		return "";
	return xasprintf("; it has runs inside, such as %s", dirname(found.gl_pathv[0]));
}

static void read_pair(struct run *run, const struct options *o)
{
	const char *capture = o->capture ? o->capture : xasprintf("%s/server.pcap", o->run);
	const char *memory = o->memory ? o->memory : xasprintf("%s/server.memory", o->run);
	const char *start = o->start ? o->start : xasprintf("%s/server.pmem0.start", o->run);
	const char *cpu = xasprintf("%s/server.cpu", o->run);

	run->targets = 1;
	run->end = o->end ? o->end : xasprintf("%s/server.pmem0", o->run);
	if (!o->capture && access(capture, R_OK))
		fail("%s is not the folder of a run of `rxe-vm pair`: it has no server.pcap%s", o->run,
		     runs_inside(o->run));
	if (!o->memory && access(memory, R_OK))
		fail("%s has no server.memory: only a run with --server-pmem can be looked at", o->run);
	if (!o->start && access(start, R_OK))
		fail("%s has no server.pmem0.start: the server was never ready", o->run);
	memory_read(run->memory, memory);
	capture_read(&run->capture, capture, run->memory, 1);
	read_before(run, start);
	/* Its moments are those of the lab's capture. */
	if (!o->capture && !access(cpu, F_OK))
		capture_read_cpu(&run->capture, cpu, run->memory);
}

/* The client has waited until all targets were ready, so what they held then is what they held before. */
static void read_group(struct run *run, const struct options *o)
{
	if (o->recovery)
		fail("--recovery wants one target: name a folder *.recording in %s", o->run);
	if (o->lose || o->visible)
		fail("--%s wants one target: name a folder *.recording in %s", o->visible ? "visible" : "lose", o->run);
	if (o->capture || o->memory || o->start || o->end)
		fail("--capture, --memory, --start and --end want one target, and %s is the folder of a group", o->run);
	run->end = xasprintf("%s/server*.pmem0", o->run);
	group_read(run->memory, run->targets, o->run);
	capture_read(&run->capture, xasprintf("%s/client1.pcap", o->run), run->memory, run->targets);
	group_map(&run->start, run->memory, run->targets, o->run, "pmem0.start");
	run->before = (struct before){ .ready = run->start.bytes };
}

static void read_run(struct run *run, const struct options *o)
{
	run->folder = o->run;
	run->targets = group_targets(o->run);
	if (run->targets)
		read_group(run, o);
	else
		read_pair(run, o);
	history_read(&run->history, &run->capture, run->memory, run->targets, &run->before, o->rules);
	model_init(&run->model, &run->history, o->seed);
	if (o->promise)
		run->model.signals.n = 0;	/* these are the lines */
}

/******************************************************************************
 * What there is
 */

/* The checker may find nothing wrong because the programs failed before they sent it. */
static void note_verdict(const struct run *run)
{
	FILE *file = fopen(xasprintf("%s/verdict", run->folder), "r");
	char line[256];

	if (!file)
		return;
	if (fgets(line, sizeof(line), file) && strncmp(line, "pass", 4))
		note("the run did not pass (%.*s): only what was sent until then is checked",
		       (int)strcspn(line, "\n"), line);
	fclose(file);
}

/* Lines that come when the program ends promise nothing at any earlier cut.  One alone may be meant so. */
static void note_late_lines(const struct run *run)
{
	const struct capture *capture = &run->capture;
	const struct model *model = &run->model;
	const struct request *last;

	if (capture->told.n < 2 || model->all_answers < 2)
		return;
	last = &run->history.requests.v[model->answer[model->all_answers - 1]];
	if (capture->told.v[0].moment > last->answer->moment)
		note("all lines were printed after the last %s had been answered: is the standard output buffered?  Call setvbuf() or fflush(), or no early promise is found",
		       opcode_name(last->packet->opcode));
}

/* What the target's programs did by themselves. */
static void count_cpu(const struct run *run)
{
	const struct cpu *cpu = &run->capture.cpu;
	size_t stores = 0, write_backs = 0;

	if (!cpu->path)
		return;
	for (size_t i = 0; i < cpu->events.n; i++) {
		stores += cpu_is_store(cpu->events.v[i].operation);
		write_backs += cpu_is_write_back(cpu->events.v[i].operation);
	}
	printf("the target's CPU: %zu stores, %zu lines written back, %u fences that made something durable\n", stores, write_backs,
	       cpu_fences(&run->history));
	if (cpu->half_line)
		note("server.cpu ends in the middle of a line, as its guest was killed: this line is left out");
}

/* To how many words the CPU stored, each time anew. */
static uint64_t stores_by_cpu(const struct history *history)
{
	uint64_t words = 0;

	for (size_t u = 0; history->cpu != NEVER && u < history->updates.n; u++)
		if (history->requests.v[history->updates.v[u].request].flow == history->cpu)
			words += history->stretches.v[history->updates.v[u].stretch].words;
	return words;
}

static void count_requests(const struct run *run)
{
	const struct history *history = &run->history;
	size_t connections = history_qps(history);
	unsigned int flushes = 0, other = 0, reads = 0;
	uint64_t uncovered = 0;

	for (size_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];

		if (is_cpu(request))
			continue;
		flushes += request->flush != 0;
		other += !strcmp(opcode_name(request->packet->opcode), "FLUSH") && !request->flush;
	}
	for (size_t u = 0; u < history->updates.n; u++)
		if (history->updates.v[u].covered == NEVER && written_back(history, &history->updates.v[u]) == NEVER)
			uncovered += history->stretches.v[history->updates.v[u].stretch].words;
	for (size_t f = 0; f < history->flows.n; f++)
		reads += history->flows.v[f].reads;
	printf("%u frames, %zu QP%s, %zu packets of requests, which stored %" PRIu64 " times to %u words of %s\n",
	       run->capture.frames, connections, connections == 1 ? "" : "s",
	       history->requests.n - run->capture.cpu.events.n, history->stores - stores_by_cpu(history), history->words,
	       run->memory->device);
	printf("%u %s, %u of them answered\n", flushes, history->rules->flushes, run->model.all_answers);
	json_counts(flushes, run->model.all_answers, uncovered);
	count_cpu(run);
	printf("%zu lines that initiators printed%s\n", run->capture.told.n,
	       !run->capture.told.n || run->capture.told_in_time ? "" : ", each a moment before it was told: their guest has no FUSE (CONFIG_FUSE_FS)");
	note_verdict(run);
	note_late_lines(run);
	if (uncovered)
		note("%" PRIu64 " of the stores are covered by none of these", uncovered);
	if (history->loosely)
		note("%" PRIu64 " of the stores are covered by FLUSHes of another key, or of a part of them: not by the rules of --model strict",
		       history->loosely);
	if (other)
		note("%u FLUSHes ask for %s", other, history->rules->visible ?
		     "persistence only: they make nothing visible" : "global visibility only: they make nothing durable");
	if (reads && uncovered && !history->rules->read)
		note("%u READs of persistent memory: a READ makes nothing %s", reads, history->rules->visible ? "visible" : "durable");
	if (history->pulled)
		note("%u packets were pulled by the target's own READs or Atomics: no request names where they are stored, so they are in no state",
		       history->pulled);
	if (run->capture.broken)
		note("%u packets were left out that a target drops (ICRC, length)",
		       run->capture.broken);
	if (run->capture.half_frame)
		note("the capture ends in the middle of a frame, as its guest was killed: this frame is left out");
}

/* Where the first ATOMIC WRITE has stored, which a program may poll; or NULL. */
static const char *atomic_write_place(const struct history *history)
{
	for (size_t i = 0; i < history->requests.n; i++) {
		const struct request *request = &history->requests.v[i];

		if (request->packet->opcode == ROCE_RC_ATOMIC_WRITE && request->updates)
			return history_place(history, history->stretches.v[history->updates.v[request->first_update].stretch].offset);
	}
	return NULL;
}

/* Without a signal all would pass. */
static void need_signals(const struct run *run, const struct options *o)
{
	const char *place = atomic_write_place(&run->history);

	if (o->promise || run->model.signals.n)
		return;
	place = place ? xasprintf(", such as --signal %s, where ATOMIC WRITEs went", place) : "";
	if (o->signals.n)
		fail("--signal: no request has stored to these bytes: name those that the consumer polls%s", place);
	fail("--visible: no SEND and no WRITE with immediate came, so say what the consumer polls: --signal ADDRESS%s", place);
}

static void show_hints(const struct run *run)
{
	hint_list hints = { };

	hints_find(&run->history, &hints);
	hints_print(&run->history, &hints, stdout);
	for (size_t i = 0; i < hints.n && json_takes_hints(); i++)
		json_hint(hint_text(&run->history, &hints.v[i]));
	free(hints.v);
}

/* Ranges of words, some of which are printed. */
struct ranges {
	size_t words, ranges;
	uint64_t from, to;
	char text[256];
};

static void end_range(const struct history *history, struct ranges *r)
{
	size_t used = strlen(r->text);

	if (r->to && r->ranges++ < 4)
		snprintf(r->text + used, sizeof(r->text) - used, " %s-0x%" PRIx64, history_place(history, r->from),
			 r->to - 1 - history_target(history, r->from)->base);
	else if (r->to && r->ranges == 5)
		strcat(r->text, " ...");
}

static void add_to_ranges(const struct history *history, struct ranges *r, uint64_t offset)
{
	r->words++;
	if (r->to == offset) {
		r->to += WORD;
		return;
	}
	end_range(history, r);
	r->from = offset;
	r->to = offset + WORD;
}

/* Can the word hold this at the end, by what came and what must have been executed? */
static bool is_explained(const struct history *history, uint32_t w, uint64_t value)
{
	int32_t position = history->stretches.v[history_stretch_of(history, w)].n - 1;

	for (; position >= START; position--) {
		const struct request *request;
		const struct flow *flow;

		if (model_value(history, w, position) == value)
			return true;
		if (position == START)
			break;
		request = &history->requests.v[model_update(history, w, position)->request];
		flow = &history->flows.v[request->flow];
		if (flow->any_done && request->psn <= flow->done)
			break;
	}
	return false;
}

static uint64_t next_data(const struct content *content, uint64_t offset)
{
	off_t next = lseek(content->fd, content->start + offset, SEEK_DATA);

	return next < 0 ? content->size : (uint64_t)next - content->start;
}

/*
 * The page from @offset on, itself the start of one, where something may have changed.  Holes of both are
 * alike, but what a request stored must be looked at, even where it has left no trace.
 */
static uint64_t next_page(const struct run *run, const struct content *end, uint64_t offset)
{
	const struct history *history = &run->history;
	uint32_t s = history_stretch_at(history, offset);
	uint64_t next = next_data(end, offset), start = next_data(&run->start, offset);

	if (start < next)
		next = start;
	if (s < history->stretches.n && history->stretches.v[s].offset < next)
		next = history->stretches.v[s].offset;
	return next < offset ? offset : next / PAGE * PAGE;
}

/* What changed, but not as the requests explain. */
struct unexplained {
	struct ranges own;	/* by none of them */
	struct ranges wrong;	/* they stored something else there */
	word_list words;	/* all of these, as they were at the end */
};

static void compare_word(const struct run *run, const struct content *end, uint64_t offset,
			 struct unexplained *unexplained)
{
	const struct history *history = &run->history;
	uint64_t value, rest[2];
	bool wrong = false;

	memcpy(&value, end->bytes + offset, WORD);
	memcpy(&rest[0], end->bytes + offset, WORD);
	memcpy(&rest[1], run->start.bytes + offset, WORD);
	for (uint32_t s = history_stretch_at(history, offset);
	     s < history->stretches.n && history->stretches.v[s].offset < offset + WORD; s++) {
		const struct stretch *stretch = &history->stretches.v[s];
		uint64_t from = stretch->offset > offset ? stretch->offset : offset, part = 0;

		memcpy(&part, end->bytes + from, word_length(stretch));
		wrong |= !is_explained(history, stretch->word + (from - stretch->offset) / WORD, part);
		/* What no request stored to is left. */
		for (int i = 0; i < 2; i++)
			memset((uint8_t *)&rest[i] + (from - offset), 0, word_length(stretch));
	}
	if (!wrong && rest[0] == rest[1])
		return;
	add_to_ranges(history, wrong ? &unexplained->wrong : &unexplained->own, offset);
	*list_add(&unexplained->words) = (struct word_content){ offset, value };
}

static void compare_end(const struct run *run, const struct content *end, struct unexplained *unexplained)
{
	for (uint64_t offset = 0; offset + WORD <= end->size; offset += WORD) {
		if (!(offset % PAGE))
			offset = next_page(run, end, offset);
		if (offset + WORD <= end->size)
			compare_word(run, end, offset, unexplained);
	}
	end_range(&run->history, &unexplained->own);
	end_range(&run->history, &unexplained->wrong);
}

static void print_unexplained(const struct run *run, const struct unexplained *unexplained)
{
	const struct ranges *own = &unexplained->own, *wrong = &unexplained->wrong;
	const char *by = run->history.cpu == NEVER ? "the target's own CPU" : "something that was not recorded, such as the target's kernel";

	if (!own->words && !wrong->words)
		printf("the NVDIMM held at the end what these requests explain, and nothing else had changed\n");
	if (own->words)
		note("%zu words were changed by none of these requests, but by %s%s:%s", own->words, by,
		       run->history.somewhere ? ", or by a SEND" : "", own->text);
	if (wrong->words)
		note("%zu words that requests stored held something else at the end; has %s changed them%s?%s",
		       wrong->words, by, run->history.somewhere ? ", or a SEND" : "", wrong->text);
}

/* False if the lab has not kept it. */
static bool map_end(const struct run *run, struct content *end)
{
	if (run->targets > 1)
		return group_map(end, run->memory, run->targets, run->folder, "pmem0");
	if (access(run->end, R_OK))
		return false;
	content_map(end, run->end, run->memory);
	return true;
}

/*
 * Compare what the NVDIMM held at the end with what the requests explain.  The rest is shown: it is
 * the doing of the target's own program, or a mistake of ours.
 */
static word_list check_end(const struct run *run, bool strict)
{
	struct unexplained unexplained = { };
	struct content end;

	if (!map_end(run, &end)) {
		if (strict)
			fail("--strict: there is no %s, so that what was read here cannot be compared with it",
			     run->end);
		note("there is no %s, so that what was read here cannot be compared with it",
		       run->end);
		return unexplained.words;
	}
	compare_end(run, &end, &unexplained);
	print_unexplained(run, &unexplained);
	content_unmap(&end);
	if (strict && unexplained.words.n)
		fail("--strict: the requests do not explain %zu words that %s held at the end",
		     unexplained.words.n, run->end);
	return unexplained.words;
}

/******************************************************************************
 * The states
 */

typedef LIST(unsigned int) cut_list;

/* "12,40-60,12+3" */
static void add_listed_cuts(const struct run *run, const char *list, cut_list *cuts)
{
	const char *at = list;

	while (*at) {
		unsigned long from, to, lines = ALL_LINES;
		char *end;

		from = to = strtoul(at, &end, 10);
		if (end != at && *end == '+') {
			at = end + 1;
			lines = strtoul(at, &end, 10);
		} else if (end != at && *end == '-') {
			at = end + 1;
			to = strtoul(at, &end, 10);
		}
		if (end == at || (*end && *end != ',') || from > to)
			fail("--cuts %s: say for example 12,40-60", list);
		if (to > run->capture.frames)
			fail("--cuts %s: the capture has %u frames", list, run->capture.frames);
		for (; from <= to; from++)
			*list_add(cuts) = capture_moment(&run->capture, from, lines);
		if (cuts->v[cuts->n - 1] == NO_MOMENT)
			fail("--cuts %s: the CPU did not do so much after frame %lu", list, to);
		at = *end ? end + 1 : end;
	}
}

static int by_moment(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return x < y ? -1 : x > y;
}

static void find_cuts(const struct run *run, const struct options *o, cut_list *cuts)
{
	size_t n = 0;

	if (!o->cuts) {
		cuts->v = model_cuts(&run->model, &cuts->n);
		return;
	}
	add_listed_cuts(run, o->cuts, cuts);
	if (!cuts->n)
		fail("--cuts %s: say for example 12,40-60", o->cuts);
	qsort(cuts->v, cuts->n, sizeof(*cuts->v), by_moment);
	for (size_t i = 0; i < cuts->n; i++)
		if ((!n || cuts->v[i] != cuts->v[n - 1]) &&
		    (!run->history.rules->visible || model_signal_at(&run->model, cuts->v[i]) != NEVER))
			cuts->v[n++] = cuts->v[i];
	cuts->n = n;
	if (!n)
		fail("--cuts %s: none of these frames is a signal", o->cuts);
}

struct failure {
	size_t number;
	uint64_t kind;		/* what the checker says, but for numbers */
	uint64_t lost;		/* the request that is lost first, as far as causes differ by it */
	struct state state;
};

struct outcome {
	size_t number;		/* of the state */
	uint64_t kind;		/* as that of a failure */
	enum verdict verdict;
};

struct results {
	const struct history *history;
	struct recovery *recovery;	/* or NULL */
	size_t checked, failed, crashed, slow;
	LIST(struct outcome) bad;	/* all that fail, as their checkers end */
	LIST(struct view) views;
	struct { uint32_t *slot; size_t size; } view_of;	/* index into views, by hash, plus 1; or 0 */
	LIST(struct failure) failures;	/* the first, and a few of each kind and loss */
};

/* Of the text without the characters in @except */
static uint64_t hash_text(uint64_t hash, const char *text, const char *except)
{
	for (; *text; text++)
		if (!strchr(except, *text))
			hash = mix64(hash * 31 + *text);
	return hash;
}

static uint64_t kind_of(enum verdict verdict, const char *said)
{
	return hash_text(verdict, said, "0123456789abcdefx");
}

/* A checker that says the same of all states leaves only what is lost to tell one mistake from another. */
static uint64_t first_loss(const struct history *history, const struct state *state)
{
	const struct request *lost;
	uint32_t first = NEVER;

	for (size_t i = 0; i < state->held.n; i++) {
		const struct stretch *s = &history->stretches.v[history_stretch_of(history, state->held.v[i].word)];
		uint32_t next = state->held.v[i].position + 1, request;

		if (next >= s->n)
			continue;
		request = history->updates.v[history->of_stretches[s->first + next]].request;
		if (request < first && history->requests.v[request].packet->moment <= state->moment)
			first = request;	/* NEVER is the largest number */
	}
	if (first == NEVER)
		return 0;
	lost = &history->requests.v[history->requests.v[first].message];
	return mix64((uint64_t)lost->rkey << 32 | lost->packet->length) + lost->packet->opcode;
}

static void remove_failure(struct results *results, size_t i)
{
	free(results->failures.v[i].state.held.v);
	results->failures.n--;
	memmove(&results->failures.v[i], &results->failures.v[i + 1],
		(results->failures.n - i) * sizeof(*results->failures.v));
}

/* They come nearly in order; the result shall not depend on which checker is the quickest. */
static void add_failure(struct results *results, size_t number, uint64_t kind, const struct state *state)
{
	struct failure failure = { .number = number, .kind = kind, .lost = first_loss(results->history, state),
				   .state.moment = state->moment, .state.hash = state->hash };
	size_t i, alike = 0;

	for (size_t h = 0; h < state->held.n; h++)
		*list_add(&failure.state.held) = state->held.v[h];
	*list_add(&results->failures) = failure;
	for (i = results->failures.n - 1; i && results->failures.v[i - 1].number > number; i--)
		results->failures.v[i] = results->failures.v[i - 1];
	results->failures.v[i] = failure;
	for (i = 0; i < results->failures.n; i++) {
		alike += results->failures.v[i].kind == kind && results->failures.v[i].lost == failure.lost;
		if (alike > ALIKE)
			break;
	}
	if (i < results->failures.n)
		remove_failure(results, i);
	else if (results->failures.n > TRIED)
		remove_failure(results, TRIED);
}

/* Where the index of a view is, or belongs. */
static uint32_t *slot_of_view(struct results *results, uint64_t hash)
{
	size_t at = hash & (results->view_of.size - 1);

	while (results->view_of.slot[at] && results->views.v[results->view_of.slot[at] - 1].hash != hash)
		at = (at + 1) & (results->view_of.size - 1);
	return &results->view_of.slot[at];
}

/* Checkers that run at once end in any order: a view is that of the first state which has it. */
static void note_view(struct results *results, uint64_t hash, size_t number, unsigned int moment)
{
	struct view view = { hash, number, moment };
	uint32_t *slot;

	if (results->views.n * 2 >= results->view_of.size) {
		free(results->view_of.slot);
		results->view_of.size = results->view_of.size ? results->view_of.size * 2 : 64;
		results->view_of.slot = xcalloc(results->view_of.size, sizeof(*results->view_of.slot));
		for (size_t i = 0; i < results->views.n; i++)
			*slot_of_view(results, results->views.v[i].hash) = i + 1;
	}
	slot = slot_of_view(results, hash);
	if (!*slot) {
		*list_add(&results->views) = view;
		*slot = results->views.n;
	} else if (results->views.v[*slot - 1].number > number) {
		results->views.v[*slot - 1] = view;
	}
}

static void note_result(void *arg, size_t number, const struct state *state, enum verdict verdict,
			const char *said)
{
	struct results *results = arg;

	results->checked++;
	note_view(results, hash_text(1, said, ""), number, state->moment);
	if (verdict == CONSISTENT) {
		if (results->recovery)
			recovery_note(results->recovery, state, number);
		return;
	}
	results->failed++;
	results->crashed += verdict == CRASHED;
	results->slow += verdict == TOO_SLOW;
	*list_add(&results->bad) = (struct outcome){ number, kind_of(verdict, said), verdict };
	add_failure(results, number, kind_of(verdict, said), state);
}

static int by_outcome(const void *a, const void *b)
{
	size_t x = ((const struct outcome *)a)->number, y = ((const struct outcome *)b)->number;

	return x < y ? -1 : x > y;
}

/*
 * Of the checkers that run at once, some go on when there are failures enough.  What they found is left
 * out, so that the result is that of one checker at a time.  True if it was enough.
 */
static bool end_where_it_is_enough(struct results *results)
{
	size_t failed = 0, crashed = 0, slow = 0, last = 0;

	if (results->bad.n)
		qsort(results->bad.v, results->bad.n, sizeof(*results->bad.v), by_outcome);
	for (size_t i = 0; i < results->bad.n && failed < ENOUGH && slow < ENOUGH_SLOW; i++) {
		failed++;
		crashed += results->bad.v[i].verdict == CRASHED;
		slow += results->bad.v[i].verdict == TOO_SLOW;
		last = results->bad.v[i].number;
	}
	if (failed < ENOUGH && slow < ENOUGH_SLOW)
		return false;
	results->checked = last;
	results->failed = failed;
	results->crashed = crashed;
	results->slow = slow;
	for (size_t i = results->failures.n; i--;)
		if (results->failures.v[i].number > last)
			remove_failure(results, i);
	return true;
}

static void __attribute__((noreturn))
fail_to_judge(const word_list *unexplained, const char *why, const char *said)
{
	fail("this run cannot be judged: %zu words were changed by what no request explains, such as the target's own CPU, and the checker counts on them.  Let the initiator store them, or the target before rxe-ready or before it listens; or record the CPU (rxe-vm pair --record-cpu).  %s: %s",
	     unexplained->n, why, said);
}

/*
 * All was told and answered, and nothing is stored: no checker accepts this that compares the two.  A note only,
 * because a checker may look at the order of what is stored alone, and a program may remove what it has stored.
 */
static void note_if_it_accepts_nothing(struct run *run, struct checker *checker)
{
	if (!run->capture.told.n && !run->model.all_answers)
		return;
	model_cut(&run->model, capture_last_moment(&run->capture));
	if (checker_look_at(checker, &run->model, &run->start, NULL) == CONSISTENT)
		note("the checker accepts a memory to which nothing was stored, although everything was told and answered: does it judge at all?  A checker for --serve needs --serve");
}

/* Is the checker of use, and what the requests explain all that it looks at? */
static void try_checker(struct run *run, struct checker *checker, const word_list *unexplained)
{
	const char *said;
	enum verdict at_start, at_end;
	struct state state = { };
	struct content end;
	uint64_t start;

	at_start = checker_look(checker, &run->model, &state, &said);
	start = *said ? kind_of(at_start, said) : 0;
	state.moment = capture_last_moment(&run->capture);
	model_cut(&run->model, state.moment);
	if (!map_end(run, &end)) {
		at_end = checker_look(checker, &run->model, &state, &said);
	} else {
		at_end = checker_look_at(checker, &run->model, &end, &said);
		munmap((void *)end.bytes, end.size);
		close(end.fd);
	}
	if (at_start > INCONSISTENT && at_end > INCONSISTENT)
		fail("the checker cannot be used: it fails on what the target held at the start, and on what it held at the end.  %s",
		     said);
	if (at_start != CONSISTENT && at_end != CONSISTENT && start && kind_of(at_end, said) == start)
		fail("the checker cannot be used: it says the same of what the target held at the start, and of what it held at the end: %s",
		     said);
	if (at_end != CONSISTENT) {
		note("the checker refuses what the target held at the end, without a power failure: %s",
		       said);
		return;
	}
	if (unexplained->n && checker_look(checker, &run->model, &state, &said) != CONSISTENT)
		fail_to_judge(unexplained, "It accepts what the target held at the end, and refuses it without them", said);
	if (!run->history.rules->visible)
		note_if_it_accepts_nothing(run, checker);
}

struct check {
	struct checker *checker;
	struct oracle *oracle;		/* or NULL */
	struct results *results;
	const struct options *options;
	const struct coverage *coverage;
	time_t shown;
	struct timespec began;
};

/* The stream of errors of --ktap is no terminal. */
static bool is_watched(void)
{
	return isatty(fileno(stderr));
}

/* How many states there will be, at most; with a limit of time only those that are always checked are known. */
static size_t all_states(const struct check *check)
{
	const struct options *o = check->options;
	size_t all = check->coverage->planned + (o->states == ANY_NUMBER ? 0 : o->states);

	return all < o->limit ? all : o->limit;
}

/* For a user that waits: on a terminal each second, in a log each minute. */
static void show_progress(struct check *check, const struct model *model)
{
	time_t now = time(NULL);

	if (now - check->shown < (is_watched() ? 1 : 60))
		return;
	check->shown = now;
	fprintf(stderr, "%s%zu states, %zu fail; ", is_watched() ? "\r" : "# ", check->results->checked, check->results->failed);
	if (check->options->seconds)
		fprintf(stderr, "%.0f of %u s; ", seconds_since(&check->began), check->options->seconds);
	else
		fprintf(stderr, "of at most %zu; ", all_states(check));
	fprintf(stderr, "at frame %u of %u%s", capture_frame(model->history->capture, model->moment),
		model->history->capture->frames, is_watched() ? "\033[K" : "\n");
}

/* A checker that is too slow for its time is no reason to wait for the end to learn it. */
static void note_if_slow(const struct check *check)
{
	double each = seconds_since(&check->began) / FEW, all = each * all_states(check);
	unsigned int limit = check->options->seconds ? check->options->seconds : 2 * SECONDS;
	char *text;

	if (all <= limit)
		return;
	text = xasprintf("a state takes %.0f ms, so the %zu states that are %s, at most, take up to %.0f %s%s: --seconds S sets the time, --limit N ends it before, --serve makes a checker quicker",
			 each * 1000, all_states(check), check->options->seconds ? "always checked" : "asked for",
			 all < 120 ? all : all / 60, all < 120 ? "s" : "min", check->options->seconds ? ", and may not be done in time" : "");
	note("%s", text);
	if (is_watched())	/* what is printed is held until the end */
		fprintf(stderr, "\r%s\033[K\n", text);
	free(text);
}

static void end_progress(void)
{
	if (is_watched())
		fputs("\r\033[K", stderr);
}

static bool check_state(void *arg, struct model *model, const struct state *state, size_t number)
{
	struct check *check = arg;

	show_progress(check, model);
	if (number == FEW + 1)
		note_if_slow(check);
	if (check->oracle && !oracle_is_ready(check->oracle, state->moment)) {
		checker_wait(check->checker, note_result, check->results);
		oracle_prepare(check->oracle, check->checker, state->moment);
	}
	checker_check(check->checker, model, state, number, note_result, check->results);
	return check->results->failed < ENOUGH && check->results->slow < ENOUGH_SLOW;
}

static const struct view *views_so_far(void *arg, size_t *n)
{
	struct check *check = arg;

	checker_wait(check->checker, note_result, check->results);
	*n = check->results->views.n;
	return check->results->views.v;
}

/* The exit status. */
static int status_of(const struct results *results, const struct coverage *coverage)
{
	return results->failed ? 1 : coverage->complete && !coverage->weak ? 0 : STATUS_NOT_JUDGED;
}

static void check_states(struct run *run, const struct options *o, struct checker *checker, struct oracle *oracle,
			 struct results *results, struct coverage *coverage)
{
	const struct sample_options options = {
		.states = o->states, .seconds = o->seconds, .limit = o->limit, .seed = o->seed, .each_cut = o->cuts,
		.views = views_so_far,
	};
	struct check check = { .checker = checker, .oracle = oracle, .results = results, .options = o, .coverage = coverage, .shown = time(NULL) };
	cut_list cuts = { };
	bool enough;

	find_cuts(run, o, &cuts);
	clock_gettime(CLOCK_MONOTONIC, &check.began);
	sample(&run->model, cuts.v, cuts.n, &options, check_state, &check, coverage);
	checker_wait(checker, note_result, results);
	end_progress();
	enough = end_where_it_is_enough(results);
	output_section("What was tried, and what was not");
	printf("%zu states of %zu cuts: %zu fail\n", results->checked, coverage->cuts, results->failed);
	if (results->crashed || results->slow)
		note("%zu times the checker crashed, %zu times it ran longer than %u s",
		       results->crashed, results->slow, o->checker.seconds);
	if (enough)
		note("these are enough: no more states were checked");
	coverage_print(coverage, stdout);
	output_section(NULL);
	free(cuts.v);
}

/******************************************************************************
 * What is kept of a failure: RUN/crash-states/ID
 */

static char *kept_folder(const struct run *run, const struct state *state)
{
	return xasprintf("%s/crash-states/%s.%08x", run->folder, moment_text(&run->capture, state->moment),
			 (unsigned int)(state->hash >> 32));
}

static FILE *create(const char *folder, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);
	FILE *file = fopen(path, "w");

	if (!file)
		fail_errno("%s", path);
	free(path);
	return file;
}

static void close_file(FILE *file, const char *folder)
{
	if (fclose(file))
		fail_errno("%s", folder);
}

static void make_folder(const char *path)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		fail_errno("%s", path);
}

/* The line of the initiator that has posted it, if that was recorded; otherwise NULL. */
static const char *posted_by(const struct run *run, const struct request *request)
{
	if (!request || is_cpu(request))
		return NULL;
	request = &run->history.requests.v[request->message];
	return source_line(run->folder, request->packet->qpn, request->packet->psn);
}

static void print_posted(const char *posted, FILE *file)
{
	if (posted)
		fprintf(file, "  Posted by: %s\n", posted);
}

static void keep(const struct run *run, struct checker *checker, const struct explanation *e,
		 const char *said, const char *posted)
{
	char *folder = kept_folder(run, &e->state);
	FILE *file;

	make_folder(xasprintf("%s/crash-states", run->folder));
	make_folder(folder);
	checker_keep(checker, &run->model, &e->state, folder);
	file = create(folder, "state");
	fprintf(file, "cut %s\nmodel %s\n", moment_text(&run->capture, e->state.moment), run->history.rules->name);
	for (size_t i = 0; i < e->state.held.n; i++)
		fprintf(file, "held %" PRIu64 " %d\n",
			history_offset(&run->history, e->state.held.v[i].word),
			e->state.held.v[i].position);
	close_file(file, folder);
	file = create(folder, "lost");	/* for the ladder */
	explanation_frames(e, &run->model, file);
	fputc('\n', file);
	close_file(file, folder);
	file = create(folder, "why");
	explanation_print(e, &run->model, file);
	print_posted(posted, file);
	fprintf(file, "  The checker: %s\n", said);
	close_file(file, folder);
	free(folder);
}

/* Text of its own that a function prints. */
typedef void print_function(const struct explanation *e, const struct model *model, FILE *file);
static char *text_of(print_function *print, const struct explanation *e, const struct model *model)
{
	char *text;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	print(e, model, file);
	fclose(file);
	return text;
}

/* What the ladder is drawn from; that of a group's run has no cut that is one of all its targets, a signal has none: NULL. */
static const char *drawn_from(const struct run *run, const struct options *o)
{
	return run->targets > 1 || o->visible ? NULL : o->capture ? o->capture : run->folder;
}

/* Two failures of one kind have one cause, as far as can be told: one of them is reported. */
static uint64_t kind_of_cause(const struct cause *cause)
{
	const struct request *lost = cause->lost;

	if (!lost)
		return mix64(cause->kind + 1);
	/* The packets of a message are one request. */
	lost = &cause->model->history->requests.v[lost->message];
	return mix64(mix64((uint64_t)lost->rkey << 32 | lost->packet->length) + (lost->packet->opcode << 8 | cause->kind));
}

/* @alike of the @failed states that fail, by what the checker says. */
static struct finding report(struct run *run, const struct options *o, struct checker *checker, struct oracle *oracle,
			     const struct explanation *e, size_t alike, size_t failed)
{
	struct finding f = {
		.folder = kept_folder(run, &e->state), .why = xasprintf("%s", e->why), .posted = posted_by(run, e->cause.lost),
		.judge = "The checker", .frame = capture_frame(&run->capture, e->state.moment), .cause = kind_of_cause(&e->cause),
	};
	const char *moment = moment_text(&run->capture, e->state.moment), *said;

	if (oracle)
		f.expected = xasprintf("%s", oracle_expected(oracle, checker, e->state.moment));
	checker_look(checker, &run->model, &e->state, &said);
	f.said = xasprintf("%s", said);
	keep(run, checker, e, said, f.posted);
	f.id = xasprintf("state %s", strrchr(f.folder, '/') + 1);
	f.title = xasprintf("%s frame %s (#%u in the ladder)", o->visible ? "the consumer has the signal of" : "the power fails after",
			    moment, capture_ladder(&run->capture, e->state.moment));
	f.alike = xasprintf("%zu of the %zu states that fail; the checker says the same of them, but for numbers", alike, failed);
	f.words = text_of(explanation_words, e, &run->model);
	f.lost = text_of(explanation_frames, e, &run->model);
	f.recorded = drawn_from(run, o);
	printf("\nS%s: %s\n%s  Why: %s\n", f.id + 1, f.title, f.words, f.why);
	print_posted(f.posted, stdout);
	printf("  The checker: %s\n", f.said);
	if (f.expected)
		printf("  Expected, or what was right earlier: %s\n", f.expected);
	printf("  Alike: %s\n  Kept: %s\n", f.alike, f.folder);
	json_finding(&run->model, e, alike, said, f.folder, f.posted);
	output_finding(&f);
	return f;
}

static size_t count_alike(const struct results *results, uint64_t kind)
{
	size_t n = 0;

	for (size_t i = 0; i < results->bad.n && n < results->failed; i++)
		n += results->bad.v[i].kind == kind;
	return n;
}

static bool add_kind(uint64_t *kinds, size_t n, uint64_t kind)
{
	for (size_t i = 0; i < n; i++)
		if (kinds[i] == kind)
			return false;
	kinds[n] = kind;
	return true;
}

/* Would the checker accept the state, had it what the target's own CPU stored as well? */
static bool misses(struct run *run, struct checker *checker, const struct state *state,
		   const word_list *unexplained)
{
	return unexplained->n &&
	       checker_look_with(checker, &run->model, state, unexplained, NULL) == CONSISTENT;
}

/*
 * Nothing is lost, and yet the checker refuses it: it may count on what the target has pulled, which is in no state unless what
 * the memory held at the end is known.
 */
static bool may_miss_what_was_pulled(const struct run *run, const struct explanation *e)
{
	return e->cause.kind == CULPRIT_NOTHING_LOST && run->history.pulled && access(run->end, R_OK);
}

static void explain_failures(struct run *run, const struct options *o, struct checker *checker, struct oracle *oracle,
			     struct results *results, const word_list *unexplained)
{
	unsigned int explained = 0, missing = 0;
	struct finding reported[EXPLAINED];
	uint64_t kinds[EXPLAINED];
	bool steady = !results->failed;
	struct explanation e;
	const char *said;

	for (size_t i = 0; i < results->failures.n && explained < EXPLAINED; i++) {
		explain(&e, &run->model, checker, &results->failures.v[i].state);
		if (misses(run, checker, &e.state, unexplained)) {
			missing++;
			checker_look(checker, &run->model, &e.state, &said);
		} else if (may_miss_what_was_pulled(run, &e)) {
			checker_look(checker, &run->model, &e.state, &said);
			fail("this run cannot be judged: the target has got %u packets by its own READs or Atomics, no request names where they are stored, and a state in which nothing is lost fails.  Let the initiator store them by WRITE, or name what the memory held at the end (--end FILE).  %s",
			     run->history.pulled, said);
		} else if (add_kind(kinds, explained, kind_of_cause(&e.cause))) {
			steady |= e.cause.kind != CULPRIT_CHECKER;
			reported[explained++] = report(run, o, checker, oracle, &e, count_alike(results, results->failures.v[i].kind),
						       results->failed);
		}
		explanation_free(&e);
	}
	if (missing && !explained)
		fail_to_judge(unexplained, "Each state that fails is consistent with what they held at the end, and not without it", said);
	if (missing)
		note("%u states fail only without the words that no request explains: they are not shown", missing);
	for (unsigned int i = 0; i < explained; i++)
		if (reported[i].recorded)
			draw(reported[i].folder, reported[i].frame, reported[i].recorded);
	if (!steady && explained)
		fail("the checker refuses states, and then accepts the same states: it must not depend on time, on chance, or on what an earlier call has left");
}

/* What keep() wrote begins with the cut, and the rules that made the state. */
static FILE *open_state(const char *folder, const char *id, char cut[32], const struct rules **rules)
{
	char *path = xasprintf("%s/crash-states/%s/state", folder, id);
	FILE *file = fopen(path, "r");
	char model[32];

	if (!file)
		fail_errno("--replay: %s", path);
	*rules = fscanf(file, "cut %31s model %31s", cut, model) == 2 ? rules_find(model) : NULL;
	if (!*rules)
		fail("%s: not understood", path);
	free(path);
	return file;
}

static void take_rules_of_state(struct options *o)
{
	char cut[32];

	fclose(open_state(o->run, o->replay, cut, &o->rules));
}

static void read_state(const struct run *run, const char *id, struct state *state)
{
	char *path = xasprintf("%s/crash-states/%s/state", run->folder, id);
	const struct rules *rules;
	unsigned int frame, lines = ALL_LINES;
	char cut[32];
	FILE *file = open_state(run->folder, id, cut, &rules);
	uint64_t offset;
	int position, got;

	got = sscanf(cut, "%u+%u", &frame, &lines);
	state->moment = got < 1 ? NO_MOMENT : capture_moment(&run->capture, frame, lines);
	if (state->moment == NO_MOMENT)
		fail("%s: this run has no cut %s", path, cut);

	while ((got = fscanf(file, " held %" SCNu64 " %d", &offset, &position)) == 2) {
		uint32_t w = history_word(&run->history, offset);

		if (w == NEVER || position < START ||
		    position >= (int32_t)run->history.stretches.v[history_stretch_of(&run->history, w)].n)
			fail("%s: this run has no such value of the word at %" PRIu64, path, offset);
		*list_add(&state->held) = (struct held){ w, position };
	}
	if (got != EOF)
		fail("%s: not understood", path);
	fclose(file);
	free(path);
}

static int replay(struct run *run, const struct options *o)
{
	static char *no_checker[] = { "true", NULL };
	char *folder = xasprintf("%s/crash-states/%s", run->folder, o->replay);
	struct checker_options options = o->checker;
	struct state state = { };
	struct checker *checker;
	struct oracle *oracle;
	enum verdict verdict;
	const char *said;

	read_state(run, o->replay, &state);
	model_cut(&run->model, state.moment);
	if (!model_allows(&run->model, &state))
		fail("%s: the model does not allow this state", folder);
	options.jobs = 1;
	if (!options.argv)
		options = (struct checker_options){ .argv = no_checker, .jobs = 1, .seconds = 60 };
	oracle = o->oracle ? oracle_new(&run->history, &run->model, o->promise, &options) : NULL;
	checker = checker_new(&run->history, &run->start, &options);
	if (oracle)
		oracle_prepare(oracle, checker, state.moment);
	checker_keep(checker, &run->model, &state, folder);
	printf("%s/image holds the state\n", folder);
	if (!o->checker.argv)
		return 0;
	if (oracle)
		printf("Expected, or what was right earlier: %s\n", oracle_expected(oracle, checker, state.moment));
	verdict = checker_look(checker, &run->model, &state, &said);
	printf("The checker: %s\n%s\n", said, verdict == CONSISTENT ? "consistent" : "not consistent");
	if (verdict == CONSISTENT && !oracle && !run->history.rules->visible)
		note_if_it_accepts_nothing(run, checker);
	checker_free(checker);
	return verdict != CONSISTENT;
}

/* A power failure at the end of the run, in the NVDIMM's own file. */
static int lose(struct run *run, const struct options *o)
{
	struct model *model = &run->model;
	const struct history *history = &run->history;
	int fd = open(o->lose, O_RDWR | O_CLOEXEC);
	struct state state = { };
	size_t lost = 0;

	model_cut(model, capture_last_moment(&run->capture));
	model_random(model, o->seed, &state);
	if (fd < 0)
		fail_errno("--lose %s", o->lose);
	for (size_t i = 0; i < state.held.n; i++) {
		const struct held *held = &state.held.v[i];
		uint64_t value = model_value(history, held->word, held->position);

		lost += value != model_value(history, held->word, model_top(model, held->word));
	}
	/* All of them: QEMU may not have come to what was received last, and memory may all the same. */
	for (uint32_t w = 0; w < history->words; w++) {
		uint32_t s = history_stretch_of(history, w);
		int32_t position = model->open_at[s] == NEVER ? model->top[s] : model->choice[w];
		off_t at = run->start.start + history_offset(history, w);
		ssize_t length = word_length(&history->stretches.v[s]);
		uint64_t value, is = 0;

		if (pread(fd, &is, length, at) != length)
			fail_errno("--lose %s", o->lose);
		/* What the target's own CPU made of it stays. */
		if (!is_explained(history, w, is))
			continue;
		value = model_value(history, w, position);
		if (value != is && pwrite(fd, &value, length, at) != length)
			fail_errno("--lose %s", o->lose);
	}
	if (close(fd))
		fail_errno("--lose %s", o->lose);
	printf("the power failure took %zu words of %zu that were not durable yet, of %u stored%s (seed %" PRIu64 ")\n",
	       lost, model->open_words, history->words,
	       model->open_words ? "" : ": all was durable just then, so nothing could be lost", o->seed);
	free(state.held.v);
	return 0;
}

/* A finding is one, whatever else was not judged. */
static int worst(int a, int b)
{
	return a == 1 || b == 1 ? 1 : a > b ? a : b;
}

/******************************************************************************
 * A power failure in recovery
 */

/* A folder of its own: the image is what recovery finds when it begins anew. */
static char *keep_recovery(const struct run *run, struct checker *checker, const struct recovery_failure *failure)
{
	char *folder = xasprintf("%s-recovery", kept_folder(run, failure->state));
	FILE *file;

	make_folder(xasprintf("%s/crash-states", run->folder));
	make_folder(folder);
	checker_keep(checker, &run->model, failure->state, folder);
	file = fopen(xasprintf("%s/image", folder), "r+");
	for (size_t i = 0; file && i < failure->words.n; i++) {
		fseeko(file, failure->words.v[i].offset, SEEK_SET);
		fwrite(&failure->words.v[i].value, WORD, 1, file);
	}
	if (!file)
		fail_errno("%s/image", folder);
	close_file(file, folder);
	file = create(folder, "why");
	fprintf(file, "%s  Why: %s\n  The checker: %s\n", failure->lines, failure->why, failure->said);
	close_file(file, folder);
	return folder;
}

static void report_recovery(void *arg, struct checker *checker, const struct recovery_failure *failure)
{
	const struct run *run = arg;
	struct finding f = {
		.folder = keep_recovery(run, checker, failure), .title = failure->title, .why = failure->why, .posted = failure->posted,
		.judge = "The checker", .said = xasprintf("%s", failure->said), .words = xasprintf("%s", failure->lines), .lost = "",
		.frame = capture_frame(&run->capture, failure->state->moment),
	};
	const char *name = strrchr(f.folder, '/') + 1;

	f.id = xasprintf("state %.*s", (int)(strlen(name) - strlen("-recovery")), name);
	printf("\nS%s %s\n%s  Why: %s\n  The checker: %s\n  Kept: %s\n", f.id + 1, f.title, f.words, f.why, f.said, f.folder);
	json_recovery_finding(failure->kind, f.why, f.said, f.folder, f.posted);
	output_finding(&f);
}

/* The exit status; nothing of @checker runs any more. */
static int judge_recovery(struct run *run, const struct options *o, const struct checker_options *checker, struct recovery *recovery)
{
	struct recovery_count count;

	output_section(NULL);
	json_recovery();
	count = recovery_judge(recovery, &run->model, &run->start, checker, o->seconds, o->states, report_recovery, run);
	json_recovery_end(&count);
	output_section("A power failure in recovery");
	printf("\n");
	recovery_print(&count, stdout);
	if (!count.stores && !count.wrong && !count.slow)
		note("--recovery %s: it has stored nothing to the %zu states that it was run on, so nothing is judged: does it open $IMAGE?",
		     o->recovery, count.traced);
	output_section(NULL);
	return count.wrong ? 1 : count.tried ? 0 : STATUS_NOT_JUDGED;
}

/* What the program could spare; the exit status. */
static int lint(const struct run *run)
{
	lint_list lints = { };

	history_needs_stores(&run->history);
	lint_find(&run->model, &lints);
	lint_print(&run->history, &lints, stdout);
	return lints.n ? 1 : 0;
}

/* An oracle takes for right what stood there with nothing lost. */
static void note_between(const struct run *run, struct oracle *oracle, struct checker *checker)
{
	unsigned int moment;
	const char *said = oracle_between(oracle, checker, &moment);
	size_t line;

	if (!said)
		return;
	line = strcspn(said, "\n");
	note("after frame %s, with nothing lost, recovery prints what it prints at neither promise around that, \"%.*s\": if this is wrong, the program's stores are no transaction, and no FLUSH makes them one",
	     moment_text(&run->capture, moment), (int)(line < 60 ? line : 60), said);
}

/* Runs the checker on the states of @run; returns the exit status. */
static int judge(struct run *run, const struct options *o, const word_list *unexplained, bool promise_broken,
		 struct coverage *coverage)
{
	struct results results = {
		.history = &run->history, .recovery = o->recovery ? recovery_new(o->recovery, o->seed) : NULL,
	};
	struct checker_options options = o->checker;
	struct oracle *oracle = o->oracle ? oracle_new(&run->history, &run->model, o->promise, &options) : NULL;
	struct checker *checker = checker_new(&run->history, &run->start, &options);

	if (oracle)
		oracle_try(oracle, checker);
	else
		try_checker(run, checker, unexplained);
	check_states(run, o, checker, oracle, &results, coverage);
	json_states(results.checked, results.failed, results.crashed, results.slow, o->seed, coverage);
	explain_failures(run, o, checker, oracle, &results, unexplained);
	if (oracle && !results.failed && !promise_broken)
		note_between(run, oracle, checker);
	checker_free(checker);
	if (!o->recovery)
		return status_of(&results, coverage);
	return worst(status_of(&results, coverage), judge_recovery(run, o, &options, results.recovery));
}

/******************************************************************************
 * Without a checker
 */

/* The frames of its message, for the ladder. */
static char *frames_of(const struct history *history, const struct request *request)
{
	uint8_t *marked = xcalloc(history->requests.n, 1);
	char *text;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	for (size_t i = request->message; i < history->requests.n; i++)
		marked[i] = history->requests.v[i].message == request->message;
	print_frames(history, marked, file);
	fclose(file);
	free(marked);
	return text;
}

static void report_promise(const struct run *run, const struct options *o, const struct broken_promise *b)
{
	const struct request *lost = b->cause.lost;
	struct finding f = {
		.id = xasprintf("%s at frame %u", o->promise ? "line" : "signal", b->line->frame), .frame = b->line->frame,
		.title = xasprintf(o->promise ? "the line \"%.*s\" was printed" : "the consumer has the signal %.*s",
				   (int)b->line->length, b->line->text),
		.why = b->why, .posted = posted_by(run, lost), .judge = "Promised",
		.said = xasprintf("%.*s", (int)b->line->length, b->line->text),
		.words = lost ? xasprintf("  old     %s: not %s then\n", request_text(lost), o->visible ? "visible" : "durable") : "",
		.lost = lost ? frames_of(&run->history, lost) : "",
		.recorded = drawn_from(run, o), .cause = kind_of_cause(&b->cause),
	};

	printf("\nFrame %u: %s\n  Why: %s\n", f.frame, f.title, f.why);
	print_posted(f.posted, stdout);
	json_promise(b->line, culprit_name(b->cause.kind), b->why, f.posted);
	output_finding(&f);
}

/* Reports the first broken promise of each cause; returns the exit status. */
static int judge_promises(struct run *run, const struct options *o)
{
	broken_promises broken = { };
	uint64_t kinds[EXPLAINED];
	unsigned int shown = 0;
	size_t promises;

	if (o->promise)
		promises_check(&run->model, o->promise, &broken);
	else
		signals_check(&run->model, &broken);
	promises = o->promise ? promises_checked() : run->model.signals.n;
	output_section("What was promised");
	printf("%zu %s: %zu came while what their initiator had stored before was not %s\n", promises,
	       o->promise ? "lines match --promise" : "signals", broken.n, o->visible ? "visible" : "durable");
	output_section(NULL);
	json_promises(promises, broken.n);
	if (!o->promise && signals_of_several_qps(&run->model))
		note("%s", "several QPs of an initiator have signals, and each was taken to speak for its own QP alone: if it speaks for the others, too, only a checker or --promise tells");
	for (size_t i = 0; i < broken.n && shown < EXPLAINED; i++)
		if (add_kind(kinds, shown, kind_of_cause(&broken.v[i].cause))) {
			shown++;
			report_promise(run, o, &broken.v[i]);
		}
	return broken.n ? 1 : 0;
}

/* Is anything durable for sure, by an answer or by the target's CPU? */
static bool makes_durable(const struct run *run)
{
	return run->model.all_answers || cpu_fences(&run->history);
}

/* Neither a checker nor a promise: only a program that makes nothing durable is wrong for sure.  The exit status. */
static int judge_alone(struct run *run)
{
	const struct capture *capture = &run->capture;
	size_t shown = 0;

	if (!makes_durable(run)) {
		output_section("What this means");
		printf("\nNothing is durable: requests stored %" PRIu64 " times to persistent memory, and no persistent FLUSH was answered.\nAll that the program counts on may be lost.  What is to be durable must be covered by a persistent FLUSH, for which the program waits.\n",
		       run->history.stores);
		return 1;
	}
	for (size_t i = 0; i < capture->told.n && shown < LINES_SHOWN; i++)
		shown += promise_print_open(&run->model, &capture->told.v[i], stdout);
	output_section("What to do next");
	printf("\nNothing says what the program counts on.  Say it:\n"
	       "  --promise 'durable'            each printed line that matches promises all that was stored before\n"
	       "  --oracle './my-target dump'    what your recovery prints of a state must be what it prints of a memory with nothing lost\n"
	       "  RUN -- ./my-checker            a program of yours judges each state\n");
	return STATUS_NOT_JUDGED;
}

/*
 * A pass that hangs on the time that answers took is none.  True if the run does not show that the program waits for its
 * answers; then the next one has to.
 */
static bool hangs_on_schedule(struct schedule schedule)
{
	bool by_lines = schedule.gap >= LONG_AFTER && schedule.hold <= schedule.gap;
	double gap = by_lines ? schedule.gap : schedule.tail;

	if (gap < LONG_AFTER || schedule.hold > gap)
		return false;
	output_section("What this run does not show");
	printf("\nEach %s came %.0f ms or more after the answer to a FLUSH, and the answers took %.0f ms: the run does not show that the program waits for them.\nRun it again with late answers: rxe-vm pair --server-delay %.0fms ...\n",
	       by_lines ? "line" : "WRITE of a word", gap * 1000, schedule.hold * 1000, gap * 2000);
	return true;
}

/* A line that is printed before its answer comes is told after it, if the answer is quick. */
static void note_quick_answers(const struct run *run, const struct options *o, struct schedule schedule)
{
	if (run->model.all_answers && schedule.hold < QUICK)
		note("a %s just before its answer came may have passed: run the pair once more with --server-delay 20ms",
		     o->promise ? "line that is printed" : "signal that was sent");
}

/*
 * A line that is told late belongs to a moment before it.  Where each write() waits, none is told so late that all of them need that.
 */
static bool hangs_on_late_lines(const struct run *run)
{
	if (!promises_none_was_quiet() || !run->capture.told_in_time)
		return false;
	output_section("What this run does not show");
	printf("\nNo line that matches --promise came while all that its initiator had stored was durable: the program prints it too early, or has sent the next record by then.\nPrint each line before the next record is sent, or judge the states with --oracle or a checker.\n");
	return true;
}

/* A program that sends a message may poll what ATOMIC WRITEs store to, all the same. */
static bool hangs_on_messages(const struct run *run, const struct options *o)
{
	const char *place = atomic_write_place(&run->history);

	if (names_signals(o) || !place)
		return false;
	output_section("What this run does not show");
	printf("\nOnly messages were taken for signals, and ATOMIC WRITEs went to %s.  If the consumer polls that, say so: --signal %s.\nIf it waits for messages alone: --signal messages\n",
	       place, place);
	return true;
}

/* The exit status of a run in which nothing fails */
static int doubt_pass(const struct run *run, const struct options *o)
{
	struct schedule schedule = promise_schedule(&run->model, o->promise);

	if (o->promise || o->visible)
		note_quick_answers(run, o, schedule);
	if (o->visible && !o->promise)
		return hangs_on_messages(run, o) ? STATUS_NOT_JUDGED : 0;
	if ((o->promise && !o->checker.argv && hangs_on_late_lines(run)) || hangs_on_schedule(schedule))
		return STATUS_NOT_JUDGED;
	return 0;
}

static void end_with_error(const char *error)
{
	json_error(error);
	output_error(error);
}

int main(int argc, char **argv)
{
	struct coverage coverage;
	word_list unexplained;
	struct options o;
	struct run run;
	int status = 0;

	parse(&o, argc, argv);
	before_failure = output_held;
	on_failure = end_with_error;
	fail_without_room();
	if (!o.lose && !o.replay && !o.lint)
		output_begin(o.run, o.ktap, o.html, o.visible ? "a consumer may not see yet what it counts on" :
			     "a power failure may take what the program counts on");
	output_section("What was recorded");
	if (o.json)
		json_begin(o.json);
	if (o.replay)
		take_rules_of_state(&o);
	read_run(&run, &o);
	if (o.lose)
		return lose(&run, &o);
	if (o.replay)
		return replay(&run, &o);
	if (o.lint)
		return lint(&run);
	output_date(run.capture.began);
	json_run(&run.history, o.run);
	count_requests(&run);
	if (o.visible)
		need_signals(&run, &o);
	else
		show_hints(&run);
	unexplained = check_end(&run, o.strict);
	history_needs_stores(&run.history);
	if (o.promise || (o.visible && !o.checker.argv))
		status = judge_promises(&run, &o);
	if (o.checker.argv)
		status = worst(status, judge(&run, &o, &unexplained, status, &coverage));
	if (!o.promise && !o.checker.argv && !o.visible)
		status = judge_alone(&run);
	if (!status)
		status = doubt_pass(&run, &o);
	json_end(status);
	output_end(status, o.checker.argv ? &coverage : NULL);
	return status;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checker.h"

#define PAGE		4096
#define OUTPUT_MAX	4096

extern char **environ;

/* A file for one checker at a time. */
struct slot {
	char *image, *answered, *output;
	char *kept;			/* another name of the image, which no checker knows */
	int image_fd;
	uint8_t *map;			/* of the image */
	int watch;			/* inotify: says that a checker may have written to the image; or -1 */
	bool foreign;			/* the image holds something else than a state */
	LIST(uint32_t) pages;		/* which are not all zero, or the checker has touched */
	uint8_t *is_used;		/* a bit for each page */
	blkcnt_t blocks;

	uint32_t updates, answers;	/* of the model, of which the newest is in there */
	held_list held;		/* but these words */

	pid_t pid;			/* 0: nothing runs */
	time_t began;
	size_t number;
	struct state state;
};

struct checker {
	const struct history *history;
	const struct content *content;
	char **argv, **environment;
	char *folder;
	unsigned int seconds, jobs;
	struct slot *slots;
	char said[OUTPUT_MAX + 256];
	enum verdict verdict;
};

void content_map(struct content *content, const char *path, const struct memory *memory)
{
	struct stat st;
	void *map;

	content->path = path;
	content->size = memory->size;
	content->start = memory->start;
	content->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (content->fd < 0 || fstat(content->fd, &st))
		fail_errno("%s", path);
	if ((uint64_t)st.st_size < memory->start + memory->size)
		fail("%s has %" PRIi64 " bytes; %s says that the target's device ends at %" PRIu64,
		     path, (int64_t)st.st_size, memory->path, memory->start + memory->size);
	if (memory->start % PAGE)
		fail("%s: the device does not begin at a page of the NVDIMM", memory->path);
	map = mmap(NULL, memory->size, PROT_READ, MAP_PRIVATE, content->fd, memory->start);
	if (map == MAP_FAILED)
		fail_errno("%s: mmap", path);
	content->bytes = map;
}

/******************************************************************************
 * The images
 */

static void use_page(struct slot *slot, uint64_t page)
{
	if (slot->is_used[page / 8] & 1 << page % 8)
		return;
	slot->is_used[page / 8] |= 1 << page % 8;
	*list_add(&slot->pages) = page;
}

/* use_page() for all pages that @fd has from @start on. */
static void use_pages_of(struct slot *slot, int fd, uint64_t start, uint64_t size)
{
	off_t from = start, to;

	while ((from = lseek(fd, from, SEEK_DATA)) >= 0 && (uint64_t)from < start + size) {
		to = lseek(fd, from, SEEK_HOLE);
		for (; from < to && (uint64_t)from < start + size; from += PAGE - from % PAGE)
			use_page(slot, (from - start) / PAGE);
	}
}

static void write_file(const char *path, int fd, const void *bytes, size_t n, off_t at)
{
	ssize_t wrote = pwrite(fd, bytes, n, at);

	if (wrote < 0)
		fail_errno("%s", path);
	if ((size_t)wrote != n)
		fail("%s: no room for it (TMPDIR= may name a folder that has some)", path);
}

static size_t page_length(const struct content *content, uint64_t page)
{
	uint64_t left = content->size - page * PAGE;

	return left < PAGE ? left : PAGE;
}

/* Words, at the positions that they are held at, or, if @model is given, with their newest values. */
static void put_words(const struct history *history, struct slot *slot, const held_list *words,
		      const struct model *model)
{
	uint32_t s = 0;

	for (size_t i = 0; i < words->n; i++) {
		const struct held *held = &words->v[i];
		const struct stretch *stretch;
		size_t at;

		s = history_stretch_near(history, held->word, s);
		stretch = &history->stretches.v[s];
		at = (size_t)(held->word - stretch->word) * WORD;
		memcpy(slot->map + stretch->offset + at,
		       stretch_bytes(history, s, model ? model->top[s] : held->position) + at, WORD);
	}
}

/* The part of the stretch that lies in the @length bytes of the device from @at on. */
static void put_part(const struct history *history, uint32_t s, int32_t position, uint64_t at,
		     size_t length, uint8_t *to)
{
	const struct stretch *stretch = &history->stretches.v[s];
	uint64_t from = stretch->offset > at ? stretch->offset : at;
	uint64_t end = stretch->offset + (uint64_t)stretch->words * WORD;

	if (end > at + length)
		end = at + length;
	memcpy(to + (from - at), stretch_bytes(history, s, position) + (from - stretch->offset),
	       end - from);
}

/* A page of the device with all that came, or, if there is no @model, before anything came. */
static void make_page(const struct checker *checker, const struct model *model, uint64_t at,
		      size_t length, uint8_t *page)
{
	const struct history *history = checker->history;

	memcpy(page, checker->content->bytes + at, length);
	for (uint32_t s = history_stretch_at(history, at);
	     s < history->stretches.n && history->stretches.v[s].offset < at + length; s++)
		put_part(history, s, model ? model->top[s] : START, at, length, page);
}

/* By write(2), so that a full disk is an error and no signal. */
static void write_pages(const struct checker *checker, const struct slot *slot, const struct model *model)
{
	uint8_t page[PAGE];

	for (size_t i = 0; i < slot->pages.n; i++) {
		uint64_t at = (uint64_t)slot->pages.v[i] * PAGE;
		size_t length = page_length(checker->content, slot->pages.v[i]);

		make_page(checker, model, at, length, page);
		write_file(slot->image, slot->image_fd, page, length, at);
	}
}

static void compare_pages(const struct checker *checker, const struct slot *slot,
			  const struct model *model)
{
	uint8_t page[PAGE];

	for (size_t i = 0; i < slot->pages.n; i++) {
		uint64_t at = (uint64_t)slot->pages.v[i] * PAGE;
		size_t length = page_length(checker->content, slot->pages.v[i]);

		make_page(checker, model, at, length, page);
		if (memcmp(slot->map + at, page, length))
			memcpy(slot->map + at, page, length);
	}
}

/*
 * Has anyone had the image open for writing, or written to it by its name, since the last call?  Stores
 * to a mapping are seen when that goes.  True, too, if that cannot be known.
 */
static bool was_written(const struct slot *slot)
{
	char events[4096];
	bool written = slot->watch < 0;

	while (slot->watch >= 0 && read(slot->watch, events, sizeof(events)) > 0)
		written = true;
	return written;
}

static void watch_image(struct slot *slot)
{
	slot->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (slot->watch < 0)
		return;
	if (inotify_add_watch(slot->watch, slot->image, IN_CLOSE_WRITE | IN_MODIFY) < 0) {
		close(slot->watch);
		slot->watch = -1;
	}
}

static void open_slot(struct checker *checker, struct slot *slot, unsigned int number)
{
	const struct content *content = checker->content;
	const struct history *history = checker->history;
	struct stat st;
	int fd;

	slot->image = xasprintf("%s/image%u", checker->folder, number);
	slot->answered = xasprintf("%s/answered%u", checker->folder, number);
	slot->output = xasprintf("%s/output%u", checker->folder, number);
	slot->kept = xasprintf("%s/kept%u", checker->folder, number);
	slot->is_used = xcalloc(content->size / PAGE / 8 + 1, 1);
	use_pages_of(slot, content->fd, content->start, content->size);
	for (size_t s = 0; s < history->stretches.n; s++) {
		const struct stretch *stretch = &history->stretches.v[s];
		uint64_t end = stretch->offset + (uint64_t)stretch->words * WORD;

		for (uint64_t page = stretch->offset / PAGE; page * PAGE < end; page++)
			use_page(slot, page);
	}

	slot->image_fd = open(slot->image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	fd = open(slot->answered, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (slot->image_fd < 0 || ftruncate(slot->image_fd, content->size) || fd < 0 ||
	    link(slot->image, slot->kept))
		fail_errno("%s", slot->image);
	close(fd);
	slot->map = mmap(NULL, content->size, PROT_READ | PROT_WRITE, MAP_SHARED, slot->image_fd, 0);
	if (slot->map == MAP_FAILED)
		fail_errno("%s: mmap", slot->image);
	write_pages(checker, slot, NULL);
	if (fstat(slot->image_fd, &st))
		fail_errno("%s", slot->image);
	slot->blocks = st.st_blocks;
	watch_image(slot);
}

/* A checker may have moved another file to the place of its image, as `sed -i` does. */
static void bring_image_back(const struct slot *slot, const struct stat *own)
{
	struct stat there;

	if (!stat(slot->image, &there) && there.st_ino == own->st_ino)
		return;
	if ((unlink(slot->image) && errno != ENOENT) || link(slot->kept, slot->image))
		fail_errno("%s", slot->image);
}

/* What the checker may have done to its file is undone.  True if it holds all that came, then. */
static bool restore_image(const struct checker *checker, struct slot *slot, const struct model *model)
{
	const struct content *content = checker->content;
	struct stat st;

	if (fstat(slot->image_fd, &st))
		fail_errno("%s", slot->image);
	bring_image_back(slot, &st);
	if (!was_written(slot) && !slot->foreign)
		return false;
	if ((uint64_t)st.st_size != content->size && ftruncate(slot->image_fd, content->size))
		fail_errno("%s", slot->image);
	if (slot->foreign || st.st_blocks != slot->blocks || (uint64_t)st.st_size != content->size) {
		use_pages_of(slot, slot->image_fd, 0, content->size);
		write_pages(checker, slot, model);
		if (fstat(slot->image_fd, &st))
			fail_errno("%s", slot->image);
		slot->blocks = st.st_blocks;
		slot->foreign = false;
	} else {
		compare_pages(checker, slot, model);
	}
	was_written(slot);	/* by us, this time */
	return true;
}

/* "QP PSN OFFSET LENGTH" of each flush whose answer the initiator was sent */
static void fill_answered(const struct checker *checker, struct slot *slot, const struct model *model)
{
	FILE *file;

	if (slot->answers == model->answers)
		return;
	if (slot->answers > model->answers)
		slot->answers = 0;
	file = fopen(slot->answered, slot->answers ? "a" : "w");
	if (!file)
		fail_errno("%s", slot->answered);
	for (; slot->answers < model->answers; slot->answers++) {
		const struct request *flush =
			&checker->history->requests.v[model->answer[slot->answers]];
		uint64_t va, run, place = 0;

		region_run(flush->region, flush->va, flush->length, 0, &va, &run, &place);
		fprintf(file, "%u %u %" PRIu64 " %u\n", flush->packet->qpn, flush->packet->psn, place,
			flush->length);
	}
	if (fclose(file))
		fail_errno("%s", slot->answered);
}

/* Of the words that differ since the last state: their newest values. */
static void bring_to_top(const struct history *history, struct slot *slot, const struct model *model)
{
	uint32_t from = slot->updates < model->updates ? slot->updates : model->updates;
	uint32_t to = slot->updates + model->updates - from;

	for (uint32_t u = from; u < to; u++) {
		uint32_t s = history->updates.v[u].stretch;
		const struct stretch *stretch = &history->stretches.v[s];

		put_part(history, s, model->top[s], stretch->offset, (size_t)stretch->words * WORD,
			 slot->map + stretch->offset);
	}
	put_words(history, slot, &slot->held, model);
}

static void prepare(const struct checker *checker, struct slot *slot, const struct model *model,
		    const struct state *state)
{
	const struct history *history = checker->history;

	if (!restore_image(checker, slot, model))
		bring_to_top(history, slot, model);
	slot->updates = model->updates;
	slot->held.n = 0;
	for (size_t i = 0; i < state->held.n; i++)
		*list_add(&slot->held) = state->held.v[i];
	put_words(history, slot, &slot->held, NULL);
	fill_answered(checker, slot, model);
}

/******************************************************************************
 * The processes
 */

static void copy_state(struct state *to, const struct state *from)
{
	to->frame = from->frame;
	to->hash = from->hash;
	to->held.n = 0;
	for (size_t i = 0; i < from->held.n; i++)
		*list_add(&to->held) = from->held.v[i];
}

static void set_variable(char **variable, const char *name, const char *value)
{
	free(*variable);
	*variable = xasprintf("%s=%s", name, value);
}

static void start(struct checker *checker, struct slot *slot, const struct state *state)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	char cut[16];

	snprintf(cut, sizeof(cut), "%u", state->frame);
	set_variable(&checker->environment[0], "IMAGE", slot->image);
	set_variable(&checker->environment[1], "ANSWERED", slot->answered);
	set_variable(&checker->environment[2], "CUT", cut);

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, slot->output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	posix_spawn_file_actions_adddup2(&actions, 1, 2);
	errno = posix_spawnp(&slot->pid, checker->argv[0], &actions, &attr, checker->argv,
			     checker->environment);
	if (errno) {
		slot->pid = 0;
		fail_errno("cannot run the checker %s%s", checker->argv[0],
			   strchr(checker->argv[0], '/') || access(checker->argv[0], X_OK) ? "" :
			   ", which is not in PATH; for that of this folder say ./ before it");
	}
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	slot->began = time(NULL);
}

/* What became of the checker, and what it printed. */
static void read_said(struct checker *checker, const struct slot *slot, const char *fate)
{
	size_t n = snprintf(checker->said, sizeof(checker->said), "%s%s", fate, *fate ? ": " : "");
	FILE *file = fopen(slot->output, "r");

	if (file) {
		n += fread(checker->said + n, 1, OUTPUT_MAX - 1, file);
		fclose(file);
	}
	while (n && (checker->said[n - 1] == '\n' || checker->said[n - 1] == ' ' ||
		     checker->said[n - 1] == ':'))
		n--;
	checker->said[n] = 0;
}

static void finish(struct checker *checker, struct slot *slot, int status, enum verdict verdict,
		   checker_result result, void *arg)
{
	char fate[256] = "";

	slot->pid = 0;
	if (verdict == TOO_SLOW) {
		snprintf(fate, sizeof(fate), "the checker ran longer than %u s (--timeout)",
			 checker->seconds);
	} else if (WIFSIGNALED(status)) {
		verdict = CRASHED;
		snprintf(fate, sizeof(fate), "the checker was killed by signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else if (WEXITSTATUS(status) > 1) {
		verdict = CRASHED;
		snprintf(fate, sizeof(fate), "the checker ended with status %d; 0 is consistent, 1 is not, anything else an error of the checker",
			 WEXITSTATUS(status));
	} else {
		verdict = WEXITSTATUS(status) ? INCONSISTENT : CONSISTENT;
	}
	read_said(checker, slot, fate);
	result(arg, slot->number, &slot->state, verdict, checker->said);
}

/*
 * Kills the checker, if it still runs, and what it has started and not waited for, which must not write
 * to the next state.  Returns the status of the checker.
 */
static int end_group(pid_t pid)
{
	int status;

	kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	/* Orphans are ours: see checker_new(). */
	while (waitpid(-pid, NULL, 0) > 0)
		;
	return status;
}

static void stop(struct checker *checker, struct slot *slot, checker_result result, void *arg)
{
	finish(checker, slot, end_group(slot->pid), TOO_SLOW, result, arg);
}

static bool has_ended(pid_t pid)
{
	siginfo_t info = { };

	return !waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

/* Wait until one of those that run has ended, if some do. */
static bool wait_for_one(struct checker *checker, checker_result result, void *arg)
{
	const struct timespec second = { .tv_sec = 1 };
	sigset_t child;
	bool running;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		running = false;
		for (unsigned int i = 0; i < checker->jobs; i++) {
			struct slot *slot = &checker->slots[i];

			if (!slot->pid)
				continue;
			running = true;
			if (has_ended(slot->pid)) {
				status = end_group(slot->pid);
				finish(checker, slot, status, CONSISTENT, result, arg);
				return true;
			}
			if (time(NULL) - slot->began > (time_t)checker->seconds) {
				stop(checker, slot, result, arg);
				return true;
			}
		}
		if (!running)
			return false;
		sigtimedwait(&child, NULL, &second);
	}
}

static struct slot *free_slot(struct checker *checker)
{
	for (unsigned int i = 0; i < checker->jobs; i++)
		if (!checker->slots[i].pid)
			return &checker->slots[i];
	return NULL;
}

void checker_check(struct checker *checker, const struct model *model, const struct state *state,
		   size_t number, checker_result result, void *arg)
{
	struct slot *slot;

	while (!(slot = free_slot(checker)))
		wait_for_one(checker, result, arg);
	prepare(checker, slot, model, state);
	copy_state(&slot->state, state);
	slot->number = number;
	start(checker, slot, state);
}

void checker_wait(struct checker *checker, checker_result result, void *arg)
{
	while (wait_for_one(checker, result, arg))
		;
}

static void remember_result(void *arg, size_t number, const struct state *state,
			    enum verdict verdict, const char *said)
{
	struct checker *checker = arg;

	(void)number;
	(void)state;
	(void)said;
	checker->verdict = verdict;
}

static enum verdict wait_for_verdict(struct checker *checker, const char **said)
{
	checker_wait(checker, remember_result, checker);
	if (said)
		*said = checker->said;
	return checker->verdict;
}

enum verdict checker_look(struct checker *checker, const struct model *model,
			  const struct state *state, const char **said)
{
	checker_check(checker, model, state, 0, remember_result, checker);
	return wait_for_verdict(checker, said);
}

enum verdict checker_look_at(struct checker *checker, const struct model *model,
			     const struct content *content, const char **said)
{
	struct slot *slot = free_slot(checker);
	struct state state = { .frame = model->frame };

	prepare(checker, slot, model, &state);
	slot->foreign = true;
	use_pages_of(slot, content->fd, content->start, content->size);
	for (size_t i = 0; i < slot->pages.n; i++) {
		uint64_t at = (uint64_t)slot->pages.v[i] * PAGE;

		write_file(slot->image, slot->image_fd, content->bytes + at,
			   page_length(content, slot->pages.v[i]), at);
	}
	copy_state(&slot->state, &state);
	start(checker, slot, &state);
	return wait_for_verdict(checker, said);
}

enum verdict checker_look_with(struct checker *checker, const struct model *model, const struct state *state,
			       const word_list *words, const char **said)
{
	struct slot *slot = free_slot(checker);

	prepare(checker, slot, model, state);
	slot->foreign = true;
	for (size_t i = 0; i < words->n; i++) {
		use_page(slot, words->v[i].offset / PAGE);
		write_file(slot->image, slot->image_fd, &words->v[i].value, WORD, words->v[i].offset);
	}
	copy_state(&slot->state, state);
	start(checker, slot, state);
	return wait_for_verdict(checker, said);
}

void checker_keep(struct checker *checker, const struct model *model, const struct state *state,
		  const char *image, const char *answered)
{
	struct slot *slot = free_slot(checker);
	int fd = open(image, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	static char bytes[65536];
	FILE *from, *to;
	size_t n;

	prepare(checker, slot, model, state);
	if (fd < 0 || ftruncate(fd, checker->content->size))
		fail_errno("%s", image);
	for (size_t i = 0; i < slot->pages.n; i++)
		write_file(image, fd, slot->map + (uint64_t)slot->pages.v[i] * PAGE,
			   page_length(checker->content, slot->pages.v[i]),
			   (uint64_t)slot->pages.v[i] * PAGE);
	close(fd);
	from = fopen(slot->answered, "r");
	to = fopen(answered, "w");
	if (!from || !to)
		fail_errno("%s", answered);
	while ((n = fread(bytes, 1, sizeof(bytes), from)))
		fwrite(bytes, 1, n, to);
	fclose(from);
	if (fclose(to))
		fail_errno("%s", answered);
}

/* However the program ends, nothing is left in memory or running. */
static struct checker *living;

static void clean_up(void)
{
	struct checker *checker = living;

	for (unsigned int i = 0; checker && i < checker->jobs; i++) {
		struct slot *slot = &checker->slots[i];

		if (slot->pid)
			kill(-slot->pid, SIGKILL);
		if (slot->image)
			unlink(slot->image);
		if (slot->kept)
			unlink(slot->kept);
		if (slot->answered)
			unlink(slot->answered);
		if (slot->output)
			unlink(slot->output);
	}
	if (checker)
		rmdir(checker->folder);
	living = NULL;
}

static void end_by_signal(int signal)
{
	clean_up();
	_exit(128 + signal);
}

struct checker *checker_new(const struct history *history, const struct content *content,
			    char **argv, unsigned int jobs, unsigned int seconds)
{
	struct checker *checker = xcalloc(1, sizeof(*checker));
	const char *parent = getenv("TMPDIR");
	size_t variables = 0, kept = 3;
	sigset_t child;

	/* Memory is fastest. */
	if (!parent)
		parent = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	checker->history = history;
	checker->content = content;
	checker->argv = argv;
	checker->jobs = jobs;
	checker->seconds = seconds;
	checker->folder = xasprintf("%s/crash-states.XXXXXX", parent);
	if (!mkdtemp(checker->folder))
		fail_errno("%s", checker->folder);
	checker->slots = xcalloc(jobs, sizeof(*checker->slots));
	living = checker;
	atexit(clean_up);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGINT, end_by_signal);
	signal(SIGTERM, end_by_signal);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);

	while (environ[variables])
		variables++;
	checker->environment = xcalloc(variables + 4, sizeof(char *));
	for (size_t i = 0; i < variables; i++)
		if (strncmp(environ[i], "IMAGE=", 6) && strncmp(environ[i], "ANSWERED=", 9) &&
		    strncmp(environ[i], "CUT=", 4))
			checker->environment[kept++] = environ[i];
	for (unsigned int i = 0; i < jobs; i++)
		open_slot(checker, &checker->slots[i], i);
	return checker;
}

void checker_free(struct checker *checker)
{
	clean_up();
	for (unsigned int i = 0; i < checker->jobs; i++) {
		struct slot *slot = &checker->slots[i];

		munmap(slot->map, checker->content->size);
		if (slot->watch >= 0)
			close(slot->watch);
		close(slot->image_fd);
		free(slot->image);
		free(slot->answered);
		free(slot->output);
		free(slot->kept);
		free(slot->is_used);
		free(slot->pages.v);
		free(slot->held.v);
		free(slot->state.held.v);
	}
	for (unsigned int i = 0; i < 3; i++)
		free(checker->environment[i]);
	free(checker->environment);
	free(checker->slots);
	free(checker->folder);
	free(checker);
}

// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checker.h"
#include "group.h"

#define OUTPUT_MAX	4096
#define PRINTED_MAX	(64 << 20)	/* bytes: more than any checker has to say */
#define TICK		100		/* ms: so often a checker that runs is looked at */
#define MIB		(1 << 20)
/* A checker's environment: these two, then two names of files for each target. */
#define CUT		0
#define TOLD		1
#define VARIABLES	2

extern char **environ;

/* A file for one checker at a time. */
struct slot {
	char *image, *answered, *told, *output;
	char *parts;			/* what the names of the files of a group's targets begin with */
	char *kept;			/* another name of the image, which no checker knows */
	int image_fd, output_fd;
	bool printed;			/* output is not empty */
	uint8_t *map;			/* of the image */
	int watch;			/* inotify: says that a checker may have written to the image; or -1 */
	bool foreign;			/* the image holds something else than a state */
	LIST(uint32_t) pages;		/* which are not all zero, or the checker has touched */
	uint8_t *is_used;		/* a bit for each page */
	blkcnt_t blocks;

	uint32_t updates, answers;	/* of the model, of which the newest is in there */
	size_t lines;			/* that were told, in there */
	held_list held;		/* but these words */

	pid_t pid;			/* 0: no checker lives */
	int pidfd;
	int ask, answer;		/* of a checker that stays: its stdin and its stdout */
	char line[OUTPUT_MAX];		/* of its answer, so far */
	size_t line_length;
	bool is_early;			/* something came before it was asked */
	bool busy;			/* the checker looks at a state */
	int64_t began, watched;		/* ms */
	size_t number;
	struct state state;
};

struct checker {
	const struct history *history;
	const struct content *content;
	const struct checker_options *options;
	char **environment;
	char *folder;
	struct slot *slots;
	struct pollfd *fds;		/* one for each slot */
	char said[2 * OUTPUT_MAX + 256];
	enum verdict verdict;
};

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
		       stretch_bytes(history, s, model ? model->top[s] : held->position) + at, word_length(stretch));
	}
}

/* The part of the stretch that lies in the @length bytes of the device from @at on. */
static void put_part(const struct history *history, uint32_t s, int32_t position, uint64_t at,
		     size_t length, uint8_t *to)
{
	const struct stretch *stretch = &history->stretches.v[s];
	uint64_t from = stretch->offset > at ? stretch->offset : at;
	uint64_t end = stretch->offset + stretch->length;

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

/* Does a checker that stays have the image open, or mapped?  Only then is such a lease refused. */
static bool is_open_elsewhere(const struct slot *slot)
{
	return fcntl(slot->image_fd, F_SETLEASE, F_WRLCK) || fcntl(slot->image_fd, F_SETLEASE, F_UNLCK);
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
	return written || (slot->pid && is_open_elsewhere(slot));
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

static void make_empty(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		fail_errno("%s", path);
	close(fd);
}

static void open_slot(struct checker *checker, struct slot *slot, unsigned int number)
{
	const struct content *content = checker->content;
	const struct history *history = checker->history;
	struct stat st;

	slot->ask = slot->answer = -1;
	slot->image = xasprintf("%s/image%u", checker->folder, number);
	slot->answered = xasprintf("%s/answered%u", checker->folder, number);
	slot->parts = xasprintf("%s/%u-", checker->folder, number);
	slot->told = xasprintf("%s/told%u", checker->folder, number);
	slot->output = xasprintf("%s/output%u", checker->folder, number);
	slot->kept = xasprintf("%s/kept%u", checker->folder, number);
	slot->is_used = xcalloc(content->size / PAGE / 8 + 1, 1);
	use_pages_of(slot, content->fd, content->start, content->size);
	for (size_t s = 0; s < history->stretches.n; s++) {
		const struct stretch *stretch = &history->stretches.v[s];
		uint64_t end = stretch->offset + stretch->length;

		for (uint64_t page = stretch->offset / PAGE; page * PAGE < end; page++)
			use_page(slot, page);
	}

	slot->image_fd = open(slot->image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	slot->output_fd = open(slot->output, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
	if (slot->image_fd < 0 || slot->output_fd < 0 || ftruncate(slot->image_fd, content->size) ||
	    link(slot->image, slot->kept))
		fail_errno("%s", slot->image);
	make_empty(slot->answered);
	make_empty(slot->told);
	slot->map = mmap(NULL, content->size, PROT_READ | PROT_WRITE, MAP_SHARED, slot->image_fd, 0);
	if (slot->map == MAP_FAILED)
		fail_errno("%s: mmap", slot->image);
	write_pages(checker, slot, NULL);
	/* Most of it is not looked at again. */
	madvise((void *)content->bytes, content->size, MADV_DONTNEED);
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

		request_print_answered(flush, file);
	}
	if (fclose(file))
		fail_errno("%s", slot->answered);
}

/* The lines that the initiators had printed. */
static void fill_told(const struct checker *checker, struct slot *slot, const struct model *model)
{
	const struct capture *capture = checker->history->capture;
	size_t lines = capture_told(capture, model->moment);
	FILE *file;

	if (slot->lines == lines)
		return;
	if (slot->lines > lines)
		slot->lines = 0;
	file = fopen(slot->told, slot->lines ? "a" : "w");
	if (!file)
		fail_errno("%s", slot->told);
	for (; slot->lines < lines; slot->lines++) {
		const struct told *told = &capture->told.v[slot->lines];

		fwrite(told->text, 1, told->length, file);
		fputc('\n', file);
	}
	if (fclose(file))
		fail_errno("%s", slot->told);
}

/* Of the words that differ since the last state: their newest values. */
static void bring_to_top(const struct history *history, struct slot *slot, const struct model *model)
{
	uint32_t from = slot->updates < model->updates ? slot->updates : model->updates;
	uint32_t to = slot->updates + model->updates - from;

	for (uint32_t u = from; u < to; u++) {
		uint32_t s = history->updates.v[u].stretch;
		const struct stretch *stretch = &history->stretches.v[s];

		put_part(history, s, model->top[s], stretch->offset, stretch->length,
			 slot->map + stretch->offset);
	}
	put_words(history, slot, &slot->held, model);
}

/* In a group, a checker gets the image of each target, and what that had answered, by itself. */
static void write_parts(const struct checker *checker, const struct slot *slot, const struct model *model,
			const char *prefix)
{
	if (checker->history->targets > 1)
		group_write(checker->history, model, slot->map, slot->pages.v, slot->pages.n, prefix);
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
	fill_told(checker, slot, model);
}

/******************************************************************************
 * The processes
 */

static void copy_state(struct state *to, const struct state *from)
{
	to->moment = from->moment;
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

static void set_names_of_files(struct checker *checker, const struct slot *slot)
{
	unsigned int targets = checker->history->targets;

	if (targets == 1) {
		set_variable(&checker->environment[VARIABLES], "IMAGE", slot->image);
		set_variable(&checker->environment[VARIABLES + 1], "ANSWERED", slot->answered);
		return;
	}
	for (unsigned int i = 0; i < targets; i++) {
		char *image = xasprintf("IMAGE%u=%simage%u", i + 1, slot->parts, i + 1);
		char *answered = xasprintf("ANSWERED%u=%sanswered%u", i + 1, slot->parts, i + 1);

		free(checker->environment[VARIABLES + 2 * i]);
		free(checker->environment[VARIABLES + 1 + 2 * i]);
		checker->environment[VARIABLES + 2 * i] = image;
		checker->environment[VARIABLES + 1 + 2 * i] = answered;
	}
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* If memory runs out, the kernel shall end the checker, and not what is beside it. */
static void offer_to_the_oom_killer(pid_t pid)
{
	char *path = xasprintf("/proc/%d/oom_score_adj", pid);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		errno = 0;	/* it may have ended */
	if (fd >= 0)
		close(fd);
	free(path);
}

static void spawn(struct checker *checker, struct slot *slot, posix_spawn_file_actions_t *actions)
{
	char *const *argv = checker->options->argv;
	posix_spawnattr_t attr;
	sigset_t none, pipe;

	sigemptyset(&none);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &pipe);
	errno = posix_spawnp(&slot->pid, argv[0], actions, &attr, argv, checker->environment);
	if (errno) {
		slot->pid = 0;
		fail_errno("cannot run the checker %s%s", argv[0],
			   strchr(argv[0], '/') || access(argv[0], X_OK) ? "" :
			   ", which is not in PATH; for that of this folder say ./ before it");
	}
	posix_spawnattr_destroy(&attr);
	slot->pidfd = pidfd_open(slot->pid, 0);
	if (slot->pidfd < 0)
		fail_errno("pidfd_open");
	offer_to_the_oom_killer(slot->pid);
}

static void set_variables(struct checker *checker, const struct slot *slot, unsigned int moment)
{
	char cut[16];

	snprintf(cut, sizeof(cut), "%u", capture_frame(checker->history->capture, moment));
	set_variable(&checker->environment[CUT], "CUT", cut);
	set_variable(&checker->environment[TOLD], "TOLD", slot->told);
	set_names_of_files(checker, slot);
}

static void start_for_one_state(struct checker *checker, struct slot *slot)
{
	posix_spawn_file_actions_t actions;

	set_variables(checker, slot, slot->state.moment);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, slot->output_fd, 1);
	posix_spawn_file_actions_adddup2(&actions, slot->output_fd, 2);
	spawn(checker, slot, &actions);
	posix_spawn_file_actions_destroy(&actions);
}

/* Its files keep their names as long as it lives. */
static void start_to_stay(struct checker *checker, struct slot *slot)
{
	posix_spawn_file_actions_t actions;
	int in[2], out[2];

	set_variables(checker, slot, slot->state.moment);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		fail_errno("pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	posix_spawn_file_actions_adddup2(&actions, slot->output_fd, 2);
	spawn(checker, slot, &actions);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	slot->ask = in[1];
	slot->answer = out[0];
}

static bool is_ready(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) > 0;
}

static int end_checker(struct slot *slot);

/* One line, the cut.  It may have ended since it gave its last answer. */
static void ask_to_look(struct checker *checker, struct slot *slot)
{
	char line[16];
	int length = snprintf(line, sizeof(line), "%u\n", capture_frame(checker->history->capture, slot->state.moment));

	if (slot->pid && is_ready(slot->pidfd))
		end_checker(slot);
	if (!slot->pid)
		start_to_stay(checker, slot);
	slot->line_length = 0;
	slot->is_early = is_ready(slot->answer);
	/* If it ends just now, its answer will be missing. */
	if (write(slot->ask, line, length) < 0 && errno != EPIPE)
		fail_errno("the checker's stdin");
}

static void start(struct checker *checker, struct slot *slot, const struct model *model)
{
	write_parts(checker, slot, model, slot->parts);
	if (slot->printed && ftruncate(slot->output_fd, 0))
		fail_errno("%s", slot->output);
	slot->printed = false;
	if (checker->options->serve)
		ask_to_look(checker, slot);
	else
		start_for_one_state(checker, slot);
	slot->busy = true;
	slot->began = slot->watched = now();
}

/*
 * Kills the checker, if it still runs, and what it has started and not waited for, which must not write
 * to the next state.  Returns its status.
 */
static int end_checker(struct slot *slot)
{
	int status;

	kill(-slot->pid, SIGKILL);
	waitpid(slot->pid, &status, 0);
	/* Orphans are ours: see checker_new(). */
	while (waitpid(-slot->pid, NULL, 0) > 0)
		;
	close(slot->pidfd);
	if (slot->ask >= 0) {
		close(slot->ask);
		close(slot->answer);
	}
	slot->ask = slot->answer = -1;
	slot->pid = 0;
	return status;
}

/* What became of the checker, its answer, and what it printed. */
static void read_said(struct checker *checker, struct slot *slot, const char *fate, const char *answer)
{
	size_t n = snprintf(checker->said, sizeof(checker->said), "%s%s%s%s", fate, *fate ? ": " : "", answer,
			    *answer ? "\n" : "");
	ssize_t printed = pread(slot->output_fd, checker->said + n, sizeof(checker->said) - 1 - n, 0);

	if (printed < 0)
		fail_errno("%s", slot->output);
	slot->printed = printed;
	n += printed;
	while (n && (checker->said[n - 1] == '\n' || checker->said[n - 1] == ' ' ||
		     checker->said[n - 1] == ':'))
		n--;
	checker->said[n] = 0;
}

/* How a checker has ended, if that was no verdict. */
static void describe_end(int status, char *fate, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(fate, size, "the checker was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(fate, size, "the checker ended with status %d", WEXITSTATUS(status));
}

/* The checker for one state has ended. */
static enum verdict judge_end(struct checker *checker, struct slot *slot)
{
	int status = end_checker(slot);
	char fate[256] = "";

	if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) {
		read_said(checker, slot, "", "");
		return WEXITSTATUS(status) ? INCONSISTENT : CONSISTENT;
	}
	describe_end(status, fate, sizeof(fate));
	if (WIFEXITED(status))
		strcat(fate, "; 0 is consistent, 1 is not, anything else an error of the checker");
	read_said(checker, slot, fate, "");
	return CRASHED;
}

/* Nothing more comes from the checker that stays: it has ended, or closed its stdout. */
static enum verdict judge_silence(struct checker *checker, struct slot *slot)
{
	char fate[256];

	describe_end(end_checker(slot), fate, sizeof(fate));
	strcat(fate, " before it gave an answer; with --serve it answers each line of its stdin");
	read_said(checker, slot, fate, "");
	return CRASHED;
}

/* "0" or "1 why", all of which has come. */
static enum verdict judge_answer(struct checker *checker, struct slot *slot)
{
	char *line = slot->line, *end = memchr(line, '\n', slot->line_length);
	bool is_one_line = end == line + slot->line_length - 1;
	char digit = line[0];

	*end = 0;
	if (is_one_line && !slot->is_early && (digit == '0' || digit == '1') && (!line[1] || line[1] == ' ')) {
		read_said(checker, slot, "", line + 1 + (line[1] == ' '));
		return digit == '1' ? INCONSISTENT : CONSISTENT;
	}
	/* What is more may be taken for the answer to the next question. */
	end_checker(slot);
	read_said(checker, slot,
		  slot->is_early ? "the checker printed a line before it was asked" :
		  !is_one_line ? "the checker answers one question with more than one line" :
		  "the checker's answer is neither \"0\" nor \"1 WHY\"", line);
	return CRASHED;
}

/* Takes what has come.  False if the answer is not complete. */
static bool take_answer(struct checker *checker, struct slot *slot, enum verdict *verdict)
{
	size_t room = sizeof(slot->line) - slot->line_length;
	ssize_t n = read(slot->answer, slot->line + slot->line_length, room);

	if (n < 0)
		fail_errno("the checker's stdout");
	if (!n) {
		*verdict = judge_silence(checker, slot);
		return true;
	}
	slot->line_length += n;
	if (memchr(slot->line, '\n', slot->line_length)) {
		*verdict = judge_answer(checker, slot);
		return true;
	}
	if ((size_t)n < room)
		return false;
	end_checker(slot);
	read_said(checker, slot, "the checker's answer is longer than 4 KiB", "");
	*verdict = CRASHED;
	return true;
}

/* Bytes that only the process uses. */
static uint64_t private_memory(const char *pid)
{
	char *path = xasprintf("/proc/%s/statm", pid);
	unsigned long resident, shared;
	FILE *file = fopen(path, "r");
	uint64_t bytes = 0;

	if (file) {
		if (fscanf(file, "%*u %lu %lu", &resident, &shared) == 2 && resident > shared)
			bytes = (uint64_t)(resident - shared) * sysconf(_SC_PAGESIZE);
		fclose(file);
	}
	free(path);
	return bytes;
}

/* The same of the checker and all that it has started. */
static uint64_t memory_of_group(pid_t group)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	uint64_t bytes = 0;

	while (folder && (entry = readdir(folder)))
		if (*entry->d_name >= '1' && *entry->d_name <= '9' && getpgid(atoi(entry->d_name)) == group)
			bytes += private_memory(entry->d_name);
	if (folder)
		closedir(folder);
	return bytes;
}

/* True if it has used up what it may use, and was ended. */
static bool is_too_much(struct checker *checker, struct slot *slot, enum verdict *verdict)
{
	const struct checker_options *o = checker->options;
	int64_t time = now();
	char fate[256] = "";
	struct stat st;

	if (time - slot->watched < TICK)
		return false;
	slot->watched = time;
	*verdict = CRASHED;
	if (time - slot->began > (int64_t)o->seconds * 1000) {
		*verdict = TOO_SLOW;
		snprintf(fate, sizeof(fate), "the checker ran longer than %u s (--timeout)", o->seconds);
	} else if (memory_of_group(slot->pid) > (uint64_t)o->mib * MIB) {
		snprintf(fate, sizeof(fate), "the checker took more than %u MiB of memory (--checker-memory)", o->mib);
	} else if (!fstat(slot->output_fd, &st) && st.st_size > PRINTED_MAX) {
		snprintf(fate, sizeof(fate), "the checker printed more than %u MiB", PRINTED_MAX / MIB);
	}
	if (!*fate)
		return false;
	end_checker(slot);
	read_said(checker, slot, fate, "");
	return true;
}

/* True if the checker is done with its state. */
static bool is_done(struct checker *checker, struct slot *slot, bool ready, enum verdict *verdict)
{
	if (!ready)
		return is_too_much(checker, slot, verdict);
	if (checker->options->serve)
		return take_answer(checker, slot, verdict);
	*verdict = judge_end(checker, slot);
	return true;
}

/* Of all that the checker printed for its state. */
static uint64_t hash_of_output(const struct slot *slot)
{
	static char bytes[65536];
	uint64_t hash = 1;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(slot->output_fd, bytes, sizeof(bytes), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3;
		at += n;
	}
	if (n < 0)
		fail_errno("%s", slot->output);
	return mix64(hash);
}

/* Wait until one of those that run is done, if some do. */
static bool wait_for_one(struct checker *checker, checker_result result, void *arg)
{
	unsigned int jobs = checker->options->jobs, running;
	struct pollfd *fds = checker->fds;
	enum verdict verdict;

	for (;;) {
		running = 0;
		for (unsigned int i = 0; i < jobs; i++) {
			const struct slot *slot = &checker->slots[i];

			fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
			if (slot->busy)
				fds[i].fd = checker->options->serve ? slot->answer : slot->pidfd;
			running += slot->busy;
		}
		if (!running)
			return false;
		if (poll(fds, jobs, TICK) < 0 && errno != EINTR)
			fail_errno("poll");
		for (unsigned int i = 0; i < jobs; i++) {
			struct slot *slot = &checker->slots[i];

			if (!slot->busy || !is_done(checker, slot, fds[i].revents, &verdict))
				continue;
			slot->busy = false;
			if (checker->options->judge)
				verdict = checker->options->judge(checker->options->judge_arg, slot->state.moment, verdict,
								  hash_of_output(slot));
			result(arg, slot->number, &slot->state, verdict, checker->said);
			return true;
		}
	}
}

static struct slot *free_slot(struct checker *checker)
{
	for (unsigned int i = 0; i < checker->options->jobs; i++)
		if (!checker->slots[i].busy)
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
	start(checker, slot, model);
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
	struct state state = { .moment = model->moment };

	prepare(checker, slot, model, &state);
	slot->foreign = true;
	use_pages_of(slot, content->fd, content->start, content->size);
	for (size_t i = 0; i < slot->pages.n; i++) {
		uint64_t at = (uint64_t)slot->pages.v[i] * PAGE;

		write_file(slot->image, slot->image_fd, content->bytes + at,
			   page_length(content, slot->pages.v[i]), at);
	}
	copy_state(&slot->state, &state);
	start(checker, slot, model);
	return wait_for_verdict(checker, said);
}

void checker_check_with(struct checker *checker, const struct model *model, const struct state *state,
			const word_list *words, size_t number, checker_result result, void *arg)
{
	struct slot *slot;

	while (!(slot = free_slot(checker)))
		wait_for_one(checker, result, arg);
	prepare(checker, slot, model, state);
	slot->foreign = true;
	for (size_t i = 0; i < words->n; i++) {
		use_page(slot, words->v[i].offset / PAGE);
		write_file(slot->image, slot->image_fd, &words->v[i].value, WORD, words->v[i].offset);
	}
	copy_state(&slot->state, state);
	slot->number = number;
	start(checker, slot, model);
}

enum verdict checker_look_with(struct checker *checker, const struct model *model, const struct state *state,
			       const word_list *words, const char **said)
{
	checker_check_with(checker, model, state, words, 0, remember_result, checker);
	return wait_for_verdict(checker, said);
}

struct lent checker_lend(struct checker *checker, const struct model *model, const struct state *state)
{
	struct slot *slot = free_slot(checker);

	prepare(checker, slot, model, state);
	slot->foreign = true;
	set_variables(checker, slot, state->moment);
	return (struct lent){ slot->image, slot->image_fd, slot->map, checker->content->size, checker->environment };
}

static void copy_file(const char *from, const char *to)
{
	static char bytes[65536];
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	size_t n;

	if (!in || !out)
		fail_errno("%s", in ? to : from);
	while ((n = fread(bytes, 1, sizeof(bytes), in)))
		fwrite(bytes, 1, n, out);
	fclose(in);
	if (fclose(out))
		fail_errno("%s", to);
}

void checker_keep(struct checker *checker, const struct model *model, const struct state *state,
		  const char *folder)
{
	struct slot *slot = free_slot(checker);
	char *image = xasprintf("%s/image", folder);
	int fd = open(image, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	char *prefix = xasprintf("%s/", folder);

	prepare(checker, slot, model, state);
	if (fd < 0 || ftruncate(fd, checker->content->size))
		fail_errno("%s", image);
	for (size_t i = 0; i < slot->pages.n; i++)
		write_file(image, fd, slot->map + (uint64_t)slot->pages.v[i] * PAGE,
			   page_length(checker->content, slot->pages.v[i]),
			   (uint64_t)slot->pages.v[i] * PAGE);
	close(fd);
	write_parts(checker, slot, model, prefix);
	free(prefix);
	copy_file(slot->answered, xasprintf("%s/answered", folder));
	copy_file(slot->told, xasprintf("%s/told", folder));
}

/* However the program ends, nothing is left in memory or running. */
static struct checker *living;

static void clean_up(void)
{
	struct checker *checker = living;

	for (unsigned int i = 0; checker && i < checker->options->jobs; i++) {
		struct slot *slot = &checker->slots[i];

		if (slot->pid)
			kill(-slot->pid, SIGKILL);
		if (slot->image)
			unlink(slot->image);
		if (slot->kept)
			unlink(slot->kept);
		if (slot->answered)
			unlink(slot->answered);
		if (slot->told)
			unlink(slot->told);
		if (slot->output)
			unlink(slot->output);
		if (slot->parts)
			group_unlink(checker->history->targets, slot->parts);
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
			    const struct checker_options *options)
{
	struct checker *checker = xcalloc(1, sizeof(*checker));
	const char *parent = getenv("TMPDIR");
	size_t variables = 0, kept = VARIABLES + 2 * history->targets;

	/* Memory is fastest. */
	if (!parent)
		parent = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	checker->history = history;
	checker->content = content;
	checker->options = options;
	checker->folder = xasprintf("%s/crash-states.XXXXXX", parent);
	if (!mkdtemp(checker->folder))
		fail_errno("%s", checker->folder);
	checker->slots = xcalloc(options->jobs, sizeof(*checker->slots));
	checker->fds = xcalloc(options->jobs, sizeof(*checker->fds));
	living = checker;
	atexit(clean_up);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGINT, end_by_signal);
	signal(SIGTERM, end_by_signal);
	signal(SIGPIPE, SIG_IGN);	/* of a checker that has ended */
	signal(SIGIO, SIG_IGN);		/* of a lease: see is_open_elsewhere() */

	while (environ[variables])
		variables++;
	checker->environment = xcalloc(variables + kept + 1, sizeof(char *));
	for (size_t i = 0; i < variables; i++)
		if (strncmp(environ[i], "IMAGE=", 6) && strncmp(environ[i], "ANSWERED=", 9) &&
		    strncmp(environ[i], "CUT=", 4) && strncmp(environ[i], "TOLD=", 5))
			checker->environment[kept++] = environ[i];
	for (unsigned int i = 0; i < options->jobs; i++)
		open_slot(checker, &checker->slots[i], i);
	return checker;
}

void checker_free(struct checker *checker)
{
	for (unsigned int i = 0; i < checker->options->jobs; i++)
		if (checker->slots[i].pid)
			end_checker(&checker->slots[i]);
	clean_up();
	for (unsigned int i = 0; i < checker->options->jobs; i++) {
		struct slot *slot = &checker->slots[i];

		munmap(slot->map, checker->content->size);
		if (slot->watch >= 0)
			close(slot->watch);
		close(slot->image_fd);
		close(slot->output_fd);
		free(slot->image);
		free(slot->answered);
		free(slot->told);
		free(slot->output);
		free(slot->kept);
		free(slot->parts);
		free(slot->is_used);
		free(slot->pages.v);
		free(slot->held.v);
		free(slot->state.held.v);
	}
	for (unsigned int i = 0; i < VARIABLES + 2 * checker->history->targets; i++)
		free(checker->environment[i]);
	free(checker->environment);
	free(checker->slots);
	free(checker->fds);
	free(checker->folder);
	free(checker);
}

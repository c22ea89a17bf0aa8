// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "draw.h"
#include "util.h"

extern char **environ;

const char *tools_folder(void)
{
	return getenv("CRASH_STATES_TOOLS");
}

/* False if it cannot be run, or fails. */
static bool run(char *const *argv, int out, int errors)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t ignored;
	int status = 0;
	pid_t pid;

	sigemptyset(&ignored);		/* since checker_new() */
	sigaddset(&ignored, SIGPIPE);
	sigaddset(&ignored, SIGIO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attr, &ignored);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, errors, 2);
	errno = posix_spawn(&pid, argv[0], &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return !errno && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static char *tool(const char *name)
{
	return xasprintf("%s/%s", tools_folder(), name);
}

static void copy(FILE *from, FILE *to)
{
	int c;

	rewind(from);
	while ((c = fgetc(from)) != EOF)
		fputc(c, to);
}

struct drawing {
	char *ladder, *frame, *lost;
	const char *recorded;
	FILE *errors;
};

/* @lost is a file. */
static struct drawing begin(unsigned int frame, char *lost, const char *recorded)
{
	struct drawing d = { tool("ladder"), xasprintf("%u", frame), lost, recorded, tmpfile() };

	if (!d.errors)
		fail_errno("tmpfile");
	return d;
}

static void end(const struct drawing *d)
{
	fclose(d->errors);
	free(d->ladder);
	free(d->frame);
	free(d->lost);
}

/* As a picture, or as text, into @file; only the end, if so many packets are @enough. */
static bool draw_into(const struct drawing *d, bool picture, const char *enough, FILE *file)
{
	char *argv[10] = { d->ladder, "--cut", d->frame, "--lost-file", d->lost };
	size_t n = 5;

	if (picture)
		argv[n++] = "--svg";
	if (enough) {
		argv[n++] = "--tail";
		argv[n++] = (char *)enough;
	}
	argv[n] = (char *)d->recorded;
	return file && run(argv, fileno(file), fileno(d->errors));
}

static bool draw_file(const struct drawing *d, bool picture, const char *folder, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);
	FILE *file = fopen(path, "we");
	bool drawn = draw_into(d, picture, NULL, file);

	if (file)
		fclose(file);
	free(path);
	return drawn;
}

static bool draw_end(const struct drawing *d, bool picture, FILE *to)
{
	FILE *file = tmpfile();
	bool drawn = draw_into(d, picture, "12", file);

	if (drawn)
		copy(file, to);
	if (file)
		fclose(file);
	return drawn;
}

void draw(const char *folder, unsigned int frame, const char *recorded)
{
	struct drawing d;

	if (!tools_folder())
		return;
	d = begin(frame, xasprintf("%s/lost", folder), recorded);
	printf("\n%s/ladder.txt, ladder.svg:\n", folder);
	if (!draw_file(&d, false, folder, "ladder.txt") || !draw_file(&d, true, folder, "ladder.svg") ||
	    !draw_end(&d, false, stdout)) {
		copy(d.errors, stderr);
		fputs("crash-states: this state cannot be drawn; its other files are complete\n", stderr);
	}
	end(&d);
}

bool draw_picture(unsigned int frame, const char *lost, const char *recorded, FILE *to)
{
	FILE *frames = tmpfile();
	struct drawing d;
	bool drawn;

	if (!tools_folder() || !frames)
		return false;
	fprintf(frames, "%s\n", lost);
	fflush(frames);
	d = begin(frame, xasprintf("/proc/%d/fd/%d", getpid(), fileno(frames)), recorded);
	drawn = draw_end(&d, true, to);
	end(&d);
	fclose(frames);
	return drawn;
}

/* Runs `source-lines`; what it prints, or NULL. */
static FILE *source_lines(char **argv)
{
	FILE *lines = tmpfile(), *nothing = fopen("/dev/null", "we");

	if (!tools_folder() || !lines || !nothing)
		return NULL;
	argv[0] = tool("source-lines");
	run(argv, fileno(lines), fileno(nothing));	/* addr2line may be missing */
	fclose(nothing);
	free(argv[0]);
	rewind(lines);
	return lines;
}

/* A request, and the line that has posted it. */
struct posted {
	uint32_t qpn, psn;
	char *line;
};

/* What is known of the run.  `source-lines` keeps it there, if it can; then no tool is needed. */
static LIST(struct posted) posted;

static void read_posted(const char *folder)
{
	char *argv[] = { NULL, (char *)folder, NULL }, *line = NULL;
	FILE *lines = fopen(xasprintf("%s/client.lines", folder), "re");
	size_t room = 0;

	if (!lines && !access(xasprintf("%s/client.posted", folder), R_OK))
		lines = source_lines(argv);
	while (lines && getline(&line, &room, lines) >= 0) {
		struct posted one;
		int at = 0;

		if (sscanf(line, "%" SCNx32 " %" SCNu32 " %n", &one.qpn, &one.psn, &at) != 2 || !at)
			continue;
		one.line = xasprintf("%.*s", (int)strcspn(line + at, "\n"), line + at);
		*list_add(&posted) = one;
	}
	free(line);
	if (lines)
		fclose(lines);
}

const char *source_line(const char *folder, uint32_t qpn, uint32_t psn)
{
	static const char *folder_read;

	if (!folder_read)
		read_posted(folder_read = folder);
	for (size_t i = 0; i < posted.n; i++)
		if (posted.v[i].qpn == qpn && posted.v[i].psn == psn)
			return posted.v[i].line;
	return NULL;
}

char *source_line_at(char *const *sites)
{
	char *argv[8] = { NULL, "--at" }, *line = NULL;
	size_t room = 0;
	FILE *lines;

	for (size_t i = 0; i < 5 && sites[i]; i++)
		argv[i + 2] = sites[i];
	lines = source_lines(argv);
	if (lines && getline(&line, &room, lines) > 0)
		line[strcspn(line, "\n")] = 0;
	if (lines)
		fclose(lines);
	return line && *line ? line : NULL;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
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

static void copy(FILE *from, FILE *to)
{
	int c;

	rewind(from);
	while ((c = fgetc(from)) != EOF)
		fputc(c, to);
}

struct drawing {
	char *ladder, *frame, *lost, *recorded;
	FILE *errors;
};

/* With the option @form, and its @value unless NULL, into @file */
static bool draw_into(const struct drawing *d, const char *form, const char *value, FILE *file)
{
	char *argv[10] = { d->ladder, "--cut", d->frame, "--lost-file", d->lost };
	size_t n = 5;

	if (form)
		argv[n++] = (char *)form;
	if (value)
		argv[n++] = (char *)value;
	argv[n] = d->recorded;
	return file && run(argv, fileno(file), fileno(d->errors));
}

static bool draw_file(const struct drawing *d, const char *form, const char *folder, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);
	FILE *file = fopen(path, "we");
	bool drawn = draw_into(d, form, NULL, file);

	if (file)
		fclose(file);
	free(path);
	return drawn;
}

static bool print_end(const struct drawing *d)
{
	FILE *file = tmpfile();
	bool drawn = draw_into(d, "--tail", "12", file);

	if (file) {
		copy(file, stdout);
		fclose(file);
	}
	return drawn;
}

void draw(const char *folder, unsigned int frame, const char *recorded)
{
	struct drawing d;

	if (!tools_folder())
		return;
	d.errors = tmpfile();
	if (!d.errors)
		fail_errno("tmpfile");
	d.ladder = xasprintf("%s/ladder", tools_folder());
	d.frame = xasprintf("%u", frame);
	d.lost = xasprintf("%s/lost", folder);
	d.recorded = xasprintf("%s", recorded);
	printf("\n%s/ladder.txt, ladder.svg:\n", folder);
	fflush(stdout);
	if (!draw_file(&d, NULL, folder, "ladder.txt") || !draw_file(&d, "--svg", folder, "ladder.svg") || !print_end(&d)) {
		fflush(stdout);
		copy(d.errors, stderr);
		fputs("crash-states: this state cannot be drawn; its other files are complete\n", stderr);
	}
	fclose(d.errors);
	free(d.ladder);
	free(d.frame);
	free(d.lost);
	free(d.recorded);
}

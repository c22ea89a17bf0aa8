/* SPDX-License-Identifier: GPL-2.0 */
/* What the cases of crash-test share: a run made by hand is read, and the states of a cut are told as strings. */
#ifndef CRASH_TEST_H
#define CRASH_TEST_H

#include <endian.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kselftest_harness.h>

#include "../selftests/rdma/rxe_roce.h"
#include "checker.h"
#include "explain.h"
#include "group.h"
#include "hints.h"
#include "made.h"
#include "ring.h"
#include "sample.h"

/******************************************************************************
 * What is read of it
 */

static struct memory memory, memories[TARGETS_MAX];
static struct capture capture;
static struct content content, boot;
static struct history history;
static struct model model;
static struct before before;

static void load_by(const struct rules *rules)
{
	end();
	memory_read(&memory, in_folder("server.memory"));
	capture_read(&capture, in_folder("server.pcap"), &memory, 1);
	if (!access(in_folder("server.cpu"), F_OK))
		capture_read_cpu(&capture, in_folder("server.cpu"), &memory);
	content_map(&content, in_folder("server.pmem0.start"), &memory);
	before.ready = content.bytes;
	history_read(&history, &capture, &memory, 1, &before, rules);
	model_init(&model, &history, 1);
}

/* By the rules of that name. */
static void load(const char *rules) { load_by(rules_find(rules)); }

/* All targets of a group at once. */
static void load_group(const char *rules)
{
	unsigned int targets;

	end();
	targets = group_targets(net.folder);
	group_read(memories, targets, net.folder);
	capture_read(&capture, in_folder("client1.pcap"), memories, targets);
	group_map(&content, memories, targets, net.folder, "pmem0.start");
	before.ready = content.bytes;
	history_read(&history, &capture, memories, targets, &before, rules_find(rules));
	model_init(&model, &history, 1);
}

/* Where digit @i of a state is: in a group, the first words of all targets come first. */
static uint64_t offset_of_digit(unsigned int i)
{
	return net.targets ? i % net.targets * DEVICE + i / net.targets * 8 : i * 8;
}

static void remove_folder(void)
{
	unlink(in_folder("client1.pcap"));
	for (unsigned int i = 1; i <= net.targets; i++) {
		unlink(in_folder(xasprintf("server%u.pcap", i)));
		unlink(in_folder(xasprintf("server%u.memory", i)));
		unlink(in_folder(xasprintf("server%u.pmem0.start", i)));
	}
	unlink(in_folder("server.pcap"));
	unlink(in_folder("server.cpu"));
	unlink(in_folder("server.memory"));
	unlink(in_folder("server.pmem0.start"));
	rmdir(net.folder);
}

/* What the word at @offset holds: nothing where nothing was stored. */
static uint64_t value_in_state(const struct state *state, uint64_t offset)
{
	uint64_t value = 0;

	for (unsigned int byte = 0; byte < WORD; byte++) {
		uint32_t w = history_word(&history, offset + byte);
		int32_t position = w == NEVER ? START : model_top(&model, w);

		for (size_t h = 0; h < state->held.n; h++)
			if (state->held.v[h].word == w)
				position = state->held.v[h].position;
		if (w != NEVER)
			value |= model_value(&history, w, position) << 8 * byte;
	}
	return value;
}

/* The digits of a state: of the words from 0 on. */
static void digits(const struct state *state, unsigned int words, char *text)
{
	for (unsigned int i = 0; i < words; i++) {
		uint64_t value = value_in_state(state, offset_of_digit(i));

		/* A word of two values is one that was stored in parts. */
		text[i] = value == (value & 0xff) * 0x0101010101010101ull ? '0' + (value & 0xff) : '/';
	}
	text[words] = 0;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* All states of a cut, sorted, with a space between. */
static const char *states_at(unsigned int moment, unsigned int words)
{
	static char text[65536];
	static char all[4096][16];
	struct state state = { };
	size_t n = 0;

	model_cut(&model, moment);
	for (size_t i = 0; i < model_choices(&model); i++)
		if (model_choice(&model, i, &state))
			digits(&state, words, all[n++]);
	qsort(all, n, sizeof(*all), by_text);
	text[0] = 0;
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(all[i], all[i - 1]))
			strcat(strcat(text, i ? " " : ""), all[i]);
	free(state.held.v);
	return text;
}

#define EXPECT_STATES(moment, words, wanted) EXPECT_STREQ(wanted, states_at(moment, words))

/* What the program says when it cannot go on. */
static const char *error_of(void (*what)(const char *rules))
{
	static char text[4096];
	size_t have = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds))
		exit(1);
	end();
	pid = fork();
	if (!pid) {
		dup2(fds[1], 2);
		what("spec");
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + have, sizeof(text) - 1 - have)) > 0)
		have += n;
	text[have] = 0;
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status) == STATUS_ERROR ? text : "no error";
}

#define EXPECT_ERROR(wanted) do { \
	const char *said = error_of(load); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

FIXTURE(run) {};
FIXTURE_SETUP(run)
{
	static char folder[32];

	strcpy(folder, "/tmp/crash-test.XXXXXX");
	if (!mkdtemp(folder))
		exit(1);
	memset(&before, 0, sizeof(before));
	begin(folder);
}
FIXTURE_TEARDOWN(run) { remove_folder(); }

static void use_qp(uint32_t qp, uint32_t peer, uint16_t port)
{
	net.qp = qp;
	net.peer = peer;
	net.port = port;
}

static void use_first_qp(void) { use_qp(QP, 33, 50000); }
static void use_second_qp(void) { use_qp(18, 34, 50001); }

#endif /* CRASH_TEST_H */

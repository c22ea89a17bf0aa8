/* SPDX-License-Identifier: GPL-2.0 */
/* Cases: a power failure in recovery.  Recoveries of a ring (ring-recovery.c) run, and what they store is followed. */
#ifndef CASES_RECOVERY_H
#define CASES_RECOVERY_H

#include "cases-promise.h"
#include "recovery.h"

#ifdef __x86_64__

static char recovery_said[4096];

static void remember_failure(void *arg, struct checker *checker, const struct recovery_failure *failure)
{
	(void)arg;
	(void)checker;
	if (!*recovery_said)
		snprintf(recovery_said, sizeof(recovery_said), "%s: %s\n%s", failure->kind, failure->title, failure->lines);
}

/* Of the ring with all that came; what is wrong is in recovery_said. */
static struct recovery_count recover_by(const char *mode)
{
	static char exe[4096];
	char *argv[] = { exe, "--recovered", NULL };
	const struct checker_options options = { .argv = argv, .jobs = 1, .seconds = 10, .mib = 1000 };
	struct state state = { .moment = capture_last_moment(&capture) };
	struct recovery *recovery;

	exe[readlink("/proc/self/exe", exe, sizeof(exe) - 1)] = 0;
	recovery = recovery_new(xasprintf("'%s' --recover %s", exe, mode), 1);
	*recovery_said = 0;
	recovery_note(recovery, &state, 1);
	return recovery_judge(recovery, &model, &content, &options, 0, 1000, remember_failure, NULL);
}

static void begin_recovery(void)
{
	begin(net.folder);
	ring_make("right", 20);
	load("spec");
}

/* So do recoveries that make things durable by other means. */
static void is_judged_right(struct __test_metadata *_metadata, const char *mode, bool right, const char *why)
{
	struct recovery_count count = recover_by(mode);

	EXPECT_EQ(right, !count.wrong) TH_LOG("%s: %s", mode, recovery_said);
	EXPECT_EQ(9, count.stores) TH_LOG("%s", mode);
	EXPECT_LE(9, count.tried) TH_LOG("%s", mode);
	EXPECT_NE(NULL, strstr(recovery_said, why)) TH_LOG("%s: %s", mode, recovery_said);
}

#define EXPECT_RECOVERY(mode, right, why) is_judged_right(_metadata, mode, right, why)

TEST_F_TIMEOUT(run, recovery_that_can_begin_anew_passes, 100)
{
	begin_recovery();
	for (size_t i = 0; recovery_modes[i]; i++)
		EXPECT_RECOVERY(recovery_modes[i], true, "");
}

TEST_F_TIMEOUT(run, recovery_that_does_it_again_is_found, 100)
{
	begin_recovery();
	EXPECT_RECOVERY("counts-again", false, "recovery-not-idempotent: passes, and then the power fails in its recovery, at store 1 of 9\n  there   0x8080  store 1 of 9 by recovery, 0x0000000000000014");
	EXPECT_RECOVERY("done-first", false, "recovery-not-idempotent: passes, and then the power fails in its recovery, at store 1 of 9\n  there   0x8040  store 1 of 9");
}

TEST_F_TIMEOUT(run, recovery_whose_stores_have_no_order_is_found, 100)
{
	begin_recovery();
	EXPECT_RECOVERY("no-write-back", false, "recovery-not-durable: passes, and then the power fails in its recovery, at store 2 of 9\n  lost    0x8000  store 2 of 9");
	EXPECT_RECOVERY("no-fence", false, "recovery-not-durable");
	EXPECT_RECOVERY("no-msync", false, "recovery-not-durable");
	EXPECT_RECOVERY("unordered", false, "recovery-not-durable");
	EXPECT_RECOVERY("no-fsync", false, "recovery-not-durable");
	EXPECT_RECOVERY("no-range", false, "recovery-not-durable");
}

#endif
#endif /* CASES_RECOVERY_H */

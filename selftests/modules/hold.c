// SPDX-License-Identifier: GPL-2.0
/*
 * Holds a task of the kernel between two instructions, until it is told to let go.  So a test decides a race that is a
 * few instructions wide: while one task is held, it lets the other one act.
 *
 *	insmod hold.ko
 *	echo "at FUNCTION CALLER..." >/sys/module/hold/parameters/point		where FUNCTION begins, if one of
 *										these functions has called it
 *	echo "after FUNCTION CALLER..." >/sys/module/hold/parameters/point	where it has returned to the CALLER
 *	cat /sys/module/hold/parameters/held		0: nothing came there yet, 1: a task is held, 2: it has gone on
 *	echo 1 >/sys/module/hold/parameters/release	lets it go on; later ones are not held
 *	cat /sys/module/hold/parameters/freed		1: what FUNCTION had returned was freed meanwhile; the CALLER
 *										gets NULL in its place
 *
 * A compiler may have inlined a CALLER, or made its call a jump. Then also name the caller of the caller.
 *
 * The CPU of the task does nothing else meanwhile, so that it is held for ten seconds at most.
 */
#include <linux/delay.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define MAX_MS		10000
#define MAX_CALLERS	4
#define NAME_LEN	128

enum held { NOTHING, HELD, GONE_ON };

static char function[NAME_LEN], callers[MAX_CALLERS][NAME_LEN];
static unsigned int num_callers;
static bool after, registered;

static atomic_t held = ATOMIC_INIT(NOTHING);
module_param_named(held, held.counter, int, 0444);
MODULE_PARM_DESC(held, "0: nothing came there yet, 1: a task is held, 2: it has gone on");

static bool release;
module_param(release, bool, 0644);
MODULE_PARM_DESC(release, "1: let the task go on");

static bool freed;
module_param(freed, bool, 0444);
MODULE_PARM_DESC(freed, "what the function had returned was freed while its caller was held");

static bool is_caller(unsigned long address)
{
	char name[KSYM_SYMBOL_LEN];
	unsigned int i;

	sprint_symbol_no_offset(name, address);
	for (i = 0; i < num_callers; i++)
		if (!strcmp(name, callers[i]))
			return true;
	return false;
}

/* What FUNCTION has returned to the task that is held: an object, or a place in it. */
static unsigned long returned;

/* Another user may get the memory at once, so its content does not tell that it was freed. */
static int on_free(struct kprobe *probe, struct pt_regs *regs)
{
	const unsigned long start = regs_get_kernel_argument(regs, 0);

	if (READ_ONCE(returned) - start < ksize((void *)start))
		WRITE_ONCE(freed, true);
	return 0;
}

static struct kprobe freeing;

/* True: the task was held. */
static bool hold(unsigned long caller, unsigned long value)
{
	unsigned int ms;

	if (atomic_read(&held) != NOTHING || !is_caller(caller) ||
	    atomic_cmpxchg(&held, NOTHING, HELD) != NOTHING)
		return false;
	WRITE_ONCE(returned, value);
	for (ms = 0; ms < MAX_MS && !READ_ONCE(release); ms++)
		mdelay(1);
	WRITE_ONCE(returned, 0);
	atomic_set(&held, GONE_ON);
	return true;
}

static int on_entry(struct kprobe *probe, struct pt_regs *regs)
{
	hold(regs_get_kernel_stack_nth(regs, 0), 0);
	return 0;
}

static struct kprobe entry;

static int on_return(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	/* If the caller used it, the kernel would crash in some runs, and the case would tell nothing. */
	if (hold((unsigned long)get_kretprobe_retaddr(instance), regs_return_value(regs)) && freed)
		regs_set_return_value(regs, 0);
	return 0;
}

static struct kretprobe exit_of;

static void forget_point(void)
{
	if (!registered)
		return;
	WRITE_ONCE(release, true);
	if (after) {
		unregister_kretprobe(&exit_of);
		unregister_kprobe(&freeing);
	} else {
		unregister_kprobe(&entry);
	}
	registered = false;
}

static int set_point(const char *text, const struct kernel_param *param)
{
	char where[8];
	int words, err;

	forget_point();
	words = sscanf(text, "%7s %127s %127s %127s %127s %127s", where, function, callers[0], callers[1], callers[2],
		       callers[3]);
	after = !strcmp(where, "after");
	if (words < 3 || (!after && strcmp(where, "at")))
		return -EINVAL;
	num_callers = words - 2;

	release = freed = false;
	atomic_set(&held, NOTHING);
	entry = (struct kprobe) { .symbol_name = function, .pre_handler = on_entry };
	exit_of = (struct kretprobe) { .kp.symbol_name = function, .handler = on_return };
	freeing = (struct kprobe) { .symbol_name = "kfree", .pre_handler = on_free };
	err = after ? register_kretprobe(&exit_of) : register_kprobe(&entry);
	if (!err && after) {
		err = register_kprobe(&freeing);
		if (err)
			unregister_kretprobe(&exit_of);
	}
	registered = !err;
	return err;
}

static const struct kernel_param_ops point_ops = { .set = set_point };
module_param_cb(point, &point_ops, NULL, 0200);
MODULE_PARM_DESC(point, "at|after FUNCTION CALLER...: where a task is to be held");

static int __init hold_init(void)
{
	return 0;
}

static void __exit hold_exit(void)
{
	forget_point();
}

module_init(hold_init);
module_exit(hold_exit);
MODULE_DESCRIPTION("Holds a task of the kernel between two instructions");
MODULE_LICENSE("GPL");

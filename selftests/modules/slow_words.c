// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the kernel slow on words of memory.  Whenever the kernel has read or written one of them through its linear
 * mapping, a breakpoint makes the CPU wait, right after that instruction.  The window between the read and the write
 * of an Atomic, which is some nanoseconds wide, becomes so wide that an access within it is caught.
 *
 *	insmod slow_words.ko [delay=MICROSECONDS]
 *	echo PHYSICAL >/sys/module/slow_words/parameters/word	for one more 8-byte word, up to four
 *	cat /sys/module/slow_words/parameters/hits		how often it was slow
 */
#include <linux/delay.h>
#include <linux/hw_breakpoint.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/perf_event.h>

#define MAX_WORDS	4	/* a CPU has so many breakpoints */

static struct perf_event * __percpu *breakpoints[MAX_WORDS];
static unsigned int words;

static unsigned int delay = 200;
module_param(delay, uint, 0444);
MODULE_PARM_DESC(delay, "how long to dwell, in microseconds");

static atomic_t hits = ATOMIC_INIT(0);
module_param_named(hits, hits.counter, int, 0444);
MODULE_PARM_DESC(hits, "how often it has dwelt");

static void dwell(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	atomic_inc(&hits);
	udelay(delay);
}

static int add_word(const char *text, const struct kernel_param *param)
{
	struct perf_event * __percpu *breakpoint;
	struct perf_event_attr attr;
	unsigned long physical;
	int err = kstrtoul(text, 0, &physical);

	if (err)
		return err;
	if (words == MAX_WORDS)
		return -ENOSPC;

	hw_breakpoint_init(&attr);
	attr.bp_addr = (unsigned long)phys_to_virt(physical);
	attr.bp_len = HW_BREAKPOINT_LEN_8;
	attr.bp_type = HW_BREAKPOINT_RW;
	breakpoint = register_wide_hw_breakpoint(&attr, dwell, NULL);
	if (IS_ERR((void __force *)breakpoint))
		return PTR_ERR((void __force *)breakpoint);

	breakpoints[words++] = breakpoint;
	return 0;
}

static const struct kernel_param_ops word_ops = { .set = add_word };
module_param_cb(word, &word_ops, NULL, 0200);
MODULE_PARM_DESC(word, "the physical address of one more word");

static int __init slow_words_init(void)
{
	return 0;
}

static void __exit slow_words_exit(void)
{
	while (words)
		unregister_wide_hw_breakpoint(breakpoints[--words]);
}

module_init(slow_words_init);
module_exit(slow_words_exit);
MODULE_DESCRIPTION("Makes the kernel slow on words of memory");
MODULE_LICENSE("GPL");

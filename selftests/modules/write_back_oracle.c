// SPDX-License-Identifier: GPL-2.0
/*
 * What would be left of persistent memory if the power failed now, and the content of all caches were
 * lost?  This module, loaded into the guest of an RDMA target, knows.  It keeps a second copy of the
 * memory, the media.  A store reaches the media only as it would reach real media:
 *
 *  - something writes it back: memcpy_flushcache() or arch_wb_cache_pmem().  What lies there at this
 *    moment is then on its way, as seen by this CPU;
 *  - this CPU drains: it executes one of the SFENCE instructions that were named when the module was
 *    loaded.  What was on its way has then arrived.
 *
 * Stores themselves are not watched.  They show as differences between memory and media: whoever
 * stores in whatever way, what is not written back and drained remains one.  So the module compares
 * the two whenever a persistent FLUSH is answered, over the memory that was asked for, at the moment
 * when the answer goes out.  Each difference is a store that was acknowledged and would be lost.
 *
 * This is the most that a power failure takes.  It may take less: caches write back lines when they
 * like.  So the module also makes crash images: at random moments a copy of the media in which
 * each aligned word of 8 bytes that differs in memory, or is on its way, holds by chance its old
 * value or one of these.  A consumer of the memory, a log for example, must bear each of them.
 *
 * It does not ask the driver how a store is made.  It only watches which packets arrive (rxe_rcv(),
 * which also gets the packets of a loopback) and which memory a key stands for.
 *
 * It is stricter than the hardware, where other instructions drain, too (locked ones).  It sees a
 * context switch, which has such instructions, only when that moves a task.  It does not see a store
 * that changes nothing.  It finds an answer by its PSN: QPs whose FLUSHes are open at the same time
 * must use different PSNs.  The pages of a fast registered MR must follow one another, and its
 * addresses must be those of the kernel.
 *
 *	insmod write_back_oracle.ko start=PHYSICAL size=BYTES drains=ADDRESS,...
 *		[images=NUMBER image_size=BYTES period=EVENTS seed=NUMBER]
 *
 * An image is of the first @image_size bytes.  About one of @period events that change what may be left
 * makes an image, if anything is in doubt then, until there are @images.  In debugfs, write_back_oracle/
 *	report		counts the FLUSHes that were checked, those with a loss, what the oracle has
 *			missed, which has to be nothing, and the images
 *	check		OFFSET LENGTH, written to it, checks these bytes now: for what is to be
 *			durable without a FLUSH
 *	images		one after the other
 *	moments		for each image, how many FLUSHes were answered before
 *	answered	these: 0 PSN OFFSET LENGTH
 */
#include <linux/debugfs.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/percpu.h>
#include <linux/udp.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <net/ip.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include "rxe_roce.h"

#define MAX_DRAINS	16
/* What a CPU may have in flight: more than the packets that the driver handles in one go. */
#define PENDING_SIZE	(8 << 20)
/* What is remembered, the newest: FLUSHes that came, mappings of the memory, keys. */
#define FLUSHES		1024
#define MAPPINGS	64
#define KEYS		256
/* FLUSHes whose answer is kept for those who judge images. */
#define MAX_ANSWERED	(1 << 16)
#define WORD		sizeof(u64)

static unsigned long start;
module_param(start, ulong, 0444);
MODULE_PARM_DESC(start, "physical address of the persistent memory");

static unsigned long size;
module_param(size, ulong, 0444);
MODULE_PARM_DESC(size, "its size in bytes");

static ulong drains[MAX_DRAINS];
static int num_drains;
module_param_array(drains, ulong, &num_drains, 0444);
MODULE_PARM_DESC(drains, "the addresses of the SFENCE instructions");

static uint images;
module_param(images, uint, 0444);
MODULE_PARM_DESC(images, "how many crash images to make");

static ulong image_size;
module_param(image_size, ulong, 0444);
MODULE_PARM_DESC(image_size, "bytes of each, from the start of the memory: a multiple of 8");

static uint period = 1;
module_param(period, uint, 0444);
MODULE_PARM_DESC(period, "events from one image to the next, about");

static ulong seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of what is left to chance");

/* Content in flight from a CPU to the media. */
struct write_back {
	size_t offset;
	size_t length;
	const struct task_struct *task;	/* whose store it is, NULL: of a softirq */
	bool arrived;
	u8 content[];
};

static size_t write_back_size(size_t length)
{
	return ALIGN(sizeof(struct write_back) + length, sizeof(size_t));
}

struct pending {
	u8 *log;	/* of struct write_back */
	size_t used;
};

static DEFINE_PER_CPU(struct pending, pending);

/* A FLUSH that has come, and what it covers. */
struct flush {
	u32 qpn, psn;
	bool open;	/* not answered yet */
	size_t offset;
	size_t length;
};

/* A part of the memory as a process sees it. */
struct mapping {
	struct mm_struct *mm;
	unsigned long from, to;
	size_t offset;
};

/* A part of the memory as a peer sees it. */
struct key {
	u32 lkey, rkey;
	u64 va, length;
	size_t offset;
};

/* Protects everything below, and the order of what the CPUs do.  Not a spinlock_t: lockdep takes the breakpoint of a
 * probe for an NMI, which could interrupt the holder of the lock.  But no CPU is in two probes at once.
 */
static arch_spinlock_t lock = __ARCH_SPIN_LOCK_UNLOCKED;
static u8 *memory;
static u8 *media;
/* Rings: the next to be written over. */
static struct flush flushes[FLUSHES];
static struct mapping mappings[MAPPINGS];
static struct key keys[KEYS];
static unsigned int next_flush, next_mapping, next_key;
static unsigned long checked, lost, missed;
static size_t first_lost;

static struct debugfs_blob_wrapper image_blob;
static unsigned int made;
static unsigned long choices;		/* that the image being made left to chance */
static u32 *moments;
static unsigned long *settled;		/* words of the image being made that have got their value */
static struct flush *answered;
static unsigned int num_answered;
static u64 chance;

static struct dentry *directory;

static unsigned long take_lock(void)
{
	unsigned long flags;

	local_irq_save(flags);
	arch_spin_lock(&lock);
	return flags;
}

static void release_lock(unsigned long flags)
{
	arch_spin_unlock(&lock);
	local_irq_restore(flags);
}

/* Crash images */

/* xorshift64*; its state is never 0. */
static u32 random_number(void)
{
	chance ^= chance >> 12;
	chance ^= chance << 25;
	chance ^= chance >> 27;
	return chance * 0x2545f4914f6cdd1dull >> 32;
}

/* Some stores to a word in flight from a CPU get to the media, and no later one. */
static void leave_pending(u8 *image, const struct pending *cpu, unsigned int quarters)
{
	const struct write_back *one;
	size_t at, from, to, end;

	for (at = 0; at < cpu->used; at += write_back_size(one->length)) {
		one = (void *)(cpu->log + at);
		if (one->arrived)
			continue;
		end = min(one->offset + one->length, image_size);
		for (from = one->offset; from < end; from = to) {
			to = min(ALIGN(from + 1, WORD), end);
			if (test_bit(from / WORD, settled))
				continue;
			choices++;
			if (random_number() % 4 < quarters)
				memcpy(image + from, one->content + (from - one->offset), to - from);
			else
				__set_bit(from / WORD, settled);
		}
	}
}

/* What is in a cache may be written back by it. */
static void leave_dirty(u8 *image, unsigned int quarters)
{
	size_t at;

	for (at = 0; at < image_size; at += WORD) {
		if (*(u64 *)(memory + at) == *(u64 *)(image + at) || test_bit(at / WORD, settled))
			continue;
		choices++;
		if (random_number() % 4 < quarters)
			*(u64 *)(image + at) = *(u64 *)(memory + at);
	}
}

/* Something changes what may be left: the moment before or after it is one for an image. */
static void moment(void)
{
	u8 *image = image_blob.data + made * image_size;
	unsigned int quarters;
	int cpu;

	if (made == images || random_number() % period)
		return;
	memcpy(image, media, image_size);
	bitmap_zero(settled, image_size / WORD);
	/* From nothing to all that may get there. */
	quarters = random_number() % 5;
	choices = 0;
	for_each_possible_cpu(cpu)
		leave_pending(image, per_cpu_ptr(&pending, cpu), quarters);
	leave_dirty(image, quarters);
	/* Without, it is the media, and nothing else. */
	if (choices)
		moments[made++] = num_answered;
}

/* On the way */

static unsigned long argument(const struct pt_regs *regs, unsigned int n)
{
	return regs_get_kernel_argument((struct pt_regs *)regs, n);
}

/* Entering the breakpoint of a probe counts as an NMI and as a hardirq. */
static bool in_process(void)
{
	return hardirq_count() == (in_nmi() ? HARDIRQ_OFFSET : 0) && !in_serving_softirq();
}

static void send_to_media(const void *dst, const void *content, size_t length)
{
	struct pending *mine;
	struct write_back *one;
	unsigned long flags;
	size_t need = write_back_size(length);

	if ((u8 *)dst < memory || (u8 *)dst + length > memory + size)
		return;

	flags = take_lock();
	mine = this_cpu_ptr(&pending);
	if (mine->used + need > PENDING_SIZE) {
		missed++;
	} else {
		one = (void *)(mine->log + mine->used);
		one->offset = (u8 *)dst - memory;
		one->length = length;
		one->task = in_process() ? current : NULL;
		one->arrived = false;
		memcpy(one->content, content, length);
		mine->used += need;
	}
	moment();
	release_lock(flags);
}

/* All that is in flight from a CPU, or what this task has stored there. */
static void arrive(const struct pending *cpu, const struct task_struct *task)
{
	struct write_back *one;
	size_t at;

	for (at = 0; at < cpu->used; at += write_back_size(one->length)) {
		one = (void *)(cpu->log + at);
		if (one->arrived || (task && one->task != task))
			continue;
		memcpy(media + one->offset, one->content, one->length);
		one->arrived = true;
	}
}

/* A task that was moved was switched off there, which has drained what it had stored. */
static int on_drain(struct kprobe *probe, struct pt_regs *regs)
{
	struct pending *mine;
	unsigned long flags;
	int cpu;

	flags = take_lock();
	moment();
	mine = this_cpu_ptr(&pending);
	for_each_possible_cpu(cpu)
		if (in_process() && per_cpu_ptr(&pending, cpu) != mine)
			arrive(per_cpu_ptr(&pending, cpu), current);
	arrive(mine, NULL);
	mine->used = 0;
	release_lock(flags);
	return 0;
}

/* It writes back what it is about to store, because nothing can drain on this CPU before it has. */
static void on_memcpy_flushcache(const struct pt_regs *regs)
{
	send_to_media((void *)argument(regs, 0),
		      (void *)argument(regs, 1),
		      argument(regs, 2));
}

static void on_arch_wb_cache_pmem(const struct pt_regs *regs)
{
	unsigned long from = argument(regs, 0);
	unsigned long to = from + argument(regs, 1);

	from = ALIGN_DOWN(from, boot_cpu_data.x86_clflush_size);
	to = ALIGN(to, boot_cpu_data.x86_clflush_size);
	send_to_media((void *)from, (void *)from, to - from);
}

/* Which memory a key stands for */

static void add_mapping(struct mapping mapping)
{
	unsigned long flags = take_lock();

	mappings[next_mapping++ % MAPPINGS] = mapping;
	release_lock(flags);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define DAX_MMAP	"dax_mmap"
static void on_dax_mmap(const struct pt_regs *regs)
{
	struct vm_area_struct *vma = (void *)argument(regs, 1);

	add_mapping((struct mapping){
		.mm = vma->vm_mm, .from = vma->vm_start, .to = vma->vm_end,
		.offset = vma->vm_pgoff << PAGE_SHIFT,
	});
}
#else
#define DAX_MMAP	"dax_mmap_prepare"
static void on_dax_mmap(const struct pt_regs *regs)
{
	struct vm_area_desc *desc = (void *)argument(regs, 0);

	add_mapping((struct mapping){
		.mm = (struct mm_struct *)desc->mm, .from = desc->start, .to = desc->end,
		.offset = desc->pgoff << PAGE_SHIFT,
	});
}
#endif

static void add_key(struct key key)
{
	unsigned long flags;

	if (key.offset > size || key.length > size - key.offset)
		return;		/* other memory */
	flags = take_lock();
	keys[next_key++ % KEYS] = key;
	release_lock(flags);
}

/* The newest that has it. */
static const struct key *find_key(u32 key, bool local)
{
	unsigned int i;

	for (i = next_key; i && next_key - i < KEYS; i--) {
		const struct key *this = &keys[(i - 1) % KEYS];

		if (this->length && (local ? this->lkey : this->rkey) == key)
			return this;
	}
	return NULL;
}

/* The region of a user has been made.  To its peers it has the addresses that it has there. */
static void on_restrack_add(const struct pt_regs *regs)
{
	const struct rdma_restrack_entry *entry = (void *)argument(regs, 0);
	const struct ib_mr *mr = container_of(entry, struct ib_mr, res);
	size_t offset = SIZE_MAX;
	unsigned long flags;
	unsigned int i;

	if (entry->type != RDMA_RESTRACK_MR || mr->type != IB_MR_TYPE_USER)
		return;
	flags = take_lock();
	for (i = next_mapping; i && next_mapping - i < MAPPINGS; i--) {
		const struct mapping *map = &mappings[(i - 1) % MAPPINGS];

		if (map->mm == current->mm && mr->iova >= map->from && mr->iova < map->to &&
		    mr->length <= map->to - mr->iova) {
			offset = map->offset + mr->iova - map->from;
			break;
		}
	}
	release_lock(flags);
	add_key((struct key){ mr->lkey, mr->rkey, mr->iova, mr->length, offset });
}

static void on_bind_mw(const struct pt_regs *regs)
{
	const struct rxe_send_wqe *wqe = (void *)argument(regs, 1);
	u32 rkey = (wqe->wr.wr.mw.mw_rkey & ~0xff) | (wqe->wr.wr.mw.rkey & 0xff);
	bool zero_based = wqe->wr.wr.mw.access & IB_ZERO_BASED;
	u64 addr = wqe->wr.wr.mw.addr, length = wqe->wr.wr.mw.length;
	const struct key *mr;
	size_t offset = SIZE_MAX;
	unsigned long flags;

	flags = take_lock();
	mr = find_key(wqe->wr.wr.mw.mr_lkey, true);
	if (mr)
		offset = mr->offset + (addr - mr->va);
	release_lock(flags);
	add_key((struct key){ 0, rkey, zero_based ? 0 : addr, length, offset });
}

static void on_reg_fast_mr(const struct pt_regs *regs)
{
	const struct rxe_send_wqe *wqe = (void *)argument(regs, 1);
	const struct ib_mr *mr = wqe->wr.wr.reg.mr;
	u32 key = wqe->wr.wr.reg.key;

	add_key((struct key){ key, key, mr->iova, mr->length, mr->iova - (uintptr_t)memory });
}

/* On the wire, and on the way that a loopback takes */

static void compare(size_t at, size_t length)
{
	size_t end = at + length;

	checked++;
	if (!memcmp(memory + at, media + at, length))
		return;
	while (at < end && memory[at] == media[at])
		at++;
	if (!lost++)
		first_lost = at;
}

static struct flush *find_flush(u32 qpn, u32 psn)
{
	unsigned int i;

	for (i = 0; i < FLUSHES; i++)
		if (flushes[i].psn == psn && flushes[i].qpn == qpn)
			return &flushes[i];
	return NULL;
}

static void flush_has_come(const struct roce_feth *feth, const struct roce_reth *reth, u32 qpn, u32 psn)
{
	u32 sel_plt = be32_to_cpu(feth->sel_plt);
	struct flush *flush = &flushes[next_flush % FLUSHES];
	u64 va = be64_to_cpu(reth->va);
	u64 length = be32_to_cpu(reth->len);
	const struct key *key;

	/* It came before: if it was answered, what is stored now is none of its business. */
	if (find_flush(qpn, psn))
		return;
	if (!(sel_plt & ROCE_FETH_PLT_PERSISTENT))
		return;
	key = find_key(be32_to_cpu(reth->rkey), false);
	if (key && (sel_plt & ROCE_FETH_SEL_MR)) {
		va = key->va;
		length = key->length;
	}
	if (flush->open || !key || va < key->va || length > key->length ||
	    va - key->va > key->length - length) {
		missed++;
		return;
	}
	*flush = (struct flush){
		.qpn = qpn, .psn = psn, .open = true, .offset = key->offset + (va - key->va),
		.length = length,
	};
	next_flush++;
}

/* It does not name the QP that it comes from. */
static void answer_goes_out(u32 psn)
{
	struct flush *flush = NULL;
	unsigned int i;

	for (i = 0; i < FLUSHES; i++) {
		if (flushes[i].psn != psn || !flushes[i].open)
			continue;
		if (flush)
			missed++;
		flush = &flushes[i];
	}
	if (!flush)
		return;
	flush->open = false;
	compare(flush->offset, flush->length);
	if (images && num_answered < MAX_ANSWERED)
		answered[num_answered++] = *flush;
}

/* @skb stands at its IP header, or has gone past it; @comes or goes. */
static void on_packet(struct sk_buff *skb, bool comes)
{
	struct {
		struct udphdr udp;
		struct roce_bth bth;
		struct roce_feth feth;
		struct roce_reth reth;
	} __packed packet;
	unsigned long flags;
	size_t length;
	u32 qpn, psn;

	if (!skb_transport_header_was_set(skb))
		return;
	length = min_t(size_t, sizeof(packet), skb_tail_pointer(skb) - skb_transport_header(skb));
	if (length < offsetof(typeof(packet), feth))
		return;
	memcpy(&packet, skb_transport_header(skb), length);
	if (packet.udp.dest != htons(ROCE_UDP_PORT))
		return;
	qpn = be32_to_cpu(packet.bth.qpn) & ROCE_24BITS;
	psn = be32_to_cpu(packet.bth.apsn) & ROCE_24BITS;

	flags = take_lock();
	if (comes && packet.bth.opcode == ROCE_RC_FLUSH && length == sizeof(packet))
		flush_has_come(&packet.feth, &packet.reth, qpn, psn);
	else if (packet.bth.opcode == ROCE_RC_READ_RESPONSE_ONLY)
		answer_goes_out(psn);
	moment();
	release_lock(flags);
}

/* All that the driver gets; of a loopback both, requests and answers. */
static void on_rxe_rcv(const struct pt_regs *regs)
{
	on_packet((void *)argument(regs, 0), true);
}

static unsigned int on_output(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	u8 protocol = state->pf == NFPROTO_IPV4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr;

	if (protocol == IPPROTO_UDP)
		on_packet(skb, false);
	return NF_ACCEPT;
}

static const struct nf_hook_ops hooks[] = {
	{ .hook = on_output, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT },
	{ .hook = on_output, .pf = NFPROTO_IPV6, .hooknum = NF_INET_LOCAL_OUT },
};

/* The functions that are watched: by ftrace, for a kprobe misses what an interrupt does meanwhile. */
static struct watch {
	char *name;
	void (*entered)(const struct pt_regs *regs);
	struct ftrace_ops ops;
} watches[] = {
	{ "__memcpy_flushcache", on_memcpy_flushcache },
	{ "arch_wb_cache_pmem", on_arch_wb_cache_pmem },
	{ DAX_MMAP, on_dax_mmap },
	{ "rdma_restrack_add", on_restrack_add },
	{ "rxe_bind_mw", on_bind_mw },
	{ "rxe_reg_fast_mr", on_reg_fast_mr },
	{ "rxe_rcv", on_rxe_rcv },
};

static void on_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
		     struct ftrace_regs *fregs)
{
	container_of(ops, struct watch, ops)->entered(ftrace_get_regs(fregs));
}

static void unwatch(struct watch *behind)
{
	struct watch *watch;

	for (watch = watches; watch < behind; watch++)
		unregister_ftrace_function(&watch->ops);
}

static int watch_all(void)
{
	struct watch *watch;
	int err;

	for (watch = watches; watch < watches + ARRAY_SIZE(watches); watch++) {
		watch->ops.func = on_entry;
		watch->ops.flags = FTRACE_OPS_FL_SAVE_REGS;
		err = ftrace_set_filter(&watch->ops, watch->name, strlen(watch->name), 1);
		if (!err)
			err = register_ftrace_function(&watch->ops);
		if (err) {
			pr_err("write_back_oracle: %s() cannot be watched\n", watch->name);
			unwatch(watch);
			return err;
		}
	}
	return 0;
}

static struct kprobe probes[MAX_DRAINS];
static struct kprobe *probe_list[MAX_DRAINS];

/* Coming and going */

static int report_show(struct seq_file *file, void *unused)
{
	unsigned long flags, missed_probes = 0;
	int i;

	for (i = 0; i < num_drains; i++)
		missed_probes += probes[i].nmissed;

	flags = take_lock();
	seq_printf(file, "checked %lu\nlost %lu\nmissed %lu\nimages %u\n", checked, lost,
		   missed + missed_probes, made);
	if (lost)
		seq_printf(file, "first_lost %zu\n", first_lost);
	release_lock(flags);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(report);

static int moments_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < made; i++)
		seq_printf(file, "%u\n", moments[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(moments);

static int answered_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < num_answered; i++)
		seq_printf(file, "0 %u %zu %zu\n", answered[i].psn, answered[i].offset,
			   answered[i].length);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(answered);

static ssize_t check_write(struct file *file, const char __user *text, size_t n, loff_t *pos)
{
	unsigned long offset, length, flags;
	char buffer[48];

	if (n >= sizeof(buffer) || copy_from_user(buffer, text, n))
		return -EINVAL;
	buffer[n] = 0;
	if (sscanf(buffer, "%lu %lu", &offset, &length) != 2 || offset > size ||
	    length > size - offset)
		return -EINVAL;
	flags = take_lock();
	compare(offset, length);
	release_lock(flags);
	return n;
}

static const struct file_operations check_fops = { .owner = THIS_MODULE, .write = check_write };

static void free_memory(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		vfree(per_cpu(pending, cpu).log);
	vfree(media);
	vfree(image_blob.data);
	vfree(moments);
	vfree(answered);
	bitmap_free(settled);
}

static int alloc_images(void)
{
	image_blob.size = images * image_size;
	image_blob.data = vzalloc(image_blob.size);
	moments = vmalloc(array_size(images, sizeof(*moments)));
	answered = vmalloc(array_size(MAX_ANSWERED, sizeof(*answered)));
	settled = bitmap_alloc(image_size / WORD, GFP_KERNEL);
	return image_blob.data && moments && answered && settled ? 0 : -ENOMEM;
}

static int alloc_memory(void)
{
	int cpu;

	media = vmalloc(size);
	if (!media)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		per_cpu(pending, cpu).log = vmalloc(PENDING_SIZE);
		if (!per_cpu(pending, cpu).log)
			return -ENOMEM;
	}
	return images ? alloc_images() : 0;
}

static int __init oracle_init(void)
{
	int i, err;

	if (!size || !num_drains || !virt_addr_valid(__va(start))) {
		pr_err("write_back_oracle: start=, size= and drains= must say where what is\n");
		return -EINVAL;
	}
	if (images && (!image_size || image_size % WORD || image_size > size || !period)) {
		pr_err("write_back_oracle: images= wants image_size=, a multiple of 8 within size=, and period=\n");
		return -EINVAL;
	}
	for (i = 0; i < num_drains; i++) {
		probes[i].addr = (kprobe_opcode_t *)drains[i];
		probes[i].pre_handler = on_drain;
		probe_list[i] = &probes[i];
	}
	for (i = 0; i < FLUSHES; i++)
		flushes[i].psn = U32_MAX;	/* none has it */
	/* Seeds that resemble each other shall give runs that do not. */
	chance = seed * 2 + 1;
	for (i = 0; i < 8; i++)
		random_number();

	memory = __va(start);
	err = alloc_memory();
	if (err)
		goto free;
	memcpy(media, memory, size);

	err = register_kprobes(probe_list, num_drains);
	if (err)
		goto free;
	err = watch_all();
	if (err)
		goto unprobe;
	err = nf_register_net_hooks(&init_net, hooks, ARRAY_SIZE(hooks));
	if (err)
		goto unwatch;
	directory = debugfs_create_dir("write_back_oracle", NULL);
	debugfs_create_file("report", 0444, directory, NULL, &report_fops);
	debugfs_create_file("check", 0200, directory, NULL, &check_fops);
	debugfs_create_file("moments", 0444, directory, NULL, &moments_fops);
	debugfs_create_file("answered", 0444, directory, NULL, &answered_fops);
	debugfs_create_blob("images", 0444, directory, &image_blob);
	return 0;

unwatch:
	unwatch(watches + ARRAY_SIZE(watches));
unprobe:
	unregister_kprobes(probe_list, num_drains);
free:
	free_memory();
	return err;
}

static void __exit oracle_exit(void)
{
	debugfs_remove(directory);
	nf_unregister_net_hooks(&init_net, hooks, ARRAY_SIZE(hooks));
	unwatch(watches + ARRAY_SIZE(watches));
	unregister_kprobes(probe_list, num_drains);
	free_memory();
}

module_init(oracle_init);
module_exit(oracle_exit);
MODULE_DESCRIPTION("What would be left of persistent memory after a power failure");
MODULE_LICENSE("GPL");

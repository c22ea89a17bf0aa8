// SPDX-License-Identifier: GPL-2.0
/*
 * What would be left of persistent memory if the power went now, and the content of all caches with
 * it?  This module, loaded into the guest of an RDMA target, knows.  It keeps a second copy of the
 * memory, the media, to which a store gets only as it would get to a real one:
 *
 *  - something writes it back: memcpy_flushcache() or arch_wb_cache_pmem().  What lies there at this
 *    moment is then on its way, as seen by this CPU;
 *  - this CPU drains: it executes one of the SFENCE instructions that were named when the module was
 *    loaded.  What was on its way has then arrived.
 *
 * Stores themselves are not watched.  They show as differences between memory and media: whoever
 * stores in whatever way, what is not written back and drained remains one.  So the module compares
 * the two whenever a persistent FLUSH is answered, over the range that was asked for, at the moment
 * when the answer goes out.  Each difference is a store that was acknowledged and would be lost.
 *
 * It also cuts the power: when a given number of RoCE packets has come, no packet gets in or out any
 * more, and the media stays as it is.
 *
 * Nothing of this asks the driver, or knows it: probes are on functions of the architecture and on
 * the mmap of device DAX, which tells what is where; requests and answers are read off the wire.
 *
 * It is stricter than the hardware.  More than an SFENCE drains (locked instructions; a context
 * switch has them), and caches write back lines when they like: the media is the least that is left.
 * It is blind to a store that changes nothing.  It knows one connection at a time, over IPv4, from
 * another machine.
 *
 *	insmod write_back_oracle.ko start=PHYSICAL size=BYTES drains=ADDRESS,... [cut_at=PACKETS]
 *
 * In debugfs, write_back_oracle/report counts: the FLUSHes that were checked, those with a loss, and
 * what the oracle has missed, which has to be nothing; media is the copy.
 */
#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netfilter_ipv4.h>
#include <linux/percpu.h>
#include <linux/udp.h>
#include <linux/vmalloc.h>
#include <net/ip.h>

#include "rxe_mpe_roce.h"

#define MAX_DRAINS	16
/* What a CPU may have on its way: more than the packets that the driver handles in one go. */
#define PENDING_SIZE	(8 << 20)
/* FLUSHes that are not answered yet are told apart by the last bits of the PSN. */
#define FLUSHES		1024

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

static unsigned long cut_at;
module_param(cut_at, ulong, 0444);
MODULE_PARM_DESC(cut_at, "the power goes when so many RoCE packets have come (0: never)");

/* Content that is on its way from a CPU to the media. */
struct write_back {
	size_t offset;
	size_t length;
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
	u32 psn;
	bool open;	/* not answered yet */
	size_t offset;
	size_t length;
};

/* Protects everything below, and the order of what the CPUs do.  Not a spinlock_t: lockdep takes the breakpoint of a
 * probe for an NMI, which could interrupt who holds the lock.  But no CPU is in two probes at once.
 */
static arch_spinlock_t lock = __ARCH_SPIN_LOCK_UNLOCKED;
static u8 *memory;
static struct debugfs_blob_wrapper media;
/* The last mapping of the memory; its addresses are those that a peer uses. */
static unsigned long mapped_at, mapped_end;
static struct flush flushes[FLUSHES];
static unsigned long packets;
static bool power_is_cut;
static unsigned long checked, lost, missed;
static size_t first_lost;

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

/* On the way */

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
		memcpy(one->content, content, length);
		mine->used += need;
	}
	release_lock(flags);
}

static int on_drain(struct kprobe *probe, struct pt_regs *regs)
{
	struct pending *mine;
	struct write_back *one;
	unsigned long flags;
	size_t at;

	flags = take_lock();
	mine = this_cpu_ptr(&pending);
	for (at = 0; at < mine->used && !power_is_cut;
	     at += write_back_size(one->length)) {
		one = (void *)(mine->log + at);
		memcpy((u8 *)media.data + one->offset, one->content, one->length);
	}
	mine->used = 0;
	release_lock(flags);
	return 0;
}

/* It writes back what it is about to store: nothing can drain on this CPU before it has done so. */
static int on_memcpy_flushcache(struct kprobe *probe, struct pt_regs *regs)
{
	send_to_media((void *)regs_get_kernel_argument(regs, 0),
		      (void *)regs_get_kernel_argument(regs, 1),
		      regs_get_kernel_argument(regs, 2));
	return 0;
}

static int on_arch_wb_cache_pmem(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned long from = regs_get_kernel_argument(regs, 0);
	unsigned long to = from + regs_get_kernel_argument(regs, 1);

	from = ALIGN_DOWN(from, boot_cpu_data.x86_clflush_size);
	to = ALIGN(to, boot_cpu_data.x86_clflush_size);
	send_to_media((void *)from, (void *)from, to - from);
	return 0;
}

static int on_dax_mmap(struct kprobe *probe, struct pt_regs *regs)
{
	struct vm_area_struct *vma = (void *)regs_get_kernel_argument(regs, 1);
	unsigned long flags;

	flags = take_lock();
	mapped_at = vma->vm_start - (vma->vm_pgoff << PAGE_SHIFT);
	mapped_end = vma->vm_end;
	release_lock(flags);
	return 0;
}

static struct kprobe probes[3 + MAX_DRAINS] = {
	{ .symbol_name = "__memcpy_flushcache", .pre_handler = on_memcpy_flushcache },
	{ .symbol_name = "arch_wb_cache_pmem", .pre_handler = on_arch_wb_cache_pmem },
	{ .symbol_name = "dax_mmap", .pre_handler = on_dax_mmap },
};
static struct kprobe *probe_list[ARRAY_SIZE(probes)];

/* On the wire */

static void flush_has_come(const struct roce_feth *feth, const struct roce_reth *reth, u32 psn)
{
	u32 sel_plt = be32_to_cpu(feth->sel_plt);
	struct flush *flush = &flushes[psn % FLUSHES];
	u64 va = be64_to_cpu(reth->va);
	u64 length = be32_to_cpu(reth->len);

	/* It came before: if it was answered, what is stored now is none of its business. */
	if (flush->psn == psn)
		return;
	if (!(sel_plt & ROCE_FETH_PLT_PERSISTENT))
		return;
	if (sel_plt & ROCE_FETH_SEL_MR) {
		va = mapped_at;
		length = mapped_end - mapped_at;
	}
	if (flush->open || va < mapped_at || va > mapped_end || length > mapped_end - va ||
	    mapped_end - mapped_at > size) {
		missed++;
		return;
	}
	*flush = (struct flush){
		.psn = psn, .open = true, .offset = va - mapped_at, .length = length,
	};
}

static void answer_goes_out(u32 psn)
{
	struct flush *flush = &flushes[psn % FLUSHES];
	const u8 *left = media.data;
	size_t at, end;

	if (flush->psn != psn || !flush->open)
		return;
	flush->open = false;
	checked++;
	at = flush->offset;
	end = at + flush->length;
	if (!memcmp(memory + at, left + at, flush->length))
		return;
	while (at < end && memory[at] == left[at])
		at++;
	if (!lost++)
		first_lost = at;
}

static unsigned int on_packet(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct {
		struct udphdr udp;
		struct roce_bth bth;
	} __packed buffer, *head;
	struct {
		struct roce_feth feth;
		struct roce_reth reth;
	} __packed ext_buffer, *ext = NULL;
	int at = skb_network_offset(skb) + ip_hdrlen(skb);
	bool incoming = state->hook == NF_INET_LOCAL_IN;
	unsigned long flags;
	bool drop;
	u32 psn;

	if (ip_hdr(skb)->protocol != IPPROTO_UDP)
		return NF_ACCEPT;
	head = skb_header_pointer(skb, at, sizeof(buffer), &buffer);
	if (!head || head->udp.dest != htons(ROCE_UDP_PORT))
		return NF_ACCEPT;
	psn = be32_to_cpu(head->bth.apsn) & ROCE_24BITS;
	if (incoming && head->bth.opcode == ROCE_RC_FLUSH)
		ext = skb_header_pointer(skb, at + sizeof(buffer), sizeof(ext_buffer),
					 &ext_buffer);

	flags = take_lock();
	if (incoming && ++packets == cut_at)
		power_is_cut = true;
	drop = power_is_cut;
	if (drop)
		;
	else if (ext)
		flush_has_come(&ext->feth, &ext->reth, psn);
	else if (!incoming && head->bth.opcode == ROCE_RC_READ_RESPONSE_ONLY)
		answer_goes_out(psn);
	release_lock(flags);
	return drop ? NF_DROP : NF_ACCEPT;
}

static const struct nf_hook_ops hooks[] = {
	{ .hook = on_packet, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_IN },
	{ .hook = on_packet, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT },
};

/* Coming and going */

static int report_show(struct seq_file *file, void *unused)
{
	unsigned long flags, missed_probes = 0;
	int i;

	for (i = 0; i < 3 + num_drains; i++)
		missed_probes += probes[i].nmissed;

	flags = take_lock();
	seq_printf(file, "checked %lu\nlost %lu\nmissed %lu\npower %s\n", checked, lost,
		   missed + missed_probes, power_is_cut ? "off" : "on");
	if (lost)
		seq_printf(file, "first_lost %zu\n", first_lost);
	release_lock(flags);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(report);

static void free_memory(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		vfree(per_cpu(pending, cpu).log);
	vfree(media.data);
}

static int __init oracle_init(void)
{
	int cpu, i, err;

	if (!size || !num_drains || !virt_addr_valid(__va(start))) {
		pr_err("write_back_oracle: start=, size= and drains= must say where what is\n");
		return -EINVAL;
	}
	for (i = 0; i < num_drains; i++) {
		probes[3 + i].addr = (kprobe_opcode_t *)drains[i];
		probes[3 + i].pre_handler = on_drain;
	}
	for (i = 0; i < 3 + num_drains; i++)
		probe_list[i] = &probes[i];
	for (i = 0; i < FLUSHES; i++)
		flushes[i].psn = U32_MAX;	/* none has it */

	memory = __va(start);
	media.size = size;
	media.data = vmalloc(size);
	err = media.data ? 0 : -ENOMEM;
	for_each_possible_cpu(cpu) {
		per_cpu(pending, cpu).log = vmalloc(PENDING_SIZE);
		if (!per_cpu(pending, cpu).log)
			err = -ENOMEM;
	}
	if (err)
		goto free;
	memcpy(media.data, memory, size);

	err = register_kprobes(probe_list, 3 + num_drains);
	if (err)
		goto free;
	err = nf_register_net_hooks(&init_net, hooks, ARRAY_SIZE(hooks));
	if (err)
		goto unprobe;
	directory = debugfs_create_dir("write_back_oracle", NULL);
	debugfs_create_file("report", 0444, directory, NULL, &report_fops);
	debugfs_create_blob("media", 0444, directory, &media);
	return 0;

unprobe:
	unregister_kprobes(probe_list, 3 + num_drains);
free:
	free_memory();
	return err;
}

static void __exit oracle_exit(void)
{
	debugfs_remove(directory);
	nf_unregister_net_hooks(&init_net, hooks, ARRAY_SIZE(hooks));
	unregister_kprobes(probe_list, 3 + num_drains);
	free_memory();
}

module_init(oracle_init);
module_exit(oracle_exit);
MODULE_DESCRIPTION("What would be left of persistent memory after a power failure");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
#include "trace.h"

#if defined(__x86_64__)
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "content.h"
#include "instruction.h"
#include "model.h"

#define HERE		UINT64_MAX	/* as a place to write to, as pwritev2() has it: the position of the descriptor */
#define HOT		8		/* pages at most: an instruction may store to two */
#define PATIENCE	200000	/* instructions after the last store, write-back or fence */
#define STACK_WORDS	128	/* that are searched for a caller */
#define OPTIONS		(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | \
			 PTRACE_O_EXITKILL)

struct mapping {
	uint64_t start, end, offset;	/* in the file */
	bool writable;			/* as the program knows it */
};

/* A program, or a library. */
struct module {
	char *path;			/* NULL: not known */
	uint64_t base, code, code_end;
	bool is_fixed;			/* its addresses are those of its file */
};

/* A page that can be written just now. */
struct hot_page {
	uint64_t address, offset;
};

/* Of a process */
struct space {
	LIST(struct mapping) mappings;
	LIST(struct hot_page) hot;
	uint64_t syscall;		/* the address of such an instruction */
	struct module program, library;	/* that one of the last store by a library */
};

/* A thread */
struct tracee {
	pid_t tid;
	struct space *space;		/* NULL: the event that tells whose child it is has not come yet */
	bool in_call, is_stepping, is_redone;
	struct user_regs_struct regs, entry;
	uint64_t address;		/* of the instruction that it executes now */
	struct instruction instruction;
	bool is_call;			/* that one is SYSCALL */
};

/* What is known of a store that is not durable yet. */
struct pending {
	uint32_t before;		/* the one before it in its line, plus 1; those that are done may be left out */
	pid_t thread;			/* that has written it back, or stored it around the cache, without a fence since; or 0 */
	bool is_done;			/* durable */
};

struct tracer {
	struct trace *trace;
	const struct lent *file;
	struct stat st;
	uint8_t *shadow;		/* of the file */
	uint32_t *newest;		/* store of each line, plus 1 */
	LIST(struct pending) pendings;	/* one for each store */
	LIST(uint32_t) waiting;		/* for a fence */
	size_t open;			/* stores that are not durable */
	uint32_t instructions;
	unsigned int patience;
	LIST(struct tracee) tracees;
	struct timespec began;
	unsigned int seconds;
};

static struct tracee *find_tracee(struct tracer *t, pid_t tid)
{
	for (size_t i = 0; i < t->tracees.n; i++)
		if (t->tracees.v[i].tid == tid)
			return &t->tracees.v[i];
	*list_add(&t->tracees) = (struct tracee){ .tid = tid };
	return &t->tracees.v[t->tracees.n - 1];
}

static void read_tracee(const struct tracee *tracee, uint64_t address, void *to, size_t size)
{
	struct iovec here = { to, size }, there = { (void *)address, size };

	memset(to, 0, size);
	/* It may end in the middle, at the end of what is mapped. */
	if (process_vm_readv(tracee->tid, &here, 1, &there, 1, 0) < (ssize_t)size && address % PAGE + size > PAGE) {
		here.iov_len = there.iov_len = PAGE - address % PAGE;
		process_vm_readv(tracee->tid, &here, 1, &there, 1, 0);
	}
}

/******************************************************************************
 * Where a store is in its program
 */

/* What of a process's addresses belongs to the file @path, or, if that is NULL, to that with @address. */
static struct module find_module(const struct tracee *tracee, const char *path, uint64_t address)
{
	struct module found = { }, each = { };
	char *name = xasprintf("/proc/%d/maps", tracee->tid), rights[5], *line = NULL;
	FILE *maps = fopen(name, "r");
	uint64_t from, to;
	size_t room = 0;
	Elf64_Ehdr header;
	int at;

	while (maps && getline(&line, &room, maps) > 0) {
		line[strcspn(line, "\n")] = 0;
		at = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &from, &to, rights, &at) < 3 || !at)
			continue;
		if (!each.path || strcmp(line + at, each.path)) {
			free(each.path);
			each = (struct module){ .path = xasprintf("%s", line + at), .base = from };
		}
		if (rights[2] != 'x' || (path ? strcmp(each.path, path) : address < from || address >= to))
			continue;
		found = (struct module){ xasprintf("%s", each.path), each.base, from, to, false };
		break;
	}
	if (found.path) {
		read_tracee(tracee, found.base, &header, sizeof(header));
		found.is_fixed = header.e_type == ET_EXEC;
	}
	free(each.path);
	free(line);
	free(name);
	if (maps)
		fclose(maps);
	return found;
}

static void find_program(struct tracee *tracee)
{
	char *exe = xasprintf("/proc/%d/exe", tracee->tid), path[4096] = "";

	if (readlink(exe, path, sizeof(path) - 1) >= 0)
		tracee->space->program = find_module(tracee, path, 0);
	free(exe);
}

static bool is_in(const struct module *module, uint64_t address)
{
	return address >= module->code && address < module->code_end;
}

static struct site site_at(const struct module *module, uint64_t address)
{
	return (struct site){ module->path, module->is_fixed ? address : address - module->base };
}

/* The instruction, or, if it is one of a library, what looks like its callers on the stack. */
static void find_sites(struct tracee *tracee, struct site *sites)
{
	const struct module *program = &tracee->space->program;
	struct module *library = &tracee->space->library;
	uint64_t stack[STACK_WORDS];
	unsigned int n = 0;

	if (!program->path)
		find_program(tracee);
	if (is_in(program, tracee->address)) {
		sites[0] = site_at(program, tracee->address);
		return;
	}
	read_tracee(tracee, tracee->regs.rsp, stack, sizeof(stack));
	for (size_t i = 0; i < STACK_WORDS && n < SITES; i++)
		if (is_in(program, stack[i]))
			sites[n++] = site_at(program, stack[i] - 1);
	if (!n && !is_in(library, tracee->address))
		*library = find_module(tracee, NULL, tracee->address);
	if (!n && library->path)
		sites[0] = site_at(library, tracee->address);
}

/******************************************************************************
 * Stores, and what makes them durable
 */

static void add_store(struct tracer *t, struct tracee *tracee, uint64_t offset, uint64_t value, bool is_free, const struct site *sites)
{
	struct trace *trace = t->trace;
	uint32_t *newest = &t->newest[offset / CPU_LINE];
	struct store store = {
		.offset = offset, .value = value, .address = tracee->address, .instruction = t->instructions, .is_free = is_free,
		.made = trace->windows, .durable = LASTS,
	};
	bool waits = tracee->instruction.kind == NT_STORE;

	memcpy(store.sites, sites, sizeof(store.sites));
	*list_add(&trace->stores) = store;
	*list_add(&t->pendings) = (struct pending){ .before = *newest, .thread = waits ? tracee->tid : 0 };
	*newest = trace->stores.n;
	if (waits)
		*list_add(&t->waiting) = trace->stores.n - 1;
	t->open++;
	t->patience = PATIENCE;
	trace->kind = mix64(trace->kind ^ (sites->program ? sites->offset : tracee->address));
}

/* What has changed of the page. */
static void compare_page(struct tracer *t, struct tracee *tracee, uint64_t page, bool by_kernel)
{
	const uint64_t *is = (const uint64_t *)(t->file->map + page);
	uint64_t *was = (uint64_t *)(t->shadow + page), left = t->file->size - page;
	struct site sites[SITES] = { };
	bool found = false;

	if (!memcmp(is, was, left < PAGE ? left : PAGE))
		return;
	for (size_t i = 0; i < PAGE / WORD && i < left / WORD; i++) {
		if (is[i] == was[i])
			continue;
		if (!found)
			find_sites(tracee, sites);
		found = true;
		was[i] = is[i];
		add_store(t, tracee, page + i * WORD, is[i], by_kernel || tracee->instruction.kind == NT_STORE, sites);
	}
}

static void compare_hot(struct tracer *t, struct tracee *tracee, bool by_kernel)
{
	const struct space *space = tracee->space;

	t->instructions++;
	for (size_t i = 0; i < space->hot.n; i++)
		compare_page(t, tracee, space->hot.v[i].offset, by_kernel);
}

/* The kernel has stored to this part of the file. */
static void compare_range(struct tracer *t, struct tracee *tracee, uint64_t from, uint64_t to)
{
	t->instructions++;
	tracee->instruction.kind = OTHER;
	for (from -= from % PAGE; from < to && from < t->file->size; from += PAGE)
		compare_page(t, tracee, from, true);
}

/* It may have stored anywhere. */
static void compare_all(struct tracer *t, struct tracee *tracee)
{
	off_t at = 0, end;

	t->instructions++;
	tracee->instruction.kind = OTHER;
	while ((at = lseek(t->file->fd, at, SEEK_DATA)) >= 0 && (uint64_t)at < t->file->size) {
		end = lseek(t->file->fd, at, SEEK_HOLE);
		for (at -= at % PAGE; at < end && (uint64_t)at < t->file->size; at += PAGE)
			compare_page(t, tracee, at, true);
	}
}

static void make_durable(struct tracer *t, uint32_t store)
{
	if (t->pendings.v[store].is_done)
		return;
	t->pendings.v[store].is_done = true;
	t->trace->stores.v[store].durable = t->trace->windows + 1;
	t->open--;
}

/* Stores that are durable from now on are so in the next window. */
static void end_window(struct tracer *t, size_t open)
{
	if (open == t->open)
		return;
	t->trace->windows++;
	t->patience = PATIENCE;
}

static void make_range_durable(struct tracer *t, uint64_t from, uint64_t to)
{
	size_t open = t->open;

	for (uint32_t i = 0; i < t->trace->stores.n && t->open; i++)
		if (t->trace->stores.v[i].offset >= from && t->trace->stores.v[i].offset < to)
			make_durable(t, i);
	end_window(t, open);
}

static void write_back(struct tracer *t, const struct tracee *tracee, uint64_t offset)
{
	bool at_once = !strcmp(tracee->instruction.name, "clflush");
	uint32_t *link = &t->newest[offset / CPU_LINE];
	size_t open = t->open;

	while (*link) {
		struct pending *pending = &t->pendings.v[*link - 1];

		if (pending->is_done) {
			*link = pending->before;
			continue;
		}
		if (at_once) {
			make_durable(t, *link - 1);
		} else {
			pending->thread = tracee->tid;
			*list_add(&t->waiting) = *link - 1;
		}
		link = &pending->before;
	}
	t->patience = PATIENCE;
	end_window(t, open);
}

static void fence(struct tracer *t, const struct tracee *tracee)
{
	size_t open = t->open, left = 0;

	for (size_t i = 0; i < t->waiting.n; i++) {
		uint32_t store = t->waiting.v[i];

		if (t->pendings.v[store].thread == tracee->tid)
			make_durable(t, store);
		else if (!t->pendings.v[store].is_done)
			t->waiting.v[left++] = store;
	}
	t->waiting.n = left;
	end_window(t, open);
}

/******************************************************************************
 * The program's memory
 */

static struct mapping *mapping_at(const struct space *space, uint64_t address)
{
	for (size_t i = 0; i < space->mappings.n; i++)
		if (address >= space->mappings.v[i].start && address < space->mappings.v[i].end)
			return &space->mappings.v[i];
	return NULL;
}

static void get_registers(const struct tracee *tracee, struct user_regs_struct *regs)
{
	/* It may have been killed, and waitpid() says so. */
	if (ptrace(PTRACE_GETREGS, tracee->tid, NULL, regs))
		memset(regs, 0, sizeof(*regs));
}

/* No signal is taken from the program meanwhile. */
static void protect(const struct tracee *tracee, uint64_t start, uint64_t length, int rights)
{
	uint64_t blocked = 0, all = ~(1ull << (SIGTRAP - 1));
	struct user_regs_struct saved, regs;
	int status;

	ptrace(PTRACE_GETSIGMASK, tracee->tid, sizeof(blocked), &blocked);
	ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(all), &all);
	get_registers(tracee, &saved);
	regs = saved;
	regs.rip = tracee->space->syscall;
	regs.rax = SYS_mprotect;
	regs.rdi = start;
	regs.rsi = length;
	regs.rdx = rights;
	regs.orig_rax = -1;
	ptrace(PTRACE_SETREGS, tracee->tid, NULL, &regs);
	do {
		ptrace(PTRACE_SINGLESTEP, tracee->tid, NULL, 0);
		while (waitpid(tracee->tid, &status, __WALL) < 0)
			if (errno != EINTR)
				return;
		get_registers(tracee, &regs);
	} while (WIFSTOPPED(status) && regs.rip != tracee->space->syscall + 2);
	ptrace(PTRACE_SETREGS, tracee->tid, NULL, &saved);
	ptrace(PTRACE_SETSIGMASK, tracee->tid, sizeof(blocked), &blocked);
}

static void cool_first(struct tracer *t, struct tracee *tracee)
{
	struct space *space = tracee->space;

	protect(tracee, space->hot.v[0].address, PAGE, PROT_READ);
	compare_page(t, tracee, space->hot.v[0].offset, false);	/* another thread may have stored to it */
	memmove(space->hot.v, space->hot.v + 1, --space->hot.n * sizeof(*space->hot.v));
}

/* True if it is a store to the file: it may go on. */
static bool take_fault(struct tracer *t, struct tracee *tracee)
{
	struct mapping *mapping;
	uint64_t page;
	siginfo_t info;

	if (!tracee->space || ptrace(PTRACE_GETSIGINFO, tracee->tid, NULL, &info) || info.si_code != SEGV_ACCERR)
		return false;
	mapping = mapping_at(tracee->space, (uint64_t)info.si_addr);
	if (!mapping || !mapping->writable)
		return false;
	page = (uint64_t)info.si_addr / PAGE * PAGE;
	if (tracee->space->hot.n == HOT)
		cool_first(t, tracee);
	protect(tracee, page, PAGE, PROT_READ | PROT_WRITE);
	*list_add(&tracee->space->hot) = (struct hot_page){ page, page - mapping->start + mapping->offset };
	return true;
}

static void cool(struct tracer *t, struct tracee *tracee)
{
	while (tracee->space->hot.n)
		cool_first(t, tracee);
}

/* What is unmapped, or lies below another mapping now. */
static void remove_mapping(struct space *space, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < space->mappings.n; i++) {
		struct mapping *m = &space->mappings.v[i], rest = *m;

		if (m->end <= from || m->start >= to)
			continue;
		if (rest.end > to) {
			rest.offset += to - rest.start;
			rest.start = to;
			*list_add(&space->mappings) = rest;
			m = &space->mappings.v[i];
		}
		m->end = from > m->start ? from : m->start;
	}
	for (size_t i = space->hot.n; i--;)
		if (space->hot.v[i].address >= from && space->hot.v[i].address < to)
			space->hot.v[i] = space->hot.v[--space->hot.n];
}

/******************************************************************************
 * System calls
 */

struct descriptor {
	uint64_t position;	/* of its file */
	unsigned int flags;	/* as of open() */
};

static bool is_file(const struct tracer *t, const struct tracee *tracee, uint64_t fd, struct descriptor *of)
{
	char *path = xasprintf("/proc/%d/fd/%d", tracee->tid, (int)fd), *info = xasprintf("/proc/%d/fdinfo/%d", tracee->tid, (int)fd);
	struct stat st;
	bool is = !stat(path, &st) && st.st_dev == t->st.st_dev && st.st_ino == t->st.st_ino;
	FILE *file = is && of ? fopen(info, "r") : NULL;

	if (of)
		*of = (struct descriptor){ };
	if (file) {
		if (fscanf(file, "pos: %" SCNu64 " flags: %o", &of->position, &of->flags) != 2)
			fail("%s: it has no position and flags", info);
		fclose(file);
	}
	free(path);
	free(info);
	return is;
}

static bool maps_file(const struct tracer *t, const struct tracee *tracee, struct descriptor *of)
{
	const struct user_regs_struct *entry = &tracee->entry;

	return (entry->r10 & MAP_TYPE) != MAP_PRIVATE && !(entry->r10 & MAP_ANONYMOUS) && is_file(t, tracee, entry->r8, of);
}

/* A mapping that could be written cannot.  What fails without that, as the descriptor is for reading only, is left alone. */
static void enter_call(struct tracer *t, struct tracee *tracee)
{
	struct user_regs_struct regs;
	struct descriptor of;

	get_registers(tracee, &tracee->entry);
	regs = tracee->entry;
	tracee->space->syscall = regs.rip - 2;
	if (regs.orig_rax == SYS_io_uring_setup || regs.orig_rax == SYS_io_submit)
		fail("--recovery: it calls %s(), and what the kernel stores by that cannot be followed",
		     regs.orig_rax == SYS_io_submit ? "io_submit" : "io_uring_setup");
	if (!(regs.rdx & PROT_WRITE))
		return;
	if (regs.orig_rax == SYS_mmap && maps_file(t, tracee, &of) && (of.flags & O_ACCMODE) == O_RDWR) {
		regs.rdx &= ~PROT_WRITE;
		ptrace(PTRACE_SETREGS, tracee->tid, NULL, &regs);
	}
}

static void leave_mapping(struct tracer *t, struct tracee *tracee, uint64_t start)
{
	const struct user_regs_struct *entry = &tracee->entry;
	uint64_t length = (entry->rsi + PAGE - 1) / PAGE * PAGE;

	remove_mapping(tracee->space, start, start + length);
	if (maps_file(t, tracee, NULL))
		*list_add(&tracee->space->mappings) = (struct mapping){ start, start + length, entry->r9, entry->rdx & PROT_WRITE };
}

/* What it names is a mapping of its own from now on; there may be other memory around it. */
static void leave_mprotect(struct tracee *tracee)
{
	const struct user_regs_struct *entry = &tracee->entry;
	uint64_t from = entry->rdi, to = from + (entry->rsi + PAGE - 1) / PAGE * PAGE;
	LIST(struct mapping) parts = { };

	for (size_t i = 0; i < tracee->space->mappings.n; i++) {
		struct mapping m = tracee->space->mappings.v[i];
		uint64_t start = from > m.start ? from : m.start, end = to < m.end ? to : m.end;

		if (start < end)
			*list_add(&parts) = (struct mapping){ start, end, m.offset + start - m.start, entry->rdx & PROT_WRITE };
	}
	remove_mapping(tracee->space, from, to);
	for (size_t i = 0; i < parts.n; i++) {
		*list_add(&tracee->space->mappings) = parts.v[i];
		if (parts.v[i].writable)
			protect(tracee, parts.v[i].start, parts.v[i].end - parts.v[i].start, PROT_READ);
	}
	free(parts.v);
}

static void leave_mremap(struct tracee *tracee, uint64_t start)
{
	const struct user_regs_struct *entry = &tracee->entry;
	struct mapping *old = mapping_at(tracee->space, entry->rdi), moved;

	if (!old)
		return;
	moved = *old;
	moved.offset += entry->rdi - old->start;
	moved.start = start;
	moved.end = start + (entry->rdx + PAGE - 1) / PAGE * PAGE;
	remove_mapping(tracee->space, entry->rdi, entry->rdi + (entry->rsi + PAGE - 1) / PAGE * PAGE);
	*list_add(&tracee->space->mappings) = moved;
}

static void leave_msync(struct tracer *t, struct tracee *tracee)
{
	const struct user_regs_struct *entry = &tracee->entry;
	uint64_t from = entry->rdi, to = entry->rdi + (entry->rsi + PAGE - 1) / PAGE * PAGE;

	if (!(entry->rdx & MS_SYNC))
		return;
	for (size_t i = 0; i < tracee->space->mappings.n; i++) {
		const struct mapping *m = &tracee->space->mappings.v[i];
		uint64_t start = from > m->start ? from : m->start, end = to < m->end ? to : m->end;

		if (start < end)
			make_range_durable(t, start - m->start + m->offset, end - m->start + m->offset);
	}
}

/*
 * The kernel has stored @length bytes to the file by its descriptor @fd: at @place, or, if that is HERE, just before the
 * descriptor's position.
 */
static void leave_write(struct tracer *t, struct tracee *tracee, uint64_t fd, uint64_t place, uint64_t length)
{
	bool by_flag = tracee->entry.orig_rax == SYS_pwritev2 && tracee->entry.r9 & (RWF_DSYNC | RWF_SYNC);
	struct descriptor of;

	if (!is_file(t, tracee, fd, &of))
		return;
	if (place == HERE)
		place = of.position - length;
	compare_range(t, tracee, place, place + length);
	if (by_flag || of.flags & O_DSYNC)
		make_range_durable(t, place / WORD * WORD, place + length);
}

/* The place that a pointer of the program tells, which the call has moved on. */
static uint64_t place_at(const struct tracee *tracee, uint64_t pointer, uint64_t length)
{
	uint64_t place = HERE;

	if (!pointer)
		return HERE;
	read_tracee(tracee, pointer, &place, sizeof(place));
	return place - length;
}

/* The kernel could not store to memory that is kept from being written: let it do so now, and look. */
static void redo_call(struct tracee *tracee)
{
	struct user_regs_struct regs = tracee->entry;

	for (size_t i = 0; i < tracee->space->mappings.n; i++) {
		const struct mapping *m = &tracee->space->mappings.v[i];

		if (m->writable && m->start < m->end)
			protect(tracee, m->start, m->end - m->start, PROT_READ | PROT_WRITE);
	}
	regs.rip -= 2;
	regs.rax = regs.orig_rax;
	ptrace(PTRACE_SETREGS, tracee->tid, NULL, &regs);
	tracee->is_redone = true;
}

static void end_redone_call(struct tracer *t, struct tracee *tracee)
{
	tracee->is_redone = false;
	for (size_t i = 0; i < tracee->space->mappings.n; i++) {
		const struct mapping *m = &tracee->space->mappings.v[i];

		if (m->start < m->end)
			protect(tracee, m->start, m->end - m->start, PROT_READ);
	}
	tracee->space->hot.n = 0;
	compare_all(t, tracee);
}

static void leave_call(struct tracer *t, struct tracee *tracee)
{
	const struct user_regs_struct *entry = &tracee->entry;
	struct user_regs_struct *regs = &tracee->regs;
	struct stat st;
	int64_t result;

	get_registers(tracee, regs);
	result = regs->rax;
	tracee->address = entry->rip - 2;
	if (stat(t->file->image, &st) || st.st_ino != t->st.st_ino || st.st_dev != t->st.st_dev)
		fail("--recovery: it moves $IMAGE, or puts another file there, as by rename(), which no NVDIMM can: let it store to $IMAGE itself");
	if ((uint64_t)st.st_size != t->file->size)
		fail("--recovery: it changes the size of $IMAGE, which no NVDIMM can: let it work on what is there");
	if (regs->rdx != entry->rdx && entry->orig_rax == SYS_mmap) {
		regs->rdx = entry->rdx;
		ptrace(PTRACE_SETREGS, tracee->tid, NULL, regs);
	}
	if (tracee->is_redone) {
		end_redone_call(t, tracee);
	} else if (result == -EFAULT && tracee->space->mappings.n) {
		redo_call(tracee);
		return;
	}
	if (result < 0 && result > -PAGE)
		return;
	switch (entry->orig_rax) {
	case SYS_mmap: leave_mapping(t, tracee, result); break;
	case SYS_mremap: leave_mremap(tracee, result); break;
	case SYS_munmap: remove_mapping(tracee->space, entry->rdi, entry->rdi + (entry->rsi + PAGE - 1) / PAGE * PAGE); break;
	case SYS_mprotect: leave_mprotect(tracee); break;
	case SYS_msync: leave_msync(t, tracee); break;
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_syncfs:
		if (is_file(t, tracee, entry->rdi, NULL))
			make_range_durable(t, 0, UINT64_MAX);
		break;
	case SYS_sync: make_range_durable(t, 0, UINT64_MAX); break;
	case SYS_write:
	case SYS_writev:
	case SYS_sendfile: leave_write(t, tracee, entry->rdi, HERE, result); break;
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_pwritev2: leave_write(t, tracee, entry->rdi, entry->r10, result); break;
	case SYS_fallocate: leave_write(t, tracee, entry->rdi, entry->rdx, entry->r10); break;
	case SYS_copy_file_range:
	case SYS_splice: leave_write(t, tracee, entry->rdx, place_at(tracee, entry->r10, result), result); break;
	}
}

/******************************************************************************
 * Instructions
 */

static uint64_t address_of(const struct tracee *tracee)
{
	const struct user_regs_struct *r = &tracee->regs;
	const unsigned long long by_number[] = {
		r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14,
		r->r15, r->fs_base, r->gs_base,
	};
	const struct instruction *i = &tracee->instruction;
	uint64_t address = i->displacement;

	if (i->base >= 0)
		address += by_number[i->base];
	if (i->index >= 0)
		address += by_number[i->index] << i->scale;
	if (i->short_address)
		address = (uint32_t)address;
	return i->segment >= 0 ? address + by_number[i->segment] : address;
}

/* What it will execute next. */
static void look_ahead(struct tracee *tracee)
{
	uint8_t bytes[INSTRUCTION_MAX + 1];

	get_registers(tracee, &tracee->regs);
	tracee->address = tracee->regs.rip;
	read_tracee(tracee, tracee->address, bytes, INSTRUCTION_MAX);
	decode(bytes, INSTRUCTION_MAX, tracee->address, &tracee->instruction);
	tracee->is_call = bytes[0] == 0x0f && bytes[1] == 0x05;
}

/* It has executed one. */
static void look_back(struct tracer *t, struct tracee *tracee)
{
	const struct mapping *mapping;
	uint64_t address;

	compare_hot(t, tracee, false);
	if (tracee->instruction.kind == FENCE) {
		fence(t, tracee);
	} else if (tracee->instruction.kind == WRITE_BACK) {
		address = address_of(tracee);
		mapping = mapping_at(tracee->space, address);
		if (mapping)
			write_back(t, tracee, address - mapping->start + mapping->offset);
	}
	if (!t->open || --t->patience)
		return;
	t->trace->guessed = true;
	make_range_durable(t, 0, UINT64_MAX);
}

/******************************************************************************
 * Its processes
 */

/* Those that run freely stop, and are told to go instruction by instruction, too. */
static void stop_others(struct tracer *t, const struct tracee *tracee)
{
	for (size_t i = 0; i < t->tracees.n; i++)
		if (t->tracees.v[i].tid != tracee->tid && t->tracees.v[i].space)
			ptrace(PTRACE_INTERRUPT, t->tracees.v[i].tid, NULL, NULL);
}

static void go_on(struct tracer *t, struct tracee *tracee, int signal)
{
	tracee->is_stepping = false;
	if (!t->open && !tracee->in_call) {	/* no call can be made in a call */
		cool(t, tracee);
		if (t->open)
			stop_others(t, tracee);
	}
	if (t->open && !tracee->in_call) {
		look_ahead(tracee);
		tracee->is_stepping = !tracee->is_call;
	}
	ptrace(tracee->is_stepping ? PTRACE_SINGLESTEP : PTRACE_SYSCALL, tracee->tid, NULL, signal);
}

/* After a fault: the store is executed alone. */
static void step(struct tracee *tracee)
{
	look_ahead(tracee);
	tracee->is_stepping = true;
	ptrace(PTRACE_SINGLESTEP, tracee->tid, NULL, 0);
}

static void add_child(struct tracer *t, pid_t parent, bool is_thread)
{
	struct space *space = find_tracee(t, parent)->space;
	unsigned long tid;
	struct tracee *child;
	bool is_stopped;

	if (ptrace(PTRACE_GETEVENTMSG, parent, NULL, &tid))
		return;
	is_stopped = false;
	for (size_t i = 0; i < t->tracees.n; i++)
		is_stopped |= t->tracees.v[i].tid == (pid_t)tid;
	child = find_tracee(t, tid);
	child->space = space;
	if (!is_thread) {
		child->space = xcalloc(1, sizeof(*space));
		*child->space = (struct space){ .syscall = space->syscall };
		for (size_t i = 0; i < space->mappings.n; i++)
			*list_add(&child->space->mappings) = space->mappings.v[i];
		for (size_t i = 0; i < space->hot.n; i++)
			*list_add(&child->space->hot) = space->hot.v[i];
	}
	if (is_stopped)
		go_on(t, child, 0);
}

static void take_event(struct tracer *t, pid_t tid, int event, int signal)
{
	struct tracee *tracee;

	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
		add_child(t, tid, event == PTRACE_EVENT_CLONE);
	tracee = find_tracee(t, tid);
	if (event == PTRACE_EVENT_EXEC)
		*tracee->space = (struct space){ };
	if (event == PTRACE_EVENT_STOP && (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU))
		ptrace(PTRACE_LISTEN, tid, NULL, NULL);
	else if (tracee->space)		/* otherwise its parent's event comes next */
		go_on(t, tracee, 0);
}

/* It is no breakpoint of the program. */
static bool is_step(const struct tracee *tracee)
{
	siginfo_t info;

	return !ptrace(PTRACE_GETSIGINFO, tracee->tid, NULL, &info) && info.si_code != SI_KERNEL;
}

static void take_call(struct tracer *t, struct tracee *tracee)
{
	struct __ptrace_syscall_info info = { };
	bool was_in_call = tracee->in_call;

	ptrace(PTRACE_GET_SYSCALL_INFO, tracee->tid, sizeof(info), &info);
	tracee->in_call = info.op == PTRACE_SYSCALL_INFO_ENTRY;
	if (tracee->in_call) {
		enter_call(t, tracee);
	} else if (was_in_call) {	/* the first exit is that of execve(), of which the entry was not seen */
		leave_call(t, tracee);
		compare_hot(t, tracee, true);
	}
}

static void take_stop(struct tracer *t, pid_t tid, int status)
{
	struct tracee *tracee = find_tracee(t, tid);
	int signal = WSTOPSIG(status), event = status >> 16;
	bool had_open = t->open, is_fault = false;

	if (event) {
		take_event(t, tid, event, signal);
		return;
	}
	if (signal == (SIGTRAP | 0x80)) {
		take_call(t, tracee);
		signal = 0;
	} else if (signal == SIGTRAP && is_step(tracee)) {
		if (tracee->is_stepping)
			look_back(t, tracee);
		signal = 0;
	} else if (signal == SIGSEGV) {
		is_fault = take_fault(t, tracee);
	}
	if (!had_open && t->open)
		stop_others(t, tracee);
	if (is_fault)
		step(tracee);
	else
		go_on(t, tracee, signal);
}

static void remove_tracee(struct tracer *t, pid_t tid)
{
	for (size_t i = 0; i < t->tracees.n; i++)
		if (t->tracees.v[i].tid == tid)
			t->tracees.v[i--] = t->tracees.v[--t->tracees.n];
}

static void nothing(int signal) { (void)signal; }

/* So that waitpid() ends, too. */
static void tick(bool on)
{
	const struct itimerval each = { .it_interval.tv_usec = on ? 100000 : 0, .it_value.tv_usec = on ? 100000 : 0 };
	const struct sigaction action = { .sa_handler = nothing };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
}

/* Until all have ended. */
static void follow(struct tracer *t, pid_t first)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (seconds_since(&t->began) > t->seconds) {
			t->trace->too_slow = true;
			for (size_t i = 0; i < t->tracees.n; i++)
				kill(t->tracees.v[i].tid, SIGKILL);
		}
		if (tid < 0)
			continue;
		if (WIFSTOPPED(status)) {
			take_stop(t, tid, status);
			continue;
		}
		if (tid == first)
			t->trace->status = status;
		remove_tracee(t, tid);
		if (!t->tracees.n)
			break;
	}
}

/* It waits for a line, as ptrace has to be there before its first instruction. */
static pid_t start(struct tracer *t, const char *command)
{
	char *argv[] = { "sh", "-c", "read -r go && exec sh -c \"$0\" </dev/null >/dev/null 2>&1", (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	struct tracee *tracee;
	int in[2];
	pid_t pid;

	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGIO);
	if (pipe2(in, O_CLOEXEC))
		fail_errno("pipe");
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &usual);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	errno = posix_spawnp(&pid, "sh", &actions, &attr, argv, t->file->environment);
	if (errno)
		fail_errno("--recovery: sh");
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	close(in[0]);
	if (ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS)) {
		kill(pid, SIGKILL);
		fail_errno("--recovery: ptrace, which a container may forbid");
	}
	tracee = find_tracee(t, pid);
	tracee->space = xcalloc(1, sizeof(*tracee->space));
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	if (write(in[1], "\n", 1) != 1)
		fail_errno("pipe");
	close(in[1]);
	return pid;
}

/* A copy of the file, but for its holes. */
static void copy_file(const struct tracer *t)
{
	off_t at = 0, end;

	while ((at = lseek(t->file->fd, at, SEEK_DATA)) >= 0 && (uint64_t)at < t->file->size) {
		end = lseek(t->file->fd, at, SEEK_HOLE);
		if ((uint64_t)end > t->file->size)
			end = t->file->size;
		memcpy(t->shadow + at, t->file->map + at, end - at);
		at = end;
	}
}

void trace_run(struct trace *trace, const char *command, const struct lent *file, unsigned int seconds)
{
	struct tracer t = { .trace = trace, .file = file, .seconds = seconds };
	size_t room = (file->size + PAGE - 1) / PAGE * PAGE;

	*trace = (struct trace){ .status = SIGKILL };
	if (fstat(file->fd, &t.st))
		fail_errno("%s", file->image);
	t.shadow = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t.shadow == MAP_FAILED)
		fail_errno("mmap");
	t.newest = xcalloc(room / CPU_LINE, sizeof(*t.newest));
	copy_file(&t);
	clock_gettime(CLOCK_MONOTONIC, &t.began);
	tick(true);
	follow(&t, start(&t, command));
	tick(false);
	munmap(t.shadow, room);
	free(t.newest);
	free(t.pendings.v);
	free(t.waiting.v);
	free(t.tracees.v);
}

#else

void trace_run(struct trace *trace, const char *command, const struct lent *file, unsigned int seconds)
{
	(void)trace, (void)command, (void)file, (void)seconds;
	fail("--recovery follows programs of x86-64 only");
}

#endif

void trace_free(struct trace *trace)
{
	free(trace->stores.v);
	*trace = (struct trace){ };
}

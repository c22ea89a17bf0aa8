// SPDX-License-Identifier: GPL-2.0
/*
 * Executes stores, write-backs and fences on persistent memory, each by one instruction, and prints the lines that
 * `rxe-vm --record-cpu` has to write down of them, without the position.
 *
 *	cpu-instructions DEVICE
 *
 * Each of them has a cache line of its own.
 */
#include <asm/prctl.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE	(2 << 20)
#define LINE	64
/* Addresses of 32 bits reach it, and code that is in CODE. */
#define MEMORY	0x40000000ul
#define CODE	0x30000000ul

static unsigned long line = MEMORY;

static unsigned long next_line(void) { return line += LINE; }

/* Not printed at once, because stdio locks, which is a fence. */
static char lines[8192];
static size_t used;

#define EXPECT(...) (used += sprintf(lines + used, __VA_ARGS__))

static void expect_bytes(const char *operation, unsigned long place, unsigned int length)
{
	EXPECT("1 %s %lu ", operation, place - MEMORY);
	for (unsigned int i = 0; i < length; i++)
		EXPECT("%02x", ((const uint8_t *)place)[i]);
	EXPECT("\n");
}

/* @place is where the instruction stores, by %[at]; @number is in %[number], and twice in XMM0. */
#define STORE(operation, text, place, length) do { \
	const unsigned long number = 0x1122334455667788, to = place; \
	asm volatile("movq %[number], %%xmm0; punpcklqdq %%xmm0, %%xmm0; " text \
		     :: [at] "r"(to), [number] "r"(number) : "memory", "xmm0", "rax", "rbx"); \
	expect_bytes(operation, to, length); \
} while (0)

/* It stores, too, and is a fence of what precedes it. */
#define LOCKED(text, place) do { \
	STORE("nt-store", "movnti %[number], (%[at])", next_line(), 8); \
	EXPECT("1 lock\n"); \
	STORE("store", text, place, 8); \
} while (0)

#define FENCE(operation) do { \
	asm volatile(operation ::: "memory"); \
	EXPECT("1 %s\n", operation); \
} while (0)

/* The instruction finds the address of the next line in %[at]. */
#define WRITE_BACK(operation, text) do { \
	asm volatile(text :: [at] "r"(next_line()) : "memory", "rax", "rcx", "r9", "r12", "r13"); \
	EXPECT("1 %s %lu\n", operation, line - MEMORY); \
	FENCE("sfence"); \
} while (0)

static void store_in_all_sizes(void)
{
	STORE("store", "movb %b[number], (%[at])", next_line() + 1, 1);
	STORE("store", "movw %w[number], (%[at])", next_line() + 2, 2);
	STORE("store", "movl %k[number], (%[at])", next_line() + 4, 4);
	STORE("store", "movq %[number], (%[at])", next_line(), 8);
	STORE("store", "movdqu %%xmm0, (%[at])", next_line() + 4, 16);
	STORE("vector-store", "vmovdqu %%xmm0, (%[at])", next_line() + 4, 16);
}

static void store_past_the_cache(void)
{
	STORE("nt-store", "movnti %k[number], (%[at])", next_line(), 4);
	STORE("nt-store", "movntdq %%xmm0, (%[at])", next_line(), 16);
	STORE("nt-store", "movntps %%xmm0, (%[at])", next_line(), 16);
	STORE("nt-store", "movntpd %%xmm0, (%[at])", next_line(), 16);
	STORE("nt-store", "vmovntdq %%xmm0, (%[at])", next_line(), 16);
	FENCE("sfence");
	STORE("nt-store", "movq %[number], %%mm0; movntq %%mm0, (%[at]); emms", next_line(), 8);
	FENCE("mfence");
}

static void lock(void)
{
	LOCKED("lock addq %[number], (%[at])", next_line());
	LOCKED("movq %[number], %%rax; xchgq %%rax, (%[at])", next_line());
	LOCKED("xorl %%eax, %%eax; lock cmpxchgq %[number], (%[at])", next_line());
	LOCKED("movq %[number], %%rbx; lock xaddq %%rbx, (%[at])", line);
}

static void write_back_by_all_addresses(void)
{
	/* CLWB disp32(%rip); RET */
	static const uint8_t relative[] = { 0x66, 0x0f, 0xae, 0x35, 0, 0, 0, 0, 0xc3 };
	uint8_t *code = mmap((void *)CODE, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int32_t displacement = next_line() - (CODE + 8);

	if (code == MAP_FAILED)
		err(1, "mmap");
	memcpy(code, relative, sizeof(relative));
	memcpy(code + 4, &displacement, sizeof(displacement));
	((void (*)(void))code)();
	EXPECT("1 clwb %lu\n", line - MEMORY);
	FENCE("sfence");
	WRITE_BACK("clwb", "clwb (%[at])");
	WRITE_BACK("clwb", "leaq 63(%[at]), %%rax; clwb (%%rax)");
	WRITE_BACK("clwb", "leaq -16(%[at]), %%rax; clwb 16(%%rax)");
	WRITE_BACK("clwb", "leaq 4096(%[at]), %%rax; clwb -4096(%%rax)");
	WRITE_BACK("clwb", "leaq -64(%[at]), %%rax; movl $8, %%ecx; clwb (%%rax,%%rcx,8)");
	WRITE_BACK("clwb", "leaq -100(%[at]), %%rax; movl $34, %%r12d; clwb 32(%%rax,%%r12,2)");
	WRITE_BACK("clwb", "movq %[at], %%r9; shrq $2, %%r9; clwb (,%%r9,4)");
	WRITE_BACK("clwb", "movq %[at], %%r12; clwb (%%r12)");
	WRITE_BACK("clwb", "movq %[at], %%r13; clwb (%%r13)");
	WRITE_BACK("clwb", "movq $-1, %%rax; shlq $32, %%rax; orq %[at], %%rax; clwb (%%eax)");
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, MEMORY - 4096))
		err(1, "arch_prctl");
	WRITE_BACK("clwb", "leaq -0x40000000(%[at]), %%rax; clwb %%gs:4096(%%rax)");
	WRITE_BACK("clflushopt", "clflushopt (%[at])");
	WRITE_BACK("clflush", "clflush (%[at])");
}

static volatile int turn;

static void wait_for_turn(int n)
{
	while (turn != n)
		;
}

static void *second_thread(void *unused)
{
	wait_for_turn(1);
	asm volatile("clwb (%0)" :: "r"(next_line()) : "memory");
	EXPECT("2 clwb %lu\n", line - MEMORY);
	turn = 2;
	wait_for_turn(3);
	asm volatile("sfence" ::: "memory");
	EXPECT("2 sfence\n");
	turn = 4;
	return unused;
}

/* Each waits for what it has written back itself. */
static void let_threads_write_back(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, second_thread, NULL))
		errx(1, "pthread_create");
	STORE("nt-store", "movnti %[number], (%[at])", next_line(), 8);
	turn = 1;
	wait_for_turn(2);
	FENCE("sfence");
	turn = 3;
	wait_for_turn(4);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;

	if (argc != 2)
		errx(1, "usage: cpu-instructions DEVICE");
	if (fd < 0 || mmap((void *)MEMORY, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED)
		err(1, "%s", argv[1]);
	store_in_all_sizes();
	store_past_the_cache();
	lock();
	write_back_by_all_addresses();
	let_threads_write_back();
	/* What waits for nothing is of no interest. */
	asm volatile("sfence; mfence" ::: "memory");
	fputs(lines, stdout);
	return 0;
}

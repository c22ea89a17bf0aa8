// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's TCG, which writes down what programs of the guest do to an NVDIMM by their own instructions: see
 * cpu.h for the lines, and `rxe-vm --record-cpu`, which loads it.
 *
 *	-plugin record-cpu.so,base=PHYS,size=BYTES,pcap=FILE,start=FILE,to=FILE
 *
 * base, size	where the NVDIMM is among the guest's physical addresses
 * pcap		the capture of the guest's network card
 * start	what the NVDIMM held when the server was ready; that has all that was done before the file was made
 *
 * Only instructions at user addresses are looked at.  The kernel stores to the NVDIMM what packets bring, which the
 * capture has.  Nor do its fences count.
 *
 * TCG reports each store, with its value, after it has been executed.  It has nothing to do for write-backs and fences,
 * so these are found by their opcodes, and the address of a write-back by its registers.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "instruction.h"
#include "qemu-plugin.h"

#define USER_END	(UINT64_C(1) << 47)
#define DIRECT_MAP	UINT64_C(0xffff888000000000)	/* of all memory, in Linux without KASLR */
#define THREADS		65535				/* as in cpu.h */
#define MOST_BYTES	(INT64_C(1) << 30)		/* of what is written down */
#define LINE		64

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct {
	uint64_t base, size;
	const char *pcap, *start, *to;
} option;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int to = -1, pcap = -1;
static bool started, full;
static int64_t written;

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list args;

	fputs("record-cpu: error: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/******************************************************************************
 * Registers
 */

enum { CR3 = GS_BASE + 1, REGISTERS };

static const char *const names[REGISTERS] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
	"fs_base", "gs_base", "cr3",
};

static struct qemu_plugin_register *registers[REGISTERS];

static void find_registers(qemu_plugin_id_t id, unsigned int vcpu)
{
	GArray *all = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *each = (const qemu_plugin_reg_descriptor *)all->data;

	(void)id;
	(void)vcpu;
	for (unsigned int i = 0; i < all->len; i++)
		for (unsigned int r = 0; r < REGISTERS; r++)
			if (!strcmp(each[i].name, names[r]))
				registers[r] = each[i].handle;
	for (unsigned int r = 0; r < REGISTERS; r++)
		if (!registers[r])
			fail("this QEMU does not tell the register %s", names[r]);
}

static uint64_t take_number(GByteArray *bytes)
{
	uint64_t value = 0;

	memcpy(&value, bytes->data, bytes->len < sizeof(value) ? bytes->len : sizeof(value));
	return value;
}

static GByteArray *empty_bytes(void)
{
	static __thread GByteArray *bytes;

	if (!bytes)
		bytes = g_byte_array_new();
	return g_byte_array_set_size(bytes, 0);
}

static uint64_t read_register(unsigned int r)
{
	GByteArray *bytes = empty_bytes();

	qemu_plugin_read_register(registers[r], bytes);
	return take_number(bytes);
}

/******************************************************************************
 * Threads: an address space, and in it a place of thread-local variables
 */

struct thread {
	uint64_t space, local;
	bool waits;		/* a write-back, or a non-temporal store, that a fence makes durable */
};

static struct thread threads[THREADS + 1];
static unsigned int newest_thread;
static unsigned int waiting;	/* threads; fences are of no interest if there is none */

/* Its number.  With the lock. */
static unsigned int this_thread(void)
{
	uint64_t space = read_register(CR3), local = read_register(FS_BASE);

	for (unsigned int i = newest_thread; i; i--)
		if (threads[i].space == space && threads[i].local == local)
			return i;
	/* The last one stands for all that are too many; its lines may then say too little, or the file is full. */
	if (newest_thread == THREADS) {
		full = true;
		return THREADS;
	}
	threads[++newest_thread] = (struct thread){ space, local, false };
	return newest_thread;
}

/******************************************************************************
 * What is written down
 */

static bool has_started(void)
{
	if (!started)
		started = !access(option.start, F_OK);
	return started;
}

static int64_t position(void)
{
	struct stat st;

	/* QEMU makes it after it has loaded the plugin. */
	if (pcap < 0)
		pcap = open(option.pcap, O_RDONLY | O_CLOEXEC);
	if (pcap < 0 || fstat(pcap, &st))
		fail("%s: %s", option.pcap, strerror(errno));
	return st.st_size;
}

static void put(const char *line, size_t length)
{
	if (write(to, line, length) != (ssize_t)length)
		fail("%s: %s", option.to, strerror(errno));
	written += length;
}

/* With the lock, so that the order of the lines is that in which they are seen. */
static void __attribute__((format(printf, 2, 3))) put_line(unsigned int thread, const char *format, ...)
{
	char line[256];
	size_t length;
	va_list args;

	if (full || written > MOST_BYTES) {
		if (to >= 0)
			put("full\n", 5);
		close(to);
		to = open("/dev/null", O_WRONLY | O_CLOEXEC);
		written = 0;
		full = false;
		return;
	}
	length = snprintf(line, sizeof(line), "%" PRId64 " %u ", position(), thread);
	va_start(args, format);
	length += vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	line[length++] = '\n';
	put(line, length);
}

/******************************************************************************
 * What instructions do
 */

static const char vector, non_temporal, locked;	/* kinds of stores, by their addresses */

/* What was stored.  For a locked instruction TCG may tell the old value, so look at the memory, which has the new one. */
static unsigned int take_bytes(qemu_plugin_meminfo_t info, uint64_t vaddr, const void *kind, uint8_t bytes[16])
{
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
	unsigned int size = 1 << value.type;
	GByteArray *now = empty_bytes();

	if (kind == &locked && qemu_plugin_read_memory_vaddr(vaddr, now, size) && now->len >= size)
		memcpy(bytes, now->data, size);
	else
		memcpy(bytes, &value.data, size);
	return size;
}

/* A fence makes durable what it has done. */
static void wait_for_fence(unsigned int thread)
{
	if (threads[thread].waits)
		return;
	threads[thread].waits = true;
	__atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
}

static void note_store(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *kind)
{
	struct qemu_plugin_hwaddr *hwaddr;
	char hex[2 * 16 + 1];
	uint8_t bytes[16];
	unsigned int thread, size;
	uint64_t place;

	(void)vcpu;
	if (vaddr >= USER_END)
		return;
	hwaddr = qemu_plugin_get_hwaddr(info, vaddr);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	place = qemu_plugin_hwaddr_phys_addr(hwaddr) - option.base;
	if (place >= option.size)
		return;
	size = take_bytes(info, vaddr, kind, bytes);
	for (unsigned int i = 0; i < size; i++)
		sprintf(hex + 2 * i, "%02x", bytes[i]);
	pthread_mutex_lock(&lock);
	if (has_started()) {
		thread = this_thread();
		put_line(thread, "%sstore %" PRIu64 " %s", kind == &non_temporal ? "nt-" : kind == &vector ? "vector-" : "",
			 place, hex);
		if (kind == &non_temporal)
			wait_for_fence(thread);
	}
	pthread_mutex_unlock(&lock);
}

static bool read_physical(uint64_t place, uint64_t *value)
{
	GByteArray *bytes = empty_bytes();

	if (!qemu_plugin_read_memory_vaddr(DIRECT_MAP + place, bytes, sizeof(*value)))
		return false;
	*value = take_number(bytes);
	return true;
}

/* By the page tables, because version 4 translates the addresses of loads and stores only.  False if nothing is mapped. */
static bool translate(uint64_t vaddr, uint64_t *place)
{
	const uint64_t addresses = UINT64_C(0x000ffffffffff000), present = 1, large = 1 << 7;
	uint64_t entry = read_register(CR3);

	for (int shift = 39; shift >= 12; shift -= 9) {
		uint64_t rest = (UINT64_C(1) << shift) - 1;

		if (!read_physical((entry & addresses) + (vaddr >> shift & 511) * 8, &entry) || !(entry & present))
			return false;
		if (shift == 12 || (shift < 39 && entry & large)) {
			*place = (entry & addresses & ~rest) | (vaddr & rest);
			return true;
		}
	}
	return false;
}

static void note_write_back(unsigned int vcpu, void *data)
{
	const struct instruction *instruction = data;
	uint64_t vaddr = instruction->displacement, place;
	unsigned int thread;

	(void)vcpu;
	if (instruction->base >= 0)
		vaddr += read_register(instruction->base);
	if (instruction->index >= 0)
		vaddr += read_register(instruction->index) << instruction->scale;
	if (instruction->short_address)
		vaddr = (uint32_t)vaddr;
	if (instruction->segment >= 0)
		vaddr += read_register(instruction->segment);
	if (!translate(vaddr, &place) || place - option.base >= option.size)
		return;
	place -= option.base;
	pthread_mutex_lock(&lock);
	if (has_started()) {
		thread = this_thread();
		put_line(thread, "%s %" PRIu64, instruction->name, place / LINE * LINE);
		wait_for_fence(thread);
	}
	pthread_mutex_unlock(&lock);
}

/* Programs lock often: most of these wait for nothing. */
static void note_fence(unsigned int vcpu, void *name)
{
	unsigned int thread;

	(void)vcpu;
	if (!__atomic_load_n(&waiting, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&lock);
	thread = this_thread();
	if (threads[thread].waits) {
		threads[thread].waits = false;
		__atomic_sub_fetch(&waiting, 1, __ATOMIC_RELAXED);
		put_line(thread, "%s", (const char *)name);
	}
	pthread_mutex_unlock(&lock);
}

/* What was translated may be executed as long as QEMU runs, so this is never freed.  A program has few write-backs. */
static void *kept(const struct instruction *instruction)
{
	struct instruction *copy = malloc(sizeof(*copy));

	if (!copy)
		fail("no memory");
	*copy = *instruction;
	return copy;
}

static void look_at(struct qemu_plugin_insn *insn)
{
	struct instruction instruction;
	uint8_t bytes[16] = { };
	size_t size = qemu_plugin_insn_data(insn, bytes, 15);
	const char *kind = NULL;

	decode(bytes, size, qemu_plugin_insn_vaddr(insn), &instruction);
	switch (instruction.kind) {
	case WRITE_BACK:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, note_write_back, QEMU_PLUGIN_CB_R_REGS, kept(&instruction));
		return;
	case FENCE:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, note_fence, QEMU_PLUGIN_CB_R_REGS, (void *)instruction.name);
		break;
	default:
		break;
	}
	if (instruction.kind == VECTOR)
		kind = &vector;
	else if (instruction.kind == NT_STORE)
		kind = &non_temporal;
	else if (instruction.kind == FENCE && !strcmp(instruction.name, "lock"))
		kind = &locked;
	qemu_plugin_register_vcpu_mem_cb(insn, note_store, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_MEM_W, (void *)kind);
}

static void look_at_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_vaddr(insn) >= USER_END)
			return;
		look_at(insn);
	}
}

/******************************************************************************
 * The start
 */

static bool take_option(const char *text)
{
	const char *value = strchr(text, '=');
	size_t length = value ? value++ - text : 0;

	if (length == 4 && !strncmp(text, "base", length))
		option.base = strtoull(value, NULL, 0);
	else if (length == 4 && !strncmp(text, "size", length))
		option.size = strtoull(value, NULL, 0);
	else if (length == 4 && !strncmp(text, "pcap", length))
		option.pcap = strdup(value);
	else if (length == 5 && !strncmp(text, "start", length))
		option.start = strdup(value);
	else if (length == 2 && !strncmp(text, "to", length))
		option.to = strdup(value);
	else
		return false;
	return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!take_option(argv[i]))
			fail("%s: no such option", argv[i]);
	if (!option.size || !option.pcap || !option.start || !option.to)
		fail("base, size, pcap, start and to are wanted");
	if (strcmp(info->target_name, "x86_64") || !info->system_emulation)
		fail("this is for a machine of x86_64, not for %s", info->target_name);
	if (info->version.cur < QEMU_PLUGIN_VERSION)
		fail("this QEMU has version %d of the interface for plugins; QEMU 9.2 and newer have what is wanted, version %d",
		     info->version.cur, QEMU_PLUGIN_VERSION);
	to = open(option.to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (to < 0)
		fail("%s: %s", option.to, strerror(errno));
	put("cpu 1\n", strlen("cpu 1\n"));
	qemu_plugin_register_vcpu_init_cb(id, find_registers);
	qemu_plugin_register_vcpu_tb_trans_cb(id, look_at_block);
	return 0;
}

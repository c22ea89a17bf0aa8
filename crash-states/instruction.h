/* SPDX-License-Identifier: GPL-2.0 */
/* Which instructions of x86-64 write cache lines back, wait for that, or store around the cache. */
#ifndef INSTRUCTION_H
#define INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INSTRUCTION_MAX	15	/* bytes */

/* Registers have the numbers that instructions give them, and then come these. */
enum { FS_BASE = 16, GS_BASE };

struct instruction {
	enum { OTHER, VECTOR, NT_STORE, WRITE_BACK, FENCE } kind;
	const char *name;	/* as cpu.h has it */
	/* Of a write-back: its address, from registers, or -1 */
	int segment, base, index;
	unsigned int scale;
	bool short_address;	/* 32 bits */
	uint64_t displacement;
};

struct code {
	const uint8_t *at, *end, *begin;
	uint64_t vaddr;		/* of that */
	uint8_t operand_size, repeat, lock, rex;
	int segment;
	bool short_address;
};

static bool take_prefixes(struct code *code)
{
	for (; code->at < code->end; code->at++) {
		switch (*code->at) {
		case 0x66: code->operand_size = 1; break;
		case 0x67: code->short_address = true; break;
		case 0xf0: code->lock = 1; break;
		case 0xf2:
		case 0xf3: code->repeat = *code->at; break;
		case 0x64: code->segment = FS_BASE; break;
		case 0x65: code->segment = GS_BASE; break;
		case 0x26: case 0x2e: case 0x36: case 0x3e: break;	/* segments that begin at 0 */
		default:
			if ((*code->at & 0xf0) == 0x40)
				code->rex = *code->at++;
			return code->at < code->end;
		}
	}
	return false;
}

/* The ModRM byte and what belongs to it, which is the last of the instruction.  False if it names a register. */
static bool take_address(struct code *code, struct instruction *instruction)
{
	const uint8_t *at = code->at;
	uint8_t modrm = *at++, mode = modrm >> 6, base = modrm & 7;
	unsigned int extend_base = (code->rex & 1) << 3, extend_index = (code->rex & 2) << 2;
	int32_t displacement = 0;
	bool relative = false;	/* to the next instruction */

	if (mode == 3)
		return false;
	instruction->segment = code->segment;
	instruction->short_address = code->short_address;
	instruction->base = base | extend_base;
	instruction->index = -1;
	if (base == 4) {
		uint8_t sib = *at++;

		base = sib & 7;
		instruction->scale = sib >> 6;
		instruction->base = base | extend_base;
		instruction->index = (sib >> 3 & 7) | extend_index;
		if (instruction->index == 4)
			instruction->index = -1;
		if (!mode && base == 5)
			instruction->base = -1;
	} else if (!mode && base == 5) {
		instruction->base = -1;
		relative = true;
	}
	if (mode == 1)
		displacement = (int8_t)*at;
	else if (mode == 2 || base == 5)
		memcpy(&displacement, at, sizeof(displacement));
	instruction->displacement = (int64_t)displacement;
	if (relative)
		instruction->displacement += code->vaddr + (at + sizeof(displacement) - code->begin);
	return true;
}

/* After 0F AE: the group of fences and write-backs. */
static void decode_group(struct code *code, struct instruction *instruction)
{
	uint8_t modrm = *code->at, number = modrm >> 3 & 7;

	if (code->repeat)
		return;
	if (modrm >> 6 == 3) {
		if (!code->operand_size && (number == 6 || number == 7)) {
			instruction->kind = FENCE;
			instruction->name = number == 6 ? "mfence" : "sfence";
		}
		return;
	}
	if (number < 6 || (number == 6 && !code->operand_size))
		return;
	instruction->name = number == 6 ? "clwb" : code->operand_size ? "clflushopt" : "clflush";
	if (take_address(code, instruction))
		instruction->kind = WRITE_BACK;
}

/* MOVNTI, MOVNTQ and MOVNTDQ, MOVNTPS and MOVNTPD, MASKMOVQ and MASKMOVDQU; after 0F, or a VEX prefix that stands for it */
static bool is_non_temporal(uint8_t opcode)
{
	return opcode == 0xc3 || opcode == 0xe7 || opcode == 0x2b || opcode == 0xf7;
}

/* @bytes begin with the instruction at @vaddr. */
static void decode(const uint8_t *bytes, size_t size, uint64_t vaddr, struct instruction *instruction)
{
	struct code code = { .at = bytes, .end = bytes + size, .begin = bytes, .vaddr = vaddr, .segment = -1 };
	uint8_t opcode;

	*instruction = (struct instruction){ .kind = OTHER };
	if (!take_prefixes(&code))
		return;
	opcode = *code.at++;
	if (code.lock || ((opcode == 0x86 || opcode == 0x87) && code.at < code.end && *code.at >> 6 != 3)) {
		instruction->kind = FENCE;
		instruction->name = "lock";
	} else if (opcode == 0x0f && code.at + 1 < code.end) {
		opcode = *code.at++;
		if (opcode == 0xae)
			decode_group(&code, instruction);
		else if (opcode == 0x38 && !code.repeat && *code.at == (code.operand_size ? 0xf8 : 0xf9))
			instruction->kind = NT_STORE;	/* MOVDIR64B, MOVDIRI */
		else if (is_non_temporal(opcode) && !code.repeat && (opcode != 0xc3 || !code.operand_size))
			instruction->kind = NT_STORE;
	} else if (opcode == 0xc5 && code.at + 1 < code.end) {
		instruction->kind = is_non_temporal(code.at[1]) && code.at[1] != 0xc3 ? NT_STORE : VECTOR;
	} else if (opcode == 0x62 && code.at + 3 < code.end) {
		instruction->kind = (code.at[0] & 0x07) == 1 && (code.at[3] == 0xe7 || code.at[3] == 0x2b) ? NT_STORE : VECTOR;
	} else if (opcode == 0xc4 && code.at + 2 < code.end) {
		instruction->kind = (code.at[0] & 0x1f) == 1 && is_non_temporal(code.at[2]) && code.at[2] != 0xc3 ?
				    NT_STORE : VECTOR;
	}
}

#endif /* INSTRUCTION_H */

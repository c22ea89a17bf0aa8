/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the target took and answered, as its capture shows it: the requests of each QP in the order
 * of their PSNs, what they did to its persistent memory, and which flush covers that.  The rules say which
 * requests are flushes: persistent FLUSHes, and for some platforms others.
 *
 * What the target's CPU did by itself, if that was recorded, is the flow of a connection, too: its stores are requests, and
 * a fence is a flush that is its own answer.  It covers what the thread wrote back before, whatever had stored that.
 *
 * A target is followed as the specification has it, by the PSNs that it expects.  A packet that
 * came counts as received unless the target asked for it again or refused it.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdio.h>

#include "capture.h"
#include "memory.h"
#include "rules.h"

#define WORD	8			/* bytes: what no power failure tears */
#define NEVER	UINT32_MAX

/* A connection, seen from the target. */
struct flow {
	unsigned int target;
	uint32_t qpn;			/* the target's */
	struct address initiator;
	uint32_t peer_qpn;		/* the initiator's, if a response was seen */
	bool answers;			/* some were seen */
	uint16_t port;			/* UDP source port of its requests */
	uint32_t mtu;			/* 0: nothing told */
	bool any_done;
	uint64_t done;			/* PSN of the last request that the target said to have executed */
	unsigned int ended;		/* when the target ended the connection, or NEVER */
	unsigned int left;		/* when the initiator asked for that, or NEVER */
	uint32_t flushes;		/* received, of which each has a number from 1 */
	uint32_t reads;			/* of persistent memory */
	LIST(uint32_t) requests;	/* in the order of their PSNs */
	LIST(uint32_t) flush;		/* request of flush number n: flush.v[n - 1] */
	uint32_t completions;		/* the flow of its completions, see visible.h, or NEVER */
	LIST(uint32_t) completes;	/* requests that tell the CPU that it sees what precedes them */
};

/* A packet of a request that the target took; or what its CPU did, in place of a packet. */
struct request {
	const struct packet *packet;
	uint32_t flow;
	uint64_t psn;			/* which goes on where 24 bits end */
	uint32_t psns;			/* that it takes: more than one for a long READ */
	uint64_t va;			/* that its payload goes to, or that it names */
	uint32_t rkey;
	uint32_t length;		/* of it all */
	const struct region *region;
	bool somewhere;			/* a SEND, and nothing tells where it stored */
	const char *odd;		/* why the target should not have taken it */
	uint64_t write_va;		/* where a WRITE of several packets has got to, before it */
	uint32_t write_rkey, write_left;
	bool write_open;
	const struct packet *answer;	/* its own: of READ (the last), FLUSH, ATOMIC WRITE, Atomics */
	uint32_t base;			/* of an Atomic: the request that gave the word what it, or the Atomics before it, found */
	uint32_t found;			/* the same, but it may be an Atomic */
	unsigned int proven;		/* the first moment when an answer said that it is executed, or NEVER: see proof.h */

	uint32_t flushes_before;	/* of its QP */
	uint32_t flush;			/* its number, if it is one; or 0 */
	uint32_t completion, completions_before;	/* the same, of the completions of its QP */
	const struct packet *changed;	/* the same, sent again with other bytes; the first count here */
	uint32_t message;		/* the request that is the first packet of its message */
	uint32_t first_update, updates;	/* what it did */
	LIST(uint32_t) covers;		/* flush: the updates that it makes durable */
};

/* What a request gave a stretch. */
struct update {
	uint32_t stretch, request;
	union {
		uint64_t value;		/* of a stretch of one word, or of less: all of it, in memory order */
		const uint8_t *bytes;	/* of a longer one: in the capture */
	};
	uint8_t mask;			/* the bytes of each word that the request wrote, beside those of the stretch, too */
	uint32_t covered;		/* number of the first flush of its QP that covers it, or NEVER */
	unsigned int settled;		/* the first moment when an answer said that it is there, or NEVER */
	uint32_t before;		/* the update before this one, of the same stretch, or NEVER */
	uint32_t position;		/* among those of its stretch, from 0 on */
};

/* A packet of a response to a READ. */
struct returned {
	const struct packet *packet;
	uint64_t va;			/* of its first byte */
	const struct region *region;
};

/*
 * Words next to each other that each request stores to, and each FLUSH covers, together or not at all.
 * A power failure tears them all the same: each word has a number, and holds one of these updates.  If requests store to
 * parts of a word, each part is a stretch by itself, with a number, as if it were a word.  Which of them can be left alone:
 * see order.h.
 */
struct stretch {
	uint64_t offset;		/* in the device; a multiple of WORD, unless it is a part of a word */
	uint64_t length;		/* in bytes; less than WORD, if it is a part of a word */
	uint32_t word, words;		/* number of the first one, and how many */
	const uint8_t *start;		/* what they held before */
	uint32_t last;			/* update */
	uint32_t first, n;		/* in history.of_stretches */
};

/*
 * What the device held before the first request came.  @ready is a copy of when the target was ready.
 * An initiator that does not wait for that may be there before the copy is made.  Requests that came
 * before the capture had @copied bytes may be in the copy already: a word that they store to held
 * before what it held in @booted, when the target booted.
 */
struct before {
	const uint8_t *ready;
	const uint8_t *booted;		/* NULL: no request could come too early */
	uint64_t copied;
};

struct history {
	const struct capture *capture;
	const struct memory *memory;	/* of each target */
	unsigned int targets;		/* more than one in a group, see group.h */
	const struct before *before;
	const struct rules *rules;
	LIST(struct flow) flows;
	LIST(struct request) requests;	/* in the order in which they came */
	LIST(struct returned) returned;
	LIST(struct update) updates;	/* the same */
	LIST(struct stretch) stretches;	/* in the order of their offsets */
	uint32_t *of_stretches;		/* the updates of each stretch, in order */
	uint32_t words;			/* of all stretches */
	uint32_t cpu;			/* the flow of the CPU, or NEVER */
	struct region device;		/* as the CPU sees it: a store has the offset for its VA */
	struct packet *cpu_packets;
	LIST(uint32_t) written_back;	/* with a CPU, of each update: the first fence that makes it durable, or NEVER;
					 * by rules of a consumer, the first completion that says it is visible
					 */
	uint64_t stores;		/* to them */
	uint32_t somewhere;		/* SENDs that nothing tells of where they stored */
	uint32_t pulled;		/* packets that the target has got by its own READs and Atomics: nothing tells where they stored */
	uint64_t loosely;		/* stores that a flush covers, and would not by the rules of "strict" */
};

/* Ends the program if something cannot be followed, and says where. */
void history_read(struct history *history, const struct capture *capture, const struct memory *memory,
		  unsigned int targets, const struct before *before, const struct rules *rules);

/* Ends the program if there is nothing that a power failure could take: such a run would pass unseen. */
void history_needs_stores(const struct history *history);

/* The stretch that has the byte at @offset, or the next one, or the number of all. */
uint32_t history_stretch_at(const struct history *history, uint64_t offset);

/* The word at @offset, or the part that begins there, or NEVER. */
uint32_t history_word(const struct history *history, uint64_t offset);

/* The stretch of a word. */
uint32_t history_stretch_of(const struct history *history, uint32_t word);

/* The same, if @hint, a stretch, may be it: for words in their order. */
static inline uint32_t history_stretch_near(const struct history *history, uint32_t word, uint32_t hint)
{
	return word - history->stretches.v[hint].word < history->stretches.v[hint].words ? hint :
	       history_stretch_of(history, word);
}

static inline uint64_t history_offset(const struct history *history, uint32_t word)
{
	const struct stretch *stretch = &history->stretches.v[history_stretch_of(history, word)];

	return stretch->offset + (uint64_t)(word - stretch->word) * WORD;
}

/* Bytes of each word of the stretch, or of the part of a word that it is. */
static inline size_t word_length(const struct stretch *stretch)
{
	return stretch->length < WORD ? stretch->length : WORD;
}

/* A flush whose response the target had sent by @moment. */
static inline bool answered(const struct request *request, unsigned int moment)
{
	return request->answer && request->answer->moment <= moment;
}

/* Is it by the target's CPU? */
static inline bool is_cpu(const struct request *request)
{
	return cpu_is_operation(request->packet->opcode);
}

/* The flow of which a flush may hold the update as well as one of its own: the CPU, or the completions of its QP; or NEVER. */
static inline uint32_t other_flow(const struct history *history, const struct update *update)
{
	return history->rules->visible ? history->flows.v[history->requests.v[update->request].flow].completions : history->cpu;
}

/* How many QPs there are: the other flows stand for the CPU, and for completions. */
static inline size_t history_qps(const struct history *history)
{
	return (history->flows.n - (history->cpu != NEVER)) / (history->rules->visible ? 2 : 1);
}

/* The number of the first flush of other_flow() that holds it, or NEVER. */
static inline uint32_t written_back(const struct history *history, const struct update *update)
{
	return other_flow(history, update) == NEVER ? NEVER : history->written_back.v[update - history->updates.v];
}

/* How many fences and CLFLUSHes of the CPU make something durable. */
static inline uint32_t cpu_fences(const struct history *history)
{
	return history->cpu == NEVER ? 0 : history->flows.v[history->cpu].flushes;
}

/* The fence or CLFLUSH of a number, from 1 to that. */
static inline const struct request *cpu_fence(const struct history *history, uint32_t number)
{
	return &history->requests.v[history->flows.v[history->cpu].flush.v[number - 1]];
}

/* An answer at @moment says that the update is there. */
static inline void settle_update(struct update *update, unsigned int moment)
{
	if (moment < update->settled)
		update->settled = moment;
}

/* FETCH ADD or COMPARE SWAP */
bool is_atomic(const struct request *request);

/*
 * When the target's program finds the completion of such a request, it sees what the QP stored before.  The requests are the
 * last packet of a SEND, and one with an immediate.  An Atomic tells the same by what it stores.
 */
bool completes(const struct request *request);

/*
 * Are two stores to a word of two QPs, and had no answer said that the first is there before the second came?  Then nothing
 * orders them, and the first may have been executed after the second.  An Atomic of either says that it was not: its result
 * is known for the order in which they came, so a lock or a counter may be shared.  A store by the CPU is ordered after
 * those that were visible to it, and before packets that came later.
 */
bool history_race(const struct history *history, const struct update *first, const struct update *second);

/* Does the FLUSH @flush, whatever its placement and QP, hold these bytes of the word that has @offset? */
bool request_holds(const struct request *flush, uint64_t offset, uint8_t mask);

/* The target that has the byte at @offset of all devices. */
const struct memory *history_target(const struct history *history, uint64_t offset);

/* "0x40", or, in a group, "target 2, 0x40"; it stays until the fourth call after this one. */
const char *history_place(const struct history *history, uint64_t offset);

/* "QP PSN OFFSET LENGTH": what a checker is told of an answered flush */
void request_print_answered(const struct request *request, FILE *file);

/* "WRITE psn 7 (0x40 to 0x80)", where the range is in the device; it stays until the fourth call after this one. */
const char *request_text(const struct request *request);

#endif /* HISTORY_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a power failure may leave of a history: the model of Documentation/crash-states-rules.rst.
 *
 * A cut is a moment: the power fails after a frame of the target's capture, or after something that the target's CPU
 * did.  A state of a cut says for each word which of its values is left.  Between two answers that say which flushes have
 * been executed, or fences of the CPU, a later cut allows all that an earlier one does.  So the cuts before each such
 * answer and fence, and the last, have all states.
 *
 * By rules of a consumer a cut is the moment of a signal, when the consumer has that and nothing that came after: see visible.h.
 *
 * permits() in model.c decides whether a word may hold a value, and so whether its newest one may be lost; execute() there
 * raises what a flush guarantees.  Which flush covers a store: cover_stretch() in history.c.
 */
#ifndef MODEL_H
#define MODEL_H

#include "order.h"

#define START	(-1)		/* position of what a word held before all updates */

/* A word that does not hold its newest value, but that at @position of its updates. */
struct held {
	uint32_t word;
	int32_t position;
};

typedef LIST(struct held) held_list;

/* What is left at a cut. */
struct state {
	unsigned int moment;
	held_list held;
	uint64_t hash;		/* of the content of all words, and of what was answered */
};

struct model {
	const struct history *history;
	uint64_t seed;

	/* The cut where the model stands: see model_cut(). */
	unsigned int moment;
	uint32_t requests, updates;	/* received */
	uint32_t answers;		/* to flushes, in answer[] */
	uint32_t *executed;		/* of each flow: flushes that were, for sure */
	uint32_t *received;		/* and those that may have been */
	int32_t *top, *floor;		/* of each stretch: positions; there is none lower that it may hold */
	int32_t *durable;		/* the newest that an executed flush covers: the floor, if no QPs race */
	bool *raced;			/* do QPs race for the words of the stretch? */
	LIST(uint32_t) open;		/* stretches whose words may hold more than one value */
	size_t open_words;
	uint32_t *open_at;		/* where a stretch is in it, or NEVER */
	uint64_t hash;			/* of how the newest content differs from that at the start */
	uint32_t in_flight;		/* the message, by its first packet, of which a part may be lost and whose
					 * newest packet is the newest of all, or NEVER
					 */
	uint32_t *older, *newer;	/* of each such message: the next one */
	uint32_t *newest;		/* of each message: the newest packet that came and stored */
	uint32_t *in_message;		/* of each message: updates above the floors, of all its packets */
	uint32_t *unsettled;		/* of each flow: messages of which a part may be lost */
	uint32_t *above;		/* of each request: its updates above the floors of their stretches */

	uint32_t *answer;		/* answered flushes, in the order of the answers */
	uint32_t all_answers;
	LIST(uint32_t) witnesses;	/* requests proven to be executed, which says more than the answers to FLUSHes did */
	uint32_t witnessed;		/* so many of them */
	LIST(uint32_t) signals;		/* by rules of a consumer: requests that it may wait for */
	uint32_t signal;		/* the one that it has at this cut, or NEVER */

	/* Of use inside. */
	int32_t *raised;		/* what is durable, when so many flushes as in @chosen have been executed */
	uint32_t *raised_when, now;
	uint32_t *chosen;		/* of each flow */
	int32_t *choice;		/* of each word of the open stretches */
	bool *waits;			/* of each request: must a flush have been executed where its store is seen? */
	tied_list tied;
	uint32_t looked;		/* at the tied words of each line, so many times */
};

void model_init(struct model *model, const struct history *history, uint64_t seed);

/* Let the power fail at @moment, see capture.h. */
void model_cut(struct model *model, unsigned int moment);

/* The signal that came at @moment, or NEVER. */
uint32_t model_signal_at(const struct model *model, unsigned int moment);

/* The cuts that have all states, in order; *@n of them. */
unsigned int *model_cuts(const struct model *model, size_t *n);

/* Is what the update gave to the word part of what shall be lost, or of what shall be left? */
typedef bool (*model_pick)(const struct model *model, const struct update *update, uint32_t word,
			   const void *arg);

/* What is picked is lost, and all that it takes along; everything else has come. */
void model_lose(struct model *model, model_pick pick, const void *arg, struct state *state);

/* What is picked has come, with all that must have been executed before; everything else is lost. */
void model_leave(struct model *model, model_pick pick, const void *arg, struct state *state);

/* Adds to @words, of each word that the message stored and that may be lost, the word and the position of that update. */
void model_open_words(const struct model *model, uint32_t message, held_list *words);

/* How many ways there are to choose a value for each word, if they are few; otherwise 0. */
size_t model_choices(const struct model *model);

/* The @n-th of these ways.  False if the model does not allow it. */
bool model_choice(struct model *model, size_t n, struct state *state);

/* True if the model allows the state.  Its hash is set then. */
bool model_allows(struct model *model, struct state *state);

/*
 * The newest update of a word that is durable in the state that the model was asked about last, if it came after that
 * at @position, which is left only because QPs race; or NULL.
 */
const struct update *model_overtaken(const struct model *model, uint32_t word, int32_t position);

/* The floor of a stretch in the state that the model was asked about last. */
int32_t model_raised_floor(const struct model *model, uint32_t s);

/* A random state that the model allows. */
void model_random(struct model *model, uint64_t seed, struct state *state);

/* The value at a position of a word. */
uint64_t model_value(const struct history *history, uint32_t word, int32_t position);

/* The newest position of a word. */
static inline int32_t model_top(const struct model *model, uint32_t word)
{
	return model->top[history_stretch_of(model->history, word)];
}

static inline int32_t model_floor(const struct model *model, uint32_t word)
{
	return model->floor[history_stretch_of(model->history, word)];
}

/* The update at a position of a stretch, or of one of its words; it is not START. */
static inline const struct update *stretch_update(const struct history *history, uint32_t s,
						  int32_t position)
{
	return &history->updates.v[history->of_stretches[history->stretches.v[s].first + position]];
}

static inline const struct update *model_update(const struct history *history, uint32_t word,
						int32_t position)
{
	return stretch_update(history, history_stretch_of(history, word), position);
}

static inline const struct request *model_request(const struct model *model, uint32_t word, int32_t position)
{
	return &model->history->requests.v[model_update(model->history, word, position)->request];
}

/* The bytes of a stretch at a position; they stay as long as the history. */
const uint8_t *stretch_bytes(const struct history *history, uint32_t s, int32_t position);

#endif /* MODEL_H */

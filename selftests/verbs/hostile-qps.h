/* SPDX-License-Identifier: GPL-2.0 */
/* What the cases of hostile-qps share. */
#ifndef HOSTILE_QPS_H
#define HOSTILE_QPS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rxe_responder.h"

#define PATIENCE	1800	/* seconds: enough for an emulated debug kernel */
#define MOST_ROUNDS	5000
#define SOON_MS		10000	/* what is being done may come to its end before */

/* What a case waits for has to come so often; otherwise nothing is shown. */
#define LEAST		50

extern unsigned int milliseconds;	/* how long each case goes on, at least */

void stay_on_cpu(int cpu);
void become_nobody(void);

/* CPU 0 receives what the peer sends.  A case that runs beside that stays on CPU 1. */
void open_as_nobody(struct rig *rig, int cpu);

/* A fixture that has a rig and nothing more. */
#define NOBODY_FIXTURE(name)			\
	FIXTURE(name) { struct rig rig; };	\
	FIXTURE_SETUP(name)			\
	{					\
		open_as_nobody(&self->rig, 0);	\
	}					\
	FIXTURE_TEARDOWN(name)			\
	{					\
		rxe_close(&self->rig.end);	\
	}

/*
 * What is not answered is sent again, for a while: a READ whose resource went while it was answered.  Then it may
 * fail: a duplicate is answered only as long as its resource is kept.
 */
void make_pair(struct rxe_end *end, struct rxe_qp pair[2]);

/* A peer that sends a request without a pause */
struct flood {
	pthread_t thread;
	struct packet rq;
	atomic_bool stop;
	atomic_uint sent;
};

void start_flood(struct flood *flood, struct packet rq);
void stop_flood(struct flood *flood);

#endif /* HOSTILE_QPS_H */

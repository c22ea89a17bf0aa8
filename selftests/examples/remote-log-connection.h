/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the programs of the remote log that use RDMA. */
#ifndef REMOTE_LOG_CONNECTION_H
#define REMOTE_LOG_CONNECTION_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>

#include "remote-log.h"

/* Since rdma-core 45 the struct has wr_flush, the second member after wr_abort. */
_Static_assert(sizeof(struct ibv_qp_ex) >= offsetof(struct ibv_qp_ex, wr_abort) + 3 * sizeof(void *),
	       "this libibverbs has no ibv_wr_flush(): install rdma-core 45 or newer (libibverbs-dev)");

/*
 * FLUSH and ATOMIC WRITE share the credits of READ, so many of which may be in flight.  What is
 * posted beyond that waits in the send queue, so more appends in flight would gain nothing.
 */
#define DEPTH			16
#define CREDITS_PER_APPEND	3
#define REQUESTS_PER_APPEND	4
#define MAX_APPENDS		(DEPTH / CREDITS_PER_APPEND)

/* How often a request is sent again, before the target is given up; Soft-RoCE takes 7 for endless. */
#define RETRIES			6

/* An initiator's connection to a target. */
struct log_connection {
	struct rdma_cm_id *id;
	struct ibv_qp_ex *qp;
	struct log_region region;	/* the target's memory */
	unsigned int max_appends;	/* in flight */
};

/* What an initiator asks for. */
extern const struct rdma_conn_param log_conn_param;

/*
 * Look up @text, ADDRESS or ADDRESS:PORT, where an IPv6 address with a port is in brackets.  @flags as
 * rdma_getaddrinfo(3) has them.  Ends the program if there is no such address.
 */
struct rdma_addrinfo *log_address(const char *text, int flags);

/* Ends the program if the device lacks what the log needs: of a target to be flushed, of an initiator to post it. */
void log_ask_device(struct ibv_context *context);

/*
 * Make the queue pair of @connection, whose id is resolved, in @pd (NULL: in rdma_cm's own).  An answer may
 * take 4.096 us times 2 to the power of @ack_timeout.  Ends the program if that cannot be.
 */
void log_create_qp(struct log_connection *connection, struct ibv_pd *pd, __u8 ack_timeout);

/*
 * Learn from what a target at @address answered where its log is, and how many appends it takes at
 * once.  Ends the program if the target is none.
 */
void log_learn_region(struct log_connection *connection, const struct rdma_conn_param *got,
		      const char *address);

/*
 * Wait for the next completion, which is to be of @opcode.  False if the target refused or did not answer.
 */
bool log_completed(struct log_connection *connection, enum ibv_wc_opcode opcode);

/* See remote-log-connection.c.  Both return 0, or an errno if nothing could be posted. */
int log_publish(struct log_connection *connection, __u64 where, const void *data, size_t size, __u32 lkey,
		__u64 pointer_where, const void *pointer, __u64 wr_id);
int log_store(struct log_connection *connection, __u64 where, const void *value, __u64 wr_id);

#endif /* REMOTE_LOG_CONNECTION_H */

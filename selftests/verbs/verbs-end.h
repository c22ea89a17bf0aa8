/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by programs whose two ends use RDMA and exchange addresses over TCP: how they connect.  And
 * shared by the two ends of the API tests: verbs-api, which posts, and verbs-api-target, which owns
 * the memory, does what verbs-api asks, and reports the result.
 */
#ifndef VERBS_END_H
#define VERBS_END_H

#include <infiniband/verbs.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define END_PORT	"7472"
/* The target's memory; its last page lies beyond what its MR or MW permits. */
#define END_PAGE	4096
#define END_MEMORY	(6 * END_PAGE)
#define END_REGION	(5 * END_PAGE)
/* A window is at neither end of its MR. */
#define END_WINDOW_OFFSET	(END_PAGE / 2)
#define END_WINDOW	(4 * END_PAGE)

#define END_QP_ACCESS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)

struct end_address {
	union ibv_gid gid;
	__u64 qpn;	/* no padding, whose bytes would be anything */
};

struct end_ask {
	enum end_what {
		END_CONNECT,	/* a new QP, and an MR or MW with these rights */
		END_MEMORY_NOW,	/* all of the memory */
	} what;
	__u32 qp_access;
	__u32 mr_access;
	__u32 mw_access;	/* 0: no window, the MR is what can be reached */
	struct end_address address;
};

struct end_told {
	int error;		/* errno of the registration */
	int bind_status;	/* enum ibv_wc_status */
	bool persistent;	/* the memory is */
	struct end_address address;
	__u64 addr;		/* of what can be reached */
	__u64 offset;		/* from the start of the memory */
	__u64 size;
	__u32 rkey;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	union ibv_gid gid;
	int gid_index;
	__u8 timeout;	/* of QPs that are connected, as in struct ibv_qp_attr */
};

/* Open the first RDMA device; ends the program without one. */
void end_open(struct end *end);

/* To RTS, connected to @peer; ends the program if that fails. */
void end_connect_qp(struct end *end, struct ibv_qp *qp, unsigned int access,
		    const struct end_address *peer);

struct end_address end_address(const struct end *end, const struct ibv_qp *qp);

/* Wait for the next completion; ends the program if none comes. */
struct ibv_wc end_completion(struct end *end);

/* A connection to the target at @address; ends the program if there is none. */
int end_dial(const char *address);
/* Prints "ready" when it listens on @address; returns the first connection. */
int end_serve(const char *address);

/* All of @size; ends the program if the other end is gone. */
void end_send(int fd, const void *data, size_t size);
/* False if the other end has closed it. */
bool end_receive(int fd, void *data, size_t size);

#endif /* VERBS_END_H */

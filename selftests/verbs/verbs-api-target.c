// SPDX-License-Identifier: GPL-2.0
/*
 * The target of the API tests: memory, and a QP to reach it by, as verbs-api asks for.
 *
 *	verbs-api-target ADDRESS [DEVDAX]
 *
 * The memory is that of DEVDAX (/dev/dax0.0), or DRAM.  Prints "ready" when it listens on ADDRESS,
 * serves one verbs-api, and ends with it.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs-end.h"

#define DEVDAX_ALIGN	(2 << 20)

struct target {
	struct end end;
	void *memory;
	bool persistent;
	/* Of the connection; the last one's go when a new one is asked for. */
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
};

static void map_memory(struct target *target, const char *devdax)
{
	int fd;

	if (!devdax) {
		target->memory = aligned_alloc(END_PAGE, END_MEMORY);
		if (!target->memory)
			err(1, "memory");
		memset(target->memory, 0, END_MEMORY);
		return;
	}
	fd = open(devdax, O_RDWR);
	if (fd < 0)
		err(1, "%s", devdax);
	target->memory = mmap(NULL, DEVDAX_ALIGN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (target->memory == MAP_FAILED)
		err(1, "%s: mmap", devdax);
	close(fd);
	target->persistent = true;
}

static void disconnect(struct target *target)
{
	/* Its window holds on to a QP. */
	if (target->mw && ibv_dealloc_mw(target->mw))
		err(1, "ibv_dealloc_mw");
	if (target->qp && ibv_destroy_qp(target->qp))
		err(1, "ibv_destroy_qp");
	if (target->mr && ibv_dereg_mr(target->mr))
		err(1, "ibv_dereg_mr");
	target->qp = NULL;
	target->mw = NULL;
	target->mr = NULL;
}

static void bind_window(struct target *target, unsigned int access, struct end_told *told)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	target->mw = ibv_alloc_mw(target->end.pd, IBV_MW_TYPE_2);
	if (!target->mw)
		err(1, "ibv_alloc_mw");
	told->offset = END_WINDOW_OFFSET;
	told->size = END_WINDOW;
	told->addr = (uintptr_t)target->memory + told->offset;
	told->rkey = ibv_inc_rkey(target->mw->rkey);
	wr.bind_mw.mw = target->mw;
	wr.bind_mw.rkey = told->rkey;
	wr.bind_mw.bind_info.mr = target->mr;
	wr.bind_mw.bind_info.addr = told->addr;
	wr.bind_mw.bind_info.length = told->size;
	wr.bind_mw.bind_info.mw_access_flags = access;
	told->error = ibv_post_send(target->qp, &wr, &bad);
	if (!told->error)
		told->bind_status = end_completion(&target->end).status;
}

static void connect_as_asked(struct target *target, const struct end_ask *ask,
			     struct end_told *told)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = target->end.cq,
		.recv_cq = target->end.cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	disconnect(target);
	/* The access flags are not known to the compiler, so this also takes what a macro would. */
	target->mr = ibv_reg_mr(target->end.pd, target->memory, END_REGION,
				IBV_ACCESS_LOCAL_WRITE | (int)ask->mr_access);
	if (!target->mr) {
		told->error = errno;
		return;
	}
	target->qp = ibv_create_qp(target->end.pd, &attr);
	if (!target->qp)
		err(1, "ibv_create_qp");
	end_connect_qp(&target->end, target->qp, ask->qp_access, &ask->address);

	told->address = end_address(&target->end, target->qp);
	told->addr = (uintptr_t)target->memory;
	told->size = END_REGION;
	told->rkey = target->mr->rkey;
	if (ask->mw_access)
		bind_window(target, ask->mw_access, told);
}

int main(int argc, char **argv)
{
	struct target target = {};
	struct end_ask ask;
	int fd;

	if (argc < 2 || argc > 3)
		errx(1, "usage: verbs-api-target ADDRESS [DEVDAX]");
	end_open(&target.end);
	map_memory(&target, argv[2]);
	fd = end_serve(argv[1]);
	while (end_receive(fd, &ask, sizeof(ask))) {
		struct end_told told = { .persistent = target.persistent };

		switch (ask.what) {
		case END_CONNECT:
			connect_as_asked(&target, &ask, &told);
			end_send(fd, &told, sizeof(told));
			break;
		case END_MEMORY_NOW:
			end_send(fd, target.memory, END_MEMORY);
			break;
		}
	}
	disconnect(&target);
	return 0;
}

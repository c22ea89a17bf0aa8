/* SPDX-License-Identifier: GPL-2.0 */
/* Rights of a region that are changed by the kernel's own call. */
#ifndef CHANGE_ACCESS_H
#define CHANGE_ACCESS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdint.h>
#include <unistd.h>

/* 0, or an errno; providers/rxe of rdma-core lets no program ask for it, but any program may write() */
static inline int change_access(const struct ibv_mr *mr, unsigned int access)
{
	struct ib_uverbs_rereg_mr_resp response;
	const struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr command;
	} request = {
		.hdr = { IB_USER_VERBS_CMD_REREG_MR, sizeof(request) / 4, sizeof(response) / 4 },
		.command = {
			.response	= (uintptr_t)&response,
			.mr_handle	= mr->handle,
			.flags		= IBV_REREG_MR_CHANGE_ACCESS,
			.access_flags	= access,
		},
	};

	return write(mr->context->cmd_fd, &request, sizeof(request)) == sizeof(request) ? 0 : errno;
}

#endif /* CHANGE_ACCESS_H */

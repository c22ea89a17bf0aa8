/* SPDX-License-Identifier: GPL-2.0 */
/* Advice for a range of a region that is given by the kernel's own call. */
#ifndef ADVISE_MR_H
#define ADVISE_MR_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdint.h>
#include <sys/ioctl.h>

static inline struct ib_uverbs_attr mandatory(__u16 id, __u16 len, __u64 data)
{
	return (struct ib_uverbs_attr) {
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data,
	};
}

/*
 * 0, or an errno.  It does as ibv_advise_mr() would, which ends in libibverbs, because rxe's provider lacks it: fetch the
 * pages of @range, to write to them; @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH, at once, or 0, some time later.
 */
static inline int advise_mr(const struct ibv_pd *pd, __u32 flags, struct ib_uverbs_sge range)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[4];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd), .object_id = UVERBS_OBJECT_MR,
			.method_id = UVERBS_METHOD_ADVISE_MR, .num_attrs = 4,
			.driver_id = RDMA_DRIVER_RXE,
		},
		.attrs = {
			mandatory(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, pd->handle),
			mandatory(UVERBS_ATTR_ADVISE_MR_ADVICE, sizeof(__u64),
				  IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE),
			mandatory(UVERBS_ATTR_ADVISE_MR_FLAGS, sizeof(__u32), flags),
			mandatory(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sizeof(range), (uintptr_t)&range),
		},
	};

	return ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &cmd) ? errno : 0;
}

#endif /* ADVISE_MR_H */

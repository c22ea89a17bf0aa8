// SPDX-License-Identifier: GPL-2.0
/*
 * A driver without on-demand paging says so, and refuses what would need it.
 *
 *	without-odp	with the first RDMA device; prints KTAP
 */
#include <err.h>
#include <kselftest_harness.h>
#include <stdlib.h>

#include "advise-mr.h"

#define PAGE	4096

FIXTURE(device) {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *memory;
};

FIXTURE_SETUP(device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !*list)
		errx(1, "no RDMA device");
	self->context = ibv_open_device(*list);
	self->pd = self->context ? ibv_alloc_pd(self->context) : NULL;
	self->memory = aligned_alloc(PAGE, PAGE);
	if (!self->pd || !self->memory)
		err(1, "%s", ibv_get_device_name(*list));
}

FIXTURE_TEARDOWN(device)
{
	ibv_dealloc_pd(self->pd);
	ibv_close_device(self->context);
}

TEST_F(device, offers_nothing)
{
	struct ibv_device_attr_ex attr = { };

	ASSERT_EQ(0, ibv_query_device_ex(self->context, NULL, &attr));
	EXPECT_EQ(0, attr.odp_caps.general_caps);
	EXPECT_EQ(0, attr.odp_caps.per_transport_caps.rc_odp_caps);
	EXPECT_EQ(0, attr.odp_caps.per_transport_caps.ud_odp_caps);
}

TEST_F(device, refuses_an_on_demand_region)
{
	struct ibv_mr *mr = ibv_reg_mr(self->pd, self->memory, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);

	ASSERT_EQ(NULL, mr);
	EXPECT_STREQ(strerror(EOPNOTSUPP), strerror(errno));
}

/* A driver with on-demand paging looks at the key first, and there is none, so its bugs do no harm here. */
TEST_F(device, refuses_advice)
{
	const struct ib_uverbs_sge range = { .addr = (uintptr_t)self->memory, .length = PAGE };

	EXPECT_STREQ(strerror(EOPNOTSUPP), strerror(advise_mr(self->pd, IB_UVERBS_ADVISE_MR_FLAG_FLUSH, range)));
}

TEST_HARNESS_MAIN

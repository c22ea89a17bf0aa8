// SPDX-License-Identifier: GPL-2.0
/*
 * The initiator of first-flush.c, by functions of librdmacm that only the rdma-core series of this project has.  Its
 * target is `first-flush target ADDRESS`.
 *
 *	flush-helpers ADDRESS
 *
 *	cc -o flush-helpers flush-helpers.c -lrdmacm -libverbs
 */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	static char text[] = "hello, all of you";
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 3, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_SEND,
	};
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 6 };
	struct { uint64_t addr; uint32_t rkey; } region;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (argc != 2)
		errx(1, "usage: flush-helpers ADDRESS");
	if (rdma_getaddrinfo(argv[1], "7473", &hints, &info) || rdma_create_ep(&id, info, NULL, NULL))
		err(1, "%s", argv[1]);
	if (rdma_create_qp_ex(id, &attr))
		err(1, "a queue pair for FLUSH");
	mr = rdma_reg_msgs(id, text, sizeof(text));
	if (!mr || rdma_connect(id, &param))
		err(1, "%s", argv[1]);
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));

	if (rdma_post_write(id, NULL, text, sizeof(text), mr, 0, region.addr, region.rkey) ||
	    rdma_post_flush(id, NULL, sizeof(text), 0, region.addr, region.rkey, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE) ||
	    rdma_post_sendv(id, NULL, NULL, 0, 0))
		err(1, "a request is not posted");
	for (int i = 0; i < 3; i++)
		if (rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			errx(1, "request %d: %s", i + 1, ibv_wc_status_str(wc.status));
	puts("flushed by rdma_post_flush()");
	return 0;
}

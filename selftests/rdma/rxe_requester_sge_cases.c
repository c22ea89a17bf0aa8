// SPDX-License-Identifier: GPL-2.0
/* The kernel as requester: requests that need no SGE, and fields that are not filled in. */
#include "rxe_requester.h"

FIXTURE_VARIANT(no_sge) {
	struct wr (*make)(void);
};

FIXTURE(no_sge) {
	struct client client;
};

FIXTURE_TEARDOWN(no_sge)
{
	client_close(&self->client);
}

FIXTURE_SETUP(no_sge)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	client_open(&self->client, &config);
	config.no_sge = true;
	line_open(&self->client, &self->client.line, &config);
}

ROW(no_sge, flush, "2 FLUSH", "FLUSH of a range") { wr_flush };
ROW(no_sge, atomic_write, "2 ATOMIC WRITE", "ATOMIC WRITE") { wr_atomic_write };

CASE(no_sge, posted, "2 user API", "a QP with max_send_sge 0, which it does not need, sends it")
{
	struct packet rq = post(_metadata, &self->client, variant->make());
	struct packet got;
	struct frame frame;

	/* A new QP knows nothing yet of the ICRC of FLUSH. */
	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	ASSERT_TRUE(frame_to_packet(&frame, &got));
	EXPECT_EQ(rq.opcode, got.opcode);
	EXPECT_EQ(rq.va, got.va);
	EXPECT_EQ(rq.dmalen, got.dmalen);
	respond(&self->client, &rq);
	expect_wc(_metadata, &self->client, self->client.line.id, IBV_WC_SUCCESS);
}

FIXTURE(unused_field) {
	struct client client;
};

FIXTURE_TEARDOWN(unused_field)
{
	client_close(&self->client);
}

FIXTURE_SETUP(unused_field)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
}

/* The packets before it are about as long, and leave memory full of ones to it. */
CASE(unused_field, compare_of_fetch_add, "1 AtomicETH",
     "the compare field, which means nothing in FETCH ADD, is 0 and no memory of the kernel")
{
	struct client *client = &self->client;
	struct packet rq, got;
	struct frame frame;
	struct wr write = wr_write();
	int i, j;

	memset(client->end.memory, 0xff, MEMORY_LEN);
	write.len = 20;
	for (i = 0; i < 16; i++) {
		for (j = 0; j < 4; j++) {
			rq = post_and_expect(_metadata, client, write);
			respond(client, &rq);
			expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
		}
		rq = post(_metadata, client, wr_fetch_add());
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
		ASSERT_TRUE(frame_to_packet(&frame, &got));
		ASSERT_EQ(ROCE_RC_FETCH_ADD, got.opcode);
		ASSERT_EQ(0, got.compare);
		respond(client, &rq);
		expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
		/* It has stored what the peer said. */
		memset(client->end.memory, 0xff, 8);
	}
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of crash-states: runs made by hand, and all states that their cuts allow.
 *
 * A word holds one byte eight times.  A state is written as a string with one digit for each word,
 * from offset 0 on.  So { "00", "10", "11" } says that the second word is never new without the first.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kselftest_harness.h>

#include "../../selftests/rdma/rxe_mpe_crc32.h"
#include "../../selftests/rdma/rxe_mpe_roce.h"
#include "checker.h"
#include "explain.h"

#define DEVICE	65536
#define VA	0x7f0000000000ull
#define KEY	0x101
#define OTHER	0x202		/* the same memory, by another key: words 0 to 3 */
#define GLOBAL	ROCE_FETH_PLT_GLOBAL
#define DURABLE	ROCE_FETH_PLT_PERSISTENT
#define QP	17

static const uint8_t target_mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };
static const uint8_t initiator_mac[6] = { 0x52, 0x54, 0, 0, 0, 2 };

/* How the next packets look. */
static struct {
	FILE *pcap;
	char folder[32];
	unsigned int frames;
	bool ipv6, legacy, broken;
	int vlans;
	uint32_t qp, peer;
	uint16_t port;
} net;

static struct before before;

static char *in_folder(const char *name)
{
	return xasprintf("%s/%s", net.folder, name);
}

static void put32(FILE *file, uint32_t v) { fwrite(&v, 4, 1, file); }

static void begin(void)
{
	FILE *file;

	memset(&net, 0, sizeof(net));
	memset(&before, 0, sizeof(before));
	strcpy(net.folder, "/tmp/crash-test.XXXXXX");
	if (!mkdtemp(net.folder))
		exit(1);
	net.qp = QP;
	net.peer = 33;
	net.port = 50000;
	net.pcap = fopen(in_folder("server.pcap"), "w");
	put32(net.pcap, 0xa1b2c3d4);
	put32(net.pcap, 4 << 16 | 2);
	put32(net.pcap, 0);
	put32(net.pcap, 0);
	put32(net.pcap, 65536);
	put32(net.pcap, 1);	/* Ethernet */
	file = fopen(in_folder("server.memory"), "w");
	fprintf(file, "link 52:54:00:00:00:01\ndevice dax0.0 0 %u\n", DEVICE);
	fprintf(file, "region 0x%x 0x%x 0x%llx %u\npiece 0 %u dax0.0 0\n", KEY, KEY, VA, DEVICE, DEVICE);
	fprintf(file, "region 0x%x 0x%x 0x%llx 32\npiece 0 32 dax0.0 0\n", OTHER, OTHER, VA);
	fprintf(file, "region 0x303 0x303 0x1000 4096\n");	/* ordinary memory */
	fprintf(file, "window 0x404 0x%llx 16 0x%x 0x2\n", VA + 8, KEY);
	fclose(file);
	file = fopen(in_folder("server.pmem0.start"), "w");
	if (ftruncate(fileno(file), DEVICE))
		exit(1);
	fclose(file);
}

static uint32_t icrc_of(const uint8_t *ip, size_t length)
{
	static const uint8_t ones[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	uint8_t copy[9000];

	if (!net.ipv6)
		return net.legacy ? roce_icrc_legacy(ip, length) : roce_icrc(ip, length);
	memcpy(copy, ip, length);
	copy[0] = 0x6f;
	copy[1] = copy[2] = copy[3] = copy[7] = copy[46] = copy[47] = copy[52] = 0xff;
	return crc32(crc32(0, ones, 8), copy, length);
}

/* One packet: BTH, what is behind it, ICRC. */
static void packet(bool to_target, uint8_t opcode, uint32_t psn, const void *rest, size_t length)
{
	uint8_t buffer[9000] __attribute__((aligned(4))) = { }, *frame = buffer + 2;
	uint8_t *at = frame, *ip, pad = -length & 3;	/* so that all behind Ethernet is aligned */
	struct roce_bth *bth;
	size_t udp_length;

	memcpy(at, to_target ? target_mac : initiator_mac, 6);
	memcpy(at + 6, to_target ? initiator_mac : target_mac, 6);
	at += 12;
	for (int i = 0; i < net.vlans; i++) {
		*(uint16_t *)at = htons(i + 1 < net.vlans ? 0x88a8 : 0x8100);
		*(uint16_t *)(at + 2) = htons(42);
		at += 4;
	}
	*(uint16_t *)at = htons(net.ipv6 ? 0x86dd : 0x0800);
	ip = at += 2;
	udp_length = 8 + sizeof(*bth) + length + pad + 4;
	if (net.ipv6) {
		ip[0] = 0x60;
		ip[3] = 7;	/* flow label */
		*(uint16_t *)(ip + 4) = htons(udp_length);
		ip[6] = 17;
		ip[7] = 64;
		ip[8] = ip[24] = 0xfe;
		ip[23] = to_target ? 2 : 1;
		ip[39] = to_target ? 1 : 2;
		at += 40;
	} else {
		ip[0] = 0x45;
		*(uint16_t *)(ip + 2) = htons(udp_length + 20);
		ip[8] = 64;
		ip[9] = 17;
		ip[12] = ip[16] = 10;
		ip[15] = to_target ? 2 : 1;
		ip[19] = to_target ? 1 : 2;
		at += 20;
	}
	*(uint16_t *)at = htons(net.port);
	*(uint16_t *)(at + 2) = htons(4791);
	*(uint16_t *)(at + 4) = htons(udp_length);
	bth = (struct roce_bth *)(at + 8);
	bth->opcode = opcode;
	bth->flags = pad << ROCE_BTH_PAD_SHIFT;
	bth->qpn = htobe32(to_target ? net.qp : net.peer);
	bth->apsn = htobe32(psn & ROCE_24BITS);
	at += 8 + sizeof(*bth);
	memcpy(at, rest, length);
	at += length + pad;
	*(uint32_t *)at = htole32(icrc_of(ip, at - ip)) ^ net.broken;
	at += 4;
	net.frames++;
	put32(net.pcap, 0);
	put32(net.pcap, net.frames);
	put32(net.pcap, at - frame);
	put32(net.pcap, at - frame);
	fwrite(frame, 1, at - frame, net.pcap);
}

static void request(uint8_t opcode, uint32_t psn, uint32_t key, uint64_t place, uint32_t length,
		    const void *payload, size_t payload_length)
{
	uint8_t rest[8192];
	struct roce_reth reth = { htobe64(VA + place), htobe32(key), htobe32(length) };

	memcpy(rest, &reth, sizeof(reth));
	memcpy(rest + sizeof(reth), payload, payload_length);
	packet(true, opcode, psn, rest, sizeof(reth) + payload_length);
}

/* All bytes are @value. */
static void write_bytes(uint32_t psn, uint32_t key, uint64_t place, uint32_t length, uint8_t value)
{
	uint8_t bytes[4096];

	memset(bytes, value, sizeof(bytes));
	request(ROCE_RC_WRITE_ONLY, psn, key, place, length, bytes, length);
}

static void write_word(uint32_t psn, unsigned int word, uint8_t value)
{
	write_bytes(psn, KEY, word * 8, 8, value);
}

static void atomic_write(uint32_t psn, unsigned int word, uint8_t value)
{
	uint8_t bytes[8];

	memset(bytes, value, 8);
	request(ROCE_RC_ATOMIC_WRITE, psn, KEY, word * 8, 8, bytes, 8);
}

static void flush_as(uint32_t psn, uint32_t key, uint64_t place, uint32_t length, uint32_t feth)
{
	struct {
		uint32_t feth;
		struct roce_reth reth;
	} __attribute__((packed)) rest = {
		htobe32(feth), { htobe64(VA + place), htobe32(key), htobe32(length) },
	};

	packet(true, ROCE_RC_FLUSH, psn, &rest, sizeof(rest));
}

static void flush(uint32_t psn, unsigned int word, unsigned int words)
{
	flush_as(psn, KEY, word * 8, words * 8, DURABLE);
}

static void answer(uint8_t opcode, uint32_t psn, uint8_t syndrome)
{
	uint32_t aeth = htobe32((uint32_t)syndrome << 24 | 1);

	packet(false, opcode, psn, &aeth, 4);
}

static void ack(uint32_t psn) { answer(ROCE_RC_ACK, psn, 0x1f); }
static void response(uint32_t psn) { answer(ROCE_RC_READ_RESPONSE_ONLY, psn, 0x1f); }
static void nak(uint32_t psn, uint8_t syndrome) { answer(ROCE_RC_ACK, psn, syndrome); }

/******************************************************************************
 * What is read of it
 */

static struct memory memory;
static struct capture capture;
static struct content content, boot;
static struct history history;
static struct model model;

static void load(enum order order)
{
	if (net.pcap)
		fclose(net.pcap);
	net.pcap = NULL;
	memory_read(&memory, in_folder("server.memory"));
	capture_read(&capture, in_folder("server.pcap"), memory.mac);
	content_map(&content, in_folder("server.pmem0.start"), &memory);
	before.ready = content.bytes;
	history_read(&history, &capture, &memory, &before);
	model_init(&model, &history, order, 1);
}

static void remove_folder(void)
{
	unlink(in_folder("server.pcap"));
	unlink(in_folder("server.memory"));
	unlink(in_folder("server.pmem0.start"));
	rmdir(net.folder);
}

/* The digits of a state: of the words from 0 on. */
static void digits(const struct state *state, unsigned int words, char *text)
{
	for (unsigned int i = 0; i < words; i++) {
		uint32_t w = history.words.n ? history_word(&history, i * 8) : NEVER;
		int32_t position = w == NEVER ? START : model.top[w];
		uint64_t value;

		for (size_t h = 0; h < state->held.n; h++)
			if (state->held.v[h].word == w)
				position = state->held.v[h].position;
		value = w == NEVER ? 0 : model_value(&history, w, position);
		/* A word of two values is one that was stored in parts. */
		text[i] = value == (value & 0xff) * 0x0101010101010101ull ? '0' + (value & 0xff) : '/';
	}
	text[words] = 0;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* All states of a cut, sorted, with a space between. */
static const char *states_at(unsigned int frame, unsigned int words)
{
	static char text[65536];
	static char all[4096][16];
	struct state state = { };
	size_t n = 0;

	model_cut(&model, frame);
	for (size_t i = 0; i < model_numbers(&model); i++)
		if (model_state(&model, i, &state))
			digits(&state, words, all[n++]);
	qsort(all, n, sizeof(*all), by_text);
	text[0] = 0;
	for (size_t i = 0; i < n; i++)
		if (!i || strcmp(all[i], all[i - 1]))
			strcat(strcat(text, i ? " " : ""), all[i]);
	free(state.held.v);
	return text;
}

#define EXPECT_STATES(frame, words, wanted) EXPECT_STREQ(wanted, states_at(frame, words))

/* What the program says when it cannot go on. */
static const char *error_of(void (*what)(enum order order))
{
	static char text[4096];
	size_t have = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds))
		exit(1);
	if (net.pcap)
		fclose(net.pcap);
	net.pcap = NULL;
	pid = fork();
	if (!pid) {
		dup2(fds[1], 2);
		what(ORDER_SPEC);
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + have, sizeof(text) - 1 - have)) > 0)
		have += n;
	text[have] = 0;
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status) == STATUS_ERROR ? text : "no error";
}

#define EXPECT_ERROR(wanted) do { \
	const char *said = error_of(load); \
	EXPECT_NE(NULL, strstr(said, wanted)) TH_LOG("%s", said); \
} while (0)

FIXTURE(run) {};
FIXTURE_SETUP(run) { begin(); }
FIXTURE_TEARDOWN(run) { remove_folder(); }

/******************************************************************************
 * The model
 */

TEST_F(run, what_is_not_flushed_may_be_there_or_not)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	ack(2);
	load(ORDER_SPEC);
	EXPECT_STATES(0, 2, "00");
	EXPECT_STATES(1, 2, "00 10");
	EXPECT_STATES(3, 2, "00 01 10 11");
}

TEST_F(run, an_answered_persistent_flush_is_a_floor)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	response(2);
	write_word(3, 0, 2);
	load(ORDER_SPEC);
	EXPECT_STATES(2, 1, "0 1");
	EXPECT_STATES(3, 1, "1");
	EXPECT_STATES(4, 1, "1 2");
}

TEST_F(run, all_values_above_the_floor_may_be_left)
{
	write_word(1, 0, 1);
	write_word(2, 0, 2);
	write_word(3, 0, 3);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 1, "0 1 2 3");
}

TEST_F(run, a_write_is_torn_between_words)
{
	write_bytes(1, KEY, 0, 24, 1);
	load(ORDER_SPEC);
	EXPECT_STATES(1, 3, "000 001 010 011 100 101 110 111");
}

TEST_F(run, a_write_may_pass_a_flush)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 2, "00 01 10 11");
}

TEST_F(run, an_ordered_target_lets_nothing_pass)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	load(ORDER_ALL);
	EXPECT_STATES(3, 2, "00 10 11");
}

TEST_F(run, an_atomic_write_never_passes_a_flush)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 1, 1);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 2, "00 10 11");
}

TEST_F(run, an_atomic_write_may_come_before_a_write_that_is_not_flushed)
{
	write_word(1, 0, 1);
	atomic_write(2, 1, 1);
	flush(3, 1, 1);
	response(3);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 2, "00 01 10 11");
	EXPECT_STATES(4, 2, "01 11");
}

TEST_F(run, two_appends_at_once_keep_their_order)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	atomic_write(3, 2, 1);
	flush(4, 2, 1);
	write_word(5, 1, 1);
	flush(6, 1, 1);
	atomic_write(7, 2, 2);
	load(ORDER_SPEC);
	EXPECT_STATES(7, 3, "000 010 100 101 110 111 112");
}

TEST_F(run, a_global_flush_is_no_floor)
{
	write_word(1, 0, 1);
	flush_as(2, KEY, 0, 8, GLOBAL);
	response(2);
	write_word(3, 1, 1);
	flush_as(4, KEY, 8, 8, GLOBAL | DURABLE);
	response(4);
	load(ORDER_SPEC);
	EXPECT_STATES(6, 2, "01 11");
}

TEST_F(run, a_flush_holds_what_lies_in_its_range)
{
	write_bytes(1, KEY, 0, 24, 1);
	flush(2, 1, 1);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 3, "010 011 110 111");
}

TEST_F(run, a_range_one_byte_short_leaves_the_last_word)
{
	write_bytes(1, KEY, 0, 16, 1);
	flush_as(2, KEY, 0, 15, DURABLE);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 2, "10 11");
}

TEST_F(run, a_range_that_ends_with_the_write_holds_its_last_bytes)
{
	write_bytes(1, KEY, 0, 11, 1);
	flush_as(2, KEY, 0, 11, DURABLE);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 2, "1/");
}

TEST_F(run, a_flush_of_the_region_holds_all_that_its_key_names)
{
	write_bytes(1, KEY, 0, 40, 1);
	flush_as(2, OTHER, 4711, 3, DURABLE | ROCE_FETH_SEL_MR);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 5, "11110 11111");
}

TEST_F(run, a_flush_of_a_window_holds_the_window)
{
	write_bytes(1, KEY, 0, 32, 1);
	flush_as(2, 0x404, 0, 0, DURABLE | ROCE_FETH_SEL_MR);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 4, "0110 0111 1110 1111");
}

TEST_F(run, a_plain_acknowledge_does_not_answer_a_flush)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	ack(2);
	ack(3);
	load(ORDER_SPEC);
	EXPECT_STATES(5, 1, "0 1");
	EXPECT_EQ(0, model.all_answers);
}

TEST_F(run, a_read_gives_no_floor)
{
	write_word(1, 0, 1);
	request(ROCE_RC_READ_REQUEST, 2, KEY, 0, 8, "", 0);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 1, "0 1");
}

/* Nothing has told the MTU, so the READ may have taken several PSNs; the FLUSH is before it. */
TEST_F(run, a_flush_before_a_long_read_is_answered)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	request(ROCE_RC_READ_REQUEST, 3, KEY, 0, 512, "", 0);
	response(2);
	load(ORDER_SPEC);
	EXPECT_EQ(1, model.all_answers);
	EXPECT_STATES(4, 1, "1");
}

TEST_F(run, an_answered_flush_says_that_those_before_it_are_executed)
{
	write_word(1, 0, 1);
	flush(2, 0, 1);
	write_word(3, 1, 1);
	flush(4, 1, 1);
	response(4);
	load(ORDER_SPEC);
	EXPECT_STATES(5, 2, "11");
}

TEST_F(run, two_stores_of_half_a_word_leave_it_in_parts)
{
	write_bytes(1, KEY, 0, 4, 1);
	write_bytes(2, KEY, 4, 4, 1);
	load(ORDER_SPEC);
	EXPECT_STATES(2, 1, "/ 0 1");
}

TEST_F(run, atomics_store_what_their_answers_tell)
{
	struct roce_atomic_eth add = { htobe64(VA), htobe32(KEY), htobe64(0x0202020202020202), 0 };
	struct {
		uint32_t aeth;
		uint64_t original;
	} __attribute__((packed)) told = { htobe32(0x1f000001), htobe64(0x0101010101010101) };

	write_word(1, 0, 1);
	packet(true, ROCE_RC_FETCH_ADD, 2, &add, sizeof(add));
	packet(false, ROCE_RC_ATOMIC_ACK, 2, &told, sizeof(told));
	add.compare = htobe64(0x0303030303030303);
	add.swap_or_add = htobe64(0x0404040404040404);
	packet(true, ROCE_RC_CMP_SWAP, 3, &add, sizeof(add));
	load(ORDER_SPEC);
	EXPECT_STATES(4, 1, "0 1 3 4");
}

/******************************************************************************
 * QPs
 */

static void use_qp(uint32_t qp, uint32_t peer, uint16_t port)
{
	net.qp = qp;
	net.peer = peer;
	net.port = port;
}

TEST_F(run, a_flush_speaks_for_its_own_qp)
{
	use_qp(17, 33, 50000);
	write_word(1, 0, 1);
	ack(1);
	use_qp(18, 34, 50001);
	write_word(100, 1, 1);
	flush(101, 0, 2);
	response(101);
	load(ORDER_SPEC);
	EXPECT_STATES(5, 2, "01 11");
}

/* The port is that of Linux, by the numbers of both QPs. */
static uint16_t port_of(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t)a * b;

	v ^= v >> 20;
	v ^= v >> 40;
	return 0xc000 | ((v & 0x3fff) ^ ((v >> 14) & 0x3f));
}

TEST_F(run, qps_with_the_same_psns_are_told_apart_by_their_ports)
{
	use_qp(17, 33, port_of(17, 33));
	write_word(1, 0, 1);
	flush(2, 0, 1);
	use_qp(18, 35, port_of(18, 35));
	write_word(1, 1, 1);
	flush(2, 1, 1);
	response(2);	/* of QP 18 */
	use_qp(17, 33, port_of(17, 33));
	ack(1);
	load(ORDER_SPEC);
	EXPECT_STATES(6, 2, "01 11");
}

TEST_F(run, qps_that_cannot_be_told_apart_are_an_error)
{
	use_qp(17, 33, 50000);
	write_word(1, 0, 1);
	use_qp(18, 35, 50000);
	write_word(1, 1, 1);
	ack(1);
	use_qp(17, 33, 50000);
	ack(1);
	EXPECT_ERROR("it may answer one of several QPs, and nothing tells which");
}

TEST_F(run, qps_share_words)
{
	use_qp(17, 33, 50000);
	write_word(1, 0, 1);
	use_qp(18, 34, 50001);
	write_word(100, 0, 2);
	use_qp(17, 33, 50000);
	flush(2, 0, 1);
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(4, 1, "1 2");
}

/******************************************************************************
 * What got lost, and how packets look
 */

TEST_F(run, psns_wrap)
{
	write_word(0xfffffe, 0, 1);
	flush(0xffffff, 0, 1);
	response(0xffffff);
	write_word(0, 1, 1);
	flush(1, 1, 1);
	response(1);
	load(ORDER_SPEC);
	EXPECT_STATES(4, 2, "10 11");
	EXPECT_STATES(6, 2, "11");
}

TEST_F(run, duplicates_change_nothing)
{
	write_word(1, 0, 1);
	write_word(2, 0, 2);
	ack(2);
	write_word(1, 0, 1);
	flush(3, 0, 1);
	response(3);
	flush(3, 0, 1);
	response(3);
	load(ORDER_SPEC);
	EXPECT_EQ(3, history.requests.n);
	EXPECT_STATES(8, 1, "2");
}

TEST_F(run, what_comes_out_of_order_is_not_received)
{
	write_word(1, 0, 1);
	write_word(3, 1, 3);
	nak(2, ROCE_AETH_NAK_PSN);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 2, "00 10");
}

TEST_F(run, what_the_target_asks_for_again_it_has_not_got)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);	/* lost behind the card */
	write_word(3, 2, 1);
	nak(2, ROCE_AETH_NAK_PSN);
	write_word(2, 1, 1);
	load(ORDER_SPEC);
	EXPECT_STATES(4, 3, "000 100");
	EXPECT_STATES(5, 3, "000 010 100 110");
}

TEST_F(run, what_was_sent_again_before_the_target_asked_is_found)
{
	write_word(1, 0, 1);	/* lost behind the card */
	write_word(2, 1, 1);
	write_word(1, 0, 1);
	nak(1, ROCE_AETH_NAK_PSN);
	write_word(2, 1, 1);
	ack(2);
	load(ORDER_SPEC);
	EXPECT_STATES(2, 2, "00");
	EXPECT_STATES(3, 2, "00 10");
	EXPECT_STATES(6, 2, "00 01 10 11");
}

/* The NAK is for what came out of order before. */
TEST_F(run, a_nak_that_is_late_takes_nothing_back)
{
	write_word(1, 0, 1);
	write_word(4, 1, 1);
	write_word(2, 1, 2);
	nak(2, ROCE_AETH_NAK_PSN);
	write_word(3, 2, 1);
	ack(3);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 3, "000 020 100 120");
	EXPECT_STATES(6, 3, "000 001 020 021 100 101 120 121");
}

TEST_F(run, what_is_refused_changes_nothing)
{
	write_word(1, 0, 1);
	write_word(2, 1, 1);
	nak(2, ROCE_AETH_NAK_ACCESS);
	write_word(3, 2, 1);
	load(ORDER_SPEC);
	EXPECT_STATES(4, 3, "000 100");
}

TEST_F(run, a_packet_with_a_wrong_icrc_is_not_received)
{
	net.broken = true;
	write_word(1, 0, 1);
	net.broken = false;
	load(ORDER_SPEC);
	EXPECT_EQ(1, capture.broken);
	EXPECT_STATES(1, 1, "0");
}

TEST_F(run, a_flush_with_the_icrc_of_linux_6_2_is_received)
{
	write_word(1, 0, 1);
	net.legacy = true;
	flush(2, 0, 1);
	net.legacy = false;
	response(2);
	load(ORDER_SPEC);
	EXPECT_STATES(3, 1, "1");
}

TEST_F(run, each_packet_of_a_write_counts_by_itself)
{
	uint8_t bytes[8];

	memset(bytes, 1, 8);
	request(ROCE_RC_WRITE_FIRST, 1, KEY, 0, 16, bytes, 8);
	packet(true, ROCE_RC_WRITE_LAST, 2, bytes, 8);
	flush(3, 0, 2);
	response(3);
	load(ORDER_SPEC);
	EXPECT_STATES(1, 2, "00 10");
	EXPECT_STATES(2, 2, "00 01 10 11");
	EXPECT_STATES(4, 2, "11");
}

TEST_F(run, a_long_read_takes_several_psns)
{
	write_bytes(1, KEY, 0, 8, 1);
	request(ROCE_RC_READ_REQUEST, 2, KEY, 0, 2048, "", 0);
	write_word(4, 1, 1);	/* two PSNs: an MTU of 1024 */
	ack(4);
	load(ORDER_SPEC);
	EXPECT_STATES(4, 2, "00 01 10 11");
}

TEST_F(run, ipv6_and_vlans_are_read)
{
	net.ipv6 = true;
	net.vlans = 2;
	write_bytes(1, KEY, 0, 11, 1);	/* and a pad */
	flush(2, 0, 2);
	response(2);
	load(ORDER_SPEC);
	EXPECT_EQ(0, capture.broken);
	EXPECT_STATES(2, 2, "0/ 00 1/ 10");
	EXPECT_STATES(3, 2, "1/");
}

TEST_F(run, ordinary_memory_is_left_alone)
{
	request(ROCE_RC_WRITE_ONLY, 1, 0x303, 0x1000 - VA, 8, "abcdefgh", 8);
	write_word(2, 0, 1);
	load(ORDER_SPEC);
	EXPECT_EQ(1, history.words.n);
}

/******************************************************************************
 * What cannot be followed
 */

TEST_F(run, a_gap_is_an_error)
{
	write_word(1, 0, 1);
	write_word(3, 1, 1);
	ack(3);
	EXPECT_ERROR("frame 3 (ACKNOWLEDGE, psn 3, QP 33): the target of QP 17 has got as far as psn 3, but psn 2 has not come: the capture has a gap");
}

TEST_F(run, an_unknown_key_is_an_error)
{
	write_bytes(1, 0x999, 0, 8, 1);
	ack(1);
	EXPECT_ERROR("frame 1 (WRITE, psn 1, QP 17): its key was never registered");
}

TEST_F(run, an_unknown_opcode_is_an_error)
{
	packet(true, 0x1f, 1, "", 0);
	ack(1);
	EXPECT_ERROR("frame 1 (opcode 0x1f, psn 1, QP 17): an opcode that is unknown here");
}

TEST_F(run, an_unreliable_write_is_an_error)
{
	request(0x2a, 1, KEY, 0, 8, "abcdefgh", 8);
	EXPECT_ERROR("it goes to persistent memory by an unreliable connection");
}

TEST_F(run, a_qp_used_again_is_an_error)
{
	write_word(1000, 0, 1);
	ack(1000);
	write_word(1, 0, 1);
	ack(1);
	EXPECT_ERROR("a QP used again cannot be followed");
}

static void load_stores(enum order order)
{
	load(order);
	history_needs_stores(&history);
}

TEST_F(run, no_request_is_an_error)
{
	EXPECT_EQ(NULL, strstr(error_of(load), "error:"));
	EXPECT_NE(NULL, strstr(error_of(load_stores), "nothing to check: the capture has 0 frames, and no request to the target"));
}

TEST_F(run, no_store_to_persistent_memory_is_an_error)
{
	request(ROCE_RC_WRITE_ONLY, 1, 0x303, 0x1000 - VA, 8, "abcdefgh", 8);
	flush(2, 0, 1);
	response(2);
	EXPECT_NE(NULL, strstr(error_of(load_stores), "no request stored to persistent memory.  The target took 2 packets"));
}

TEST_F(run, a_store_is_enough)
{
	write_word(1, 0, 1);
	EXPECT_STREQ("no error", error_of(load_stores));
}

/* What the device holds when the target boots, or is ready: the first words, as digits. */
static void hold(const char *name, const char *words)
{
	static uint8_t bytes[DEVICE];
	FILE *file = fopen(in_folder(name), "w");

	for (size_t i = 0; words[i]; i++)
		memset(bytes + i * 8, words[i] - '0', 8);
	fwrite(bytes, DEVICE, 1, file);
	fclose(file);
}

/*
 * The copy is made when the first of two requests has come.  What the target stored itself until it was
 * ready stays: word 1.
 */
TEST_F(run, what_came_before_the_copy_is_told_from_what_was_there)
{
	write_word(1, 0, 7);
	before.copied = ftell(net.pcap);
	write_word(2, 1, 9);
	hold("server.pmem0.start", "75");
	hold("server.pmem0.boot", "34");
	load(ORDER_SPEC);
	EXPECT_STATES(2, 2, "75 79");
	content_map(&boot, in_folder("server.pmem0.boot"), &memory);
	before.booted = boot.bytes;
	load(ORDER_SPEC);
	EXPECT_STATES(0, 2, "35");
	EXPECT_STATES(1, 2, "35 75");
	EXPECT_STATES(2, 2, "35 39 75 79");
	/* A byte less, and the request came behind the copy. */
	before.copied--;
	load(ORDER_SPEC);
	EXPECT_STATES(2, 2, "75 79");
	unlink(in_folder("server.pmem0.boot"));
}

/* The head of a capture, of the record of a frame; a frame whose length is senseless is none that was cut short. */
#define PCAP_HEAD	24
#define RECORD_HEAD	16

TEST_F(run, half_a_frame_at_the_end_is_left_out)
{
	long whole, end;

	write_word(1, 0, 1);
	whole = ftell(net.pcap);
	write_word(2, 1, 1);
	end = ftell(net.pcap);
	load(ORDER_SPEC);
	EXPECT_EQ(false, capture.half_frame);
	EXPECT_EQ(2, capture.frames);
	while (--end > whole) {
		if (truncate(in_folder("server.pcap"), end))
			exit(1);
		load(ORDER_SPEC);
		EXPECT_EQ(true, capture.half_frame);
		EXPECT_EQ(1, capture.frames);
		EXPECT_STATES(1, 2, "00 10");
	}
}

TEST_F(run, a_damaged_capture_is_an_error)
{
	write_word(1, 0, 1);
	fseek(net.pcap, PCAP_HEAD + RECORD_HEAD / 2, SEEK_SET);
	put32(net.pcap, UINT32_MAX);
	EXPECT_ERROR("server.pcap ends in frame 1");
}

static void bad_memory(const char *line)
{
	FILE *file = fopen(in_folder("server.memory"), "a");

	fprintf(file, "%s\n", line);
	fclose(file);
}

TEST_F(run, what_the_lab_could_not_learn_is_an_error)
{
	bad_memory("unknown no kprobes");
	EXPECT_ERROR("could not learn what was registered: no kprobes");
}

TEST_F(run, a_target_without_an_address_is_an_error)
{
	FILE *file = fopen(in_folder("server.memory"), "w");

	fprintf(file, "device dax0.0 0 %u\n", DEVICE);
	fclose(file);
	write_word(1, 0, 1);
	EXPECT_ERROR("it has no line \"link MAC\"");
}

TEST_F(run, a_line_that_is_not_understood_is_an_error)
{
	bad_memory("region what");
	EXPECT_ERROR("line 9: not understood: region what");
}

TEST_F(run, a_key_that_is_given_twice_is_an_error)
{
	bad_memory("region 0x101 0x101 0x1000 4096");
	EXPECT_ERROR("the key 0x101 was given twice");
}

/******************************************************************************
 * The sample
 */

/* The extremes of a large cut are there, early, and no state is that the model does not allow. */
TEST_F(run, a_sample_has_the_extremes_and_only_what_is_allowed)
{
	bool none = false, all = false, missing[12] = { }, alone[12] = { };
	struct state state = { }, copy = { };
	char text[16];

	write_bytes(1, KEY, 0, 96, 1);
	flush(2, 0, 4);
	write_bytes(3, KEY, 0, 32, 2);
	atomic_write(4, 0, 3);
	load(ORDER_SPEC);
	model_cut(&model, 4);
	ASSERT_EQ(0, model_numbers(&model));
	for (size_t i = 0; i < 2000; i++) {
		unsigned int new = 0, old = 0, which_new = 0, which_old = 0;

		if (!model_state(&model, i, &state))
			continue;
		copy.held.n = 0;
		for (size_t h = 0; h < state.held.n; h++)
			*list_add(&copy.held) = state.held.v[h];
		ASSERT_EQ(true, model_allows(&model, &copy));
		EXPECT_EQ(state.hash, copy.hash);
		digits(&state, 12, text);
		for (unsigned int w = 4; w < 12; w++) {
			if (text[w] == '1') {
				new++;
				which_new = w;
			} else {
				old++;
				which_old = w;
			}
		}
		/* Where the ATOMIC WRITE is, the FLUSH has been executed. */
		if (text[0] == '3')
			for (unsigned int w = 1; w < 4; w++)
				EXPECT_NE('0', text[w]);
		none |= !strcmp(text, "000000000000");
		all |= !strcmp(text, "322211111111");
		if (i < 2 + 4 * model.open.n && old == 1)
			missing[which_old] = true;
		if (i < 2 + 4 * model.open.n && new == 1)
			alone[which_new] = true;
	}
	EXPECT_EQ(true, none);
	EXPECT_EQ(true, all);
	for (unsigned int w = 4; w < 12; w++) {
		EXPECT_EQ(true, missing[w]);
		EXPECT_EQ(true, alone[w]);
	}
}

/* Of a small cut, too, the first states are of all kinds: it may get no more than a few. */
TEST_F(run, the_first_states_of_a_small_cut_differ_in_each_word)
{
	bool old[10] = { }, new[10] = { };
	struct state state = { };
	char text[16];

	write_bytes(1, KEY, 0, 80, 1);
	load(ORDER_SPEC);
	model_cut(&model, 1);
	ASSERT_NE(0, model_numbers(&model));
	for (size_t i = 3; i < 2 + 32; i += 2) {	/* no extremes */
		ASSERT_EQ(true, model_state(&model, i, &state));
		digits(&state, 10, text);
		for (unsigned int w = 0; w < 10; w++)
			*(text[w] == '1' ? &new[w] : &old[w]) = true;
	}
	for (unsigned int w = 0; w < 10; w++) {
		EXPECT_EQ(true, old[w]);
		EXPECT_EQ(true, new[w]);
	}
}

TEST_HARNESS_MAIN

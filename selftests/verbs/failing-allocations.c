// SPDX-License-Identifier: GPL-2.0
/*
 * Each verb, and the making of a link, with one allocation of the kernel after the other failing.
 *
 *	failing-allocations NETDEV [PATTERN]	NETDEV has no link; status 4 if the kernel cannot let allocations fail
 *
 * A command runs with its first allocation failing, then with its second, and so on until none fails (fail-nth of the
 * kernel's fault injection); of the thousands that make a link, one of EACH.  It may fail, or do without.  In the end it
 * has to work, and what `rdma resource` counts is as before.  rxe-vm looks at the kernel's console.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rxe_end.h"
#include "rxe_peer.h"

#define LINK		"rxe9"
#define LINK_PATH	"/sys/class/infiniband/" LINK
#define MANY_PAGES	1100	/* their table takes several pages */
#define EACH		50	/* of the first allocations of a command fails, and then one of EACH */
#define MOST		20000	/* allocations of a command */

static const char *netdev;
static struct rxe_end end;
static struct ibv_mr *mr;
static char *memory;

/* What a command makes; NULL if it fails */
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *new_mr;
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static struct ibv_qp *qp;
static struct rxe_qp pair[2];

/* ---- The commands, and what undoes them ---- */

static bool open_device(void)
{
	context = ibv_open_device(end.context->device);
	return context;
}

static void close_device(void)
{
	if (context && ibv_close_device(context))
		err(1, "ibv_close_device");
}

static bool alloc_pd(void)
{
	pd = ibv_alloc_pd(end.context);
	return pd;
}

static void dealloc_pd(void)
{
	if (pd && ibv_dealloc_pd(pd))
		err(1, "ibv_dealloc_pd");
}

static bool create_cq(void)
{
	cq = ibv_create_cq(end.context, 500, NULL, end.channel, 0);
	return cq;
}

static void destroy_cq(void)
{
	if (cq && ibv_destroy_cq(cq))
		err(1, "ibv_destroy_cq");
}

/* Of the CQ that all use; there is always more room than it needs. */
static bool resize_cq(void)
{
	return !ibv_resize_cq(end.cq, end.cq->cqe > 1000 ? 500 : 2000);
}

static bool create_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 100, .max_sge = 2 } };

	srq = ibv_create_srq(end.pd, &init);
	return srq;
}

static void destroy_srq(void)
{
	if (srq && ibv_destroy_srq(srq))
		err(1, "ibv_destroy_srq");
}

static bool resize_srq(void)
{
	struct ibv_srq_attr attr = { .max_wr = 300 };

	return create_srq() && !ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static bool reg_mr(void)
{
	new_mr = ibv_reg_mr(end.pd, memory, MANY_PAGES * PAGE, ACCESS_DRAM);
	return new_mr;
}

static bool reg_mr_on_demand(void)
{
	new_mr = ibv_reg_mr(end.pd, memory, MANY_PAGES * PAGE, ACCESS_DRAM | IBV_ACCESS_ON_DEMAND);
	return new_mr;
}

static void dereg_mr(void)
{
	if (new_mr && ibv_dereg_mr(new_mr))
		err(1, "ibv_dereg_mr");
}

static bool prefetch(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, MANY_PAGES * PAGE, 0 };

	if (!reg_mr_on_demand())
		return false;
	sge.lkey = new_mr->lkey;
	return !ibv_advise_mr(end.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static bool rereg_mr(void)
{
	return reg_mr() && !ibv_rereg_mr(new_mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 3 * PAGE, 0);
}

static bool alloc_mw(void)
{
	mw = ibv_alloc_mw(end.pd, IBV_MW_TYPE_2);
	return mw;
}

static void dealloc_mw(void)
{
	if (mw && ibv_dealloc_mw(mw))
		err(1, "ibv_dealloc_mw");
}

static bool create_ah(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = { .sgid_index = end.gid_index, .hop_limit = 64 },
	};

	peer_gid(RXE_ADDR, attr.grh.dgid.raw);
	ah = ibv_create_ah(end.pd, &attr);
	return ah;
}

static void destroy_ah(void)
{
	if (ah && ibv_destroy_ah(ah))
		err(1, "ibv_destroy_ah");
}

static bool create_qp_of(enum ibv_qp_type type, struct ibv_srq *its_srq)
{
	struct ibv_qp_init_attr init = {
		.cap = { 50, 50, 3, 3, 100 }, .qp_type = type, .send_cq = end.cq, .recv_cq = end.cq, .srq = its_srq,
	};

	qp = ibv_create_qp(end.pd, &init);
	return qp;
}

static bool create_rc_qp(void)
{
	return create_qp_of(IBV_QPT_RC, NULL);
}

static bool create_ud_qp(void)
{
	return create_qp_of(IBV_QPT_UD, NULL);
}

static bool create_qp_with_srq(void)
{
	return create_srq() && create_qp_of(IBV_QPT_RC, srq);
}

static void destroy_qp(void)
{
	if (qp && ibv_destroy_qp(qp))
		err(1, "ibv_destroy_qp");
	destroy_srq();
}

static bool modify_qp(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 4,
		.max_rd_atomic = 4, .timeout = 14,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = end.gid_index, .hop_limit = 64 } },
	};

	peer_gid(RXE_ADDR, attr.ah_attr.grh.dgid.raw);
	if (!create_rc_qp() ||
	    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return false;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return false;
	attr.qp_state = IBV_QPS_RTS;
	return !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static bool attach(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };

	if (!create_ud_qp() || ibv_attach_mcast(qp, &group, 0))
		return false;
	return !ibv_detach_mcast(qp, &group, 0);
}

/* A request has to be completed, by an error or not, also if no packet could be made for it. */
static bool request(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(pair[0].qp, wr, &bad))
		return false;
	if (!rxe_wait_wc(&end, &wc, ANSWER_MS))
		errx(1, "a request is never completed");
	return !wc.status;
}

/* WRITE or READ of three packets */
static bool transfer(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)end.memory, 3 * MTU, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode };

	wr.wr.rdma.remote_addr = sge.addr + 4 * MTU;
	wr.wr.rdma.rkey = mr->rkey;
	return request(&wr);
}

static bool write_request(void)
{
	return transfer(IBV_WR_RDMA_WRITE);
}

static bool read_request(void)
{
	return transfer(IBV_WR_RDMA_READ);
}

static bool bind_window(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW };

	if (!alloc_mw())
		return false;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)end.memory, PAGE, IBV_ACCESS_REMOTE_READ };
	return request(&wr);
}

static void new_pair(void)
{
	static const struct rxe_qp_config *config = &RXE_QP_DEFAULT;
	struct rxe_qp_config finite = *config;
	struct ibv_wc wc;

	if (pair[0].qp && (ibv_destroy_qp(pair[0].qp) || ibv_destroy_qp(pair[1].qp)))
		err(1, "ibv_destroy_qp");
	dealloc_mw();
	while (ibv_poll_cq(end.cq, 1, &wc))
		;
	finite.timeout = 10;	/* 4 ms, seven times */
	finite.retries = 7;
	rxe_make_pair(&end, &finite, pair);
}

static size_t attribute(char *to, int type, const char *text)
{
	struct nlattr *a = (void *)to;

	a->nla_type = type;
	a->nla_len = NLA_HDRLEN + strlen(text) + 1;
	strcpy(to + NLA_HDRLEN, text);
	return NLA_ALIGN(a->nla_len);
}

static bool add_link(void)
{
	static struct {
		struct nlmsghdr header;
		char attributes[128];
	} message;
	size_t len = attribute(message.attributes, RDMA_NLDEV_ATTR_DEV_NAME, LINK);
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	bool sent;

	len += attribute(message.attributes + len, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
	len += attribute(message.attributes + len, RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	message.header = (struct nlmsghdr){
		.nlmsg_len = NLMSG_HDRLEN + len, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK),
	};
	sent = fd >= 0 && send(fd, &message, message.header.nlmsg_len, 0) > 0;
	close(fd);
	return sent && !access(LINK_PATH, F_OK);
}

static void delete_link(void)
{
	if (!access(LINK_PATH, F_OK) && system("rdma link delete " LINK))
		errx(1, "rdma link delete " LINK);
}

static const struct command {
	const char *name;
	bool (*run)(void);
	void (*undo)(void);	/* also after a failure */
} commands[] = {
	{ "open_device", open_device, close_device },
	{ "alloc_pd", alloc_pd, dealloc_pd },
	{ "create_cq", create_cq, destroy_cq },
	{ "resize_cq", resize_cq, NULL },
	{ "create_srq", create_srq, destroy_srq },
	{ "resize_srq", resize_srq, destroy_srq },
	{ "reg_mr", reg_mr, dereg_mr },
	{ "rereg_mr", rereg_mr, dereg_mr },
	{ "reg_mr_on_demand", reg_mr_on_demand, dereg_mr },
	{ "prefetch", prefetch, dereg_mr },
	{ "alloc_mw", alloc_mw, dealloc_mw },
	{ "create_ah", create_ah, destroy_ah },
	{ "create_rc_qp", create_rc_qp, destroy_qp },
	{ "create_ud_qp", create_ud_qp, destroy_qp },
	{ "create_qp_with_srq", create_qp_with_srq, destroy_qp },
	{ "modify_qp", modify_qp, destroy_qp },
	{ "attach", attach, destroy_qp },
	{ "write_request", write_request, new_pair },
	{ "read_request", read_request, new_pair },
	{ "bind_window", bind_window, new_pair },
	{ "add_link", add_link, delete_link },
};

/* ---- One allocation after the other ---- */

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err(1, "%s", path);
	close(fd);
}

/* Let the @n-th allocation from now on fail; 0: none.  How many are still to come until one fails. */
static int let_fail(int fd, int n)
{
	char text[16] = "";
	int left;

	if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
		err(1, "fail-nth");
	left = atoi(text);
	snprintf(text, sizeof(text), "%d", n);
	if (pwrite(fd, text, strlen(text), 0) < 0)
		err(1, "fail-nth");
	return left;
}

static void undo(const struct command *command)
{
	if (command->undo)
		command->undo();
	context = NULL;
	pd = NULL;
	cq = NULL;
	srq = NULL;
	new_mr = NULL;
	mw = NULL;
	ah = NULL;
	qp = NULL;
}

/* What `rdma resource` counts */
static void resources(char *line, size_t len)
{
	FILE *pipe = popen("rdma resource show " RXE_DEVICE, "r");

	if (!pipe || !fgets(line, len, pipe) || pclose(pipe))
		errx(1, "rdma resource show");
}

static void try_each(const struct command *command, int fd)
{
	char before[256], after[256];
	int n = 0, left = 0, tries = 0, failed = 0;
	bool works;

	if (command->undo == new_pair)
		new_pair();
	works = command->run();
	if (!works && errno != EOPNOTSUPP)
		err(1, "%s", command->name);
	undo(command);
	if (!works) {
		printf("# %s: the kernel has none\n", command->name);
		return;
	}
	resources(before, sizeof(before));
	while (!left) {
		n += 1 + n / EACH;
		if (n > MOST)
			errx(1, "%s: %d allocations are not enough", command->name, MOST);
		let_fail(fd, n);
		works = command->run();
		left = let_fail(fd, 0);
		tries++;
		failed += !works;
		undo(command);
	}
	if (!works)
		errx(1, "%s does not work any more", command->name);
	resources(after, sizeof(after));
	if (strcmp(before, after))
		errx(1, "%s: there is %sand was %s", command->name, after, before);
	printf("# %s: %d allocations; of %d that failed, %d made it fail\n", command->name, n - left, tries - 1, failed);
	if (!failed)
		errx(1, "%s: that shows nothing", command->name);
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = { "failslab", "fail_page_alloc" };
	const char *pattern = argc == 3 ? argv[2] : "*";
	char path[128];
	size_t i;
	int fd;

	if (argc != 2 && argc != 3)
		errx(2, "usage: failing-allocations NETDEV [PATTERN]");
	netdev = argv[1];
	setlinebuf(stdout);
	fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fd < 0) {
		puts("the kernel has no CONFIG_FAULT_INJECTION");
		return 4;
	}
	for (i = 0; i < 2; i++) {
		/* also those that may wait, and without a word */
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/ignore-gfp-wait", kinds[i]);
		write_text(path, "N");
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/verbose", kinds[i]);
		write_text(path, "0");
	}
	write_text("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	peer_open();
	rxe_open(&end, false);
	mr = rxe_reg_mr(&end, 0, MEMORY_LEN, ACCESS_DRAM);
	memory = mmap(NULL, MANY_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!mr || memory == MAP_FAILED)
		err(1, "memory");
	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if ((commands[i].run == reg_mr_on_demand || commands[i].run == prefetch) && !rxe_has_odp())
			continue;
		if (!fnmatch(pattern, commands[i].name, 0))
			try_each(&commands[i], fd);
	}
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * A user in the kernel that lends persistent memory, for store-paths: to a QP of the same device, which posts to
 * it by either of two keys: that of a fast registered MR, or of a DMA MR, which is of all that the kernel can
 * address.  So it does as nvmet, isert and others do, but that its memory keeps what it gets.
 *
 *	insmod kernel_target.ko start=PHYSICAL size=BYTES
 *
 * @size bytes from @start on are lent.  In debugfs, kernel_target/
 *	command		connect QPN IPV6	its QP gets connected to QPN, by GIDs of IPv4 or IPv6
 *			receive KEY OFFSET LENGTH SGES	posts a receive for LENGTH bytes at OFFSET, in SGES
 *					SGEs of this KEY, 0: fast, 1: DMA
 *			read KEY OFFSET LENGTH SGES VA RKEY	posts a READ to there, and waits for it
 *			fetch-add KEY OFFSET VA RKEY	what it brings goes to OFFSET
 *	told		QPN, keys and addresses: QPN FAST FAST_VA DMA DMA_VA
 */
#include <linux/debugfs.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pfn.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define NETDEV		"eth0"
#define PORT		1
#define QUEUE		16
#define MAX_SGES	4
#define DEADLINE	(60 * HZ)
#define RIGHTS		(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_FLUSH_GLOBAL)

static ulong start;
module_param(start, ulong, 0444);
MODULE_PARM_DESC(start, "physical address of what is lent");

static ulong size;
module_param(size, ulong, 0444);
MODULE_PARM_DESC(size, "its size in bytes");

static struct ib_device *device;
static struct ib_pd *pd;
static struct ib_cq *cq;
static struct ib_qp *qp;
static struct ib_mr *fast, *dma;
static struct scatterlist sg;
static struct dentry *directory;
static struct completion completed;
static enum ib_wc_status status;

static void on_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	status = wc->status;
	complete(&completed);
}

/* The sender waits until its FLUSH has been answered, so there is nothing to do. */
static void on_received(struct ib_cq *cq, struct ib_wc *wc)
{
}

static struct ib_cqe sent = { .done = on_sent }, received = { .done = on_received };

/* Undo what has been made. */
static void disconnect(void)
{
	if (!IS_ERR_OR_NULL(qp))
		ib_destroy_qp(qp);
	if (!IS_ERR_OR_NULL(fast))
		ib_dereg_mr(fast);
	if (!IS_ERR_OR_NULL(dma))
		device->ops.dereg_mr(dma, NULL);
	qp = NULL;
	fast = dma = NULL;
}

static const struct ib_gid_attr *find_gid(bool ipv6)
{
	const struct ib_gid_attr *gid;
	int i;

	for (i = 0; ; i++) {
		gid = rdma_get_gid_attr(device, PORT, i);
		if (IS_ERR(gid) || (gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
				    ipv6 != ipv6_addr_v4mapped((struct in6_addr *)&gid->gid)))
			return gid;
		rdma_put_gid_attr(gid);
	}
}

static int make_ready(u32 qpn, bool ipv6)
{
	struct ib_qp_attr attr = {
		.qp_state		= IB_QPS_INIT,
		.port_num		= PORT,
		.qp_access_flags	= RIGHTS | IB_ACCESS_FLUSH_PERSISTENT,
		.path_mtu		= IB_MTU_1024,
		.dest_qp_num		= qpn,
		.max_rd_atomic		= QUEUE,
		.max_dest_rd_atomic	= QUEUE,
		.min_rnr_timer		= 1,
		.timeout		= 19,
		.retry_cnt		= 2,
		.rnr_retry		= 7,
	};
	const struct ib_gid_attr *gid = find_gid(ipv6);
	int err;

	if (IS_ERR(gid))
		return PTR_ERR(gid);
	attr.ah_attr.type = rdma_ah_find_type(device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, gid->index, 64, 0);
	err = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	rdma_put_gid_attr(gid);
	if (!err)
		err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
					      IB_QP_ACCESS_FLAGS);
	attr.qp_state = IB_QPS_RTR;
	if (!err)
		err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
					      IB_QP_DEST_QPN | IB_QP_RQ_PSN |
					      IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	attr.qp_state = IB_QPS_RTS;
	if (!err)
		err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_TIMEOUT |
					      IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
					      IB_QP_MAX_QP_RD_ATOMIC);
	return err;
}

static int post_and_wait(struct ib_send_wr *wr)
{
	int err;

	wr->wr_cqe = &sent;
	wr->send_flags = IB_SEND_SIGNALED;
	err = ib_post_send(qp, wr, NULL);
	if (err)
		return err;
	if (!wait_for_completion_timeout(&completed, DEADLINE))
		return -ETIMEDOUT;
	if (status)
		pr_err("kernel_target: %s\n", ib_wc_status_msg(status));
	return status ? -EIO : 0;
}

static int register_memory(void)
{
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR };
	int n;

	n = ib_map_mr_sg(fast, &sg, 1, NULL, PAGE_SIZE);
	if (n != 1)
		return n < 0 ? n : -EINVAL;
	ib_update_fast_reg_key(fast, ib_inc_rkey(fast->rkey));
	wr.mr = fast;
	wr.key = fast->rkey;
	wr.access = RIGHTS | IB_ACCESS_FLUSH_PERSISTENT;
	return post_and_wait(&wr.wr);
}

static int connect(u32 qpn, bool ipv6)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {
			.max_send_wr = QUEUE, .max_recv_wr = QUEUE,
			.max_send_sge = MAX_SGES, .max_recv_sge = MAX_SGES,
		},
	};
	int err;

	disconnect();
	qp = ib_create_qp(pd, &attr);
	fast = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, PFN_UP(offset_in_page(start) + size));
	/* There is no other way to have more rights than IB_PD_UNSAFE_GLOBAL_RKEY gives. */
	dma = device->ops.get_dma_mr(pd, RIGHTS);
	err = PTR_ERR_OR_ZERO(qp) ?: PTR_ERR_OR_ZERO(fast) ?: PTR_ERR_OR_ZERO(dma);
	if (!err)
		err = make_ready(qpn, ipv6);
	if (!err)
		err = register_memory();
	if (err)
		disconnect();
	return err;
}

/* The bytes, in @n SGEs that follow one another. */
static int make_sges(struct ib_sge *sges, uint key, ulong offset, ulong length, uint n)
{
	uint i;

	if (!qp || !n || n > MAX_SGES || offset > size || length > size - offset || length < n)
		return -EINVAL;
	for (i = 0; i < n; i++) {
		sges[i].addr = (uintptr_t)__va(start) + offset + length / n * i;
		sges[i].length = i + 1 < n ? length / n : length - length / n * i;
		sges[i].lkey = key ? pd->local_dma_lkey : fast->lkey;
	}
	return 0;
}

static int receive(uint key, ulong offset, ulong length, uint n)
{
	struct ib_sge sges[MAX_SGES];
	struct ib_recv_wr wr = { .wr_cqe = &received, .sg_list = sges, .num_sge = n };
	int err = make_sges(sges, key, offset, length, n);

	return err ?: ib_post_recv(qp, &wr, NULL);
}

static int read(uint key, ulong offset, ulong length, uint n, u64 va, u32 rkey)
{
	struct ib_sge sges[MAX_SGES];
	struct ib_rdma_wr wr = {
		.wr.opcode = IB_WR_RDMA_READ, .wr.sg_list = sges, .wr.num_sge = n,
		.remote_addr = va, .rkey = rkey,
	};
	int err = make_sges(sges, key, offset, length, n);

	return err ?: post_and_wait(&wr.wr);
}

static int fetch_add(uint key, ulong offset, u64 va, u32 rkey)
{
	struct ib_sge sge;
	struct ib_atomic_wr wr = {
		.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .wr.sg_list = &sge, .wr.num_sge = 1,
		.remote_addr = va, .rkey = rkey, .compare_add = 1,
	};
	int err = make_sges(&sge, key, offset, sizeof(u64), 1);

	return err ?: post_and_wait(&wr.wr);
}

static ssize_t command_write(struct file *file, const char __user *text, size_t n, loff_t *pos)
{
	ulong offset, length;
	char buffer[128];
	uint a, b, rkey;
	int err = -EINVAL;
	u64 va;

	if (n >= sizeof(buffer) || copy_from_user(buffer, text, n))
		return -EINVAL;
	buffer[n] = 0;
	if (sscanf(buffer, "connect %u %u", &a, &b) == 2)
		err = connect(a, b);
	else if (sscanf(buffer, "receive %u %lu %lu %u", &a, &offset, &length, &b) == 4)
		err = receive(a, offset, length, b);
	else if (sscanf(buffer, "read %u %lu %lu %u %llu %u", &a, &offset, &length, &b, &va, &rkey) == 6)
		err = read(a, offset, length, b, va, rkey);
	else if (sscanf(buffer, "fetch-add %u %lu %llu %u", &a, &offset, &va, &rkey) == 4)
		err = fetch_add(a, offset, va, rkey);
	return err ?: n;
}

static const struct file_operations command_fops = { .owner = THIS_MODULE, .write = command_write };

static int told_show(struct seq_file *file, void *unused)
{
	if (qp)
		seq_printf(file, "%u %u %llu %u %lu\n", qp->qp_num, fast->rkey, fast->iova, dma->rkey,
			   (uintptr_t)__va(start));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(told);

static void close_target(void)
{
	disconnect();
	ib_dma_unmap_sg(device, &sg, 1, DMA_BIDIRECTIONAL);
	if (!IS_ERR_OR_NULL(cq))
		ib_free_cq(cq);
	if (!IS_ERR_OR_NULL(pd))
		ib_dealloc_pd(pd);
	ib_device_put(device);
}

static int __init kernel_target_init(void)
{
	struct net_device *netdev;
	int err;

	if (!size || !pfn_valid(PHYS_PFN(start)) || !pfn_valid(PHYS_PFN(start + size - 1))) {
		pr_err("kernel_target: start= and size= must say where the memory is\n");
		return -EINVAL;
	}
	netdev = dev_get_by_name(&init_net, NETDEV);
	if (netdev) {
		device = ib_device_get_by_netdev(netdev, RDMA_DRIVER_RXE);
		dev_put(netdev);
	}
	if (!device) {
		pr_err("kernel_target: there is no rxe on " NETDEV "\n");
		return -ENODEV;
	}
	init_completion(&completed);
	sg_init_table(&sg, 1);
	sg_set_page(&sg, pfn_to_page(PHYS_PFN(start)), size, offset_in_page(start));
	ib_dma_map_sg(device, &sg, 1, DMA_BIDIRECTIONAL);
	pd = ib_alloc_pd(device, 0);
	cq = ib_alloc_cq(device, NULL, 4 * QUEUE, 0, IB_POLL_WORKQUEUE);
	err = PTR_ERR_OR_ZERO(pd) ?: PTR_ERR_OR_ZERO(cq);
	if (err) {
		close_target();
		return err;
	}
	directory = debugfs_create_dir("kernel_target", NULL);
	debugfs_create_file("command", 0200, directory, NULL, &command_fops);
	debugfs_create_file("told", 0444, directory, NULL, &told_fops);
	return 0;
}

static void __exit kernel_target_exit(void)
{
	debugfs_remove(directory);
	close_target();
}

module_init(kernel_target_init);
module_exit(kernel_target_exit);
MODULE_DESCRIPTION("A user in the kernel that lends persistent memory");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
/*
 * A user in the kernel whose connections go on while links come and go, for churn: what link-traffic is among programs.
 *
 * An RC QP of a device has one request to the peer's memory at a time: a WRITE of two packets, then a READ of two, and
 * so on.  When the device goes, the connection does, too, as that of any client of the RDMA core: it is drained.
 * In debugfs, kernel_traffic/
 *	command		open DEVICE GID				makes the QP, from the address GID of DEVICE
 *			connect DEVICE GID QPN VA RKEY		to the peer's QP and memory
 *			close DEVICE
 *	told		for each: DEVICE QPN VA RKEY COMPLETED ERROR, where ERROR is the status of the completion that
 *			ended it (enum ib_wc_status), or 0
 */
#include <linux/debugfs.h>
#include <linux/inet.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define PORT		1
#define BYTES		2048	/* two packets */
/* These as in link-traffic */
#define EVERY_MS	25
#define ACK_TIMEOUT	18
#define RETRIES		6

static uint timeout_scale = 1;
module_param(timeout_scale, uint, 0444);
MODULE_PARM_DESC(timeout_scale, "how many times slower than usual the guest may be, from 1 on");

struct traffic {
	struct list_head	list;
	struct ib_device	*device;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
	struct ib_qp		*qp;
	const struct ib_gid_attr *gid;
	void			*memory;	/* BYTES of its own; the peer reads and writes those that follow */
	u64			address;	/* of it, for the device */
	struct ib_rdma_wr	wr;
	struct ib_sge		sge;
	struct ib_cqe		cqe;
	struct delayed_work	next;
	u64			completed;
	u32			error;
	bool			closing;
};

struct known_device {
	struct list_head	list;
	struct ib_device	*device;
};

static struct ib_client client;
static LIST_HEAD(devices);
static LIST_HEAD(connections);
static DEFINE_MUTEX(lock);	/* of both */
static struct dentry *directory;

static void on_completion(struct ib_cq *cq, struct ib_wc *wc)
{
	struct traffic *t = container_of(wc->wr_cqe, struct traffic, cqe);

	if (wc->status)
		t->error = wc->status;
	else
		t->completed++;
	if (!t->error && !READ_ONCE(t->closing))
		schedule_delayed_work(&t->next, msecs_to_jiffies(EVERY_MS * timeout_scale));
}

static void post_next(struct work_struct *work)
{
	struct traffic *t = container_of(work, struct traffic, next.work);

	t->wr.wr.opcode = t->completed % 2 ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE;
	if (ib_post_send(t->qp, &t->wr.wr, NULL))
		t->error = IB_WC_GENERAL_ERR;
}

static void close_traffic(struct traffic *t)
{
	list_del(&t->list);
	WRITE_ONCE(t->closing, true);
	cancel_delayed_work_sync(&t->next);
	if (!IS_ERR_OR_NULL(t->qp)) {
		ib_drain_qp(t->qp);
		cancel_delayed_work_sync(&t->next);
		ib_destroy_qp(t->qp);
	}
	if (!IS_ERR_OR_NULL(t->cq))
		ib_free_cq(t->cq);
	if (!IS_ERR_OR_NULL(t->gid))
		rdma_put_gid_attr(t->gid);
	if (t->address)
		ib_dma_unmap_single(t->device, t->address, 2 * BYTES, DMA_BIDIRECTIONAL);
	if (!IS_ERR_OR_NULL(t->pd))
		ib_dealloc_pd(t->pd);
	kfree(t->memory);
	kfree(t);
}

static struct traffic *traffic_of(const char *device)
{
	struct traffic *t;

	list_for_each_entry(t, &connections, list)
		if (!strcmp(dev_name(&t->device->dev), device))
			return t;
	return NULL;
}

static int make_qp(struct traffic *t, const union ib_gid *gid)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		/* and one to drain each queue */
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	t->pd = ib_alloc_pd(t->device, IB_PD_UNSAFE_GLOBAL_RKEY);
	t->cq = ib_alloc_cq(t->device, NULL, 8, 0, IB_POLL_WORKQUEUE);
	t->gid = rdma_find_gid_by_port(t->device, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, PORT, NULL);
	t->memory = kzalloc(2 * BYTES, GFP_KERNEL);
	if (IS_ERR(t->pd) || IS_ERR(t->cq) || IS_ERR(t->gid) || !t->memory)
		return PTR_ERR_OR_ZERO(t->pd) ?: PTR_ERR_OR_ZERO(t->cq) ?: PTR_ERR_OR_ZERO(t->gid) ?: -ENOMEM;
	t->address = ib_dma_map_single(t->device, t->memory, 2 * BYTES, DMA_BIDIRECTIONAL);
	attr.send_cq = attr.recv_cq = t->cq;
	t->qp = ib_create_qp(t->pd, &attr);
	return PTR_ERR_OR_ZERO(t->qp);
}

static int open_traffic(struct ib_device *device, const union ib_gid *gid)
{
	struct traffic *t = kzalloc(sizeof(*t), GFP_KERNEL);
	int err;

	if (!t)
		return -ENOMEM;
	t->device = device;
	INIT_DELAYED_WORK(&t->next, post_next);
	t->cqe.done = on_completion;
	list_add_tail(&t->list, &connections);
	err = make_qp(t, gid);
	if (err)
		close_traffic(t);
	return err;
}

static int connect_traffic(struct traffic *t, union ib_gid *gid, u32 qpn, u64 va, u32 rkey)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = qpn,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = ACK_TIMEOUT + ilog2(timeout_scale),
		.retry_cnt = RETRIES,
	};
	int err;

	attr.ah_attr.type = rdma_ah_find_type(t->device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, gid, 0, t->gid->index, 64, 0);
	err = ib_modify_qp(t->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	attr.qp_state = IB_QPS_RTR;
	if (!err)
		err = ib_modify_qp(t->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
						 IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	attr.qp_state = IB_QPS_RTS;
	if (!err)
		err = ib_modify_qp(t->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
						 IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
	if (err)
		return err;
	t->sge = (struct ib_sge){ .addr = t->address, .length = BYTES, .lkey = t->pd->local_dma_lkey };
	t->wr = (struct ib_rdma_wr){
		.wr = { .wr_cqe = &t->cqe, .sg_list = &t->sge, .num_sge = 1, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = va + BYTES, .rkey = rkey,
	};
	schedule_delayed_work(&t->next, 0);
	return 0;
}

/* remove_device() waits for the lock, so the device stays. */
static int open_by_name(const char *name, const union ib_gid *gid)
{
	struct known_device *known;

	list_for_each_entry(known, &devices, list)
		if (!strcmp(dev_name(&known->device->dev), name))
			return traffic_of(name) ? -EEXIST : open_traffic(known->device, gid);
	return -ENODEV;
}

static int obey(const char *text)
{
	char name[IB_DEVICE_NAME_MAX], address[INET6_ADDRSTRLEN];
	struct traffic *t;
	union ib_gid gid;
	u32 qpn, rkey;
	u64 va;
	int n;

	n = sscanf(text, "open %63s %47s", name, address);
	if (n == 2)
		return in6_pton(address, -1, gid.raw, -1, NULL) ? open_by_name(name, &gid) : -EINVAL;
	n = sscanf(text, "connect %63s %47s %u %llu %u", name, address, &qpn, &va, &rkey);
	if (n == 5) {
		t = traffic_of(name);
		if (!t)
			return -ENODEV;
		return in6_pton(address, -1, gid.raw, -1, NULL) ? connect_traffic(t, &gid, qpn, va, rkey) : -EINVAL;
	}
	if (sscanf(text, "close %63s", name) == 1) {
		t = traffic_of(name);
		if (t)
			close_traffic(t);
		return 0;
	}
	return -EINVAL;
}

static ssize_t command_write(struct file *file, const char __user *text, size_t n, loff_t *pos)
{
	char buffer[160];
	int err;

	if (n >= sizeof(buffer) || copy_from_user(buffer, text, n))
		return -EINVAL;
	buffer[n] = 0;
	mutex_lock(&lock);
	err = obey(buffer);
	mutex_unlock(&lock);
	return err ?: n;
}

static const struct file_operations command_fops = { .owner = THIS_MODULE, .write = command_write };

static int told_show(struct seq_file *file, void *unused)
{
	struct traffic *t;

	mutex_lock(&lock);
	list_for_each_entry(t, &connections, list)
		seq_printf(file, "%s %u %llu %u %llu %u\n", dev_name(&t->device->dev), t->qp->qp_num,
			   t->address, t->pd->unsafe_global_rkey, t->completed, t->error);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(told);

static int add_device(struct ib_device *device)
{
	struct known_device *known;

	if (device->ops.driver_id != RDMA_DRIVER_RXE)
		return -EOPNOTSUPP;
	known = kmalloc(sizeof(*known), GFP_KERNEL);
	if (!known)
		return -ENOMEM;
	known->device = device;
	ib_set_client_data(device, &client, known);
	mutex_lock(&lock);
	list_add(&known->list, &devices);
	mutex_unlock(&lock);
	return 0;
}

static void remove_device(struct ib_device *device, void *data)
{
	struct known_device *known = data;
	struct traffic *t, *next;

	mutex_lock(&lock);
	list_del(&known->list);
	list_for_each_entry_safe(t, next, &connections, list)
		if (t->device == device)
			close_traffic(t);
	mutex_unlock(&lock);
	kfree(known);
}

static struct ib_client client = { .name = "kernel_traffic", .add = add_device, .remove = remove_device };

static int __init kernel_traffic_init(void)
{
	int err = ib_register_client(&client);

	if (err)
		return err;
	directory = debugfs_create_dir("kernel_traffic", NULL);
	debugfs_create_file("command", 0200, directory, NULL, &command_fops);
	debugfs_create_file("told", 0444, directory, NULL, &told_fops);
	return 0;
}

static void __exit kernel_traffic_exit(void)
{
	debugfs_remove(directory);
	ib_unregister_client(&client);
}

module_init(kernel_traffic_init);
module_exit(kernel_traffic_exit);
MODULE_DESCRIPTION("A user in the kernel whose connections go on while links come and go");
MODULE_LICENSE("GPL");

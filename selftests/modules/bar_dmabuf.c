// SPDX-License-Identifier: GPL-2.0
/*
 * Exports a range of a PCI device's BAR as a dma-buf, for CPUs: by dma_buf_vmap() and mmap(), but not for DMA.  It does
 * what an exporter of I/O memory may do to an importer:
 *
 * - The memory moves (BAR_DMABUF_MOVE).
 * - It is taken away (BAR_DMABUF_REVOKE, or the device's driver is unbound).
 *
 * An importer that still maps the memory after it was told gets a warning of the kernel.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>

#include "bar_dmabuf.h"

#define SPOILT	0xdd

struct buffer {
	struct list_head	list;
	struct dma_buf		*dmabuf;
	struct pci_dev		*pdev;
	resource_size_t		start[2];	/* where it is, and where it moves to and back from */
	size_t			length;
	int			place;		/* protected by the reservation, as is: */
	bool			revoked;
};

static LIST_HEAD(buffers);
static DEFINE_MUTEX(buffers_lock);

static int bar_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	if (!attach->peer2peer || !dma_buf_attach_revocable(attach))
		return -EOPNOTSUPP;
	return 0;
}

static struct sg_table *bar_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void bar_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt, enum dma_data_direction dir)
{
}

static int bar_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct buffer *buffer = dmabuf->priv;
	void __iomem *io;

	if (buffer->revoked)
		return -ENODEV;
	io = ioremap(buffer->start[buffer->place], buffer->length);
	if (!io)
		return -ENOMEM;
	iosys_map_set_vaddr_iomem(map, io);
	return 0;
}

static void bar_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	iounmap(map->vaddr_iomem);
}

/* A program that maps it sees it where it is now. */
static vm_fault_t bar_fault(struct vm_fault *vmf)
{
	struct buffer *buffer = vmf->vma->vm_private_data;
	vm_fault_t ret = VM_FAULT_SIGBUS;

	dma_resv_lock(buffer->dmabuf->resv, NULL);
	if (!buffer->revoked)
		ret = vmf_insert_pfn(vmf->vma, vmf->address,
				     PHYS_PFN(buffer->start[buffer->place]) + vmf->pgoff);
	dma_resv_unlock(buffer->dmabuf->resv);
	return ret;
}

static const struct vm_operations_struct bar_vm_ops = { .fault = bar_fault };

static int bar_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	vma->vm_ops = &bar_vm_ops;
	vma->vm_private_data = dmabuf->priv;
	return 0;
}

static void bar_release(struct dma_buf *dmabuf)
{
	struct buffer *buffer = dmabuf->priv;

	mutex_lock(&buffers_lock);
	list_del(&buffer->list);
	mutex_unlock(&buffers_lock);
	pci_dev_put(buffer->pdev);
	kfree(buffer);
}

static const struct dma_buf_ops bar_ops = {
	.attach		= bar_attach,
	.map_dma_buf	= bar_map,
	.unmap_dma_buf	= bar_unmap,
	.vmap		= bar_vmap,
	.vunmap		= bar_vunmap,
	.mmap		= bar_mmap,
	.release	= bar_release,
};

static void invalidate(struct buffer *buffer)
{
	dma_buf_invalidate_mappings(buffer->dmabuf);
	unmap_mapping_range(buffer->dmabuf->file->f_mapping, 0, 0, 1);
	WARN_ONCE(buffer->dmabuf->vmapping_counter, "an importer goes on to map memory that is not there\n");
}

static void revoke(struct buffer *buffer)
{
	dma_resv_lock(buffer->dmabuf->resv, NULL);
	buffer->revoked = true;
	invalidate(buffer);
	dma_resv_unlock(buffer->dmabuf->resv);
}

static int move(struct buffer *buffer)
{
	void __iomem *from, *to;
	size_t at;
	int err = -ENOMEM;

	dma_resv_lock(buffer->dmabuf->resv, NULL);
	if (buffer->revoked) {
		dma_resv_unlock(buffer->dmabuf->resv);
		return -ENODEV;
	}
	invalidate(buffer);
	from = ioremap(buffer->start[buffer->place], buffer->length);
	to = ioremap(buffer->start[!buffer->place], buffer->length);
	if (from && to) {
		for (at = 0; at < buffer->length; at += sizeof(u64))
			__raw_writeq(__raw_readq(from + at), to + at);
		if (buffer->start[0] != buffer->start[1])
			memset_io(from, SPOILT, buffer->length);
		buffer->place = !buffer->place;
		err = 0;
	}
	if (from)
		iounmap(from);
	if (to)
		iounmap(to);
	dma_resv_unlock(buffer->dmabuf->resv);
	return err;
}

/* The device's driver goes, and with it the right to use its memory. */
static int bus_changes(struct notifier_block *block, unsigned long action, void *data)
{
	struct buffer *buffer, *next;

	if (action != BUS_NOTIFY_UNBIND_DRIVER && action != BUS_NOTIFY_DEL_DEVICE)
		return NOTIFY_DONE;
	mutex_lock(&buffers_lock);
	list_for_each_entry_safe(buffer, next, &buffers, list) {
		if (&buffer->pdev->dev != data || !get_file_active(&buffer->dmabuf->file))
			continue;
		revoke(buffer);
		/* by a worker, so not under the lock that bar_release() takes */
		fput(buffer->dmabuf->file);
	}
	mutex_unlock(&buffers_lock);
	return NOTIFY_OK;
}

static struct notifier_block bus_notifier = { .notifier_call = bus_changes };

static bool range_fits(struct pci_dev *pdev, const struct bar_dmabuf_range *range)
{
	u64 end;
	int i;

	if (range->bar >= PCI_STD_NUM_BARS || !(pci_resource_flags(pdev, range->bar) & IORESOURCE_MEM) ||
	    !range->length || !PAGE_ALIGNED(range->length))
		return false;
	for (i = 0; i < 2; i++)
		if (!PAGE_ALIGNED(range->offset[i]) ||
		    check_add_overflow(range->offset[i], range->length, &end) ||
		    end > pci_resource_len(pdev, range->bar))
			return false;
	return true;
}

static struct pci_dev *device_of(struct bar_dmabuf_range *range)
{
	struct device *dev;

	range->device[sizeof(range->device) - 1] = 0;
	dev = bus_find_device_by_name(&pci_bus_type, NULL, range->device);
	return dev ? to_pci_dev(dev) : NULL;
}

static long export(struct bar_dmabuf_range *range)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct buffer *buffer;
	int fd, i;

	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	buffer->pdev = device_of(range);
	fd = buffer->pdev ? -EINVAL : -ENODEV;
	if (!buffer->pdev || !range_fits(buffer->pdev, range))
		goto free;
	for (i = 0; i < 2; i++)
		buffer->start[i] = pci_resource_start(buffer->pdev, range->bar) + range->offset[i];
	buffer->length = range->length;

	info.ops = &bar_ops;
	info.size = range->length;
	info.flags = O_RDWR;
	info.priv = buffer;
	mutex_lock(&buffers_lock);
	buffer->dmabuf = dma_buf_export(&info);
	if (IS_ERR(buffer->dmabuf)) {
		mutex_unlock(&buffers_lock);
		fd = PTR_ERR(buffer->dmabuf);
		goto free;
	}
	list_add(&buffer->list, &buffers);
	mutex_unlock(&buffers_lock);

	fd = dma_buf_fd(buffer->dmabuf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buffer->dmabuf);
	return fd;
free:
	pci_dev_put(buffer->pdev);
	kfree(buffer);
	return fd;
}

static long bar_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct bar_dmabuf_range range;
	struct dma_buf *dmabuf;
	long ret = 0;

	switch (cmd) {
	case BAR_DMABUF_EXPORT:
		if (copy_from_user(&range, (void __user *)arg, sizeof(range)))
			return -EFAULT;
		return export(&range);
	case BAR_DMABUF_MOVE:
	case BAR_DMABUF_REVOKE:
		dmabuf = dma_buf_get(arg);
		if (IS_ERR(dmabuf))
			return PTR_ERR(dmabuf);
		if (dmabuf->ops != &bar_ops)
			ret = -EINVAL;
		else if (cmd == BAR_DMABUF_MOVE)
			ret = move(dmabuf->priv);
		else
			revoke(dmabuf->priv);
		dma_buf_put(dmabuf);
		return ret;
	default:
		return -ENOTTY;
	}
}

static const struct file_operations bar_fops = {
	.owner		= THIS_MODULE,
	.unlocked_ioctl	= bar_ioctl,
};

static struct miscdevice bar_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "bar_dmabuf",
	.fops	= &bar_fops,
};

static int __init bar_init(void)
{
	int err = bus_register_notifier(&pci_bus_type, &bus_notifier);

	if (err)
		return err;
	err = misc_register(&bar_device);
	if (err)
		bus_unregister_notifier(&pci_bus_type, &bus_notifier);
	return err;
}

static void __exit bar_exit(void)
{
	misc_deregister(&bar_device);
	bus_unregister_notifier(&pci_bus_type, &bus_notifier);
}

module_init(bar_init);
module_exit(bar_exit);
MODULE_DESCRIPTION("exports a range of a BAR as a dma-buf");
MODULE_IMPORT_NS("DMA_BUF");
MODULE_LICENSE("GPL");

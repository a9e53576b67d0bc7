// SPDX-License-Identifier: GPL-2.0
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "device.h"
#include "mmap.h"
#include "module_symbols.h"
#include "params.h"
#include "sampler.h"
#include "samplers.h"
#include "session.h"
#include "space.h"
#include "space_files.h"

/*
 * Whether the opener's session is restricted. A missing capability is not a denial for the audit
 * log if the opener may open the device without it.
 */
static bool sb_opener_is_restricted(void)
{
	if (READ_ONCE(sb_unprivileged))
		return !ns_capable_noaudit(&init_user_ns, CAP_PERFMON) &&
		       !ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
	return !perfmon_capable();
}

static int sb_device_open(struct inode *inode, struct file *file)
{
	bool restricted = sb_opener_is_restricted();
	struct sb_session *session;

	if (restricted && !READ_ONCE(sb_unprivileged))
		return -EPERM;
	session = sb_session_open(restricted);
	if (IS_ERR(session))
		return PTR_ERR(session);
	file->private_data = session;
	return nonseekable_open(inode, file);
}

static int sb_device_release(struct inode *inode, struct file *file)
{
	sb_session_close(file->private_data);
	return 0;
}

static __poll_t sb_device_poll(struct file *file, poll_table *wait)
{
	struct sb_session *session = file->private_data;
	u32 watermark = READ_ONCE(session->watermark);
	__poll_t events = 0;
	struct sb_sampler *sampler;
	u32 cpu;

	poll_wait(file, &session->wait, wait);
	for (cpu = 0; cpu < nr_cpu_ids && !events; cpu++) {
		sampler = sb_session_find_sampler(session, cpu);
		if (sampler && sb_ring_unread(&sampler->ring) >= watermark)
			events = EPOLLIN | EPOLLRDNORM;
	}
	sb_spaces_resume(session->spaces);
	if (sb_spaces_readable(session->spaces))
		events = EPOLLIN | EPOLLRDNORM;
	if (READ_ONCE(session->state) == STACKBEAT_STATE_STOPPED)
		events |= EPOLLHUP;
	return events;
}

/* Returns the mapping at an mmap offset (in pages), see "Offsets" in stackbeat.h. */
static struct sb_mapping *sb_mapping_find(struct sb_session *session,
					  unsigned long page)
{
	const unsigned long cpu_pages = STACKBEAT_OFFSET_CPU(0) >> PAGE_SHIFT;
	const unsigned long meta_page = STACKBEAT_OFFSET_META >> PAGE_SHIFT;
	unsigned long cpu = page / cpu_pages - 1;
	unsigned long within = page % cpu_pages;
	struct sb_sampler *sampler;

	if (!page)
		return &session->page_mapping;
	if (page == meta_page)
		return &session->spaces->consumer_mapping;
	if (page == meta_page + 1)
		return &session->spaces->ring_mapping;
	if (page < cpu_pages || within > 1)
		return ERR_PTR(-EINVAL);
	if (cpu >= nr_cpu_ids)
		return ERR_PTR(-ENXIO);
	cpu = array_index_nospec(cpu, nr_cpu_ids);

	sampler = sb_session_find_sampler(session, cpu);
	if (!sampler) {
		if (!cpu_online(cpu))
			return ERR_PTR(-ENXIO);
		sampler = sb_session_ensure_sampler(session, cpu);
		if (IS_ERR(sampler))
			return ERR_CAST(sampler);
	}
	return within ? &sampler->ring_mapping : &sampler->consumer_mapping;
}

static int sb_device_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sb_mapping *mapping;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	mapping = sb_mapping_find(file->private_data, vma->vm_pgoff);
	if (IS_ERR(mapping))
		return PTR_ERR(mapping);
	return sb_mapping_map(mapping, vma);
}

static long sb_device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct sb_session *session = file->private_data;
	struct stackbeat_unwind_push push;
	struct stackbeat_moved_text moved;
	u64 file_id;

	if (command == STACKBEAT_IOC_UNWIND_TABLE) {
		if (copy_from_user(&push, (void __user *)argument, sizeof(push)))
			return -EFAULT;
		return sb_session_set_table(session, &push);
	}
	if (command == STACKBEAT_IOC_MOVED_TEXT) {
		if (copy_from_user(&moved, (void __user *)argument, sizeof(moved)))
			return -EFAULT;
		return sb_spaces_move_text(session->spaces, &moved);
	}
	if (command == STACKBEAT_IOC_MODULE_SYMBOLS) {
		/* The kernel part can't be set where the kernel is locked down. */
		if (session->restricted || !(READ_ONCE(session->parts) & STACKBEAT_PART_KERNEL))
			return -EPERM;
		return sb_module_symbols_read((void __user *)argument);
	}
	if (command != STACKBEAT_IOC_FILE_OPEN && command != STACKBEAT_IOC_FILE_RELEASE)
		return -ENOTTY;
	if (copy_from_user(&file_id, (void __user *)argument, sizeof(file_id)))
		return -EFAULT;
	if (command == STACKBEAT_IOC_FILE_OPEN)
		return sb_spaces_open_file(session->spaces, file_id);
	return sb_spaces_release_file(session->spaces, file_id);
}

static const struct file_operations sb_device_operations = {
	.owner = THIS_MODULE,
	.open = sb_device_open,
	.release = sb_device_release,
	.poll = sb_device_poll,
	.mmap = sb_device_mmap,
	.unlocked_ioctl = sb_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice sb_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "stackbeat",
	.mode = 0600,
	.fops = &sb_device_operations,
};

int sb_device_init(void)
{
	return misc_register(&sb_device);
}

void sb_device_exit(void)
{
	misc_deregister(&sb_device);
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One name for each interface that differs between kernel versions. HAVE_* macros are the
 * features of the kernel that the module is built for; kmod/build defines them by compiling
 * kmod/compat/probes/ (the comment of a probe has the first kernel version with the feature,
 * for information only: stable updates and distributions backport features).
 */
#ifndef SB_COMPAT_H
#define SB_COMPAT_H

#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/coredump.h>

#include "compat/compat-config.h"

#ifdef HAVE_TASK_EXEC_STATE
#include <linux/sched/exec_state.h>
#endif

/* Exempts a variable from automatic initialization by the compiler. Newer kernels define it. */
#ifndef __uninitialized
#if __has_attribute(__uninitialized__)
#define __uninitialized __attribute__((__uninitialized__))
#else
#define __uninitialized
#endif
#endif

/* Prepares @timer to call @fn, on @clock, in @mode (both HRTIMER_MODE_*_HARD). */
static inline void sb_hrtimer_setup(struct hrtimer *timer,
				    enum hrtimer_restart (*fn)(struct hrtimer *timer),
				    clockid_t clock, enum hrtimer_mode mode)
{
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, fn, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
#endif
}

/* Sets and clears flags of a mapping, in its mmap(), where the caller may write them. */
static inline void sb_vm_flags_mod(struct vm_area_struct *vma, unsigned long set,
				   unsigned long clear)
{
#ifdef HAVE_VM_FLAGS_SET
	vm_flags_set(vma, set);
	vm_flags_clear(vma, clear);
#else
	vma->vm_flags |= set;
	vma->vm_flags &= ~clear;
#endif
}

/* The member of vm_operations_struct that may refuse to split a mapping. */
#ifdef HAVE_VM_OPS_MAY_SPLIT
#define SB_VM_OPS_MAY_SPLIT may_split
#else
#define SB_VM_OPS_MAY_SPLIT split
#endif

/*
 * An initializer in struct genl_family, with its comma: the headers of all
 * commands from @command on are checked strictly. Empty if the kernel has no
 * such check.
 */
#ifdef HAVE_GENL_RESV_START_OP
#define SB_GENL_RESV_START_OP(command) .resv_start_op = (command),
#else
#define SB_GENL_RESV_START_OP(command)
#endif

/*
 * The flag of kernel threads that use the memory of a process without ever running
 * user code: io_uring workers; since 6.4 under a more general name. In 5.10 they
 * have PF_KTHREAD too.
 */
#ifdef PF_USER_WORKER
#define SB_PF_USER_WORKER PF_USER_WORKER
#else
#define SB_PF_USER_WORKER PF_IO_WORKER
#endif

/*
 * The path by which a program has opened @file. If a stacked file system maps the
 * file of a lower one, this differs from the path of the mapped file since 6.8.
 */
static inline const struct path *sb_file_user_path(const struct file *file)
{
#ifdef HAVE_FILE_USER_PATH
	return file_user_path(file);
#else
	return &file->f_path;
#endif
}

/* The time of the last change of an inode's data or attributes. */
static inline struct timespec64 sb_inode_ctime(const struct inode *inode)
{
#ifdef HAVE_INODE_GET_CTIME
	return inode_get_ctime(inode);
#else
	return inode->i_ctime;
#endif
}

/*
 * set_active_memcg(), which needs a symbol that 5.10 does not export, for a task in process context: what
 * it allocates is charged to @memcg. Returns the former one.
 */
static inline struct mem_cgroup *sb_set_active_memcg(struct mem_cgroup *memcg)
{
	struct mem_cgroup *former = NULL;

#ifdef CONFIG_MEMCG
	former = current->active_memcg;
	current->active_memcg = memcg;
#endif
	return former;
}

/*
 * The sequence number of a disk: another one for each image of a loop device, and for each medium. 0 on
 * kernels without such numbers.
 */
#ifdef HAVE_DISK_SEQUENCE
#define SB_HAS_DISK_SEQUENCE 1
static inline u64 sb_disk_sequence(const struct gendisk *disk)
{
	return disk->diskseq;
}
#else
#define SB_HAS_DISK_SEQUENCE 0
static inline u64 sb_disk_sequence(const struct gendisk *disk)
{
	return 0;
}
#endif

/*
 * Whether the user of @task may access its memory @mm, which @task has, or had when it ended:
 * not if the user may not read the program, nor after @task has given up rights. Called in
 * an RCU read side.
 */
static inline bool sb_is_dumpable(const struct task_struct *task, struct mm_struct *mm)
{
#ifdef HAVE_TASK_EXEC_STATE
	return READ_ONCE(rcu_dereference(task->exec_state)->dumpable) == TASK_DUMPABLE_OWNER;
#else
	return get_dumpable(mm) == SUID_DUMP_USER;
#endif
}

/* The id of the ancestor of @cgroup at @level, 0 to its own, of the version 2 hierarchy. */
static inline u64 sb_cgroup_ancestor_id(const struct cgroup *cgroup, int level)
{
#ifdef HAVE_CGROUP_ANCESTORS
	return cgroup_id(cgroup->ancestors[level]);
#else
	return cgroup->ancestor_ids[level];
#endif
}

/*
 * Iterates over the mappings of an mm with mmap_lock held: declare
 * SB_VMA_ITERATOR(iterator, mm), then use SB_FOR_EACH_VMA(iterator, vma).
 */
#ifdef HAVE_VMA_ITERATOR
#define SB_VMA_ITERATOR(name, mm) VMA_ITERATOR(name, mm, 0)
#define SB_FOR_EACH_VMA(name, vma) for_each_vma(name, vma)
#else
#define SB_VMA_ITERATOR(name, mm) struct vm_area_struct *name = (mm)->mmap
#define SB_FOR_EACH_VMA(name, vma) for ((vma) = (name); (vma); (vma) = (vma)->vm_next)
#endif

/* Whether the function graph tracer has replaced return addresses on the stack of @task. */
static inline bool sb_is_graph_traced(const struct task_struct *task)
{
#ifndef CONFIG_FUNCTION_GRAPH_TRACER
	return false;
#elif defined(HAVE_RET_STACK_WORDS)
	return task->curr_ret_stack != 0;
#else
	return task->curr_ret_stack != -1;
#endif
}

/*
 * Prepares @work to call @fn in hard interrupt context, with PREEMPT_RT too: otherwise a thread
 * would call it there, which real-time tasks can delay without limit.
 */
static inline void sb_init_hard_irq_work(struct irq_work *work,
					 void (*fn)(struct irq_work *work))
{
#ifdef HAVE_IRQ_WORK_INIT_HARD
	*work = IRQ_WORK_INIT_HARD(fn);
#else
	init_irq_work(work, fn);
	atomic_set(&work->flags, IRQ_WORK_HARD_IRQ);
#endif
}

#endif

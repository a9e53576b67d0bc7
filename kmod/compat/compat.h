/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels, under one name. HAVE_* say what the kernel that
 * the module is built for has; kmod/build finds it out by compiling
 * kmod/compat/probes/ (a probe's file says which version brought the feature,
 * for orientation only: stable updates and distributions carry features back).
 */
#ifndef SB_COMPAT_H
#define SB_COMPAT_H

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

/* A variable that is not zeroed where the compiler zeroes all of them. Newer kernels define it. */
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

/* Sets and clears flags of a mapping, in its mmap(): the caller may write them. */
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
 * commands from @command on are checked strictly. Nothing where there is no
 * such check.
 */
#ifdef HAVE_GENL_RESV_START_OP
#define SB_GENL_RESV_START_OP(command) .resv_start_op = (command),
#else
#define SB_GENL_RESV_START_OP(command)
#endif

/*
 * The flag of kernel threads that borrow a user's memory without having been in
 * user code: io_uring's workers, since 6.4 under a wider name. In 5.10 they are
 * PF_KTHREAD too.
 */
#ifdef PF_USER_WORKER
#define SB_PF_USER_WORKER PF_USER_WORKER
#else
#define SB_PF_USER_WORKER PF_IO_WORKER
#endif

/*
 * The path under which a program knows @file. Where a stacked file system maps
 * the file of a lower one, before 6.8 that was the path of the file itself.
 */
static inline const struct path *sb_file_user_path(const struct file *file)
{
#ifdef HAVE_FILE_USER_PATH
	return file_user_path(file);
#else
	return &file->f_path;
#endif
}

/*
 * Whether the user of @task may look into its memory @mm, which it has, or had when it
 * ended: not after it has run a program that he may not read, or has given up rights. An
 * RCU read side.
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
 * Goes through the mappings of memory whose mmap_lock is held: prepare with
 * SB_VMA_ITERATOR(iterator, mm), then SB_FOR_EACH_VMA(iterator, vma).
 */
#ifdef HAVE_VMA_ITERATOR
#define SB_VMA_ITERATOR(name, mm) VMA_ITERATOR(name, mm, 0)
#define SB_FOR_EACH_VMA(name, vma) for_each_vma(name, vma)
#else
#define SB_VMA_ITERATOR(name, mm) struct vm_area_struct *name = (mm)->mmap
#define SB_FOR_EACH_VMA(name, vma) for ((vma) = (name); (vma); (vma) = (vma)->vm_next)
#endif

/*
 * Prepares @work to call @fn in hard interrupt context, on -rt too: else it would wait
 * there for a thread, which a real-time task keeps from running for as long as it likes.
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

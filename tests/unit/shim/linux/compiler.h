/* SPDX-License-Identifier: GPL-2.0 */
/* What code of kmod needs of the kernel, so that it runs on the host. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#include <asm/barrier.h>
#include <linux/types.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define __user
#define __packed __attribute__((packed, may_alias))
#define OPTIMIZER_HIDE_VAR(variable) __asm__("" : "=r"(variable) : "0"(variable))
#define noinline __attribute__((noinline))
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)

#endif

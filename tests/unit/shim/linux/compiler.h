/* SPDX-License-Identifier: GPL-2.0 */
/* What kmod/ring.h needs of the kernel, so that its real code runs on the host. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#include <linux/types.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define noinline __attribute__((noinline))
#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* User memory for kmod/goroutine.c: shim_read_user(), which the test defines, reads it. */
#ifndef SHIM_LINUX_UACCESS_H
#define SHIM_LINUX_UACCESS_H

#include <linux/compiler.h>

bool shim_read_user(void *to, unsigned long from, size_t size);
/* Number of user access sections that are open. */
extern int shim_user_access;

#define __uaccess_begin() ((void)shim_user_access++)
#define __uaccess_end() ((void)shim_user_access--)

#define unsafe_get_user(value, from, label)                                                        \
	do {                                                                                       \
		__typeof__(*(from)) shim_value;                                                    \
		if (!shim_read_user(&shim_value, (unsigned long)(from), sizeof(shim_value)))       \
			goto label;                                                                \
		(value) = shim_value;                                                              \
	} while (0)

#endif

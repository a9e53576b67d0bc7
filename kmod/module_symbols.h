/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of other modules, kept for the readers of samples in code that is gone: in init sections,
 * which the kernel frees when a module was initialized, and in modules that were unloaded. They are
 * kept while sessions are open that may see kernel addresses, up to SB_MODULE_SYMBOLS_BYTES.
 */
#ifndef STACKBEAT_MODULE_SYMBOLS_H
#define STACKBEAT_MODULE_SYMBOLS_H

#include <linux/compiler_types.h>

struct stackbeat_module_symbols;

/* A session that may read them is opened, or closed: the last one to close frees them. */
void sb_module_symbols_follow(void);
void sb_module_symbols_unfollow(void);

/* Implements STACKBEAT_IOC_MODULE_SYMBOLS, for a session that may see kernel addresses. */
int sb_module_symbols_read(struct stackbeat_module_symbols __user *argument);

/* Any error of registering a notifier. */
int sb_module_symbols_init(void);
/* No session is open. */
void sb_module_symbols_exit(void);

#endif

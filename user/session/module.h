/* SPDX-License-Identifier: GPL-2.0 */
/* Loading and unloading stackbeat.ko, by libkmod. */
#ifndef STACKBEAT_SESSION_MODULE_H
#define STACKBEAT_SESSION_MODULE_H

#include <limits.h>
#include <stdbool.h>

struct error;

#define MODULE_NAME "stackbeat"

bool module_loaded(void);

/*
 * Loads the module built for the running kernel: from the build tree that this
 * command was built in (build/kmod/RELEASE beside it), else from /lib/modules.
 * `parameters` is a NULL-terminated list of NAME=VALUE, or NULL. Puts the path
 * that was loaded into `path`, "" when the module was loaded already.
 *
 * Returns 0, also when it is loaded already with these parameters, or a
 * negative errno value with advice: -EEXIST when it is loaded with others.
 */
int module_load(char *const *parameters, char path[PATH_MAX], struct error *error);

/*
 * Unloads it. Returns 0; -ENOENT when it is not loaded; -EBUSY when a session
 * is open; another negative errno value.
 */
int module_unload(struct error *error);

#endif

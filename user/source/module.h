/* SPDX-License-Identifier: GPL-2.0 */
/* Loads and unloads stackbeat.ko with libkmod. */
#ifndef STACKBEAT_SOURCE_MODULE_H
#define STACKBEAT_SOURCE_MODULE_H

#include <limits.h>
#include <stdbool.h>

struct error;

#define MODULE_NAME "stackbeat"

bool module_loaded(void);

/*
 * Loads the module built for the running kernel: from the build tree of this command
 * (kmod/RELEASE beside it), or else from /lib/modules. `parameters` is a NULL-terminated list of
 * NAME=VALUE, or NULL. Sets `path` to the path of the loaded file, "" when the module was loaded
 * already.
 *
 * Returns 0, also when the module is loaded already with these parameters; or a negative errno
 * value with advice in the message: -EEXIST when it is loaded with other parameters.
 */
int module_load(char *const *parameters, char path[PATH_MAX], struct error *error);

/*
 * Unloads the module. Returns 0; -ENOENT when it is not loaded; -EBUSY when a session is open;
 * or another negative errno value.
 */
int module_unload(struct error *error);

#endif

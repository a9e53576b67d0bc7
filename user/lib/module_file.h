/* SPDX-License-Identifier: GPL-2.0 */
/* The file of an installed module, whether modprobe finds it or not. */
#ifndef STACKBEAT_LIB_MODULE_FILE_H
#define STACKBEAT_LIB_MODULE_FILE_H

#include <limits.h>
#include <stdbool.h>

/*
 * Sets `path` to stackbeat.ko for the kernel `release`, compressed or not, where DKMS or
 * 'make install' put it, below the directory `root` ("": this machine), and returns true if there
 * is one. modprobe does not find it before depmod has listed it, which DKMS leaves to the package
 * of the kernel if that is not installed. `path` has no root.
 */
bool module_file_find(const char *root, const char *release, char path[PATH_MAX]);

/*
 * Whether `path`, below the directory `root`, is no file of a module, nor a compressed file: it is
 * missing, empty, a directory, or begins otherwise. Nobody knows of a file that may not be read.
 */
bool module_file_is_damaged(const char *root, const char *path);

/* What makes the file again, as advice in a message, by the place that `path` is in. */
const char *module_file_remedy(const char *path);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Which device numbers stand for the same disk for ever. */
#ifndef STACKBEAT_LIB_FIXED_DISK_H
#define STACKBEAT_LIB_FIXED_DISK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns whether the number of a block device is the same for ever, below `root` ("" except in
 * tests): not of a loop device or a removable disk, whose number the next image or medium gets.
 */
bool device_is_fixed_disk(const char *root, uint64_t device);

#endif

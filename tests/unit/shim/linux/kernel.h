/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_KERNEL_H
#define SHIM_LINUX_KERNEL_H

#include_next <linux/kernel.h>

#include <linux/types.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define DIV_ROUND_UP(number, by) (((number) + (by)-1) / (by))
#define min(one, other) ((one) < (other) ? (one) : (other))
#define max(one, other) ((one) > (other) ? (one) : (other))
#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX

#endif

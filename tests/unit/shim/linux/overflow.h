/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_OVERFLOW_H
#define SHIM_LINUX_OVERFLOW_H

#define array_size(count, size) ((size_t)(count) * (size))
#define struct_size(pointer, member, count)                                                        \
	(sizeof(*(pointer)) + array_size(count, sizeof((pointer)->member[0])))

#endif

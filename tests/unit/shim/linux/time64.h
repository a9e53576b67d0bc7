/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_TIME64_H
#define SHIM_LINUX_TIME64_H

#define NSEC_PER_MSEC 1000000ul
#define NSEC_PER_SEC 1000000000ull

#endif

/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_GFP_H
#define SHIM_LINUX_GFP_H

#define GFP_KERNEL_ACCOUNT 0
#define __GFP_NORETRY 0
#define __GFP_NOWARN 0

#endif

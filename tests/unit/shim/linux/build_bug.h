/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_BUILD_BUG_H
#define SHIM_LINUX_BUILD_BUG_H

#include <assert.h>

#define BUILD_BUG_ON(condition) _Static_assert(!(condition), #condition)

/* static_assert of assert.h has a message. */
#undef static_assert
#define static_assert(condition) _Static_assert(condition, #condition)

#endif

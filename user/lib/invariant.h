/* SPDX-License-Identifier: GPL-2.0 */
/*
 * invariant(X): aborts if X is false, in builds for unit tests and fuzzers (-DCHECK_INVARIANTS). In
 * others X is compiled, but never evaluated.
 */
#ifndef STACKBEAT_LIB_INVARIANT_H
#define STACKBEAT_LIB_INVARIANT_H

#include <assert.h>
#include <stdbool.h>

#ifdef CHECK_INVARIANTS
#define invariant(condition) assert(condition)
#else
#define invariant(condition) ((void)(false && (condition)))
#endif

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of Go's runtime in a symbolized profile. */
#ifndef STACKBEAT_SYMBOLIZE_GO_RUNTIME_H
#define STACKBEAT_SYMBOLIZE_GO_RUNTIME_H

#include <stdbool.h>

struct profile;

/* Whether the function with this linker name is of the packages that Go's heap profile hides. */
bool go_runtime_has(const char *system_name);

/*
 * Leaves out the functions of Go's runtime at the leaf end of each stack, so that their time is
 * the caller's: allocation, maps, channels, as in Go's heap profile
 * (runtime/pprof/protomem.go). What they have called of the kernel and the vDSO stays, as a callee
 * of that caller. Stacks without other functions stay, too. A comment says so. Returns 0, or
 * -ENOMEM: the profile may only be freed then.
 */
int go_runtime_hide(struct profile *profile);

#endif

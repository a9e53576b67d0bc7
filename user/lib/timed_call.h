/* SPDX-License-Identifier: GPL-2.0 */
/* Calls functions that may block for as long as a file system hangs. */
#ifndef STACKBEAT_LIB_TIMED_CALL_H
#define STACKBEAT_LIB_TIMED_CALL_H

#include <stdbool.h>
#include <stdint.h>

/* Calls that may be blocked at a time. Further ones are refused. */
#define TIMED_CALLS_BLOCKED_MAX 4u
/* How often a call is waited for whose thread gets no CPU. */
#define TIMED_CALL_WAITS_MAX 10u

/*
 * Calls fn(arg) in another thread, and waits for it at most `timeout` ns, or TIMED_CALL_WAITS_MAX
 * times as long while the thread gets no CPU (thread_awaits_cpu()). Returns 0; -EAGAIN if `fn` is
 * not called; or -ETIMEDOUT: then `arg` belongs to the thread, which calls drop(arg) if `fn` ever
 * returns.
 */
int timed_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t timeout);

/* Returns whether calls are blocked in this process, or were in its parent when it was forked. */
bool timed_calls_blocked(void);

#endif

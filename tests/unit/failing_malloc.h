/* SPDX-License-Identifier: GPL-2.0 */
/* The heap of this test program, without memory when the test wants that. */
#ifndef STACKBEAT_TEST_FAILING_MALLOC_H
#define STACKBEAT_TEST_FAILING_MALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* The functions of the sanitizer. */
void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t count, size_t size);
void *__interceptor_reallocarray(void *memory, size_t count, size_t size);

/* Each thread has its own. */
static _Thread_local struct {
	unsigned long fail_at; /* the number of the call that fails, from 1; 0: none does */
	bool stays; /* all later ones fail, too */
	unsigned long calls;
} failing_malloc;

/* From now on, the call with this number fails; 0: none. */
static inline void fail_malloc(unsigned long number, bool stays)
{
	failing_malloc.calls = 0;
	failing_malloc.stays = stays;
	failing_malloc.fail_at = number;
}

/* Returns whether a call has failed. */
static inline bool malloc_has_failed(void)
{
	return failing_malloc.fail_at && failing_malloc.calls >= failing_malloc.fail_at;
}

static inline bool has_memory(void)
{
	if (!failing_malloc.fail_at)
		return true;
	failing_malloc.calls++;
	return failing_malloc.calls < failing_malloc.fail_at ||
	       (failing_malloc.calls > failing_malloc.fail_at && !failing_malloc.stays);
}

void *malloc(size_t size)
{
	return has_memory() ? __interceptor_malloc(size) : NULL;
}

void *calloc(size_t count, size_t size)
{
	return has_memory() ? __interceptor_calloc(count, size) : NULL;
}

void *reallocarray(void *memory, size_t count, size_t size)
{
	return has_memory() ? __interceptor_reallocarray(memory, count, size) : NULL;
}

#endif

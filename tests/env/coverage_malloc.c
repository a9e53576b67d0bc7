// SPDX-License-Identifier: GPL-2.0
/*
 * For unit tests without the sanitizer (tests/coverage): the functions of its heap that
 * tests/unit/failing_malloc.h calls, by the functions of glibc.
 */
#include <stddef.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t count, size_t size);
void *__interceptor_reallocarray(void *memory, size_t count, size_t size);

void *__interceptor_malloc(size_t size)
{
	return __libc_malloc(size);
}

void *__interceptor_calloc(size_t count, size_t size)
{
	return __libc_calloc(count, size);
}

void *__interceptor_reallocarray(void *memory, size_t count, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(count, size, &bytes) ? NULL : __libc_realloc(memory, bytes);
}

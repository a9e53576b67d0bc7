// SPDX-License-Identifier: GPL-2.0

//go:build with_c

package main

/*
static inline __attribute__((always_inline)) int c_inner(int x)
{
	return x * x + 3;
}

__attribute__((noinline)) int c_outer(int x)
{
	return c_inner(x) ^ 5;
}
*/
import "C"

func init() {
	sink = int(C.c_outer(C.int(sink)))
}

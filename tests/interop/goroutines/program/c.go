// SPDX-License-Identifier: GPL-2.0

//go:build with_c

package main

/*
#include <unistd.h>

void goCallback(void);

static void wait_in_c(void)
{
	for (;;)
		pause();
}

static void call_back(int depth)
{
	volatile char stack[256];

	stack[0] = (char)depth;
	if (depth)
		call_back(depth - 1);
	else
		goCallback();
	stack[1] = stack[0];
}
*/
import "C"

var begun = make(chan func(), 1024)

//export goCallback
func goCallback() {
	(<-begun)()
	<-never
}

// registerC parks goroutines in C, and in Go that C has called.
func registerC() {
	park(func(begin func()) { begin(); C.wait_in_c() })
	park(func(begin func()) { begun <- begin; C.call_back(5) })
}

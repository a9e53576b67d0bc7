// SPDX-License-Identifier: GPL-2.0

package main

/*
extern int goBounce(int depth);

static __attribute__((noinline)) int bounce(int depth)
{
	return goBounce(depth) + 1;
}
*/
import "C"

//export goBounce
func goBounce(depth C.int) C.int {
	if depth == 0 {
		return C.int(spin(20000))
	}
	return C.bounce(depth-1) + 1
}

// Go calls C, which calls Go, five times, and then Go works.
func rolePingPong() {
	for i := 0; i < 40; i++ {
		C.bounce(4)
	}
}

// SPDX-License-Identifier: GPL-2.0

//go:build with_c

package main

// static int twice(int n) { return 2 * n; }
// extern int back(int n);
// static int call_back(int n) { return back(n) + 1; }
import "C"

//export back
func back(n C.int) C.int { return C.twice(n) }

func init() { extras = append(extras, func() int { return int(C.call_back(1)) }) }

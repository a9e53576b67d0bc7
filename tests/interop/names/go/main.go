// SPDX-License-Identifier: GPL-2.0

// A program of known shape: functions that are inlined in each other, generics, closures, methods and
// interfaces, in two files. The lines that say "mark:" are looked up.
package main

import (
	"os"
	"strings"
)

var sink int

func depth1(n int) int {
	return n + sink // mark: depth
}

func depth2(n int) int {
	return depth1(n) * 2
}

func depth3(n int) int {
	first := depth2(n)
	return first - depth1(n+1)
}

//go:noinline
func deep(n int) int {
	return depth3(n) + 1
}

//go:noinline
func closures(n int) int {
	c := &counter{}
	each(c, n, func(x int) int {
		sink += x // mark: closure
		return x + n
	})
	func() {
		defer func() {
			sink++ // mark: deferred closure in a closure
		}()
		c.add(n)
	}()
	return c.total
}

func main() {
	n := len(os.Args)
	shapes := []shape{&counter{n}, square{n}, pair[string]{"a", strings.Repeat("b", n)}}
	sink = deep(n) + closures(n) + sum([]int{n, 2}) + int(sum([]float64{float64(n)}))
	for _, s := range shapes {
		sink += s.area() // mark: main
	}
	if sink == 1234567 {
		os.Exit(1)
	}
}

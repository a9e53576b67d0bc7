// SPDX-License-Identifier: GPL-2.0

// Functions of several programs.
package main

type tree struct {
	left, right *tree
}

//go:noinline
func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

func echo(ping, pong chan int) {
	for i := range ping {
		pong <- i
	}
}

//go:noinline
func spin(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * i
	}
	return sum
}

// SPDX-License-Identifier: GPL-2.0

//go:build go1.23

package main

import "iter"

func sequence(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

// registerCoroutine parks one goroutine as a coroutine, and the goroutine that has created it.
func registerCoroutine() {
	park(func(begin func()) {
		next, _ := iter.Pull(sequence)
		next()
		begin()
		<-never
	})
}

// SPDX-License-Identifier: GPL-2.0

// A plugin of the program.
package main

//go:noinline
func receive(c chan int) int { return <-c + 1 }

// Wait parks the goroutine that calls it, and one more.
func Wait(begin func(), never chan int) {
	go receive(never)
	begin()
	receive(never)
}

// SPDX-License-Identifier: GPL-2.0

package main

type shape interface {
	area() int
}

type counter struct {
	total int
}

//go:noinline
func (c *counter) add(x int) {
	c.total += x * sink // mark: method
}

//go:noinline
func (c *counter) area() int {
	return c.total * sink // mark: method of a pointer
}

type square struct {
	side int
}

//go:noinline
func (s square) area() int {
	return s.side * sink // mark: method of a value
}

type number interface {
	~int | ~float64
}

func add[T number](a, b T) T {
	return a + b // mark: inlined generic function
}

//go:noinline
func sum[T number](values []T) T {
	var total T
	for _, value := range values {
		total = add(total, value)
	}
	return total
}

type pair[T any] struct {
	first, second T
}

//go:noinline
func (p pair[T]) area() int {
	sink++ // mark: method of a generic type
	return sink
}

//go:noinline
func each(c *counter, n int, f func(int) int) {
	for i := 0; i < n; i++ {
		c.add(f(i)) // mark: call through a variable
	}
}

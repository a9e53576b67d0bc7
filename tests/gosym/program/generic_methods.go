// SPDX-License-Identifier: GPL-2.0

//go:build go1.27

package main

type box[T any] struct{ item T }

//go:noinline
func (b box[T]) convert[U any](with func(T) U) box[U] {
	return func() box[U] { sink++; return box[U]{with(b.item)} }()
}

func genericMethods() int {
	numbers := box[[]int]{[]int{1, 2}}
	words := numbers.convert(func(n []int) map[string][]int { return map[string][]int{"a": n} })
	return len(words.item) + len(words.convert(func(map[string][]int) string { return "b" }).item)
}

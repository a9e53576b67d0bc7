// SPDX-License-Identifier: GPL-2.0

// gowork [ROUNDS]: goroutines that fill maps, sort and allocate, so that the
// garbage collector runs all the time. Prints the number of collections.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
)

type node struct {
	left, right *node
	value       int
}

func grow(depth int) *node {
	if depth == 0 {
		return &node{value: 1}
	}
	return &node{grow(depth - 1), grow(depth - 1), depth}
}

func sum(tree *node) int {
	if tree == nil {
		return 0
	}
	return tree.value + sum(tree.left) + sum(tree.right)
}

func shuffleAndSort(size int, seed uint32) int {
	numbers := make([]int, size)
	for i := range numbers {
		seed = seed*1664525 + 1013904223
		numbers[i] = int(seed >> 8)
	}
	sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
	return numbers[0]
}

func countWords(size int, seed uint32) int {
	words := make(map[string]int)
	for i := 0; i < size; i++ {
		seed = seed*1664525 + 1013904223
		words["word"+strconv.Itoa(int(seed>>20))]++
	}
	return len(words)
}

func worker(rounds int, seed uint32, total *int) {
	for i := 0; i < rounds; i++ {
		*total += sum(grow(12))
		*total += shuffleAndSort(2000, seed)
		*total += countWords(2000, seed)
		seed++
	}
}

func main() {
	rounds := 100
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}

	var group sync.WaitGroup
	var totals [3]int
	for i := range totals[1:] {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			worker(rounds, uint32(i), &totals[i])
		}(i + 1)
	}
	worker(rounds, 0, &totals[0])
	group.Wait()

	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Printf("{\"total\": %d, \"collections\": %d}\n", totals[0]+totals[1]+totals[2], stats.NumGC)
}

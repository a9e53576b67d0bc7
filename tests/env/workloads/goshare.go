// SPDX-License-Identifier: GPL-2.0

// goshare ROUNDS: four goroutines that do one, two, three and four times so much work. Prints the rounds by the ID of the
// goroutine, and by the function that has created it.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"sync"
)

// The runtime prints the ID, but has no function for it.
func goroutineID() string {
	var stack [64]byte
	return string(bytes.Fields(stack[:runtime.Stack(stack[:], false)])[1])
}

//go:noinline
func spin(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i * i
	}
	return sum
}

func work(rounds int, done map[string]int, lock *sync.Mutex, group *sync.WaitGroup) {
	for i := 0; i < rounds; i++ {
		spin(1000000)
	}
	lock.Lock()
	done[goroutineID()] = rounds
	lock.Unlock()
	group.Done()
}

type pool struct {
	rounds int
	done   map[string]int
	lock   sync.Mutex
	group  sync.WaitGroup
}

//go:noinline
func (all *pool) startLarge() {
	all.group.Add(2)
	go work(3*all.rounds, all.done, &all.lock, &all.group)
	go work(4*all.rounds, all.done, &all.lock, &all.group)
}

//go:noinline
func startSmall(all *pool) {
	all.group.Add(2)
	for i := 1; i <= 2; i++ {
		go work(i*all.rounds, all.done, &all.lock, &all.group)
	}
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	all := pool{rounds: rounds, done: map[string]int{}}
	startSmall(&all)
	all.startLarge()
	all.group.Wait()
	json.NewEncoder(os.Stdout).Encode(map[string]map[string]int{
		"goroutine":  all.done,
		"go-creator": {"main.startSmall": 3 * rounds, "main.(*pool).startLarge": 7 * rounds},
	})
}

// SPDX-License-Identifier: GPL-2.0

// goswitch MILLISECONDS: for so long, goroutines that each make Go's runtime change stacks in another way. Their
// functions are main.role*. Prints the number of rounds of each.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"time"
)

// Allocations and the garbage collector run on the stack of the thread.
func roleAllocate() {
	grow(10)
}

// The vDSO does, too.
func roleClock() {
	for i := 0; i < 1000; i++ {
		time.Now()
	}
}

// A goroutine that waits calls the scheduler there.
func roleChannels() {
	ping, pong := make(chan int), make(chan int)
	go echo(ping, pong)
	for i := 0; i < 300; i++ {
		ping <- i
		<-pong
	}
	close(ping)
}

//go:noinline
func deep(depth int) int {
	var frame [100]int
	if depth == 0 {
		return frame[depth]
	}
	frame[depth%100] = deep(depth - 1)
	return frame[depth%100] + 1
}

// A new goroutine has a small stack, which is moved as it grows.
func roleStacks() {
	done := make(chan int)
	go growStack(done)
	<-done
}

func growStack(done chan int) {
	done <- deep(200)
}

//go:noinline
func fault(pointer *int) (failed bool) {
	defer func() { failed = recover() != nil }()
	return *pointer == 1
}

// A nil pointer makes a signal, whose handler makes the goroutine call a panic.
func roleFaults() {
	for i := 0; i < 100; i++ {
		fault(nil)
	}
}

// Assembly that uses rbp for other data in some versions.
func roleHash() {
	var data [65536]byte
	sha256.Sum256(data[:])
}

// A loop without calls is preempted by a signal.
func roleLoop() {
	spin(1000000)
}

func run(role func(), end time.Time, rounds *int, group *sync.WaitGroup) {
	for time.Now().Before(end) {
		role()
		*rounds++
	}
	group.Done()
}

func main() {
	roles := []func(){roleAllocate, roleClock, roleChannels, roleStacks, roleFaults, roleHash, roleLoop}
	names := []string{"allocate", "clock", "channels", "stacks", "faults", "hash", "loop"}
	milliseconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	rounds := make([]int, len(roles))
	var group sync.WaitGroup
	for i, role := range roles {
		group.Add(1)
		go run(role, end, &rounds[i], &group)
	}
	group.Wait()
	result := map[string]int{}
	for i, name := range names {
		result[name] = rounds[i]
	}
	json.NewEncoder(os.Stdout).Encode(result)
}

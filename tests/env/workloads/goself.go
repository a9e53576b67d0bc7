// SPDX-License-Identifier: GPL-2.0

// goself ROUNDS [PROFILE]: goroutines that do ROUNDS rounds of work of different kinds: main.role*. Writes the CPU
// profile of Go's runtime to PROFILE. Built with goparts.go, and goself_c.go or goself_pure.go.
package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"strconv"
	"sync"
)

var block = bytes.Repeat([]byte{1, 2, 3, 4}, 4096)

func roleHash() {
	for i := 0; i < 20; i++ {
		sha256.Sum256(block)
	}
}

func roleEncrypt() {
	key, err := aes.NewCipher(block[:16])
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(key)
	if err != nil {
		panic(err)
	}
	for i := 0; i < 40; i++ {
		gcm.Seal(nil, block[:12], block, nil)
	}
}

func roleOrder() {
	words := make([]string, 0, 2000)
	for i := 0; i < 2000; i++ {
		words = append(words, strconv.Itoa(i*7919%10007))
	}
	sort.Slice(words, func(i, j int) bool { return words[i] < words[j] })
}

// Allocations, and the garbage collector, run on the stack of the thread.
func roleAllocate() {
	grow(13)
}

func roleChannels() {
	ping, pong := make(chan int), make(chan int)
	go echo(ping, pong)
	for i := 0; i < 1000; i++ {
		ping <- i
		<-pong
	}
	close(ping)
}

func run(role func(), rounds int, group *sync.WaitGroup) {
	for i := 0; i < rounds; i++ {
		role()
	}
	group.Done()
}

func startProfile(path string) *os.File {
	file, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	// 100 Hz are the default. The runtime complains that it has a rate already, and keeps it.
	runtime.SetCPUProfileRate(250)
	if err := pprof.StartCPUProfile(file); err != nil {
		panic(err)
	}
	return file
}

func main() {
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	if len(os.Args) > 2 {
		file := startProfile(os.Args[2])
		defer file.Close()
		defer pprof.StopCPUProfile()
	}
	var group sync.WaitGroup
	for _, role := range []func(){roleHash, roleEncrypt, roleOrder, roleAllocate, roleChannels, rolePingPong} {
		group.Add(1)
		go run(role, rounds, &group)
	}
	group.Wait()
}

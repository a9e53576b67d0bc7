// SPDX-License-Identifier: GPL-2.0

// Parks goroutines in as many ways as there are, writes its own goroutine profile to the files PREFIX.pb.gz and
// PREFIX.txt, prints "ready", and waits until its standard input ends.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	never   = make(chan int)
	started sync.WaitGroup
	starts  []func()
)

// park registers a goroutine; `begin` marks it as started.
func park(f func(begin func())) {
	starts = append(starts, func() { go f(started.Done) })
}

type waiter interface{ wait() }

type inner struct{ c chan int }

func (i *inner) wait() { <-i.c }

// The compiler generates the method wait of outer, a wrapper.
type outer struct{ *inner }

func receive[T any](c chan T) T { return <-c }

type pair[K comparable, V any] struct {
	k K
	v V
}

func (p *pair[K, V]) receive(c chan V) { p.v = receive(c) }

//go:noinline
func recurse(depth int, wait func()) int {
	if depth == 0 {
		wait()
		return 0
	}
	return recurse(depth-1, wait) + depth
}

//go:noinline
func largeFrame(wait func()) byte {
	var array [9000]byte
	for i := range array {
		array[i] = byte(i)
	}
	wait()
	return array[len(os.Args)]
}

func addOne(c chan int) int { return addTwo(c) + 1 }

func addTwo(c chan int) int { return <-c + 2 }

func blockInDefer(begin func()) {
	defer func() {
		begin()
		<-never
	}()
	var pointer *int
	*pointer = 1
}

func blockInPanic(begin func()) {
	defer func() {
		begin()
		select {}
	}()
	panic("expected")
}

func registerChannels() {
	park(func(begin func()) { begin(); <-never })
	park(func(begin func()) { begin(); never <- 1 })
	park(func(begin func()) { begin(); var none chan int; <-none })
	park(func(begin func()) { begin(); var none chan int; none <- 1 })
	park(func(begin func()) { begin(); select {} })
	park(func(begin func()) {
		begin()
		select {
		case <-never:
		case never <- 1:
		}
	})
	park(func(begin func()) { begin(); addOne(never) })
	park(func(begin func()) { begin(); receive(make(chan [3]string)) })
	park(func(begin func()) { begin(); new(pair[string, int]).receive(never) })
	park(func(begin func()) {
		var w waiter = outer{&inner{never}}
		begin()
		w.wait()
	})
	park(func(begin func()) {
		wait := outer{&inner{never}}.wait
		begin()
		wait()
	})
}

func registerLocks() {
	var mutex sync.Mutex
	var lock sync.RWMutex
	var group sync.WaitGroup
	cond := sync.NewCond(&sync.Mutex{})
	mutex.Lock()
	lock.Lock()
	group.Add(1)
	park(func(begin func()) { begin(); mutex.Lock() })
	park(func(begin func()) { begin(); lock.RLock() })
	park(func(begin func()) { begin(); group.Wait() })
	park(func(begin func()) { cond.L.Lock(); begin(); cond.Wait() })
	park(func(begin func()) { begin(); time.Sleep(time.Hour) })
}

func registerSystemCalls() {
	read, _, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		panic(err)
	}
	park(func(begin func()) { begin(); read.Read(make([]byte, 1)) })
	park(func(begin func()) { begin(); syscall.Read(fds[0], make([]byte, 1)) })
	park(func(begin func()) {
		runtime.LockOSThread()
		begin()
		syscall.Read(fds[0], make([]byte, 1))
	})
}

func registerStacks() {
	park(func(begin func()) { recurse(15, func() { begin(); <-never }) })
	park(func(begin func()) { largeFrame(func() { begin(); <-never }) })
	park(func(begin func()) { recurse(3, func() { largeFrame(func() { begin(); addOne(never) }) }) })
	park(blockInDefer)
	park(blockInPanic)
}

func registerLabels() {
	park(func(begin func()) {
		pprof.Do(context.Background(), pprof.Labels("kind", "parked", "path", "/a?b=\u00e4"), func(context.Context) {
			begin()
			<-never
		})
	})
	// Enough labels for the map of older versions to grow.
	var many []string
	for i := 0; i < 13; i++ {
		many = append(many, "label"+strconv.Itoa(i), strconv.Itoa(i))
	}
	park(func(begin func()) {
		pprof.Do(context.Background(), pprof.Labels("kind", "parked"), func(outer context.Context) {
			pprof.Do(outer, pprof.Labels(many...), func(context.Context) {
				begin()
				receive(never)
			})
		})
	})
	park(func(begin func()) {
		pprof.Do(context.Background(), pprof.Labels("kind", "ended"), func(context.Context) {})
		begin()
		<-never
	})
}

// A goroutine of the runtime that runs code of the program.
func blockFinalizer() {
	entered := make(chan bool)
	object := new([64]byte)
	runtime.SetFinalizer(object, func(*[64]byte) {
		close(entered)
		<-never
	})
	object = nil
	for {
		runtime.GC()
		select {
		case <-entered:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func writeProfile(path string, debug int) {
	file, err := os.Create(path)
	if err == nil {
		err = pprof.Lookup("goroutine").WriteTo(file, debug)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		panic(err)
	}
}

// spin never parks: goroutines that do not run were preempted.
func spin(n *uint64) {
	for {
		*n++
	}
}

// waitUntilParked waits until main alone runs or could run: the others have begun, and park.
func waitUntilParked() {
	for looks := 0; looks < 3000; looks++ {
		// A goroutine that enters a system call counts as parked before it blocks.
		time.Sleep(100 * time.Millisecond)
		var text strings.Builder
		pprof.Lookup("goroutine").WriteTo(&text, 2)
		if strings.Count(text.String(), " [running")+strings.Count(text.String(), " [runnable") == 1 {
			return
		}
	}
	panic("goroutines do not park")
}

func main() {
	prefix := os.Args[1]
	copies := 1
	if len(os.Args) > 2 {
		copies, _ = strconv.Atoi(os.Args[2])
	}
	registerChannels()
	registerLocks()
	registerSystemCalls()
	registerStacks()
	registerLabels()
	registerCoroutine()
	registerC()
	registerPlugin()
	for _, start := range starts {
		started.Add(copies)
		for i := 0; i < copies; i++ {
			start()
		}
	}
	started.Wait()
	blockFinalizer()
	waitUntilParked()
	writeProfile(prefix+".pb.gz", 0)
	writeProfile(prefix+".txt", 2)
	if len(os.Args) > 3 {
		runtime.GOMAXPROCS(1)
		for i := 0; i < 4; i++ {
			go spin(new(uint64))
		}
	}
	fmt.Println("ready")
	io.Copy(io.Discard, bufio.NewReader(os.Stdin))
	// A return would wait for the goroutine that panics.
	os.Exit(0)
}

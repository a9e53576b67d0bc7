// SPDX-License-Identifier: GPL-2.0

// goshare ROUNDS [LABELS]: four goroutines that do ROUNDS times 1, 2, 3 and 4 of work, with LABELS pprof labels
// (default: 12). Prints the rounds by the ID of the goroutine, by the function that has created it, and by labels.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
)

// The runtime prints the ID, but has no function for it.
func goroutineID() string {
	var stack [64]byte
	return string(bytes.Fields(stack[:runtime.Stack(stack[:], false)])[1])
}

// The first label is "kind", the second has a key of stackbeat's. The caller sets the first three.
func withLabels(kind string, count int, work func()) {
	list := []string{"kind", kind, "pid", "forged"}
	for i := 2; i < count; i++ {
		list = append(list, "label-"+strconv.Itoa(i), kind+strconv.Itoa(i))
	}
	list = list[:2*count]
	if count <= 3 {
		pprof.Do(context.Background(), pprof.Labels(list...), func(context.Context) { work() })
		return
	}
	pprof.Do(context.Background(), pprof.Labels(list[:6]...), func(outer context.Context) {
		pprof.Do(outer, pprof.Labels(list[6:]...), func(context.Context) { work() })
	})
}

func work(kind string, labels int, rounds int, done map[string]int, lock *sync.Mutex, group *sync.WaitGroup) {
	spinAll := func() {
		for i := 0; i < rounds; i++ {
			spin(1000000)
		}
	}
	if labels > 0 {
		withLabels(kind, labels, spinAll)
	} else {
		spinAll()
	}
	lock.Lock()
	done[goroutineID()] = rounds
	lock.Unlock()
	group.Done()
}

type pool struct {
	rounds int
	labels int
	done   map[string]int
	lock   sync.Mutex
	group  sync.WaitGroup
}

//go:noinline
func (all *pool) startLarge() {
	all.group.Add(2)
	go work("large", all.labels, 3*all.rounds, all.done, &all.lock, &all.group)
	go work("large", all.labels, 4*all.rounds, all.done, &all.lock, &all.group)
}

//go:noinline
func startSmall(all *pool) {
	all.group.Add(2)
	for i := 1; i <= 2; i++ {
		go work("small", all.labels, i*all.rounds, all.done, &all.lock, &all.group)
	}
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	labels := 12
	if len(os.Args) > 2 {
		labels, _ = strconv.Atoi(os.Args[2])
	}
	all := pool{rounds: rounds, labels: labels, done: map[string]int{}}
	startSmall(&all)
	all.startLarge()
	all.group.Wait()
	json.NewEncoder(os.Stdout).Encode(map[string]map[string]int{
		"goroutine":  all.done,
		"go-creator": {"main.startSmall": 3 * rounds, "main.(*pool).startLarge": 7 * rounds},
		"kind":       {"small": 3 * rounds, "large": 7 * rounds},
		"label-11":   {"small11": 3 * rounds, "large11": 7 * rounds},
	})
}

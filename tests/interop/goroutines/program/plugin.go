// SPDX-License-Identifier: GPL-2.0

//go:build with_plugin

package main

import (
	"os"
	"plugin"
)

// registerPlugin parks goroutines in the plugin beside the program.
func registerPlugin() {
	opened, err := plugin.Open(os.Args[0] + ".plugin.so")
	if err != nil {
		panic(err)
	}
	wait, err := opened.Lookup("Wait")
	if err != nil {
		panic(err)
	}
	park(func(begin func()) { wait.(func(func(), chan int))(begin, never) })
}

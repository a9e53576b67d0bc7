// SPDX-License-Identifier: GPL-2.0

package main

import "C"

// GoMain runs the program in a goroutine that C has called.
//
//export GoMain
func GoMain() { main() }

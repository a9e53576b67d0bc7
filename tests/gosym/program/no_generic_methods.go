// SPDX-License-Identifier: GPL-2.0

//go:build !go1.27

package main

func genericMethods() int { return 0 }

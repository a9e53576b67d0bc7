// SPDX-License-Identifier: GPL-2.0

//go:build !cgo
// +build !cgo

package main

func foreign(value int) byte {
	return byte(value)
}

// SPDX-License-Identifier: GPL-2.0

//go:build !with_c

package main

func registerC() {}

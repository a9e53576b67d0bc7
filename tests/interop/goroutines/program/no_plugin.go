// SPDX-License-Identifier: GPL-2.0

//go:build !with_plugin

package main

func registerPlugin() {}

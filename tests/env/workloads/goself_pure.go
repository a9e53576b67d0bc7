// SPDX-License-Identifier: GPL-2.0

package main

func rolePingPong() {
	spin(800000)
}

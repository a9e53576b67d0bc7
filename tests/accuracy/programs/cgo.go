// SPDX-License-Identifier: GPL-2.0

//go:build cgo
// +build cgo

package main

/*
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static int foreign(int value)
{
	int values[500];

	for (int i = 0; i < 500; i++)
		values[i] = i * 7919 % 1000 + value;
	qsort(values, 500, sizeof(values[0]), compare);
	return values[0];
}
*/
import "C"

func foreign(value int) byte {
	return byte(C.foreign(C.int(value)))
}

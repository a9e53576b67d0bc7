/* SPDX-License-Identifier: GPL-2.0 */
/* Included by every unit test. */
#ifndef UNIT_H
#define UNIT_H

/* cmocka.h needs these headers before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif

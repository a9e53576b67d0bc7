/* SPDX-License-Identifier: GPL-2.0 */
/* What every unit test includes. */
#ifndef UNIT_H
#define UNIT_H

/* cmocka's header needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif

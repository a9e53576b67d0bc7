/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The effort of the reader's code, independent of the machine and its load: the number of basic
 * blocks of user/ that the calling thread has executed. Tests bound it for large inputs, so that an
 * algorithm is not quadratic.
 */
#ifndef STEPS_H
#define STEPS_H

#include <stdint.h>

extern _Thread_local uint64_t steps;

#endif

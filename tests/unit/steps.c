// SPDX-License-Identifier: GPL-2.0
#include "steps.h"

_Thread_local uint64_t steps;

void __sanitizer_cov_trace_pc(void);

/* Compilers call it in each basic block (-fsanitize-coverage=trace-pc). */
void __sanitizer_cov_trace_pc(void)
{
	steps++;
}

// SPDX-License-Identifier: GPL-2.0
#include "cpu.h"

DEFINE_PER_CPU(struct sb_cpu, sb_cpus);

u64 sb_cpu_floor(const struct sb_cpu *here, u64 now)
{
	return sb_floor_after(here->floor, now - here->floor_time);
}

void sb_cpu_raise_floor(struct sb_cpu *here, u64 floor, u64 now)
{
	here->floor = max(floor, sb_cpu_floor(here, now));
	here->floor_time = now;
}

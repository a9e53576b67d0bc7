// SPDX-License-Identifier: GPL-2.0
#include "runtime/go_layout.h"

#include <stddef.h>

/* The fields that no version has moved. */
#define COMMON .stack_lo = 0, .stack_hi = 8, .m = 48, .sched_sp = 56, .sched_pc = 64, .m_g0 = 0

static const struct go_layout layouts[] = {
	{
		COMMON,
		.first = 18,
		.last = 20,
		.sched_bp = 104,
		.syscall_sp = 112,
		.syscall_pc = 120,
		.status = 144,
		.goid = 152,
		.wait_since = 168,
		.wait_reason = 176,
		.gopc = 296,
		.startpc = 312,
		.labels = 360,
		.m_procid = 72,
		.m_gsignal = 80,
		.m_curg = 192,
	},
	{
		COMMON,
		.first = 21,
		.last = 22,
		.sched_bp = 104,
		.syscall_sp = 112,
		.syscall_pc = 120,
		.status = 144,
		.goid = 152,
		.wait_since = 168,
		.wait_reason = 176,
		.parent_goid = 272,
		.gopc = 280,
		.startpc = 296,
		.labels = 344,
		.m_procid = 72,
		.m_gsignal = 80,
		.m_curg = 192,
	},
	{
		COMMON,
		.first = 23,
		.last = 23,
		.sched_bp = 104,
		.syscall_sp = 112,
		.syscall_pc = 120,
		.syscall_bp = 128,
		.status = 152,
		.goid = 160,
		.wait_since = 176,
		.wait_reason = 184,
		.parent_goid = 280,
		.gopc = 288,
		.startpc = 304,
		.labels = 352,
		.m_procid = 72,
		.m_gsignal = 80,
		.m_curg = 192,
	},
	{
		COMMON,
		.first = 24,
		.last = 24,
		.sched_bp = 104,
		.syscall_sp = 112,
		.syscall_pc = 120,
		.syscall_bp = 128,
		.status = 152,
		.goid = 160,
		.wait_since = 176,
		.wait_reason = 184,
		.parent_goid = 280,
		.gopc = 288,
		.startpc = 304,
		.labels = 352,
		.m_procid = 72,
		.m_gsignal = 80,
		.m_curg = 192,
		.has_label_slices = true,
	},
	{
		COMMON,
		.first = 25,
		.last = 25,
		.sched_bp = 96,
		.syscall_sp = 104,
		.syscall_pc = 112,
		.syscall_bp = 120,
		.status = 144,
		.goid = 152,
		.wait_since = 168,
		.wait_reason = 176,
		.parent_goid = 272,
		.gopc = 280,
		.startpc = 296,
		.labels = 344,
		.m_procid = 64,
		.m_gsignal = 72,
		.m_curg = 184,
		.has_label_slices = true,
	},
	{
		COMMON,
		.first = 26,
		.last = 27,
		.sched_bp = 96,
		.syscall_sp = 104,
		.syscall_pc = 112,
		.syscall_bp = 120,
		.status = 144,
		.goid = 152,
		.wait_since = 168,
		.wait_reason = 176,
		.sync_safe_point = 219,
		.parent_goid = 280,
		.gopc = 288,
		.startpc = 304,
		.labels = 352,
		.m_procid = 64,
		.m_gsignal = 72,
		.m_curg = 184,
		.has_label_slices = true,
	},
};

#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

const struct go_layout *go_layout_of_version(unsigned int major, unsigned int minor)
{
	if (major != 1 || minor < layouts[0].first)
		return NULL;
	for (size_t i = 0; i < LAYOUTS; i++) {
		if (minor <= layouts[i].last)
			return &layouts[i];
	}
	return &layouts[LAYOUTS - 1];
}

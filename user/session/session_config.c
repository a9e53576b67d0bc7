// SPDX-License-Identifier: GPL-2.0
#include "session/session_config.h"

void session_config_init(struct session_config *config)
{
	*config = (struct session_config){
		.rate = STACKBEAT_RATE_DEFAULT,
		.cpus = "",
		.cpulist.all = true,
		.parts = STACKBEAT_PARTS_ALL,
		.max_depth = STACKBEAT_USER_FRAMES_DEFAULT,
		.ring_size = STACKBEAT_RING_SIZE_DEFAULT,
		.budget = STACKBEAT_BUDGET_DEFAULT,
		.stack_copy = STACK_COPY_DEFAULT,
	};
}

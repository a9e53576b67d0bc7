// SPDX-License-Identifier: GPL-2.0
#include "source/session_config.h"

/* A member can't have parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define SESSION_DEFAULT(attr, type, member, initial) .member = initial,

void session_config_init(struct session_config *config)
{
	/* clang-format off */
	*config = (struct session_config){
		.rate = STACKBEAT_RATE_DEFAULT,
		.cpus = "",
		.cpulist.all = true,
		.stack_copy = STACK_COPY_DEFAULT,
		SESSION_NUMBERS(SESSION_DEFAULT)
	};
	/* clang-format on */
}

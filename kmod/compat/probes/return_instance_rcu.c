// SPDX-License-Identifier: GPL-2.0
// struct return_instance is unlinked before it is freed, after a grace period (6.13).
#include <linux/uprobes.h>

struct rcu_head *sb_probe(struct return_instance *instance);

struct rcu_head *sb_probe(struct return_instance *instance)
{
	return &instance->rcu;
}

// SPDX-License-Identifier: GPL-2.0
// cgroup.ancestors[], instead of the ancestors' ids (6.1).
#include <linux/cgroup.h>

u64 sb_probe(struct cgroup *cgroup);

u64 sb_probe(struct cgroup *cgroup)
{
	return cgroup_id(cgroup->ancestors[0]);
}

// SPDX-License-Identifier: GPL-2.0
#include "serve/sum.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/param.h>

#include "pprof/profile.h"
#include "pprof/profile_select.h"
#include "store/merge.h"

int sum_init(struct sum *sum, const struct profile_selection *selection)
{
	*sum = (struct sum){
		.profile = profile_new(),
		.selection = selection,
		.start_ns = INT64_MAX,
	};
	return sum->profile ? 0 : -ENOMEM;
}

int sum_add(struct sum *sum, const struct profile *part)
{
	merge_copy_source(sum->profile, part);
	sum->lost += merge_lost(part);
	return profile_select(sum->profile, part, sum->selection);
}

void sum_add_time(struct sum *sum, int64_t start_ns, int64_t duration_ns)
{
	sum->start_ns = MIN(sum->start_ns, start_ns);
	sum->duration_ns += duration_ns;
}

int sum_finish(struct sum *sum)
{
	struct profile *profile = sum->profile;

	if (!profile->types.count)
		profile_set_recorded_types(profile);
	profile->time_ns = sum->start_ns == INT64_MAX ? 0 : sum->start_ns;
	profile->duration_ns = sum->duration_ns;
	profile_comment(profile, "lost: %" PRIu64, sum->lost);
	return profile->error;
}

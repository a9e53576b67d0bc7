// SPDX-License-Identifier: GPL-2.0
/*
 * Profiles of any origin: decoded, shown as table, tree and flame graph, compared with themselves,
 * and normalized.
 */
#include "fuzz.h"

#include "pprof/origin.h"
#include "pprof/pprof_reader.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "report/flamegraph.h"
#include "report/text_report.h"
#include "symbolize/normalize.h"

static void show(const struct profile *profile, const struct profile *base, FILE *out)
{
	const struct report_options report = {.group = "comm", .base = base};
	const struct flamegraph_options picture = {.title = "fuzz", .group = "comm", .base = base};
	struct error error;
	size_t frames;

	report_top(profile, &report, out, &error);
	report_tree(profile, &report, out, &error);
	flamegraph_write(profile, &picture, out, &frames, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile;
	struct error error;
	struct truncation_counts counts;
	size_t shown_size;
	char *shown = NULL;
	FILE *out;

	profile = pprof_decode(data, size, "fuzz", &error);
	if (!profile)
		return 0;
	out = open_memstream(&shown, &shown_size);
	if (!out)
		abort();
	show(profile, NULL, out);
	show(profile, profile, out);
	fclose(out);
	free(shown);
	for (size_t i = 1; i < profile->locations.count; i += 7)
		profile->locations.items[i].elided = true;
	if (origin_is_own(profile))
		normalize_profile(profile, size % 2, &counts);
	profile_free(profile);
	return 0;
}

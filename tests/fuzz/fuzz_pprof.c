// SPDX-License-Identifier: GPL-2.0
/* Profiles of any origin: decoded, shown as table, tree and flame graph, and normalized. */
#include "fuzz.h"

#include "pprof/pprof_reader.h"
#include "report/flamegraph.h"
#include "report/text_report.h"
#include "symbolize/normalize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct report_options report = {.group = "comm"};
	const struct flamegraph_options picture = {.title = "fuzz", .group = "comm"};
	struct pprof_profile *profile;
	struct error error;
	bool *hidden;
	size_t frames, shown_size;
	char *shown = NULL;
	FILE *out;

	profile = pprof_decode(data, size, "fuzz", &error);
	if (!profile)
		return 0;
	out = open_memstream(&shown, &shown_size);
	if (!out)
		abort();
	report_top(profile, &report, out, &error);
	report_tree(profile, &report, out, &error);
	flamegraph_write(profile, &picture, out, &frames, &error);
	fclose(out);
	free(shown);
	hidden = calloc(profile->message->n_location + 1, sizeof(*hidden));
	for (size_t i = 0; hidden && i < profile->message->n_location; i += 7)
		hidden[i] = true;
	if (hidden && normalize_is_own(profile))
		normalize_samples(profile, hidden);
	free(hidden);
	pprof_profile_free(profile);
	return 0;
}

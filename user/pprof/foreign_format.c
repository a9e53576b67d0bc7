// SPDX-License-Identifier: GPL-2.0
#include "pprof/foreign_format.h"

#include <stdint.h>
#include <string.h>

#define TO_PROTO "'go tool pprof -proto -output=NEW.pb.gz PROGRAM FILE' converts it"
#define FROM_PERF "'perf_to_profile -i FILE -o NEW.pb.gz' converts it"
#define NO_PICTURE "'stackbeat flamegraph' makes one of a profile, which it needs"

static const struct foreign_format {
	const char *head, *what, *remedy;
} formats[] = {
	{"heap profile:", "a heap profile of a legacy format", TO_PROTO},
	{"--- heap", "a heap profile of a legacy format", TO_PROTO},
	{"--- growth", "a heap growth profile of a legacy format", TO_PROTO},
	{"--- contention", "a contention profile of a legacy format", TO_PROTO},
	{"--- mutex", "a contention profile of a legacy format", TO_PROTO},
	{"--- thread", "a thread profile of a legacy format", TO_PROTO},
	{"--- Thread", "a thread profile of a legacy format", TO_PROTO},
	{"goroutine profile:", "a goroutine profile of a legacy format", TO_PROTO},
	{"threadcreate profile:", "a thread profile of a legacy format", TO_PROTO},
	{"goroutine ", "a list of goroutines", "get /debug/pprof/goroutine without ?debug="},
	{"PERFILE2", "a perf.data of perf", FROM_PERF},
	{"2ELIFREP", "a perf.data of perf", FROM_PERF},
	{"\x7f"
	 "ELF",
	 "an ELF file", "'stackbeat record -o NEW.pb.gz PROGRAM' records what it does"},
	{"<svg", "an SVG file", NO_PICTURE},
	{"<?xml", "an XML file, such as an SVG", NO_PICTURE},
	{"<!DOCTYPE svg", "an SVG file", NO_PICTURE},
};

/* The head of a CPU profile: 0, the number of words that follow, 0, the period, 0. */
static bool is_cpu_profile(const void *head, size_t size)
{
	uint64_t wide[3];
	uint32_t narrow[3];

	if (size < sizeof(wide))
		return false;
	memcpy(wide, head, sizeof(wide));
	memcpy(narrow, head, sizeof(narrow));
	return (!wide[0] && wide[1] == 3 && !wide[2]) ||
	       (!narrow[0] && narrow[1] == 3 && !narrow[2]);
}

bool foreign_format(const void *head, size_t size, const char **what, const char **remedy)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		const size_t length = strlen(formats[i].head);

		if (size < length || memcmp(head, formats[i].head, length) != 0)
			continue;
		*what = formats[i].what;
		*remedy = formats[i].remedy;
		return true;
	}
	*what = "a CPU profile of a legacy format";
	*remedy = TO_PROTO;
	return is_cpu_profile(head, size);
}

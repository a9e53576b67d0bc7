// SPDX-License-Identifier: GPL-2.0
/* Command lines: the input is a sequence of arguments. */
#include "fuzz.h"

#include "cli/record_options.h"
#include "cli/session_option.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "source/cpulist.h"

#define WORDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Parsing permutes argv: `words` keeps the pointers to free. */
	char *words[WORDS_MAX + 1] = {NULL}, *argv[WORDS_MAX + 1];
	static struct record_options options;
	static struct cpulist cpulist;
	struct session_option session;
	struct labels labels = {0};
	char id[CONTAINER_ID_SIZE];
	struct error error;
	int argc = 0, first;

	while (argc < WORDS_MAX && (words[argc] = fuzz_text(&data, &size)))
		argc++;
	if (argc == 0)
		return 0;
	memcpy(argv, words, sizeof(words));
	record_options_parse(argc, argv, &options, &error);
	memcpy(argv, words, sizeof(words));
	session_option_parse(argc, argv, &session, &first, &error);
	for (int i = 0; i < argc; i++) {
		cpulist_parse(words[i], &cpulist, &error);
		labels_choose(&labels, words[i], &error);
		labels_add(&labels, words[i], &error);
		container_id(words[i], id);
	}
	while (argc)
		free(words[--argc]);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/offline_source.h"

#include <string.h>

#include "symbolize/find_binary.h"

static enum symbol_kind offline_mapping_kind(void *arg, const struct symbol_mapping *mapping)
{
	(void)arg;
	if (!strcmp(mapping->path, "[vdso]"))
		return SYMBOLS_FILE;
	/* Its path is unknown. */
	if (!strcmp(mapping->path, UNKNOWN_FILE))
		return *mapping->build_id ? SYMBOLS_FILE : SYMBOLS_NONE;
	return *mapping->path && *mapping->path != '[' ? SYMBOLS_FILE : SYMBOLS_NONE;
}

static int offline_open_file(void *arg, const struct symbol_mapping *mapping,
			     unsigned int candidate, struct error *error)
{
	bool is_trusted;

	return binary_finder_open(arg, mapping->path, mapping->build_id, candidate, &is_trusted,
				  error);
}

void offline_source_init(struct symbol_source *source, const struct profile *profile,
			 const struct binary_finder *search, const struct kallsyms *kallsyms,
			 struct kernel *kernel)
{
	*source = (struct symbol_source){
		.kallsyms = kallsyms,
		.kernel = kernel,
		.root = "",
		.by_path = true,
		.kind = offline_mapping_kind,
		.open = offline_open_file,
		.arg = (void *)search,
	};
	origin_release(profile, source->release);
}

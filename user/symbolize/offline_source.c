// SPDX-License-Identifier: GPL-2.0
#include "symbolize/offline_source.h"

#include <errno.h>
#include <string.h>

#include "lib/error.h"
#include "symbolize/find_binary.h"

static enum symbol_kind find_kind(void *arg, const struct symbol_mapping *mapping)
{
	(void)arg;
	if (!strcmp(mapping->path, "[vdso]"))
		return SYMBOLS_FILE;
	return *mapping->path && *mapping->path != '[' ? SYMBOLS_FILE : SYMBOLS_NONE;
}

static int open_file(void *arg, const struct symbol_mapping *mapping, unsigned int candidate,
		     struct error *error)
{
	struct error why;
	bool is_trusted;
	int fd;

	if (candidate)
		return -ENOENT;
	fd = binary_finder_open(arg, mapping->path, mapping->build_id, &is_trusted, &why);
	/* The debug file may exist without the binary. */
	if (fd < 0)
		error_set(error, ENOENT, "%s", why.text);
	return fd;
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
		.kind = find_kind,
		.open = open_file,
		.arg = (void *)search,
	};
	origin_release(profile, source->release);
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/libarchive.h"

#include <errno.h>

#include "lib/optional_library.h"

#define LIBRARY "libarchive.so.13"
#define LIBARCHIVE_NAME(name) "archive_" #name,

struct libarchive libarchive;

int libarchive_load(struct error *error)
{
	static const char *const names[] = {LIBARCHIVE_FUNCTIONS(LIBARCHIVE_NAME)};
	static const struct optional_library library = {
		.files = {LIBRARY},
		.names = names,
		.count = sizeof(names) / sizeof(names[0]),
		.missing = "there is no " LIBRARY
			   ", which reads and writes archives: install it (in Debian: "
			   "package libarchive13)",
		.too_old = LIBRARY " is too old for stackbeat",
	};

	return optional_library_load(&library, &libarchive, error) ? 0 : -EOPNOTSUPP;
}

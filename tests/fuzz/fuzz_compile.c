// SPDX-License-Identifier: GPL-2.0
/*
 * Unwind tables of ELF files, also by the bytes of code without call frame information: a table is
 * valid, and the same each time.
 */
#include "file.h"

#include "unwind/compile.h"

/* Bytes of tables that are made twice: code with large gaps has millions of blocks. */
#define REPEATED_MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int fd = fuzz_file(data, size);
	struct stackbeat_unwind_table *table, *again;
	struct unwind_summary summary = unwind_compile(fd, &table);
	struct stackbeat_unwind_view view;

	if (!unwind_summary_is_valid(&summary) || !table != (summary.result != UNWIND_COMPILED))
		abort();
	if (!table)
		return 0;
	if (!stackbeat_unwind_check(table, summary.size))
		abort();
	stackbeat_unwind_open(table, &view);
	for (uint64_t i = 0; i < view.size; i += view.size / 64 + 1)
		stackbeat_unwind_find(&view, view.start + i);
	if (summary.size <= REPEATED_MAX) {
		if (unwind_compile(fd, &again).size != summary.size ||
		    memcmp(table, again, summary.size))
			abort();
		free(again);
	}
	free(table);
	return 0;
}

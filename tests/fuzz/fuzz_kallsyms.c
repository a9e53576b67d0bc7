// SPDX-License-Identifier: GPL-2.0
/* Kernel symbols, perhaps of another machine. The first 8 bytes are an address to look up. */
#include "fuzz.h"

#include "debuginfo/kallsyms.h"
#include "lib/error.h"

static void look_up(const struct kallsyms *kallsyms, uint64_t address)
{
	const char *name, *module;
	uint64_t start;

	if (kallsyms_lookup(kallsyms, address, &name, &start, &module) &&
	    (start > address || strlen(name) == 0 || (module && strlen(module) > SIZE_MAX / 2)))
		abort();
}

/* Modules are in the order of their pages, each with a function that is there or behind. */
static int take_module(void *arg, const char *module, uint64_t start)
{
	uint64_t *last = arg;

	if (!*module || start % 4096 || start < *last)
		abort();
	*last = start;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kallsyms *kallsyms;
	uint64_t address, last_module = 0;
	struct error error;
	FILE *stream;

	if (size <= sizeof(address))
		return 0;
	memcpy(&address, data, sizeof(address));
	stream = fmemopen((void *)(data + sizeof(address)), size - sizeof(address), "r");
	if (!stream)
		abort();
	if (kallsyms_parse(stream, "fuzz", &kallsyms, &error) == 0) {
		for (unsigned int bit = 0; bit < 64; bit++)
			look_up(kallsyms, address ^ (UINT64_C(1) << bit));
		look_up(kallsyms, address);
		kallsyms_each_module(kallsyms, take_module, &last_module);
		kallsyms_free(kallsyms);
	}
	fclose(stream);
	return 0;
}

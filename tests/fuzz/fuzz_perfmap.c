// SPDX-License-Identifier: GPL-2.0
/* Perf maps. The last 8 bytes of the input are an address to look up, with its shifts. */
#include "file.h"

#include "runtime/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t address = fuzz_last_number(data, size);
	int fd = fuzz_file(data, size);
	uint64_t addresses[16];
	struct perf_map *map;
	size_t sum = 0;

	for (unsigned int i = 0; i < 16; i++)
		addresses[i] = address >> 4 * i;
	if (perf_map_read(fd, addresses, 16, &(struct perf_map_quota){.bytes = size}, &map) != 0)
		abort();
	for (unsigned int i = 0; i < 16; i++) {
		const char *name = perf_map_lookup(map, addresses[i]);

		if (name && !*name)
			abort();
		sum += name ? strlen(name) : 0;
	}
	perf_map_free(map);
	return sum > (size_t)PERF_MAP_LINE_MAX * 16;
}

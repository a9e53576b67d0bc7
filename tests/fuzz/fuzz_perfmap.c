// SPDX-License-Identifier: GPL-2.0
/* Perf maps. The last 8 bytes of the input are an address to look up. */
#include "file.h"

#include "runtime/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t address = fuzz_last_number(data, size);
	int fd = fuzz_file(data, size);
	struct perf_map *map;
	size_t sum = 0;

	if (perf_map_read(fd, &map) != 0)
		abort();
	for (unsigned int shift = 0; shift < 64; shift += 4) {
		const char *name = perf_map_lookup(map, address >> shift);

		if (name && !*name)
			abort();
		sum += name ? strlen(name) : 0;
	}
	perf_map_free(map);
	return sum > PERF_MAP_BYTES_MAX * 16;
}

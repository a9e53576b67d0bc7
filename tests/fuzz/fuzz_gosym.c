// SPDX-License-Identifier: GPL-2.0
/*
 * Go's pclntab: the input is a Go program. Its last 8 bytes are an address to look up, in addition
 * to the addresses of tests/unit/go_image.h.
 */
#include "fuzz.h"

#include "../unit/go_image.h"
#include "runtime/go_pclntab.h"

static int touch_frame(const struct go_frame *frame, void *arg)
{
	size_t *sum = arg;

	*sum += strlen(frame->name) + strlen(frame->system_name);
	if (frame->file)
		*sum += strlen(frame->file);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t address = 0;
	struct go_pclntab *pclntab;
	size_t sum = 0;

	if (size >= sizeof(address))
		memcpy(&address, data + size - sizeof(address), sizeof(address));
	if (go_pclntab_open(data, size, &pclntab, NULL) != 0)
		return 0;
	go_pclntab_lookup(pclntab, address, touch_frame, &sum);
	for (unsigned int at = 0; at < GO_TEXT_SIZE; at += 8)
		go_pclntab_lookup(pclntab, GO_TEXT + at, touch_frame, &sum);
	go_pclntab_close(pclntab);
	return 0;
}

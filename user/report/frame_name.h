/* SPDX-License-Identifier: GPL-2.0 */
/* The names of frames in reports. */
#ifndef STACKBEAT_REPORT_FRAME_NAME_H
#define STACKBEAT_REPORT_FRAME_NAME_H

#include <stdbool.h>
#include <stdint.h>

struct profile;
struct profile_location;

/* Returns the name of a function: the demangled one, or else the linker's; "": it has none.
 */
const char *function_name(const struct profile *profile, uint32_t function);

/* Returns the path of the file of a location, or "". */
const char *location_file(const struct profile *profile, const struct profile_location *location);

/* Whether a file, by its path in a mapping, is the kernel or one of its modules. */
bool is_kernel_file(const char *path);

/*
 * Returns the name of a location without a function, "FILE+0xADDRESS" or "0xADDRESS", which the
 * caller frees, or NULL without memory.
 */
char *address_name(const struct profile *profile, const struct profile_location *location);

#endif

// SPDX-License-Identifier: GPL-2.0
#include "lib/optional_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lib/error.h"

void *optional_library_load(const struct optional_library *library, void *functions,
			    struct error *error)
{
	void **pointers = functions, *handle = NULL;
	bool found = true;

	for (size_t i = 0; library->files[i] && !handle; i++)
		handle = dlopen(library->files[i], RTLD_NOW | RTLD_LOCAL | library->flags);
	for (size_t i = 0; i < library->count && handle; i++) {
		pointers[i] = dlsym(handle, library->names[i]);
		found = found && pointers[i];
	}
	if (handle && found)
		return handle;
	memset(functions, 0, library->count * sizeof(*pointers));
	error_set(error, EOPNOTSUPP, "%s", handle ? library->too_old : library->missing);
	if (handle)
		dlclose(handle);
	return NULL;
}

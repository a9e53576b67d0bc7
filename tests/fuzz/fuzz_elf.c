// SPDX-License-Identifier: GPL-2.0
/* A mapped file, of any content. Its last 8 bytes are an address to look up. */
#include "fuzz.h"

#include "elf.h"
#include "error.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[PATH_MAX];
static int fd = -1;

static void remove_file(void)
{
	unlink(path);
}

static void make_file(void)
{
	const char *directory = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/stackbeat-fuzz-XXXXXX", directory ? directory : "/tmp");
	fd = mkstemp(path);
	if (fd < 0)
		abort();
	atexit(remove_file);
}

static void look_up(struct object *object, uint64_t address)
{
	struct symbol symbol;
	uint64_t vaddr;

	if (!object_vaddr(object, address, &vaddr))
		vaddr = address;
	if (object_lookup(object, vaddr, &symbol) &&
	    (symbol.start > vaddr || strlen(symbol.name) == 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mapped_file file = {.path = path};
	uint64_t address = 0;
	struct objects *objects;
	struct object *object;
	struct stat st;

	if (fd < 0)
		make_file();
	if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size ||
	    fstat(fd, &st) != 0)
		abort();
	if (size >= sizeof(address))
		memcpy(&address, data + size - sizeof(address), sizeof(address));
	file.device = st.st_dev;
	file.inode = st.st_ino;
	objects = objects_new("", NULL);
	object = objects ? objects_get(objects, &file) : NULL;
	if (!object)
		abort();
	look_up(object, address);
	look_up(object, 0x401000);
	look_up(object, 0x1000);
	objects_free(objects);
	return 0;
}

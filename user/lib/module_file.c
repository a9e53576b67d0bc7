// SPDX-License-Identifier: GPL-2.0
#include "lib/module_file.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/small_file.h"

/* As the linker writes it, and DKMS and 'make install' compress it; kmod knows these, too. */
#define XZ_MAGIC                                                                                   \
	"\xfd"                                                                                     \
	"7zXZ"
#define ZSTD_MAGIC "\x28\xb5\x2f\xfd"
#define GZIP_MAGIC "\x1f\x8b"

static bool module_file_exists(const char *root, const char *path)
{
	char whole[PATH_MAX];

	return snprintf(whole, sizeof(whole), "%s%s", root, path) < (int)sizeof(whole) &&
	       !access(whole, F_OK);
}

bool module_file_find(const char *root, const char *release, char path[PATH_MAX])
{
	static const char *const directories[] = {"updates/dkms", "extra"};
	/* As the kernel and kmod name compressed modules. */
	static const char *const suffixes[] = {"", ".xz", ".zst", ".gz"};

	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
		for (size_t k = 0; k < sizeof(suffixes) / sizeof(*suffixes); k++)
			if (snprintf(path, PATH_MAX, "/lib/modules/%s/%s/stackbeat.ko%s", release,
				     directories[i], suffixes[k]) < PATH_MAX &&
			    module_file_exists(root, path))
				return true;
	*path = '\0';
	return false;
}

bool module_file_is_damaged(const char *root, const char *path)
{
	static const char *const compressed[] = {XZ_MAGIC, ZSTD_MAGIC, GZIP_MAGIC};
	/* And a null byte. */
	char text[sizeof(Elf64_Ehdr) + 1];
	const ssize_t length = small_file_read(root, path, text, sizeof(text));
	Elf64_Ehdr header;

	if (length == -EACCES || length == -EPERM)
		return false;
	for (size_t i = 0; i < sizeof(compressed) / sizeof(*compressed); i++)
		if (!strncmp(text, compressed[i], strlen(compressed[i])))
			return false;
	if (length < (ssize_t)sizeof(header))
		return true;
	memcpy(&header, text, sizeof(header));
	return memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_REL;
}

const char *module_file_remedy(const char *path)
{
	if (strstr(path, "/updates/dkms/"))
		return "apt install --reinstall stackbeat-dkms";
	return strncmp(path, "/lib/modules/", strlen("/lib/modules/")) ? "make module"
								       : "make module install";
}

// SPDX-License-Identifier: GPL-2.0
/* Kept symbols of the kernel, by copies of the files in /proc and /sys. */
#include "unit.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debuginfo/file_cache.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_symbols.h"
#include "lib/error.h"

#define TEXT UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0000000)
#define MODULES                                                                                    \
	"one 4096 1 two, Live 0xffffffffc0000000 (OE)\n"                                           \
	"two 8192 0 - Live 0xffffffffc0010000\n"

static char root[64];

static void write_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void make_directory(const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static void rename_directory(const char *name, const char *new_name)
{
	char path[PATH_MAX], new_path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	snprintf(new_path, sizeof(new_path), "%s/%s", root, new_name);
	assert_int_equal(rename(path, new_path), 0);
}

/* The symbols that are read next have a function of this name. */
static void write_symbols(const char *name)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "ffffffff81000000 T %s\nffffffff81000100 t second\nffffffff81000200 D _etext\n"
		 "ffffffffc0000000 t of_module\t[one]\nffffffffc0000100 t _\t[one]\n"
		 "ffffffffc0004f00 t long\t[two]\nffffffffc0005200 t next\t[two]\n"
		 "ffffffffc0020000 t bpf_prog_1\t[bpf]\nffffffffc0020040 t bpf_prog_2\t[bpf]\n"
		 "ffffffffc0030000 t tramp\t[__builtin__ftrace]\n",
		 name);
	write_file("proc/kallsyms", text);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/stackbeat-test.XXXXXX");
	assert_non_null(mkdtemp(root));
	make_directory("proc");
	make_directory("sys");
	make_directory("sys/module");
	make_directory("sys/module/one");
	make_directory("sys/module/two");
	write_file("proc/modules", MODULES);
	write_symbols("first");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void expect_first(const struct kernel_symbols *symbols, const char *wanted)
{
	const char *name, *module;
	uint64_t start;

	assert_non_null(symbols->table);
	assert_true(kallsyms_lookup(symbols->table, TEXT + 1, &name, &start, &module));
	assert_string_equal(name, wanted);
}

static void are_read_once(void **state)
{
	struct kernel_symbols symbols = {0};
	struct kallsyms *table;

	(void)state;
	kernel_symbols_refresh(&symbols, root);
	expect_first(&symbols, "first");
	table = symbols.table;
	write_symbols("later");
	kernel_symbols_refresh(&symbols, root);
	assert_ptr_equal(symbols.table, table);
	expect_first(&symbols, "first");
	/* The number of users and the state of a module change often. */
	write_file("proc/modules", "one 4096 12 two,three, Live 0xffffffffc0000000 (OE)\n"
				   "two 8192 3 one, Unloading 0xffffffffc0010000\n");
	kernel_symbols_refresh(&symbols, root);
	expect_first(&symbols, "first");
	kernel_symbols_clear(&symbols);
	assert_null(symbols.table);
	kernel_symbols_refresh(&symbols, root);
	expect_first(&symbols, "later");
	assert_int_equal(symbols.text, 0);
	kernel_symbols_clear(&symbols);
	write_symbols("_text");
	kernel_symbols_refresh(&symbols, root);
	assert_true(symbols.text == TEXT);
	write_symbols("later");
	kernel_symbols_refresh(&symbols, root);
	assert_true(symbols.text == TEXT);
	kernel_symbols_clear(&symbols);
	assert_int_equal(symbols.text, 0);
}

static void expect_read_again(struct kernel_symbols *symbols, const char *modules)
{
	static unsigned int count;
	char name[32];

	snprintf(name, sizeof(name), "again_%u", count++);
	write_symbols(name);
	write_file("proc/modules", modules);
	kernel_symbols_refresh(symbols, root);
	expect_first(symbols, name);
	write_symbols("not_read");
	kernel_symbols_refresh(symbols, root);
	expect_first(symbols, name);
}

static void are_read_again_with_other_modules(void **state)
{
	struct kernel_symbols symbols = {0};

	(void)state;
	kernel_symbols_refresh(&symbols, root);
	/* One more, one less, none, another name, another size, another address. */
	expect_read_again(&symbols, MODULES "three 4096 0 - Live 0xffffffffc0020000\n");
	expect_read_again(&symbols, "two 8192 0 - Live 0xffffffffc0010000\n");
	expect_read_again(&symbols, "");
	expect_read_again(&symbols, "one 8192 0 - Live 0xffffffffc0010000\n");
	expect_read_again(&symbols, "one 8193 0 - Live 0xffffffffc0010000\n");
	expect_read_again(&symbols, "one 8193 0 - Live 0xffffffffc0011000\n");
	/* The same one, loaded again: its directory is another one. */
	make_directory("sys/module/new");
	rename_directory("sys/module/one", "sys/module/old");
	rename_directory("sys/module/new", "sys/module/one");
	expect_read_again(&symbols, "one 8193 0 - Live 0xffffffffc0011000\n");
	kernel_symbols_clear(&symbols);
}

static void are_missing_without_their_files(void **state)
{
	struct kernel_symbols symbols = {0};
	char path[PATH_MAX];

	(void)state;
	/* Hidden addresses. */
	write_file("proc/kallsyms", "0000000000000000 T first\n");
	kernel_symbols_refresh(&symbols, root);
	assert_null(symbols.table);
	/* They are tried again later. */
	write_symbols("first");
	for (unsigned int i = 0; i < 59; i++) {
		kernel_symbols_refresh(&symbols, root);
		assert_null(symbols.table);
	}
	kernel_symbols_refresh(&symbols, root);
	expect_first(&symbols, "first");
	/* And with other modules. */
	kernel_symbols_clear(&symbols);
	write_file("proc/kallsyms", "0000000000000000 T first\n");
	kernel_symbols_refresh(&symbols, root);
	assert_null(symbols.table);
	write_symbols("first");
	write_file("proc/modules", "");
	kernel_symbols_refresh(&symbols, root);
	expect_first(&symbols, "first");
	/* Modules that are unknown may have changed. */
	snprintf(path, sizeof(path), "%s/proc/modules", root);
	assert_int_equal(remove(path), 0);
	kernel_symbols_refresh(&symbols, root);
	assert_null(symbols.table);
	/* A kernel without modules has none of their files. */
	make_directory("proc/sys");
	make_directory("proc/sys/kernel");
	write_file("proc/sys/kernel/ostype", "Linux\n");
	kernel_symbols_refresh(&symbols, root);
	expect_first(&symbols, "first");
	write_file("proc/sys/kernel/modules_disabled", "1\n");
	kernel_symbols_refresh(&symbols, root);
	assert_null(symbols.table);
	snprintf(path, sizeof(path), "%s/proc/sys/kernel/ostype", root);
	assert_int_equal(remove(path), 0);
	kernel_symbols_clear(&symbols);
}

static void generated_code_is_not_kept(void **state)
{
	struct kernel_symbols symbols = {0};

	(void)state;
	kernel_symbols_refresh(&symbols, root);
	assert_true(kernel_symbols_have(symbols.table, TEXT));
	assert_true(kernel_symbols_have(symbols.table, TEXT + 0x1ff));
	assert_true(kernel_symbols_have(symbols.table, MODULE + 0xff));
	/* The last function of a module: nothing shows its end, but its last page. */
	assert_true(kernel_symbols_have(symbols.table, MODULE + 0xfff));
	assert_false(kernel_symbols_have(symbols.table, MODULE + 0x1000));
	/* Another one, which ends at the next. */
	assert_true(kernel_symbols_have(symbols.table, MODULE + 0x51ff));
	assert_false(kernel_symbols_have(symbols.table, MODULE + 0x6000));
	assert_false(kernel_symbols_have(symbols.table, TEXT - 1));
	assert_false(kernel_symbols_have(symbols.table, TEXT + 0x200));
	assert_false(kernel_symbols_have(symbols.table, MODULE + 0x20000));
	assert_false(kernel_symbols_have(symbols.table, MODULE + 0x20040));
	assert_false(kernel_symbols_have(symbols.table, MODULE + 0x30000));
	kernel_symbols_clear(&symbols);
}

static struct file_cache *open_cache(void)
{
	char path[PATH_MAX];
	const struct file_cache_config config = {
		.directory = path,
		.bytes_max = 1 << 20,
		.maker = "0123456789abcdef",
	};
	struct error error = {""};
	struct file_cache *cache;

	snprintf(path, sizeof(path), "%s/cache", root);
	cache = file_cache_open(&config, &error);
	assert_non_null(cache);
	return cache;
}

static void write_boot(const char *id)
{
	make_directory("proc/sys");
	make_directory("proc/sys/kernel");
	make_directory("proc/sys/kernel/random");
	write_file("proc/sys/kernel/random/boot_id", id);
}

static void read_into(struct file_cache *cache, const char *name)
{
	struct kernel_symbols read = {0};
	struct error error;

	write_symbols(name);
	assert_int_equal(kernel_symbols_read(cache, root, &read.table, &error), 0);
	expect_first(&read, name);
	kernel_symbols_clear(&read);
}

/* Whether the cache has the symbols that were read last, whatever the kernel has now. */
static bool has(struct file_cache *cache, const char *name)
{
	struct kernel_symbols found = {0};

	write_symbols("not_read");
	found.table = kernel_symbols_find(cache, root);
	if (!found.table)
		return false;
	expect_first(&found, name);
	assert_true(kernel_symbols_have(found.table, MODULE + 0x51ff));
	assert_false(kernel_symbols_have(found.table, MODULE + 0x20000));
	kernel_symbols_clear(&found);
	return true;
}

static void are_kept_on_disk(void **state)
{
	struct file_cache *cache = open_cache();

	(void)state;
	write_boot("2f9b7cf8-0000-4000-8000-000000000000\n");
	assert_false(has(cache, "first"));
	assert_false(has(NULL, "first"));
	read_into(cache, "first");
	assert_true(has(cache, "first"));
	file_cache_close(cache);
	/* Also with other users of a module. */
	write_file("proc/modules", "one 4096 12 two,three, Live 0xffffffffc0000000 (OE)\n"
				   "two 8192 3 one, Unloading 0xffffffffc0010000\n");
	cache = open_cache();
	assert_true(has(cache, "first"));
	read_into(cache, "second");
	assert_true(has(cache, "second"));
	/* Without a cache, nothing is kept. */
	read_into(NULL, "third");
	assert_true(has(cache, "second"));
	file_cache_close(cache);
}

/* Whether their addresses are hidden shows in the symbols themselves. */
static void are_kept_without_modules(void **state)
{
	struct file_cache *cache = open_cache();
	struct kernel_symbols hidden = {0};
	char path[PATH_MAX];
	struct error error;

	(void)state;
	write_boot("2f9b7cf8-0000-4000-8000-000000000000\n");
	write_file("proc/sys/kernel/ostype", "Linux\n");
	snprintf(path, sizeof(path), "%s/proc/modules", root);
	assert_int_equal(remove(path), 0);
	read_into(cache, "first");
	assert_true(has(cache, "first"));
	write_file("proc/kallsyms", "0000000000001000 A per_cpu\n0000000000000000 T first\n");
	hidden.table = kernel_symbols_find(cache, root);
	assert_null(hidden.table);
	kernel_symbols_read(cache, root, &hidden.table, &error);
	kernel_symbols_clear(&hidden);
	assert_true(has(cache, "first"));
	file_cache_close(cache);
}

static void are_not_found_in_another_kernel(void **state)
{
	static const char *const others[] = {
		MODULES "three 4096 0 - Live 0xffffffffc0020000\n",
		"two 8192 0 - Live 0xffffffffc0010000\n",
		"one 4096 1 two, Live 0xffffffffc0001000 (OE)\n"
		"two 8192 0 - Live 0xffffffffc0010000\n",
		"",
		/* Hidden addresses. */
		"one 4096 1 two, Live 0x0000000000000000 (OE)\n"
		"two 8192 0 - Live 0x0000000000000000\n",
	};
	struct file_cache *cache = open_cache();

	(void)state;
	/* Without the ID of the boot, nothing is known. */
	read_into(cache, "first");
	assert_false(has(cache, "first"));
	write_boot("2f9b7cf8-0000-4000-8000-000000000000\n");
	read_into(cache, "first");
	assert_true(has(cache, "first"));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		write_file("proc/modules", others[i]);
		assert_false(has(cache, "first"));
	}
	/* What has hidden addresses is not kept. */
	read_into(cache, "hidden");
	assert_false(has(cache, "hidden"));
	write_file("proc/modules", MODULES);
	assert_true(has(cache, "first"));
	write_file("proc/sys/kernel/random/boot_id", "2f9b7cf8-0000-4000-8000-000000000001\n");
	assert_false(has(cache, "first"));
	write_file("proc/sys/kernel/random/boot_id", "2f9b7cf8-0000-4000-8000-000000000000\n");
	/* A module that was loaded again, at the same address. */
	make_directory("sys/module/new");
	rename_directory("sys/module/one", "sys/module/old");
	rename_directory("sys/module/new", "sys/module/one");
	assert_false(has(cache, "first"));
	file_cache_close(cache);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(are_read_once),
		TEST(are_read_again_with_other_modules),
		TEST(are_missing_without_their_files),
		TEST(generated_code_is_not_kept),
		TEST(are_kept_on_disk),
		TEST(are_kept_without_modules),
		TEST(are_not_found_in_another_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

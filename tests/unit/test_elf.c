// SPDX-License-Identifier: GPL-2.0
#include "elf.h"

#include "sandbox.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

/* What nm says of one symbol. */
struct known {
	uint64_t start, size;
	char type;
	char name[256];
};

struct known_list {
	struct known *list;
	size_t count;
};

static const char *const assembly =
	".text\n"
	".globl sized\n .type sized, @function\n"
	"sized: .skip 4, 0x90\nlabel_inside: .skip 4, 0x90\n .size sized, 8\n"
	".skip 8, 0x90\n"
	".globl unsized\n .type unsized, @function\nunsized: .skip 8, 0x90\n"
	".globl untyped\nuntyped: .skip 8, 0x90\n"
	".type outer, @function\n outer: .skip 8, 0x90\n"
	".type inner, @function\n inner: .skip 8, 0x90\n .size inner, 8\n"
	".skip 8, 0x90\n .size outer, 24\n"
	".globl alias_global\n .weak alias_weak\n .globl alias_untyped\n .globl _alias\n"
	".type alias_global, @function\n .type alias_weak, @function\n"
	".type a_local, @function\n .type _alias, @function\n"
	"a_local: alias_weak: alias_untyped: _alias: alias_global: .skip 4, 0x90\n"
	".size alias_global, 4\n .size alias_weak, 4\n .size a_local, 4\n .size _alias, 4\n"
	".globl last\n .type last, @function\n last: .skip 16, 0x90\n"
	".globl the_end\nthe_end:\n"
	".data\n .globl data\n .type data, @function\n data: .skip 16\n .size data, 16\n";

static struct objects *table;

static int make_table(void **state)
{
	table = objects_new("", NULL);
	return table ? make_sandbox(state) : -1;
}

static int free_table(void **state)
{
	objects_free(table);
	return remove_sandbox(state);
}

static struct mapped_file mapped(const char *path)
{
	struct mapped_file file = {.path = path};
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	file.device = st.st_dev;
	file.inode = st.st_ino;
	return file;
}

static struct object *get_object(const char *path)
{
	const struct mapped_file file = mapped(path);
	struct object *object = objects_get(table, &file);

	assert_non_null(object);
	return object;
}

static const char *compile(const char *name, const char *source, const char *options)
{
	bool is_assembly = strncmp(source, ".text", 5) == 0;

	write_text(in_sandbox("source.%s", is_assembly ? "s" : "c"), source);
	run("cc %s -o %s %s", options, in_sandbox("%s", name),
	    in_sandbox("source.%s", is_assembly ? "s" : "c"));
	return in_sandbox("%s", name);
}

static bool parse_nm(const char *line, struct known *known)
{
	char *version;

	known->size = 0;
	if (sscanf(line, "%lx %lx %c %255s", &known->start, &known->size, &known->type,
		   known->name) != 4) {
		known->size = 0;
		if (sscanf(line, "%lx %c %255s", &known->start, &known->type, known->name) != 3)
			return false;
	}
	version = strchr(known->name, '@');
	if (version)
		*version = '\0';
	return strchr("tTwWi", known->type) != NULL;
}

static struct known_list read_nm(const char *path, const char *options)
{
	struct known_list known = {0};
	char line[1024];
	FILE *nm;

	snprintf(line, sizeof(line), "nm -S --defined-only %s %s", options, path);
	nm = popen(line, "r");
	assert_non_null(nm);
	while (fgets(line, sizeof(line), nm)) {
		known.list = realloc(known.list, (known.count + 1) * sizeof(*known.list));
		assert_non_null(known.list);
		known.count += parse_nm(line, &known.list[known.count]);
	}
	assert_int_equal(pclose(nm), 0);
	return known;
}

static uint64_t address_of(const char *path, const char *name)
{
	struct known_list known = read_nm(path, "");
	uint64_t address = 0;

	for (size_t i = 0; i < known.count; i++) {
		if (strcmp(known.list[i].name, name) == 0)
			address = known.list[i].start;
	}
	free(known.list);
	assert_int_not_equal(address, 0);
	return address;
}

static bool is_known(const struct known_list *known, const struct symbol *symbol)
{
	for (size_t i = 0; i < known->count; i++) {
		if (known->list[i].start == symbol->start &&
		    strcmp(known->list[i].name, symbol->name) == 0)
			return true;
	}
	return false;
}

static bool is_covered(const struct known_list *known, uint64_t address)
{
	for (size_t i = 0; i < known->count; i++) {
		if (address - known->list[i].start < known->list[i].size)
			return true;
	}
	return false;
}

/* Each function that nm lists is found by its first and last byte, and not behind. */
static void check_against_nm(struct object *object, const char *path, const char *options)
{
	struct known_list known = read_nm(path, options);
	struct symbol symbol;
	size_t sized = 0;

	for (size_t i = 0; i < known.count; i++) {
		const struct known *want = &known.list[i];

		if (want->size == 0)
			continue;
		sized++;
		if (!object_lookup(object, want->start, &symbol) || symbol.start != want->start ||
		    !is_known(&known, &symbol))
			fail_msg("%s: %s is not found", path, want->name);
		assert_true(object_lookup(object, want->start + want->size - 1, &symbol));
		assert_true(is_known(&known, &symbol));
		if (!is_covered(&known, want->start + want->size) &&
		    object_lookup(object, want->start + want->size, &symbol))
			assert_int_not_equal(symbol.start, want->start);
	}
	assert_true(sized > 0);
	free(known.list);
}

static void assert_name(struct object *object, uint64_t vaddr, const char *name)
{
	struct symbol symbol = {.name = ""};

	assert_true(object_lookup(object, vaddr, &symbol));
	assert_string_equal(symbol.name, name);
}

static void assert_no_name(struct object *object, uint64_t vaddr)
{
	struct symbol symbol;

	assert_false(object_lookup(object, vaddr, &symbol));
}

static const char *libc_path(void)
{
	static char path[PATH_MAX];
	Dl_info info;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
	assert_non_null(realpath(info.dli_fname, path));
	return path;
}

static void test_libc_as_nm_says(void **state)
{
	(void)state;
	struct object *object = get_object(libc_path());

	check_against_nm(object, libc_path(), "-D");
	assert_string_equal(object->problem, "");
}

static void test_program_as_nm_says(void **state)
{
	const char *path = compile("program",
				   "static int twice(int x) { return 2 * x; }\n"
				   "int main(int count, char **v) { return twice(count) + !v; }\n",
				   "-g -O0");

	(void)state;
	struct object *object = get_object(path);

	check_against_nm(object, path, "");
	assert_name(object, address_of(path, "twice"), "twice");
}

static void test_32_bit(void **state)
{
	const char *path = compile("small.so", "int small(void) { return 1; }\n",
				   "-m32 -nostdlib -shared -fPIC -Wl,--build-id");
	struct object *object = get_object(path);

	(void)state;
	check_against_nm(object, path, "");
	assert_int_equal(strlen(object->build_id), 40);
}

static void test_which_symbol(void **state)
{
	const char *path = compile("names.so", assembly, "-nostdlib -shared");
	struct object *object = get_object(path);
	uint64_t sized = address_of(path, "sized"), outer = address_of(path, "outer");
	uint64_t unsized = address_of(path, "unsized"), last = address_of(path, "last");
	struct symbol symbol;

	(void)state;
	assert_name(object, sized, "sized");
	assert_name(object, sized + 4, "sized"); /* label_inside is no function */
	assert_no_name(object, sized + 8);
	assert_name(object, unsized + 7, "unsized");
	assert_name(object, unsized + 8, "untyped");
	assert_name(object, unsized + 15, "untyped");
	assert_name(object, outer, "outer");
	assert_name(object, outer + 8, "inner");
	assert_name(object, outer + 16, "outer");
	assert_name(object, outer + 23, "outer");
	assert_name(object, outer + 24, "alias_global");
	assert_true(object_lookup(object, last + 15, &symbol));
	assert_string_equal(symbol.name, "last");
	assert_int_equal(symbol.start, last);
	assert_int_equal(symbol.size, 16);
	assert_no_name(object, last + 16);
	assert_no_name(object, 0);
	assert_no_name(object, UINT64_MAX);
}

static void test_data_is_no_function(void **state)
{
	const char *path = compile("data.so", assembly, "-nostdlib -shared");
	Dl_info info;
	void *library, *data;

	(void)state;
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	data = dlsym(library, "data");
	assert_true(dladdr(data, &info));
	assert_no_name(get_object(path), (uint64_t)((char *)data - (char *)info.dli_fbase));
	dlclose(library);
}

static void test_versions_are_cut(void **state)
{
	const char *path;

	(void)state;
	write_text(in_sandbox("map"), "ONE { global: versioned; local: *; };\n");
	path = compile("versioned.so", "int versioned(void) { return 1; }\n",
		       "-nostdlib -shared -fPIC");
	run("cc -nostdlib -shared -fPIC -Wl,--version-script=%s -o %s %s", in_sandbox("map"), path,
	    in_sandbox("source.c"));
	assert_name(get_object(path), address_of(path, "versioned"), "versioned");
}

static void test_stripped(void **state)
{
	const char *source = "static int hidden(int x) { return 3 * x; }\n"
			     "int shown(int x) { return hidden(x) + 1; }\n";
	const char *path = compile("stripped.so", source, "-O0 -shared -fPIC");
	uint64_t shown = address_of(path, "shown"), hidden = address_of(path, "hidden");
	struct object *object;

	(void)state;
	run("strip %s", path);
	object = get_object(path);
	assert_name(object, shown, "shown");
	assert_no_name(object, hidden);
	run("ld -s -e 0 -o %s %s", in_sandbox("none"),
	    compile("none.o", "int none(void) { return 1; }\n", "-c"));
	object = get_object(in_sandbox("none"));
	assert_no_name(object, 0x401000);
	assert_string_equal(object->problem, "has no symbols of functions");
}

static void test_build_id(void **state)
{
	const char *path = compile("build-id.so", "int f(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=0x0123456789abcdef01");
	const char *none = compile("no-id.so", "int f(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=none");

	(void)state;
	assert_string_equal(get_object(path)->build_id, "0123456789abcdef01");
	assert_string_equal(get_object(none)->build_id, "");
}

static void test_notes(void **state)
{
	/* clang-format off */
	static const uint32_t other_first[] = {
		4, 5, 1, 0x00554e47, 0x01010101, 0x01,
		4, 4, 3, 0x00554e47, 0x04030201,
	};
	static const uint32_t wide[] = {
		3, 5, 9, 0x00424241, 0x01010101, 0x01,
		4, 4, 3, 0x00554e47, 0x04030201, 0,
	};
	static const uint32_t huge[] = {UINT32_MAX, UINT32_MAX, 3, 0x00554e47, 0};
	/* clang-format on */
	char hex[BUILD_ID_SIZE];

	(void)state;
	assert_true(build_id_from_notes(other_first, sizeof(other_first), 4, hex));
	assert_string_equal(hex, "01020304");
	assert_true(build_id_from_notes(wide, sizeof(wide), 8, hex));
	assert_string_equal(hex, "01020304");
	assert_false(build_id_from_notes(huge, sizeof(huge), 4, hex));
	assert_false(build_id_from_notes(huge, sizeof(huge), 8, hex));
	for (size_t size = 0; size < sizeof(other_first); size++) {
		void *cut = malloc(size + 1);

		assert_non_null(cut);
		memcpy(cut, other_first, size);
		assert_false(build_id_from_notes(cut, size, 4, hex));
		free(cut);
	}
}

/* The address of code in this process, through the mapping that holds it. */
static void test_vaddr(void **state)
{
	uintptr_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
	uint64_t start, end, offset, vaddr, found = 0;
	char line[1024];
	Dl_info info;
	FILE *maps;

	(void)state;
	assert_true(dladdr((void *)address, &info));
	maps = fopen("/proc/self/maps", "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    start <= address && address < end)
			found = address - start + offset;
	}
	fclose(maps);
	assert_true(object_vaddr(get_object(libc_path()), found, &vaddr));
	assert_int_equal(vaddr, address - (uintptr_t)info.dli_fbase);
	assert_false(object_vaddr(get_object(libc_path()), 0, &vaddr)); /* not executable */
	assert_false(object_vaddr(get_object(libc_path()), UINT64_MAX, &vaddr));
}

static void test_vaddr_of_a_prelinked_program(void **state)
{
	const char *path = compile("fixed", assembly,
				   "-nostdlib -static -no-pie -Wl,-e,sized -Wl,-Ttext=0x7123000");
	struct object *object = get_object(path);
	uint64_t vaddr;

	(void)state;
	for (uint64_t offset = 0; offset < 0x4000; offset += 0x1000) {
		if (!object_vaddr(object, offset, &vaddr))
			continue;
		assert_int_equal(vaddr, 0x7123000);
		assert_name(object, vaddr, "sized");
		return;
	}
	fail_msg("no executable load");
}

static void test_vdso(void **state)
{
	struct object *object = objects_vdso(table);
	struct symbol symbol;
	bool found = false;

	(void)state;
	assert_non_null(object);
	assert_ptr_equal(object, objects_vdso(table));
	assert_string_equal(object->path, "[vdso]");
	assert_int_not_equal(strlen(object->build_id), 0);
	for (uint64_t vaddr = 0; vaddr < 0x4000; vaddr += 16) {
		if (object_lookup(object, vaddr, &symbol))
			found |= strstr(symbol.name, "clock_gettime") != NULL;
	}
	assert_true(found);
}

static void test_one_object_for_one_file(void **state)
{
	const char *path =
		compile("one.so", "int one(void) { return 1; }\n", "-nostdlib -shared -fPIC");
	struct object *object = get_object(path);

	(void)state;
	assert_ptr_equal(object, get_object(path));
	assert_ptr_not_equal(object, get_object(libc_path()));
}

static void test_changed_in_place(void **state)
{
	const char *path =
		compile("a.so", "int first(void) { return 1; }\n", "-nostdlib -shared -fPIC");
	uint64_t address = address_of(path, "first");
	struct object *first = get_object(path), *second;

	(void)state;
	compile("b.so", "int second(void) { return 1; }\nint third(void) { return 1; }\n",
		"-nostdlib -shared -fPIC");
	run("cat %s > %s", in_sandbox("b.so"), in_sandbox("a.so"));
	run("touch -d '1 hour ago' %s", in_sandbox("a.so"));
	second = get_object(in_sandbox("a.so"));
	assert_ptr_not_equal(first, second);
	assert_name(second, address, "second");
	assert_no_name(first, address);
	assert_string_equal(first->problem, "was changed during the recording");
}

/* An executable that is replaced or removed is the one that was opened. */
static void test_removed_while_open(void **state)
{
	const char *path = compile("removed.so", "int removed(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC");
	uint64_t address = address_of(path, "removed");
	struct object *object = get_object(path);

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_name(object, address, "removed");
}

static void test_found_through_the_mapping(void **state)
{
	const char *path =
		compile("hidden.so", "int hidden(void) { return 1; }\n", "-nostdlib -shared -fPIC");
	uint64_t address = address_of(path, "hidden");
	struct mapped_file file = mapped(path);
	struct objects *own = objects_new(in_sandbox("root"), NULL);
	struct object *object;

	(void)state;
	run("mkdir -p %s && ln -s %s %s", in_sandbox("root/proc/7/map_files"),
	    in_sandbox("hidden.so"), in_sandbox("root/proc/7/map_files/1000-2000"));
	file.pid = 7;
	file.start = 0x1000;
	file.end = 0x2000;
	file.path = "/gone";
	file.deleted = true;
	object = objects_get(own, &file);
	assert_non_null(object);
	assert_string_equal(object->path, "/gone");
	assert_name(object, address, "hidden");
	objects_free(own);
}

/* Another file has the path now: its symbols are not those of the process. */
static void test_other_file_at_the_path(void **state)
{
	const char *path =
		compile("other.so", "int other(void) { return 1; }\n", "-nostdlib -shared -fPIC");
	struct mapped_file file = mapped(path);
	struct object *object;

	(void)state;
	file.inode++;
	object = objects_get(table, &file);
	assert_non_null(object);
	assert_no_name(object, address_of(path, "other"));
	assert_non_null(strstr(object->problem, "can't be opened"));
}

static void test_only_regular_files(void **state)
{
	struct mapped_file null = mapped("/dev/null");

	(void)state;
	assert_int_equal(mkfifo(in_sandbox("fifo"), 0600), 0);
	assert_int_equal(symlink(libc_path(), in_sandbox("link")), 0);
	assert_non_null(strstr(get_object(in_sandbox("fifo"))->problem, "can't be opened"));
	assert_non_null(strstr(get_object(in_sandbox("link"))->problem, "can't be opened"));
	assert_non_null(strstr(get_object(sandbox)->problem, "can't be opened"));
	assert_non_null(strstr(objects_get(table, &null)->problem, "can't be opened"));
	write_text(in_sandbox("text"), "#!/bin/sh\n");
	assert_string_equal(get_object(in_sandbox("text"))->problem, "not an ELF file");
	write_text(in_sandbox("empty"), "");
	assert_int_not_equal(strlen(get_object(in_sandbox("empty"))->problem), 0);
}

static unsigned int open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void test_many_files(void **state)
{
	enum { COUNT = OBJECTS_OPEN_MAX + 20 };
	const char *path =
		compile("many.so", "int many(void) { return 1; }\n", "-nostdlib -shared -fPIC");
	uint64_t address = address_of(path, "many");
	struct object *objects[COUNT];
	unsigned int before = open_files();

	(void)state;
	for (unsigned int i = 0; i < COUNT; i++) {
		run("cp %s %s", in_sandbox("many.so"), in_sandbox("many.%u", i));
		objects[i] = get_object(in_sandbox("many.%u", i));
	}
	assert_int_equal(open_files(), before + OBJECTS_OPEN_MAX);
	assert_int_equal(unlink(in_sandbox("many.%u", COUNT - 1)), 0);
	run("cp %s %s", libc_path(), in_sandbox("many.%u", COUNT - 1));
	for (unsigned int i = 0; i < COUNT - 1; i++)
		assert_name(objects[i], address, "many");
	assert_no_name(objects[COUNT - 1], address);
	assert_int_not_equal(strlen(objects[COUNT - 1]->problem), 0);
	assert_int_equal(open_files(), before);
}

/* Asks for names all over a file; what counts is that it comes back. */
static void read_broken(const char *path, const unsigned char *bytes, size_t size)
{
	struct objects *own = objects_new("", NULL);
	struct mapped_file file;
	struct object *object;
	struct symbol symbol;
	uint64_t vaddr;

	write_file(path, bytes, size);
	file = mapped(path);
	object = objects_get(own, &file);
	assert_non_null(object);
	for (uint64_t offset = 0; offset < size + 4096; offset += 256) {
		if (object_vaddr(object, offset, &vaddr) && object_lookup(object, vaddr, &symbol))
			assert_true(strlen(symbol.name) > 0);
		object_lookup(object, offset, &symbol);
	}
	objects_free(own);
}

static void test_truncated(void **state)
{
	const char *path = compile("whole.so", assembly, "-nostdlib -shared");
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);

	(void)state;
	for (size_t cut = 0; cut < size; cut += 64)
		read_broken(in_sandbox("cut"), bytes, cut);
	free(bytes);
}

/* A sparse file that claims 2^24 sections would cost gigabytes and seconds. */
static void test_countless_sections(void **state)
{
	size_t size;
	unsigned char *bytes = read_bytes(libc_path(), &size);

	(void)state;
	memset(bytes + 60, 0, 2); /* e_shnum */
	write_file(in_sandbox("countless"), bytes, size);
	assert_string_equal(get_object(in_sandbox("countless"))->problem,
			    "broken ELF headers: sections without a count");
	free(bytes);
}

/* xorshift: the same mutations each time. */
static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void mutate(unsigned char *bytes, size_t size, uint64_t *seed)
{
	static const uint64_t values[] = {0,         1,          0x7f,      0xff,      0xffff,
					  INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
	/* The headers are at the ends: hit these as often as all the rest. */
	uint64_t kind = next_random(seed) % 3;
	size_t span = kind == 0 ? size : 2048;
	size_t width = (size_t)1 << next_random(seed) % 4;
	size_t at = next_random(seed) % (span - width);
	uint64_t value = values[next_random(seed) % 9];

	if (next_random(seed) % 2)
		value = next_random(seed);
	if (kind == 2)
		at += size - span;
	memcpy(bytes + at, &value, width);
}

static void check_mutations(const char *path, uint64_t seed, unsigned int count)
{
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);
	unsigned char *broken = malloc(size);

	assert_non_null(broken);
	for (unsigned int i = 0; i < count; i++) {
		memcpy(broken, bytes, size);
		for (uint64_t hits = next_random(&seed) % 4 + 1; hits > 0; hits--)
			mutate(broken, size, &seed);
		read_broken(in_sandbox("broken"), broken, size);
	}
	free(broken);
	free(bytes);
}

static void test_mutated(void **state)
{
	(void)state;
	check_mutations(compile("good.so", assembly, "-nostdlib -shared"), 0x5eed, 3000);
}

static void test_mutated_32_bit(void **state)
{
	(void)state;
	check_mutations(compile("good32.so", "int small(void) { return 1; }\n",
				"-m32 -nostdlib -shared -fPIC"),
			0x5eed32, 1000);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_table, free_table)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_libc_as_nm_says),
		TEST(test_program_as_nm_says),
		TEST(test_32_bit),
		TEST(test_which_symbol),
		TEST(test_data_is_no_function),
		TEST(test_versions_are_cut),
		TEST(test_stripped),
		TEST(test_build_id),
		TEST(test_notes),
		TEST(test_vaddr),
		TEST(test_vaddr_of_a_prelinked_program),
		TEST(test_vdso),
		TEST(test_one_object_for_one_file),
		TEST(test_changed_in_place),
		TEST(test_removed_while_open),
		TEST(test_found_through_the_mapping),
		TEST(test_other_file_at_the_path),
		TEST(test_only_regular_files),
		TEST(test_many_files),
		TEST(test_truncated),
		TEST(test_countless_sections),
		TEST(test_mutated),
		TEST(test_mutated_32_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

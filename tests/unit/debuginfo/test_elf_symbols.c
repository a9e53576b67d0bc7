// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <sys/param.h>

#include "lib/error.h"
#include "sandbox.h"

/*
 * Replaces libc's function. The order of the arguments of a comparison is unspecified: it may be
 * the other one.
 */
static bool is_swapped;
static int (*compare_unswapped)(const void *a, const void *b, void *arg);

static int compare_swapped(const void *a, const void *b, void *arg)
{
	return -compare_unswapped(b, a, arg);
}

void qsort_r(void *items, size_t count, size_t size,
	     int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
	void (*real)(void *, size_t, size_t, int (*)(const void *, const void *, void *), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "qsort_r");
	compare_unswapped = compare;
	real(items, count, size, is_swapped ? compare_swapped : compare, arg);
}

/* A symbol in the output of nm. */
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

/* Contents of a file. The end of a test frees all of them. */
struct test_file {
	struct elf_file elf;
	struct error problem;
	int status;
};

#define FILES_MAX 16
#define NOTES_MAX (UINT64_C(1) << 20) /* bytes of notes that are read */

static struct test_file read_files[FILES_MAX];
static size_t read_count;

static int clear_files(void **state)
{
	while (read_count)
		elf_clear(&read_files[--read_count].elf);
	return remove_sandbox(state);
}

static struct test_file *new_file(void)
{
	assert_true(read_count < FILES_MAX);
	read_files[read_count] = (struct test_file){.problem = {""}};
	return &read_files[read_count++];
}

static struct test_file *read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct test_file *file = new_file();

	assert_true(fd >= 0);
	file->status = elf_read(&file->elf, fd, NULL, 0, true, &file->problem);
	assert_int_equal(close(fd), 0);
	return file;
}

static const char *compile(const char *name, const char *source, const char *options)
{
	bool is_assembly = !strncmp(source, ".text", 5);

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
	return strchr("tTwWi", known->type);
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
		if (!strcmp(known.list[i].name, name))
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
		    !strcmp(known->list[i].name, symbol->name))
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

/* Looks up the first and the last byte of each function of nm, and the byte after it. */
static void check_against_nm(struct test_file *file, const char *path, const char *options)
{
	struct known_list known = read_nm(path, options);
	struct symbol symbol;
	size_t sized = 0;

	for (size_t i = 0; i < known.count; i++) {
		const struct known *want = &known.list[i];

		if (want->size == 0)
			continue;
		sized++;
		if (!elf_lookup(&file->elf, want->start, &symbol) || symbol.start != want->start ||
		    !is_known(&known, &symbol))
			fail_msg("%s: %s is not found", path, want->name);
		assert_true(elf_lookup(&file->elf, want->start + want->size - 1, &symbol));
		assert_true(is_known(&known, &symbol));
		if (!is_covered(&known, want->start + want->size) &&
		    elf_lookup(&file->elf, want->start + want->size, &symbol))
			assert_int_not_equal(symbol.start, want->start);
	}
	assert_true(sized > 0);
	free(known.list);
}

static void assert_name(struct test_file *file, uint64_t vaddr, const char *name)
{
	struct symbol symbol = {.name = ""};

	assert_true(elf_lookup(&file->elf, vaddr, &symbol));
	assert_string_equal(symbol.name, name);
}

static void assert_no_name(struct test_file *file, uint64_t vaddr)
{
	struct symbol symbol;

	assert_false(elf_lookup(&file->elf, vaddr, &symbol));
}

static const char *libc_path(void)
{
	static char path[PATH_MAX];
	Dl_info info;

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &info));
	assert_non_null(realpath(info.dli_fname, path));
	return path;
}

static void test_libc_matches_nm(void **state)
{
	(void)state;
	struct test_file *file = read_file(libc_path());

	check_against_nm(file, libc_path(), "-D");
	assert_string_equal(file->problem.text, "");
}

static void test_program_matches_nm(void **state)
{
	const char *path = compile("program",
				   "static int twice(int x) { return 2 * x; }\n"
				   "int main(int count, char **v) { return twice(count) + !v; }\n",
				   "-g -O0");

	(void)state;
	struct test_file *file = read_file(path);

	check_against_nm(file, path, "");
	assert_name(file, address_of(path, "twice"), "twice");
}

static void test_32_bit(void **state)
{
	const char *path = compile("small.so", "int small(void) { return 1; }\n",
				   "-m32 -nostdlib -shared -fPIC -Wl,--build-id");
	struct test_file *file = read_file(path);

	(void)state;
	check_against_nm(file, path, "");
	assert_int_equal(strlen(file->elf.build_id), 40);
}

static void check_symbol_preference(void)
{
	const char *path = compile("names.so", assembly, "-nostdlib -shared");
	struct test_file *file = read_file(path);
	uint64_t sized = address_of(path, "sized"), outer = address_of(path, "outer");
	uint64_t unsized = address_of(path, "unsized"), last = address_of(path, "last");
	struct symbol symbol;

	assert_name(file, sized, "sized");
	assert_name(file, sized + 4, "sized"); /* label_inside is not a function */
	assert_no_name(file, sized + 8);
	assert_name(file, unsized + 7, "unsized");
	assert_name(file, unsized + 8, "untyped");
	assert_name(file, unsized + 15, "untyped");
	assert_name(file, outer, "outer");
	assert_name(file, outer + 8, "inner");
	assert_name(file, outer + 16, "outer");
	assert_name(file, outer + 23, "outer");
	assert_name(file, outer + 24, "alias_global");
	assert_true(elf_lookup(&file->elf, last + 15, &symbol));
	assert_string_equal(symbol.name, "last");
	assert_int_equal(symbol.start, last);
	assert_int_equal(symbol.size, 16);
	assert_no_name(file, last + 16);
	assert_no_name(file, 0);
	assert_no_name(file, UINT64_MAX);
}

static void test_symbol_preference(void **state)
{
	(void)state;
	check_symbol_preference();
	is_swapped = true;
	check_symbol_preference();
	is_swapped = false;
}

static void test_data_is_not_a_function(void **state)
{
	const char *path = compile("data.so", assembly, "-nostdlib -shared");
	Dl_info info;
	void *library, *data;

	(void)state;
	library = dlopen(path, RTLD_NOW);
	assert_non_null(library);
	data = dlsym(library, "data");
	assert_true(dladdr(data, &info));
	assert_no_name(read_file(path), (uint64_t)((char *)data - (char *)info.dli_fbase));
	dlclose(library);
}

static void test_versions_are_stripped(void **state)
{
	const char *path;

	(void)state;
	write_text(in_sandbox("map"), "ONE { global: versioned; local: *; };\n");
	path = compile("versioned.so", "int versioned(void) { return 1; }\n",
		       "-nostdlib -shared -fPIC");
	run("cc -nostdlib -shared -fPIC -Wl,--version-script=%s -o %s %s", in_sandbox("map"), path,
	    in_sandbox("source.c"));
	assert_name(read_file(path), address_of(path, "versioned"), "versioned");
}

static void test_stripped_library_has_dynamic_symbols(void **state)
{
	const char *source = "static int hidden(int x) { return 3 * x; }\n"
			     "int shown(int x) { return hidden(x) + 1; }\n";
	const char *path = compile("stripped.so", source, "-O0 -shared -fPIC");
	uint64_t shown = address_of(path, "shown"), hidden = address_of(path, "hidden");
	struct test_file *file;

	(void)state;
	run("strip %s", path);
	file = read_file(path);
	assert_name(file, shown, "shown");
	assert_no_name(file, hidden);
	run("ld -s -e 0 -o %s %s", in_sandbox("none"),
	    compile("none.o", "int none(void) { return 1; }\n", "-c"));
	file = read_file(in_sandbox("none"));
	assert_no_name(file, 0x401000);
	assert_string_equal(file->problem.text, "has no symbols of functions");
}

/* Notes in a segment that is aligned to 8 bytes: the second one is behind padding. */
static const char wide_notes[] =
	"__asm__(\".pushsection .note.wide,\\\"a\\\",@note\\n.balign 8\\n\"\n"
	"	\".long 4, 4, 9\\n.asciz \\\"GNU\\\"\\n.long 7, 0\\n\"\n"
	"	\".long 4, 8, 3\\n.asciz \\\"GNU\\\"\\n.long 0x67452301, 0xefcdab89\\n\"\n"
	"	\".popsection\");\n"
	"int f(void) { return 1; }\n";

static void test_build_id(void **state)
{
	const char *path = compile("build-id.so", "int f(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=0x0123456789abcdef01");
	const char *none = compile("no-id.so", "int f(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=none");

	(void)state;
	assert_string_equal(read_file(path)->elf.build_id, "0123456789abcdef01");
	assert_string_equal(
		read_file(
			compile("wide.so", wide_notes,
				"-nostdlib -shared -fPIC -fcf-protection=none -Wl,--build-id=none"))
			->elf.build_id,
		"0123456789abcdef");
	assert_string_equal(read_file(none)->elf.build_id, "");
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

/* Translates the address of code in this process by the mapping that holds it. */
static void test_vaddr_matches_proc_maps(void **state)
{
	uintptr_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
	uint64_t start, end, offset, vaddr, found = 0;
	const struct test_file *libc = read_file(libc_path());
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
	assert_true(elf_vaddr(&libc->elf, found, &vaddr));
	assert_int_equal(vaddr, address - (uintptr_t)info.dli_fbase);
	assert_false(elf_vaddr(&libc->elf, 0, &vaddr)); /* not executable */
	assert_false(elf_vaddr(&libc->elf, UINT64_MAX, &vaddr));
}

static void test_vaddr_of_a_prelinked_program(void **state)
{
	const char *path = compile("fixed", assembly,
				   "-nostdlib -static -no-pie -Wl,-e,sized -Wl,-Ttext=0x7123000");
	struct test_file *file = read_file(path);
	uint64_t vaddr;

	(void)state;
	for (uint64_t offset = 0; offset < 0x4000; offset += 0x1000) {
		if (!elf_vaddr(&file->elf, offset, &vaddr))
			continue;
		assert_int_equal(vaddr, 0x7123000);
		assert_name(file, vaddr, "sized");
		return;
	}
	fail_msg("no executable load");
}

static void test_vdso_image(void **state)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct test_file *file = new_file();
	struct symbol symbol;
	bool found = false;

	(void)state;
	assert_non_null(header);
	assert_int_equal(elf_read(&file->elf, -1, header,
				  header->e_shoff + (size_t)header->e_shnum * header->e_shentsize,
				  true, &file->problem),
			 0);
	assert_int_not_equal(strlen(file->elf.build_id), 0);
	for (uint64_t vaddr = 0; vaddr < 0x4000; vaddr += 16) {
		if (elf_lookup(&file->elf, vaddr, &symbol))
			found = found || strstr(symbol.name, "clock_gettime");
	}
	assert_true(found);
}

static void test_without_functions(void **state)
{
	const char *path = compile("some.so", "int some(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=0x01234567");
	struct test_file *file = new_file();
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t vaddr;

	(void)state;
	assert_int_equal(elf_read(&file->elf, fd, NULL, 0, false, &file->problem), 0);
	close(fd);
	assert_string_equal(file->elf.build_id, "01234567");
	assert_true(elf_vaddr(&file->elf, 0x1000, &vaddr));
	assert_no_name(file, address_of(path, "some"));
	assert_string_equal(file->problem.text, "");
}

static void test_other_files_are_rejected(void **state)
{
	(void)state;
	write_text(in_sandbox("text"), "#!/bin/sh\n");
	write_text(in_sandbox("empty"), "");
	assert_int_equal(read_file(in_sandbox("text"))->status, -EINVAL);
	assert_string_equal(read_file(in_sandbox("text"))->problem.text, "not an ELF file");
	assert_int_equal(read_file(in_sandbox("empty"))->status, -EINVAL);
	assert_int_not_equal(strlen(read_file(in_sandbox("empty"))->problem.text), 0);
	assert_int_equal(read_file(sandbox)->status, -EINVAL);
}

/* Looks up symbols all over a file, which must neither crash nor hang. */
static void read_broken(const char *path, const unsigned char *bytes, size_t size)
{
	struct test_file *file;
	struct symbol symbol;
	uint64_t vaddr;

	write_file(path, bytes, size);
	file = read_file(path);
	assert_true(!file->status || *file->problem.text);
	for (uint64_t offset = 0; offset < size + 4096; offset += 256) {
		if (elf_vaddr(&file->elf, offset, &vaddr) && elf_lookup(&file->elf, vaddr, &symbol))
			assert_true(strlen(symbol.name) > 0);
		elf_lookup(&file->elf, offset, &symbol);
	}
	elf_clear(&file->elf);
	read_count--;
}

static void test_survives_truncation(void **state)
{
	const char *path = compile("whole.so", assembly, "-nostdlib -shared");
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);

	(void)state;
	for (size_t cut = 0; cut < size; cut += 64)
		read_broken(in_sandbox("cut"), bytes, cut);
	free(bytes);
}

/* Compares the stubs of a file with those that objdump names. Returns their number. */
static size_t check_against_objdump(const char *path)
{
	struct test_file *file = read_file(path);
	struct symbol symbol;
	char line[1024], name[256];
	size_t count = 0;
	uint64_t start;
	FILE *objdump;

	snprintf(line, sizeof(line), "objdump -d %s", path);
	objdump = popen(line, "r");
	assert_non_null(objdump);
	while (fgets(line, sizeof(line), objdump)) {
		if (sscanf(line, "%lx <%255[^>]>:", &start, name) != 2 || !strstr(name, "@plt") ||
		    strstr(name, "-0x") || *name == '*')
			continue;
		if (!elf_lookup(&file->elf, start, &symbol) || strcmp(symbol.name, name) != 0 ||
		    symbol.start != start)
			fail_msg("%s: %s is not found", path, name);
		/* Behind its first instruction. */
		assert_name(file, start + 5, name);
		count++;
	}
	assert_int_equal(pclose(objdump), 0);
	return count;
}

static void test_stubs_of_the_plt(void **state)
{
	static const char program[] =
		"#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
		"void *volatile pointer;\n"
		"int main(int argc, char **argv)\n"
		"{ pointer = (void *)atoi; puts(argv[0]); exit(atoi(argv[argc])); }\n";
	static const char *const options[] = {
		"-Wl,-z,lazy -fcf-protection=none -no-pie",
		"-Wl,-z,lazy -fcf-protection=none -fPIE -pie",
		"-Wl,-z,now -fcf-protection=none -fPIE -pie",
		"-Wl,-z,lazy,-z,ibtplt -fcf-protection=full",
		"-Wl,-z,now,-z,ibtplt -fcf-protection=full -fPIE -pie",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const char *path = compile("stubs", program, options[i]);

		assert_true(check_against_objdump(path) >= 2);
		run("strip %s", path);
		assert_true(check_against_objdump(path) >= 2);
	}
}

/* A static program has stubs for functions of libc that a resolver selects. */
static void test_stubs_of_a_static_program(void **state)
{
	const char *path = compile("static",
				   "#include <string.h>\n"
				   "int main(int argc, char **argv)\n"
				   "{ return strlen(argv[argc - 1]) == 5; }\n",
				   "-static -O0 -fno-builtin");
	struct test_file *file = read_file(path);
	struct symbol symbol;
	size_t found = 0, stubs = 0;
	uint64_t start;

	(void)state;
	/* The PLT is among the first code, in entries of 8 or 16 bytes. */
	assert_true(elf_code_start(&file->elf, &start));
	for (uint64_t at = start; at < start + 0x800; at += 8) {
		if (!elf_lookup(&file->elf, at, &symbol) || !strstr(symbol.name, "@plt") ||
		    symbol.start != at)
			continue;
		stubs++;
		found += !strcmp(symbol.name, "strlen@plt");
	}
	assert_true(stubs > 10);
	assert_int_equal(found, 1);
}

static const char *const unsized_assembly =
	".text\n"
	".globl marker\n .type marker, @function\nmarker: nop\n ret\n .skip 14, 0x90\n"
	"hidden:\n .cfi_startproc\n .skip 64, 0x90\n .cfi_endproc\n"
	"second:\n .cfi_startproc\n .skip 64, 0x90\n .cfi_endproc\n"
	".globl described\ndescribed:\n .cfi_startproc\n .skip 32, 0x90\n .cfi_endproc\n"
	"bare: .skip 32, 0x90\n"
	".globl shared\nshared:\n .cfi_startproc\n .skip 16, 0x90\n"
	".globl alternative\nalternative: .skip 16, 0x90\n .cfi_endproc\n";

static void check_unsized(struct test_file *file, uint64_t text)
{
	assert_name(file, text, "marker");
	assert_name(file, text + 15, "marker");
	for (uint64_t at = 16; at < 144; at += 16)
		assert_no_name(file, text + at);
	assert_name(file, text + 144, "described");
	assert_name(file, text + 175, "described");
	assert_no_name(file, text + 176);
	assert_no_name(file, text + 207);
	assert_name(file, text + 208, "shared");
	assert_name(file, text + 223, "shared");
	assert_name(file, text + 224, "alternative");
	assert_name(file, text + 239, "alternative");
}

static void test_unsized_symbols_of_a_stripped_file(void **state)
{
	const char *path = compile("unsized.so", unsized_assembly, "-nostdlib -shared");
	uint64_t text = address_of(path, "marker");
	struct test_file *file;

	(void)state;
	/* A file with all symbols: those without call frame information have names, too. */
	file = read_file(path);
	assert_name(file, text + 16, "hidden");
	assert_name(file, text + 80, "second");
	assert_name(file, text + 176, "bare");
	assert_name(file, text + 207, "bare");
	run("strip --discard-all %s", path);
	check_unsized(read_file(path), text);
	run("strip %s", path);
	check_unsized(read_file(path), text);
}

static void test_unsized_symbols_without_an_index(void **state)
{
	const char *path =
		compile("unsized.so", unsized_assembly, "-nostdlib -shared -Wl,--no-eh-frame-hdr");
	uint64_t text = address_of(path, "marker");
	struct test_file *file;

	(void)state;
	file = read_file(path);
	assert_name(file, text + 15, "marker");
	assert_name(file, text + 16, "hidden");
	run("strip %s", path);
	file = read_file(path);
	assert_name(file, text, "marker");
	assert_no_name(file, text + 1);
	assert_no_name(file, text + 16);
	assert_name(file, text + 144, "described");
	assert_no_name(file, text + 145);
}

/* Removes the section headers, as sstrip does. */
static void remove_sections(const char *path)
{
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);
	ElfW(Ehdr) *header = (void *)bytes;

	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	write_file(path, bytes, size);
	free(bytes);
}

static void test_file_without_section_headers(void **state)
{
	static const char *const options[] = {"-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv",
					      "-Wl,--hash-style=both"};
	struct known_list known;

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		char all[128];
		struct test_file *file;
		const char *path;

		snprintf(all, sizeof(all), "-shared -fPIC %s", options[i]);
		path = compile("bare.so",
			       "#include <stdlib.h>\n"
			       "static __attribute__((noinline)) int hidden(int x)\n"
			       "{ return abs(x); }\n"
			       "int first(int x) { return hidden(x) + 1; }\n"
			       "int second(char *x) { return atoi(x); }\n"
			       "int third(int x) { return x * hidden(x); }\n",
			       all);
		known = read_nm(path, "-D");
		run("strip %s", path);
		remove_sections(path);
		file = read_file(path);
		assert_string_equal(file->problem.text, "");
		assert_true(known.count >= 3);
		for (size_t j = 0; j < known.count; j++) {
			if (known.list[j].size) {
				assert_name(file, known.list[j].start, known.list[j].name);
				assert_name(file, known.list[j].start + known.list[j].size - 1,
					    known.list[j].name);
			}
		}
		assert_no_name(file, known.list[0].start + 0x10000);
		free(known.list);
	}
}

static void test_broken_files_without_section_headers(void **state)
{
	const char *path =
		compile("whole.so", "int f(int x) { return x; }\n",
			"-nostdlib -shared -fPIC -Wl,--hash-style=gnu,-z,noseparate-code");
	unsigned char *bytes;
	size_t size;

	(void)state;
	run("strip %s", path);
	remove_sections(path);
	bytes = read_bytes(path, &size);
	for (size_t cut = 0; cut < size; cut += 64)
		read_broken(in_sandbox("cut"), bytes, cut);
	for (size_t i = sizeof(ElfW(Ehdr)); i < size; i++) {
		unsigned char kept = bytes[i];

		if (!kept)
			continue;
		bytes[i] = 0xff;
		read_broken(in_sandbox("changed"), bytes, size);
		bytes[i] = kept;
	}
	free(bytes);
}

/* A sparse file that claims 2^24 sections would take gigabytes of memory and seconds. */
static void test_extended_section_numbering_is_rejected(void **state)
{
	size_t size;
	unsigned char *bytes = read_bytes(libc_path(), &size);

	(void)state;
	memset(bytes + 60, 0, 2); /* e_shnum */
	write_file(in_sandbox("countless"), bytes, size);
	assert_string_equal(read_file(in_sandbox("countless"))->problem.text,
			    "broken ELF headers: sections without a count");
	free(bytes);
}

static Elf64_Sym function_at(uint32_t name, uint64_t start, uint64_t size)
{
	return (Elf64_Sym){
		.st_name = name,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = start,
		.st_size = size,
	};
}

struct code {
	uint64_t start, size;
};

/* Reads a file with code at these addresses, and these symbols. The first symbol is a null symbol.
 */
static struct test_file *make_code_file(struct code code, const Elf64_Sym *symbols, size_t count,
					const char *strings, size_t size)
{
	static const char section_names[] = "\0.text\0.symtab\0.strtab";
	size_t symbols_size = count * sizeof(*symbols);
	const struct {
		Elf64_Ehdr file;
		Elf64_Shdr sections[4];
		char names[24];
	} headers = {
		.file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_shoff = sizeof(Elf64_Ehdr),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 4},
		.sections = {{0},
			     {.sh_name = 1,
			      .sh_type = SHT_NOBITS,
			      .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			      .sh_addr = code.start,
			      .sh_size = code.size},
			     {.sh_name = 7,
			      .sh_type = SHT_SYMTAB,
			      .sh_offset = sizeof(headers),
			      .sh_size = symbols_size,
			      .sh_link = 3,
			      .sh_entsize = sizeof(*symbols)},
			     {.sh_name = 15,
			      .sh_type = SHT_STRTAB,
			      .sh_offset = sizeof(headers) + symbols_size,
			      .sh_size = size}},
	};
	char *bytes = malloc(sizeof(headers) + symbols_size + size);

	assert_non_null(bytes);
	memcpy(bytes, &headers, sizeof(headers));
	memcpy(bytes + offsetof(__typeof__(headers), names), section_names, sizeof(section_names));
	memcpy(bytes + sizeof(headers), symbols, symbols_size);
	memcpy(bytes + sizeof(headers) + symbols_size, strings, size);
	write_file(in_sandbox("made"), (unsigned char *)bytes,
		   sizeof(headers) + symbols_size + size);
	free(bytes);
	return read_file(in_sandbox("made"));
}

static struct test_file *make_elf_file(const Elf64_Sym *symbols, size_t count, const char *strings,
				       size_t size)
{
	return make_code_file((struct code){0x1000, 1 << 24}, symbols, count, strings, size);
}

/* The section of names of a symbol table, which is the third one of make_code_file(). */
static void test_names_are_in_a_string_table(void **state)
{
	static const struct {
		uint32_t link, type;
		uint64_t flags;
	} broken[] = {
		{3, SHT_PROGBITS, 0},
		{3, SHT_STRTAB, SHF_COMPRESSED},
		{0, SHT_STRTAB, 0},
		{77, SHT_STRTAB, 0},
	};
	const Elf64_Sym symbols[] = {{0}, function_at(1, 0x1000, 1)};
	Elf64_Shdr sections[4];
	unsigned char *bytes;
	size_t size;

	(void)state;
	assert_name(make_elf_file(symbols, 2, "\0f", 3), 0x1000, "f");
	bytes = read_bytes(in_sandbox("made"), &size);
	memcpy(sections, bytes + sizeof(Elf64_Ehdr), sizeof(sections));
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct test_file *file;

		sections[2].sh_link = broken[i].link;
		sections[3].sh_type = broken[i].type;
		sections[3].sh_flags = broken[i].flags;
		memcpy(bytes + sizeof(Elf64_Ehdr), sections, sizeof(sections));
		write_file(in_sandbox("broken"), bytes, size);
		file = read_file(in_sandbox("broken"));
		assert_int_equal(file->status, 0);
		assert_string_equal(file->problem.text, "has a broken symbol table");
		assert_no_name(file, 0x1000);
	}
	free(bytes);
}

/* Such symbols have no section, even if their value is an address of code. */
static void test_symbols_without_a_section_are_no_functions(void **state)
{
	static const uint16_t sections[] = {SHN_UNDEF, SHN_ABS, SHN_COMMON};
	Elf64_Sym symbols[] = {{0}, function_at(1, 0x1000, 1), {0}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct test_file *file;

		symbols[2] = function_at(3, 0x2000, 1);
		symbols[2].st_shndx = sections[i];
		file = make_elf_file(symbols, 3, "\0f\0g", 5);
		assert_name(file, 0x1000, "f");
		assert_no_name(file, 0x2000);
	}
}

static void test_code_at_the_end_of_the_address_space(void **state)
{
	const uint64_t start = UINT64_MAX - 0xff;
	const Elf64_Sym symbols[] = {{0}, function_at(1, start, 0xff)};
	struct test_file *file = make_code_file((struct code){start, 0xff}, symbols, 2, "\0f", 3);

	(void)state;
	assert_name(file, start, "f");
	assert_name(file, UINT64_MAX - 1, "f");
	assert_no_name(file, UINT64_MAX);
	/* The end of the section is beyond the address space. */
	file = make_code_file((struct code){start, 0x100}, symbols, 2, "\0f", 3);
	assert_no_name(file, start);
}

/* Reads a file with functions that are nested `depth` deep, and end together before the first. */
static struct test_file *make_nested_file(uint32_t depth)
{
	Elf64_Sym symbols[128] = {{0}, function_at(1, 0x1000, 0x1000)};

	assert_in_range(depth, 1, 127);
	for (uint32_t i = 1; i < depth; i++)
		symbols[1 + i] = function_at(3, 0x1000 + i, 0x100 - i);
	return make_elf_file(symbols, 1 + depth, "\0f\0g", 5);
}

static void test_search_of_nested_functions_is_limited(void **state)
{
	struct test_file *file = make_nested_file(64);

	(void)state;
	assert_name(file, 0x10ff, "g");
	assert_name(file, 0x1100, "f");
	file = make_nested_file(65);
	assert_name(file, 0x10ff, "g");
	assert_no_name(file, 0x1100);
}

/* Reads a file with these program headers only. */
static struct test_file *read_segments(const Elf64_Phdr *segments, uint16_t count)
{
	struct {
		Elf64_Ehdr file;
		Elf64_Phdr segments[4];
	} headers = {
		.file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_phoff = sizeof(Elf64_Ehdr),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = count},
	};

	memcpy(headers.segments, segments, count * sizeof(*segments));
	write_file(in_sandbox("segments"), &headers, sizeof(headers));
	return read_file(in_sandbox("segments"));
}

/* Only loaded segments with code count, in any order. */
static void test_code_starts_at_the_lowest_segment(void **state)
{
	const Elf64_Phdr segments[] = {
		{.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W | PF_X},
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 0x1000, .p_filesz = 16},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x3000, .p_filesz = 16},
		{.p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = 0x2000, .p_filesz = 16},
	};
	uint64_t vaddr = 0;

	(void)state;
	assert_false(elf_code_start(&read_segments(segments, 2)->elf, &vaddr));
	assert_true(elf_code_start(&read_segments(segments, 3)->elf, &vaddr));
	assert_int_equal(vaddr, 0x3000);
	assert_true(elf_code_start(&read_segments(segments, 4)->elf, &vaddr));
	assert_int_equal(vaddr, 0x2000);
}

/* Reads a file whose only note, a build ID, is at the start of a segment of `size` bytes. */
static const char *build_id_of_notes(uint64_t size, uint64_t offset)
{
	static const uint32_t note[] = {4, 4, NT_GNU_BUILD_ID, 0x00554e47, 0x04030201};
	const Elf64_Phdr segment = {
		.p_type = PT_NOTE, .p_offset = offset, .p_filesz = size, .p_align = 4};
	unsigned char *bytes = calloc(1, 4096 + NOTES_MAX + 1);
	struct test_file *file;
	size_t headers;
	void *start;

	assert_non_null(bytes);
	read_segments(&segment, 1);
	start = read_bytes(in_sandbox("segments"), &headers);
	memcpy(bytes, start, headers);
	memcpy(bytes + 4096, note, sizeof(note));
	write_file(in_sandbox("notes"), bytes, 4096 + NOTES_MAX + 1);
	free(start);
	free(bytes);
	file = read_file(in_sandbox("notes"));
	return file->elf.build_id;
}

static void test_notes_are_limited(void **state)
{
	(void)state;
	assert_string_equal(build_id_of_notes(NOTES_MAX, 4096), "01020304");
	assert_string_equal(build_id_of_notes(NOTES_MAX + 1, 4096), "");
	assert_string_equal(build_id_of_notes(20, UINT64_MAX - 4095), "");
}

/* Each name begins within the previous one. */
static void test_names_keep_shared_bytes_once(void **state)
{
	enum { COUNT = 200, SIZE = 4096 };
	Elf64_Sym symbols[COUNT + 1] = {{0}};
	struct symbol symbol = {.name = ""};
	char strings[SIZE] = "";
	struct test_file *file;

	(void)state;
	memset(strings + 1, 'n', SIZE - 2);
	for (uint32_t i = 1; i <= COUNT; i++)
		symbols[i] = function_at(i, 0x1000 + i, 1);
	file = make_elf_file(symbols, COUNT + 1, strings, SIZE);
	assert_string_equal(file->problem.text, "");
	for (uint32_t i = 1; i <= COUNT; i++) {
		assert_true(elf_lookup(&file->elf, 0x1000 + i, &symbol));
		assert_string_equal(symbol.name, strings + i);
	}
	assert_in_range(malloc_usable_size(file->elf.names), 1, SIZE);
}

/* What elf_lookup() finds at an address: where a symbol starts; UINT64_MAX: none. */
static uint64_t found_at(const struct test_file *file, uint64_t vaddr)
{
	struct symbol symbol;

	return elf_lookup(&file->elf, vaddr, &symbol) ? symbol.start : UINT64_MAX;
}

/* In random files with nested, overlapping and distant functions. */
static void test_ranges_have_the_same_symbol(void **state)
{
	enum { COUNT = 12, SPAN = 256 };
	uint32_t random = 1;

	(void)state;
	for (unsigned int round = 0; round < 50; round++) {
		Elf64_Sym symbols[COUNT + 1] = {{0}};
		struct test_file *file;
		uint64_t start, end;

		for (uint32_t i = 1; i <= COUNT; i++) {
			random = random * 1103515245 + 12345;
			symbols[i] = function_at(1, 0x1000 + (random >> 16) % SPAN,
						 1 + (random >> 8) % 64);
		}
		file = make_elf_file(symbols, COUNT + 1, "\0f", 3);
		for (uint64_t vaddr = 0xff0; vaddr < 0x1000 + 2 * SPAN; vaddr++) {
			start = 0;
			end = UINT64_MAX;
			elf_lookup_range(&file->elf, vaddr, &start, &end);
			assert_true(vaddr >= start && vaddr < end);
			for (uint64_t other = MAX(start, 0xf00);
			     other < MIN(end, 0x1000 + 2 * SPAN); other++)
				assert_true(found_at(file, other) == found_at(file, vaddr));
			/* The limits of the caller stay. */
			start = vaddr;
			end = vaddr + 1;
			elf_lookup_range(&file->elf, vaddr, &start, &end);
			assert_true(start == vaddr && end == vaddr + 1);
		}
		elf_clear(&file->elf);
		read_count--;
	}
}

static void expect_range(const struct test_file *file, uint64_t vaddr, uint64_t start, uint64_t end)
{
	uint64_t found_start = 0, found_end = UINT64_MAX;

	elf_lookup_range(&file->elf, vaddr, &found_start, &found_end);
	if (found_start != start || found_end != end)
		fail_msg("%#lx: from %#lx to %#lx", vaddr, found_start, found_end);
}

static void test_ranges_are_complete(void **state)
{
	const Elf64_Sym symbols[] = {{0},
				     function_at(1, 0x1000, 0x40),
				     function_at(1, 0x1010, 0x10),
				     function_at(1, 0x1060, 0x10)};
	const struct test_file *file = make_elf_file(symbols, 4, "\0f", 3);
	const struct test_file *none = new_file();

	(void)state;
	expect_range(file, 0xfff, 0, 0x1000);
	expect_range(file, 0x100f, 0x1000, 0x1010);
	expect_range(file, 0x1010, 0x1010, 0x1020);
	expect_range(file, 0x1020, 0x1020, 0x1040);
	expect_range(file, 0x1040, 0x1040, 0x1060);
	expect_range(file, 0x106f, 0x1060, 0x1070);
	expect_range(file, 0x1070, 0x1070, UINT64_MAX);
	expect_range(none, 0x1000, 0, UINT64_MAX);
}

/* The stripped version is a part of another name, or lies between two names. */
static void test_names_around_versions(void **state)
{
	static const char strings[] =
		"\0unused_name_in_front\0with_prefix@@V1@V2\0unused_between\0last";
	Elf64_Sym symbols[] = {
		{0},
		function_at(22, 0x1000, 1), /* with_prefix@@V1@V2 */
		function_at(27, 0x1001, 1), /* prefix@@V1@V2 */
		function_at(35, 0x1002, 1), /* V1@V2 */
		function_at(38, 0x1003, 1), /* V2 */
		function_at(34, 0x1004, 1), /* @V1@V2: not a name */
		function_at(56, 0x1005, 1), /* last */
		function_at(sizeof(strings) - 1, 0x1006, 1),
		function_at(sizeof(strings), 0x1007, 1),
	};
	struct test_file *file = make_elf_file(symbols, 9, strings, sizeof(strings));

	(void)state;
	assert_name(file, 0x1000, "with_prefix");
	assert_name(file, 0x1001, "prefix");
	assert_name(file, 0x1002, "V1");
	assert_name(file, 0x1003, "V2");
	assert_no_name(file, 0x1004);
	assert_name(file, 0x1005, "last");
	assert_no_name(file, 0x1006);
	assert_no_name(file, 0x1007);
	assert_in_range(malloc_usable_size(file->elf.names), 1, 23);
}

/* Names of overlapping bytes: reading all of them would take as long as reading a whole disk. */
static void test_sum_of_name_lengths_is_limited(void **state)
{
	enum { COUNT = 17000, SIZE = 16384 };
	Elf64_Sym *symbols = calloc(COUNT, sizeof(*symbols));
	char strings[SIZE] = "";
	struct test_file *file;

	(void)state;
	assert_non_null(symbols);
	memset(strings + 1, 'n', SIZE - 2);
	for (uint32_t i = 1; i < COUNT; i++)
		symbols[i] = function_at(1, 0x1000 + i, 1);
	file = make_elf_file(symbols, COUNT, strings, SIZE);
	free(symbols);
	assert_string_equal(file->problem.text, "has too many long names of functions");
	assert_name(file, 0x1001, strings + 1); /* read before the limit */
	assert_no_name(file, 0x1000 + COUNT - 1);
}

/* Each label lies after the nested functions, and before the end of the outermost one. */
static void test_labels_after_nested_functions_take_linear_time(void **state)
{
	enum { DEPTH = 1000, LABELS = 1000 };
	Elf64_Sym symbols[1 + DEPTH + LABELS] = {{0}};
	struct test_file *file;

	(void)state;
	for (uint32_t i = 0; i < DEPTH; i++)
		symbols[1 + i] = function_at(1, 0x1000 + i, i ? DEPTH - i : DEPTH + LABELS);
	for (uint32_t i = 0; i < LABELS; i++)
		symbols[1 + DEPTH + i] = function_at(3, 0x1000 + DEPTH + i, 0);
	file = make_elf_file(symbols, 1 + DEPTH + LABELS, "\0f\0label", 9);
	assert_name(file, 0x1000 + DEPTH - 1, "f");
	assert_int_equal(file->elf.function_count, DEPTH);
	assert_in_range(file->elf.steps, DEPTH - 1, DEPTH);
}

/* xorshift: deterministic mutations. */
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
	/* The headers are at both ends of the file: mutate each end as often as the rest. */
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

static void test_survives_mutations(void **state)
{
	(void)state;
	check_mutations(compile("good.so", assembly, "-nostdlib -shared"), 0x5eed, 3000);
}

static void test_survives_mutations_32_bit(void **state)
{
	(void)state;
	check_mutations(compile("good32.so", "int small(void) { return 1; }\n",
				"-m32 -nostdlib -shared -fPIC"),
			0x5eed32, 1000);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, clear_files)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_libc_matches_nm),
		TEST(test_program_matches_nm),
		TEST(test_32_bit),
		TEST(test_symbol_preference),
		TEST(test_data_is_not_a_function),
		TEST(test_versions_are_stripped),
		TEST(test_stripped_library_has_dynamic_symbols),
		TEST(test_build_id),
		TEST(test_notes),
		TEST(test_vaddr_matches_proc_maps),
		TEST(test_vaddr_of_a_prelinked_program),
		TEST(test_vdso_image),
		TEST(test_without_functions),
		TEST(test_other_files_are_rejected),
		TEST(test_survives_truncation),
		TEST(test_stubs_of_the_plt),
		TEST(test_stubs_of_a_static_program),
		TEST(test_unsized_symbols_of_a_stripped_file),
		TEST(test_unsized_symbols_without_an_index),
		TEST(test_file_without_section_headers),
		TEST(test_broken_files_without_section_headers),
		TEST(test_extended_section_numbering_is_rejected),
		TEST(test_names_are_in_a_string_table),
		TEST(test_symbols_without_a_section_are_no_functions),
		TEST(test_code_at_the_end_of_the_address_space),
		TEST(test_search_of_nested_functions_is_limited),
		TEST(test_code_starts_at_the_lowest_segment),
		TEST(test_notes_are_limited),
		TEST(test_names_keep_shared_bytes_once),
		TEST(test_ranges_have_the_same_symbol),
		TEST(test_ranges_are_complete),
		TEST(test_names_around_versions),
		TEST(test_sum_of_name_lengths_is_limited),
		TEST(test_labels_after_nested_functions_take_linear_time),
		TEST(test_survives_mutations),
		TEST(test_survives_mutations_32_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

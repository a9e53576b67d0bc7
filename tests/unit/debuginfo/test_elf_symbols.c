// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_symbols.h"

#include "lib/error.h"
#include "sandbox.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <sys/auxv.h>

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

/* What was read of a file; all are freed at the end of a test. */
struct mapped_file {
	struct elf_file elf;
	struct error problem;
	int status;
};

#define OBJECTS_MAX 8

static struct mapped_file read_files[OBJECTS_MAX];
static size_t read_count;

static int clear_files(void **state)
{
	while (read_count)
		elf_clear(&read_files[--read_count].elf);
	return remove_sandbox(state);
}

static struct mapped_file *new_file(void)
{
	assert_true(read_count < OBJECTS_MAX);
	read_files[read_count] = (struct mapped_file){.problem = {""}};
	return &read_files[read_count++];
}

static struct mapped_file *get_object(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct mapped_file *object = new_file();

	assert_true(fd >= 0);
	object->status = elf_read(&object->elf, fd, NULL, 0, true, &object->problem);
	assert_int_equal(close(fd), 0);
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
static void check_against_nm(struct mapped_file *object, const char *path, const char *options)
{
	struct known_list known = read_nm(path, options);
	struct symbol symbol;
	size_t sized = 0;

	for (size_t i = 0; i < known.count; i++) {
		const struct known *want = &known.list[i];

		if (want->size == 0)
			continue;
		sized++;
		if (!elf_lookup(&object->elf, want->start, &symbol) ||
		    symbol.start != want->start || !is_known(&known, &symbol))
			fail_msg("%s: %s is not found", path, want->name);
		assert_true(elf_lookup(&object->elf, want->start + want->size - 1, &symbol));
		assert_true(is_known(&known, &symbol));
		if (!is_covered(&known, want->start + want->size) &&
		    elf_lookup(&object->elf, want->start + want->size, &symbol))
			assert_int_not_equal(symbol.start, want->start);
	}
	assert_true(sized > 0);
	free(known.list);
}

static void assert_name(struct mapped_file *object, uint64_t vaddr, const char *name)
{
	struct symbol symbol = {.name = ""};

	assert_true(elf_lookup(&object->elf, vaddr, &symbol));
	assert_string_equal(symbol.name, name);
}

static void assert_no_name(struct mapped_file *object, uint64_t vaddr)
{
	struct symbol symbol;

	assert_false(elf_lookup(&object->elf, vaddr, &symbol));
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
	struct mapped_file *object = get_object(libc_path());

	check_against_nm(object, libc_path(), "-D");
	assert_string_equal(object->problem.text, "");
}

static void test_program_as_nm_says(void **state)
{
	const char *path = compile("program",
				   "static int twice(int x) { return 2 * x; }\n"
				   "int main(int count, char **v) { return twice(count) + !v; }\n",
				   "-g -O0");

	(void)state;
	struct mapped_file *object = get_object(path);

	check_against_nm(object, path, "");
	assert_name(object, address_of(path, "twice"), "twice");
}

static void test_32_bit(void **state)
{
	const char *path = compile("small.so", "int small(void) { return 1; }\n",
				   "-m32 -nostdlib -shared -fPIC -Wl,--build-id");
	struct mapped_file *object = get_object(path);

	(void)state;
	check_against_nm(object, path, "");
	assert_int_equal(strlen(object->elf.build_id), 40);
}

static void test_which_symbol(void **state)
{
	const char *path = compile("names.so", assembly, "-nostdlib -shared");
	struct mapped_file *object = get_object(path);
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
	assert_true(elf_lookup(&object->elf, last + 15, &symbol));
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
	struct mapped_file *object;

	(void)state;
	run("strip %s", path);
	object = get_object(path);
	assert_name(object, shown, "shown");
	assert_no_name(object, hidden);
	run("ld -s -e 0 -o %s %s", in_sandbox("none"),
	    compile("none.o", "int none(void) { return 1; }\n", "-c"));
	object = get_object(in_sandbox("none"));
	assert_no_name(object, 0x401000);
	assert_string_equal(object->problem.text, "has no symbols of functions");
}

static void test_build_id(void **state)
{
	const char *path = compile("build-id.so", "int f(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=0x0123456789abcdef01");
	const char *none = compile("no-id.so", "int f(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=none");

	(void)state;
	assert_string_equal(get_object(path)->elf.build_id, "0123456789abcdef01");
	assert_string_equal(get_object(none)->elf.build_id, "");
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
	const struct mapped_file *libc = get_object(libc_path());
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
	struct mapped_file *object = get_object(path);
	uint64_t vaddr;

	(void)state;
	for (uint64_t offset = 0; offset < 0x4000; offset += 0x1000) {
		if (!elf_vaddr(&object->elf, offset, &vaddr))
			continue;
		assert_int_equal(vaddr, 0x7123000);
		assert_name(object, vaddr, "sized");
		return;
	}
	fail_msg("no executable load");
}

static void test_image(void **state)
{
	const ElfW(Ehdr) *header = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct mapped_file *object = new_file();
	struct symbol symbol;
	bool found = false;

	(void)state;
	assert_non_null(header);
	assert_int_equal(elf_read(&object->elf, -1, header,
				  header->e_shoff + (size_t)header->e_shnum * header->e_shentsize,
				  true, &object->problem),
			 0);
	assert_int_not_equal(strlen(object->elf.build_id), 0);
	for (uint64_t vaddr = 0; vaddr < 0x4000; vaddr += 16) {
		if (elf_lookup(&object->elf, vaddr, &symbol))
			found |= strstr(symbol.name, "clock_gettime") != NULL;
	}
	assert_true(found);
}

static void test_without_functions(void **state)
{
	const char *path = compile("some.so", "int some(void) { return 1; }\n",
				   "-nostdlib -shared -fPIC -Wl,--build-id=0x01234567");
	struct mapped_file *object = new_file();
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t vaddr;

	(void)state;
	assert_int_equal(elf_read(&object->elf, fd, NULL, 0, false, &object->problem), 0);
	close(fd);
	assert_string_equal(object->elf.build_id, "01234567");
	assert_true(elf_vaddr(&object->elf, 0x1000, &vaddr));
	assert_no_name(object, address_of(path, "some"));
	assert_string_equal(object->problem.text, "");
}

static void test_no_elf_file(void **state)
{
	(void)state;
	write_text(in_sandbox("text"), "#!/bin/sh\n");
	write_text(in_sandbox("empty"), "");
	assert_int_equal(get_object(in_sandbox("text"))->status, -EINVAL);
	assert_string_equal(get_object(in_sandbox("text"))->problem.text, "not an ELF file");
	assert_int_equal(get_object(in_sandbox("empty"))->status, -EINVAL);
	assert_int_not_equal(strlen(get_object(in_sandbox("empty"))->problem.text), 0);
	assert_int_equal(get_object(sandbox)->status, -EINVAL);
}

/* Asks for names all over a file; what counts is that it comes back. */
static void read_broken(const char *path, const unsigned char *bytes, size_t size)
{
	struct mapped_file *object;
	struct symbol symbol;
	uint64_t vaddr;

	write_file(path, bytes, size);
	object = get_object(path);
	assert_true(!object->status || *object->problem.text);
	for (uint64_t offset = 0; offset < size + 4096; offset += 256) {
		if (elf_vaddr(&object->elf, offset, &vaddr) &&
		    elf_lookup(&object->elf, vaddr, &symbol))
			assert_true(strlen(symbol.name) > 0);
		elf_lookup(&object->elf, offset, &symbol);
	}
	elf_clear(&object->elf);
	read_count--;
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
	assert_string_equal(get_object(in_sandbox("countless"))->problem.text,
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

/* Reads an object with code from 0x1000 on, and these symbols; the first of them is not read. */
static struct mapped_file *get_made(const Elf64_Sym *symbols, size_t count, const char *strings,
				    size_t size)
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
			      .sh_addr = 0x1000,
			      .sh_size = 1 << 24},
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
	return get_object(in_sandbox("made"));
}

/* Each name begins within the one before it. */
static void test_names_that_share_bytes_take_them_once(void **state)
{
	enum { COUNT = 200, SIZE = 4096 };
	Elf64_Sym symbols[COUNT + 1] = {{0}};
	struct symbol symbol = {.name = ""};
	char strings[SIZE] = "";
	struct mapped_file *object;

	(void)state;
	memset(strings + 1, 'n', SIZE - 2);
	for (uint32_t i = 1; i <= COUNT; i++)
		symbols[i] = function_at(i, 0x1000 + i, 1);
	object = get_made(symbols, COUNT + 1, strings, SIZE);
	assert_string_equal(object->problem.text, "");
	for (uint32_t i = 1; i <= COUNT; i++) {
		assert_true(elf_lookup(&object->elf, 0x1000 + i, &symbol));
		assert_string_equal(symbol.name, strings + i);
	}
	assert_in_range(malloc_usable_size(object->elf.names), 1, SIZE);
}

/* What is cut off one is a part of another one, or lies between two that are kept. */
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
		function_at(34, 0x1004, 1), /* @V1@V2: no name */
		function_at(56, 0x1005, 1), /* last */
		function_at(sizeof(strings) - 1, 0x1006, 1),
		function_at(sizeof(strings), 0x1007, 1),
	};
	struct mapped_file *object = get_made(symbols, 9, strings, sizeof(strings));

	(void)state;
	assert_name(object, 0x1000, "with_prefix");
	assert_name(object, 0x1001, "prefix");
	assert_name(object, 0x1002, "V1");
	assert_name(object, 0x1003, "V2");
	assert_no_name(object, 0x1004);
	assert_name(object, 0x1005, "last");
	assert_no_name(object, 0x1006);
	assert_no_name(object, 0x1007);
	assert_in_range(malloc_usable_size(object->elf.names), 1, 23);
}

/* They would have to be read for as many bytes as a whole disk has. */
static void test_too_many_long_names(void **state)
{
	enum { COUNT = 17000, SIZE = 16384 };
	Elf64_Sym *symbols = calloc(COUNT, sizeof(*symbols));
	char strings[SIZE] = "";
	struct mapped_file *object;

	(void)state;
	assert_non_null(symbols);
	memset(strings + 1, 'n', SIZE - 2);
	for (uint32_t i = 1; i < COUNT; i++)
		symbols[i] = function_at(1, 0x1000 + i, 1);
	object = get_made(symbols, COUNT, strings, SIZE);
	free(symbols);
	assert_string_equal(object->problem.text, "has too many long names of functions");
	assert_name(object, 0x1001, strings + 1); /* as far as it was read */
	assert_no_name(object, 0x1000 + COUNT - 1);
}

/* Each label lies behind all of the nested functions, and before the end of the first. */
static void test_labels_behind_nested_functions(void **state)
{
	enum { DEPTH = 1000, LABELS = 1000 };
	Elf64_Sym symbols[1 + DEPTH + LABELS] = {{0}};
	struct mapped_file *object;

	(void)state;
	for (uint32_t i = 0; i < DEPTH; i++)
		symbols[1 + i] = function_at(1, 0x1000 + i, i ? DEPTH - i : DEPTH + LABELS);
	for (uint32_t i = 0; i < LABELS; i++)
		symbols[1 + DEPTH + i] = function_at(3, 0x1000 + DEPTH + i, 0);
	object = get_made(symbols, 1 + DEPTH + LABELS, "\0f\0label", 9);
	assert_name(object, 0x1000 + DEPTH - 1, "f");
	assert_int_equal(object->elf.function_count, DEPTH);
	assert_in_range(object->elf.steps, DEPTH - 1, DEPTH);
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

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, clear_files)

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
		TEST(test_image),
		TEST(test_without_functions),
		TEST(test_no_elf_file),
		TEST(test_truncated),
		TEST(test_countless_sections),
		TEST(test_names_that_share_bytes_take_them_once),
		TEST(test_names_around_versions),
		TEST(test_too_many_long_names),
		TEST(test_labels_behind_nested_functions),
		TEST(test_mutated),
		TEST(test_mutated_32_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

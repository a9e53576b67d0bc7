// SPDX-License-Identifier: GPL-2.0
/* The file of the kernel's functions: each of its fields, and what can't be read. */
#include "debuginfo/kernel_code.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "sandbox.h"

#define KERNEL_CODE_START UINT64_C(0xffffffff80000000)
#define TEXT UINT64_C(0xffffffff81000000)
#define TEXT_BYTES 0x20000u
#define MODULE UINT64_C(0xffffffffc0000000)
#define MODULE_BYTES 0x2fdu
#define FUNCTIONS_MAX 4096u
#define ZEROS (TEXT + 0x1000)
#define MANY (TEXT + 0x10000) /* one byte each, and more of them than a file may have */

enum { TEXT_SECTION = 1, SYMBOL_SECTION, STRING_SECTION, SECTIONS };

/* KCORE_PATH: two segments. */
static struct {
	Elf64_Ehdr header;
	Elf64_Phdr loads[2];
	unsigned char text[TEXT_BYTES], module[MODULE_BYTES];
} kcore;

static struct running_kernel running;
static struct error error;
static int open_errno, memfd_errno; /* 0: no error */

/* Replaces libc's function. */
int open(const char *path, int flags, ...)
{
	if (open_errno) {
		errno = open_errno;
		return -1;
	}
	if (strstr(path, "kcore") && !(flags & O_CREAT))
		assert_true(flags & O_CLOEXEC);
	return openat(AT_FDCWD, path, flags, 0600);
}

/* Replaces libc's function. */
int memfd_create(const char *name, unsigned int flags)
{
	if (memfd_errno) {
		errno = memfd_errno;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}

static void write_kcore(size_t size)
{
	write_file(in_sandbox("proc/kcore"), &kcore, size);
}

static void make_kcore(void)
{
	kcore.header = (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = offsetof(typeof(kcore), loads),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
	};
	kcore.loads[0] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_offset = offsetof(typeof(kcore), text),
		.p_vaddr = TEXT,
		.p_filesz = TEXT_BYTES,
	};
	kcore.loads[1] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_offset = offsetof(typeof(kcore), module),
		.p_vaddr = MODULE,
		.p_filesz = MODULE_BYTES,
	};
	for (size_t i = 0; i < TEXT_BYTES; i++)
		kcore.text[i] = (unsigned char)(i % 255 + 1);
	for (size_t i = 0; i < MODULE_BYTES; i++)
		kcore.module[i] = (unsigned char)(i % 250 + 1);
	/* As many zeros as code may have, one byte of code, and the filler behind it. */
	memset(kcore.module + 0x55, 0, 63);
	memset(kcore.module + 0x95, 0, 64);
	/* Code that begins with zeros, and a function without code. */
	memset(kcore.module + 0x200, 0, 63);
	memset(kcore.text + (ZEROS - TEXT), 0, 0x50);
}

static void write_note(const char *path, const char *build_id)
{
	char note[20] = {4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};

	memcpy(note + 16, build_id, 4);
	write_file(path, note, sizeof(note));
}

static int set_up(void **state)
{
	FILE *file;

	if (make_sandbox(state))
		return -1;
	run("cd '%s' && mkdir -p proc sys/kernel sys/module/m/notes sys/module/mm/notes", sandbox);
	file = fopen(in_sandbox("proc/kallsyms"), "w");
	if (!file)
		return -1;
	fputs("ffffffff81000000 T _text\nffffffff81000000 t first\nffffffff81000010 T second\n"
	      "ffffffff81000040 t third\nffffffff81000081 D _etext\n"
	      "ffffffff81001000 t zeros\nffffffff81001050 D data\n",
	      file);
	for (unsigned int i = 0; i <= FUNCTIONS_MAX; i++)
		fprintf(file, "%" PRIx64 " t f%u\n", MANY + i, i);
	fprintf(file, "%" PRIx64 " D end\n", MANY + FUNCTIONS_MAX + 1);
	fputs("ffffffffc0000000 t one\t[m]\nffffffffc0000040 t two\t[m]\n"
	      "ffffffffc0000200 t three\t[mm]\nffffffffc0000300 d data\t[mm]\n"
	      "ffffffffc0010000 t gone\t[mm]\n",
	      file);
	fclose(file);
	write_text(in_sandbox("proc/modules"), "m 512 0 - Live 0xffffffffc0000000\n"
					       "mm 512 0 - Live 0xffffffffc0000200\n"
					       "none 512 0 - Live 0xffffffffc0020000\n");
	write_note(in_sandbox("sys/kernel/notes"), "\x01\x23\x45\x67");
	write_note(in_sandbox("sys/module/m/notes/.note.gnu.build-id"), "\x89\xab\xcd\xef");
	write_note(in_sandbox("sys/module/mm/notes/.note.gnu.build-id"), "\x89\xab\xcd\xee");
	make_kcore();
	write_kcore(sizeof(kcore));
	return running_kernel_open(&running, sandbox, &error);
}

static int tear_down(void **state)
{
	running_kernel_close(&running);
	return remove_sandbox(state);
}

static int open_code(const char *name, const char *build_id, uint64_t start,
		     const uint64_t *addresses, size_t count)
{
	const struct kernel_code code = {
		.name = name,
		.build_id = build_id,
		.start = start,
		.addresses = addresses,
		.count = count,
	};

	error.text[0] = '\0';
	return kernel_code_open(&running, &code, &error);
}

static int open_kernel(uint64_t address)
{
	return open_code(KERNEL_MAPPING, "01234567", TEXT, &address, 1);
}

static int open_module(uint64_t address)
{
	return open_code("[m]", "89abcdef", MODULE, &address, 1);
}

static int open_other_module(uint64_t address)
{
	return open_code("[mm]", "89abcdee", MODULE + 0x200, &address, 1);
}

/* Reads what an fd has, which is closed, from its start. The caller frees it. */
static unsigned char *read_all(int fd, size_t *size)
{
	unsigned char *bytes;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	*size = (size_t)st.st_size;
	bytes = malloc(*size);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, *size, 0), *size);
	close(fd);
	return bytes;
}

struct segment {
	uint64_t start, size;
	const unsigned char *bytes;
};

/* Expects these segments in the file, in this order, and the contents of KCORE_PATH in them. */
static const unsigned char *expect_segments(const unsigned char *file,
					    const struct segment *segments, size_t count)
{
	const Elf64_Phdr *headers = (const void *)(file + sizeof(Elf64_Ehdr));
	uint64_t offset =
		sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr) + SECTIONS * sizeof(Elf64_Shdr);

	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr expected = {
			.p_type = PT_LOAD,
			.p_flags = PF_R | PF_X,
			.p_offset = offset,
			.p_vaddr = segments[i].start,
			.p_filesz = segments[i].size,
			.p_memsz = segments[i].size,
			.p_align = 1,
		};

		assert_memory_equal(&headers[i], &expected, sizeof(expected));
		assert_memory_equal(file + offset, segments[i].bytes, segments[i].size);
		offset += segments[i].size;
	}
	return file + offset;
}

/* Expects the headers of a file with this number of segments, whose symbols begin at an offset. */
static void expect_headers(const unsigned char *file, size_t size, size_t count, uint64_t offset)
{
	const Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = (uint16_t)count,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
	};
	const Elf64_Shdr *found = (const void *)(file + header.e_shoff);
	const uint64_t symbols_size = found[SYMBOL_SECTION].sh_size;
	const Elf64_Shdr sections[SECTIONS] = {
		[TEXT_SECTION] = {.sh_type = SHT_NOBITS,
				  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				  .sh_addr = KERNEL_CODE_START,
				  .sh_size = UINT64_MAX - KERNEL_CODE_START},
		[SYMBOL_SECTION] = {.sh_type = SHT_SYMTAB,
				    .sh_offset = offset,
				    .sh_link = STRING_SECTION,
				    .sh_entsize = sizeof(Elf64_Sym),
				    .sh_size = symbols_size},
		[STRING_SECTION] = {.sh_type = SHT_STRTAB,
				    .sh_offset = offset + symbols_size,
				    .sh_size = size - offset - symbols_size},
	};

	assert_memory_equal(file, &header, sizeof(header));
	assert_memory_equal(found, sections, sizeof(sections));
	/* Symbol 0, and the symbols of the kernel and of both modules. */
	assert_int_equal(symbols_size, (1 + 4 + FUNCTIONS_MAX + 1 + 4) * sizeof(Elf64_Sym));
}

/* Expects the symbol with a name, whose number is known. */
static void expect_symbol(const unsigned char *file, size_t number, const char *name,
			  uint64_t start, uint64_t size)
{
	const Elf64_Ehdr *header = (const void *)file;
	const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
	const uint64_t at = sections[SYMBOL_SECTION].sh_offset + number * sizeof(Elf64_Sym);
	const char *strings = (const char *)file + sections[STRING_SECTION].sh_offset;
	Elf64_Sym expected = {
		.st_info = number ? ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) : 0,
		.st_shndx = number ? TEXT_SECTION : 0,
		.st_value = start,
		.st_size = size,
	};

	/* The symbols are not aligned. */
	memcpy(&expected.st_name, file + at, sizeof(expected.st_name));
	assert_memory_equal(file + at, &expected, sizeof(expected));
	assert_string_equal(strings + expected.st_name, name);
	assert_int_equal(!expected.st_name, !number);
}

/* Each function once, in the order of addresses. */
static void functions_are_segments(void **state)
{
	/* The last byte of third(), an address of no function, one of a module. */
	static const uint64_t addresses[] = {
		TEXT + 0x80, TEXT + 0x40, TEXT + 0x81, MODULE, MANY, TEXT, TEXT + 0xf,
	};
	const struct segment segments[] = {
		{TEXT, 0x10, kcore.text},
		{TEXT + 0x40, 0x41, kcore.text + 0x40},
		{MANY, 1, kcore.text + (MANY - TEXT)},
	};
	unsigned char *file;
	size_t size;

	(void)state;
	file = read_all(open_code(KERNEL_MAPPING, "01234567", TEXT, addresses, 7), &size);
	expect_headers(file, size, 3, (uint64_t)(expect_segments(file, segments, 3) - file));
	expect_symbol(file, 0, "", 0, 0);
	expect_symbol(file, 1, "first", TEXT, 0x10);
	expect_symbol(file, 2, "second", TEXT + 0x10, 0x30);
	expect_symbol(file, 3, "third", TEXT + 0x40, 0x41);
	expect_symbol(file, 4, "zeros", ZEROS, 0x50);
	expect_symbol(file, 5, "f0", MANY, 1);
	expect_symbol(file, 5 + FUNCTIONS_MAX, "f4096", MANY + FUNCTIONS_MAX, 1);
	/* Symbols of a module, too; their sizes are not reduced. */
	expect_symbol(file, 6 + FUNCTIONS_MAX, "one", MODULE, 0x40);
	expect_symbol(file, 7 + FUNCTIONS_MAX, "two", MODULE + 0x40, 0x1c0);
	expect_symbol(file, 9 + FUNCTIONS_MAX, "gone", MODULE + 0x10000, 16 << 10);
	free(file);
}

/* Only the next function of the same module shows the end of a function. */
static void last_function_ends_at_its_filler(void **state)
{
	const struct segment one = {MODULE, 0x40, kcore.module};
	const struct segment two = {MODULE + 0x40, 0x58, kcore.module + 0x40};
	const struct segment three = {MODULE + 0x200, 0xfd, kcore.module + 0x200};
	unsigned char *file;
	size_t size;

	(void)state;
	file = read_all(open_module(MODULE + 0x3f), &size);
	expect_headers(file, size, 1, (uint64_t)(expect_segments(file, &one, 1) - file));
	free(file);
	file = read_all(open_module(MODULE + 0x40), &size);
	expect_headers(file, size, 1, (uint64_t)(expect_segments(file, &two, 1) - file));
	expect_symbol(file, 7 + FUNCTIONS_MAX, "two", MODULE + 0x40, 0x58);
	free(file);
	/* Without a filler: the end of what is there. */
	file = read_all(open_other_module(MODULE + 0x200), &size);
	expect_headers(file, size, 1, (uint64_t)(expect_segments(file, &three, 1) - file));
	free(file);
}

static void functions_are_limited(void **state)
{
	uint64_t addresses[FUNCTIONS_MAX + 1];
	unsigned char *file;
	size_t size;

	(void)state;
	for (size_t i = 0; i <= FUNCTIONS_MAX; i++)
		addresses[i] = MANY + FUNCTIONS_MAX - i;
	file = read_all(open_code(KERNEL_MAPPING, "01234567", TEXT, addresses, FUNCTIONS_MAX),
			&size);
	assert_int_equal(((const Elf64_Ehdr *)(const void *)file)->e_phnum, FUNCTIONS_MAX);
	free(file);
	assert_int_equal(open_code(KERNEL_MAPPING, "01234567", TEXT, addresses, FUNCTIONS_MAX + 1),
			 -E2BIG);
	assert_string_equal(error.text, "can't read the code of the kernel from /proc/kcore: "
					"Argument list too long");
}

static void expect_generated(int err)
{
	assert_int_equal(err, -ENOENT);
	assert_ptr_equal(strstr(error.text, "its code was generated"), error.text);
}

static void functions_are_of_the_mapping(void **state)
{
	const uint64_t address = TEXT;

	(void)state;
	expect_generated(open_kernel(TEXT - 1));
	expect_generated(open_kernel(TEXT + 0x81));
	expect_generated(open_kernel(MODULE));
	expect_generated(open_module(TEXT));
	/* The name of one module begins with the other's. */
	expect_generated(open_module(MODULE + 0x200));
	expect_generated(open_other_module(MODULE));
	/* Only a filler, and code that is not there any more. */
	expect_generated(open_kernel(ZEROS));
	expect_generated(open_other_module(MODULE + 0x10000));
	expect_generated(open_code("[bpf]", "", 0, &address, 1));
	expect_generated(open_code("[__builtin__", "", 0, &address, 1));
	expect_generated(open_code("[__builtin__ftrace]", "", 0, &address, 1));
	expect_generated(open_code(KERNEL_MAPPING, "01234567", TEXT, NULL, 0));
}

static void expect_stale(const char *name, const char *build_id, uint64_t start)
{
	const uint64_t address = TEXT;

	assert_int_equal(open_code(name, build_id, start, &address, 1), -ESTALE);
	assert_ptr_equal(strstr(error.text, "its code is not what runs here now"), error.text);
}

static void code_of_another_mapping_is_refused(void **state)
{
	(void)state;
	expect_stale(KERNEL_MAPPING, "01234568", TEXT);
	expect_stale(KERNEL_MAPPING, "", TEXT);
	expect_stale(KERNEL_MAPPING, "01234567", TEXT + 1);
	expect_stale("[m]", "89abcdee", MODULE);
	expect_stale("[other]", "89abcdef", MODULE);
	expect_stale("[bpf2]", "", MODULE);
	expect_stale("[__builtin_", "", MODULE);
	/* It has no build ID, which says nothing about its code. */
	expect_stale("[none]", "", MODULE + 0x20000);
}

static void expect_error(int err, int expected, const char *text)
{
	assert_int_equal(err, -expected);
	if (!strstr(error.text, text))
		fail_msg("'%s' is not in '%s'", text, error.text);
}

static void file_that_is_not_opened_has_a_reason(void **state)
{
	static const struct {
		int err;
		const char *text;
	} cases[] = {
		{EPERM, "from /proc/kcore: run as root, outside of a container"},
		{EACCES, "from /proc/kcore: run as root, outside of a container"},
		{ENOENT, "there is no /proc/kcore with its code here; 'objdump -d'"},
		{EMFILE, "can't read the code of the kernel from /proc/kcore: Too many open"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_errno = cases[i].err;
		expect_error(open_kernel(TEXT), cases[i].err, cases[i].text);
		open_errno = 0;
	}
	write_kcore(0);
	expect_error(open_kernel(TEXT), EINVAL, "/proc/kcore: not an ELF file; a container");
}

static void code_that_is_not_there_is_an_error(void **state)
{
	static const char text[] = "from /proc/kcore: Input/output error";
	unsigned char *file;
	size_t size;

	(void)state;
	write_kcore(offsetof(typeof(kcore), text) + 0x10);
	file = read_all(open_kernel(TEXT), &size);
	free(file);
	write_kcore(offsetof(typeof(kcore), text) + 0xf);
	expect_error(open_kernel(TEXT), EIO, text);
	/* The first that fails ends it. */
	write_kcore(offsetof(typeof(kcore), text) + 0x40);
	file = read_all(open_kernel(TEXT + 0x10), &size);
	free(file);
	expect_error(open_code(KERNEL_MAPPING, "01234567", TEXT,
			       (uint64_t[]){TEXT, TEXT + 0x40, MANY}, 3),
		     EIO, text);
	write_kcore(sizeof(kcore));
}

/* Returns the lowest free descriptor. */
static int next_descriptor(void)
{
	const int fd = dup(STDIN_FILENO);

	close(fd);
	return fd;
}

static void file_that_is_not_written_has_a_reason(void **state)
{
	const int before = next_descriptor();
	struct rlimit limit, less;

	(void)state;
	memfd_errno = ENFILE;
	expect_error(open_kernel(TEXT), ENFILE, "from /proc/kcore: Too many open files in system");
	memfd_errno = 0;
	/* Room for the headers and the code only. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	less = limit;
	less.rlim_cur = 8192;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
	expect_error(open_kernel(TEXT), EFBIG, "from /proc/kcore: File too large");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	/* The file of KCORE_PATH and the one in memory, but not another one. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = limit;
	less.rlim_cur = (rlim_t)before + 2;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	expect_error(open_kernel(TEXT), EMFILE, "from /proc/kcore: Too many open files");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(next_descriptor(), before);
}

static void hidden_addresses_have_a_reason(void **state)
{
	struct running_kernel hidden;

	(void)state;
	run("cd '%s' && mkdir -p hidden/proc && sed 's/^[0-9a-f]*/0000000000000000/' "
	    "proc/kallsyms >hidden/proc/kallsyms",
	    sandbox);
	expect_error(running_kernel_open(&hidden, in_sandbox("hidden"), &error), EPERM,
		     "the kernel hides the addresses");
	running_kernel_close(&hidden);
	assert_null(hidden.root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_segments),
		cmocka_unit_test(last_function_ends_at_its_filler),
		cmocka_unit_test(functions_are_limited),
		cmocka_unit_test(functions_are_of_the_mapping),
		cmocka_unit_test(code_of_another_mapping_is_refused),
		cmocka_unit_test(file_that_is_not_opened_has_a_reason),
		cmocka_unit_test(code_that_is_not_there_is_an_error),
		cmocka_unit_test(file_that_is_not_written_has_a_reason),
		cmocka_unit_test(hidden_addresses_have_a_reason),
	};

	return cmocka_run_group_tests_name("kernel_code", tests, set_up, tear_down);
}

// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/kernel_image.h"
#include "failing_malloc.h"
#include "lib/error.h"
#include "sandbox.h"
#include "steps.h"

/* From the sanitizer runtime; gcc does not install its header. */
size_t __sanitizer_get_current_allocated_bytes(void);

#define TEXT_SIZE(count) ((size_t)(count)*64)
#define NOBODY 65534

/* What lies over KALLSYMS_PATH, or "", which can't be opened; NULL: nothing. */
static const char *cover;

/* Replaces libc's function. */
FILE *fopen(const char *path, const char *mode)
{
	const char *opened = cover && !strcmp(path, KALLSYMS_PATH) ? cover : path;
	int flags = *mode == 'w' ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
	int fd = open(opened, flags | O_CLOEXEC, 0600);

	return fd < 0 ? NULL : fdopen(fd, mode);
}

/* The reads of standard input by several processes; NULL: they are not watched. */
struct readers {
	pid_t last; /* 0: it has reached the end */
	bool stop_first; /* at its first read */
	bool mixed; /* another one has read before */
};

static struct readers *readers;

/* Replaces libc's function. */
ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
	ssize_t got = syscall(SYS_pread64, fd, bytes, size, offset);

	if (readers && fd == STDIN_FILENO) {
		if (readers->last && readers->last != getpid())
			readers->mixed = true;
		readers->last = got > 0 ? getpid() : 0;
		if (readers->stop_first) {
			readers->stop_first = false;
			raise(SIGSTOP);
		}
		/* It would take minutes. */
		if (readers->mixed)
			_exit(1);
	}
	return got;
}

static struct kallsyms *parse(const char *text)
{
	FILE *stream = fmemopen((char *)text, strlen(text), "r");
	struct kallsyms *kallsyms = NULL;
	struct error error = {0};

	assert_non_null(stream);
	if (kallsyms_parse(stream, "test", &kallsyms, &error) != 0)
		fail_msg("%s", error.text);
	fclose(stream);
	return kallsyms;
}

static int parse_failure(const char *text, struct error *error)
{
	FILE *stream = fmemopen((char *)text, strlen(text), "r");
	struct kallsyms *kallsyms = NULL;
	int err;

	assert_non_null(stream);
	err = kallsyms_parse(stream, "test", &kallsyms, error);
	fclose(stream);
	assert_null(kallsyms);
	return err;
}

static void assert_function(const struct kallsyms *kallsyms, uint64_t address, const char *name,
			    uint64_t start, const char *module)
{
	const char *found, *found_module;
	uint64_t found_start;

	assert_true(kallsyms_lookup(kallsyms, address, &found, &found_start, &found_module));
	assert_string_equal(found, name);
	assert_int_equal(found_start, start);
	if (module)
		assert_string_equal(found_module, module);
	else
		assert_null(found_module);
}

static void assert_no_function(const struct kallsyms *kallsyms, uint64_t address)
{
	const char *name, *module;
	uint64_t start;

	assert_false(kallsyms_lookup(kallsyms, address, &name, &start, &module));
}

static void test_functions(void **state)
{
	struct kallsyms *kallsyms = parse("0000000000000000 A fixed_percpu_data\n"
					  "ffffffff81000100 T second\n"
					  "ffffffff81000000 t first\n"
					  "ffffffff81000200 W third\n"
					  "ffffffff81000300 D data\n"
					  "ffffffff81000400 T fourth\n"
					  "ffffffff81000500 T _etext\n");

	(void)state;
	assert_function(kallsyms, 0xffffffff81000000, "first", 0xffffffff81000000, NULL);
	assert_function(kallsyms, 0xffffffff810000ff, "first", 0xffffffff81000000, NULL);
	assert_function(kallsyms, 0xffffffff81000100, "second", 0xffffffff81000100, NULL);
	assert_function(kallsyms, 0xffffffff810002ff, "third", 0xffffffff81000200, NULL);
	assert_no_function(kallsyms, 0xffffffff81000300);
	assert_function(kallsyms, 0xffffffff810004ff, "fourth", 0xffffffff81000400, NULL);
	assert_no_function(kallsyms, 0xffffffff81000500);
	assert_no_function(kallsyms, 0xffffffff80ffffff);
	assert_no_function(kallsyms, 0);
	assert_no_function(kallsyms, 0x7fffffffffff);
	assert_no_function(kallsyms, UINT64_MAX);
	kallsyms_free(kallsyms);
}

static void test_aliases(void **state)
{
	struct kallsyms *kallsyms = parse("ffffffff81000000 T _stext\n"
					  "ffffffff81000000 t local\n"
					  "ffffffff81000000 W weak\n"
					  "ffffffff81000000 T global\n"
					  "ffffffff81000000 T __irqentry_text_start\n"
					  "ffffffff81000100 T __pfx_function\n"
					  "ffffffff81000100 t function\n"
					  "ffffffff81000200 T __cfi_only\n"
					  "ffffffff81000300 D data\n"
					  "ffffffff81000300 t beside_data\n"
					  "ffffffff81000400 T b\n"
					  "ffffffff81000400 T a\n"
					  "ffffffff81000500 t in_kernel\n"
					  "ffffffff81000500 T init_module\n"
					  "ffffffffc0000000 t __pfx_start\t[m]\n"
					  "ffffffffc0000000 T init_module\t[m]\n"
					  "ffffffffc0000100 t start\t[m]\n"
					  "ffffffffc0000100 T init_module\t[m]\n"
					  "ffffffffc0000200 T cleanup_module\t[m]\n"
					  "ffffffffc0000200 t stop\t[m]\n"
					  "ffffffffc0000300 T init_module\t[n]\n");

	(void)state;
	assert_function(kallsyms, 0xffffffff81000000, "global", 0xffffffff81000000, NULL);
	assert_function(kallsyms, 0xffffffff81000100, "function", 0xffffffff81000100, NULL);
	assert_function(kallsyms, 0xffffffff81000200, "__cfi_only", 0xffffffff81000200, NULL);
	assert_function(kallsyms, 0xffffffff81000300, "beside_data", 0xffffffff81000300, NULL);
	assert_function(kallsyms, 0xffffffff81000400, "a", 0xffffffff81000400, NULL);
	assert_function(kallsyms, 0xffffffff81000500, "init_module", 0xffffffff81000500, NULL);
	assert_function(kallsyms, 0xffffffffc0000000, "init_module", 0xffffffffc0000000, "m");
	assert_function(kallsyms, 0xffffffffc0000100, "start", 0xffffffffc0000100, "m");
	assert_function(kallsyms, 0xffffffffc0000200, "stop", 0xffffffffc0000200, "m");
	assert_function(kallsyms, 0xffffffffc0000300, "init_module", 0xffffffffc0000300, "n");
	kallsyms_free(kallsyms);
}

static void test_modules(void **state)
{
	struct kallsyms *kallsyms = parse("ffffffff81000000 T kernel\n"
					  "ffffffffc0000000 t a_first\t[a]\n"
					  "ffffffffc0001000 t b_first\t[b]\n"
					  "ffffffffc0001100 t b_last\t[b]\n"
					  "ffffffffc0000100 t a_last\t[a]\n"
					  "ffffffffc0100000 t bpf_prog_1\t[bpf]\n");

	(void)state;
	assert_function(kallsyms, 0xffffffffc0000050, "a_first", 0xffffffffc0000000, "a");
	assert_function(kallsyms, 0xffffffffc0000150, "a_last", 0xffffffffc0000100, "a");
	assert_function(kallsyms, 0xffffffffc0001000, "b_first", 0xffffffffc0001000, "b");
	assert_function(kallsyms, 0xffffffffc0100001, "bpf_prog_1", 0xffffffffc0100000, "bpf");
	kallsyms_free(kallsyms);
}

/* As text: each function, and its size. */
static int take_function(void *arg, const struct kallsyms_function *function)
{
	char *text = arg;
	const size_t used = strlen(text);

	snprintf(text + used, 256 - used, "%s %s %" PRIx64 " %" PRIx64 ";", function->name,
		 function->module ? function->module : "-", function->start, function->size);
	return strcmp(function->name, "last") ? 0 : -E2BIG;
}

static void test_each_function(void **state)
{
	struct kallsyms *kallsyms = parse("ffffffff81000100 D data\n"
					  "ffffffff81000000 T first\n"
					  "ffffffff81000200 T second\n"
					  "ffffffff81000240 T _etext\n"
					  "ffffffffc0000000 t of_a\t[a]\n"
					  "ffffffffc0000010 t last\t[b]\n"
					  "ffffffffc0000020 t behind\t[b]\n");
	char text[256] = "";

	(void)state;
	assert_int_equal(kallsyms_each_function(kallsyms, take_function, text), -E2BIG);
	assert_string_equal(text, "first - ffffffff81000000 100;second - ffffffff81000200 40;"
				  "of_a a ffffffffc0000000 10;last b ffffffffc0000010 10;");
	kallsyms_free(kallsyms);
	kallsyms = parse("ffffffff81000000 T only\n");
	*text = '\0';
	assert_int_equal(kallsyms_each_function(kallsyms, take_function, text), 0);
	assert_string_equal(text, "only - ffffffff81000000 4000;");
	kallsyms_free(kallsyms);
}

/* Only the next function of the same module bounds a function. */
static void test_bounds(void **state)
{
	struct kallsyms *kallsyms = parse("ffffffff81000000 T first\n"
					  "ffffffff81000100 T second\n"
					  "ffffffff81000200 D data\n"
					  "ffffffff81000300 T third\n"
					  "ffffffffc0000000 t of_a\t[a]\n");

	(void)state;
	assert_false(kallsyms_is_bounded(kallsyms, 0xffffffff80ffffff));
	assert_true(kallsyms_is_bounded(kallsyms, 0xffffffff81000000));
	assert_true(kallsyms_is_bounded(kallsyms, 0xffffffff810000ff));
	assert_false(kallsyms_is_bounded(kallsyms, 0xffffffff81000100));
	assert_false(kallsyms_is_bounded(kallsyms, 0xffffffff81000200));
	assert_false(kallsyms_is_bounded(kallsyms, 0xffffffff81000300));
	assert_false(kallsyms_is_bounded(kallsyms, 0xffffffffc0000000));
	kallsyms_free(kallsyms);
}

/* As text: each module and its page. */
static int take_module(void *arg, const char *module, uint64_t start)
{
	char *text = arg;
	const size_t used = strlen(text);

	snprintf(text + used, 256 - used, "%s %" PRIx64 ";", module, start);
	return strcmp(module, "last") ? 0 : -E2BIG;
}

static void test_pages_of_modules(void **state)
{
	static const struct {
		const char *text, *modules;
		int err;
	} cases[] = {
		{"ffffffff81000000 T k\n", "", 0},
		/* No module is below. */
		{"ffffffff9fffffff t a\t[a]\nffffffffa0000000 t b\t[b]\n", "b ffffffffa0000000;",
		 0},
		{"ffffffffc0000fff t a\t[a]\nffffffffc0001000 t a2\t[a]\n", "a ffffffffc0000000;",
		 0},
		/* Data is no code, and other symbols are of the kernel. */
		{"ffffffffc0000000 d d\t[b]\nffffffffc0000010 t a\t[a]\nffffffffc0001000 t k\n"
		 "ffffffffc0002000 t a2\t[a]\nffffffffc0003123 t b\t[b]\n",
		 "a ffffffffc0000000;a ffffffffc0002000;b ffffffffc0003000;", 0},
		{"ffffffffc0000000 t a\t[last]\nffffffffc0001000 t b\t[b]\n",
		 "last ffffffffc0000000;", -E2BIG},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kallsyms *kallsyms = parse(cases[i].text);
		char text[256] = "";

		assert_int_equal(kallsyms_each_module(kallsyms, take_module, text), cases[i].err);
		assert_string_equal(text, cases[i].modules);
		kallsyms_free(kallsyms);
	}
}

/* Code of a module that was loaded later must not get the symbols of its neighbour. */
static void test_size_of_last_function_is_limited(void **state)
{
	const uint64_t last = KALLSYMS_LAST_FUNCTION_MAX, far = KALLSYMS_FUNCTION_MAX;
	struct kallsyms *kallsyms = parse("ffffffff81000000 T kernel\n"
					  "ffffffff81800000 T same\n"
					  "ffffffffc0000000 t a\t[a]\n"
					  "ffffffffc1000000 t b\t[b]\n");

	(void)state;
	assert_function(kallsyms, 0xffffffff81000000 + far - 1, "kernel", 0xffffffff81000000, NULL);
	assert_no_function(kallsyms, 0xffffffff81000000 + far);
	assert_function(kallsyms, 0xffffffff81800000 + last - 1, "same", 0xffffffff81800000, NULL);
	assert_no_function(kallsyms, 0xffffffff81800000 + last);
	assert_function(kallsyms, 0xffffffffc0000000 + last - 1, "a", 0xffffffffc0000000, "a");
	assert_no_function(kallsyms, 0xffffffffc0000000 + last);
	assert_function(kallsyms, 0xffffffffc1000000 + last - 1, "b", 0xffffffffc1000000, "b");
	assert_no_function(kallsyms, 0xffffffffc1000000 + last);
	kallsyms_free(kallsyms);
}

static void test_module_of_the_first_symbol(void **state)
{
	struct kallsyms *kallsyms = parse("ffffffffc0000000 t a\t[m]\n"
					  "ffffffffc0000010 w b\t[m]\n"
					  "ffffffffc0000010 t c\t[m]\n"
					  "ffffffffc0000020 T __pfx_d\t[n]\n"
					  "ffffffffc0000020 t d\t[n]\n"
					  "8000000000000000 T lowest\n"
					  "7fffffffffffffff T user\n");

	(void)state;
	assert_function(kallsyms, 0xffffffffc000000f, "a", 0xffffffffc0000000, "m");
	assert_function(kallsyms, 0xffffffffc0000010, "b", 0xffffffffc0000010, "m");
	assert_function(kallsyms, 0xffffffffc0000020, "d", 0xffffffffc0000020, "n");
	assert_function(kallsyms, 0x8000000000000000, "lowest", 0x8000000000000000, NULL);
	assert_no_function(kallsyms, 0x7fffffffffffffff);
	kallsyms_free(kallsyms);
}

static void test_section_boundaries(void **state)
{
	static const char *const names[] = {"_text",       "_stext",     "_etext",
					    "_sinittext",  "_einittext", "__a_text_start",
					    "__a_text_end"};
	char text[256], longer[32];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct kallsyms *kallsyms;

		snprintf(longer, sizeof(longer), "a%s", names[i]);
		snprintf(text, sizeof(text), "ffffffff81000000 T %s\nffffffff81000010 T %s\n",
			 names[i], longer);
		kallsyms = parse(text);
		assert_no_function(kallsyms, 0xffffffff81000000);
		assert_function(kallsyms, 0xffffffff81000010, longer, 0xffffffff81000010, NULL);
		kallsyms_free(kallsyms);
	}
}

static void test_text_address(void **state)
{
	static const char text[] = "0000000000000000 A first\nno line\nffffffff81000000 T text\n"
				   "ffffffff82000000 T _text\nffffffff83000000 T _text\n";
	static const char hidden[] = "0000000000000000 T _text\n";
	uint64_t address = 0;

	(void)state;
	write_file(in_sandbox("kallsyms"), text, sizeof(text) - 1);
	assert_true(kallsyms_text(in_sandbox("kallsyms"), &address));
	assert_int_equal(address, 0xffffffff82000000);
	write_file(in_sandbox("kallsyms"), text, 32);
	assert_false(kallsyms_text(in_sandbox("kallsyms"), &address));
	write_file(in_sandbox("kallsyms"), hidden, sizeof(hidden) - 1);
	assert_false(kallsyms_text(in_sandbox("kallsyms"), &address));
	assert_false(kallsyms_text(in_sandbox("none"), &address));
}

static void test_hidden_addresses_and_missing_file(void **state)
{
	struct error error = {0};

	(void)state;
	assert_int_equal(
		parse_failure("0000000000000000 T _text\n0000000000000000 t f\t[a]\n", &error),
		-EPERM);
	assert_non_null(strstr(error.text, "kptr_restrict"));
	assert_int_equal(kallsyms_read(in_sandbox("none"), NULL, &error), -ENOENT);
	assert_non_null(strstr(error.text, in_sandbox("none")));
}

static void test_malformed_lines_are_skipped(void **state)
{
	struct kallsyms *kallsyms;
	struct error error = {0};

	(void)state;
	assert_int_equal(parse_failure("\n", &error), -ENODATA);
	assert_int_equal(parse_failure("hello\n", &error), -ENODATA);
	assert_int_equal(parse_failure("ffffffff81000000 D data\n", &error), -ENODATA);
	kallsyms = parse("\n \nffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \n"
			 "ffffffffffffffffffff T huge\nx T x\nffffffff81000000Tx\n"
			 "ffffffff8100002a\tT no_blank\nffffffff8100002c Tx no_type\n"
			 "ffffffff81000010 T good\t[\nffffffff81000020 T better [m\n"
			 "ffffffff81000028 T \t[without_name]\nffffffff81000028 T no_module\t[]\n"
			 "ffffffff81000030 T no_newline");
	assert_function(kallsyms, 0xffffffff81000028, "no_module", 0xffffffff81000028, NULL);
	assert_function(kallsyms, 0xffffffff8100002e, "no_module", 0xffffffff81000028, NULL);
	assert_function(kallsyms, 0xffffffff81000010, "good", 0xffffffff81000010, NULL);
	assert_function(kallsyms, 0xffffffff81000020, "better", 0xffffffff81000020, "m");
	assert_function(kallsyms, 0xffffffff81000030, "no_newline", 0xffffffff81000030, NULL);
	kallsyms_free(kallsyms);
}

static void test_memory_is_bounded(void **state)
{
	enum { COUNT = 200000 };
	size_t size = 0, before, after;
	char *text = malloc(TEXT_SIZE(COUNT));
	struct kallsyms *kallsyms;

	(void)state;
	assert_non_null(text);
	for (unsigned int i = 0; i < COUNT; i++)
		size += (size_t)snprintf(text + size, 64, "%016lx t a_function_of_the_kernel_%u\n",
					 0xffffffff81000000 + i * 64UL, i);
	before = __sanitizer_get_current_allocated_bytes();
	kallsyms = parse(text);
	after = __sanitizer_get_current_allocated_bytes();
	assert_true(after > before);
	assert_true(after - before < (30 << 20));
	assert_function(kallsyms, 0xffffffff81000000 + 777 * 64 + 63,
			"a_function_of_the_kernel_777", 0xffffffff81000000 + 777 * 64, NULL);
	kallsyms_free(kallsyms);
	free(text);
}

static void test_build_id(void **state)
{
	static const uint32_t notes[] = {4, 4, 0, 0x00006241, 1, 4, 4, 3, 0x00554e47, 0x04030201};
	char hex[BUILD_ID_SIZE];
	struct error error = {0};

	(void)state;
	write_file(in_sandbox("notes"), notes, sizeof(notes));
	assert_int_equal(kernel_build_id(in_sandbox("notes"), hex, &error), 0);
	assert_string_equal(hex, "01020304");
	write_file(in_sandbox("notes"), notes, 20);
	assert_int_equal(kernel_build_id(in_sandbox("notes"), hex, &error), -ENODATA);
	assert_string_equal(hex, "");
	assert_int_equal(kernel_build_id(in_sandbox("none"), hex, &error), -ENOENT);
	assert_string_equal(hex, "");
}

#define MODULES 50000u
#define STEPS_EACH 400u /* for a line of a file, or a name: characters are steps, too */

/* Writes a line for each of MODULES modules, as /proc/modules, or as /proc/kallsyms. */
static void write_modules(const char *path, bool as_kallsyms)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (unsigned int i = 0; i < MODULES; i++) {
		uint64_t address = 0xffffffffc0000000 + UINT64_C(0x1000) * i;

		if (as_kallsyms)
			fprintf(file, "%" PRIx64 " t function\t[m%u]\n", address, i);
		else
			fprintf(file, "m%u 4096 0 - Live 0x%" PRIx64 "\n", i, address);
	}
	fclose(file);
}

static void test_steps_for_names_of_modules(void **state)
{
	struct kernel *kernel;
	char name[32];
	uint64_t before;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc"));
	write_text(in_sandbox("proc/kallsyms"), "ffffffff81000000 T _text\n");
	write_modules(in_sandbox("proc/modules"), false);
	kernel = kernel_new(sandbox);
	assert_non_null(kernel);
	before = steps;
	for (unsigned int i = 0; i < MODULES; i++) {
		snprintf(name, sizeof(name), "[m%u]", i);
		assert_string_equal(kernel_mapping_by_name(kernel, name)->name, name);
	}
	assert_string_equal(kernel_mapping_by_name(kernel, KERNEL_MAPPING)->name, KERNEL_MAPPING);
	assert_null(kernel_mapping_by_name(kernel, "[other]"));
	assert_true(steps > before);
	assert_in_range(steps - before, MODULES, STEPS_EACH * MODULES);
	kernel_free(kernel);
}

static void write_note(const char *path, const char *build_id)
{
	char note[20] = {4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};

	memcpy(note + 16, build_id, 4);
	write_file(path, note, sizeof(note));
}

/* The build IDs are in /sys, for the kernel and each module. */
static void test_build_ids_of_kernel_and_modules(void **state)
{
	const uint64_t module = 0xffffffffc0000000;
	struct kernel *kernel;

	(void)state;
	run("mkdir -p %s %s %s", in_sandbox("proc"), in_sandbox("sys/kernel"),
	    in_sandbox("sys/module/one/notes"));
	write_text(in_sandbox("proc/kallsyms"), "ffffffff81000000 T _text\n");
	write_text(in_sandbox("proc/modules"), "one 4096 0 - Live 0xffffffffc0000000\n"
					       "two 4096 0 - Live 0xffffffffc0001000\n");
	write_note(in_sandbox("sys/kernel/notes"), "\x01\x23\x45\x67");
	write_note(in_sandbox("sys/module/one/notes/.note.gnu.build-id"), "\x89\xab\xcd\xef");
	kernel = kernel_new(sandbox);
	assert_non_null(kernel);
	assert_true(kernel_has_module_list(kernel));
	for (int i = 0; i < 2; i++) {
		assert_string_equal(kernel_mapping_at(kernel, module)->build_id, "89abcdef");
		assert_string_equal(kernel_mapping_at(kernel, module - 1)->build_id, "01234567");
	}
	assert_string_equal(kernel_mapping_at(kernel, module + 0xfff)->name, "[one]");
	assert_string_equal(kernel_mapping_at(kernel, module + 0x1000)->name, "[two]");
	assert_string_equal(kernel_mapping_at(kernel, module + 0x1000)->build_id, "");
	assert_string_equal(kernel_mapping_at(kernel, module + 0x2000)->name, KERNEL_MAPPING);
	assert_string_equal(kernel_mapping_by_name(kernel, "[one]")->build_id, "89abcdef");
	kernel_free(kernel);
}

static void test_steps_for_symbols_of_modules(void **state)
{
	const char *name, *module;
	struct kallsyms *kallsyms;
	struct error error;
	uint64_t start, before = steps;

	(void)state;
	write_modules(in_sandbox("many"), true);
	run("sort -k 4 -r %s >>%s", in_sandbox("many"), in_sandbox("many-twice"));
	run("sort -k 4 %s >>%s", in_sandbox("many"), in_sandbox("many-twice"));
	assert_int_equal(kallsyms_read(in_sandbox("many-twice"), &kallsyms, &error), 0);
	assert_in_range(steps - before, MODULES, STEPS_EACH * 2 * MODULES);
	assert_true(kallsyms_lookup(kallsyms, 0xffffffffc0000000 + UINT64_C(0x1000) * 777, &name,
				    &start, &module));
	assert_string_equal(module, "m777");
	kallsyms_free(kallsyms);
}

/* The order of the lines does not matter, whatever part of them ascends. */
static void test_order_of_lines(void **state)
{
	static const char *const lines[] = {
		"ffffffff81000000 t local\n",    "ffffffff81000000 T global\n",
		"ffffffff81000000 W weak\n",     "ffffffff81000100 D data\n",
		"ffffffff81000100 T beside\n",   "ffffffff81000200 T __pfx_f\n",
		"ffffffff81000200 t f\n",        "ffffffff81000300 T b\n",
		"ffffffff81000300 T a\n",        "ffffffffc0000000 t one\t[m]\n",
		"ffffffffc0000000 T two\t[m]\n", "ffffffffc0000040 t three\t[m]\n",
	};
	const size_t count = sizeof(lines) / sizeof(lines[0]);
	char text[1024];

	(void)state;
	for (size_t order = 0; order < count * count; order++) {
		struct kallsyms *kallsyms;

		/* A part is moved to the start, and every second time its order is reversed. */
		*text = '\0';
		for (size_t i = 0; i < count; i++) {
			const size_t at = (i + order) % count;

			strcat(text, lines[order / count % 2 ? count - 1 - at : at]);
		}
		kallsyms = parse(text);
		assert_function(kallsyms, 0xffffffff81000001, "global", 0xffffffff81000000, NULL);
		assert_function(kallsyms, 0xffffffff81000101, "beside", 0xffffffff81000100, NULL);
		assert_function(kallsyms, 0xffffffff81000201, "f", 0xffffffff81000200, NULL);
		assert_function(kallsyms, 0xffffffff81000301, "a", 0xffffffff81000300, NULL);
		assert_function(kallsyms, 0xffffffffc0000001, "two", 0xffffffffc0000000, "m");
		assert_function(kallsyms, 0xffffffffc0000041, "three", 0xffffffffc0000040, "m");
		kallsyms_free(kallsyms);
	}
}

/* What is there is in order, and nothing is missing, whichever allocation fails. */
static void test_order_of_lines_without_memory(void **state)
{
	static char text[] = "ffffffff81000100 T b\nffffffffc0000000 t one\t[m]\n"
			     "ffffffff81000200 T c\nffffffff81000000 T a\n";
	unsigned long failing = 1, successes = 0;
	bool has_failed = true;

	(void)state;
	for (; has_failed; failing++) {
		FILE *stream = fmemopen(text, strlen(text), "r");
		struct kallsyms *kallsyms = NULL;
		struct error error;
		int err;

		assert_non_null(stream);
		fail_malloc(failing, false);
		err = kallsyms_parse(stream, "test", &kallsyms, &error);
		has_failed = malloc_has_failed();
		fail_malloc(0, false);
		fclose(stream);
		if (err)
			continue;
		successes++;
		assert_function(kallsyms, 0xffffffff81000001, "a", 0xffffffff81000000, NULL);
		assert_function(kallsyms, 0xffffffff81000101, "b", 0xffffffff81000100, NULL);
		assert_function(kallsyms, 0xffffffff81000201, "c", 0xffffffff81000200, NULL);
		assert_function(kallsyms, 0xffffffffc0000001, "one", 0xffffffffc0000000, "m");
		kallsyms_free(kallsyms);
	}
	/* Without the memory to merge, and with all of it. */
	assert_in_range(successes, 2, failing - 2);
}

#define PACKED_BYTES_MAX 1024u

/* Copies the parts of a packed table. Returns their size. */
static size_t copy_packed(const struct kallsyms *kallsyms, struct kallsyms_packed *packed,
			  char bytes[PACKED_BYTES_MAX])
{
	struct iovec parts[KALLSYMS_PARTS];
	size_t size = 0;
	char *modules;

	assert_int_equal(kallsyms_pack(kallsyms, packed, parts, &modules), 0);
	for (size_t i = 0; i < KALLSYMS_PARTS; i++) {
		assert_int_equal(parts[i].iov_len % sizeof(uint64_t), 0);
		assert_in_range(size + parts[i].iov_len, size, PACKED_BYTES_MAX);
		memcpy(bytes + size, parts[i].iov_base, parts[i].iov_len);
		size += parts[i].iov_len;
	}
	free(modules);
	return size;
}

/* Unpacks exactly these bytes, so that the sanitizer finds any access outside. */
static struct kallsyms *unpack(const struct kallsyms_packed *packed, const char *bytes, size_t size)
{
	char *copy = malloc(size);
	struct kallsyms *kallsyms;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	kallsyms = kallsyms_unpack(packed, copy, size);
	if (!kallsyms)
		free(copy);
	return kallsyms;
}

static const char packed_text[] =
	"ffffffff81000000 T first\nffffffff81000000 t __pfx_first\n"
	"ffffffff81000100 D data\nffffffff81000200 W second\n"
	"ffffffffc0000000 t of_one\t[one]\nffffffffc0000040 t more\t[one]\n"
	"ffffffffc0001000 t of_two\t[two]\n";

static void test_packed_table_is_the_same(void **state)
{
	struct kallsyms *kallsyms = parse(packed_text), *unpacked;
	struct kallsyms_packed packed;
	char bytes[PACKED_BYTES_MAX];
	size_t size = copy_packed(kallsyms, &packed, bytes);

	(void)state;
	unpacked = unpack(&packed, bytes, size);
	assert_non_null(unpacked);
	for (uint64_t i = 0; i < 0x6000; i += 0x10) {
		const uint64_t address =
			i < 0x4000 ? 0xffffffff80fffff0 + i : 0xffffffffbffffff0 + i - 0x4000;
		const char *name, *module;
		uint64_t start;

		assert_int_equal(kallsyms_is_bounded(kallsyms, address),
				 kallsyms_is_bounded(unpacked, address));
		if (kallsyms_lookup(kallsyms, address, &name, &start, &module))
			assert_function(unpacked, address, name, start, module);
		else
			assert_no_function(unpacked, address);
	}
	kallsyms_free(kallsyms);
	kallsyms_free(unpacked);
}

/* Looks up all that a table may have. */
static void look_up_all(struct kallsyms *kallsyms)
{
	const char *name, *module;
	uint64_t start;

	for (unsigned int i = 0; kallsyms && i < 64; i++) {
		const uint64_t address = 0xffffffff81000000 + i % 32 * 0x40 +
					 (i < 32 ? 0 : 0x3effff00 + UINT64_C(0x100));

		if (kallsyms_lookup(kallsyms, address, &name, &start, &module))
			assert_in_range(strlen(name) + (module ? strlen(module) : 0), 0,
					PACKED_BYTES_MAX);
		kallsyms_is_bounded(kallsyms, address);
	}
	kallsyms_free(kallsyms);
}

/* The checksum of a file finds damage; without it, nothing is read that is not there. */
static void test_damaged_packed_table(void **state)
{
	struct kallsyms *kallsyms = parse(packed_text);
	struct kallsyms_packed packed, damaged;
	char bytes[PACKED_BYTES_MAX];
	size_t size = copy_packed(kallsyms, &packed, bytes);

	(void)state;
	kallsyms_free(kallsyms);
	for (size_t i = 0; i < size * 8; i++) {
		bytes[i / 8] ^= (char)(1 << i % 8);
		look_up_all(unpack(&packed, bytes, size));
		bytes[i / 8] ^= (char)(1 << i % 8);
	}
	for (size_t part = 8; part < size; part += 8)
		assert_null(unpack(&packed, bytes, part));
	for (size_t i = 0; i < sizeof(packed) * 8; i++) {
		damaged = packed;
		((char *)&damaged)[i / 8] ^= (char)(1 << i % 8);
		look_up_all(unpack(&damaged, bytes, size));
	}
	damaged = packed;
	damaged.count = damaged.names_size = damaged.modules_size = UINT64_MAX;
	assert_null(unpack(&damaged, bytes, size));
}

/* Reads KALLSYMS_PATH, over which another file lies, with `input` as standard input. */
static int read_covered(const char *over, const char *input, uint64_t *text)
{
	const int before = dup(STDIN_FILENO), fd = open(input, O_RDONLY | O_CLOEXEC);
	struct kallsyms *kallsyms = NULL;
	struct error error = {0};
	int err;

	assert_true(before >= 0 && fd >= 0);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	cover = over;
	err = kallsyms_read(KALLSYMS_PATH, &kallsyms, &error);
	kallsyms_free(kallsyms);
	*text = 0;
	(void)kallsyms_text(KALLSYMS_PATH, text);
	/* Nobody has moved it. */
	assert_int_equal(lseek(STDIN_FILENO, 0, SEEK_CUR), 0);
	cover = NULL;
	assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
	close(before);
	return err;
}

static void test_covered_file_is_standard_input(void **state)
{
	struct kallsyms *kallsyms = NULL;
	struct error error;
	uint64_t text, covered;

	(void)state;
	if (kallsyms_read(KALLSYMS_PATH, &kallsyms, &error))
		skip();
	kallsyms_free(kallsyms);
	assert_true(kallsyms_text(KALLSYMS_PATH, &text));
	for (int i = 0; i < 2; i++) {
		const char *over = i ? "" : "/dev/null";

		assert_int_equal(read_covered(over, KALLSYMS_PATH, &covered), 0);
		assert_int_equal(covered, text);
		/* A file that is not the kernel's. */
		assert_int_equal(read_covered(over, "/dev/null", &covered), i ? -ENOENT : -ENODATA);
		assert_int_equal(covered, 0);
	}
	/* The file itself comes first. */
	assert_int_equal(read_covered("/proc/self/maps", KALLSYMS_PATH, &covered), -ENODATA);
}

/* As systemd opens standard input: the reader may not see the addresses itself. */
static void test_standard_input_has_the_rights_of_its_opener(void **state)
{
	const int before = dup(STDIN_FILENO), fd = open(KALLSYMS_PATH, O_RDONLY | O_CLOEXEC);
	struct kallsyms *kallsyms = NULL;
	struct error error;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() || kallsyms_read(KALLSYMS_PATH, &kallsyms, &error))
		skip();
	kallsyms_free(kallsyms);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	pid = fork();
	if (!pid) {
		cover = "/dev/null";
		_exit(setresuid(NOBODY, NOBODY, NOBODY) ||
		      kallsyms_read(KALLSYMS_PATH, &kallsyms, &error));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
	close(before);
}

static pid_t start_reader(void)
{
	struct kallsyms *kallsyms = NULL;
	struct error error;
	pid_t pid = fork();

	if (!pid) {
		cover = "/dev/null";
		_exit(kallsyms_read(KALLSYMS_PATH, &kallsyms, &error) != 0);
	}
	return pid;
}

/*
 * The first one is stopped while it reads, for longer than processes wait that do not take turns,
 * and then killed.
 */
static void test_processes_read_standard_input_in_turn(void **state)
{
	const int before = dup(STDIN_FILENO), fd = open(KALLSYMS_PATH, O_RDONLY | O_CLOEXEC);
	struct kallsyms *kallsyms = NULL;
	struct error error;
	pid_t first, others[3];
	int status;

	(void)state;
	if (kallsyms_read(KALLSYMS_PATH, &kallsyms, &error))
		skip();
	kallsyms_free(kallsyms);
	assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
	close(fd);
	readers = mmap(NULL, sizeof(*readers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_ptr_not_equal(readers, MAP_FAILED);
	assert_int_equal(kallsyms_share_input(), 0);
	readers->stop_first = true;
	first = start_reader();
	assert_int_equal(waitpid(first, &status, WUNTRACED), first);
	assert_true(WIFSTOPPED(status));
	for (size_t i = 0; i < 3; i++)
		others[i] = start_reader();
	usleep(1300000);
	assert_false(readers->mixed);
	readers->last = 0;
	kill(first, SIGKILL);
	assert_int_equal(waitpid(first, &status, 0), first);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(waitpid(others[i], &status, 0), others[i]);
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	}
	assert_false(readers->mixed);
	munmap(readers, sizeof(*readers));
	readers = NULL;
	assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
	close(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_each_function),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_pages_of_modules),
		cmocka_unit_test(test_size_of_last_function_is_limited),
		cmocka_unit_test(test_module_of_the_first_symbol),
		cmocka_unit_test(test_section_boundaries),
		cmocka_unit_test(test_text_address),
		cmocka_unit_test(test_hidden_addresses_and_missing_file),
		cmocka_unit_test(test_malformed_lines_are_skipped),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_steps_for_names_of_modules),
		cmocka_unit_test(test_build_ids_of_kernel_and_modules),
		cmocka_unit_test(test_steps_for_symbols_of_modules),
		cmocka_unit_test(test_order_of_lines),
		cmocka_unit_test(test_order_of_lines_without_memory),
		cmocka_unit_test(test_packed_table_is_the_same),
		cmocka_unit_test(test_damaged_packed_table),
		cmocka_unit_test(test_covered_file_is_standard_input),
		cmocka_unit_test(test_standard_input_has_the_rights_of_its_opener),
		cmocka_unit_test(test_processes_read_standard_input_in_turn),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Compares functions and lines at all addresses with llvm-symbolizer, for programs of several
 * compilers and kinds of debug information; and reads broken files.
 */
#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/dwarf_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "debuginfo/debug_files.h"
#include "sandbox.h"

#define FLIPPED_FILES 512 /* of each program */
#define FLIPPED_BYTES 8 /* in each file */

/* A small program with functions that are inlined, nested, split in two and shared by units. */
static const char *const cpp_header =
	"#pragma once\n"
	"namespace shared {\n"
	"inline int square(int x)\n"
	"{\n"
	"	return x * x;\n"
	"}\n"
	"struct Counter {\n"
	"	int total = 0;\n"
	"	__attribute__((noinline)) void add(int x) { total += square(x) ^ (x >> 1); }\n"
	"	template <class F> int each(int n, F f)\n"
	"	{\n"
	"		for (int i = 0; i < n; i++)\n"
	"			add(f(i));\n"
	"		return total;\n"
	"	}\n"
	"};\n"
	"}\n"
	"int other(int n);\n";

static const char *const cpp_main =
	"#include \"shared.h\"\n"
	"extern \"C\" [[noreturn]] void abort(void);\n"
	"static int bad(int x)\n"
	"{\n"
	"	if (__builtin_expect(x < 0, 0))\n"
	"		abort();\n"
	"	return shared::square(x) + 1;\n"
	"}\n"
	"namespace {\n"
	"struct Hidden {\n"
	"	__attribute__((noinline)) int run(int n)\n"
	"	{\n"
	"		struct Local { __attribute__((noinline)) int go(int y) { return bad(y); } "
	"} l;\n"
	"		auto f = [&](auto x) __attribute__((noinline)) { return l.go(x) + n; };\n"
	"		shared::Counter c;\n"
	"		return c.each(n, f) + c.each(n, [](int x) { return x * 3; });\n"
	"	}\n"
	"};\n"
	"}\n"
	"int main(int argc, char **)\n"
	"{\n"
	"	Hidden h;\n"
	"	return h.run(argc) + other(argc);\n"
	"}\n";

static const char *const cpp_other = "#include \"shared.h\"\n"
				     "static volatile int sink;\n"
				     "int other(int n)\n"
				     "{\n"
				     "	shared::Counter c;\n"
				     "	sink = c.each(n, [](int x) { return x + 1; });\n"
				     "	if (n > 1000)\n"
				     "		throw n;\n"
				     "	return sink;\n"
				     "}\n";

static const char *const c_source =
	"static inline __attribute__((always_inline)) int inner(int x)\n"
	"{\n"
	"	return x * x + 3;\n"
	"}\n"
	"static inline __attribute__((always_inline)) int middle(int x)\n"
	"{\n"
	"	return inner(x) ^ inner(x + 1);\n"
	"}\n"
	"__attribute__((noinline)) int outer(int n)\n"
	"{\n"
	"	int i, s = 0;\n"
	"\n"
	"	for (i = 0; i < n; i++)\n"
	"		s += middle(i);\n"
	"	return s;\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	(void)argv;\n"
	"	return outer(argc);\n"
	"}\n";

static const char *const rust_source =
	"#[inline(always)] fn mix(x: u64) -> u64 { x.wrapping_mul(0x9E3779B97F4A7C15) ^ (x >> 7) "
	"}\n"
	"struct Counter { seen: std::collections::BTreeMap<u64, u64> }\n"
	"impl Counter {\n"
	"    #[inline(never)]\n"
	"    fn add(&mut self, x: u64) { *self.seen.entry(mix(x) % 97).or_insert(0) += 1; }\n"
	"}\n"
	"fn main() {\n"
	"    let mut c = Counter { seen: Default::default() };\n"
	"    for i in 0..std::env::args().count() as u64 { c.add(i); }\n"
	"    std::process::exit(c.seen.values().map(|v| mix(*v)).sum::<u64>() as i32);\n"
	"}\n";

static const char *const go_source = "package main\n"
				     "import \"os\"\n"
				     "func mix(x int) int { return x*7 ^ x>>3 }\n"
				     "type t struct{ total int }\n"
				     "//go:noinline\n"
				     "func (c *t) add(x int) { c.total += mix(x) }\n"
				     "func main() {\n"
				     "	c := &t{}\n"
				     "	for i := range os.Args { func() { c.add(i) }() }\n"
				     "	os.Exit(c.total)\n"
				     "}\n";

/* Frames of addresses, in the format of llvm-symbolizer. */

struct answers {
	char **strings;
	size_t count;
};

static void free_answers(struct answers *answers)
{
	for (size_t i = 0; i < answers->count; i++)
		free(answers->strings[i]);
	free(answers->strings);
}

static void find_text_section(const char *path, uint64_t *start, uint64_t *size)
{
	char command[PATH_MAX + 64], line[512];
	bool found = false;
	FILE *pipe;

	snprintf(command, sizeof(command), "readelf -SW '%s' 2>/dev/null", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		const char *name = strstr(line, " .text ");

		found = found || (name && sscanf(name, " .text %*s %" SCNx64 " %*s %" SCNx64, start,
						 size) == 2);
	}
	pclose(pipe);
	assert_true(found);
}

/* Returns all addresses of .text, or evenly spaced ones if there are too many. */
static uint64_t *all_addresses(const char *path, size_t *count)
{
	const size_t most = 20000;
	uint64_t start, size, *vaddrs;
	size_t step;

	find_text_section(path, &start, &size);
	step = size / most + 1;
	*count = (size + step - 1) / step;
	vaddrs = calloc(*count, sizeof(*vaddrs));
	assert_non_null(vaddrs);
	for (size_t i = 0; i < *count; i++)
		vaddrs[i] = start + i * step;
	return vaddrs;
}

/* Prints a path without "./", "x/../" and "//", which tools write differently. */
static void print_path(FILE *stream, const char *path)
{
	char clean[PATH_MAX], *end = clean, *slash;
	size_t length;

	*end = '\0';
	for (; *path; path += length) {
		length = strcspn(path, "/");
		if (length == 0) {
			if (end == clean) {
				*end++ = '/';
				*end = '\0';
			}
			length = 1;
			continue;
		}
		if (length == 1 && *path == '.')
			continue;
		if (length == 2 && !strncmp(path, "..", 2) && end > clean + 1) {
			slash = strrchr(clean, '/');
			end = slash ? slash : clean;
			*end = '\0';
			continue;
		}
		if (end > clean && end[-1] != '/')
			*end++ = '/';
		end = mempcpy(end, path, length);
		*end = '\0';
	}
	fputs(clean, stream);
}

static int add_answer(void *arg, size_t index, const struct dwarf_frame *frames, size_t count)
{
	struct answers *answers = arg;
	size_t size;
	FILE *stream;

	assert_true(index < answers->count);
	assert_null(answers->strings[index]);
	stream = open_memstream(&answers->strings[index], &size);
	assert_non_null(stream);
	if (count == 0)
		fputs("?? ??:0\n", stream);
	for (size_t i = 0; i < count; i++) {
		const char *name = frames[i].linkage_name ? frames[i].linkage_name : frames[i].name;

		fprintf(stream, "%s ", name ? name : "??");
		print_path(stream, frames[i].file ? frames[i].file : "??");
		fprintf(stream, ":%" PRIu32 "\n", frames[i].line);
	}
	assert_int_equal(fclose(stream), 0);
	return 0;
}

/* Reads "FUNCTION\nFILE:LINE:COLUMN\n" ... up to an empty line. */
static char *read_answer(FILE *pipe)
{
	char function[8192], place[8192], *text, *colon;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	while (fgets(function, sizeof(function), pipe) && *function != '\n') {
		assert_non_null(fgets(place, sizeof(place), pipe));
		function[strcspn(function, "\n")] = '\0';
		colon = strrchr(place, ':');
		assert_non_null(colon);
		*colon = '\0';
		colon = strrchr(place, ':');
		assert_non_null(colon);
		*colon = '\0';
		fprintf(stream, "%s ", function);
		print_path(stream, place);
		fprintf(stream, ":%s\n", colon + 1);
	}
	assert_int_equal(fclose(stream), 0);
	return text;
}

/* Runs llvm-symbolizer without a symbol table: it would prefer the names of symbols. */
static struct answers get_llvm_answers(const char *path, const uint64_t *vaddrs, size_t count)
{
	struct answers answers = {calloc(count, sizeof(char *)), count};
	const char *addresses = in_sandbox("addresses"), *reference = in_sandbox("reference");
	FILE *file = fopen(addresses, "w"), *pipe;
	char command[2 * PATH_MAX + 128];

	assert_non_null(answers.strings);
	assert_non_null(file);
	for (size_t i = 0; i < count; i++)
		fprintf(file, "%#" PRIx64 "\n", vaddrs[i]);
	assert_int_equal(fclose(file), 0);
	run("objcopy --wildcard --strip-symbol='*' '%s' '%s' 2>/dev/null", path, reference);
	snprintf(command, sizeof(command),
		 "llvm-symbolizer --no-demangle --inlines -e '%s' <'%s' 2>/dev/null", reference,
		 addresses);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	for (size_t i = 0; i < count; i++)
		answers.strings[i] = read_answer(pipe);
	assert_int_equal(pclose(pipe), 0);
	return answers;
}

static int open_in_sandbox(void *arg, enum debug_name kind, const char *name, const char *beside,
			   unsigned int *candidate, char **path)
{
	const char *directory = in_sandbox("debug");
	const struct debug_paths paths = {&directory, 1};

	(void)arg;
	return debug_paths_open(&paths, kind, name, beside, candidate, path);
}

/* Looks up addresses of a file, with debug files in the sandbox's directory "debug". */
static struct answers get_our_answers(const char *path, const uint64_t *vaddrs, size_t count)
{
	struct answers answers = {calloc(count, sizeof(char *)), count};
	const struct debug_search search = {.open = open_in_sandbox};
	struct dwarf_lookup *lookup;
	struct debug_files files;
	struct error error = {""};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_non_null(answers.strings);
	assert_int_equal(debug_files_open(&files, fd, path, "", &search, &error), 0);
	assert_string_equal(files.problem.text, "");
	assert_non_null(files.dwarf);
	if (dwarf_lookup_open(files.dwarf, files.alt.elf, NULL, &lookup, &error) != 0)
		fail_msg("%s: %s", path, error.text);
	assert_int_equal(dwarf_lookup_each(lookup, vaddrs, count, add_answer, &answers), 0);
	dwarf_lookup_close(lookup);
	debug_files_close(&files);
	close(fd);
	return answers;
}

static void compare_answers(const struct answers *ours, const struct answers *theirs,
			    const uint64_t *vaddrs)
{
	size_t known = 0;

	for (size_t i = 0; i < ours->count; i++) {
		assert_non_null(ours->strings[i]);
		if (strcmp(ours->strings[i], theirs->strings[i]))
			fail_msg("at %#" PRIx64 ": we say\n%sand llvm-symbolizer\n%s", vaddrs[i],
				 ours->strings[i], theirs->strings[i]);
		known += *ours->strings[i] != '?';
	}
	assert_true(known >= 40);
}

/* `path` must give the same result as `reference`, which has all debug information in itself. */
static void check_against(const char *path, const char *reference)
{
	struct answers ours, theirs;
	uint64_t *vaddrs;
	size_t count;

	vaddrs = all_addresses(reference, &count);
	ours = get_our_answers(path, vaddrs, count);
	theirs = get_llvm_answers(reference, vaddrs, count);
	compare_answers(&ours, &theirs, vaddrs);
	free_answers(&ours);
	free_answers(&theirs);
	free(vaddrs);
}

/* Programs */

static void write_sources(void)
{
	write_text(in_sandbox("shared.h"), cpp_header);
	write_text(in_sandbox("main.cc"), cpp_main);
	write_text(in_sandbox("other.cc"), cpp_other);
	write_text(in_sandbox("source.c"), c_source);
	write_text(in_sandbox("source.rs"), rust_source);
	write_text(in_sandbox("source.go"), go_source);
}

static int set_up(void **state)
{
	if (make_sandbox(state) != 0)
		return -1;
	write_sources();
	return 0;
}

static const char *build(const char *compiler, const char *options)
{
	const char *path = in_sandbox("program");
	bool is_cpp = strstr(compiler, "++");

	run("cd '%s' && rm -rf program debug .debug && %s %s -o program %s 2>/dev/null", sandbox,
	    compiler, options, is_cpp ? "main.cc other.cc" : "source.c");
	return path;
}

static void test_compilers(void **state)
{
	static const char *const compilers[] = {"gcc", "g++", "clang", "clang++"};
	static const char *const options[] = {
		"-gdwarf-4 -O0",
		"-gdwarf-4 -O2",
		"-gdwarf-5 -O0",
		"-gdwarf-5 -O2",
		"-gdwarf-5 -O2 -ffunction-sections -Wl,--gc-sections",
		"-gdwarf-5 -O2 -gz=zlib",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		for (size_t k = 0; k < sizeof(options) / sizeof(*options); k++) {
			const char *path = build(compilers[i], options[k]);

			check_against(path, path);
		}
	}
}

static void test_kinds_of_dwarf(void **state)
{
	static const char *const options[] = {
		"-g -O2 -flto",
		"-gdwarf-3 -O2",
		"-g -gdwarf64 -O2",
		"-g -O2 -gz",
		"-gdwarf-4 -O2 -gz=zlib-gnu",
		"-g -O2 -fdebug-types-section",
		"-g1 -O2",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const char *path = build("g++", options[i]);

		check_against(path, path);
	}
}

/* Functions of three units, inlined in each other by the linker: their files are of another unit.
 */
static void test_files_of_other_units(void **state)
{
	const char *path = in_sandbox("program");

	(void)state;
	write_text(in_sandbox("one.h"), "static inline int add(int x) { return x * x + 3; }\n");
	write_text(in_sandbox("one.c"),
		   "#include \"one.h\"\n\n"
		   "extern volatile int sink;\n"
		   "int one(int x) { sink = x; sink += add(x); return sink; }\n");
	write_text(in_sandbox("two.c"),
		   "\n\nextern volatile int sink;\n"
		   "int two(int x) { sink = x * 7; sink ^= x; return sink; }\n");
	write_text(in_sandbox("three.c"), "int one(int x), two(int x);\n"
					  "volatile int sink;\n"
					  "int main(int count, char **v)\n"
					  "{\n"
					  "	(void)v;\n"
					  "	sink = one(count); sink = two(count);\n"
					  "	sink = one(sink); sink = two(sink);\n"
					  "	return sink;\n"
					  "}\n");
	run("cd '%s' && gcc -g -O2 -flto=auto -o program one.c two.c three.c", sandbox);
	check_against(path, path);
}

static uint64_t symbol_value(const char *path, const char *symbol)
{
	char command[PATH_MAX + 128];
	uint64_t value;
	FILE *pipe;

	snprintf(command, sizeof(command), "nm '%s' | awk '$3 == \"%s\" {print $1}'", path, symbol);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%" SCNx64, &value), 1);
	pclose(pipe);
	return value;
}

static void test_section_of_one_byte(void **state)
{
	const char *path = in_sandbox("program");
	struct answers answers;
	uint64_t vaddrs[2];

	(void)state;
	write_text(in_sandbox("byte.c"),
		   "__attribute__((naked, section(\"one_byte\"))) void byte(void)\n"
		   "{\n"
		   "	__asm__(\"ret\");\n"
		   "}\n"
		   "int main(void) { byte(); return 0; }\n");
	run("cd '%s' && gcc -g -O1 -fcf-protection=none -o program byte.c", sandbox);
	vaddrs[0] = symbol_value(path, "byte");
	vaddrs[1] = symbol_value(path, "main");
	answers = get_our_answers(path, vaddrs, 2);
	assert_non_null(strstr(answers.strings[0], "byte "));
	assert_non_null(strstr(answers.strings[0], "byte.c:3\n"));
	assert_non_null(strstr(answers.strings[1], "byte.c:5\n"));
	free_answers(&answers);
}

static void test_code_at_address_0(void **state)
{
	const uint64_t vaddrs[] = {3, 0, 1};
	struct answers answers;

	(void)state;
	write_text(in_sandbox("zero.c"), "__attribute__((naked)) void zero(void)\n"
					 "{\n"
					 "	__asm__(\"nop; nop\");\n"
					 "	__asm__(\"nop; nop\");\n"
					 "}\n");
	run("cd '%s' && gcc -g -fcf-protection=none -shared -nostdlib -Wl,-Ttext=0 -o program "
	    "zero.c",
	    sandbox);
	answers = get_our_answers(in_sandbox("program"), vaddrs, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_non_null(strstr(answers.strings[i], "zero "));
		assert_non_null(strstr(answers.strings[i], i ? "zero.c:3\n" : "zero.c:4\n"));
	}
	free_answers(&answers);
}

static void test_32_bit(void **state)
{
	const char *path = in_sandbox("program");

	(void)state;
	run("cd '%s' && gcc -m32 -g -O2 -nostdlib -Wl,-e,main -o program source.c", sandbox);
	check_against(path, path);
}

static void test_rust(void **state)
{
	const char *path = in_sandbox("program");

	(void)state;
	run("cd '%s' && rustc -g -O -o program source.rs", sandbox);
	check_against(path, path);
	run("cd '%s' && rustc -g -O -C symbol-mangling-version=v0 -o program source.rs", sandbox);
	check_against(path, path);
}

static void test_go(void **state)
{
	const char *path = in_sandbox("program");

	(void)state;
	/* With its standard library compiled once. */
	run("export GO111MODULE=off GOFLAGS= GOCACHE=\"$(realpath -m \"${B:-build}\")/go-cache\" "
	    "&& "
	    "cd '%s' && go build -o program source.go",
	    sandbox);
	check_against(path, path);
}

/* Separate debug files */

static void split_debug_file(const char *options)
{
	run("cd '%s' && cp program whole && objcopy --only-keep-debug %s program program.debug && "
	    "strip program",
	    sandbox, options);
}

static void build_id_path(const char *path, char *part)
{
	char command[PATH_MAX + 64];
	char id[128];
	FILE *pipe;

	snprintf(command, sizeof(command), "readelf -n '%s' | sed -n 's/.*Build ID: //p'", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%127s", id), 1);
	pclose(pipe);
	sprintf(part, ".build-id/%.2s/%s.debug", id, id + 2);
}

static void test_debug_file_by_build_id(void **state)
{
	const char *path = build("g++", "-g -O2");
	char part[256];

	(void)state;
	split_debug_file("");
	build_id_path(path, part);
	run("cd '%s' && install -D program.debug 'debug/%s'", sandbox, part);
	check_against(path, in_sandbox("whole"));
	run("cd '%s' && objcopy --compress-debug-sections program.debug 'debug/%s'", sandbox, part);
	check_against(path, in_sandbox("whole"));
}

static void test_debug_file_by_link(void **state)
{
	static const char *const places[] = {"", ".debug/", "debug%s/"};
	const char *path;

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		for (int with_id = 0; with_id <= 1; with_id++) {
			char place[128];

			path = build("g++", with_id ? "-g -O2" : "-g -O2 -Wl,--build-id=none");
			split_debug_file("--compress-debug-sections");
			snprintf(place, sizeof(place), "debug%s/", sandbox);
			if (i < 2)
				strcpy(place, places[i]);
			run("cd '%s' && objcopy --add-gnu-debuglink=program.debug program && "
			    "mkdir -p './%s' && mv program.debug './%s.moved' && "
			    "mv './%s.moved' './%sprogram.debug'",
			    sandbox, place, place, place, place);
			check_against(path, in_sandbox("whole"));
			run("rm -f '%s/%sprogram.debug'", sandbox, place);
		}
	}
}

static void test_dwz(void **state)
{
	static const char *const options[] = {"-gdwarf-4 -O2", "-gdwarf-5 -O2"};
	char part[256];

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		const char *path = build("g++", options[i]);

		run("cd '%s' && cp program whole && cp program second && rm -f common && "
		    "dwz -m common -M common program second",
		    sandbox);
		check_against(path, in_sandbox("whole"));
		build_id_path(in_sandbox("common"), part);
		run("cd '%s' && install -D common 'debug/%s' && rm common", sandbox, part);
		check_against(path, in_sandbox("whole"));
	}
}

/* Rejected files */

static void open_debug_files(struct debug_files *files, const char *path, const char *build_id)
{
	const struct debug_search search = {.open = open_in_sandbox};
	struct error error = {""};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (debug_files_open(files, fd, path, build_id, &search, &error) != 0)
		fail_msg("%s", error.text);
	close(fd);
}

static void expect_no_dwarf(const char *path, const char *why)
{
	struct debug_files files;
	const char *said;

	open_debug_files(&files, path, "");
	assert_null(files.dwarf);
	said = *files.problem.text ? files.problem.text : files.missing.text;
	if (!strstr(said, why))
		fail_msg("\"%s\" does not say \"%s\"", said, why);
	debug_files_close(&files);
}

static void test_binary_with_other_build_id_is_rejected(void **state)
{
	const char *path = build("gcc", "-g");
	const struct debug_search search = {.open = open_in_sandbox};
	struct debug_files files;
	struct error error;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(debug_files_open(&files, fd, path, "0123456789abcdef", &search, &error),
			 -ESTALE);
	assert_non_null(strstr(error.text, "not 0123456789abcdef"));
	close(fd);
}

static void test_mismatching_debug_files_are_rejected(void **state)
{
	const char *path = build("gcc", "-g");
	char part[256];

	(void)state;
	split_debug_file("");
	build_id_path(path, part);
	run("cd '%s' && gcc -g -O1 -o another source.c && install -D another 'debug/%s'", sandbox,
	    part);
	expect_no_dwarf(path, "has build ID");
	run("cd '%s' && gcc -g -Wl,--build-id=none -o another source.c && cp another 'debug/%s'",
	    sandbox, part);
	expect_no_dwarf(path, "has no build ID");
	run("cd '%s' && gcc -m32 -g -nostdlib -Wl,-e,main -o another source.c && "
	    "cp another 'debug/%s'",
	    sandbox, part);
	expect_no_dwarf(path, "another machine");
	run("cd '%s' && rm 'debug/%s' && mkfifo 'debug/%s'", sandbox, part, part);
	expect_no_dwarf(path, "not a regular file");
	run("cd '%s' && rm 'debug/%s' && echo text >'debug/%s'", sandbox, part, part);
	expect_no_dwarf(path, "not an ELF file");
}

static void test_wrong_checksum_is_rejected(void **state)
{
	const char *path = build("gcc", "-g -Wl,--build-id=none");

	(void)state;
	split_debug_file("");
	run("cd '%s' && objcopy --add-gnu-debuglink=program.debug program && "
	    "printf x >>program.debug",
	    sandbox);
	expect_no_dwarf(path, "checksum");
}

static void test_missing_dwz_file_is_reported(void **state)
{
	const char *path = build("g++", "-g -O2");

	(void)state;
	run("cd '%s' && cp program second && rm -f common && dwz -m common -M common program "
	    "second "
	    "&& rm common",
	    sandbox);
	expect_no_dwarf(path, "which was not found");
}

static void test_missing_debug_information_is_reported(void **state)
{
	const char *path = build("gcc", "-Wl,--build-id=none");
	struct debug_files files;

	(void)state;
	open_debug_files(&files, path, "");
	assert_null(files.dwarf);
	assert_string_equal(files.problem.text, "");
	assert_non_null(strstr(files.missing.text, "has no debug information"));
	debug_files_close(&files);
}

static void test_mini_debug_information(void **state)
{
	const char *path = build("gcc", "-g");
	struct debug_files files;

	(void)state;
	run("cd '%s' && objcopy -S --keep-symbol=outer program mini && "
	    "nm program | awk '$2 == \"T\" {print $3}' >keep && "
	    "objcopy --strip-debug --keep-symbols=keep program mini && xz -kf mini && strip "
	    "program && "
	    "objcopy --add-section .gnu_debugdata=mini.xz program",
	    sandbox);
	open_debug_files(&files, path, "");
	assert_non_null(files.mini.elf);
	debug_files_close(&files);
	run("cd '%s' && head -c 100 mini.xz >short.xz && "
	    "objcopy --update-section .gnu_debugdata=short.xz program",
	    sandbox);
	open_debug_files(&files, path, "");
	assert_null(files.mini.elf);
	assert_non_null(strstr(files.problem.text, "broken mini debug information"));
	debug_files_close(&files);
}

/* Start lines */

static int check_start(void *arg, size_t index, const struct dwarf_frame *frames, size_t count)
{
	static const struct {
		const char *name;
		uint32_t line;
	} known[] = {{"inner", 1}, {"middle", 5}, {"outer", 9}, {"main", 17}};
	size_t *seen = arg;

	(void)index;
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) {
			if (!frames[i].name || strcmp(frames[i].name, known[k].name))
				continue;
			assert_int_equal(frames[i].start_line, known[k].line);
			assert_true((frames[i].start != 0) == (i + 1 == count));
			seen[k]++;
		}
	}
	return 0;
}

static void test_start_lines(void **state)
{
	const char *path = build("gcc", "-g -O2");
	struct dwarf_lookup *lookup;
	struct debug_files files;
	size_t count, seen[4] = {0};
	uint64_t *vaddrs = all_addresses(path, &count);

	(void)state;
	open_debug_files(&files, path, "");
	assert_int_equal(dwarf_lookup_open(files.dwarf, NULL, NULL, &lookup, NULL), 0);
	assert_int_equal(dwarf_lookup_each(lookup, vaddrs, count, check_start, seen), 0);
	for (size_t i = 0; i < 4; i++)
		assert_true(seen[i] > 0);
	dwarf_lookup_close(lookup);
	debug_files_close(&files);
	free(vaddrs);
}

/* Known contents of sections */

static struct answers answers_of(const struct debug_files *files,
				 const struct dwarf_contents *known,
				 struct dwarf_contents *contents, const uint64_t *vaddrs,
				 size_t count)
{
	struct answers answers = {calloc(count, sizeof(char *)), count};
	struct dwarf_lookup *lookup;

	assert_non_null(answers.strings);
	assert_int_equal(dwarf_lookup_open(files->dwarf, NULL, known, &lookup, NULL), 0);
	dwarf_lookup_contents(lookup, contents);
	assert_int_equal(dwarf_lookup_each(lookup, vaddrs, count, add_answer, &answers), 0);
	dwarf_lookup_close(lookup);
	return answers;
}

static void test_known_contents_are_used(void **state)
{
	const char *path = build("gcc", "-gdwarf-5 -O2 -gz=zlib");
	struct dwarf_contents contents[DWARF_FILES], known[DWARF_FILES] = {0}, used[DWARF_FILES];
	struct debug_files first_files, files;
	struct answers first, second;
	size_t count, compressed = 0;
	uint64_t *vaddrs = all_addresses(path, &count);

	(void)state;
	open_debug_files(&first_files, path, "");
	first = answers_of(&first_files, NULL, contents, vaddrs, count);
	for (size_t i = 0; i < SECTIONS; i++)
		compressed += contents[0].sections[i].data != NULL;
	assert_in_range(compressed, 3, SECTIONS);
	assert_null(contents[1].sections[SECTION_INFO].data);
	open_debug_files(&files, path, "");
	second = answers_of(&files, contents, used, vaddrs, count);
	assert_memory_equal(used, contents, sizeof(used));
	for (size_t i = 0; i < count; i++)
		assert_string_equal(first.strings[i], second.strings[i]);
	debug_files_close(&files);
	free_answers(&second);
	/* Of some, the contents are unknown. */
	known[0].sections[SECTION_LINE] = contents[0].sections[SECTION_LINE];
	open_debug_files(&files, path, "");
	second = answers_of(&files, known, used, vaddrs, count);
	assert_ptr_equal(used[0].sections[SECTION_LINE].data, known[0].sections[SECTION_LINE].data);
	assert_ptr_not_equal(used[0].sections[SECTION_INFO].data,
			     contents[0].sections[SECTION_INFO].data);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(first.strings[i], second.strings[i]);
	debug_files_close(&files);
	debug_files_close(&first_files);
	free_answers(&first);
	free_answers(&second);
	/* A file without compressed sections has none. */
	path = build("gcc", "-g -O2 -gz=none");
	open_debug_files(&files, path, "");
	second = answers_of(&files, NULL, contents, vaddrs, count);
	for (size_t i = 0; i < SECTIONS; i++)
		assert_null(contents[0].sections[i].data);
	debug_files_close(&files);
	free_answers(&second);
	free(vaddrs);
}

/* Broken files: any result is fine, but no crash */

static int read_frames(void *arg, size_t index, const struct dwarf_frame *frames, size_t count)
{
	size_t *sum = arg;

	(void)index;
	for (size_t i = 0; i < count; i++) {
		if (frames[i].name)
			*sum += strlen(frames[i].name);
		if (frames[i].linkage_name)
			*sum += strlen(frames[i].linkage_name);
		if (frames[i].file)
			*sum += strlen(frames[i].file);
	}
	return 0;
}

static void look_up_any(const char *path, const uint64_t *vaddrs, size_t count)
{
	const struct debug_search search = {.open = open_in_sandbox};
	struct dwarf_lookup *lookup;
	struct debug_files files;
	struct error error;
	size_t sum = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (debug_files_open(&files, fd, path, "", &search, &error) == 0) {
		if (files.dwarf &&
		    dwarf_lookup_open(files.dwarf, files.alt.elf, NULL, &lookup, &error) == 0) {
			assert_int_equal(
				dwarf_lookup_each(lookup, vaddrs, count, read_frames, &sum), 0);
			dwarf_lookup_close(lookup);
		}
		debug_files_close(&files);
	}
	close(fd);
}

static void test_survives_truncation(void **state)
{
	const char *path = build("g++", "-g -O2"), *truncated = in_sandbox("cut");
	size_t size, count;
	uint64_t *vaddrs = all_addresses(path, &count);
	unsigned char *bytes = read_bytes(path, &size);

	(void)state;
	for (size_t i = 0; i < 64; i++) {
		write_file(truncated, bytes, size * i / 64);
		look_up_any(truncated, vaddrs, count);
	}
	free(bytes);
	free(vaddrs);
}

/* Gets the range of the debug sections by readelf. Other tests break the rest of the file. */
static void debug_sections(const char *path, size_t *start, size_t *end)
{
	char command[PATH_MAX + 64], line[512];
	unsigned long offset, size;
	FILE *pipe;

	*start = SIZE_MAX;
	*end = 0;
	snprintf(command, sizeof(command), "readelf -SW '%s'", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		const char *name = strstr(line, " .debug_");

		if (!name || sscanf(name, "%*s %*s %*s %lx %lx", &offset, &size) != 2)
			continue;
		*start = offset < *start ? offset : *start;
		*end = offset + size > *end ? offset + size : *end;
	}
	pclose(pipe);
	assert_true(*start < *end);
}

static void check_flipped(const char *path, bool everywhere)
{
	const char *flipped = in_sandbox("flipped");
	size_t size, count, start, end;
	uint64_t *vaddrs = all_addresses(path, &count);
	unsigned char *bytes = read_bytes(path, &size), *copy = malloc(size);

	assert_non_null(copy);
	debug_sections(path, &start, &end);
	if (everywhere) {
		start = 0;
		end = size;
	}
	srandom(1);
	for (size_t i = 0; i < FLIPPED_FILES; i++) {
		memcpy(copy, bytes, size);
		for (size_t k = 0; k < FLIPPED_BYTES; k++)
			copy[start + (size_t)random() % (end - start)] = (unsigned char)random();
		write_file(flipped, copy, size);
		look_up_any(flipped, vaddrs, count > 512 ? 512 : count);
	}
	free(copy);
	free(bytes);
	free(vaddrs);
}

static void test_survives_flipped_bytes(void **state)
{
	(void)state;
	check_flipped(build("g++", "-gdwarf-5 -O2"), false);
	check_flipped(build("g++", "-gdwarf-4 -O2"), false);
	check_flipped(build("clang++", "-gdwarf-5 -O2"), false);
	check_flipped(build("gcc", "-gdwarf-5 -O2"), true);
}

/* Entries refer to each other. */
static void test_survives_circular_references(void **state)
{
	static const char *const assembly =
		".text\n.globl main\n.type main, @function\nmain: .skip 32, 0x90\n"
		".size main, 32\n.section .debug_abbrev,\"\",@progbits\n"
		".uleb128 1, 0x11\n.byte 1\n.uleb128 0x11, 1, 0x12, 6, 0, 0\n"
		".uleb128 2, 0x2e\n.byte 0\n.uleb128 0x11, 1, 0x12, 6, 0x31, 0x13, 1, 0x13, 0, 0\n"
		".byte 0\n"
		".section .debug_info,\"\",@progbits\n"
		"start: .long end - begin\nbegin: .value 4\n.long .debug_abbrev\n.byte 8\n"
		".uleb128 1\n.quad main\n.long 32\n"
		"first: .uleb128 2\n.quad main\n.long 16\n.long second - start, second - start\n"
		"second: .uleb128 2\n.quad main + 16\n.long 16\n.long first - start, first - "
		"start\n"
		".byte 0\nend:\n";
	const char *path = in_sandbox("circle");
	size_t count;
	uint64_t *vaddrs;

	(void)state;
	write_text(in_sandbox("circle.s"), assembly);
	run("cd '%s' && gcc -nostdlib -static -Wl,-e,main -o circle circle.s", sandbox);
	vaddrs = all_addresses(path, &count);
	look_up_any(path, vaddrs, count);
	free(vaddrs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compilers),
		cmocka_unit_test(test_kinds_of_dwarf),
		cmocka_unit_test(test_files_of_other_units),
		cmocka_unit_test(test_section_of_one_byte),
		cmocka_unit_test(test_code_at_address_0),
		cmocka_unit_test(test_32_bit),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_debug_file_by_build_id),
		cmocka_unit_test(test_debug_file_by_link),
		cmocka_unit_test(test_dwz),
		cmocka_unit_test(test_binary_with_other_build_id_is_rejected),
		cmocka_unit_test(test_mismatching_debug_files_are_rejected),
		cmocka_unit_test(test_wrong_checksum_is_rejected),
		cmocka_unit_test(test_missing_dwz_file_is_reported),
		cmocka_unit_test(test_missing_debug_information_is_reported),
		cmocka_unit_test(test_mini_debug_information),
		cmocka_unit_test(test_start_lines),
		cmocka_unit_test(test_known_contents_are_used),
		cmocka_unit_test(test_survives_truncation),
		cmocka_unit_test(test_survives_flipped_bytes),
		cmocka_unit_test(test_survives_circular_references),
	};

	return cmocka_run_group_tests(tests, set_up, remove_sandbox);
}

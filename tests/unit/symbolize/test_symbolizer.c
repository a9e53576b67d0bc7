// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbolizer.h"

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "fake_kernel_records.h"
#include "sandbox.h"
#include "worker_server.h"

static struct fake_files files;
static struct mapped_files *mapped;
static struct address_spaces *spaces;
static struct symbolizer *symbolizer;
static struct kallsyms *kallsyms;
static struct kernel *kernel;

static bool make_tables(void)
{
	const struct file_source source = fake_source(&files);

	files = (struct fake_files){.count = 0};
	mapped = mapped_files_new(sandbox, &source, NULL);
	spaces = address_spaces_new(sandbox, mapped, NULL);
	kernel = kernel_new(sandbox);
	symbolizer = symbolizer_new(kallsyms, kernel, mapped, sandbox, NULL);
	return kernel && mapped && spaces && symbolizer;
}

static void free_tables(void)
{
	symbolizer_free(symbolizer);
	kernel_free(kernel);
	address_spaces_free(spaces);
	mapped_files_free(mapped);
	fake_clear(&files);
}

static int set_up(void **state)
{
	static char text[] = "ffffffff81000000 T vfs_read\n"
			     "ffffffff81000100 T _etext\n"
			     "ffffffffc0000000 t ext4_read\t[ext4]\n";
	FILE *stream = fmemopen(text, strlen(text), "r");

	if (make_sandbox(state) != 0 || kallsyms_parse(stream, "test", &kallsyms, NULL) != 0)
		return -1;
	fclose(stream);
	run("mkdir -p %s", in_sandbox("proc"));
	write_text(in_sandbox("proc/kallsyms"), "0000000000000000 A fixed_percpu_data\n"
						"ffffffff81000000 T _text\n");
	write_text(in_sandbox("proc/modules"), "ext4 4096 1 - Live 0xffffffffc0000000 (E)\n"
					       "jbd2 8192 2 ext4, Live 0xffffffffbffff000\n"
					       "hidden 4096 0 - Live 0x0000000000000000\n");
	return make_tables() ? 0 : -1;
}

static int tear_down(void **state)
{
	free_tables();
	kallsyms_free(kallsyms);
	return remove_sandbox(state);
}

/* Builds sandbox/NAME from assembler text; .text is at 0x1000, mapped from offset 0x1000. */
static void build(const char *name, const char *text)
{
	write_text(in_sandbox("source.s"), text);
	run("cc -nostdlib -shared -Wl,-z,separate-code -Wl,-Ttext=0x1000 "
	    "-Wl,--build-id=0x0123 -o %s %s",
	    in_sandbox("%s", name), in_sandbox("source.s"));
}

/* A process that maps sandbox/NAME from offset 0x1000 at 0x700000, and anonymous memory at 0x10000.
 */
static struct address_space *map(uint32_t pid, const char *name)
{
	uint64_t id = fake_file(mapped, &files, in_sandbox("%s", name));

	fake_space(spaces, pid, pid, 1, name);
	fake_mapping(spaces, pid, 1, 0, 0x10000, 0x11000, 0, 0);
	fake_mapping(spaces, pid, 1, 0, 0x700000, 0x701000, id, 0x1000);
	assert_int_equal(address_space_advance(address_spaces_get(spaces, pid, 0), 1), 0);
	return address_spaces_get(spaces, pid, 0);
}

/* The frame of an address. */
static const struct frame_name *frame_at(const struct address_space *space, uint64_t address)
{
	uint64_t offset;
	uint32_t segment = address_space_segment_at(space, 1, address, &offset);

	return symbolize_user(symbolizer, space, segment, offset);
}

static void read_all(void)
{
	bool is_offset;
	uint64_t offset;
	struct mapped_file *file;

	for (uint64_t i = 1; i <= files.count; i++) {
		file = segment_file(mapped,
				    address_space_segment_at(address_spaces_get(spaces, i, 0), 1,
							     0x700000, &offset),
				    &is_offset);
		if (file)
			assert_int_equal(mapped_file_request(mapped, file), 0);
	}
	mapped_files_finish(mapped);
}

#define FUNCTION(name)                                                                             \
	".globl " name "\n.type " name ", @function\n" name ": .skip 16, 0x90\n.size " name ", "   \
	"16\n"

static void same_place_of_a_file_is_one_frame(void **state)
{
	const struct frame_name *frame;
	struct address_space *space, *other;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second") ".skip 16, 0x90\n");
	space = map(1, "a.so");
	other = map(2, "a.so");
	read_all();
	frame = frame_at(space, 0x700018);
	assert_non_null(frame);
	assert_true(frame->resolved);
	assert_true(frame->normalized);
	assert_null(frame->kernel);
	assert_string_equal(frame->function, "second");
	assert_string_equal(frame->system_name, "second");
	assert_string_equal(frame->mapping_path, in_sandbox("a.so"));
	assert_string_equal(frame->build_id, "0123");
	assert_int_equal(frame->vaddr, 0x1018);
	assert_int_equal(frame->start, 0x1010);
	assert_ptr_equal(frame, frame_at(space, 0x700018));
	/* The frame is shared between processes. */
	assert_ptr_equal(frame, frame_at(other, 0x700018));
}

static void addresses_without_symbol(void **state)
{
	const struct frame_name *frame;
	struct address_space *space, *other;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") ".skip 16, 0x90\n");
	space = map(1, "a.so");
	other = map(2, "a.so");
	read_all();
	frame = frame_at(space, 0x700010);
	assert_false(frame->resolved);
	assert_null(frame->function);
	assert_null(frame->system_name);
	assert_true(frame->normalized);
	assert_int_equal(frame->vaddr, 0x1010);

	frame = frame_at(space, 0x10020);
	assert_false(frame->resolved);
	assert_false(frame->normalized);
	assert_int_equal(frame->vaddr, 0x10020);
	assert_string_equal(frame->mapping_path, "[anon]");
	assert_ptr_equal(frame, frame_at(space, 0x10020));
	assert_ptr_not_equal(frame, frame_at(other, 0x10020));

	frame = frame_at(space, 0x1);
	assert_false(frame->resolved);
	assert_string_equal(frame->mapping_path, "");
	assert_string_equal(frame->build_id, "");
	assert_int_equal(frame->vaddr, 0x1);

	frame = frame_at(space, 0xffffffffff600400);
	assert_string_equal(frame->mapping_path, "[vsyscall]");
	assert_int_equal(frame->vaddr, 0xffffffffff600400);
}

static void file_without_segments_gives_offsets(void **state)
{
	const struct frame_name *frame;
	struct address_space *space;

	(void)state;
	write_text(in_sandbox("jit.cache"), "no ELF file");
	space = map(1, "jit.cache");
	read_all();
	frame = frame_at(space, 0x700010);
	assert_false(frame->resolved);
	assert_false(frame->normalized);
	assert_int_equal(frame->vaddr, 0x1010);
	assert_string_equal(frame->mapping_path, in_sandbox("jit.cache"));
}

static char problem[1024];

static void store_problem(void *arg, const char *path, const char *text)
{
	(void)arg;
	snprintf(problem, sizeof(problem), "%s: %s", path, text);
}

static void resolve(void)
{
	const char *directory = in_sandbox("debug");
	const struct symbolize_options options = {
		.sandbox = worker_server(),
		.directories = &directory,
		.directory_count = 1,
		.problem = store_problem,
	};

	*problem = '\0';
	assert_int_equal(symbolizer_resolve(symbolizer, &options), 0);
}

static const char *demangled_name(const char *name)
{
	const struct frame_name *frame;
	struct address_space *space;
	char text[4096];

	/* Files are read only once: each name needs new tables. */
	free_tables();
	assert_true(make_tables());
	snprintf(text, sizeof(text),
		 ".text\n.globl %s\n.type %s, @function\n%s: .skip 16, 0x90\n.size %s, 16\n", name,
		 name, name, name);
	build("name.so", text);
	space = map(1, "name.so");
	read_all();
	frame = frame_at(space, 0x700000);
	resolve();
	assert_true(frame->resolved);
	assert_string_equal(frame->system_name, name);
	return frame->function;
}

static void names_are_demangled(void **state)
{
	(void)state;
	assert_string_equal(demangled_name("_ZN5outer5innerEi"), "outer::inner");
	assert_string_equal(demangled_name("_Z3addIiET_S0_S0_"), "add<int>");
	assert_string_equal(demangled_name("_ZN4core3fmt5write17h0123456789abcdefE"),
			    "core::fmt::write");
	assert_string_equal(demangled_name("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
	assert_string_equal(demangled_name("_Zrubbish"), "_Zrubbish");
	assert_string_equal(demangled_name("plain"), "plain");
	assert_string_equal(demangled_name("main.main"), "main.main");
}

/* Each template argument is twice the one before: the last has 2^33 letters. */
static void exploding_name_stays_mangled(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[512] = "_Z1fI1AIiiE";
	size_t used = strlen(name);

	(void)state;
	for (unsigned int i = 1; i < 34; i++)
		used += (size_t)snprintf(name + used, sizeof(name) - used, "S0_IS%c_S%c_E",
					 digits[i], digits[i]);
	snprintf(name + used, sizeof(name) - used, "Evv");
	assert_string_equal(demangled_name(name), name);
}

static void kernel_and_modules(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const struct frame_name *frame;

	(void)state;
	run("mkdir -p %s %s", in_sandbox("sys/kernel"), in_sandbox("sys/module/ext4/notes"));
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	frame = symbolize_kernel(symbolizer, 0xffffffff81000010);
	assert_true(frame->resolved);
	assert_non_null(frame->kernel);
	assert_string_equal(frame->function, "vfs_read");
	assert_string_equal(frame->mapping_path, "[kernel.kallsyms]");
	assert_int_equal(frame->kernel->start, 0xffffffff81000000);
	assert_int_equal(frame->kernel->limit, UINT64_MAX);
	assert_string_equal(frame->build_id, "0102");
	assert_int_equal(frame->vaddr, 0xffffffff81000010);
	assert_int_equal(frame->start, 0xffffffff81000000);
	assert_ptr_equal(frame, symbolize_kernel(symbolizer, 0xffffffff81000010));

	frame = symbolize_kernel(symbolizer, 0xffffffffc0000010);
	assert_string_equal(frame->function, "ext4_read");
	assert_string_equal(frame->mapping_path, "[ext4]");
	assert_string_equal(frame->build_id, "");
	assert_int_equal(frame->kernel->start, 0xffffffffc0000000);
	assert_int_equal(frame->kernel->limit, 0xffffffffc0001000);
	/* The size of jbd2 reaches into ext4. */
	frame = symbolize_kernel(symbolizer, 0xffffffffbffffff0);
	assert_string_equal(frame->mapping_path, "[jbd2]");
	frame = symbolize_kernel(symbolizer, 0xffffffffc0001000);
	assert_string_equal(frame->mapping_path, "[kernel.kallsyms]");

	frame = symbolize_kernel(symbolizer, 0xffffffff81000100);
	assert_false(frame->resolved);
	assert_null(frame->function);
	assert_string_equal(frame->mapping_path, "[kernel.kallsyms]");
}

/* Debug information */

static void count_interruption(void *arg)
{
	(*(size_t *)arg)++;
}

static void build_inlined(const char *options)
{
	write_text(in_sandbox("inlined.c"), "static inline int inner(volatile int *x)\n"
					    "{\n"
					    "	return *x + 1;\n"
					    "}\n"
					    "int vfs_read(volatile int *x)\n"
					    "{\n"
					    "	return inner(x);\n"
					    "}\n");
	run("cd '%s' && cc -O2 -fcf-protection=none -nostdlib -shared -Wl,-z,separate-code "
	    "-Wl,-Ttext=0x1000 %s inlined.c",
	    sandbox, options);
}

static void expect_inlined(const struct frame_name *frame)
{
	assert_string_equal(problem, "");
	assert_true(frame->resolved);
	assert_int_equal(frame->line_count, 2);
	assert_string_equal(frame->lines[0].function, "inner");
	assert_int_equal(frame->lines[0].line, 3);
	assert_int_equal(frame->lines[0].start_line, 1);
	assert_string_equal(frame->lines[0].file, in_sandbox("inlined.c"));
	assert_string_equal(frame->lines[1].function, "vfs_read");
	assert_int_equal(frame->lines[1].line, 7);
	assert_int_equal(frame->lines[1].start_line, 5);
	assert_string_equal(frame->function, "vfs_read");
	assert_string_equal(frame->system_name, "vfs_read");
}

static void dwarf_replaces_symbols(void **state)
{
	const struct frame_name *frame, *bare;
	struct address_space *space, *other;

	(void)state;
	build_inlined("-g -o inlined.so");
	/* Where the file is found again, below the root of these tests. */
	run("cd '%s' && mkdir -p '.%s' && ln inlined.so '.%s/'", sandbox, sandbox, sandbox);
	build("bare.so", ".text\n" FUNCTION("first"));
	space = map(1, "inlined.so");
	other = map(2, "bare.so");
	read_all();
	frame = frame_at(space, 0x700000);
	bare = frame_at(other, 0x700000);
	assert_string_equal(frame->function, "vfs_read");
	assert_int_equal(frame->line_count, 1);
	assert_string_equal(frame->lines[0].function, "vfs_read");
	resolve();
	expect_inlined(frame);
	assert_int_equal(frame->start, 0x1000);
	/* Without debug information the symbol stays. */
	assert_int_equal(bare->line_count, 1);
	assert_string_equal(bare->lines[0].function, "first");
	assert_null(bare->lines[0].file);
	assert_ptr_equal(frame, frame_at(space, 0x700000));
}

static void stop_keeps_symbols(void **state)
{
	const char *directory = in_sandbox("debug");
	const struct frame_name *frame;
	size_t interruptions = 0;
	struct symbolize_options options = {
		.sandbox = worker_server(),
		.directories = &directory,
		.directory_count = 1,
		.interrupted = count_interruption,
		.arg = &interruptions,
	};
	struct address_space *space;
	int ends[2];

	(void)state;
	build_inlined("-g -o inlined.so");
	space = map(1, "inlined.so");
	read_all();
	frame = frame_at(space, 0x700000);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	options.stop = ends[0];
	assert_int_equal(symbolizer_resolve(symbolizer, &options), 0);
	assert_int_equal(interruptions, 1);
	assert_int_equal(frame->line_count, 1);
	assert_string_equal(frame->function, "vfs_read");
	close(ends[0]);
	close(ends[1]);
}

static void vmlinux_gives_inlined_functions(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const struct frame_name *frame, *module;

	(void)state;
	run("mkdir -p %s", in_sandbox("sys/kernel"));
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	build_inlined("-g -Wl,--build-id=0x0102 -o vmlinux");
	run("cd '%s' && install -D vmlinux \"usr/lib/debug/boot/vmlinux-$(uname -r)\"", sandbox);
	frame = symbolize_kernel(symbolizer, 0xffffffff81000000);
	module = symbolize_kernel(symbolizer, 0xffffffffc0000010);
	resolve();
	expect_inlined(frame);
	assert_int_equal(frame->start, 0xffffffff81000000);
	assert_string_equal(module->function, "ext4_read");

	/* A vmlinux with another build ID. */
	build_inlined("-g -Wl,--build-id=0x0103 -o vmlinux");
	run("cd '%s' && install -D vmlinux \"usr/lib/debug/boot/vmlinux-$(uname -r)\"", sandbox);
	frame = symbolize_kernel(symbolizer, 0xffffffff81000001);
	resolve();
	assert_int_equal(frame->line_count, 1);
	assert_string_equal(frame->function, "vfs_read");
	assert_non_null(strstr(problem, "0103"));
	run("rm -r %s", in_sandbox("usr"));
}

static void perf_map_names_jit_code(void **state)
{
	const struct frame_name *known, *unknown, *late;
	struct address_space *space, *other;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first"));
	run("mkdir -p %s %s", in_sandbox("proc/1/root/tmp"), in_sandbox("proc/2/root/tmp"));
	write_text(in_sandbox("proc/1/root/tmp/perf-1.map"), "10010 8 LazyCompile:~f /a b.js:1\n");
	space = map(1, "a.so");
	other = map(2, "a.so");
	address_space_has_jit_code(space);
	address_space_has_jit_code(other);
	write_text(in_sandbox("proc/2/root/tmp/perf-2.map"), "10010 8 late\n");
	address_spaces_finish(spaces);
	/* The process changes its map after it was read. */
	run("echo '10020 8 more' >>%s", in_sandbox("proc/1/root/tmp/perf-1.map"));
	run("rm -r %s %s", in_sandbox("proc/1"), in_sandbox("proc/2"));
	known = frame_at(space, 0x10012);
	unknown = frame_at(space, 0x10018);
	late = frame_at(other, 0x10012);
	assert_false(known->resolved);
	resolve();
	assert_string_equal(problem, "");
	assert_string_equal(known->function, "LazyCompile:~f /a b.js:1");
	assert_string_equal(known->system_name, "LazyCompile:~f /a b.js:1");
	assert_string_equal(known->mapping_path, "[anon]");
	assert_false(unknown->resolved);
	assert_string_equal(frame_at(space, 0x10012)->function, known->function);
	assert_string_equal(late->function, "late");
}

static void kernel_without_kallsyms_is_unresolved(void **state)
{
	struct symbolizer *own = symbolizer_new(NULL, kernel, mapped, sandbox, NULL);

	(void)state;
	assert_false(symbolize_kernel(own, 0xffffffff81000010)->resolved);
	symbolizer_free(own);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(same_place_of_a_file_is_one_frame),
		TEST(addresses_without_symbol),
		TEST(file_without_segments_gives_offsets),
		TEST(names_are_demangled),
		TEST(exploding_name_stays_mangled),
		TEST(kernel_and_modules),
		TEST(kernel_without_kallsyms_is_unresolved),
		TEST(dwarf_replaces_symbols),
		TEST(vmlinux_gives_inlined_functions),
		TEST(perf_map_names_jit_code),
		TEST(stop_keeps_symbols),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize.h"

#include "elf.h"
#include "kallsyms.h"
#include "process.h"
#include "sandbox.h"

#include <sys/sysmacros.h>

static struct processes *processes;
static struct symbolizer *symbolizer;
static struct kallsyms *kallsyms;

static int set_up(void **state)
{
	static char text[] = "ffffffff81000000 T vfs_read\n"
			     "ffffffff81000100 T _etext\n"
			     "ffffffffc0000000 t ext4_read\t[ext4]\n";
	FILE *stream = fmemopen(text, strlen(text), "r");

	if (make_sandbox(state) != 0 || kallsyms_parse(stream, "test", &kallsyms, NULL) != 0)
		return -1;
	fclose(stream);
	processes = processes_new(sandbox, NULL);
	symbolizer = symbolizer_new(kallsyms, sandbox, NULL);
	return processes && symbolizer ? 0 : -1;
}

static int tear_down(void **state)
{
	symbolizer_free(symbolizer);
	processes_free(processes);
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

/* A process that maps sandbox/NAME as /NAME at `start`, and memory at 0x10000. */
static struct process *map(uint32_t pid, const char *name, uint64_t start)
{
	char maps[512];
	struct stat st;

	assert_int_equal(stat(in_sandbox("%s", name), &st), 0);
	snprintf(maps, sizeof(maps),
		 "10000-11000 rwxp 00000000 00:00 0 \n"
		 "%lx-%lx r-xp 00001000 %x:%x %lu    /%s\n",
		 start, start + 0x1000, major(st.st_dev), minor(st.st_dev), st.st_ino, name);
	run("mkdir -p %s", in_sandbox("proc/%u", pid));
	write_text(in_sandbox("proc/%u/maps", pid), maps);
	return processes_get(processes, pid, name);
}

#define FUNCTION(name)                                                                             \
	".globl " name "\n.type " name ", @function\n" name ": .skip 16, 0x90\n.size " name ", "   \
	"16\n"

static void test_user(void **state)
{
	const struct frame_name *frame;
	struct process *process;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second") ".skip 16, 0x90\n");
	process = map(1, "a.so", 0x700000);
	frame = symbolize_user(symbolizer, process, 0x700018);
	assert_non_null(frame);
	assert_true(frame->resolved);
	assert_true(frame->normalized);
	assert_false(frame->kernel);
	assert_string_equal(frame->function, "second");
	assert_string_equal(frame->system_name, "second");
	assert_string_equal(frame->mapping_path, "/a.so");
	assert_string_equal(frame->build_id, "0123");
	assert_int_equal(frame->vaddr, 0x1018);
	assert_int_equal(frame->start, 0x1010);
	assert_int_equal(frame->map_start, 0);
	assert_int_equal(frame->map_limit, UINT64_MAX);
	assert_int_equal(frame->map_offset, 0);
	assert_ptr_equal(frame, symbolize_user(symbolizer, process, 0x700018));
	/* Another process has it elsewhere: the same place. */
	assert_ptr_equal(frame, symbolize_user(symbolizer, map(2, "a.so", 0x900000), 0x900018));
}

static void test_user_without_a_name(void **state)
{
	const struct frame_name *frame;
	struct process *process;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") ".skip 16, 0x90\n");
	process = map(1, "a.so", 0x700000);
	frame = symbolize_user(symbolizer, process, 0x700010);
	assert_false(frame->resolved);
	assert_null(frame->function);
	assert_null(frame->system_name);
	assert_true(frame->normalized);
	assert_int_equal(frame->vaddr, 0x1010);
	assert_string_equal(frame->mapping_path, "/a.so");

	frame = symbolize_user(symbolizer, process, 0x10020);
	assert_false(frame->resolved);
	assert_false(frame->normalized);
	assert_int_equal(frame->vaddr, 0x10020);
	assert_string_equal(frame->mapping_path, "[anon]");
	assert_int_equal(frame->map_start, 0x10000);
	assert_int_equal(frame->map_limit, 0x11000);
	assert_ptr_equal(frame, symbolize_user(symbolizer, process, 0x10020));
	assert_ptr_not_equal(frame, symbolize_user(symbolizer, map(2, "a.so", 0x900000), 0x10020));

	frame = symbolize_user(symbolizer, process, 0x1);
	assert_false(frame->resolved);
	assert_string_equal(frame->mapping_path, "");
	assert_string_equal(frame->build_id, "");
	assert_int_equal(frame->vaddr, 0x1);
}

static void test_file_that_is_gone(void **state)
{
	const struct frame_name *frame;
	struct process *process;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first"));
	run("ln %s %s", in_sandbox("a.so"), in_sandbox("b.so"));
	process = map(1, "a.so", 0x700000);
	assert_true(symbolize_user(symbolizer, process, 0x700000)->resolved);
	run("mkdir -p %s && sed s/a.so/gone.so/ %s > %s", in_sandbox("proc/2"),
	    in_sandbox("proc/1/maps"), in_sandbox("proc/2/maps"));
	process = processes_get(processes, 2, "gone");
	frame = symbolize_user(symbolizer, process, 0x700000);
	assert_false(frame->resolved);
	assert_false(frame->normalized);
	assert_int_equal(frame->vaddr, 0x700000);
	assert_string_equal(frame->mapping_path, "/gone.so");
	assert_int_equal(frame->map_start, 0x700000);
	assert_int_equal(frame->map_limit, 0x701000);
	assert_int_equal(frame->map_offset, 0x1000);
}

static const char *demangled(const char *name)
{
	static unsigned int count;
	const struct frame_name *frame;
	char text[4096], file[32];

	snprintf(text, sizeof(text),
		 ".text\n.globl %s\n.type %s, @function\n%s: .skip 16, 0x90\n.size %s, 16\n", name,
		 name, name, name);
	snprintf(file, sizeof(file), "%u.so", count++);
	build(file, text);
	frame = symbolize_user(symbolizer, map(count, file, 0x700000), 0x700000);
	assert_true(frame->resolved);
	assert_string_equal(frame->system_name, name);
	return frame->function;
}

static void test_demangled(void **state)
{
	(void)state;
	assert_string_equal(demangled("_ZN5outer5innerEi"), "outer::inner");
	assert_string_equal(demangled("_Z3addIiET_S0_S0_"), "add<int>");
	assert_string_equal(demangled("_ZN4core3fmt5write17h0123456789abcdefE"),
			    "core::fmt::write");
	assert_string_equal(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
	assert_string_equal(demangled("_Zrubbish"), "_Zrubbish");
	assert_string_equal(demangled("plain"), "plain");
	assert_string_equal(demangled("main.main"), "main.main");
}

/* Each argument is the one before it, twice: the last has 2^33 letters. */
static void test_name_that_explodes(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[512] = "_Z1fI1AIiiE";
	size_t used = strlen(name);

	(void)state;
	for (unsigned int i = 1; i < 34; i++)
		used += (size_t)snprintf(name + used, sizeof(name) - used, "S0_IS%c_S%c_E",
					 digits[i], digits[i]);
	snprintf(name + used, sizeof(name) - used, "Evv");
	assert_string_equal(demangled(name), name);
}

static void test_kernel(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const struct frame_name *frame;

	(void)state;
	run("mkdir -p %s %s", in_sandbox("sys/kernel"), in_sandbox("sys/module/ext4/notes"));
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	frame = symbolize_kernel(symbolizer, 0xffffffff81000010);
	assert_true(frame->resolved);
	assert_true(frame->kernel);
	assert_string_equal(frame->function, "vfs_read");
	assert_string_equal(frame->mapping_path, "[kernel.kallsyms]");
	assert_string_equal(frame->build_id, "0102");
	assert_int_equal(frame->vaddr, 0xffffffff81000010);
	assert_int_equal(frame->start, 0xffffffff81000000);
	assert_ptr_equal(frame, symbolize_kernel(symbolizer, 0xffffffff81000010));

	frame = symbolize_kernel(symbolizer, 0xffffffffc0000010);
	assert_string_equal(frame->function, "ext4_read");
	assert_string_equal(frame->mapping_path, "[ext4]");
	assert_string_equal(frame->build_id, "");

	frame = symbolize_kernel(symbolizer, 0xffffffff81000100);
	assert_false(frame->resolved);
	assert_null(frame->function);
	assert_string_equal(frame->mapping_path, "[kernel.kallsyms]");
}

static void test_kernel_without_symbols(void **state)
{
	struct symbolizer *own = symbolizer_new(NULL, sandbox, NULL);

	(void)state;
	assert_false(symbolize_kernel(own, 0xffffffff81000010)->resolved);
	symbolizer_free(own);
}

static void test_is_root(void **state)
{
	static const char *const roots[] = {"_start",
					    "__libc_start_main",
					    "__libc_start_main_impl",
					    "__libc_start_call_main",
					    "start_thread",
					    "clone",
					    "clone3",
					    "__clone",
					    "__clone3",
					    "runtime.goexit",
					    "runtime.goexit.abi0",
					    "runtime.rt0_go.abi0",
					    "runtime.mstart"};
	static const char *const others[] = {"",
					     "main",
					     "start",
					     "_start_worker",
					     "clone_node",
					     "runtime.goexit0",
					     "runtime.goexit1",
					     "runtime.mstart1",
					     "runtime.main",
					     "my_start_thread"};

	(void)state;
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		assert_true(symbolize_is_root(roots[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(symbolize_is_root(others[i]));
}

#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"

#define NAMED(name, path)                                                                          \
	&(const struct frame_name)                                                                 \
	{                                                                                          \
		.function = name, .system_name = name, .mapping_path = path, .build_id = "",       \
		.resolved = true                                                                   \
	}
#define UNNAMED(path)                                                                              \
	&(const struct frame_name)                                                                 \
	{                                                                                          \
		.mapping_path = path, .build_id = ""                                               \
	}

#define COMPLETE(end, ...)                                                                         \
	symbolize_complete((const struct frame_name *const[]){__VA_ARGS__},                        \
			   sizeof((const struct frame_name *const[]){__VA_ARGS__}) /               \
				   sizeof(struct frame_name *),                                    \
			   end)

static void test_complete_at_a_root(void **state)
{
	(void)state;
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("leaf", "/a"), NAMED("main", "/a"),
				  NAMED("_start", "/a")),
			 3);
	/* What is above the root is what the walk made of rubbish. */
	assert_int_equal(COMPLETE(STACKBEAT_END_ROOT, NAMED("main", "/a"),
				  NAMED("__libc_start_call_main", LIBC), NAMED("any", "/a"),
				  UNNAMED("")),
			 2);
	assert_int_equal(COMPLETE(STACKBEAT_END_MEMORY, NAMED("main", "/a"),
				  NAMED("__libc_start_main", LIBC), NAMED("_start", "/a"),
				  UNNAMED("")),
			 3);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("main.main", "/g"),
				  NAMED("runtime.main", "/g"), NAMED("runtime.goexit.abi0", "/g")),
			 3);
}

static void test_complete_below_a_stripped_libc(void **state)
{
	(void)state;
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("leaf", "/a"), NAMED("main", "/a"),
				  UNNAMED(LIBC)),
			 3);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("main", "/a"),
				  UNNAMED("/lib/ld-musl-x86_64.so.1"), UNNAMED("[stack]")),
			 2);
	/* A callback of qsort(): its caller is lost. */
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("compare", "/a"), UNNAMED(LIBC)), 0);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("main", "/a"), NAMED("qsort", LIBC)),
			 0);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("main", "/a"),
				  UNNAMED("/usr/lib/libcrypto.so.3")),
			 0);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, UNNAMED(LIBC)), 0);
}

/* A program may call a function of its own like one of the C library. */
static void test_complete_with_a_name_of_the_library(void **state)
{
	(void)state;
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("work", "/a"),
				  NAMED("start_thread", LIBC), NAMED("any", "/a")),
			 2);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("work", "/static"),
				  NAMED("start_thread", "/static")),
			 2);
	assert_int_equal(COMPLETE(STACKBEAT_END_FRAME, NAMED("work", "/a"),
				  NAMED("start_thread", "/a"), NAMED("caller", "/a")),
			 0);
	assert_int_equal(COMPLETE(STACKBEAT_END_ROOT, NAMED("work", "/a"),
				  NAMED("start_thread", "/a"), NAMED("caller", "/a")),
			 3);
}

static void test_complete_as_the_kernel_says(void **state)
{
	(void)state;
	assert_int_equal(COMPLETE(STACKBEAT_END_ROOT, NAMED("f", "/a"), UNNAMED("[anon]")), 2);
	assert_int_equal(COMPLETE(STACKBEAT_END_DEPTH, NAMED("f", "/a"), NAMED("main", "/a")), 0);
	assert_int_equal(COMPLETE(STACKBEAT_END_MEMORY, NAMED("f", "/a")), 0);
	assert_int_equal(symbolize_complete(NULL, 0, STACKBEAT_END_NO_USER), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_user),
		TEST(test_user_without_a_name),
		TEST(test_file_that_is_gone),
		TEST(test_demangled),
		TEST(test_name_that_explodes),
		TEST(test_kernel),
		TEST(test_kernel_without_symbols),
		cmocka_unit_test(test_is_root),
		cmocka_unit_test(test_complete_at_a_root),
		cmocka_unit_test(test_complete_below_a_stripped_libc),
		cmocka_unit_test(test_complete_with_a_name_of_the_library),
		cmocka_unit_test(test_complete_as_the_kernel_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

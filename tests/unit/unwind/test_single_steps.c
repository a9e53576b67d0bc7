// SPDX-License-Identifier: GPL-2.0
/*
 * Executes C programs by single steps, and compares walks by unwind tables with the stacks that
 * elfutils finds, at random instructions: also in prologues, epilogues, the PLT, signal
 * trampolines, the vDSO, and the dynamic linker.
 */
#include "unit.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"
#include "unwind/compile.h"
#include "unwind/walk.h"

#define FRAMES_MAX 256u
#define OBJECTS_MAX 16u
#define MAPPINGS_MAX 64u
/* Stacks that are compared before main(), and in it, and the mean number of steps between two. */
#define START_STACKS 50u
#define STACKS 300u
#define STEPS 100u

static const char source[] =
	"#include <alloca.h>\n"
	"#include <setjmp.h>\n"
	"#include <signal.h>\n"
	"#include <stdio.h>\n"
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"#include <time.h>\n"
	"#include <unistd.h>\n"
	"static jmp_buf state;\n"
	"static volatile int sum;\n"
	"static int compare(const void *a, const void *b)\n"
	"{ return *(const int *)a - *(const int *)b; }\n"
	"static void sort(int count)\n"
	"{\n"
	"	int numbers[64];\n"
	"	for (int i = 0; i < count; i++)\n"
	"		numbers[i] = rand();\n"
	"	qsort(numbers, count, sizeof(*numbers), compare);\n"
	"	sum += numbers[count / 2];\n"
	"}\n"
	"static void handle(int number) { (void)number; sort(12); }\n"
	"static int recurse(int depth)\n"
	"{\n"
	"	char text[200];\n"
	"	snprintf(text, sizeof(text), \"%d %s\", depth, \"text\");\n"
	"	return depth ? recurse(depth - 1) + (int)strlen(text) : (sum += 1);\n"
	"}\n"
	"static void large_frame(void)\n"
	"{\n"
	"	volatile char bytes[100 * 1024];\n"
	"	bytes[0] = bytes[sizeof(bytes) - 1] = (char)sum;\n"
	"	sort(8 + (bytes[0] & 1));\n"
	"}\n"
	"static void variable_frame(int size)\n"
	"{\n"
	"	char *bytes = alloca(size);\n"
	"	memset(bytes, 1, size);\n"
	"	sum += bytes[size / 2];\n"
	"}\n"
	"static void aligned_frame(void)\n"
	"{\n"
	"	__attribute__((aligned(64))) char bytes[128];\n"
	"	memset(bytes, sum, sizeof(bytes));\n"
	"	sort(bytes[3] ? 10 : 11);\n"
	"}\n"
	"int main(void)\n"
	"{\n"
	"	static char stack[65536];\n"
	"	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};\n"
	"	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};\n"
	"	struct timespec now;\n"
	"	__asm__ volatile(\"int3\");\n"
	"	sigaltstack(&alternate, NULL);\n"
	"	sigaction(SIGUSR1, &action, NULL);\n"
	"	action.sa_flags = 0;\n"
	"	sigaction(SIGUSR2, &action, NULL);\n"
	"	for (int round = 0; round < 2; round++) {\n"
	"		sort(40);\n"
	"		if (!setjmp(state)) {\n"
	"			recurse(5);\n"
	"			longjmp(state, 1);\n"
	"		}\n"
	"		kill(getpid(), SIGUSR1);\n"
	"		kill(getpid(), SIGUSR2);\n"
	"		large_frame();\n"
	"		variable_frame(64 + round * 100);\n"
	"		aligned_frame();\n"
	"		for (int i = 0; i < 10; i++)\n"
	"			clock_gettime(CLOCK_MONOTONIC, &now);\n"
	"		free(realloc(malloc(round * 1000), round * 5000 + 1));\n"
	"		fprintf(stderr, \"%s\", sum == 12345 ? \"x\" : \"\");\n"
	"	}\n"
	"	return 0;\n"
	"}\n";

struct object {
	char path[256];
	unsigned char *image;
	size_t size;
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_view view;
};

static struct stepper {
	pid_t pid;
	struct object objects[OBJECTS_MAX];
	size_t object_count;
	struct walk_mapping mappings[MAPPINGS_MAX];
	size_t mapping_count, dwfl_mapping_count;
	Dwfl *dwfl;
	uint64_t expected[FRAMES_MAX];
	size_t expected_count;
	size_t stacks, different, longer;
} stepper;

/* Mappings */

/* Reads a file, or the vDSO, which has no file. */
static void read_object(struct object *object, uint64_t start, uint64_t end)
{
	struct iovec local, remote = {(void *)start, end - start};
	int fd;

	if (*object->path == '/') {
		object->image = read_bytes(object->path, &object->size);
		fd = open(object->path, O_RDONLY | O_CLOEXEC);
	} else {
		object->size = end - start;
		object->image = malloc(object->size);
		assert_non_null(object->image);
		local = (struct iovec){object->image, object->size};
		assert_int_equal(process_vm_readv(stepper.pid, &local, 1, &remote, 1, 0),
				 object->size);
		fd = memfd_create("vdso", MFD_CLOEXEC);
		assert_int_equal(write(fd, object->image, object->size), object->size);
	}
	assert_true(fd >= 0);
	assert_int_equal(unwind_compile(fd, &object->table).result, UNWIND_COMPILED);
	assert_true(stackbeat_unwind_check(object->table, object->table->size));
	stackbeat_unwind_open(object->table, &object->view);
	close(fd);
}

static struct object *get_object(const char *path, uint64_t start, uint64_t end)
{
	struct object *object;

	for (size_t i = 0; i < stepper.object_count; i++) {
		if (!strcmp(stepper.objects[i].path, path))
			return &stepper.objects[i];
	}
	assert_true(stepper.object_count < OBJECTS_MAX);
	object = &stepper.objects[stepper.object_count++];
	snprintf(object->path, sizeof(object->path), "%s", path);
	read_object(object, start, end);
	return object;
}

static uint64_t find_bias(const struct object *object, uint64_t start, uint64_t offset)
{
	const Elf64_Ehdr *header = (const void *)object->image;
	const Elf64_Phdr *segment = (const void *)(object->image + header->e_phoff);

	for (unsigned int i = 0; i < header->e_phnum; i++, segment++) {
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    offset >= (segment->p_offset & ~UINT64_C(4095)) &&
		    offset < segment->p_offset + segment->p_filesz)
			return start - offset - (segment->p_vaddr - segment->p_offset);
	}
	fail_msg("%s: no segment at %" PRIx64, object->path, offset);
	return 0;
}

static void read_mappings(void)
{
	char path[64], line[512], name[256], rights[8];
	uint64_t start, end, offset;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", stepper.pid);
	file = fopen(path, "re");
	assert_non_null(file);
	stepper.mapping_count = 0;
	while (fgets(line, sizeof(line), file)) {
		struct object *object;

		*name = '\0';
		sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %255s", &start, &end,
		       rights, &offset, name);
		if (rights[2] != 'x' || (*name != '/' && strcmp(name, "[vdso]")))
			continue;
		assert_true(stepper.mapping_count < MAPPINGS_MAX);
		object = get_object(name, start, end);
		stepper.mappings[stepper.mapping_count++] = (struct walk_mapping){
			start, end, find_bias(object, start, offset), &object->view};
	}
	fclose(file);
}

static const struct walk_mapping *find_mapping(void *arg, uint64_t address)
{
	(void)arg;
	for (size_t i = 0; i < stepper.mapping_count; i++) {
		const struct walk_mapping *mapping = &stepper.mappings[i];

		if (address >= mapping->start && address < mapping->end)
			return mapping;
	}
	return NULL;
}

/* The two walks */

static int read_word(void *arg, __u64 address, __u64 *word)
{
	struct iovec local = {word, sizeof(*word)}, remote = {(void *)address, sizeof(*word)};

	(void)arg;
	return process_vm_readv(stepper.pid, &local, 1, &remote, 1, 0) == sizeof(*word);
}

static int take_frame(Dwfl_Frame *frame, void *arg)
{
	Dwarf_Addr address;
	bool is_exact;

	(void)arg;
	if (!dwfl_frame_pc(frame, &address, &is_exact) || stepper.expected_count == FRAMES_MAX)
		return DWARF_CB_ABORT;
	stepper.expected[stepper.expected_count++] = address;
	return DWARF_CB_OK;
}

static void walk_by_elfutils(void)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
	};

	if (!stepper.dwfl || stepper.mapping_count != stepper.dwfl_mapping_count) {
		dwfl_end(stepper.dwfl);
		stepper.dwfl = dwfl_begin(&callbacks);
		assert_int_equal(dwfl_linux_proc_report(stepper.dwfl, stepper.pid), 0);
		assert_int_equal(dwfl_report_end(stepper.dwfl, NULL, NULL), 0);
		assert_int_equal(dwfl_linux_proc_attach(stepper.dwfl, stepper.pid, true), 0);
		stepper.dwfl_mapping_count = stepper.mapping_count;
	}
	stepper.expected_count = 0;
	dwfl_getthread_frames(stepper.dwfl, stepper.pid, take_frame, NULL);
}

/*
 * Returns whether the first frames are those that elfutils has found. A frame that a signal has
 * interrupted is one more here: elfutils does not say which these are.
 */
static bool is_expected(const uint64_t *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (frames[i] != stepper.expected[i] &&
		    (!i || frames[i] != stepper.expected[i] + 1))
			return false;
	}
	return true;
}

/*
 * Returns whether elfutils has only found the first frames of a walk that reaches the outermost
 * one: GNU ld writes no call frame information for the PLT of static programs, and elfutils stops
 * in ld.so's _dl_runtime_resolve, whose CFA is rbx + 32.
 */
static bool is_longer(const uint64_t *frames, size_t count, enum walk_end end)
{
	return end == WALK_OUTERMOST && count > stepper.expected_count && stepper.expected_count &&
	       is_expected(frames, stepper.expected_count);
}

/*
 * Returns whether elfutils knows nothing about the code of the leaf, and so follows the frame
 * pointer, past a caller.
 */
static bool elfutils_guesses(uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(stepper.dwfl, address);
	Dwarf_Frame *frame = NULL;
	GElf_Addr bias = 0;
	Dwarf_CFI *cfi = module ? dwfl_module_eh_cfi(module, &bias) : NULL;
	bool known = cfi && !dwarf_cfi_addrframe(cfi, address - bias, &frame);

	free(frame);
	return !known;
}

/* Prints the first frame that differs. */
static void print_difference(const uint64_t *frames, size_t count, enum walk_end end)
{
	size_t i = 0;
	const struct walk_mapping *mapping;

	while (i < count && i < stepper.expected_count && is_expected(frames, i + 1))
		i++;
	printf("end %d, %zu frames instead of %zu, equal are %zu;", end, count,
	       stepper.expected_count, i);
	for (size_t at = i ? i - 1 : 0; at <= i && at < count; at++) {
		mapping = find_mapping(NULL, frames[at]);
		printf(" %" PRIx64, mapping ? frames[at] - mapping->bias : frames[at]);
	}
	printf("; at %" PRIx64 "\n", frames[0] - find_mapping(NULL, frames[0])->bias);
}

static void compare_walks(void)
{
	uint64_t frames[FRAMES_MAX];
	struct user_regs_struct regs;
	enum walk_end end;
	size_t count;

	read_mappings();
	walk_by_elfutils();
	assert_int_equal(ptrace(PTRACE_GETREGS, stepper.pid, NULL, &regs), 0);
	struct walk walk = {
		.frame.registers = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
				    regs.rbp, regs.rsp, regs.r8, regs.r9, regs.r10, regs.r11,
				    regs.r12, regs.r13, regs.r14, regs.r15, regs.rip},
		.mapping = find_mapping,
		.read = read_word,
	};
	count = walk_stack(&walk, frames, FRAMES_MAX, &end);
	stepper.stacks++;
	if (end == WALK_OUTERMOST && count == stepper.expected_count && is_expected(frames, count))
		return;
	if (is_longer(frames, count, end) ||
	    (end == WALK_OUTERMOST && elfutils_guesses(frames[0]))) {
		stepper.longer++;
		return;
	}
	stepper.different++;
	print_difference(frames, count, end);
}

/* Stepping */

/* Lets the program run with a request of ptrace(). Returns false at its end. */
static bool resume(enum __ptrace_request request, int *signal)
{
	int status;

	if (ptrace(request, stepper.pid, NULL, (void *)(intptr_t)*signal))
		return false;
	waitpid(stepper.pid, &status, 0);
	if (!WIFSTOPPED(status))
		return false;
	*signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	return true;
}

/* Steps until the number of stacks was compared, or the program ends. */
static void compare_stacks(size_t count)
{
	unsigned int until = 1;
	int signal = 0;

	while (stepper.stacks < count && resume(PTRACE_SINGLESTEP, &signal)) {
		if (--until)
			continue;
		compare_walks();
		until = 1 + (unsigned int)rand() % (2 * STEPS);
	}
}

static void start_program(void)
{
	int status;

	stepper = (struct stepper){.pid = fork()};
	assert_true(stepper.pid >= 0);
	if (!stepper.pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(in_sandbox("program"), "program", NULL);
		_exit(1);
	}
	waitpid(stepper.pid, &status, 0);
	assert_true(WIFSTOPPED(status));
}

static void stop_program(void)
{
	kill(stepper.pid, SIGKILL);
	waitpid(stepper.pid, NULL, 0);
	dwfl_end(stepper.dwfl);
	for (size_t i = 0; i < stepper.object_count; i++) {
		free(stepper.objects[i].image);
		free(stepper.objects[i].table);
	}
}

static void step_program(const char *compiler, const char *flags)
{
	int signal = 0;

	run("cd '%s' && %s %s -w -o program source.c", sandbox, compiler, flags);
	start_program();
	compare_stacks(START_STACKS);
	/* To the breakpoint in main(). */
	assert_true(resume(PTRACE_CONT, &signal));
	compare_stacks(START_STACKS + STACKS);
	printf("%s %s: %zu stacks, %zu different, %zu longer than elfutils finds\n", compiler,
	       flags, stepper.stacks, stepper.different, stepper.longer);
	assert_true(stepper.stacks > STACKS / 3);
	assert_true(stepper.longer < stepper.stacks / 10);
	assert_int_equal(stepper.different, 0);
	stop_program();
}

/* Each step switches between this process and the program: to another CPU, that takes longer. */
static void stay_on_this_cpu(void)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET((unsigned int)sched_getcpu(), &cpu);
	assert_int_equal(sched_setaffinity(0, sizeof(cpu), &cpu), 0);
}

static void stacks_are_those_of_elfutils(void **state)
{
	static const char *const compilers[] = {"gcc", "clang"};
	static const char *const flags[] = {
		"-O0",
		"-O1",
		"-O2",
		"-O3",
		"-O0 -fomit-frame-pointer",
		"-O2 -fno-omit-frame-pointer",
		"-O3 -static",
		"-O2 -static-pie -fPIE",
		"-O2 -pie -fPIE -Wl,-z,lazy",
		"-O2 -fcf-protection=full -Wl,-z,now",
	};

	(void)state;
	srand(1);
	stay_on_this_cpu();
	write_text(in_sandbox("source.c"), source);
	for (size_t i = 0; i < 2; i++) {
		if (system(i ? "command -v clang >/dev/null" : "true"))
			continue;
		for (size_t j = 0; j < sizeof(flags) / sizeof(flags[0]); j++)
			step_program(compilers[i], flags[j]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stacks_are_those_of_elfutils, make_sandbox,
						remove_sandbox),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

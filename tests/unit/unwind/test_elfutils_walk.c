// SPDX-License-Identifier: GPL-2.0
/* Stacks of this process, walked by elfutils in a worker. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "patience.h"
#include "sandbox/fd_passing.h"
#include "unwind/elfutils_walk.h"
#include "worker_server.h"

/* The status of a worker that does not exit. */
#define HANGS 2
#define NOINLINE __attribute__((noinline, no_sanitize("address", "undefined")))
#define STACKS 3u
#define COPY 16384u
#define DEPTH 5u
#define DEEP_COPY (1u << 20)

/* A stack, and the return addresses of its first callers. */
struct captured {
	struct stackbeat_stack *stack;
	uint64_t callers[DEPTH + 1];
	size_t count;
	uint64_t first; /* offset of the first return address in the copy */
};

static struct captured captured[STACKS];
static struct elfutils_walk walks[STACKS];
static size_t taken;
static struct elfutils_module module;
static int frames_fd = -1; /* the file with the walks, which the tested function closes */

/* Replaces libc's function. */
int memfd_create(const char *name, unsigned int flags)
{
	int fd = (int)syscall(SYS_memfd_create, name, flags);

	if (!strcmp(name, "frames")) {
		if (frames_fd >= 0)
			close(frames_fd);
		frames_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return fd;
}

/* Sets the registers by their DWARF numbers, see the psABI, figure 3.36, and copies the stack. */
static NOINLINE void capture(struct captured *to, size_t size)
{
	static const int of_dwarf[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
				       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
				       REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
	const volatile unsigned char *bytes;
	ucontext_t context;

	getcontext(&context);
	to->callers[to->count++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
	to->stack = calloc(1, sizeof(*to->stack) + size);
	assert_non_null(to->stack);
	for (size_t i = 0; i < sizeof(of_dwarf) / sizeof(of_dwarf[0]); i++)
		to->stack->registers[i] = (uint64_t)context.uc_mcontext.gregs[of_dwarf[i]];
	to->stack->size = size;
	to->first = (uint64_t)(uintptr_t)__builtin_frame_address(0) + 8 -
		    to->stack->registers[STACKBEAT_REGISTER_RSP];
	bytes = (const unsigned char *)to->stack->registers[STACKBEAT_REGISTER_RSP];
	for (size_t i = 0; i < size; i++)
		to->stack->bytes[i] = bytes[i];
}

static NOINLINE void descend(struct captured *to, size_t size, unsigned int depth)
{
	if (depth)
		descend(to, size, depth - 1);
	else
		capture(to, size);
	if (to->count <= DEPTH)
		to->callers[to->count++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

/* The copy does not reach beyond this function's frame. */
static NOINLINE void capture_below(struct captured *to, unsigned int depth)
{
	unsigned char room[COPY];

	/* The compiler has to keep all of it, until the end of the function. */
	__asm__ volatile("" : : "r"(room) : "memory");
	descend(to, COPY, depth);
	__asm__ volatile("" : : "r"(room) : "memory");
}

/* More callers than a sample has. */
static NOINLINE void capture_deep(struct captured *to)
{
	unsigned char room[DEEP_COPY];

	/* The compiler has to keep all of it, until the end of the function. */
	__asm__ volatile("" : : "r"(room) : "memory");
	descend(to, DEEP_COPY, STACKBEAT_USER_FRAMES_MAX + 10);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void take(size_t stack, const struct elfutils_walk *walk, void *arg)
{
	assert_ptr_equal(arg, &taken);
	assert_int_equal(stack, taken);
	walks[taken++] = *walk;
}

static int find_bias(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	/* The first one is the program. */
	((struct elfutils_module *)arg)->bias = info->dlpi_addr;
	return 1;
}

static int setup(void **state)
{
	(void)state;
	worker_server();
	dl_iterate_phdr(find_bias, &module);
	module.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	memset(captured, 0, sizeof(captured));
	taken = 0;
	return module.fd < 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < STACKS; i++)
		free(captured[i].stack);
	close(module.fd);
	if (frames_fd >= 0)
		close(frames_fd);
	frames_fd = -1;
	return 0;
}

static int walk_all(const struct elfutils_module *modules, size_t module_count)
{
	struct stackbeat_stack *stacks[STACKS];

	for (size_t i = 0; i < STACKS; i++)
		stacks[i] = captured[i].stack;
	return elfutils_walk_stacks(worker_server(), modules, module_count, stacks, STACKS,
				    hang_ms(), take, &taken);
}

static void callers_are_found(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < STACKS; i++)
		capture_below(&captured[i], DEPTH - 1 - i);
	assert_int_equal(walk_all(&module, 1), 0);
	assert_int_equal(taken, STACKS);
	for (size_t i = 0; i < STACKS; i++) {
		const struct captured *of = &captured[i];

		assert_int_equal(of->count, DEPTH + 1 - i);
		assert_true(walks[i].count > of->count);
		assert_int_equal(walks[i].frames[0], of->stack->registers[STACKBEAT_REGISTER_RIP]);
		assert_memory_equal(walks[i].frames + 1, of->callers,
				    of->count * sizeof(of->callers[0]));
		assert_int_equal(walks[i].end, ELFUTILS_COPY_ENDS);
	}
}

/* The first copy has no byte, the second one only the frame of capture(), the third one is whole.
 */
static void copies_end(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < STACKS; i++)
		capture_below(&captured[i], DEPTH - 1);
	captured[0].stack->size = 0;
	captured[1].stack->size = captured[1].first + 8;
	assert_int_equal(walk_all(&module, 1), 0);
	assert_int_equal(taken, STACKS);
	assert_int_equal(walks[0].count, 1);
	assert_int_equal(walks[0].end, ELFUTILS_COPY_ENDS);
	assert_int_equal(walks[1].count, 2);
	assert_int_equal(walks[1].end, ELFUTILS_COPY_ENDS);
	assert_true(walks[2].count > DEPTH);
}

static void depth_is_limited(void **state)
{
	(void)state;
	capture_deep(&captured[0]);
	assert_int_equal(elfutils_walk_stacks(worker_server(), &module, 1, &captured[0].stack, 1,
					      hang_ms(), take, &taken),
			 0);
	assert_int_equal(taken, 1);
	assert_int_equal(walks[0].count, STACKBEAT_USER_FRAMES_MAX);
	assert_int_equal(walks[0].end, ELFUTILS_MAX_DEPTH);
	assert_memory_equal(walks[0].frames + 1, captured[0].callers,
			    captured[0].count * sizeof(captured[0].callers[0]));
}

/* There is room for as many walks as there are stacks, each with all frames that a walk has. */
static void deep_walks_have_room(void **state)
{
	struct stackbeat_stack *stacks[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		capture_deep(&captured[i]);
		stacks[i] = captured[i].stack;
	}
	assert_int_equal(elfutils_walk_stacks(worker_server(), &module, 1, stacks, 2, hang_ms(),
					      take, &taken),
			 0);
	assert_int_equal(taken, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(walks[i].count, STACKBEAT_USER_FRAMES_MAX);
		assert_int_equal(walks[i].end, ELFUTILS_MAX_DEPTH);
	}
}

/* What a worker writes that was taken over by a file that it has parsed. */
static struct {
	struct elfutils_walk walk;
	size_t size; /* bytes of `walk` */
	int status; /* of its exit */
	bool fills; /* it writes as much as it can */
} answer;

/* Returns whether a worker can write all walks that it was asked for, and not a byte more. */
static bool is_bounded(int fd, size_t left)
{
	for (; left; left--) {
		if (write(fd, "", 1) != 1)
			return false;
	}
	return write(fd, "", 1) < 0;
}

static void answer_wrongly(enum worker_kind kind, const int fds[], size_t count)
{
	uint64_t bias;
	int file;

	assert_int_equal(kind, WORKER_VERIFY);
	assert_int_equal(count, 3);
	/* The parent has sent the module: else, the end of this process would be an error for it.
	 */
	if (receive_fd(fds[2], &bias, sizeof(bias), &file) < 0)
		_exit(1);
	if (write(fds[1], &answer.walk, answer.size) != (ssize_t)answer.size)
		_exit(1);
	if (answer.fills && !is_bounded(fds[1], sizeof(answer.walk) - answer.size))
		_exit(1);
	while (answer.status == HANGS)
		fstat(fds[0], &(struct stat){0});
	_exit(answer.status);
}

/* Returns the result for one stack. */
static int walk_within(int64_t timeout_ms, uint32_t end, uint32_t count, size_t frames, int status)
{
	struct sandbox_server server;
	struct error error;
	int err;

	answer.walk.end = end;
	answer.walk.count = count;
	answer.size = offsetof(struct elfutils_walk, frames) + frames * sizeof(uint64_t);
	answer.status = status;
	assert_int_equal(sandbox_server_start(&server, answer_wrongly, &error), 0);
	taken = 0;
	err = elfutils_walk_stacks(&server, &module, 1, &captured[0].stack, 1, timeout_ms, take,
				   &taken);
	sandbox_server_stop(&server);
	assert_int_equal(taken, !err);
	return err;
}

static int walk_with(uint32_t end, uint32_t count, size_t frames, int status)
{
	return walk_within(hang_ms(), end, count, frames, status);
}

static void a_worker_is_not_trusted(void **state)
{
	const uint32_t most = STACKBEAT_USER_FRAMES_MAX;

	(void)state;
	capture_below(&captured[0], 0);
	assert_int_equal(walk_with(ELFUTILS_OUTERMOST, 1, 1, 0), 0);
	assert_int_equal(walk_with(ELFUTILS_END_COUNT - 1, most, most, 0), 0);
	assert_int_equal(walks[0].count, most);
	assert_int_equal(walk_with(ELFUTILS_OUTERMOST, 1, 1, 1), -EBADMSG);
	assert_int_equal(walk_with(ELFUTILS_END_COUNT, 1, 1, 0), -EBADMSG);
	assert_int_equal(walk_with(ELFUTILS_OUTERMOST, 0, 1, 0), -EBADMSG);
	assert_int_equal(walk_with(ELFUTILS_OUTERMOST, most + 1, most, 0), -EBADMSG);
	assert_int_equal(walk_with(ELFUTILS_OUTERMOST, UINT32_MAX, most, 0), -EBADMSG);
}

static void a_worker_that_hangs_is_ended(void **state)
{
	(void)state;
	capture_below(&captured[0], 0);
	assert_int_equal(walk_within(20, ELFUTILS_OUTERMOST, 1, 1, HANGS), -ETIMEDOUT);
	assert_int_equal(taken, 0);
}

/* Otherwise, it could fill the memory of the machine, or take away what the parent reads. */
static void a_worker_cannot_change_the_size_of_its_result(void **state)
{
	const off_t size = sizeof(struct elfutils_walk);
	struct stat st;

	(void)state;
	capture_below(&captured[0], 0);
	answer.fills = true;
	assert_int_equal(walk_with(ELFUTILS_OUTERMOST, 1, 1, 0), 0);
	answer.fills = false;
	/* Even one without the filter of system calls, which forbids these. */
	assert_int_equal(ftruncate(frames_fd, size + 1), -1);
	assert_int_equal(ftruncate(frames_fd, size - 1), -1);
	assert_int_equal(fcntl(frames_fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(fstat(frames_fd, &st), 0);
	assert_int_equal(st.st_size, size);
}

static void without_files_each_walk_has_one_frame(void **state)
{
	const struct elfutils_module empty = {.fd = memfd_create("empty", MFD_CLOEXEC)};

	(void)state;
	for (unsigned int i = 0; i < STACKS; i++)
		capture_below(&captured[i], 0);
	for (size_t modules = 0; modules < 2; modules++) {
		taken = 0;
		assert_int_equal(walk_all(&empty, modules), 0);
		assert_int_equal(taken, STACKS);
		for (size_t i = 0; i < STACKS; i++) {
			assert_int_equal(walks[i].count, 1);
			assert_int_equal(walks[i].end, ELFUTILS_NO_RULE);
			assert_int_equal(walks[i].frames[0],
					 captured[i].stack->registers[STACKBEAT_REGISTER_RIP]);
		}
	}
	close(empty.fd);
}

/* A server that has died. */
static void missing_worker_is_an_error(void **state)
{
	struct sandbox_server server;
	struct error error;

	(void)state;
	for (unsigned int i = 0; i < STACKS; i++)
		capture_below(&captured[i], 0);
	assert_int_equal(sandbox_server_start(&server, worker_main, &error), 0);
	sandbox_server_stop(&server);
	assert_int_equal(elfutils_walk_stacks(&server, &module, 1,
					      (struct stackbeat_stack *[]){captured[0].stack}, 1,
					      hang_ms(), take, &taken),
			 -EBADF);
	assert_int_equal(taken, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(callers_are_found),
		TEST(copies_end),
		TEST(depth_is_limited),
		TEST(deep_walks_have_room),
		TEST(a_worker_is_not_trusted),
		TEST(a_worker_that_hangs_is_ended),
		TEST(a_worker_cannot_change_the_size_of_its_result),
		TEST(without_files_each_walk_has_one_frame),
		TEST(missing_worker_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/string_table.h"
#include "sandbox.h"
#include "symbolize/worker.h"

#define JOBS_MAX 16

/* Results of the only address of a job. */
struct job_result {
	char lines[1024]; /* SYSTEM_NAME|FUNCTION FILE:LINE:START_LINE, ... */
	size_t calls; /* of the lines callback */
	char problem[512];
};

static struct job_result results[JOBS_MAX];
static const struct worker_job *current_jobs;
static size_t current_count;

static int store_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
		       size_t count)
{
	FILE *stream = fmemopen(results[job].lines, sizeof(results[job].lines), "w");

	(void)arg;
	assert_non_null(stream);
	assert_int_equal(index, 0);
	for (size_t i = 0; i < count; i++) {
		const char *slash = lines[i].file ? strrchr(lines[i].file, '/') : NULL;

		fprintf(stream, "%s%s|%s %s:%" PRIu32 ":%" PRIu32, i ? ", " : "",
			lines[i].system_name, lines[i].function, slash ? slash + 1 : "?",
			lines[i].line, lines[i].start_line);
	}
	fclose(stream);
	results[job].calls++;
	return 0;
}

/* Jobs of one run have different `path` pointers if problems are expected of several. */
static void store_problem(void *arg, const char *path, const char *text)
{
	size_t job = 0;

	(void)arg;
	while (job < current_count && current_jobs[job].path != path)
		job++;
	assert_true(job < current_count);
	snprintf(results[job].problem, sizeof(results[job].problem), "%s", text);
}

static const struct worker_pool default_pool = {.options.problem = store_problem,
						.lines = store_lines};

static int run_pool(const struct worker_pool *pool, const struct worker_job *jobs, size_t count)
{
	struct string_table strings = {0};
	int err;

	memset(results, 0, sizeof(results));
	current_jobs = jobs;
	current_count = count;
	err = worker_pool_run(pool, jobs, count, &strings);
	string_table_clear(&strings);
	return err;
}

static int open_path(void *path, struct error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	(void)error;
	return fd < 0 ? -errno : fd;
}

static uint64_t address_of(const char *path, const char *symbol)
{
	char command[PATH_MAX + 128];
	uint64_t address;
	FILE *pipe;

	snprintf(command, sizeof(command), "nm '%s' | awk '$3 == \"%s\" {print $1}'", path, symbol);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%" SCNx64, &address), 1);
	pclose(pipe);
	return address;
}

static const char *build(const char *name, const char *options)
{
	const char *path = in_sandbox("%s", name);

	write_text(in_sandbox("source.cc"),
		   "namespace deep {\n"
		   "static inline __attribute__((always_inline)) int inner(volatile int *x)\n"
		   "{\n"
		   "	return *x + 1;\n"
		   "}\n"
		   "__attribute__((noinline)) int outer(volatile int *x)\n"
		   "{\n"
		   "	return inner(x);\n"
		   "}\n"
		   "}\n"
		   "static __attribute__((noinline)) int hidden(volatile int *x)\n"
		   "{\n"
		   "	return *x;\n"
		   "}\n"
		   "int main(int argc, char **)\n"
		   "{\n"
		   "	volatile int x = argc;\n"
		   "	return deep::outer(&x) + hidden(&x);\n"
		   "}\n");
	run("cd '%s' && g++ -O2 -fcf-protection=none %s -o %s source.cc", sandbox, options, path);
	return path;
}

static void dwarf_gives_inlined_functions_and_lines(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const uint64_t hidden = address_of(path, "_ZL6hiddenPVi");
	const struct worker_job jobs[] = {
		{.path = path,
		 .build_id = "",
		 .addresses = &outer,
		 .count = 1,
		 .open = open_path,
		 .arg = (char *)path},
		{.path = path,
		 .build_id = "",
		 .addresses = &hidden,
		 .count = 1,
		 .open = open_path,
		 .arg = (char *)path},
	};

	(void)state;
	assert_int_equal(run_pool(&default_pool, jobs, 2), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines, "inner|inner source.cc:4:2, "
					      "_ZN4deep5outerEPVi|deep::outer source.cc:8:6");
	/* Static functions have their linker name in the symbol table only. */
	assert_string_equal(results[1].lines, "_ZL6hiddenPVi|hidden source.cc:13:11");
}

static void code_start_relocates_addresses(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t address =
		UINT64_C(0xffffffff90000000) + address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_job job = {
		.path = path,
		.build_id = "",
		.addresses = &address,
		.count = 1,
		.open = open_path,
		.arg = (char *)path,
		/* Where Debian's linkers put the code. */
		.code_start = UINT64_C(0xffffffff90001000),
	};
	struct worker_job lost = job;

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_non_null(strstr(results[0].lines, "deep::outer source.cc:8:6"));
	/* An object file has no segments. */
	lost.arg = (char *)build("object", "-g -c");
	assert_int_equal(run_pool(&default_pool, &lost, 1), 0);
	assert_int_equal(results[0].calls, 0);
}

static void symbol_table_without_dwarf(void **state)
{
	const char *path = build("program", "");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines, "_ZN4deep5outerEPVi|deep::outer ?:0:0");
}

static void debug_file_gives_symbols(void **state)
{
	const char *path = build("program", "-Wl,--build-id=0x1234 -g"),
		   *directory = in_sandbox("d");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool pool = default_pool;
	const struct worker_job job = {.path = path,
				       .build_id = "1234",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	const struct worker_job without_binary = {
		.path = path, .build_id = "1234", .addresses = &outer, .count = 1};

	(void)state;
	pool.options.directories = &directory;
	pool.options.directory_count = 1;
	run("cd '%s' && mkdir -p d/.build-id/12 && objcopy --strip-debug program "
	    "d/.build-id/12/34.debug && strip program",
	    sandbox);
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines, "_ZN4deep5outerEPVi|deep::outer ?:0:0");
	assert_int_equal(run_pool(&pool, &without_binary, 1), 0);
	assert_string_equal(results[0].lines, "_ZN4deep5outerEPVi|deep::outer ?:0:0");
}

static bool lookup_v0(void *arg, uint64_t vaddr, struct symbol *symbol)
{
	*symbol = (struct symbol){.name = arg, .start = vaddr & ~UINT64_C(0xf), .size = 16};
	return true;
}

static void lookup_without_file(void **state)
{
	const uint64_t address = 0x1234;
	const struct worker_job job = {.path = "p",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .lookup = lookup_v0,
				       .arg = "_RNvCs1234_7mycrate3foo"};

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].lines, "_RNvCs1234_7mycrate3foo|mycrate::foo ?:0:0");
}

/* Names the symbol after the errno of an attempt to open a file for writing. */
static bool lookup_by_writing(void *arg, uint64_t vaddr, struct symbol *symbol)
{
	int fd = open(arg, O_WRONLY);

	*symbol = (struct symbol){
		.name = fd < 0 ? strerrorname_np(errno) : "written", .start = vaddr, .size = 1};
	return true;
}

static void worker_is_sandboxed(void **state)
{
	const char *path = in_sandbox("file");
	const uint64_t address = 0x1234;
	const struct worker_job job = {.path = "p",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .lookup = lookup_by_writing,
				       .arg = (char *)path};

	(void)state;
	write_text(path, "");
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].lines, "EPERM|EPERM ?:0:0");
}

static void other_build_id_is_rejected(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_job job = {.path = path,
				       .build_id = "abcdef",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_int_equal(results[0].calls, 0);
	assert_non_null(strstr(results[0].problem, "not abcdef"));
}

/* Failures that a malicious file may cause in its worker */

static int crash(void *arg, struct error *error)
{
	(void)arg, (void)error;
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
	return -EIO;
}

static int exit_early(void *arg, struct error *error)
{
	(void)arg, (void)error;
	_exit(0);
}

static int hang(void *arg, struct error *error)
{
	(void)arg, (void)error;
	for (;;)
		pause();
	return -EIO;
}

/* Writes an invalid message to all fds. */
static int send_garbage(void *arg, struct error *error)
{
	static const unsigned char nonsense[64] = {1, 0, 0, 0, 16, 0, 0, 0, 255, 255};

	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++) {
		if (write(fd, nonsense, sizeof(nonsense)) < 0)
			continue;
	}
	return -EIO;
}

/* Writes the lines of one address twice, which could fill the memory of the parent. */
static int send_lines_twice(void *arg, struct error *error)
{
	static const struct {
		struct worker_message message;
		struct worker_lines lines;
	} sent = {{WORKER_LINES, sizeof(struct worker_lines)}, {0, 0}};

	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++) {
		for (int i = 0; i < 2; i++) {
			if (write(fd, &sent, sizeof(sent)) < 0)
				break;
		}
	}
	return -EIO;
}

/* Closes the pipe without exiting. */
static int close_pipe_and_hang(void *arg, struct error *error)
{
	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (;;)
		pause();
	return -EIO;
}

static void failing_workers_do_not_affect_others(void **state)
{
	static const struct {
		int (*open)(void *arg, struct error *error);
		const char *problem;
	} failures[] = {
		{crash, "signal 11"},
		{exit_early, "could not be read"},
		{hang, "hung for 1 s"},
		{send_garbage, "violated the protocol"},
		{send_lines_twice, "violated the protocol"},
		{close_pipe_and_hang, "signal 9"},
	};
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[12];
	char paths[12][32];

	(void)state;
	pool.timeout_s = 1;
	pool.processes = 3;
	for (size_t i = 0; i < 12; i++) {
		snprintf(paths[i], sizeof(paths[i]), "job %zu", i);
		jobs[i] = (struct worker_job){
			.path = paths[i],
			.build_id = "",
			.addresses = &outer,
			.count = 1,
			.open = i % 2 ? failures[i / 2].open : open_path,
			.arg = (char *)path,
		};
	}
	assert_int_equal(run_pool(&pool, jobs, 12), 0);
	for (size_t i = 0; i < 12; i++) {
		if (i % 2 == 0) {
			assert_int_equal(results[i].calls, 1);
			assert_string_equal(results[i].problem, "");
			continue;
		}
		assert_true(results[i].calls == (failures[i / 2].open == send_lines_twice));
		if (!strstr(results[i].problem, failures[i / 2].problem))
			fail_msg("\"%s\" is not \"%s\"", results[i].problem,
				 failures[i / 2].problem);
	}
}

/* Sends progress forever: the idle timeout never expires, and the job never ends. */
static int send_progress_forever(void *arg, struct error *error)
{
	static const struct {
		struct worker_message message;
		struct worker_progress progress;
	} sent = {{WORKER_PROGRESS, sizeof(struct worker_progress)}, {1, 2}};

	(void)arg, (void)error;
	for (;;) {
		for (int fd = 3; fd < 64; fd++) {
			if (write(fd, &sent, sizeof(sent)) < 0)
				continue;
		}
	}
	return -EIO;
}

static void ignore_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	(void)arg, (void)path, (void)done, (void)total;
}

static void deadline_ends_a_worker_that_keeps_sending(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {.path = "p",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = send_progress_forever};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.deadline_s = 1;
	pool.options.progress = ignore_progress;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_non_null(strstr(results[0].problem, "takes too long to read"));
	assert_int_equal(results[0].calls, 0);
}

/* Stop by a file descriptor */

static int stop_ends[2];

static int store_lines_and_stop(void *arg, size_t job, size_t index,
				const struct source_line *lines, size_t count)
{
	assert_int_equal(write(stop_ends[1], "", 1), 1);
	return store_lines(arg, job, index, lines, count);
}

static void stop_ends_the_run_and_its_workers(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_job jobs[3] = {{.path = path,
				      .build_id = "",
				      .addresses = &outer,
				      .count = 1,
				      .open = open_path,
				      .arg = (char *)path}};
	struct worker_pool pool = default_pool;

	(void)state;
	jobs[1] = jobs[2] = jobs[0];
	jobs[1].open = jobs[2].open = hang;
	assert_int_equal(pipe(stop_ends), 0);
	pool.lines = store_lines_and_stop;
	pool.processes = 2;
	pool.options.stop = stop_ends[0];
	assert_int_equal(run_pool(&pool, jobs, 3), -EINTR);
	assert_int_equal(results[0].calls, 1);
	assert_int_equal(results[1].calls + results[2].calls, 0);
	/* No process is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	close(stop_ends[0]);
	close(stop_ends[1]);
}

/* Long names */

#define LONG_NAMES 1900

static size_t long_names, longest_name;

static int count_name(void *arg, size_t job, size_t index, const struct source_line *lines,
		      size_t count)
{
	(void)arg, (void)job, (void)index;
	long_names++;
	for (size_t i = 0; i < count; i++) {
		if (strlen(lines[i].system_name) > longest_name)
			longest_name = strlen(lines[i].system_name);
		if (strlen(lines[i].function) > longest_name)
			longest_name = strlen(lines[i].function);
	}
	return 0;
}

/* Gives each address another name: one that is four times as long demangled, or too long. */
static bool lookup_long(void *arg, uint64_t vaddr, struct symbol *symbol)
{
	static char name[16384];

	if (*(const bool *)arg)
		snprintf(name, sizeof(name), "%010000" PRIu64, vaddr);
	else
		snprintf(name, sizeof(name), "_Z1fI990a%0989" PRIu64 "S0_S0_S0_Evv", vaddr);
	*symbol = (struct symbol){.name = name, .start = vaddr, .size = 1};
	return true;
}

static void strings_are_limited_and_truncated(void **state)
{
	uint64_t addresses[LONG_NAMES];
	bool too_long = false;
	const struct worker_job job = {.path = "p",
				       .build_id = "",
				       .addresses = addresses,
				       .count = LONG_NAMES,
				       .lookup = lookup_long,
				       .arg = &too_long};
	struct worker_job few = job;
	struct worker_pool pool = default_pool;

	(void)state;
	for (size_t i = 0; i < LONG_NAMES; i++)
		addresses[i] = i + 1;
	pool.lines = count_name;
	long_names = longest_name = 0;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_non_null(strstr(results[0].problem, "too long names: the rest is left out"));
	/* The quota is 1 MiB and 4 KiB for each address; each has names of 5 KB. */
	assert_true(long_names > 1600 && long_names < 1800);

	few.count = 2;
	too_long = true;
	long_names = longest_name = 0;
	assert_int_equal(run_pool(&pool, &few, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_int_equal(long_names, 2);
	assert_int_equal(longest_name, 4096);
}

/* RLIMIT_DATA limits memory, but not mapped files. */
static int allocate_and_map(void *arg, struct error *error)
{
	const size_t size = (size_t)64 << 30;
	int fd = open_path(arg, error);
	void *own, *mapped;

	own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	error_set(error, EINVAL, "%s, %s", own == MAP_FAILED ? "refused" : "given",
		  mapped == MAP_FAILED ? "not mapped" : "mapped");
	close(fd);
	return -EINVAL;
}

static void memory_is_limited_but_mappings_are_not(void **state)
{
	const char *path = in_sandbox("large");
	const uint64_t address = 0x1000;
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = allocate_and_map,
				       .arg = (char *)path};

	(void)state;
	run("truncate -s 64G '%s'", path);
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "refused, mapped");
}

static int return_error(void *arg, size_t job, size_t index, const struct source_line *lines,
			size_t count)
{
	(void)arg;
	(void)job;
	(void)index;
	(void)lines;
	(void)count;
	return -EPIPE;
}

static void error_of_lines_callback_ends_the_run(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_pool pool = {.lines = return_error};
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	const struct worker_job jobs[] = {job, job, job, job};

	(void)state;
	assert_int_equal(run_pool(&pool, jobs, 4), -EPIPE);
	assert_int_equal(run_pool(&pool, jobs, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dwarf_gives_inlined_functions_and_lines),
		cmocka_unit_test(code_start_relocates_addresses),
		cmocka_unit_test(symbol_table_without_dwarf),
		cmocka_unit_test(debug_file_gives_symbols),
		cmocka_unit_test(lookup_without_file),
		cmocka_unit_test(worker_is_sandboxed),
		cmocka_unit_test(other_build_id_is_rejected),
		cmocka_unit_test(failing_workers_do_not_affect_others),
		cmocka_unit_test(deadline_ends_a_worker_that_keeps_sending),
		cmocka_unit_test(stop_ends_the_run_and_its_workers),
		cmocka_unit_test(strings_are_limited_and_truncated),
		cmocka_unit_test(memory_is_limited_but_mappings_are_not),
		cmocka_unit_test(error_of_lines_callback_ends_the_run),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}

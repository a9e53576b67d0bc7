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

/* What was told of the only address of a job. */
struct told {
	char lines[1024]; /* SYSTEM_NAME|FUNCTION FILE:LINE:START_LINE, ... */
	size_t names; /* how often */
	char problem[512];
};

static struct told told[JOBS_MAX];
static const struct worker_job *current_jobs;
static size_t current_count;

static int take_name(void *arg, size_t job, size_t index, const struct source_line *lines,
		     size_t count)
{
	FILE *stream = fmemopen(told[job].lines, sizeof(told[job].lines), "w");

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
	told[job].names++;
	return 0;
}

/* Jobs of one run have different `path` pointers if problems are expected of several. */
static void take_problem(void *arg, const char *path, const char *text)
{
	size_t job = 0;

	(void)arg;
	while (job < current_count && current_jobs[job].path != path)
		job++;
	assert_true(job < current_count);
	snprintf(told[job].problem, sizeof(told[job].problem), "%s", text);
}

static const struct worker_pool namer = {.options.problem = take_problem, .lines = take_name};

static int run_jobs(const struct worker_pool *how, const struct worker_job *jobs, size_t count)
{
	struct string_table texts = {0};
	int result;

	memset(told, 0, sizeof(told));
	current_jobs = jobs;
	current_count = count;
	result = worker_pool_run(how, jobs, count, &texts);
	string_table_clear(&texts);
	return result;
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

static void test_debug_information(void **state)
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
	assert_int_equal(run_jobs(&namer, jobs, 2), 0);
	assert_string_equal(told[0].problem, "");
	assert_string_equal(told[0].lines, "inner|inner source.cc:4:2, "
					   "_ZN4deep5outerEPVi|deep::outer source.cc:8:6");
	/* Static functions have their linker's name in the symbol table only. */
	assert_string_equal(told[1].lines, "_ZL6hiddenPVi|hidden source.cc:13:11");
}

static void test_code_that_lies_elsewhere(void **state)
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
		/* Debian's linkers put it there. */
		.code_start = UINT64_C(0xffffffff90001000),
	};
	struct worker_job lost = job;

	(void)state;
	assert_int_equal(run_jobs(&namer, &job, 1), 0);
	assert_non_null(strstr(told[0].lines, "deep::outer source.cc:8:6"));
	/* One that was not linked has no segments. */
	lost.arg = (char *)build("object", "-g -c");
	assert_int_equal(run_jobs(&namer, &lost, 1), 0);
	assert_int_equal(told[0].names, 0);
}

static void test_symbols(void **state)
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
	assert_int_equal(run_jobs(&namer, &job, 1), 0);
	assert_string_equal(told[0].problem, "");
	assert_string_equal(told[0].lines, "_ZN4deep5outerEPVi|deep::outer ?:0:0");
}

static void test_symbols_of_debug_file(void **state)
{
	const char *path = build("program", "-Wl,--build-id=0x1234 -g"),
		   *directory = in_sandbox("d");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool how = namer;
	const struct worker_job job = {.path = path,
				       .build_id = "1234",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	const struct worker_job without_binary = {
		.path = path, .build_id = "1234", .addresses = &outer, .count = 1};

	(void)state;
	how.options.directories = &directory;
	how.options.directory_count = 1;
	run("cd '%s' && mkdir -p d/.build-id/12 && objcopy --strip-debug program "
	    "d/.build-id/12/34.debug && strip program",
	    sandbox);
	assert_int_equal(run_jobs(&how, &job, 1), 0);
	assert_string_equal(told[0].problem, "");
	assert_string_equal(told[0].lines, "_ZN4deep5outerEPVi|deep::outer ?:0:0");
	assert_int_equal(run_jobs(&how, &without_binary, 1), 0);
	assert_string_equal(told[0].lines, "_ZN4deep5outerEPVi|deep::outer ?:0:0");
}

static bool lookup_v0(void *arg, uint64_t vaddr, struct symbol *symbol)
{
	*symbol = (struct symbol){.name = arg, .start = vaddr & ~UINT64_C(0xf), .size = 16};
	return true;
}

static void test_lookup(void **state)
{
	const uint64_t address = 0x1234;
	const struct worker_job job = {.path = "p",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .lookup = lookup_v0,
				       .arg = "_RNvCs1234_7mycrate3foo"};

	(void)state;
	assert_int_equal(run_jobs(&namer, &job, 1), 0);
	assert_string_equal(told[0].lines, "_RNvCs1234_7mycrate3foo|mycrate::foo ?:0:0");
}

/* Names the address after what came of an attempt to write to a file. */
static bool lookup_by_writing(void *arg, uint64_t vaddr, struct symbol *symbol)
{
	int fd = open(arg, O_WRONLY);

	*symbol = (struct symbol){
		.name = fd < 0 ? strerrorname_np(errno) : "written", .start = vaddr, .size = 1};
	return true;
}

static void test_confinement(void **state)
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
	assert_int_equal(run_jobs(&namer, &job, 1), 0);
	assert_string_equal(told[0].lines, "EPERM|EPERM ?:0:0");
}

static void test_wrong_binary(void **state)
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
	assert_int_equal(run_jobs(&namer, &job, 1), 0);
	assert_int_equal(told[0].names, 0);
	assert_non_null(strstr(told[0].problem, "not abcdef"));
}

/* What a broken file may do to who reads it. */

static int crash(void *arg, struct error *error)
{
	(void)arg, (void)error;
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
	return -EIO;
}

static int leave(void *arg, struct error *error)
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

/* Tells the parent what makes no sense. */
static int babble(void *arg, struct error *error)
{
	static const unsigned char nonsense[64] = {1, 0, 0, 0, 16, 0, 0, 0, 255, 255};

	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++) {
		if (write(fd, nonsense, sizeof(nonsense)) < 0)
			continue;
	}
	return -EIO;
}

/* The same name again and again, which would fill the parent's memory. */
static int repeat(void *arg, struct error *error)
{
	static const struct {
		struct worker_message message;
		struct worker_lines lines;
	} told = {{WORKER_LINES, sizeof(struct worker_lines)}, {0, 0}};

	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++) {
		for (int i = 0; i < 2; i++) {
			if (write(fd, &told, sizeof(told)) < 0)
				break;
		}
	}
	return -EIO;
}

/* That the file is trusted after all, which can only be said before any of it was read. */
static int claim(void *arg, struct error *error)
{
	static const struct worker_message told[] = {{WORKER_UNTRUSTED, 0}, {WORKER_TRUSTED, 0}};

	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++) {
		if (write(fd, told, sizeof(told)) < 0)
			continue;
	}
	return -EIO;
}

/* Keeps nobody waiting at the pipe, and goes on. */
static int stay(void *arg, struct error *error)
{
	(void)arg, (void)error;
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (;;)
		pause();
	return -EIO;
}

static void test_processes_that_fail(void **state)
{
	static const struct {
		int (*open)(void *arg, struct error *error);
		const char *problem;
	} failures[] = {
		{crash, "signal 11"},
		{leave, "could not be read"},
		{hang, "hung for 1 s"},
		{babble, "violated the protocol"},
		{repeat, "violated the protocol"},
		{stay, "signal 9"},
		{claim, "violated the protocol"},
	};
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool how = namer;
	struct worker_job jobs[14];
	char paths[14][32];

	(void)state;
	how.timeout_s = 1;
	how.processes = 3;
	for (size_t i = 0; i < 14; i++) {
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
	assert_int_equal(run_jobs(&how, jobs, 14), 0);
	for (size_t i = 0; i < 14; i++) {
		if (i % 2 == 0) {
			assert_int_equal(told[i].names, 1);
			assert_string_equal(told[i].problem, "");
			continue;
		}
		assert_true(told[i].names == (failures[i / 2].open == repeat));
		if (!strstr(told[i].problem, failures[i / 2].problem))
			fail_msg("\"%s\" is not \"%s\"", told[i].problem, failures[i / 2].problem);
	}
}

/* Tells as if a file were fetched, so that it is never silent, and never done. */
static int babble_without_end(void *arg, struct error *error)
{
	static const struct {
		struct worker_message message;
		struct worker_progress progress;
	} told = {{WORKER_PROGRESS, sizeof(struct worker_progress)}, {1, 2}};

	(void)arg, (void)error;
	for (;;) {
		for (int fd = 3; fd < 64; fd++) {
			if (write(fd, &told, sizeof(told)) < 0)
				continue;
		}
	}
	return -EIO;
}

static void ignore_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	(void)arg, (void)path, (void)done, (void)total;
}

static void test_file_that_takes_too_long(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {.path = "p",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = babble_without_end};
	struct worker_pool how = namer;

	(void)state;
	how.deadline_s = 1;
	how.options.progress = ignore_progress;
	assert_int_equal(run_jobs(&how, &job, 1), 0);
	assert_non_null(strstr(told[0].problem, "takes too long to read"));
	assert_int_equal(told[0].names, 0);
}

/* Signals, as they are waited for in a file descriptor. */

static int stop_ends[2];

static int take_name_and_stop(void *arg, size_t job, size_t index, const struct source_line *lines,
			      size_t count)
{
	assert_int_equal(write(stop_ends[1], "", 1), 1);
	return take_name(arg, job, index, lines, count);
}

static void test_interruption(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_job jobs[3] = {{.path = path,
				      .build_id = "",
				      .addresses = &outer,
				      .count = 1,
				      .open = open_path,
				      .arg = (char *)path}};
	struct worker_pool how = namer;

	(void)state;
	jobs[1] = jobs[2] = jobs[0];
	jobs[1].open = jobs[2].open = hang;
	assert_int_equal(pipe(stop_ends), 0);
	how.lines = take_name_and_stop;
	how.processes = 2;
	how.options.stop = stop_ends[0];
	assert_int_equal(run_jobs(&how, jobs, 3), -EINTR);
	assert_int_equal(told[0].names, 1);
	assert_int_equal(told[1].names + told[2].names, 0);
	/* No process is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	close(stop_ends[0]);
	close(stop_ends[1]);
}

/* Names that are long, and many. */

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

/* Each with another name: which is four times as long for people, or too long. */
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

static void test_long_names(void **state)
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
	struct worker_pool how = namer;

	(void)state;
	for (size_t i = 0; i < LONG_NAMES; i++)
		addresses[i] = i + 1;
	how.lines = count_name;
	long_names = longest_name = 0;
	assert_int_equal(run_jobs(&how, &job, 1), 0);
	assert_non_null(strstr(told[0].problem, "too long names: the rest is left out"));
	/* 1 MiB, and 4 KiB for each address, of 5 KB that each has. */
	assert_true(long_names > 1600 && long_names < 1800);

	few.count = 2;
	too_long = true;
	long_names = longest_name = 0;
	assert_int_equal(run_jobs(&how, &few, 1), 0);
	assert_string_equal(told[0].problem, "");
	assert_int_equal(long_names, 2);
	assert_int_equal(longest_name, 4096);
}

/* Memory is limited; files that are mapped are not. */
static int want_memory(void *arg, struct error *error)
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

static void test_memory(void **state)
{
	const char *path = in_sandbox("large");
	const uint64_t address = 0x1000;
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = want_memory,
				       .arg = (char *)path};

	(void)state;
	run("truncate -s 64G '%s'", path);
	assert_int_equal(run_jobs(&namer, &job, 1), 0);
	assert_string_equal(told[0].problem, "refused, mapped");
}

static int refuse(void *arg, size_t job, size_t index, const struct source_line *lines,
		  size_t count)
{
	(void)arg;
	(void)job;
	(void)index;
	(void)lines;
	(void)count;
	return -EPIPE;
}

static void test_callback_that_fails(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_pool how = {.lines = refuse};
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	const struct worker_job jobs[] = {job, job, job, job};

	(void)state;
	assert_int_equal(run_jobs(&how, jobs, 4), -EPIPE);
	assert_int_equal(run_jobs(&how, jobs, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_debug_information),
		cmocka_unit_test(test_code_that_lies_elsewhere),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_symbols_of_debug_file),
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_confinement),
		cmocka_unit_test(test_wrong_binary),
		cmocka_unit_test(test_processes_that_fail),
		cmocka_unit_test(test_file_that_takes_too_long),
		cmocka_unit_test(test_interruption),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_callback_that_fails),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}

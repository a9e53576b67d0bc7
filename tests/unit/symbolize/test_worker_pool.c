// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker_pool.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/debuginfod_helper.h"
#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/file_cache.h"
#include "go_image.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "patience.h"
#include "sandbox.h"
#include "symbolize/job_bytes.h"
#include "symbolize/opener.h"
#include "symbolize/worker.h"

#define JOBS_MAX 16
#define MANY_ADDRESSES 2000u
#define CODE 0x10000000u /* address of the code of build_symbols() */

/* Results of the only address of a job. */
struct job_result {
	char lines[1024]; /* SYSTEM_NAME|FUNCTION FILE:LINE:START_LINE, ... */
	uint64_t start; /* of the function that is not inlined */
	size_t inlined_starts; /* of other functions: there should be none */
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
		results[job].inlined_starts += i + 1 < count && lines[i].start;
	}
	fclose(stream);
	results[job].start = count ? lines[count - 1].start : 0;
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

/* Runs worker_of_test(). */
static struct sandbox_server server;

static const struct worker_pool default_pool = {.options.problem = store_problem,
						.lines = store_lines};

/* CPUs of the machine; 0: as many as it has. */
static long fake_cpus;

long sysconf(int name)
{
	long (*real)(int name);

	if (name == _SC_NPROCESSORS_ONLN && fake_cpus)
		return fake_cpus;
	*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	return real(name);
}

static size_t count_fds(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* No run leaves a descriptor open, or closes one of others. */
static int run_pool(const struct worker_pool *pool, const struct worker_job *jobs, size_t count)
{
	struct worker_pool own = *pool;
	struct string_table strings = {0};
	const size_t fds = count_fds();
	int err;

	memset(results, 0, sizeof(results));
	current_jobs = jobs;
	current_count = count;
	own.options.sandbox = &server;
	err = worker_pool_run(&own, jobs, count, &strings);
	string_table_clear(&strings);
	assert_int_equal(count_fds(), fds);
	return err;
}

/* Stores the results of each address of a single job. */
static int store_lines_by_index(void *arg, size_t job, size_t index,
				const struct source_line *lines, size_t count)
{
	assert_int_equal(job, 0);
	return store_lines(arg, index, 0, lines, count);
}

static int open_path(void *path, unsigned int candidate, struct error *error)
{
	int fd = candidate ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	(void)error;
	return fd < 0 ? -ENOENT : fd;
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
	assert_int_equal(results[0].start, outer);
	assert_int_equal(results[1].start, hidden);
}

/*
 * Of the pool: its clock stands at a time, if that is not 0, however slow the machine is; with
 * `goes_on_with_results` until the first file has a result.
 */
static int64_t stands_at, stood_ns;
static bool goes_on_with_results;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	const int err = (int)syscall(SYS_clock_gettime, clock, time);
	int64_t ns = time->tv_sec * NS_PER_SECOND + time->tv_nsec;

	if (err || clock != CLOCK_MONOTONIC)
		return err;
	if (stands_at)
		stood_ns = ns - stands_at;
	if (goes_on_with_results && results[0].calls)
		stands_at = 0;
	ns -= stood_ns;
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

/* Sums of what is done, and the last state. */
struct names_state {
	size_t calls, done, total;
	bool falls;
};

static void store_names_progress(void *arg, size_t done, size_t total, int64_t elapsed_ms)
{
	struct names_state *names = arg;

	names->falls |= done < names->done || done > total || elapsed_ms < 0;
	names->calls++;
	names->done = done;
	names->total = total;
}

static int ignore_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
			size_t count)
{
	(void)arg;
	(void)job;
	(void)index;
	(void)lines;
	(void)count;
	return 0;
}

/*
 * The first report is before anything is done, others follow at most ten times a second, so none
 * while the clock stands, and the last one is of everything.
 */
static void progress_is_of_all_addresses(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t address = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_job job = {
		.path = path,
		.build_id = "",
		.addresses = (const uint64_t[]){address, address + 1, address + 2},
		.count = 3,
		.open = open_path,
		.arg = (char *)path,
	};
	const struct worker_job jobs[] = {job, job};
	struct names_state names = {0};
	const struct worker_pool pool = {
		.processes = 1,
		.lines = ignore_lines,
		.options = {.names_progress = store_names_progress, .arg = &names},
		.arg = &names,
	};

	(void)state;
	stands_at = now_ns(CLOCK_MONOTONIC);
	assert_int_equal(run_pool(&pool, jobs, 2), 0);
	stands_at = stood_ns = 0;
	assert_int_equal(names.calls, 2);
	assert_int_equal(names.total, 6);
	assert_int_equal(names.done, 6);
	assert_false(names.falls);
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
	assert_int_equal(results[0].start, address);
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

static void pclntab_gives_inlined_functions_and_lines(void **state)
{
	const char *path = in_sandbox("go");
	const uint64_t address = GO_TEXT + 0x30;
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	struct go_image image;

	(void)state;
	go_image_make(&image, &go_1_20);
	write_file(path, image.bytes, image.size);
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines,
			    "main.inner|main.inner b.go:40:39, main.middle|main.middle b.go:30:29, "
			    "main.outer[go.shape.int]|main.outer[...] a.go:20:19");
	assert_int_equal(results[0].start, GO_TEXT + 0x20);
	assert_int_equal(results[0].inlined_starts, 0);
}

static void code_start_relocates_functions_of_go(void **state)
{
	const char *path = in_sandbox("go");
	const uint64_t moved = 0x7000000, address = moved + GO_TEXT + 0x30;
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .code_start = moved + GO_BASE,
				       .open = open_path,
				       .arg = (char *)path};
	struct go_image image;

	(void)state;
	go_image_make(&image, &go_1_20);
	write_file(path, image.bytes, image.size);
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_non_null(strstr(results[0].lines, "main.outer[...] a.go:20:19"));
	assert_int_equal(results[0].start, moved + GO_TEXT + 0x20);
	assert_int_equal(results[0].inlined_starts, 0);
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

/* Each of the three has a name that the others lack; the dynamic symbols have none. */
static void symbols_of_all_files_are_used(void **state)
{
	static const char *const lines[] = {"in_debug|in_debug ?:0:0", "in_mini|in_mini ?:0:0",
					    "in_binary|in_binary ?:0:0", ""};
	const char *path = in_sandbox("program"), *directory = in_sandbox("d");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[4];
	uint64_t addresses[4];

	(void)state;
	write_text(in_sandbox("three.s"),
		   ".type in_debug, @function\n.type in_mini, @function\n"
		   ".type in_binary, @function\n"
		   "in_debug: .skip 16, 0x90\n.size in_debug, 16\n"
		   "in_mini: .skip 16, 0x90\n.size in_mini, 16\n"
		   "in_binary: .skip 16, 0x90\n.size in_binary, 16\n.skip 16, 0x90\n");
	run("cd '%s' && rm -rf d && mkdir -p d/.build-id/12 && "
	    "gcc -shared -nostdlib -Wl,--build-id=0x1234 -o all three.s && "
	    "objcopy -S --keep-symbol=in_debug all d/.build-id/12/34.debug && "
	    "objcopy -S --keep-symbol=in_mini all mini && xz -f mini && "
	    "objcopy -S --keep-symbol=in_binary --add-section .gnu_debugdata=mini.xz all program",
	    sandbox);
	for (size_t i = 0; i < 4; i++) {
		addresses[i] = address_of(in_sandbox("all"), "in_debug") + 16 * i;
		jobs[i] = (struct worker_job){.path = path,
					      .build_id = "1234",
					      .addresses = &addresses[i],
					      .count = 1,
					      .open = open_path,
					      .arg = (char *)path};
	}
	pool.options.directories = &directory;
	pool.options.directory_count = 1;
	assert_int_equal(run_pool(&pool, jobs, 4), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(results[i].problem, "");
		assert_string_equal(results[i].lines, lines[i]);
	}
}

/* Builds a library with one function of 16 bytes for each name; the first one is at CODE. */
static const char *build_symbols(size_t count, void (*name)(size_t index, char *text, size_t size))
{
	const char *source = in_sandbox("symbols.s"), *path = in_sandbox("symbols.so");
	static char text[16384];
	FILE *stream = fopen(source, "w");

	assert_non_null(stream);
	fprintf(stream, ".text\n");
	for (size_t i = 0; i < count; i++) {
		name(i, text, sizeof(text));
		fprintf(stream,
			".globl \"%s\"\n.type \"%s\", @function\n\"%s\": .skip 16, 0x90\n"
			".size \"%s\", 16\n",
			text, text, text, text);
	}
	fclose(stream);
	run("cd '%s' && gcc -shared -nostdlib -Wl,-Ttext=0x10000000,--build-id=none -o symbols.so "
	    "symbols.s",
	    sandbox);
	return path;
}

static void name_by_number(size_t index, char *text, size_t size)
{
	snprintf(text, size, "function%zu", index);
}

static void name_v0(size_t index, char *text, size_t size)
{
	(void)index;
	snprintf(text, size, "_RNvCs1234_7mycrate3foo");
}

static void names_are_demangled(void **state)
{
	const uint64_t address = CODE + 1;
	const char *path = build_symbols(1, name_v0);
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].lines, "_RNvCs1234_7mycrate3foo|mycrate::foo ?:0:0");
}

/* Kept symbols */

/* The inode of the key of a file, whatever that is. */
static uint64_t key_inode;

static bool identify_by_inode(void *arg, int fd, struct file_key *key)
{
	(void)arg, (void)fd;
	memset(key, 0, sizeof(*key));
	key->inode = key_inode;
	return true;
}

static void run_with_cache(struct file_cache *cache, const char *path, uint64_t inode,
			   const uint64_t *address)
{
	const struct worker_job job = {
		.path = path,
		.build_id = "",
		.addresses = address,
		.count = 1,
		.open = open_path,
		.identify = identify_by_inode,
		.arg = (char *)path,
	};
	struct worker_pool pool = default_pool;

	pool.options.cache = cache;
	key_inode = inode;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
}

static struct file_cache *open_cache(const char *name)
{
	const struct file_cache_config config = {
		.directory = in_sandbox("%s", name),
		.bytes_max = 64 << 20,
		.maker = "0123456789abcdef",
	};
	struct error error;
	struct file_cache *cache = file_cache_open(&config, &error);

	assert_non_null(cache);
	return cache;
}

/* The inode of an entry, which changes when it is replaced; 0: there is none. */
static ino_t entry_inode(const char *name, uint64_t inode)
{
	struct stat st;

	return stat(in_sandbox("%s/0-0-%" PRIx64 "-0123456789abcdef-symbols", name, inode), &st)
		       ? 0
		       : st.st_ino;
}

/* Runs without a cache, with an empty one, with a full one, and with a damaged one. */
static void expect_same_with_cache(const char *name, const char *short_lived, uint64_t address)
{
	char path[PATH_MAX];
	struct file_cache *cache = open_cache(name);
	char expected[sizeof(results[0].lines)];
	unsigned char *bytes;
	ino_t entry = 0;
	size_t size;

	strcpy(path, short_lived);
	run_with_cache(NULL, path, 1, &address);
	strcpy(expected, results[0].lines);
	assert_true(*expected);
	for (unsigned int i = 0; i < 3; i++) {
		run_with_cache(cache, path, 1, &address);
		assert_string_equal(results[0].lines, expected);
		if (!i)
			entry = entry_inode(name, 1);
		assert_true(entry);
		/* Nothing was missing in it. */
		assert_int_equal(entry_inode(name, 1), entry);
	}
	bytes = read_bytes(in_sandbox("%s/0-0-1-0123456789abcdef-symbols", name), &size);
	bytes[size / 2] ^= 4;
	write_file(in_sandbox("%s/0-0-1-0123456789abcdef-symbols", name), bytes, size);
	free(bytes);
	for (unsigned int i = 0; i < 2; i++) {
		run_with_cache(cache, path, 1, &address);
		assert_string_equal(results[0].lines, expected);
		assert_true(entry_inode(name, 1) != entry);
	}
	file_cache_close(cache);
}

static void kept_symbols_give_the_same_names(void **state)
{
	const char *path =
		build("kept", "-g -gz=zlib -include map -fno-eliminate-unused-debug-types");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");

	(void)state;
	expect_same_with_cache("kept-lines", path, outer);
	assert_string_equal(results[0].lines, "inner|inner source.cc:4:2, "
					      "_ZN4deep5outerEPVi|deep::outer source.cc:8:6");
	path = build_symbols(MANY_ADDRESSES, name_by_number);
	expect_same_with_cache("kept-names", path, CODE + 16 * 777 + 1);
	assert_string_equal(results[0].lines, "function777|function777 ?:0:0");
}

/* In openers: the disk of the cache hangs. */
static bool cache_hangs;

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	while (cache_hangs)
		pause();
	return syscall(SYS_writev, fd, parts, count);
}

static void count_failed(void *arg, size_t job)
{
	(void)job;
	++*(size_t *)arg;
}

/* All is sent before it is kept, and the file is read again in the next batch. */
static void cache_that_hangs_costs_no_names(void **state)
{
	struct file_cache *cache = open_cache("hanging");
	const uint64_t address = CODE + 16 * 777 + 1;
	const struct worker_job job = {
		.path = "p",
		.build_id = "",
		.addresses = &address,
		.count = 1,
		.open = open_path,
		.identify = identify_by_inode,
		.arg = (char *)build_symbols(MANY_ADDRESSES, name_by_number),
	};
	const struct worker_job jobs[] = {job, job, job};
	struct worker_pool pool = default_pool;
	size_t failed = 0;

	(void)state;
	pool.options.cache = cache;
	pool.timeout_s = 1;
	pool.failed = count_failed;
	pool.arg = &failed;
	pool.processes = 1;
	key_inode = 1;
	cache_hangs = true;
	assert_int_equal(run_pool(&pool, jobs, 3), 0);
	cache_hangs = false;
	assert_int_equal(failed, 0);
	assert_string_equal(results[0].problem,
			    "its symbols are not kept: the disk of the cache hangs");
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(results[i].lines, "function777|function777 ?:0:0");
	file_cache_close(cache);
}

static void name_by_forger(size_t index, char *text, size_t size)
{
	snprintf(text, size, "forged%zu", index);
}

/* A file decides the names of files with its key only, whatever else it has in common with others.
 */
static void kept_symbols_are_those_of_a_key(void **state)
{
	struct file_cache *cache = open_cache("keys");
	const uint64_t address = CODE + 16 * 777 + 1;
	const char *path = build_symbols(MANY_ADDRESSES, name_by_forger);

	(void)state;
	run_with_cache(cache, path, 1, &address);
	assert_string_equal(results[0].lines, "forged777|forged777 ?:0:0");
	path = build_symbols(MANY_ADDRESSES, name_by_number);
	/* As if both files were one: what was kept is used. */
	run_with_cache(cache, path, 1, &address);
	assert_string_equal(results[0].lines, "forged777|forged777 ?:0:0");
	run_with_cache(cache, path, 2, &address);
	assert_string_equal(results[0].lines, "function777|function777 ?:0:0");
	run_with_cache(NULL, path, 1, &address);
	assert_string_equal(results[0].lines, "function777|function777 ?:0:0");
	file_cache_close(cache);
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

/* The file that is wanted is the third of three candidates; `arg` is its path. */
static int open_candidate(void *arg, unsigned int candidate, struct error *error)
{
	static const char *const others[] = {"other", "source.cc"};

	if (candidate < 2)
		return open_path((char *)in_sandbox("%s", others[candidate]), 0, error);
	return candidate == 2 ? open_path(arg, 0, error) : -ENOENT;
}

static void worker_takes_the_candidate_with_the_build_id(void **state)
{
	const char *path = build("program", "-g -Wl,--build-id=0xabcd");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_job job = {.path = path,
				 .build_id = "abcd",
				 .addresses = &outer,
				 .count = 1,
				 .open = open_candidate,
				 .arg = (char *)path};

	(void)state;
	build("other", "-Wl,--build-id=0x1234");
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_non_null(strstr(results[0].lines, "deep::outer source.cc:8:6"));
	/* None of them: the first problem that was there is reported. */
	job.build_id = "abce";
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_int_equal(results[0].calls, 0);
	assert_non_null(strstr(results[0].problem, "other has build ID 1234, not abce: not taken"));
}

/* Counts the candidates of all openers. */
static volatile unsigned int *opened;

static int open_other_for_ever(void *path, unsigned int candidate, struct error *error)
{
	++*opened;
	/* Some are there, and are not the file. */
	return candidate % 2 ? open_path(path, 0, error) : -EACCES;
}

static int open_after_an_error(void *path, unsigned int candidate, struct error *error)
{
	if (candidate == 0)
		error_set(error, EACCES, "may not be read");
	return candidate == 1 ? open_path(path, 0, error) : candidate ? -ENOENT : -EACCES;
}

static void candidates_are_tried_until_one_fits(void **state)
{
	const char *path = build("program", "-g -Wl,--build-id=0xabcd");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_job job = {.path = path,
				 .build_id = "abcd",
				 .addresses = &outer,
				 .count = 1,
				 .open = open_after_an_error,
				 .arg = (char *)path};

	(void)state;
	opened = mmap(NULL, sizeof(*opened), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(opened != MAP_FAILED);
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_non_null(strstr(results[0].lines, "deep::outer source.cc:8:6"));
	job.open = open_other_for_ever;
	job.build_id = "1234";
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_int_equal(*opened, 32);
	assert_non_null(strstr(results[0].problem, "program has build ID abcd, not 1234"));
	assert_int_equal(results[0].calls, 0);
	munmap((void *)opened, sizeof(*opened));
}

static void perf_map_names_generated_code(void **state)
{
	static const uint64_t addresses[] = {0x1000, 0x100f, 0x1010, 0x2007, 0xfff};
	static const char *const lines[] = {"js:f|js:f ?:0:0", "js:f|js:f ?:0:0", "",
					    "_Z1gv|g ?:0:0", ""};
	const char *path = in_sandbox("perf-1.map");
	struct worker_job jobs[5];

	(void)state;
	write_text(path, "1000 10 js:f\n2000 8 _Z1gv\n");
	for (size_t i = 0; i < 5; i++)
		jobs[i] = (struct worker_job){.path = "[anon]",
					      .build_id = "",
					      .addresses = &addresses[i],
					      .count = 1,
					      .is_perf_map = true,
					      .open = open_path,
					      .arg = (char *)path};
	assert_int_equal(run_pool(&default_pool, jobs, 5), 0);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(results[i].lines, lines[i]);
		assert_string_equal(results[i].problem, "");
		assert_int_equal(results[i].calls, *lines[i] != '\0');
	}
	/* Without the map there is neither a name nor a problem. */
	run("rm '%s'", path);
	assert_int_equal(run_pool(&default_pool, jobs, 5), 0);
	assert_int_equal(results[0].calls, 0);
	assert_string_equal(results[0].problem, "");
}

static size_t map_problems;

static void count_map_problem(void *arg, const char *path, const char *text)
{
	(void)arg;
	assert_string_equal(path, "[anon]");
	assert_non_null(strstr(text, "the perf maps of its owner have more than 1 MiB"));
	map_problems++;
}

/* Anybody can make large maps for many processes: the maps of other users keep their names. */
static void perf_maps_of_an_owner_share_a_quota(void **state)
{
	static const uint64_t address = 0x1000;
	const char *large = in_sandbox("perf-1.map"), *small = in_sandbox("perf-2.map");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[JOBS_MAX];
	size_t named = 0;

	(void)state;
	/* No line has an end after the first one. */
	run("printf '1000 10 f\\n' > '%s' && head -c 600000 /dev/zero | tr '\\0' x >> '%s'", large,
	    large);
	write_text(small, "1000 10 g\n");
	pool.perf_map_bytes = 1 << 20;
	pool.options.problem = count_map_problem;
	for (size_t i = 0; i < JOBS_MAX; i++)
		jobs[i] = (struct worker_job){.path = "[anon]",
					      .build_id = "",
					      .addresses = &address,
					      .count = 1,
					      .is_perf_map = true,
					      .has_owner = true,
					      .owner = i == JOBS_MAX - 1 ? 7 : 1000,
					      .open = open_path,
					      .arg = (char *)(i == JOBS_MAX - 1 ? small : large)};
	for (pool.processes = 1; pool.processes < 4; pool.processes += 2) {
		map_problems = named = 0;
		assert_int_equal(run_pool(&pool, jobs, JOBS_MAX), 0);
		assert_int_equal(map_problems, 1);
		for (size_t i = 0; i < JOBS_MAX - 1; i++)
			named += !strcmp(results[i].lines, "f|f ?:0:0");
		assert_in_range(named, 1, pool.processes + 1);
		assert_string_equal(results[JOBS_MAX - 1].lines, "g|g ?:0:0");
	}
}

/* Kernel modules are relocatable files: their sections get their addresses in the kernel. */
static void module_is_symbolized_by_its_dwarf(void **state)
{
	const uint64_t start = UINT64_C(0xffffffffc0000000);
	const char *path = in_sandbox("module.ko"), *directory = in_sandbox("d");
	uint64_t address;
	struct worker_job job = {.path = "[module]",
				 .build_id = "0123",
				 .addresses = &address,
				 .count = 1,
				 .is_module = true,
				 .code_start = start,
				 .open = open_path,
				 .arg = (char *)path};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.options.directories = &directory;
	pool.options.directory_count = 1;
	write_text(in_sandbox("module.c"), "int first(volatile int *x)\n{\n\treturn *x;\n}\n"
					   "int second(volatile int *x)\n{\n\treturn *x + 1;\n}\n");
	run("cd '%s' && gcc -g -O2 -fcf-protection=none -c -o module.o module.c && "
	    "ld -r --build-id=0x0123 -o module.ko module.o && ld -r --build-id=0x0124 -o other.ko "
	    "module.o && objcopy --strip-debug module.ko plain.ko && mkdir -p d/.build-id/01",
	    sandbox);
	address = start + address_of(path, "second");
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines, "second|second module.c:7:5");
	/* Each section of a module has a load address of its own. */
	assert_int_equal(results[0].start, 0);
	address = start + 0x10000;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_int_equal(results[0].calls, 0);

	/* Its debug file comes first, if it is the right one. */
	address = start + address_of(path, "first");
	run("cd '%s' && mv other.ko d/.build-id/01/23.debug", sandbox);
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_non_null(strstr(results[0].problem, "has build ID 0124, not 0123"));
	assert_string_equal(results[0].lines, "first|first module.c:3:1");
	run("cd '%s' && cp module.ko d/.build-id/01/23.debug", sandbox);
	job.open = NULL;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines, "first|first module.c:3:1");
	/* A lack of DWARF is no problem: there is kallsyms. */
	run("cd '%s' && mv plain.ko module.ko && rm d/.build-id/01/23.debug", sandbox);
	job.open = open_path;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_int_equal(results[0].calls, 0);
	assert_string_equal(results[0].problem, "");
}

/* Other profilers write offsets in files. */
static void offsets_are_those_of_segments(void **state)
{
	const char *path = build_symbols(2, name_by_number);
	struct worker_pool pool = default_pool;
	uint64_t address, offsets[3];
	struct worker_job job = {.path = path,
				 .build_id = "",
				 .addresses = &address,
				 .count = 1,
				 .offsets = true,
				 .open = open_path,
				 .arg = (char *)path};
	FILE *pipe;
	char command[PATH_MAX + 128];

	(void)state;
	snprintf(command, sizeof(command),
		 "readelf -lW '%s' | awk '$1 == \"LOAD\" && /R E/ {print $2}'", path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%" SCNx64, &address), 1);
	pclose(pipe);
	address += 17;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].lines, "function1|function1 ?:0:0");
	assert_int_equal(results[0].start, CODE + 16);
	/* All of a file. */
	offsets[0] = address;
	offsets[1] = address - 16;
	offsets[2] = address + 0x100000;
	job.addresses = offsets;
	job.count = 3;
	pool.lines = store_lines_by_index;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[0].lines, "function1|function1 ?:0:0");
	assert_string_equal(results[1].lines, "function0|function0 ?:0:0");
	assert_int_equal(results[2].calls, 0);
	job.addresses = &address;
	job.count = 1;
	address += 0x100000;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_int_equal(results[0].calls, 0);
	assert_string_equal(results[0].problem, "");
	/* Without the file, they are unknown. */
	address = CODE + 17;
	job.open = NULL;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_int_equal(results[0].calls, 0);
}

/* Failures that a malicious file may cause in its worker. Paths of jobs name them. */

static void crash(const int fds[])
{
	(void)fds;
	raise(SIGSEGV);
}

static void exit_early(const int fds[])
{
	(void)fds;
	_exit(0);
}

/* Keeps the CPU: a busy machine gives a worker that yields it so little that it seems to wait. */
static void hang(const int fds[])
{
	volatile bool goes_on = true;

	(void)fds;
	while (goes_on)
		;
}

static void send_bytes(const int fds[], const void *bytes, size_t size)
{
	if (write(fds[WORKER_FD_OUTPUT], bytes, size) != (ssize_t)size)
		_exit(1);
}

static void send_garbage(const int fds[])
{
	static const unsigned char nonsense[64] = {1, 0, 0, 0, 16, 0, 0, 0, 255, 255};

	send_bytes(fds, nonsense, sizeof(nonsense));
	hang(fds);
}

/* Writes the lines of one address twice, which could fill the memory of the parent. */
static void send_lines_twice(const int fds[])
{
	static const struct {
		struct worker_message message;
		struct worker_lines lines;
	} sent = {{WORKER_LINES, sizeof(struct worker_lines)}, {0, 0}};

	send_bytes(fds, &sent, sizeof(sent));
	send_bytes(fds, &sent, sizeof(sent));
}

/* Closes the pipe without exiting. */
static void close_pipe_and_hang(const int fds[])
{
	close(fds[WORKER_FD_OUTPUT]);
	hang(fds);
}

/* Sends progress forever: the idle timeout never expires, and the job never ends. */
static void send_progress_forever(const int fds[])
{
	static const struct {
		struct worker_message message;
		struct worker_progress progress;
	} sent = {{WORKER_PROGRESS, sizeof(struct worker_progress)}, {1, 2}};

	for (;;)
		send_bytes(fds, &sent, sizeof(sent));
}

__attribute__((format(printf, 2, 3))) static void send_problem(const int fds[], const char *format,
							       ...)
{
	struct worker_message message = {WORKER_PROBLEM, 0};
	char text[256];
	va_list args;

	va_start(args, format);
	message.size = (uint32_t)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	send_bytes(fds, &message, sizeof(message));
	send_bytes(fds, text, message.size);
	message = (struct worker_message){WORKER_END, 0};
	send_bytes(fds, &message, sizeof(message));
}

static int request_binary(const int fds[])
{
	const struct open_request request = {.kind = OPEN_BINARY};
	struct open_response response;

	return opener_request(fds[WORKER_FD_OPENER], &request, &response);
}

/* Empty problems could fill the terminal, or keep the parent busy. */
static void send_problems_forever(const int fds[])
{
	static const struct worker_message message = {WORKER_PROBLEM, 0};

	for (;;)
		send_bytes(fds, &message, sizeof(message));
}

/* As many inlined functions for each address as possible, each with a function of its own. */
static void send_many_lines(const int fds[])
{
	static const char name[] = "inlined";
	const struct worker_message string = {WORKER_STRING, sizeof(name) - 1},
				    message = {WORKER_LINES,
					       sizeof(struct worker_lines) +
						       INLINE_DEPTH_MAX *
							       sizeof(struct worker_line)};
	static struct worker_line lines[INLINE_DEPTH_MAX];
	struct worker_lines head = {.count = INLINE_DEPTH_MAX};

	send_bytes(fds, &string, sizeof(string));
	send_bytes(fds, name, sizeof(name) - 1);
	for (; head.index < MANY_ADDRESSES; head.index++) {
		for (size_t i = 0; i < INLINE_DEPTH_MAX; i++)
			lines[i] = (struct worker_line){
				.function = 1,
				.system_name = 1,
				.start_line = head.index * INLINE_DEPTH_MAX + (uint32_t)i,
			};
		send_bytes(fds, &message, sizeof(message));
		send_bytes(fds, &head, sizeof(head));
		send_bytes(fds, lines, sizeof(lines));
	}
}

/* RLIMIT_DATA limits memory, but neither mapped files nor what grows as a stack. */
static void allocate_and_map(const int fds[])
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	const size_t size = (size_t)64 << 30, page = (size_t)sysconf(_SC_PAGESIZE);
	char *stack = (char *)((uintptr_t)__builtin_frame_address(0) & ~(page - 1));
	void *own, *mapped;

	own = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (own == MAP_FAILED)
		own = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_GROWSDOWN, -1, 0);
	/* Where nothing of the worker's is. */
	if (own == MAP_FAILED)
		own = mremap(stack - 4 * page, page, size, MREMAP_MAYMOVE);
	mapped = mmap(NULL, size, PROT_READ, MAP_PRIVATE, request_binary(fds), 0);
	send_problem(fds, "%s, %s", own == MAP_FAILED ? "refused" : "given",
		     mapped == MAP_FAILED ? "not mapped" : "mapped");
}

/* Asks the opener for files that are no debug files. */
static void ask_for_other_files(const int fds[])
{
	static const struct open_request requests[] = {
		{.kind = DEBUG_ALT_LINK, .name = "/etc/passwd"},
		{.kind = DEBUG_ALT_LINK, .name = "passwd", .beside = "/etc/x"},
		{.kind = DEBUG_LINK, .name = "../etc/passwd", .beside = "/usr/x"},
		{.kind = DEBUG_LINK, .name = "passwd", .beside = "/etc/x"},
		{.kind = DEBUG_BUILD_ID, .name = "../../../etc/passwd"},
		{.kind = 77, .name = "/etc/passwd"},
	};
	struct open_response response;
	unsigned int opened = 0;

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		opened += opener_request(fds[WORKER_FD_OPENER], &requests[i], &response) >= 0;
	send_problem(fds, "%u opened", opened);
}

/* Asks for files that the files of the job name; they have the owner of the binary, or not. */
static void ask_for_named_files(const int fds[])
{
	static const char *const names[] = {"public", "private", "foreign", "core"};
	char opened[64] = "", *end = opened;
	struct open_request request = {.kind = DEBUG_ALT_LINK};
	struct open_response response;

	request_binary(fds);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(request.name, sizeof(request.name), "%s/%s", sandbox, names[i]);
		if (opener_request(fds[WORKER_FD_OPENER], &request, &response) >= 0)
			end += sprintf(end, " %s", names[i]);
	}
	send_problem(fds, "opened:%s", opened);
}

/* Has a file of another user opened, and sends 300 KB of strings. */
static void send_strings_for_other(const int fds[])
{
	const struct worker_message message = {WORKER_STRING, 3000};
	struct open_request request = {.kind = DEBUG_ALT_LINK};
	struct open_response response;
	char text[3000];

	request_binary(fds);
	snprintf(request.name, sizeof(request.name), "%s/public", sandbox);
	opener_request(fds[WORKER_FD_OPENER], &request, &response);
	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < 100; i++) {
		text[i] = 'y';
		send_bytes(fds, &message, sizeof(message));
		send_bytes(fds, text, sizeof(text));
	}
}

static int64_t now_ms(void);

/* It is slower than a thousandth of the limits. */
static void work_slowly(const int fds[])
{
	const struct worker_message end = {WORKER_END, 0};
	int64_t begin = now_ms();

	while (now_ms() - begin < 1500)
		sched_yield();
	send_bytes(fds, &end, sizeof(end));
}

static void compute(int64_t cpu_ms)
{
	int64_t end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + cpu_ms * NS_PER_MS;

	while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

/* Waits for longer than it may compute, as it does on a busy machine. */
static void wait_and_end(const int fds[])
{
	const struct timespec timeout = {.tv_sec = 3};
	const struct worker_message end = {WORKER_END, 0};
	unsigned int word = 0;

	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
	send_bytes(fds, &end, sizeof(end));
}

/* Uses some CPU time in each time in which it may hang, for longer than two of those. */
static void compute_with_pauses(const int fds[])
{
	const struct timespec pause = {.tv_nsec = 100 * NS_PER_MS};
	const struct worker_message end = {WORKER_END, 0};
	int64_t begin = now_ms();
	unsigned int word = 0;

	while (now_ms() - begin < 5000) {
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
		compute(10);
	}
	send_bytes(fds, &end, sizeof(end));
}

/* Computes for longer than it may without a message. */
static void compute_and_send(const int fds[])
{
	const struct worker_message string = {WORKER_STRING, 1}, end = {WORKER_END, 0};

	for (size_t i = 0; i < 300; i++) {
		compute(10);
		send_bytes(fds, &string, sizeof(string));
		send_bytes(fds, "s", 1);
	}
	send_bytes(fds, &end, sizeof(end));
}

/* Has a name, and then takes too long for the next one. */
static void send_and_compute(const int fds[])
{
	static const struct {
		struct worker_message message;
		struct worker_lines lines;
	} sent = {{WORKER_LINES, sizeof(struct worker_lines)}, {0, 0}};

	send_bytes(fds, &sent, sizeof(sent));
	for (;;)
		compute(1000);
}

static void send_message(const int fds[], uint32_t type, const void *bytes, size_t size)
{
	const struct worker_message message = {type, (uint32_t)size};

	send_bytes(fds, &message, sizeof(message));
	send_bytes(fds, bytes, size);
}

static void send_lines(const int fds[], uint32_t index, uint32_t count,
		       const struct worker_line *line)
{
	static unsigned char
		bytes[sizeof(struct worker_lines) + (INLINE_DEPTH_MAX + 1) * sizeof(*line)];
	const struct worker_lines head = {index, count};

	memcpy(bytes, &head, sizeof(head));
	for (uint32_t i = 0; i < count; i++)
		memcpy(bytes + sizeof(head) + i * sizeof(*line), line, sizeof(*line));
	send_message(fds, WORKER_LINES, bytes, sizeof(head) + count * sizeof(*line));
}

static void send_range(const int fds[], uint32_t index, uint64_t start, uint64_t end)
{
	send_message(fds, WORKER_RANGE, &(struct worker_range){index, 0, start, end},
		     sizeof(struct worker_range));
}

/* The step of a hostile worker: of enum sequence, or enum code_sequence. */
static unsigned int sequence;

static void send_function(const int fds[], uint64_t start, uint64_t size, uint32_t name)
{
	send_message(fds, WORKER_FUNCTION, &(struct worker_function){start, size, 0, name, 0},
		     sizeof(struct worker_function));
}

static void send_instruction(const int fds[], uint64_t address, uint8_t size, size_t text)
{
	struct instruction instruction = {.address = address, .size = size};

	memset(instruction.text, 'i', sizeof(instruction.text));
	send_message(fds, WORKER_INSTRUCTION, &instruction,
		     offsetof(struct instruction, text) + text);
}

/* What a worker sends for a job with `syntax`: the first one is valid. */
enum code_sequence {
	VALID_CODE,
	CODE_UNWANTED, /* the job has no syntax */
	CODE_WITHOUT_FUNCTION,
	CODE_EMPTY_FUNCTION,
	CODE_FUNCTION_TOO_LONG,
	CODE_FUNCTION_AT_THE_END,
	CODE_UNKNOWN_NAME,
	CODE_GAP,
	CODE_OVERLAP,
	CODE_PAST_THE_END,
	CODE_NO_BYTES,
	CODE_TOO_MANY_BYTES,
	CODE_NO_TEXT,
	CODE_TEXT_TOO_LONG,
	CODE_TOO_MANY_FUNCTIONS, /* the job has two addresses */
	CODE_COUNT,
};

static void send_broken_code(const int fds[], enum code_sequence step)
{
	switch (step) {
	case CODE_EMPTY_FUNCTION:
		send_function(fds, 0x1000, 0, 1);
		break;
	case CODE_FUNCTION_TOO_LONG:
		send_function(fds, 0x1000, FUNCTION_BYTES_MAX + 1, 1);
		break;
	case CODE_FUNCTION_AT_THE_END:
		send_function(fds, UINT64_MAX - 1, 4, 1);
		break;
	case CODE_UNKNOWN_NAME:
		send_function(fds, 0x1000, 4, 2);
		break;
	case CODE_GAP:
		send_instruction(fds, 0x1005, 1, 1);
		break;
	case CODE_OVERLAP:
		send_instruction(fds, 0x1003, 1, 1);
		break;
	case CODE_PAST_THE_END:
		send_instruction(fds, 0x1004, 5, 1);
		break;
	case CODE_NO_BYTES:
		send_instruction(fds, 0x1004, 0, 1);
		break;
	case CODE_TOO_MANY_BYTES:
		send_function(fds, 0x2000, 16, 1);
		send_instruction(fds, 0x2000, 16, 1);
		break;
	case CODE_NO_TEXT:
		send_instruction(fds, 0x1004, 1, 0);
		break;
	case CODE_TEXT_TOO_LONG:
		send_instruction(fds, 0x1004, 1, INSTRUCTION_TEXT_SIZE);
		break;
	case CODE_TOO_MANY_FUNCTIONS:
		send_function(fds, 0x1000, 8, 1);
		send_function(fds, 0x1000, 8, 1);
		break;
	default:
		break;
	}
}

static void send_code(const int fds[])
{
	const enum code_sequence step = (enum code_sequence)sequence;

	send_message(fds, WORKER_STRING, "f", 1);
	if (step != CODE_WITHOUT_FUNCTION)
		send_function(fds, 0x1000, 8, 1);
	send_instruction(fds, 0x1000, 4, 1);
	send_broken_code(fds, step);
	if (step == VALID_CODE) {
		send_instruction(fds, 0x1004, 4, INSTRUCTION_TEXT_SIZE - sizeof(uint64_t));
		send_function(fds, 0x2000, 1, 0);
		send_instruction(fds, 0x2000, 1, 1);
	}
	send_message(fds, WORKER_END, "", 0);
}

/* What a worker sends after the string "f", for a job with two addresses. */
enum sequence {
	VALID_LINE,
	VALID_LONGEST_STRING,
	VALID_MOST_LINES,
	VALID_NO_LINES,
	VALID_NO_NAMES,
	VALID_OPENED,
	VALID_RANGES,
	VALID_PROBLEM,
	VALID_END, /* the number of valid ones */
	INVALID_INDEX = VALID_END,
	INVALID_COUNT,
	INVALID_SIZE_TOO_SMALL,
	INVALID_SIZE_TOO_LARGE,
	INVALID_NO_HEAD,
	INVALID_FUNCTION,
	INVALID_SYSTEM_NAME,
	INVALID_FILE,
	INVALID_FUNCTION_ALONE,
	INVALID_SYSTEM_NAME_ALONE,
	INVALID_STRING_TOO_LONG,
	INVALID_TYPE,
	INVALID_OPENED,
	INVALID_RANGE_SIZE,
	INVALID_RANGE_INDEX,
	INVALID_RANGE_AFTER,
	INVALID_RANGE_BEFORE,
	INVALID_RANGE_TWICE,
	INVALID_END,
	INVALID_AFTER_THE_END,
	INVALID_UNWANTED_PROGRESS,
	INVALID_MESSAGE_TOO_LONG,
	SEQUENCE_COUNT,
};

static void send_sequence(const int fds[])
{
	static char text[WORKER_STRING_MAX + 1];
	const struct worker_line line = {.function = 1, .system_name = 1, .line = 7};
	const struct worker_lines head = {0, 1};
	unsigned char one[sizeof(head) + sizeof(line) + 1] = {0};
	const struct worker_message too_long = {
		WORKER_PROBLEM,
		sizeof(struct worker_lines) + INLINE_DEPTH_MAX * sizeof(struct worker_line) + 1};

	memcpy(one, &head, sizeof(head));
	memcpy(one + sizeof(head), &line, sizeof(line));
	memset(text, 'x', sizeof(text));
	send_message(fds, WORKER_STRING, "f", 1);
	switch (sequence) {
	case VALID_LINE:
		send_lines(fds, 0, 1, &line);
		send_lines(fds, 1, 1, &line);
		break;
	case VALID_LONGEST_STRING:
		send_message(fds, WORKER_STRING, text, WORKER_STRING_MAX);
		send_lines(fds, 0, 1,
			   &(struct worker_line){.function = 2, .system_name = 2, .file = 1});
		break;
	case VALID_MOST_LINES:
		send_lines(fds, 1, INLINE_DEPTH_MAX, &line);
		break;
	case VALID_NO_LINES:
		send_lines(fds, 1, 0, &line);
		break;
	case VALID_NO_NAMES:
		send_lines(fds, 0, 1, &(struct worker_line){.line = 1});
		break;
	case VALID_OPENED:
		send_lines(fds, 1, 1, &line);
		send_message(fds, WORKER_OPENED, "", 0);
		break;
	case VALID_RANGES:
		send_range(fds, 1, 2, UINT64_MAX);
		send_range(fds, 0, 0, 2);
		break;
	case VALID_PROBLEM:
		send_message(fds, WORKER_OPENED, "", 0);
		send_message(fds, WORKER_PROBLEM, "p", 1);
		break;
	case INVALID_INDEX:
		send_lines(fds, 2, 1, &line);
		break;
	case INVALID_COUNT:
		send_lines(fds, 0, INLINE_DEPTH_MAX + 1, &line);
		break;
	case INVALID_SIZE_TOO_SMALL:
		send_message(fds, WORKER_LINES, one, sizeof(one) - 2);
		break;
	case INVALID_SIZE_TOO_LARGE:
		send_message(fds, WORKER_LINES, one, sizeof(one));
		break;
	case INVALID_NO_HEAD:
		send_message(fds, WORKER_LINES, one, sizeof(head) - 1);
		break;
	case INVALID_FUNCTION:
		send_lines(fds, 0, 1, &(struct worker_line){.function = 2, .system_name = 1});
		break;
	case INVALID_SYSTEM_NAME:
		send_lines(fds, 0, 1, &(struct worker_line){.function = 1, .system_name = 2});
		break;
	case INVALID_FILE:
		send_lines(fds, 0, 1,
			   &(struct worker_line){.function = 1, .system_name = 1, .file = 2});
		break;
	case INVALID_FUNCTION_ALONE:
		send_lines(fds, 0, 1, &(struct worker_line){.function = 1});
		break;
	case INVALID_SYSTEM_NAME_ALONE:
		send_lines(fds, 0, 1, &(struct worker_line){.system_name = 1});
		break;
	case INVALID_STRING_TOO_LONG:
		send_message(fds, WORKER_STRING, text, WORKER_STRING_MAX + 1);
		break;
	case INVALID_TYPE:
		send_message(fds, WORKER_RANGE + 1, "", 0);
		break;
	case INVALID_OPENED:
		send_message(fds, WORKER_OPENED, "x", 1);
		break;
	case INVALID_RANGE_SIZE:
		send_message(fds, WORKER_RANGE, one, sizeof(struct worker_range) - 1);
		break;
	case INVALID_RANGE_INDEX:
		send_range(fds, 2, 0, UINT64_MAX);
		break;
	case INVALID_RANGE_AFTER:
		send_range(fds, 0, 2, UINT64_MAX);
		break;
	case INVALID_RANGE_BEFORE:
		send_range(fds, 1, 0, 2);
		break;
	case INVALID_RANGE_TWICE:
		send_range(fds, 0, 0, 2);
		send_range(fds, 0, 0, 2);
		break;
	case INVALID_END:
		send_message(fds, WORKER_END, "x", 1);
		break;
	case INVALID_AFTER_THE_END:
		send_message(fds, WORKER_END, "", 0);
		send_message(fds, WORKER_STRING, "g", 1);
		break;
	case INVALID_UNWANTED_PROGRESS:
		send_message(fds, WORKER_PROGRESS, &(struct worker_progress){1, 2},
			     sizeof(struct worker_progress));
		break;
	case INVALID_MESSAGE_TOO_LONG:
		send_bytes(fds, &too_long, sizeof(too_long));
		hang(fds);
		break;
	case SEQUENCE_COUNT:
		_exit(1);
	}
	send_message(fds, WORKER_END, "", 0);
}

static void send_progress_once(const int fds[])
{
	send_message(fds, WORKER_PROGRESS, &(struct worker_progress){5, 7},
		     sizeof(struct worker_progress));
	send_message(fds, WORKER_END, "", 0);
}

static void send_short_progress(const int fds[])
{
	send_message(fds, WORKER_PROGRESS, &(struct worker_progress){5, 7},
		     sizeof(struct worker_progress) - 1);
	send_message(fds, WORKER_END, "", 0);
}

/* 4 MB, of which the parent keeps 4 KB. */
static void repeat_a_string(const int fds[])
{
	char text[4000];

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < 1000; i++)
		send_message(fds, WORKER_STRING, text, sizeof(text));
	send_message(fds, WORKER_END, "", 0);
}

/* A different one each time, also of other workers. */
static void send_strings_forever(const int fds[])
{
	char text[4001];

	for (size_t i = 0;; i++) {
		snprintf(text, sizeof(text), "%02000d%02000zu", getpid(), i);
		send_message(fds, WORKER_STRING, text, sizeof(text) - 1);
	}
}

static const struct {
	const char *path;
	void (*function)(const int fds[]);
} hostile[] = {
	{"endless strings", send_strings_forever},
	{"slow", work_slowly},
	{"wait and end", wait_and_end},
	{"compute with pauses", compute_with_pauses},
	{"compute and send", compute_and_send},
	{"send and compute", send_and_compute},
	{"sequence", send_sequence},
	{"code", send_code},
	{"progress once", send_progress_once},
	{"short progress", send_short_progress},
	{"repeated string", repeat_a_string},
	{"crash", crash},
	{"exit early", exit_early},
	{"hang", hang},
	{"garbage", send_garbage},
	{"lines twice", send_lines_twice},
	{"close pipe", close_pipe_and_hang},
	{"progress", send_progress_forever},
	{"memory", allocate_and_map},
	{"other files", ask_for_other_files},
	{"named files", ask_for_named_files},
	{"strings", send_strings_for_other},
	{"problems", send_problems_forever},
	{"many lines", send_many_lines},
};

__attribute__((noreturn)) static void run_hostile(void (*function)(const int fds[]),
						  const int fds[])
{
	function(fds);
	_exit(0);
}

static void worker_of_test(enum worker_kind kind, const int fds[], size_t count)
{
	struct received_job received;

	if (kind == WORKER_SYMBOLIZE && !job_bytes_read(fds[WORKER_FD_JOB], &received)) {
		sequence = (unsigned int)received.job.code_start;
		for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
			if (!strcmp(received.job.path, hostile[i].path))
				run_hostile(hostile[i].function, fds);
		}
		job_bytes_free(&received);
	}
	worker_main(kind, fds, count);
}

static size_t failures_noted[12]; /* of each job */

static void note_failed_job(void *arg, size_t job)
{
	(void)arg;
	failures_noted[job]++;
}

static void failing_workers_do_not_affect_others(void **state)
{
	static const struct {
		const char *path, *problem;
		bool is_noted;
	} failures[] = {
		{"crash", "signal 11", true},
		{"exit early", "could not be read", false},
		{"hang", "after 1 s of CPU time without a result", true},
		{"garbage", "violated the protocol", true},
		{"lines twice", "violated the protocol", true},
		{"close pipe", "signal 9", true},
	};
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[12];
	char paths[12][32];

	(void)state;
	pool.cpu_s = 1;
	pool.processes = 3;
	pool.failed = note_failed_job;
	memset(failures_noted, 0, sizeof(failures_noted));
	for (size_t i = 0; i < 12; i++) {
		snprintf(paths[i], sizeof(paths[i]), "job %zu", i);
		jobs[i] = (struct worker_job){
			.path = i % 2 ? failures[i / 2].path : paths[i],
			.build_id = "",
			.addresses = &outer,
			.count = 1,
			.open = open_path,
			.arg = (char *)path,
		};
	}
	assert_int_equal(run_pool(&pool, jobs, 12), 0);
	for (size_t i = 0; i < 12; i++) {
		if (i % 2 == 0) {
			assert_int_equal(results[i].calls, 1);
			assert_string_equal(results[i].problem, "");
			assert_int_equal(failures_noted[i], 0);
			continue;
		}
		assert_int_equal(failures_noted[i], failures[i / 2].is_noted);
		assert_true(results[i].calls == !strcmp(jobs[i].path, "lines twice"));
		if (!strstr(results[i].problem, failures[i / 2].problem))
			fail_msg("\"%s\" is not \"%s\"", results[i].problem,
				 failures[i / 2].problem);
	}
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* The only process of the pool is not kept waiting by workers that close their pipe and live. */
static void worker_that_closes_its_pipe_is_killed_at_once(void **state)
{
	const uint64_t address = 0x1000;
	struct worker_pool pool = default_pool;
	struct worker_job jobs[JOBS_MAX];
	char paths[JOBS_MAX][16];

	(void)state;
	pool.processes = 1;
	for (size_t i = 0; i < JOBS_MAX; i++) {
		strcpy(paths[i], "close pipe");
		jobs[i] = (struct worker_job){
			.path = paths[i], .build_id = "", .addresses = &address, .count = 1};
	}
	assert_int_equal(run_pool(&pool, jobs, JOBS_MAX), 0);
	/* By the pool, and not by the server, for a limit that it has reached. */
	for (size_t i = 0; i < JOBS_MAX; i++)
		assert_non_null(strstr(results[i].problem, "signal 9"));
}

/* An opener hangs, as on a dead file system. */
static int hang_in_open(void *arg, unsigned int candidate, struct error *error)
{
	(void)arg, (void)candidate, (void)error;
	for (;;)
		pause();
	return -EIO;
}

static void fail_timeout(void *arg, unsigned int timeout_s, size_t files)
{
	(void)arg, (void)timeout_s, (void)files;
	fail();
}

/* The run does not wait for it: the next file is read, and the run ends. */
static void hang_and_read_next(const struct worker_pool *pool)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_job jobs[] = {
		{.path = "p",
		 .build_id = "",
		 .addresses = &outer,
		 .count = 1,
		 .open = hang_in_open},
		{.path = path,
		 .build_id = "",
		 .addresses = &outer,
		 .count = 1,
		 .open = open_path,
		 .arg = (char *)path},
	};
	int64_t begin = now_ms();

	assert_int_equal(run_pool(pool, jobs, 2), 0);
	assert_true(now_ms() - begin >= 1000);
	assert_string_equal(results[0].problem, "has no symbols: reading hung for 1 s");
	assert_int_equal(results[1].calls, 1);
	assert_string_equal(results[1].problem, "");
}

static void opener_that_hangs_is_given_up(void **state)
{
	struct worker_pool pool = default_pool;

	(void)state;
	pool.timeout_s = 1;
	pool.processes = 1;
	pool.options.timeout_s = 600;
	pool.options.timed_out = fail_timeout;
	hang_and_read_next(&pool);
}

/* A server whose workers do not die, as those that hang in the kernel. */
static bool kill_is_ignored;

int kill(pid_t pid, int number)
{
	return kill_is_ignored ? 0 : (int)syscall(SYS_kill, pid, number);
}

static void worker_that_does_not_die_is_given_up(void **state)
{
	const struct sandbox_server usual = server;
	struct worker_pool pool = default_pool;
	struct error error;

	(void)state;
	kill_is_ignored = true;
	assert_int_equal(sandbox_server_start(&server, worker_of_test, &error), 0);
	kill_is_ignored = false;
	pool.timeout_s = 1;
	pool.processes = 1;
	pool.options.timeout_s = 600;
	pool.options.timed_out = fail_timeout;
	hang_and_read_next(&pool);
	sandbox_server_stop(&server);
	server = usual;
}

/* On a busy machine, a file takes longer. */
static void time_to_compute_is_cpu_time(void **state)
{
	const uint64_t address = 0x1000;
	struct worker_job jobs[3];
	static const char *const paths[] = {"wait and end", "compute and send", "send and compute"};
	struct worker_pool pool = default_pool;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		jobs[i] = (struct worker_job){
			.path = paths[i], .build_id = "", .addresses = &address, .count = 1};
	pool.cpu_s = 2;
	pool.processes = 3;
	assert_int_equal(run_pool(&pool, jobs, 3), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(results[1].problem, "");
	/* What it has sent is kept. */
	assert_int_equal(results[2].calls, 1);
	assert_string_equal(results[2].problem, "takes too long to read: after 2 s of CPU time "
						"without a result, the rest has no names");
}

static void slow_file_does_not_hang(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {
		.path = "compute with pauses", .build_id = "", .addresses = &address, .count = 1};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.timeout_s = 2;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
}

static int stop_ends[2];

static int store_lines_and_stop(void *arg, size_t job, size_t index,
				const struct source_line *lines, size_t count)
{
	assert_int_equal(write(stop_ends[1], "", 1), 1);
	return store_lines(arg, job, index, lines, count);
}

static void opener_opens_no_other_files(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {
		.path = "other files", .build_id = "", .addresses = &address, .count = 1};

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "0 opened");
}

/* A copy belongs to the user who made it. */
static int open_copy(void *path, unsigned int candidate, struct error *error)
{
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);
	int fd = candidate ? -ENOENT : memfd_create("copy", MFD_CLOEXEC);

	(void)error;
	if (fd >= 0 && write(fd, bytes, size) != (ssize_t)size)
		fd = -EIO;
	free(bytes);
	return fd;
}

/* A user's file makes root open no file of root that the user can't read. */
static void opener_opens_named_files_with_the_rights_of_the_owner(void **state)
{
	static const unsigned char core[EI_NIDENT + 2] = {
		0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [EI_NIDENT] = ET_CORE};
	const char *path = build("program", "");
	const uint64_t address = 0x1000;
	const struct worker_job job = {.path = "named files",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	struct worker_job copied = job;

	(void)state;
	if (geteuid())
		skip();
	write_file(in_sandbox("core"), core, sizeof(core));
	run("cd '%s' && cp program public && chmod 755 public && cp program private && "
	    "cp program foreign && chmod 700 private foreign && chown 1001 program private",
	    sandbox);
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "opened: public private");
	copied.open = open_copy;
	copied.has_owner = true;
	copied.owner = 1001;
	assert_int_equal(run_pool(&default_pool, &copied, 1), 0);
	assert_string_equal(results[0].problem, "opened: public private");
	/* A file system that can report any owner. */
	copied.owner = FILE_UID_ANY;
	assert_int_equal(run_pool(&default_pool, &copied, 1), 0);
	assert_string_equal(results[0].problem, "opened: public");
}

static size_t problems;

static void count_problem(void *arg, const char *path, const char *text)
{
	problems++;
	store_problem(arg, path, text);
}

/* Time-out of all files */

static size_t timed_out_files;

static void note_timeout(void *arg, unsigned int timeout_s, size_t files)
{
	(void)arg;
	assert_int_equal(timeout_s, 1);
	timed_out_files = files;
}

static void ignore_timeout(void *arg, unsigned int timeout_s, size_t files)
{
	(void)arg, (void)timeout_s, (void)files;
}

static void timeout_of_all_files_keeps_results(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_job jobs[8];
	struct worker_pool pool = default_pool;
	int64_t start = now_ms();

	(void)state;
	for (size_t i = 0; i < 8; i++)
		jobs[i] = (struct worker_job){
			.path = i ? "hang" : path,
			.build_id = "",
			.addresses = &outer,
			.count = 1,
			.open = open_path,
			.arg = (char *)path,
		};
	pool.processes = 2;
	pool.options.timeout_s = 1;
	pool.options.timed_out = note_timeout;
	pool.timeout_s = 2 * (unsigned int)hang_s();
	stands_at = start * NS_PER_MS;
	goes_on_with_results = true;
	assert_int_equal(run_pool(&pool, jobs, 8), 0);
	stands_at = stood_ns = 0;
	goes_on_with_results = false;
	assert_int_equal(results[0].calls, 1);
	assert_int_equal(timed_out_files, 7);
	/* Without it, each of them would hang for longer. */
	assert_true(now_ms() - start < hang_ms());
}

/* Ends the run at the last file. */
static int end_at_last_of_twelve(void *arg, size_t job, size_t index,
				 const struct source_line *lines, size_t count)
{
	(void)arg, (void)index, (void)lines, (void)count;
	return job == 11 ? -ECANCELED : 0;
}

/* A user whose files hang uses up the time of that user only. */
static void time_is_shared_by_owners(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_job jobs[12];
	struct worker_pool pool = default_pool;

	(void)state;
	for (size_t i = 0; i < 12; i++)
		jobs[i] = (struct worker_job){
			.path = path,
			.build_id = "",
			.addresses = &outer,
			.count = 1,
			.open = i < 8 ? hang_in_open : open_path,
			.arg = (char *)path,
			.has_owner = true,
			.owner = i < 8 ? 1001 : 1002,
		};
	pool.timeout_s = 3;
	pool.options.problem = count_problem;
	pool.lines = end_at_last_of_twelve;
	for (pool.processes = 1; pool.processes <= 2; pool.processes++) {
		problems = 0;
		assert_int_equal(run_pool(&pool, jobs, 12), -ECANCELED);
		assert_true(problems < 8);
	}
}

static size_t problems_before;

static int note_problems(void *arg, size_t job, size_t index, const struct source_line *lines,
			 size_t count)
{
	(void)arg, (void)job, (void)index, (void)lines, (void)count;
	problems_before = problems;
	return 0;
}

/* The file of the last owner is read as soon as each of the others has had as much time. */
static void owners_come_one_after_another(void **state)
{
	static const uint32_t owners[] = {1, 2, 2, 2, 3, 4, 1, 5};
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[8];

	(void)state;
	for (size_t i = 0; i < 8; i++)
		jobs[i] = (struct worker_job){
			.path = path,
			.build_id = "",
			.addresses = &outer,
			.count = 1,
			.open = i < 7 ? hang_in_open : open_path,
			.arg = (char *)path,
			.has_owner = true,
			.owner = owners[i],
		};
	pool.processes = 1;
	pool.timeout_s = 1;
	pool.options.problem = count_problem;
	pool.lines = note_problems;
	problems = problems_before = 0;
	assert_int_equal(run_pool(&pool, jobs, 8), 0);
	assert_int_equal(problems, 7);
	assert_int_equal(problems_before, 4);
}

static void ignore_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	(void)arg, (void)path, (void)done, (void)total;
}

static void deadline_ends_a_worker_that_keeps_sending(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {
		.path = "progress", .build_id = "", .addresses = &address, .count = 1};
	struct worker_pool pool = default_pool;
	struct debuginfod_helper helper;

	(void)state;
	assert_int_equal(debuginfod_helper_start(&helper, NULL), 0);
	pool.deadline_s = 1;
	pool.options.debuginfod = &helper;
	pool.options.progress = ignore_progress;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	debuginfod_helper_stop(&helper);
	assert_non_null(strstr(results[0].problem, "takes too long to read"));
	assert_int_equal(results[0].calls, 0);
}

static int find_nothing(void *arg, unsigned int candidate, struct error *error)
{
	(void)arg, (void)candidate;
	error_set(error, ENOENT, "is gone");
	return -ENOENT;
}

static void count_missing(void *arg, const char *path, const char *text)
{
	(void)arg, (void)path;
	results[0].calls += strstr(text, "is gone") != NULL;
}

/* The place of a worker that has ended is used again. */
static void more_files_than_places_of_workers_are_read(void **state)
{
	enum { FILES = 80 };
	const uint64_t address = 0x1000;
	struct worker_pool pool = default_pool;
	struct worker_job jobs[FILES];

	(void)state;
	for (size_t i = 0; i < FILES; i++)
		jobs[i] = (struct worker_job){.path = "file",
					      .build_id = "",
					      .addresses = &address,
					      .count = 1,
					      .open = find_nothing};
	pool.options.problem = count_missing;
	assert_int_equal(run_pool(&pool, jobs, FILES), 0);
	assert_int_equal(results[0].calls, FILES);
}

/* Stop by a file descriptor */

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
	jobs[1].open = jobs[2].open = hang_in_open;
	assert_int_equal(pipe(stop_ends), 0);
	pool.lines = store_lines_and_stop;
	pool.processes = 2;
	pool.options.stop = stop_ends[0];
	assert_int_equal(run_pool(&pool, jobs, 3), -EINTR);
	assert_int_equal(results[0].calls, 1);
	assert_int_equal(results[1].calls + results[2].calls, 0);
	/* No process is left but the server: on a busy machine, a killed one may end later. */
	wait_until(waitpid(-1, NULL, WNOHANG) == 0);
	assert_int_equal(waitpid(0, NULL, WNOHANG), 0);
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

/* A name that is four times as long demangled. */
static void name_long(size_t index, char *text, size_t size)
{
	snprintf(text, size, "_Z1fI990a%0989zuS0_S0_S0_Evv", index);
}

static void name_too_long(size_t index, char *text, size_t size)
{
	snprintf(text, size, "%010000zu", index);
}

static void strings_are_limited_and_truncated(void **state)
{
	const char *path = build_symbols(LONG_NAMES, name_long);
	uint64_t addresses[LONG_NAMES];
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = addresses,
				       .count = LONG_NAMES,
				       .open = open_path,
				       .arg = (char *)path};
	struct worker_job few = job;
	struct worker_pool pool = default_pool;

	(void)state;
	for (size_t i = 0; i < LONG_NAMES; i++)
		addresses[i] = CODE + 16 * i;
	pool.lines = count_name;
	pool.processes = 1;
	long_names = longest_name = 0;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_non_null(strstr(results[0].problem, "too long names: the rest is left out"));
	/* The quota is 1 MiB and 4 KiB for each address; each has names of 5 KB. */
	assert_true(long_names > 1600 && long_names < 1800);

	build_symbols(2, name_too_long);
	few.count = 2;
	long_names = longest_name = 0;
	assert_int_equal(run_pool(&pool, &few, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_int_equal(long_names, 2);
	assert_int_equal(longest_name, 4096);
}

#define OWNED_NAMES 100

static size_t names_of_job[JOBS_MAX];

static int count_name_of_job(void *arg, size_t job, size_t index, const struct source_line *lines,
			     size_t count)
{
	(void)arg, (void)index, (void)lines, (void)count;
	names_of_job[job]++;
	return 0;
}

static void name_of_other(size_t index, char *text, size_t size)
{
	name_long(index + OWNED_NAMES, text, size);
}

/* A user whose files exhaust the quota of all files leaves the others their share. */
static void quota_is_by_owner(void **state)
{
	char hungry[PATH_MAX], modest[PATH_MAX];
	uint64_t addresses[OWNED_NAMES];
	struct worker_job jobs[4];
	struct worker_pool pool = default_pool;

	(void)state;
	if (geteuid())
		skip();
	snprintf(hungry, sizeof(hungry), "%s", in_sandbox("hungry"));
	snprintf(modest, sizeof(modest), "%s", in_sandbox("modest"));
	run("mv '%s' '%s' && chown 1001 '%s'", build_symbols(OWNED_NAMES, name_long), hungry,
	    hungry);
	run("mv '%s' '%s' && chown 1002 '%s'", build_symbols(OWNED_NAMES, name_of_other), modest,
	    modest);
	for (size_t i = 0; i < OWNED_NAMES; i++)
		addresses[i] = CODE + 16 * i;
	for (size_t i = 0; i < 4; i++)
		jobs[i] = (struct worker_job){
			.path = i < 3 ? hungry : modest,
			.build_id = "",
			.addresses = addresses,
			.count = i < 3 ? OWNED_NAMES : OWNED_NAMES / 8,
			.open = open_path,
			.arg = i < 3 ? hungry : modest,
		};
	pool.processes = 1;
	pool.lines = count_name_of_job;
	/* A third of the names of one file: each name takes 5 KB. */
	pool.output_bytes = 5000 * OWNED_NAMES / 3;
	memset(names_of_job, 0, sizeof(names_of_job));
	assert_int_equal(run_pool(&pool, jobs, 4), 0);
	assert_true(names_of_job[0] > 0 && names_of_job[0] < OWNED_NAMES / 2);
	assert_non_null(strstr(results[0].problem, "of its owner have too many or too long names"));
	assert_int_equal(names_of_job[3], OWNED_NAMES / 8);
	assert_string_equal(results[3].problem, "");
}

static void lines_are_limited(void **state)
{
	static uint64_t addresses[MANY_ADDRESSES];
	const struct worker_job job = {.path = "many lines",
				       .build_id = "",
				       .addresses = addresses,
				       .count = MANY_ADDRESSES};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.lines = count_name;
	pool.processes = 1;
	long_names = 0;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_non_null(strstr(results[0].problem, "too many or too long names"));
	/* Lines take 7 KiB of each address, which may have 4 KiB. */
	assert_true(long_names > MANY_ADDRESSES / 2 && long_names < MANY_ADDRESSES * 3 / 4);
}

static void problems_are_limited(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {
		.path = "problems", .build_id = "", .addresses = &address, .count = 1};
	struct worker_pool pool = default_pool;

	(void)state;
	problems = 0;
	pool.options.problem = count_problem;
	pool.deadline_s = 5;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_int_equal(problems, 65);
	assert_non_null(strstr(results[0].problem, "violated the protocol"));
}

/* Its names are charged to the owner of the binary, not to the owner of a file that it names. */
static void quota_of_others_cannot_be_used_up(void **state)
{
	char modest[PATH_MAX];
	const char *path = build("program", "");
	uint64_t addresses[OWNED_NAMES];
	struct worker_job jobs[2];
	struct worker_pool pool = default_pool;

	(void)state;
	if (geteuid())
		skip();
	snprintf(modest, sizeof(modest), "%s", in_sandbox("modest"));
	run("cd '%s' && cp program public && chown 1001 program && chown 1002 public", sandbox);
	run("mv '%s' '%s' && chown 1002 '%s'", build_symbols(OWNED_NAMES, name_long), modest,
	    modest);
	for (size_t i = 0; i < OWNED_NAMES; i++)
		addresses[i] = CODE + 16 * i;
	for (size_t i = 0; i < 2; i++)
		jobs[i] = (struct worker_job){
			.path = i ? modest : "strings",
			.build_id = "",
			.addresses = addresses,
			.count = OWNED_NAMES / 8,
			.open = open_path,
			.arg = i ? modest : (char *)path,
		};
	pool.processes = 1;
	pool.lines = count_name_of_job;
	pool.output_bytes = 5000 * OWNED_NAMES / 2;
	memset(names_of_job, 0, sizeof(names_of_job));
	assert_int_equal(run_pool(&pool, jobs, 2), 0);
	assert_non_null(strstr(results[0].problem, "of its owner have too many or too long names"));
	assert_int_equal(names_of_job[1], OWNED_NAMES / 8);
	assert_string_equal(results[1].problem, "");
}

static void memory_is_limited_but_mappings_are_not(void **state)
{
	const char *path = in_sandbox("large");
	const uint64_t address = 0x1000;
	const struct worker_job job = {.path = "memory",
				       .build_id = "",
				       .addresses = &address,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};

	(void)state;
	run("truncate -s 64G '%s'", path);
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "refused, mapped");
}

static size_t lines_received, line_calls;

static int count_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
		       size_t count)
{
	(void)arg, (void)job, (void)index, (void)lines;
	lines_received += count;
	line_calls++;
	return 0;
}

/* Addresses: with "!" if lines were found; "+", or "-" if the file was not opened; and a range. */
static char ended[64];

static void note_end(void *arg, size_t job, size_t index, bool found, bool opened,
		     const struct address_range *same)
{
	size_t used = strlen(ended);

	(void)arg, (void)job;
	used += (size_t)snprintf(ended + used, sizeof(ended) - used, "%zu%s%c", index,
				 found ? "!" : "", opened ? '+' : '-');
	if (same->end)
		snprintf(ended + used, sizeof(ended) - used, "(%" PRIx64 ",%" PRIx64 ")",
			 same->start, same->end);
}

static void each_message_is_checked(void **state)
{
	static const struct {
		size_t calls, lines;
		const char *ended, *problem;
	} valid[VALID_END] = {
		[VALID_LINE] = {2, 2, "0!-1!-", ""},
		[VALID_LONGEST_STRING] = {1, 1, "0!-1-", ""},
		[VALID_MOST_LINES] = {1, INLINE_DEPTH_MAX, "0-1!-", ""},
		[VALID_NO_LINES] = {1, 0, "0-1!-", ""},
		[VALID_NO_NAMES] = {1, 1, "0!-1-", ""},
		[VALID_OPENED] = {1, 1, "0+1!+", ""},
		[VALID_RANGES] = {0, 0, "0-(0,2)1-(2,ffffffffffffffff)", ""},
		[VALID_PROBLEM] = {0, 0, "", "p"},
	};
	const uint64_t addresses[] = {1, 2};
	struct worker_job job = {
		.path = "sequence", .build_id = "", .addresses = addresses, .count = 2};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.lines = count_lines;
	pool.ended = note_end;
	for (uint64_t i = 0; i < SEQUENCE_COUNT; i++) {
		job.code_start = i;
		lines_received = line_calls = 0;
		*ended = '\0';
		assert_int_equal(run_pool(&pool, &job, 1), 0);
		if (i < VALID_END) {
			assert_string_equal(results[0].problem, valid[i].problem);
			assert_int_equal(lines_received, valid[i].lines);
			assert_int_equal(line_calls, valid[i].calls);
			assert_string_equal(ended, valid[i].ended);
			continue;
		}
		/* What is wrong comes after the end there. */
		assert_string_equal(ended, i == INVALID_AFTER_THE_END ? "0-1-" : "");
		if (!strstr(results[0].problem, "violated the protocol"))
			fail_msg("sequence %d: \"%s\"", (int)i, results[0].problem);
		assert_int_equal(line_calls, 0);
	}
}

static char code_seen[64];

static int note_function(void *arg, size_t job, const struct code_function *function)
{
	size_t used = strlen(code_seen);

	(void)arg, (void)job;
	snprintf(code_seen + used, sizeof(code_seen) - used, "%s@%" PRIx64 " ",
		 function->name ? function->name : "?", function->start);
	return 0;
}

static int note_instruction(void *arg, size_t job, const struct instruction *instruction)
{
	size_t used = strlen(code_seen);

	(void)arg, (void)job;
	assert_int_equal(strspn(instruction->text, "i"), strlen(instruction->text));
	snprintf(code_seen + used, sizeof(code_seen) - used, "%" PRIx64 " ", instruction->address);
	return 0;
}

/* Each instruction begins where the one before ends, whatever a worker sends. */
static void code_of_workers_is_checked(void **state)
{
	const uint64_t addresses[] = {0x1000, 0x2000};
	struct worker_job job = {
		.path = "code", .build_id = "", .addresses = addresses, .count = 2};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.function = note_function;
	pool.instruction = note_instruction;
	for (uint64_t i = 0; i < CODE_COUNT; i++) {
		job.code_start = i;
		job.syntax = i == CODE_UNWANTED ? SYNTAX_NONE : SYNTAX_ATT;
		*code_seen = '\0';
		assert_int_equal(run_pool(&pool, &job, 1), 0);
		if (i == VALID_CODE) {
			assert_string_equal(results[0].problem, "");
			assert_string_equal(code_seen, "f@1000 1000 1004 ?@2000 2000 ");
		} else if (!strstr(results[0].problem, "violated the protocol")) {
			fail_msg("step %d: \"%s\"", (int)i, results[0].problem);
		}
	}
}

static char progress_seen[64];

static void note_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	(void)arg;
	snprintf(progress_seen, sizeof(progress_seen), "%s %" PRIu64 " %" PRIu64, path, done,
		 total);
}

static void progress_of_downloads_is_passed_on(void **state)
{
	const uint64_t address = 0x1000;
	struct worker_job job = {
		.path = "progress once", .build_id = "", .addresses = &address, .count = 1};
	struct worker_pool pool = default_pool;
	struct debuginfod_helper helper;

	(void)state;
	assert_int_equal(debuginfod_helper_start(&helper, NULL), 0);
	pool.options.debuginfod = &helper;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	pool.options.progress = note_progress;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
	assert_string_equal(progress_seen, "progress once 5 7");
	*progress_seen = '\0';
	job.path = "short progress";
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_non_null(strstr(results[0].problem, "violated the protocol"));
	assert_string_equal(progress_seen, "");
	debuginfod_helper_stop(&helper);
}

static void repeated_string_is_charged_once(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {
		.path = "repeated string", .build_id = "", .addresses = &address, .count = 1};

	(void)state;
	assert_int_equal(run_pool(&default_pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
}

/* Limits are of seconds. */
static void slow_worker_has_its_time(void **state)
{
	const uint64_t address = 0x1000;
	const struct worker_job job = {
		.path = "slow", .build_id = "", .addresses = &address, .count = 1};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.timeout_s = pool.deadline_s = pool.options.timeout_s = 60;
	pool.options.timed_out = ignore_timeout;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_string_equal(results[0].problem, "");
}

/* Files with many addresses */

#define MANY_NAMES 2500u

static char right_names[MANY_NAMES];

/* The names are in the reverse order of the addresses' indices. */
static int check_name(void *arg, size_t job, size_t index, const struct source_line *lines,
		      size_t count)
{
	char name[32];

	(void)arg, (void)job;
	name_by_number(MANY_NAMES - 1 - index, name, sizeof(name));
	right_names[index] += count == 1 && !strcmp(lines[0].function, name);
	return 0;
}

/* Whether the pool splits it or not. */
static void file_with_many_addresses_is_read_in_parts(void **state)
{
	static const unsigned int processes[] = {1, 2, 3, 0};
	const char *path = build_symbols(MANY_NAMES, name_by_number);
	static uint64_t addresses[MANY_NAMES];
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = addresses,
				       .count = MANY_NAMES,
				       .open = open_path,
				       .arg = (char *)path};
	struct worker_job wrong = job;
	struct worker_pool pool = default_pool;

	(void)state;
	for (size_t i = 0; i < MANY_NAMES; i++)
		addresses[i] = CODE + 16 * (MANY_NAMES - 1 - i) + i % 16;
	pool.lines = check_name;
	for (size_t i = 0; i < 4; i++) {
		pool.processes = processes[i];
		fake_cpus = processes[i] ? 0 : -1;
		memset(right_names, 0, sizeof(right_names));
		assert_int_equal(run_pool(&pool, &job, 1), 0);
		for (size_t j = 0; j < MANY_NAMES; j++)
			assert_int_equal(right_names[j], 1);
	}
	fake_cpus = 0;
	/* Each part finds the same problem. */
	wrong.build_id = "abcdef";
	pool.processes = 2;
	pool.options.problem = count_problem;
	problems = 0;
	assert_int_equal(run_pool(&pool, &wrong, 1), 0);
	assert_int_equal(problems, 1);
	/* An address of a file is none of others. */
	wrong.count = 0;
	problems = 0;
	assert_int_equal(run_pool(&pool, &wrong, 1), 0);
	assert_int_equal(problems, 0);
}

/* Each of the parts sends too much. */
static void quota_of_a_file_is_that_of_its_parts(void **state)
{
	static uint64_t addresses[MANY_ADDRESSES];
	const struct worker_job job = {.path = "endless strings",
				       .build_id = "",
				       .addresses = addresses,
				       .count = MANY_ADDRESSES};
	struct worker_pool pool = default_pool;

	(void)state;
	pool.processes = 2;
	pool.options.problem = count_problem;
	problems = 0;
	assert_int_equal(run_pool(&pool, &job, 1), 0);
	assert_int_equal(problems, 1);
	assert_non_null(strstr(results[0].problem, "too many or too long names"));
}

/* A machine may have more CPUs. */
static void all_places_of_workers_may_be_taken(void **state)
{
	enum { FILES = 66 };
	const uint64_t address = 0x1000;
	struct worker_pool pool = default_pool;
	struct worker_job jobs[FILES];

	(void)state;
	for (size_t i = 0; i < FILES; i++)
		jobs[i] = (struct worker_job){.path = "file",
					      .build_id = "",
					      .addresses = &address,
					      .count = 1,
					      .open = hang_in_open};
	fake_cpus = 1000;
	pool.timeout_s = 3;
	pool.options.problem = count_problem;
	problems = 0;
	assert_int_equal(run_pool(&pool, jobs, FILES), 0);
	assert_int_equal(problems, FILES);
	fake_cpus = 0;
}

/* Each error of starting a worker gives back what was open. */
static void descriptors_may_run_out(void **state)
{
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	const struct worker_job job = {.path = path,
				       .build_id = "",
				       .addresses = &outer,
				       .count = 1,
				       .open = open_path,
				       .arg = (char *)path};
	struct rlimit saved, limit;
	int err = -EMFILE, first = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t more = 0;

	(void)state;
	close(first);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	for (limit = saved; err == -EMFILE; more++) {
		limit.rlim_cur = (rlim_t)first + more;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		err = run_pool(&default_pool, &job, 1);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	}
	assert_int_equal(err, 0);
	/* The job, a pipe, a socket pair, and the ends of a lifeline. */
	assert_true(more > 5);
}

/* With what is enough for one worker, there is one at a time. */
static void worker_that_cannot_be_started_waits_for_others(void **state)
{
	enum { FILES = 6 };
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[FILES];
	struct rlimit saved, limit;
	int err = -EMFILE;

	(void)state;
	for (size_t i = 0; i < FILES; i++)
		jobs[i] = (struct worker_job){.path = path,
					      .build_id = "",
					      .addresses = &outer,
					      .count = 1,
					      .open = open_path,
					      .arg = (char *)path};
	pool.processes = 3;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	limit = saved;
	for (limit.rlim_cur = 3; err == -EMFILE; limit.rlim_cur++) {
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		err = run_pool(&pool, jobs, 1);
	}
	assert_int_equal(run_pool(&pool, jobs, FILES), 0);
	for (size_t i = 0; i < FILES; i++) {
		assert_int_equal(results[i].calls, 1);
		assert_string_equal(results[i].problem, "");
	}
	/* One less is not enough for any. */
	limit.rlim_cur -= 2;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(run_pool(&pool, jobs, FILES), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
}

/* Shared with the server and the openers. */
static struct {
	unsigned int
		until_failure; /* forks of the server, with the fork that fails; 0: none does */
	atomic_bool is_noticed; /* by the pool */
} * forks;

/* Whether an opener is idle, when the pool asks for another worker. */
static enum { IDLE_OR_BUSY, IDLE, BUSY } openers;

static pid_t pid_of_test;

/* Replaces libc's function. */
pid_t fork(void)
{
	pid_t (*real)(void);

	if (getpid() != pid_of_test && forks->until_failure && !--forks->until_failure) {
		errno = EAGAIN;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "fork");
	return real();
}

/*
 * Replaces libc's function, which reads the byte of an idle opener, or the status of a worker:
 * there is none without a process.
 */
ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
	ssize_t got;

	if (size == 1 && openers == BUSY) {
		errno = EAGAIN;
		return -1;
	}
	if (size == 1 && openers == IDLE)
		flags = 0;
	got = syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
	if (got == 0)
		atomic_store(&forks->is_noticed, true);
	return got;
}

static int open_when_noticed(void *path, unsigned int candidate, struct error *error)
{
	while (!atomic_load(&forks->is_noticed))
		sched_yield();
	return open_path(path, candidate, error);
}

static void worker_that_cannot_be_forked_waits_for_others(void **state)
{
	enum { FILES = 5 };
	const char *path = build("program", "-g");
	const uint64_t outer = address_of(path, "_ZN4deep5outerEPVi");
	struct worker_pool pool = default_pool;
	struct worker_job jobs[FILES];
	char paths[FILES][32];

	(void)state;
	for (size_t i = 0; i < FILES; i++) {
		snprintf(paths[i], sizeof(paths[i]), "job %zu", i);
		jobs[i] = (struct worker_job){.path = paths[i],
					      .build_id = "",
					      .addresses = &outer,
					      .count = 1,
					      .open = i ? open_path : open_when_noticed,
					      .arg = (char *)path};
	}
	pool.processes = 2;
	forks->until_failure = 2;
	assert_int_equal(run_pool(&pool, jobs, FILES), 0);
	assert_int_equal(forks->until_failure, 0);
	for (size_t i = 0; i < FILES; i++) {
		assert_int_equal(results[i].calls, 1);
		assert_string_equal(results[i].problem, "");
	}
	/* No other one runs that could end. */
	pool.processes = 1;
	forks->until_failure = 1;
	assert_int_equal(run_pool(&pool, jobs, 2), 0);
	assert_int_equal(results[0].calls, 0);
	assert_string_not_equal(results[0].problem, "");
	assert_int_equal(results[1].calls, 1);
	/* The opener of the first worker ends: it waits for its end, or serves the second one. */
	for (openers = IDLE; openers <= BUSY; openers++) {
		forks->until_failure = 2;
		assert_int_equal(run_pool(&pool, jobs, 2), 0);
		assert_int_equal(forks->until_failure, 0);
		assert_int_equal(results[1].calls, 1);
		assert_string_equal(results[1].problem, "");
	}
	openers = IDLE_OR_BUSY;
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

static int start_server(void **state)
{
	forks = mmap(NULL, sizeof(*forks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	pid_of_test = getpid();
	return forks == MAP_FAILED || make_sandbox(state) ||
	       sandbox_server_start(&server, worker_of_test, NULL);
}

static int stop_server(void **state)
{
	sandbox_server_stop(&server);
	return remove_sandbox(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dwarf_gives_inlined_functions_and_lines),
		cmocka_unit_test(progress_is_of_all_addresses),
		cmocka_unit_test(code_start_relocates_addresses),
		cmocka_unit_test(symbol_table_without_dwarf),
		cmocka_unit_test(pclntab_gives_inlined_functions_and_lines),
		cmocka_unit_test(code_start_relocates_functions_of_go),
		cmocka_unit_test(debug_file_gives_symbols),
		cmocka_unit_test(symbols_of_all_files_are_used),
		cmocka_unit_test(names_are_demangled),
		cmocka_unit_test(kept_symbols_give_the_same_names),
		cmocka_unit_test(cache_that_hangs_costs_no_names),
		cmocka_unit_test(kept_symbols_are_those_of_a_key),
		cmocka_unit_test(other_build_id_is_rejected),
		cmocka_unit_test(worker_takes_the_candidate_with_the_build_id),
		cmocka_unit_test(failing_workers_do_not_affect_others),
		cmocka_unit_test(worker_that_closes_its_pipe_is_killed_at_once),
		cmocka_unit_test(opener_that_hangs_is_given_up),
		cmocka_unit_test(worker_that_does_not_die_is_given_up),
		cmocka_unit_test(slow_file_does_not_hang),
		cmocka_unit_test(time_to_compute_is_cpu_time),
		cmocka_unit_test(opener_opens_no_other_files),
		cmocka_unit_test(opener_opens_named_files_with_the_rights_of_the_owner),
		cmocka_unit_test(timeout_of_all_files_keeps_results),
		cmocka_unit_test(time_is_shared_by_owners),
		cmocka_unit_test(deadline_ends_a_worker_that_keeps_sending),
		cmocka_unit_test(more_files_than_places_of_workers_are_read),
		cmocka_unit_test(stop_ends_the_run_and_its_workers),
		cmocka_unit_test(strings_are_limited_and_truncated),
		cmocka_unit_test(quota_is_by_owner),
		cmocka_unit_test(lines_are_limited),
		cmocka_unit_test(problems_are_limited),
		cmocka_unit_test(quota_of_others_cannot_be_used_up),
		cmocka_unit_test(memory_is_limited_but_mappings_are_not),
		cmocka_unit_test(error_of_lines_callback_ends_the_run),
		cmocka_unit_test(candidates_are_tried_until_one_fits),
		cmocka_unit_test(perf_map_names_generated_code),
		cmocka_unit_test(perf_maps_of_an_owner_share_a_quota),
		cmocka_unit_test(module_is_symbolized_by_its_dwarf),
		cmocka_unit_test(offsets_are_those_of_segments),
		cmocka_unit_test(owners_come_one_after_another),
		cmocka_unit_test(each_message_is_checked),
		cmocka_unit_test(code_of_workers_is_checked),
		cmocka_unit_test(progress_of_downloads_is_passed_on),
		cmocka_unit_test(repeated_string_is_charged_once),
		cmocka_unit_test(slow_worker_has_its_time),
		cmocka_unit_test(file_with_many_addresses_is_read_in_parts),
		cmocka_unit_test(quota_of_a_file_is_that_of_its_parts),
		cmocka_unit_test(all_places_of_workers_may_be_taken),
		cmocka_unit_test(descriptors_may_run_out),
		cmocka_unit_test(worker_that_cannot_be_started_waits_for_others),
		cmocka_unit_test(worker_that_cannot_be_forked_waits_for_others),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}

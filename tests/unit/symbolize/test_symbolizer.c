// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbolizer.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "fake_kernel_records.h"
#include "lib/clock.h"
#include "patience.h"
#include "pprof/profile.h"
#include "runtime/perf_map_watcher.h"
#include "sandbox.h"
#include "symbolize/live_source.h"
#include "symbolize/symbol_cache.h"
#include "worker_server.h"

static struct fake_files files;
static struct mapped_files *mapped;
static struct address_spaces *spaces;
static struct profile *profile;
static struct kallsyms *kallsyms;
static struct kernel *kernel;

static bool make_tables(void)
{
	const struct file_source source = fake_source(&files);

	files = (struct fake_files){.count = 0};
	mapped = mapped_files_new(sandbox, &source, NULL);
	spaces = address_spaces_new(sandbox, mapped, NULL);
	kernel = kernel_new(sandbox);
	profile = profile_new();
	return kernel && mapped && spaces && profile;
}

static void free_tables(void)
{
	profile_free(profile);
	kernel_free(kernel);
	address_spaces_free(spaces);
	mapped_files_free(mapped);
	fake_clear(&files);
}

static struct sandbox_server crashing; /* its workers do */
static bool workers_crash;

static void crash_worker(enum worker_kind kind, const int fds[], size_t count)
{
	if (kind == WORKER_SYMBOLIZE)
		raise(SIGSEGV);
	worker_main(kind, fds, count);
}

static int set_up(void **state)
{
	static char text[] = "ffffffff81000000 T vfs_read\n"
			     "ffffffff81000100 T _etext\n"
			     "ffffffffc0000000 t ext4_read\t[ext4]\n";
	FILE *stream = fmemopen(text, strlen(text), "r");

	/* Before there are threads. */
	worker_server();
	if (!crashing.pid && sandbox_server_start(&crashing, crash_worker, NULL))
		return -1;
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

/*
 * A process that maps sandbox/NAME at 0x700000, from offset or virtual address 0x1000 depending on
 * `flags`, and anonymous memory at 0x10000.
 */
static struct address_space *map_with(uint32_t pid, const char *name, uint16_t flags)
{
	uint64_t id = fake_file(mapped, &files, in_sandbox("%s", name));

	/* Where the file is found again, below the root of these tests. */
	run("cd '%s' && mkdir -p '.%s' && ln -f %s '.%s/'", sandbox, sandbox, name, sandbox);
	fake_space(spaces, pid, pid, 1, name);
	fake_mapping(spaces, pid, 1, 0, 0x10000, 0x11000, 0, 0);
	fake_mapping(spaces, pid, 1, flags, 0x700000, 0x701000, id, 0x1000);
	assert_int_equal(address_space_advance(address_spaces_get(spaces, pid, 0), 1), 0);
	return address_spaces_get(spaces, pid, 0);
}

static struct address_space *map(uint32_t pid, const char *name)
{
	return map_with(pid, name, STACKBEAT_MAPPING_VADDR);
}

/* The raw location of an address in a segment. */
static uint32_t location_in(uint32_t segment, uint32_t perf_map, uint64_t offset)
{
	const struct profile_mapping mapping = {
		.place = {.segment = segment, .perf_map = perf_map}};
	uint32_t number = segment == SEGMENT_NONE ? 0 : profile_mapping(profile, &mapping);

	return profile_location(profile, number, offset, NULL, 0);
}

/* The raw location of an address of a process. */
static uint32_t location_at(struct address_space *space, uint64_t address)
{
	uint64_t offset;
	uint32_t segment = address_space_segment_at(space, 1, address, &offset);
	uint32_t perf_map = segment_is_jit(segment) ? address_space_perf_map(space) : 0;
	bool is_offset;
	struct mapped_file *file = segment_file(mapped, segment, &is_offset);

	if (file)
		assert_int_equal(mapped_file_hold(mapped, file), 0);
	return location_in(segment, perf_map, offset);
}

static uint32_t kernel_location(uint64_t address)
{
	return location_in(SEGMENT_KERNEL, 0, address);
}

static struct symbol_cache *cache; /* NULL: none */
static char problem[1024];
static struct symbolize_counts counts;
static size_t interruptions;

static void store_problem(void *arg, const char *path, const char *text)
{
	(void)arg;
	snprintf(problem, sizeof(problem), "%s: %s", path, text);
}

static void count_interruption(void *arg)
{
	(void)arg;
	interruptions++;
}

/* Symbolizes the profile, and sets `counts`. The sandbox has the debug files. */
static void symbolize_by(struct symbolize_options options)
{
	const char *directory = in_sandbox("debug");
	struct live_source live = {
		.sandbox = worker_server(),
		.files = mapped,
		.kernel = kernel,
		.cache = cache,
	};
	struct perf_map_fd *perf_maps;
	struct symbol_source source;

	options.sandbox = workers_crash ? &crashing : worker_server();
	options.directories = &directory;
	options.directory_count = 1;
	assert_int_equal(
		address_spaces_take_perf_maps(spaces, false, &perf_maps, &live.perf_map_count), 0);
	live.perf_maps = perf_maps;
	*problem = '\0';
	mapped_files_finish(mapped);
	assert_int_equal(live_source_describe(&live, profile), 0);
	live_source_init(&source, &live, kallsyms, sandbox);
	assert_int_equal(symbolize_profile(profile, &source, &options, &counts, NULL), 0);
	for (size_t i = 0; i < live.perf_map_count; i++)
		close(perf_maps[i].fd);
	free(perf_maps);
}

/* The options have the arguments. */
static void symbolize_with(int stop,
			   void (*take_problem)(void *arg, const char *path, const char *text))
{
	symbolize_by((struct symbolize_options){
		.stop = stop,
		.interrupted = count_interruption,
		.problem = take_problem,
	});
}

static void symbolize(void)
{
	symbolize_with(0, store_problem);
}

static const struct profile_location *at(uint32_t location)
{
	return &profile->locations.items[location];
}

static const struct profile_mapping *mapping_of(uint32_t location)
{
	return &profile->mappings.items[at(location)->mapping];
}

static const char *path_of(uint32_t location)
{
	return profile_text(profile, mapping_of(location)->file);
}

static const char *build_id_of(uint32_t location)
{
	return profile_text(profile, mapping_of(location)->build_id);
}

static const struct profile_function *function_of(uint32_t location, size_t line)
{
	assert_true(line < at(location)->line_count);
	return &profile->functions.items[profile_lines(profile, at(location))[line].function];
}

/* The function of the last line; "" if there is none. */
static const char *name_of(uint32_t location)
{
	uint32_t count = at(location)->line_count;

	return count ? profile_text(profile, function_of(location, count - 1)->name) : "";
}

#define FUNCTION(name)                                                                             \
	".globl " name "\n.type " name ", @function\n" name ": .skip 16, 0x90\n.size " name ", "   \
	"16\n"

static void same_place_of_a_file_is_one_location(void **state)
{
	struct address_space *space, *other;
	uint32_t location;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second") ".skip 16, 0x90\n");
	space = map(1, "a.so");
	location = location_at(space, 0x700018);
	assert_int_equal(location, location_at(space, 0x700018));
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(location), "second");
	assert_string_equal(profile_text(profile, function_of(location, 0)->system_name), "second");
	assert_string_equal(path_of(location), in_sandbox("a.so"));
	assert_int_equal(at(location)->address, 0x1018);
	assert_int_equal(mapping_of(location)->start, 0);
	assert_true(mapping_of(location)->limit == UINT64_MAX);

	/* Another process that maps the same file. */
	free_tables();
	assert_true(make_tables());
	space = map(1, "a.so");
	fake_space(spaces, 2, 2, 1, "other");
	fake_mapping(spaces, 2, 1, STACKBEAT_MAPPING_VADDR, 0x900000, 0x901000, 1, 0x1000);
	other = address_spaces_get(spaces, 2, 0);
	assert_int_equal(address_space_advance(other, 1), 0);
	assert_int_equal(location_at(space, 0x700018), location_at(other, 0x900018));
}

/* Overwrites a file, which stays the same by all that the kernel knows. */
static void spoil(const char *name)
{
	FILE *file = fopen(in_sandbox("%s", name), "r+");
	struct stat st;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	for (off_t i = 0; i < st.st_size; i++)
		putc('x', file);
	fclose(file);
}

/* As map(), of a file whose build ID the kernel has read. */
static struct address_space *map_known(uint32_t pid, const char *name)
{
	union any_file any;

	fake_file_record(&files, in_sandbox("%s", name), &any);
	any.file.record.flags = 0;
	any.file.build_id_size = 2;
	any.file.build_id[0] = 0x01;
	any.file.build_id[1] = 0x23;
	assert_int_equal(mapped_files_add(mapped, &any.file), 0);
	fake_space(spaces, pid, pid, 1, name);
	fake_mapping(spaces, pid, 1, STACKBEAT_MAPPING_VADDR, 0x700000, 0x701000, any.file.file,
		     0x1000);
	assert_int_equal(address_space_advance(address_spaces_get(spaces, pid, 0), 1), 0);
	return address_spaces_get(spaces, pid, 0);
}

static void begin_again(void)
{
	free_tables();
	assert_true(make_tables());
}

static void known_addresses_need_no_file(void **state)
{
	uint32_t first, second, none;
	struct address_space *space;

	(void)state;
	cache = symbol_cache_new(1 << 20);
	assert_non_null(cache);
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second") ".skip 64, 0x90\n");
	space = map_known(1, "a.so");
	first = location_at(space, 0x700008);
	none = location_at(space, 0x700028);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(first), "first");
	assert_string_equal(name_of(none), "");

	begin_again();
	spoil("a.so");
	space = map_known(1, "a.so");
	none = location_at(space, 0x700028);
	first = location_at(space, 0x700008);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(first), "first");
	assert_string_equal(name_of(none), "");
	assert_int_equal(counts.unsymbolized, 2);
	assert_int_equal(counts.named, 1);

	/* So are the other addresses of a function, and those around the one without a symbol. */
	begin_again();
	space = map_known(1, "a.so");
	first = location_at(space, 0x70000f);
	none = location_at(space, 0x700fff);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(first), "first");
	assert_string_equal(name_of(none), "");

	/* An unknown address needs the file, between two known ones. */
	begin_again();
	space = map_known(1, "a.so");
	none = location_at(space, 0x700028);
	second = location_at(space, 0x700018);
	first = location_at(space, 0x700008);
	symbolize();
	assert_string_not_equal(problem, "");
	assert_string_equal(name_of(first), "first");
	assert_string_equal(name_of(second), "");
	assert_int_equal(counts.unsymbolized, 3);
	assert_int_equal(counts.named, 1);
	/* It is not known that it has no symbol. */
	begin_again();
	build("b.so", ".text\n" FUNCTION("other") FUNCTION("second") ".skip 64, 0x90\n");
	run("cat %s > %s", in_sandbox("b.so"), in_sandbox("a.so"));
	space = map_known(1, "a.so");
	second = location_at(space, 0x700018);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(second), "second");

	/* Another file with the same build ID and size. */
	begin_again();
	space = map_known(1, "b.so");
	first = location_at(space, 0x700008);
	symbolize();
	assert_string_equal(name_of(first), "other");
	symbol_cache_free(cache);
	cache = NULL;
}

/* Another profile would wait for it, too. */
static void file_that_fails_is_not_read_again(void **state)
{
	uint32_t first, other;
	struct address_space *space;

	(void)state;
	cache = symbol_cache_new(1 << 20);
	assert_non_null(cache);
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second"));
	begin_again();
	workers_crash = true;
	location_at(map_known(1, "a.so"), 0x700008);
	symbolize();
	workers_crash = false;
	assert_non_null(strstr(problem, "a.so: is broken: reading its symbols ended with signal"));
	/* Neither for this address nor for others. */
	begin_again();
	space = map_known(1, "a.so");
	first = location_at(space, 0x700008);
	other = location_at(space, 0x700018);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(first), "");
	assert_string_equal(name_of(other), "");
	assert_int_equal(counts.unsymbolized, 2);
	/* But after an hour, as if it were another file. */
	symbol_cache_clear(cache);
	begin_again();
	first = location_at(map_known(1, "a.so"), 0x700008);
	symbolize();
	assert_string_equal(name_of(first), "first");
	symbol_cache_free(cache);
	cache = NULL;
}

/* Symbolizes a file, twice, the second time without its contents; `has_problem`: with them, too. */
static void expect_not_kept(struct address_space *(*map_file)(uint32_t pid, const char *name),
			    bool has_problem)
{
	uint32_t first;

	cache = symbol_cache_new(1 << 20);
	assert_non_null(cache);
	build("a.so", ".text\n" FUNCTION("first"));
	for (unsigned int i = 0; i < 2; i++) {
		begin_again();
		if (i)
			spoil("a.so");
		first = location_at(map_file(1, "a.so"), 0x700008);
		symbolize();
		assert_int_equal(*problem != '\0', i || has_problem);
		assert_string_equal(name_of(first), i ? "" : "first");
	}
	symbol_cache_free(cache);
	cache = NULL;
}

/* A debug file that can't be read now may be readable the next time. */
static void symbols_with_a_problem_are_not_kept(void **state)
{
	(void)state;
	run("mkdir -p %s", in_sandbox("debug/.build-id/01"));
	write_text(in_sandbox("debug/.build-id/01/23.debug"), "broken");
	expect_not_kept(map_known, true);
}

/* Its symbols may change where nothing else does. */
static void files_without_a_build_id_are_not_kept(void **state)
{
	(void)state;
	expect_not_kept(map, false);
}

struct missing {
	uint64_t count;
	char path[PATH_MAX];
};

static void note_missing(void *arg, const char *path, const char *build_id, size_t addresses)
{
	struct missing *missing = arg;

	assert_string_equal(build_id, "");
	missing->count += addresses;
	snprintf(missing->path, sizeof(missing->path), "%s", path);
}

static void locations_are_counted(void **state)
{
	struct missing missing = {0};
	struct address_space *space;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second") ".skip 64, 0x90\n");
	space = map(1, "a.so");
	for (uint64_t address = 0x700000; address < 0x700038; address += 8)
		location_at(space, address);
	symbolize_by((struct symbolize_options){
		.missing = note_missing,
		.arg = &missing,
		.problem = store_problem,
	});
	assert_int_equal(counts.unsymbolized, 7);
	assert_int_equal(counts.named, 4);
	assert_int_equal(missing.count, 3);
	assert_string_equal(missing.path, in_sandbox("a.so"));
}

static void addresses_without_symbol(void **state)
{
	uint32_t in_file, anon, none, vsyscall;
	struct address_space *space;

	(void)state;
	build("a.so", ".text\n" FUNCTION("first") ".skip 16, 0x90\n");
	space = map(1, "a.so");
	in_file = location_at(space, 0x700010);
	anon = location_at(space, 0x10020);
	none = location_at(space, 0x1);
	vsyscall = location_at(space, 0xffffffffff600400);
	symbolize();
	assert_int_equal(counts.named, 0);
	assert_int_equal(at(in_file)->line_count, 0);
	assert_int_equal(at(in_file)->address, 0x1010);
	assert_string_equal(path_of(in_file), in_sandbox("a.so"));

	assert_int_equal(at(anon)->line_count, 0);
	assert_int_equal(at(anon)->address, 0x10020);
	assert_string_equal(path_of(anon), "[anon]");

	assert_int_equal(at(none)->line_count, 0);
	assert_int_equal(at(none)->mapping, 0);
	assert_int_equal(at(none)->address, 0x1);

	assert_string_equal(path_of(vsyscall), "[vsyscall]");
	assert_true(at(vsyscall)->address == 0xffffffffff600400);
}

/* Addresses refer to a mapping of the whole file then, which other tools understand. */
static void file_without_segments_gives_offsets(void **state)
{
	uint32_t cache, library;

	(void)state;
	write_text(in_sandbox("jit.cache"), "no ELF file");
	build("a.so", ".text\n" FUNCTION("first") FUNCTION("second"));
	cache = location_at(map_with(1, "jit.cache", 0), 0x700010);
	library = location_at(map_with(2, "a.so", 0), 0x700010);
	symbolize();
	assert_int_equal(at(cache)->line_count, 0);
	assert_string_equal(path_of(cache), in_sandbox("jit.cache"));
	assert_int_not_equal(mapping_of(cache)->start, 0);
	assert_int_equal(mapping_of(cache)->offset, 0);
	assert_int_equal(at(cache)->address - mapping_of(cache)->start, 0x1010);
	/* The headers of an ELF file are read from the file. */
	assert_string_equal(name_of(library), "second");
	assert_string_equal(build_id_of(library), "0123");
	assert_int_equal(mapping_of(library)->start, 0);
	assert_int_equal(at(library)->address, 0x1010);
}

/* As the user does not want to wait. */
static void no_headers_are_read_after_a_stop(void **state)
{
	struct live_source live = {.sandbox = worker_server(), .files = mapped, .kernel = kernel};
	uint32_t location;
	int ends[2];

	(void)state;
	build("a.so", ".text\n" FUNCTION("first"));
	location = location_at(map_with(1, "a.so", 0), 0x700010);
	mapped_files_finish(mapped);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	live.stop = ends[0];
	assert_int_equal(live_source_describe(&live, profile), 0);
	assert_string_equal(path_of(location), in_sandbox("a.so"));
	assert_string_equal(build_id_of(location), "");
	assert_int_equal(at(location)->address - mapping_of(location)->start, 0x1010);
	close(ends[0]);
	close(ends[1]);
}

/* The limits that pass take no time. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);
	int64_t ns = time->tv_sec * NS_PER_SECOND + time->tv_nsec;

	if (clock == CLOCK_MONOTONIC)
		ns += limits_passed_ms * NS_PER_MS;
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return result;
}

static void hang_at_headers(enum worker_kind kind, const int fds[], size_t count)
{
	while (kind == WORKER_READ_HEADERS)
		sched_yield();
	worker_main(kind, fds, count);
}

/* Each of the files takes 5 s, and so may all files of a file system. */
static void file_system_that_hangs_is_given_up(void **state)
{
	struct live_source live = {.files = mapped, .kernel = kernel};
	struct sandbox_server hanging;
	uint32_t locations[4];
	int64_t begin;

	(void)state;
	assert_int_equal(sandbox_server_start(&hanging, hang_at_headers, NULL), 0);
	live.sandbox = &hanging;
	for (uint32_t i = 0; i < 4; i++) {
		char name[] = {'0' + (char)i, '\0'};

		build(name, ".text\n" FUNCTION("first"));
		locations[i] = location_at(map_with(i + 1, name, 0), 0x700010);
	}
	mapped_files_finish(mapped);
	limits_pass = true;
	begin = limits_passed_ms;
	assert_int_equal(live_source_describe(&live, profile), 0);
	limits_pass = false;
	assert_in_range(limits_passed_ms - begin, 1, 8999);
	/* The workers can find the symbols by their offsets. */
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(at(locations[i])->address - mapping_of(locations[i])->start,
				 0x1010);
	sandbox_server_stop(&hanging);
}

static const char *demangled_name(const char *name)
{
	struct address_space *space;
	uint32_t location;
	char text[4096];

	/* Files are read only once: each name needs new tables. */
	free_tables();
	assert_true(make_tables());
	snprintf(text, sizeof(text),
		 ".text\n.globl %s\n.type %s, @function\n%s: .skip 16, 0x90\n.size %s, 16\n", name,
		 name, name, name);
	build("name.so", text);
	space = map(1, "name.so");
	location = location_at(space, 0x700000);
	symbolize();
	assert_string_equal(profile_text(profile, function_of(location, 0)->system_name), name);
	return name_of(location);
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
	uint32_t known, module, overlapping, behind, unknown;

	(void)state;
	run("mkdir -p %s %s", in_sandbox("sys/kernel"), in_sandbox("sys/module/ext4/notes"));
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	known = kernel_location(0xffffffff81000010);
	module = kernel_location(0xffffffffc0000010);
	/* The size of jbd2 reaches into ext4. */
	overlapping = kernel_location(0xffffffffbffffff0);
	behind = kernel_location(0xffffffffc0001000);
	unknown = kernel_location(0xffffffff81000100);
	symbolize();
	assert_string_equal(name_of(known), "vfs_read");
	assert_string_equal(path_of(known), "[kernel.kallsyms]");
	assert_true(mapping_of(known)->start == 0xffffffff81000000);
	assert_true(mapping_of(known)->limit == UINT64_MAX);
	assert_string_equal(build_id_of(known), "0102");
	assert_true(at(known)->address == 0xffffffff81000010);

	assert_string_equal(name_of(module), "ext4_read");
	assert_string_equal(path_of(module), "[ext4]");
	assert_string_equal(build_id_of(module), "");
	assert_true(mapping_of(module)->start == 0xffffffffc0000000);
	assert_true(mapping_of(module)->limit == 0xffffffffc0001000);
	assert_string_equal(path_of(overlapping), "[jbd2]");
	assert_string_equal(path_of(behind), "[kernel.kallsyms]");

	assert_int_equal(at(unknown)->line_count, 0);
	assert_string_equal(path_of(unknown), "[kernel.kallsyms]");
}

/* Debug information */

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

/* With line numbers, and in Go programs, an address is one of its own. */
static void lines_of_other_addresses_are_not_known(void **state)
{
	uint32_t location;

	(void)state;
	cache = symbol_cache_new(1 << 20);
	assert_non_null(cache);
	build_inlined("-g -shared -Wl,--build-id=0x0123 -o a.so");
	location = location_at(map_known(1, "a.so"), 0x700000);
	symbolize();
	assert_string_equal(problem, "");
	assert_true(at(location)->line_count > 0);
	begin_again();
	spoil("a.so");
	location = location_at(map_known(1, "a.so"), 0x700001);
	symbolize();
	assert_string_not_equal(problem, "");
	assert_int_equal(at(location)->line_count, 0);
	symbol_cache_free(cache);
	cache = NULL;
}

static void expect_inlined(uint32_t location)
{
	const struct profile_line *lines = profile_lines(profile, at(location));

	assert_string_equal(problem, "");
	assert_int_equal(at(location)->line_count, 2);
	assert_string_equal(profile_text(profile, function_of(location, 0)->name), "inner");
	assert_int_equal(lines[0].line, 3);
	assert_int_equal(function_of(location, 0)->start_line, 1);
	assert_string_equal(profile_text(profile, function_of(location, 0)->file),
			    in_sandbox("inlined.c"));
	assert_string_equal(profile_text(profile, function_of(location, 1)->name), "vfs_read");
	assert_string_equal(profile_text(profile, function_of(location, 1)->system_name),
			    "vfs_read");
	assert_int_equal(lines[1].line, 7);
	assert_int_equal(function_of(location, 1)->start_line, 5);
}

static void dwarf_is_better_than_symbols(void **state)
{
	uint32_t inlined, bare;

	(void)state;
	build_inlined("-g -o inlined.so");
	build("bare.so", ".text\n" FUNCTION("first"));
	inlined = location_at(map(1, "inlined.so"), 0x700000);
	bare = location_at(map(2, "bare.so"), 0x700000);
	symbolize();
	expect_inlined(inlined);
	/* Without debug information there is the symbol. */
	assert_int_equal(at(bare)->line_count, 1);
	assert_string_equal(name_of(bare), "first");
	assert_int_equal(function_of(bare, 0)->file, 0);
}

/* One worker at a time. */
long sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN ? 1 : name == _SC_PAGESIZE ? 4096 : 1 << 20;
}

static char problem_paths[256];

static void list_problem(void *arg, const char *path, const char *text)
{
	(void)arg, (void)text;
	strcat(problem_paths, strrchr(path, '/'));
}

static void problems_come_in_order_of_paths(void **state)
{
	static const char *const names[] = {"d.so", "b.so", "e.so", "a.so", "c.so"};

	(void)state;
	*problem_paths = '\0';
	run("mkdir -p %s", in_sandbox("debug/.build-id/01"));
	write_text(in_sandbox("debug/.build-id/01/23.debug"), "broken");
	for (uint32_t i = 0; i < 5; i++) {
		build(names[i], ".text\n" FUNCTION("first"));
		location_at(map(i + 1, names[i]), 0x700000);
	}
	symbolize_with(0, list_problem);
	assert_string_equal(problem_paths, "/a.so/b.so/c.so/d.so/e.so");
}

static void stop_keeps_symbols(void **state)
{
	uint32_t user, in_kernel;
	int ends[2];

	(void)state;
	interruptions = 0;
	build_inlined("-g -o inlined.so");
	user = location_at(map(1, "inlined.so"), 0x700000);
	in_kernel = kernel_location(0xffffffff81000010);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	symbolize_with(ends[0], store_problem);
	assert_int_equal(interruptions, 1);
	assert_string_equal(path_of(user), in_sandbox("inlined.so"));
	assert_string_equal(name_of(in_kernel), "vfs_read");
	close(ends[0]);
	close(ends[1]);
}

static void vmlinux_gives_inlined_functions(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	uint32_t location, module;

	(void)state;
	run("mkdir -p %s", in_sandbox("sys/kernel"));
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	build_inlined("-g -Wl,--build-id=0x0102 -o vmlinux");
	run("cd '%s' && install -D vmlinux \"usr/lib/debug/boot/vmlinux-$(uname -r)\"", sandbox);
	location = kernel_location(0xffffffff81000000);
	module = kernel_location(0xffffffffc0000010);
	symbolize();
	expect_inlined(location);
	assert_string_equal(name_of(module), "ext4_read");

	/* A vmlinux with another build ID. */
	build_inlined("-g -Wl,--build-id=0x0103 -o vmlinux");
	run("cd '%s' && install -D vmlinux \"usr/lib/debug/boot/vmlinux-$(uname -r)\"", sandbox);
	location = kernel_location(0xffffffff81000001);
	symbolize();
	assert_int_equal(at(location)->line_count, 1);
	assert_string_equal(name_of(location), "vfs_read");
	assert_non_null(strstr(problem, "0103"));
	run("rm -r %s", in_sandbox("usr"));

	/* Headers of the kernel may have a vmlinux without code and build ID. */
	build_inlined("-g -Wl,--build-id=none -o vmlinux");
	run("cd '%s' && install -D vmlinux \"lib/modules/$(uname -r)/build/vmlinux\"", sandbox);
	location = kernel_location(0xffffffff81000002);
	*problem = '\0';
	symbolize();
	assert_string_equal(name_of(location), "vfs_read");
	assert_string_equal(problem, "");
	run("rm -r %s", in_sandbox("lib"));
}

static void known_addresses_of_the_kernel_need_no_file(void **state)
{
	static const uint32_t notes[] = {4, 2, 3, 0x00554e47, 0x0201};
	const uint64_t address = 0xffffffff81000000;
	uint32_t location;

	(void)state;
	run("mkdir -p %s", in_sandbox("sys/kernel"));
	write_file(in_sandbox("sys/kernel/notes"), notes, sizeof(notes));
	cache = symbol_cache_new(1 << 20);
	assert_non_null(cache);
	/* That there is no vmlinux is known, too. */
	begin_again();
	location = kernel_location(address);
	symbolize();
	assert_string_equal(name_of(location), "vfs_read");
	build_inlined("-g -Wl,--build-id=0x0102 -o vmlinux");
	run("cd '%s' && install -D vmlinux \"usr/lib/debug/boot/vmlinux-$(uname -r)\"", sandbox);
	begin_again();
	location = kernel_location(address);
	symbolize();
	assert_int_equal(at(location)->line_count, 1);
	assert_string_equal(name_of(location), "vfs_read");

	symbol_cache_clear(cache);
	begin_again();
	location = kernel_location(address);
	symbolize();
	expect_inlined(location);
	run("rm -r %s", in_sandbox("usr"));
	begin_again();
	location = kernel_location(address);
	symbolize();
	expect_inlined(location);
	symbol_cache_free(cache);
	cache = NULL;
}

static void perf_map_names_jit_code(void **state)
{
	uint32_t known, unknown, late, without;
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
	known = location_at(space, 0x10012);
	unknown = location_at(space, 0x10018);
	late = location_at(other, 0x10012);
	without = location_at(map(3, "a.so"), 0x10012);
	assert_int_not_equal(known, late);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(known), "LazyCompile:~f /a b.js:1");
	assert_string_equal(profile_text(profile, function_of(known, 0)->system_name),
			    "LazyCompile:~f /a b.js:1");
	assert_string_equal(path_of(known), "[anon]");
	assert_int_equal(at(unknown)->line_count, 0);
	assert_string_equal(name_of(late), "late");
	assert_int_equal(at(without)->line_count, 0);
}

/* As code in anonymous memory, but its file is shown. */
static void perf_map_names_code_in_files_that_are_not_elf(void **state)
{
	uint32_t known, unknown, other, segment;
	struct address_space *space;
	uint64_t id;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/1/root/tmp"));
	write_text(in_sandbox("proc/1/root/tmp/perf-1.map"), "10010 8 f\n");
	write_text(in_sandbox("code"), "no ELF file");
	id = fake_other_file(mapped, &files, in_sandbox("code"));
	fake_space(spaces, 1, 1, 1, "jit");
	space = address_spaces_get(spaces, 1, 0);
	address_space_has_jit_code(space);
	address_spaces_finish(spaces);
	segment = segment_of_file(mapped_files_get(mapped, id)->index, SEGMENT_ADDRESSES);
	known = location_in(segment, address_space_perf_map(space), 0x10012);
	unknown = location_in(segment, address_space_perf_map(space), 0x10018);
	/* Its process may still have had a map when the stack was taken. */
	other = location_in(segment, address_space_perf_map(space) + 1, 0x10012);
	symbolize();
	assert_string_equal(problem, "");
	assert_string_equal(name_of(known), "f");
	assert_string_equal(path_of(known), in_sandbox("code"));
	assert_int_equal(at(known)->address, 0x10012);
	assert_int_equal(at(unknown)->line_count, 0);
	assert_int_equal(at(other)->line_count, 0);
}

static void kernel_without_kallsyms_is_unresolved(void **state)
{
	struct kallsyms *saved = kallsyms;
	uint32_t location = kernel_location(0xffffffff81000010);

	(void)state;
	kallsyms = NULL;
	symbolize();
	kallsyms = saved;
	assert_int_equal(at(location)->line_count, 0);
	assert_string_equal(path_of(location), "[kernel.kallsyms]");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(same_place_of_a_file_is_one_location),
		TEST(known_addresses_need_no_file),
		TEST(file_that_fails_is_not_read_again),
		TEST(lines_of_other_addresses_are_not_known),
		TEST(symbols_with_a_problem_are_not_kept),
		TEST(files_without_a_build_id_are_not_kept),
		TEST(locations_are_counted),
		TEST(addresses_without_symbol),
		TEST(file_without_segments_gives_offsets),
		TEST(no_headers_are_read_after_a_stop),
		TEST(file_system_that_hangs_is_given_up),
		TEST(names_are_demangled),
		TEST(exploding_name_stays_mangled),
		TEST(kernel_and_modules),
		TEST(kernel_without_kallsyms_is_unresolved),
		TEST(dwarf_is_better_than_symbols),
		TEST(vmlinux_gives_inlined_functions),
		TEST(known_addresses_of_the_kernel_need_no_file),
		TEST(perf_map_names_jit_code),
		TEST(perf_map_names_code_in_files_that_are_not_elf),
		TEST(stop_keeps_symbols),
		TEST(problems_come_in_order_of_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

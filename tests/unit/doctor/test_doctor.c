// SPDX-License-Identifier: GPL-2.0
/* The checks of `stackbeat doctor`, of machines that are directories. */
#include "doctor/doctor.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>

#include "lib/timed_call.h"
#include "sandbox.h"

#define RELEASE "6.1.0-9-amd64"
#define ALL_CAPABILITIES "000001ffffffffff"
#define MAX_FINDINGS 64

static struct finding findings[MAX_FINDINGS];
static size_t finding_count;

static void keep_finding(void *arg, const struct finding *finding)
{
	assert_ptr_equal(arg, &finding_count);
	assert_true(finding_count < MAX_FINDINGS);
	assert_true(*finding->text && *finding->check);
	for (const char *at = finding->text; *at; at++)
		assert_true((unsigned char)*at >= ' ' && *at != 0x7f);
	findings[finding_count++] = *finding;
}

static void place(const char *path, const char *text)
{
	const char *whole = in_sandbox("%s", path);

	run("mkdir -p \"$(dirname '%s')\"", whole);
	write_text(whole, text);
}

static void place_link(const char *path, const char *target)
{
	const char *whole = in_sandbox("%s", path);

	run("mkdir -p \"$(dirname '%s')\"", whole);
	assert_int_equal(symlink(target, whole), 0);
}

/* A machine on which nothing is wrong, but that it has no module. */
static int make_machine(void **state)
{
	if (make_sandbox(state))
		return -1;
	place("proc/sys/kernel/osrelease", RELEASE "\n");
	place("proc/modules", "");
	place("proc/self/status", "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t" ALL_CAPABILITIES "\n");
	place("proc/sys/kernel/perf_event_paranoid", "3\n");
	place("proc/sys/kernel/perf_event_mlock_kb", "516\n");
	place("proc/sys/kernel/kptr_restrict", "0\n");
	place("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
	return 0;
}

static void place_module(const char *path)
{
	const Elf64_Ehdr header = {.e_ident = ELFMAG, .e_type = ET_REL};

	place(path, "");
	write_file(in_sandbox("%s", path), &header, sizeof(header));
}

static void become_ordinary_user(void)
{
	place("proc/self/status", "Name:\tx\nUid:\t0\t1000\t0\t0\nCapEff:\t0000000000000000\n");
}

static bool examine(void)
{
	const struct doctor_machine machine = {.root = sandbox, .build_tree = "/build"};

	finding_count = 0;
	return doctor_run(&machine, keep_finding, &finding_count);
}

/* The first finding of a check, which must be there. */
static const struct finding *find(const char *check)
{
	for (size_t i = 0; i < finding_count; i++)
		if (!strcmp(findings[i].check, check))
			return &findings[i];
	fail_msg("no finding of '%s'", check);
	return NULL;
}

static void expect(const char *check, enum finding_status status, const char *text,
		   const char *remedy)
{
	const struct finding *finding = find(check);

	if (finding->status != status || !strstr(finding->text, text) ||
	    !strstr(finding->remedy, remedy))
		fail_msg("%s: %d '%s' -> '%s'", check, finding->status, finding->text,
			 finding->remedy);
	assert_true(status == FINDING_OK || !*remedy || *finding->remedy);
}

static void machine_without_a_module_records_by_perf_events(void **state)
{
	(void)state;
	assert_true(examine());
	expect("kernel", FINDING_OK, RELEASE, "");
	expect("headers", FINDING_WARNING, "not installed", "apt install linux-headers-" RELEASE);
	expect("module", FINDING_WARNING, "kernel: samples come from perf events",
	       "stackbeat-dkms");
	expect("rights", FINDING_OK, "root", "");
	expect("perf_event_paranoid", FINDING_OK, "3, which does not bind you", "");
	expect("clock", FINDING_OK, "tsc", "");
	expect("recording", FINDING_OK, "possible by perf events", "");
}

static void module_is_found_wherever_it_is(void **state)
{
	(void)state;
	place_module("build/kmod/" RELEASE "/stackbeat.ko");
	assert_true(examine());
	expect("module", FINDING_OK, "built", "");
	expect("recording", FINDING_OK, "possible by the module", "");
	/* The build tree comes first. */
	run("rm %s/build/kmod/" RELEASE "/stackbeat.ko", sandbox);
	place("lib/modules/" RELEASE "/modules.dep",
	      "kernel/a.ko: kernel/stackbeat.ko\nupdates/dkms/stackbeat.ko.xz:\n");
	place("lib/modules/" RELEASE "/updates/dkms/stackbeat.ko.xz", "\xfd"
								      "7zXZ");
	place("lib/modules/" RELEASE "/build/Makefile", "");
	examine();
	expect("module", FINDING_OK, "installed", "");
	expect("headers", FINDING_OK, "installed", "");
	place("sys/module/stackbeat/refcnt", "0\n");
	examine();
	expect("module", FINDING_OK, "loaded", "");
}

/* DKMS leaves depmod to the package of the kernel. */
static void module_that_modprobe_does_not_find_has_a_remedy(void **state)
{
	(void)state;
	place("lib/modules/" RELEASE "/updates/dkms/stackbeat.ko.xz", "\x28\xb5\x2f\xfd");
	place("lib/modules/" RELEASE "/modules.dep", "kernel/a.ko:\n");
	assert_true(examine());
	expect("module", FINDING_WARNING,
	       "/lib/modules/" RELEASE "/updates/dkms/stackbeat.ko.xz is there", "depmod " RELEASE);
	expect("recording", FINDING_OK, "possible by perf events", "");
}

static void expect_damage(const char *path, const char *remedy)
{
	assert_true(examine());
	expect("module", FINDING_WARNING, path, remedy);
	expect("module", FINDING_WARNING, "is missing, empty or damaged: samples come from", "");
	expect("headers", FINDING_WARNING, "not installed", "");
	expect("recording", FINDING_OK, "possible by perf events", "");
}

/* Which nothing but its bytes show. */
static void damaged_module_has_a_remedy(void **state)
{
	static const char name[] = "/lib/modules/" RELEASE "/updates/dkms/stackbeat.ko";
	static const char remedy[] = "apt install --reinstall stackbeat-dkms";

	(void)state;
	place(name, "");
	expect_damage(name, remedy);
	place("lib/modules/" RELEASE "/modules.dep", "updates/dkms/stackbeat.ko:\n");
	expect_damage(name, remedy);
	place(name, "This is a text, and no module. It is longer than the header of an ELF file.");
	expect_damage(name, remedy);
	run("rm %s%s && mkdir %s%s", sandbox, name, sandbox, name);
	expect_damage(name, remedy);
	/* Listed, and gone. */
	run("rmdir %s%s", sandbox, name);
	expect_damage(name, remedy);
	place_module(name);
	examine();
	expect("module", FINDING_OK, "installed", "");
	place("lib/modules/" RELEASE "/modules.dep",
	      "/lib/modules/" RELEASE "/extra/stackbeat.ko:\n");
	expect_damage("/lib/modules/" RELEASE "/extra/stackbeat.ko", "make module install");
	place("build/kmod/" RELEASE "/stackbeat.ko", "");
	expect_damage("/build/kmod/" RELEASE "/stackbeat.ko", "make module");
}

/* Only a module of its own counts, not what others depend on. */
static void module_of_another_name_is_none(void **state)
{
	(void)state;
	place("lib/modules/" RELEASE "/modules.dep", "kernel/a.ko: kernel/stackbeat.ko\n");
	examine();
	expect("module", FINDING_WARNING, "neither", "");
}

static void rules_of_modules_have_remedies(void **state)
{
	static const char variable[] = {6, 0, 0, 0, 1};

	(void)state;
	place_module("build/kmod/" RELEASE "/stackbeat.ko");
	place("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	run("mkdir -p %s/sys/firmware/efi/efivars", sandbox);
	write_file(in_sandbox("sys/firmware/efi/efivars/"
			      "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"),
		   variable, sizeof(variable));
	assert_true(examine());
	expect("module signature", FINDING_WARNING, "Secure Boot", "mokutil --import");
	expect("lockdown", FINDING_OK, "integrity", "");
	expect("recording", FINDING_OK, "if its key is enrolled, and by perf events", "");

	place("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
	examine();
	expect("lockdown", FINDING_WARNING, "no kernel part", "lockdown=");

	place("proc/sys/kernel/modules_disabled", "1\n");
	examine();
	expect("lockdown", FINDING_WARNING, "modules_disabled", "boot");
	expect("recording", FINDING_OK, "possible by perf events", "");
}

/* Neither headers nor packages help it, nor rights to load modules. */
static void kernel_without_modules_needs_nothing_of_them(void **state)
{
	(void)state;
	run("rm %s/proc/modules", sandbox);
	place_module("build/kmod/" RELEASE "/stackbeat.ko");
	assert_true(examine());
	expect("headers", FINDING_OK, "not needed", "");
	expect("module", FINDING_WARNING, "this kernel takes no modules (no /proc/modules)", "");
	expect("module signature", FINDING_OK, "not needed", "");
	expect("recording", FINDING_OK, "possible by perf events", "");
	for (size_t i = 0; i < finding_count; i++)
		assert_false(strstr(findings[i].remedy, "headers") ||
			     strstr(findings[i].remedy, "stackbeat-dkms"));

	place("proc/self/status", "Name:\tx\nUid:\t0\t1000\t0\t0\nCapEff:\t0000004000000000\n");
	assert_true(examine());
	expect("rights", FINDING_OK, "CAP_PERFMON", "");
	become_ordinary_user();
	examine();
	assert_string_equal(find("rights")->remedy, "sudo");

	/* A /proc of processes only (subset=pid) does not have it either. */
	run("rm -r %s/proc/sys", sandbox);
	examine();
	assert_null(strstr(find("module")->text, "takes no modules"));
}

static void user_without_rights_records_what_the_level_permits(void **state)
{
	(void)state;
	become_ordinary_user();
	assert_false(examine());
	expect("rights", FINDING_WARNING, "no CAP_PERFMON", "sudo");
	expect("perf_event_paranoid", FINDING_WARNING, "3", "perf_event_paranoid=2");
	expect("kptr_restrict", FINDING_WARNING, "no names for you", "CAP_SYSLOG");
	expect("recording", FINDING_PROBLEM, "impossible", "remedies above");

	place("proc/sys/kernel/perf_event_paranoid", "2\n");
	assert_true(examine());
	expect("perf_event_paranoid", FINDING_WARNING, "no kernel part", "perf_event_paranoid=1");
	expect("recording", FINDING_OK, "of your own processes", "");

	/* By the module, as a member of its group. */
	place("proc/sys/kernel/perf_event_paranoid", "3\n");
	place("sys/module/stackbeat/refcnt", "0\n");
	place("sys/module/stackbeat/parameters/unprivileged", "Y\n");
	assert_false(examine());
	place("dev/stackbeat", "");
	assert_true(examine());
}

static void settings_have_remedies(void **state)
{
	(void)state;
	become_ordinary_user();
	place("proc/sys/kernel/osrelease", "5.4.0\n");
	place("proc/sys/kernel/kptr_restrict", "2\n");
	place("proc/sys/kernel/perf_event_mlock_kb", "64\n");
	place("proc/sys/kernel/unprivileged_userns_clone", "0\n");
	place("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
	examine();
	expect("kernel", FINDING_PROBLEM, "too old", "5.10");
	expect("kptr_restrict", FINDING_WARNING, "not even for root", "kptr_restrict=1");
	expect("perf_event_mlock_kb", FINDING_WARNING, "64 KiB", "perf_event_mlock_kb=1024");
	expect("sandbox", FINDING_WARNING, "user namespaces", "unprivileged_userns_clone=1");
	expect("clock", FINDING_WARNING, "hpet", "dmesg");
	expect("disk", FINDING_OK, "/var/cache/stackbeat", "");
}

/* A process of the machine. `name` may be anything. */
static void place_process(unsigned int pid, const char *name, unsigned int ticks,
			  const char *program)
{
	char path[64], text[512];

	snprintf(path, sizeof(path), "proc/%u/stat", pid);
	snprintf(text, sizeof(text), "%u (%s) S 1 1 1 0 -1 4194560 1 2 3 4 %u 0 5 6 20 0 1 0 7",
		 pid, name, ticks);
	place(path, text);
	snprintf(path, sizeof(path), "proc/%u/exe", pid);
	if (program)
		place_link(path, program);
}

static void busiest_programs_are_looked_at(void **state)
{
	char text[512];

	(void)state;
	setenv("DEBUGINFOD_URLS", "", 1);
	run("printf 'int main(void) { return 0; }' | gcc -xc -Wl,--build-id -s -o %s/stripped -",
	    sandbox);
	run("printf 'int main(void) { return 0; }' | gcc -xc -g -o %s/debug -", sandbox);
	place("script", "#!/bin/sh\n");
	place_process(10, "lazy", 1, in_sandbox("script"));
	place_process(11, "a) R 1 1 1 1 1 1 1 1 1 1 0 0 (b", 300, in_sandbox("stripped"));
	place_process(12, "kthread", 900, NULL);
	place_process(13, "debug", 200, in_sandbox("debug"));
	place_process(14, "again", 100, in_sandbox("debug"));
	place_process(15, "idle", 0, "/idle");
	examine();
	expect("symbols", FINDING_WARNING, "/stripped: stripped", "DEBUGINFOD_URLS");
	snprintf(text, sizeof(text), "%s/debug: names and lines", sandbox);
	for (size_t i = 0; i < finding_count; i++) {
		if (strcmp(findings[i].check, "symbols"))
			continue;
		assert_string_equal(findings[i + 1].text, text);
		assert_string_equal(findings[i + 2].check, "symbols");
		assert_non_null(strstr(findings[i + 2].text, "not an ELF file"));
		assert_string_not_equal(findings[i + 3].check, "symbols");
		break;
	}
	/* Its debug file, or a server of debug files. */
	setenv("DEBUGINFOD_URLS", "https://example", 1);
	examine();
	expect("symbols", FINDING_OK, "debuginfod is asked", "");
	run("id=$(readelf -n %s/stripped | sed -n 's/.*Build ID: //p') && "
	    "mkdir -p %s/usr/lib/debug/.build-id/$(echo $id | cut -c1-2) && "
	    ": >%s/usr/lib/debug/.build-id/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-).debug",
	    sandbox, sandbox, sandbox);
	examine();
	expect("symbols", FINDING_OK, "names and lines", "");
}

/* keep_finding() looks for control characters. */
static void names_have_no_effect_on_a_terminal(void **state)
{
	(void)state;
	place_process(10, "x", 7, "/tmp/\033[2J\nok recording possible\302\2332K");
	examine();
	assert_null(strchr(find("symbols")->text, '\033'));
	assert_null(strstr(find("symbols")->text, "\302\233"));
}

static bool hangs;

int timed_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t timeout)
{
	assert_true(timeout > 0);
	if (!hangs)
		fn(arg);
	else
		drop(arg);
	return hangs ? -ETIMEDOUT : 0;
}

static void place_words(unsigned int pid, const char *file, const char *words, size_t size)
{
	write_file(in_sandbox("proc/%u/%s", pid, file), words, size);
}

static const char *runtime_of(const char *program, const char *words, size_t size,
			      const char *environment)
{
	place_process(20, "runtime", 5, program);
	place_words(20, "cmdline", words, size);
	place_words(20, "environ", environment, strlen(environment) + 1);
	examine();
	run("rm -r %s/proc/20", sandbox);
	return find("runtimes")->text;
}

#define RUNTIME_OF(program, words, environment)                                                    \
	runtime_of(program, words, sizeof(words), environment)

static void runtimes_need_options(void **state)
{
	(void)state;
	assert_string_equal(RUNTIME_OF("/jdk/bin/java", "java\0Main", "A=1"),
			    "java 20: Java callers are lost");
	assert_non_null(strstr(find("runtimes")->remedy, "PreserveFramePointer"));
	assert_string_equal(
		RUNTIME_OF("/jdk/bin/java", "java\0-XX:+PreserveFramePointer\0Main", ""),
		"java 20 is set up");
	assert_string_equal(RUNTIME_OF("/jdk/bin/java", "java\0Main",
				       "JAVA_TOOL_OPTIONS=-XX:+PreserveFramePointer"),
			    "java 20 is set up");
	assert_string_equal(RUNTIME_OF("/jdk/bin/javac", "javac", ""),
			    "no Java, Node.js or Python that you may look into runs");
	assert_string_equal(RUNTIME_OF("/usr/bin/node", "node\0x.js", ""),
			    "node 20: JavaScript has no names");
	assert_string_equal(RUNTIME_OF("/usr/bin/node", "node\0--perf-basic-prof\0x.js", ""),
			    "node 20 is set up");
	assert_string_equal(RUNTIME_OF("/usr/bin/python3.12", "python3\0perf.py", ""),
			    "python3 20: Python functions have no names");
	assert_string_equal(RUNTIME_OF("/usr/bin/python3.12", "python3\0-X\0perf\0a.py", ""),
			    "python3 20 is set up");
	assert_string_equal(RUNTIME_OF("/usr/bin/python3.12", "python3\0-Xperf\0a.py", ""),
			    "python3 20 is set up");
	assert_string_equal(RUNTIME_OF("/usr/bin/python3.12", "python3", "PYTHONPERFSUPPORT=1"),
			    "python3 20 is set up");
	assert_string_equal(
		RUNTIME_OF("/usr/bin/python3.12", "/opt/perf/python3\0-X\0perf\0a.py", ""),
		"python3 20 is set up");
}

/* A runtime writes the map of its id in its own PID namespace, and only its user's map counts. */
static void perf_map_of_a_process_is_found(void **state)
{
	const char *map = in_sandbox("proc/20/root/tmp/perf-3.map");

	(void)state;
	place_process(20, "node", 5, "/usr/bin/node");
	place_words(20, "cmdline", "node", 5);
	place("proc/20/status", "Name:\tnode\nNSpid:\t20\t3\n");
	place("proc/20/root/tmp/perf-20.map", "1000 10 f\n");
	examine();
	expect("runtimes", FINDING_WARNING, "node 20: JavaScript has no names", "");
	write_text(map, "1000 10 f\n");
	examine();
	expect("runtimes", FINDING_OK, "node 20 is set up", "");
	run("mv %s %s.other && ln -s perf-3.map.other %s", map, map, map);
	examine();
	expect("runtimes", FINDING_WARNING, "node 20: JavaScript has no names", "");
	run("rm -r %s/proc/20", sandbox);
}

static void process_that_hangs_is_left_out(void **state)
{
	(void)state;
	hangs = true;
	assert_string_equal(RUNTIME_OF("/usr/bin/node", "node\0--perf-basic-prof\0x.js", ""),
			    "node 20: can't be examined: it hangs");
	hangs = false;
}

/* Not even /proc is there. Each check says something. */
static void empty_machine_is_examined(void **state)
{
	(void)state;
	run("rm -r %s/*", sandbox);
	assert_false(examine());
	assert_true(finding_count >= 15);
	expect("kernel", FINDING_WARNING, "unknown", "");
	expect("recording", FINDING_PROBLEM, "impossible", "");
}

/* A file that blocks its reader ends no examination. */
static void fifo_blocks_nothing(void **state)
{
	(void)state;
	run("mkdir -p %s/proc/30 && mkfifo %s/proc/30/stat %s/fifo", sandbox, sandbox, sandbox);
	run("rm %s/proc/sys/kernel/kptr_restrict && mkfifo %s/proc/sys/kernel/kptr_restrict",
	    sandbox, sandbox);
	place_process(31, "x", 7, in_sandbox("fifo"));
	assert_true(examine());
	expect("symbols", FINDING_WARNING, "/fifo", "");
}

int main(void)
{
#define MACHINE_TEST(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_sandbox)
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(machine_without_a_module_records_by_perf_events),
		MACHINE_TEST(module_is_found_wherever_it_is),
		MACHINE_TEST(module_that_modprobe_does_not_find_has_a_remedy),
		MACHINE_TEST(damaged_module_has_a_remedy),
		MACHINE_TEST(module_of_another_name_is_none),
		MACHINE_TEST(rules_of_modules_have_remedies),
		MACHINE_TEST(kernel_without_modules_needs_nothing_of_them),
		MACHINE_TEST(user_without_rights_records_what_the_level_permits),
		MACHINE_TEST(settings_have_remedies),
		MACHINE_TEST(busiest_programs_are_looked_at),
		MACHINE_TEST(names_have_no_effect_on_a_terminal),
		MACHINE_TEST(runtimes_need_options),
		MACHINE_TEST(perf_map_of_a_process_is_found),
		MACHINE_TEST(process_that_hangs_is_left_out),
		MACHINE_TEST(empty_machine_is_examined),
		MACHINE_TEST(fifo_blocks_nothing),
	};

	return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}

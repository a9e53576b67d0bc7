// SPDX-License-Identifier: GPL-2.0
#include "doctor/doctor.h"

#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "doctor/patient.h"
#include "doctor/programs.h"
#include "lib/module_file.h"
#include "lib/small_file.h"

#define KERNEL_MIN_MAJOR 5
#define KERNEL_MIN_MINOR 10
/* The first level at which the kernel refuses perf events of a user's own processes (Debian,
 * Ubuntu). */
#define PARANOID_ALL 3
#define PARANOID_PATH "/proc/sys/kernel/perf_event_paranoid"
#define PARANOID_UNKNOWN INT_MAX
/* Less than it holds too few stack copies of a CPU (perf_events.c). */
#define MLOCK_KB_MIN 512
#define DISK_MIN_MIB 512

/* The kernel and the module */

static void check_kernel(struct patient *patient)
{
	unsigned int major = 0, minor = 0;

	/* Numbers of the kernel. NOLINTNEXTLINE(cert-err34-c) */
	if (sscanf(patient->release, "%u.%u", &major, &minor) != 2)
		patient_report(patient, FINDING_WARNING, "", "the version is unknown");
	else if (major < KERNEL_MIN_MAJOR ||
		 (major == KERNEL_MIN_MAJOR && minor < KERNEL_MIN_MINOR))
		patient_report(patient, FINDING_PROBLEM, "install a kernel from 5.10 on",
			       "%s is too old for the module", patient->release);
	else
		patient_report(patient, FINDING_OK, "", "%s", patient->release);
}

static bool is_module_loaded(const struct patient *patient)
{
	return patient_has_file(patient, "/sys/module/stackbeat/refcnt");
}

/* Sets `path` to the module that modprobe finds, as depmod has listed it, below the root. */
static bool find_listed_module(const struct patient *patient, char path[PATH_MAX])
{
	char line[PATH_MAX];
	bool found = false;
	FILE *file;

	if (snprintf(line, sizeof(line), "%s/lib/modules/%s/modules.dep", patient->root,
		     patient->release) >= (int)sizeof(line))
		return false;
	file = fopen(line, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, ":")] = '\0';
		/* Names are relative to the directory of the list, unless they begin with /. */
		found = strstr(line, "/stackbeat.ko") &&
			(*line == '/' ? snprintf(path, PATH_MAX, "%s", line)
				      : snprintf(path, PATH_MAX, "/lib/modules/%s/%s",
						 patient->release, line)) < PATH_MAX;
	}
	if (file)
		fclose(file);
	return found;
}

/* Sets `path` to the module of the build tree, which comes first, as for 'stackbeat load'. */
static bool find_built_module(const struct patient *patient, char path[PATH_MAX])
{
	return *patient->build_tree &&
	       snprintf(path, PATH_MAX, "%s/kmod/%s/stackbeat.ko", patient->build_tree,
			patient->release) < PATH_MAX &&
	       patient_has_file(patient, "%s", path);
}

static void check_headers(struct patient *patient)
{
	char remedy[256], path[PATH_MAX];

	if (patient_has_file(patient, "/lib/modules/%s/build/Makefile", patient->release)) {
		patient_report(patient, FINDING_OK, "", "installed");
		return;
	}
	snprintf(remedy, sizeof(remedy), "apt install linux-headers-%.128s", patient->release);
	if (patient->rules.is_unsupported || is_module_loaded(patient) ||
	    (find_listed_module(patient, path) && !module_file_is_damaged(patient->root, path)))
		patient_report(patient, FINDING_OK, "", "not installed, and not needed");
	else
		patient_report(patient, FINDING_WARNING, remedy,
			       "not installed: the module can't be built");
}

/* A file of a module, which modprobe finds if it is listed. */
static void check_module_file(struct patient *patient, const char *path, bool is_built,
			      bool is_listed)
{
	char remedy[256];

	patient->has_module = false;
	if (module_file_is_damaged(patient->root, path)) {
		patient_report(patient, FINDING_WARNING, module_file_remedy(path),
			       "%s is missing, empty or damaged: samples come from perf events",
			       path);
	} else if (!is_built && !is_listed) {
		snprintf(remedy, sizeof(remedy), "depmod %.128s", patient->release);
		patient_report(patient, FINDING_WARNING, remedy,
			       "%s is there, and modprobe does not find it: samples come from "
			       "perf events",
			       path);
	} else {
		patient->has_module = true;
		patient_report(patient, FINDING_OK, "", "%s; record loads it",
			       is_built ? "built" : "installed");
	}
}

static void check_module(struct patient *patient)
{
	char path[PATH_MAX];
	bool is_built, is_listed;

	patient->has_module = is_module_loaded(patient);
	if (patient->has_module) {
		patient_report(patient, FINDING_OK, "", "loaded");
		return;
	}
	if (patient->rules.is_unsupported) {
		patient_report(patient, FINDING_WARNING, "",
			       "this kernel takes no modules (no /proc/modules): samples come from "
			       "perf events");
		return;
	}
	is_built = find_built_module(patient, path);
	is_listed = !is_built && find_listed_module(patient, path);
	if (is_built || is_listed || module_file_find(patient->root, patient->release, path))
		check_module_file(patient, path, is_built, is_listed);
	else
		patient_report(patient, FINDING_WARNING,
			       "install stackbeat-dkms, or 'make module install'",
			       "neither built nor installed for this kernel: samples come from "
			       "perf events");
}

static void check_signature(struct patient *patient)
{
	const struct module_rules *rules = &patient->rules;

	if (is_module_loaded(patient))
		patient_report(patient, FINDING_OK, "", "the module was accepted");
	else if (rules->is_unsupported)
		patient_report(patient, FINDING_OK, "", "not needed");
	else if (rules->needs_signature)
		patient_report(patient, FINDING_WARNING, MODULE_RULES_ENROLL,
			       "the kernel takes signed modules only%s",
			       rules->has_secure_boot ? " (Secure Boot)" : "");
	else if (rules->has_secure_boot)
		patient_report(patient, FINDING_OK, "",
			       "Secure Boot is on, and the kernel takes unsigned modules");
	else
		patient_report(patient, FINDING_OK, "", "the kernel takes unsigned modules");
}

static void check_lockdown(struct patient *patient)
{
	const struct module_rules *rules = &patient->rules;

	if (rules->is_closed && !is_module_loaded(patient)) {
		patient->has_module = false;
		patient_report(patient, FINDING_WARNING,
			       "load the module early in the next boot (/etc/modules-load.d)",
			       "kernel.modules_disabled: the kernel takes no module any more");
	} else if (rules->lockdown == LOCKDOWN_CONFIDENTIALITY) {
		patient_report(patient, FINDING_WARNING,
			       "boot without lockdown=confidentiality, if that may be",
			       "confidentiality: stacks have no kernel part");
	} else {
		patient_report(patient, FINDING_OK, "", "%s",
			       rules->lockdown == LOCKDOWN_INTEGRITY ? "integrity" : "none");
	}
}

/* Rights */

/* Whether the module lets this user record, without CAP_PERFMON. */
static bool may_record_own_processes(const struct patient *patient)
{
	char path[PATH_MAX], text[8];

	small_file_read(patient->root, "/sys/module/stackbeat/parameters/unprivileged", text,
			sizeof(text));
	snprintf(path, sizeof(path), "%s/dev/stackbeat", patient->root);
	return *text == 'Y' && !access(path, R_OK | W_OK);
}

static void check_rights(struct patient *patient)
{
	/* A kernel that takes no modules asks for no right to load them. */
	const bool loads = is_module_loaded(patient) || patient->rules.is_unsupported ||
			   patient_has_capability(patient, CAP_SYS_MODULE);

	if (patient_has_perfmon(patient) && loads)
		patient_report(patient, FINDING_OK, "", "%s",
			       patient->is_root ? "root" : "CAP_PERFMON");
	else if (patient_has_perfmon(patient))
		patient_report(patient, FINDING_WARNING, "sudo stackbeat load",
			       "CAP_PERFMON without CAP_SYS_MODULE: the module can't be loaded");
	else
		patient_report(patient, FINDING_WARNING,
			       patient->is_root                ? "give the container CAP_PERFMON"
			       : patient->rules.is_unsupported ? "sudo"
							       : "sudo, or the group stackbeat "
								 "(man stackbeat, PERMISSIONS)",
			       "no CAP_PERFMON: your own processes only");
	patient->can_use_module = patient->has_module && ((patient_has_perfmon(patient) && loads) ||
							  may_record_own_processes(patient));
}

static void check_paranoid(struct patient *patient)
{
	const long level = patient_number(patient, PARANOID_PATH, PARANOID_UNKNOWN);

	if (level == PARANOID_UNKNOWN) {
		patient_report(patient, FINDING_WARNING, "",
			       "the kernel has no perf events, or hides the level");
		return;
	}
	patient->can_use_perf = patient_has_perfmon(patient) || level < PARANOID_ALL;
	if (patient_has_perfmon(patient))
		patient_report(patient, FINDING_OK, "", "%ld, which does not bind you", level);
	else if (level >= PARANOID_ALL)
		patient_report(patient, FINDING_WARNING, "sysctl kernel.perf_event_paranoid=2",
			       "%ld: perf events need CAP_PERFMON", level);
	else if (level >= 2)
		patient_report(patient, FINDING_WARNING, "sysctl kernel.perf_event_paranoid=1",
			       "%ld: perf events have no kernel part of stacks", level);
	else
		patient_report(patient, FINDING_OK, "", "%ld", level);
}

static void check_kptr(struct patient *patient)
{
	const long level = patient_number(patient, "/proc/sys/kernel/kptr_restrict", 0);
	const bool may = patient_has_capability(patient, CAP_SYSLOG) ||
			 (!level && patient_number(patient, PARANOID_PATH, PARANOID_UNKNOWN) <= 1);

	if (level >= 2)
		patient_report(patient, FINDING_WARNING, "sysctl kernel.kptr_restrict=1",
			       "%ld: kernel functions have no names, not even for root", level);
	else if (!may)
		patient_report(patient, FINDING_WARNING, "run as root, or with CAP_SYSLOG",
			       "%ld: kernel functions have no names for you", level);
	else
		patient_report(patient, FINDING_OK, "", "%ld", level);
}

static void check_mlock(struct patient *patient)
{
	const long limit = patient_number(patient, "/proc/sys/kernel/perf_event_mlock_kb", 0);

	if (patient_has_capability(patient, CAP_IPC_LOCK) || limit >= MLOCK_KB_MIN)
		patient_report(patient, FINDING_OK, "", "%ld KiB", limit);
	else
		patient_report(patient, FINDING_WARNING, "sysctl kernel.perf_event_mlock_kb=1024",
			       "%ld KiB a CPU: perf events copy less of each stack", limit);
}

static void check_sandbox(struct patient *patient)
{
	static const char remedy[] = "sysctl kernel.unprivileged_userns_clone=1, "
				     "user.max_user_namespaces=10000 or "
				     "kernel.apparmor_restrict_unprivileged_userns=0";

	if (patient_has_capability(patient, CAP_SYS_ADMIN))
		patient_report(patient, FINDING_OK, "", "complete, by root's namespaces");
	else if (!patient_number(patient, "/proc/sys/kernel/unprivileged_userns_clone", 1) ||
		 !patient_number(patient, "/proc/sys/user/max_user_namespaces", 1) ||
		 patient_number(patient, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
				0))
		patient_report(patient, FINDING_WARNING, remedy,
			       "no user namespaces: files are parsed with less confinement");
	else
		patient_report(patient, FINDING_OK, "", "complete, by user namespaces");
}

/* The rest of the machine */

static void check_clock(struct patient *patient)
{
	static const char *const fast[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
					   "xen"};
	char name[64];

	small_file_read(patient->root,
			"/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
			sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	for (size_t i = 0; i < sizeof(fast) / sizeof(*fast); i++) {
		if (!strcmp(name, fast[i])) {
			patient_report(patient, FINDING_OK, "", "%s", name);
			return;
		}
	}
	patient_report(patient, FINDING_WARNING,
		       "look for 'clocksource' in dmesg: why the kernel distrusts the TSC",
		       "%s: each time that a sample reads costs a microsecond or more",
		       *name ? name : "unknown");
}

/* The free space where `path` is or would be: of its nearest directory that exists. */
static void check_disk_space(struct patient *patient, const char *path)
{
	char whole[PATH_MAX];
	struct statvfs st;
	uint64_t mib;

	snprintf(whole, sizeof(whole), "%s%s", patient->root, path);
	while (statvfs(whole, &st)) {
		char *slash = strrchr(whole, '/');

		if (!slash || slash == whole)
			return;
		*slash = '\0';
	}
	mib = (uint64_t)st.f_bavail * st.f_frsize >> 20;
	if (st.f_flag & ST_RDONLY)
		patient_report(patient, FINDING_WARNING, "--cache DIR or --store DIR elsewhere",
			       "%s is on a read-only file system", path);
	else if (mib < DISK_MIN_MIB)
		patient_report(patient, FINDING_WARNING,
			       "free some, or --cache DIR or --store DIR elsewhere",
			       "%s: %llu MiB are free", path, (unsigned long long)mib);
	else
		patient_report(patient, FINDING_OK, "", "%s: %llu MiB are free", path,
			       (unsigned long long)mib);
}

static void check_disk(struct patient *patient)
{
	check_disk_space(patient, "/var/cache/stackbeat");
	check_disk_space(patient, "/var/lib/stackbeat");
}

/* The last one: it sums up. */
static void check_recording(struct patient *patient)
{
	if (patient->can_use_module)
		patient_report(patient, FINDING_OK, "", "possible by the module%s%s",
			       patient->rules.needs_signature && !is_module_loaded(patient)
				       ? " if its key is enrolled"
				       : "",
			       patient->can_use_perf ? ", and by perf events" : "");
	else if (patient->can_use_perf)
		patient_report(patient, FINDING_OK, "", "possible by perf events%s",
			       patient_has_perfmon(patient) ? "" : ", of your own processes");
	else
		patient_report(patient, FINDING_PROBLEM,
			       "follow one of the remedies above, best with root's rights",
			       "impossible: neither the module nor perf events can be used");
}

/* In the order of a report. Later checks use what earlier ones have found. */
static const struct doctor_check {
	const char *name;
	void (*run)(struct patient *patient);
} doctor_checks[] = {
	{"kernel", check_kernel},
	{"headers", check_headers},
	{"module", check_module},
	{"module signature", check_signature},
	{"lockdown", check_lockdown},
	{"rights", check_rights},
	{"perf_event_paranoid", check_paranoid},
	{"perf_event_mlock_kb", check_mlock},
	{"kptr_restrict", check_kptr},
	{"sandbox", check_sandbox},
	{"clock", check_clock},
	{"disk", check_disk},
	{"symbols", check_program_symbols},
	{"runtimes", check_runtimes},
	{"recording", check_recording},
};

static void read_rights(struct patient *patient)
{
	char text[4096];
	unsigned int uid = 1;
	const char *at;

	small_file_read(patient->root, "/proc/self/status", text, sizeof(text));
	at = strstr(text, "\nUid:");
	/* The second one is the effective one. */
	/* NOLINTNEXTLINE(cert-err34-c) */
	patient->is_root = at && sscanf(at + 5, "%*u %u", &uid) == 1 && !uid;
	at = strstr(text, "\nCapEff:");
	patient->capabilities = at ? strtoull(at + 8, NULL, 16) : 0;
}

bool doctor_run(const struct doctor_machine *machine, finding_fn *fn, void *arg)
{
	struct patient patient = {
		.root = machine->root, .build_tree = machine->build_tree, .fn = fn, .arg = arg};

	small_file_read(patient.root, "/proc/sys/kernel/osrelease", patient.release,
			sizeof(patient.release));
	patient.release[strcspn(patient.release, "\n/")] = '\0';
	read_rights(&patient);
	module_rules_read(&patient.rules, patient.root);
	for (size_t i = 0; i < sizeof(doctor_checks) / sizeof(*doctor_checks); i++) {
		patient.check = doctor_checks[i].name;
		doctor_checks[i].run(&patient);
	}
	return patient.can_use_module || patient.can_use_perf;
}

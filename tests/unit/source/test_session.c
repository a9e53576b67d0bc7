// SPDX-License-Identifier: GPL-2.0
/* What a session sends to the module. Functions of this file replace the functions of device.c and
 * netlink.c. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/error.h"
#include "source/cgroup.h"
#include "source/device.h"
#include "source/module.h"
#include "source/session.h"

#define DEVICE ((struct device *)&module)
#define CONTROL ((struct netlink *)&module)
#define NO_PROCESS 0x7ffffff0u

/* The module, and what it has received. */
static struct {
	bool loaded;
	int load_err, open_err, get_err, module_err, set_err, map_err;
	struct netlink_session session;
	struct netlink_module properties;
	struct netlink_settings settings;
	uint32_t pids[STACKBEAT_PIDS_MAX];
	uint64_t cgroups[STACKBEAT_CGROUPS_MAX];
	char cpus[64];
	size_t set_count, map_count, closed, left;
} module;

static struct session session;
static struct session_config config;
static struct error error;

int device_open(struct device **opened, struct error *out)
{
	if (module.open_err)
		return error_set(out, -module.open_err, "no device");
	if (!module.loaded)
		return error_set(out, ENOENT, "not loaded");
	*opened = DEVICE;
	return 0;
}

void device_close(struct device *device)
{
	module.closed += !!device;
}

void device_leave(struct device *device)
{
	module.left += !!device;
}

uint32_t device_session(const struct device *device)
{
	assert_ptr_equal(device, DEVICE);
	return 31;
}

int device_map(struct device *device, const struct cpulist *cpus, struct error *out)
{
	(void)out;
	assert_ptr_equal(device, DEVICE);
	assert_ptr_equal(cpus, &session.cpulist);
	module.map_count++;
	return module.map_err;
}

int module_load(char *const *parameters, char path[PATH_MAX], struct error *out)
{
	assert_null(parameters);
	if (module.load_err)
		return error_set(out, -module.load_err, "can't load");
	strcpy(path, "/stackbeat.ko");
	module.loaded = true;
	return 0;
}

int netlink_open(struct netlink **opened, struct error *out)
{
	(void)out;
	*opened = CONTROL;
	return 0;
}

void netlink_close(struct netlink *netlink)
{
	module.closed += !!netlink;
}

int netlink_get(struct netlink *netlink, uint32_t id, struct netlink_session *got,
		struct error *out)
{
	(void)out;
	assert_ptr_equal(netlink, CONTROL);
	assert_int_equal(id, 31);
	*got = module.session;
	return module.get_err;
}

int netlink_module(struct netlink *netlink, struct netlink_module *got, struct error *out)
{
	(void)out;
	assert_ptr_equal(netlink, CONTROL);
	*got = module.properties;
	return module.module_err;
}

int netlink_set(struct netlink *netlink, uint32_t id, const struct netlink_settings *settings,
		struct error *out)
{
	assert_ptr_equal(netlink, CONTROL);
	assert_int_equal(id, 31);
	module.set_count++;
	module.settings = *settings;
	if (settings->pids.count)
		memcpy(module.pids, settings->pids.ids,
		       settings->pids.count * sizeof(*module.pids));
	if (settings->cgroup_count)
		memcpy(module.cgroups, settings->cgroups,
		       settings->cgroup_count * sizeof(*module.cgroups));
	snprintf(module.cpus, sizeof(module.cpus), "%s", settings->cpus ? settings->cpus : "");
	return module.set_err ? error_set(out, -module.set_err, "refused") : 0;
}

int cgroup_id_of(const char *path, uint64_t *id, struct error *out)
{
	if (!strcmp(path, "none"))
		return error_set(out, ENOENT, "no group");
	*id = strlen(path);
	return 0;
}

/* Perf events, of which a session needs no more here. */
static struct {
	struct perf_device_config config;
	uint32_t stack_copy; /* as it fits into the rings */
	bool excludes_kernel, adapts;
	int open_err;
} perf;

#define PERF_DEVICE ((struct device *)&perf)

struct device *perf_device_new(void)
{
	return PERF_DEVICE;
}

int perf_device_configure(struct device *device, const struct perf_device_config *given,
			  struct error *out)
{
	assert_ptr_equal(device, PERF_DEVICE);
	perf.config = *given;
	perf.stack_copy = given->events.stack_copy;
	return perf.open_err ? error_set(out, -perf.open_err, "refused") : 0;
}

const struct perf_events *perf_device_events(const struct device *device)
{
	assert_ptr_equal(device, PERF_DEVICE);
	return (const struct perf_events *)&perf;
}

uint32_t perf_events_stack_copy(const struct perf_events *events)
{
	(void)events;
	return perf.stack_copy;
}

bool perf_events_are_adapted(const struct perf_events *events)
{
	(void)events;
	return perf.adapts;
}

bool perf_events_exclude_kernel(const struct perf_events *events)
{
	(void)events;
	return perf.excludes_kernel;
}

int perf_device_set_state(struct device *device, uint32_t state, struct error *out)
{
	(void)device;
	(void)state;
	(void)out;
	return 0;
}

void perf_device_get(const struct device *device, struct netlink_session *got)
{
	(void)device;
	*got = (struct netlink_session){.rate = 7};
}

static int setup(void **state)
{
	(void)state;
	memset(&perf, 0, sizeof(perf));
	memset(&module, 0, sizeof(module));
	module.loaded = true;
	module.session.parts = STACKBEAT_PARTS_ALL;
	module.session.owner = (uint32_t)getpid();
	module.session.unwind_tables = true;
	module.properties.rate_max = 1000;
	memset(&session, 0, sizeof(session));
	memset(&config, 0, sizeof(config));
	config.cpus = "0-1";
	config.parts = STACKBEAT_PARTS_ALL;
	config.rate = 99;
	config.ring_size = STACKBEAT_RING_SIZE_DEFAULT;
	*error.text = '\0';
	return 0;
}

static int teardown(void **state)
{
	const size_t opened = module.closed + !!session.device + !!session.control;

	(void)state;
	session_close(&session);
	return module.closed == opened && !session.device && !session.control ? 0 : -1;
}

static void open_session(void)
{
	assert_int_equal(session_open(&session, SOURCE_MODULE, &error), 0);
}

static int configure(pid_t child)
{
	return session_configure(&session, &config, child, &error);
}

static void module_is_loaded_if_it_is_missing(void **state)
{
	(void)state;
	open_session();
	assert_string_equal(session.loaded, "");
	assert_false(session.restricted);
	assert_true(session.same_pid_ns);
	assert_int_equal(session.parts, STACKBEAT_PARTS_ALL);
	module.loaded = false;
	open_session();
	assert_string_equal(session.loaded, "/stackbeat.ko");
	module.loaded = false;
	module.load_err = -EPERM;
	assert_int_equal(session_open(&session, SOURCE_MODULE, &error), -EPERM);
	assert_string_equal(error.text, "can't load");
	/* Other errors are not for want of the module. */
	module.open_err = -EACCES;
	assert_int_equal(session_open(&session, SOURCE_MODULE, &error), -EACCES);
	assert_string_equal(error.text, "no device");
}

static void forked_process_leaves_the_session(void **state)
{
	(void)state;
	open_session();
	session_leave(&session);
	assert_int_equal(module.left, 1);
	/* The socket of netlink. */
	assert_int_equal(module.closed, 1);
	assert_null(session.device);
	assert_null(session.control);
}

static void properties_of_the_session_are_read(void **state)
{
	(void)state;
	module.session.restricted = true;
	module.session.parts = STACKBEAT_PART_USER;
	module.session.owner++;
	open_session();
	assert_true(session.restricted);
	assert_false(session.same_pid_ns);
	assert_int_equal(session.parts, STACKBEAT_PART_USER);
	module.get_err = -ENODEV;
	assert_int_equal(session_open(&session, SOURCE_MODULE, &error), -ENODEV);
	assert_false(session.restricted);
	assert_false(session.same_pid_ns);
	assert_int_equal(session.parts, STACKBEAT_PARTS_ALL);
}

/* Rate that is sent for a rate of the command line; 0: it is refused. */
static uint32_t rate_for(uint32_t rate, bool given)
{
	int err;

	config.rate = rate;
	config.rate_given = given;
	module.set_count = 0;
	err = configure(0);
	assert_int_equal(err, module.set_count ? 0 : -ERANGE);
	if (!module.set_count)
		return 0;
	assert_int_equal(session.rate, module.settings.rate);
	return module.settings.rate;
}

static void rate_is_limited(void **state)
{
	(void)state;
	open_session();
	assert_int_equal(rate_for(0, false), 1000);
	assert_int_equal(rate_for(999, true), 999);
	assert_int_equal(rate_for(1000, true), 1000);
	assert_int_equal(rate_for(1000, false), 1000);
	assert_int_equal(rate_for(1001, false), 1000);
	assert_int_equal(rate_for(1001, true), 0);
	assert_non_null(strstr(error.text, "rate_max=1000"));
	session.restricted = true;
	assert_int_equal(rate_for(0, false), 1000);
	module.properties.rate_max = STACKBEAT_RESTRICTED_RATE_MAX + 1;
	assert_int_equal(rate_for(0, false), STACKBEAT_RESTRICTED_RATE_MAX);
	session.restricted = false;
	assert_int_equal(rate_for(0, false), STACKBEAT_RESTRICTED_RATE_MAX + 1);
	module.module_err = -EIO;
	assert_int_equal(configure(0), -EIO);
}

/* Configures a session of a module with or without tables. Returns whether they are used. */
static bool uses_tables(bool supported, enum unwind_method method, uint32_t parts)
{
	module.session.unwind_tables = supported;
	open_session();
	config.unwind = method;
	config.parts = parts;
	config.stack_copy = 8192;
	assert_int_equal(configure(0), 0);
	assert_int_equal(module.settings.unwind_tables, session.unwind_tables);
	assert_int_equal(module.settings.stack_copy, session.unwind_tables ? 8192 : 0);
	return session.unwind_tables;
}

static void tables_are_used_where_the_module_supports_them(void **state)
{
	(void)state;
	assert_true(uses_tables(true, UNWIND_AUTO, STACKBEAT_PARTS_ALL));
	assert_true(uses_tables(true, UNWIND_TABLES, STACKBEAT_PART_USER));
	assert_false(uses_tables(true, UNWIND_FRAME_POINTERS, STACKBEAT_PARTS_ALL));
	assert_false(uses_tables(true, UNWIND_AUTO, STACKBEAT_PART_KERNEL));
	assert_false(uses_tables(false, UNWIND_AUTO, STACKBEAT_PARTS_ALL));
	assert_false(uses_tables(false, UNWIND_FRAME_POINTERS, STACKBEAT_PARTS_ALL));
	config.unwind = UNWIND_TABLES;
	assert_int_equal(configure(0), -EOPNOTSUPP);
	assert_non_null(strstr(error.text, "--unwind=tables"));
	config.unwind = UNWIND_AUTO;
	config.verify = 1;
	assert_int_equal(configure(0), -EOPNOTSUPP);
	assert_non_null(strstr(error.text, "--verify"));
}

static void all_options_are_sent(void **state)
{
	static char comm[] = "sh";

	(void)state;
	open_session();
	config.pids[0] = 5;
	config.pid_count = 1;
	config.tids[0] = 6;
	config.tid_count = 1;
	config.cgroups[0] = "/a";
	config.cgroups[1] = "/abc";
	config.cgroup_count = 2;
	config.excluded_comms[0] = comm;
	config.excluded_comm_count = 1;
	config.max_depth = 71;
	config.ring_size = 72;
	config.budget = 73;
	config.no_jitter = true;
	config.stack_copy = 74;
	config.verify = 75;
	assert_int_equal(cpulist_parse(config.cpus, &config.cpulist, &error), 0);
	assert_int_equal(configure(4), 0);
	for (uint32_t attr = 1; attr < STACKBEAT_A_COUNT; attr++) {
		bool is_setting =
			attr == STACKBEAT_A_RATE || attr == STACKBEAT_A_PARTS ||
			attr == STACKBEAT_A_MAX_DEPTH || attr == STACKBEAT_A_RING_SIZE ||
			attr == STACKBEAT_A_CPUS || attr == STACKBEAT_A_INHERIT ||
			attr == STACKBEAT_A_NO_JITTER || attr == STACKBEAT_A_BUDGET ||
			attr == STACKBEAT_A_PIDS || attr == STACKBEAT_A_TIDS ||
			attr == STACKBEAT_A_CGROUPS || attr == STACKBEAT_A_EXCLUDE_COMMS ||
			attr == STACKBEAT_A_UNWIND_TABLES || attr == STACKBEAT_A_STACK_COPY ||
			attr == STACKBEAT_A_STACK_COPY_EVERY;

		assert_int_equal(!!(module.settings.set & NETLINK_SET(attr)), is_setting);
	}
	assert_int_equal(module.settings.parts, STACKBEAT_PARTS_ALL);
	assert_int_equal(module.settings.max_depth, 71);
	assert_int_equal(module.settings.ring_size, 72);
	assert_int_equal(module.settings.budget, 73);
	assert_true(module.settings.inherit);
	assert_true(module.settings.no_jitter);
	assert_true(module.settings.unwind_tables);
	assert_int_equal(module.settings.stack_copy, 74);
	assert_int_equal(module.settings.stack_copy_every, 75);
	assert_true(session.unwind_tables);
	assert_string_equal(module.cpus, "0-1");
	assert_true(cpulist_has(&session.cpulist, 1));
	assert_false(cpulist_has(&session.cpulist, 2));
	assert_int_equal(module.settings.pids.count, 1);
	assert_int_equal(module.pids[0], 5);
	assert_int_equal(module.settings.tids.count, 1);
	assert_int_equal(module.settings.cgroup_count, 2);
	assert_int_equal(module.cgroups[0], 2);
	assert_int_equal(module.cgroups[1], 4);
	assert_int_equal(module.settings.excluded_comm_count, 1);
	assert_int_equal(module.map_count, 1);
	config.no_inherit = true;
	config.cgroups[0] = "none";
	config.cgroups[1] = "/a";
	assert_int_equal(configure(4), -ENOENT);
	config.cgroup_count = 0;
	module.map_err = -ENOMEM;
	assert_int_equal(configure(4), -ENOMEM);
	assert_false(module.settings.inherit);
}

static void command_is_sampled_without_other_targets(void **state)
{
	(void)state;
	open_session();
	assert_int_equal(configure(4), 0);
	assert_int_equal(module.settings.pids.count, 1);
	assert_int_equal(module.pids[0], 4);
	assert_int_equal(configure(0), 0);
	assert_int_equal(module.settings.pids.count, 0);
	config.system_wide = true;
	assert_int_equal(configure(4), 0);
	assert_int_equal(module.settings.pids.count, 0);
	config.system_wide = false;
	config.tid_count = 1;
	assert_int_equal(configure(4), 0);
	assert_int_equal(module.settings.pids.count, 0);
	config.tid_count = 0;
	config.cgroup_count = 1;
	config.cgroups[0] = "/a";
	assert_int_equal(configure(4), 0);
	assert_int_equal(module.settings.pids.count, 0);
}

static void available_parts_are_the_default(void **state)
{
	(void)state;
	module.session.parts = STACKBEAT_PART_USER;
	module.session.restricted = true;
	open_session();
	assert_int_equal(configure(0), 0);
	assert_int_equal(module.settings.parts, STACKBEAT_PART_USER);
	config.parts = STACKBEAT_PART_KERNEL;
	assert_int_equal(configure(0), 0);
	assert_int_equal(module.settings.parts, STACKBEAT_PART_KERNEL);
	assert_int_equal(session.parts, STACKBEAT_PART_KERNEL);
}

static void process_that_is_gone_is_named(void **state)
{
	(void)state;
	open_session();
	config.pids[0] = (uint32_t)getpid();
	config.pids[1] = NO_PROCESS;
	config.pid_count = 2;
	module.set_err = -ESRCH;
	assert_int_equal(configure(0), -ESRCH);
	assert_string_equal(error.text, "-p 2147483632: there is no such process");
	config.pid_count = 1;
	config.tids[0] = NO_PROCESS + 1;
	config.tid_count = 1;
	assert_int_equal(configure(0), -ESRCH);
	assert_string_equal(error.text, "-t 2147483633: there is no such thread");
	/* It is there now: the message of the kernel stays. */
	config.tid_count = 0;
	assert_int_equal(configure(0), -ESRCH);
	assert_string_equal(error.text, "refused");
	config.pids[0] = NO_PROCESS;
	module.set_err = -EINVAL;
	assert_int_equal(configure(0), -EINVAL);
	assert_string_equal(error.text, "refused");
	assert_int_equal(module.map_count, 0);
}

static void only_the_state_is_set(void **state)
{
	(void)state;
	open_session();
	assert_int_equal(session_set_state(&session, STACKBEAT_STATE_RUNNING, &error), 0);
	assert_int_equal(module.settings.set, NETLINK_SET(STACKBEAT_A_STATE));
	assert_int_equal(module.settings.state, STACKBEAT_STATE_RUNNING);
}

/* Perf events as the source */

static void the_module_is_preferred(void **state)
{
	(void)state;
	assert_int_equal(session_open(&session, SOURCE_AUTO, &error), 0);
	assert_false(session.is_perf);
	assert_string_equal(session.source, "kernel module");
}

static void perf_events_are_the_source_without_a_module(void **state)
{
	(void)state;
	module.loaded = false;
	module.load_err = -ENOENT;
	assert_int_equal(session_open(&session, SOURCE_AUTO, &error), 0);
	assert_true(session.is_perf);
	assert_int_equal(configure(77), 0);
	assert_true(session.unwind_tables);
	assert_int_equal(perf.config.events.pid_count, 1);
	assert_int_equal(perf.config.events.pids[0], 77);
	assert_non_null(
		strstr(session.source, "perf events (can't load): user stacks by copies of"));
	assert_null(strstr(session.source, "no samples of kernel mode"));
	assert_int_equal(module.set_count, 0);
}

/* Its error has a remedy of its own. */
static void a_module_that_is_there_must_work(void **state)
{
	static const int errors[] = {-EPROTO, -EBUSY, -EUSERS, -EMFILE, -ENOMEM, -EOPNOTSUPP};

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		module.open_err = errors[i];
		assert_int_equal(session_open(&session, SOURCE_AUTO, &error), errors[i]);
		assert_string_equal(error.text, "no device");
	}
	module.open_err = -EACCES;
	assert_int_equal(session_open(&session, SOURCE_AUTO, &error), 0);
	assert_true(session.is_perf);
}

static void what_perf_events_lack_is_said(void **state)
{
	(void)state;
	perf.excludes_kernel = true;
	assert_int_equal(session_open(&session, SOURCE_PERF, &error), 0);
	assert_int_equal(configure(77), 0);
	assert_true(session.restricted);
	assert_non_null(strstr(session.source, "perf events: user stacks"));
	assert_non_null(strstr(session.source, "no samples of kernel mode"));
	config.verify = 1;
	assert_int_equal(configure(77), -EOPNOTSUPP);
}

static void an_error_of_perf_events_names_the_module_too(void **state)
{
	(void)state;
	module.loaded = false;
	module.load_err = -ENOENT;
	perf.open_err = -EACCES;
	config.system_wide = true;
	assert_int_equal(session_open(&session, SOURCE_AUTO, &error), 0);
	assert_int_equal(configure(77), -EACCES);
	assert_int_equal(perf.config.events.pid_count, 0);
	assert_string_equal(error.text, "refused; nor can the module be used: can't load");
}

/* The bytes that are copied in a second fit into a ring. */
static void the_size_of_copies_follows_the_rate(void **state)
{
	static const struct {
		uint32_t rate, given, copy, max;
	} cases[] = {
		{99, 0, 32 << 10, 32 << 10},     {499, 0, 16 << 10, 32 << 10},
		{999, 0, 8 << 10, 32 << 10},     {1999, 0, 8 << 10, 16 << 10},
		{9999, 0, 8 << 10, 8 << 10},     {99, 4096, 4096, 32 << 10},
		{99, 65536, 60 << 10, 32 << 10},
	};

	(void)state;
	assert_int_equal(session_open(&session, SOURCE_PERF, &error), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		config.rate = cases[i].rate;
		config.stack_copy_given = cases[i].given;
		config.stack_copy = cases[i].given;
		assert_int_equal(configure(77), 0);
		assert_int_equal(session.stack_copy, cases[i].copy);
		assert_int_equal(perf.config.events.stack_copy_max, cases[i].max);
		assert_true(perf.config.events.ring_size >=
				    UINT64_C(2) * cases[i].copy * cases[i].rate ||
			    perf.config.events.ring_size == 8 << 20);
	}
	assert_non_null(strstr(session.source, "user stacks by copies of 60 KiB"));
	perf.adapts = true;
	config.rate = 99;
	config.stack_copy_given = false;
	assert_int_equal(configure(77), 0);
	assert_non_null(strstr(session.source, "user stacks by copies of 2 to 32 KiB"));
	config.unwind = UNWIND_FRAME_POINTERS;
	assert_int_equal(configure(77), 0);
	assert_int_equal(session.stack_copy, 0);
	assert_false(session.unwind_tables);
}

#define SESSION_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(forked_process_leaves_the_session),
		SESSION_TEST(the_module_is_preferred),
		SESSION_TEST(perf_events_are_the_source_without_a_module),
		SESSION_TEST(a_module_that_is_there_must_work),
		SESSION_TEST(what_perf_events_lack_is_said),
		SESSION_TEST(an_error_of_perf_events_names_the_module_too),
		SESSION_TEST(the_size_of_copies_follows_the_rate),
		SESSION_TEST(module_is_loaded_if_it_is_missing),
		SESSION_TEST(properties_of_the_session_are_read),
		SESSION_TEST(rate_is_limited),
		SESSION_TEST(all_options_are_sent),
		SESSION_TEST(tables_are_used_where_the_module_supports_them),
		SESSION_TEST(command_is_sampled_without_other_targets),
		SESSION_TEST(available_parts_are_the_default),
		SESSION_TEST(process_that_is_gone_is_named),
		SESSION_TEST(only_the_state_is_set),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}

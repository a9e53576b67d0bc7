// SPDX-License-Identifier: GPL-2.0
/*
 * status, rate, pause, resume, events, load and unload. Functions of this file replace the
 * functions of netlink.c and module.c.
 */
#include <errno.h>
#include <json-c/json.h>

#include "cli/commands.h"
#include "command.h"
#include "lib/error.h"
#include "sandbox.h"
#include "source/module.h"
#include "source/netlink.h"

#define CONTROL ((struct netlink *)&module)

/* The module, and what it has received. */
static struct {
	int err; /* of all requests */
	int open_err;
	size_t opened, closed;
	struct netlink_module properties;
	struct netlink_session sessions[2];
	struct netlink_settings settings;
	uint32_t selected; /* by the command */
	uint32_t changed; /* session */
	const struct netlink_event *events;
	size_t event_count;
	char parameters[128];
	bool was_loaded;
} module;

int netlink_open(struct netlink **netlink, struct error *out)
{
	if (module.open_err)
		return error_set(out, -module.open_err, "no module");
	*netlink = CONTROL;
	module.opened++;
	return 0;
}

void netlink_close(struct netlink *netlink)
{
	module.closed += netlink == CONTROL;
}

int netlink_module(struct netlink *netlink, struct netlink_module *got, struct error *out)
{
	assert_ptr_equal(netlink, CONTROL);
	*got = module.properties;
	return module.err ? error_set(out, -module.err, "refused") : 0;
}

int netlink_list(struct netlink *netlink, netlink_session_fn *fn, void *arg, struct error *out)
{
	int err = module.err ? error_set(out, -module.err, "refused") : 0;

	assert_ptr_equal(netlink, CONTROL);
	for (uint32_t i = 0; i < module.properties.sessions && !err; i++)
		err = fn(&module.sessions[i], arg);
	return err;
}

int netlink_select(struct netlink *netlink, uint32_t id, uint32_t *selected, struct error *out)
{
	assert_ptr_equal(netlink, CONTROL);
	module.selected = id;
	*selected = id ? id : 42;
	return module.err ? error_set(out, -module.err, "refused") : 0;
}

int netlink_set(struct netlink *netlink, uint32_t id, const struct netlink_settings *settings,
		struct error *out)
{
	(void)out;
	assert_ptr_equal(netlink, CONTROL);
	module.changed = id;
	module.settings = *settings;
	return 0;
}

int netlink_subscribe(struct netlink *netlink, netlink_event_fn *fn, void *arg, struct error *out)
{
	int err = module.err ? error_set(out, -module.err, "refused") : 0;

	assert_ptr_equal(netlink, CONTROL);
	for (size_t i = 0; i < module.event_count && !err; i++)
		err = fn(&module.events[i], arg);
	return err;
}

const char *session_state_name(uint32_t state)
{
	return state == STACKBEAT_STATE_PAUSED ? "paused" : "running";
}

int module_load(char *const *parameters, char path[PATH_MAX], struct error *out)
{
	*module.parameters = '\0';
	for (; *parameters; parameters++)
		sprintf(module.parameters + strlen(module.parameters), "%s;", *parameters);
	strcpy(path, module.was_loaded ? "" : "/lib/stackbeat.ko");
	return module.err ? error_set(out, -module.err, "refused") : 0;
}

int module_unload(struct error *out)
{
	return module.err ? error_set(out, -module.err, "refused") : 0;
}

static int reset(void **state)
{
	(void)state;
	memset(&module, 0, sizeof(module));
	module.properties = (struct netlink_module){
		.abi = 4, .version = "1.2", .rate_max = 4000, .sessions = 2};
	for (uint32_t i = 0; i < 2; i++) {
		struct netlink_session *session = &module.sessions[i];

		*session = (struct netlink_session){
			.id = 10 + i,
			.state = i ? STACKBEAT_STATE_PAUSED : STACKBEAT_STATE_RUNNING,
			.rate = 99 + i,
			.parts = i ? STACKBEAT_PART_USER : STACKBEAT_PART_KERNEL,
			.max_depth = 128,
			.ring_size = 65536,
			.watermark = 1024,
			.budget = 20,
			.stack_copy = 8192,
			.stack_copy_every = 3,
			.owner = 1000 + i,
			.owner_comm = "stackbeat",
			.no_jitter = i,
			.unwind_tables = i,
			.restricted = !i,
		};
		for (uint64_t j = 0; j < STACKBEAT_S_COUNT; j++)
			session->stats[j] = 1000 * (j + 1) + i;
		session->stats[STACKBEAT_S_OVERHEAD_NS] = 1500000;
		session->stats[STACKBEAT_S_UNWIND_TABLE_BYTES] = 2500000;
	}
	strcpy(module.sessions[1].cpus, "0-3");
	return 0;
}

static void status_shows_a_table(void **state)
{
	const uint64_t *stats = module.sessions[0].stats;
	unsigned long long samples, lost, filtered, idle, spaces, files, tables, current;
	unsigned int id, rate;
	double overhead, size;
	char *line, *next;

	(void)state;
	assert_int_equal(run_command(cmd_status, "status"), STATUS_OK);
	assert_string_equal(messages, "");
	line = strchr(output, '\n');
	assert_non_null(line);
	*line++ = '\0';
	assert_string_equal(output, "module 1.2, interface 4, rate_max 4000 Hz, 2 sessions");
	assert_memory_equal(line, "SESSION  OWNER ", 15);
	next = strchr(line, '\n') + 1;
	assert_int_equal(
		sscanf(next,
		       "%u stackbeat (1000) %u Hz %llu Hz running all %llu %llu %llu %llu %lf ms "
		       "%llu %llu %llu, %lf MB",
		       &id, &rate, &current, &samples, &lost, &filtered, &idle, &overhead, &spaces,
		       &files, &tables, &size),
		12);
	assert_int_equal(id, 10);
	assert_int_equal(rate, 99);
	assert_int_equal(current, stats[STACKBEAT_S_RATE]);
	assert_int_equal(samples, stats[STACKBEAT_S_SAMPLES]);
	assert_int_equal(lost, stats[STACKBEAT_S_LOST_FULL] + stats[STACKBEAT_S_LOST_BAD_TAIL]);
	assert_int_equal(filtered, stats[STACKBEAT_S_FILTERED]);
	assert_int_equal(idle, stats[STACKBEAT_S_IDLE]);
	assert_int_equal(spaces, stats[STACKBEAT_S_ADDRESS_SPACES]);
	assert_int_equal(files, stats[STACKBEAT_S_FILES]);
	assert_int_equal(tables, stats[STACKBEAT_S_UNWIND_TABLES]);
	assert_true(overhead > 1.4 && overhead < 1.6 && size > 2.4 && size < 2.6);
	next = strchr(next, '\n') + 1;
	assert_non_null(strstr(next, "paused   0-3"));
	/* The titles come once. */
	assert_null(strstr(next, "SESSION"));
	next = strchr(next, '\n') + 1;
	assert_string_equal(next, "");
	module.properties.sessions = 1;
	assert_int_equal(run_command(cmd_status, "status"), STATUS_OK);
	assert_non_null(strstr(output, ", 1 session\n"));
	module.properties.sessions = 0;
	assert_prints(cmd_status, "status",
		      "module 1.2, interface 4, rate_max 4000 Hz, 0 sessions\n");
}

static uint64_t number_of(json_object *object, const char *key)
{
	json_object *value;

	assert_true(json_object_object_get_ex(object, key, &value));
	return json_object_get_uint64(value);
}

static const char *string_of(json_object *object, const char *key)
{
	json_object *value;

	assert_true(json_object_object_get_ex(object, key, &value));
	return json_object_get_string(value);
}

static void status_shows_json(void **state)
{
	static const struct {
		const char *key;
		int number;
	} counters[] = {
		{"ticks", STACKBEAT_S_TICKS},
		{"samples", STACKBEAT_S_SAMPLES},
		{"stack_copies_lost", STACKBEAT_S_STACK_COPIES_LOST},
		{"kernel_stacks_unwound", STACKBEAT_S_KERNEL_STACKS_UNWOUND},
		{"kernel_stacks_compared", STACKBEAT_S_KERNEL_STACKS_COMPARED},
		{"kernel_stacks_different", STACKBEAT_S_KERNEL_STACKS_DIFFERENT},
		{"frames_by_tables", STACKBEAT_S_FRAMES_BY_TABLES},
		{"unwind_rule_misses", STACKBEAT_S_UNWIND_RULE_MISSES},
		{"mmap_events_off", STACKBEAT_S_MMAP_EVENTS_OFF},
		{"long_ticks", STACKBEAT_S_LONG_TICKS},
		{"current_rate", STACKBEAT_S_RATE},
		{"address_spaces_room", STACKBEAT_S_ADDRESS_SPACES_ROOM},
	};
	json_object *object, *sessions;

	(void)state;
	assert_int_equal(run_command(cmd_status, "status --json"), STATUS_OK);
	object = json_tokener_parse(output);
	assert_non_null(object);
	assert_string_equal(string_of(object, "version"), "1.2");
	assert_int_equal(number_of(object, "abi"), 4);
	assert_int_equal(number_of(object, "rate_max"), 4000);
	assert_true(json_object_object_get_ex(object, "sessions", &sessions));
	assert_int_equal(json_object_array_length(sessions), 2);
	for (uint64_t i = 0; i < 2; i++) {
		json_object *session = json_object_array_get_idx(sessions, i);

		assert_int_equal(number_of(session, "session"), 10 + i);
		assert_int_equal(number_of(session, "owner_pid"), 1000 + i);
		assert_string_equal(string_of(session, "owner_comm"), "stackbeat");
		assert_int_equal(number_of(session, "rate"), 99 + i);
		assert_string_equal(string_of(session, "state"), i ? "paused" : "running");
		assert_string_equal(string_of(session, "cpus"), i ? "0-3" : "");
		assert_int_equal(number_of(session, "stack_copy_every"), 3);
		assert_string_equal(string_of(session, "kernel"), i ? "false" : "true");
		assert_string_equal(string_of(session, "user"), i ? "true" : "false");
		assert_string_equal(string_of(session, "no_jitter"), i ? "true" : "false");
		assert_string_equal(string_of(session, "use_unwind_tables"), i ? "true" : "false");
		assert_string_equal(string_of(session, "restricted"), i ? "false" : "true");
		for (size_t j = 0; j < sizeof(counters) / sizeof(counters[0]); j++)
			assert_int_equal(number_of(session, counters[j].key),
					 module.sessions[i].stats[counters[j].number]);
	}
	json_object_put(object);
	strcpy(module.sessions[0].owner_comm, "\xc2\x9b");
	assert_int_equal(run_command(cmd_status, "status --json"), STATUS_OK);
	assert_non_null(strstr(output, "\"owner_comm\":\"\\u009b\""));
	assert_int_equal(output[strlen(output) - 1], '\n');
	module.properties.sessions = 0;
	assert_int_equal(run_command(cmd_status, "status --json"), STATUS_OK);
	object = json_tokener_parse(output);
	assert_true(json_object_object_get_ex(object, "sessions", &sessions));
	assert_int_equal(json_object_array_length(sessions), 0);
	json_object_put(object);
}

static void rate_is_shown_or_set(void **state)
{
	(void)state;
	assert_prints(cmd_rate, "rate", "session 10: 99 Hz\nsession 11: 100 Hz\n");
	assert_prints(cmd_rate, "rate --session 11", "session 11: 100 Hz\n");
	assert_prints(cmd_rate, "rate --session 12", "");
	assert_prints(cmd_rate, "rate 500", "");
	assert_int_equal(module.selected, 0);
	assert_int_equal(module.changed, 42);
	assert_int_equal(module.settings.set, NETLINK_SET(STACKBEAT_A_RATE));
	assert_int_equal(module.settings.rate, 500);
	assert_prints(cmd_rate, "rate 501 --session 7", "");
	assert_int_equal(module.changed, 7);
	assert_int_equal(module.settings.rate, 501);
	module.changed = 0;
	assert_fails(cmd_rate, "rate 500 501", STATUS_USAGE,
		     "stackbeat rate: more than one rate: '501'\n");
	module.err = -EBUSY;
	assert_fails(cmd_rate, "rate 500", STATUS_FAILED, "stackbeat: refused\n");
	assert_fails(cmd_rate, "rate", STATUS_FAILED, "stackbeat: refused\n");
	assert_int_equal(module.changed, 0);
	module.open_err = -ENOENT;
	assert_fails(cmd_rate, "rate 500", STATUS_FAILED, "stackbeat: no module\n");
	assert_fails(cmd_status, "status", STATUS_FAILED, "stackbeat: no module\n");
	module.open_err = 0;
	assert_fails(cmd_status, "status", STATUS_FAILED, "stackbeat: refused\n");
	assert_fails(cmd_status, "status x", STATUS_USAGE,
		     "stackbeat status: takes no arguments, not 'x'\n");
}

static void session_is_paused_and_resumed(void **state)
{
	(void)state;
	assert_prints(cmd_pause, "pause", "");
	assert_int_equal(module.changed, 42);
	assert_int_equal(module.settings.set, NETLINK_SET(STACKBEAT_A_STATE));
	assert_int_equal(module.settings.state, STACKBEAT_STATE_PAUSED);
	assert_prints(cmd_resume, "resume -s 9", "");
	assert_int_equal(module.changed, 9);
	assert_int_equal(module.settings.state, STACKBEAT_STATE_RUNNING);
	assert_fails(cmd_pause, "pause x", STATUS_USAGE,
		     "stackbeat pause: takes no arguments, not 'x'\n");
	module.changed = 0;
	module.err = -ENODEV;
	assert_fails(cmd_pause, "pause", STATUS_FAILED, "stackbeat: refused\n");
	assert_int_equal(module.changed, 0);
	module.open_err = -ENOENT;
	assert_fails(cmd_resume, "resume", STATUS_FAILED, "stackbeat: no module\n");
}

static void events_are_lines(void **state)
{
	static const struct netlink_event events[] = {
		{STACKBEAT_EVENT_OPENED, 1000000000, 1, 0, 0, 0, 0, 77, "app"},
		{STACKBEAT_EVENT_CLOSED, 2000001999, 2, 0, 0, 0, 0, 0, ""},
		{STACKBEAT_EVENT_CHANGED, 12345678901, 3, 0, 99, STACKBEAT_STATE_PAUSED, 0, 78,
		 "ctl"},
		{STACKBEAT_EVENT_THROTTLED, 3999999999, 4, 5, 50, 0, 0, 0, ""},
		{STACKBEAT_EVENT_RECOVERED, 4000000000, 4, 5, 99, 0, 0, 0, ""},
		{STACKBEAT_EVENT_LOST, 5000000000, 4, 6, 0, 0, 123, 0, ""},
		{STACKBEAT_EVENT_CPU_OFFLINE, 6000000000, 4, 7, 0, 0, 0, 0, ""},
		{STACKBEAT_EVENT_CPU_ONLINE, 7000000000, 4, 8, 0, 0, 0, 0, ""},
		{STACKBEAT_EVENT_KERNEL_RULES_OFF, 7500000000, 4, 9, 0, 0, 0, 0, ""},
		{STACKBEAT_EVENT_MMAP_EVENTS_OFF, 7600000000, 4, 0, 0, 0, 0, 0, ""},
		{STACKBEAT_EVENT_MMAP_EVENTS_ON, 7700000000, 4, 0, 0, 0, 0, 0, ""},
		{(enum stackbeat_event)200, 8000000000, 4, 0, 0, 0, 0, 0, ""},
	};

	(void)state;
	module.events = events;
	module.event_count = sizeof(events) / sizeof(events[0]);
	assert_prints(cmd_events, "events",
		      "1.000000  session 1  opened by app (77)\n"
		      "2.000001  session 2  closed\n"
		      "12.345678  session 3  changed by ctl (78): 99 Hz, paused\n"
		      "3.999999  session 4  throttled on CPU 5 to 50 Hz\n"
		      "4.000000  session 4  recovered on CPU 5 to 99 Hz\n"
		      "5.000000  session 4  lost 123 samples on CPU 6\n"
		      "6.000000  session 4  CPU 7 offline\n"
		      "7.000000  session 4  CPU 8 online\n"
		      "7.500000  session 4  a kernel stack differed on CPU 9: rules are off\n"
		      "7.600000  session 4  no mapping events: the kernel's probes are off (sysctl "
		      "kernel.ftrace_enabled, /sys/kernel/debug/kprobes/enabled)\n"
		      "7.700000  session 4  mapping events again\n"
		      "8.000000  session 4  event 200\n");
	module.err = -ENOBUFS;
	assert_fails(cmd_events, "events", STATUS_FAILED, "stackbeat: refused\n");
	module.open_err = -ENOENT;
	assert_fails(cmd_events, "events", STATUS_FAILED, "stackbeat: no module\n");
	assert_fails(cmd_events, "events --help x", STATUS_USAGE,
		     "stackbeat events: takes no arguments, not '--help'\n");
}

static void module_is_loaded_and_unloaded(void **state)
{
	(void)state;
	assert_int_equal(run_command(cmd_load, "load a=1 b=2"), STATUS_OK);
	assert_string_equal(module.parameters, "a=1;b=2;");
	assert_non_null(strstr(output, "/lib/stackbeat.ko"));
	module.was_loaded = true;
	assert_int_equal(run_command(cmd_load, "load"), STATUS_OK);
	assert_string_equal(module.parameters, "");
	assert_null(strstr(output, "/lib/stackbeat.ko"));
	assert_prints(cmd_unload, "unload", "");
	module.err = -EPERM;
	assert_fails(cmd_load, "load", STATUS_FAILED, "stackbeat: refused\n");
	assert_fails(cmd_unload, "unload", STATUS_FAILED, "stackbeat: refused\n");
	assert_fails(cmd_unload, "unload --help x", STATUS_USAGE,
		     "stackbeat unload: takes no arguments, not '--help'\n");
	for (const char *const *line =
		     (const char *const[]){"load =1", "load a", "load -a=1", NULL};
	     *line; line++)
		assert_int_equal(run_command(cmd_load, *line), STATUS_USAGE);
}

/* Each connection is closed. */
static int check_closed(void **state)
{
	(void)state;
	return module.opened == module.closed ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, reset, check_closed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(status_shows_a_table), TEST(status_shows_json),
		TEST(rate_is_shown_or_set), TEST(session_is_paused_and_resumed),
		TEST(events_are_lines),     TEST(module_is_loaded_and_unloaded),
	};

	return cmocka_run_group_tests_name("session_commands", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "source/netlink.h"

static const char usage[] =
	"Usage: stackbeat events\n"
	"\n"
	"Print a line for each event of a session, until interrupted: opened, closed,\n"
	"changed (and by which process), throttled and recovered (the rate on a CPU was\n"
	"lowered to keep the budget, or raised again), lost (samples on a CPU),\n"
	"CPU offline, CPU online, and that rules for kernel stacks are off. The first\n"
	"column is the time since boot in seconds.\n";

static void print_change(const struct netlink_event *event)
{
	printf("changed by %s (%u): %u Hz, %s\n", event->owner_comm, event->owner, event->rate,
	       session_state_name(event->state));
}

static int print_event(const struct netlink_event *event, void *arg)
{
	(void)arg;
	printf("%" PRIu64 ".%06" PRIu64 "  session %u  ", event->time / 1000000000,
	       event->time / 1000 % 1000000, event->session);
	switch (event->event) {
	case STACKBEAT_EVENT_OPENED:
		printf("opened by %s (%u)\n", event->owner_comm, event->owner);
		break;
	case STACKBEAT_EVENT_CLOSED:
		puts("closed");
		break;
	case STACKBEAT_EVENT_CHANGED:
		print_change(event);
		break;
	case STACKBEAT_EVENT_THROTTLED:
		printf("throttled on CPU %u to %u Hz\n", event->cpu, event->rate);
		break;
	case STACKBEAT_EVENT_RECOVERED:
		printf("recovered on CPU %u to %u Hz\n", event->cpu, event->rate);
		break;
	case STACKBEAT_EVENT_LOST:
		printf("lost %" PRIu64 " samples on CPU %u\n", event->count, event->cpu);
		break;
	case STACKBEAT_EVENT_CPU_OFFLINE:
		printf("CPU %u offline\n", event->cpu);
		break;
	case STACKBEAT_EVENT_CPU_ONLINE:
		printf("CPU %u online\n", event->cpu);
		break;
	case STACKBEAT_EVENT_KERNEL_RULES_OFF:
		printf("a kernel stack differed on CPU %u: rules are off\n", event->cpu);
		break;
	case STACKBEAT_EVENT_MMAP_EVENTS_OFF:
		puts("no mapping events: the kernel's probes are off (sysctl "
		     "kernel.ftrace_enabled, "
		     "/sys/kernel/debug/kprobes/enabled)");
		break;
	case STACKBEAT_EVENT_MMAP_EVENTS_ON:
		puts("mapping events again");
		break;
	default:
		printf("event %d\n", event->event);
	}
	return fflush(stdout) ? -errno : 0;
}

int cmd_events(int argc, char **argv)
{
	struct netlink *control;
	struct error error = {""};
	int err;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return STATUS_OK;
	}
	if (argc > 1) {
		fprintf(stderr, "stackbeat events: takes no arguments, not '%s'\n", argv[1]);
		return STATUS_USAGE;
	}
	err = netlink_open(&control, &error);
	if (!err) {
		err = netlink_subscribe(control, print_event, NULL, &error);
		netlink_close(control);
	}
	if (err && !*error.text)
		error_errno(&error, -err, "can't print the events");
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

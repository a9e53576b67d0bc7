// SPDX-License-Identifier: GPL-2.0
#include "lib/thread_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/small_file.h"

/* Lists of CPUs and of memory nodes, as long as the kernel has them, come before the sleeps. */
#define STATUS_SIZE 8192

char thread_state(pid_t pid, pid_t tid)
{
	/* Room for the PID, the name of the program and the state. */
	char path[64], text[128];
	const char *name_end;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	small_file_read("", path, text, sizeof(text));
	/* The name may have any characters. */
	name_end = strrchr(text, ')');
	if (!name_end || name_end[1] != ' ')
		return '\0';
	return name_end[2];
}

/* Returns the value of a field of proc_pid_status(5); NULL: there is none. */
static const char *status_value(const char *text, const char *field)
{
	/* The first line, the name, has no line feed. */
	const char *line = strstr(text, field);

	return line ? line + strlen(field) : NULL;
}

bool thread_awaits_cpu(pid_t tid, int64_t *sleeps)
{
	const int64_t before = *sleeps;
	const char *state, *number;
	char path[64], text[STATUS_SIZE];

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	small_file_read("", path, text, sizeof(text));
	state = status_value(text, "\nState:\t");
	number = status_value(text, "\nvoluntary_ctxt_switches:\t");
	if (!state || !number)
		return false;
	*sleeps = strtoll(number, NULL, 10);
	return *state == THREAD_RUNNABLE && (before < 0 || *sleeps == before);
}

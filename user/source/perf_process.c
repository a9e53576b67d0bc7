// SPDX-License-Identifier: GPL-2.0
#include "source/perf_process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/clock.h"
#include "source/perf_record.h"

/* Reads a file of /proc, as a string. Returns false if it can't be read, or is empty. */
static bool read_proc_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, size - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	return length > 0;
}

/* The fields of /proc/PID/stat are counted from the name on, which may have blanks and brackets. */
static bool parse_proc_stat(char *text, struct perf_process_status *status)
{
	unsigned long long start;
	char *open = strchr(text, '('), *close = strrchr(text, ')');

	if (!open || !close || close < open ||
	    /* Numbers of the kernel. NOLINTNEXTLINE(cert-err34-c) */
	    sscanf(close + 1,
		   " %*c %" SCNu32 " %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d"
		   " %*d %*d %*d %*d %llu",
		   &status->parent, &start) != 2)
		return false;
	*close = '\0';
	snprintf(status->comm, sizeof(status->comm), "%s", open + 1);
	status->start_time = start * (uint64_t)(NS_PER_SECOND / sysconf(_SC_CLK_TCK)) -
			     (uint64_t)clock_offset_ns(CLOCK_BOOTTIME);
	return true;
}

static void read_ns_pid(const char *root, uint32_t pid, struct perf_process_status *status)
{
	char path[PATH_MAX], *line = NULL;
	size_t size = 0;
	FILE *file;

	status->ns_pid = pid;
	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/status", root, pid);
	file = fopen(path, "re");
	/* It is behind the groups, of which there may be thousands. */
	while (file && getline(&line, &size, file) > 0) {
		if (strncmp(line, "NSpid:", strlen("NSpid:")))
			continue;
		/* The last one is of the innermost namespace. */
		status->ns_pid = (uint32_t)strtoul(strrchr(line, '\t'), NULL, 10);
		break;
	}
	free(line);
	if (file)
		fclose(file);
}

static void read_cgroup(const char *root, uint32_t pid, struct perf_process_status *status)
{
	char path[PATH_MAX], text[2 * STACKBEAT_PATH_MAX], *line;

	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/cgroup", root, pid);
	if (!read_proc_file(path, text, sizeof(text)))
		return;
	line = strncmp(text, "0::", strlen("0::")) ? strstr(text, "\n0::") : text;
	if (!line)
		return;
	line += *line == '\n';
	line[strcspn(line, "\n")] = '\0';
	line += strlen("0::");
	/* In a cgroup namespace, as of a container, others are above its root. */
	while (!strncmp(line, "/..", strlen("/..")) && (line[3] == '/' || !line[3]))
		line += strlen("/..");
	snprintf(status->cgroup, sizeof(status->cgroup), "%s", *line ? line : "/");
}

bool perf_process_read(const char *root, uint32_t pid, struct perf_process_status *status)
{
	char path[PATH_MAX], text[1024];

	*status = (struct perf_process_status){.start_time = 0};
	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/stat", root, pid);
	if (!read_proc_file(path, text, sizeof(text)) || !parse_proc_stat(text, status))
		return false;
	read_ns_pid(root, pid, status);
	read_cgroup(root, pid, status);
	return true;
}

bool perf_process_comm(uint32_t pid, uint32_t tid, char comm[STACKBEAT_COMM_SIZE])
{
	char path[64], text[STACKBEAT_COMM_SIZE];

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/comm", pid, tid);
	if (!read_proc_file(path, text, sizeof(text)))
		return false;
	text[strcspn(text, "\n")] = '\0';
	memcpy(comm, text, sizeof(text));
	return true;
}

/* Parses a line of /proc/PID/maps. Returns false if nothing can be executed there. */
static bool parse_maps_line(char *line, struct perf_mapping *mapping)
{
	char protection[5] = "";
	int path = 0;

	*mapping = (struct perf_mapping){.path = "//anon"};
	/* Numbers of the kernel. NOLINTNEXTLINE(cert-err34-c) */
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n",
		   &mapping->start, &mapping->end, protection, &mapping->offset,
		   &mapping->device_major, &mapping->device_minor, &mapping->inode, &path) != 7 ||
	    protection[2] != 'x' || mapping->start >= mapping->end)
		return false;
	line[strcspn(line, "\n")] = '\0';
	if (path && line[path])
		mapping->path = line + path;
	return strcmp(mapping->path, "[vsyscall]") != 0;
}

int perf_process_mappings(uint32_t pid, perf_process_mapping_fn *fn, void *arg)
{
	struct perf_mapping mapping;
	char path[64], program[PATH_MAX], *line = NULL;
	size_t size = 0;
	ssize_t length;
	int err = 0;
	FILE *maps;

	/* The path, as in the maps: the file's own file system may hang. */
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", pid);
	length = readlink(path, program, sizeof(program) - 1);
	program[length > 0 ? length : 0] = '\0';
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return -ENOENT;
	while (!err && getline(&line, &size, maps) > 0) {
		if (parse_maps_line(line, &mapping))
			err = fn(&mapping, mapping.inode && !strcmp(mapping.path, program), arg);
	}
	free(line);
	fclose(maps);
	return err;
}

int perf_process_each(const char *directory, int (*fn)(uint32_t number, void *arg), void *arg)
{
	const struct dirent *entry;
	DIR *dir = opendir(directory);
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		if (isdigit((unsigned char)*entry->d_name))
			err = fn((uint32_t)strtoul(entry->d_name, NULL, 10), arg);
	}
	closedir(dir);
	return err;
}

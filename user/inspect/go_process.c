// SPDX-License-Identifier: GPL-2.0
#include "inspect/go_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/error.h"
#include "runtime/go_layout.h"
#include "symbolize/symbol_source.h"

#define GO_MAJOR 1u
/* Files with code that are searched for Go's. */
#define FILES_MAX 256u

static bool is_searched(const struct process_maps *maps, size_t index)
{
	const struct process_mapping *mapping = &maps->items[index];

	if (!mapping->is_executable || !mapping->inode)
		return false;
	for (size_t i = 0; i < index; i++) {
		if (maps->items[i].is_executable && maps->items[i].inode == mapping->inode &&
		    maps->items[i].device == mapping->device)
			return false;
	}
	return true;
}

static int go_process_set_layout(struct go_process *process, struct error *error)
{
	const struct go_program *program = &process->program;

	process->layout = go_layout_of_version(GO_MAJOR, program->minor);
	if (!process->layout)
		return error_set(error, ENOTSUP,
				 "process %d was built by %s: 1.18 is the oldest that is supported",
				 process->pid, program->version);
	process->is_newer = program->minor > process->layout->last;
	return 0;
}

/* Takes the file of a mapping if it has Go's code. Returns 0, -ENODATA if not, or another error. */
static int try_file(const struct sandbox_server *server, const struct process_maps *maps,
		    const struct process_mapping *mapping, struct go_process *process,
		    struct error *error)
{
	struct error reason;
	int err, fd = process_maps_open(maps, mapping);

	if (fd < 0)
		return error_errno(error, -fd, "process %d: %s can't be opened", process->pid,
				   mapping->path);
	err = go_program_read(server, fd, &process->program, &reason);
	if (!err)
		err = process_file_read(server, mapping, fd, &process->file, &reason);
	if (err) {
		close(fd);
		return error_set(error, -err, "process %d: %s: %s", process->pid, mapping->path,
				 reason.text);
	}
	process->fd = fd;
	process->mapping = *mapping;
	process->mapping.path = NULL;
	process->path = strdup(mapping->path);
	return process->path ? 0 : error_errno(error, ENOMEM, "%s", mapping->path);
}

static int find_program(const struct sandbox_server *server, const struct process_maps *maps,
			struct go_process *process, struct error *error)
{
	struct error problem, first = {""};
	unsigned int files = 0;
	int err = -ENODATA, first_err = 0;

	for (size_t i = 0; i < maps->count && files < FILES_MAX; i++) {
		if (!is_searched(maps, i))
			continue;
		files++;
		err = try_file(server, maps, &maps->items[i], process, &problem);
		if (!err)
			return 0;
		/* A library can have Go's code although the program can't be read. */
		if (err != -ENODATA && !first_err) {
			first_err = err;
			first = problem;
		}
	}
	if (!first_err)
		return error_set(error, ENODATA, "process %d runs no Go program", process->pid);
	return error_set(error, -first_err, "%s", first.text);
}

int go_process_open(const struct sandbox_server *server, pid_t pid, struct go_process *process,
		    struct error *error)
{
	const uint32_t id = (uint32_t)pid;
	struct process_maps maps;
	int err;

	*process = (struct go_process){.pid = pid, .fd = -1};
	if (process_watch_open(&process->watch, &id, 1))
		return error_errno(error, ENOMEM, "process %d can't be read", pid);
	err = process_maps_read(pid, &maps, error);
	if (!err) {
		err = find_program(server, &maps, process, error);
		process_maps_clear(&maps);
	}
	if (!err)
		err = go_process_set_layout(process, error);
	if (err)
		go_process_close(process);
	return err;
}

void go_process_close(struct go_process *process)
{
	process_watch_close(&process->watch);
	go_program_clear(&process->program);
	free(process->path);
	if (process->fd >= 0)
		close(process->fd);
	*process = (struct go_process){.fd = -1};
}

int go_process_check(struct go_process *process, struct error *error)
{
	const struct process_mapping *before = &process->mapping, *now;
	struct process_maps maps;
	bool is_same;
	int err;

	if (process_watch_has_ended(&process->watch))
		return error_set(error, ESRCH, "process %d has exited", process->pid);
	err = process_maps_read(process->pid, &maps, error);
	if (err)
		return err;
	now = process_maps_at(&maps, before->start);
	is_same = now && now->start == before->start && now->inode == before->inode &&
		  now->device == before->device;
	process_maps_clear(&maps);
	return is_same ? 0
		       : error_set(error, ESTALE, "process %d has executed another program",
				   process->pid);
}

/* Symbols */

static enum symbol_kind go_process_mapping_kind(void *arg, const struct symbol_mapping *mapping)
{
	(void)arg;
	(void)mapping;
	return SYMBOLS_FILE;
}

static int go_process_open_file(void *arg, const struct symbol_mapping *mapping,
				unsigned int candidate, struct error *error)
{
	const struct go_process *process = arg;
	int fd;

	(void)mapping;
	(void)error;
	if (candidate)
		return -ENOENT;
	fd = fcntl(process->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

void go_process_symbols(const struct go_process *process, struct symbol_source *source)
{
	*source = (struct symbol_source){
		.root = "",
		.kind = go_process_mapping_kind,
		.open = go_process_open_file,
		.arg = (void *)process,
	};
}

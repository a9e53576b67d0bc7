// SPDX-License-Identifier: GPL-2.0
#include "inspect/go_process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/goroutines.h"
#include "inspect/process_memory.h"
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
	const struct go_program *program = &process->runtime.program;

	process->layout = go_layout_of_version(GO_MAJOR, program->minor);
	if (!process->layout)
		return error_set(error, ENOTSUP,
				 "process %d was built by %s: 1.18 is the oldest that is supported",
				 process->pid, program->version);
	process->is_newer = program->minor > process->layout->last;
	return 0;
}

/* The file is not used afterwards. */
static void go_file_clear(struct go_file *file)
{
	go_program_clear(&file->program);
	free(file->path);
	if (file->fd >= 0)
		close(file->fd);
}

/* Takes the file of a mapping if it has Go's code. Returns 0, -ENODATA if not, or another error. */
static int try_file(const struct sandbox_server *server, const struct process_maps *maps,
		    const struct process_mapping *mapping, struct go_file *file,
		    struct error *error)
{
	struct error reason;
	int err;

	*file = (struct go_file){.fd = process_maps_open(maps, mapping)};
	if (file->fd < 0)
		return error_errno(error, -file->fd, "process %d: %s can't be opened", maps->pid,
				   mapping->path);
	err = go_program_read(server, file->fd, &file->program, &reason);
	if (!err)
		err = process_file_read(server, mapping, file->fd, &file->file, &reason);
	if (!err && !(file->path = strdup(mapping->path)))
		err = error_errno(&reason, ENOMEM, "its path can't be kept");
	if (err) {
		go_file_clear(file);
		return error_set(error, -err, "process %d: %s: %s", maps->pid, mapping->path,
				 reason.text);
	}
	file->mapping = *mapping;
	file->mapping.path = NULL;
	return 0;
}

/* Whether the runtime of a file has begun: the runtime of a plugin does not. */
static bool go_file_is_used(pid_t pid, const struct go_file *file)
{
	uint64_t length;

	return file->program.allglen &&
	       !process_memory_read(pid, file->program.allglen + file->file.bias, &length,
				    sizeof(length)) &&
	       length;
}

/*
 * Adds a file. The file of the runtime is the first one with a runtime that is used, or else with a
 * runtime, or else the first one.
 */
static void go_process_add(struct go_process *process, struct go_file *file)
{
	struct go_file *runtime = &process->runtime, other = *file;
	const bool is_first = runtime->fd < 0;

	if (is_first || (!go_file_is_used(process->pid, runtime) &&
			 (go_file_is_used(process->pid, file) ||
			  (file->program.allglen && !runtime->program.allglen)))) {
		other = *runtime;
		*runtime = *file;
	}
	if (is_first)
		return;
	process->places[process->other_count] = (struct goroutines_file){.bias = other.file.bias};
	process->others[process->other_count++] = other;
}

static int find_program(const struct sandbox_server *server, const struct process_maps *maps,
			struct go_process *process, struct error *error)
{
	struct error problem, first = {""};
	struct go_file file;
	unsigned int files = 0;
	int err, first_err = 0;

	for (size_t i = 0; i < maps->count && files < FILES_MAX; i++) {
		if (!is_searched(maps, i) || process->other_count == GOROUTINE_OTHERS_MAX)
			continue;
		files++;
		err = try_file(server, maps, &maps->items[i], &file, &problem);
		if (!err)
			go_process_add(process, &file);
		/* A library can have Go's code although the program can't be read. */
		if (err && err != -ENODATA && !first_err) {
			first_err = err;
			first = problem;
		}
	}
	if (process->runtime.fd >= 0 && process->runtime.program.allglen)
		return 0;
	if (first_err)
		return error_set(error, -first_err, "%s", first.text);
	if (process->runtime.fd >= 0)
		return error_set(error, ENODATA,
				 "process %d: %s: the list of goroutines is not found",
				 process->pid, process->runtime.path);
	return error_set(error, ENODATA, "process %d runs no Go program", process->pid);
}

static bool go_process_allocate(struct go_process *process)
{
	process->others = calloc(GOROUTINE_OTHERS_MAX, sizeof(*process->others));
	process->places = calloc(GOROUTINE_OTHERS_MAX, sizeof(*process->places));
	return process->others && process->places;
}

int go_process_open(const struct sandbox_server *server, pid_t pid, struct go_process *process,
		    struct error *error)
{
	const uint32_t id = (uint32_t)pid;
	struct process_maps maps;
	int err;

	*process = (struct go_process){.pid = pid, .runtime.fd = -1};
	if (process_watch_open(&process->watch, &id, 1))
		return error_errno(error, ENOMEM, "process %d can't be read", pid);
	err = go_process_allocate(process)
		      ? process_maps_read(pid, &maps, error)
		      : error_errno(error, ENOMEM, "process %d can't be read", pid);
	if (!err) {
		err = find_program(server, &maps, process, error);
		process_maps_clear(&maps);
	}
	if (!err)
		err = go_process_set_layout(process, error);
	if (err)
		go_process_close(process);
	for (size_t i = 0; i < process->other_count; i++)
		process->places[i].program = &process->others[i].program;
	return err;
}

void go_process_close(struct go_process *process)
{
	process_watch_close(&process->watch);
	go_file_clear(&process->runtime);
	for (size_t i = 0; i < process->other_count; i++)
		go_file_clear(&process->others[i]);
	free(process->others);
	free(process->places);
	*process = (struct go_process){.runtime.fd = -1};
}

int go_process_check(struct go_process *process, struct error *error)
{
	const struct process_mapping *before = &process->runtime.mapping, *now;
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

void go_process_source(const struct go_process *process, struct goroutines_source *source)
{
	*source = (struct goroutines_source){
		.pid = process->pid,
		.bias = process->runtime.file.bias,
		.program = &process->runtime.program,
		.layout = process->layout,
		.others = process->places,
		.other_count = process->other_count,
	};
}

const struct go_file *go_process_file(const struct go_process *process, size_t number)
{
	if (!number)
		return &process->runtime;
	return number <= process->other_count ? &process->others[number - 1] : NULL;
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
	const struct go_file *file;
	int fd;

	(void)error;
	/* Files of one path and build ID have the same symbols. */
	for (size_t i = 0; !candidate && (file = go_process_file(process, i)); i++) {
		if (strcmp(file->path, mapping->path) ||
		    strcmp(file->file.build_id, mapping->build_id))
			continue;
		fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	return -ENOENT;
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

// SPDX-License-Identifier: GPL-2.0
#include "unwind/elfutils_walk.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "sandbox/fd_passing.h"
#include "sandbox/fork_server.h"

#define THREAD 1 /* any id */

/* Files */

static bool elfutils_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	ssize_t done;

	for (; size; size -= (size_t)done, at += done) {
		done = TEMP_FAILURE_RETRY(write(fd, at, size));
		if (done <= 0)
			return false;
	}
	return true;
}

static bool elfutils_read_all(int fd, void *bytes, size_t size)
{
	char *at = bytes;
	ssize_t got;

	for (; size; size -= (size_t)got, at += got) {
		got = TEMP_FAILURE_RETRY(read(fd, at, size));
		if (got <= 0)
			return false;
	}
	return true;
}

/* The worker */

struct elfutils_worker {
	Dwfl *dwfl;
	struct stackbeat_stack *stack; /* the current one */
	struct elfutils_walk walk; /* its result */
	bool copy_has_ended;
};

static int find_no_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			     const char *path, const char *link, GElf_Word crc, char **found)
{
	(void)module;
	(void)user;
	(void)name;
	(void)base;
	(void)path;
	(void)link;
	(void)crc;
	(void)found;
	return -1;
}

static int find_no_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
		       char **path, Elf **elf)
{
	(void)module;
	(void)user;
	(void)name;
	(void)base;
	(void)path;
	(void)elf;
	return -1;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	(void)dwfl;
	if (*thread)
		return 0;
	*thread = arg;
	return THREAD;
}

static bool elfutils_read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *arg)
{
	struct elfutils_worker *worker = arg;
	uint64_t offset = address - worker->stack->registers[STACKBEAT_REGISTER_RSP];
	uint64_t size = worker->stack->size;

	(void)dwfl;
	if (size < sizeof(uint64_t) || offset > size - sizeof(uint64_t)) {
		worker->copy_has_ended = true;
		return false;
	}
	memcpy(word, worker->stack->bytes + offset, sizeof(uint64_t));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct elfutils_worker *worker = arg;
	Dwarf_Word registers[STACKBEAT_REGISTERS];

	for (size_t i = 0; i < STACKBEAT_REGISTERS; i++)
		registers[i] = worker->stack->registers[i];
	return dwfl_thread_state_registers(thread, 0, STACKBEAT_REGISTERS, registers);
}

/* Elsewhere, elfutils follows frame pointers, which may skip a caller. */
static bool has_frame_information(Dwfl *dwfl, Dwarf_Addr address)
{
	Dwfl_Module *module = dwfl_addrmodule(dwfl, address);
	Dwarf_Frame *frame = NULL;
	GElf_Addr bias = 0;
	Dwarf_CFI *cfi = module ? dwfl_module_eh_cfi(module, &bias) : NULL;
	bool found = cfi && !dwarf_cfi_addrframe(cfi, address - bias, &frame);

	free(frame);
	if (found || !module)
		return found;
	frame = NULL;
	cfi = dwfl_module_dwarf_cfi(module, &bias);
	found = cfi && !dwarf_cfi_addrframe(cfi, address - bias, &frame);
	free(frame);
	return found;
}

static int take_frame(Dwfl_Frame *frame, void *arg)
{
	struct elfutils_worker *worker = arg;
	struct elfutils_walk *walk = &worker->walk;
	bool is_exact = false;
	Dwarf_Addr address;

	/* Where memory is missing, elfutils goes on by frame pointers, with wrong callers. */
	if (worker->copy_has_ended || !dwfl_frame_pc(frame, &address, &is_exact) ||
	    (walk->count && !address))
		return DWARF_CB_ABORT;
	if (walk->count == STACKBEAT_USER_FRAMES_MAX) {
		walk->end = ELFUTILS_MAX_DEPTH;
		return DWARF_CB_ABORT;
	}
	walk->frames[walk->count++] = address;
	if (has_frame_information(worker->dwfl, is_exact ? address : address - 1))
		return DWARF_CB_OK;
	walk->end = ELFUTILS_NO_RULE;
	return DWARF_CB_ABORT;
}

static void elfutils_walk_stack(struct elfutils_worker *worker)
{
	struct elfutils_walk *walk = &worker->walk;

	walk->count = 0;
	walk->end = ELFUTILS_OUTERMOST;
	worker->copy_has_ended = false;
	dwfl_getthread_frames(worker->dwfl, THREAD, take_frame, worker);
	if (walk->end == ELFUTILS_OUTERMOST && worker->copy_has_ended)
		walk->end = ELFUTILS_COPY_ENDS;
	if (!walk->count) {
		walk->frames[walk->count++] = worker->stack->registers[STACKBEAT_REGISTER_RIP];
		walk->end = ELFUTILS_NO_RULE;
	}
}

/* The files come by a socket: the message has the bias. */
static void receive_modules(Dwfl *dwfl, int socket)
{
	uint64_t bias;
	char name[32];
	int fd;

	for (unsigned int i = 0; receive_fd(socket, &bias, sizeof(bias), &fd) == sizeof(bias);
	     i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (fd >= 0 && !dwfl_report_elf(dwfl, name, name, fd, bias, true))
			close(fd);
	}
}

void run_elfutils_worker(const int fds[], size_t count)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = find_no_elf,
		.find_debuginfo = find_no_debuginfo,
	};
	static const Dwfl_Thread_Callbacks threads = {
		.next_thread = next_thread,
		.memory_read = elfutils_read_memory,
		.set_initial_registers = set_registers,
	};
	struct elfutils_worker *worker = calloc(1, sizeof(*worker));
	struct stackbeat_stack header;

	if (!worker || count != 3)
		exit(1);
	worker->dwfl = dwfl_begin(&callbacks);
	if (!worker->dwfl)
		exit(1);
	receive_modules(worker->dwfl, fds[2]);
	dwfl_report_end(worker->dwfl, NULL, NULL);
	/* Without any file, there is nothing to walk by: each walk has one frame. */
	dwfl_attach_state(worker->dwfl, NULL, THREAD, &threads, worker);
	while (elfutils_read_all(fds[0], &header, sizeof(header))) {
		worker->stack = malloc(sizeof(header) + header.size);
		if (!worker->stack)
			exit(1);
		*worker->stack = header;
		if (!elfutils_read_all(fds[0], worker->stack->bytes, header.size))
			exit(1);
		elfutils_walk_stack(worker);
		if (!elfutils_write_all(fds[1], &worker->walk,
					offsetof(struct elfutils_walk, frames) +
						worker->walk.count *
							sizeof(worker->walk.frames[0])))
			exit(1);
		free(worker->stack);
	}
	dwfl_end(worker->dwfl);
	free(worker);
}

/* The parent */

/* Of a fixed size, so that a worker can't fill the memory of the machine. */
static int elfutils_create_result(size_t count)
{
	int fd = memfd_create("frames", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)(count * sizeof(struct elfutils_walk))) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int create_request(struct stackbeat_stack *const *stacks, size_t count)
{
	int fd = memfd_create("stacks", MFD_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < count; i++) {
		if (!elfutils_write_all(fd, stacks[i], sizeof(*stacks[i]) + stacks[i]->size))
			break;
		if (i == count - 1 && !lseek(fd, 0, SEEK_SET))
			return fd;
	}
	err = errno ? -errno : -ENOMEM;
	close(fd);
	return err;
}

static int send_modules(int socket, const struct elfutils_module *modules, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < MIN(count, ELFUTILS_MODULES_MAX) && !err; i++)
		err = send_fd(socket, &modules[i].bias, sizeof(modules[i].bias), modules[i].fd);
	return err;
}

/* Waits until the worker has ended. */
static int elfutils_wait(int lifeline, int64_t timeout_ms)
{
	int64_t end = now_ns(CLOCK_MONOTONIC) + timeout_ms * 1000000;
	struct pollfd pollfd = {.fd = lifeline, .events = POLLIN};
	int64_t left = timeout_ms;
	int status;

	while (left > 0 && poll(&pollfd, 1, (int)left) <= 0)
		left = (end - now_ns(CLOCK_MONOTONIC)) / 1000000;
	if (!sandbox_worker_exited(lifeline, &status))
		return -ETIMEDOUT;
	return status ? -EBADMSG : 0;
}

static int take_walks(int fd, size_t count,
		      void (*take)(size_t stack, const struct elfutils_walk *walk, void *arg),
		      void *arg)
{
	const size_t head = offsetof(struct elfutils_walk, frames);
	struct elfutils_walk *walk = calloc(1, sizeof(*walk));
	int err = walk ? 0 : -ENOMEM;

	if (!err && lseek(fd, 0, SEEK_SET))
		err = -errno;
	for (size_t i = 0; i < count && !err; i++) {
		if (!elfutils_read_all(fd, walk, head) || !walk->count ||
		    walk->count > STACKBEAT_USER_FRAMES_MAX || walk->end >= ELFUTILS_END_COUNT ||
		    !elfutils_read_all(fd, walk->frames, walk->count * sizeof(walk->frames[0])))
			err = -EBADMSG;
		else
			take(i, walk, arg);
	}
	free(walk);
	return err;
}

static int elfutils_run_worker(const struct sandbox_server *server,
			       const struct elfutils_module *modules, size_t module_count,
			       int request, int result, int64_t timeout_ms)
{
	int sockets[2], lifeline, err, wait_err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return -errno;
	lifeline = sandbox_worker_start(server, WORKER_VERIFY, (int[]){request, result, sockets[1]},
					3);
	close(sockets[1]);
	err = lifeline < 0 ? lifeline : send_modules(sockets[0], modules, module_count);
	close(sockets[0]);
	if (lifeline < 0)
		return err;
	wait_err = elfutils_wait(lifeline, timeout_ms);
	/* A worker that has not exited: another process may have inherited the lifeline. */
	sandbox_worker_kill(lifeline);
	close(lifeline);
	return err ? err : wait_err;
}

int elfutils_walk_stacks(const struct sandbox_server *server, const struct elfutils_module *modules,
			 size_t module_count, struct stackbeat_stack *const *stacks, size_t count,
			 int64_t timeout_ms,
			 void (*take)(size_t stack, const struct elfutils_walk *walk, void *arg),
			 void *arg)
{
	int request = create_request(stacks, count), result, err;

	if (request < 0)
		return request;
	result = elfutils_create_result(count);
	err = result < 0 ? result
			 : elfutils_run_worker(server, modules, module_count, request, result,
					       timeout_ms);
	if (!err)
		err = take_walks(result, count, take, arg);
	if (result >= 0)
		close(result);
	close(request);
	return err;
}

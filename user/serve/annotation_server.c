// SPDX-License-Identifier: GPL-2.0
#include "serve/annotation_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/disassembler.h"
#include "debuginfo/kernel_image.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "report/annotation.h"
#include "report/annotation_json.h"
#include "sandbox/child.h"
#include "sandbox/fd_passing.h"
#include "sandbox/fork_server.h"
#include "sandbox/seccomp_filter.h"
#include "serve/http_rights.h"
#include "symbolize/find_binary.h"
#include "symbolize/offline_source.h"
#include "symbolize/symbolize_options.h"
#include "symbolize/worker.h"

#define ANNOTATORS_MAX 2u /* at a time; others wait in the socket */
#define CODE_TIMEOUT_S 20u /* to read the code, and the lines again */
/* Less than a job has, and more than an annotator. */
#define ANSWER_TIMEOUT_NS (90 * NS_PER_SECOND)
#define NAME_SIZE 4096u
#define NO_KERNEL_CODE "serve does not read the code of the kernel"

/*
 * A message to the server, with a socket for the replies. The annotator gets a byte there with a
 * file, the profile, when its turn has come: no limit would count profiles that wait.
 */
struct annotation_ask {
	char function[NAME_SIZE], file[NAME_SIZE]; /* "": any file */
};

/*
 * Of the server: that it runs. Of an annotator: that it waits for the profile; and then the result,
 * with a file unless `err`.
 */
struct annotation_reply {
	int32_t err;
	char error[256];
};

/* The annotator */

struct annotator_process {
	const struct annotation_server_config *config;
	struct sandbox_server sandbox;
	struct binary_finder search;
	struct error problem; /* the first one with a file; "": none */
};

/* Its user may read files of its own, and of its groups, which those who ask may not. */
static int open_public_file(void *arg, const struct symbol_mapping *mapping, unsigned int candidate,
			    struct error *error)
{
	const struct annotator_process *annotator = arg;
	struct stat status;
	bool is_trusted;
	int fd = binary_finder_open(&annotator->search, mapping->path, mapping->build_id, candidate,
				    &is_trusted, error);

	const bool is_private = fd >= 0 ? fstat(fd, &status) || !(status.st_mode & S_IROTH)
					: access(mapping->path, R_OK) && errno == EACCES;

	if (!is_private)
		return fd;
	if (fd >= 0)
		close(fd);
	return error_set(error, ENOENT, "is not taken: not all users may read it");
}

static void note_problem(void *arg, const char *path, const char *text)
{
	struct annotator_process *annotator = arg;

	if (!*annotator->problem.text)
		error_set(&annotator->problem, ENXIO, "%s: %s", path, text);
}

static int start_annotator_sandbox(struct annotator_process *annotator, struct error *error)
{
	char missing[SANDBOX_MISSING_SIZE];
	int err = sandbox_server_start(&annotator->sandbox, worker_main, error);

	if (err || !annotator->config->requires_sandbox || !annotator->sandbox.missing)
		return err;
	sandbox_missing_text(annotator->sandbox.missing, missing);
	return error_set(error, EPERM, "the sandbox is incomplete: %s", missing);
}

static struct profile *read_passed_profile(int file, struct error *error)
{
	struct profile *profile;
	struct stat status;
	ssize_t got = -1;
	char *bytes;

	/* A copy: the sender can change the file. */
	if (fstat(file, &status) || status.st_size < 0 || status.st_size > (off_t)PPROF_SIZE_MAX) {
		error_set(error, EFBIG, "the profile is too large");
		return NULL;
	}
	bytes = malloc((size_t)status.st_size + 1);
	if (bytes)
		got = pread(file, bytes, (size_t)status.st_size, 0);
	profile = got >= 0 ? pprof_decode(bytes, (size_t)got, "the profile", error) : NULL;
	if (got < 0)
		error_errno(error, errno, "can't read the profile");
	free(bytes);
	return profile;
}

static int write_annotation(const struct annotation *annotation, const struct profile *profile,
			    int file, struct error *error)
{
	int copy = dup(file), err;
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");

	if (!out) {
		if (copy >= 0)
			close(copy);
		return error_errno(error, errno, "can't write the answer");
	}
	err = annotation_print_json(annotation, profile, out);
	if (!err && (fflush(out) || ferror(out)))
		err = -(errno ?: EIO);
	fclose(out);
	return err ? error_errno(error, -err, "can't write the answer") : 0;
}

static int annotate_with_code(struct annotator_process *annotator, const struct profile *profile,
			      const struct annotation_ask *ask, int out, struct error *error)
{
	const struct annotation_query query = {
		.name = ask->function,
		.file = *ask->file ? ask->file : NULL,
		.syntax = SYNTAX_ATT,
	};
	const struct symbolize_options options = {
		.sandbox = &annotator->sandbox,
		.timeout_s = CODE_TIMEOUT_S,
		.problem = note_problem,
		.arg = annotator,
	};
	struct annotation annotation = {0};
	struct symbol_source source;
	int err;

	annotator->search = (struct binary_finder){.time = profile->time_ns};
	offline_source_init(&source, profile, NULL, NULL, NULL);
	source.open = open_public_file;
	source.arg = annotator;
	err = annotation_make(profile, &query, &source, &options, &annotation, error);
	/* It says more than that there is no code. */
	if (err && *annotator->problem.text)
		*error = annotator->problem;
	if (*annotation.left_out.text)
		error_set(&annotation.left_out, ENXIO, "%s", NO_KERNEL_CODE);
	if (!err)
		err = write_annotation(&annotation, profile, out, error);
	annotation_clear(&annotation);
	return err;
}

static bool has_hung_up(int socket)
{
	struct pollfd polled = {.fd = socket};

	return poll(&polled, 1, 0) > 0;
}

/* This process, which SIGIO ends, leaves its place to others. The job sends no more. */
static int end_with_job(int job, struct error *error)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	signal(SIGIO, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	if (fcntl(job, F_SETFL, O_ASYNC))
		return error_errno(error, errno, "can't annotate");
	return has_hung_up(job) ? error_set(error, EPIPE, "nobody waits") : 0;
}

/* The turn of the job has come. */
static struct profile *receive_profile(int job, struct error *error)
{
	const struct annotation_reply turn = {0};
	struct profile *profile = NULL;
	int file = -1;
	char byte;

	if (send_fd(job, &turn, sizeof(turn), -1) ||
	    receive_fd(job, &byte, sizeof(byte), &file) <= 0 || file < 0)
		error_set(error, EPIPE, "there is no profile");
	else if (!end_with_job(job, error))
		profile = read_passed_profile(file, error);
	if (file >= 0)
		close(file);
	return profile;
}

/* Parses nothing of the sender before it has lost its rights. */
static int annotate_request(const struct annotation_server_config *config,
			    const struct annotation_ask *ask, int job, int out, struct error *error)
{
	struct annotator_process annotator = {.config = config};
	struct profile *profile = NULL;
	int err = disassembler_load(error);

	if (!err)
		err = start_annotator_sandbox(&annotator, error);
	if (!err)
		err = code_rights_confine(error);
	if (!err) {
		profile = receive_profile(job, error);
		err = profile ? annotate_with_code(&annotator, profile, ask, out, error) : -EINVAL;
	}
	profile_free(profile);
	sandbox_server_stop(&annotator.sandbox);
	return err;
}

static void run_annotator(const struct annotation_server_config *config,
			  const struct annotation_ask *ask, int job)
{
	struct annotation_reply reply = {0};
	struct error error = {""};
	int out = memfd_create("annotation", MFD_CLOEXEC);

	/* The job was stopped before its turn came. */
	if (has_hung_up(job))
		_exit(0);
	reply.err = out < 0 || fcntl(job, F_SETOWN, getpid())
			    ? error_errno(&error, errno, "can't annotate")
			    : annotate_request(config, ask, job, out, &error);
	snprintf(reply.error, sizeof(reply.error), "%.*s", (int)sizeof(reply.error) - 1,
		 error.text);
	send_fd(job, &reply, sizeof(reply), reply.err ? -1 : out);
	_exit(0);
}

/* The server */

/* Waits until there is room for one more. */
static void reap_annotators(unsigned int *count)
{
	while (*count && waitpid(-1, NULL, *count < ANNOTATORS_MAX ? WNOHANG : 0) > 0)
		--*count;
}

static void serve_annotations(const struct annotation_server_config *config, int socket)
{
	static struct annotation_ask ask;
	unsigned int annotators = 0;
	ssize_t got;

	do {
		int job = -1;
		pid_t pid = -1;

		got = receive_fd(socket, &ask, sizeof(ask), &job);
		if (got == sizeof(ask) && job >= 0 && !ask.function[NAME_SIZE - 1] &&
		    !ask.file[NAME_SIZE - 1]) {
			reap_annotators(&annotators);
			pid = child_fork(CHILD_ANNOTATOR);
			if (!pid) {
				close(socket);
				run_annotator(config, &ask, job);
			}
		}
		annotators += pid > 0;
		if (job >= 0)
			close(job);
	} while (got > 0 || got == -EINTR);
}

static int run_annotation_server(const struct annotation_server_config *config, int socket)
{
	const int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, socket};
	struct annotation_reply reply = {0};
	struct error error = {""};
	sigset_t set;

	close_other_fds(kept, sizeof(kept) / sizeof(kept[0]));
	/* The standard input of the service has the addresses of the kernel. */
	replace_standard_files();
	/* The sampler gets them, too; this process ends after those who ask. */
	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGABRT);
	sigprocmask(SIG_SETMASK, &set, NULL);
	reply.err = code_rights_reduce(config->uid, &error);
	snprintf(reply.error, sizeof(reply.error), "%.*s", (int)sizeof(reply.error) - 1,
		 error.text);
	if (send_fd(socket, &reply, sizeof(reply), -1) || reply.err)
		return EXIT_FAILURE;
	serve_annotations(config, socket);
	return 0;
}

/* Waits until the server has lost its rights. */
static int await_annotation_server(int socket, struct error *error)
{
	struct annotation_reply reply;

	if (TEMP_FAILURE_RETRY(recv(socket, &reply, sizeof(reply), 0)) != sizeof(reply))
		return error_set(error, EIO, "can't start the process that reads code");
	return reply.err
		       ? error_set(error, -reply.err, "%.*s", (int)sizeof(reply.error), reply.error)
		       : 0;
}

int annotation_server_start(struct annotation_server *server,
			    const struct annotation_server_config *config, struct error *error)
{
	int ends[2], err;

	*server = (struct annotation_server){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(error, errno, "can't start the process that reads code");
	server->pid = child_fork(CHILD_ANNOTATION_SERVER);
	if (!server->pid) {
		close(ends[0]);
		_exit(run_annotation_server(config, ends[1]));
	}
	close(ends[1]);
	server->socket = ends[0];
	if (server->pid < 0)
		return error_set(error, EAGAIN, "can't start the process that reads code");
	err = await_annotation_server(server->socket, error);
	/* A job does not wait to ask: the socket may be full of what others have asked. */
	if (!err && fcntl(server->socket, F_SETFL, O_NONBLOCK))
		err = error_errno(error, errno, "can't start the process that reads code");
	return err;
}

void annotation_server_stop(struct annotation_server *server)
{
	if (server->socket >= 0)
		close(server->socket);
	if (server->pid > 0)
		TEMP_FAILURE_RETRY(waitpid(server->pid, NULL, 0));
	*server = (struct annotation_server){.socket = -1};
}

/* Jobs */

static int copy_answer(int from, int to, struct error *error)
{
	char bytes[16384];
	ssize_t got;
	off_t at = 0;

	while ((got = pread(from, bytes, sizeof(bytes), at)) > 0) {
		if (write(to, bytes, (size_t)got) != got)
			return error_errno(error, errno ?: EIO, "can't write the answer");
		at += got;
	}
	return got ? error_errno(error, errno, "can't read the annotation") : 0;
}

/* Receives a reply in time, with a file or -1, which the caller closes. */
static int receive_reply(int socket, int64_t end, int *file, struct error *error)
{
	struct pollfd polled = {.fd = socket, .events = POLLIN};
	const int64_t left = (end - now_ns(CLOCK_MONOTONIC)) / NS_PER_MS;
	struct annotation_reply reply;

	*file = -1;
	if (poll(&polled, 1, (int)MAX(left, 0)) <= 0 ||
	    receive_fd(socket, &reply, sizeof(reply), file) != sizeof(reply))
		return error_set(error, ETIME, "the code takes too much memory or too much time");
	return reply.err ? error_set(error, ENXIO, "%.*s", (int)sizeof(reply.error), reply.error)
			 : 0;
}

static int receive_annotation(int socket, int out, int64_t end, struct error *error)
{
	int file, err = receive_reply(socket, end, &file, error);

	if (!err && file < 0)
		err = error_set(error, ENXIO, "there is no answer");
	if (!err)
		err = copy_answer(file, out, error);
	if (file >= 0)
		close(file);
	return err;
}

static int pass_profile(int socket, const struct profile *profile, struct error *error)
{
	int file = memfd_create("profile", MFD_CLOEXEC), err;

	if (file < 0)
		return error_errno(error, errno, "can't ask for the code");
	err = pprof_write_fd_fast(profile, file, "the profile", error);
	if (!err && send_fd(socket, "", 1, file))
		err = error_set(error, EPIPE, "the process that reads code has ended");
	close(file);
	return err;
}

static int await_annotation(int socket, const struct profile *profile, int out, struct error *error)
{
	const int64_t end = now_ns(CLOCK_MONOTONIC) + ANSWER_TIMEOUT_NS;
	int file, err = receive_reply(socket, end, &file, error);

	if (file >= 0)
		close(file);
	if (!err)
		err = pass_profile(socket, profile, error);
	return err ? err : receive_annotation(socket, out, end, error);
}

static int ask_for_annotation(const struct annotation_server *server, const struct profile *profile,
			      const struct annotation_request *request, int out,
			      struct error *error)
{
	static struct annotation_ask ask;
	int ends[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(error, errno, "can't ask for the code");
	strcpy(ask.function, request->function);
	strcpy(ask.file, request->file ?: "");
	err = send_fd(server->socket, &ask, sizeof(ask), ends[1]);
	close(ends[1]);
	if (err == -EAGAIN)
		error_set(error, EAGAIN, "the code of too many functions is asked for");
	else if (err)
		error_errno(error, -err, "the process that reads code has ended");
	else
		err = await_annotation(ends[0], profile, out, error);
	close(ends[0]);
	return err;
}

/* Whether any of the functions may be in a file. */
static bool has_files(const struct annotation *annotation)
{
	for (size_t i = 0; i < annotation->count; i++) {
		const char *path = annotation->functions[i].path;

		if (*path && (*path != '[' || !strcmp(path, "[vdso]")))
			return true;
	}
	return false;
}

static int read_annotation(const struct annotation_server *server, const struct profile *profile,
			   const struct annotation_request *request,
			   const struct annotation *sampled, int out, struct error *error)
{
	const struct annotated_function *first = &sampled->functions[0];

	if (!has_files(sampled) && is_kernel_mapping(first->path, first->start))
		return error_set(error, ENXIO, "%s", NO_KERNEL_CODE);
	if (!has_files(sampled))
		return error_set(error, ENXIO, "no file has its code");
	if (!server)
		return error_set(error, ENXIO, "no code is read here");
	if (strlen(request->function) >= NAME_SIZE ||
	    (request->file && strlen(request->file) >= NAME_SIZE))
		return error_set(error, ENXIO, "its name is too long to read its code");
	return ask_for_annotation(server, profile, request, out, error);
}

int annotation_server_answer(const struct annotation_server *server, const struct profile *profile,
			     const struct annotation_request *request, int out, struct error *error)
{
	const struct annotation_query query = {.name = request->function, .file = request->file};
	struct annotation annotation = {0};
	int err = annotation_make_without_code(profile, &query, &annotation, error);

	if (err == -ENOENT)
		err = -ENODATA;
	if (!err &&
	    read_annotation(server, profile, request, &annotation, out, &annotation.left_out)) {
		/* A part of an answer may be there. */
		err = ftruncate(out, 0) || lseek(out, 0, SEEK_SET)
			      ? error_errno(error, errno, "can't write the answer")
			      : write_annotation(&annotation, profile, out, error);
	}
	annotation_clear(&annotation);
	return err;
}

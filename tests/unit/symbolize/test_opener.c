// SPDX-License-Identifier: GPL-2.0
/* What a worker gets from its opener. */
#include "symbolize/opener.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "debuginfo/file_cache.h"
#include "lib/error.h"
#include "sandbox.h"
#include "sandbox/fd_passing.h"
#include "standing_clock.h"
#include "symbolize/kept_symbols.h"

/* Of the opener that runs. */
static int worker_end;
static pid_t opener_pid;
static volatile uint32_t *owner;

static void start(struct opener opener)
{
	int ends[2];

	*owner = OWNER_UNKNOWN;
	opener.owner = owner;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	worker_end = ends[0];
	opener_pid = fork();
	assert_true(opener_pid >= 0);
	if (opener_pid == 0) {
		close(ends[0]);
		opener_serve(&opener, ends[1]);
		_exit(0);
	}
	close(ends[1]);
}

static void stop(void)
{
	int status;

	close(worker_end);
	assert_int_equal(waitpid(opener_pid, &status, 0), opener_pid);
	assert_int_equal(status, 0);
}

static struct open_response response;

/* Returns 0 and closes the file, or the error. */
static int ask(uint32_t kind, unsigned int candidate, const char *name, const char *beside)
{
	struct open_request request = {.kind = kind, .candidate = candidate};
	int fd;

	snprintf(request.name, sizeof(request.name), "%s", name);
	snprintf(request.beside, sizeof(request.beside), "%s", beside);
	memset(&response, 0xff, sizeof(response));
	fd = opener_request(worker_end, &request, &response);
	assert_int_equal(response.result, fd < 0 ? fd : 0);
	if (fd < 0)
		return fd;
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	return 0;
}

/* A file that starts as an ELF file does. */
static const char *write_elf(const char *name, mode_t mode)
{
	static const unsigned char head[EI_NIDENT + 2] = {
		0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [EI_NIDENT] = ET_EXEC};
	const char *path = in_sandbox("%s", name);

	write_file(path, head, sizeof(head));
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

/* The first candidate can't be opened, the second is the file `arg`. */
static int open_second(void *arg, unsigned int candidate, struct error *error)
{
	if (candidate == 0) {
		error_set(error, EACCES, "may not be read");
		return -EACCES;
	}
	return candidate == 1 ? open(arg, O_RDONLY | O_CLOEXEC) : -ENOENT;
}

static void candidates_of_the_job_are_opened(void **state)
{
	const char *path = write_elf("program", 0600);
	struct worker_job job = {.path = "program", .open = open_second, .arg = (char *)path};

	(void)state;
	start((struct opener){.job = &job});
	assert_int_equal(ask(OPEN_BINARY, 0, "", ""), -EACCES);
	assert_int_equal(response.candidate, 1);
	assert_string_equal(response.path, "");
	assert_string_equal(response.problem, "may not be read");
	assert_true(*owner == OWNER_UNKNOWN);
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_int_equal(response.candidate, 2);
	assert_string_equal(response.path, path);
	assert_string_equal(response.problem, "");
	assert_int_equal(*owner, geteuid());
	assert_int_equal(ask(OPEN_BINARY, 2, "", ""), -ENOENT);
	stop();

	job.open = NULL;
	start((struct opener){.job = &job});
	assert_int_equal(ask(OPEN_BINARY, 0, "", ""), -ENOENT);
	stop();
}

static void debug_files_are_searched_in_each_directory(void **state)
{
	const char *const directories[] = {in_sandbox("a"), in_sandbox("b"), in_sandbox("c")};
	const struct worker_job job = {.path = "/nowhere/program"};

	(void)state;
	run("cd '%s' && mkdir -p a/.build-id/12 b/.build-id/12 c/.build-id/12", sandbox);
	write_text(in_sandbox("b/.build-id/12/34.debug"), "no ELF file");
	write_elf("c/.build-id/12/34.debug", 0600);
	start((struct opener){.job = &job, .paths = {directories, 3}});
	assert_int_equal(ask(DEBUG_BUILD_ID, 0, "1234", ""), -ENOEXEC);
	assert_int_equal(response.candidate, 2);
	assert_string_equal(response.path, in_sandbox("b/.build-id/12/34.debug"));
	assert_true(*owner == OWNER_UNKNOWN);
	assert_int_equal(ask(DEBUG_BUILD_ID, 2, "1234", ""), 0);
	assert_int_equal(response.candidate, 3);
	assert_string_equal(response.path, in_sandbox("c/.build-id/12/34.debug"));
	assert_int_equal(ask(DEBUG_BUILD_ID, 3, "1234", ""), -ENOENT);
	assert_string_equal(response.path, "");
	assert_int_equal(ask(DEBUG_BUILD_ID, 0, "../12/34", ""), -ENOENT);
	stop();
}

/* The worker may name the binary, and the debug files that it got; no other file. */
static void files_are_opened_beside_known_files_only(void **state)
{
	const char *directory = in_sandbox("d"), *program = in_sandbox("bin/program");
	const struct worker_job job = {.path = program};
	char debug_file[PATH_MAX];

	(void)state;
	run("cd '%s' && mkdir -p bin other d/.build-id/12", sandbox);
	write_elf("bin/link", 0644);
	write_elf("other/link", 0644);
	write_elf("d/.build-id/12/alt", 0644);
	snprintf(debug_file, sizeof(debug_file), "%s", write_elf("d/.build-id/12/34.debug", 0644));
	start((struct opener){.job = &job, .paths = {&directory, 1}});
	assert_int_equal(ask(DEBUG_LINK, 0, "link", program), 0);
	assert_string_equal(response.path, in_sandbox("bin/link"));
	assert_int_equal(ask(DEBUG_LINK, 0, "link", in_sandbox("other/program")), -ENOENT);
	assert_int_equal(ask(DEBUG_ALT_LINK, 0, "alt", debug_file), -ENOENT);
	assert_int_equal(ask(DEBUG_BUILD_ID, 0, "1234", ""), 0);
	assert_int_equal(ask(DEBUG_ALT_LINK, 0, "alt", debug_file), 0);
	assert_string_equal(response.path, in_sandbox("d/.build-id/12/alt"));
	/* The first one is still known. */
	assert_int_equal(ask(DEBUG_ALT_LINK, 0, "link", in_sandbox("bin/link")), 0);
	stop();
}

/* A file that others may not read is opened if it belongs to the owner of the file that names it.
 */
static void named_files_are_those_of_the_owner(void **state)
{
	const char *directory = in_sandbox("d"), *program = write_elf("program", 0600);
	struct worker_job job = {.path = program, .open = open_second, .arg = (char *)program};

	(void)state;
	run("cd '%s' && mkdir -p d/.build-id/12", sandbox);
	write_elf("private", 0640);
	write_elf("d/.build-id/12/34.debug", 0600);
	start((struct opener){.job = &job, .paths = {&directory, 1}});
	assert_int_equal(ask(DEBUG_LINK, 0, "private", program), -EACCES);
	assert_int_equal(response.candidate, 2);
	assert_string_equal(response.path, in_sandbox("private"));
	/* The administrator owns the debug files by build ID. */
	assert_int_equal(ask(DEBUG_BUILD_ID, 0, "1234", ""), 0);
	assert_int_equal(ask(DEBUG_LINK, 1, "private", program), 0);
	stop();

	job.has_owner = true;
	job.owner = geteuid() + 1;
	start((struct opener){.job = &job, .paths = {&directory, 1}});
	assert_int_equal(ask(DEBUG_LINK, 1, "private", program), -EACCES);
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_int_equal(*owner, geteuid() + 1);
	assert_int_equal(ask(DEBUG_LINK, 1, "private", program), -EACCES);
	stop();

	job.owner = geteuid();
	start((struct opener){.job = &job, .paths = {&directory, 1}});
	assert_int_equal(ask(DEBUG_LINK, 1, "private", program), 0);
	stop();
}

/* Flags of all mounts, in addition to their own. */
static unsigned long mount_flags;

/* Replaces libc's function. */
int fstatfs(int fd, struct statfs *status)
{
	int result = (int)syscall(SYS_fstatfs, fd, status);

	status->f_flags |= (long)mount_flags;
	return result;
}

/* The owners of two files on a file system that can report any owner may be two users. */
static void named_files_of_unknown_owners_are_readable_by_all(void **state)
{
	const char *program = write_elf("program", 0600);
	struct worker_job job = {.path = program, .open = open_second, .arg = (char *)program};

	(void)state;
	write_elf("private", 0640);
	write_elf("public", 0604);
	mount_flags = ST_NOSUID;
	start((struct opener){.job = &job});
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_true(*owner == OWNER_UNKNOWN);
	assert_int_equal(ask(DEBUG_LINK, 0, "private", program), -EACCES);
	assert_int_equal(ask(DEBUG_LINK, 0, "public", program), 0);
	stop();

	job.has_owner = true;
	job.owner = FILE_UID_ANY;
	start((struct opener){.job = &job});
	assert_int_equal(ask(DEBUG_LINK, 0, "private", program), -EACCES);
	assert_int_equal(ask(DEBUG_LINK, 0, "public", program), 0);
	stop();
	mount_flags = 0;
}

/* The names of a binary of root, which others have a part in, are charged to those. */
static void owner_is_the_first_that_is_not_root(void **state)
{
	const char *program = write_elf("program", 0644);
	const struct worker_job job = {
		.path = program, .open = open_second, .arg = (char *)program};
	static const uint32_t owners[] = {0, 1001, 1002};
	char name[16];

	(void)state;
	if (geteuid())
		skip();
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		assert_int_equal(chown(write_elf(name, 0644), owners[i], owners[i]), 0);
	}
	start((struct opener){.job = &job});
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_int_equal(*owner, 0);
	assert_int_equal(ask(DEBUG_LINK, 1, "file0", program), 0);
	assert_int_equal(*owner, 0);
	assert_int_equal(ask(DEBUG_LINK, 1, "file1", program), 0);
	assert_int_equal(*owner, 1001);
	assert_int_equal(ask(DEBUG_LINK, 1, "file2", program), 0);
	assert_int_equal(*owner, 1001);
	stop();
}

static void owner_of_the_job_is_known_before_a_request(void **state)
{
	const struct worker_job job = {.path = "p", .has_owner = true, .owner = 1234};

	(void)state;
	start((struct opener){.job = &job});
	stop();
	assert_int_equal(*owner, 1234);
}

static void requests_are_limited(void **state)
{
	const struct worker_job job = {.path = "p"};

	(void)state;
	start((struct opener){.job = &job});
	for (unsigned int i = 0; i < OPEN_REQUESTS_MAX; i++)
		assert_int_equal(ask(OPEN_BINARY, i, "", ""), -ENOENT);
	assert_int_equal(ask(OPEN_BINARY, 0, "", ""), -EPIPE);
	assert_string_equal(response.path, "");
	assert_string_equal(response.problem, "");
	stop();
}

/* A request without an end of its texts, with an fd, and then a request that is too short. */
static void malformed_requests_do_no_harm(void **state)
{
	const struct worker_job job = {.path = "p"};
	static struct open_request request;
	int fd;

	(void)state;
	memset(&request, 'a', sizeof(request));
	for (uint32_t kind = 0; kind < 3; kind++) {
		start((struct opener){.job = &job});
		request.kind = kind;
		request.candidate = 0;
		assert_int_equal(send_fd(worker_end, &request, sizeof(request), worker_end), 0);
		assert_int_equal(receive_fd(worker_end, &response, sizeof(response), &fd),
				 sizeof(response));
		assert_true(fd < 0);
		assert_true(response.result < 0);
		assert_int_equal(send_fd(worker_end, &request, sizeof(request) - 1, -1), 0);
		assert_int_equal(receive_fd(worker_end, &response, sizeof(response), &fd), 0);
		stop();
	}
}

/* Kept symbols */

static struct file_cache *open_cache(void)
{
	const struct file_cache_config config = {
		.directory = in_sandbox("cache"),
		.bytes_max = 1 << 20,
		.maker = "0123456789abcdef",
	};
	struct error error = {""};
	struct file_cache *cache = file_cache_open(&config, &error);

	assert_non_null(cache);
	return cache;
}

/* The inode of the key of a job, 0: it has none. The file itself does not matter. */
static uint64_t key_inode;

static bool identify_by_inode(void *arg, int fd, struct file_key *key)
{
	(void)arg;
	assert_true(fd >= 0);
	memset(key, 0, sizeof(*key));
	key->inode = key_inode;
	return key_inode != 0;
}

/* Starts an opener, whose worker takes its file. */
static void start_job(struct file_cache *cache, uint64_t inode)
{
	static struct worker_job job;

	job = (struct worker_job){
		.path = "program",
		.open = open_second,
		.identify = identify_by_inode,
		.arg = (char *)write_elf("program", 0600),
	};
	key_inode = inode;
	start((struct opener){.job = &job, .cache = cache});
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
}

/* Keeps a section with a text. */
static int keep(const char *text)
{
	struct kept_symbols kept = {0};

	kept.contents[0].sections[0] =
		(struct dwarf_bytes){(const unsigned char *)text, strlen(text)};
	return opener_keep(worker_end, &kept);
}

/* Returns the result of asking for kept symbols: 0 if these have the text. */
static int find(const char *text)
{
	const struct open_request request = {.kind = OPEN_KEPT};
	int fd = opener_request(worker_end, &request, &response);
	struct kept_symbols kept;
	char bytes[8192];
	const void *found;
	ssize_t got;
	size_t size = 0;

	if (fd < 0)
		return fd;
	got = read(fd, bytes, sizeof(bytes));
	close(fd);
	found = got > 0 ? file_cache_check(bytes, (size_t)got, &size) : NULL;
	assert_non_null(found);
	assert_true(kept_symbols_read(&kept, found, size));
	assert_int_equal(kept.contents[0].sections[0].size, strlen(text));
	assert_memory_equal(kept.contents[0].sections[0].data, text, strlen(text));
	return 0;
}

/* Symbols are not accepted: what follows the request is not read, and the opener ends. */
static void expect_refused(uint64_t size)
{
	const struct open_request request = {.kind = KEEP_SYMBOLS, .size = size};
	int fd;

	assert_int_equal(send_fd(worker_end, &request, sizeof(request), -1), 0);
	assert_int_equal(receive_fd(worker_end, &response, sizeof(response), &fd),
			 sizeof(response));
	assert_true(fd < 0);
	assert_int_equal(response.result, -EINVAL);
	assert_int_equal(find(""), -EPIPE);
}

static void symbols_are_kept_for_the_same_file(void **state)
{
	struct file_cache *cache = open_cache();

	(void)state;
	start_job(cache, 1);
	assert_int_equal(find(""), -ENOENT);
	assert_int_equal(keep("one"), 0);
	assert_int_equal(find("one"), 0);
	stop();
	start_job(cache, 2);
	assert_int_equal(find(""), -ENOENT);
	assert_int_equal(keep("two"), 0);
	stop();
	start_job(cache, 1);
	assert_int_equal(find("one"), 0);
	stop();
	/* A file without a key, no cache, and a worker without a file. */
	start_job(cache, 0);
	assert_int_equal(find(""), -ENOTSUP);
	expect_refused(8);
	stop();
	start_job(NULL, 1);
	assert_int_equal(find(""), -ENOTSUP);
	expect_refused(8);
	stop();
	start((struct opener){.job = &(struct worker_job){.path = "p"}, .cache = cache});
	assert_int_equal(find(""), -ENOTSUP);
	stop();
	file_cache_close(cache);
}

/* A worker may be taken over by any file that it was given. */
static void all_files_of_a_worker_decide(void **state)
{
	struct file_cache *cache = open_cache();
	struct file_key key;
	int fd = open("/bin/sh", O_RDONLY);
	bool has_key = file_key_of(fd, &key);

	(void)state;
	close(fd);
	start_job(cache, 1);
	assert_int_equal(keep("alone"), 0);
	/* It asks for a file that the program names, as for debug information. */
	assert_int_equal(ask(DEBUG_ALT_LINK, 0, "/bin/sh", "program"), 0);
	assert_int_equal(find(""), has_key ? -ENOENT : -ENOTSUP);
	if (has_key)
		assert_int_equal(keep("both"), 0);
	else
		expect_refused(8);
	stop();
	start_job(cache, 1);
	if (has_key) {
		/* Of the same name in the cache. */
		assert_int_equal(find(""), -ENOENT);
		assert_int_equal(ask(DEBUG_ALT_LINK, 0, "/bin/sh", "program"), 0);
		assert_int_equal(find("both"), 0);
	}
	stop();
	/* A debug file that has just been written proves nothing. */
	realtime_stands_at_ns = now_ns(CLOCK_REALTIME);
	write_elf("new", 0644);
	start_job(cache, 1);
	assert_int_equal(ask(DEBUG_ALT_LINK, 0, in_sandbox("new"), "program"), 0);
	assert_int_equal(find(""), -ENOTSUP);
	expect_refused(8);
	stop();
	realtime_stands_at_ns = 0;
	/* More files than a key can have. */
	start_job(cache, 1);
	for (unsigned int i = 1; i < CACHE_KEY_FILES_MAX; i++)
		assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_int_equal(find(""), -ENOENT);
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_int_equal(find(""), -ENOTSUP);
	stop();
	file_cache_close(cache);
}

/* Otherwise, a worker that was taken over could write to the disk for as long as it runs. */
static void symbols_of_the_same_files_are_kept_once(void **state)
{
	struct file_cache *cache = open_cache();

	(void)state;
	start_job(cache, 1);
	assert_int_equal(keep("first"), 0);
	expect_refused(8);
	stop();
	/* Another worker may. */
	start_job(cache, 1);
	assert_int_equal(find("first"), 0);
	assert_int_equal(keep("second"), 0);
	assert_int_equal(find("second"), 0);
	/* With another file, the symbols are others. */
	assert_int_equal(ask(OPEN_BINARY, 1, "", ""), 0);
	assert_int_equal(keep("third"), 0);
	expect_refused(8);
	stop();
	file_cache_close(cache);
}

/* Sizes that are wrong, and fewer bytes than were announced. */
static void malformed_symbols_are_not_kept(void **state)
{
	static const uint64_t sizes[] = {0, 7, KEPT_SYMBOLS_MAX + 8, UINT64_MAX, UINT64_MAX - 7};
	const struct open_request request = {.kind = KEEP_SYMBOLS, .size = 16};
	struct file_cache *cache = open_cache();

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		start_job(cache, 1);
		expect_refused(sizes[i]);
		stop();
		start_job(cache, 1);
		assert_int_equal(find(""), -ENOENT);
		stop();
	}
	start_job(cache, 1);
	assert_int_equal(send_fd(worker_end, &request, sizeof(request), -1), 0);
	assert_int_equal(send_fd(worker_end, "12345678", 8, worker_end), 0);
	stop();
	start_job(cache, 1);
	assert_int_equal(find(""), -ENOENT);
	stop();
	file_cache_close(cache);
}

/* What an opener answers that is no opener. */
static void malformed_responses_are_errors(void **state)
{
	static struct open_response sent;
	const struct open_request request = {.kind = OPEN_BINARY};
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	memset(&sent, 'a', sizeof(sent));
	/* A success without a file. */
	sent.result = 0;
	assert_int_equal(send_fd(ends[1], &sent, sizeof(sent), -1), 0);
	assert_int_equal(opener_request(ends[0], &request, &response), -EPIPE);
	assert_int_equal(response.result, -EPIPE);
	assert_int_equal(strlen(response.path), sizeof(response.path) - 1);
	assert_int_equal(strlen(response.problem), sizeof(response.problem) - 1);
	sent.result = -EACCES;
	assert_int_equal(send_fd(ends[1], &sent, sizeof(sent), -1), 0);
	assert_int_equal(opener_request(ends[0], &request, &response), -EACCES);
	assert_int_equal(send_fd(ends[1], &sent, sizeof(sent) - 1, -1), 0);
	assert_int_equal(opener_request(ends[0], &request, &response), -EPIPE);
	assert_int_equal(response.result, -EPIPE);
	assert_string_equal(response.path, "");
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	close(ends[1]);
	assert_int_equal(opener_request(ends[0], &request, &response), -EPIPE);
	close(ends[0]);
}

static int share_owner(void **state)
{
	void *shared = mmap(NULL, sizeof(*owner), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	owner = shared;
	return shared == MAP_FAILED;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(candidates_of_the_job_are_opened),
		TEST(debug_files_are_searched_in_each_directory),
		TEST(files_are_opened_beside_known_files_only),
		TEST(named_files_are_those_of_the_owner),
		TEST(named_files_of_unknown_owners_are_readable_by_all),
		TEST(owner_is_the_first_that_is_not_root),
		TEST(owner_of_the_job_is_known_before_a_request),
		TEST(requests_are_limited),
		TEST(malformed_requests_do_no_harm),
		TEST(symbols_are_kept_for_the_same_file),
		TEST(all_files_of_a_worker_decide),
		TEST(symbols_of_the_same_files_are_kept_once),
		TEST(malformed_symbols_are_not_kept),
		TEST(malformed_responses_are_errors),
	};

	return cmocka_run_group_tests_name("opener", tests, share_owner, NULL);
}

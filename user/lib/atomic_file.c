// SPDX-License-Identifier: GPL-2.0
#include "lib/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAME_ATTEMPTS 16
/* Of a temporary name; a random number in hex is between them. */
#define PREFIX ".stackbeat-"
#define SUFFIX ".tmp"
#define DIGITS 16
#define FD_PATH "/proc/self/fd/%d"

static int open_standard_output(struct atomic_file *file, struct error *error)
{
	file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	return file->fd < 0 ? error_errno(error, errno, "%s", file->path) : 0;
}

/*
 * Opens a file that is not regular, and was found to be `found`. Another user who may write to the
 * directory can replace it meanwhile, by a link to a file that only this process may write.
 */
static int open_in_place(struct atomic_file *file, const struct stat *found, struct error *error)
{
	struct stat opened;

	file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (file->fd < 0 || fstat(file->fd, &opened))
		return error_errno(error, errno, "%s", file->path);
	if (opened.st_dev != found->st_dev || opened.st_ino != found->st_ino ||
	    ((opened.st_mode ^ found->st_mode) & S_IFMT))
		return error_set(error, ESTALE, "%s: it was replaced while it was opened",
				 file->path);
	return 0;
}

/* Returns the length of the directory in a path, with the slash. */
static int directory_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path) + 1 : 0;
}

/* Returns a path of the directory that has `path`, which the caller frees, or NULL. */
static char *directory_of(const char *path)
{
	return directory_length(path) ? strndup(path, (size_t)directory_length(path)) : strdup(".");
}

/*
 * Returns whether a symbolic link may be followed: as with fs.protected_symlinks, not if another
 * user can have put it into a directory like /tmp. The kernel protects open() only, not rename().
 */
static bool may_follow(const char *path, const struct stat *link)
{
	char *directory = directory_of(path);
	struct stat status;
	bool may = directory && !stat(directory, &status) &&
		   (!(status.st_mode & S_IWOTH) || link->st_uid == geteuid() ||
		    link->st_uid == status.st_uid);

	free(directory);
	return may;
}

/*
 * Returns whether rename() may replace a file. In a directory with the sticky bit, like /tmp, only
 * the owners of the file and of the directory may do that, and a process with CAP_FOWNER. The
 * kernel allows O_NOATIME to the owner and to CAP_FOWNER only. A file that can't be read counts as
 * another user's.
 */
static bool may_replace(const char *path, const struct stat *file)
{
	char *name = directory_of(path);
	struct stat directory;
	bool may;
	int fd;

	may = file->st_uid == geteuid() || !name || stat(name, &directory) ||
	      !(directory.st_mode & S_ISVTX) || directory.st_uid == geteuid();
	free(name);
	if (may)
		return true;
	fd = open(path, O_RDONLY | O_NOATIME | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno != EPERM && errno != EACCES;
	close(fd);
	return true;
}

/* mkostemp() would create a file of mode 0600, whatever the umask. */
static int create_name(struct atomic_file *file, const char *name)
{
	file->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return file->fd < 0 ? -errno : 0;
}

static int link_name(struct atomic_file *file, const char *name)
{
	char path[sizeof(FD_PATH) + 16];

	snprintf(path, sizeof(path), FD_PATH, file->fd);
	return linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

bool atomic_file_is_temporary(const char *name)
{
	const size_t length = strlen(name), digits = strlen(PREFIX);

	return length == digits + DIGITS + strlen(SUFFIX) && !strncmp(name, PREFIX, digits) &&
	       strspn(name + digits, "0123456789abcdef") == DIGITS &&
	       !strcmp(name + digits + DIGITS, SUFFIX);
}

/* Gives the file an unused name in the directory of its target. */
static int make_temporary(struct atomic_file *file,
			  int (*make)(struct atomic_file *file, const char *name),
			  struct error *error)
{
	uint64_t number;
	int err = -EEXIST;
	char *name;

	for (int attempt = 0; attempt < NAME_ATTEMPTS && err == -EEXIST; attempt++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return error_errno(error, errno, "%s", file->path);
		if (asprintf(&name, "%.*s" PREFIX "%0*" PRIx64 SUFFIX,
			     directory_length(file->target), file->target, DIGITS, number) < 0)
			return error_errno(error, ENOMEM, "%s", file->path);
		err = make(file, name);
		if (err)
			free(name);
		else
			file->temporary = name;
	}
	return err ? error_errno(error, -err, "%s", file->path) : 0;
}

/*
 * Opens a file without a name: it disappears with the process. Returns false where the file system
 * has no O_TMPFILE, or /proc is missing, without which the file can't be linked.
 */
static bool open_nameless(struct atomic_file *file)
{
	char *directory;

	if (access("/proc/self/fd", X_OK))
		return false;
	directory = directory_of(file->target);
	if (!directory)
		return false;
	file->fd = open(directory, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
	file->nameless = file->fd >= 0;
	free(directory);
	return file->nameless;
}

static int atomic_file_open(struct atomic_file *file, struct error *error)
{
	struct stat status;
	bool exists, is_link;

	if (!strcmp(file->path, "-"))
		return open_standard_output(file, error);
	if (!*file->path)
		return error_set(error, ENOENT, "the name of the file to write is empty");
	exists = !lstat(file->path, &status);
	if (!exists && errno != ENOENT)
		return error_errno(error, errno, "%s", file->path);
	is_link = exists && S_ISLNK(status.st_mode);
	if (is_link && !may_follow(file->path, &status))
		return error_set(error, EACCES,
				 "%s: a symbolic link of another user, in a directory that all "
				 "users may write to",
				 file->path);
	if (is_link)
		exists = !stat(file->path, &status);
	if (exists && S_ISDIR(status.st_mode))
		return error_errno(error, EISDIR, "%s", file->path);
	if (exists && !S_ISREG(status.st_mode))
		return open_in_place(file, &status, error);
	/* A rename would replace a symbolic link, not its target. */
	file->target = exists && is_link ? realpath(file->path, NULL) : strdup(file->path);
	if (!file->target)
		return error_errno(error, errno, "%s", file->path);
	if (exists && !may_replace(file->target, &status))
		return error_set(error, EPERM,
				 "%s: a file of another user, in a directory with the sticky bit: "
				 "choose another name",
				 file->path);
	return open_nameless(file) ? 0 : make_temporary(file, create_name, error);
}

static void close_file(struct atomic_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	free(file->path);
	free(file->target);
	free(file->temporary);
	file->path = NULL;
	file->target = NULL;
	file->temporary = NULL;
}

int atomic_file_create(struct atomic_file *file, const char *path, struct error *error)
{
	struct atomic_file created = {.fd = -1};
	int err;

	created.path = strdup(path);
	if (!created.path)
		return error_errno(error, ENOMEM, "%s", path);
	err = atomic_file_open(&created, error);
	if (err) {
		close_file(&created);
		return err;
	}
	*file = created;
	return 0;
}

int atomic_file_check(const char *path, struct error *error)
{
	struct atomic_file file = {.fd = -1};
	struct stat status;
	int err;

	/* Don't open a FIFO just to test it: its reader would see EOF. */
	if (strcmp(path, "-") && !stat(path, &status) && !S_ISREG(status.st_mode) &&
	    !S_ISDIR(status.st_mode))
		return access(path, W_OK) ? error_errno(error, errno, "%s", path) : 0;
	err = atomic_file_create(&file, path, error);
	if (!err)
		atomic_file_discard(&file);
	return err;
}

int atomic_file_reserve(struct atomic_file *file, uint64_t bytes, struct error *error)
{
	struct statvfs system;

	if (!fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes))
		return 0;
	if (errno == EOPNOTSUPP && !fstatvfs(file->fd, &system) &&
	    (uint64_t)system.f_bavail >= bytes / system.f_frsize)
		return 0;
	if (errno == EOPNOTSUPP)
		errno = ENOSPC;
	return error_errno(error, errno, "%s: no room for %" PRIu64 " KiB", file->path,
			   bytes >> 10);
}

int atomic_file_write(struct atomic_file *file, const void *data, size_t size, struct error *error)
{
	const char *next = data;
	ssize_t written;

	while (size) {
		written = write(file->fd, next, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return error_errno(error, errno, "%s", file->path);
		next += written;
		size -= written;
		file->size += written;
	}
	return 0;
}

/* Pipes and devices have no target, and can't be synchronized. */
static int sync_to_disk(const struct atomic_file *file, struct error *error)
{
	if (file->target && fsync(file->fd))
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

/* linkat() can't replace an existing file, rename() can. */
static int rename_to_target(struct atomic_file *file, struct error *error)
{
	int err = file->nameless ? make_temporary(file, link_name, error) : 0;
	int fd = file->fd;

	if (err)
		return err;
	file->fd = -1;
	if (close(fd) && errno != EINTR)
		return error_errno(error, errno, "%s", file->path);
	if (file->temporary && rename(file->temporary, file->target))
		return error_errno(error, errno, "%s", file->path);
	return 0;
}

int atomic_file_commit(struct atomic_file *file, struct error *error)
{
	int err = sync_to_disk(file, error);
	sigset_t all, old;

	/* No signal ends the process while the file has a temporary name. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!err)
		err = rename_to_target(file, error);
	if (err)
		atomic_file_discard(file);
	else
		close_file(file);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

void atomic_file_discard(struct atomic_file *file)
{
	if (file->temporary)
		unlink(file->temporary);
	close_file(file);
}

int atomic_file_store(const char *path, const void *data, size_t size, struct error *error)
{
	struct atomic_file file;
	int err = atomic_file_create(&file, path, error);

	if (err)
		return err;
	err = atomic_file_write(&file, data, size, error);
	if (err) {
		atomic_file_discard(&file);
		return err;
	}
	return atomic_file_commit(&file, error);
}

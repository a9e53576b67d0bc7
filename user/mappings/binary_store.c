// SPDX-License-Identifier: GPL-2.0
#include "mappings/binary_store.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "lib/sparse_copy.h"

#define BLOCK_BYTES 512u /* of st_blocks */

struct owner_bytes {
	uint32_t uid;
	uint64_t bytes;
};

struct binary_store {
	char *directory;
	pthread_mutex_t lock; /* of the fields below */
	struct owner_bytes *owners; /* the untrusted ones */
	size_t owner_count, owner_capacity;
};

static int make_directory(const char *path, struct error *error)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return error_errno(error, errno, "%s", path);
	return 0;
}

static int make_root(const char *directory, struct error *error)
{
	char path[PATH_MAX];
	int err;

	if ((size_t)snprintf(path, sizeof(path), "%s/.build-id", directory) >= sizeof(path))
		return error_errno(error, ENAMETOOLONG, "%s", directory);
	err = make_directory(directory, error);
	return err ? err : make_directory(path, error);
}

struct binary_store *binary_store_new(const char *directory, struct error *error)
{
	int err = make_root(directory, error);
	struct binary_store *store;

	if (err) {
		errno = -err;
		return NULL;
	}
	store = calloc(1, sizeof(*store));
	if (store)
		store->directory = strdup(directory);
	if (!store || !store->directory) {
		free(store);
		error_errno(error, ENOMEM, "%s", directory);
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&store->lock, NULL);
	return store;
}

void binary_store_free(struct binary_store *store)
{
	if (!store)
		return;
	pthread_mutex_destroy(&store->lock);
	free(store->owners);
	free(store->directory);
	free(store);
}

/* Makes the parent directories of `path` below the store. */
static int make_parents(const struct binary_store *store, char *path, struct error *error)
{
	int err = 0;

	for (char *slash = path + strlen(store->directory) + 1;
	     !err && (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		err = make_directory(path, error);
		*slash = '/';
	}
	return err;
}

static int binary_store_path(const struct binary_store *store, const char *build_id,
			     const struct file_owner *owner, char path[PATH_MAX],
			     struct error *error)
{
	char place[64] = "";
	int length;

	if (!owner->is_trusted && owner->uid == FILE_UID_ANY)
		snprintf(place, sizeof(place), "/.untrusted/any");
	else if (!owner->is_trusted)
		snprintf(place, sizeof(place), "/.untrusted/%" PRIu32, owner->uid);
	length = snprintf(path, PATH_MAX, "%s%s/.build-id/%.2s/%s", store->directory, place,
			  build_id, build_id + 2);
	if (length < 0 || length >= PATH_MAX)
		return error_errno(error, ENAMETOOLONG, "%s", store->directory);
	return make_parents(store, path, error);
}

/* Charges bytes to an owner. Returns 0, -EDQUOT or -ENOMEM. */
static int charge_locked(struct binary_store *store, uint32_t uid, uint64_t bytes)
{
	struct owner_bytes *owner = NULL;

	for (size_t i = 0; i < store->owner_count && !owner; i++) {
		if (store->owners[i].uid == uid)
			owner = &store->owners[i];
	}
	if (!owner) {
		if (array_reserve(&store->owners, &store->owner_capacity, store->owner_count, 1,
				  sizeof(*owner)))
			return -ENOMEM;
		owner = &store->owners[store->owner_count++];
		*owner = (struct owner_bytes){.uid = uid};
	}
	if (bytes > BINARY_STORE_OWNER_BYTES_MAX - owner->bytes)
		return -EDQUOT;
	owner->bytes += bytes;
	return 0;
}

/* Gives back what was charged for a file that was not added. */
static void binary_store_refund(struct binary_store *store, const struct file_owner *owner,
				uint64_t bytes)
{
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < store->owner_count && !owner->is_trusted; i++) {
		if (store->owners[i].uid == owner->uid)
			store->owners[i].bytes -= bytes;
	}
	pthread_mutex_unlock(&store->lock);
}

static int binary_store_charge(struct binary_store *store, const struct file_owner *owner,
			       uint64_t bytes, const char *path, struct error *error)
{
	int err;

	if (owner->is_trusted)
		return 0;
	pthread_mutex_lock(&store->lock);
	err = charge_locked(store, owner->uid, bytes);
	pthread_mutex_unlock(&store->lock);
	if (err == -EDQUOT)
		return error_set(error, EDQUOT, "%s: binaries of one user may take %" PRIu64 " GiB",
				 path, BINARY_STORE_OWNER_BYTES_MAX >> 30);
	return err ? error_errno(error, -err, "%s", path) : 0;
}

static int copy_file(struct binary_store *store, const char *path, int fd,
		     const struct file_owner *owner, uint64_t *progress, struct error *error)
{
	uint64_t begin = __atomic_load_n(progress, __ATOMIC_RELAXED), charged, copied;
	struct atomic_file file;
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return error_errno(error, errno, "%s: can't read the binary", path);
	if (st.st_size > BINARY_STORE_BYTES_MAX)
		return error_set(error, EFBIG, "%s: more than %u GiB", path,
				 (unsigned int)(BINARY_STORE_BYTES_MAX >> 30));
	charged = (uint64_t)st.st_blocks * BLOCK_BYTES;
	err = binary_store_charge(store, owner, charged, path, error);
	if (err)
		return err;
	err = atomic_file_create(&file, path, error);
	if (err) {
		binary_store_refund(store, owner, charged);
		return err;
	}
	err = sparse_copy(file.fd, fd, st.st_size, progress);
	if (err)
		error_errno(error, -err, "%s: can't copy the binary", path);
	/* Its owner may have filled holes meanwhile. */
	copied = __atomic_load_n(progress, __ATOMIC_RELAXED) - begin;
	if (!err && copied > charged) {
		err = binary_store_charge(store, owner, copied - charged, path, error);
		charged = err ? charged : copied;
	}
	if (err)
		atomic_file_discard(&file);
	else
		err = atomic_file_commit(&file, error);
	if (err)
		binary_store_refund(store, owner, charged);
	return err;
}

int binary_store_add(struct binary_store *store, const char *build_id, int fd,
		     const struct file_owner *owner, uint64_t *progress, struct error *error)
{
	char path[PATH_MAX];
	int err;

	if (!build_id_valid(build_id))
		return error_set(error, EINVAL, "'%s' is no build ID", build_id);
	err = binary_store_path(store, build_id, owner, path, error);
	if (err)
		return err;
	return access(path, F_OK) ? copy_file(store, path, fd, owner, progress, error) : 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Profiles of successive windows of time in a directory, within limits of size and age. A window is
 * a pprof file (see window_name.h). Windows that grow old are merged into longer ones: of 10
 * minutes, then of an hour. Sums stay exact.
 *
 * Merged windows have their parts by service beside them (see parts.h), as far as the disk has
 * room.
 *
 * A window appears completely or not at all. A merged window lists its sources in comments, and
 * they are removed after it is on the disk: store_open() removes those that a crash has left. So
 * each stored sample is in one window, whenever the process or the machine stops.
 *
 * When the disk is full, the oldest windows make room for a new one; before them, those that begin
 * later than it. All that was removed is counted.
 *
 * One process writes to a store, which holds the lock of store_lock(). Others may read it.
 */
#ifndef STACKBEAT_STORE_STORE_H
#define STACKBEAT_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/window_name.h"

struct error;
struct profile;
struct services;
struct store;

struct store_limits {
	uint64_t bytes; /* of all windows */
	int64_t age_s; /* older windows are removed, see store_maintain() */
	int64_t merge_age_s[2]; /* older windows are merged to 10 minutes, and to an hour */
};

struct store_window {
	struct window_name name;
	uint64_t size; /* bytes, with the bytes of its parts.h */
};

/* Counts since store_open(). */
struct store_counts {
	uint64_t written; /* new windows */
	uint64_t merged; /* windows that are part of a longer one now */
	uint64_t removed_old, removed_size, removed_full; /* windows: age, size, full disk */
	uint64_t dropped; /* new windows for which the disk had no room */
	uint64_t unreadable; /* windows that could not be read, for a merge */
};

#define STORE_DAMAGED_MAX 64u

/*
 * Windows that could not be read, and slots whose windows could not be merged, which are not tried
 * again. All zero: none.
 */
struct store_damaged {
	struct window_name names[STORE_DAMAGED_MAX];
	size_t count;
	/*
	 * The slot that is being merged; `seconds` is 0: none. It stays where memory runs out, and
	 * where the process ends in the merge: the next one would end, too.
	 */
	struct window_name merging;
};

/* Gets the store before it begins with a slot. */
typedef void store_note_fn(const struct store *store, void *arg);

/* Members are public to be read. */
struct store {
	char *path;
	int directory, lock;
	struct store_limits limits;
	struct store_window *windows; /* by start, then the longest first */
	size_t count, capacity;
	uint64_t bytes; /* of all windows */
	struct store_counts counts;
	struct store_damaged damaged; /* of store_open_knowing(), and others since then */
	/* Private. */
	struct window_name last; /* that was written since store_open(); `seconds` is 0: none */
	bool leaves_last; /* store_leave_last() */
	store_note_fn *note; /* store_note_merges() */
	void *note_arg;
};

/*
 * Creates the directory of a store unless there is one, which keeps its owner. A new one becomes
 * the user `owner` and the group of the same number, unless that is -1. The owner of the directory
 * that it is in may put a link in its place meanwhile: that is not followed. Returns 0 or a
 * negative errno value.
 */
int store_create(const char *path, uid_t owner, struct error *error);

/*
 * Opens the store in the directory `path`, which must exist, and removes what a crash has left.
 * Returns 0 or a negative errno value. store_close() is to be called in both cases.
 */
int store_open(struct store *store, const char *path, const struct store_limits *limits,
	       struct error *error);

/*
 * As store_open(), but knows windows that could not be read, and slots that could not be merged, by
 * a process before.
 */
int store_open_knowing(struct store *store, const char *path, const struct store_limits *limits,
		       const struct store_damaged *damaged, struct error *error);

/*
 * Lists the windows of the store in the directory `path`, without rights to write there. Returns 0
 * or a negative errno value; store_close() is to be called in both cases.
 */
int store_list(struct store *store, const char *path, struct error *error);
void store_close(struct store *store);

/*
 * Takes the lock of a store for writing: a file of the user of this process, which no other user
 * can open. Returns an fd, which holds it until all its copies are closed, or a negative errno
 * value: -EBUSY if another process has it.
 */
int store_lock(const char *path, struct error *error);

/*
 * Writes a profile as a window of `seconds`, from profile->time_ns on. Removes the oldest windows
 * if the disk is full, as far as that can help. Returns 0 or a negative errno value with nothing
 * written.
 */
int store_add(struct store *store, const struct profile *profile, uint32_t seconds,
	      struct error *error);

/*
 * As store_add(), for a writer that may have stored the same samples before it crashed: replaces
 * the window with the same start, to the nanosecond, and length.
 */
int store_add_again(struct store *store, const struct profile *profile, uint32_t seconds,
		    struct error *error);

/*
 * As store_add(), or store_add_again() if `again`, for a profile in a file, which becomes the
 * window as it is: a gzipped profile from `start_ns` on. The offset of the file may change.
 */
int store_add_file(struct store *store, int file, int64_t start_ns, uint32_t seconds, bool again,
		   struct error *error);

/*
 * The window that was written last is not merged until the store is opened again: store_add_again()
 * replaces no window that has become a part of another one.
 */
void store_leave_last(struct store *store);

/*
 * Calls `note` with `arg` before each merge, when damaged.merging is its slot: what is copied then
 * serves store_open_knowing() if the merge ends the process.
 */
void store_note_merges(struct store *store, store_note_fn *note, void *arg);

/*
 * Removes windows beyond the limits, and merges the windows of one slot if some are old enough. No
 * clock that is wrong can empty the store: for their age, at most two windows are removed since
 * store_open(), and the windows of the last quarter of that age stay, of which a pause of more than
 * a 14th counts as that long. For their size, windows that begin an hour later than now are removed
 * first, and the window that was written since store_open() is not. A process that keeps reading
 * the list of the windows delays a merge. Returns 1 if it has merged, so that there may be more to
 * do; 0; or a negative errno value.
 */
int store_maintain(struct store *store, int64_t now_us, struct error *error);

/* What store_query() has read. */
struct store_query {
	size_t windows;
	size_t unreadable; /* windows that are not in the result */
	int64_t from_us, until_us; /* of these windows */
};

/*
 * Calls `add` with the profile of each window that has a part in the time from `from_us` to before
 * `until_us`, until it returns other than 0. Needs no rights to write, and may run while another
 * process writes. Windows that can't be read are skipped and counted. With a `service`, profiles
 * may lack the samples of others: parts of merged windows do, which are not read as a whole.
 * Returns 0, what `add` has returned, or another negative errno value.
 */
typedef int store_add_fn(const struct profile *profile, const struct window_name *name, void *arg);
int store_query(const char *path, int64_t from_us, int64_t until_us, const char *service,
		store_add_fn *add, void *arg, struct store_query *result, struct error *error);

/*
 * Calls `each` with the sums of all services of each window and its time, until it returns other
 * than 0; otherwise as store_query(). The time counts the samples: a window is longer than its
 * name says if the one before could not be written. The time of a merged window is known as far as
 * the name gives it.
 */
typedef int store_sums_fn(const struct services *services, int64_t start_us, int64_t end_us,
			  void *arg);
int store_query_sums(const char *path, int64_t from_us, int64_t until_us, store_sums_fn *each,
		     void *arg, struct store_query *result, struct error *error);

/* As store_query(), but adds the sums of all services. */
int store_query_services(const char *path, int64_t from_us, int64_t until_us,
			 struct services *services, struct store_query *result,
			 struct error *error);

#endif

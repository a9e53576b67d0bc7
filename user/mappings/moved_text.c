// SPDX-License-Identifier: GPL-2.0
#include "mappings/moved_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "lib/timed_call.h"
#include "mappings/opened_files.h"

#define COMPARE_TIMEOUT_NS NS_PER_SECOND
/* What is equal after this time is enough: pages may have to come from a disk. */
#define COMPARE_SLOW_NS (NS_PER_SECOND / 5)

/* What is compared, in a thread that may be left behind. */
struct text_comparison {
	int fd;
	struct moved_text text; /* reduced to what is equal */
	int64_t end_ns; /* when no other page is compared */
	bool is_varied; /* not all of it is the same byte */
	uint8_t memory[MOVED_TEXT_PAGE], file[MOVED_TEXT_PAGE];
};

/* Returns whether the page that begins at an address has the bytes of the file. */
static bool is_page_equal(struct text_comparison *comparison, uint64_t address)
{
	const struct moved_text *text = &comparison->text;
	const struct iovec local = {comparison->memory, MOVED_TEXT_PAGE},
			   remote = {(void *)(uintptr_t)address, MOVED_TEXT_PAGE};
	const off_t offset = (off_t)(text->offset + (address - text->address));
	const bool is_equal = pread(comparison->fd, comparison->file, MOVED_TEXT_PAGE, offset) ==
				      (ssize_t)MOVED_TEXT_PAGE &&
			      process_vm_readv((pid_t)text->pid, &local, 1, &remote, 1, 0) ==
				      (ssize_t)MOVED_TEXT_PAGE &&
			      memcmp(comparison->memory, comparison->file, MOVED_TEXT_PAGE) == 0;

	comparison->text.is_slow = now_ns(CLOCK_MONOTONIC) >= comparison->end_ns;
	if (is_equal && memcmp(comparison->file, comparison->file + 1, MOVED_TEXT_PAGE - 1) != 0)
		comparison->is_varied = true;
	return is_equal;
}

static void compare_text(void *arg)
{
	struct text_comparison *comparison = arg;
	struct moved_text *text = &comparison->text;
	const uint64_t page = text->address & -MOVED_TEXT_PAGE;
	uint64_t start = page, end = page, pages;

	for (pages = 0; pages <= MOVED_TEXT_PAGES_MAX && end < text->end && !text->is_slow;
	     pages++) {
		if (!is_page_equal(comparison, end))
			break;
		end += MOVED_TEXT_PAGE;
	}
	for (pages = 0;
	     end > page && pages < MOVED_TEXT_PAGES_MAX && start > text->start && !text->is_slow;
	     pages++) {
		if (!is_page_equal(comparison, start - MOVED_TEXT_PAGE))
			break;
		start -= MOVED_TEXT_PAGE;
	}
	text->start = start;
	text->end = end;
}

static void drop_comparison(void *arg)
{
	struct text_comparison *comparison = arg;

	close(comparison->fd);
	free(comparison);
}

/* Returns a descriptor of a file, or a negative errno value. */
static int open_text(const struct mapped_files *files, const struct mapped_file *file)
{
	struct error error;
	int fd = -ESTALE;

	for (unsigned int i = 0; fd < 0 && fd != -ENOENT && fd != -ETIMEDOUT; i++)
		fd = mapped_file_open_candidate(files, file, i, &error);
	return fd;
}

/* As moved_text_compare(), with a descriptor, which it closes, until a time. */
static int compare_with_file(int fd, int64_t end_ns, struct moved_text *text)
{
	struct text_comparison *comparison = malloc(sizeof(*comparison));
	int err;

	if (!comparison) {
		close(fd);
		return 0;
	}
	comparison->fd = fd;
	comparison->text = *text;
	comparison->is_varied = false;
	comparison->end_ns = end_ns;
	err = timed_call(compare_text, drop_comparison, comparison, COMPARE_TIMEOUT_NS);
	if (err == -ETIMEDOUT)
		return err;
	if (!err) {
		*text = comparison->text;
		err = comparison->is_varied && text->start < text->end;
	}
	drop_comparison(comparison);
	return err;
}

int moved_text_compare(const struct mapped_files *files, const struct mapped_file *file,
		       struct moved_text *text)
{
	/* To open the file may take as long as to read it. */
	const int64_t end_ns = now_ns(CLOCK_MONOTONIC) + COMPARE_SLOW_NS;
	const int fd = open_text(files, file);
	int result = fd == -ETIMEDOUT ? fd : 0;

	if (fd >= 0)
		result = compare_with_file(fd, end_ns, text);
	text->is_slow = now_ns(CLOCK_MONOTONIC) >= end_ns;
	return result;
}

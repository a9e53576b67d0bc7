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

#define TEXT_PAGE UINT64_C(4096)
#define COMPARE_TIMEOUT_NS NS_PER_SECOND

/* What is compared, in a thread that may be left behind. */
struct text_comparison {
	int fd;
	struct moved_text text; /* reduced to what is equal */
	bool is_varied; /* not all of it is the same byte */
	uint8_t memory[TEXT_PAGE], file[TEXT_PAGE];
};

/* Returns whether the page that begins at an address has the bytes of the file. */
static bool is_page_equal(struct text_comparison *comparison, uint64_t address)
{
	const struct moved_text *text = &comparison->text;
	const struct iovec local = {comparison->memory, TEXT_PAGE},
			   remote = {(void *)(uintptr_t)address, TEXT_PAGE};
	const off_t offset = (off_t)(text->offset + (address - text->address));

	if (pread(comparison->fd, comparison->file, TEXT_PAGE, offset) != (ssize_t)TEXT_PAGE ||
	    process_vm_readv((pid_t)text->pid, &local, 1, &remote, 1, 0) != (ssize_t)TEXT_PAGE ||
	    memcmp(comparison->memory, comparison->file, TEXT_PAGE) != 0)
		return false;
	if (memcmp(comparison->file, comparison->file + 1, TEXT_PAGE - 1) != 0)
		comparison->is_varied = true;
	return true;
}

static void compare_text(void *arg)
{
	struct text_comparison *comparison = arg;
	struct moved_text *text = &comparison->text;
	const uint64_t page = text->address & -TEXT_PAGE;
	uint64_t start = page, end = page, pages;

	for (pages = 0; pages <= MOVED_TEXT_PAGES_MAX && end < text->end; pages++) {
		if (!is_page_equal(comparison, end))
			break;
		end += TEXT_PAGE;
	}
	for (pages = 0; end > page && pages < MOVED_TEXT_PAGES_MAX && start > text->start;
	     pages++) {
		if (!is_page_equal(comparison, start - TEXT_PAGE))
			break;
		start -= TEXT_PAGE;
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

int moved_text_compare(const struct mapped_files *files, const struct mapped_file *file,
		       struct moved_text *text)
{
	const int fd = open_text(files, file);
	struct text_comparison *comparison = fd < 0 ? NULL : malloc(sizeof(*comparison));
	int err;

	if (!comparison) {
		if (fd >= 0)
			close(fd);
		return fd == -ETIMEDOUT ? fd : 0;
	}
	comparison->fd = fd;
	comparison->text = *text;
	comparison->is_varied = false;
	err = timed_call(compare_text, drop_comparison, comparison, COMPARE_TIMEOUT_NS);
	if (err == -ETIMEDOUT)
		return err;
	*text = comparison->text;
	err = !err && comparison->is_varied && text->start < text->end;
	drop_comparison(comparison);
	return err;
}

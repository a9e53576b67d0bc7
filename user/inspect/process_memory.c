// SPDX-License-Identifier: GPL-2.0
#include "inspect/process_memory.h"

#include <errno.h>

#include "lib/error.h"

/* Marks the places that `bytes` fill from `first` on. Returns the first place that they do not
 * fill.
 */
static size_t mark_read(struct memory_batch *batch, size_t first, size_t bytes)
{
	for (; first < batch->count && bytes >= batch->to[first].iov_len; first++) {
		bytes -= batch->to[first].iov_len;
		batch->was_read[first] = true;
	}
	return first;
}

int memory_batch_read(pid_t pid, struct memory_batch *batch)
{
	size_t at = 0;

	for (size_t i = 0; i < batch->count; i++)
		batch->was_read[i] = false;
	/* The call ends before the first place that can't be read. */
	while (at < batch->count) {
		ssize_t got = process_vm_readv(pid, batch->to + at, batch->count - at,
					       batch->from + at, batch->count - at, 0);

		if (got < 0 && errno != EFAULT)
			return errno == EPERM || errno == ESRCH ? -errno : -EPERM;
		at = mark_read(batch, at, got < 0 ? 0 : (size_t)got);
		at++;
	}
	return 0;
}

int process_memory_read(pid_t pid, uint64_t address, void *to, size_t size)
{
	const struct iovec local = {to, size}, remote = {(void *)(uintptr_t)address, size};
	ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (got < 0 && errno != EFAULT)
		return errno == EPERM || errno == ESRCH ? -errno : -EPERM;
	return got == (ssize_t)size ? 0 : -EFAULT;
}

int process_memory_explain(pid_t pid, int err, struct error *error)
{
	if (err == -ENOENT || err == -ESRCH)
		return error_set(error, ESRCH, "there is no process %d", pid);
	if (err == -EACCES || err == -EPERM)
		return error_set(
			error, EACCES,
			"the memory of process %d may not be read: it is another user's, or "
			"protected (see ptrace(2))",
			pid);
	return error_errno(error, -err, "the memory of process %d can't be read", pid);
}

/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * stackbeat: the interface between the kernel module and its readers.
 *
 * This file alone is enough to write a reader.
 *
 * An open file of /dev/stackbeat is a session. A session has an id, settings, and
 * one ring buffer for each CPU. The device carries data only; settings go over
 * generic netlink (see the end of this file). A reader does this:
 *
 *	fd = open("/dev/stackbeat", O_RDWR | O_CLOEXEC);
 *	page = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, 0);
 *	check page->magic and page->abi; page->session is the id
 *	netlink STACKBEAT_CMD_SESSION_SET: rate, filter, ring size
 *	for each online CPU:
 *		map its consumer page and its ring (see "Offsets")
 *	netlink STACKBEAT_CMD_SESSION_SET: state = STACKBEAT_STATE_RUNNING
 *	map the metadata ring (see "Address spaces")
 *	poll(fd), drain the rings, advance the tails; repeat
 *	close(fd): stops the timers and frees the rings
 *
 * open() fails with
 *	EACCES	the device node's permissions (mode 0600) deny access
 *	EPERM	CAP_PERFMON in the initial user namespace is missing
 *	EUSERS	STACKBEAT_SESSIONS_MAX sessions are open; or, without CAP_PERFMON,
 *		STACKBEAT_RESTRICTED_USER_SESSIONS_MAX sessions of the same user or
 *		STACKBEAT_RESTRICTED_SESSIONS_MAX sessions of all users; or twice as many of
 *		these are closed but not freed yet: retry in this case
 *	EOPNOTSUPP
 *		the kernel can't be probed for new mappings by a kprobe; or kprobes are
 *		disabled (sysctl kernel.ftrace_enabled, kprobes/enabled in debugfs), which
 *		is tested by a short-lived executable mapping in the opener; or the kernel
 *		has no tracepoints for task switches, softirqs and forks
 *	ENOMEM	no memory; or RLIMIT_MEMLOCK of a user without CAP_IPC_LOCK is exceeded:
 *		the rings of all sessions of the user count against it, except rings of
 *		one session with the defaults
 *
 * If the module parameter `unprivileged` is set, a user with read and write access
 * to the device node needs no CAP_PERFMON. The sessions of such a user are
 * restricted: they sample only processes of the same user (same user id, no
 * capabilities that the opener lacks, dumpable, and with an id in the opener's pid
 * namespace), and only the user part of their stacks: its addresses, and registers and
 * memory by STACKBEAT_A_STACK_COPY, as perf does for the same processes, and memory by
 * STACKBEAT_A_GOROUTINES. Only the same user, and users with CAP_PERFMON, may configure or
 * list them. Their rate is at most STACKBEAT_RESTRICTED_RATE_MAX, because their ticks
 * interrupt any task.
 *
 * Process and thread ids are valid in the initial pid namespace. A restricted
 * session reports, in its records and over netlink, ids of its opener's pid
 * namespace, and 0 for a process that has none there (a parent outside). It reports
 * control group paths from the root of its opener's control group namespace, and
 * file paths from the opener's root directory (which differs after chroot), or an
 * empty path for a file that is not below it.
 *
 * Ticks
 * -----
 * A running session has a timer on each sampled CPU. A tick is an interrupt of this
 * timer. Ticks come at the session's rate. By default the intervals between them are
 * random, uniformly distributed between half a period and one and a half periods, so
 * that no program can run in step with them; STACKBEAT_A_NO_JITTER makes them equal.
 * In both cases the weight of a sample is the mean period, plus the periods of the
 * ticks missed before it: the expected value of a sum of weights is the CPU time
 * spent there.
 *
 * Idle CPUs have no ticks: the timer is cancelled at the switch to the idle task,
 * before the cpuidle governor looks for the next timer. It is armed again, for the
 * time at which it would be due by then, at the switch to another task. It is armed
 * too while a softirq interrupts the idle task. (If a CPU goes idle so often that
 * this parking of timers would take a quarter of the budget, the timer stays armed.)
 *
 * All sessions together may spend STACKBEAT_A_BUDGET of a CPU's time on its ticks,
 * measured over STACKBEAT_BUDGET_WINDOW_NS. This overhead includes the timer
 * interrupts, parking the timers of an idle CPU, and reading the mappings of
 * processes that were first sampled on this CPU. If the overhead exceeds
 * the budget of a session, and this session's share is not below the average, its
 * rate on that CPU is halved (throttled), again and again, or at once as often as
 * all ticks would require if none were missed, and is doubled again once
 * the session spends less than a quarter of its share of the budget. Weights follow
 * the rate. Changing other settings, stopping and starting do not undo throttling.
 * Mapping events, and reading mappings again, may each take half of the budget of
 * one CPU; beyond that they are deferred.
 *
 * Offsets
 * -------
 * The mmap offset selects the memory to map; every mapping is MAP_SHARED:
 *
 *	0				the session page, one page, read-only
 *	STACKBEAT_OFFSET_CPU(n)		the consumer page of CPU n, one page,
 *					writable; only this page and the consumer
 *					page of the metadata ring are writable
 *	STACKBEAT_OFFSET_CPU(n) + page	the producer page of CPU n, followed by
 *					the data of its ring: one page + ring
 *					size bytes, read-only
 *	STACKBEAT_OFFSET_META		the consumer page of the metadata ring
 *	STACKBEAT_OFFSET_META + page	its producer page and its data: one page +
 *					STACKBEAT_META_RING_SIZE bytes, read-only
 *
 * The ring of an online CPU is allocated when it is first mapped or when the session
 * is started. A CPU that comes online in a running session gets its ring then, and
 * the counter `rings` in the session page is incremented: a reader checks the counter
 * when it drains the rings, and maps the new rings.
 *
 * mmap() fails with
 *	EINVAL	offset or length is none of the above, or MAP_PRIVATE
 *	EPERM	PROT_WRITE or PROT_EXEC is not allowed (mprotect() fails with EACCES)
 *	ENXIO	no such CPU, or the CPU is not online and has no ring
 *	EBUSY	the memory is mapped already; it can be mapped once at a time
 *	ENOMEM
 * A mapping can't be split, grown or duplicated and is not inherited by fork().
 *
 * Rings
 * -----
 * Head and tail are byte counts that only grow; modulo the ring size they are
 * positions in the data. The kernel writes records at the head, and publishes them
 * with a store-release to `head` in the producer page. The reader loads `head` with
 * acquire, reads the records between tail and head, and frees their space with a
 * store-release to `tail` in the consumer page.
 *
 * Records are 8-byte aligned and contiguous: if a record does not fit before the end
 * of the data, a STACKBEAT_RECORD_PAD before it fills the rest. A sample is written
 * only if the ring has room for the largest sample that the session's settings allow;
 * otherwise the sample is lost and counted, and the next sample written has the number
 * of samples lost before it.
 *
 * A tail beyond the head, or further behind the head than the ring size, is invalid:
 * samples are lost and counted as STACKBEAT_S_LOST_BAD_TAIL until the tail is valid.
 *
 * Address spaces
 * --------------
 * The metadata ring describes the user addresses of samples. It has the same layout
 * as the ring of a CPU, but no record is ever lost because the ring is full: records
 * that do not fit wait in the kernel.
 *
 * A sample with user memory has the id of its address space (`address_space`) and
 * the `generation` of the address space. An id is never used twice in a session. The
 * generation is incremented by each change of the executable mappings, and when the
 * mappings are read again. exec and fork create a new address space. One process may
 * have several address spaces, even at the same time and with the same contents. The
 * id 0 means that the address space is unknown (see
 * STACKBEAT_S_SAMPLES_WITHOUT_ADDRESS_SPACE).
 *
 * After the first sample of an address space the kernel soon reads its mappings, even
 * if the process has ended by then, and writes
 *
 *	STACKBEAT_RECORD_FILE		for each mapped file that is new
 *	STACKBEAT_RECORD_ADDRESS_SPACE	the process and the number of mapping records
 *					that follow
 *	STACKBEAT_RECORD_MAPPING	for each executable mapping, with the generation
 *					of the address space record: a snapshot
 *
 * From then on, each change (mmap or mprotect that makes memory executable, mremap
 * that moves executable memory) is a mapping event: a STACKBEAT_RECORD_MAPPING with
 * the flag STACKBEAT_MAPPING_EVENT. From its generation on, its range holds this
 * mapping and no longer any earlier one. munmap is not reported: no code can run
 * there afterwards.
 *
 * Let R be the generation of the address space record. At generation g, an address
 * belongs to
 *	g >= R	the latest mapping event up to g, but after R, with this address in its
 *		range; if there is none, the mapping in the snapshot
 *	g < R	the latest mapping event up to g with this address in its range; if there
 *		is none, the mapping in the snapshot, unless a mapping event after g (up
 *		to R) has this address in its range: then the earlier mapping is unknown
 * Mapping events may arrive in any order, and before the address space record.
 *
 * poll() also returns EPOLLIN if half of the metadata ring is full, or, while the ring
 * is mapped, if it has held unread records for a quarter of a second.
 *
 * A mapping event that could not be recorded (too many at once) is counted as
 * STACKBEAT_S_MMAP_EVENTS_LOST. The mappings are read again at one of the next samples
 * (after 0.1 s; the delay doubles with each further loss, up to 10 s), which gives
 * another address space record. Its field `gap` is the first generation with an event
 * that may be missing. Between `gap` and its generation R, an address is known only if
 * the mapping before `gap` and the mapping at R are the same; a mapping that came and
 * went in between can't be detected.
 *
 * Root can switch all probes of the kernel off while sessions are open (sysctl
 * kernel.ftrace_enabled, kprobes/enabled in debugfs): then there are no mapping events,
 * and nothing is counted as lost. The module tests the probe when the first session is
 * started, and each STACKBEAT_MMAP_PROBE_TEST_SECONDS from then on. A test that finds the
 * probe off is counted as STACKBEAT_S_MMAP_EVENTS_OFF, and each address space gets a
 * generation without an event, at which a gap begins; and again when the probe is on. So
 * the mappings are read again while the probe is off and once more afterwards. What was
 * mapped since the test before is wrong or unknown until then. An interruption between
 * two tests is not noticed.
 *
 * There may be no next sample. But the first generation is 1, and each later
 * generation that is in no gap has one mapping event: if it does not arrive, it was
 * lost, and nothing is known from that generation on up to the generation of the next
 * snapshot, if there is one. If an event up to the first R is lost, the snapshot does
 * not show the mappings before it.
 *
 * Records of an address space may arrive before or after the samples with its id. The
 * session page's `metadata_pending` is not 0 while metadata of samples in the rings is
 * still to be written: after a stop, a reader drains the metadata ring until it is 0,
 * and once more.
 *
 * Mapped files
 * ------------
 * The session holds a reference to each mapped file, so that a reader can open the
 * file that was mapped even if its path now names another file or none:
 *
 *	file_fd = ioctl(fd, STACKBEAT_IOC_FILE_OPEN, &file);
 *	ioctl(fd, STACKBEAT_IOC_FILE_RELEASE, &file);
 *
 * `file` is a __u64, the id in the records. STACKBEAT_IOC_FILE_OPEN returns a new
 * read-only, close-on-exec, nonblocking file descriptor, opened with the credentials
 * of the session's opener. It fails with
 *	ENOENT	there is no file with this id, or it was released
 *	EACCES	the opener may not read the file; or, in a restricted session, may not
 *		search a directory on its path; or the file never had a name (memfd,
 *		shared memory) and belongs to another user, and the opener lacks
 *		CAP_SYS_PTRACE
 *	EAGAIN	a process has a lease of the file (fcntl(2)): the call does not wait
 *	EMFILE, ENFILE, ENOMEM, and any error of opening the file
 * STACKBEAT_IOC_FILE_RELEASE drops the reference. A reader releases a file as soon as
 * it is done with it, since a held file keeps its file system busy. From then on the
 * id can't be opened, though records that still wait may have it. If a mapping of the
 * same file is read later, the file gets a new id. Fails with ENOENT as above.
 * Closing the session releases all files.
 *
 * Unwind tables
 * -------------
 * Code without frame pointers is unwound by the unwind tables of its files
 * (stackbeat_unwind.h). A reader compiles the table of a file from its call frame
 * information, and passes it to the module:
 *
 *	ioctl(fd, STACKBEAT_IOC_UNWIND_TABLE, &push);
 *
 * From then on, all processes that map the file are unwound by it. Where a file has no
 * table, and for anonymous memory, frame pointers are followed. Sessions with
 * CAP_PERFMON share tables; tables of a restricted session serve this session only. The
 * module keeps a table after its file was released, until the session is closed or the
 * memory is wanted for another table, and recognizes the file by device (with the
 * kernel's sequence number of the disk, which differs for each image on a loop device),
 * inode, generation, size and time of change: a file record has the flag
 * STACKBEAT_FILE_UNWIND_TABLE if the table is there. (Where users choose all of these,
 * that is in FUSE and in file systems mounted in user namespaces, and before Linux 5.15
 * on loop devices and removable disks, a file is recognized only until it is released.)
 * The ioctl fails with
 *	ENOENT	there is no file with this id, or it was released
 *	EEXIST	the file has a table already, or the reader has said that it has none
 *	EINVAL	the table is invalid
 *	ESTALE	the file is part of an overlay file system, and was changed after it was mapped:
 *		STACKBEAT_IOC_FILE_OPEN opens the changed copy, which is not what is mapped
 *	ENOSPC	the tables would exceed the module parameter unwind_memory; or, in a
 *		restricted session, 8 MiB; or the tables of files of one owner but root would
 *		exceed half of unwind_memory, or the tables of all owners but root three quarters
 *	EFAULT, ENOMEM
 *
 * Until the table of a file is there (the first samples of a program, or after
 * dlopen()), a sample that needs it can carry a copy of the registers and of the top of
 * the user stack (STACKBEAT_A_STACK_COPY), by which the reader can unwind it: the record
 * that follows the sample. Copies use half of a ring at most, so that they cost no samples: a
 * sample whose copy does not fit there has none.
 *
 * A program may move its code to anonymous memory at the same addresses, for huge pages. A reader
 * that has found that a range of anonymous memory has the bytes of a file, which is still mapped
 * beside it, passes that to the module, which then unwinds the range by the table of the file:
 *
 *	ioctl(fd, STACKBEAT_IOC_MOVED_TEXT, &moved);
 *
 * until a mapping event replaces the range, or the mappings are read again. Fails with
 *	ENOENT	there are no mappings of the address space
 *	ESTALE	they are at another generation: retry if the range is the same then
 *	EINVAL	the range is empty or not of whole pages, `reserved` is not 0, not all of the range is
 *		anonymous memory, or `beside` is in no mapping of a file (the vDSO is none)
 *	EFAULT, ENOMEM
 *
 * Functions of kernel modules that are gone
 * -----------------------------------------
 * When a reader looks for the names of kernel addresses in /proc/kallsyms, functions that were sampled
 * may be gone: of a module's init sections, which the kernel frees once the module is initialized, and
 * of modules that were unloaded. And other functions can be at their addresses. While sessions are open
 * that may see kernel addresses, the module keeps a copy of the symbols of modules that come, and of other
 * ones when they go. A module has two parts: its init sections, and what else it has. To read the part
 * with the lowest serial that is not below `serial`:
 *
 *	ioctl(fd, STACKBEAT_IOC_MODULE_SYMBOLS, &symbols);
 *
 * It writes `size` bytes (0: no functions) to `buffer`: the functions, of the types t, T, w and W, as lines
 * of the format of /proc/kallsyms,
 *	ADDRESS TYPE NAME<tab>[MODULE]
 * in no order, without a NUL; the last line is no function, but has the end of the last one, the type A
 * and the name STACKBEAT_MODULE_SYMBOLS_END. The next part is found by a `serial` higher by 1. The call
 * fails with
 *	ENOENT	there is no such part; only `changes` and `dropped` are set
 *	ENOSPC	the part needs more bytes than `size`; all is set as without an error, but nothing is
 *		written to the buffer
 *	EPERM	the session is restricted, or has no kernel part
 *	EFAULT	bytes of the buffer may be written
 * A sample with an address from `start` to before `end`, and a time from `came` to `gone`, was in the part.
 * A reader that reads the parts after the head of a ring knows the parts of all samples below this head.
 * It needs to read them again only if `changes` has changed.
 *
 * Of all modules in sum, at most STACKBEAT_MODULE_SYMBOLS_MAX parts and STACKBEAT_MODULE_SYMBOLS_BYTES are
 * kept: new ones replace the oldest. All are freed when the last such session is closed; so parts may be
 * older than the reader's session. A kernel without CONFIG_KALLSYMS has none.
 */
#ifndef _UAPI_STACKBEAT_H
#define _UAPI_STACKBEAT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define STACKBEAT_DEVICE "/dev/stackbeat"

/* Incremented by every incompatible change of this file. */
#define STACKBEAT_ABI 8
#define STACKBEAT_MAGIC 0x7461656265747362ULL

/* Limits and defaults. */
#define STACKBEAT_RATE_MIN 1u /* Hz */
#define STACKBEAT_RATE_MAX 20000u /* Hz; default and bound of the module parameter rate_max */
#define STACKBEAT_RATE_DEFAULT 99u /* Hz; rate_max if that is lower */
#define STACKBEAT_KERNEL_FRAMES_MAX 127u
#define STACKBEAT_USER_FRAMES_MAX 1023u
#define STACKBEAT_USER_FRAMES_DEFAULT 255u
#define STACKBEAT_RING_SIZE_MIN (64u << 10) /* bytes */
#define STACKBEAT_RING_SIZE_MAX (64u << 20) /* bytes */
#define STACKBEAT_RING_SIZE_DEFAULT (512u << 10) /* bytes */
#define STACKBEAT_SESSIONS_MAX 64u
#define STACKBEAT_RESTRICTED_USER_SESSIONS_MAX 4u /* restricted sessions of one user */
#define STACKBEAT_RESTRICTED_SESSIONS_MAX 32u /* restricted sessions of all users */
#define STACKBEAT_RESTRICTED_RATE_MAX 4000u /* Hz; highest rate of a restricted session */
#define STACKBEAT_PIDS_MAX 1024u /* process ids in one filter; same limit for thread ids */
#define STACKBEAT_CGROUPS_MAX 16u /* control groups in one filter */
#define STACKBEAT_COMMS_MAX 16u /* thread names in one filter */
#define STACKBEAT_CGROUP_LEVELS_MAX 64u /* levels checked by a filter, from the root */
#define STACKBEAT_FILTERS_WAITING_MAX 16u /* replaced filters not freed yet, of a session */
#define STACKBEAT_COMM_SIZE 16u /* bytes of a thread name with its NUL */
#define STACKBEAT_BUDGET_MIN 1u /* thousandths of a CPU */
#define STACKBEAT_BUDGET_MAX 500u
#define STACKBEAT_BUDGET_DEFAULT 50u
#define STACKBEAT_BUDGET_WINDOW_NS 100000000u
#define STACKBEAT_CPULIST_MAX 4096u /* bytes of a CPU list, with its NUL */
/*
 * Maximum number of descents of the frame pointer in a user stack. The frame pointer
 * ascends from frame to frame within a stack, and may descend when unwinding passes
 * from one stack to another (signal stacks, Go's system stacks).
 */
#define STACKBEAT_FP_DESCENTS_MAX 16u

#define STACKBEAT_MMAP_PROBE_TEST_SECONDS 5u /* between two tests of the probe of mappings */
#define STACKBEAT_META_RING_SIZE (256u << 10) /* bytes */
/* Tracked at the same time by a restricted session; others track as many as the machine runs. */
#define STACKBEAT_ADDRESS_SPACES_MAX 8192u
#define STACKBEAT_ADDRESS_SPACES_PENDING_MAX 256u /* of one CPU, not read yet */
#define STACKBEAT_MAPPINGS_MAX 16384u /* executable mappings read of one address space */
#define STACKBEAT_MAPPINGS_WAITING_MAX 65536u /* mappings waiting for room in the ring */
#define STACKBEAT_FILES_MAX 4096u /* mapped files held by a session */
#define STACKBEAT_BUILD_ID_MAX 64u /* bytes */
#define STACKBEAT_STACK_COPY_MAX (64u << 10) /* bytes, a multiple of 8 */
#define STACKBEAT_PATH_MAX 4096u /* bytes of a path, with its NUL */
#define STACKBEAT_MODULE_SYMBOLS_MAX 1024u /* parts of modules */
#define STACKBEAT_MODULE_SYMBOLS_BYTES (8u << 20)
#define STACKBEAT_MODULE_SYMBOLS_END "_end"
#define STACKBEAT_MODULE_NAME_SIZE 64u /* bytes of the name of a module, with its NUL */

#define STACKBEAT_OFFSET_SESSION 0ULL
#define STACKBEAT_OFFSET_META (1ULL << 31)
#define STACKBEAT_OFFSET_CPU(cpu) (((__u64)(cpu) + 1) << 32)

/* The session page. */
struct stackbeat_session_page {
	__u64 magic; /* STACKBEAT_MAGIC */
	__u32 abi; /* STACKBEAT_ABI of the module */
	__u32 session; /* id of this session, never used twice */
	__u32 cpus; /* CPUs are numbered 0 to cpus - 1 */
	__u32 rings; /* number of rings, incremented when a ring is allocated */
	__u32 ring_size; /* bytes of data of each CPU's ring; constant once rings is not 0 */
	__u32 metadata_pending; /* not 0: metadata of samples in the rings is not written yet */
};

/* The consumer page: written by the reader. */
struct stackbeat_consumer_page {
	__u64 tail; /* bytes consumed */
};

/* The producer page: written by the kernel. The data begins one page after it. */
struct stackbeat_producer_page {
	__u64 head; /* bytes produced */
	__u32 size; /* bytes of data, a power of two */
	__u32 cpu; /* UINT32_MAX for the metadata ring */
};

enum stackbeat_record_type {
	STACKBEAT_RECORD_PAD = 1, /* padding: skip `size` bytes */
	STACKBEAT_RECORD_SAMPLE = 2, /* struct stackbeat_sample */
	/* In the metadata ring: */
	STACKBEAT_RECORD_ADDRESS_SPACE = 3, /* struct stackbeat_address_space */
	STACKBEAT_RECORD_MAPPING = 4, /* struct stackbeat_mapping */
	STACKBEAT_RECORD_FILE = 5, /* struct stackbeat_file */
	/* In the ring of a CPU: */
	STACKBEAT_RECORD_STACK = 6, /* struct stackbeat_stack */
};

/* The header of each record. A reader skips records of unknown type by their size. */
struct stackbeat_record {
	__u16 type; /* enum stackbeat_record_type */
	__u16 flags; /* depends on the type */
	__u32 size; /* bytes, including this header; a multiple of 8 */
};

/* Flags of a STACKBEAT_RECORD_SAMPLE. */
#define STACKBEAT_SAMPLE_KERNEL (1u << 0) /* the CPU was in kernel mode */
#define STACKBEAT_SAMPLE_COMPAT (1u << 1) /* the user part is of a 32-bit program */
/*
 * The next record of this ring is a STACKBEAT_RECORD_STACK of this sample: an unwind table that the
 * user part needs was missing, so its frames follow the frame pointers; unless the record has
 * the flag STACKBEAT_STACK_EXTRA
 */
#define STACKBEAT_SAMPLE_STACK (1u << 2)
/*
 * Words behind the frames, in the order of these flags: what the structures of the runtime, in the
 * memory of the program, say of the goroutine that the thread ran (see STACKBEAT_A_GOROUTINES). The
 * program can make them anything.
 */
#define STACKBEAT_SAMPLE_GOROUTINE (1u << 3) /* its id */
/* The return address of the go statement that has created it; of the runtime, for the first one. */
#define STACKBEAT_SAMPLE_GO_CREATOR (1u << 4)
#define STACKBEAT_SAMPLE_GO_LABELS (1u << 5) /* its labels: a struct stackbeat_go_labels */

/* Why unwinding of a part of a stack stopped. */
enum stackbeat_unwind_stop {
	STACKBEAT_STOP_OUTERMOST = 0, /* the outermost frame was reached */
	/*
	 * The depth limit was reached; there are more frames. User part: or the limit of work. A stack
	 * that unwind tables find has at most 1,100 frames, less four for each frame whose rule, or
	 * whose mapping, is not in the caches of the CPU, and for each call between code with and code
	 * without a table
	 */
	STACKBEAT_STOP_MAX_DEPTH = 1,
	STACKBEAT_STOP_FAULT = 2, /* memory could not be read */
	/*
	 * User part: the frame pointer or the return address is invalid. Kernel part: unwinding
	 * failed; all frames are addresses of kernel text, modules or generated code.
	 * Return addresses that uretprobes have replaced are the original ones; but not if an
	 * interrupt or exception in user mode was sampled on a kernel before 6.13: there the
	 * trampoline ends a stack that is unwound by tables, and is a frame of other stacks.
	 * Those that the function graph tracer and kretprobes have replaced are found by the
	 * kernel's unwinder.
	 */
	STACKBEAT_STOP_BAD_FRAME = 3,
	STACKBEAT_STOP_NO_USER_MEMORY = 4, /* no frames: a kernel thread has no user memory */
	STACKBEAT_STOP_EXCLUDED = 5, /* no frames: STACKBEAT_A_PARTS excludes this part */
	STACKBEAT_STOP_USER_MODE = 6, /* no frames: the CPU was not in kernel mode */
	/*
	 * No frames: execve() has replaced the memory, but the registers still belong to
	 * the old program
	 */
	STACKBEAT_STOP_EXEC = 7,
	/* User part: the unwind table has no rule for the address of the last frame. */
	STACKBEAT_STOP_NO_RULE = 8,
	/*
	 * User part: the mapping of the last frame's address has no unwind table, and the frame
	 * pointer is invalid
	 */
	STACKBEAT_STOP_NO_TABLE = 9,
	STACKBEAT_STOP_COUNT
};

struct stackbeat_sample {
	struct stackbeat_record record; /* flags: STACKBEAT_SAMPLE_* */
	__u64 time; /* CLOCK_MONOTONIC, ns, of the interrupt */
	/*
	 * ns that this sample represents: the mean period, plus the periods of the ticks
	 * missed before it
	 */
	__u64 weight;
	__u32 cpu;
	__u32 pid; /* process (thread group) id */
	__u32 tid; /* thread id */
	__u32 lost; /* samples lost on this CPU since the last sample written */
	/*
	 * Ticks missed before this sample because the timer was late; their periods are
	 * part of the weight
	 */
	__u32 missed;
	__u16 kernel_frames; /* number of kernel frames, first in frames[] */
	__u16 user_frames; /* number of user frames, after the kernel frames in frames[] */
	__u8 kernel_stop; /* enum stackbeat_unwind_stop */
	__u8 user_stop; /* enum stackbeat_unwind_stop */
	/* Number of user frames that an unwind table found; frame pointers found the others. */
	__u16 table_frames;
	__u32 generation; /* of the address space */
	__u64 address_space; /* id; 0: none, or unknown */
	/*
	 * Hash of all frames. Equal stacks have equal hashes. If the kernel uses SSE4.2, the hash is
	 * CRC-32C of frames[], with the initial value 0 and without final inversion: two stacks that
	 * differ, and that nobody has chosen, have the same hash with a probability of about 2^-32.
	 * Otherwise, the bits are mixed weakly. The algorithm may change: a reader that relies on it
	 * verifies hashes
	 */
	__u64 hash;
	char comm[16]; /* thread name, NUL-terminated */
	/*
	 * Each part is leaf first. The first kernel frame, or in user mode the first user
	 * frame, is the interrupted address. In kernel mode the first user frame is the
	 * address to which the kernel will return. All other frames are return addresses:
	 * the call is before them. Where a signal handler, or a function whose call Go's
	 * runtime has made up, was found by an unwind table, the frame that it has
	 * interrupted has the address of its instruction + 1; so has a kernel frame that
	 * an interrupt or an exception has interrupted.
	 */
	__u64 frames[];
};

/* Part of the labels is left out: they exceed the limits below, or could not be read. */
#define STACKBEAT_GO_LABELS_CUT (1u << 0)

/*
 * The labels of a goroutine (runtime/pprof.SetGoroutineLabels()), in no certain order. Keys and values
 * are any bytes.
 */
struct stackbeat_go_labels {
	__u32 size; /* bytes of all of it, with padding by zeros to a multiple of 8 */
	__u16 count; /* number of labels */
	__u16 flags; /* STACKBEAT_GO_LABELS_CUT */
	/* For each label: bytes of its key, bytes of its value, the key, the value. */
	__u8 bytes[];
};

#define STACKBEAT_GO_LABELS_COUNT_MAX 16u
#define STACKBEAT_GO_LABELS_SIZE_MAX 512u /* of struct stackbeat_go_labels */
#define STACKBEAT_GO_LABEL_KEY_MAX 63u /* bytes; a longer key is cut */
#define STACKBEAT_GO_LABEL_VALUE_MAX 127u /* bytes; a longer value is cut */

/* Registers in the order of their DWARF numbers: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15. */
#define STACKBEAT_REGISTERS 17u
#define STACKBEAT_REGISTER_RBX 3u
#define STACKBEAT_REGISTER_RBP 6u
#define STACKBEAT_REGISTER_RSP 7u
#define STACKBEAT_REGISTER_RIP 16u

/* Flags of a STACKBEAT_RECORD_STACK. */
/* No table was missing: STACKBEAT_A_STACK_COPY_EVERY has asked for the copy. */
#define STACKBEAT_STACK_EXTRA (1u << 0)

/* The user registers and the top of the user stack of the sample in the record before. */
struct stackbeat_stack {
	struct stackbeat_record record; /* flags: STACKBEAT_STACK_* */
	__u64 registers[STACKBEAT_REGISTERS];
	__u64 size; /* bytes of stack; the rest of the record is padding */
	__u8 bytes[]; /* from address rsp on */
};

/* An address space and its process. */
struct stackbeat_address_space {
	struct stackbeat_record record; /* flags: 0 */
	__u64 address_space; /* id, never used twice in a session */
	__u64 start_time; /* of the process, CLOCK_BOOTTIME, ns */
	__u64 cgroup; /* id of the process's version 2 control group; 0: none */
	__u32 generation; /* generation at which the mappings were read */
	__u32 gap; /* first generation with an event that may be missing; 0: no gap */
	__u32 pid;
	__u32 ns_pid; /* process id in the process's own pid namespace */
	__u32 parent; /* process id of the parent */
	__u32 mappings; /* number of mapping records that follow */
	__u32 mappings_dropped; /* beyond STACKBEAT_MAPPINGS_MAX, or for lack of memory or room */
	__u32 reserved; /* 0 */
	char comm[16]; /* name of the process's first thread at the sample */
	/*
	 * Path from the root of the hierarchy (in a restricted session: of the opener's
	 * namespace), NUL-terminated, padded with NULs; "": none
	 */
	char cgroup_path[];
};

/* Flags of a STACKBEAT_RECORD_MAPPING. */
#define STACKBEAT_MAPPING_EVENT (1u << 0) /* a mapping event, see "Address spaces" */
#define STACKBEAT_MAPPING_MAIN_BINARY (1u << 1) /* of the program's executable file */
#define STACKBEAT_MAPPING_VDSO (1u << 2) /* the kernel's vDSO */
#define STACKBEAT_MAPPING_VADDR (1u << 3) /* `vaddr` is valid */

/* An executable mapping. */
struct stackbeat_mapping {
	struct stackbeat_record record; /* flags: STACKBEAT_MAPPING_* */
	__u64 address_space;
	__u64 start, end; /* address range; end is exclusive */
	__u64 offset; /* file offset of start, bytes; 0 without a file */
	__u64 vaddr; /* ELF virtual address of start, from its load segment */
	__u64 file; /* file id; 0: anonymous memory, or STACKBEAT_S_MAPPINGS_WITHOUT_FILE */
	__u32 generation;
	__u32 reserved; /* 0 */
};

/* Flags of a STACKBEAT_RECORD_FILE. */
/*
 * The build ID and segments could not be read without waiting for a disk or a network: a reader
 * may find them in the file itself.
 */
#define STACKBEAT_FILE_HEADERS_NOT_READ (1u << 0)
#define STACKBEAT_FILE_UNLINKED (1u << 1) /* the file was unlinked, or never had a name */
/* The module has the unwind table of the file, or the reader has said that there is none. */
#define STACKBEAT_FILE_UNWIND_TABLE (1u << 2)
/*
 * A reader may recognize the file later, also in another session, by device, inode, generation, build
 * ID, size and time of change: no user can make another file in which all of these are equal. A user
 * who may write to the file can change its contents without a new time: by a shared mapping, or within
 * a tick of the clock. The flag is not set for files on FUSE, on file systems mounted in user namespaces
 * or without set-user-ID bits (a user may have made the image), on loop devices and removable disks (who
 * makes the next image chooses all of these), and on read-only file systems if the file has no build ID
 * (each version of the image may have the same times).
 */
#define STACKBEAT_FILE_LASTING (1u << 3)

/* A mapped file. */
struct stackbeat_file {
	struct stackbeat_record record; /* flags: STACKBEAT_FILE_* */
	__u64 file; /* id, never used twice in a session */
	__u64 inode;
	__u64 size; /* bytes */
	__u32 device_major, device_minor;
	__u32 inode_generation;
	__u32 build_id_size; /* bytes; 0: no build ID, or not read */
	__u8 build_id[STACKBEAT_BUILD_ID_MAX]; /* GNU build ID, zero-padded */
	/*
	 * Path in the process's mount namespace, without " (deleted)", NUL-terminated,
	 * padded with NULs; "": unknown, or (in a restricted session) not below the opener's
	 * root directory
	 */
	char path[];
};

/* Used by no other driver, so that strace does not show their names. */
#define STACKBEAT_IOC_MAGIC 0xd5
#define STACKBEAT_IOC_FILE_OPEN _IOW(STACKBEAT_IOC_MAGIC, 1, __u64)
#define STACKBEAT_IOC_FILE_RELEASE _IOW(STACKBEAT_IOC_MAGIC, 2, __u64)
#define STACKBEAT_IOC_UNWIND_TABLE _IOW(STACKBEAT_IOC_MAGIC, 3, struct stackbeat_unwind_push)
#define STACKBEAT_IOC_MOVED_TEXT _IOW(STACKBEAT_IOC_MAGIC, 4, struct stackbeat_moved_text)
#define STACKBEAT_IOC_MODULE_SYMBOLS \
	_IOWR(STACKBEAT_IOC_MAGIC, 5, struct stackbeat_module_symbols)

/* The argument of STACKBEAT_IOC_MOVED_TEXT. */
struct stackbeat_moved_text {
	__u64 address_space;
	__u64 start, end; /* the range, end excluded: whole pages */
	__u64 beside; /* an address in a mapping of the file, of the same PT_LOAD segment */
	__u32 generation; /* at which the reader has found it */
	__u32 reserved; /* 0 */
};

/* The argument of STACKBEAT_IOC_MODULE_SYMBOLS. */
struct stackbeat_module_symbols {
	__u64 serial; /* in: the lowest that is wanted; out: of the part, from 1 */
	__u64 came; /* out: CLOCK_MONOTONIC, ns; 0: unknown, as before such a session was open */
	__u64 gone; /* out: likewise; 0: the part is still there */
	__u64 start, end; /* out: range of the functions, end excluded; 0 without functions */
	__u64 init; /* out: 1: the init sections; 0: what else the module has */
	__u64 buffer; /* in: address of the bytes for the symbols */
	__u64 size; /* in: of the buffer; out: of the symbols */
	__u64 changes; /* out: of all parts: how often one has come, gone or been dropped */
	__u64 dropped; /* out: parts that were not kept, or not to the end */
	char module[STACKBEAT_MODULE_NAME_SIZE]; /* out: its name, with NULs */
};

/* The file id of the vDSO, for STACKBEAT_IOC_UNWIND_TABLE. */
#define STACKBEAT_FILE_VDSO (~0ULL)

/* The argument of STACKBEAT_IOC_UNWIND_TABLE. */
struct stackbeat_unwind_push {
	__u64 file; /* file id, or STACKBEAT_FILE_VDSO */
	__u64 table; /* address of a table (stackbeat_unwind.h); 0: the file has none */
	__u64 size; /* bytes of the table */
};

/*
 * Generic netlink: family STACKBEAT_GENL_NAME, version STACKBEAT_GENL_VERSION.
 *
 * STACKBEAT_CMD_MODULE_GET takes no attributes. The answer has STACKBEAT_A_ABI,
 *	_VERSION, _RATE_MAX, _SESSIONS.
 *
 * STACKBEAT_CMD_SESSION_GET takes STACKBEAT_A_SESSION, or, as a dump of all sessions,
 *	no attributes. The answer is one message per session: STACKBEAT_A_SESSION,
 *	_STATE, _RATE, _PARTS, _INHERIT, _NO_JITTER, _CPUS, _MAX_DEPTH, _RING_SIZE,
 *	_WATERMARK, _BUDGET, _UNWIND_TABLES, _STACK_COPY, _STACK_COPY_EVERY,
 *	_GOROUTINES,
 *	_RESTRICTED, _OWNER, _OWNER_COMM, _STATS. The answer for one session also has _PIDS, _TIDS, _CGROUPS,
 *	_EXCLUDE_COMMS and one _CPU_STATS for each CPU with a ring (a dump has no room for
 *	them). _CPUS is omitted if the list is too long for the message.
 *
 * STACKBEAT_CMD_SESSION_SET takes STACKBEAT_A_SESSION and at least one of the settings
 *	below. All attributes are checked before any setting changes. These failures can
 *	still follow, and leave the other settings of the message changed: a start
 *	(EINVAL: no CPU of the filter is online), and a start or a change of CPUs without
 *	memory for rings (ENOMEM). The sender needs CAP_PERFMON in the initial user
 *	namespace, or must be the user of the restricted session. There is no answer
 *	except the acknowledgement. If a filter has several kinds of members (processes,
 *	threads, control groups), a task is sampled if it matches one of them.
 *
 * STACKBEAT_CMD_EVENT is sent to the multicast group STACKBEAT_GENL_EVENTS. It has
 *	STACKBEAT_A_EVENT, _TIME and _SESSION, and by event
 *	OPENED		_OWNER, _OWNER_COMM: the opener
 *	CLOSED
 *	CHANGED		_OWNER, _OWNER_COMM: the process that changed settings;
 *			_STATE, _RATE: the session's state and rate after the change
 *	THROTTLED	_CPU, _RATE: the lowered rate on this CPU
 *	RECOVERED	_CPU, _RATE: the raised rate on this CPU
 *	LOST		_CPU, _LOST_SAMPLES: samples lost on this CPU since the last such
 *			event; sent at most once a second for each CPU, and when the
 *			session stops on the CPU or its rate there changes
 *	CPU_OFFLINE	_CPU: the CPU went offline; the session has no ticks there
 *	CPU_ONLINE	_CPU: the CPU came online, and the session ticks there
 *	KERNEL_RULES_OFF
 *			_CPU: a kernel stack on this CPU, found by rules, differed from the
 *			unwinder's, which the sample has. From then on, all kernel stacks are
 *			the unwinder's, in all sessions, until the module is loaded again
 *	MMAP_EVENTS_OFF	the kernel does not run the probe of new mappings any more, see "Address
 *			spaces"
 *	MMAP_EVENTS_ON	the kernel runs the probe again
 *	Events of restricted sessions are not sent.
 *
 * Errors, with an extended ACK message that names the attribute and the cause:
 *	EPERM	CAP_PERFMON is missing; or the value exceeds the limits of a restricted
 *		session; or the kernel part is set while the kernel is locked down for
 *		confidentiality
 *	EINVAL	an attribute is missing, unknown, malformed or not allowed here
 *	ERANGE	a number is out of its range
 *	ENODEV	no such session
 *	ESRCH	no such process
 *	EBUSY	the setting can't be changed now; or STACKBEAT_FILTERS_WAITING_MAX
 *		replaced filters of the session are not freed yet: retry after some tens of
 *		milliseconds
 *	ENOMEM
 */
#define STACKBEAT_GENL_NAME "stackbeat"
#define STACKBEAT_GENL_VERSION 1
#define STACKBEAT_GENL_EVENTS "events"

enum stackbeat_cmd {
	STACKBEAT_CMD_UNSPEC,
	STACKBEAT_CMD_MODULE_GET,
	STACKBEAT_CMD_SESSION_GET,
	STACKBEAT_CMD_SESSION_SET,
	STACKBEAT_CMD_EVENT,
	STACKBEAT_CMD_COUNT
};

enum stackbeat_attr {
	STACKBEAT_A_UNSPEC,
	STACKBEAT_A_PAD,

	/* The module. */
	STACKBEAT_A_ABI, /* u32: STACKBEAT_ABI */
	STACKBEAT_A_VERSION, /* string: version of the module */
	STACKBEAT_A_RATE_MAX, /* u32: Hz, module parameter rate_max */
	STACKBEAT_A_SESSIONS, /* u32: number of open sessions */

	STACKBEAT_A_SESSION, /* u32: id of a session */

	/* Settings of a session. */
	STACKBEAT_A_STATE, /* u32: enum stackbeat_state */
	/*
	 * u32: Hz, STACKBEAT_RATE_MIN to rate_max; takes effect on each CPU within one
	 * period of the old rate
	 */
	STACKBEAT_A_RATE,
	/*
	 * u32: STACKBEAT_PART_*: the sampled parts of stacks. Default: both; the user part in
	 * a restricted session, and if the kernel is locked down for confidentiality when the
	 * session is opened
	 */
	STACKBEAT_A_PARTS,
	/*
	 * nested STACKBEAT_A_PID: sampled processes, with all their threads; an empty nest:
	 * all. Set with ids of the sender's pid namespace
	 */
	STACKBEAT_A_PIDS,
	STACKBEAT_A_PID, /* u32: a process id */
	/*
	 * u8: 1: children forked by processes of the filter are sampled too (default),
	 * 0: they are not
	 */
	STACKBEAT_A_INHERIT,
	/* string: list of the sampled CPUs, like "0,2-3"; "": all */
	STACKBEAT_A_CPUS,
	STACKBEAT_A_MAX_DEPTH, /* u32: user frames, 1 to STACKBEAT_USER_FRAMES_MAX */
	/*
	 * u32: bytes of data of each CPU's ring, a power of two from STACKBEAT_RING_SIZE_MIN
	 * to _MAX; can't be changed once a ring is allocated
	 */
	STACKBEAT_A_RING_SIZE,
	/*
	 * u32: number of unread bytes in a ring that wakes poll(), 1 to the ring size;
	 * 0: half of the ring size, or a quarter if stacks are copied (default)
	 */
	STACKBEAT_A_WATERMARK,

	/* Properties and statistics of a session. */
	STACKBEAT_A_OWNER, /* u32: process id of the opener */
	STACKBEAT_A_OWNER_COMM, /* string: command name of the opener */
	STACKBEAT_A_STATS, /* nested STACKBEAT_S_*: totals of all CPUs */
	/*
	 * nested STACKBEAT_S_* of one CPU, with STACKBEAT_S_CPU; repeated for each CPU with
	 * a ring
	 */
	STACKBEAT_A_CPU_STATS,

	/* More settings. */
	STACKBEAT_A_NO_JITTER, /* u8: 1: intervals are equal, 0: random (default) */
	/*
	 * u32: thousandths of a CPU's time that ticks may take on it, STACKBEAT_BUDGET_MIN
	 * to _MAX
	 */
	STACKBEAT_A_BUDGET,
	/*
	 * nested STACKBEAT_A_PID: sampled threads, as STACKBEAT_A_PIDS; threads that they
	 * clone are not added
	 */
	STACKBEAT_A_TIDS,
	/*
	 * nested STACKBEAT_A_CGROUP: sampled control groups, with all their descendants; an
	 * empty nest: all. A control group that is STACKBEAT_CGROUP_LEVELS_MAX levels or more
	 * below the root never matches
	 */
	STACKBEAT_A_CGROUPS,
	/*
	 * u64: id of a version 2 control group: the inode number of its directory
	 */
	STACKBEAT_A_CGROUP,
	/* nested STACKBEAT_A_COMM: names of threads that are not sampled; empty: none */
	STACKBEAT_A_EXCLUDE_COMMS,
	STACKBEAT_A_COMM, /* string of up to STACKBEAT_COMM_SIZE - 1 bytes */
	/* u8: 1: the opener has no CAP_PERFMON; read-only */
	STACKBEAT_A_RESTRICTED,

	/* Further attributes of events. */
	STACKBEAT_A_EVENT, /* u32: enum stackbeat_event */
	STACKBEAT_A_TIME, /* u64: CLOCK_MONOTONIC, ns */
	STACKBEAT_A_CPU, /* u32 */
	STACKBEAT_A_LOST_SAMPLES, /* u64: samples lost */

	/* More settings. */
	/* u8: 1: unwind tables are used (default), 0: frame pointers only */
	STACKBEAT_A_UNWIND_TABLES,
	/*
	 * u32: bytes of user stack that a sample without the tables it needs carries, up to
	 * STACKBEAT_STACK_COPY_MAX, a multiple of 8; 0: none (default)
	 */
	STACKBEAT_A_STACK_COPY,
	/*
	 * u32: on each CPU, one in N user parts that unwind tables are to unwind carries a
	 * copy of the stack, even if its tables are there; 0: none (default). Can't be changed once
	 * the session was started
	 */
	STACKBEAT_A_STACK_COPY_EVERY,
	/*
	 * u8: STACKBEAT_GOROUTINE_*: what samples of Go programs have of their goroutine, if the layout
	 * of the runtime is in the unwind table of the program; 0: nothing (default)
	 */
	STACKBEAT_A_GOROUTINES,
	STACKBEAT_A_COUNT
};

enum stackbeat_event {
	STACKBEAT_EVENT_UNSPEC,
	STACKBEAT_EVENT_OPENED,
	STACKBEAT_EVENT_CLOSED,
	STACKBEAT_EVENT_CHANGED,
	STACKBEAT_EVENT_THROTTLED,
	STACKBEAT_EVENT_RECOVERED,
	STACKBEAT_EVENT_LOST,
	STACKBEAT_EVENT_CPU_OFFLINE,
	STACKBEAT_EVENT_CPU_ONLINE,
	STACKBEAT_EVENT_KERNEL_RULES_OFF,
	STACKBEAT_EVENT_MMAP_EVENTS_OFF,
	STACKBEAT_EVENT_MMAP_EVENTS_ON,
	STACKBEAT_EVENT_COUNT
};

enum stackbeat_state {
	STACKBEAT_STATE_NEW, /* not started yet; can't be set */
	STACKBEAT_STATE_RUNNING,
	STACKBEAT_STATE_STOPPED, /* poll() returns EPOLLHUP */
	STACKBEAT_STATE_PAUSED, /* no ticks, but the reader should wait for more */
	STACKBEAT_STATE_COUNT
};

#define STACKBEAT_GOROUTINE_ID (1u << 0)
#define STACKBEAT_GOROUTINE_CREATOR (1u << 1)
#define STACKBEAT_GOROUTINE_LABELS (1u << 2)
#define STACKBEAT_GOROUTINE_ALL                                                                    \
	(STACKBEAT_GOROUTINE_ID | STACKBEAT_GOROUTINE_CREATOR | STACKBEAT_GOROUTINE_LABELS)

#define STACKBEAT_PART_KERNEL (1u << 0)
#define STACKBEAT_PART_USER (1u << 1)
#define STACKBEAT_PARTS_ALL (STACKBEAT_PART_KERNEL | STACKBEAT_PART_USER)

/*
 * Counters, all u64 (except STACKBEAT_S_CPU), since the session was opened. Each tick has one
 * outcome: TICKS = SAMPLES + LOST_FULL + LOST_BAD_TAIL + IDLE + FILTERED.
 */
enum stackbeat_stat {
	STACKBEAT_S_UNSPEC,
	STACKBEAT_S_PAD,
	STACKBEAT_S_CPU, /* u32: the CPU of these counters; not in totals */
	STACKBEAT_S_TICKS, /* timer interrupts of the session */
	STACKBEAT_S_SAMPLES, /* samples written */
	STACKBEAT_S_LOST_FULL, /* samples lost: the ring was full */
	STACKBEAT_S_LOST_BAD_TAIL, /* samples lost: the reader's tail was invalid */
	STACKBEAT_S_IDLE, /* ticks without a sample: the CPU was idle */
	STACKBEAT_S_FILTERED, /* ticks without a sample: excluded by filter, parts or access */
	STACKBEAT_S_MISSED_TICKS, /* intervals without a tick, because the timer was late */
	/* ns in timer interrupts, and in cancelling and arming the timers of idle CPUs */
	STACKBEAT_S_OVERHEAD_NS,
	STACKBEAT_S_TICK_TIME_NS, /* ns represented by ticks: TICKS over it is the mean rate */
	STACKBEAT_S_THROTTLED, /* number of times the rate was halved to keep the budget */
	/*
	 * Hz in effect now, including throttling; in totals: the rate of the slowest CPU;
	 * 0: not running
	 */
	STACKBEAT_S_RATE,
	/* In totals only: */
	STACKBEAT_S_ADDRESS_SPACES, /* address space records, including repeated ones after a gap */
	STACKBEAT_S_SAMPLES_WITHOUT_ADDRESS_SPACE, /* user samples without one: too many pending */
	/*
	 * Address space records not written: too many were waiting, or no memory; or the mmap lock
	 * was held, or there was no room, when the mappings were to be read again (a later sample
	 * retries); or the opener of a restricted session may no longer see the process
	 */
	STACKBEAT_S_ADDRESS_SPACES_UNREAD,
	STACKBEAT_S_MMAP_EVENTS, /* mapping events written */
	/*
	 * Mapping events lost: too many were pending; or the kernel did not run the probe, as it was
	 * in another one (then the event may be of any process, and no gap reports it). Not those
	 * while all probes are switched off: see STACKBEAT_S_MMAP_EVENTS_OFF
	 */
	STACKBEAT_S_MMAP_EVENTS_LOST,
	STACKBEAT_S_MAPPINGS_DROPPED, /* mappings without a record, as mappings_dropped */
	STACKBEAT_S_FILES, /* mapped files held now */
	STACKBEAT_S_MAPPINGS_WITHOUT_FILE, /* mappings without file id: no room for more files */
	STACKBEAT_S_WORKER_OVERHEAD_NS, /* ns of the worker: reading mappings, writing records */
	STACKBEAT_S_PROBE_OVERHEAD_NS, /* ns in the probe of new mappings, in the mapping tasks */
	STACKBEAT_S_UNWIND_TABLES, /* unwind tables that the session uses now */
	STACKBEAT_S_UNWIND_TABLE_BYTES, /* bytes of these tables */
	STACKBEAT_S_UNWIND_TABLES_REFUSED, /* for lack of memory; each retry of a reader counts */
	STACKBEAT_S_STACK_COPIES, /* samples with a copy of the stack, in totals and of each CPU */
	STACKBEAT_S_STACK_COPIES_LOST, /* for which the ring had no room; likewise */
	/*
	 * Kernel stacks, in totals and of each CPU. The module finds them by rules that it learns
	 * from the kernel's unwinder, or by the unwinder itself: those without rules; or all, if the
	 * module parameter kernel_stack_check is 0, or if a stack has differed.
	 */
	STACKBEAT_S_KERNEL_STACKS_UNWOUND, /* found by the unwinder */
	STACKBEAT_S_KERNEL_STACKS_COMPARED, /* found by both, to check the rules */
	STACKBEAT_S_KERNEL_STACKS_DIFFERENT, /* of these, those that the rules had wrong */
	STACKBEAT_S_FRAMES_BY_TABLES, /* sum of the samples' table_frames; likewise */
	/* rules of such frames that were not in the CPU's cache of rules; likewise. 0 in restricted sessions */
	STACKBEAT_S_UNWIND_RULE_MISSES,
	/* In totals only: address spaces that can be tracked without more memory than now. */
	STACKBEAT_S_ADDRESS_SPACES_ROOM,
	/*
	 * Tests, at the start and each STACKBEAT_MMAP_PROBE_TEST_SECONDS, that have found that the kernel does
	 * not run the probe of new mappings. In totals only
	 */
	STACKBEAT_S_MMAP_EVENTS_OFF,
	/*
	 * Ticks that took longer than the maximum that the budget counts (0.5 ms, and 1 us for each frame of
	 * STACKBEAT_A_MAX_DEPTH), in totals and of each CPU: a host, or an interrupt that can't be masked, took the
	 * CPU during the tick. The tick after it comes later by the time that it took.
	 */
	STACKBEAT_S_LONG_TICKS,
	STACKBEAT_S_COUNT
};

#endif /* _UAPI_STACKBEAT_H */

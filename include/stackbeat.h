/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * stackbeat: the interface between the kernel module and its readers.
 *
 * A stranger should be able to write a reader from this file alone.
 *
 * An open file of /dev/stackbeat is a session. A session has an id, settings,
 * and one ring for each CPU. The device carries data and nothing else: what
 * configures a session goes over generic netlink (below). The way of a reader:
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
 *	close(fd): timers are stopped, rings are freed
 *
 * open() fails with
 *	EACCES	no rights on the device node (mode 0600)
 *	EPERM	no CAP_PERFMON in the initial user namespace
 *	EUSERS	STACKBEAT_SESSIONS_MAX sessions are open, or, without CAP_PERFMON,
 *		STACKBEAT_USER_SESSIONS_MAX of the same user, or
 *		STACKBEAT_USERS_SESSIONS_MAX of all users; or twice as many of
 *		these that were closed are not freed yet: try again then
 *	EOPNOTSUPP
 *		the kernel can't be probed for new mappings by a kprobe, or its probes
 *		are switched off (sysctl kernel.ftrace_enabled, kprobes/enabled in debugfs),
 *		which is tried by an executable mapping in the opener, for a moment; or it
 *		has no tracepoints for switches of tasks, softirqs and forks
 *	ENOMEM	no memory, or RLIMIT_MEMLOCK of a user without CAP_IPC_LOCK is exceeded: the
 *		rings of his sessions count against it, but for those of one session
 *		with the defaults
 *
 * Where the module's parameter `unprivileged` is set, a user who may read and
 * write the device node needs no CAP_PERFMON. His sessions are restricted: they
 * see his own processes only (of his user id, without capabilities that he does
 * not have, dumpable, and with an id in the pid namespace of the opener), of these
 * the user part only, and only he and those with CAP_PERFMON may configure or list
 * them. Their rate is STACKBEAT_USER_RATE_MAX at most: their beats interrupt
 * whatever runs.
 *
 * Ids of processes and threads are those of the initial pid namespace; in what a
 * restricted session reports, in its records and over netlink, they are those of its
 * opener's pid namespace, and 0 where there is none (a parent outside). Control
 * groups have paths from the root of its opener's control group namespace, and
 * files from his root directory, where he has another one (chroot), or none.
 *
 * The beat
 * --------
 * A session beats on each CPU at its rate. By default the intervals are drawn
 * at random, uniformly between half a period and one and a half, so that no
 * program can run in step with them; STACKBEAT_A_NO_JITTER makes them equal. Either
 * way a sample weighs the mean period (and that of the intervals that were
 * missed before it): the expectation of a sum of weights is the CPU time that
 * was spent there.
 *
 * A CPU that goes idle is left alone: its timer is cancelled when the idle task comes
 * in, before the governor of idle states looks for it, and armed again where it
 * would be by then when another task comes in, or a softirq interrupts the idle task,
 * for the time of that. (Where a CPU goes idle so often that this would take a quarter of
 * the budget, the timer stays.)
 *
 * All sessions together may spend STACKBEAT_A_BUDGET of a CPU's time in their beats there,
 * measured over STACKBEAT_BUDGET_WINDOW_NS. What counts is the time of the timer's
 * interrupts, of parking, and of reading the mappings of processes that were
 * first sampled there. Where they spend more than a session's budget, and this session not
 * less than the average, its rate on that CPU is halved, again and again, and
 * doubled again once it spends less than a quarter of its part of the budget. Weights follow.
 * Other settings, stopping and starting do not undo it.
 * What changes of mappings take, and reading mappings again, may take a half of the
 * budget each, of one CPU: they are put off beyond that.
 *
 * Offsets
 * -------
 * mmap offsets name what is mapped; every mapping is MAP_SHARED:
 *
 *	0				the session page, one page, read-only
 *	STACKBEAT_OFFSET_CPU(n)		the consumer page of CPU n, one page,
 *					writable, as that of the metadata, and
 *					nothing else
 *	STACKBEAT_OFFSET_CPU(n) + page	the producer page of CPU n, followed by
 *					the data of its ring: one page + ring
 *					size bytes, read-only
 *	STACKBEAT_OFFSET_META		the consumer page of the metadata ring
 *	STACKBEAT_OFFSET_META + page	its producer page and its data: one page +
 *					STACKBEAT_META_RING_SIZE bytes, read-only
 *
 * The ring of a CPU is allocated when it is first mapped or when the session
 * is started, for CPUs that are online. A CPU that comes online in a running
 * session gets its ring then, and the session page's `rings` counter moves: a
 * reader looks at it when it drains the rings, and maps what it has not yet.
 *
 * mmap() fails with
 *	EINVAL	offset or length is none of the above, or MAP_PRIVATE
 *	EPERM	PROT_WRITE or PROT_EXEC where it is not allowed (also mprotect,
 *		which says EACCES)
 *	ENXIO	no such CPU, or it is not online and has no ring
 *	EBUSY	it is mapped already; each can be mapped once at a time
 *	ENOMEM
 * A mapping can't be split, grown or duplicated and is not inherited by fork().
 *
 * The ring
 * --------
 * Head and tail are byte counts that only grow; modulo the ring size they are
 * positions in the data. The kernel writes records at the head, and publishes
 * them with a store-release of `head` in the producer page. The reader loads
 * `head` with acquire, reads the records between tail and head, and publishes
 * what it is done with by a store-release of `tail` in the consumer page.
 *
 * Records are 8-byte aligned and contiguous: one that does not fit before the
 * end of the data is preceded by a STACKBEAT_RECORD_PAD that fills the rest.
 * A record needs room for the largest record that the session's settings
 * allow; when there is none, it is lost, counted, and the next record that fits
 * says how many were lost before it.
 *
 * A tail beyond the head, or further behind it than the ring is long, is wrong:
 * records are lost and counted as STACKBEAT_S_LOST_BAD_TAIL until the tail is right.
 *
 * Address spaces
 * --------------
 * What user addresses mean is told in a ring of its own, the metadata ring. It
 * has the same layout as a CPU's, but nothing in it is ever lost for want of
 * room: what does not fit waits in the kernel.
 *
 * A sample with user memory names its address space by `space`, an id that is
 * never used twice in a session, and by `generation`, which moves with each
 * change of the executable mappings, and where they are read again. exec makes
 * another space, fork does too.
 * One process may have had several spaces, even at the same time with the same
 * contents. 0: not known (see STACKBEAT_S_SAMPLES_WITHOUT_SPACE).
 *
 * The first sample of a space has the kernel read the mappings soon afterwards,
 * also if the process has ended by then:
 *
 *	STACKBEAT_RECORD_FILE		for each mapped file that is new
 *	STACKBEAT_RECORD_ADDRESS_SPACE		the process, and how many mappings follow
 *	STACKBEAT_RECORD_MAPPING	each executable mapping, with the space
 *					record's generation: as they were then
 *
 * and from then on for each change (mmap or mprotect that makes something
 * executable, mremap that moves it) a STACKBEAT_RECORD_MAPPING with the flag
 * STACKBEAT_MAPPING_EVENT: from its generation on, its range holds this, and no
 * longer what was there before. What is only unmapped is not reported: nothing can run there.
 *
 * So at generation g an address is, where R is the generation of the space
 * record:
 *	g >= R	in the latest of the changes up to g that hold it, but not of
 *		those up to R; if there is none, in what was read at R
 *	g < R	in the latest of the changes up to g that hold it; if there is none,
 *		in what was read at R, unless a change after g (up to R) holds it:
 *		then what was there before is not known
 * Changes may come in any order, and before the space record.
 *
 * poll() returns EPOLLIN also when half of this ring is full, or, where it is mapped,
 * when something in it is unread for a quarter of a second.
 *
 * A change that could not be told (too many at once) is counted as
 * STACKBEAT_S_MMAP_EVENTS_LOST; the mappings are read again at one of the next samples
 * (0.1 s later; twice as late each time that it happens again, up to 10 s), and
 * there is one more space record: `gap` is the first generation that may be
 * missing. Between gap and its generation R, an address is known only where the
 * mapping before gap and that at R are the same; what came and went in between is
 * taken for it.
 *
 * There may be no next sample. But the first generation is 1, and each later one
 * that is in no gap is of one change: where that was not told it was lost, and
 * nothing is known from it on up to the next generation that is read, if one is. Where
 * one up to the first R is lost, what was there before is not known by what was read.
 *
 * Records of a space may be read before or after the samples that name it. The
 * session page's `metadata_pending` is not 0 while there is something still to be written
 * for samples that are in the rings already: after a stop, a reader drains the
 * metadata ring until it is 0, and once more.
 *
 * Objects
 * -------
 * The session keeps each mapped file, so that a reader can have the very file that
 * was mapped, whatever has become of its path:
 *
 *	fd = ioctl(fd, STACKBEAT_IOC_FILE_OPEN, &object);
 *	ioctl(fd, STACKBEAT_IOC_FILE_RELEASE, &object);
 *
 * The first gives a new read-only, close-on-exec file descriptor, with the rights
 * of the session's opener:
 *	ENOENT	there is no such object, or it was released
 *	EACCES	the opener may not read the file, or, of a restricted session, search a
 *		directory on its path, or it never had a name (memfd, shared memory), is
 *		another user's, and he lacks CAP_SYS_PTRACE
 *	EMFILE, ENFILE, ENOMEM, and what opening the file failed with
 * The second has the kernel let go of the file; a reader does it as soon as it has
 * what it needs, or a file system would stay busy. From then on the id can't be
 * opened, though records that were waiting may still name it; a mapping of the
 * same file that is read later gets a new object. ENOENT as above.
 * Closing the session releases all.
 */
#ifndef _UAPI_STACKBEAT_H
#define _UAPI_STACKBEAT_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define STACKBEAT_DEVICE "/dev/stackbeat"

/* Moves with every incompatible change of this file. */
#define STACKBEAT_ABI 3
#define STACKBEAT_MAGIC 0x7461656265747362ULL

/* Limits and defaults. */
#define STACKBEAT_RATE_MIN 1u /* Hz */
#define STACKBEAT_RATE_MAX 20000u /* Hz; default and bound of the module parameter rate_max */
#define STACKBEAT_RATE_DEFAULT 99u /* Hz; rate_max, if that is less */
#define STACKBEAT_KERNEL_FRAMES_MAX 127u
#define STACKBEAT_USER_FRAMES_MAX 1023u
#define STACKBEAT_USER_FRAMES_DEFAULT 255u
#define STACKBEAT_RING_SIZE_MIN (64u << 10) /* bytes */
#define STACKBEAT_RING_SIZE_MAX (64u << 20) /* bytes */
#define STACKBEAT_RING_SIZE_DEFAULT (512u << 10) /* bytes */
#define STACKBEAT_SESSIONS_MAX 64u
#define STACKBEAT_USER_SESSIONS_MAX 4u /* restricted sessions of one user */
#define STACKBEAT_USERS_SESSIONS_MAX 32u /* restricted sessions of all users */
#define STACKBEAT_USER_RATE_MAX 4000u /* Hz; of a restricted session */
#define STACKBEAT_PIDS_MAX 1024u /* process ids in one filter; thread ids too */
#define STACKBEAT_CGROUPS_MAX 16u /* control groups in one filter */
#define STACKBEAT_COMMS_MAX 16u /* thread names in one filter */
#define STACKBEAT_CGROUP_LEVELS_MAX 64u /* that are looked at of a hierarchy, from its root on */
#define STACKBEAT_FILTERS_WAITING_MAX 16u /* that a session had, and that are still to be freed */
#define STACKBEAT_COMM_SIZE 16u /* bytes of a thread name with its NUL */
#define STACKBEAT_BUDGET_MIN 1u /* thousandths of a CPU */
#define STACKBEAT_BUDGET_MAX 500u
#define STACKBEAT_BUDGET_DEFAULT 50u
#define STACKBEAT_BUDGET_WINDOW_NS 100000000u
#define STACKBEAT_CPULIST_MAX 4096u /* bytes of a CPU list, with its NUL */
/*
 * How often the frame pointer of a user stack may go down. It goes up from
 * frame to frame within a stack, and may go down when the walk passes from one
 * stack to another (signal stacks, Go's system stacks).
 */
#define STACKBEAT_FP_DESCENTS_MAX 16u

#define STACKBEAT_META_RING_SIZE (256u << 10) /* bytes */
#define STACKBEAT_ADDRESS_SPACES_MAX 8192u /* that a session remembers at the same time */
#define STACKBEAT_ADDRESS_SPACES_PENDING_MAX 256u /* of a CPU, that are not read yet */
#define STACKBEAT_MAPPINGS_MAX 16384u /* executable ones that are read of one space */
#define STACKBEAT_MAPPINGS_WAITING_MAX 65536u /* read, but without room in the ring yet */
#define STACKBEAT_FILES_MAX 4096u /* files that a session keeps open */
#define STACKBEAT_BUILD_ID_MAX 64u /* bytes */
#define STACKBEAT_PATH_MAX 4096u /* bytes of a path, with its NUL */

#define STACKBEAT_OFFSET_SESSION 0ULL
#define STACKBEAT_OFFSET_META (1ULL << 31)
#define STACKBEAT_OFFSET_CPU(cpu) (((__u64)(cpu) + 1) << 32)

/* The session page. */
struct stackbeat_session_page {
	__u64 magic; /* STACKBEAT_MAGIC */
	__u32 abi; /* STACKBEAT_ABI of the module */
	__u32 session; /* id of this session, never used twice */
	__u32 cpus; /* CPUs are numbered 0 to cpus - 1 */
	__u32 rings; /* moves when a ring was allocated */
	__u32 ring_size; /* bytes of data a CPU; final once rings is not 0 */
	__u32 metadata_pending; /* not 0: metadata of samples in the rings is still to come */
};

/* The consumer page: written by the reader. */
struct stackbeat_consumer_page {
	__u64 tail; /* bytes consumed */
};

/* The producer page: written by the kernel. The data begins one page after it. */
struct stackbeat_producer_page {
	__u64 head; /* bytes produced */
	__u32 size; /* bytes of data, a power of two */
	__u32 cpu; /* of the metadata ring: UINT32_MAX */
};

enum stackbeat_record_type {
	STACKBEAT_RECORD_PAD = 1, /* nothing: skip `size` bytes */
	STACKBEAT_RECORD_SAMPLE = 2, /* struct stackbeat_sample */
	/* In the metadata ring: */
	STACKBEAT_RECORD_ADDRESS_SPACE = 3, /* struct stackbeat_address_space */
	STACKBEAT_RECORD_MAPPING = 4, /* struct stackbeat_mapping */
	STACKBEAT_RECORD_FILE = 5, /* struct stackbeat_file */
};

/* Each record begins with this. Skip by size the types that you do not know. */
struct stackbeat_record {
	__u16 type; /* enum stackbeat_record_type */
	__u16 flags; /* by type */
	__u32 size; /* bytes with this header, a multiple of 8 */
};

/* Flags of a STACKBEAT_RECORD_SAMPLE. */
#define STACKBEAT_SAMPLE_KERNEL (1u << 0) /* the CPU was in kernel mode */
#define STACKBEAT_SAMPLE_COMPAT (1u << 1) /* the user part is that of a 32-bit program */

/* How a part of a stack ended. */
enum stackbeat_unwind_stop {
	STACKBEAT_STOP_OUTERMOST = 0, /* at the outermost frame */
	STACKBEAT_STOP_MAX_DEPTH = 1, /* at the depth limit; there were more frames */
	STACKBEAT_STOP_FAULT = 2, /* at memory that could not be read */
	/*
	 * At a frame pointer that can't be right; in the kernel, where unwinding failed:
	 * what is left are addresses of kernel text, modules or generated code
	 */
	STACKBEAT_STOP_BAD_FRAME = 3,
	STACKBEAT_STOP_NO_USER_MEMORY = 4, /* no frames: a kernel thread has no user memory */
	STACKBEAT_STOP_EXCLUDED = 5, /* no frames: left out on request */
	STACKBEAT_STOP_USER_MODE = 6, /* no frames: the CPU was not in kernel mode */
	/*
	 * No frames: execve() has replaced the memory, and the registers are still those of
	 * the old program
	 */
	STACKBEAT_STOP_EXEC = 7,
	STACKBEAT_STOP_COUNT
};

struct stackbeat_sample {
	struct stackbeat_record record; /* flags: STACKBEAT_SAMPLE_* */
	__u64 time; /* CLOCK_MONOTONIC, ns, of the interrupt */
	/*
	 * ns that this sample stands for: the mean period, and that of the intervals
	 * that were missed before it
	 */
	__u64 weight;
	__u32 cpu;
	__u32 pid; /* process (thread group) id */
	__u32 tid; /* thread id */
	__u32 lost; /* records lost on this CPU since the last one written */
	/*
	 * Intervals, part of the weight, in which the timer came too late for a beat of
	 * their own
	 */
	__u32 missed;
	__u16 kernel_frames; /* count in frames[], first */
	__u16 user_frames; /* count in frames[], after those of the kernel */
	__u8 kernel_stop; /* enum stackbeat_unwind_stop */
	__u8 user_stop; /* enum stackbeat_unwind_stop */
	__u8 reserved[2]; /* 0 */
	__u32 generation; /* of the space */
	__u64 address_space; /* id of the address space; 0: none, or not known */
	/*
	 * Of all frames: equal where they are equal, mixed a little only; what it is
	 * computed by may change
	 */
	__u64 hash;
	char comm[16]; /* name of the thread, NUL-terminated */
	/*
	 * Each part leaf first. The first kernel frame is the interrupted
	 * address, or the first user frame where kernel_frames is 0. With kernel
	 * frames, the first user frame is the address to which the kernel will
	 * return. All others are return addresses: the call is before them.
	 */
	__u64 frames[];
};

/* A process image: an address space, and whose it is. */
struct stackbeat_address_space {
	struct stackbeat_record record; /* flags: 0 */
	__u64 address_space; /* id, never used twice in a session */
	__u64 start_time; /* of the process: CLOCK_BOOTTIME, ns */
	__u64 cgroup; /* id of its version 2 control group; 0: none */
	__u32 generation; /* at which the mappings were read */
	__u32 gap; /* the first generation whose change may be missing; 0: none is */
	__u32 pid;
	__u32 ns_pid; /* in its own namespace */
	__u32 parent; /* process id */
	__u32 mappings; /* how many records of its mappings follow */
	__u32 mappings_dropped; /* beyond STACKBEAT_MAPPINGS_MAX, or for want of memory or place */
	__u32 reserved; /* 0 */
	char comm[16]; /* name of the process' first thread when it was read */
	/*
	 * From the root of the hierarchy (or of the opener's namespace), NUL-terminated,
	 * padded with NULs; "" if there is none
	 */
	char cgroup_path[];
};

/* Flags of a STACKBEAT_RECORD_MAPPING. */
#define STACKBEAT_MAPPING_EVENT (1u << 0) /* since its generation, see above */
#define STACKBEAT_MAPPING_MAIN_BINARY (1u << 1) /* of the program's own file */
#define STACKBEAT_MAPPING_VDSO (1u << 2) /* the kernel's vdso */
#define STACKBEAT_MAPPING_VADDR (1u << 3) /* `vaddr` is known */

/* An executable mapping. */
struct stackbeat_mapping {
	struct stackbeat_record record; /* flags: STACKBEAT_MAPPING_* */
	__u64 address_space;
	__u64 start, end; /* addresses, end excluded */
	__u64 offset; /* of start in the file, bytes; 0 where there is no file */
	__u64 vaddr; /* ELF virtual address of start, by the load segment that holds it */
	__u64 file; /* id; 0: anonymous memory, or STACKBEAT_S_MAPPINGS_WITHOUT_FILE */
	__u32 generation;
	__u32 reserved; /* 0 */
};

/* Flags of a STACKBEAT_RECORD_FILE. */
/*
 * Its build id and segments could not be read without waiting for a disk or a network: a reader may
 * find them in the file itself.
 */
#define STACKBEAT_FILE_HEADERS_NOT_READ (1u << 0)
#define STACKBEAT_FILE_UNLINKED (1u << 1) /* the file had no name any more */

/* A mapped file. */
struct stackbeat_file {
	struct stackbeat_record record; /* flags: STACKBEAT_FILE_* */
	__u64 file; /* id, never used twice in a session */
	__u64 inode;
	__u64 size; /* bytes */
	__u32 device_major, device_minor;
	__u32 inode_generation;
	__u32 build_id_size; /* bytes; 0: it has none, or it is not known */
	__u8 build_id[STACKBEAT_BUILD_ID_MAX]; /* GNU build id, the rest is 0 */
	/*
	 * In the process' mount namespace, without " (deleted)", NUL-terminated, padded
	 * with NULs; "" if it is not known, or not below the opener's root directory
	 */
	char path[];
};

/* A magic that no other driver has, so that strace names none of theirs. */
#define STACKBEAT_IOC_MAGIC 0xd5
#define STACKBEAT_IOC_FILE_OPEN _IOW(STACKBEAT_IOC_MAGIC, 1, __u64)
#define STACKBEAT_IOC_FILE_RELEASE _IOW(STACKBEAT_IOC_MAGIC, 2, __u64)

/*
 * Generic netlink: family STACKBEAT_GENL_NAME, version STACKBEAT_GENL_VERSION.
 *
 * STACKBEAT_CMD_MODULE_GET	no attributes. Answers with
 *	STACKBEAT_A_ABI, _VERSION, _RATE_MAX, _SESSIONS.
 *
 * STACKBEAT_CMD_SESSION_GET	STACKBEAT_A_SESSION, or as a dump without it for
 *	all sessions. Answers with one message a session: STACKBEAT_A_SESSION,
 *	_STATE, _RATE, _PARTS, _INHERIT, _FIXED, _CPUS, _MAX_DEPTH, _RING_SIZE,
 *	_WATERMARK, _BUDGET, _RESTRICTED, _OWNER, _OWNER_COMM, _STATS, and in the
 *	answer for one session also _PIDS, _TIDS, _CGROUPS, _EXCLUDE_COMMS and a
 *	_CPU_STATS for each CPU (a dump has no room for them). _CPUS is left out where
 *	the list is too long for the message.
 *
 * STACKBEAT_CMD_SESSION_SET	STACKBEAT_A_SESSION and at least one of the
 *	settings below. Everything is checked before anything takes effect; a start
 *	that is refused then (EINVAL: no CPU of the filter is online), and one or a
 *	change of CPUs without memory for rings (ENOMEM), leave what was set beside.
 *	Needs CAP_PERFMON in the initial user namespace, or to be the user whose
 *	restricted session it is. No answer but the acknowledgement. Where a
 *	filter has several kinds of members (processes, threads, control groups),
 *	a sample must be of one of them.
 *
 * STACKBEAT_CMD_EVENT	sent to the multicast group STACKBEAT_GENL_EVENTS:
 *	STACKBEAT_A_EVENT, _TIME and _SESSION, and by event
 *	OPENED		_OWNER, _OWNER_COMM: who opened it
 *	CLOSED
 *	CHANGED		_OWNER, _OWNER_COMM: who changed settings; _STATE, _RATE:
 *			the session's after it
 *	THROTTLED	_CPU, _RATE: the rate there, now lower
 *	RECOVERED	_CPU, _RATE: the rate there, higher again
 *	LOST		_CPU, _EVENT_COUNT: records lost there since the last such event;
 *			once a second and CPU, and where the beat stops or its rate
 *			changes
 *	CPU_GONE	_CPU: it went offline, with it the session's beat there
 *	CPU_BACK	_CPU: it came online, and the session beats there
 *	Those of restricted sessions are not sent.
 *
 * Errors, with an extended message that says what is wrong with which attribute:
 *	EPERM	no CAP_PERFMON, or more than a restricted session may have, or the kernel
 *		part where the kernel is locked down for confidentiality
 *	EINVAL	an attribute is missing, unknown, malformed or has no meaning here
 *	ERANGE	a number is out of its range
 *	ENODEV	no such session
 *	ESRCH	no such process
 *	EBUSY	the setting can't be changed now; or STACKBEAT_FILTERS_WAITING_MAX
 *		filters that the session had are still to be freed, which takes some
 *		ten milliseconds: try again then
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
	STACKBEAT_A_SESSIONS, /* u32: open sessions */

	STACKBEAT_A_SESSION, /* u32: id of a session */

	/* Settings of a session. */
	STACKBEAT_A_STATE, /* u32: enum stackbeat_state */
	/*
	 * u32: Hz, STACKBEAT_RATE_MIN to rate_max; takes effect on each CPU within one
	 * old period
	 */
	STACKBEAT_A_RATE,
	/*
	 * u32: STACKBEAT_PART_* that are sampled; in a restricted session, and in one that is
	 * opened where the kernel is locked down for confidentiality, the user part
	 */
	STACKBEAT_A_PARTS,
	/*
	 * nested STACKBEAT_A_PID: processes that are sampled, with all their threads;
	 * an empty nest: all. Set with ids of the sender's pid namespace
	 */
	STACKBEAT_A_PIDS,
	STACKBEAT_A_PID, /* u32: a process id */
	/*
	 * u8: 1: what the processes of the filter fork is sampled too (default), 0: it
	 * is not
	 */
	STACKBEAT_A_INHERIT,
	/* string: list like "0,2-3" of the CPUs that are sampled, "": all */
	STACKBEAT_A_CPUS,
	STACKBEAT_A_MAX_DEPTH, /* u32: user frames, 1 to STACKBEAT_USER_FRAMES_MAX */
	/*
	 * u32: bytes of data a CPU, a power of two from STACKBEAT_RING_SIZE_MIN to
	 * _MAX; not once a ring was allocated
	 */
	STACKBEAT_A_RING_SIZE,
	/*
	 * u32: unread bytes in a ring that wake poll(), 1 to the ring size; 0: half of
	 * the ring size (default)
	 */
	STACKBEAT_A_WATERMARK,

	/* What a session tells. */
	STACKBEAT_A_OWNER, /* u32: process id of the opener */
	STACKBEAT_A_OWNER_COMM, /* string: command name of the opener */
	STACKBEAT_A_STATS, /* nested STACKBEAT_S_*: sums over the CPUs */
	/*
	 * nested STACKBEAT_S_* of one CPU, with STACKBEAT_S_CPU; repeated for each that
	 * has a ring
	 */
	STACKBEAT_A_CPU_STATS,

	/* More settings. */
	STACKBEAT_A_NO_JITTER, /* u8: 1: intervals are equal, 0: random (default) */
	/*
	 * u32: thousandths of a CPU that the beats on it may take, STACKBEAT_BUDGET_MIN
	 * to _MAX
	 */
	STACKBEAT_A_BUDGET,
	/*
	 * nested STACKBEAT_A_PID: threads that are sampled, as STACKBEAT_A_PIDS; what
	 * they clone is not added
	 */
	STACKBEAT_A_TIDS,
	/*
	 * nested STACKBEAT_A_CGROUP: control groups that are sampled, with all below
	 * them; an empty nest: all. One that is STACKBEAT_CGROUP_LEVELS_MAX levels or more
	 * below the root is in no sample
	 */
	STACKBEAT_A_CGROUPS,
	/*
	 * u64: id of a version 2 control group, which is the inode number of its
	 * directory
	 */
	STACKBEAT_A_CGROUP,
	/*
	 * nested STACKBEAT_A_COMM: threads of these names are not sampled; empty: none
	 */
	STACKBEAT_A_EXCLUDE_COMMS,
	STACKBEAT_A_COMM, /* string of up to STACKBEAT_COMM_SIZE - 1 bytes */
	/* u8: 1: the session of a user without CAP_PERFMON; can't be set */
	STACKBEAT_A_RESTRICTED,

	/* What an event tells, beside the above. */
	STACKBEAT_A_EVENT, /* u32: enum stackbeat_event */
	STACKBEAT_A_TIME, /* u64: CLOCK_MONOTONIC, ns */
	STACKBEAT_A_CPU, /* u32 */
	STACKBEAT_A_EVENT_COUNT, /* u64 */
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
	STACKBEAT_EVENT_COUNT
};

enum stackbeat_state {
	STACKBEAT_STATE_NEW, /* never started; can't be set */
	STACKBEAT_STATE_RUNNING,
	STACKBEAT_STATE_STOPPED, /* poll() returns EPOLLHUP */
	STACKBEAT_STATE_PAUSED, /* no beats, but the reader should wait for more */
	STACKBEAT_STATE_COUNT
};

#define STACKBEAT_PART_KERNEL (1u << 0)
#define STACKBEAT_PART_USER (1u << 1)
#define STACKBEAT_PARTS_ALL (STACKBEAT_PART_KERNEL | STACKBEAT_PART_USER)

/*
 * Counters, all u64, since the session was opened. Each beat ends in one way:
 * BEATS = SAMPLES + LOST_FULL + LOST_TAIL + IDLE + FILTERED.
 */
enum stackbeat_stat {
	STACKBEAT_S_UNSPEC,
	STACKBEAT_S_PAD,
	STACKBEAT_S_CPU, /* u32: the CPU of these counters; not in sums */
	STACKBEAT_S_TICKS, /* timer interrupts of the session */
	STACKBEAT_S_SAMPLES, /* records written */
	STACKBEAT_S_LOST_FULL, /* records lost: the ring was full */
	STACKBEAT_S_LOST_BAD_TAIL, /* records lost: the reader's tail was wrong */
	STACKBEAT_S_IDLE, /* no record: the CPU was idle */
	STACKBEAT_S_FILTERED, /* no record: the filter left it out */
	STACKBEAT_S_MISSED_TICKS, /* intervals without a beat of their own */
	STACKBEAT_S_OVERHEAD_NS, /* ns spent in the timer's interrupts, and in parking it on idle CPUs */
	STACKBEAT_S_TICK_TIME_NS, /* ns that the beats stood for: BEATS over it is the mean rate */
	STACKBEAT_S_THROTTLED, /* how often the rate was halved to keep the budget */
	/*
	 * Hz in effect now, throttling included; of a session: that of its slowest CPU;
	 * 0: it does not run
	 */
	STACKBEAT_S_RATE,
	/* Of the session, not of a CPU: */
	STACKBEAT_S_ADDRESS_SPACES, /* address spaces that were told, again where they were read again */
	STACKBEAT_S_SAMPLES_WITHOUT_SPACE, /* user samples without one: too many were pending */
	/*
	 * Address spaces whose mappings were not read: there was no memory, the mmap lock was held
	 * when they were to be read again (a later sample retries), or the opener of a restricted
	 * session may no longer see the process
	 */
	STACKBEAT_S_SPACES_UNREAD,
	STACKBEAT_S_MMAP_EVENTS, /* changes of mappings that were told */
	/*
	 * That were not: too many were pending, or the kernel did not run the probe (of any
	 * process then, and what was lost has no gap)
	 */
	STACKBEAT_S_MMAP_EVENTS_LOST,
	STACKBEAT_S_MAPPINGS_DROPPED, /* mappings that were not told: see the limits */
	STACKBEAT_S_FILES, /* files that are kept now */
	STACKBEAT_S_MAPPINGS_WITHOUT_FILE, /* mappings whose file was not kept: too many were */
	STACKBEAT_S_WORKER_OVERHEAD_NS, /* ns of the worker that reads mappings and writes their records */
	STACKBEAT_S_PROBE_OVERHEAD_NS, /* ns in the probe of new mappings, within who makes them */
	STACKBEAT_S_COUNT
};

#endif /* _UAPI_STACKBEAT_H */

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
 *	poll(fd), drain the rings, advance the tails; repeat
 *	close(fd): timers are stopped, rings are freed
 *
 * open() fails with
 *	EACCES	no rights on the device node (mode 0600)
 *	EPERM	no CAP_PERFMON in the initial user namespace
 *	EUSERS	STACKBEAT_SESSIONS_MAX sessions are open, or, without CAP_PERFMON,
 *		STACKBEAT_USER_SESSIONS_MAX of the same user
 *	ENOMEM
 *
 * Where the module's parameter `unprivileged` is set, a user who may read and
 * write the device node needs no CAP_PERFMON. His sessions are restricted: they
 * see his own processes only (of his user id, without capabilities that he does
 * not have, and dumpable), of these the user part only, and only he and those
 * with CAP_PERFMON may configure or list them.
 *
 * The beat
 * --------
 * A session beats on each CPU at its rate. By default the intervals are drawn
 * at random, uniformly between half a period and one and a half, so that no
 * program can run in step with them; STACKBEAT_A_FIXED makes them equal. Either
 * way a sample weighs the mean period (and that of the intervals that were
 * missed before it): the expectation of a sum of weights is the CPU time that
 * was spent there.
 *
 * A CPU that goes idle is left alone: its beat is parked, and goes on where it
 * would be by then when the CPU leaves idle.
 *
 * A session may spend STACKBEAT_A_BUDGET of a CPU's time in its beats, measured
 * over STACKBEAT_BUDGET_WINDOW_NS. Where it spends more, its rate on that CPU is
 * halved, again and again, and doubled again once it spends less than a quarter
 * of the budget. Weights follow.
 *
 * Offsets
 * -------
 * mmap offsets name what is mapped; every mapping is MAP_SHARED:
 *
 *	0				the session page, one page, read-only
 *	STACKBEAT_OFFSET_CPU(n)		the consumer page of CPU n, one page,
 *					the only thing that may be writable
 *	STACKBEAT_OFFSET_CPU(n) + page	the producer page of CPU n, followed by
 *					the data of its ring: one page + ring
 *					size bytes, read-only
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
 * records are lost and counted as STACKBEAT_S_LOST_TAIL until the tail is right.
 */
#ifndef _UAPI_STACKBEAT_H
#define _UAPI_STACKBEAT_H

#include <linux/types.h>

#define STACKBEAT_DEVICE "/dev/stackbeat"

/* Moves with every incompatible change of this file. */
#define STACKBEAT_ABI 1
#define STACKBEAT_MAGIC 0x7461656265747362ULL

/* Limits and defaults. */
#define STACKBEAT_RATE_MIN 1u /* Hz */
#define STACKBEAT_RATE_MAX 20000u /* Hz; default and bound of the module parameter rate_max */
#define STACKBEAT_RATE_DEFAULT 99u /* Hz */
#define STACKBEAT_KERNEL_FRAMES_MAX 127u
#define STACKBEAT_USER_FRAMES_MAX 1023u
#define STACKBEAT_USER_FRAMES_DEFAULT 255u
#define STACKBEAT_RING_SIZE_MIN (64u << 10) /* bytes */
#define STACKBEAT_RING_SIZE_MAX (64u << 20) /* bytes */
#define STACKBEAT_RING_SIZE_DEFAULT (512u << 10) /* bytes */
#define STACKBEAT_SESSIONS_MAX 64u
#define STACKBEAT_USER_SESSIONS_MAX 4u /* restricted sessions of one user */
#define STACKBEAT_PIDS_MAX 1024u /* process ids in one filter; thread ids too */
#define STACKBEAT_CGROUPS_MAX 16u /* control groups in one filter */
#define STACKBEAT_COMMS_MAX 16u /* thread names in one filter */
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
#define STACKBEAT_STACK_HOPS_MAX 16u

#define STACKBEAT_OFFSET_SESSION 0ULL
#define STACKBEAT_OFFSET_CPU(cpu) (((__u64)(cpu) + 1) << 32)

/* The session page. */
struct stackbeat_session_page {
	__u64 magic; /* STACKBEAT_MAGIC */
	__u32 abi; /* STACKBEAT_ABI of the module */
	__u32 session; /* id of this session, never used twice */
	__u32 cpus; /* CPUs are numbered 0 to cpus - 1 */
	__u32 rings; /* moves when a ring was allocated */
	__u32 ring_size; /* bytes of data a CPU; final once rings is not 0 */
	__u32 reserved; /* 0 */
};

/* The consumer page: written by the reader. */
struct stackbeat_consumer_page {
	__u64 tail; /* bytes consumed */
};

/* The producer page: written by the kernel. The data begins one page after it. */
struct stackbeat_producer_page {
	__u64 head; /* bytes produced */
	__u32 size; /* bytes of data, a power of two */
	__u32 cpu;
};

enum stackbeat_record_type {
	STACKBEAT_RECORD_PAD = 1, /* nothing: skip `size` bytes */
	STACKBEAT_RECORD_SAMPLE = 2, /* struct stackbeat_sample */
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
enum stackbeat_end {
	STACKBEAT_END_ROOT = 0, /* at the outermost frame */
	STACKBEAT_END_DEPTH = 1, /* at the depth limit; there were more frames */
	STACKBEAT_END_MEMORY = 2, /* at memory that could not be read */
	STACKBEAT_END_FRAME = 3, /* at a frame pointer (or, in the kernel, unwind
				  * information) that can't be right */
	STACKBEAT_END_NO_USER = 4, /* no frames: a kernel thread has no user memory */
	STACKBEAT_END_OMITTED = 5, /* no frames: left out on request */
	STACKBEAT_END_NOT_ENTERED = 6, /* no frames: the CPU was not in kernel mode */
	STACKBEAT_END_COUNT
};

struct stackbeat_sample {
	struct stackbeat_record record; /* flags: STACKBEAT_SAMPLE_* */
	__u64 time; /* CLOCK_MONOTONIC, ns, of the interrupt */
	__u64 weight; /* ns that this sample stands for: the mean period, and
		       * that of the intervals that were missed before it */
	__u32 cpu;
	__u32 pid; /* process (thread group) id in the initial namespace */
	__u32 tid; /* thread id in the initial namespace */
	__u32 lost; /* records lost on this CPU since the last one written */
	__u32 missed; /* intervals, part of the weight, in which the timer
		       * came too late for a beat of their own */
	__u16 kernel_frames; /* count in frames[], first */
	__u16 user_frames; /* count in frames[], after those of the kernel */
	__u8 kernel_end; /* enum stackbeat_end */
	__u8 user_end; /* enum stackbeat_end */
	__u8 reserved[6]; /* 0 */
	char comm[16]; /* name of the thread, NUL-terminated */
	/*
	 * Each part leaf first. The first kernel frame is the interrupted
	 * address, or the first user frame where kernel_frames is 0. With kernel
	 * frames, the first user frame is the address to which the kernel will
	 * return. All others are return addresses: the call is before them.
	 */
	__u64 frames[];
};

/*
 * Generic netlink: family STACKBEAT_GENL_NAME, version STACKBEAT_GENL_VERSION.
 *
 * STACKBEAT_CMD_MODULE_GET	no attributes. Answers with
 *	STACKBEAT_A_ABI, _VERSION, _RATE_MAX, _SESSIONS.
 *
 * STACKBEAT_CMD_SESSION_GET	STACKBEAT_A_SESSION, or as a dump without it for
 *	all sessions. Answers with one message a session: STACKBEAT_A_SESSION,
 *	_STATE, _RATE, _PARTS, _INHERIT, _CPUS, _MAX_DEPTH, _RING_SIZE,
 *	_WATERMARK, _OWNER, _OWNER_COMM, _STATS, and in the answer for one session
 *	also _PIDS and a _CPU_STATS for each CPU (a dump has no room for them).
 *
 * STACKBEAT_CMD_SESSION_SET	STACKBEAT_A_SESSION and at least one of the
 *	settings below. Everything is checked before anything takes effect.
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
 *			at most one a second and CPU
 *	CPU_GONE	_CPU: it went offline, with it the session's beat there
 *	CPU_BACK	_CPU: it came online, and the session beats there
 *	Those of restricted sessions are not sent.
 *
 * Errors, with an extended message that says what is wrong with which attribute:
 *	EPERM	no CAP_PERFMON, or more than a restricted session may have
 *	EINVAL	an attribute is missing, unknown, malformed or has no meaning here
 *	ERANGE	a number is out of its range
 *	ENODEV	no such session
 *	ESRCH	no such process
 *	EBUSY	the setting can't be changed now
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
	STACKBEAT_A_RATE, /* u32: Hz, STACKBEAT_RATE_MIN to rate_max; takes effect
			   * on each CPU within one old period */
	STACKBEAT_A_PARTS, /* u32: STACKBEAT_PART_* that are sampled */
	STACKBEAT_A_PIDS, /* nested STACKBEAT_A_PID: processes that are sampled, with
			   * all their threads; an empty nest: all. Set with ids of
			   * the sender's pid namespace, told in the initial one */
	STACKBEAT_A_PID, /* u32: a process id */
	STACKBEAT_A_INHERIT, /* u8: 1: what the processes of the filter fork is
			      * sampled too (default), 0: it is not */
	STACKBEAT_A_CPUS, /* string: list like "0,2-3" of the CPUs that are
			   * sampled, "": all */
	STACKBEAT_A_MAX_DEPTH, /* u32: user frames, 1 to STACKBEAT_USER_FRAMES_MAX */
	STACKBEAT_A_RING_SIZE, /* u32: bytes of data a CPU, a power of two from
				* STACKBEAT_RING_SIZE_MIN to _MAX; not once a ring
				* was allocated */
	STACKBEAT_A_WATERMARK, /* u32: unread bytes in a ring that wake poll(), 1 to
				* the ring size; 0: half of the ring size (default) */

	/* What a session tells. */
	STACKBEAT_A_OWNER, /* u32: process id of the opener, initial namespace */
	STACKBEAT_A_OWNER_COMM, /* string: command name of the opener */
	STACKBEAT_A_STATS, /* nested STACKBEAT_S_*: sums over the CPUs */
	STACKBEAT_A_CPU_STATS, /* nested STACKBEAT_S_* of one CPU, with
				* STACKBEAT_S_CPU; repeated for each that has a ring */

	/* More settings. */
	STACKBEAT_A_FIXED, /* u8: 1: intervals are equal, 0: random (default) */
	STACKBEAT_A_BUDGET, /* u32: thousandths of a CPU that the beats on it may
			     * take, STACKBEAT_BUDGET_MIN to _MAX */
	STACKBEAT_A_TIDS, /* nested STACKBEAT_A_PID: threads that are sampled, as
			   * STACKBEAT_A_PIDS; what they clone is not added */
	STACKBEAT_A_CGROUPS, /* nested STACKBEAT_A_CGROUP: control groups that are
			      * sampled, with all below them; an empty nest: all */
	STACKBEAT_A_CGROUP, /* u64: id of a version 2 control group, which is the
			     * inode number of its directory */
	STACKBEAT_A_EXCLUDE_COMMS, /* nested STACKBEAT_A_COMM: threads of these
				    * names are not sampled; empty: none */
	STACKBEAT_A_COMM, /* string of up to STACKBEAT_COMM_SIZE - 1 bytes */
	STACKBEAT_A_RESTRICTED, /* u8: 1: the session of a user without CAP_PERFMON;
				 * can't be set */

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
	STACKBEAT_EVENT_CPU_GONE,
	STACKBEAT_EVENT_CPU_BACK,
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
	STACKBEAT_S_BEATS, /* timer interrupts of the session */
	STACKBEAT_S_SAMPLES, /* records written */
	STACKBEAT_S_LOST_FULL, /* records lost: the ring was full */
	STACKBEAT_S_LOST_TAIL, /* records lost: the reader's tail was wrong */
	STACKBEAT_S_IDLE, /* no record: the CPU was idle */
	STACKBEAT_S_FILTERED, /* no record: the filter left it out */
	STACKBEAT_S_MISSED, /* intervals without a beat of their own */
	STACKBEAT_S_COST, /* ns spent in the timer callback */
	STACKBEAT_S_TIME, /* ns that the beats stood for: BEATS over it is the mean rate */
	STACKBEAT_S_THROTTLED, /* how often the rate was halved to keep the budget */
	STACKBEAT_S_RATE, /* Hz in effect now, throttling included; of a session:
			   * that of its slowest CPU; 0: it does not run */
	STACKBEAT_S_COUNT
};

#endif /* _UAPI_STACKBEAT_H */

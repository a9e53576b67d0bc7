// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <stackbeat_unwind.h>

#include "message.h"
#include "steps.h"

#define PAGE 4096ul
#define FILES 8u
#define MAPPINGS 16u
/* Each mapping has a reserved address range, so that none can overlay the fuzzer itself. */
#define RANGE_SIZE (128ul << 20)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct open_file {
	int fd; /* -1: closed */
	uint32_t session; /* 0: not known */
};

struct mapping {
	size_t length; /* 0: none */
	uint64_t offset;
	int protection;
};

static struct {
	struct open_file files[FILES];
	struct mapping mappings[MAPPINGS];
	uint8_t *ranges;
	int netlink, events, epoll;
	pthread_t scribbler;
	bool scribbles;
	uint64_t scribbler_seed;
	_Atomic bool stop;
	struct steps_counts counts;
} state;

/* --- random numbers ------------------------------------------------------- */

void random_init(struct random *random, uint64_t seed)
{
	/* splitmix64 (Steele, Lea, Flood, 2014): similar seeds give unrelated states. */
	seed += 0x9e3779b97f4a7c15;
	seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
	seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
	seed ^= seed >> 31;
	random->state = seed ? seed : 1;
}

uint64_t draw_bits(struct random *random)
{
	/* xorshift64 (Marsaglia, 2003) */
	random->state ^= random->state << 13;
	random->state ^= random->state >> 7;
	random->state ^= random->state << 17;
	return random->state;
}

uint32_t draw(struct random *random, uint32_t below)
{
	return (uint32_t)(((draw_bits(random) >> 32) * below) >> 32);
}

bool draw_once_in(struct random *random, uint32_t times)
{
	return draw(random, times) == 0;
}

static uint64_t draw_word(struct random *random)
{
	static const uint64_t words[] = {
		0,          1,          8,         64,         4095,       4096,
		UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 7,
	};

	return draw_once_in(random, 3) ? draw_bits(random) : words[draw(random, COUNT(words))];
}

/* --- violations ----------------------------------------------------------- */

__attribute__((format(printf, 1, 2), noreturn)) static void violation(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("violation: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_exit(VIOLATION);
}

/* Whether an offset belongs to a consumer page: only these may be written. */
static bool is_consumer(uint64_t offset)
{
	if (offset == STACKBEAT_OFFSET_META)
		return true;
	return offset >= STACKBEAT_OFFSET_CPU(0) && (offset & UINT32_MAX) == 0;
}

static void check_protection(uint64_t offset, int protection, const char *how)
{
	if (protection & PROT_EXEC)
		violation("%s made offset %#llx executable", how, (unsigned long long)offset);
	if ((protection & PROT_WRITE) && !is_consumer(offset))
		violation("%s made offset %#llx writable", how, (unsigned long long)offset);
}

/* --- memory that may be unmapped ------------------------------------------ */

static _Thread_local sigjmp_buf escape;
static _Thread_local volatile bool escapes;

static void on_fault(int number)
{
	if (escapes)
		siglongjmp(escape, 1);
	signal(number, SIG_DFL);
}

/* Stores *value, or loads if `value` is NULL. False if that faults. */
static bool touch(volatile uint64_t *at, const uint64_t *value)
{
	/* The handler does not change the signal mask: see SA_NODEFER in steps_init(). */
	if (sigsetjmp(escape, 0)) {
		escapes = false;
		return false;
	}
	escapes = true;
	if (value)
		*at = *value;
	else
		(void)*at;
	escapes = false;
	return true;
}

/* --- slots ---------------------------------------------------------------- */

static uint8_t *address_of(const struct mapping *mapping)
{
	return state.ranges + (size_t)(mapping - state.mappings) * RANGE_SIZE;
}

/* The first open file from `slot` on, or the closed one at `slot`. */
static struct open_file *file_at(unsigned int slot)
{
	for (unsigned int step = 0; step < FILES; step++) {
		struct open_file *file = &state.files[(slot + step) % FILES];

		if (file->fd >= 0)
			return file;
	}
	return &state.files[slot % FILES];
}

static struct open_file *free_file(unsigned int slot)
{
	for (unsigned int step = 0; step < FILES; step++) {
		struct open_file *file = &state.files[(slot + step) % FILES];

		if (file->fd < 0)
			return file;
	}
	return NULL;
}

/* The first mapping from `slot` on, or NULL. */
static struct mapping *mapping_at(unsigned int slot)
{
	for (unsigned int step = 0; step < MAPPINGS; step++) {
		struct mapping *mapping = &state.mappings[(slot + step) % MAPPINGS];

		if (mapping->length)
			return mapping;
	}
	return NULL;
}

static struct mapping *free_mapping(unsigned int slot)
{
	for (unsigned int step = 0; step < MAPPINGS; step++) {
		struct mapping *mapping = &state.mappings[(slot + step) % MAPPINGS];

		if (!mapping->length)
			return mapping;
	}
	return NULL;
}

/* Replaces the mapping by an inaccessible one, so that its address range stays reserved. */
static void clear_mapping(struct mapping *mapping)
{
	mmap(address_of(mapping), RANGE_SIZE, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	mapping->length = 0;
}

static void close_file(struct open_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	file->session = 0;
}

/* --- the steps ------------------------------------------------------------ */

static void read_session(struct open_file *file)
{
	const struct stackbeat_session_page *page =
		mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file->fd, STACKBEAT_OFFSET_SESSION);

	if (page == MAP_FAILED)
		return;
	if (page->magic != STACKBEAT_MAGIC || page->abi != STACKBEAT_ABI || !page->session)
		violation("session page: magic %#llx, ABI %u, session %u",
			  (unsigned long long)page->magic, page->abi, page->session);
	file->session = page->session;
	state.counts.sessions++;
	munmap((void *)page, PAGE);
}

static void step_open(unsigned int slot, struct random *random)
{
	static const int flags[] = {
		O_RDONLY,
		O_WRONLY,
		O_RDWR | O_NONBLOCK,
		O_PATH,
		O_RDWR | O_APPEND,
		O_RDWR | O_TRUNC,
		O_RDWR | O_DIRECT,
		O_RDWR | O_DIRECTORY,
		O_RDWR | O_CREAT | O_EXCL,
		O_RDWR | O_SYNC,
	};
	struct open_file *file = free_file(slot);
	int how = O_RDWR;

	if (!file)
		return;
	if (draw_once_in(random, 6))
		how = flags[draw(random, COUNT(flags))];
	file->fd = open(STACKBEAT_DEVICE, how | (draw_once_in(random, 2) ? O_CLOEXEC : 0), 0600);
	if (file->fd >= 0)
		read_session(file);
}

static void step_close(unsigned int slot, struct random *random)
{
	(void)random;
	close_file(file_at(slot));
}

static void step_duplicate(unsigned int slot, struct random *random)
{
	const struct open_file *file = file_at(slot);
	struct open_file *copy = free_file(slot);
	char path[64];

	if (!copy)
		return;
	switch (draw(random, 3)) {
	case 0:
		copy->fd = dup(file->fd);
		copy->session = file->session;
		break;
	case 1: /* another session */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
		copy->fd = open(path, O_RDWR | O_CLOEXEC);
		if (copy->fd >= 0)
			read_session(copy);
		break;
	default:
		copy->fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 100);
		copy->session = file->session;
	}
}

static uint64_t draw_offset(struct random *random)
{
	uint32_t cpu = draw(random, 2);

	switch (draw(random, 10)) {
	case 0:
		return STACKBEAT_OFFSET_SESSION;
	case 1:
		return STACKBEAT_OFFSET_META;
	case 2:
		return STACKBEAT_OFFSET_META + PAGE;
	case 3:
	case 4:
	case 5:
		return STACKBEAT_OFFSET_CPU(cpu);
	case 6:
	case 7:
	case 8:
		return STACKBEAT_OFFSET_CPU(cpu) + PAGE;
	default:
		cpu = draw_once_in(random, 2) ? draw(random, 1u << 16) : cpu;
		return (STACKBEAT_OFFSET_CPU(cpu) + draw(random, 4) * PAGE) &
		       (draw_once_in(random, 4) ? draw_bits(random) : UINT64_MAX) & ~(PAGE - 1);
	}
}

static size_t draw_length(struct random *random, uint64_t offset)
{
	if (draw_once_in(random, 12))
		return (draw(random, 64) + 1) * PAGE;
	if (offset == STACKBEAT_OFFSET_META + PAGE)
		return PAGE + STACKBEAT_META_RING_SIZE;
	if (offset < STACKBEAT_OFFSET_CPU(0) || is_consumer(offset))
		return PAGE;
	if (draw_once_in(random, 2))
		return PAGE + STACKBEAT_RING_SIZE_DEFAULT;
	return PAGE + (STACKBEAT_RING_SIZE_MIN << draw(random, 4));
}

static int draw_protection(struct random *random, uint64_t offset)
{
	if (draw_once_in(random, 5))
		return (int)draw(random, 8);
	return is_consumer(offset) ? PROT_READ | PROT_WRITE : PROT_READ;
}

static void step_map(unsigned int slot, struct random *random)
{
	static const int flags[] = {
		MAP_PRIVATE,
		MAP_SHARED | MAP_POPULATE,
		MAP_SHARED | MAP_LOCKED,
		MAP_SHARED_VALIDATE,
		MAP_SHARED | MAP_HUGETLB,
		MAP_SHARED | MAP_NORESERVE,
		MAP_SHARED_VALIDATE | MAP_SYNC,
		MAP_PRIVATE | MAP_GROWSDOWN,
	};
	struct mapping *mapping = draw_once_in(random, 8) ? mapping_at(slot) : free_mapping(slot);
	uint64_t offset = draw_offset(random);
	size_t length = draw_length(random, offset);
	int protection = draw_protection(random, offset), how = MAP_SHARED;

	if (!mapping)
		return;
	if (draw_once_in(random, 8))
		how = flags[draw(random, COUNT(flags))];
	if (mmap(address_of(mapping), length, protection, how | MAP_FIXED, file_at(slot)->fd,
		 (off_t)offset) == MAP_FAILED) {
		/* A failed mmap() may have removed the old mapping. */
		clear_mapping(mapping);
		return;
	}
	check_protection(offset, protection, "mmap");
	if ((how & MAP_TYPE) == MAP_PRIVATE)
		violation("a private mapping of offset %#llx", (unsigned long long)offset);
	mapping->length = length;
	mapping->offset = offset;
	mapping->protection = protection;
}

static void step_unmap(unsigned int slot, struct random *random)
{
	struct mapping *mapping = mapping_at(slot);

	if (!mapping)
		return;
	if (draw_once_in(random, 3)) {
		size_t pages = mapping->length / PAGE;
		size_t first = draw(random, (uint32_t)pages), count = draw(random, 4) + 1;

		if (first + count > pages)
			count = pages - first;
		if (count < pages && munmap(address_of(mapping) + first * PAGE, count * PAGE) == 0)
			violation("a mapping of offset %#llx was split",
				  (unsigned long long)mapping->offset);
		if (count < pages)
			return;
	}
	clear_mapping(mapping);
}

static void step_protect(unsigned int slot, struct random *random)
{
	struct mapping *mapping = mapping_at(slot);
	int protection = (int)draw(random, 8);
	bool part = draw_once_in(random, 3);

	if (!mapping || (part && mapping->length == PAGE))
		return;
	if (mprotect(address_of(mapping), part ? PAGE : mapping->length, protection))
		return;
	check_protection(mapping->offset, protection, "mprotect");
	/* The same protection does not split a mapping. */
	if (part && protection != mapping->protection)
		violation("mprotect split offset %#llx", (unsigned long long)mapping->offset);
	mapping->protection = protection;
}

static void step_remap(unsigned int slot, struct random *random)
{
	static const int hows[] = {
		0,
		MREMAP_MAYMOVE,
		MREMAP_MAYMOVE | MREMAP_FIXED,
		MREMAP_MAYMOVE | MREMAP_FIXED,
		MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
	};
	struct mapping *mapping = mapping_at(slot);
	struct mapping *target = free_mapping(slot);
	size_t old, length;
	int how = hows[draw(random, COUNT(hows))];
	void *moved;

	if (!mapping || !target)
		return;
	old = length = mapping->length;
	if (draw_once_in(random, 4))
		old = draw(random, 2) * PAGE;
	if (draw_once_in(random, 2))
		length = (draw(random, (uint32_t)(2 * mapping->length / PAGE)) + 1) * PAGE;
	/* Without MREMAP_FIXED the mapping would leave the reserved ranges. */
	if ((how & MREMAP_MAYMOVE) && !(how & MREMAP_FIXED))
		how |= MREMAP_FIXED;
	moved = mremap(address_of(mapping), old, length, how, address_of(target));
	if (moved == MAP_FAILED) {
		clear_mapping(target);
		return;
	}
	if (old != mapping->length || length != old || (how & MREMAP_DONTUNMAP))
		violation("mremap of %zu of %zu bytes of offset %#llx to %zu, flags %d", old,
			  mapping->length, (unsigned long long)mapping->offset, length, how);
	if (moved == address_of(mapping))
		return;
	*target = *mapping;
	clear_mapping(mapping);
}

static void step_advise(unsigned int slot, struct random *random)
{
	/* Without MADV_HWPOISON and MADV_SOFT_OFFLINE, which disable physical pages. */
	static const int advices[] = {
		MADV_NORMAL,
		MADV_WILLNEED,
		MADV_DONTNEED,
		MADV_FREE,
		MADV_REMOVE,
		MADV_DONTFORK,
		MADV_DOFORK,
		MADV_MERGEABLE,
		MADV_HUGEPAGE,
		MADV_DONTDUMP,
		MADV_DODUMP,
		MADV_WIPEONFORK,
		MADV_KEEPONFORK,
		MADV_COLD,
		MADV_PAGEOUT,
		MADV_POPULATE_READ,
		MADV_POPULATE_WRITE,
		25 /* MADV_COLLAPSE */,
		24 /* MADV_DONTNEED_LOCKED */,
		-1,
	};
	const struct mapping *mapping = mapping_at(slot);
	size_t length;

	if (!mapping)
		return;
	length = draw_once_in(random, 3) ? PAGE : mapping->length;
	switch (draw(random, 6)) {
	case 0:
		mlock(address_of(mapping), length);
		break;
	case 1:
		munlock(address_of(mapping), length);
		break;
	case 2:
		msync(address_of(mapping), length, MS_SYNC | MS_INVALIDATE);
		break;
	default:
		madvise(address_of(mapping), length, advices[draw(random, COUNT(advices))]);
	}
}

static void step_read_write(unsigned int slot, struct random *random)
{
	int fd = file_at(slot)->fd;
	uint8_t data[64] = {0};
	struct iovec vector = {.iov_base = data, .iov_len = sizeof(data)};
	ssize_t done = -1;

	switch (draw(random, 14)) {
	case 0:
		done = read(fd, data, sizeof(data));
		break;
	case 1:
		done = write(fd, data, sizeof(data));
		break;
	case 2:
		done = pread(fd, data, sizeof(data), (off_t)draw_word(random));
		break;
	case 3:
		done = readv(fd, &vector, 1);
		break;
	case 4:
		done = pwritev(fd, &vector, 1, 0);
		break;
	case 5:
		lseek(fd, (off_t)draw_word(random), (int)draw(random, 6));
		break;
	case 6:
		ftruncate(fd, (off_t)draw_word(random));
		break;
	case 7:
		fsync(fd);
		break;
	case 8:
		done = sendfile(fd, fd, NULL, 64);
		break;
	case 9:
		fallocate(fd, (int)draw(random, 8), 0, (off_t)PAGE);
		break;
	case 10:
		done = copy_file_range(fd, NULL, fd, NULL, 64, 0);
		break;
	case 11:
		fcntl(fd, F_SETFL, (int)draw_bits(random) & (O_NONBLOCK | O_APPEND | O_ASYNC));
		break;
	case 12:
		fcntl(fd, F_SETOWN, getpid());
		break;
	default: {
		struct stat status;

		fstat(fd, &status);
		fchmod(fd, status.st_mode);
	}
	}
	if (done > 0)
		violation("%zd bytes were read from or written to the device", done);
}

static void step_poll(unsigned int slot, struct random *random)
{
	struct open_file *file = file_at(slot);
	struct pollfd poll_file = {.fd = file->fd, .events = (short)draw_bits(random)};
	struct epoll_event event = {.events = (uint32_t)draw_bits(random) & ~EPOLLWAKEUP};

	switch (draw(random, 4)) {
	case 0:
		if (state.epoll < 0)
			state.epoll = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(state.epoll, (int)draw(random, 3) + 1, file->fd, &event);
		break;
	case 1:
		epoll_wait(state.epoll, &event, 1, (int)draw(random, 3));
		break;
	default:
		poll(&poll_file, 1, (int)draw(random, 4));
	}
}

static uint64_t draw_file_id(struct random *random)
{
	return draw_once_in(random, 4) ? draw_word(random) : 1 + draw(random, 12);
}

/* Checks that a mapped file is opened read-only and close-on-exec, and uses it. */
static void use_mapped_file(int fd, struct random *random)
{
	uint8_t data[64];
	void *at;

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
		violation("a mapped file was opened for writing");
	if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
		violation("a mapped file was opened without close-on-exec");
	pread(fd, data, sizeof(data), (off_t)draw(random, 4096));
	at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at != MAP_FAILED)
		munmap(at, PAGE);
	close(fd);
}

static void step_ioctl(unsigned int slot, struct random *random)
{
	static const unsigned long commands[] = {
		STACKBEAT_IOC_FILE_OPEN,
		STACKBEAT_IOC_FILE_RELEASE,
		STACKBEAT_IOC_UNWIND_TABLE,
		STACKBEAT_IOC_MOVED_TEXT,
		STACKBEAT_IOC_MODULE_SYMBOLS,
		_IOR(STACKBEAT_IOC_MAGIC, 1, __u64),
		_IOW(STACKBEAT_IOC_MAGIC, 0, __u64),
		_IOW(0xb7, 3, __u64),
		_IOW(0xb7, 1, __u32),
		FIONREAD,
		FIONBIO,
		FIOASYNC,
	};
	unsigned long command = draw(random, 2) + STACKBEAT_IOC_FILE_OPEN;
	/* As large as the largest argument that the kernel writes. */
	uint64_t words[sizeof(struct stackbeat_module_symbols) / sizeof(uint64_t)] = {
		draw_file_id(random)};
	void *argument = words;
	int fd;

	if (draw_once_in(random, 6))
		command = commands[draw(random, COUNT(commands))];
	if (draw_once_in(random, 16))
		argument = (void *)draw_word(random);
	if (draw_once_in(random, 16))
		argument = (void *)mapping_at(slot);
	fd = ioctl(file_at(slot)->fd, command, argument);
	if (command == STACKBEAT_IOC_FILE_OPEN && fd >= 0)
		use_mapped_file(fd, random);
}

/* A table of random rules for all code of a file: one row a block. */
struct random_table {
	struct stackbeat_unwind_table header;
	struct stackbeat_unwind_rule rules[8];
	struct stackbeat_unwind_run runs[2];
	uint32_t blocks[64 + 1];
	uint16_t row_rules[64];
	uint8_t row_starts[64];
	uint8_t padding[4];
};
_Static_assert(sizeof(struct random_table) % 8 == 0, "no padding by the compiler");

static void draw_table(struct random *random, struct random_table *table)
{
	memset(table, 0, sizeof(*table));
	table->header = (struct stackbeat_unwind_table){
		.magic = STACKBEAT_UNWIND_MAGIC,
		.size = (uint32_t)sizeof(*table),
		.start = draw_once_in(random, 8) ? draw_word(random) : draw(random, 4) * 4096,
		.block_count = 64,
		.row_count = 64,
		.rule_count = 8,
		.run_count = 2,
	};
	for (size_t i = 0; i < COUNT(table->rules); i++) {
		uint32_t extra = (uint32_t)draw(random, 4), place = (uint32_t)draw(random, 4);

		table->rules[i] = (struct stackbeat_unwind_rule){
			.cfa = (int32_t)draw(random, 64) * 8 - 64,
			.kind_base = (uint8_t)(draw(random, 4) | draw(random, 16) << 4),
			.flags = (uint8_t)((place ? 1u << (place - 1) : 0) |
					   (extra ? 4u << extra : 0)),
			.rbp = (int8_t)draw(random, 16),
			.extra = (int8_t)draw(random, 16),
		};
	}
	/* Up to the end of the code. */
	for (uint32_t i = 0, end = 0; i < COUNT(table->runs); i++) {
		table->runs[i].start = end + (uint32_t)draw(random, 4096);
		end = table->runs[i].start + 1 + (uint32_t)draw(random, 4095);
		table->runs[i].end = end;
	}
	for (uint32_t i = 0; i < COUNT(table->row_rules); i++) {
		table->blocks[i + 1] = i + 1;
		table->row_rules[i] = (uint16_t)draw(random, 8);
	}
	/* Sometimes the table is invalid. */
	if (draw_once_in(random, 3))
		((uint8_t *)table)[draw(random, sizeof(*table))] = (uint8_t)draw(random, 256);
}

static void step_table(unsigned int slot, struct random *random)
{
	struct random_table table;
	struct stackbeat_unwind_push push = {
		.file = draw_once_in(random, 4) ? STACKBEAT_FILE_VDSO : draw_file_id(random),
		.table = (uintptr_t)&table,
		.size = sizeof(table),
	};

	draw_table(random, &table);
	if (draw_once_in(random, 8))
		push.table = draw_once_in(random, 2) ? 0 : draw_word(random);
	if (draw_once_in(random, 8))
		push.table = (uintptr_t)mapping_at(slot);
	if (draw_once_in(random, 8))
		push.size = draw_word(random);
	ioctl(file_at(slot)->fd, STACKBEAT_IOC_UNWIND_TABLE, &push);
}

/* Mostly of an address space and a generation that exist, in this process. */
static void step_moved_text(unsigned int slot, struct random *random)
{
	const uint64_t code = (uint64_t)step_moved_text & ~(uint64_t)(PAGE - 1);
	struct stackbeat_moved_text moved = {
		.address_space = draw(random, 64),
		.start = (uint64_t)mapping_at(slot),
		.beside = code,
		.generation = (uint32_t)draw(random, 16),
	};

	if (draw_once_in(random, 4))
		moved.start = draw_word(random) & ~(uint64_t)(PAGE - 1);
	moved.end = moved.start + PAGE * draw(random, 4);
	if (draw_once_in(random, 8))
		moved.end = draw_word(random);
	if (draw_once_in(random, 8))
		moved.beside = draw_word(random);
	if (draw_once_in(random, 8))
		moved.reserved = (uint32_t)draw_word(random);
	ioctl(file_at(slot)->fd, STACKBEAT_IOC_MOVED_TEXT, &moved);
}

/* Of this module there are none: other processes of the guest load some at most. */
static void step_module_symbols(unsigned int slot, struct random *random)
{
	char buffer[256];
	struct stackbeat_module_symbols symbols = {
		.serial = draw(random, 16),
		.buffer = (uintptr_t)buffer,
		.size = draw(random, sizeof(buffer) + 1),
	};

	if (draw_once_in(random, 8))
		symbols.serial = draw_word(random);
	if (draw_once_in(random, 4))
		symbols.buffer = draw_once_in(random, 2) ? (uint64_t)mapping_at(slot)
							 : draw_word(random) | UINT64_C(1) << 63;
	if (draw_once_in(random, 8) && symbols.buffer != (uintptr_t)buffer)
		symbols.size = draw_word(random);
	ioctl(file_at(slot)->fd, STACKBEAT_IOC_MODULE_SYMBOLS, &symbols);
}

static void step_message(unsigned int slot, struct random *random)
{
	if (state.netlink < 0)
		state.netlink = message_open();
	message_send_any(state.netlink, random, file_at(slot)->session);
}

/* Starts a session at a valid rate: most random settings are invalid. */
static void step_start(unsigned int slot, struct random *random)
{
	uint32_t id = file_at(slot)->session;

	if (state.netlink < 0)
		state.netlink = message_open();
	message_set(state.netlink, id, STACKBEAT_A_RATE, 1 + draw(random, STACKBEAT_RATE_MAX / 4));
	message_set(state.netlink, id, STACKBEAT_A_STATE, STACKBEAT_STATE_RUNNING);
}

static void step_events(unsigned int slot, struct random *random)
{
	(void)slot;
	if (state.events < 0) {
		state.events = message_open();
		message_join(state.events);
	} else if (draw_once_in(random, 3)) {
		close(state.events);
		state.events = -1;
	} else {
		message_drain(state.events);
	}
}

/* Thread that writes random reader positions while the kernel writes records. */
static void *scribble(void *unused)
{
	struct random random;

	random_init(&random, state.scribbler_seed);
	for (uint32_t times = 1; !state.stop; times++) {
		struct mapping *mapping = &state.mappings[draw(&random, MAPPINGS)];
		uint64_t value = draw_word(&random);

		/* The main thread may unmap it at any moment. */
		if (mapping->length && is_consumer(mapping->offset))
			touch((uint64_t *)address_of(mapping) +
				      draw(&random, 2) * draw(&random, 512),
			      &value);
		if (times % 64 == 0)
			sched_yield();
	}
	return unused;
}

static void stop_scribbler(void)
{
	if (!state.scribbles)
		return;
	state.stop = true;
	pthread_join(state.scribbler, NULL);
	state.scribbles = false;
}

static void step_scribble(unsigned int slot, struct random *random)
{
	(void)slot;
	if (state.scribbles) {
		stop_scribbler();
		return;
	}
	state.stop = false;
	state.scribbler_seed = draw_bits(random);
	state.scribbles = pthread_create(&state.scribbler, NULL, scribble, NULL) == 0;
}

/* Sets the reader position to the head, or to a random value. */
static void step_tail(unsigned int slot, struct random *random)
{
	const struct mapping *data = mapping_at(slot);
	const struct mapping *consumer = mapping_at(slot + draw(random, MAPPINGS));
	uint64_t tail = draw_word(random);

	if (!data || !consumer || !is_consumer(consumer->offset))
		return;
	if (draw_once_in(random, 2) && data->offset == consumer->offset + PAGE &&
	    touch((uint64_t *)address_of(data), NULL))
		tail = ((const struct stackbeat_producer_page *)address_of(data))->head;
	touch((uint64_t *)address_of(consumer), &tail);
}

static void step_touch(unsigned int slot, struct random *random)
{
	const struct mapping *mapping = mapping_at(slot);
	uint64_t value = draw_word(random);

	if (!mapping)
		return;
	for (size_t at = 0; at < mapping->length; at += PAGE)
		touch((uint64_t *)(address_of(mapping) + at), NULL);
	if (touch((uint64_t *)address_of(mapping), &value) && !(mapping->protection & PROT_WRITE))
		violation("offset %#llx was written", (unsigned long long)mapping->offset);
}

/* Accesses mapped memory by other ways than loads and stores. */
static void step_misuse(unsigned int slot, struct random *random)
{
	const struct mapping *mapping = mapping_at(slot);
	uint64_t word = draw_word(random);
	struct iovec own = {.iov_base = &word, .iov_len = sizeof(word)}, other = {0};
	int pipes[2] = {-1, -1}, fd;

	if (!mapping)
		return;
	other.iov_base = address_of(mapping);
	other.iov_len = mapping->length;
	switch (draw(random, 6)) {
	case 0:
		process_vm_readv(getpid(), &own, 1, &other, 1, 0);
		break;
	case 1:
		if (process_vm_writev(getpid(), &own, 1, &other, 1, 0) > 0 &&
		    !(mapping->protection & PROT_WRITE))
			violation("process_vm_writev wrote to offset %#llx",
				  (unsigned long long)mapping->offset);
		break;
	case 2: /* forced writes, as by a debugger, must fail, too */
		fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		if (pwrite(fd, &word, sizeof(word), (off_t)(uintptr_t)address_of(mapping)) > 0 &&
		    !is_consumer(mapping->offset))
			violation("/proc/self/mem wrote to offset %#llx",
				  (unsigned long long)mapping->offset);
		close(fd);
		break;
	case 3: /* pages that outlive their mapping */
		if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
			break;
		vmsplice(pipes[1], &other, 1, SPLICE_F_NONBLOCK);
		if (draw_once_in(random, 2))
			clear_mapping(&state.mappings[mapping - state.mappings]);
		if (draw_once_in(random, 2))
			close_file(file_at(slot));
		read(pipes[0], &word, sizeof(word));
		break;
	case 4:
		if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK))
			break;
		write(pipes[1], address_of(mapping), mapping->length);
		break;
	default:
		syscall(SYS_futex, address_of(mapping), FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	if (pipes[0] >= 0) {
		close(pipes[0]);
		close(pipes[1]);
	}
}

/* Maps code, and changes its mapping. */
static void step_code(unsigned int slot, struct random *random)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t length = (1 + draw(random, 4)) * PAGE;
	void *at;

	(void)slot;
	switch (draw(random, 4)) {
	case 0:
		fd = memfd_create("code", MFD_CLOEXEC);
		flags = MAP_SHARED;
		if (ftruncate(fd, (off_t)length))
			break;
		break;
	case 1:
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		flags = MAP_PRIVATE;
		break;
	default:
		break;
	}
	for (uint32_t times = 1 + draw(random, 20); times; times--) {
		at = mmap(NULL, length, PROT_READ | PROT_EXEC, flags, fd, 0);
		if (at == MAP_FAILED)
			break;
		mprotect(at, PAGE, PROT_READ);
		mprotect(at, PAGE, PROT_READ | PROT_EXEC);
		munmap(at, length);
	}
	if (fd >= 0)
		close(fd);
}

static void step_work(unsigned int slot, struct random *random)
{
	struct timespec until, now;
	uint32_t us = 100 + draw(random, 3000);
	bool calls = draw_once_in(random, 2);

	(void)slot;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += us * 1000;
	do {
		if (calls)
			syscall(SYS_getppid);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - until.tv_sec) * 1000000000 + now.tv_nsec < until.tv_nsec);
}

static void step_identity(unsigned int slot, struct random *random)
{
	char name[16] = {0};
	cpu_set_t cpus;

	(void)slot;
	switch (draw(random, 3)) {
	case 0:
		for (size_t at = 0; at < sizeof(name) - 1; at++)
			name[at] = (char)draw_bits(random);
		prctl(PR_SET_NAME, name);
		break;
	case 1:
		prctl(PR_SET_DUMPABLE, draw(random, 2));
		break;
	default:
		CPU_ZERO(&cpus);
		CPU_SET(draw(random, 2), &cpus);
		if (draw_once_in(random, 2))
			CPU_SET(draw(random, 2), &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus);
	}
}

static void run_step(const struct step *step);

/* The child of step_fork(): must not inherit mappings; runs some steps on inherited files. */
static void run_child(struct random *random)
{
	for (unsigned int slot = 0; slot < MAPPINGS; slot++) {
		const struct mapping *mapping = &state.mappings[slot];

		if (mapping->length && touch((uint64_t *)address_of(mapping), NULL))
			violation("a child has offset %#llx", (unsigned long long)mapping->offset);
		state.mappings[slot].length = 0;
	}
	state.scribbles = false;
	for (uint32_t steps = draw(random, 6); steps; steps--) {
		struct step step = {.kind = draw_kind(random),
				    .slot = (uint8_t)draw_bits(random),
				    .seed = (uint32_t)draw_bits(random)};

		run_step(&step);
	}
	switch (draw(random, 4)) {
	case 0:
		raise(SIGKILL);
		break;
	case 1:
		execl("/bin/true", "true", NULL);
		break;
	default:
		break;
	}
	_exit(0);
}

static unsigned int generation;

static void step_fork(unsigned int slot, struct random *random)
{
	struct random child_random = {draw_bits(random) | 1};
	int status;
	pid_t child;

	(void)slot;
	if (generation == 2)
		return;
	child = fork();
	if (child == 0) {
		generation++;
		run_child(&child_random);
	}
	if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	    WEXITSTATUS(status) == VIOLATION)
		_exit(VIOLATION);
}

static void send_file(int socket, int fd)
{
	char byte = 0;
	struct iovec vector = {.iov_base = &byte, .iov_len = 1};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(fd))];
	} control = {0};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	sendmsg(socket, &message, MSG_DONTWAIT);
}

static int receive_fd(int socket)
{
	char byte;
	struct iovec vector = {.iov_base = &byte, .iov_len = 1};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &vector,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) > 0 &&
	    message.msg_controllen >= CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

/* Passes a file over a socket: it may be closed here meanwhile, and may never be received. */
static void step_pass(unsigned int slot, struct random *random)
{
	struct open_file *file = file_at(slot);
	uint32_t session = file->session;
	int sockets[2], fd = -1;

	if (file->fd < 0)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		return;
	send_file(sockets[0], file->fd);
	/* Also the socket itself: a reference cycle that only the kernel can collect. */
	if (draw_once_in(random, 4))
		send_file(sockets[0], sockets[1]);
	if (draw_once_in(random, 2))
		close_file(file);
	if (!draw_once_in(random, 3))
		fd = receive_fd(sockets[1]);
	file = free_file(slot);
	if (fd >= 0 && file) {
		file->fd = fd;
		file->session = session;
	} else if (fd >= 0) {
		close(fd);
	}
	close(sockets[0]);
	close(sockets[1]);
}

static const struct {
	void (*run)(unsigned int slot, struct random *random);
	unsigned int weight;
} kinds[] = {
	{step_open, 10},      {step_close, 4},          {step_duplicate, 3}, {step_map, 20},
	{step_unmap, 5},      {step_protect, 5},        {step_remap, 5},     {step_advise, 4},
	{step_read_write, 4}, {step_poll, 4},           {step_ioctl, 8},     {step_message, 24},
	{step_start, 8},      {step_events, 2},         {step_scribble, 4},  {step_tail, 5},
	{step_touch, 4},      {step_misuse, 5},         {step_code, 5},      {step_work, 10},
	{step_identity, 2},   {step_fork, 2},           {step_pass, 3},      {step_table, 8},
	{step_moved_text, 4}, {step_module_symbols, 4},
};

unsigned int step_kinds(void)
{
	return COUNT(kinds);
}

uint8_t draw_kind(struct random *random)
{
	unsigned int kind, sum = 0;
	uint32_t at;

	for (kind = 0; kind < COUNT(kinds); kind++)
		sum += kinds[kind].weight;
	at = draw(random, sum);
	for (kind = 0; at >= kinds[kind].weight; kind++)
		at -= kinds[kind].weight;
	return (uint8_t)kind;
}

static void run_step(const struct step *step)
{
	struct random random;

	random_init(&random, step->seed);
	kinds[step->kind % COUNT(kinds)].run(step->slot, &random);
}

/* --- programs ------------------------------------------------------------- */

/* Checks that each tick of a session is counted in exactly one of the outcomes. */
static void check_session(uint32_t session)
{
	uint64_t counts[STACKBEAT_S_COUNT] = {0};
	uint32_t now = 0;

	message_set(state.netlink, session, STACKBEAT_A_STATE, STACKBEAT_STATE_STOPPED);
	/* Another process may have restarted it. */
	if (!message_get(state.netlink, session, &now, counts) || now != STACKBEAT_STATE_STOPPED)
		return;
	if (counts[STACKBEAT_S_TICKS] !=
	    counts[STACKBEAT_S_SAMPLES] + counts[STACKBEAT_S_LOST_FULL] +
		    counts[STACKBEAT_S_LOST_BAD_TAIL] + counts[STACKBEAT_S_IDLE] +
		    counts[STACKBEAT_S_FILTERED])
		violation("session %u: %llu ticks, but %llu samples, %llu and %llu lost, %llu "
			  "idle, %llu filtered",
			  session, (unsigned long long)counts[STACKBEAT_S_TICKS],
			  (unsigned long long)counts[STACKBEAT_S_SAMPLES],
			  (unsigned long long)counts[STACKBEAT_S_LOST_FULL],
			  (unsigned long long)counts[STACKBEAT_S_LOST_BAD_TAIL],
			  (unsigned long long)counts[STACKBEAT_S_IDLE],
			  (unsigned long long)counts[STACKBEAT_S_FILTERED]);
	state.counts.balances += counts[STACKBEAT_S_TICKS] > 0;
}

const struct steps_counts *steps_counts(void)
{
	return &state.counts;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void release_all(void)
{
	for (unsigned int slot = 0; slot < FILES; slot++) {
		if (state.files[slot].session && state.netlink >= 0)
			check_session(state.files[slot].session);
		close_file(&state.files[slot]);
	}
	for (unsigned int slot = 0; slot < MAPPINGS; slot++) {
		if (state.mappings[slot].length)
			clear_mapping(&state.mappings[slot]);
	}
	close_fd(&state.netlink);
	close_fd(&state.events);
	close_fd(&state.epoll);
}

void steps_init(void)
{
	struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};

	message_init();
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	state.netlink = state.events = state.epoll = -1;
	for (unsigned int slot = 0; slot < FILES; slot++)
		state.files[slot].fd = -1;
	state.ranges = mmap(NULL, MAPPINGS * RANGE_SIZE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (state.ranges == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
}

void run_program(const struct program *program, bool leave)
{
	for (uint32_t index = 0; index < program->count && index < STEPS_MAX; index++)
		run_step(&program->steps[index]);
	stop_scribbler();
	if (!leave)
		release_all();
}

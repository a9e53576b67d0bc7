// SPDX-License-Identifier: GPL-2.0
/*
 * hostile [MODE]
 *
 * Loads the frame pointer register with what no program would, and works with
 * it for ever. Each mode is a line of the table below, with how the user part
 * of its stacks may end (enum stackbeat_unwind_stop; more than one where it depends on
 * the moment of the sample) and how many frames it then has at the least and
 * at the most. Without MODE, prints the table as JSON.
 *
 * Prints where its loop is ("begin" to "end": every sample there is one of the
 * mode), as JSON, just before it enters it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stackbeat.h"

#define PAGE 4096ul
struct frame {
	uint64_t caller;
	uint64_t address;
};

/* Functions that run for ever; the labels are where samples of them lie. */
void spin_fp(uint64_t fp) __attribute__((noreturn));
void spin_sp(uint64_t fp) __attribute__((noreturn));
extern const char spin_fp_begin[], spin_fp_end[], spin_sp_begin[], spin_sp_end[];

__asm__(".globl spin_fp, spin_fp_begin, spin_fp_end\n"
	"spin_fp:\n"
	"	mov %rdi, %rbp\n"
	"spin_fp_begin:\n"
	"1:	inc %rax\n"
	"	jmp 1b\n"
	"spin_fp_end:\n"
	/*
	 * As spin_fp, with the stack pointer too, and with instructions that
	 * look like a prologue, for which a walk turns to the stack pointer:
	 * the last byte of the first one is that of `push %rbp`.
	 */
	".globl spin_sp, spin_sp_begin, spin_sp_end\n"
	"spin_sp:\n"
	"	mov %rdi, %rbp\n"
	"	mov %rdi, %rsp\n"
	"spin_sp_begin:\n"
	"1:	mov $0x55, %al\n"
	"	mov %rsp, %rbp\n"
	"	jmp 1b\n"
	"spin_sp_end:\n");

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *map_pages(size_t pages, int protection)
{
	void *at = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

static struct frame *map_frames(size_t count)
{
	return map_pages((count * sizeof(struct frame) + PAGE - 1) / PAGE, PROT_READ | PROT_WRITE);
}

/* An address that code could return to. */
static uint64_t return_address(void)
{
	return (uint64_t)spin_fp_end;
}

static void announce(const char *begin, const char *end)
{
	printf("{\"begin\": %lu, \"end\": %lu}\n", (unsigned long)begin, (unsigned long)end);
	fflush(stdout);
}

static void enter(uint64_t fp)
{
	announce(spin_fp_begin, spin_fp_end);
	spin_fp(fp);
}

static void run_value(uint64_t fp)
{
	enter(fp);
}

/* The first address that no program can have: by the levels of the page tables. */
static uint64_t user_stop(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	uint64_t end = 1ul << 47;
	char line[8192];

	if (!file)
		die("/proc/cpuinfo");
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "flags", 5) && strstr(line, " la57"))
			end = 1ul << 56;
	}
	fclose(file);
	return end - PAGE;
}

static void run_user_end(uint64_t offset)
{
	enter(user_stop() + offset);
}

static void run_unmapped(uint64_t unused)
{
	void *page = map_pages(1, PROT_READ | PROT_WRITE);

	(void)unused;
	munmap(page, PAGE);
	enter((uint64_t)page);
}

static void run_protected(uint64_t unused)
{
	(void)unused;
	enter((uint64_t)map_pages(1, PROT_NONE));
}

/* A frame of which the caller can be read and the return address can not. */
static void run_guard_edge(uint64_t unused)
{
	char *pages = map_pages(2, PROT_READ | PROT_WRITE);

	(void)unused;
	if (mprotect(pages + PAGE, PAGE, PROT_NONE))
		die("mprotect");
	enter((uint64_t)(pages + PAGE - sizeof(uint64_t)));
}

/* One frame, whose return address is `address`. */
static void run_address(uint64_t address)
{
	struct frame *frame = map_frames(1);

	frame->address = address;
	enter((uint64_t)frame);
}

/* One frame, whose caller has its frame at `fp`. */
static void run_caller(uint64_t fp)
{
	struct frame *frame = map_frames(1);

	frame->address = return_address();
	frame->caller = fp;
	enter((uint64_t)frame);
}

/* A cycle of `length` frames. */
static void run_cycle(uint64_t length)
{
	struct frame *frame = map_frames(length);
	uint64_t index;

	for (index = 0; index < length; index++) {
		frame[index].address = return_address();
		frame[index].caller = (uint64_t)&frame[(index + 1) % length];
	}
	enter((uint64_t)frame);
}

/* Makes `length` frames a chain upwards, the last one without a caller. */
static void link_up(struct frame *frame, uint64_t length)
{
	uint64_t index;

	for (index = 0; index < length; index++) {
		frame[index].address = return_address();
		frame[index].caller = index + 1 < length ? (uint64_t)&frame[index + 1] : 0;
	}
}

static struct frame *map_up(uint64_t length)
{
	struct frame *frame = map_frames(length);

	link_up(frame, length);
	return frame;
}

static void run_up(uint64_t length)
{
	enter((uint64_t)map_up(length));
}

/* Frames upwards, the 21st of which has `address`, which ends the walk there. */
static void run_up_to_address(uint64_t address)
{
	struct frame *frame = map_up(40);

	frame[20].address = address;
	enter((uint64_t)frame);
}

/* Frames upwards to one that is its own caller. */
static void run_up_to_cycle(uint64_t index)
{
	struct frame *frame = map_up(index + 1);

	frame[index].caller = (uint64_t)&frame[index];
	enter((uint64_t)frame);
}

/* Ten frames upwards, and the next one can't be read. `address`: that of the sixth one. */
static void run_up_to_protected(uint64_t address)
{
	char *pages = map_pages(2, PROT_READ | PROT_WRITE);
	struct frame *frame = (struct frame *)(pages + PAGE) - 10;

	link_up(frame, 11);
	if (address)
		frame[5].address = address;
	if (mprotect(pages + PAGE, PAGE, PROT_NONE))
		die("mprotect");
	enter((uint64_t)frame);
}

/* `hops` + 1 frames, each below the one before it, as no stack grows. */
static void run_down(uint64_t hops)
{
	struct frame *frame = map_frames(hops + 1);
	uint64_t index;

	for (index = 0; index <= hops; index++) {
		frame[index].address = return_address();
		frame[index].caller = index ? (uint64_t)&frame[index - 1] : 0;
	}
	enter((uint64_t)&frame[hops]);
}

/* The registers of a timer, read by the walk: word 1 is reserved and 0. */
static void run_device(uint64_t unused)
{
	int fd = open("/dev/hpet", O_RDONLY | O_CLOEXEC);
	void *page;

	(void)unused;
	if (fd < 0)
		die("open /dev/hpet");
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("mmap /dev/hpet");
	enter((uint64_t)page);
}

static void *map_session(int fd, size_t length, int protection, uint64_t offset)
{
	void *at = mmap(NULL, length, protection, MAP_SHARED, fd, offset);

	if (at == MAP_FAILED)
		die("mmap " STACKBEAT_DEVICE);
	return at;
}

static int open_session(void)
{
	int fd = open(STACKBEAT_DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die("open " STACKBEAT_DEVICE);
	return fd;
}

/* A frame pointer into the session page, a page of the profiler. */
static void run_session_page(uint64_t unused)
{
	(void)unused;
	enter((uint64_t)map_session(open_session(), PAGE, PROT_READ, STACKBEAT_OFFSET_SESSION));
}

/* A cycle in the consumer page, which a reader may write. */
static void run_consumer_page(uint64_t unused)
{
	struct frame *frame =
		map_session(open_session(), PAGE, PROT_READ | PROT_WRITE, STACKBEAT_OFFSET_CPU(0));

	(void)unused;
	frame += 4;
	frame->caller = (uint64_t)frame;
	frame->address = return_address();
	enter((uint64_t)frame);
}

/*
 * The record that is first in a ring of this CPU as a frame. Its first word has
 * a record type where the lowest bits of an address are. Says which session it
 * is, and waits until somebody has started it and a record is there.
 */
static void run_ring(uint64_t unused)
{
	int fd = open_session();
	const struct stackbeat_session_page *session =
		map_session(fd, PAGE, PROT_READ, STACKBEAT_OFFSET_SESSION);
	int cpu = sched_getcpu();
	cpu_set_t set;
	char *ring;

	(void)unused;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
	ring = map_session(fd, PAGE + STACKBEAT_RING_SIZE_DEFAULT, PROT_READ,
			   STACKBEAT_OFFSET_CPU(cpu) + PAGE);
	printf("{\"session\": %u}\n", session->session);
	fflush(stdout);
	while (!*(volatile uint64_t *)(ring + PAGE))
		;
	enter((uint64_t)(ring + PAGE));
}

static void *remap_for_ever(void *page)
{
	struct frame *frame = page;

	for (;;) {
		if (munmap(page, PAGE))
			die("munmap");
		if (mmap(page, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			die("mmap");
		frame->address = return_address();
	}
	return NULL;
}

/* A frame in a page that another thread unmaps and maps all the time. */
static void run_remapped(uint64_t unused)
{
	void *page = map_pages(1, PROT_READ | PROT_WRITE);
	pthread_t thread;

	(void)unused;
	if (pthread_create(&thread, NULL, remap_for_ever, page))
		die("pthread_create");
	enter((uint64_t)page);
}

/* Code that ends with its page: a walk that looks at it must not read on. */
static void run_code_edge(uint64_t unused)
{
	static const unsigned char code[] = {
		0x48, 0x89, 0xfd, /*	mov %rdi, %rbp */
		0xeb, 0xfe, /*	1: jmp 1b */
	};
	struct frame *frame = map_frames(1);
	char *pages = map_pages(2, PROT_READ | PROT_WRITE);
	char *at = pages + PAGE - sizeof(code);

	(void)unused;
	frame->address = return_address();
	memcpy(at, code, sizeof(code));
	if (mprotect(pages, PAGE, PROT_READ | PROT_EXEC) || mprotect(pages + PAGE, PAGE, PROT_NONE))
		die("mprotect");
	announce(at + 3, at + sizeof(code));
	((void (*)(uint64_t))at)((uint64_t)frame);
}

static void run_stack_pointer(uint64_t value)
{
	announce(spin_sp_begin, spin_sp_end);
	spin_sp(value);
}

#define ROOT (1u << STACKBEAT_STOP_OUTERMOST)
#define DEPTH (1u << STACKBEAT_STOP_MAX_DEPTH)
#define MEMORY (1u << STACKBEAT_STOP_FAULT)
#define FRAME (1u << STACKBEAT_STOP_BAD_FRAME)

#define HOPS STACKBEAT_FP_DESCENTS_MAX
#define MAX STACKBEAT_USER_FRAMES_DEFAULT

/* `frames_min` and `frames_max` with the interrupted address, which always is one. */
static const struct mode {
	const char *name;
	void (*run)(uint64_t value);
	uint64_t value;
	unsigned int ends;
	unsigned int frames_min, frames_max;
} modes[] = {
	{"zero", run_value, 0, ROOT, 1, 1},
	{"one", run_value, 1, FRAME, 1, 1},
	{"page_zero", run_value, 0x10, FRAME, 1, 1},
	{"odd", run_value, 0x400001, FRAME, 1, 1},
	{"kernel_text", run_value, 0xffffffff81000000, FRAME, 1, 1},
	{"kernel_data", run_value, 0xffffffff82000000, FRAME, 1, 1},
	{"direct_map", run_value, 0xffff888000001000, FRAME, 1, 1},
	{"kernel_stack", run_value, 0xffffc90000004000, FRAME, 1, 1},
	{"vsyscall", run_value, 0xffffffffff600000, FRAME, 1, 1},
	{"all_ones", run_value, 0xffffffffffffffff, FRAME, 1, 1},
	{"last_word", run_value, 0xfffffffffffffff8, FRAME, 1, 1},
	{"non_canonical", run_value, 0xdead000000000000, FRAME, 1, 1},
	{"user_stop", run_user_end, 0, FRAME, 1, 1},
	{"first_non_canonical", run_user_end, PAGE, FRAME, 1, 1},
	{"before_user_end", run_user_end, -8, MEMORY, 1, 1},
	{"last_page", run_user_end, -PAGE, MEMORY, 1, 1},
	{"unmapped", run_unmapped, 0, MEMORY, 1, 1},
	{"protected", run_protected, 0, MEMORY, 1, 1},
	{"guard_edge", run_guard_edge, 0, MEMORY, 1, 1},
	{"device", run_device, 0, ROOT, 1, 1},
	{"session_page", run_session_page, 0, FRAME, 1, 2},
	{"consumer_page", run_consumer_page, 0, FRAME, HOPS + 1, HOPS + 2},
	{"ring", run_ring, 0, FRAME, 1, 2},
	{"remapped", run_remapped, 0, ROOT | MEMORY, 1, 2},
	{"code_edge", run_code_edge, 0, ROOT, 2, 2},
	{"kernel_address", run_address, 0xffffffff81000000, FRAME, 1, 1},
	{"page_zero_address", run_address, 0x10, FRAME, 1, 1},
	{"no_address", run_address, 0, ROOT, 1, 1},
	{"kernel_caller", run_caller, 0xffffffff81000000, FRAME, 2, 2},
	{"odd_caller", run_caller, 0x400001, FRAME, 2, 2},
	{"cycle_of_1", run_cycle, 1, FRAME, HOPS + 1, HOPS + 2},
	{"cycle_of_2", run_cycle, 2, FRAME, 2 * HOPS + 1, 2 * HOPS + 3},
	{"cycle_of_100", run_cycle, 100, DEPTH, MAX, MAX},
	{"up_100", run_up, 100, ROOT, 101, 101},
	{"up_to_limit", run_up, MAX - 1, ROOT, MAX, MAX},
	{"up_past_limit", run_up, MAX, DEPTH, MAX, MAX},
	{"up_2000", run_up, 2000, DEPTH, MAX, MAX},
	{"up_to_kernel_address", run_up_to_address, 0xffffffff81000000, FRAME, 21, 21},
	{"up_to_page_zero_address", run_up_to_address, 0x10, FRAME, 21, 21},
	{"up_to_no_address", run_up_to_address, 0, ROOT, 21, 21},
	{"up_to_non_canonical_address", run_up_to_address, 0xdead000000000000, FRAME, 21, 21},
	{"up_to_cycle", run_up_to_cycle, 9, FRAME, HOPS + 10, HOPS + 12},
	{"up_to_cycle_in_next_round", run_up_to_cycle, 20, FRAME, HOPS + 21, HOPS + 23},
	{"up_to_protected", run_up_to_protected, 0, MEMORY, 11, 11},
	{"up_to_protected_wrong_address", run_up_to_protected, 0x10, FRAME, 6, 6},
	{"down_to_limit", run_down, HOPS, ROOT, HOPS + 2, HOPS + 2},
	{"down_100", run_down, 100, FRAME, HOPS + 1, HOPS + 2},
	{"stack_pointer_odd", run_stack_pointer, 0x400001, FRAME, 1, 1},
	{"stack_pointer_kernel", run_stack_pointer, 0xffffffff81000000, FRAME, 1, 1},
	{"stack_pointer_non_canonical", run_stack_pointer, 0xdead000000000000, FRAME, 1, 1},
	{"stack_pointer_last_word", run_stack_pointer, 0xfffffffffffffff8, FRAME, 1, 1},
	{"stack_pointer_page_zero", run_stack_pointer, 0x10, FRAME, 1, 1},
};

static void print_modes(void)
{
	const size_t count = sizeof(modes) / sizeof(modes[0]);
	size_t index;

	printf("[");
	for (index = 0; index < count; index++)
		printf("{\"mode\": \"%s\", \"ends\": %u, \"frames\": [%u, %u]}%s",
		       modes[index].name, modes[index].ends, modes[index].frames_min,
		       modes[index].frames_max, index + 1 < count ? ",\n" : "]\n");
}

int main(int argc, char **argv)
{
	size_t index;

	if (argc < 2) {
		print_modes();
		return 0;
	}
	/* Nobody else would stop it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (index = 0; index < sizeof(modes) / sizeof(modes[0]); index++) {
		if (!strcmp(modes[index].name, argv[1]))
			modes[index].run(modes[index].value);
	}
	fprintf(stderr, "hostile: no mode %s\n", argv[1]);
	return 2;
}

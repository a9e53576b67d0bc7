// SPDX-License-Identifier: GPL-2.0
/*
 * hostile [MODE]
 *
 * Loads a hostile value into the frame pointer register, and spins forever. Each mode is a line of
 * the table below, with the possible reasons why the unwinder stops in the user part (enum
 * stackbeat_unwind_stop; several if it depends on the time of the sample), and the minimum and
 * maximum number of frames. Without MODE, prints the table as JSON.
 *
 * Prints the address range of its loop as JSON before it enters the loop ("begin" to "end": all
 * samples in this range belong to the mode).
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

/* Functions that spin forever; the labels delimit their loops. */
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
	 * As spin_fp, also with the stack pointer, and with instructions that
	 * look like a prologue, at which the unwinder uses the stack pointer:
	 * the last byte of the first instruction is the byte of `push %rbp`.
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

/* The end of the user address space: it depends on the levels of the page tables. */
static uint64_t user_end(void)
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
	enter(user_end() + offset);
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

/* A frame with a readable caller word and an unreadable return address. */
static void run_guard_edge(uint64_t unused)
{
	char *pages = map_pages(2, PROT_READ | PROT_WRITE);

	(void)unused;
	if (mprotect(pages + PAGE, PAGE, PROT_NONE))
		die("mprotect");
	enter((uint64_t)(pages + PAGE - sizeof(uint64_t)));
}

/* One frame with the return address `address`. */
static void run_address(uint64_t address)
{
	struct frame *frame = map_frames(1);

	frame->address = address;
	enter((uint64_t)frame);
}

/* One frame with the caller's frame at `fp`. */
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

/* Links `length` frames to an upward chain; the last one has no caller. */
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

/* An upward chain. The 21st frame has the return address `address`, which stops the unwinder. */
static void run_up_to_address(uint64_t address)
{
	struct frame *frame = map_up(40);

	frame[20].address = address;
	enter((uint64_t)frame);
}

/* An upward chain to a frame that is its own caller. */
static void run_up_to_cycle(uint64_t index)
{
	struct frame *frame = map_up(index + 1);

	frame[index].caller = (uint64_t)&frame[index];
	enter((uint64_t)frame);
}

/* Ten frames upwards, then an unreadable one. `address`: return address of the sixth frame, or 0.
 */
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

/* `descents` + 1 frames, each at a lower address than its callee, as on no real stack. */
static void run_down(uint64_t descents)
{
	struct frame *frame = map_frames(descents + 1);
	uint64_t index;

	for (index = 0; index <= descents; index++) {
		frame[index].address = return_address();
		frame[index].caller = index ? (uint64_t)&frame[index - 1] : 0;
	}
	enter((uint64_t)&frame[descents]);
}

/* The registers of the HPET, read by the unwinder: word 1 is reserved and 0. */
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

/* A cycle of frames in the consumer page, which a reader may write. */
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
 * The first record in a ring of this CPU as a frame. The lowest bits of its first word are a record
 * type. Prints the id of its session, and waits until another process has started the session and
 * a record is written.
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

/* A frame in a page that another thread unmaps and maps again and again. */
static void run_remapped(uint64_t unused)
{
	void *page = map_pages(1, PROT_READ | PROT_WRITE);
	pthread_t thread;

	(void)unused;
	if (pthread_create(&thread, NULL, remap_for_ever, page))
		die("pthread_create");
	enter((uint64_t)page);
}

/* Code at the end of a page: an unwinder that inspects it must not read beyond. */
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

#define OUTERMOST (1u << STACKBEAT_STOP_OUTERMOST)
#define DEPTH (1u << STACKBEAT_STOP_MAX_DEPTH)
#define FAULT (1u << STACKBEAT_STOP_FAULT)
#define BAD_FRAME (1u << STACKBEAT_STOP_BAD_FRAME)

#define DESCENTS STACKBEAT_FP_DESCENTS_MAX
#define MAX STACKBEAT_USER_FRAMES_DEFAULT

/* `frames_min` and `frames_max` include the interrupted address. */
static const struct mode {
	const char *name;
	void (*run)(uint64_t value);
	uint64_t value;
	unsigned int stops;
	unsigned int frames_min, frames_max;
} modes[] = {
	{"zero", run_value, 0, OUTERMOST, 1, 1},
	{"one", run_value, 1, BAD_FRAME, 1, 1},
	{"page_zero", run_value, 0x10, BAD_FRAME, 1, 1},
	{"odd", run_value, 0x400001, BAD_FRAME, 1, 1},
	{"kernel_text", run_value, 0xffffffff81000000, BAD_FRAME, 1, 1},
	{"kernel_data", run_value, 0xffffffff82000000, BAD_FRAME, 1, 1},
	{"direct_map", run_value, 0xffff888000001000, BAD_FRAME, 1, 1},
	{"kernel_stack", run_value, 0xffffc90000004000, BAD_FRAME, 1, 1},
	{"vsyscall", run_value, 0xffffffffff600000, BAD_FRAME, 1, 1},
	{"all_ones", run_value, 0xffffffffffffffff, BAD_FRAME, 1, 1},
	{"last_word", run_value, 0xfffffffffffffff8, BAD_FRAME, 1, 1},
	{"non_canonical", run_value, 0xdead000000000000, BAD_FRAME, 1, 1},
	{"user_end", run_user_end, 0, BAD_FRAME, 1, 1},
	{"first_non_canonical", run_user_end, PAGE, BAD_FRAME, 1, 1},
	{"before_user_end", run_user_end, -8, FAULT, 1, 1},
	{"last_page", run_user_end, -PAGE, FAULT, 1, 1},
	{"unmapped", run_unmapped, 0, FAULT, 1, 1},
	{"protected", run_protected, 0, FAULT, 1, 1},
	{"guard_edge", run_guard_edge, 0, FAULT, 1, 1},
	{"device", run_device, 0, OUTERMOST, 1, 1},
	{"session_page", run_session_page, 0, BAD_FRAME, 1, 2},
	{"consumer_page", run_consumer_page, 0, BAD_FRAME, DESCENTS + 1, DESCENTS + 2},
	{"ring", run_ring, 0, BAD_FRAME, 1, 2},
	{"remapped", run_remapped, 0, OUTERMOST | FAULT, 1, 2},
	{"code_edge", run_code_edge, 0, OUTERMOST, 2, 2},
	{"kernel_address", run_address, 0xffffffff81000000, BAD_FRAME, 1, 1},
	{"page_zero_address", run_address, 0x10, BAD_FRAME, 1, 1},
	{"no_address", run_address, 0, OUTERMOST, 1, 1},
	{"kernel_caller", run_caller, 0xffffffff81000000, BAD_FRAME, 2, 2},
	{"odd_caller", run_caller, 0x400001, BAD_FRAME, 2, 2},
	{"cycle_of_1", run_cycle, 1, BAD_FRAME, DESCENTS + 1, DESCENTS + 2},
	{"cycle_of_2", run_cycle, 2, BAD_FRAME, 2 * DESCENTS + 1, 2 * DESCENTS + 3},
	{"cycle_of_100", run_cycle, 100, DEPTH, MAX, MAX},
	{"up_100", run_up, 100, OUTERMOST, 101, 101},
	{"up_to_limit", run_up, MAX - 1, OUTERMOST, MAX, MAX},
	{"up_past_limit", run_up, MAX, DEPTH, MAX, MAX},
	{"up_2000", run_up, 2000, DEPTH, MAX, MAX},
	{"up_to_kernel_address", run_up_to_address, 0xffffffff81000000, BAD_FRAME, 21, 21},
	{"up_to_page_zero_address", run_up_to_address, 0x10, BAD_FRAME, 21, 21},
	{"up_to_no_address", run_up_to_address, 0, OUTERMOST, 21, 21},
	{"up_to_non_canonical_address", run_up_to_address, 0xdead000000000000, BAD_FRAME, 21, 21},
	{"up_to_cycle", run_up_to_cycle, 9, BAD_FRAME, DESCENTS + 10, DESCENTS + 12},
	{"up_to_cycle_in_next_round", run_up_to_cycle, 20, BAD_FRAME, DESCENTS + 21, DESCENTS + 23},
	{"up_to_protected", run_up_to_protected, 0, FAULT, 11, 11},
	{"up_to_protected_wrong_address", run_up_to_protected, 0x10, BAD_FRAME, 6, 6},
	{"down_to_limit", run_down, DESCENTS, OUTERMOST, DESCENTS + 2, DESCENTS + 2},
	{"down_100", run_down, 100, BAD_FRAME, DESCENTS + 1, DESCENTS + 2},
	{"stack_pointer_odd", run_stack_pointer, 0x400001, BAD_FRAME, 1, 1},
	{"stack_pointer_kernel", run_stack_pointer, 0xffffffff81000000, BAD_FRAME, 1, 1},
	{"stack_pointer_non_canonical", run_stack_pointer, 0xdead000000000000, BAD_FRAME, 1, 1},
	{"stack_pointer_last_word", run_stack_pointer, 0xfffffffffffffff8, BAD_FRAME, 1, 1},
	{"stack_pointer_page_zero", run_stack_pointer, 0x10, BAD_FRAME, 1, 1},
};

static void print_modes(void)
{
	const size_t count = sizeof(modes) / sizeof(modes[0]);
	size_t index;

	printf("[");
	for (index = 0; index < count; index++)
		printf("{\"mode\": \"%s\", \"stops\": %u, \"frames\": [%u, %u]}%s",
		       modes[index].name, modes[index].stops, modes[index].frames_min,
		       modes[index].frames_max, index + 1 < count ? ",\n" : "]\n");
}

int main(int argc, char **argv)
{
	size_t index;

	if (argc < 2) {
		print_modes();
		return 0;
	}
	/* Exit when the test exits. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (index = 0; index < sizeof(modes) / sizeof(modes[0]); index++) {
		if (!strcmp(modes[index].name, argv[1]))
			modes[index].run(modes[index].value);
	}
	fprintf(stderr, "hostile: no mode %s\n", argv[1]);
	return 2;
}

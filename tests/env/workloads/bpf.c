// SPDX-License-Identifier: GPL-2.0
/*
 * bpf CALLS NAME...
 *
 * Loads a BPF program of each NAME, one after the other, calls it as often, 2 to 4 ms each, and
 * unloads it, so that in general the next one gets its addresses. Nearly all of the time is spent
 * in the programs. Time of the CPU would not do: the host may take much of it.
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MULTIPLICATIONS 20000
#define RUNS_OF_A_CALL 100

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int call_bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Returns an fd of a socket filter that multiplies the length of its packet by itself. */
static int load(const char *name)
{
	static struct bpf_insn code[MULTIPLICATIONS + 3];
	size_t count = 0;
	union bpf_attr attr;
	int fd;

	/* r1 has the packet. */
	code[count++] = (struct bpf_insn){.code = BPF_LDX | BPF_MEM | BPF_W, .src_reg = BPF_REG_1};
	code[count++] = (struct bpf_insn){
		.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_0};
	for (int i = 0; i < MULTIPLICATIONS; i++)
		code[count++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MUL | BPF_X,
						  .src_reg = BPF_REG_2};
	code[count++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = count;
	attr.license = (uintptr_t) "GPL";
	strncpy(attr.prog_name, name, sizeof(attr.prog_name) - 1);
	fd = call_bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0)
		fail("load");
	return fd;
}

static void run(int fd, int64_t calls)
{
	static char packet[64];
	union bpf_attr attr;

	while (calls-- > 0) {
		memset(&attr, 0, sizeof(attr));
		attr.test.prog_fd = fd;
		attr.test.data_in = (uintptr_t)packet;
		attr.test.data_size_in = sizeof(packet);
		attr.test.repeat = RUNS_OF_A_CALL;
		if (call_bpf(BPF_PROG_TEST_RUN, &attr))
			fail("run");
	}
}

int main(int argc, char **argv)
{
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

	if (argc < 3)
		return 2;
	/* Before Linux 5.11, programs count as locked memory. */
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited))
		fail("setrlimit");
	for (int i = 2; i < argc; i++) {
		int fd = load(argv[i]);

		run(fd, atoll(argv[1]));
		close(fd);
		/* The kernel frees it when no CPU can run it any more. */
		usleep(300000);
	}
	return 0;
}

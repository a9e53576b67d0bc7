// SPDX-License-Identifier: GPL-2.0
/*
 * hostile_walk FRAMES SIZE HOLES ORDER STEP LAST
 *
 * Prints the address of 65536 bytes of code, and of the number of its turns, and spins at its
 * beginning, on a stack for an unwind table that the test writes. Frame n has SIZE bytes:
 *	rsp + 160, + 168	rsp and rip of its caller, as a signal handler has them
 *	CFA - 16		the address of this word in its caller
 *	CFA - 8			its return address: code + STEP * (digit n of ORDER, again and
 *				again) + 8, in the last one code + LAST
 * At the beginning, rbp is the address of the word at CFA - 16. With HOLES, each second
 * page can't be read, from the first one on: with frames of two pages, the words from the
 * CFA on.
 */
#include "bare.h"

#define PAGE 4096

void spin_on(u64 rsp, u64 rbp) __attribute__((noreturn));
extern const char code[];
static volatile u64 turns;

__asm__("spin_on:\n"
	"	mov %rdi, %rsp\n"
	"	mov %rsi, %rbp\n"
	"	jmp code\n"
	".balign 4096\n"
	"code:	incq turns(%rip)\n"
	"	jmp code\n"
	".skip 65536, 0x90\n");

NOINLINE int main(int argc, char **argv)
{
	u64 frames = argument(argc, argv, 1, 1), size = argument(argc, argv, 2, 256);
	u64 holes = argument(argc, argv, 3, 0), digits = 0;
	const char *order = argc > 4 ? argv[4] : "0";
	u64 step = argument(argc, argv, 5, 0), last = argument(argc, argv, 6, 0);
	u64 bytes = (frames * size + 2 * PAGE) & ~(PAGE - 1ull);
	long at = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	u64 rsp = (u64)at, address, cfa, end = rsp + bytes;

	if (at < 0)
		return 1;
	while (order[digits])
		digits++;
	for (u64 i = 0; i < frames; i++) {
		address = (u64)code +
			  (i + 1 < frames ? step * (u64)(order[i % digits] - '0') + 8 : last);
		cfa = rsp + (i + 1) * size;
		((u64 *)cfa)[-1] = address;
		((u64 *)cfa)[-2] = cfa + size - 16;
		if (size >= 192) {
			((u64 *)(cfa - size))[20] = cfa;
			((u64 *)(cfa - size))[21] = address;
		}
	}
	for (u64 page = rsp; holes && page < end; page += 2 * PAGE)
		system_call(SYS_MPROTECT, (long)page, PAGE, 0, 0);
	print_number((u64)code);
	print("\n");
	print_number((u64)&turns);
	print("\n");
	spin_on(rsp, rsp + size - 16);
}

// SPDX-License-Identifier: GPL-2.0
/* Offsets in the code of a kernel module, as the kernel lays out the sections of its file. */
#include "debuginfo/kernel_module_elf.h"

#include <errno.h>
#include <fcntl.h>

#include "lib/error.h"
#include "sandbox.h"

/* In the kernel: .text from 0 to 24, .text.b from 32 to 40, .text.c from 40 to 41. */
static const char source[] = ".text\n .rept 24\n nop\n .endr\n"
			     ".section .init.text, \"ax\"\n .skip 16, 0x90\n"
			     ".data\n .skip 100\n"
			     ".section .text.b, \"ax\"\n .balign 16\n .skip 8, 0x90\n"
			     ".section .exec_data, \"a\"\n .skip 8\n"
			     ".section .text.c, \"ax\"\n .skip 1, 0x90\n";

static struct error error;

static int open_module(struct kernel_module_elf *module_elf, const char *name, const char *build_id)
{
	int fd = open(in_sandbox("%s", name), O_RDONLY | O_CLOEXEC), err;

	assert_true(fd >= 0);
	*error.text = '\0';
	err = kernel_module_elf_open(module_elf, fd, name, build_id, &error);
	assert_int_equal(close(fd), 0);
	return err;
}

static void build(const char *name, const char *options)
{
	write_text(in_sandbox("module.s"), source);
	run("cd '%s' && as %s -o module.o module.s && ld -r --build-id=0x0123 -o %s module.o",
	    sandbox, options, name);
}

static uint64_t vaddr_of(const struct kernel_module_elf *module_elf, uint64_t offset)
{
	uint64_t vaddr;

	assert_true(kernel_module_elf_vaddr(module_elf, offset, &vaddr));
	return vaddr;
}

static void offsets_are_those_of_the_kernel(void **state)
{
	struct kernel_module_elf module_elf;
	uint64_t text, b, c, vaddr;

	(void)state;
	build("module.ko", "-g");
	assert_int_equal(open_module(&module_elf, "module.ko", "0123"), 0);
	assert_non_null(module_elf.elf);
	assert_int_equal(module_elf.count, 3);
	text = vaddr_of(&module_elf, 0);
	b = vaddr_of(&module_elf, 32);
	c = vaddr_of(&module_elf, 40);
	assert_int_equal(vaddr_of(&module_elf, 23), text + 23);
	assert_int_equal(vaddr_of(&module_elf, 39), b + 7);
	assert_true(b >= text + 24 && c >= b + 8);
	for (uint64_t offset = 24; offset < 32; offset++)
		assert_false(kernel_module_elf_vaddr(&module_elf, offset, &vaddr));
	assert_false(kernel_module_elf_vaddr(&module_elf, 41, &vaddr));
	assert_false(kernel_module_elf_vaddr(&module_elf, UINT64_MAX, &vaddr));
	kernel_module_elf_close(&module_elf);
	assert_null(module_elf.elf);
}

static void other_files_are_refused(void **state)
{
	struct kernel_module_elf module_elf;

	(void)state;
	build("module.ko", "-g");
	build("plain.ko", "");
	run("cd '%s' && ld -shared --build-id=0x0123 -o library.so module.o", sandbox);
	write_text(in_sandbox("text"), "no ELF file");
	assert_int_equal(open_module(&module_elf, "module.ko", "0124"), -ESTALE);
	assert_string_equal(error.text, "has build ID 0123, not 0124: not taken");
	assert_int_equal(open_module(&module_elf, "plain.ko", "0123"), -ENODATA);
	assert_int_equal(open_module(&module_elf, "library.so", "0123"), -EINVAL);
	assert_string_equal(error.text, "is not a kernel module");
	assert_int_equal(open_module(&module_elf, "text", "0123"), -EINVAL);
	assert_non_null(strstr(error.text, "can't be read"));
	assert_null(module_elf.elf);
	assert_null(module_elf.sections);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(offsets_are_those_of_the_kernel),
		TEST(other_files_are_refused),
	};

	return cmocka_run_group_tests_name("kernel_module_elf", tests, NULL, NULL);
}

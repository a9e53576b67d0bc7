// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/plt.h"

struct result {
	char text[1024];
	int fail;
};

static int take(void *arg, size_t start, size_t end, unsigned int cfa)
{
	struct result *result = arg;
	size_t used = strlen(result->text);

	snprintf(result->text + used, sizeof(result->text) - used, "%zx-%zx %u\n", start, end, cfa);
	return result->fail;
}

static void expect(const char *code, size_t size, const char *rows)
{
	/* A copy without room behind it, for ASan. */
	unsigned char *copy = malloc(size ? size : 1);
	struct result result = {.fail = 0};

	assert_non_null(copy);
	memcpy(copy, code, size);
	assert_int_equal(plt_read(copy, size, take, &result), 0);
	assert_string_equal(result.text, rows);
	free(copy);
}
#define EXPECT(code, rows) expect(code, sizeof(code) - 1, rows)

#define COMMON "\xff\x35\x01\x02\x03\x04\xff\x25\x01\x02\x03\x04\x0f\x1f\x40\x00"
#define LAZY "\xff\x25\x01\x02\x03\x04\x68\x05\x00\x00\x00\xe9\x01\x02\x03\x04"

static int take_stub(void *arg, const struct plt_stub *stub)
{
	struct result *result = arg;
	size_t used = strlen(result->text);

	snprintf(result->text + used, sizeof(result->text) - used, "%lx-%lx", stub->start,
		 stub->end);
	used = strlen(result->text);
	if (stub->slot)
		snprintf(result->text + used, sizeof(result->text) - used, " *%lx", stub->slot);
	used = strlen(result->text);
	if (stub->has_index)
		snprintf(result->text + used, sizeof(result->text) - used, " #%u", stub->index);
	strcat(result->text, "\n");
	return result->fail;
}

static void expect_stubs(const char *code, size_t size, const char *stubs)
{
	unsigned char *copy = malloc(size ? size : 1);
	struct result result = {.fail = 0};

	assert_non_null(copy);
	memcpy(copy, code, size);
	assert_int_equal(plt_each_stub(copy, size, 0x1000, take_stub, &result), 0);
	assert_string_equal(result.text, stubs);
	free(copy);
}
#define EXPECT_STUBS(code, stubs) expect_stubs(code, sizeof(code) - 1, stubs)

static void stubs(void **state)
{
	(void)state;
	EXPECT_STUBS("", "");
	EXPECT_STUBS(COMMON LAZY LAZY, "1000-1010 *403120d\n1010-1016 *4031217\n1016-1020 #5\n"
				       "1020-1026 *4031227\n1026-1030 #5\n");
	/* lld: the first part of a stub is the same. */
	EXPECT_STUBS("\xff\x25\x01\x00\x00\x00\x68\x00\x00\x00\x00\xe9\xe0\xff\xff\xff",
		     "1000-1006 *1007\n1006-1010 #0\n");
	/* .plt with branch tracking, .plt.sec and .plt.got */
	EXPECT_STUBS("\xf3\x0f\x1e\xfa\x68\x05\x00\x00\x00\xf2\xe9\x01\x02\x03\x04\x90",
		     "1000-1010 #5\n");
	EXPECT_STUBS("\xf3\x0f\x1e\xfa\xff\x25\x10\x00\x00\x00\x66\x0f\x1f\x44\x00\x00"
		     "\xf3\x0f\x1e\xfa\xf2\xff\x25\x10\x00\x00\x00\x0f\x1f\x44\x00\x00",
		     "1000-1010 *101a\n1010-1020 *102b\n");
	EXPECT_STUBS("\xff\x25\xf0\xff\xff\xff\x66\x90\xff\x25\xf0\xff\xff\xff\x66\x90",
		     "1000-1008 *ff6\n1008-1010 *ffe\n");
	/* mold */
	EXPECT_STUBS("\xf3\x0f\x1e\xfa\x41\xbb\x01\x00\x00\x00\xff\x25\x10\x00\x00\x00",
		     "1000-1010 *1020\n");
	/* A stub that does not end, and other code. */
	EXPECT_STUBS("\xf3\x0f\x1e\xfa\x68\x05\x00\x00\x00", "");
	EXPECT_STUBS("\xff\x25\x01\x00\x00\x00\x48", "1000-1006 *1007\n");
}

static void lazy_binding(void **state)
{
	(void)state;
	EXPECT(COMMON LAZY LAZY, "0-6 16\n6-c 24\nc-1b 8\n1b-20 16\n20-2b 8\n2b-30 16\n");
}

static void with_branch_tracking(void **state)
{
	(void)state;
	EXPECT("\xf3\x0f\x1e\xfa\x68\x05\x00\x00\x00\xe9\x01\x02\x03\x04\x66\x90",
	       "0-9 8\n9-e 16\ne-10 8\n");
	EXPECT("\xf3\x0f\x1e\xfa\x68\x05\x00\x00\x00\xf2\xe9\x01\x02\x03\x04\x90",
	       "0-9 8\n9-f 16\nf-10 8\n");
	/* .plt.sec */
	EXPECT("\xf3\x0f\x1e\xfa\xff\x25\x01\x02\x03\x04\x66\x0f\x1f\x44\x00\x00"
	       "\xf3\x0f\x1e\xfa\xf2\xff\x25\x01\x02\x03\x04\x0f\x1f\x44\x00\x00",
	       "0-20 8\n");
}

static void without_lazy_binding(void **state)
{
	(void)state;
	/* .plt.got */
	EXPECT("\xff\x25\x01\x02\x03\x04\x66\x90", "0-8 8\n");
	EXPECT("\xff\x25\x01\x02\x03\x04\xcc\xcc", "0-8 8\n");
}

static void of_mold(void **state)
{
	(void)state;
	EXPECT("\xf3\x0f\x1e\xfa\x41\x53\xff\x35\x01\x02\x03\x04\xff\x25\x01\x02\x03\x04"
	       "\x0f\x1f\x84\x00\x00\x00\x00\x00"
	       "\xf3\x0f\x1e\xfa\x41\xbb\x01\x00\x00\x00\xff\x25\x01\x02\x03\x04",
	       "0-6 8\n6-c 16\nc-12 24\n12-2a 8\n");
}

/* lld -z retpolineplt: the jump that all stubs share, and a stub, with and without lazy binding. */
#define RETPOLINE_LOOP "\xf3\x90\x0f\xae\xe8\xeb\xf9"
#define RETPOLINE_JUMP "\x4c\x89\x1c\x24\xc3\xcc\xcc\xcc"
#define RETPOLINE_NOW                                                                              \
	"\xe8\x0b\x00\x00\x00" RETPOLINE_LOOP "\xcc\xcc\xcc\xcc" RETPOLINE_JUMP                    \
	"\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x4c\x8b\x1d\x10\x00\x00\x00\xe9"                         \
	"\xd4\xff\xff\xff\xcc\xcc\xcc\xcc"
#define RETPOLINE_LAZY                                                                             \
	"\xff\x35\x01\x00\x00\x00\x4c\x8b\x1d\x01\x00\x00\x00\xe8\x0e\x00\x00"                     \
	"\x00" RETPOLINE_LOOP "\xcc\xcc\xcc\xcc\xcc\xcc\xcc" RETPOLINE_JUMP                        \
	"\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\x4c\x8b\x1d\x10\x00\x00\x00\xe8\xe4"                     \
	"\xff\xff\xff\xe9\xd1\xff\xff\xff\x68\x05\x00\x00\x00\xe9\xb5\xff\xff"                     \
	"\xff\xcc\xcc\xcc\xcc\xcc"

static void with_retpolines(void **state)
{
	(void)state;
	EXPECT(RETPOLINE_NOW, "0-5 8\n5-15 16\n15-30 8\n");
	EXPECT(RETPOLINE_LAZY, "0-6 16\n6-12 24\n12-25 16\n25-3c 8\n3c-41 16\n41-46 8\n"
			       "46-4b 16\n4b-50 8\n");
	EXPECT_STUBS(RETPOLINE_NOW, "1000-1020\n1020-1030 *1037\n");
	EXPECT_STUBS(RETPOLINE_LAZY, "1000-1030 *100e\n1030-1041 *1047\n1041-1050 #5\n");
}

static void other_code_ends_it(void **state)
{
	(void)state;
	EXPECT("", "");
	EXPECT("\xc3", "");
	EXPECT("\x90\xc3\x90", "0-1 8\n");
	EXPECT("\xff\x25\x01\x02\x03", "");
	EXPECT("\xff\x35", "");
	EXPECT("\xff", "");
}

static void an_error_ends_it(void **state)
{
	struct result result = {.fail = -ENOMEM};

	(void)state;
	assert_int_equal(plt_read((const unsigned char *)LAZY, sizeof(LAZY) - 1, take, &result),
			 -ENOMEM);
	assert_string_equal(result.text, "0-b 8\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lazy_binding),         cmocka_unit_test(with_branch_tracking),
		cmocka_unit_test(without_lazy_binding), cmocka_unit_test(of_mold),
		cmocka_unit_test(with_retpolines),      cmocka_unit_test(other_code_ends_it),
		cmocka_unit_test(an_error_ends_it),     cmocka_unit_test(stubs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

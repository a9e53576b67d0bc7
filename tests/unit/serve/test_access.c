// SPDX-License-Identifier: GPL-2.0
/* The files of TLS and of the token, and who is let in. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/error.h"
#include "sandbox.h"
#include "serve/access.h"

#define TOKEN "0123456789abcdef"

static struct access access_data;
static struct error error;

static int tear_down(void **state)
{
	access_clear(&access_data);
	return remove_sandbox(state);
}

/* Writes a file with a mode, and returns its path, which is valid until the next call. */
static const char *file_of(const char *name, const char *text, mode_t mode)
{
	const char *path = in_sandbox("%s", name);

	write_text(path, text);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static void refuse(struct access_files files, int err, const char *message)
{
	assert_int_equal(access_read(&access_data, &files, &error), err);
	if (!strstr(error.text, message))
		fail_msg("%s", error.text);
	access_clear(&access_data);
}

static void files_are_read(void **state)
{
	char certificate[256], key[256], token[256];

	(void)state;
	strcpy(certificate, file_of("cert", "certificate\n", 0644));
	strcpy(key, file_of("key", "key\n", 0640));
	strcpy(token, file_of("token", TOKEN "\nsecond line\n", 0600));
	assert_int_equal(access_read(&access_data, &(struct access_files){.token = NULL}, &error),
			 0);
	assert_false(access_is_protected(&access_data));
	assert_int_equal(access_read(&access_data,
				     &(struct access_files){certificate, key, token, NULL}, &error),
			 0);
	assert_string_equal(access_data.certificate, "certificate\n");
	assert_string_equal(access_data.key, "key\n");
	assert_string_equal(access_data.token, TOKEN);
	assert_true(access_is_protected(&access_data));
	access_clear(&access_data);
	/* Other machines need both. */
	assert_int_equal(access_read(&access_data, &(struct access_files){.token = token}, &error),
			 0);
	assert_false(access_is_protected(&access_data));
	access_clear(&access_data);
	/* Clients with certificates need no token. */
	assert_int_equal(access_read(&access_data,
				     &(struct access_files){.certificate = certificate,
							    .key = key,
							    .client_ca = certificate},
				     &error),
			 0);
	assert_string_equal(access_data.client_ca, "certificate\n");
	assert_true(access_is_protected(&access_data));
	access_clear(&access_data);
	assert_null(access_data.client_ca);
	/* One file with both. */
	assert_int_equal(
		access_read(&access_data, &(struct access_files){.certificate = key}, &error), 0);
	assert_string_equal(access_data.certificate, "key\n");
	assert_string_equal(access_data.key, "key\n");
	assert_false(access_is_protected(&access_data));
}

static void secrets_are_not_for_all_users(void **state)
{
	char certificate[256];

	(void)state;
	strcpy(certificate, file_of("cert", "certificate\n", 0644));
	refuse((struct access_files){certificate, file_of("key", "key\n", 0644), NULL, NULL},
	       -EPERM, "key: all users can read or write it");
	refuse((struct access_files){.certificate = certificate}, -EPERM, "all users can read");
	refuse((struct access_files){.token = file_of("token", TOKEN, 0604)}, -EPERM,
	       "token: all users can read");
	refuse((struct access_files){.token = file_of("token", TOKEN, 0602)}, -EPERM,
	       "token: all users can read or write it");
}

static void wrong_files_are_refused(void **state)
{
	static char large[(1 << 20) + 2];

	(void)state;
	refuse((struct access_files){.key = "key"}, -EINVAL, "--tls-key needs --tls-cert");
	refuse((struct access_files){.client_ca = "ca"}, -EINVAL,
	       "--tls-client-ca needs --tls-cert");
	refuse((struct access_files){.certificate = file_of("cert", "c", 0600),
				     .client_ca = in_sandbox("none")},
	       -ENOENT, "none: No such file");
	refuse((struct access_files){.token = in_sandbox("none")}, -ENOENT, "none: No such file");
	refuse((struct access_files){.token = sandbox}, -EINVAL, "Invalid argument");
	memset(large, 'x', sizeof(large) - 1);
	refuse((struct access_files){.certificate = file_of("large", large, 0600)}, -EFBIG,
	       "large: it has more than 1 MiB");
	large[1 << 20] = '\0';
	assert_int_equal(
		access_read(&access_data,
			    &(struct access_files){.certificate = file_of("large", large, 0600)},
			    &error),
		0);
	access_clear(&access_data);
	write_file(in_sandbox("nul"), "a\0b", 3);
	assert_int_equal(chmod(in_sandbox("nul"), 0600), 0);
	refuse((struct access_files){.certificate = in_sandbox("nul")}, -EINVAL, "nul: ");
}

static void tokens_have_bounds(void **state)
{
	char longest[4096 + 2] = "";

	(void)state;
	refuse((struct access_files){.token = file_of("token", "", 0600)}, -EINVAL,
	       "a token has 16 to 4096 characters");
	refuse((struct access_files){.token = file_of("token", "0123456789abcde\n", 0600)}, -EINVAL,
	       "a token has 16 to 4096 characters");
	refuse((struct access_files){.token = file_of("token", TOKEN " \n", 0600)}, -EINVAL,
	       "outside ASCII");
	refuse((struct access_files){.token = file_of("token", TOKEN "\xc3\xa4", 0600)}, -EINVAL,
	       "outside ASCII");
	memset(longest, 'x', 4096);
	assert_int_equal(
		access_read(&access_data,
			    &(struct access_files){.token = file_of("token", longest, 0600)},
			    &error),
		0);
	access_clear(&access_data);
	longest[4096] = 'x';
	refuse((struct access_files){.token = file_of("token", longest, 0600)}, -EINVAL,
	       "a token has 16 to 4096 characters");
	/* Of a file that was written on Windows. */
	assert_int_equal(
		access_read(&access_data,
			    &(struct access_files){.token = file_of("token", TOKEN "\r\n", 0600)},
			    &error),
		0);
	assert_string_equal(access_data.token, TOKEN);
}

static void only_the_token_is_granted(void **state)
{
	const struct access with_token = {.token = (char[]){TOKEN}}, without = {.token = NULL};

	(void)state;
	assert_true(access_is_granted(&without, NULL, NULL));
	assert_true(access_is_granted(&without, "Bearer x", "x"));
	assert_true(access_is_granted(&with_token, "Bearer " TOKEN, NULL));
	assert_true(access_is_granted(&with_token, "bearer   " TOKEN, NULL));
	assert_true(access_is_granted(&with_token, "Basic x", TOKEN));
	assert_false(access_is_granted(&with_token, NULL, NULL));
	assert_false(access_is_granted(&with_token, "", ""));
	assert_false(access_is_granted(&with_token, "Bearer", NULL));
	assert_false(access_is_granted(&with_token, "Bearer ", NULL));
	assert_false(access_is_granted(&with_token, TOKEN, NULL));
	assert_false(access_is_granted(&with_token, "Digest " TOKEN, NULL));
	assert_false(access_is_granted(&with_token, "Bearer " TOKEN "x", NULL));
	assert_false(access_is_granted(&with_token, "Bearer 0123456789abcde", NULL));
	assert_false(access_is_granted(&with_token, "Bearer 0123456789abcdeF", NULL));
	assert_false(access_is_granted(&with_token, "Bearer 1123456789abcdef", NULL));
	assert_false(access_is_granted(&with_token, NULL, "0123456789abcdeg"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_are_read),
		TEST(secrets_are_not_for_all_users),
		TEST(wrong_files_are_refused),
		TEST(tokens_have_bounds),
		TEST(only_the_token_is_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "serve/access.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/regular_file.h"
#include "sandbox/child.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define TOKEN_LENGTH_MIN 16u
#define TOKEN_LENGTH_MAX 4096u
#define BEARER "Bearer "

static int access_read_text(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while ((got = read(fd, text + length, size - length)) > 0)
		length += (size_t)got;
	return got < 0 ? -errno : memchr(text, '\0', length) ? -EINVAL : 0;
}

/* Overwrites and frees a text; NULL is allowed. */
static void text_wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

/* Returns the contents of a file, which the caller frees, or NULL with `error` set. */
static char *access_read_file(const char *path, bool is_secret, int *err, struct error *error)
{
	struct stat status;
	int fd = open_regular_file(path, 0, &status);
	char *text = NULL;

	*err = 0;
	if (fd < 0)
		*err = error_errno(error, -fd, "%s", path);
	else if ((size_t)status.st_size > FILE_BYTES_MAX)
		*err = error_set(error, EFBIG, "%s: it has more than 1 MiB", path);
	else if (is_secret && status.st_mode & (S_IROTH | S_IWOTH))
		*err = error_set(error, EPERM, "%s: all users can read or write it", path);
	if (!*err) {
		text = calloc(1, (size_t)status.st_size + 1);
		*err = text ? access_read_text(fd, text, (size_t)status.st_size) : -ENOMEM;
		if (*err)
			error_errno(error, -*err, "%s", path);
	}
	if (fd >= 0)
		close(fd);
	if (!*err)
		return text;
	text_wipe(text);
	return NULL;
}

static int read_token(struct access *access, const char *path, struct error *error)
{
	size_t length = 0;
	int err;

	access->token = access_read_file(path, true, &err, error);
	if (err)
		return err;
	while (isgraph((unsigned char)access->token[length]))
		length++;
	if (access->token[length] && !strchr("\r\n", access->token[length]))
		return error_set(error, EINVAL, "%s: the token has characters outside ASCII", path);
	explicit_bzero(access->token + length, strlen(access->token + length));
	if (length < TOKEN_LENGTH_MIN || length > TOKEN_LENGTH_MAX)
		return error_set(error, EINVAL, "%s: a token has %u to %u characters", path,
				 TOKEN_LENGTH_MIN, TOKEN_LENGTH_MAX);
	return 0;
}

int access_read(struct access *access, const struct access_files *files, struct error *error)
{
	int err = 0;

	*access = (struct access){.token = NULL};
	child_note_secrets(true);
	if (files->key && !files->certificate)
		return error_set(error, EINVAL, "--tls-key needs --tls-cert");
	if (files->client_ca && !files->certificate)
		return error_set(error, EINVAL, "--tls-client-ca needs --tls-cert");
	if (files->certificate)
		access->certificate =
			access_read_file(files->certificate, !files->key, &err, error);
	if (files->certificate && !err)
		access->key = access_read_file(files->key ? files->key : files->certificate, true,
					       &err, error);
	if (files->client_ca && !err)
		access->client_ca = access_read_file(files->client_ca, false, &err, error);
	if (files->token && !err)
		err = read_token(access, files->token, error);
	return err;
}

void access_clear(struct access *access)
{
	text_wipe(access->certificate);
	text_wipe(access->key);
	text_wipe(access->token);
	text_wipe(access->client_ca);
	*access = (struct access){.token = NULL};
	child_note_secrets(false);
}

bool access_is_protected(const struct access *access)
{
	return access->certificate && (access->token || access->client_ca);
}

static bool is_equal(const char *token, const char *given)
{
	size_t length = given ? strlen(given) : 0;
	unsigned char differs = strlen(token) != length;

	for (size_t i = 0; token[i]; i++)
		differs |= (unsigned char)(token[i] ^ (i < length ? given[i] : 0));
	return !differs;
}

bool access_is_granted(const struct access *access, const char *authorization, const char *password)
{
	const bool is_bearer =
		authorization && !strncasecmp(authorization, BEARER, sizeof(BEARER) - 1);
	const char *bearer = is_bearer ? authorization + sizeof(BEARER) - 1 : NULL;

	while (bearer && *bearer == ' ')
		bearer++;
	return !access->token || is_equal(access->token, bearer ? bearer : password);
}

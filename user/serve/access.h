/* SPDX-License-Identifier: GPL-2.0 */
/* What clients over TCP need: the keys of TLS, a token, and certificates of their own. */
#ifndef STACKBEAT_SERVE_ACCESS_H
#define STACKBEAT_SERVE_ACCESS_H

#include <stdbool.h>

struct error;

/* NULL: not given. */
struct access_files {
	const char *certificate; /* PEM; the certificates of its issuers follow it */
	const char *key; /* PEM, not encrypted; NULL: in the file of the certificate */
	const char *token; /* the first line; from 16 characters on */
	const char *client_ca; /* PEM: the authorities that sign the certificates of clients */
};

/* All NULL: none. */
struct access {
	char *certificate, *key; /* PEM, with a NUL; both or none */
	char *token;
	char *client_ca; /* PEM, with a NUL; none without a certificate */
};

/*
 * Reads the files. Refuses (-EPERM) a key or a token that all users can read. Returns 0 or a
 * negative errno value; access_clear() is to be called in both cases. Between the calls, this
 * process has secrets (child_note_secrets()).
 */
int access_read(struct access *access, const struct access_files *files, struct error *error);
/* Overwrites and frees all of it. A second call does nothing. */
void access_clear(struct access *access);

/* Returns whether clients of other machines need TLS, and a token or a certificate. */
bool access_is_protected(const struct access *access);

/*
 * Returns whether a client may read profiles. `authorization`: its header of this name (RFC 6750),
 * or NULL; `password`: as of RFC 7617, or NULL. The time that it takes depends on the length of
 * the token alone.
 */
bool access_is_granted(const struct access *access, const char *authorization,
		       const char *password);

#endif

// SPDX-License-Identifier: GPL-2.0
#include "pprof/container.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HEX_DIGITS "0123456789abcdef"
#define RUNTIME_ID_LENGTH 64
#define POD_UID_LENGTH 36
#define UID_DIGITS_MAX 10
#define USER_PREFIX_SIZE 32
#define POD_HASH_LENGTH                                                                            \
	32 /* static pods, which the kubelet reads from files, have a hash as uid                  \
	    */

/* Kinds of owners that a part of a path can name, in order of preference. */
enum owner { OWNER_NONE, OWNER_UNIT, OWNER_POD, OWNER_CONTAINER };

/* What a path has named so far. */
struct search {
	enum owner owner;
	char *id; /* CONTAINER_ID_SIZE */
	char user[USER_PREFIX_SIZE]; /* prefix of names in the groups of a user, or "" */
};

static bool container_has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Returns where `suffix` begins at the end of a longer `text`; NULL if `text` has another end. */
static const char *find_suffix(const char *text, const char *suffix)
{
	size_t length = strlen(text), end = strlen(suffix);

	if (length <= end || strcmp(text + length - end, suffix))
		return NULL;
	return text + length - end;
}

static void copy_id(char id[CONTAINER_ID_SIZE], const char *text, size_t length)
{
	snprintf(id, CONTAINER_ID_SIZE, "%.*s", (int)length, text);
}

/* [RUNTIME-]ID[.scope], or SLICE:RUNTIME:ID, which containerd writes if it does not use systemd. */
static bool find_runtime_id(const char *name, char id[CONTAINER_ID_SIZE])
{
	const char *end = find_suffix(name, ".scope");
	const char *start;

	if (!end)
		end = name + strlen(name);
	if (end - name < RUNTIME_ID_LENGTH)
		return false;
	start = end - RUNTIME_ID_LENGTH;
	if (strspn(start, HEX_DIGITS) != RUNTIME_ID_LENGTH)
		return false;
	if (start > name && start[-1] != '-' && start[-1] != ':')
		return false;
	copy_id(id, start, RUNTIME_ID_LENGTH);
	/* Podman and CRI-O have a scope beside each container for its monitor. */
	return !memmem(name, (size_t)(start - name), "conmon-", strlen("conmon-"));
}

static int hex_value(char digit)
{
	const char *found = digit ? strchr(HEX_DIGITS, digit) : NULL;

	return found ? (int)(found - HEX_DIGITS) : -1;
}

/* Decodes an escape like \x2d at `text`; NUL if there is none. */
static char escaped_byte(const char *text, const char *end)
{
	int high, low;

	if (end - text < 4 || text[0] != '\\' || text[1] != 'x')
		return '\0';
	high = hex_value(text[2]);
	low = hex_value(text[3]);
	if (high < 0 || low < 0)
		return '\0';
	return (char)(high * 16 + low);
}

/* Decodes the escapes of systemd in the name of a unit. */
static void unescape_unit(const char *text, size_t length, char id[CONTAINER_ID_SIZE])
{
	const char *end = text + length;

	while (text < end) {
		char byte = escaped_byte(text, end);

		if (byte) {
			*id++ = byte;
			text += strlen("\\x2d");
		} else {
			*id++ = *text++;
		}
	}
	*id = '\0';
}

/* The name of a machine, from a scope of systemd-machined or a service that starts it. */
static bool find_machine(const char *name, char id[CONTAINER_ID_SIZE])
{
	static const struct {
		const char *prefix, *suffix;
	} forms[] = {
		{"machine-", ".scope"},
		{"systemd-nspawn@", ".service"},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const char *start = name + strlen(forms[i].prefix);
		const char *end = find_suffix(name, forms[i].suffix);

		if (container_has_prefix(name, forms[i].prefix) && end > start) {
			unescape_unit(start, (size_t)(end - start), id);
			return true;
		}
	}
	return false;
}

/* lxc.payload.NAME; lxc.payload/NAME before LXC 4.0; lxc/NAME in some distributions. */
static bool find_lxc_name(const char *name, const char *parent, char id[CONTAINER_ID_SIZE])
{
	static const char payload[] = "lxc.payload.";

	if (container_has_prefix(name, payload) && name[strlen(payload)])
		name += strlen(payload);
	else if (strcmp(parent, "lxc.payload") && strcmp(parent, "lxc"))
		return false;
	copy_id(id, name, strlen(name));
	return true;
}

static size_t pod_uid_length(const char *text)
{
	size_t i;

	if (strspn(text, HEX_DIGITS) == POD_HASH_LENGTH)
		return POD_HASH_LENGTH;
	for (i = 0; i < POD_UID_LENGTH; i++) {
		bool separator = i == 8 || i == 13 || i == 18 || i == 23;

		if (separator ? text[i] != '-' && text[i] != '_' : hex_value(text[i]) < 0)
			return 0;
	}
	return POD_UID_LENGTH;
}

/* podUID, or kubepods[-CLASS]-podUID.slice, where "-" in the uid is "_". */
static bool find_pod_uid(const char *name, char id[CONTAINER_ID_SIZE])
{
	const char *start = name;
	size_t length;

	if (container_has_prefix(name, "kubepods-")) {
		start = strstr(name, "-pod");
		if (!start)
			return false;
		start++;
	}
	if (!container_has_prefix(start, "pod"))
		return false;
	start += strlen("pod");
	length = pod_uid_length(start);
	if (!length || (start[length] && strcmp(start + length, ".slice")))
		return false;
	copy_id(id, start, length);
	for (char *next = id; (next = strchr(next, '_')); next++)
		*next = '-';
	return true;
}

static bool find_unit(const char *name, char id[CONTAINER_ID_SIZE])
{
	static const char *const types[] = {".service", ".scope", ".socket", ".mount", ".swap"};

	/* systemd prefixes names that could conflict with files of the control group. */
	if (*name == '_')
		name++;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (find_suffix(name, types[i])) {
			copy_id(id, name, strlen(name));
			return true;
		}
	}
	return false;
}

static enum owner container_find_owner(const char *name, const char *parent,
				       char id[CONTAINER_ID_SIZE])
{
	if (find_runtime_id(name, id) || find_machine(name, id) || find_lxc_name(name, parent, id))
		return OWNER_CONTAINER;
	if (find_pod_uid(name, id))
		return OWNER_POD;
	return find_unit(name, id) ? OWNER_UNIT : OWNER_NONE;
}

/*
 * user@UID.service in user-UID.slice: systemd gives the groups below to this user, who may name
 * them as any unit or container.
 */
static bool container_find_user(const char *name, const char *parent, char user[USER_PREFIX_SIZE])
{
	const char *uid = name + strlen("user@");
	size_t digits;
	char slice[USER_PREFIX_SIZE];

	if (!container_has_prefix(name, "user@"))
		return false;
	digits = strspn(uid, "0123456789");
	if (!digits || digits > UID_DIGITS_MAX || strcmp(uid + digits, ".service"))
		return false;
	snprintf(user, USER_PREFIX_SIZE, "user-%.*s/", (int)digits, uid);
	snprintf(slice, sizeof(slice), "user-%.*s.slice", (int)digits, uid);
	return !strcmp(parent, slice);
}

static void container_add_name(struct search *search, const char *name, const char *parent)
{
	char found[CONTAINER_ID_SIZE], user[USER_PREFIX_SIZE];
	enum owner owner = container_find_owner(name, parent, found);

	/* Of units, the outermost: others are in groups that it was given. */
	if (owner == OWNER_NONE || owner < search->owner ||
	    (owner == OWNER_UNIT && search->owner == OWNER_UNIT))
		return;
	search->owner = owner;
	snprintf(search->id, CONTAINER_ID_SIZE, "%s%.*s", search->user, NAME_MAX, found);
	/* The first unit below it counts. */
	if (owner == OWNER_UNIT && !*search->user && container_find_user(name, parent, user)) {
		search->owner = OWNER_NONE;
		memcpy(search->user, user, sizeof(user));
	}
}

void container_id(const char *path, char id[CONTAINER_ID_SIZE])
{
	char names[2][CONTAINER_ID_SIZE] = {"", ""}; /* this part of the path, and its parent */
	struct search search = {.id = id};
	size_t length;

	*id = '\0';
	for (int i = 0; *path; i = !i, path += length) {
		path += strspn(path, "/");
		length = strcspn(path, "/");
		/* Directories have shorter names. */
		copy_id(names[i], path, length <= NAME_MAX ? length : 0);
		container_add_name(&search, names[i], names[!i]);
	}
}

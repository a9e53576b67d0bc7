// SPDX-License-Identifier: GPL-2.0
#include "sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rights of the first version; headers may lack rights of later ones. */
#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_1 ((UINT64_C(1) << 13) - 1)
#define RIGHT_REFER (UINT64_C(1) << 13) /* version 2 */
#define RIGHT_TRUNCATE (UINT64_C(1) << 14) /* version 3 */

static uint64_t all_rights(long version)
{
	return RIGHTS_1 | (version >= 2 ? RIGHT_REFER : 0) | (version >= 3 ? RIGHT_TRUNCATE : 0);
}

static int make_rules(uint64_t *rights)
{
	struct landlock_ruleset_attr attributes = {0};
	long version =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	long rules;

	if (version < 0)
		return -errno;
	*rights = all_rights(version);
	attributes.handled_access_fs = *rights;
	rules = syscall(SYS_landlock_create_ruleset, &attributes,
			sizeof(attributes.handled_access_fs), 0);
	return rules < 0 ? -errno : (int)rules;
}

static int landlock_permit(int rules, const char *directory, uint64_t rights)
{
	struct landlock_path_beneath_attr beneath = {
		.allowed_access = rights,
		.parent_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
	int err = 0;

	if (beneath.parent_fd < 0)
		return -errno;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0))
		err = -errno;
	close(beneath.parent_fd);
	return err;
}

/* Takes ownership of the rules. */
static int restrict_self(int rules, int err)
{
	if (!err && syscall(SYS_landlock_restrict_self, rules, 0))
		err = -errno;
	close(rules);
	return err;
}

int landlock_forbid_files(void)
{
	uint64_t rights;
	int rules = make_rules(&rights);

	return rules < 0 ? rules : restrict_self(rules, 0);
}

int landlock_confine(const char *directory)
{
	uint64_t rights = 0;
	int rules = make_rules(&rights);

	return rules < 0 ? rules : restrict_self(rules, landlock_permit(rules, directory, rights));
}

int landlock_forbid_changes(void)
{
	uint64_t rights;
	int rules = make_rules(&rights);

	return rules < 0 ? rules : restrict_self(rules, landlock_permit(rules, "/", READING));
}

int landlock_confine_writing(const char *directory)
{
	uint64_t rights = 0;
	int rules = make_rules(&rights), err;

	if (rules < 0)
		return rules;
	err = landlock_permit(rules, "/", READING);
	if (!err)
		err = landlock_permit(rules, directory, rights);
	return restrict_self(rules, err);
}

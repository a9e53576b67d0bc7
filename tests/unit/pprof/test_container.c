// SPDX-License-Identifier: GPL-2.0
/* The container of a control group, by its path. */
#include "unit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/container.h"

/* Ids in the format of container engines. */
#define ID "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860"
#define OTHER "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
#define UID "3d274242-8ee0-11e9-a8a6-1e68d864ef1a"
#define UID_OF_SYSTEMD "3d274242_8ee0_11e9_a8a6_1e68d864ef1a"
#define HASH "5a0d5ceddf6c44c1928d367a815d890f"
#define USER "/user.slice/user-1000.slice/user@1000.service"
#define OWN "user-1000/" /* what is in the groups of the user */
#define POD                                                                                        \
	"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_OF_SYSTEMD ".slice"

struct example {
	const char *path, *id;
};

static void check(const struct example *examples, size_t count)
{
	char id[CONTAINER_ID_SIZE];

	for (size_t i = 0; i < count; i++) {
		memset(id, 'x', sizeof(id));
		container_id(examples[i].path, id);
		if (strcmp(id, examples[i].id) != 0)
			fail_msg("%s: '%s', not '%s'", examples[i].path, id, examples[i].id);
	}
}

#define CHECK(examples) check(examples, sizeof(examples) / sizeof((examples)[0]))

static void containers_of_engines_have_ids(void **state)
{
	static const struct example examples[] = {
		/* Docker, with and without systemd, rootless, and below another group. */
		{"/docker/" ID, ID},
		{"/system.slice/docker-" ID ".scope", ID},
		{USER "/user.slice/docker-" ID ".scope", OWN ID},
		{"/ecs/classic/" HASH "/" ID, ID},
		{"/ecstasks.slice/ecstasks-" HASH ".slice/docker-" ID ".scope", ID},
		{"/" ID, ID},
		/* containerd, by nerdctl and ctr. */
		{"/system.slice/nerdctl-" ID ".scope", ID},
		{USER "/user.slice/nerdctl-" ID ".scope", OWN ID},
		{"/default/" ID, ID},
		/* Podman: by systemd, with its own groups below, in a pod, in a unit, and without.
		 */
		{"/machine.slice/libpod-" ID ".scope", ID},
		{"/machine.slice/libpod-" ID ".scope/container", ID},
		{USER "/user.slice/libpod-" ID ".scope/container", OWN ID},
		{USER "/user.slice/user-libpod_pod_" OTHER ".slice/libpod-" ID ".scope/container",
		 OWN ID},
		{"/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" ID ".scope", ID},
		{"/system.slice/nginx.service/libpod-payload-" ID, ID},
		{USER "/app.slice/app-web.slice/web@8000.service/libpod-payload-" ID, OWN ID},
		{"/libpod_parent/libpod-" ID, ID},
		{"/libpod_parent/" OTHER "/libpod-" ID, ID},
		/* Kubernetes: containerd, CRI-O and docker, by systemd and without. */
		{POD "/cri-containerd-" ID ".scope", ID},
		{POD "/crio-" ID ".scope", ID},
		{POD "/crio-" ID ".scope/container", ID},
		{POD "/docker-" ID ".scope", ID},
		{"/kubepods/besteffort/pod" UID "/" ID, ID},
		{"/kubepods/pod" UID "/crio-" ID, ID},
		{"/kubepods/burstable/pod" HASH "/" ID, ID},
		/* containerd without systemd, with a cgroup name for systemd. */
		{"/system.slice/containerd.service/kubepods-besteffort-pod" UID_OF_SYSTEMD
		 ".slice:cri-containerd:" ID,
		 ID},
		{"/kubepods-burstable-pod" UID_OF_SYSTEMD ".slice:cri-containerd:" ID, ID},
	};

	(void)state;
	CHECK(examples);
}

static void lxc_and_machines_have_names(void **state)
{
	static const struct example examples[] = {
		{"/lxc.payload.web", "web"},
		{"/lxc.payload.web/system.slice/ssh.service", "web"},
		{"/lxc.payload.project_name-1.x/init.scope", "project_name-1.x"},
		{"/lxc.payload/web/init.scope", "web"},
		{"/lxc/101/ns/system.slice/cron.service", "101"},
		{"/machine.slice/machine-debian.scope/payload/system.slice/cron.service", "debian"},
		{"/machine.slice/machine-debian\\x2d12.scope/payload", "debian-12"},
		{"/machine.slice/machine-qemu\\x2d1\\x2dvm\\x5ctest.scope/libvirt/emulator",
		 "qemu-1-vm\\test"},
		{"/machine.slice/systemd-nspawn@sid\\x2dtest.service/payload/init.scope",
		 "sid-test"},
	};

	(void)state;
	CHECK(examples);
}

static void innermost_container_counts(void **state)
{
	static const struct example examples[] = {
		{"/docker/" OTHER "/docker/" ID, ID},
		{"/docker/" ID "/system.slice/ssh.service", ID},
		{"/docker/" ID "/kubepods/burstable/pod" UID, ID},
		{"/lxc.payload.web/system.slice/docker-" ID ".scope", ID},
		{POD "/cri-containerd-" OTHER ".scope/kubelet/kubepods/besteffort/pod" UID "/" ID,
		 ID},
		{"/docker/" ID "/lxc.payload.web", "web"},
	};

	(void)state;
	CHECK(examples);
}

static void monitors_are_not_in_the_container(void **state)
{
	static const struct example examples[] = {
		{"/machine.slice/libpod-conmon-" ID ".scope", "libpod-conmon-" ID ".scope"},
		{"/libpod_parent/libpod-conmon-" ID, ""},
		{"/libpod_parent/conmon", ""},
		{"/system.slice/nginx.service/runtime", "nginx.service"},
		{POD "/crio-conmon-" ID ".scope", UID},
		{"/system.slice/docker.service", "docker.service"},
		{"/lxc.monitor.web", ""},
		{"/lxc.monitor/101", ""},
	};

	(void)state;
	CHECK(examples);
}

static void pods_without_container_have_uids(void **state)
{
	static const struct example examples[] = {
		{POD, UID},
		{"/kubepods.slice/kubepods-pod" UID_OF_SYSTEMD ".slice", UID},
		{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" HASH ".slice",
		 HASH},
		{"/kubepods/burstable/pod" UID, UID},
		{"/kubepods/pod" HASH "/anything", HASH},
		{POD "/any.service", UID},
		/* Not uids. */
		{"/kubepods/burstable", ""},
		{"/kubepods/pod1234", ""},
		{"/kubepods/pod" UID "0", ""},
		{"/kubepods/pod" HASH "0", ""},
		{"/pod3d274242.8ee0-11e9-a8a6-1e68d864ef1a", ""},
		{"/kubepods.slice/kubepods-burstable.slice", ""},
	};

	(void)state;
	CHECK(examples);
}

static void units_without_container_have_names(void **state)
{
	static const struct example examples[] = {
		{"/init.scope", "init.scope"},
		{"/system.slice/ssh.service", "ssh.service"},
		{"/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service"},
		{"/system.slice/system-postgresql.slice/postgresql@15-main.service",
		 "postgresql@15-main.service"},
		{"/user.slice/user-0.slice/session-3.scope", "session-3.scope"},
		{USER, "user@1000.service"},
		{USER "/init.scope", OWN "init.scope"},
		{USER "/app.slice/app-gnome-org.gnome.Terminal-2711.scope",
		 OWN "app-gnome-org.gnome.Terminal-2711.scope"},
		{USER "/app.slice/app-dbus\\x2d:1.2\\x2dorg.a11y.slice/at-spi@0.service",
		 OWN "at-spi@0.service"},
		{USER "/app.slice/snap.firefox.firefox-" UID ".scope",
		 OWN "snap.firefox.firefox-" UID ".scope"},
		/* The escaping of systemctl, which expects the name in this form. */
		{"/system.slice/dev-disk-by\\x2duuid-1.swap", "dev-disk-by\\x2duuid-1.swap"},
		{"/system.slice/home.mount", "home.mount"},
		{"/system.slice/systemd-udevd.service/udev", "systemd-udevd.service"},
		{"/system.slice/run-r" HASH ".scope", "run-r" HASH ".scope"},
		{"/system.slice/" ID ".service", ID ".service"},
		/* Names that conflict with files of the kernel, or begin with "_". */
		{"/system.slice/_cgroup.service", "cgroup.service"},
		{"/system.slice/__x.service", "_x.service"},
	};

	(void)state;
	CHECK(examples);
}

/* A user may make any groups below user@UID.service, and a service below its own. */
static void names_of_others_are_not_forged(void **state)
{
	static const struct example examples[] = {
		{USER "/nginx.service", OWN "nginx.service"},
		{USER "/nginx.service/ssh.service", OWN "nginx.service"},
		{USER "/docker-" ID ".scope", OWN ID},
		{USER "/docker/" OTHER "/docker/" ID, OWN ID},
		{USER POD, OWN UID},
		{USER POD "/cri-containerd-" ID ".scope", OWN ID},
		{USER "/lxc.payload.web", OWN "web"},
		{USER "/machine-debian.scope", OWN "debian"},
		{USER "/user.slice/user-0.slice/user@0.service/nginx.service",
		 OWN "user@0.service"},
		{USER "/user-1.slice/user@1.service/docker-" ID ".scope", OWN ID},
		{USER "/app.slice", "user@1000.service"},
		{"/system.slice/web.service/nginx.service", "web.service"},
		{"/user.slice/user-1000.slice/session-3.scope/nginx.service", "session-3.scope"},
		/* Not of systemd. */
		{"/user@1000.service/nginx.service", "user@1000.service"},
		{"/user-1.slice/user@1000.service/nginx.service", "user@1000.service"},
		{"/user-.slice/user@.service/nginx.service", "user@.service"},
		{"/user-1x.slice/user@1x.service/nginx.service", "user@1x.service"},
		/* What a container has in it is the container's. */
		{"/lxc.payload.web" USER "/nginx.service", "web"},
		{"/docker/" OTHER USER "/docker-" ID ".scope", ID},
	};

	(void)state;
	CHECK(examples);
}

static void longest_names_have_their_prefix(void **state)
{
	char path[1024], id[CONTAINER_ID_SIZE], name[256], wanted[CONTAINER_ID_SIZE];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	strcpy(name + sizeof(name) - 1 - strlen(".service"), ".service");
	snprintf(path, sizeof(path), "/user.slice/user-4294967295.slice/user@4294967295.service/%s",
		 name);
	snprintf(wanted, sizeof(wanted), "user-4294967295/%s", name);
	container_id(path, id);
	assert_string_equal(id, wanted);
}

static void other_paths_have_no_id(void **state)
{
	static const struct example examples[] = {
		{"", ""},
		{"/", ""},
		{"///", ""},
		{"/..", ""},
		{"/a/b", ""},
		{"/system.slice", ""},
		{"/system.slice/.service", ""},
		{"/system.slice/services", ""},
		{"/_.scope", ""},
		{"/machine.slice/machine-.scope", "machine-.scope"},
		{"/lxc.payload.", ""},
		{"/lxc.payload", ""},
		/* An id has 64 digits: no less, no more, no others, and nothing that sticks to it.
		 */
		{"/docker/726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860", ""},
		{"/docker/0" ID, ""},
		{"/docker/x" ID, ""},
		{"/docker/" ID "x", ""},
		{"/docker/G726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860", ""},
		{"/docker/A726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860", ""},
		{"/system.slice/docker_" ID ".scope", "docker_" ID ".scope"},
	};

	(void)state;
	CHECK(examples);
}

static void invalid_escapes_are_kept(void **state)
{
	static const struct example examples[] = {
		{"/machine-a\\x40\\x09b.scope", "a@\tb"},
		{"/machine-a\\x2.scope", "a\\x2"},
		{"/machine-a\\x.scope", "a\\x"},
		{"/machine-a\\.scope", "a\\"},
		{"/machine-a\\xzz.scope", "a\\xzz"},
		{"/machine-a\\x2zb.scope", "a\\x2zb"},
		/* Strings have no NUL. */
		{"/machine-a\\x00b.scope", "a\\x00b"},
		{"/machine-\xff\\xff.scope", "\xff\xff"},
	};

	(void)state;
	CHECK(examples);
}

static void too_long_names_are_ignored(void **state)
{
	char path[2 * CONTAINER_ID_SIZE + 32], id[CONTAINER_ID_SIZE];
	static const char suffix[] = ".service";
	char *name = path + 1;

	(void)state;
	for (size_t length = NAME_MAX - 1; length <= NAME_MAX + 2; length++) {
		path[0] = '/';
		memset(name, 'a', length);
		strcpy(name + length - strlen(suffix), suffix);
		container_id(path, id);
		assert_string_equal(id, length <= NAME_MAX ? name : "");
		/* The rest of the path is parsed all the same. */
		strcat(path, "/docker-" ID ".scope");
		container_id(path, id);
		assert_string_equal(id, ID);
	}
}

/* Parts of real names and random bytes: the id fits and is terminated. */
static void survives_random_paths(void **state)
{
	static const char *const pieces[] = {
		"/",   "docker-", ID,    ".scope",   "machine-",  "lxc.payload.", "\\x2d",
		"\\x", "pod",     UID,   ".service", "kubepods-", ".slice",       "conmon-",
		"_",   HASH,      "lxc", "-pod",     ":",         "\xff"};
	char path[4096], id[CONTAINER_ID_SIZE];
	size_t named = 0;

	(void)state;
	srand(3);
	for (int round = 0; round < 50000; round++) {
		size_t length = 0;

		for (int count = rand() % 12; count > 0; count--) {
			const char *piece =
				pieces[(size_t)rand() % (sizeof(pieces) / sizeof(pieces[0]))];

			strcpy(path + length, piece);
			length += strlen(piece);
			if (rand() % 4 == 0)
				path[length++] = (char)(1 + rand() % 255);
		}
		path[length] = '\0';
		memset(id, 'x', sizeof(id));
		container_id(path, id);
		assert_true(strnlen(id, sizeof(id)) < sizeof(id));
		named += *id != '\0';
	}
	assert_true(named > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_of_engines_have_ids),
		cmocka_unit_test(lxc_and_machines_have_names),
		cmocka_unit_test(innermost_container_counts),
		cmocka_unit_test(monitors_are_not_in_the_container),
		cmocka_unit_test(pods_without_container_have_uids),
		cmocka_unit_test(units_without_container_have_names),
		cmocka_unit_test(names_of_others_are_not_forged),
		cmocka_unit_test(longest_names_have_their_prefix),
		cmocka_unit_test(other_paths_have_no_id),
		cmocka_unit_test(invalid_escapes_are_kept),
		cmocka_unit_test(too_long_names_are_ignored),
		cmocka_unit_test(survives_random_paths),
	};

	return cmocka_run_group_tests_name("container", tests, NULL, NULL);
}

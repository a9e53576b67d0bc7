// SPDX-License-Identifier: GPL-2.0
/* Loading the module. Functions of this file replace the functions of libkmod, and /sys/module. */
#include "source/module.h"

#include <errno.h>
#include <fcntl.h>
#include <libkmod.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "lib/error.h"
#include "lib/module_file.h"
#include "lib/module_rules.h"
#include "sandbox.h"

#define CONTEXT ((struct kmod_ctx *)&fake)
#define FOUND ((struct kmod_module *)&fake.options)
#define LIST ((struct kmod_list *)&fake.path)
#define SYS "/sys/module/stackbeat"

/* The kernel and the library, and what they have received. */
static struct {
	bool loaded, in_build_tree, in_lib_modules;
	bool is_unlisted; /* in /lib/modules, and modprobe does not find it */
	bool is_damaged; /* its file */
	bool hidden, no_modules; /* the directory */
	bool loads_meanwhile; /* another process does */
	int insert_err, remove_err, path_err, name_err;
	char path[PATH_MAX], options[256]; /* that were loaded */
	char wanted[PATH_MAX]; /* in the build tree */
	unsigned int contexts, modules, lists, flags;
	struct module_rules rules;
	const char *const *info; /* keys and values of modinfo; NULL: the file can't be read */
	unsigned int infos;
	bool has_log; /* another function than the library's */
} fake;

int access(const char *path, int mode)
{
	size_t length = strlen(path);

	if (!strcmp(path, SYS "/refcnt")) {
		assert_int_equal(mode, F_OK);
		return fake.loaded ? 0 : -1;
	}
	assert_true(length > 3 && !strcmp(path + length - 3, ".ko"));
	assert_int_equal(mode, R_OK);
	snprintf(fake.wanted, sizeof(fake.wanted), "%s", path);
	return fake.in_build_tree ? 0 : -1;
}

int stat(const char *path, struct stat *st)
{
	if (strcmp(path, "/lib/modules"))
		return fstatat(AT_FDCWD, path, st, 0);
	*st = (struct stat){.st_mode = S_IFDIR | (fake.hidden ? 0 : 0755)};
	return fake.no_modules ? -1 : 0;
}

bool module_file_find(const char *root, const char *release, char path[PATH_MAX])
{
	assert_string_equal(root, "");
	snprintf(path, PATH_MAX, "/lib/modules/%s/extra/stackbeat.ko", release);
	return fake.is_unlisted;
}

bool module_file_is_damaged(const char *root, const char *path)
{
	assert_string_equal(root, "");
	assert_string_equal(path, fake.path);
	return fake.is_damaged;
}

const char *module_file_remedy(const char *path)
{
	assert_string_equal(path, fake.path);
	return "make it";
}

void module_rules_read(struct module_rules *rules, const char *root)
{
	assert_string_equal(root, "");
	*rules = fake.rules;
}

FILE *fopen(const char *path, const char *mode)
{
	static const char parameters[] = SYS "/parameters";
	const size_t length = sizeof(parameters) - 1;
	char own[PATH_MAX];
	int fd;

	snprintf(own, sizeof(own), "%s%s", strncmp(path, parameters, length) ? "" : sandbox,
		 strncmp(path, parameters, length) ? path : path + length);
	fd = open(own, (*mode == 'w' ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY) | O_CLOEXEC, 0600);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

struct kmod_ctx *kmod_new(const char *directory, const char *const *configs)
{
	assert_null(directory);
	assert_null(configs);
	fake.contexts++;
	return CONTEXT;
}

struct kmod_ctx *kmod_unref(struct kmod_ctx *context)
{
	fake.contexts -= context == CONTEXT;
	return NULL;
}

void kmod_set_log_fn(struct kmod_ctx *context,
		     void (*log)(void *data, int priority, const char *file, int line,
				 const char *function, const char *format, va_list args),
		     const void *data)
{
	assert_ptr_equal(context, CONTEXT);
	assert_null(data);
	fake.has_log = log != NULL;
}

int kmod_module_new_from_path(struct kmod_ctx *context, const char *path,
			      struct kmod_module **module)
{
	assert_ptr_equal(context, CONTEXT);
	if (fake.path_err)
		return fake.path_err;
	strcpy(fake.path, path);
	*module = FOUND;
	fake.modules++;
	return 0;
}

int kmod_module_new_from_lookup(struct kmod_ctx *context, const char *name, struct kmod_list **list)
{
	assert_ptr_equal(context, CONTEXT);
	assert_string_equal(name, "stackbeat");
	if (!fake.in_lib_modules)
		return fake.path_err;
	*list = LIST;
	fake.lists++;
	return fake.path_err;
}

struct kmod_module *kmod_module_get_module(const struct kmod_list *list)
{
	assert_ptr_equal(list, LIST);
	strcpy(fake.path, "/lib/modules/stackbeat.ko");
	fake.modules++;
	return FOUND;
}

int kmod_module_unref_list(struct kmod_list *list)
{
	assert_ptr_equal(list, LIST);
	fake.lists--;
	return 0;
}

int kmod_module_new_from_name(struct kmod_ctx *context, const char *name,
			      struct kmod_module **module)
{
	assert_ptr_equal(context, CONTEXT);
	assert_string_equal(name, "stackbeat");
	if (fake.name_err)
		return fake.name_err;
	*module = FOUND;
	fake.modules++;
	return 0;
}

struct kmod_module *kmod_module_unref(struct kmod_module *module)
{
	fake.modules -= module == FOUND;
	return NULL;
}

const char *kmod_module_get_path(const struct kmod_module *module)
{
	assert_ptr_equal(module, FOUND);
	return fake.path;
}

/* An entry of the list is the address of its key. */
int kmod_module_get_info(const struct kmod_module *module, struct kmod_list **list)
{
	assert_ptr_equal(module, FOUND);
	if (!fake.info)
		return -ENOENT;
	*list = *fake.info ? (struct kmod_list *)fake.info : NULL;
	fake.infos += *list != NULL;
	return 0;
}

struct kmod_list *kmod_list_next(const struct kmod_list *list, const struct kmod_list *entry)
{
	const char *const *next = (const char *const *)entry + 2;

	assert_ptr_equal(list, fake.info);
	return *next ? (struct kmod_list *)next : NULL;
}

const char *kmod_module_info_get_key(const struct kmod_list *entry)
{
	return *(const char *const *)entry;
}

const char *kmod_module_info_get_value(const struct kmod_list *entry)
{
	return ((const char *const *)entry)[1];
}

void kmod_module_info_free_list(struct kmod_list *list)
{
	assert_ptr_equal(list, fake.info);
	fake.infos--;
}

int kmod_module_insert_module(struct kmod_module *module, unsigned int flags, const char *options)
{
	assert_ptr_equal(module, FOUND);
	assert_int_equal(flags, 0);
	if (fake.loads_meanwhile)
		return -EEXIST;
	if (fake.insert_err)
		return fake.insert_err;
	snprintf(fake.options, sizeof(fake.options), "%s", options);
	fake.loaded = true;
	return 0;
}

int kmod_module_remove_module(struct kmod_module *module, unsigned int flags)
{
	assert_ptr_equal(module, FOUND);
	fake.flags = flags;
	if (!fake.remove_err)
		fake.loaded = false;
	return fake.remove_err;
}

static char path[PATH_MAX];
static struct error error;

/* Loads with up to two parameters. */
static int load(const char *first, const char *second)
{
	char *const parameters[] = {(char *)first, (char *)second, NULL};
	int err;

	strcpy(path, "before");
	*error.text = '\0';
	err = module_load(parameters, path, &error);
	/* Nothing is left. */
	assert_int_equal(fake.contexts, 0);
	assert_int_equal(fake.modules, 0);
	assert_int_equal(fake.lists, 0);
	assert_int_equal(fake.infos, 0);
	return err;
}

static void build_tree_comes_first(void **state)
{
	struct utsname kernel;
	char wanted[PATH_MAX], *slash;
	ssize_t length = readlink("/proc/self/exe", wanted, sizeof(wanted) - 1);

	(void)state;
	assert_true(length > 0);
	wanted[length] = '\0';
	slash = strrchr(wanted, '/');
	assert_int_equal(uname(&kernel), 0);
	snprintf(slash, sizeof(wanted) - (size_t)(slash - wanted), "/kmod/%s/stackbeat.ko",
		 kernel.release);
	fake.in_build_tree = fake.in_lib_modules = true;
	assert_false(module_loaded());
	assert_int_equal(load(NULL, NULL), 0);
	assert_true(module_loaded());
	assert_string_equal(fake.wanted, wanted);
	assert_string_equal(path, wanted);
	assert_string_equal(fake.options, "");
	/* The messages of the library are not shown. */
	assert_true(fake.has_log);
	/* Once it is loaded, no path is shown. */
	assert_int_equal(load(NULL, NULL), 0);
	assert_string_equal(path, "");
	fake.loaded = false;
	assert_int_equal(module_load(NULL, path, &error), 0);
	assert_string_equal(path, wanted);
	fake.loaded = false;
	fake.path_err = -ENOENT;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	assert_non_null(strstr(error.text, wanted));
}

static void installed_module_is_found(void **state)
{
	struct utsname kernel;

	(void)state;
	assert_int_equal(uname(&kernel), 0);
	fake.in_lib_modules = true;
	assert_int_equal(load("a=1", "b=two"), 0);
	assert_string_equal(path, "/lib/modules/stackbeat.ko");
	assert_string_equal(fake.options, "a=1 b=two");
	fake.loaded = false;
	fake.in_lib_modules = false;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	assert_non_null(strstr(error.text, "there is no stackbeat.ko for kernel"));
	assert_non_null(strstr(error.text, kernel.release));
	assert_string_equal(path, "");
	fake.path_err = -EINVAL;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	/* In a container. */
	fake.hidden = fake.no_modules = true;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	assert_non_null(strstr(error.text, "there is no stackbeat.ko for kernel"));
}

/* Whatever files are there. */
static void kernel_may_take_no_modules(void **state)
{
	(void)state;
	fake.in_build_tree = fake.in_lib_modules = true;
	fake.rules.is_unsupported = true;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	assert_string_equal(error.text, "this kernel takes no modules; it has no /proc/modules");
	assert_string_equal(path, "");
	assert_false(module_loaded());
}

static void unlisted_module_has_a_remedy(void **state)
{
	struct utsname kernel;
	char text[512];

	(void)state;
	assert_int_equal(uname(&kernel), 0);
	fake.is_unlisted = true;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	snprintf(text, sizeof(text),
		 "modprobe does not find /lib/modules/%s/extra/stackbeat.ko: 'depmod %s' as root "
		 "lists it",
		 kernel.release, kernel.release);
	assert_string_equal(error.text, text);
	assert_string_equal(path, "");
	/* Listed, it is loaded. */
	fake.in_lib_modules = true;
	assert_int_equal(load(NULL, NULL), 0);
}

/* The kernel refuses it as it refuses a wrong parameter. */
static void damaged_module_has_a_remedy(void **state)
{
	static const int codes[] = {EINVAL, ENOEXEC, ENOENT, EISDIR, EKEYREJECTED};

	(void)state;
	fake.in_lib_modules = fake.is_damaged = true;
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		fake.insert_err = -codes[i];
		assert_int_equal(load(NULL, NULL), -codes[i]);
		assert_string_equal(error.text,
				    "can't load /lib/modules/stackbeat.ko: the file is empty or "
				    "damaged; 'make it' makes it again");
	}
	/* The right to load it comes first. */
	fake.insert_err = -EPERM;
	assert_int_equal(load(NULL, NULL), -EPERM);
	assert_non_null(strstr(error.text, "not permitted"));
}

/* In a service with ProtectKernelModules=, nobody knows whether there is a module. */
static void module_may_be_hidden(void **state)
{
	(void)state;
	fake.hidden = true;
	assert_int_equal(load(NULL, NULL), -ENOENT);
	assert_memory_equal(error.text, "the module is not loaded;", 25);
	assert_non_null(strstr(error.text, "'stackbeat load'"));
	assert_string_equal(path, "");
	fake.in_build_tree = true;
	assert_int_equal(load(NULL, NULL), 0);
}

static void errors_of_loading_come_with_advice(void **state)
{
	static const struct {
		int err;
		const char *text;
	} cases[] = {
		{-EKEYREJECTED, "signature"},        {-ENOKEY, "signature"},
		{-ENOEXEC, "another kernel"},        {-EINVAL, "a parameter is unknown"},
		{-ENOENT, "a parameter is unknown"}, {-EIO, "Input/output error"},
		{-EPERM, "not permitted"},
	};

	(void)state;
	fake.in_lib_modules = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.insert_err = cases[i].err;
		assert_int_equal(load(NULL, NULL), cases[i].err);
		assert_non_null(strstr(error.text, "can't load /lib/modules/stackbeat.ko: "));
		assert_non_null(strstr(error.text, cases[i].text));
	}
	assert_non_null(strstr(error.text, geteuid() ? "try sudo" : "container"));
}

static void refused_modules_have_a_remedy(void **state)
{
	(void)state;
	fake.in_lib_modules = true;
	fake.insert_err = -EKEYREJECTED;
	load(NULL, NULL);
	assert_non_null(strstr(error.text, "mokutil --import"));
	if (geteuid())
		return;
	fake.insert_err = -EPERM;
	fake.rules.lockdown = LOCKDOWN_INTEGRITY;
	load(NULL, NULL);
	assert_non_null(strstr(error.text, "locked down"));
	assert_non_null(strstr(error.text, "mokutil --import"));
	fake.rules.is_closed = true;
	load(NULL, NULL);
	assert_non_null(strstr(error.text, "modules_disabled is 1"));
	assert_non_null(strstr(error.text, "/etc/modules-load.d"));
}

static void refused_signatures_are_described(void **state)
{
	static const char *const nothing[] = {NULL}, *const none[] = {"version", "1", NULL},
				 *const anonymous[] = {"version", "1", "sig_id", "PKCS#7", NULL},
				 *const named[] = {"sig_id",  "PKCS#7", "signer", "Key of X",
						   "sig_key", "12",     NULL},
				 *const first[] = {"signer", "Key of X", "sig_id", "PKCS#7", NULL};
	static const struct {
		const char *const *info;
		const char *text;
	} cases[] = {
		{NULL, "has no signature; install stackbeat-dkms"},
		{nothing, "has no signature; install stackbeat-dkms"},
		{none, "has no signature; install stackbeat-dkms"},
		{anonymous, "does not trust the key of this signature; enroll"},
		{named, "does not trust the key of this signature (Key of X); enroll"},
		{first, "does not trust the key of this signature (Key of X); enroll"},
	};

	(void)state;
	fake.in_lib_modules = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.info = cases[i].info;
		fake.insert_err = -EKEYREJECTED;
		assert_int_equal(load(NULL, NULL), -EKEYREJECTED);
		assert_non_null(strstr(error.text, cases[i].text));
		assert_non_null(strstr(error.text, "'mokutil --import CERT.der'"));
		/* The whole message. */
		assert_non_null(strstr(error.text, "/var/lib/dkms/mok.pub)"));
		if (geteuid())
			continue;
		fake.insert_err = -EPERM;
		fake.rules.lockdown = LOCKDOWN_INTEGRITY;
		assert_int_equal(load(NULL, NULL), -EPERM);
		assert_non_null(strstr(error.text, "locked down"));
		assert_non_null(strstr(error.text, cases[i].text));
		assert_non_null(strstr(error.text, "/var/lib/dkms/mok.pub)"));
	}
}

static void parameters_of_a_loaded_module_are_compared(void **state)
{
	static const struct {
		const char *parameter;
		int err;
	} cases[] = {
		{"number=17", 0},      {"number=18", -EEXIST},
		{"number=1", -EEXIST}, {"number=", -EEXIST},
		{"on=1", 0},           {"on=y", 0},
		{"on=Y", 0},           {"on=0", -EEXIST},
		{"on=yes", -EEXIST},   {"off=0", 0},
		{"off=n", 0},          {"off=N", 0},
		{"off=1", -EEXIST},    {"off=no", -EEXIST},
		{"off=", -EEXIST},     {"missing=1", -EINVAL},
		{"number", -EINVAL},   {"empty=", 0},
		{"empty=1", -EEXIST},
	};

	(void)state;
	fake.loaded = true;
	write_text(in_sandbox("number"), "17\n");
	write_text(in_sandbox("on"), "Y\n");
	write_text(in_sandbox("off"), "N\n");
	write_text(in_sandbox("empty"), "");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(load(cases[i].parameter, NULL), cases[i].err);
		assert_int_equal(load("number=17", cases[i].parameter), cases[i].err);
		assert_int_equal(load(cases[i].parameter, "number=17"), cases[i].err);
	}
	assert_int_equal(load("number=18", NULL), -EEXIST);
	assert_non_null(strstr(error.text, "with number=17; try"));
	assert_int_equal(load("missing=18", NULL), -EINVAL);
	assert_non_null(strstr(error.text, "no parameter 'missing'"));
	assert_int_equal(load("number", NULL), -EINVAL);
	assert_non_null(strstr(error.text, "'number' is not of the form NAME=VALUE"));
	/* Another process loads the module at the same time. */
	fake.loaded = false;
	fake.in_lib_modules = fake.loads_meanwhile = true;
	assert_int_equal(load("number=17", NULL), 0);
	assert_int_equal(load("number=18", NULL), -EEXIST);
}

static void module_in_use_is_not_unloaded(void **state)
{
	static const struct {
		int err, result;
		const char *text;
	} cases[] = {
		{-EAGAIN, -EBUSY, "in use"},
		{-EBUSY, -EBUSY, "in use"},
		{-EPERM, -EPERM, "try sudo"},
		{-EIO, -EIO, "can't unload the module: Input/output error"},
	};

	(void)state;
	assert_int_equal(module_unload(&error), -ENOENT);
	assert_string_equal(error.text, "the module is not loaded");
	fake.loaded = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.remove_err = cases[i].err;
		assert_int_equal(module_unload(&error), cases[i].result);
		assert_non_null(strstr(error.text, cases[i].text));
		assert_true(module_loaded());
	}
	fake.name_err = -ENOMEM;
	assert_int_equal(module_unload(&error), -ENOMEM);
	fake.name_err = fake.remove_err = 0;
	assert_int_equal(module_unload(&error), 0);
	/* It does not wait for the end of sessions. */
	assert_int_equal(fake.flags, O_NONBLOCK);
	assert_false(module_loaded());
	assert_int_equal(fake.contexts, 0);
	assert_int_equal(fake.modules, 0);
}

static int set_up(void **state)
{
	memset(&fake, 0, sizeof(fake));
	return make_sandbox(state);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(build_tree_comes_first),
		TEST(installed_module_is_found),
		TEST(kernel_may_take_no_modules),
		TEST(unlisted_module_has_a_remedy),
		TEST(damaged_module_has_a_remedy),
		TEST(module_may_be_hidden),
		TEST(errors_of_loading_come_with_advice),
		TEST(refused_modules_have_a_remedy),
		TEST(refused_signatures_are_described),
		TEST(parameters_of_a_loaded_module_are_compared),
		TEST(module_in_use_is_not_unloaded),
	};

	return cmocka_run_group_tests_name("module", tests, NULL, NULL);
}

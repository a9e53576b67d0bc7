// SPDX-License-Identifier: GPL-2.0
#include "source/module.h"

#include <errno.h>
#include <fcntl.h>
#include <libkmod.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/module_file.h"
#include "lib/module_rules.h"

#define SYS_MODULE "/sys/module/" MODULE_NAME
#define MODULES_DIRECTORY "/lib/modules"
#define ADVICE_SIZE 448

bool module_loaded(void)
{
	return !access(SYS_MODULE "/refcnt", F_OK);
}

static void ignore_log(void *data, int priority, const char *file, int line, const char *fn,
		       const char *format, va_list args)
{
	(void)data, (void)priority, (void)file, (void)line, (void)fn, (void)format, (void)args;
}

static struct kmod_ctx *new_context(void)
{
	struct kmod_ctx *context = kmod_new(NULL, NULL);

	/* load_error() has a better message than the library. */
	if (context)
		kmod_set_log_fn(context, ignore_log, NULL);
	return context;
}

/* Finds the module in the build tree of this command: build/kmod/RELEASE. */
static bool find_in_build_tree(char path[PATH_MAX])
{
	char command[PATH_MAX];
	struct utsname kernel;
	ssize_t length = readlink("/proc/self/exe", command, sizeof(command) - 1);
	char *slash;

	if (length < 0 || uname(&kernel))
		return false;
	command[length] = '\0';
	slash = strrchr(command, '/');
	if (!slash)
		return false;
	*slash = '\0';
	if (snprintf(path, PATH_MAX, "%s/kmod/%s/%s.ko", command, kernel.release, MODULE_NAME) >=
	    PATH_MAX)
		return false;
	return !access(path, R_OK);
}

/* Whether a directory that nobody may read lies over the modules. */
static bool modules_are_hidden(void)
{
	struct stat st;

	return !stat(MODULES_DIRECTORY, &st) && !(st.st_mode & ACCESSPERMS);
}

static int module_find(struct kmod_ctx *context, struct kmod_module **module, struct error *error)
{
	struct kmod_list *list = NULL;
	struct utsname kernel = {0};
	struct module_rules rules;
	char path[PATH_MAX];
	int err;

	module_rules_read(&rules, "");
	/* No file of a module helps. `record` prints the first part of the message. */
	if (rules.is_unsupported)
		return error_set(error, ENOENT,
				 "this kernel takes no modules; it has no /proc/modules");
	if (find_in_build_tree(path)) {
		err = kmod_module_new_from_path(context, path, module);
		return err ? error_errno(error, -err, "%s", path) : 0;
	}
	err = kmod_module_new_from_lookup(context, MODULE_NAME, &list);
	if (!err && list) {
		*module = kmod_module_get_module(list);
		kmod_module_unref_list(list);
		return 0;
	}
	if (modules_are_hidden())
		return error_set(error, ENOENT,
				 "the module is not loaded; ProtectKernelModules= of systemd hides "
				 "/lib/modules from this service: 'stackbeat load', as root, says "
				 "what is missing");
	uname(&kernel);
	if (module_file_find("", kernel.release, path))
		return error_set(error, ENOENT,
				 "modprobe does not find %s: 'depmod %s' as root lists it", path,
				 kernel.release);
	return error_set(
		error, ENOENT,
		"there is no " MODULE_NAME ".ko for kernel %s, neither in the build tree "
		"nor in /lib/modules; build it with 'make module' (needs linux-headers-%s)",
		kernel.release, kernel.release);
}

/* Returns `text`: what the signature of a module that the kernel has refused lacks. */
static const char *describe_signature(const struct kmod_module *module, char text[ADVICE_SIZE])
{
	struct kmod_list *infos = NULL;
	const char *signer = NULL;

	/* libkmod without libcrypto sees a signature, and not its signer. */
	if (kmod_module_get_info(module, &infos) >= 0) {
		for (const struct kmod_list *at = infos; at; at = kmod_list_next(infos, at)) {
			const char *key = kmod_module_info_get_key(at);

			if (!strcmp(key, "signer"))
				signer = kmod_module_info_get_value(at);
			else if (!signer && !strcmp(key, "sig_id"))
				signer = "";
		}
	}
	if (signer)
		snprintf(text, ADVICE_SIZE,
			 "the kernel takes signed modules only, as with Secure Boot, and does not "
			 "trust the key of this signature%s%.64s%s; enroll the "
			 "key: " MODULE_RULES_ENROLL,
			 *signer ? " (" : "", signer, *signer ? ")" : "");
	else
		snprintf(text, ADVICE_SIZE,
			 "the kernel takes signed modules only, as with Secure Boot, and this one "
			 "has no signature; install stackbeat-dkms, as DKMS signs it, and enroll "
			 "the key: " MODULE_RULES_ENROLL);
	if (infos)
		kmod_module_info_free_list(infos);
	return text;
}

/* Why a kernel lets root load no module, and what helps; NULL: it takes signed modules only. */
static const char *explain_refused_module(void)
{
	struct module_rules rules;

	module_rules_read(&rules, "");
	if (rules.is_closed)
		return "not permitted: kernel.modules_disabled is 1 until the next boot; load the "
		       "module early in it, by /etc/modules-load.d";
	if (rules.lockdown != LOCKDOWN_NONE)
		return NULL;
	return "not permitted: this container forbids loading modules (no CAP_SYS_MODULE); load it "
	       "on the host by 'stackbeat load', or use 'record --source perf'";
}

/* Sets the message for an errno value of loading a module: the reason and advice. Returns -code. */
static int load_error(int code, const struct kmod_module *module, struct error *error)
{
	const char *path = kmod_module_get_path(module), *advice;
	char text[ADVICE_SIZE];

	/* The kernel's answer for such a file is also its answer for a wrong parameter. */
	if (code != EPERM && module_file_is_damaged("", path))
		return error_set(error, code,
				 "can't load %s: the file is empty or damaged; '%s' makes it "
				 "again",
				 path, module_file_remedy(path));
	switch (code) {
	case EPERM:
		advice = geteuid() ? "not permitted: loading a module needs root; try sudo"
				   : explain_refused_module();
		if (!advice)
			return error_set(error, code,
					 "can't load %s: not permitted: the kernel is locked down "
					 "(/sys/kernel/security/lockdown): %s",
					 path, describe_signature(module, text));
		break;
	case EKEYREJECTED:
	case ENOKEY:
		advice = describe_signature(module, text);
		break;
	case ENOEXEC:
		advice = "it was built for another kernel; rebuild it with 'make module' (see "
			 "dmesg)";
		break;
	case EINVAL:
	case ENOENT:
		advice = "a parameter is unknown or its value is out of range, or the kernel lacks "
			 "a symbol (see dmesg; 'modinfo stackbeat' lists the parameters)";
		break;
	default:
		return error_errno(error, code, "can't load %s", path);
	}
	return error_set(error, code, "can't load %s: %s", path, advice);
}

/* The kernel shows booleans as Y and N; it accepts 1, y, Y, 0, n and N. */
static bool values_equal(const char *loaded, const char *wanted)
{
	if (!strcmp(loaded, "Y") && strlen(wanted) == 1)
		return strchr("1yY", *wanted);
	if (!strcmp(loaded, "N") && strlen(wanted) == 1)
		return strchr("0nN", *wanted);
	return !strcmp(loaded, wanted);
}

/* Returns 0 if the parameter of the loaded module has the value of `parameter` (NAME=VALUE). */
static int check_parameter(const char *parameter, struct error *error)
{
	const char *equals = strchr(parameter, '=');
	char path[PATH_MAX], value[256];
	FILE *stream;

	if (!equals)
		return error_set(error, EINVAL, "'%s' is not of the form NAME=VALUE", parameter);
	snprintf(path, sizeof(path), SYS_MODULE "/parameters/%.*s", (int)(equals - parameter),
		 parameter);
	stream = fopen(path, "re");
	if (!stream)
		return error_set(error, EINVAL, "the module has no parameter '%.*s'",
				 (int)(equals - parameter), parameter);
	if (!fgets(value, sizeof(value), stream))
		*value = '\0';
	fclose(stream);
	value[strcspn(value, "\n")] = '\0';
	if (!values_equal(value, equals + 1))
		return error_set(
			error, EEXIST,
			"the module is already loaded, with %.*s=%s; try 'stackbeat unload' "
			"first",
			(int)(equals - parameter), parameter, value);
	return 0;
}

static char *join_parameters(char *const *parameters)
{
	size_t size = 1;
	char *joined, *end;

	for (char *const *at = parameters; *at; at++)
		size += strlen(*at) + 1;
	joined = malloc(size);
	if (!joined)
		return NULL;
	end = joined;
	*end = '\0';
	for (char *const *at = parameters; *at; at++)
		end += sprintf(end, "%s%s", at == parameters ? "" : " ", *at);
	return joined;
}

static int check_parameters(char *const *parameters, struct error *error)
{
	int err = 0;

	for (; *parameters && !err; parameters++)
		err = check_parameter(*parameters, error);
	return err;
}

int module_load(char *const *parameters, char path[PATH_MAX], struct error *error)
{
	char *const none[] = {NULL};
	struct kmod_ctx *context = NULL;
	struct kmod_module *module = NULL;
	char *options = NULL;
	int err;

	*path = '\0';
	if (!parameters)
		parameters = none;
	if (module_loaded())
		return check_parameters(parameters, error);

	context = new_context();
	options = join_parameters(parameters);
	if (!context || !options) {
		err = error_errno(error, ENOMEM, "can't load the module");
		goto out;
	}
	err = module_find(context, &module, error);
	if (err)
		goto out;
	snprintf(path, PATH_MAX, "%s", kmod_module_get_path(module));
	err = kmod_module_insert_module(module, 0, options);
	/* Another process has loaded it in the meantime. */
	if (err == -EEXIST)
		err = check_parameters(parameters, error);
	else if (err)
		err = load_error(-err, module, error);
	/* It names a file that was loaded. */
	if (err)
		*path = '\0';
out:
	kmod_module_unref(module);
	kmod_unref(context);
	free(options);
	return err;
}

int module_unload(struct error *error)
{
	struct kmod_ctx *context;
	struct kmod_module *module = NULL;
	int err;

	if (!module_loaded())
		return error_set(error, ENOENT, "the module is not loaded");
	context = new_context();
	err = context ? kmod_module_new_from_name(context, MODULE_NAME, &module) : -ENOMEM;
	if (!err)
		err = kmod_module_remove_module(module, O_NONBLOCK);
	kmod_module_unref(module);
	kmod_unref(context);
	switch (-err) {
	case 0:
		return 0;
	case EAGAIN:
	case EBUSY:
		return error_set(error, EBUSY,
				 "the module is in use: a session is open; see 'stackbeat status'");
	case EPERM:
		return error_set(error, EPERM,
				 "not permitted: unloading a module needs root; try sudo");
	default:
		return error_errno(error, -err, "can't unload the module");
	}
}

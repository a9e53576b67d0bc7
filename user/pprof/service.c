// SPDX-License-Identifier: GPL-2.0
#include "pprof/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "pprof/labels.h"
#include "pprof/profile.h"

#define UID_DIGITS_MAX 10
#define USER_SERVICE_SIZE 32

/* The first function of a kernel thread, and of an idle task. */
static const char *const kernel_roots[] = {"ret_from_fork", "secondary_startup_64"};

static bool is_kernel_root(const char *name)
{
	for (size_t i = 0; i < sizeof(kernel_roots) / sizeof(kernel_roots[0]); i++) {
		if (!strncmp(name, kernel_roots[i], strlen(kernel_roots[i])))
			return true;
	}
	return false;
}

static bool is_of_kernel_thread(const struct profile *profile, uint32_t stack)
{
	const struct profile_sequence *sequence = &profile->stacks.items[stack];
	const struct profile_location *root;
	const struct profile_line *line;

	if (!sequence->count)
		return false;
	root = &profile->locations
			.items[profile_stack_locations(profile, stack)[sequence->count - 1]];
	if (!root->line_count)
		return false;
	line = &profile_lines(profile, root)[root->line_count - 1];
	return is_kernel_root(profile_text(profile, profile->functions.items[line->function].name));
}

const char *service_of(const struct profile *profile, size_t sample)
{
	const struct profile_sample *found = &profile->samples.items[sample];
	const uint32_t *labels = profile_set_labels(profile, found->label_set);
	const char *comm = NULL;

	for (uint32_t i = 0; i < profile->label_sets.items[found->label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];
		enum label kind = label_of_key(profile_text(profile, label->key));

		if (kind == LABEL_CONTAINER && label->text)
			return profile_text(profile, label->text);
		if (kind == LABEL_COMM && label->text)
			comm = profile_text(profile, label->text);
	}
	if (is_of_kernel_thread(profile, found->stack))
		return SERVICE_KERNEL;
	return comm ? comm : SERVICE_UNKNOWN;
}

static struct service *services_find(struct services *services, const char *name)
{
	uint32_t index;

	if (array_reserve(&services->items, &services->capacity, services->count, 1,
			  sizeof(*services->items)))
		return NULL;
	index = string_table_add(&services->names, name, strlen(name));
	if (index == STRING_NONE)
		return NULL;
	if (index == services->count)
		services->items[services->count++] =
			(struct service){.name = services->names.items[index]};
	return &services->items[index];
}

/* A sum that would overflow stays at the maximum: the files may be damaged. */
static void services_add_saturated(int64_t *sum, int64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = INT64_MAX;
}

int services_add_sum(struct services *services, const char *name, int64_t samples, int64_t cpu_ns)
{
	struct service *service = services_find(services, name);

	if (!service)
		return -ENOMEM;
	services_add_saturated(&service->samples, samples);
	services_add_saturated(&service->cpu_ns, cpu_ns);
	return 0;
}

int services_add(struct services *services, const struct profile *profile)
{
	int err = 0;

	if (profile->types.count != PROFILE_RECORDED_TYPES)
		return 0;
	for (size_t i = 0; i < profile->samples.count && !err; i++) {
		const int64_t *values = profile_values(profile, i);

		err = services_add_sum(services, service_of(profile, i), values[PROFILE_SAMPLES],
				       values[PROFILE_CPU]);
	}
	return err;
}

static int services_compare(const void *left, const void *right)
{
	const struct service *a = left, *b = right;

	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

void services_sort(struct services *services)
{
	if (services->count)
		qsort(services->items, services->count, sizeof(*services->items), services_compare);
}

/*
 * Returns the service of the user whose control groups a service is from, in `user`; or "" if it is
 * no such service.
 */
static const char *user_service(const char *name, char user[USER_SERVICE_SIZE])
{
	static const char prefix[] = "user-";
	const char *uid = name + strlen(prefix);
	size_t digits;

	*user = '\0';
	if (strncmp(name, prefix, strlen(prefix)))
		return user;
	digits = strspn(uid, "0123456789");
	if (digits && digits <= UID_DIGITS_MAX && uid[digits] == '/')
		snprintf(user, USER_SERVICE_SIZE, "user@%.*s.service", (int)digits, uid);
	return user;
}

/* Returns the number of a string of the division, or STRING_NONE without memory. */
static uint32_t services_add_name(struct service_division *division, const char *name)
{
	return string_table_add(&division->strings, name, strlen(name));
}

/* Counts the services of each user, by the numbers of their strings. Returns 0 or -ENOMEM. */
static int count_user_services(struct service_division *division, const struct services *all,
			       size_t *counts)
{
	char user[USER_SERVICE_SIZE];

	for (size_t i = 0; i < all->count; i++) {
		uint32_t number =
			services_add_name(division, user_service(all->items[i].name, user));

		if (number == STRING_NONE)
			return -ENOMEM;
		counts[number]++;
	}
	return 0;
}

/* Sets the name of each service in the division to itself, or to its user. */
static int join_users(struct service_division *division, const struct services *all,
		      const size_t *counts, uint32_t *joined)
{
	char user[USER_SERVICE_SIZE];
	int err = 0;

	for (size_t i = 0; i < all->count && !err; i++) {
		const struct service *service = &all->items[i];
		uint32_t number =
			string_table_find(&division->strings, user_service(service->name, user));

		if (!*user || counts[number] <= USER_SERVICES_MAX)
			number = services_add_name(division, service->name);
		if (number == STRING_NONE)
			return -ENOMEM;
		joined[i] = number;
		err = services_add_sum(&division->services, division->strings.items[number],
				       service->samples, service->cpu_ns);
	}
	return err;
}

/* Makes the smallest services beyond `max` one. */
static void join_smallest(struct service_division *division, size_t max)
{
	struct services *services = &division->services;
	struct service others = {.name = SERVICE_OTHERS};
	size_t kept = 0;

	services_sort(services);
	if (services->count <= max)
		return;
	for (size_t i = 0; i < services->count; i++) {
		const struct service service = services->items[i];

		/* A program may have this name. */
		if (kept < max - 1 && strcmp(service.name, SERVICE_OTHERS) != 0) {
			services->items[kept++] = service;
			continue;
		}
		services_add_saturated(&others.samples, service.samples);
		services_add_saturated(&others.cpu_ns, service.cpu_ns);
	}
	services->items[kept] = others;
	services->count = kept + 1;
}

/* Sets the names of the samples. Returns 0 or -ENOMEM. */
static int name_samples(struct service_division *division, const struct services *all,
			const uint32_t *joined, const struct profile *profile)
{
	struct string_table kept = {0};
	int err = 0;

	division->names = calloc(profile->samples.count + 1, sizeof(*division->names));
	if (!division->names)
		return -ENOMEM;
	for (size_t i = 0; i < division->services.count && !err; i++) {
		const char *name = division->services.items[i].name;

		if (string_table_add(&kept, name, strlen(name)) == STRING_NONE)
			err = -ENOMEM;
	}
	for (size_t i = 0; i < profile->samples.count && !err; i++) {
		/* The services are not sorted: each has the number of its name. */
		uint32_t service = string_table_find(&all->names, service_of(profile, i));
		const char *name = division->strings.items[joined[service]];

		division->names[i] =
			string_table_find(&kept, name) == STRING_NONE ? SERVICE_OTHERS : name;
	}
	string_table_clear(&kept);
	return err;
}

int service_division_make(struct service_division *division, const struct profile *profile,
			  size_t max)
{
	struct services all = {0};
	size_t *counts = NULL;
	uint32_t *joined = NULL;
	int err;

	*division = (struct service_division){0};
	err = services_add(&all, profile);
	if (!err && all.count) {
		counts = calloc(all.count, sizeof(*counts));
		joined = calloc(all.count, sizeof(*joined));
		err = counts && joined ? 0 : -ENOMEM;
		err = err ?: count_user_services(division, &all, counts);
		err = err ?: join_users(division, &all, counts, joined);
		if (!err)
			join_smallest(division, max);
		err = err ?: name_samples(division, &all, joined, profile);
		division->merged = all.count - division->services.count;
	}
	free(counts);
	free(joined);
	services_clear(&all);
	return err;
}

void service_division_clear(struct service_division *division)
{
	free(division->names);
	services_clear(&division->services);
	string_table_clear(&division->strings);
	*division = (struct service_division){0};
}

void services_clear(struct services *services)
{
	free(services->items);
	string_table_clear(&services->names);
	*services = (struct services){0};
}

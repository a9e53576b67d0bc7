// SPDX-License-Identifier: GPL-2.0
#include "pprof/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "pprof/labels.h"
#include "pprof/profile.h"

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

static struct service *find_service(struct services *services, const char *name)
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
static void add_to(int64_t *sum, int64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = INT64_MAX;
}

int services_add_sum(struct services *services, const char *name, int64_t samples, int64_t cpu_ns)
{
	struct service *service = find_service(services, name);

	if (!service)
		return -ENOMEM;
	add_to(&service->samples, samples);
	add_to(&service->cpu_ns, cpu_ns);
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

static int compare_services(const void *left, const void *right)
{
	const struct service *a = left, *b = right;

	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

void services_sort(struct services *services)
{
	if (services->count)
		qsort(services->items, services->count, sizeof(*services->items), compare_services);
}

void services_clear(struct services *services)
{
	free(services->items);
	string_table_clear(&services->names);
	*services = (struct services){0};
}

// SPDX-License-Identifier: GPL-2.0
/* Services, and the selection of samples and labels. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pprof/labels.h"
#include "pprof/profile.h"
#include "pprof/profile_select.h"
#include "pprof/service.h"
#include "sample_profile.h"

#define CONTAINER "0123456789abcdef"

/* A program in a container, one outside of it, and a thread of the kernel. */
static struct profile *make_profile(void)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0x400000, 0x500000, 0, "/usr/bin/app", "aabb");
	uint32_t main = example_location(profile, app, 0x400100, NULL, "main");
	uint32_t thread = example_location(profile, app, 0x400200, NULL, "ret_from_fork_asm");
	const uint32_t inside[] = {
		example_label(profile, "comm", "app"),
		example_number(profile, "pid", 5, "id"),
		example_label(profile, "cgroup", "/docker/a"),
		example_label(profile, "container", CONTAINER),
	};
	const uint32_t outside[] = {
		example_label(profile, "comm", "app"),
		example_number(profile, "pid", 6, "id"),
		example_label(profile, "cgroup", "/dockers"),
	};
	const uint32_t kernel[] = {example_label(profile, "comm", "kworker/0:1")};
	const uint32_t other[] = {example_label(profile, "site", "x")};

	example_add(profile, &main, 1, 1, 10, inside, 4);
	example_add(profile, &main, 1, 2, 20, outside, 3);
	example_add(profile, (uint32_t[]){main, thread}, 2, 4, 40, kernel, 1);
	example_add(profile, &main, 1, 8, 80, other, 1);
	return profile;
}

static void services_are_containers_or_programs(void **state)
{
	struct profile *profile = make_profile();
	struct services services = {0};

	(void)state;
	assert_string_equal(service_of(profile, 0), CONTAINER);
	assert_string_equal(service_of(profile, 1), "app");
	assert_string_equal(service_of(profile, 2), SERVICE_KERNEL);
	assert_string_equal(service_of(profile, 3), SERVICE_UNKNOWN);
	assert_int_equal(services_add(&services, profile), 0);
	assert_int_equal(services_add(&services, profile), 0);
	services_sort(&services);
	assert_int_equal(services.count, 4);
	assert_string_equal(services.items[0].name, SERVICE_UNKNOWN);
	assert_int_equal(services.items[0].cpu_ns, 160);
	assert_string_equal(services.items[3].name, CONTAINER);
	assert_int_equal(services.items[3].samples, 2);
	services_clear(&services);
	profile_free(profile);
}

static void add_service(struct profile *profile, const char *name, int64_t samples)
{
	uint32_t location = example_location(profile, 0, 0x10, NULL, "f");
	const uint32_t label = example_label(profile, "container", name);

	example_add(profile, &location, 1, samples, samples, &label, 1);
}

static void add_services(struct profile *profile, const char *format, unsigned int count,
			 int64_t samples)
{
	char name[64];

	for (unsigned int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%.40s%u", format, i);
		add_service(profile, name, samples + i);
	}
}

/* Expects a service, whose samples have its name. */
static void expect_service(const struct service_division *division, const struct profile *profile,
			   const char *name, int64_t samples)
{
	int64_t named = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		if (!strcmp(division->names[i], name))
			named += profile_values(profile, i)[PROFILE_SAMPLES];
	}
	assert_int_equal(named, samples);
	for (size_t i = 0; i < division->services.count; i++) {
		if (strcmp(division->services.items[i].name, name) != 0)
			continue;
		assert_int_equal(division->services.items[i].samples, samples);
		assert_int_equal(division->services.items[i].cpu_ns, samples);
		return;
	}
	fail_msg("there is no %s", name);
}

static void users_have_few_services(void **state)
{
	struct profile *profile = empty_profile();
	struct service_division division;

	(void)state;
	/* Of two users, one has too many. */
	add_services(profile, "user-1000/", USER_SERVICES_MAX, 1);
	add_services(profile, "user-2/", USER_SERVICES_MAX + 1, 1);
	add_service(profile, "user@2.service", 1000);
	add_service(profile, "user-3", 7);
	add_service(profile, "user-12345678901/x", 8);
	add_services(profile, "web.service", 30, 1);
	assert_int_equal(service_division_make(&division, profile, 100), 0);
	assert_int_equal(division.services.count, USER_SERVICES_MAX + 1 + 2 + 30);
	assert_int_equal(division.merged, USER_SERVICES_MAX + 1);
	expect_service(&division, profile, "user-1000/3", 4);
	expect_service(&division, profile, "user@2.service",
		       1000 + (USER_SERVICES_MAX + 1) * (USER_SERVICES_MAX + 2) / 2);
	expect_service(&division, profile, "user-3", 7);
	expect_service(&division, profile, "user-12345678901/x", 8);
	expect_service(&division, profile, "web.service9", 10);
	assert_string_equal(division.services.items[0].name, "user@2.service");
	service_division_clear(&division);
	profile_free(profile);
}

static void smallest_services_are_one(void **state)
{
	struct profile *profile = empty_profile();
	struct service_division division;

	(void)state;
	add_services(profile, "s", 10, 1);
	assert_int_equal(service_division_make(&division, profile, 10), 0);
	assert_int_equal(division.services.count, 10);
	assert_int_equal(division.merged, 0);
	service_division_clear(&division);
	add_service(profile, SERVICE_OTHERS, 100);
	assert_int_equal(service_division_make(&division, profile, 4), 0);
	assert_int_equal(division.services.count, 4);
	assert_int_equal(division.merged, 7);
	expect_service(&division, profile, "s9", 10);
	expect_service(&division, profile, "s7", 8);
	expect_service(&division, profile, SERVICE_OTHERS, 100 + 7 * 8 / 2);
	assert_string_equal(division.services.items[3].name, SERVICE_OTHERS);
	service_division_clear(&division);
	profile_free(profile);
	/* Of nothing. */
	profile = empty_profile();
	assert_int_equal(service_division_make(&division, profile, 2), 0);
	assert_int_equal(division.services.count, 0);
	service_division_clear(&division);
	profile_free(profile);
}

static int64_t selected(const struct profile_selection *selection)
{
	struct profile *profile = make_profile(), *into = profile_new();
	int64_t sum = 0;

	assert_int_equal(profile_select(into, profile, selection), 0);
	for (size_t i = 0; i < into->samples.count; i++)
		sum += profile_values(into, i)[PROFILE_SAMPLES];
	profile_free(profile);
	profile_free(into);
	return sum;
}

static void selections_are_exact(void **state)
{
	(void)state;
	assert_int_equal(selected(&(struct profile_selection){0}), 15);
	assert_int_equal(selected(&(struct profile_selection){.service = "app"}), 2);
	assert_int_equal(selected(&(struct profile_selection){.service = SERVICE_KERNEL}), 4);
	assert_int_equal(selected(&(struct profile_selection){.container = CONTAINER}), 1);
	assert_int_equal(selected(&(struct profile_selection){.container = "app"}), 0);
	assert_int_equal(selected(&(struct profile_selection){.cgroup = "/docker"}), 1);
	assert_int_equal(selected(&(struct profile_selection){.cgroup = "/docker/a/"}), 1);
	assert_int_equal(selected(&(struct profile_selection){.cgroup = "/"}), 3);
	assert_int_equal(selected(&(struct profile_selection){.pid = 6}), 2);
	assert_int_equal(selected(&(struct profile_selection){.pid = 5, .cgroup = "/dockers"}), 0);
	assert_int_equal(selected(&(struct profile_selection){.pid = 6, .cgroup = "/dockers"}), 2);
}

static void labels_and_symbols_can_be_dropped(void **state)
{
	struct profile_selection selection = {
		.labels = LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_GO_LABELS),
		.without_symbols = true,
	};
	struct profile *profile = make_profile(), *into = profile_new();

	(void)state;
	assert_int_equal(profile_select(into, profile, &selection), 0);
	/* Both programs are one sample then; a label that is not stackbeat's is of a program. */
	assert_int_equal(into->samples.count, 3);
	assert_int_equal(profile_values(into, 0)[PROFILE_SAMPLES], 3);
	for (size_t i = 1; i < into->labels.count; i++) {
		const char *key = profile_text(into, into->labels.items[i].key);

		assert_true(!strcmp(key, "comm") || !strcmp(key, "site"));
	}
	assert_int_equal(into->functions.count, 1);
	assert_int_equal(into->mappings.count, 2);
	assert_string_equal(profile_text(into, into->mappings.items[1].build_id), "aabb");
	profile_free(into);
	into = profile_new();
	selection.labels = LABEL_SET(LABEL_COMM);
	assert_int_equal(profile_select(into, profile, &selection), 0);
	for (size_t i = 1; i < into->labels.count; i++)
		assert_string_equal(profile_text(into, into->labels.items[i].key), "comm");
	profile_free(profile);
	profile_free(into);
}

static const char *label_text(const struct profile *profile, uint32_t sample, size_t label)
{
	uint32_t set = profile->samples.items[sample].label_set;
	const struct profile_label *found =
		&profile->labels.items[profile_set_labels(profile, set)[label]];

	return profile_text(profile, found->text);
}

static void all_chosen_labels_of_a_sample_stay(void **state)
{
	const struct profile_selection selection = {
		.labels = LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_CGROUP),
		.container = CONTAINER,
	};
	struct profile *profile = make_profile(), *into = profile_new();

	(void)state;
	assert_int_equal(profile_select(into, profile, &selection), 0);
	assert_int_equal(into->samples.count, 1);
	assert_int_equal(into->label_sets.items[into->samples.items[0].label_set].count, 2);
	assert_string_equal(label_text(into, 0, 0), "app");
	assert_string_equal(label_text(into, 0, 1), "/docker/a");
	profile_free(profile);
	profile_free(into);
}

static void other_types_are_refused(void **state)
{
	struct profile *profile = make_profile(), *into = profile_new();

	(void)state;
	profile_add_type(into, "alloc", "bytes");
	assert_int_equal(profile_select(into, profile, &(struct profile_selection){0}), -EINVAL);
	assert_int_equal(into->samples.count, 0);
	profile_free(profile);
	profile_free(into);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services_are_containers_or_programs),
		cmocka_unit_test(users_have_few_services),
		cmocka_unit_test(smallest_services_are_one),
		cmocka_unit_test(selections_are_exact),
		cmocka_unit_test(labels_and_symbols_can_be_dropped),
		cmocka_unit_test(all_chosen_labels_of_a_sample_stay),
		cmocka_unit_test(other_types_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

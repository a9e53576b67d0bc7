// SPDX-License-Identifier: GPL-2.0
#include "serve/answer.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/labels.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/profile_select.h"
#include "pprof/service.h"
#include "report/flamegraph.h"
#include "report/folded.h"
#include "report/speedscope.h"
#include "serve/annotation_server.h"
#include "serve/request.h"
#include "serve/sum.h"
#include "serve/timeline.h"
#include "store/merge.h"

/* Bounds the merges after one window; the rest follows after the next one. */
#define MERGES_MAX 16u

/* The largest services are targets: users can make any number of them. */
#define TARGETS_MAX 256u

/* Services of a timeline; the others are one. */
#define TIMELINE_SERVICES_MAX 30u

/* Takes the stream's errors into account. Closes `out`. */
static int end_stream(FILE *out, struct error *error)
{
	int failed = fflush(out) || ferror(out), code = errno;

	fclose(out);
	return failed ? error_errno(error, code, "can't write the answer") : 0;
}

static FILE *open_stream(int file, struct error *error)
{
	int copy = dup(file);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");

	if (!out) {
		error_errno(error, errno, "can't write the answer");
		if (copy >= 0)
			close(copy);
	}
	return out;
}

static int print_flamegraph(const struct sum *sum, const struct sum *base,
			    const struct request *request, FILE *out, struct error *error)
{
	const char *service = request->selection.service;
	struct flamegraph_options options = {
		.group = request->group,
		.base = base ? base->profile : NULL,
	};
	char title[256];

	if (base && request->base_service != service)
		snprintf(title, sizeof(title), "%s, compared with %s",
			 service ? service : "all services", request->base_service);
	else
		snprintf(title, sizeof(title), "%s", service ? service : "all services");
	options.title = title;
	return flamegraph_write(sum->profile, &options, out, NULL, error);
}

/* `base`: NULL: none. */
static int write_sum(struct sum *sum, struct sum *base, const struct request *request, int file,
		     struct error *error)
{
	int err = sum_finish(sum);
	size_t type;
	FILE *out;

	if (!err && base)
		err = sum_finish(base);
	if (err)
		return error_errno(error, -err, "can't merge profiles");
	if (request->format == REQUEST_PPROF)
		return pprof_write_fd(sum->profile, file, "the answer", error);
	err = profile_find_type(sum->profile, NULL, &type, error);
	if (err)
		return err;
	out = open_stream(file, error);
	if (!out)
		return -errno;
	if (request->format == REQUEST_FLAMEGRAPH) {
		err = print_flamegraph(sum, base, request, out, error);
	} else if (request->format == REQUEST_FOLDED) {
		err = print_folded(sum->profile, type, out, error);
	} else {
		err = print_speedscope(sum->profile, type, out);
		if (err)
			error_errno(error, -err, "can't write the answer");
	}
	if (err) {
		fclose(out);
		return err;
	}
	return end_stream(out, error);
}

/* Slices */

static int answer_add_file(struct sum *sum, int file, struct error *error)
{
	struct profile *profile;
	struct stat status;
	void *bytes;
	int err;

	if (fstat(file, &status))
		return error_errno(error, errno, "can't read a slice");
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (bytes == MAP_FAILED)
		return error_errno(error, errno, "can't read a slice");
	profile = pprof_decode(bytes, (size_t)status.st_size, "a slice", error);
	munmap(bytes, (size_t)status.st_size);
	if (!profile)
		return -EBADMSG;
	err = sum_add(sum, profile);
	profile_free(profile);
	return err ? error_errno(error, -err, "can't merge slices") : 0;
}

static int add_slices(struct sum *sum, const struct slice_file *slices, size_t count,
		      struct error *error)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		sum_add_time(sum, slices[i].start_ns, slices[i].duration_ns);
		if (slices[i].file >= 0)
			err = answer_add_file(sum, slices[i].file, error);
	}
	return err;
}

int answer_slices(const struct slice_file *slices, size_t count, const struct request *request,
		  int out, struct error *error)
{
	struct sum sum;
	int err = sum_init(&sum, &request->selection);

	if (err)
		error_errno(error, -err, "can't merge slices");
	if (!err)
		err = add_slices(&sum, slices, count, error);
	if (!err)
		err = write_sum(&sum, NULL, request, out, error);
	profile_free(sum.profile);
	return err;
}

static int store_sum(struct store *store, const struct store_config *config,
		     const struct slice_file *slices, size_t count, bool again, struct error *error)
{
	const struct profile_selection selection = {.labels = config->labels};
	struct sum sum;
	int err = sum_init(&sum, &selection);

	if (err)
		return error_errno(error, -err, "can't merge slices");
	err = add_slices(&sum, slices, count, error);
	if (!err)
		err = sum_finish(&sum);
	if (!err && sum.profile->samples.count)
		err = (again ? store_add_again : store_add)(store, sum.profile, config->window_s,
							    error);
	profile_free(sum.profile);
	return err;
}

/* What was done counts also if the job is killed later, and so does the merge that it is in. */
static void note_result(const struct store *store, void *arg)
{
	struct store_result *result = arg;

	result->windows = store->count;
	result->window_bytes = store->bytes;
	result->newest_us = store->count ? window_end(&store->windows[store->count - 1].name) : 0;
	result->damaged = store->damaged;
	result->counts = store->counts;
}

int store_slices(const struct store_config *config, const struct slice_file *slices, size_t count,
		 bool again, struct store_result *result, struct error *error)
{
	const bool is_window = count == 1 && slices->is_window && slices->file >= 0;
	const struct store_damaged none = {0};
	struct store store;
	int err = store_open_knowing(&store, config->path, &config->limits,
				     config->damaged ? config->damaged : &none, error);

	if (!err && is_window)
		err = store_add_file(&store, slices->file, slices->start_ns, config->window_s,
				     again, error);
	else if (!err)
		err = store_sum(&store, config, slices, count, again, error);
	note_result(&store, result);
	store_leave_last(&store);
	store_note_merges(&store, note_result, result);
	for (unsigned int i = 0; i < MERGES_MAX && err >= 0; i++) {
		err = store_maintain(&store, now_ns(CLOCK_REALTIME) / 1000, error);
		note_result(&store, result);
		if (!err)
			break;
	}
	store_close(&store);
	return MIN(err, 0);
}

/* The store */

static int answer_add_window(const struct profile *profile, const struct window_name *name,
			     void *arg)
{
	struct sum *sum = arg;
	int err = sum_add(sum, profile);

	(void)name;
	/* Profiles of other programs are not added. */
	if (err == -EINVAL)
		return 0;
	if (!err)
		sum_add_time(sum, profile->time_ns, profile->duration_ns);
	return err;
}

/* Initializes `sum`; its profile is to be freed in any case. */
static int sum_range(struct sum *sum, const char *store, int64_t from_us, int64_t until_us,
		     const struct profile_selection *selection, struct error *error)
{
	struct store_query query;
	int err = sum_init(sum, selection);

	if (err)
		return error_errno(error, -err, "can't merge windows");
	err = store_query(store, from_us, until_us, selection->service, answer_add_window, sum,
			  &query, error);
	if (!err && query.unreadable)
		profile_comment(sum->profile, "windows that could not be read: %zu",
				query.unreadable);
	return err;
}

int answer_range(const char *store, const struct request *request, int out, struct error *error)
{
	struct profile_selection selection = request->selection;
	struct sum sum, base = {.profile = NULL};
	int err = sum_range(&sum, store, request->from_us, request->until_us, &request->selection,
			    error);

	selection.service = request->base_service;
	if (!err && request->has_base)
		err = sum_range(&base, store, request->base_from_us, request->base_until_us,
				&selection, error);
	if (!err)
		err = write_sum(&sum, request->has_base ? &base : NULL, request, out, error);
	profile_free(sum.profile);
	profile_free(base.profile);
	return err;
}

int answer_annotation(const char *store, const struct request *request,
		      const struct annotation_server *server, int out, struct error *error)
{
	const struct annotation_request wanted = {request->function, request->file};
	struct sum sum;
	int err = sum_range(&sum, store, request->from_us, request->until_us, &request->selection,
			    error);

	if (!err && sum_finish(&sum))
		err = error_errno(error, ENOMEM, "can't merge profiles");
	if (!err)
		err = annotation_server_answer(server, sum.profile, &wanted, out, error);
	profile_free(sum.profile);
	return err;
}

static int write_json(struct json_object *object, int file, struct error *error)
{
	FILE *out = open_stream(file, error);

	if (!out)
		return -errno;
	utf8_print_json(out, json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	fputc('\n', out);
	return end_stream(out, error);
}

static void answer_add_number(struct json_object *object, const char *key, int64_t number)
{
	json_object_object_add(object, key, json_object_new_int64(number));
}

static void add_seconds(struct json_object *object, const char *key, int64_t us)
{
	json_object_object_add(object, key, json_object_new_double((double)us / US_PER_SECOND));
}

int answer_windows(const char *path, const struct request *request, int out, struct error *error)
{
	struct json_object *array = json_object_new_array();
	struct store store;
	int err = store_list(&store, path, error);

	for (size_t i = 0; i < store.count && !err; i++) {
		const struct store_window *window = &store.windows[i];
		struct json_object *object;

		if (window->name.start_us >= request->until_us ||
		    window_end(&window->name) <= request->from_us)
			continue;
		object = json_object_new_object();
		add_seconds(object, "from", window->name.start_us);
		add_seconds(object, "until", window_end(&window->name));
		answer_add_number(object, "bytes", (int64_t)window->size);
		json_object_array_add(array, object);
	}
	store_close(&store);
	if (!err)
		err = write_json(array, out, error);
	json_object_put(array);
	return err;
}

static int add_to_timeline(const struct services *services, int64_t start_us, int64_t end_us,
			   void *arg)
{
	return timeline_add(arg, services, start_us, end_us);
}

static struct json_object *timeline_object(const struct timeline *timeline,
					   const struct timeline_service *service)
{
	struct json_object *object = json_object_new_object();
	struct json_object *array = json_object_new_array();

	if (service->name)
		json_object_object_add(object, "service", json_object_new_string(service->name));
	else
		answer_add_number(object, "others", (int64_t)timeline->others);
	answer_add_number(object, "cpu_ns", service->sum_ns);
	for (size_t step = 0; step < timeline->steps; step++)
		json_object_array_add(array, json_object_new_int64(service->cpu_ns[step]));
	json_object_object_add(object, "steps", array);
	return object;
}

int answer_timeline(const char *store, const struct request *request, int out, struct error *error)
{
	struct json_object *object = json_object_new_object();
	struct json_object *array = json_object_new_array();
	struct store_query query;
	struct timeline timeline;
	int err;

	timeline_init(&timeline, request->from_us, request->until_us, request->steps);
	err = store_query_sums(store, request->from_us, request->until_us, add_to_timeline,
			       &timeline, &query, error);
	if (!err && timeline_finish(&timeline, TIMELINE_SERVICES_MAX))
		err = error_errno(error, ENOMEM, "can't sum windows up");
	for (size_t i = 0; i < timeline.count && !err; i++)
		json_object_array_add(array, timeline_object(&timeline, &timeline.items[i]));
	add_seconds(object, "from", request->from_us);
	add_seconds(object, "until", request->until_us);
	answer_add_number(object, "windows", (int64_t)query.windows);
	answer_add_number(object, "unreadable", (int64_t)query.unreadable);
	json_object_object_add(object, "services", array);
	if (!err)
		err = write_json(object, out, error);
	json_object_put(object);
	timeline_clear(&timeline);
	return err;
}

static int query_services(const char *store, const struct request *request,
			  struct services *services, struct error *error)
{
	struct store_query query;
	int err = store_query_services(store, request->from_us, request->until_us, services, &query,
				       error);

	services_sort(services);
	return err;
}

int answer_services(const char *store, const struct request *request, int out, struct error *error)
{
	struct services services = {0};
	struct json_object *array = json_object_new_array();
	int err = query_services(store, request, &services, error);

	for (size_t i = 0; i < services.count && !err; i++) {
		struct json_object *object = json_object_new_object();

		json_object_object_add(object, "service",
				       json_object_new_string(services.items[i].name));
		answer_add_number(object, "samples", services.items[i].samples);
		answer_add_number(object, "cpu_ns", services.items[i].cpu_ns);
		json_object_array_add(array, object);
	}
	if (!err)
		err = write_json(array, out, error);
	json_object_put(array);
	services_clear(&services);
	return err;
}

int answer_targets(const char *store, const struct request *request, const char *host, int out,
		   struct error *error)
{
	struct services services = {0};
	struct json_object *array = json_object_new_array();
	int err = query_services(store, request, &services, error);

	for (size_t i = 0; i < MIN(services.count, TARGETS_MAX) && !err; i++) {
		struct json_object *object = json_object_new_object();
		struct json_object *targets = json_object_new_array();
		struct json_object *labels = json_object_new_object();

		json_object_array_add(targets, json_object_new_string(host));
		json_object_object_add(labels, "service_name",
				       json_object_new_string(services.items[i].name));
		json_object_object_add(labels, "__param_service",
				       json_object_new_string(services.items[i].name));
		json_object_object_add(object, "targets", targets);
		json_object_object_add(object, "labels", labels);
		json_object_array_add(array, object);
	}
	if (!err)
		err = write_json(array, out, error);
	json_object_put(array);
	services_clear(&services);
	return err;
}

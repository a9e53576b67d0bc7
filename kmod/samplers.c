// SPDX-License-Identifier: GPL-2.0
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/smp.h>

#include "memlock.h"
#include "sampler.h"
#include "samplers.h"
#include "session_types.h"

struct sb_sampler *sb_session_find_sampler(const struct sb_session *session, u32 cpu)
{
	/* Pairs with the release in sb_session_ensure_sampler(). */
	return smp_load_acquire(&session->samplers[cpu]);
}

static size_t sb_ring_bytes(const struct sb_session *session)
{
	return session->page->ring_size + 2 * PAGE_SIZE;
}

static struct sb_sampler *sb_session_add_sampler(struct sb_session *session, u32 cpu)
{
	struct sb_sampler *sampler;
	int err = sb_session_charge(session, sb_ring_bytes(session));

	if (err)
		return ERR_PTR(err);
	sampler = sb_sampler_alloc(session, cpu, session->page->ring_size);
	if (IS_ERR(sampler))
		sb_session_uncharge(session, PFN_UP(sb_ring_bytes(session)));
	return sampler;
}

struct sb_sampler *sb_session_ensure_sampler(struct sb_session *session, u32 cpu)
{
	struct sb_sampler *sampler;

	mutex_lock(&session->samplers_lock);
	sampler = session->samplers[cpu];
	if (!sampler) {
		sampler = sb_session_add_sampler(session, cpu);
		if (!IS_ERR(sampler)) {
			/* Pairs with the acquire in sb_session_find_sampler(). */
			smp_store_release(&session->samplers[cpu], sampler);
			WRITE_ONCE(session->page->rings, session->page->rings + 1);
		}
	}
	mutex_unlock(&session->samplers_lock);
	return sampler;
}

/* Runs on each CPU of the session. */
static void sb_start_on_this_cpu(void *arg)
{
	struct sb_session *session = arg;
	struct sb_sampler *sampler = sb_session_find_sampler(session, smp_processor_id());

	if (sampler)
		sb_sampler_start(sampler);
}

static void sb_stop_on_this_cpu(void *arg)
{
	struct sb_session *session = arg;
	struct sb_sampler *sampler = sb_session_find_sampler(session, smp_processor_id());

	if (sampler)
		sb_sampler_stop(sampler);
}

static void sb_update_on_this_cpu(void *arg)
{
	struct sb_session *session = arg;

	if (!cpumask_test_cpu(smp_processor_id(), session->cpus)) {
		sb_stop_on_this_cpu(session);
		return;
	}
	sb_start_on_this_cpu(session);
	sb_sampler_retime(sb_session_find_sampler(session, smp_processor_id()));
}

static bool sb_has_sampler(int cpu, void *session)
{
	return sb_session_find_sampler(session, cpu);
}

static bool sb_sampler_is_running(int cpu, void *session)
{
	struct sb_sampler *sampler = sb_session_find_sampler(session, cpu);

	return sampler && READ_ONCE(sampler->running);
}

/* A CPU that goes offline meanwhile stops its samplers itself, or does not start them. */
void sb_samplers_start(struct sb_session *session)
{
	on_each_cpu_cond_mask(sb_has_sampler, sb_start_on_this_cpu, session, true, session->cpus);
}

bool sb_samplers_start_on(struct sb_session *session, u32 cpu)
{
	smp_call_function_single(cpu, sb_start_on_this_cpu, session, true);
	return sb_sampler_is_running(cpu, session);
}

void sb_samplers_stop(struct sb_session *session)
{
	on_each_cpu_cond_mask(sb_sampler_is_running, sb_stop_on_this_cpu, session, true,
			      cpu_online_mask);
}

static void sb_retime_on_this_cpu(void *arg)
{
	sb_sampler_retime(sb_session_find_sampler(arg, smp_processor_id()));
}

void sb_samplers_retime(struct sb_session *session)
{
	on_each_cpu_cond_mask(sb_sampler_is_running, sb_retime_on_this_cpu, session, true,
			      cpu_online_mask);
}

int sb_samplers_update(struct sb_session *session)
{
	struct sb_sampler *sampler;
	int err = 0;
	u32 cpu;

	for_each_cpu_and(cpu, session->cpus, cpu_online_mask) {
		sampler = sb_session_ensure_sampler(session, cpu);
		if (IS_ERR(sampler))
			err = PTR_ERR(sampler);
	}
	on_each_cpu_cond_mask(sb_has_sampler, sb_update_on_this_cpu, session, true,
			      cpu_online_mask);
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>

#include "cycles.h"
#include "device.h"
#include "filter.h"
#include "hotplug.h"
#include "kernel_rules.h"
#include "module_symbols.h"
#include "netlink.h"
#include "params.h"
#include "probes.h"
#include "sampler.h"
#include "session.h"
#include "space.h"
#include "unwind_object.h"
#include "unwind_tables.h"

static int __init sb_init(void)
{
	int err;

	err = sb_params_check();
	if (err)
		return err;
	err = sb_cycles_init();
	if (err)
		return err;
	sb_unwind_object_init();
	err = sb_unwind_tables_init();
	if (err)
		return err;
	err = sb_filter_init();
	if (err)
		goto err_filter;
	err = sb_space_init();
	if (err)
		goto err_space;
	err = sb_kernel_rules_init();
	if (err)
		goto err_kernel_rules;
	err = sb_module_symbols_init();
	if (err)
		goto err_module_symbols;
	err = sb_sampler_init();
	if (err)
		goto err_sampler;
	err = sb_probes_init();
	if (err)
		goto err_probes;
	err = sb_session_init();
	if (err)
		goto err_session;
	err = sb_hotplug_init();
	if (err)
		goto err_hotplug;
	err = sb_netlink_init();
	if (err)
		goto err_netlink;
	err = sb_device_init();
	if (err)
		goto err_device;
	return 0;

err_device:
	sb_netlink_exit();
err_netlink:
	sb_hotplug_exit();
err_hotplug:
	sb_session_exit();
err_session:
	sb_probes_exit();
err_probes:
	sb_sampler_exit();
err_sampler:
	sb_module_symbols_exit();
err_module_symbols:
	sb_kernel_rules_exit();
err_kernel_rules:
	sb_space_exit();
err_space:
	sb_filter_exit();
err_filter:
	sb_unwind_tables_exit();
	return err;
}

static void __exit sb_exit(void)
{
	sb_device_exit();
	/* Their work items send events. */
	sb_sampler_flush();
	sb_space_flush();
	sb_netlink_exit();
	/* Its work item may hold the last reference to a session. */
	sb_hotplug_exit();
	sb_session_exit();
	sb_probes_exit();
	sb_sampler_exit();
	sb_module_symbols_exit();
	sb_kernel_rules_exit();
	sb_space_exit();
	sb_filter_exit();
	sb_unwind_tables_exit();
}

module_init(sb_init);
module_exit(sb_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Sampling profiler: kernel and user stacks by per-CPU timers");
MODULE_AUTHOR("The stackbeat maintainers");
MODULE_VERSION(STACKBEAT_VERSION);

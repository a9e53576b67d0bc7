// SPDX-License-Identifier: GPL-2.0
/*
 * A module whose unwind tables can be made wrong, when it is loaded and later: so the unwinder
 * finds other stacks than before.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/msr.h>
#include <asm/orc_types.h>
#include <asm/processor.h>
#include <asm/tsc.h>

static struct orc_entry *sb_turncoat_tables, *sb_turncoat_wrong;

/* 1: all frames seem one word longer than they are. */
static int sb_turncoat_lie(const char *text, const struct kernel_param *param)
{
	struct mod_arch_specific *arch = &THIS_MODULE->arch;
	bool lie;
	u32 i;
	int err = kstrtobool(text, &lie);

	if (err)
		return err;
	if (!sb_turncoat_wrong) {
		sb_turncoat_tables = arch->orc_unwind;
		sb_turncoat_wrong = kmemdup(arch->orc_unwind,
					    arch->num_orcs * sizeof(*arch->orc_unwind),
					    GFP_KERNEL);
		if (!sb_turncoat_wrong)
			return -ENOMEM;
		for (i = 0; i < arch->num_orcs; i++) {
			if (sb_turncoat_wrong[i].sp_reg == ORC_REG_SP)
				sb_turncoat_wrong[i].sp_offset += sizeof(long);
		}
	}
	WRITE_ONCE(arch->orc_unwind, lie ? sb_turncoat_wrong : sb_turncoat_tables);
	return 0;
}

static const struct kernel_param_ops sb_turncoat_lie_ops = { .set = sb_turncoat_lie };
module_param_cb(lie, &sb_turncoat_lie_ops, NULL, 0200);

/* Spins for the given number of milliseconds, in process context. */
static int sb_turncoat_spin(const char *text, const struct kernel_param *param)
{
	unsigned int ms;
	u64 end;
	int err = kstrtouint(text, 0, &ms);

	if (err)
		return err;
	end = rdtsc() + (u64)ms * tsc_khz;
	while (rdtsc() < end)
		cpu_relax();
	return 0;
}

static const struct kernel_param_ops sb_turncoat_spin_ops = { .set = sb_turncoat_spin };
module_param_cb(spin, &sb_turncoat_spin_ops, NULL, 0200);

static int __init sb_turncoat_init(void)
{
	return 0;
}

static void __exit sb_turncoat_exit(void)
{
	if (sb_turncoat_tables)
		WRITE_ONCE(THIS_MODULE->arch.orc_unwind, sb_turncoat_tables);
	/* Unwinders in ticks may still use the copy. */
	synchronize_rcu();
	kfree(sb_turncoat_wrong);
}

module_init(sb_turncoat_init);
module_exit(sb_turncoat_exit);

MODULE_DESCRIPTION("Changes what the unwinder finds");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
/*
 * A module without ORC tables (tests/stress/stray/run removes them), so that the unwinder falls back to
 * frame pointers. The frame pointer of the module points to words that are no return addresses: the
 * unwinder returns them as such, and reports an error.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <asm/msr.h>
#include <asm/tsc.h>

/* Looks like a kernel address: the address of some memory. */
static unsigned long word;
module_param(word, ulong, 0400);
MODULE_PARM_DESC(word, "Value in place of return addresses");

static void *sb_stray_memory;

/* Spins in process context for the given number of milliseconds. */
static int sb_stray_spin(const char *text, const struct kernel_param *param)
{
	unsigned long frames[] = { (unsigned long)&frames[2], word, 0, word };
	unsigned int ms;
	u64 end;
	int err = kstrtouint(text, 0, &ms);

	if (err)
		return err;
	end = rdtsc() + (u64)ms * tsc_khz;
	asm volatile("push %%rbp\n\t"
		     "mov %[frames], %%rbp\n"
		     "1:\tpause\n\t"
		     "rdtsc\n\t"
		     "shl $32, %%rdx\n\t"
		     "or %%rdx, %%rax\n\t"
		     "cmp %[end], %%rax\n\t"
		     "jb 1b\n\t"
		     "pop %%rbp"
		     :
		     : [frames] "r" (frames), [end] "r" (end)
		     : "rax", "rdx", "cc", "memory");
	return 0;
}

static const struct kernel_param_ops sb_stray_ops = { .set = sb_stray_spin };
module_param_cb(spin, &sb_stray_ops, NULL, 0200);

static int __init sb_stray_init(void)
{
	sb_stray_memory = kmalloc(64, GFP_KERNEL);
	word = (unsigned long)sb_stray_memory;
	return sb_stray_memory ? 0 : -ENOMEM;
}

static void __exit sb_stray_exit(void)
{
	kfree(sb_stray_memory);
}

module_init(sb_stray_init);
module_exit(sb_stray_exit);

MODULE_DESCRIPTION("Leads the unwinder astray");
MODULE_LICENSE("GPL");

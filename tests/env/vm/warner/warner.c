// SPDX-License-Identifier: GPL-2.0
/* Warns when it is loaded, to test that the guest runner detects a warning. */
#include <linux/module.h>

static int __init sb_warner_init(void)
{
	WARN(1, "on purpose");
	return 0;
}

static void __exit sb_warner_exit(void)
{
}

module_init(sb_warner_init);
module_exit(sb_warner_exit);

MODULE_DESCRIPTION("Warns on purpose");
MODULE_LICENSE("GPL");

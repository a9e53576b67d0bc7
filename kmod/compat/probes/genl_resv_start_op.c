// SPDX-License-Identifier: GPL-2.0
// genl_family.resv_start_op: strict header checks from that command on (6.1).
#include <net/genetlink.h>

extern const struct genl_family sb_probe;
const struct genl_family sb_probe = {
	.resv_start_op = 1,
};

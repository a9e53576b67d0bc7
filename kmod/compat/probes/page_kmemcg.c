// SPDX-License-Identifier: GPL-2.0
// PageKmemcg(): pages charged to a control group can't be mapped (until 5.11).
#include <linux/page-flags.h>

bool sb_probe(struct page *page);

bool sb_probe(struct page *page)
{
	return PageKmemcg(page);
}

// SPDX-License-Identifier: GPL-2.0
// IRQ_WORK_INIT_HARD(), instead of setting the flag (5.11).
#include <linux/irq_work.h>

void sb_probe(struct irq_work *work, void (*fn)(struct irq_work *work));

void sb_probe(struct irq_work *work, void (*fn)(struct irq_work *work))
{
	*work = IRQ_WORK_INIT_HARD(fn);
}

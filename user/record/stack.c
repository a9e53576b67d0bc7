// SPDX-License-Identifier: GPL-2.0
#include "record/stack.h"

#include <errno.h>
#include <stdlib.h>

int stack_grow_moments(struct stack *stack, struct sample_totals *totals)
{
	/* From 1 on: many stacks have a single sample. */
	const size_t more = stack->moment_capacity / 2 + 1;
	struct sample_moment *grown = reallocarray(stack->moments, stack->moment_capacity + more,
						   sizeof(*stack->moments));

	if (!grown)
		return -ENOMEM;
	stack->moments = grown;
	stack->moment_capacity += more;
	totals->moment_bytes += more * sizeof(*stack->moments);
	return 0;
}

void stack_free_moments(struct stack *stack, struct sample_totals *totals)
{
	totals->moment_bytes -= stack->moment_capacity * sizeof(*stack->moments);
	free(stack->moments);
	stack->moments = NULL;
	stack->moment_count = stack->moment_capacity = 0;
}

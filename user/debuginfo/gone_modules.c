// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/gone_modules.h"

#include <stdio.h>
#include <stdlib.h>

#include "debuginfo/kallsyms.h"
#include "lib/error.h"

struct gone_modules {
	const struct gone_part *parts;
	size_t count;
	struct gone_symbols {
		struct kallsyms *table; /* NULL: none */
		bool is_parsed;
	} symbols[]; /* of each part */
};

struct gone_modules *gone_modules_new(const struct gone_part *parts, size_t count)
{
	struct gone_modules *modules =
		calloc(1, sizeof(*modules) + count * sizeof(*modules->symbols));

	if (!modules)
		return NULL;
	modules->parts = parts;
	modules->count = count;
	return modules;
}

void gone_modules_free(struct gone_modules *modules)
{
	for (size_t i = 0; modules && i < modules->count; i++)
		kallsyms_free(modules->symbols[i].table);
	free(modules);
}

const struct gone_part *gone_modules_part(const struct gone_modules *modules, uint64_t serial)
{
	for (size_t i = 0; modules && i < modules->count; i++) {
		if (modules->parts[i].serial == serial)
			return &modules->parts[i];
	}
	return NULL;
}

static bool gone_part_has(const struct gone_part *part, uint64_t address)
{
	return address >= part->start && address < part->end;
}

/* The symbols of init sections are there for a moment only; generated code has its name. */
static enum gone_answer find_serial(const struct gone_modules *modules, uint64_t serial)
{
	const struct gone_part *part = gone_modules_part(modules, serial);

	if (!serial)
		return GONE_NONE;
	if (!part)
		return GONE_UNKNOWN;
	return part->gone || part->is_init || part->is_generated ? GONE_PART : GONE_LOADED;
}

enum gone_answer gone_modules_find(const struct gone_modules *modules, uint64_t *address,
				   uint64_t *serial)
{
	enum gone_answer answer = GONE_NONE;

	if (gone_from_alias(*address, serial, address))
		return find_serial(modules, *serial);
	/* What has come later has aliases. */
	for (size_t i = 0; modules && i < modules->count; i++) {
		const struct gone_part *part = &modules->parts[i];

		if (part->came || !part->gone || !gone_part_has(part, *address))
			continue;
		if (answer != GONE_NONE)
			return GONE_UNKNOWN;
		answer = GONE_PART;
		*serial = part->serial;
	}
	return answer;
}

static const struct kallsyms *parse_part_symbols(struct gone_modules *modules, size_t index)
{
	const struct gone_part *part = &modules->parts[index];
	struct gone_symbols *symbols = &modules->symbols[index];
	struct error ignored;
	FILE *stream;

	if (symbols->is_parsed || !part->size)
		return symbols->table;
	stream = fmemopen(part->text, part->size, "r");
	if (stream && kallsyms_parse(stream, part->module, &symbols->table, &ignored))
		symbols->table = NULL;
	if (stream)
		fclose(stream);
	symbols->is_parsed = true;
	return symbols->table;
}

bool gone_modules_function(struct gone_modules *modules, uint64_t serial, uint64_t address,
			   const char **name, uint64_t *start)
{
	const struct gone_part *part = gone_modules_part(modules, serial);
	const struct kallsyms *table;
	const char *module;

	if (!part || !gone_part_has(part, address))
		return false;
	if (part->is_generated) {
		*name = part->text;
		*start = part->start;
		return true;
	}
	table = parse_part_symbols(modules, (size_t)(part - modules->parts));
	return table && kallsyms_lookup(table, address, name, start, &module);
}

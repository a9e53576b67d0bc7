/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of kernel modules that were unloaded, and of init sections, which the kernel frees:
 * from the symbols that the module keeps (STACKBEAT_IOC_MODULE_SYMBOLS); and code that the kernel
 * has generated and freed (source/generated_code.h).
 *
 * Different modules may have had one address at different times. So the address of a sample in a
 * part of a module that is known is replaced by an alias, which has the serial of the part: stacks
 * have no times. Where no part was known yet, the address stays: it is of the kernel, of a module
 * that is loaded, or of a module that had been loaded before the first part was known.
 */
#ifndef STACKBEAT_DEBUGINFO_GONE_MODULES_H
#define STACKBEAT_DEBUGINFO_GONE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct gone_modules;

/* Name of the mapping, in a profile, of addresses without a known function. */
#define GONE_MODULES_MAPPING "[kernel code that is gone]"

/* A part of a module, or generated code, which counts as a module. */
struct gone_part {
	uint64_t start, end; /* of the functions; `end` is excluded */
	uint64_t serial; /* below GONE_SERIAL_MAX */
	uint64_t came; /* the kernel's CLOCK_MONOTONIC, ns; 0: before the recording */
	uint64_t gone; /* likewise; 0: still there */
	uint64_t reach; /* the highest end of the parts up to this one; see record/gone_parts.h */
	bool is_init;
	bool is_generated;
	char module[STACKBEAT_MODULE_NAME_SIZE];
	char *text; /* as lines of /proc/kallsyms; of generated code: its name */
	size_t size; /* bytes of the text */
};

/*
 * An alias is bit 63, 2 zero bits, 30 bits of the serial, and the lower 31 bits of the address, as
 * all code of modules is in the last 2 GiB, and generated code, too. No CPU has such an address:
 * bits 47 to 63 of a kernel address are equal (56 to 63 with 5-level page tables).
 */
#define GONE_SERIAL_MAX (UINT64_C(1) << 30)
#define GONE_CODE_BITS 31
#define GONE_CODE_MASK ((UINT64_C(1) << GONE_CODE_BITS) - 1)

/* `serial` 0: the address was in none of the parts that have it at other times. */
static inline uint64_t gone_alias(uint64_t serial, uint64_t address)
{
	return UINT64_C(1) << 63 | serial << GONE_CODE_BITS | (address & GONE_CODE_MASK);
}

/* Returns whether `alias` is one; if so, sets the others. */
static inline bool gone_from_alias(uint64_t alias, uint64_t *serial, uint64_t *address)
{
	if (alias >> 63 == 0 || (alias << 1 >> 1) >> GONE_CODE_BITS >= GONE_SERIAL_MAX)
		return false;
	*serial = (alias << 1 >> 1) >> GONE_CODE_BITS;
	*address = alias | ~GONE_CODE_MASK;
	return true;
}

/*
 * `parts` must outlive the modules, to be freed with gone_modules_free() (which takes NULL, too).
 * Returns NULL when out of memory.
 */
struct gone_modules *gone_modules_new(const struct gone_part *parts, size_t count);
void gone_modules_free(struct gone_modules *modules);

enum gone_answer {
	GONE_NONE, /* it belongs to what is there now */
	GONE_PART, /* to a part of a module */
	GONE_LOADED, /* to a part of a module that was loaded when the parts were read */
	GONE_UNKNOWN, /* to a module that is not known */
};

/*
 * Finds what an address or alias belongs to. Sets *address to the address, and *serial to the
 * serial of the part. `modules` may be NULL.
 */
enum gone_answer gone_modules_find(const struct gone_modules *modules, uint64_t *address,
				   uint64_t *serial);

/* Returns the part with a serial, which is there. */
const struct gone_part *gone_modules_part(const struct gone_modules *modules, uint64_t serial);

/*
 * Finds the function of the part with a serial at an address. The strings belong to `modules`.
 * Returns false if there is none.
 */
bool gone_modules_function(struct gone_modules *modules, uint64_t serial, uint64_t address,
			   const char **name, uint64_t *start);

#endif

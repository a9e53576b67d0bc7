// SPDX-License-Identifier: GPL-2.0
#include <linux/elf.h>
#include <linux/kallsyms.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "limits.h"
#include "module_symbols.h"
#include "stackbeat.h"

/* The functions of one part of a module: of its init sections, or of the others. */
struct sb_module_part {
	struct list_head list;	/* in sb_module_parts */
	struct kref refs;
	u64 serial;
	u64 came;
	u64 gone;		/* 0: still there */
	const struct module *module;	/* an identity, not followed; NULL: the module is gone */
	char name[STACKBEAT_MODULE_NAME_SIZE];	/* of the module */
	bool is_init;
	unsigned long start, end;	/* of the functions; `end` is excluded */
	u32 size;		/* bytes of the text */
	char text[];
};

/* All below is under the lock, which is a leaf, and not held while memory is allocated or copied. */
static DEFINE_MUTEX(sb_module_symbols_lock);
static LIST_HEAD(sb_module_parts);	/* by serial */
static u32 sb_module_parts_count;
static u64 sb_module_parts_bytes;
static u64 sb_module_parts_serial;	/* of the last one */
static u64 sb_module_parts_dropped;	/* since the first follower came */
static u64 sb_module_parts_changes;	/* of parts that have come, gone or been dropped */
static u32 sb_followers;	/* also read without the lock */

static void sb_module_part_free(struct kref *refs)
{
	kvfree(container_of(refs, struct sb_module_part, refs));
}

static u64 sb_module_part_bytes(const struct sb_module_part *part)
{
	return sizeof(*part) + part->size;
}

static void sb_module_part_remove(struct sb_module_part *part)
{
	lockdep_assert_held(&sb_module_symbols_lock);

	list_del(&part->list);
	sb_module_parts_count--;
	sb_module_parts_bytes -= sb_module_part_bytes(part);
	sb_module_parts_changes++;
	kref_put(&part->refs, sb_module_part_free);
}

#ifdef CONFIG_KALLSYMS
/* A line of the text, without the names. */
#define SB_LINE_FORMAT "%016lx %c %.*s\t[%s]\n"
#define SB_LINE_BYTES (sizeof("0123456789abcdef t \t[]\n") - 1)

/*
 * The length of a symbol's name up to what would end a word of the text, or as /proc/kallsyms cuts
 * it. Called twice for each, with the same result: nothing writes the table.
 */
static u32 sb_symbol_length(const char *name)
{
	u32 length = 0;

	while (length < KSYM_NAME_LEN - 1 && (u8)name[length] > ' ')
		length++;
	return length;
}

static bool sb_is_in_part(const struct module *module, unsigned long address, bool is_init)
{
	return is_init ? within_module_init(address, module) : within_module_core(address, module);
}

/* Sizes of assembler code may be missing, and others are the file's. */
static unsigned long sb_function_end(const struct module *module, const Elf_Sym *symbol, bool is_init)
{
	unsigned long start = symbol->st_value, end = start + symbol->st_size;

	return end > start && sb_is_in_part(module, end - 1, is_init) ? end : PAGE_ALIGN(start + 1);
}

/* The name of symbol `i` if it is a function of the part; or NULL. */
static const char *sb_function_name(const struct module *module,
				    const struct mod_kallsyms *symbols, u32 i, bool is_init)
{
	const Elf_Sym *symbol = &symbols->symtab[i];
	const char type = symbols->typetab[i];

	if (type != 't' && type != 'T' && type != 'w' && type != 'W')
		return NULL;
	if (!sb_is_in_part(module, symbol->st_value, is_init))
		return NULL;
	return symbols->strtab + symbol->st_name;
}

/*
 * Writes the functions of a part to `text`, of `size` bytes, or counts the bytes if it is NULL. Sets
 * the range of the functions. Returns the bytes, 0 without a function; more than
 * SB_MODULE_SYMBOLS_BYTES: it has given up.
 */
static u64 sb_write_functions(const struct module *module, const struct mod_kallsyms *symbols,
			      struct sb_module_part *part, char *text, u64 size)
{
	const u32 other = SB_LINE_BYTES + strlen(module->name);
	const Elf_Sym *symbol;
	const char *name;
	u64 used = 0;
	u32 length, i;

	part->start = ULONG_MAX;
	part->end = 0;
	/* Entry 0 of a symbol table is no symbol. */
	for (i = 1; i < symbols->num_symtab && used <= SB_MODULE_SYMBOLS_BYTES; i++) {
		cond_resched();
		name = sb_function_name(module, symbols, i, part->is_init);
		length = name ? sb_symbol_length(name) : 0;
		if (!length)
			continue;
		symbol = &symbols->symtab[i];
		part->start = min(part->start, (unsigned long)symbol->st_value);
		part->end = max(part->end, sb_function_end(module, symbol, part->is_init));
		if (text && used < size)
			scnprintf(text + used, size - used, SB_LINE_FORMAT,
				  (unsigned long)symbol->st_value, symbols->typetab[i], (int)length,
				  name, module->name);
		used += other + length;
	}
	if (!used)
		return 0;
	length = strlen(STACKBEAT_MODULE_SYMBOLS_END);
	if (text && used < size)
		scnprintf(text + used, size - used, SB_LINE_FORMAT, part->end, 'A', (int)length,
			  STACKBEAT_MODULE_SYMBOLS_END, module->name);
	return used + other + length;
}

/*
 * Returns the functions of a part of a module that is loading or about to go, so that its symbols
 * stay meanwhile. NULL: they are too many, or there is no memory.
 */
static struct sb_module_part *sb_module_part_make(const struct module *module, bool is_init)
{
	const struct mod_kallsyms *symbols = rcu_dereference_protected(module->kallsyms, true);
	struct sb_module_part head = { .module = module, .is_init = is_init }, *part;
	u64 size = 0;

	if (symbols)
		size = sb_write_functions(module, symbols, &head, NULL, 0);
	if (sizeof(*part) + size > SB_MODULE_SYMBOLS_BYTES)
		return NULL;
	/* With the NUL of the last line. The symbols are optional: no process is killed for them. */
	part = kvmalloc(sizeof(*part) + size + 1, GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
	if (!part)
		return NULL;
	*part = head;
	part->size = size;
	kref_init(&part->refs);
	scnprintf(part->name, sizeof(part->name), "%s", module->name);
	if (size)
		sb_write_functions(module, symbols, part, part->text, size + 1);
	else
		part->start = part->end = 0;
	return part;
}

/* Finds a part of a module that is not gone. */
static struct sb_module_part *sb_module_part_find(const struct module *module, bool is_init)
{
	struct sb_module_part *part;

	lockdep_assert_held(&sb_module_symbols_lock);

	list_for_each_entry(part, &sb_module_parts, list) {
		if (part->module == module && part->is_init == is_init)
			return part;
	}
	return NULL;
}

/* Keeps a part, for which the oldest ones make room. NULL is counted. */
static void sb_module_part_add(struct sb_module_part *part, u64 came, u64 gone)
{
	mutex_lock(&sb_module_symbols_lock);
	if (!sb_followers && part) {
		kref_put(&part->refs, sb_module_part_free);
	} else if (part) {
		part->came = came;
		part->gone = gone;
		part->serial = ++sb_module_parts_serial;
		list_add_tail(&part->list, &sb_module_parts);
		sb_module_parts_count++;
		sb_module_parts_bytes += sb_module_part_bytes(part);
		sb_module_parts_changes++;
		while (sb_module_parts_count > SB_MODULE_SYMBOLS_MAX ||
		       sb_module_parts_bytes > SB_MODULE_SYMBOLS_BYTES) {
			sb_module_part_remove(list_first_entry(&sb_module_parts,
							       struct sb_module_part, list));
			sb_module_parts_dropped++;
		}
	} else if (sb_followers) {
		sb_module_parts_dropped++;
		sb_module_parts_changes++;
	}
	mutex_unlock(&sb_module_symbols_lock);
}

/* Copies a part that is not kept yet. */
static void sb_module_part_keep(const struct module *module, bool is_init, u64 came, u64 gone)
{
	struct sb_module_part *kept;

	mutex_lock(&sb_module_symbols_lock);
	kept = sb_module_part_find(module, is_init);
	mutex_unlock(&sb_module_symbols_lock);
	if (!kept)
		sb_module_part_add(sb_module_part_make(module, is_init), came, gone);
}

/* Notes that a part has gone. */
static void sb_module_part_end(const struct module *module, bool is_init, bool is_unloaded, u64 now)
{
	struct sb_module_part *part;

	mutex_lock(&sb_module_symbols_lock);
	part = sb_module_part_find(module, is_init);
	if (part && !part->gone) {
		part->gone = now;
		sb_module_parts_changes++;
	}
	/* Another module can get its address. */
	if (part && is_unloaded)
		part->module = NULL;
	mutex_unlock(&sb_module_symbols_lock);
}

/*
 * Before a module is initialized, when it was, and before it goes or if it could not be loaded. A
 * session that was opened in between sees the second or the third time first.
 */
static int sb_module_symbols_change(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;
	u64 now = ktime_get_ns();

	if (!READ_ONCE(sb_followers))
		return NOTIFY_DONE;
	switch (state) {
	case MODULE_STATE_COMING:
		sb_module_part_keep(module, true, now, 0);
		sb_module_part_keep(module, false, now, 0);
		break;
	case MODULE_STATE_LIVE:
		sb_module_part_keep(module, true, 0, now);
		sb_module_part_end(module, true, false, now);
		break;
	case MODULE_STATE_GOING:
		sb_module_part_end(module, true, true, now);
		sb_module_part_keep(module, false, 0, now);
		sb_module_part_end(module, false, true, now);
		break;
	}
	return NOTIFY_DONE;
}
#else
static int sb_module_symbols_change(struct notifier_block *block, unsigned long state, void *data)
{
	return NOTIFY_DONE;
}
#endif

void sb_module_symbols_follow(void)
{
	mutex_lock(&sb_module_symbols_lock);
	WRITE_ONCE(sb_followers, sb_followers + 1);
	mutex_unlock(&sb_module_symbols_lock);
}

void sb_module_symbols_unfollow(void)
{
	struct sb_module_part *part, *next;

	mutex_lock(&sb_module_symbols_lock);
	WRITE_ONCE(sb_followers, sb_followers - 1);
	if (!sb_followers) {
		list_for_each_entry_safe(part, next, &sb_module_parts, list)
			sb_module_part_remove(part);
		sb_module_parts_dropped = 0;
	}
	mutex_unlock(&sb_module_symbols_lock);
}

/* Returns the part with the lowest serial >= args->serial, which the caller puts, or NULL. */
static struct sb_module_part *sb_module_part_get(struct stackbeat_module_symbols *args)
{
	struct sb_module_part *part, *found = NULL;

	mutex_lock(&sb_module_symbols_lock);
	args->dropped = sb_module_parts_dropped;
	args->changes = sb_module_parts_changes;
	/* A reader that asks for the changes only. */
	if (args->serial > sb_module_parts_serial)
		goto unlock;
	list_for_each_entry(part, &sb_module_parts, list) {
		if (part->serial >= args->serial) {
			kref_get(&part->refs);
			args->serial = part->serial;
			args->came = part->came;
			args->gone = part->gone;
			args->start = part->start;
			args->end = part->end;
			args->init = part->is_init;
			memcpy(args->module, part->name, sizeof(args->module));
			found = part;
			break;
		}
	}
unlock:
	mutex_unlock(&sb_module_symbols_lock);
	return found;
}

int sb_module_symbols_read(struct stackbeat_module_symbols __user *argument)
{
	struct stackbeat_module_symbols args;
	struct sb_module_part *part;
	int err = 0;

	if (copy_from_user(&args, argument, sizeof(args)))
		return -EFAULT;
	part = sb_module_part_get(&args);
	if (!part)
		return copy_to_user(argument, &args, sizeof(args)) ? -EFAULT : -ENOENT;
	if (args.size < part->size)
		err = -ENOSPC;
	else if (copy_to_user(u64_to_user_ptr(args.buffer), part->text, part->size))
		err = -EFAULT;
	args.size = part->size;
	kref_put(&part->refs, sb_module_part_free);
	if (err != -EFAULT && copy_to_user(argument, &args, sizeof(args)))
		err = -EFAULT;
	return err;
}

static struct notifier_block sb_module_symbols_notifier = {
	.notifier_call = sb_module_symbols_change,
};

int __init sb_module_symbols_init(void)
{
	return register_module_notifier(&sb_module_symbols_notifier);
}

void sb_module_symbols_exit(void)
{
	unregister_module_notifier(&sb_module_symbols_notifier);
}

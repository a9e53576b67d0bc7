// SPDX-License-Identifier: GPL-2.0
#include "inspect/stack_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "inspect/stack_symbols.h"
#include "inspect/stack_walk.h"
#include "lib/array.h"
#include "lib/path.h"
#include "lib/utf8.h"

#define WORD sizeof(uint64_t)
#define UCONTEXT_REGISTERS 40u /* offset of the registers in struct ucontext */
#define WORDS_MIN 8u /* of a stack on which no caller was found */
#define RBP_PLACES                                                                                 \
	(STACKBEAT_UNWIND_RBP_SAVED | STACKBEAT_UNWIND_RBP_AT_RBP |                                \
	 STACKBEAT_UNWIND_RBP_IN_REGISTER)

static const char *const register_names[STACKBEAT_REGISTERS] = {
	"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
	"r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip",
};

/* The order of struct sigcontext. */
static const uint8_t saved_by_signals[] = {8, 9, 10, 11, 12, 13, 14, 15, 5,
					   4, 6, 3,  1,  0,  2,  7,  16};

/* What the walk has used a word for. */
enum use {
	USE_RETURN_ADDRESS,
	USE_SAVED_RBP,
	USE_SAVED_RBX,
	USE_CFA,
	USE_GO_STACK,
	USE_SIGNAL, /* and the register: USE_SIGNAL + its number */
};

struct note {
	uint64_t address;
	uint32_t frame; /* that was left by it */
	uint32_t use; /* enum use */
};

struct notes {
	struct note *items; /* in ascending order */
	size_t count, capacity;
	int err;
};

static void add_note(struct notes *notes, uint64_t address, size_t frame, unsigned int use)
{
	if (!notes->err)
		notes->err = array_reserve(&notes->items, &notes->capacity, notes->count, 1,
					   sizeof(*notes->items));
	if (!notes->err)
		notes->items[notes->count++] = (struct note){address, (uint32_t)frame, use};
}

/* The rule of frames without a table. */
static const struct stackbeat_unwind_rule frame_pointer_rule = {
	.cfa = 16,
	.kind_base = STACKBEAT_UNWIND_CALLER | STACKBEAT_REGISTER_RBP << 4,
	.flags = STACKBEAT_UNWIND_RBP_SAVED,
	.rbp = -2,
};

static const struct stackbeat_unwind_rule *rule_of(const struct stack_frame *frame)
{
	if (frame->by_table)
		return frame->has_rule ? &frame->rule : NULL;
	return frame->is_mapped ? &frame_pointer_rule : NULL;
}

static unsigned int stack_text_rule_kind(const struct stackbeat_unwind_rule *rule)
{
	return rule ? rule->kind_base & 0xf : STACKBEAT_UNWIND_NONE;
}

static bool has_cfa(const struct stackbeat_unwind_rule *rule)
{
	switch (stack_text_rule_kind(rule)) {
	case STACKBEAT_UNWIND_CALLER:
	case STACKBEAT_UNWIND_GO_SWITCH:
	case STACKBEAT_UNWIND_GO_CALL:
		return true;
	default:
		return false;
	}
}

static uint64_t words_from(uint64_t address, int words)
{
	return address + (uint64_t)(int64_t)words * WORD;
}

/* Notes the words by which the caller of a frame was found. */
static void note_frame(struct notes *notes, const struct stack_walk *walk, size_t index)
{
	const struct stack_frame *frame = &walk->frames[index];
	const __u64 *registers = frame->frame.registers;
	const struct stackbeat_unwind_rule *rule = rule_of(frame);
	uint64_t cfa = walk->frames[index + 1].frame.registers[STACKBEAT_REGISTER_RSP], at;

	if (stack_text_rule_kind(rule) == STACKBEAT_UNWIND_SIGNAL) {
		for (size_t i = 0; i < sizeof(saved_by_signals); i++)
			add_note(notes,
				 registers[STACKBEAT_REGISTER_RSP] + UCONTEXT_REGISTERS + i * WORD,
				 index, USE_SIGNAL + saved_by_signals[i]);
		return;
	}
	if (!has_cfa(rule))
		return;
	if (stack_text_rule_kind(rule) == STACKBEAT_UNWIND_GO_CALL) {
		at = words_from(registers[STACKBEAT_REGISTER_RSP], rule->extra);
		add_note(notes, at, index, USE_GO_STACK);
		add_note(notes, at + WORD, index, USE_GO_STACK);
	}
	if (rule->flags & STACKBEAT_UNWIND_INDIRECT)
		add_note(notes, registers[rule->kind_base >> 4] + (uint64_t)(int64_t)rule->cfa,
			 index, USE_CFA);
	if (rule->flags & STACKBEAT_UNWIND_RBP_SAVED)
		add_note(notes, words_from(cfa, rule->rbp), index, USE_SAVED_RBP);
	if (rule->flags & STACKBEAT_UNWIND_RBP_AT_RBP)
		add_note(notes, words_from(registers[STACKBEAT_REGISTER_RBP], rule->rbp), index,
			 USE_SAVED_RBP);
	if (rule->flags & STACKBEAT_UNWIND_RBX_SAVED)
		add_note(notes, words_from(cfa, rule->extra), index, USE_SAVED_RBX);
	if (!(rule->flags & STACKBEAT_UNWIND_RIP_IN_REGISTER))
		add_note(notes, cfa - WORD, index, USE_RETURN_ADDRESS);
}

static int compare_notes(const void *a, const void *b)
{
	const struct note *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static int make_notes(const struct stack_walk *walk, struct notes *notes)
{
	*notes = (struct notes){.items = NULL};
	for (size_t i = 0; i + 1 < walk->frame_count; i++)
		note_frame(notes, walk, i);
	if (notes->count)
		qsort(notes->items, notes->count, sizeof(*notes->items), compare_notes);
	return notes->err;
}

/* Symbols */

/* The address of the call, which is before a return address. */
static uint64_t code_address(const struct stack_frame *frame)
{
	return stackbeat_unwind_address(&frame->frame);
}

/* Returns the first region that has an address: others may overlap it. */
static size_t region_of(const struct stack_walk *walk, uint64_t address)
{
	size_t region = 0;

	while (region < walk->copy.region_count &&
	       (address < walk->copy.regions[region].start ||
		address - walk->copy.regions[region].start >= walk->copy.regions[region].size))
		region++;
	return region;
}

/* The first and last address of a region that is printed; equal: none is. */
static void stack_text_find_range(const struct stack_walk *walk, const struct notes *notes,
				  size_t region, size_t words, uint64_t *start, uint64_t *end)
{
	const struct stack_region *from = &walk->copy.regions[region];
	const uint64_t limit = from->start + from->size;

	*start = region ? limit : from->start;
	*end = region ? from->start : MIN(limit, from->start + WORDS_MIN * WORD);
	for (size_t i = 0; i < notes->count; i++) {
		uint64_t address = notes->items[i].address;

		if (region_of(walk, address) != region)
			continue;
		*start = MIN(*start, address);
		*end = MAX(*end, address + WORD);
	}
	if (*start >= *end)
		*end = *start;
	else if ((*end - *start) / WORD > words)
		*end = *start + words * WORD;
}

static int stack_text_add_words(struct stack_walk *walk, const struct notes *notes, size_t words,
				struct stack_symbols *symbols)
{
	uint64_t start, end, word;
	int err = 0;

	for (size_t i = 0; i < walk->copy.region_count; i++) {
		stack_text_find_range(walk, notes, i, words, &start, &end);
		for (; start < end && !err; start += WORD) {
			if (stack_walk_word(walk, start, &word))
				err = stack_symbols_add(symbols, walk, word);
		}
	}
	return err;
}

int stack_text_symbolize(struct stack_walk *walk, size_t words,
			 const struct symbolize_options *options, struct stack_symbols *symbols)
{
	struct notes notes;
	int err = make_notes(walk, &notes);

	*symbols = (struct stack_symbols){.items = NULL};
	for (size_t i = 0; i < walk->frame_count && !err; i++)
		err = stack_symbols_add(symbols, walk, code_address(&walk->frames[i]));
	if (!err)
		err = stack_text_add_words(walk, &notes, words, symbols);
	free(notes.items);
	if (!err)
		err = stack_symbols_find(symbols, walk, options);
	if (err)
		stack_symbols_clear(symbols);
	return err;
}

/* Printing */

struct stack_printer {
	const struct stack_walk *walk;
	const struct stack_symbols *symbols;
	const struct notes *notes;
	FILE *out;
};

/* Prints FUNCTION+offset (file:line), by the symbol at `address`; `offset` belongs to `shown`. */
static void print_place(const struct stack_printer *printer, uint64_t address, uint64_t shown)
{
	const struct stack_symbol *symbol = stack_symbols_at(printer->symbols, address);
	FILE *out = printer->out;

	if (!symbol) {
		fputs("code outside of all files", out);
		return;
	}
	if (!symbol->function) {
		utf8_print(out, path_base_name(printer->walk->files[symbol->file].path));
		fprintf(out, "+0x%" PRIx64, symbol->vaddr + (shown - address));
		return;
	}
	utf8_print(out, symbol->function);
	if (symbol->start)
		fprintf(out, "+0x%" PRIx64, symbol->vaddr + (shown - address) - symbol->start);
	if (symbol->source) {
		fputs(" (", out);
		utf8_print(out, path_base_name(symbol->source));
		fprintf(out, ":%" PRIu32 ")", symbol->line);
	}
}

static void print_registers(const struct stack_printer *printer)
{
	static const uint8_t order[] = {STACKBEAT_REGISTER_RIP,
					STACKBEAT_REGISTER_RSP,
					STACKBEAT_REGISTER_RBP,
					0,
					STACKBEAT_REGISTER_RBX,
					2,
					1,
					4,
					5,
					8,
					9,
					10,
					11,
					12,
					13,
					14,
					15};

	/* Of a goroutine, only the first ones are stored. */
	for (size_t i = 0; i < (printer->walk->stops ? sizeof(order) : 3); i++)
		fprintf(printer->out, "%s%-3s 0x%016" PRIx64,
			i % 3 ? "  "
			: i   ? "\n  "
			      : "  ",
			register_names[order[i]], printer->walk->copy.registers[order[i]]);
	fputc('\n', printer->out);
}

static void print_distance(FILE *out, int64_t bytes)
{
	if (bytes)
		fprintf(out, " %c %" PRId64, bytes < 0 ? '-' : '+', bytes < 0 ? -bytes : bytes);
}

static void stack_text_print_saved(FILE *out, const char *name, const char *base, int words)
{
	fprintf(out, ", %s at %s", name, base);
	print_distance(out, (int64_t)words * (int64_t)WORD);
}

/* Prints a rule: CFA = rsp + 56, rip at CFA - 8, rbp at CFA - 16. */
static void print_caller_rule(FILE *out, const struct stackbeat_unwind_rule *rule)
{
	const char *base = register_names[rule->kind_base >> 4];

	if (stack_text_rule_kind(rule) == STACKBEAT_UNWIND_GO_SWITCH) {
		fputs("CFA = sched.sp of the goroutine", out);
		print_distance(out, rule->cfa);
	} else if (stack_text_rule_kind(rule) == STACKBEAT_UNWIND_GO_CALL) {
		fputs("CFA = rsp of the goroutine, by the words at rsp", out);
		print_distance(out, (int64_t)rule->extra * (int64_t)WORD);
		fputs(", then", out);
		print_distance(out, rule->cfa);
	} else if (rule->flags & STACKBEAT_UNWIND_INDIRECT) {
		fprintf(out, "CFA = word at %s", base);
		print_distance(out, rule->cfa);
		fputs(", then", out);
		print_distance(out, (int64_t)rule->extra * (int64_t)WORD);
	} else {
		fprintf(out, "CFA = %s", base);
		print_distance(out, rule->cfa);
	}
	if (rule->flags & STACKBEAT_UNWIND_RIP_IN_REGISTER)
		fprintf(out, ", rip in %s", register_names[rule->extra & 0xf]);
	else
		stack_text_print_saved(out, "rip", "CFA", -1);
	if (rule->flags & STACKBEAT_UNWIND_RBP_SAVED)
		stack_text_print_saved(out, "rbp", "CFA", rule->rbp);
	if (rule->flags & STACKBEAT_UNWIND_RBP_AT_RBP)
		stack_text_print_saved(out, "rbp", "rbp", rule->rbp);
	if (stack_text_rule_kind(rule) == STACKBEAT_UNWIND_GO_SWITCH && !(rule->flags & RBP_PLACES))
		fputs(", rbp = sched.bp", out);
	if (rule->flags & STACKBEAT_UNWIND_RBP_IN_REGISTER)
		fprintf(out, ", rbp in %s", register_names[rule->rbp & 0xf]);
	if (rule->flags & STACKBEAT_UNWIND_RBX_SAVED)
		stack_text_print_saved(out, "rbx", "CFA", rule->extra);
	if (rule->flags & STACKBEAT_UNWIND_RIP_EXACT)
		fputs(", rip is no return address", out);
}

static void print_rule(const struct stack_printer *printer, const struct stack_frame *frame)
{
	const struct stack_file *file =
		frame->file == STACK_NO_FILE ? NULL : &printer->walk->files[frame->file];
	const struct stackbeat_unwind_rule *rule = rule_of(frame);
	FILE *out = printer->out;

	fputs("        ", out);
	if (!frame->is_mapped || (frame->by_table && !file)) {
		fputs("in no mapping with code\n", out);
		return;
	}
	if (!frame->by_table) {
		fputs("no table", out);
		if (file) {
			fputs(" of ", out);
			utf8_print(out, file->path);
			fprintf(out, " (%s)", file->problem);
		}
		fputs(": by frame pointer, ", out);
		print_caller_rule(out, rule);
		fputc('\n', out);
		return;
	}
	fputs("row of ", out);
	utf8_print(out, file->path);
	fputs(": ", out);
	switch (stack_text_rule_kind(rule)) {
	case STACKBEAT_UNWIND_CALLER:
	case STACKBEAT_UNWIND_GO_SWITCH:
	case STACKBEAT_UNWIND_GO_CALL:
		print_caller_rule(out, rule);
		break;
	case STACKBEAT_UNWIND_GO_RESUME:
		fputs("rip, rsp and rbp in sched of the goroutine; without one the outermost frame",
		      out);
		break;
	case STACKBEAT_UNWIND_END:
		fputs("the outermost frame", out);
		break;
	case STACKBEAT_UNWIND_SIGNAL:
		fputs("frame of a signal handler, all registers from struct ucontext", out);
		break;
	default:
		fputs("no rule", out);
	}
	fputc('\n', out);
}

static void stack_text_print_end(const struct stack_printer *printer)
{
	static const char *const texts[] = {
		[WALK_OUTERMOST] = "the stack is complete",
		[WALK_NO_RULE] = "the stack ends here: the table has no rule for the address",
		[WALK_NO_MAPPING] = "the stack ends here: the address is not in code",
		[WALK_UNREADABLE] = "the stack ends here: memory can't be read at",
		[WALK_BAD_FRAME] = "the stack ends here: the caller's frame is not above this one",
		[WALK_LOST_REGISTER] = "the stack ends here: the value of a register is not known",
		[WALK_MAX_DEPTH] = "there are more frames",
	};

	fprintf(printer->out, "  %s", texts[printer->walk->end]);
	if (printer->walk->end == WALK_UNREADABLE)
		fprintf(printer->out, " 0x%" PRIx64, printer->walk->unreadable);
	fputc('\n', printer->out);
}

static void stack_text_print_frames(const struct stack_printer *printer)
{
	for (size_t i = 0; i < printer->walk->frame_count; i++) {
		const struct stack_frame *frame = &printer->walk->frames[i];
		const uint64_t rip = frame->frame.registers[STACKBEAT_REGISTER_RIP];

		fprintf(printer->out, "  #%-4zu 0x%016" PRIx64 " ", i, rip);
		print_place(printer, code_address(frame), rip);
		fputc('\n', printer->out);
		print_rule(printer, frame);
	}
	stack_text_print_end(printer);
}

static void print_use(const struct stack_printer *printer, const struct note *note)
{
	const struct stack_frame *caller = &printer->walk->frames[note->frame + 1];
	FILE *out = printer->out;

	switch (note->use) {
	case USE_RETURN_ADDRESS:
		fprintf(out, "return address of #%" PRIu32 " to ", note->frame);
		print_place(printer, code_address(caller),
			    caller->frame.registers[STACKBEAT_REGISTER_RIP]);
		break;
	case USE_SAVED_RBP:
		fprintf(out, "saved frame pointer (rbp) of #%" PRIu32, note->frame + 1);
		break;
	case USE_SAVED_RBX:
		fprintf(out, "saved rbx of #%" PRIu32, note->frame + 1);
		break;
	case USE_CFA:
		fprintf(out, "CFA of #%" PRIu32, note->frame);
		break;
	case USE_GO_STACK:
		fprintf(out, "place of #%" PRIu32 " on the stack of the goroutine",
			note->frame + 1);
		break;
	default:
		fprintf(out, "%s of #%" PRIu32 ", saved by the kernel",
			register_names[note->use - USE_SIGNAL], note->frame + 1);
	}
}

/* A word that the walk has not used: what it could point to. */
static void print_unused(const struct stack_printer *printer, uint64_t word)
{
	const struct process_mapping *mapping = process_maps_at(&printer->walk->maps, word);
	FILE *out = printer->out;

	fputs("unknown", out);
	if (!mapping)
		return;
	if (stack_symbols_at(printer->symbols, word)) {
		fputs(": in code, ", out);
		print_place(printer, word, word);
	} else if (*mapping->path) {
		fputs(": points to ", out);
		utf8_print(out, path_base_name(mapping->path));
	} else {
		fputs(": points to memory", out);
	}
}

/* The registers that point to a word: all of the first frame, and rsp and rbp of the others. */
static void print_pointers(const struct stack_printer *printer, uint64_t address)
{
	const __u64 *before = NULL;
	const char *separator = "   <- ";

	for (size_t i = 0; i < printer->walk->frame_count; i++) {
		const struct stackbeat_unwind_frame *frame = &printer->walk->frames[i].frame;

		for (unsigned int j = 0; j < STACKBEAT_REGISTER_RIP; j++) {
			bool is_walked = j == STACKBEAT_REGISTER_RSP || j == STACKBEAT_REGISTER_RBP;

			if (frame->registers[j] != address || !(frame->known >> j & 1) ||
			    (before && (!is_walked || before[j] == frame->registers[j])))
				continue;
			fprintf(printer->out, "%s%s of #%zu", separator, register_names[j], i);
			separator = ", ";
		}
		before = frame->registers;
	}
}

/* Prints a word, and returns the first note behind those at its address. */
static const struct note *print_word(const struct stack_printer *printer, uint64_t start,
				     uint64_t address, const struct note *note)
{
	const struct note *end = printer->notes->items + printer->notes->count;
	const char *separator = "";
	uint64_t word;

	while (note < end && note->address < address)
		note++;
	if (!stack_walk_word(printer->walk, address, &word))
		return note;
	fprintf(printer->out, "  0x%016" PRIx64 " +0x%04" PRIx64 " 0x%016" PRIx64 "  ", address,
		address - start, word);
	if (note == end || note->address != address)
		print_unused(printer, word);
	for (; note < end && note->address == address; note++) {
		fputs(separator, printer->out);
		print_use(printer, note);
		separator = "; ";
	}
	print_pointers(printer, address);
	fputc('\n', printer->out);
	return note;
}

static void print_region(const struct stack_printer *printer, size_t region, size_t words)
{
	const struct note *note = printer->notes->items;
	uint64_t start, end, all;

	stack_text_find_range(printer->walk, printer->notes, region, words, &start, &end);
	if (start == end)
		return;
	fprintf(printer->out, "%s:\n  %-18s %-7s %-18s  %s\n", region ? "another stack" : "stack",
		"address", "offset", "value", "meaning");
	for (uint64_t at = start; at < end; at += WORD)
		note = print_word(printer, start, at, note);
	stack_text_find_range(printer->walk, printer->notes, region, SIZE_MAX, &start, &all);
	if (all > end)
		fprintf(printer->out, "  and %" PRIu64 " more words; --words prints more\n",
			(all - end) / WORD);
}

int stack_text_print(const struct stack_walk *walk, const struct stack_symbols *symbols,
		     size_t words, FILE *out)
{
	struct notes notes;
	const struct stack_printer printer = {walk, symbols, &notes, out};
	int err = make_notes(walk, &notes);

	if (!err) {
		fputs("registers:\n", out);
		print_registers(&printer);
		fputs("frames:\n", out);
		stack_text_print_frames(&printer);
		for (size_t i = 0; i < walk->copy.region_count; i++)
			print_region(&printer, i, words);
	}
	free(notes.items);
	return err;
}

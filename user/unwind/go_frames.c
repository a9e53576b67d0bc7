// SPDX-License-Identifier: GPL-2.0
#include "unwind/go_frames.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/go_pclntab.h"
#include "unwind/cfi.h"

#define WORD 8

/* The same in all versions: see runtime/go_layout.h. */
#define GOBUF_SP 0
#define SCHED_SP 56

/* The stack changes are near the start of their functions. */
#define CODE_MAX 512u
#define PARTS_MAX 4u

/* Bytes of sub $size,%rsp. */
#define SUB_MAX 7u

/* mov %rsp,%rbp, after push %rbp */
static const unsigned char set_rbp[] = {0x48, 0x89, 0xe5};

/* Functions of the runtime with rows of their own. */
enum role {
	ROLE_NONE,
	ROLE_SYSTEMSTACK,
	ROLE_MCALL,
	ROLE_MORESTACK,
	ROLE_GOGO,
	ROLE_ASMCGOCALL,
	ROLE_CLONE,
	ROLE_INJECTED, /* called by the runtime, at any instruction */
	ROLE_SIGNAL, /* the trampoline of signal handlers */
};

/* Part of a function in which the stack is another one. */
struct part {
	uint64_t start, end;
	enum cfi_kind kind;
	int64_t addend;
};

struct go_frames_reader {
	const struct go_pclntab *pclntab;
	const struct go_frames *frames;
	struct go_runtime *runtime;
	int64_t count;
	/* The function: */
	const struct go_function *function;
	int32_t size; /* of the frame before the current part */
	bool has_prologue; /* rbp was saved at CFA - 16 */
	uint64_t saved, set; /* the addresses from which on it is saved, and is CFA - 16 */
	uint64_t end; /* of the last row */
	struct cfi_row last;
	enum role role;
	struct part parts[PARTS_MAX]; /* in ascending order */
	size_t part_count;
};

static const struct cfi_value saved_rip = {.place = CFI_AT_CFA, .offset = -WORD};
static const struct cfi_value saved_rbp = {.place = CFI_AT_CFA, .offset = INT64_C(-2) * WORD};

/*
 * Returns the size of `mov %rbp,disp(%rsp)` or `lea disp(%rsp),%rbp` (by its opcode); 0 if it is
 * another instruction.
 */
static size_t match_slot(const unsigned char *code, size_t size, unsigned char opcode, int32_t disp)
{
	int32_t wide;

	if (size < 5 || code[0] != 0x48 || code[1] != opcode || code[3] != 0x24)
		return 0;
	if (code[2] == 0x6c)
		return (int8_t)code[4] == disp ? 5 : 0;
	if (code[2] != 0xac || size < 8)
		return 0;
	memcpy(&wide, code + 4, sizeof(wide));
	return wide == disp ? 8 : 0;
}

/*
 * Recognizes the prologue where the frame has grown from nothing to `size`: push %rbp; mov
 * %rsp,%rbp (Go 1.21), or sub $size,%rsp; mov %rbp,size-8(%rsp); lea size-8(%rsp),%rbp.
 */
static void find_prologue(struct go_frames_reader *reader, uint64_t at, int32_t size)
{
	const struct go_frames *frames = reader->frames;
	const unsigned char *code;
	size_t left, slot, lea;

	code = at > reader->function->start ? frames->code(frames->arg, at - 1, &left) : NULL;
	if (!code)
		return;
	if (size == WORD && left > sizeof(set_rbp) && code[0] == 0x55 &&
	    !memcmp(code + 1, set_rbp, sizeof(set_rbp))) {
		reader->has_prologue = true;
		reader->saved = at;
		reader->set = at + sizeof(set_rbp);
		return;
	}
	slot = match_slot(code + 1, left - 1, 0x89, size - WORD);
	lea = slot ? match_slot(code + 1 + slot, left - 1 - slot, 0x8d, size - WORD) : 0;
	if (!lea)
		return;
	reader->has_prologue = true;
	reader->saved = at + slot;
	reader->set = reader->saved + lea;
}

static int go_frames_pass_row(struct go_frames_reader *reader, uint64_t start, uint64_t end,
			      const struct cfi_row *row)
{
	if (start >= end)
		return 0;
	reader->end = end;
	reader->last = *row;
	return reader->frames->row(reader->frames->arg, start, end, row);
}

/* The row of a part, where the frame has the size of the reader. */
static struct cfi_row part_row(const struct go_frames_reader *reader, const struct part *part)
{
	struct cfi_row row = {
		.kind = part->kind,
		.base = CFI_RSP,
		.offset = (int64_t)reader->size + WORD,
		.addend = part->addend,
		.return_address = saved_rip,
	};

	if (reader->has_prologue && reader->size > 0)
		row.rbp = saved_rbp;
	return row;
}

/* Passes a row for what of [start, end) is in [from, to), except for parts with rows of their own.
 */
static int go_frames_pass(struct go_frames_reader *reader, uint64_t start, uint64_t end,
			  uint64_t from, uint64_t to, const struct cfi_row *row)
{
	int err = 0;

	start = start > from ? start : from;
	end = end < to ? end : to;
	for (size_t i = 0; i < reader->part_count && !err; i++) {
		const struct part *part = &reader->parts[i];
		struct cfi_row own = part_row(reader, part);

		if (part->end <= start || part->start >= end)
			continue;
		err = go_frames_pass_row(reader, start, part->start, row);
		if (start < part->start)
			start = part->start;
		if (!err)
			err = go_frames_pass_row(reader, start, part->end < end ? part->end : end,
						 &own);
		start = part->end;
	}
	return err ? err : go_frames_pass_row(reader, start, end, row);
}

static int go_frames_add(struct go_frames_reader *reader, uint64_t start, uint64_t end,
			 int32_t size)
{
	struct cfi_row row = {
		.kind = CFI_CALLER,
		.base = CFI_RSP,
		.is_exact = reader->role == ROLE_INJECTED,
		.offset = (int64_t)size + WORD,
		.return_address = saved_rip,
	};
	bool changes_stack = reader->function->changes_stack, has_slot;
	int err;

	if (size > 0 && !reader->size && !reader->has_prologue)
		find_prologue(reader, start, size);
	reader->size = size;
	has_slot = reader->has_prologue && size > 0;
	/* The first instruction sets up the frame, if there is one. */
	if (changes_stack && !reader->has_prologue && !reader->part_count &&
	    !(start == reader->function->start && end - start <= SUB_MAX))
		row = (struct cfi_row){.kind = CFI_UNSUPPORTED};
	err = go_frames_pass(reader, start, end, 0, has_slot ? reader->saved : UINT64_MAX, &row);
	if (err || !has_slot)
		return err;
	row.rbp = saved_rbp;
	if (!changes_stack)
		return go_frames_pass(reader, start, end, reader->saved, UINT64_MAX, &row);
	err = go_frames_pass(reader, start, end, reader->saved, reader->set, &row);
	row.base = CFI_RBP;
	row.offset = INT64_C(2) * WORD;
	return err ? err : go_frames_pass(reader, start, end, reader->set, UINT64_MAX, &row);
}

static int add_stack_size(void *arg, uint64_t start, uint64_t end, int32_t size)
{
	return go_frames_add(arg, start, end, size);
}

/* Functions of the runtime by their names */

static enum role role_of(const char *name)
{
	static const struct {
		const char *name;
		enum role role;
	} roles[] = {
		{"gogo", ROLE_GOGO},
		{"runtime.systemstack", ROLE_SYSTEMSTACK},
		{"runtime.mcall", ROLE_MCALL},
		{"runtime.morestack", ROLE_MORESTACK},
		{"runtime.asmcgocall", ROLE_ASMCGOCALL},
		{"runtime.clone", ROLE_CLONE},
		{"runtime.asyncPreempt", ROLE_INJECTED},
		{"runtime.sigpanic", ROLE_INJECTED},
		{"runtime.sigpanic0", ROLE_INJECTED},
		{"runtime.debugCallV2", ROLE_INJECTED},
		{"runtime.sigreturn", ROLE_SIGNAL},
		{"runtime.sigreturn__sigaction", ROLE_SIGNAL},
	};
	static const char suffix[] = ".abi0";
	size_t length = strlen(name);

	if (length >= sizeof(suffix) && !strcmp(name + length - strlen(suffix), suffix))
		length -= strlen(suffix);
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (length == strlen(roles[i].name) && !memcmp(name, roles[i].name, length))
			return roles[i].role;
	}
	return ROLE_NONE;
}

/* The code of a function, as far as it is searched. */
struct go_text {
	uint64_t start;
	const unsigned char *bytes;
	size_t size;
};

static struct go_text text_of(const struct go_frames_reader *reader)
{
	const struct go_function *function = reader->function;
	struct go_text text = {.start = function->start};

	text.bytes = reader->frames->code(reader->frames->arg, function->start, &text.size);
	if (!text.bytes)
		text.size = 0;
	if (text.size > function->end - function->start)
		text.size = function->end - function->start;
	if (text.size > CODE_MAX)
		text.size = CODE_MAX;
	return text;
}

/*
 * Returns the address behind the first instruction at `from` or later with these bytes; 0: there is
 * none.
 */
static uint64_t go_code_is_behind(const struct go_text *text, uint64_t from,
				  const unsigned char *code, size_t size)
{
	const unsigned char *at;

	if (!from || from - text->start >= text->size)
		return 0;
	at = memmem(text->bytes + (from - text->start), text->size - (from - text->start), code,
		    size);
	return at ? text->start + (uint64_t)(at - text->bytes) + size : 0;
}

/* As go_code_is_behind(), of an instruction that loads rsp from `disp` bytes behind any register.
 */
static uint64_t behind_load(const struct go_text *text, uint64_t from, unsigned char disp)
{
	const size_t size = disp ? 4 : 3;

	if (!from)
		return 0;
	for (size_t i = from - text->start; i + size <= text->size; i++) {
		const unsigned char *code = text->bytes + i;

		/* REX.W, and REX.B for registers from r8 on; ModRM: rsp, no SIB byte */
		if ((code[0] & 0xfe) == 0x48 && code[1] == 0x8b &&
		    (code[2] & 0xf8) == (disp ? 0x60 : 0x20) && (code[2] & 7) != 4 &&
		    (!disp || code[3] == disp))
			return text->start + i + size;
	}
	return 0;
}

/* A part without a known start or end makes the callers unknown in the rest of the function. */
static void go_frames_add_part(struct go_frames_reader *reader, uint64_t start, uint64_t end,
			       enum cfi_kind kind, int64_t addend)
{
	struct part *part = &reader->parts[reader->part_count++];

	*part = (struct part){start, end, kind, addend};
	if (start && start < end)
		return;
	part->kind = CFI_UNSUPPORTED;
	part->start = start ? start : reader->function->start;
	part->end = reader->function->end;
}

/*
 * mov %fs:disp,reg; or mov $disp,%rcx; mov %fs:(%rcx),reg. In a library, the first one of the
 * latter is mov disp(%rip),%rcx.
 */
static void find_tls(struct go_frames_reader *reader, const struct go_text *text)
{
	struct go_runtime *runtime = reader->runtime;
	const unsigned char *code = text->bytes;
	int32_t disp;

	if (text->size < 16)
		return;
	if (code[0] == 0x64 && code[1] == 0x48 && code[2] == 0x8b && (code[3] & 0xc7) == 0x04 &&
	    code[4] == 0x25)
		memcpy(&disp, code + 5, sizeof(disp));
	else if (code[0] == 0x48 &&
		 ((code[1] == 0xc7 && code[2] == 0xc1) || (code[1] == 0x8b && code[2] == 0x0d)) &&
		 code[7] == 0x64 && code[8] == 0x48 && code[9] == 0x8b && (code[10] & 0xc7) == 0x01)
		memcpy(&disp, code + 3, sizeof(disp));
	else
		return;
	runtime->tls = disp;
	runtime->tls_in_memory = code[0] == 0x48 && code[1] == 0x8b;
	if (runtime->tls_in_memory)
		runtime->tls += (int64_t)text->start + 7;
	runtime->has_tls = true;
}

/* Finds the offsets of g.m and g.sched.bp: mov m(reg),%rbx; mov %rbp,bp(reg). */
static void find_offsets(struct go_frames_reader *reader, const struct go_text *text)
{
	struct go_runtime *runtime = reader->runtime;

	for (size_t i = 0; i + 4 <= text->size; i++) {
		const unsigned char *code = text->bytes + i;

		if (code[0] != 0x48 || code[3] >= 0x80)
			continue;
		if (code[1] == 0x8b && (code[2] & 0xf8) == 0x58 && !runtime->m)
			runtime->m = code[3];
		if (code[1] == 0x89 && (code[2] & 0xf8) == 0x68 && !runtime->sched_bp)
			runtime->sched_bp = code[3];
	}
}

/* Finds the offset of m.curg: cmp curg(%rbx),%rax. */
static void find_curg(struct go_frames_reader *reader, const struct go_text *text)
{
	static const unsigned char compare[] = {0x48, 0x3b, 0x83};
	uint64_t at = go_code_is_behind(text, text->start, compare, sizeof(compare));
	uint32_t disp;

	if (!at || text->start + text->size - at < sizeof(disp))
		return;
	memcpy(&disp, text->bytes + (at - text->start), sizeof(disp));
	reader->runtime->curg = disp <= UINT16_MAX ? (uint16_t)disp : 0;
}

/* push %rbp; from Go 1.21 on. Then rbp is on the stack of the goroutine. */
static bool has_frame(const struct go_text *text)
{
	return text->size && text->bytes[0] == 0x55;
}

/*
 * systemstack: the function that it calls is on the other stack, also where rbp leads
 * to the caller.
 */
static void find_systemstack(struct go_frames_reader *reader, const struct go_text *text)
{
	static const unsigned char move[] = {0x48, 0x89, 0xdc}; /* mov %rbx,%rsp */
	uint64_t start = go_code_is_behind(text, text->start, move, sizeof(move));

	find_curg(reader, text);
	if (has_frame(text))
		return;
	go_frames_add_part(reader, start, behind_load(text, start, SCHED_SP), CFI_GO_SWITCH, 0);
}

/*
 * asmcgocall: each of its two paths aligns rsp, and keeps two words of what it was until it moves
 * rsi to rsp: see STACKBEAT_UNWIND_GO_CALL.
 */
static void find_asmcgocall(struct go_frames_reader *reader, const struct go_text *text)
{
	/* mov %rdi,disp(%rsp): the distance; mov %rdx,disp(%rsp): rsp; with and without disp */
	static const unsigned char rdi[] = {0x48, 0x89, 0x7c, 0x24, 0x28},
				   rdi_0[] = {0x48, 0x89, 0x3c, 0x24},
				   rdx[] = {0x48, 0x89, 0x54, 0x24, 0x28},
				   rdx_0[] = {0x48, 0x89, 0x14, 0x24},
				   end[] = {0x48, 0x89, 0xf4}, /* mov %rsi,%rsp */
		align[] = {0x48, 0x83, 0xec}; /* sub $size,%rsp */
	uint64_t load = behind_load(text, text->start, SCHED_SP);
	uint64_t saved = go_code_is_behind(text, load, rdi, sizeof(rdi)), back;
	int64_t addend = saved ? 0x28 : 0;

	if (!saved)
		saved = go_code_is_behind(text, load, rdi_0, sizeof(rdi_0));
	back = go_code_is_behind(text, saved, end, sizeof(end));
	if (!has_frame(text))
		go_frames_add_part(reader, load, saved, CFI_GO_SWITCH, 0);
	go_frames_add_part(reader, saved, back, CFI_GO_CALL, addend);
	load = go_code_is_behind(text, back, align, sizeof(align));
	saved = addend ? go_code_is_behind(text, load, rdx, sizeof(rdx))
		       : go_code_is_behind(text, load, rdx_0, sizeof(rdx_0));
	back = go_code_is_behind(text, saved, end, sizeof(end));
	if (!has_frame(text))
		go_frames_add_part(reader, load, saved, CFI_UNSUPPORTED, 0);
	go_frames_add_part(reader, saved, back, CFI_GO_CALL, addend);
}

static void find_parts(struct go_frames_reader *reader)
{
	/* mov %eax,0x30(%rsp); ret */
	static const unsigned char parent[] = {0x89, 0x44, 0x24, 0x30, 0xc3};
	uint64_t end = reader->function->end;
	struct go_text text = text_of(reader);

	switch (reader->role) {
	case ROLE_SYSTEMSTACK:
		find_systemstack(reader, &text);
		break;
	case ROLE_MORESTACK:
		find_tls(reader, &text);
		find_offsets(reader, &text);
		go_frames_add_part(reader, behind_load(&text, text.start, SCHED_SP), end,
				   CFI_GO_RESUME, 0);
		break;
	case ROLE_MCALL:
		go_frames_add_part(reader, behind_load(&text, text.start, SCHED_SP), end,
				   CFI_GO_RESUME, 0);
		break;
	case ROLE_GOGO:
		/* The scheduler ends here: it jumps to the goroutine. */
		go_frames_add_part(reader, behind_load(&text, text.start, GOBUF_SP), end, CFI_END,
				   0);
		break;
	case ROLE_ASMCGOCALL:
		find_asmcgocall(reader, &text);
		break;
	case ROLE_CLONE:
		/* The stack of the child is empty. */
		go_frames_add_part(reader,
				   go_code_is_behind(&text, text.start, parent, sizeof(parent)),
				   end, CFI_END, 0);
		break;
	default:
		break;
	}
}

/* Functions that are no calls: the trampoline of signal handlers, and the end of a stack. */
static bool is_special(const struct go_function *function, enum role role, struct cfi_row *row)
{
	row->kind = role == ROLE_SIGNAL ? CFI_SIGNAL : CFI_END;
	/* sigtramp has no caller in Go, but the trampoline is one. */
	return role == ROLE_SIGNAL ||
	       (function->is_outermost && strncmp(function->name, "runtime.sigtramp", 16));
}

static int go_frames_add_function(void *arg, const struct go_function *function)
{
	struct go_frames_reader *reader = arg;
	struct cfi_row row = {0};
	int err;

	reader->count++;
	reader->function = function;
	reader->role = role_of(function->name);
	if (is_special(function, reader->role, &row))
		return reader->frames->row(reader->frames->arg, function->start, function->end,
					   &row);
	reader->size = 0;
	reader->has_prologue = false;
	reader->end = function->end;
	reader->part_count = 0;
	find_parts(reader);
	err = go_pclntab_each_stack_size(reader->pclntab, function, add_stack_size, reader);
	/* The padding behind a function needs no row of its own. */
	if (err || reader->end >= function->end)
		return err;
	return reader->frames->row(reader->frames->arg, reader->end, function->end, &reader->last);
}

int64_t go_frames_read(const struct go_pclntab *pclntab, const struct go_frames *frames,
		       struct go_runtime *runtime)
{
	struct go_frames_reader reader = {.pclntab = pclntab, .frames = frames, .runtime = runtime};
	int err;

	*runtime = (struct go_runtime){0};
	err = go_pclntab_each_function(pclntab, go_frames_add_function, &reader);
	return err ? err : reader.count;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/sandbox_option.h"
#include "cli/symbolize_messages.h"
#include "inspect/go_process.h"
#include "inspect/goroutines.h"
#include "inspect/stack_symbols.h"
#include "inspect/stack_text.h"
#include "inspect/stack_walk.h"
#include "lib/error.h"
#include "runtime/go_layout.h"
#include "symbolize/symbolize_options.h"

#define WORDS_DEFAULT 512u
#define WORDS_MAX (1u << 20)

static int parse_goroutine(const struct cli_option *option, char *text, void *arg,
			   struct error *error)
{
	uint64_t *id = option_target(option, arg);
	char *end;

	errno = 0;
	*id = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	if (*id && !errno && !*end)
		return 0;
	return error_set(error, EINVAL, "-g: '%s' is not the number of a goroutine", text);
}

struct stack_command {
	uint32_t pid, tid, words;
	uint64_t goroutine; /* 0: none */
	bool help;
	struct sandbox_options sandbox_options;
	struct reader_sandbox sandbox;
	struct symbolize_messages messages;
	struct go_process process; /* of a goroutine */
	struct stack_walk walk;
	struct stack_symbols symbols;
};

/* clang-format off */
static const struct cli_option options[] = {
	{'p', "pid", "PID", "the process; also without -p",
	 OPTION_NUMBER(struct stack_command, pid, 1, INT32_MAX)},
	{'t', "tid", "TID", "the thread (default: the first one of the process)",
	 OPTION_NUMBER(struct stack_command, tid, 1, INT32_MAX)},
	{'g', "goroutine", "ID", "a goroutine that does not run, of a Go program",
	 OPTION_CALL(parse_goroutine), OPTION_TARGET(uint64_t, struct stack_command, goroutine)},
	{0, "words", "N", "print up to N words of each stack (default: 512)",
	 OPTION_NUMBER(struct stack_command, words, 0, WORDS_MAX)},
	SYMBOLIZE_TIMEOUT_OPTION(struct stack_command, sandbox_options),
	SANDBOX_OPTION(struct stack_command, sandbox_options),
	{'v', "verbose", NULL, "list all problems with files, not only the first five",
	 OPTION_FLAG(struct stack_command, messages.verbose)},
	HELP_OPTION(struct stack_command, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat stack [-p] PID [-t TID | -g ID] [OPTION]...",
	.description =
		"Print the stack of a thread or goroutine word by word: which words are return "
		"addresses and saved registers, and by which rule of which unwind table each "
		"caller was found, as 'stackbeat record' finds it. The kernel module is not "
		"needed.",
	.options = options,
	.notes =
		"A thread is stopped for as long as its registers and its stack are copied; the "
		"first "
		"line says how long. A goroutine is not stopped. Both need the rights to trace the "
		"process, see ptrace(2). Exit status: 0 if the stack was printed; 1 if it was not; "
		"2 "
		"for a wrong command line.",
};

static int cmd_stack_parse(int argc, char **argv, struct stack_command *stack, struct error *error)
{
	int first, err;

	err = options_parse(argc, argv, options, false, stack, &first, error);
	if (err || stack->help)
		return err;
	err = options_pid(argc, argv, first, &stack->pid, error);
	if (err)
		return err;
	if (stack->tid && stack->goroutine)
		return error_set(error, EINVAL, "-t and -g can't be combined");
	if (!stack->tid)
		stack->tid = stack->pid;
	return 0;
}

static int walk_goroutine(struct stack_command *stack, struct error *error)
{
	struct go_process *process = &stack->process;
	struct goroutine_place place;
	int err = go_process_open(&stack->sandbox.server, (pid_t)stack->pid, process, error);

	if (!err) {
		struct goroutines_source source;

		go_process_source(process, &source);
		err = goroutine_find(&source, stack->goroutine, &place, error);
	}
	return err ? err : stack_walk_stored(&stack->walk, place.pc, place.sp, place.bp, error);
}

static int cmd_stack_walk(struct stack_command *stack, struct error *error)
{
	int err = reader_sandbox_start(&stack->sandbox, &stack->sandbox_options, true, error);

	if (!err)
		err = stack_walk_open(&stack->walk, &stack->sandbox.server, (pid_t)stack->pid,
				      error);
	if (err)
		return err;
	return stack->goroutine ? walk_goroutine(stack, error)
				: stack_walk_thread(&stack->walk, (pid_t)stack->tid, error);
}

static void print_title(const struct stack_command *stack)
{
	const struct stack_walk *walk = &stack->walk;

	if (stack->goroutine) {
		printf("goroutine %" PRIu64 " of process %" PRIu32 ", not stopped\n",
		       stack->goroutine, stack->pid);
		return;
	}
	printf("thread %" PRIu32 " of process %" PRIu32 ", stopped for %.0f us", stack->tid,
	       stack->pid, (double)walk->longest_stop_ns / 1000);
	if (walk->stops > 1)
		printf(" at most, %u times", walk->stops);
	putchar('\n');
}

static int cmd_stack_print(struct stack_command *stack, struct error *error)
{
	struct symbolize_options symbolize = {
		.problem = symbolize_messages_problem,
		.progress = symbolize_messages_progress,
		.names_progress = symbolize_messages_names,
		.timed_out = symbolize_messages_timed_out,
		.arg = &stack->messages,
	};
	int err;

	reader_sandbox_use(&stack->sandbox, &stack->sandbox_options, &symbolize);
	err = stack_text_symbolize(&stack->walk, stack->words, &symbolize, &stack->symbols);
	symbolize_messages_end(&stack->messages);
	if (!err) {
		print_title(stack);
		err = stack_text_print(&stack->walk, &stack->symbols, stack->words, stdout);
	}
	if (!err && (fflush(stdout) || ferror(stdout)))
		return error_errno(error, errno, "standard output");
	return err ? error_errno(error, -err, "the stack can't be printed") : 0;
}

int cmd_stack(int argc, char **argv)
{
	struct stack_command stack = {
		.words = WORDS_DEFAULT,
		.messages.progress = isatty(STDERR_FILENO),
		.process.runtime.fd = -1,
	};
	struct error error;
	int err;

	if (cmd_stack_parse(argc, argv, &stack, &error)) {
		fprintf(stderr, "stackbeat stack: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (stack.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	err = cmd_stack_walk(&stack, &error);
	if (!err)
		err = cmd_stack_print(&stack, &error);
	stack_symbols_clear(&stack.symbols);
	stack_walk_close(&stack.walk);
	go_process_close(&stack.process);
	reader_sandbox_stop(&stack.sandbox);
	if (!err)
		return STATUS_OK;
	fprintf(stderr, "stackbeat stack: %s\n", error.text);
	return STATUS_FAILED;
}

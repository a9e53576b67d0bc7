/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks a stack of a running process by the unwind tables of its files, as the module does, and
 * keeps for each frame by which rule its caller was found.
 */
#ifndef STACKBEAT_INSPECT_STACK_WALK_H
#define STACKBEAT_INSPECT_STACK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <stackbeat_unwind.h>
#include <stackbeat_unwind_step.h>

#include "inspect/process_maps.h"
#include "inspect/thread_stop.h"
#include "unwind/walk.h"

struct error;
struct sandbox_server;

#define STACK_FRAMES_MAX 1024u
#define STACK_FILES_MAX 1024u
#define STACK_NO_FILE UINT32_MAX

/* A file with code, or the vDSO. */
struct stack_file {
	const char *path; /* of its mapping */
	uint64_t device, inode;
	int fd;
	struct process_file file; /* its bias */
	bool is_no_elf; /* its code is named by its addresses */
	struct stackbeat_unwind_table *table; /* NULL: none */
	struct stackbeat_unwind_view view;
	char problem[96]; /* why there is no table; "": there is one */
};

struct stack_frame {
	struct stackbeat_unwind_frame frame;
	uint32_t file; /* in walk->files, or STACK_NO_FILE */
	bool is_mapped;
	bool by_table; /* else by the frame pointer, if it is mapped */
	struct stackbeat_unwind_rule rule; /* if by_table and has_rule */
	bool has_rule;
};

struct stack_walk {
	const struct sandbox_server *server;
	pid_t pid;
	struct process_maps maps;
	struct walk_mapping *mappings; /* of each of the maps; start == end: not looked at yet */
	uint32_t *mapping_files; /* of each of the maps */
	struct stack_file *files;
	size_t file_count;
	/* The result. */
	struct thread_copy copy;
	int64_t longest_stop_ns;
	unsigned int stops;
	struct stack_frame *frames;
	size_t frame_count;
	enum walk_end end;
	uint64_t unreadable; /* the address that could not be read last; 0: none */
};

/*
 * Opens a process. Returns 0, to be followed by stack_walk_close(); or a negative errno value with
 * `error` set.
 */
int stack_walk_open(struct stack_walk *walk, const struct sandbox_server *server, pid_t pid,
		    struct error *error);
void stack_walk_close(struct stack_walk *walk);

/*
 * Walks the stack of a thread, which is stopped for as long as its registers and stack are copied:
 * once more for each further stack that the walk leads to, as of a signal handler. Returns 0 or a
 * negative errno value with `error` set.
 */
int stack_walk_thread(struct stack_walk *walk, pid_t tid, struct error *error);

/*
 * Walks a stack whose thread does not run, from its stored registers rip, a return address, rsp and
 * rbp. Returns 0 or a negative errno value with `error` set.
 */
int stack_walk_stored(struct stack_walk *walk, uint64_t rip, uint64_t rsp, uint64_t rbp,
		      struct error *error);

/* Reads a word of the copies of the stack. Returns false if they do not have it. */
bool stack_walk_word(const struct stack_walk *walk, uint64_t address, uint64_t *word);

/*
 * Returns the number of the file whose code has an address, and sets *vaddr to its ELF virtual
 * address; STACK_NO_FILE: none.
 */
uint32_t stack_walk_file_at(struct stack_walk *walk, uint64_t address, uint64_t *vaddr);

/*
 * Returns whether an address is in code that may have been generated: in an executable mapping of
 * anonymous memory, or of a file that is no ELF file.
 */
bool stack_walk_is_jit(struct stack_walk *walk, uint64_t address);

#endif

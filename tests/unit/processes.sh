#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# tests/lint-processes: finds each kind of violation that is planted in a copy of this tree.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

copy_tree() {
	rm -rf "${scratch:?}"/*
	mkdir -p "$scratch/docs"
	cp -r "$top/user" "$scratch"
	cp "$top/docs/architecture.md" "$scratch/docs"
}

# expect WORDS: this is found, and nothing else.
expect() {
	local found
	! found=$(cd "$scratch" && "$top/tests/lint-processes") || fail "exits with 0"
	[[ $found == *"$1"* && $found != *$'\n'* ]] || fail "finds $found"
}

this_tree_passes() {
	local found
	copy_tree
	found=$(cd "$scratch" && "$top/tests/lint-processes") || fail "finds $found"
}

another_fork_fails() {
	copy_tree
	echo 'pid_t own(void) { return fork(); }' >"$scratch/user/lib/own.c"
	expect "user/lib/own.c:1: makes a process"
}

a_role_without_a_row_fails() {
	copy_tree
	sed -i '/^| opener:/d' "$scratch/docs/architecture.md"
	expect "no row of OPENER"
}

a_row_without_a_role_fails() {
	copy_tree
	sed -i '/^| opener:/{p;s/opener:/closer:/}' "$scratch/docs/architecture.md"
	expect "CLOSER is no role"
}

another_limit_fails() {
	copy_tree
	sed -i 's/\.cpu_s = 60/.cpu_s = 61/' "$scratch/user/sandbox/child.c"
	expect "JOB: limits is '60 s of CPU time"
}

another_right_fails() {
	copy_tree
	sed -i 's/\[CHILD_WORKER\] = {RIGHTS_NONE/[CHILD_WORKER] = {RIGHTS_OF_PARENT/' "$scratch/user/sandbox/child.c"
	expect "WORKER: rights is 'none', and 'its parent's' in the code"
}

a_fork_of_a_role_in_another_file_fails() {
	copy_tree
	echo 'int role = CHILD_OPENER;' >"$scratch/user/lib/own.c"
	expect "OPENER: forked in is '\`symbolize/worker_pool.c\`'"
}

run_test this_tree_passes
run_test another_fork_fails
run_test a_role_without_a_row_fails
run_test a_row_without_a_role_fails
run_test another_limit_fails
run_test another_right_fails
run_test a_fork_of_a_role_in_another_file_fails
exit "$any_failed"

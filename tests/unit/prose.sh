#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# tests/lint-prose: finds planted violations.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

a_clean_file_passes() {
	printf '%s\n' '/* The size of that, of those, and of one. That often. */' >"$scratch/file.c"
	"$top/tests/lint-prose" "$scratch/file.c" >"$scratch/found" || fail "exits with $?"
	[[ ! -s $scratch/found ]] || fail "finds $(<"$scratch/found")"
}

each_riddle_is_found() {
	local line
	for line in 'its total is that'' of the report' 'Those'' of users' 'a file, or one'' that is open' 'so'' many bytes'; do
		printf '%s\n' '/*' " * $line" ' */' >"$scratch/file.c"
		! "$top/tests/lint-prose" "$scratch/file.c" >"$scratch/found" || fail "'$line': passes"
		[[ $(<"$scratch/found") == "$scratch/file.c:2: * $line" ]] || fail "'$line': finds $(<"$scratch/found")"
	done
}

the_lint_reads_product_tests_and_documents() {
	local file
	mkdir -p "$scratch/tree/tests"
	cp "$top/tests/lint" "$top/tests/lint-prose" "$scratch/tree/tests"
	git -C "$scratch/tree" init -q
	for file in user/a.c kmod/a.c include/a.h tests/unit/a.c tests/a.py tests/run man/a.1 docs/a.md; do
		mkdir -p "$scratch/tree/${file%/*}"
		printf '%s\n' 'so'' many' >"$scratch/tree/$file"
		! "$scratch/tree/tests/lint" prose >"$scratch/found" || fail "$file is not read"
		grep -qF "$file:1:so"' many' "$scratch/found" || fail "$file: finds $(<"$scratch/found")"
		rm "$scratch/tree/$file"
	done
}

run_test a_clean_file_passes
run_test each_riddle_is_found
run_test the_lint_reads_product_tests_and_documents
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# tests/lint-c-names: finds each kind of violation that is planted in a copy of a clean tree.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# plant FILE LINE...: adds the lines to a file of the tree.
plant() {
	mkdir -p "$(dirname "$scratch/$1")"
	printf '%s\n' "${@:2}" >>"$scratch/$1"
}

plant_clean_tree() {
	rm -rf "${scratch:?}"/*
	plant user/a/list.c '#include <this.h>' '' '/* try() and new: no code */' 'struct list {' $'\tint size;' '};' '' \
		'static int list_push(struct list *list)' '{' $'\treturn list->size;' '}' '' \
		'int list_size(void)' '{' $'\tputs("delete");' $'\treturn 0;' '}'
	plant user/b/queue.c 'struct list;' '' 'static int queue_push(int a,' $'\t\tint b)' '{' $'\treturn a + b;' '}' '' \
		'int list_push(void);' '' 'int main(void)' '{' $'\treturn list_push();' '}'
	plant user/b/other.c 'int main(void)' '{' $'\treturn 0;' '}'
}

# expect LINE...: these are found, and nothing else.
expect() {
	local found status=0
	found=$(cd "$scratch" && "$top/tests/lint-c-names" user) || status=$?
	[[ $found == "$(printf '%s\n' "$@")" ]] || fail "finds $found"
	((status == ($# > 0))) || fail "exits with $status"
}

a_clean_tree_passes() {
	plant_clean_tree
	expect
}

a_static_function_in_two_files_fails() {
	plant_clean_tree
	plant user/b/queue.c '' 'static int list_push(void)' '{' '}'
	expect "user/a/list.c:8: list_push() is also in user/b/queue.c" \
		"user/b/queue.c:16: list_push() is also in user/a/list.c"
}

a_static_function_with_a_public_name_fails() {
	plant_clean_tree
	plant user/b/queue.c '' '__attribute__((format(printf, 1, 2))) static struct list *' \
		'list_size(const char *format,' $'\t...)' '{' '}'
	expect "user/b/queue.c:17: list_size() is also in user/a/list.c"
}

a_static_function_of_one_word_fails() {
	plant_clean_tree
	plant user/b/queue.c '' 'static int push(void)' '{' '}'
	expect "user/b/queue.c:16: push() does not say where it is: one word"
}

a_struct_in_two_files_fails() {
	plant_clean_tree
	plant user/b/queue.c '' 'struct list {' $'\tint size;' '};'
	expect "struct list is in user/a/list.c user/b/queue.c"
}

a_keyword_of_another_language_fails() {
	plant_clean_tree
	plant user/b/queue.c '' 'static int queue_pop(int new)' '{' '}'
	expect "user/b/queue.c:16: 'new' is a keyword of C++"
}

run_test a_clean_tree_passes
run_test a_static_function_in_two_files_fails
run_test a_static_function_with_a_public_name_fails
run_test a_static_function_of_one_word_fails
run_test a_struct_in_two_files_fails
run_test a_keyword_of_another_language_fails
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# tests/lint-includes: finds each kind of violation that is planted in a copy of a clean tree.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# plant FILE [INCLUDED...]: writes a file of the tree that includes these.
plant() {
	mkdir -p "$(dirname "$scratch/$1")"
	printf '#include "%s"\n' "${@:2}" linux/types.h >"$scratch/$1"
}

# list DIR ENTRY...: writes the README.md of a directory.
list() {
	{
		printf 'Top to bottom.\n\n```\n%s/\n' "$1"
		printf '  %-8s what it holds, in: any words/\n' "${@:2}"
		printf '```\n'
	} >"$scratch/$1/README.md"
}

plant_clean_trees() {
	rm -rf "${scratch:?}"/*
	plant kmod/sampler.c sampler.h ring.h stackbeat.h
	plant kmod/sampler.h ring.h compat/compat.h
	plant kmod/ring.h
	plant kmod/ring.c ring.h compat/compat-config.h
	plant kmod/compat/compat.h compat/compat-config.h
	list kmod sampler ring compat/
	plant user/cli/main.c cli/options.h lib/array.h
	plant user/cli/options.c cli/options.h
	plant user/cli/options.h lib/array.h
	plant user/lib/array.c lib/array.h
	plant user/lib/array.h
	plant user/lib/hash.c array.h
	list user cli/ lib/
}

# expect_clean: nothing is found in the trees.
expect_clean() {
	local found
	found=$(cd "$scratch" && "$top/tests/lint-includes" kmod user) || fail "exits with $?: $found"
	[[ -z $found ]] || fail "finds $found"
}

# expect LINE...: these are found, and nothing else.
expect() {
	local found
	! found=$(cd "$scratch" && "$top/tests/lint-includes" kmod user) || fail "exits with 0"
	[[ $found == "$(printf '%s\n' "$@")" ]] || fail "finds $found"
}

a_clean_tree_passes() {
	plant_clean_trees
	expect_clean
}

an_include_of_a_room_above_fails() {
	plant_clean_trees
	plant user/lib/hash.c lib/array.h cli/options.h
	expect "user/lib/hash.c: includes cli/options.h, which is above lib/"
}

a_circle_within_a_room_fails() {
	plant_clean_trees
	plant user/lib/array.c lib/array.h lib/hash.h
	plant user/lib/hash.h lib/array.h
	expect "user: units include each other: lib/array -> lib/hash -> lib/array"
}

a_circle_of_files_fails() {
	plant_clean_trees
	plant kmod/ring.c ring.h sampler.h
	expect "kmod/ring.c: includes sampler.h, which is above ring" \
		"kmod: units include each other: ring -> sampler -> ring"
}

a_unit_that_is_not_listed_fails() {
	plant_clean_trees
	plant kmod/space.c ring.h
	expect "kmod/README.md: space is not listed"
}

a_room_that_is_not_listed_fails() {
	plant_clean_trees
	plant user/report/units.c lib/array.h
	expect "user/README.md: report/ is not listed"
}

an_entry_without_files_fails() {
	plant_clean_trees
	list kmod sampler space ring compat/
	expect "kmod/README.md: there are no files of space"
}

an_entry_that_is_listed_twice_fails() {
	plant_clean_trees
	list user cli/ lib/ cli/
	expect "user/README.md: cli/ is listed 2 times"
}

a_directory_without_an_order_fails() {
	plant_clean_trees
	rm "$scratch/user/README.md"
	expect "user/README.md: no block that begins with user/"
}

run_test a_clean_tree_passes
run_test an_include_of_a_room_above_fails
run_test a_circle_within_a_room_fails
run_test a_circle_of_files_fails
run_test a_unit_that_is_not_listed_fails
run_test a_room_that_is_not_listed_fails
run_test an_entry_without_files_fails
run_test an_entry_that_is_listed_twice_fails
run_test a_directory_without_an_order_fails
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# README.md and docs/: the commands in their examples are accepted by this stackbeat, and their links
# lead to files.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$top"

# examples FILE...: the commands of stackbeat in console blocks, without comments, redirections and what follows them.
examples() {
	awk '/^```/ { inside = /console/ && !inside } inside && /^[#$] stackbeat / { print substr($0, 3) }' "$@" |
		sed -E 's/ +# .*//; s/; stackbeat/\nstackbeat/; s/ *(>|&( |$)).*//'
}

examples_are_accepted() {
	local words at count=0
	while read -ra words; do
		for ((at = 2; at < ${#words[@]}; at++)); do
			[[ ${words[at]} != -- ]] || break
		done
		"$stackbeat" "${words[@]:1:at-1}" --help "${words[@]:at}" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null ||
			fail "${words[*]}: $(cat "$scratch/stderr")"
		grep -q "^Usage: stackbeat ${words[1]}" "$scratch/stdout" || fail "${words[*]}: was not parsed"
		count=$((count + 1))
	done < <(examples README.md docs/*.md)
	((count >= 20)) || fail "there are only $count examples"
}

links_lead_to_files() {
	local file link
	for file in README.md CONTRIBUTING.md SECURITY.md docs/*.md; do
		while read -r link; do
			[[ $link == *://* || -e $(dirname "$file")/$link ]] || fail "$file: there is no $link"
		done < <(grep -oE '\]\([^)#]+' "$file" | cut -c 3-)
	done
}

run_test examples_are_accepted
run_test links_lead_to_files
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The man pages, which man/generate makes of man/stackbeat.1 and --help: they have the same subcommands and options as
# --help, and format without warnings.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/options.bash"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
pages=$scratch/pages

# pages_with_text: the pages that do not only refer to another one.
pages_with_text() {
	grep -L '^\.so ' "$pages"/*
}

each_subcommand_has_a_page() {
	"$top/man/generate" "$stackbeat" "$pages" || fail "man/generate fails"
	[[ $(cd "$pages" && ls) == "$( (echo stackbeat.1; subcommands | sed 's/.*/stackbeat-&.1/') | sort)" ]] ||
		fail "there are $(ls "$pages")"
}

pages_have_options_of_help() {
	local command page text option
	for command in $(subcommands); do
		page=$pages/stackbeat-$command.1
		! grep -q '^\.so ' "$page" || page=$pages/$(sed -n 's|^\.so man1/||p' "$page")
		text=$(sed 's/\\-/-/g' "$page")
		grep -qE "^\.SY \"stackbeat $command\"" "$page" || fail "$command: no synopsis"
		grep -qE "\bstackbeat\\\\-$command\b" "$page" || fail "$command: no name"
		grep -q "^\.BR stackbeat.-$command (1)" "$pages/stackbeat.1" || fail "$command: stackbeat(1) has it not"
		for option in $(options_of "$command" | awk '{ if ($1 != "-") print $1; if ($2 != "--") print $2 }'); do
			grep -qE -- "^\.[A-Z]+ .*$option\b" <<<"$text" || fail "$command: $option is not there"
		done
	done
}

# refuses MESSAGE SED-SCRIPT: man/generate fails with MESSAGE after this change of its source.
refuses() {
	local output
	mkdir -p "$scratch/man"
	cp "$top/man/generate" "$scratch/man"
	sed "$2" "$top/man/stackbeat.1" >"$scratch/man/stackbeat.1"
	! output=$("$scratch/man/generate" "$stackbeat" "$scratch/other" 2>&1) || fail "$2 is accepted"
	[[ $output == *"$1"* ]] || fail "$2: $output"
}

differences_from_help_are_refused() {
	refuses "record: not both in --help and in man/stackbeat.1: --budget" '/^\.BI.*\\-\\-budget/d'
	refuses "report: not both in --help and in man/stackbeat.1: --other" 's/^\.BR \\-n .*\\-\\-rows/.BR \\-\\-other/
		/^\.SH REPORT/,/^\.SH FLAME/s/^\.TP$/&\n.B \\-\\-other\nText.\n.TP/'
	refuses "stack: no section" 's/^\.SH STACK/.SH OTHER/'
}

mandoc_has_no_complaints() {
	local complaints
	complaints=$(pages_with_text | xargs mandoc -Tlint -W style 2>&1) || true
	[[ -z $complaints ]] || fail "$complaints"
}

groff_has_no_complaints() {
	local complaints
	complaints=$(pages_with_text | xargs -n 1 groff -man -ww -z 2>&1) || true
	[[ -z $complaints ]] || fail "$complaints"
}

run_test each_subcommand_has_a_page
run_test pages_have_options_of_help
run_test differences_from_help_are_refused
for formatter in mandoc groff; do
	if command -v $formatter >/dev/null; then
		run_test ${formatter}_has_no_complaints "$formatter has no complaints about the man pages"
	else
		echo "ok $formatter has no complaints about the man pages # SKIP no $formatter here"
	fi
done
exit "$any_failed"

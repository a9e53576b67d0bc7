#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The man page: it formats without warnings, and has the same subcommands and options as --help.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/options.bash"
page=$top/man/stackbeat.1

# section NAME: the text of the sections with NAME in the heading, with \- as a hyphen.
section() {
	sed 's/\\-/-/g' "$page" | awk -v name="$1" '
		/^\.SH / { inside = index($0, name) > 0 }
		inside { print }'
}

# option_names: the short and long options in the output of options_of.
option_names() {
	awk '{ if ($1 != "-") print $1; if ($2 != "--") print $2 }'
}

man_page_has_options_of_help() {
	local command option text
	for command in $(subcommands); do
		grep -q "^\.SY \"stackbeat $command\"" "$page" || fail "$command: no synopsis"
		text=$(section "${command^^}")
		[[ $text ]] || fail "$command: no section"
		for option in $(options_of "$command" | option_names); do
			# The options of all commands are described once.
			[[ $option == -h || $option == --help ]] ||
				grep -qE -- "^\.[A-Z]+ .*$option\b" <<<"$text" ||
				fail "$command: $option is not there"
		done
	done
}

# The tagged paragraphs of options, in all sections.
help_has_options_of_the_man_page() {
	local command option known
	known=" --help $(for command in $(subcommands); do options_of "$command"; done | option_names | tr '\n' ' ')"
	for option in $(sed 's/\\-/-/g' "$page" | grep -A1 '^\.T[PQ]' | grep -E '^\.B[A-Z]* "?-' |
		grep -oE -- '(^| |")--?[a-zA-Z][a-z-]*' | tr -d ' "'); do
		[[ $known == *" $option "* ]] || fail "$option is in the man page only"
	done
}

mandoc_has_no_complaints() {
	local complaints
	complaints=$(mandoc -Tlint -W style "$page" 2>&1) || true
	[[ -z $complaints ]] || fail "$complaints"
}

groff_has_no_complaints() {
	local complaints
	complaints=$(groff -man -ww -z "$page" 2>&1) || true
	[[ -z $complaints ]] || fail "$complaints"
}

run_test man_page_has_options_of_help
run_test help_has_options_of_the_man_page
for formatter in mandoc groff; do
	if command -v $formatter >/dev/null; then
		run_test ${formatter}_has_no_complaints "$formatter has no complaints about the man page"
	else
		echo "ok $formatter has no complaints about the man page # SKIP no $formatter here"
	fi
done
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The man page: it formats without a warning, and has each subcommand and option of --help.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
page=$top/man/stackbeat.1

# section NAME: the text of this section, in which \- is a hyphen.
section() {
	sed 's/\\-/-/g' "$page" | awk -v name="$1" '
		/^\.SH / { inside = index($0, name) > 0 }
		inside { print }'
}

# options COMMAND: the short and long ones that its --help lists.
options() {
	"$stackbeat" "$1" --help | grep -oE '^ +(-.|--[a-z-]+)(, --[a-z-]+)?' | grep -oE -- '--?[a-zA-Z-]+'
}

the_man_page_has_what_help_lists() {
	local command option text
	for command in $("$stackbeat" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		grep -q "^\.SY \"stackbeat $command\"" "$page" || fail "$command: no synopsis"
		text=$(section "${command^^}")
		[[ $text ]] || fail "$command: no section"
		for option in $(options "$command"); do
			# Those of all commands have one place.
			[[ $option == -h || $option == --help ]] ||
				grep -qE -- "^\.[A-Z]+ .*$option\b" <<<"$text" ||
				fail "$command: $option is not there"
		done
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

run_test the_man_page_has_what_help_lists
for formatter in mandoc groff; do
	if command -v $formatter >/dev/null; then
		run_test ${formatter}_has_no_complaints "$formatter has no complaints about the man page"
	else
		echo "ok $formatter has no complaints about the man page # SKIP no $formatter here"
	fi
done
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The man page: it formats without a warning, and has each subcommand and option of --help.

set -euo pipefail

page=$(dirname "${BASH_SOURCE[0]}")/../../man/stackbeat.1
stackbeat=${B:-build}/stackbeat
failed=0

fail() {
	printf 'man: %s\n' "$*" >&2
	failed=1
}

# Without the formatters there is nothing to see.
if command -v mandoc >/dev/null; then
	mandoc -Tlint -W style "$page" || fail "mandoc has complaints"
fi
if command -v groff >/dev/null; then
	complaints=$(groff -man -ww -z "$page" 2>&1)
	[[ -z $complaints ]] || fail "$complaints"
fi

# section NAME: the text of this section, in which \- is a hyphen.
section() {
	sed 's/\\-/-/g' "$page" | awk -v name="$1" '
		/^\.SH / { inside = index($0, name) > 0 }
		inside { print }'
}

while read -r command; do
	grep -q "^\.SY \"stackbeat $command\"" "$page" || fail "$command is not in the synopsis"
	text=$(section "${command^^}")
	[[ -n $text ]] || fail "$command has no section"
	while read -r option; do
		# Those of all commands have one place.
		[[ $option == -h || $option == --help ]] ||
			grep -qE -- "^\.[A-Z]+ .*$option\b" <<<"$text" ||
			fail "$command: $option is not there"
	done < <("$stackbeat" "$command" --help | grep -oE '^ +(-.|--[a-z-]+)(, --[a-z-]+)?' |
		grep -oE -- '--?[a-zA-Z-]+')
done < <("$stackbeat" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')

((failed)) || echo "man: passed"
exit "$failed"

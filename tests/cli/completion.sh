#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The completion for bash, with and without the bash-completion package. tests/cli/completion_shells.sh has the other shells.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/options.bash"

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$top/completions/generate" "$stackbeat" "$made"
# shellcheck source=../../completions/stackbeat
. "$made/stackbeat"

# complete_words WORD...: sets COMPREPLY for the last word, and `compopt_args` to the arguments of compopt.
complete_words() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMP_LINE=$*
	COMP_POINT=${#COMP_LINE}
	COMPREPLY=()
	compopt_args=
	_stackbeat || true
}

# Outside of a completion, the builtin prints an error.
compopt() {
	compopt_args="$*"
}

sorted_words() {
	tr -s '[:space:]' '\n' <<<"$*" | sort -u | tr '\n' ' '
}

# offers EXPECTED WORD...: the last word has these completions, in any order, and no others.
offers() {
	local expected found
	expected=$(sorted_words "$1")
	shift
	complete_words "$@"
	found=$(sorted_words "${COMPREPLY[@]}")
	[[ $found == "$expected" && -z $compopt_args ]] ||
		fail "'$*': expected '$expected', found '$found' $compopt_args"
}

# has EXPECTED WORD...: this is one of the completions.
has() {
	local expected=$1 word
	shift
	complete_words "$@"
	for word in "${COMPREPLY[@]}"; do
		[[ $word != "$expected" ]] || return 0
	done
	fail "'$*': '$expected' is not offered"
}

# offers_files WORD...: file names, by readline itself.
offers_files() {
	complete_words "$@"
	[[ ${#COMPREPLY[@]} == 0 && $compopt_args == "-o default" ]] ||
		fail "'$*': expected file names, found '${COMPREPLY[*]}' $compopt_args"
}

completion_is_registered() {
	[[ $(complete -p stackbeat) == "complete -F _stackbeat stackbeat" ]] || fail "it is not"
}

completion_offers_process_ids() {
	has $$ stackbeat stack ''
	has $$ stackbeat goroutines ''
}

completion_offers_options_of_help() {
	local command
	offers "$(subcommands) help version --help --version" stackbeat ''
	offers "$(subcommands)" stackbeat help ''
	offers "" stackbeat help record ''
	for command in $(subcommands); do
		offers "--help $(options_of "$command" | grep -oE -- '--[a-z-]+')" stackbeat "$command" --
	done
}

completion_knows_which_options_have_values() {
	local command short long expects value option
	for command in $(subcommands); do
		while read -r short long expects; do
			for option in "$short" "$long"; do
				[[ $option != - && $option != -- ]] || continue
				value=
				_stackbeat_find_value "$option" || true
				[[ ${expects:+yes} == "${value:+yes}" ]] ||
					fail "$command $option: --help has value '$expects', completion '$value'"
			done
		done < <(options_of "$command")
	done
}

# Holds with the bash-completion package and without it.
completion_knows_options_and_values() {
	offers "record report rate resume" stackbeat r
	offers "--user" stackbeat record --us
	offers "--quiet" stackbeat record -p 1 -F 99 --q
	offers "99 997" stackbeat record -F 9
	offers "max" stackbeat record -aF m
	offers "max" stackbeat record --frequency = m
	offers "fp" stackbeat record --unwind = f
	offers "127 255 511 1023" stackbeat record --max-depth =
	offers "64K 64M" stackbeat record --ring-size 64
	offers "" stackbeat record -d ''
	has "$$" stackbeat record -p "$$"
	has "1,$$" stackbeat record -p "1,$$"
	has "$$" stackbeat record --pid = "$$"
	has 0 stackbeat record -C ''
	has 0,0 stackbeat record -C 0,
	offers "--top --tree" stackbeat report --t
	offers "" stackbeat report -n ''
	offers "comm cpu cgroup container" stackbeat report --group c
	offers "--label --labels" stackbeat record --lab
	offers "pid" stackbeat record --labels p
	offers "comm,thread,tid comm,thread,thread comm,thread,truncated" stackbeat record --labels = comm,thread,t
	offers "" stackbeat record --label ''
	offers_files stackbeat record --save-binaries /us
	offers "none" stackbeat flamegraph --group n
	offers "firefox" stackbeat export --format f
	offers "cpu" stackbeat flamegraph --sample-type c
	offers "--session" stackbeat rate --s
	offers "--session" stackbeat pause --s
	offers "--session" stackbeat resume --s
	offers "--json" stackbeat status --j
	offers "--json" stackbeat doctor --j
	offers "" stackbeat doctor ''
	offers "5 50" stackbeat record --budget 5
	offers "--frequency" stackbeat record --f
	has "$$" stackbeat record -t "$$"
	has "1,$$" stackbeat record -t "1,$$"
	has "$(<"/proc/$$/comm")" stackbeat record --exclude-comm ''
	offers "" stackbeat status ''
	offers "" stackbeat load rate_max =
	offers "" stackbeat no-such-command ''
	complete_words stackbeat load r
	[[ ${COMPREPLY[*]} == rate_max= && $compopt_args == "-o nospace" ]] || fail "load: no parameter"
	complete_words stackbeat load rate_max = 99 unp
	[[ ${COMPREPLY[*]} == unprivileged= ]] || fail "load: no second parameter"
}

completion_knows_files() {
	offers_files stackbeat record -o ''
	offers_files stackbeat record --output = pro
	offers_files stackbeat report ''
	offers_files stackbeat report --tree prof
	offers_files stackbeat flamegraph ''
	offers_files stackbeat flamegraph -o ''
	offers_files stackbeat flamegraph --diff ''
	offers_files stackbeat report --diff = prof
	offers_files stackbeat symbolize --binaries ''
	offers_files stackbeat symbolize ''
	offers_files stackbeat archive -o ''
	offers_files stackbeat archive ''
}

completion_knows_commands() {
	has sleep stackbeat record slee
	has sleep stackbeat record -- slee
	has sleep stackbeat record -F 99 -agp 1 slee
	has sleep stackbeat record --output = file --user slee
}

completion_knows_sessions() {
	local directory
	directory=$(mktemp -d)
	cat >"$directory/stackbeat" <<-'EOF'
		#!/bin/sh
		echo "module 0.1.0, interface 1, rate_max 20000 Hz, 2 sessions"
		echo "SESSION  OWNER"
		echo "     12  stackbeat (77)"
		echo "    117  stackbeat (78)"
	EOF
	chmod +x "$directory/stackbeat"
	offers "12 117" "$directory/stackbeat" rate --session 1
	offers "117" "$directory/stackbeat" rate -s 11
	offers "12 117" "$directory/stackbeat" pause --session 1
	offers "12" "$directory/stackbeat" resume -s 12
	rm -r "$directory"
}

completion_of_arguments_without_the_package() {
	offers_files stackbeat record -- sleep ''
	offers_files stackbeat record sleep --user --u
}

# A fake function of the package shows the offset that it is called with.
completion_of_arguments_is_delegated_to_the_command() {
	_command_offset() {
		COMPREPLY=("from-$1")
	}
	offers from-3 stackbeat record -- make --u
	offers from-2 stackbeat record make -o x --u
	offers from-5 stackbeat record -o file -- make
	offers from-5 stackbeat record --output = file make -
	unset -f _command_offset
}

completion_with_the_package() {
	set +eu
	# shellcheck disable=SC1091
	. /usr/share/bash-completion/bash_completion
	completion_knows_options_and_values
	completion_knows_files
	completion_knows_commands
	complete -W "alpha beta" some-command
	offers "beta" stackbeat record -F 99 -- some-command b
	set -eu
}

run_test completion_is_registered
run_test completion_offers_options_of_help
run_test completion_offers_process_ids
run_test completion_knows_which_options_have_values
run_test completion_knows_options_and_values
run_test completion_knows_files
run_test completion_knows_commands
run_test completion_knows_sessions
run_test completion_of_arguments_without_the_package
run_test completion_of_arguments_is_delegated_to_the_command
if [[ -r /usr/share/bash-completion/bash_completion ]]; then
	run_test completion_with_the_package
else
	echo "ok completion with the package # SKIP bash-completion is not installed"
fi
exit "$any_failed"

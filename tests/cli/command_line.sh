#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every subcommand: what it makes of a wrong command line, and of --help.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# refuses MESSAGE ARGUMENT...: exit status 2, nothing but one line with this in it, nothing done.
refuses() {
	local message=$1 status=0 output
	shift
	output=$("$stackbeat" "$@" 2>&1 >"$scratch/stdout" </dev/null) || status=$?
	((status == 2)) || fail "'$*': exit status $status"
	[[ $output == "stackbeat"*": "*"$message"* && $output != *$'\n'* ]] || fail "'$*': '$output'"
	[[ ! -s $scratch/stdout ]] || fail "'$*': printed '$(cat "$scratch/stdout")'"
	rm "$scratch/stdout"
	[[ -z $(ls -A "$scratch") ]] || fail "'$*': left $(ls -A "$scratch")"
}

wrong_command_lines_are_refused_with_one_line() {
	local command
	refuses "no command 'no-such'" no-such
	refuses "no command '--no-such'" --no-such
	refuses "no command 'a?b'" $'a\nb'
	for command in record report flamegraph rate; do
		refuses "'--no-such'" "$command" --no-such
		refuses "'-Z'" "$command" -Z
		refuses "'--help=1': takes no value" "$command" --help=1
	done
	refuses "-F: its value is missing" record -F
	refuses "-F" record -F 0 -- true
	refuses "-a and -p" record -a -p 1
	refuses "which file?" report
	refuses "one file at a time" report a b
	refuses "--rows: its value is missing" report a --rows
	refuses "'x' is not a number" report -n x a
	refuses "' -5' is not a number" report -n ' -5' a
	refuses "'101' is no percentage" report --min-percent 101 a
	refuses "'nan' is no percentage" report --min-percent nan a
	refuses "'1?' is no percentage" report --min-percent $'1\n' a
	refuses "which file?" flamegraph -o a
	refuses "-o: its value is missing" flamegraph -o
	refuses "one file at a time" flamegraph a b
	refuses "--session: its value is missing" rate --session
	refuses "--session: '0'" rate 99 --session 0
	refuses "'20001' is not a number" rate 20001
	refuses "one rate" rate 99 100
	for command in pause resume; do
		refuses "'--no-such'" "$command" --no-such
		refuses "'--help=1': takes no value" "$command" --help=1
		refuses "--session: its value is missing" "$command" --session
		refuses "--session: '0'" "$command" --session 0
		refuses "not 'x'" "$command" x
	done
	refuses "not 'x'" events x
	refuses "not '--no-such'" events --no-such
	refuses "'--no-such'" status --no-such
	refuses "'--json=1': takes no value" status --json=1
	refuses "-t or -G" record -a -t 1
	refuses "--budget: '51'" record --budget 51
	refuses "--exclude-comm" record --exclude-comm 'sixteen letters.'
	refuses "-G: its value is missing" record -G
	refuses "--labels: 'name' is none of comm," record --labels comm,name
	refuses "--label: 'build' is not KEY=VALUE" record --label build
	refuses "--label: 'comm' is a label" record --label comm=make
	refuses "--save-binaries: the directory is empty" record --save-binaries ""
	refuses "which file?" symbolize
	refuses "one file at a time" symbolize a b
	refuses "--binaries: its value is missing" symbolize --binaries
	refuses "a path is empty" symbolize -o "" a
	refuses "which file?" archive -q
	refuses "one file at a time" archive a b
	refuses "the standard input gives the archive no name" archive -
	refuses "'x'" status x
	refuses "'x?'" status $'x\n'
	refuses "'x'" unload x
	refuses "'x?'" unload $'x\n'
	refuses "NAME=VALUE" load x
	refuses "NAME=VALUE" load =1
	refuses "NAME=VALUE" load 'a=1 b=2'
	refuses "NAME=VALUE" load $'a=1\nb=2'
}

no_command_shows_the_usage() {
	local status=0
	"$stackbeat" 2>"$scratch/stderr" || status=$?
	((status == 2)) || fail "exit status $status"
	cmp "$scratch/stderr" <("$stackbeat" --help) || fail "it is not what --help shows"
	rm "$scratch/stderr"
}

help_goes_to_the_standard_output() {
	local command option
	for command in '' record report flamegraph load unload status rate pause resume events; do
		for option in -h --help; do
			# shellcheck disable=SC2086 # the first one is no word
			"$stackbeat" $command $option >"$scratch/stdout" 2>"$scratch/stderr" ||
				fail "$command $option: exit status $?"
			grep -q "^Usage: stackbeat ${command:-COMMAND}" "$scratch/stdout" ||
				fail "$command $option: no usage"
			[[ ! -s $scratch/stderr ]] || fail "$command $option: $(cat "$scratch/stderr")"
			! grep -qE '.{91}' "$scratch/stdout" || fail "$command $option: a line is too long"
		done
	done
	rm "$scratch/stdout" "$scratch/stderr"
}

what_can_not_be_read_is_an_error() {
	local command status
	for command in report flamegraph; do
		status=0
		"$stackbeat" "$command" /no/such >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
		((status == 1)) || fail "$command: exit status $status"
		[[ $(<"$scratch/stderr") == "stackbeat $command: /no/such: No such file or directory" ]] ||
			fail "$command: $(<"$scratch/stderr")"
		[[ ! -s $scratch/stdout ]] || fail "$command: $(<"$scratch/stdout")"
	done
	rm "$scratch/stdout" "$scratch/stderr"
	[[ -z $(ls -A "$scratch") ]] || fail "left $(ls -A "$scratch")"
}

# A file that takes the place of a stream would be read from, or written to by a message.
closed_streams_are_no_files() {
	local stream link writer
	for stream in 0 1 2; do
		mkfifo "$scratch/pipe"
		(
			eval "exec $stream>&-"
			exec "$stackbeat" report "$scratch/pipe"
		) 2>/dev/null &
		# Opened once it is there to be read.
		exec {writer}>"$scratch/pipe"
		link=$(readlink "/proc/$!/fd/$stream") || true
		exec {writer}>&-
		wait $! || true
		[[ $link == /dev/null ]] || fail "$stream is $link"
		rm "$scratch/pipe"
	done
}

run_test wrong_command_lines_are_refused_with_one_line
run_test no_command_shows_the_usage
run_test help_goes_to_the_standard_output
run_test what_can_not_be_read_is_an_error
run_test closed_streams_are_no_files
exit "$any_failed"

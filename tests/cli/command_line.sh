#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Every subcommand: wrong command lines, and --help.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/options.bash"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# refuses MESSAGE ARGUMENT...: exit status 2, one line with MESSAGE on standard error, nothing done.
refuses() {
	local message=$1 status=0
	shift
	output=$(timeout "$hang" "$stackbeat" "$@" 2>&1 >"$scratch/stdout" </dev/null) || status=$?
	((status == 2)) || fail "'$*': exit status $status"
	[[ $output == "stackbeat"*": "*"$message"* && $output != *$'\n'* ]] || fail "'$*': '$output'"
	[[ ! -s $scratch/stdout ]] || fail "'$*': printed '$(cat "$scratch/stdout")'"
	rm "$scratch/stdout"
	[[ -z $(ls -A "$scratch") ]] || fail "'$*': left $(ls -A "$scratch")"
}

# accepts COMMAND OPTION...: with --help after these, which is all that is done then.
accepts() {
	"$stackbeat" "$@" --help >"$scratch/stdout" 2>"$scratch/stderr" </dev/null ||
		fail "'$*': exit status $?"
	[[ ! -s $scratch/stderr ]] || fail "'$*': '$(<"$scratch/stderr")'"
	grep -q "^Usage: stackbeat $1" "$scratch/stdout" || fail "'$*': no usage"
	rm "$scratch/stdout" "$scratch/stderr"
	[[ -z $(ls -A "$scratch") ]] || fail "'$*': left $(ls -A "$scratch")"
}

# bounds MIN MAX COMMAND OPTION: a number, from MIN to MAX.
bounds() {
	local min=$1 max=$2
	shift 2
	accepts "$@" "$min"
	accepts "$@" "$max"
	refuses "'$((min - 1))' is not a number from $min to $max" "$@" $((min - 1))
	refuses "'$((max + 1))' is not a number from $min to $max" "$@" $((max + 1))
}

# Nothing is recorded, so this needs no module.
bad_options_are_refused() {
	refuses '' record -d 1 -F
	refuses '' record -d 1 -F 0
	refuses '' record -d 1 -F 20001
	refuses '' record -d 1 -F -1
	refuses '' record -d 1 -F '9 9'
	refuses '' record -d 1 -F 1e3
	refuses '' record -d 1 -F ''
	refuses '' record -d 1 -p
	refuses '' record -d 1 -p ''
	refuses '' record -d 1 -p x
	refuses '' record -d 1 -p 1,
	refuses '' record -d 1 -p ,1
	refuses '' record -d 1 -p 0
	refuses '' record -d 1 -p 1,-2
	refuses '' record -d 1 -p 99999999999
	refuses '' record -d 1 -C ''
	refuses '' record -d 1 -C x
	refuses '' record -d 1 -C 1-0
	refuses '' record -d 1 -C 0-
	refuses '' record -d 1 -C 99999
	refuses '' record -d 1 -d 0
	refuses '' record -d 1 -d -1
	refuses '' record -d 1 -d x
	refuses '' record -d 1 -d nan
	refuses '' record -d 1 -d inf
	refuses '' record -d 1 -d 1s
	refuses '' record -d 1 --max-depth 0
	refuses '' record -d 1 --max-depth 1024
	refuses '' record -d 1 --max-depth x
	refuses '' record -d 1 --user --kernel
	refuses '' record -d 1 -a -p 1
	refuses '' record -d 1 -o ''
	refuses '' record -d 1 -o
	refuses '' record -d 1 -Z
	refuses '' record -d 1 --nonsense
	refuses '' record -d 1 --user=1
	refuses '' rate x
	refuses '' rate 0
	refuses '' rate 99 --session
	refuses '' load nonsense
}

# Unit tests have the options of record, serve and push.
values_have_bounds() {
	local command word
	bounds 0 4294967295 report -n
	bounds 1 4294967295 rate -s
	bounds 1 2147483647 goroutines -p
	bounds 1 2147483647 stack -p
	bounds 1 2147483647 stack -t
	bounds 0 1048576 stack --words
	for command in symbolize goroutines stack; do
		bounds 1 604800 "$command" --symbolize-timeout
	done
	for command in symbolize archive goroutines stack; do
		for word in try require; do
			accepts "$command" --sandbox "$word"
			refuses "--sandbox: '${word}d' is neither 'try' nor 'require'" "$command" --sandbox "${word}d"
		done
	done
	accepts stack -g 1
	accepts stack -g 18446744073709551615
	refuses "-g: '18446744073709551616'" stack -g 18446744073709551616
	refuses "-g: '0'" stack -g 0
	refuses "-g: '1x'" stack -g 1x
	refuses "-g: ''" stack -g ''
	accepts report --min-percent 0
	accepts report --min-percent 100
	refuses "'100.1' is not a percentage" report --min-percent 100.1
	refuses "'-0.1' is not a percentage" report --min-percent -0.1
	refuses "no function: 'stackbeat report' lists the functions" annotate
	refuses "unexpected argument 'c'" annotate a b c
	refuses "unexpected argument 'c'" annotate -i a -s b c
	refuses "-M: 'arm' is neither att nor intel" annotate -M arm main
	refuses '' annotate -s ''
	accepts annotate --stdio -l -i file -s main
	accepts annotate -M intel main file
}

top_refuses_what_it_cannot_show() {
	refuses "'0' is not a number from 1 to" top -n 0
	refuses "-d: '0' is not a number of seconds from 0.1 to 3600" top -b -d 0
	refuses "-d: 'x' is not a number of seconds" top -b -d x
	refuses "-d: '1e3' is not a number of seconds" top -b -d 1e3
	refuses "--tab: 'x' is not functions, services, processes or containers" top --tab x
	refuses "--source: 'x' is not auto, module or perf" top --source x
	refuses "-a can't be combined with -p, -t or -G" top -a -p 1
	refuses "'stackbeat record' runs commands" top true
	refuses "-e: 'cycles' is not sampled" top -e cycles
	bounds 1 3600 top --window
	accepts top -b -d 0.1 -n 1 --tab containers --rows 0 -F 19 -g -a
}

# COMMAND OPTION: each has a hint, by its long name and by its letter.
options_of_perf_have_an_answer() {
	local command option hints=0
	while read -r command option; do
		refuses "unknown option '${option:0:2}" "$command" "$option" 1
		[[ $output == "stackbeat $command: unknown option '$option': "* ]] || fail "$command $option: $output"
		hints=$((hints + 1))
	done < <(sed -nE "s/^\t\{\"([a-z]+)\", \"(--[a-z_-]+)\", '(.)',.*/\1 \2\n\1 -\3/p; s/^\t\{\"([a-z]+)\", \"(--[a-z_-]+)\", 0,.*/\1 \2/p
		s/^\t\{\"([a-z]+)\", \"(-[A-Za-z])\", '.',.*/\1 \2/p" \
		"$top/user/cli/perf_hint.c")
	((hints > 200)) || fail "only $hints hints are tried"
	refuses "unknown option '-g': --tree prints the call tree" report -g
	refuses "unknown option '--no-children': leave it out" report --no-children
	refuses "unknown option '-D': sleep before" record -D 1000
	refuses "unknown option '-K': 'stackbeat record --user'" top -K
	# Of perf and of flamegraph.pl.
	for option in -k -f -q -n -P -D --tui --percent-type=local --objdump=x; do
		refuses "unknown option '$option': " annotate "$option" main
	done
	for option in -k --kcore --namespaces --all-cgroups --synth=all --user-callchains --no-bpf-event -A -S -W -M --dry-run --aio \
		--control=fd:3 --threads --vmlinux=x --strict-freq; do
		refuses "unknown option '$option': " record "$option" true
	done
	for option in --reverse --colors --width --height --fontsize --countname --nametype --hash --cp; do
		refuses "unknown option '$option': " flamegraph "$option" x
	done
	refuses "unknown option '--reverse': --inverted" flamegraph --reverse
	for option in -f -q -m -x -w -C -I --time=1,2 --hierarchy --no-inline --no-demangle -M; do
		refuses "unknown option '$option': " report "$option"
	done
	refuses "unknown option '--call-graph': leave it out" top --call-graph dwarf
	# A beginning of an option is no option of perf.
	refuses "unknown option '--hea'" report --hea
}

# What fingers that know perf and git type.
habits_have_an_answer() {
	local command
	local one_part="only one of --user, --all-user, --kernel and --all-kernel can be given"
	refuses "no command 'recrod'; did you mean 'record'?" recrod
	refuses "no command 'reprot'; did you mean 'report'?" reprot
	refuses "no command 'flamegrap'; did you mean 'flamegraph'?" flamegrap
	refuses "no command 'sta'; see 'stackbeat --help'" sta
	refuses "use 'stackbeat report --folded FILE'" script
	refuses "use 'stackbeat report --diff BASE FILE'" diff
	for command in bench buildid-cache buildid-list c2c daemon data evlist ftrace inject iostat kallsyms kmem kvm kwork \
		list lock mem probe sched stat test timechart trace; do
		refuses "there is no command '$command'; use '" "$command"
	done
	refuses "there is no command 'config'; use options" config
	refuses "unknown option '--frequncy'; did you mean '--frequency'?" record --frequncy 99
	refuses "ambiguous option '--sa': --save-binaries, --sandbox" record --sa x
	refuses "unknown option '--xyz'" record --xyz
	refuses "unknown option '-c': samples are of CPU time" record -c 1000
	refuses "unknown option '--count=7': samples are of CPU time" record --count=7
	accepts record -T
	accepts record -e cpu-clock
	accepts record -e task-clock:u
	accepts record -e cpu-clock:k
	refuses "-e: 'cycles' is not sampled" record -e cycles
	refuses "-e: 'cpu-clock:x' is not sampled" record -e cpu-clock:x
	refuses "$one_part" record -e cpu-clock:k --user
	refuses "-e: 'cpu-clock:k' means --kernel: $one_part" record --user -e cpu-clock:k
	refuses "-e: 'task-clock:u' means --user: $one_part" record -e cpu-clock:k -e task-clock:u
	accepts record --call-graph fp
	accepts record --call-graph dwarf
	accepts record --call-graph dwarf,16384
	refuses "--call-graph: there is no 'lbr' here" record --call-graph lbr
	refuses "unknown option '-c': samples" record -c100000 true
	for command in report export flamegraph; do
		refuses "unexpected argument 'x' beside --input" "$command" -i y x
	done
	accepts report -s comm,sym
	accepts report --csv --csv
	refuses "--json and --csv can't be combined" report --json --csv
	refuses "--json and --csv can't be combined" report --csv --json
	# Which lists the problems that its message leaves out.
	accepts annotate -v
	accepts record -i
	accepts record --all-user
	accepts record --all-kernel
	refuses "$one_part" record --all-user --all-kernel
	refuses "-i: the file name is empty" report -i ''
	refuses "--call-graph: 'x' is not fp or dwarf" record --call-graph x
	[[ $("$stackbeat" version) == "$("$stackbeat" --version)" ]] || fail "version"
	refuses "no command 'recrod'; did you mean 'record'?" help recrod
}

# keeps_from_terminal ARGUMENT...: one line on a terminal, status 2, nothing done.
keeps_from_terminal() {
	local status=0
	timeout "$hang" python3 -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$stackbeat" "$@" >"$scratch/stdout" </dev/null || status=$?
	((status == 2)) || fail "'$*': exit status $status"
	[[ $(<"$scratch/stdout") == "stackbeat $1: the output is no text, and standard output is a terminal: "*$'\r' ]] ||
		fail "'$*': $(<"$scratch/stdout")"
	rm "$scratch/stdout"
	[[ -z $(ls -A "$scratch") ]] || fail "'$*': left $(ls -A "$scratch")"
}

binary_output_is_kept_from_terminals() {
	keeps_from_terminal record -o - true
	keeps_from_terminal goroutines -o - 1
	keeps_from_terminal symbolize a -o -
	keeps_from_terminal symbolize -
	keeps_from_terminal archive a -o -
	keeps_from_terminal export --format perfetto -o - a
}

directories_of_debug_files_are_limited() {
	local options=() i
	for ((i = 0; i < 16; i++)); do
		options+=(--debug-dir "$i")
	done
	accepts symbolize "${options[@]}"
	refuses "--debug-dir: more than 16 directories" symbolize "${options[@]}" --debug-dir more
}

wrong_command_lines_are_refused_with_one_line() {
	local command
	refuses "no command 'no-such'" no-such
	refuses "unknown option '--no-such'; see 'stackbeat --help'" --no-such
	refuses "unknown option '-x'; see 'stackbeat --help'" -x
	for command in help --help; do
		refuses "unexpected argument 'x'" "$command" record x
	done
	for command in version --version; do
		refuses "unexpected argument 'x'" "$command" x
		refuses "unexpected argument 'x'" "$command" x y
		refuses "unexpected argument 'x'" "$command" x --help
		refuses "unexpected argument 'x'" "$command" --help x y
	done
	refuses "no command 'a?b'" $'a\nb'
	for command in record report flamegraph rate; do
		refuses "'--no-such'" "$command" --no-such
		refuses "'-Z'" "$command" -Z
		refuses "'--help=1': takes no value" "$command" --help=1
	done
	refuses "-F: its value is missing" record -F
	refuses "-F" record -F 0 -- true
	refuses "-a can't be combined with -p" record -a -p 1
	refuses "only one of the files can be standard input" report - a -
	refuses "--rows: its value is missing" report a --rows
	refuses "'x' is not a number" report -n x a
	refuses "' -5' is not a number" report -n ' -5' a
	refuses "'101' is not a percentage" report --min-percent 101 a
	refuses "'nan' is not a percentage" report --min-percent nan a
	refuses "--percent-limit: '101' is not a percentage" report --percent-limit 101 a
	refuses "--sort: 'comm,,sym' is not a list" report --sort comm,,sym a
	refuses "--sort: '' is not a list" report --sort '' a
	refuses "--sort: 'a,b,c,d,e,f,g,h,i' is not a list of 1 to 8 keys" report --sort a,b,c,d,e,f,g,h,i a
	for command in report flamegraph; do
		refuses "'a(' is not a regular expression: " "$command" --focus 'a(' a
		refuses "'*[' is not a regular expression: " "$command" --hide '*[' a
	done
	refuses "--format is missing: firefox, perfetto or speedscope" export a
	refuses "'svg' is not firefox, perfetto or speedscope" export --format svg a
	refuses "'a(' is not a regular expression: " export --format firefox --focus 'a(' a
	refuses "'1?' is not a percentage" report --min-percent $'1\n' a
	refuses "-o: its value is missing" flamegraph -o
	for command in report flamegraph; do
		refuses "--diff: its value is missing" "$command" --diff
		refuses "--absolute needs --diff" "$command" --absolute a
		refuses "--diff: only one of both files can be standard input" "$command" --diff - -
	done
	refuses "--session: its value is missing" rate --session
	refuses "-s: '0'" rate 99 --session 0
	refuses "'20001' is not a number" rate 20001
	refuses "more than one rate: '100'" rate 99 100
	for command in pause resume; do
		refuses "'--no-such'" "$command" --no-such
		refuses "'--help=1': takes no value" "$command" --help=1
		refuses "--session: its value is missing" "$command" --session
		refuses "-s: '0'" "$command" --session 0
		refuses "not 'x'" "$command" x
	done
	refuses "not 'x'" events x
	refuses "unexpected argument 'x'" serve x
	refuses "'1001' is not a number" serve -F 1001
	refuses "--store-size: '1K' is not a size" serve --store-size 1K
	refuses "no multiple of 7 seconds" serve --window 7
	refuses "--store: the directory is empty" serve --store ''
	refuses "no URL is given" push
	refuses "no file is given" push http://localhost
	refuses "--store can't be combined with files" push --store . http://localhost a
	refuses "--state: needs --store" push --state a http://localhost b
	refuses "--metrics: needs --store" push --metrics a http://localhost b
	refuses "--to: 'otlp' is none of pyroscope, parca, pprof" push --to otlp http://localhost a
	refuses "--label: 'a' is not KEY=VALUE" push --label a http://localhost b
	refuses "--label: 'a-b' is not a name" push --label a-b=c http://localhost b
	refuses "--label: '__a' is not a name" push --label __a=c http://localhost b
	refuses "--label: 'service_name' is reserved" push --label service_name=c http://localhost b
	refuses "--label: 'a' is given twice" push --label a=b --label a=c http://localhost b
	refuses "--label can't be combined with --to pprof" push --to pprof --label a=b http://localhost b
	refuses "--max-services: '1'" push --max-services 1 http://localhost b
	refuses "--max-samples: '1'" push --max-samples 1 http://localhost b
	refuses "--max-size: '1K' is not a size" push --max-size 1K http://localhost b
	refuses "not '--no-such'" events --no-such
	refuses "'--no-such'" status --no-such
	refuses "'--json=1': takes no value" status --json=1
	refuses "-t or -G" record -a -t 1
	refuses "--budget: '51'" record --budget 51
	refuses "--exclude-comm" record --exclude-comm 'sixteen letters.'
	refuses "-G: its value is missing" record -G
	refuses "--labels: 'name' is none of comm," record --labels comm,name
	refuses "--label: 'build' is not KEY=VALUE" record --label build
	refuses "--label: 'comm' is reserved by stackbeat" record --label comm=make
	refuses "--snapshot: '0.5' is less than a second" record --snapshot 0.5
	refuses "--rotate: 'x' is not a number of seconds" record --rotate x
	refuses "--snapshot and --rotate can't be combined" record --snapshot 1 --rotate 1
	refuses "--snapshot can't be combined with -o -" record --snapshot 1 -o -
	refuses "--rotate can't be combined with -o -" record -o - --rotate 1
	refuses "--memory: '1M' is not a size from 16M" record --memory 1M
	refuses "--memory: '2T' is not a size from 16M" record --memory 2T
	refuses "--save-binaries: the directory is empty" record --save-binaries ""
	refuses "--go-hide-runtime and --no-symbolize can't be combined" record --go-hide-runtime --no-symbolize
	refuses "no file is given" symbolize
	refuses "more than one file is given" symbolize a b
	refuses "--binaries: its value is missing" symbolize --binaries
	refuses "-o: the file name is empty" symbolize -o "" a
	refuses "--symbolize-timeout: ''" symbolize --symbolize-timeout "" a
	refuses "no file is given" archive -q
	refuses "more than one file is given" archive a b
	refuses "-o: missing" archive -
	refuses "no process ID is given" goroutines
	refuses "-p: '0'" goroutines -p 0
	refuses "not '4711'" goroutines -p 1 4711
	refuses "-o: the file name is empty" goroutines -p 1 -o ''
	refuses "--text and --no-symbolize can't be combined" goroutines -p 1 --text --no-symbolize
	refuses "no process ID is given" stack -t 1
	refuses "a process ID: 'x'" goroutines x
	refuses "not '2'" stack 1 2
	refuses "-t: 'x'" stack -p 1 -t x
	refuses "-g: '-1' is not the number of a goroutine" stack -p 1 -g -1
	refuses "-t and -g can't be combined" stack -p 1 -t 1 -g 1
	refuses "--words: '-1'" stack -p 1 --words -1
	refuses "not 'x'" stack -p 1 x
	refuses "'x'" status x
	refuses "'x?'" status $'x\n'
	refuses "'x'" unload x
	refuses "'x?'" unload $'x\n'
	refuses "NAME=VALUE" load x
	refuses "NAME=VALUE" load =1
	refuses "NAME=VALUE" load 'a=1 b=2'
	refuses "NAME=VALUE" load $'a=1\nb=2'
}

# An option of --help that getopt_long() doesn't know would be an unknown option.
options_of_help_are_parsed() {
	local command short long value count
	for command in $(subcommands); do
		count=0
		while read -r short long value; do
			((++count))
			if [[ $value ]]; then
				[[ $long == -- ]] || refuses "$long: its value is missing" "$command" "$long"
				[[ $short == - ]] || refuses "$short: its value is missing" "$command" "$short"
			else
				[[ $long == -- ]] || refuses "'$long=1': takes no value" "$command" "$long=1"
				[[ $short == - ]] || refuses "'--no-such'" "$command" "$short" --no-such
			fi
		done < <(options_of "$command")
		# These have no options but --help.
		[[ $count != 0 || $command =~ ^(load|unload|events)$ ]] || fail "$command: --help lists no options"
	done
}

no_command_shows_the_usage() {
	local status=0
	"$stackbeat" 2>"$scratch/stderr" || status=$?
	((status == 2)) || fail "exit status $status"
	cmp "$scratch/stderr" <("$stackbeat" --help) || fail "it is not what --help shows"
	rm "$scratch/stderr"
}

help_of_a_command_opens_its_page() {
	local command status=0
	printf '#!/bin/sh\n[ "$1" != -w ] || exit 0\necho "$@"\nexit 16\n' >"$scratch/man"
	chmod +x "$scratch/man"
	for command in $(subcommands); do
		[[ $(PATH="$scratch:$PATH" "$stackbeat" help "$command") == "stackbeat-$command" ]] ||
			fail "$command: another page"
	done
	PATH="$scratch:$PATH" "$stackbeat" help record >/dev/null || status=$?
	((status == 16)) || fail "exit status $status, not man's"
	printf '#!/bin/sh\necho "No manual entry for $2" >&2\nexit 16\n' >"$scratch/man"
	cmp <(PATH="$scratch:$PATH" "$stackbeat" help record 2>&1) <("$stackbeat" record --help) || fail "without the page"
	rm "$scratch/man"
	refuses "there is no command 'no-such'" help no-such
	refuses "unknown option '-x'" help -x
	[[ $("$stackbeat" help version) == "Usage: stackbeat version"* ]] || fail "no help on version"
	cmp <("$stackbeat" help version) <("$stackbeat" version --help) || fail "version --help differs"
	cmp <("$stackbeat" help help) <("$stackbeat" --help) || fail "another help on help"
	cmp <(PATH=/none "$stackbeat" help record) <("$stackbeat" record --help) || fail "without man"
}

help_goes_to_the_standard_output() {
	local command option
	for command in '' $(subcommands); do
		for option in -h --help; do
			# shellcheck disable=SC2086 # the first command is empty
			"$stackbeat" $command $option >"$scratch/stdout" 2>"$scratch/stderr" ||
				fail "$command $option: exit status $?"
			grep -q "^Usage: stackbeat ${command:-COMMAND}" "$scratch/stdout" ||
				fail "$command $option: no usage"
			[[ ! -s $scratch/stderr ]] || fail "$command $option: $(cat "$scratch/stderr")"
			! grep -qE '.{81}' "$scratch/stdout" || fail "$command $option: a line is too long"
		done
	done
	rm "$scratch/stdout" "$scratch/stderr"
}

unreadable_file_is_an_error() {
	local command status
	for command in report flamegraph; do
		status=0
		"$stackbeat" "$command" /no/such >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
		((status == 1)) || fail "$command: exit status $status"
		[[ $(<"$scratch/stderr") == "stackbeat $command: /no/such: No such file or directory" ]] ||
			fail "$command: $(<"$scratch/stderr")"
		[[ ! -s $scratch/stdout ]] || fail "$command: $(<"$scratch/stdout")"
		status=0
		"$stackbeat" "$command" >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
		((status == 1)) || fail "$command without a file: exit status $status"
		[[ $(<"$scratch/stderr") == "stackbeat $command: stackbeat.pb.gz: No such file or directory" ]] ||
			fail "$command without a file: $(<"$scratch/stderr")"
	done
	rm "$scratch/stdout" "$scratch/stderr"
	[[ -z $(ls -A "$scratch") ]] || fail "left $(ls -A "$scratch")"
}

# fails_on_process MESSAGE COMMAND...: exit status 1, one line, and nothing is left.
fails_on_process() {
	local message=$1 status=0
	shift
	"$@" >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
	((status == 1)) || fail "$*: exit status $status"
	[[ $(<"$scratch/stderr") == "stackbeat "*": $message"* && $(wc -l <"$scratch/stderr") == 1 ]] ||
		fail "$*: $(<"$scratch/stderr")"
	[[ ! -s $scratch/stdout ]] || fail "$*: $(<"$scratch/stdout")"
	rm "$scratch/stdout" "$scratch/stderr"
	[[ -z $(ls -A "$scratch") ]] || fail "$*: left $(ls -A "$scratch")"
}

unreadable_process_is_an_error() {
	fails_on_process "there is no process 999999999" "$stackbeat" goroutines -p 999999999
	fails_on_process "process $$ runs no Go program" "$stackbeat" goroutines -p $$
	((EUID != 0)) || fails_on_process "the memory of process $$ may not be read: it is another user's" \
		setpriv --reuid 65534 --clear-groups "$stackbeat" goroutines -p $$ -q
	fails_on_process "there is no process 999999999" "$stackbeat" stack -p 999999999
	fails_on_process "there is no process 999999999" "$stackbeat" goroutines 999999999
	fails_on_process "there is no process 999999999" "$stackbeat" stack 999999999
	fails_on_process "process $$ has no thread 1" "$stackbeat" stack -p $$ -t 1
	fails_on_process "process $$ runs no Go program" "$stackbeat" stack -p $$ -g 1
}

# `serve` loads libmicrohttpd on demand, and no other command loads gnutls.
missing_library_is_an_error() {
	local status=0 libraries
	chmod 755 "$scratch" # for the user who serves HTTP
	mkdir "$scratch/libraries"
	: >"$scratch/libraries/libmicrohttpd.so.12"
	LD_LIBRARY_PATH=$scratch/libraries "$stackbeat" serve --no-store --listen 127.0.0.1:0 \
		2>"$scratch/stderr" >"$scratch/stdout" || status=$?
	((status == 1)) || fail "exit status $status"
	[[ $(<"$scratch/stderr") == "stackbeat: there is no libmicrohttpd.so.12"*"libmicrohttpd12)" ]] ||
		fail "$(<"$scratch/stderr")"
	[[ ! -s $scratch/stdout ]] || fail "$(<"$scratch/stdout")"
	libraries=$(LD_TRACE_LOADED_OBJECTS=1 "$stackbeat")
	[[ $libraries != *libmicrohttpd* && $libraries != *libgnutls* ]] || fail "$libraries"
	: >"$scratch/libraries/libcapstone.so.4"
	: >"$scratch/libraries/libcapstone.so.5"
	! LD_LIBRARY_PATH=$scratch/libraries "$stackbeat" annotate main 2>"$scratch/stderr" >"$scratch/stdout" ||
		fail "annotate without libcapstone"
	[[ $(<"$scratch/stderr") == "stackbeat annotate: there is no libcapstone,"*"libcapstone5)" ]] || fail "$(<"$scratch/stderr")"
	rm -r "$scratch/libraries" "$scratch/stderr" "$scratch/stdout"
}

# A file opened in the place of a standard stream would be read, or written to by a message.
closed_streams_are_not_replaced_by_files() {
	local stream link writer
	for stream in 0 1 2; do
		mkfifo "$scratch/pipe"
		(
			eval "exec $stream>&-"
			exec "$stackbeat" report "$scratch/pipe"
		) 2>/dev/null &
		# Blocks until the reader has opened it.
		exec {writer}>"$scratch/pipe"
		link=$(readlink "/proc/$!/fd/$stream") || true
		exec {writer}>&-
		wait $! || true
		[[ $link == /dev/null ]] || fail "$stream is $link"
		rm "$scratch/pipe"
	done
}

run_test wrong_command_lines_are_refused_with_one_line
run_test bad_options_are_refused
run_test values_have_bounds
run_test top_refuses_what_it_cannot_show
run_test habits_have_an_answer
run_test options_of_perf_have_an_answer
run_test binary_output_is_kept_from_terminals
run_test directories_of_debug_files_are_limited
run_test options_of_help_are_parsed
run_test no_command_shows_the_usage
run_test help_goes_to_the_standard_output
run_test help_of_a_command_opens_its_page
run_test unreadable_file_is_an_error
run_test unreadable_process_is_an_error
run_test missing_library_is_an_error
# The counters of tests/coverage are in such a file.
[[ ${LLVM_PROFILE_FILE:-} ]] || run_test closed_streams_are_not_replaced_by_files
exit "$any_failed"

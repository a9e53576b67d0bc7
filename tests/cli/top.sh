#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# `stackbeat top` by perf events, which need no module and no guest. Nothing depends on how many samples there are: a
# program runs until the test has seen it.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

scratch=$(mktemp -d)
export XDG_CACHE_HOME=$scratch/cache
spinner=
trap 'tmux -S "$scratch/tmux.$server" kill-server 2>/dev/null || true; [[ ! $spinner ]] || kill "$spinner"; rm -rf "$scratch"' EXIT

cat >"$scratch/spin.c" <<'END'
#include <sys/prctl.h>

static volatile unsigned int sum;

__attribute__((noinline)) void innermost_of_top(void)
{
	for (unsigned int i = 0; i < 10000000; i++)
		sum += i;
}

__attribute__((noinline)) unsigned int outer_of_top(void)
{
	innermost_of_top();
	return sum + 1;
}

/* Its name has an escape sequence. */
int main(void)
{
	prctl(PR_SET_NAME, "spin\033[31m");
	for (;;)
		sum += outer_of_top();
}
END

# top ARGUMENT...: of the program, by perf events; the output is in `text`, the messages in `messages`.
top() {
	timeout "$hang" "$stackbeat" top --source perf -p "$spinner" "$@" >"$scratch/text" 2>"$scratch/messages" </dev/null ||
		fail "top $*: status $?: $(<"$scratch/messages")"
}

# await_text PID [REGEX]: waits for a line with REGEX in the output of this process, or its end. The output of an earlier test is gone.
await_text() {
	local end=$((SECONDS + hang))
	until grep -qsE -- "${2:-}" "$scratch/text" || ! kill -0 "$1" 2>/dev/null; do
		((SECONDS < end)) || { fail "no '${2:-}' in: $(<"$scratch/text")" && return; }
		sleep 0.1
	done
}

# top_until REGEX ARGUMENT...: until a line of its output has REGEX: on a busy machine, the program may not run for some intervals.
top_until() {
	local pid
	: >"$scratch/text"
	"$stackbeat" top --source perf -p "$spinner" -b -d 0.5 "${@:2}" >"$scratch/text" 2>"$scratch/messages" </dev/null &
	pid=$!
	await_text "$pid" "$1"
	kill -TERM "$pid" || true
	wait "$pid" || fail "top ${*:2}: status $?: $(<"$scratch/messages")"
}

batch_prints_functions_at_each_interval() {
	top -b -d 0.5 -n 3
	[[ $(grep -c '^99 Hz, .* samples/s, lost [0-9]*, complete [0-9.]*%, overhead [0-9.]*%$' "$scratch/text") == 3 ]] ||
		fail "three status lines: $(<"$scratch/text")"
	[[ $(grep -c '^   self   total     cpu%  function *$' "$scratch/text") == 3 ]] || fail "heads: $(<"$scratch/text")"
	grep -q '^stackbeat: perf events: ' "$scratch/messages" || fail "source: $(<"$scratch/messages")"
	# The caller comes after the leaf.
	top_until '^ *[0-9.]+% +[0-9.]+% +[0-9.]+%  outer_of_top$'
	grep -qE '^ *[0-9.]+% +[0-9.]+% +[0-9.]+%  innermost_of_top$' "$scratch/text" || fail "no leaf: $(<"$scratch/text")"
}

# The name of the process is up to the program.
names_have_no_effect_on_a_terminal() {
	top_until "^ *[0-9.]+% +[0-9.]+%  $spinner +spin\?\[31m\$" --tab processes
	top_until '^ *[0-9.]+% +[0-9.]+%' --tab services
	! grep -q $'\033' "$scratch/text" || fail "an escape sequence: $(cat -v "$scratch/text")"
}

# Its tables are in the cache, so its stacks have callers.
rows_are_limited() {
	top_until '^ *[0-9.]+% +[0-9.]+% .*  innermost_of_top$' --rows 1
	awk '/^   self / { rows = 0 } /%.*%.*%  / && ++rows > 1 { exit 1 }' "$scratch/text" || fail "rows: $(<"$scratch/text")"
}

the_end_of_all_processes_is_the_end() {
	local ends pid
	rm "$scratch/text"
	"$scratch/spin" &
	ends=$!
	timeout "$hang" "$stackbeat" top --source perf -p "$ends" -b -d 0.5 >"$scratch/text" 2>"$scratch/messages" </dev/null &
	pid=$!
	await_text "$pid"
	kill "$ends"
	wait "$ends" || true
	wait "$pid" || fail "status $?: $(<"$scratch/messages")"
}

a_signal_ends_it() {
	local pid
	rm "$scratch/text"
	"$stackbeat" top --source perf -p "$spinner" -b -d 0.5 >"$scratch/text" 2>"$scratch/messages" </dev/null &
	pid=$!
	await_text "$pid"
	kill -TERM "$pid"
	wait "$pid" || fail "status $?: $(<"$scratch/messages")"
	# Its process that samples has ended before it.
	! pgrep -P "$pid" || fail "a process is left"
}

# systemd and others send it to all processes.
the_process_that_samples_leaves_signals_to_its_parent() {
	local pid
	: >"$scratch/text"
	"$stackbeat" top --source perf -p "$spinner" -b -d 0.5 >"$scratch/text" 2>"$scratch/messages" </dev/null &
	pid=$!
	await_text "$pid" '^99 Hz'
	pkill -TERM -P "$pid" -x stackbeat
	pkill -HUP -P "$pid" -x stackbeat
	: >"$scratch/text"
	await_text "$pid" '^99 Hz'
	kill -TERM "$pid"
	wait "$pid" || fail "status $?: $(<"$scratch/messages")"
	grep -q '^99 Hz' "$scratch/text" || fail "it has ended: $(<"$scratch/messages")"
}

# A new server for each test: a server that ends still has its socket.
server=0

# A terminal of 80 columns and 24 rows with `top`, whose shell shows the state of the terminal afterwards.
terminal() {
	tmux -S "$scratch/tmux.$server" -f /dev/null "$@"
}

# start_screen [TERM]: in an empty directory.
start_screen() {
	server=$((server + 1))
	rm -rf "$scratch/work"
	mkdir "$scratch/work"
	# shellcheck disable=SC2016 # the inner shell expands them
	terminal new-session -d -x 80 -y 24 -c "$scratch/work" "trap : INT; env TERM=${1:-screen} LC_ALL=C.UTF-8 $stackbeat top --source perf \
		-p $spinner -d 0.5 2>messages; echo status \$?; stty -a | grep -oE -- '-?(icanon|echo)\>'; exec sleep $hang"
	expect_screen innermost_of_top
}

# showing_process: prints the process that shows the screen.
showing_process() {
	pgrep -P "$(terminal display-message -p '#{pane_pid}')" -x stackbeat
}

# expect_screen REGEX: waits until a line of the screen has it.
expect_screen() {
	local end=$((SECONDS + hang))
	until terminal capture-pane -p | input_has -E -- "$1"; do
		((SECONDS < end)) || { fail "no '$1' in: $(terminal capture-pane -p)" && return; }
		sleep 0.1
	done
}

# The shell has its terminal back, in the mode that it had.
expect_shell() {
	# A terminal without a second screen still has the rest of a line behind it.
	expect_screen "^status $1"
	expect_screen '^icanon$'
	expect_screen '^echo$'
	terminal kill-server
}

keys_show_all_views() {
	start_screen
	expect_screen '^\[functions\]  services   processes   containers *$'
	expect_screen '^99 Hz, [0-9]+ samples/s, lost [0-9]+, complete [0-9.]+%, overhead [0-9.]+%'
	terminal send-keys / outer_of Enter
	expect_screen "^rows with 'outer_of'"
	terminal send-keys Enter
	expect_screen '^caller .*  main$'
	expect_screen '^callee .*  innermost_of_top$'
	terminal send-keys Escape
	expect_screen '^Enter callers'
	terminal send-keys f
	expect_screen '^\|innermost_of_top'
	terminal send-keys 3
	expect_screen "%  $spinner +spin\\?\\[31m\$"
	terminal send-keys Enter
	expect_screen "\\[functions\\] .* of $spinner  "
	terminal send-keys w
	expect_screen '^written to stackbeat-top\.[0-9TZ]+\.pb\.gz$'
	"$stackbeat" report --folded "$scratch"/work/*.pb.gz | input_has '^_start;.*;main;outer_of_top;innermost_of_top ' ||
		fail "what is written: $("$stackbeat" report --folded "$scratch"/work/*.pb.gz)"
	terminal send-keys p
	expect_screen ', frozen'
	terminal resize-window -x 50 -y 10
	expect_screen '^Enter callers.{1,37}$'
	expect_screen ' innermost_of_top$'
	terminal send-keys q
	expect_shell 0
}

a_plain_terminal_is_enough() {
	start_screen vt100
	expect_screen '^\[functions\]'
	terminal send-keys C-c
	expect_shell 0
}

the_terminal_is_restored_after_a_crash() {
	local pid
	start_screen
	# Of the children of the process that shows the screen, the process that samples has the perf events.
	for pid in $(pgrep -P "$(showing_process)"); do
		! input_has perf_event < <(readlink "/proc/$pid/fd/"*) || kill -SEGV "$pid"
	done
	expect_shell 1
	grep -q '^stackbeat: the process that samples was killed by signal 11$' "$scratch/work/messages" ||
		fail "$(<"$scratch/work/messages")"
	start_screen
	kill -TERM "$(showing_process)"
	expect_shell 0
}

a_stopped_screen_comes_back() {
	server=$((server + 1))
	rm -rf "$scratch/work"
	mkdir "$scratch/work"
	terminal new-session -d -x 80 -y 24 -c "$scratch/work" "env PS1='shell> ' LC_ALL=C.UTF-8 bash --norc -i"
	expect_screen '^shell>'
	terminal send-keys "$stackbeat top --source perf -p $spinner -d 0.5" Enter
	expect_screen '^\[functions\]'
	terminal send-keys C-z
	expect_screen 'Stopped'
	terminal send-keys fg Enter
	expect_screen '^\[functions\]'
	expect_screen innermost_of_top
	terminal send-keys q
	expect_screen '^shell>'
	terminal kill-server
}

no_terminal_needs_batch() {
	! "$stackbeat" top --source perf </dev/null >"$scratch/text" 2>"$scratch/messages" || fail "it has begun"
	[[ $(<"$scratch/messages") == *"no terminal: use --batch" ]] || fail "$(<"$scratch/messages")"
}

tests=(batch_prints_functions_at_each_interval names_have_no_effect_on_a_terminal rows_are_limited
	the_end_of_all_processes_is_the_end a_signal_ends_it the_process_that_samples_leaves_signals_to_its_parent no_terminal_needs_batch)
screens=(keys_show_all_views a_plain_terminal_is_enough the_terminal_is_restored_after_a_crash a_stopped_screen_comes_back)
skipped=
if ! "${CC:-gcc}" -O2 -o "$scratch/spin" "$scratch/spin.c"; then
	skipped="no C compiler here"
elif ! perf_events_are_refused -F 999; then
	"$scratch/spin" &
	spinner=$!
fi
run_or_skip "$skipped" "${tests[@]}"
[[ $skipped ]] || command -v tmux >/dev/null || skipped="no tmux"
run_or_skip "$skipped" "${screens[@]}"
exit "$any_failed"

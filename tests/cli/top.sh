#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# `stackbeat top` by perf events, which need no module and no guest. Nothing depends on how many samples there are: a
# program runs until the test has seen it.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

scratch=$(mktemp -d)
export XDG_CACHE_HOME=$scratch/cache
spinner=
trap '[[ ! $spinner ]] || kill "$spinner"; rm -rf "$scratch"' EXIT

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

# await_text PID: waits for the output of this process, or its end. The output of an earlier test is gone.
await_text() {
	until [[ -s $scratch/text ]] || ! kill -0 "$1" 2>/dev/null; do sleep 0.1; done
}

batch_prints_functions_at_each_interval() {
	top -b -d 0.5 -n 3
	[[ $(grep -c '^99 Hz, .* samples/s, lost [0-9]*, complete [0-9.]*%, overhead [0-9.]*%$' "$scratch/text") == 3 ]] ||
		fail "three status lines: $(<"$scratch/text")"
	[[ $(grep -c '^   self   total     cpu%  function *$' "$scratch/text") == 3 ]] || fail "heads: $(<"$scratch/text")"
	grep -qE '^ *[0-9.]+% +[0-9.]+% +[0-9.]+%  innermost_of_top$' "$scratch/text" || fail "no leaf: $(<"$scratch/text")"
	grep -qE '^ *[0-9.]+% +[0-9.]+% +[0-9.]+%  outer_of_top$' "$scratch/text" || fail "no caller: $(<"$scratch/text")"
	grep -q '^stackbeat: perf events: ' "$scratch/messages" || fail "source: $(<"$scratch/messages")"
}

# The name of the process is up to the program.
names_have_no_effect_on_a_terminal() {
	top -b -d 0.5 -n 2 --tab processes
	grep -qE "^ *[0-9.]+% +[0-9.]+%  $spinner +spin\?\[31m\$" "$scratch/text" || fail "process: $(<"$scratch/text")"
	top -b -d 0.5 -n 2 --tab services
	! grep -q $'\033' "$scratch/text" || fail "an escape sequence: $(cat -v "$scratch/text")"
}

rows_are_limited() {
	top -b -d 0.5 -n 1 --rows 1
	[[ $(wc -l <"$scratch/text") == 5 ]] || fail "lines: $(<"$scratch/text")"
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

tests=(batch_prints_functions_at_each_interval names_have_no_effect_on_a_terminal rows_are_limited
	the_end_of_all_processes_is_the_end a_signal_ends_it)
skipped=
if ! "${CC:-gcc}" -O2 -o "$scratch/spin" "$scratch/spin.c"; then
	skipped="no C compiler here"
elif ! timeout "$hang" "$stackbeat" top --source perf -p $$ -b -n 1 -d 0.1 >/dev/null 2>"$scratch/messages" &&
	grep -q 'perf events: ' "$scratch/messages"; then
	skipped=$(grep -o 'perf events: [^:(]*' "$scratch/messages" | head -n 1)
else
	"$scratch/spin" &
	spinner=$!
fi
for name in "${tests[@]}"; do
	if [[ $skipped ]]; then
		echo "ok ${name//_/ } # SKIP $skipped"
	else
		run_test "$name"
	fi
done
exit "$any_failed"

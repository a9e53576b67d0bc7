#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Recordings of this machine by perf events, which need no module and no guest. Nothing depends on how many samples there
# are: a program runs until its CPU time is over.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache

# Without frame pointers: its callers are found by its unwind table alone.
cat >"$scratch/spin.c" <<'END'
#include <time.h>

static volatile unsigned int sum;

__attribute__((noinline)) void innermost(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += i;
}

__attribute__((noinline)) unsigned int middle(unsigned int n)
{
	innermost(n);
	return sum + 1;
}

__attribute__((noinline)) unsigned int outer(unsigned int n)
{
	return middle(n) + 1;
}

/* With an argument, for ever. */
int main(int argc, char **argv)
{
	(void)argv;
	while (argc > 1 || clock() < CLOCKS_PER_SEC / 2)
		sum += outer(10000000);
	return 0;
}
END

# record ARGUMENT...: by perf events, into `profile`; the messages are in `messages`.
record() {
	timeout "$hang" "$stackbeat" record --source=perf -F 499 -o "$scratch/profile" "$@" \
		>"$scratch/stdout" 2>"$scratch/messages" </dev/null
}

# has_stack: whether the profile has a complete stack of the program, with names.
has_stack() {
	"$stackbeat" report --folded "$scratch/profile" >"$scratch/folded" &&
		grep -q '^_start;.*;main;outer;middle;innermost' "$scratch/folded"
}

fail_without_stack() {
	fail "no stack: $(tail -n 2 "$scratch/messages") $(head -n 3 "$scratch/folded")"
}

# tables WHICH: the number of unwind tables of the profile that were WHICH.
tables() {
	"$stackbeat" report -v "$scratch/profile" | sed -n "s/.*unwind tables $1 \([0-9]*\).*/\1/p"
}

# ends_forever: waits until no program runs for ever. A killed program needs a CPU to end.
ends_forever() {
	local end=$((SECONDS + hang))
	while pgrep -f "$scratch/spin forever" >/dev/null; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}

tables_of_the_system_are_compiled_once() {
	local device loop='i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done'
	device=/sys/dev/block/$(stat -L -c %Hd:%Ld /bin/sh)
	if [[ $(cat "$device"/{removable,../removable} 2>/dev/null) != 0 ]]; then
		skip "/bin/sh is on no disk that stays"
		return
	fi
	record --cache "$scratch/tables" sh -c "$loop" ||
		fail "record: $(<"$scratch/messages")"
	(($(tables compiled) >= 2)) || fail "compiled: $(tables compiled)"
	record --cache "$scratch/tables" sh -c "$loop" ||
		fail "record: $(<"$scratch/messages")"
	(($(tables "from the cache") >= 2)) || fail "from the cache: $(tables "from the cache")"
}

a_command_has_stacks_by_unwind_tables() {
	record --blocks "$scratch/spin" || fail "record: $(<"$scratch/messages")"
	has_stack || fail_without_stack
	! grep 'callers by' "$scratch/messages" || fail "the summary says that all copies are copies"
	"$stackbeat" report -v "$scratch/profile" | input_has '^blocks of time: [1-9]' || fail "no blocks of time"
	"$stackbeat" report --group block "$scratch/profile" | input_has '^block 0: ' || fail "no label of a block"
	grep -q '^stackbeat: source: perf events: user stacks by copies of ' "$scratch/messages" ||
		fail "no line about the source: $(<"$scratch/messages")"
	"$stackbeat" report -v "$scratch/profile" | input_has '^source: perf events: ' || fail "no comment about the source"
}

samples_have_times_threads_and_cpus() {
	local begin
	begin=$(date +%s.%N)
	record --timestamps "$scratch/spin" || fail "record: $(<"$scratch/messages")"
	has_stack || fail_without_stack
	"$stackbeat" report -v "$scratch/profile" | input_has -E '^timestamps: of ([1-9][0-9]*) of \1 samples$' ||
		fail "not all samples have times: $("$stackbeat" report -v "$scratch/profile")"
	# By the wall clock.
	"$stackbeat" export --format firefox -o "$scratch/firefox" "$scratch/profile" >"$scratch/why" || fail "export failed"
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$top/tests/cli python3 -c '
import json, sys, trace_formats
document = json.load(open(sys.argv[1]))
trace_formats.check_firefox(document)
times = [document["meta"]["startTime"] + time for thread in document["threads"] for time in thread["samples"]["time"]]
trace_formats.check(float(sys.argv[2]) * 1000 <= min(times) and max(times) <= float(sys.argv[3]) * 1000, times[:9])
' "$scratch/firefox" "$begin" "$(date +%s.%N)" 2>"$scratch/why" || fail "export: $(tail -n 1 "$scratch/why")"
	"$stackbeat" report --group tid "$scratch/profile" | input_has '^tid [1-9]' || fail "no thread IDs"
	"$stackbeat" report --group cpu "$scratch/profile" | input_has '^cpu [0-9]' || fail "no CPUs"
}

# It runs until a snapshot has its stack, however late it is recorded.
a_running_process_has_stacks() {
	local pid recorder
	rm -f "$scratch/profile"
	"$scratch/spin" forever &
	pid=$!
	record --snapshot 1 -p "$pid" &
	recorder=$!
	until { [[ -e $scratch/profile ]] && has_stack; } || ! kill -0 "$recorder" 2>/dev/null; do sleep 0.1; done
	kill "$pid"
	wait "$pid" || true
	wait "$recorder" || fail "record: $(<"$scratch/messages")"
	has_stack || fail_without_stack
}

# As perf: else, the profile would begin with it.
what_a_command_prints_is_not_in_a_profile_on_standard_output() {
	local output
	for output in - /dev/stdout; do
		timeout "$hang" "$stackbeat" record --source=perf -q -F 499 -o "$output" sh -c 'echo printed; exec "$0"' "$scratch/spin" \
			2>"$scratch/messages" </dev/null | cat >"$scratch/profile"
		has_stack || fail "$output: no stack: $(head -n 3 "$scratch/folded")"
		grep -qx printed "$scratch/messages" || fail "$output: not on standard error: $(<"$scratch/messages")"
	done
}

# Ctrl-C in a terminal ends all programs of a pipeline.
ctrl_c_ends_a_recording_and_not_the_report_of_it() {
	local job pid
	set -m
	"$stackbeat" record --source=perf -F 499 -o - "$scratch/spin" forever 2>"$scratch/messages" </dev/null |
		"$stackbeat" report --folded - >"$scratch/folded" 2>"$scratch/why" &
	job=$!
	set +m
	# It is sampled from its first instruction on.
	until pid=$(pgrep -xf "$scratch/spin forever" -n) && (($(ps -o cputimes= -p "$pid") >= 1)); do
		kill -0 "$job" 2>/dev/null || break
		sleep 0.1
	done
	kill -INT -- "-$(ps -o pgid= -p "$job" | tr -d ' ')"
	# The status is the one of the command, as of a pipeline in a shell.
	wait "$job" || true
	grep -q '^_start;.*;main;outer;middle;innermost' "$scratch/folded" || fail_without_stack
	ends_forever || fail "the command goes on"
}

a_command_that_goes_on_is_killed_at_the_end() {
	local recorder
	rm -f "$scratch/profile"
	record --snapshot 1 sh -c 'trap "" TERM; exec "$0" forever' "$scratch/spin" &
	recorder=$!
	until { [[ -e $scratch/profile ]] && has_stack; } || ! kill -0 "$recorder" 2>/dev/null; do sleep 0.1; done
	# Not to timeout, which sends it twice: the second one ends the symbolization.
	pkill -INT -P "$(pgrep -P "$recorder" -x timeout)" -x stackbeat
	wait "$recorder" || fail "record: $(<"$scratch/messages")"
	has_stack || fail_without_stack
	ends_forever || fail "the command goes on"
}

a_hangup_leaves_a_profile_and_status_1() {
	local recorder status=0
	rm -f "$scratch/profile"
	record --snapshot 1 "$scratch/spin" forever &
	recorder=$!
	until { [[ -e $scratch/profile ]] && has_stack; } || ! kill -0 "$recorder" 2>/dev/null; do sleep 0.1; done
	rm -f "$scratch/profile"
	pkill -HUP -P "$recorder" -x timeout
	wait "$recorder" || status=$?
	((status == 1)) || fail "status $status: $(<"$scratch/messages")"
	has_stack || fail_without_stack
	ends_forever || fail "the command goes on"
}

# Beside many busy programs the rings overflow, and the mappings of the program may be lost: they are read again while it runs.
the_whole_system_has_the_program() {
	local recorder status=0
	rm -f "$scratch/profile"
	record -a --snapshot 1 "$scratch/spin" forever &
	recorder=$!
	until { [[ -e $scratch/profile ]] && has_stack; } || ! kill -0 "$recorder" 2>/dev/null; do sleep 0.1; done
	pkill -f "^$scratch/spin forever"
	wait "$recorder" 2>/dev/null || status=$?
	# Of the command, which SIGTERM has ended.
	((status == 143)) || fail "record: status $status: $(<"$scratch/messages")"
	has_stack || fail_without_stack
}

# record_beside PID CONDITION OPTION...: records until the function CONDITION is true of a snapshot, and ends the process.
record_beside() {
	local pid=$1 condition=$2 recorder status=0
	shift 2
	rm -f "$scratch/profile" "$scratch/done"
	record --snapshot 1 "$@" sh -c "until [ -e '$scratch/done' ]; do sleep 0.1; done" &
	recorder=$!
	until { [[ -e $scratch/profile ]] && "$condition"; } || ! kill -0 "$recorder" 2>/dev/null; do sleep 0.1; done
	touch "$scratch/done"
	wait "$recorder" || status=$?
	kill "$pid"
	wait "$pid" || true
	((!status)) || fail "record: $(<"$scratch/messages")"
}

# As perf: the program is not the command's.
cpus_have_all_that_runs_on_them() {
	local cpu
	cpu=$(sed -nE 's/^Cpus_allowed_list:\s*([0-9]+).*/\1/p' /proc/self/status)
	taskset -c "$cpu" "$scratch/spin" forever &
	record_beside $! has_stack -C "$cpu"
	has_stack || fail_without_stack
	# Percentages are shares of this CPU's time.
	"$stackbeat" report -v "$scratch/profile" | input_has '^rate: 499 Hz requested, .* on 1 CPU$' ||
		fail "not one CPU: $("$stackbeat" report -v "$scratch/profile")"
}

# Half a second of user mode, then kernel mode.
kernel_parts_are_of_kernel_mode_alone() {
	# shellcheck disable=SC2016 # the inner shell expands it
	record --kernel sh -c '"$0"; dd if=/dev/zero of=/dev/null bs=1M count=5000' "$scratch/spin" ||
		fail "record: $(<"$scratch/messages")"
	"$stackbeat" report --folded "$scratch/profile" >"$scratch/folded" || fail "report failed"
	grep -q . "$scratch/folded" || fail "no stack"
	! grep -F '[no frames]' "$scratch/folded" || fail "user mode is sampled"
	"$stackbeat" report -v "$scratch/profile" | input_has '^ticks without a sample: .*filtered [1-9]' ||
		fail "no tick in user mode: $("$stackbeat" report -v "$scratch/profile")"
}

# Sets `copies` and `bytes`.
has_short_copies() {
	read -r copies bytes < <("$stackbeat" report -v "$scratch/profile" |
		sed -nE 's/.*copies of stacks used ([0-9]+), bytes of copies used ([0-9]+).*/\1 \2/p') && ((copies && bytes / copies < 6000))
}

# The program alone is sampled: its stacks decide how much is copied.
copies_are_as_short_as_stacks() {
	local copies=0 bytes=0
	mkdir "$group"
	"$scratch/spin" forever &
	echo $! >"$group/cgroup.procs"
	record_beside $! has_short_copies -F 999 -G "${group##*/}"
	rmdir "$group"
	has_short_copies || fail "$copies copies have $bytes bytes"
	has_stack || fail_without_stack
	grep -q ': user stacks by copies of 2 to 32 KiB' "$scratch/messages" || fail "no range: $(<"$scratch/messages")"
}

# As an ordinary user, who has no module either.
a_user_records_own_processes() {
	chmod 755 "$scratch"
	mkdir -p "$scratch/user"
	chown 65534:65534 "$scratch/user"
	cp "$stackbeat" "$scratch/stackbeat"
	XDG_CACHE_HOME=$scratch/user/cache timeout "$hang" setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \
		"$scratch/stackbeat" record --source=perf -F 499 -o "$scratch/user/profile" "$scratch/spin" \
		>"$scratch/stdout" 2>"$scratch/messages" </dev/null || fail "record: $(<"$scratch/messages")"
	mv "$scratch/user/profile" "$scratch/profile"
	has_stack || fail_without_stack
	grep -q 'no samples of kernel mode' "$scratch/messages" ||
		(($(</proc/sys/kernel/perf_event_paranoid) < 2)) || fail "no word of kernel mode: $(<"$scratch/messages")"
}

tests=(a_command_has_stacks_by_unwind_tables samples_have_times_threads_and_cpus a_running_process_has_stacks
	what_a_command_prints_is_not_in_a_profile_on_standard_output ctrl_c_ends_a_recording_and_not_the_report_of_it tables_of_the_system_are_compiled_once a_command_that_goes_on_is_killed_at_the_end a_hangup_leaves_a_profile_and_status_1)
all=(the_whole_system_has_the_program cpus_have_all_that_runs_on_them kernel_parts_are_of_kernel_mode_alone a_user_records_own_processes)
skipped=
if ! "${CC:-gcc}" -O1 -g -fomit-frame-pointer -o "$scratch/spin" "$scratch/spin.c"; then
	skipped="no C compiler here"
else
	perf_events_are_refused -F 999 || true
fi
run_or_skip "$skipped" "${tests[@]}"
[[ $skipped ]] || ((EUID == 0)) || skipped="not root"
run_or_skip "$skipped" "${all[@]}"
group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/stackbeat-test-$$
[[ $skipped || -w ${group%/*}/cgroup.procs ]] || skipped="no control groups"
run_or_skip "$skipped" copies_are_as_short_as_stacks
exit "$any_failed"

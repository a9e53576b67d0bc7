#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# `stackbeat serve` by perf events, which need no module and no guest. Nothing depends on how many samples there are: a
# program runs until the test has seen it.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../env/serve.bash"

scratch=$(mktemp -d)
# The program and its function have names of their own: the whole machine is sampled, and another run of this test may be on it.
program=spin-${scratch##*.} outer=outer_${scratch##*.}
export XDG_CACHE_HOME=$scratch/cache
server='' spinner=''
trap 'kill $server $spinner 2>/dev/null; wait; rm -rf "$scratch"' EXIT

# Without frame pointers: its callers are found by its unwind table alone.
cat >"$scratch/spin.c" <<END
static volatile unsigned int sum;

__attribute__((noinline)) void innermost(void)
{
	for (unsigned int i = 0; i < 10000000; i++)
		sum += i;
}

__attribute__((noinline)) unsigned int $outer(void)
{
	innermost();
	return sum + 1;
}

int main(void)
{
	for (;;)
		sum += $outer();
}
END

# get PATH: prints the answer, or fails.
get() {
	serve_get "$scratch/socket" "$1" 2>>"$scratch/get"
}

# await COMMAND...: until it succeeds, the server ends, or the time for what hangs is over.
await() {
	serve_await "$server" "$@" || fail "$*: $(<"$scratch/messages")"
}

start_server() {
	"$stackbeat" serve --source perf -F 199 --listen "unix:$scratch/socket" --store "$scratch/store" --window 1 \
		--cache "$scratch/cache" >"$scratch/stdout" 2>"$scratch/messages" </dev/null &
	server=$!
	await get /healthz >/dev/null
}

# has_stack QUERY: whether the profile has a complete stack of the program, with names. It is in the file `profile`.
has_stack() {
	get "$1" >"$scratch/profile" && "$stackbeat" report --folded "$scratch/profile" >"$scratch/folded" 2>/dev/null &&
		grep -q "^_start;.*;main;$outer;innermost" "$scratch/folded"
}

source_is_in_the_profile() {
	"$stackbeat" report -v "$scratch/profile" | input_has '^source: perf events: ' || fail "$1: no comment about the source"
}

profiles_have_stacks_by_unwind_tables() {
	await has_stack '/debug/pprof/profile?seconds=1'
	source_is_in_the_profile "a part of the session"
	await has_stack '/debug/pprof/profile?seconds=1&hz=499'
	source_is_in_the_profile "a session of its own"
	await has_stack /api/profile
	source_is_in_the_profile "the store"
}

services_are_found() {
	get /api/services | input_has "\"service\":\"$program\"" || fail "no service: $(get /api/services)"
}

# annotate NAME: prints the function in the store.
annotate() {
	get "/api/annotate?function=$1&file=$program"
}

has_annotation() {
	annotate innermost >"$scratch/annotation" && grep -q '"flat":[1-9]' "$scratch/annotation"
}

functions_of_the_store_have_their_code() {
	await has_annotation
	python3 - "$scratch/annotation" "$program" <<'END' || fail "$(<"$scratch/annotation")"
import json, sys
document = json.load(open(sys.argv[1]))
function, = document["functions"]
instructions = function["instructions"]
assert "problem" not in document and document["total"] >= function["cum"] >= function["flat"] > 0
assert function["file"].endswith("/" + sys.argv[2]) and function["function"] == "innermost"
assert sum(instruction["flat"] for instruction in instructions) == function["flat"]
assert instructions[-1]["text"].startswith("ret") and all(instruction["bytes"] for instruction in instructions)
lines = {line["line"] for instruction in instructions for line in instruction["lines"]}
assert lines <= {4, 5, 6, 7} and 6 in lines, lines
END
	# The text of a source file is of no use to those who ask, who may not read it.
	! grep -q 'sum +=' "$scratch/annotation" || fail "source: $(<"$scratch/annotation")"
}

private_programs_have_addresses_and_lines() {
	chmod o-r "$scratch/$program"
	annotate innermost >"$scratch/annotation"
	chmod o+r "$scratch/$program"
	grep -q "\"problem\":\"[^\"]*/$program: is not taken" "$scratch/annotation" || fail "$(<"$scratch/annotation")"
	grep -q '"bytes":"","text":"","flat":.*/spin.c","line":6}' "$scratch/annotation" ||
		fail "$(<"$scratch/annotation")"
}

start_and_metrics_name_the_source() {
	[[ $(grep -c '^stackbeat: source: perf events.*: user stacks by copies of ' "$scratch/messages") == 1 ]] ||
		fail "no line at the start: $(<"$scratch/messages")"
	get /metrics >"$scratch/metrics"
	grep -qx 'stackbeat_source_info{source="perf"} 1' "$scratch/metrics" || fail "no source"
	grep -qE '^stackbeat_stack_copy_bytes [1-9][0-9]+$' "$scratch/metrics" || fail "no size of copies"
	grep -qE '^stackbeat_stack_copies_total [1-9]' "$scratch/metrics" || fail "no copies"
	grep -qE '^stackbeat_samples_total [1-9]' "$scratch/metrics" || fail "no samples"
	! grep -q 'part="sampling"' "$scratch/metrics" || fail "a cost that is not measured"
}

# A process that may only read the store can lock its directory: that counts for nothing.
one_server_writes_to_a_store() {
	local status=0
	timeout "$hang" "$stackbeat" serve --source perf --listen "unix:$scratch/other" --store "$scratch/store" \
		2>"$scratch/refused" </dev/null || status=$?
	[[ $status == 1 ]] || fail "status $status: $(<"$scratch/refused")"
	[[ $(<"$scratch/refused") == "stackbeat: $scratch/store: another process writes to this store" ]] ||
		fail "$(<"$scratch/refused")"
	[[ ! -e $scratch/other ]] || fail "its socket is left"
	[[ $(stat -c %a "$scratch/store/.writer") == 600 ]] || fail "others can open its lock"
	flock -n "$scratch/store" true || fail "the directory is locked"
}

the_server_ends_when_asked() {
	kill "$server"
	wait "$server" || fail "status $?: $(<"$scratch/messages")"
	server=
	[[ ! -e $scratch/socket ]] || fail "its socket is left"
}

# Of a user without rights, one line, before sampling is said to begin.
without_rights_it_says_what_helps() {
	local status remedy option
	case $(</proc/sys/kernel/perf_event_paranoid) in
	-1 | 0) skip "kernel.perf_event_paranoid allows it" && return ;;
	1 | 2) remedy='sampling the whole system needs root or CAP_PERFMON' ;;
	*) remedy="'sysctl kernel.perf_event_paranoid=2'" ;;
	esac
	chmod 755 "$scratch"
	cp "$stackbeat" "$scratch/stackbeat"
	for option in "--listen=127.0.0.1:0" --check; do
		status=0
		timeout "$hang" setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \
			"$scratch/stackbeat" serve --source perf --no-store --no-cache "$option" 2>"$scratch/messages" \
			</dev/null || status=$?
		[[ $status == 1 && $(wc -l <"$scratch/messages") == 1 ]] || fail "$option: status $status: $(<"$scratch/messages")"
		grep -q "$remedy" "$scratch/messages" || fail "$option: no remedy: $(<"$scratch/messages")"
	done
}

source_is_checked_before_anything_is_started() {
	local checked=$scratch/checked
	"$stackbeat" serve --source perf --check --listen "unix:$checked" --store "$checked" 2>"$scratch/messages" ||
		fail "status $?: $(<"$scratch/messages")"
	[[ $(<"$scratch/messages") == 'stackbeat: source: perf events: '* ]] || fail "no source: $(<"$scratch/messages")"
	"$stackbeat" serve --source perf --check --quiet 2>"$scratch/messages" || fail "--quiet: status $?"
	[[ ! -s $scratch/messages && ! -e $checked ]] || fail "something was printed or made: $(<"$scratch/messages")"
}

tests=(profiles_have_stacks_by_unwind_tables services_are_found functions_of_the_store_have_their_code
	private_programs_have_addresses_and_lines start_and_metrics_name_the_source
	one_server_writes_to_a_store the_server_ends_when_asked without_rights_it_says_what_helps source_is_checked_before_anything_is_started)
skipped=
if ((EUID != 0)); then
	skipped="not root"
elif ! "${CC:-gcc}" -O1 -g -fomit-frame-pointer -o "$scratch/$program" "$scratch/spin.c"; then
	skipped="no C compiler here"
elif ! perf_events_are_refused -a; then
	# The user who serves HTTP passes through it.
	chmod 755 "$scratch"
	"$scratch/$program" &
	spinner=$!
	start_server
fi
run_or_skip "$skipped" "${tests[@]}"
exit "$any_failed"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stackbeat annotate, of a recording of this machine by perf events, beside objdump and perf annotate.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
export XDG_CACHE_HOME=$scratch/cache
cd "$scratch"

cat >library.c <<'END'
static volatile unsigned int sum;

static __attribute__((noinline)) void twice(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum += i;
}

void library(unsigned int n)
{
	twice(n);
}
END
cat >spin.c <<'END'
#include <time.h>

void library(unsigned int n);

static volatile unsigned int sum;

static inline __attribute__((always_inline)) void add(unsigned int i)
{
	sum += i * i; /* the sum */
}

static __attribute__((noinline)) void twice(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sum -= i;
}

__attribute__((noinline)) void innermost(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		add(i);
}

__attribute__((noinline)) unsigned int outer(unsigned int n)
{
	innermost(n);
	return sum + 1;
}

int main(void)
{
	while (clock() < CLOCKS_PER_SEC) {
		sum += outer(2000000);
		twice(1000000);
		library(1000000);
	}
	return 0;
}
END

# annotate ARGUMENT...: of `profile`; the text is in `text`, the messages are in `messages`.
annotate() {
	timeout "$hang" "$stackbeat" annotate -i profile "$@" >text 2>messages </dev/null
}

# instructions: address and bytes of each row of `text` with --asm-raw.
instructions() {
	sed -nE 's/^ +[0-9.]+ : +([0-9a-f]+):  (([0-9a-f]{2} )+) .*/\1 \2/p' "$1" | sed 's/ $//'
}

each_instruction_has_its_share() {
	annotate innermost || fail "annotate: $(<messages)"
	[[ ! -s messages ]] || fail "messages: $(<messages)"
	grep -q '^innermost: cpu flat .*s (.*%), cum ' text || fail "no head: $(head -n 1 text)"
	awk '/^ +[0-9.]+ : / { sum += $1; if ($1 > 0) rows++ } END { exit !(sum > 99 && sum < 101 && rows) }' text ||
		fail "the shares are not 100 % together: $(<text)"
	# The loop is what takes time: two source lines, which the summary has first.
	grep -A1 '^Sorted summary' text | input_has -E 'spin.c:(9|20)  ' || fail "the hottest line is another one: $(<text)"
}

inlined_code_is_at_its_place() {
	annotate innermost || fail "annotate: $(<messages)"
	grep -A1 '^ *: > add, inlined at spin.c:21$' text | input_has -E '^ *: 9 +sum \+= i \* i; /\* the sum \*/$' ||
		fail "no inlined line: $(<text)"
	annotate -l innermost || fail "annotate -l: $(<messages)"
	grep -qE '^ *: spin.c:9 +sum' text || fail "no file at a line: $(<text)"
	annotate add || fail "annotate add: $(<messages)"
	grep -q "'add' is always inlined" messages || fail "no message: $(<messages)"
	grep -q '^innermost: ' text || fail "the function with the inlined one is not there: $(<text)"
}

addresses_and_bytes_are_those_of_objdump() {
	local function
	for function in innermost outer main; do
		annotate --asm-raw --no-source "$function" || fail "$function: $(<messages)"
		instructions text >ours
		objdump -dw --disassemble="$function" spin |
			sed -nE 's/^ +([0-9a-f]+):\t(([0-9a-f]{2} )+).*/\1 \2/p' | sed 's/ *$//' >theirs
		[[ -s theirs ]] || fail "objdump has no $function"
		cmp -s ours theirs || fail "$function differs: $(diff ours theirs)"
	done
	annotate -M intel --no-source innermost || fail "-M intel: $(<messages)"
	grep -q ' ret' text || fail "-M intel: $(<text)"
	! grep -q '%e' text || fail "-M intel has registers of AT&T"
}

callers_have_cum() {
	annotate --cum outer || fail "annotate --cum: $(<messages)"
	# Nearly all samples of the function are in what it calls.
	awk '/call.*<innermost>/ { if ($2 > 90) found = 1 } END { exit !found }' text || fail "no call: $(<text)"
}

programs_read_json() {
	annotate --json innermost || fail "annotate --json: $(<messages)"
	python3 - text <<-'END' || fail "the document is another one: $(head -c 2000 text)"
		import json, sys
		document = json.load(open(sys.argv[1]))
		assert (document["type"], document["unit"]) == ("cpu", "nanoseconds")
		function, = document["functions"]
		assert function["function"] == "innermost" and function["file"].endswith("/spin")
		assert len(function["build_id"]) == 40
		code = function["instructions"]
		assert code[0]["address"] == function["start"]
		assert sum(len(i["bytes"]) // 2 for i in code) == function["size"]
		assert sum(i["flat"] for i in code) == function["flat"] > 0
		assert function["flat"] <= function["cum"] <= document["total"]
		inlined = [i["lines"] for i in code if len(i["lines"]) == 2]
		assert [(line["function"], line["line"]) for line in inlined[0]] == [("add", 9), ("innermost", 21)]
	END
}

perf_annotates_the_same_instructions() {
	perf record -q -e cpu-clock -F 499 -o perf.data ./spin >stdout 2>&1 || { skip "no perf here" && return; }
	"$stackbeat" annotate -i profile --no-source innermost |
		sed -nE 's/^ +[0-9.]+ : +([0-9a-f]+):.*/\1/p' >ours
	perf annotate --stdio -i perf.data -s innermost 2>messages </dev/null |
		sed -nE 's/^ +[0-9.]+ +: +([0-9a-f]+):.*/\1/p' | sort -u >theirs
	[[ -s theirs ]] || fail "perf annotate has no instructions: $(<messages)"
	sort -u ours | cmp -s - theirs || fail "perf has other instructions: $(diff <(sort -u ours) theirs)"
}

functions_of_one_name_have_their_files() {
	annotate twice || fail "annotate: $(<messages)"
	[[ $(grep -c '^twice.*: cpu flat' text) == 2 ]] || fail "not two functions: $(<text)"
	grep -q "Disassembly of $scratch/spin " text || fail "not spin: $(<text)"
	grep -q "Disassembly of $scratch/liblibrary.so " text || fail "not the library: $(<text)"
	annotate -d liblibrary.so twice || fail "annotate -d: $(<messages)"
	[[ $(grep -c '^twice.*: cpu flat' text) == 1 ]] || fail "-d: $(<text)"
	! grep -q "Disassembly of $scratch/spin " text || fail "-d: $(<text)"
	! annotate -d other twice || fail "-d other is accepted"
	grep -q "no function 'twice' in other; without -d, other files have it" messages || fail "-d other: $(<messages)"
}

missing_source_has_a_reason() {
	mv spin.c elsewhere.c
	annotate innermost || fail "annotate: $(<messages)"
	mv elsewhere.c spin.c
	[[ $(grep -c '^No source: .*spin.c: No such file' text) == 1 ]] || fail "no reason: $(<text)"
	grep -q ' : .*ret' text || fail "no instructions: $(<text)"
}

# Debug information names the source: it must not make root print other users' files.
source_that_is_private_is_not_shown() {
	((EUID == 0)) || { skip "not root" && return; }
	chmod 600 spin.c
	annotate innermost || fail "annotate: $(<messages)"
	chmod 644 spin.c
	grep -q '^No source: .*spin.c: Permission denied' text || fail "no reason: $(<text)"
	! grep -q 'the sum' text || fail "the source is shown: $(<text)"
}

a_separate_debug_file_has_the_lines() {
	local id
	id=$(readelf -n spin | sed -n 's/.*Build ID: //p')
	mkdir -p "debug/.build-id/${id:0:2}"
	objcopy --only-keep-debug spin "debug/.build-id/${id:0:2}/${id:2}.debug"
	cp spin whole
	strip spin
	# The profile has the name, and the call frame information the range.
	annotate innermost || fail "a file without symbols is not annotated: $(<messages)"
	grep -q '^No source: no debug information has its lines' text || fail "no reason: $(<text)"
	if ! grep -q '<innermost>:' text || ! grep -q ' : .*ret' text; then
		fail "no instructions: $(<text)"
	fi
	annotate --debug-dir debug innermost || fail "--debug-dir: $(<messages)"
	mv whole spin
	grep -q 'the sum' text || fail "no source: $(<text)"
}

another_build_is_refused() {
	mv spin whole
	gcc -O1 -g -o spin spin.c -L. -llibrary -Wl,-rpath,"$scratch"
	! annotate innermost || fail "another build is annotated"
	# One line: that the file is missing would contradict it.
	[[ $(wc -l <messages) == 1 ]] || fail "more than a line: $(<messages)"
	grep -q "the code of 'innermost' can't be read: $scratch/spin has build ID [0-9a-f]*, not [0-9a-f]*: not taken; if" messages ||
		fail "no reason: $(<messages)"
	grep -q -- "--save-binaries" messages || fail "no remedy: $(<messages)"
	mkdir -p kept
	cp whole kept/spin
	annotate --binaries kept innermost || fail "--binaries: $(<messages)"
	mv whole spin
	grep -q 'the sum' text || fail "no source: $(<text)"
}

unknown_functions_have_suggestions() {
	! annotate inermost || fail "a wrong name is accepted"
	grep -q "^stackbeat annotate: the profile has no function 'inermost'; did you mean 'innermost'?$" messages ||
		fail "no suggestion: $(<messages)"
	! annotate zzzzzz || fail "a wrong name is accepted"
	grep -q "'stackbeat report' lists them$" messages || fail "no remedy: $(<messages)"
	[[ ! -s text ]] || fail "text: $(<text)"
}

a_profile_without_symbols_is_symbolized() {
	timeout "$hang" "$stackbeat" record --source=perf --no-symbolize -o raw ./spin 2>messages >stdout </dev/null ||
		fail "record: $(<messages)"
	"$stackbeat" annotate innermost raw >text 2>messages || fail "annotate: $(<messages)"
	grep -q 'the sum' text || fail "no source: $(<text)"
}

tests=(each_instruction_has_its_share inlined_code_is_at_its_place addresses_and_bytes_are_those_of_objdump
	callers_have_cum functions_of_one_name_have_their_files missing_source_has_a_reason
	source_that_is_private_is_not_shown a_separate_debug_file_has_the_lines another_build_is_refused
	unknown_functions_have_suggestions programs_read_json a_profile_without_symbols_is_symbolized perf_annotates_the_same_instructions)
skipped=''
if ! gcc -O2 -g -shared -fPIC -o liblibrary.so library.c ||
	! gcc -O2 -g -o spin spin.c -L. -llibrary -Wl,-rpath,"$scratch"; then
	skipped="no C compiler here"
elif ! perf_events_are_refused -F 999; then
	timeout "$hang" "$stackbeat" record --source=perf -F 499 -o profile ./spin >messages 2>&1 </dev/null ||
		{ echo "not ok record: $(tail -n 1 messages)" && exit 1; }
fi
run_or_skip "$skipped" "${tests[@]}"
exit "$any_failed"

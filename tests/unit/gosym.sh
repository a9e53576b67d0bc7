#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Go programs without symbols, in the eyes of gosym and of Go itself: all addresses of their code.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/tap.bash"

out=$build/gosym
dump=$out/dump
export GO111MODULE=off GOFLAGS='' GOTOOLCHAIN=local GOCACHE=$build/go-cache GOPATH=$build/go

# symbol NAME SYMBOL: its address in $out/NAME.
symbol() {
	awk -v name="$2" '$3 == name { print $1; exit }' "$out/$1.nm"
}

# built GO NAME [FLAG...]: builds the program as $out/NAME, and as $out/NAME.stripped without symbols.
built() {
	local go=$1 name=$2
	shift 2
	{
		"$go" build -o "$out/$name" "$@" . &&
			if [[ ${GOARCH:-amd64} == amd64 ]]; then
				strip -o "$out/$name.stripped" "$out/$name"
			else
				"$go" build -o "$out/$name.stripped" -ldflags='-s -w' "$@" .
			fi &&
			"$go" tool nm -sort address "$out/$name" >"$out/$name.nm"
	} >"$out/$name.log" 2>&1 || fail "$name can't be built: $(tail -n 1 "$out/$name.log")"
}

# as_addr2line GO NAME: function, file and line as `go tool addr2line` has them. It does not leave wrappers
# out, tells in its own way that there is no line, and gives lines to marks that are no functions.
as_addr2line() {
	local go=$1 name=$2 start end
	start=$(symbol "$name" runtime.text) end=$(symbol "$name" runtime.etext)
	seq "$((16#$start))" "$((16#$end - 1))" | awk '{ printf "%x\n", $1 }' |
		"$go" tool addr2line "$out/$name" >"$out/$name.truth" || fail "no addr2line of $name"
	"$dump" lines "$out/$name.stripped" "$start" "$end" >"$out/$name.ours" || fail "no names for $name"
	paste -d '\t' "$out/$name.truth" "$out/$name.ours" | awk -F '\t' '
		{ sub(/^[?]?:-?[0-9]+$/, "?:0", $1) }
		$2 == "*" { left_out++; next }
		NR % 2 { mark = $1 ~ /^go:/ }
		mark { next }
		$1 != $2 { print "line " NR ": " $1 " is not " $2; different++ }
		END { exit different || !NR || left_out > NR / 4 }' >"$out/$name.diff" ||
		fail "$name: $(head -n 1 "$out/$name.diff")"
}

# as_traceback NAME: all frames as the program itself has them for its tracebacks.
as_traceback() {
	local name=$1 start end first
	start=$(symbol "$name" runtime.text) end=$(symbol "$name" runtime.etext)
	first=$(awk -v start="$start" '$1 == start && $3 !~ /^runtime.e?text$/ { print $3; exit }' "$out/$name.nm")
	"$out/$name" "$start" "$end" "$(symbol "$name" main.main)" "$first" >"$out/$name.truth" ||
		fail "$name does not run"
	"$dump" frames "$out/$name.stripped" "$start" "$end" >"$out/$name.ours" || fail "no names for $name"
	[[ -s $out/$name.truth ]] || fail "$name knows nothing of itself"
	diff "$out/$name.truth" "$out/$name.ours" >"$out/$name.diff" ||
		fail "$name: $(sed -n '2s/\t/ /gp' "$out/$name.diff")"
}

# without_sections NAME: removes the section headers of $out/NAME.stripped, of 64 bits.
without_sections() {
	local file=$out/$1.stripped
	printf '\0\0\0\0\0\0\0\0' | dd of="$file" bs=1 seek=40 conv=notrunc status=none
	printf '\0\0\0\0\0\0' | dd of="$file" bs=1 seek=58 conv=notrunc status=none
	readelf -h "$file" | grep -q 'Number of section headers: *0' || fail "$1 has its sections still"
}

go_of_this_machine() {
	built go host
	as_addr2line go host
	as_traceback host
}

# of_suite SUITE: its Go in $go.
of_suite() {
	go=$("$top/tests/env/vm/fetch-go" "$1" 2>"$out/fetch.log") || {
		fail "no Go of $1: $(tail -n 1 "$out/fetch.log")"
		return 1
	}
}

go_of_bookworm_backports() {
	of_suite bookworm-backports || return 0
	built "$go" backports
	without_sections backports
	as_traceback backports
}

go_of_trixie() {
	of_suite trixie || return 0
	built "$go" trixie
	as_traceback trixie
	built "$go" trixie-pie -buildmode=pie -tags with_c
	without_sections trixie-pie
	as_traceback trixie-pie
}

go_of_forky() {
	of_suite forky || return 0
	built "$go" forky
	as_traceback forky
	built "$go" forky-pie -buildmode=pie
	as_traceback forky-pie
	built "$go" forky-c -tags with_c
	as_traceback forky-c
}

go_of_forky_in_a_c_library() {
	of_suite forky || return 0
	built "$go" forky-library -buildmode=c-shared -tags with_c
	as_addr2line "$go" forky-library
}

go_of_forky_for_other_machines() {
	of_suite forky || return 0
	local -x GOARCH=386
	built "$go" forky-386
	as_traceback forky-386
	GOARCH=arm64
	built "$go" forky-arm64
	as_addr2line "$go" forky-arm64
}

make -s -C "$top" build/gosym/dump
rm -rf "$out/program"
cp -r "$top/tests/gosym/program" "$out/program"
cp "$top/tests/gosym/generic_methods.go.txt" "$out/program/generic_methods.go"
cd "$out/program"
run_test go_of_this_machine "names of Go programs: as this machine's Go has them"
run_test go_of_bookworm_backports "names of Go programs: Go of bookworm-backports, no sections"
run_test go_of_trixie "names of Go programs: Go of trixie, also position independent with C"
run_test go_of_forky "names of Go programs: Go of forky, also position independent, also with C"
run_test go_of_forky_in_a_c_library "names of Go programs: Go of forky in a C library"
run_test go_of_forky_for_other_machines "names of Go programs: Go of forky for 386 and arm64"
exit "$any_failed"

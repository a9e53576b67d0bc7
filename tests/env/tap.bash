# SPDX-License-Identifier: GPL-2.0
# Common functions of test scripts, which source this file. Each test is a function.
# shellcheck shell=bash disable=SC2034

set -euo pipefail

top=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
build=${B:-build}
[[ $build == /* ]] || build=$top/$build
stackbeat=$build/stackbeat
any_failed=0
# Seconds after which what a test waits for has hung: tests/check measures how slow the machine is.
hang=$((300 * ${STACKBEAT_PATIENCE:-1}))

# fail WHY: marks the running test as failed; the test goes on.
fail() {
	printf '# %s\n' "$@" >&2
	why=${why:-${1//$'\n'/ }}
}

# input_has ARGUMENT...: as grep -q, but reads the whole input. Else SIGPIPE may kill what writes it, and `pipefail` makes that
# a failure, by chance.
input_has() {
	local input
	input=$(cat)
	grep -q "$@" <<<"$input"
}

# skip WHY: marks the running test as skipped, unless it fails.
skip() {
	skip=$1
}

# run_test FUNCTION [NAME]: runs a test and prints its result for tests/check.
run_test() {
	local name=${2:-${1//_/ }}
	why=
	skip=
	"$1"
	if [[ $why ]]; then
		echo "not ok $name: $why"
		any_failed=1
	elif [[ $skip ]]; then
		echo "ok $name # SKIP $skip"
	else
		echo "ok $name"
	fi
}

# run_or_skip WHY FUNCTION...: runs the tests, or skips them if WHY is not empty.
run_or_skip() {
	local why_not=$1 function
	for function in "${@:2}"; do
		if [[ $why_not ]]; then
			echo "ok ${function//_/ } # SKIP $why_not"
		else
			run_test "$function"
		fi
	done
}

# perf_events_are_refused OPTION...: whether the kernel refuses perf events for a recording of `true` with these options.
# Sets `skipped` to its reason. What else goes wrong is for the tests to find.
perf_events_are_refused() {
	skipped=$(timeout "$hang" "$stackbeat" record --source=perf --no-cache --no-symbolize -o "$scratch/refused" "$@" true \
		2>&1 >/dev/null </dev/null | sed -n 's/^stackbeat[a-z ]*: \(perf events: [^:(]*\).*/\1/p') || true
	[[ $skipped ]]
}

# The tier of the tests to run: check, long or all (tests/README.md), by an argument or the environment.
tier=${1:-${STACKBEAT_TIER:-all}}
[[ $tier == @(check|long|all) ]] || { echo "usage: $0 [check|long|all]" >&2 && exit 2; }

# is_in_tier TIER: whether tests of TIER are to be run.
is_in_tier() {
	[[ $tier == all || $tier == "$1" ]]
}

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

# run_test FUNCTION [NAME]: runs a test and prints its result for tests/check.
run_test() {
	local name=${2:-${1//_/ }}
	why=
	"$1"
	if [[ $why ]]; then
		echo "not ok $name: $why"
		any_failed=1
	else
		echo "ok $name"
	fi
}

# The tier of the tests to run: check, long or all (tests/README.md).
tier=${1:-all}
[[ $tier == @(check|long|all) ]] || { echo "usage: $0 [check|long|all]" >&2 && exit 2; }

# is_in_tier TIER: whether tests of TIER are to be run.
is_in_tier() {
	[[ $tier == all || $tier == "$1" ]]
}

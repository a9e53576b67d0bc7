# SPDX-License-Identifier: GPL-2.0
# Functions that test scripts share; a script sources this file. Each test is a function.
# shellcheck shell=bash disable=SC2034

set -euo pipefail

top=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
build=${B:-build}
[[ $build == /* ]] || build=$top/$build
stackbeat=$build/stackbeat
any_failed=0

# fail WHY: the test at hand has failed, and goes on.
fail() {
	printf '# %s\n' "$@" >&2
	why=${why:-${1//$'\n'/ }}
}

# run_test FUNCTION [NAME]: prints what became of it, as tests/check reads it.
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

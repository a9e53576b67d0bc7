# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Common functions of the guest runner's scripts. Sourced, never run.

set -euo pipefail

VM_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
REPO=$(cd "$VM_DIR/../../.." && pwd -P)
# Where things are built ($B of the Makefile, relative to the repo), and where downloads are kept.
BUILD=${B:-build}
[[ $BUILD == /* ]] || BUILD=$REPO/$BUILD
CACHE=$BUILD/vm
export REPO BUILD

die() {
	echo "${0##*/}: $*" >&2
	exit "${DIE_STATUS:-1}"
}

# need PROGRAM...: exits with advice if a program is missing.
need() {
	local program
	for program; do
		command -v "$program" >/dev/null ||
			die "$program is missing; 'make deps-dev' installs it"
	done
}

# lock NAME: takes the lock NAME, and holds it until the script exits. Protects the caches when several
# runners start at once.
lock() {
	local fd
	mkdir -p "$CACHE/locks"
	exec {fd}>"$CACHE/locks/$1"
	flock "$fd"
}

# is_own_kernel NAME: whether NAME is a kernel that is built here (see build-own-kernel), not a suite.
is_own_kernel() {
	[[ $1 =~ ^[a-z]+$ && -e $VM_DIR/kernels/$1.config ]]
}

this_suite() {
	# shellcheck source=/dev/null
	(. /etc/os-release && echo "${VERSION_CODENAME:-}")
}

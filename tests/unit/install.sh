#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make install and make uninstall, in a directory of their own.

set -euo pipefail

die() {
	printf 'install: %s\n' "$*" >&2
	exit 1
}

# The make that may have called us must not decide what is installed where.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES DESTDIR MODULE_INSTALL
build=$(realpath "${B:-build}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# run TARGET [VARIABLE=VALUE...]
run() {
	make -s B="$scratch/build" DESTDIR="$scratch/root" PREFIX=/opt/it KVERSION=1.2.3-test "$@"
}

installed() {
	(cd "$scratch/root" && find . ! -type d -printf '%m %P\n' | sort -k 2)
}

expect() {
	[[ $(installed) == "$1" ]] || die "expected:"$'\n'"$1"$'\n'"found:"$'\n'"$(installed)"
}

# A build directory with the command as it is, and a module that comes later.
mkdir -p "$scratch/build" "$scratch/root"
cp -a "$build"/{user,proto,stackbeat} "$scratch/build"

files='755 opt/it/bin/stackbeat
644 opt/it/include/stackbeat.h
644 opt/it/share/bash-completion/completions/stackbeat
644 opt/it/share/man/man1/stackbeat.1.gz'
module='644 lib/modules/1.2.3-test/extra/stackbeat.ko'

run install
expect "$files"
[[ $("$scratch/root/opt/it/bin/stackbeat" --version) == "stackbeat $(cat VERSION)" ]] ||
	die "the installed command does not run"
gzip -dc "$scratch/root/opt/it/share/man/man1/stackbeat.1.gz" | cmp - man/stackbeat.1
cmp include/stackbeat.h "$scratch/root/opt/it/include/stackbeat.h"
echo '#include <stackbeat.h>' | ${CC:-gcc} -fsyntax-only -I"$scratch/root/opt/it/include" -x c -

if run install MODULE_INSTALL=1 2>"$scratch/message"; then
	die "MODULE_INSTALL=1 without a module succeeded"
fi
grep -q "stackbeat.ko is not there" "$scratch/message" || die "$(cat "$scratch/message")"

mkdir -p "$scratch/build/kmod/1.2.3-test"
echo module >"$scratch/build/kmod/1.2.3-test/stackbeat.ko"
run install MODULE_INSTALL=1
expect "$module"$'\n'"$files"

# What others have put there stays.
touch "$scratch/root/opt/it/bin/stackbeat-other" "$scratch/root/lib/modules/1.2.3-test/extra/other.ko"
chmod 644 "$scratch/root/opt/it/bin/stackbeat-other"
run uninstall
expect '644 lib/modules/1.2.3-test/extra/other.ko
644 opt/it/bin/stackbeat-other'
run uninstall
echo "install: passed"

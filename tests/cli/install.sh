#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# make install and make uninstall, in a directory of their own.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/options.bash"

# The make that may have called us must not decide what is installed where.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES DESTDIR MODULE_INSTALL
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root

# run TARGET [VARIABLE=VALUE...]
run() {
	make -C "$top" --no-print-directory B="$scratch/build" DESTDIR="$root" PREFIX=/opt/it \
		KVERSION=1.2.3-test "$@" >"$scratch/log" 2>&1
}

# expect FILES: "MODE PATH" lines of all that is installed, sorted by path.
expect() {
	local found
	found=$(cd "$root" && find . ! -type d -printf '%m %P\n' | sort -k 2)
	[[ $found == "$1" ]] || fail "installed is: $found"
}

files='755 opt/it/bin/stackbeat
644 opt/it/include/stackbeat.h
644 opt/it/share/bash-completion/completions/stackbeat
644 opt/it/share/fish/vendor_completions.d/stackbeat.fish
644 opt/it/share/man/man1/stackbeat.1.gz
644 opt/it/share/zsh/site-functions/_stackbeat'
for command in $(subcommands | sort); do
	files+=$'\n'"644 opt/it/share/man/man1/stackbeat-$command.1.gz"
done
files=$(sort -k 2 <<<"$files")
module='644 lib/modules/1.2.3-test/extra/stackbeat.ko'

install_puts_files_where_they_belong() {
	run install || fail "$(cat "$scratch/log")"
	expect "$files"
	gzip -dc "$root/opt/it/share/man/man1/stackbeat-record.1.gz" | input_has '^stackbeat\\-record' ||
		fail "the man page is another one"
	grep -q 'flamegraph.*--inverted' "$root/opt/it/share/bash-completion/completions/stackbeat" ||
		fail "the completion has no options"
	echo '#include <stackbeat.h>' | ${CC:-gcc} -fsyntax-only -I"$root/opt/it/include" -x c - ||
		fail "the header does not compile"
}

a_missing_module_is_named() {
	run install || fail "$(cat "$scratch/log")"
	grep -q "no module for kernel 1.2.3-test" "$scratch/log" || fail "$(cat "$scratch/log")"
}

the_installed_command_runs() {
	[[ $("$root/opt/it/bin/stackbeat" --version) == "stackbeat $(cat "$top/VERSION")" ]] ||
		fail "it does not"
}

a_module_that_is_asked_for_must_be_there() {
	! run install MODULE_INSTALL=1 || fail "it need not"
	grep -q "stackbeat.ko does not exist" "$scratch/log" || fail "$(cat "$scratch/log")"
}

a_module_that_is_built_is_installed() {
	mkdir -p "$scratch/build/kmod/1.2.3-test"
	echo 'int symbol;' | ${CC:-gcc} -g -c -x c -o "$scratch/build/kmod/1.2.3-test/stackbeat.ko" -
	run install MODULE_INSTALL=1 || fail "$(cat "$scratch/log")"
	expect "$module"$'\n'"$files"
	# With its symbols, and without debug information.
	nm "$root/${module#* }" | input_has ' symbol$' || fail "$(nm "$root/${module#* }")"
	! readelf -SW "$root/${module#* }" | input_has debug_info || fail "it has debug information"
}

a_signed_module_is_installed_as_it_is() {
	printf '~Module signature appended~\n' >>"$scratch/build/kmod/1.2.3-test/stackbeat.ko"
	run install MODULE_INSTALL=1 || fail "$(cat "$scratch/log")"
	cmp "$scratch/build/kmod/1.2.3-test/stackbeat.ko" "$root/${module#* }" || fail "it has changed"
}

# Seen without doing it: it would be this machine's.
the_list_of_modules_is_made_where_they_run() {
	run -n install DESTDIR= || fail "$(cat "$scratch/log")"
	grep -q "depmod -a 1.2.3-test" "$scratch/log" || fail "install makes none"
	run -n uninstall DESTDIR= || fail "$(cat "$scratch/log")"
	grep -q "depmod -a 1.2.3-test" "$scratch/log" || fail "uninstall makes none"
	run -n install || fail "$(cat "$scratch/log")"
	! grep -q depmod "$scratch/log" || fail "DESTDIR makes one too"
}

uninstall_leaves_what_is_not_its_own() {
	local others=("$root/lib/modules/1.2.3-test/extra/other.ko" "$root/opt/it/bin/stackbeat-other")
	install -m 644 /dev/null "${others[0]}"
	install -m 644 /dev/null "${others[1]}"
	run uninstall || fail "$(cat "$scratch/log")"
	expect $'644 lib/modules/1.2.3-test/extra/other.ko\n644 opt/it/bin/stackbeat-other'
	run uninstall || fail "a second time: $(cat "$scratch/log")"
}

# The command as it is built, without building it again.
mkdir -p "$scratch/build" "$root"
cp -a "$build"/{user,proto,stackbeat} "$scratch/build"

run_test install_puts_files_where_they_belong
run_test a_missing_module_is_named
run_test the_installed_command_runs
run_test a_module_that_is_asked_for_must_be_there
run_test a_module_that_is_built_is_installed
run_test a_signed_module_is_installed_as_it_is
run_test the_list_of_modules_is_made_where_they_run
run_test uninstall_leaves_what_is_not_its_own
exit "$any_failed"

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The programs that tests/accuracy/build builds in many ways, and tests/programs once. Needs REPO and BUILD.

# compile PROGRAM OUTPUT COMPILER [FLAG...]
compile() {
	local program=$1 output=$2 compiler=$3 source=$REPO/tests/accuracy/programs workloads=$REPO/tests/env/workloads
	shift 3
	case $program in
	unusual) "$compiler" -g "$@" -o "$output" "$source/unusual.c" ;;
	threads) "$compiler" -D_GNU_SOURCE -g "$@" -o "$output" "$workloads/nofp.c" -pthread ;;
	plugin) "$compiler" -O2 -g -fomit-frame-pointer -shared -fPIC "$@" -o "$output" "$workloads/nofp_plugin.c" ;;
	exceptions) "$compiler" -O2 -g "$@" -o "$output" "$source/exceptions.cc" ;;
	chains) "$compiler" -O2 -g "$@" -o "$output" "$source/chains.c" -pthread ;;
	chain-library) "$compiler" -O2 -shared -fPIC "$@" -o "$output" "$source/chain_library.c" ;;
	chain-headless) compile chain-library "$output" "$compiler" -s "$@" && cut_section_headers "$output" ;;
	chain-assembly)
		"$compiler" -nostdlib -shared -Wl,--no-ld-generated-unwind-info "$@" -o "$output" "$source/chain_assembly.S"
		;;
	chain-callees) "$compiler" -O2 -shared -fPIC -DLIBRARY "$@" -o "$output" "$source/chain_stubs.c" ;;
	chain-stubs)
		"$compiler" -O2 -g "$@" -o "$output" "$source/chain_stubs.c" "${output%/*}/chain-callees.so" -Wl,-rpath,"${output%/*}"
		;;
	rust) "$compiler" -C opt-level=2 -g "$@" -o "$output" "$source/work.rs" ;;
	go-pure) compile_go 0 pure.go ;;
	go-cgo) compile_go 1 cgo.go ;;
	java) "$compiler" -d "${output%/*}" "$@" "$source/Work.java" ;;
	*) return 2 ;;
	esac
}

# compile_go CGO SOURCE: a part of compile.
compile_go() {
	CGO_ENABLED=$1 GO111MODULE=off GOFLAGS='' GOTOOLCHAIN=local GOPATH=$BUILD/go GOCACHE=$BUILD/go-cache \
		"$compiler" build -o "$output" "$source/work.go" "$source/$2"
}

# cut_section_headers FILE: sets e_shoff, e_shnum and e_shstrndx of a 64-bit ELF file to 0.
cut_section_headers() {
	dd if=/dev/zero of="$1" bs=1 seek=40 count=8 conv=notrunc status=none
	dd if=/dev/zero of="$1" bs=1 seek=60 count=4 conv=notrunc status=none
}

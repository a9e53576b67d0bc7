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

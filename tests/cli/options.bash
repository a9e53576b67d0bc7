# SPDX-License-Identifier: GPL-2.0
# The subcommands and options that --help lists; a test script sources this file.
# shellcheck shell=bash disable=SC2154 # `stackbeat` is set in tap.bash

subcommands() {
	"$stackbeat" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
}

# options_of SUBCOMMAND: a line for each option: "-X --NAME VALUE". "-" or "--" alone: there is no short
# or no long option; no VALUE: the option takes none.
options_of() {
	"$stackbeat" "$1" --help | sed -nE \
		-e 's/^  -(.), --([a-z-]+)( ([^ ]+))?(  .*)?$/-\1 --\2 \4/p' \
		-e 's/^      --([a-z-]+)( ([^ ]+))?(  .*)?$/- --\1 \3/p' \
		-e 's/^  -(.)( ([^ ]+))?(  .*)?$/-\1 -- \3/p'
}

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The completions of zsh and fish, which completions/generate makes of --help and of the completion for bash: they have the
# same subcommands, options and values as --help.

# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/options.bash"

scratch=$(mktemp -d)
trap 'tmux -S "$scratch/tmux" kill-server 2>/dev/null || true; rm -rf "$scratch"' EXIT
made=$scratch/made
"$top/completions/generate" "$stackbeat" "$made"
PATH=$build:$PATH

# The options of a subcommand; load and others have no row of --help.
all_options_of() {
	local options
	options=$(options_of "$1")
	[[ $options == *--help* ]] || options+=$'\n''-h --help '
	sed '/^$/d' <<<"$options"
}

# The arguments that _arguments gets for a subcommand.
zsh_specs() {
	# shellcheck disable=SC2016 # zsh expands it
	zsh -f -c '
		_arguments() {
			if [[ $1 == -C ]]; then state=rest; words=($words[2,-1]); else print -rl -- "$@"; fi
		}
		words=(stackbeat "$2" "")
		. "$1"' zsh "$made/_stackbeat" "$1"
}

zsh_has_options_of_help() {
	local command short long expects option specs
	zsh -n "$made/_stackbeat" || fail "a syntax error"
	for command in $(subcommands); do
		grep -q "^[[:space:]]*'$command:..*'\$" "$made/_stackbeat" || fail "$command is missing"
		specs=$(zsh_specs "$command")
		while read -r short long expects; do
			for option in "$short" "$long"; do
				[[ $option != - && $option != -- ]] || continue
				if [[ $expects ]]; then
					grep -qE -- "^[(*].*${option}[+=]\[.+\]:.+:.+" <<<"$specs" || fail "$command $option $expects: $specs"
				else
					grep -qE -- "^[(*].*$option\[.+\]\$" <<<"$specs" || fail "$command $option: $specs"
				fi
			done
		done < <(all_options_of "$command")
		[[ $(grep -c '^[(*].*\[.*\]' <<<"$specs") == "$(all_options_of "$command" | grep -oE -- '(^| )--?[a-zA-Z][a-z-]*' | wc -l)" ]] ||
			fail "$command: other options than in --help: $specs"
	done
}

# await_screen TEXT: waits until the terminal shows it.
await_screen() {
	local end=$((SECONDS + hang))
	until tmux -S "$scratch/tmux" capture-pane -p | input_has -F -- "$1"; do
		if ((SECONDS > end)); then
			fail "'$1' is not on the screen: $(tmux -S "$scratch/tmux" capture-pane -p)"
			return 1
		fi
		sleep 0.1
	done
}

# In a terminal, as a person types.
zsh_completes_what_is_typed() {
	local keys="tmux -S $scratch/tmux send-keys --"
	tmux -S "$scratch/tmux" -f /dev/null new-session -d -x 120 -y 30 "cd $scratch && PATH=$PATH exec zsh -f -i"
	$keys "fpath=($made \$fpath); autoload -Uz compinit; compinit -D -u; PS1='ready''> '" Enter
	await_screen 'ready>' || return 0
	$keys "stackbeat rec" Tab "--unw" Tab "t" Tab
	await_screen 'stackbeat record --unwind=tables' || return 0
	$keys " --labels comm,threa" Tab " --f" Tab
	await_screen '--labels comm,thread --frequency=' || return 0
	$keys C-u "stackbeat help flam" Tab
	await_screen 'stackbeat help flamegraph' || return 0
	$keys C-u "stackbeat load rate" Tab
	await_screen 'stackbeat load rate_max=' || return 0
	: >"$scratch/some-profile.pb.gz"
	$keys C-u "stackbeat report some" Tab
	await_screen 'stackbeat report some-profile.pb.gz'
}

# fish_offers LINE: the words that are offered for the last word of a command line.
fish_offers() {
	# shellcheck disable=SC2016 # fish expands it
	(cd "$scratch" && fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$made/stackbeat.fish" "$1" | cut -f 1)
}

fish_has_options_of_help() {
	local command expected found short long expects option
	fish -n "$made/stackbeat.fish" || fail "a syntax error"
	for command in $(subcommands); do
		expected=$(all_options_of "$command" | grep -oE -- '--[a-z-]+' | sort)
		found=$(fish_offers "stackbeat $command --" | sort)
		[[ $found == "$expected" ]] || fail "$command: $(xargs <<<"$found"), expected $(xargs <<<"$expected")"
		while read -r short long expects; do
			option="-n '__stackbeat_uses $command'"
			[[ $short == - ]] || option+=" -s ${short#-}"
			[[ $long == -- ]] || option+=" -l ${long#--}"
			if [[ $expects ]]; then
				grep -qF -- "$option -x" "$made/stackbeat.fish" || grep -qF -- "$option -r -F" "$made/stackbeat.fish" ||
					fail "$command: no value of $short $long"
			else
				grep -qF -- "$option -d " "$made/stackbeat.fish" || fail "$command: $short $long is not there"
			fi
		done < <(all_options_of "$command")
	done
}

# fish_gives EXPECTED LINE
fish_gives() {
	local found
	found=$(fish_offers "$2" | sort | xargs)
	[[ $found == "$1" ]] || fail "'$2': expected '$1', found '$found'"
}

# fish_gives_pids BEFORE LINE: gives this process, and others only if their numbers begin with this one's.
fish_gives_pids() {
	local found
	found=$(fish_offers "$2")
	input_has -x "$1$$" <<<"$found" || fail "'$2': no process $$: $found"
	! input_has -vxE "$1$$[0-9]*" <<<"$found" || fail "'$2': $found"
}

fish_completes_what_is_typed() {
	: >"$scratch/some-profile.pb.gz"
	fish_gives "record report resume" "stackbeat re"
	fish_gives "record report resume" "stackbeat help re"
	fish_gives "auto fp tables" "stackbeat record --unwind "
	fish_gives "--unwind=fp" "stackbeat record --unwind=f"
	fish_gives "comm,thread comm,tid comm,truncated" "stackbeat record --labels comm,t"
	fish_gives "--labels=comm,tid" "stackbeat record --labels=comm,ti"
	fish_gives "some-profile.pb.gz" "stackbeat report some"
	fish_gives "some-profile.pb.gz" "stackbeat symbolize -o some"
	fish_gives "rate_max=" "stackbeat load r"
	fish_gives_pids "" "stackbeat stack $$"
	fish_gives_pids "1," "stackbeat record -p 1,$$"
	fish_gives "0,0" "stackbeat record -C 0,0"
	fish_gives "" "stackbeat doctor some"
	fish_offers "stackbeat record --exclude-comm " | input_has -x bash || fail "no names of threads"
}

# refuses MESSAGE SED-SCRIPT: completions/generate fails with MESSAGE after this change of the completion for bash.
refuses() {
	local output
	mkdir -p "$scratch/other"
	cp "$top"/completions/* "$scratch/other"
	sed -i "$2" "$scratch/other/stackbeat"
	! output=$("$scratch/other/generate" "$stackbeat" "$scratch/refused" 2>&1) || fail "$2 is accepted"
	[[ $output == *"$1"* ]] || fail "$2: $output"
}

differences_from_help_are_refused() {
	refuses "record: completions/stackbeat has no values for --budget PERCENT" '/record:--budget/d'
	refuses "record: completions/stackbeat has values for --user, which takes none" 's/record:--budget)/record:--user | &/'
}

run_test differences_from_help_are_refused
if command -v zsh >/dev/null; then
	run_test zsh_has_options_of_help
	run_test zsh_completes_what_is_typed
else
	echo "ok zsh # SKIP zsh is not installed"
fi
if command -v fish >/dev/null; then
	run_test fish_has_options_of_help
	run_test fish_completes_what_is_typed
else
	echo "ok fish # SKIP fish is not installed"
fi
exit "$any_failed"

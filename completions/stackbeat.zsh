#compdef stackbeat
# SPDX-License-Identifier: GPL-2.0
# Completion for zsh.

# _stackbeat_list WORD...: the last entry of a comma-separated list.
_stackbeat_list() {
	compset -P '*,'
	compadd -S '' -- "$@"
}

_stackbeat_pids() {
	local -a pids=(/proc/<1->(N:t))
	_stackbeat_list $pids
}

_stackbeat_tids() {
	local -a tids=(/proc/<1->/task/<1->(N:t))
	_stackbeat_list $tids
}

_stackbeat_cpus() {
	local -a cpus=(/sys/devices/system/cpu/cpu<->(N:t))
	_stackbeat_list ${cpus#cpu}
}

# Control groups of version 2, as paths below their mount point.
_stackbeat_cgroups() {
	local device mount kind rest
	while read -r device mount kind rest; do
		[[ $kind != cgroup2 ]] || _path_files -W $mount -/
	done </proc/self/mounts
}

_stackbeat_comms() {
	local -a comms=(${(f)"$(cat /proc/<1->/comm 2>/dev/null)"})
	compadd -- $comms
}

# A line of `stackbeat status` about a session begins with the ID of the session.
_stackbeat_session() {
	local -a lines=(${(f)"$(stackbeat status 2>/dev/null)"})
	compadd -- ${(M)${${lines## #}%% *}:#<->}
}

# The functions of stackbeat.pb.gz that can be typed without quotes.
_stackbeat_functions() {
	local -a lines=(${(f)"$(stackbeat report --raw-values -n 200 2>/dev/null)"})
	compadd -- ${(M)${lines##* }:#[A-Za-z0-9_.]##}
}

_stackbeat_parameters() {
	compadd -S '' -- kernel_stack_check= rate_max= unwind_memory= unprivileged=
}

_stackbeat_commands() {
	local -a commands=(
# generate: commands
		'help:show the help of a command'
	)
	_describe command commands
}

_stackbeat() {
	local curcontext=$curcontext state line
	setopt localoptions extendedglob

	_arguments -C '(- *)'{-h,--help}'[show the help]' '(- *)'{-V,--version}'[print the version]' \
		'1: :_stackbeat_commands' '*:: :->rest'
	[[ $state == rest ]] || return
	curcontext=${curcontext%:*:*}:stackbeat-$words[1]:
	case $words[1] in
	help) _stackbeat_commands ;;
# generate: options
	esac
}

_stackbeat "$@"

# SPDX-License-Identifier: GPL-2.0
# Completion for fish.

# The subcommand is the first word.
function __stackbeat_begins
    test (count (commandline -opc)) -eq 1
end

function __stackbeat_uses
    set -l words (commandline -opc)
    test (count $words) -gt 1
    and test $words[2] = $argv[1]
end

# __stackbeat_list WORD...: the last entry of a comma-separated list.
function __stackbeat_list
    set -l before (string match -r -- '.*,' (string replace -r -- '^-[^=]*=' '' (commandline -ct)))
    printf "$before%s\n" $argv
end

function __stackbeat_pids
    __stackbeat_list (string match -rg '^/proc/([0-9]+)$' /proc/*)
end

function __stackbeat_tids
    __stackbeat_list (string match -rg '^/proc/[0-9]+/task/([0-9]+)$' /proc/*/task/*)
end

function __stackbeat_cpus
    __stackbeat_list (string match -rg 'cpu([0-9]+)$' /sys/devices/system/cpu/cpu*)
end

# Control groups of version 2, as paths below their mount point.
function __stackbeat_cgroups
    set -l mount (string match -rg '^\S+ (\S+) cgroup2 ' </proc/self/mounts)
    test -n "$mount"
    and for directory in $mount[1]/*/ $mount[1]/*/*/
        string replace -- $mount[1] '' $directory
    end
end

function __stackbeat_comms
    cat /proc/*/comm 2>/dev/null | sort -u
end

# A line of `stackbeat status` about a session begins with the ID of the session.
function __stackbeat_session
    stackbeat status 2>/dev/null | string match -rg '^ *([0-9]+) '
end

# The functions of stackbeat.pb.gz that can be typed without quotes.
function __stackbeat_functions
    stackbeat report --raw-values -n 200 2>/dev/null | string match -rg ' ([A-Za-z0-9_.]+)$'
end

function __stackbeat_parameters
    printf '%s\n' kernel_stack_check= rate_max= unwind_memory= unprivileged=
end

complete -c stackbeat -f
complete -c stackbeat -n __stackbeat_begins -s h -l help -d 'show the help'
complete -c stackbeat -n __stackbeat_begins -s V -l version -d 'print the version'
complete -c stackbeat -n __stackbeat_begins -a help -d 'show the help of a command'
# generate: commands
# generate: options

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# container.sh [TIER]: `stackbeat serve` in a container with the rights of packaging/kubernetes/daemonset.yaml: with all of
# them, everything works, and (tier `long`) without any of them, something does not. container.py is the runtime. The variable
# STACKBEAT_IMAGE may name the root directory of an image of packaging/Dockerfile.
# shellcheck disable=SC2317 # its functions are called by run_test

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"
. "$(dirname "${BASH_SOURCE[0]}")/../env/serve.bash"

manifest=$top/packaging/kubernetes/daemonset.yaml
scratch=$(mktemp -d)
declare -A servers=()
programs=()
group=''
clean_up() {
	kill "${servers[@]}" "${programs[@]}" 2>/dev/null || true
	wait
	local directory
	# A process that was killed may not have left it yet.
	for directory in ${group:+"$group/pod" "$group/stackbeat-test.service" "$group"}; do
		until rmdir "$directory" 2>/dev/null || [[ ! -d $directory ]]; do sleep 0.1; done
	done
	rm -rf "$scratch"
}
trap clean_up EXIT

cat >"$scratch/spin.c" <<'END'
#include <fcntl.h>
#include <unistd.h>

static volatile unsigned int sum;

__attribute__((noinline)) void INNERMOST(int zero)
{
	static char buffer[4096];

	for (unsigned int i = 0; i < 1000000; i++)
		sum += i;
	for (unsigned int i = 0; CALLS && i < 10000; i++)
		sum += pread(zero, buffer, sizeof(buffer), 0);
}

int main(void)
{
	const int zero = open("/dev/zero", O_RDONLY);

	for (;;)
		INNERMOST(zero);
}
END

# The image, or without one its parts that need no Dockerfile: the command, its libraries and the user.
make_root() {
	local library http
	if [[ ${STACKBEAT_IMAGE:-} ]]; then
		cp -a "$STACKBEAT_IMAGE" "$scratch/root"
		return
	fi
	http=$(ldconfig -p | awk '/libmicrohttpd\.so\.12 / && !found++ { print $NF }')
	mkdir -p "$scratch"/root/{proc,sys,dev,etc,usr/bin,var/lib/stackbeat}
	: >"$scratch/root/dev/null"
	cp "$stackbeat" "$scratch/root/usr/bin/stackbeat"
	ldd "$stackbeat" "$http" | grep -oE '/[^ :]+' | sort -u >"$scratch/libraries"
	while read -r library; do
		[[ $library == "$stackbeat" ]] || install -D "$library" "$scratch/root$library"
	done < <(cat "$scratch/libraries" && echo "$http")
	sed -n 's/.*useradd --system --uid \([0-9]*\) .* \([^ ]*\) && \\$/\2:x:\1:\1::\/:\/usr\/sbin\/nologin/p' \
		"$top/packaging/Dockerfile" >"$scratch/root/etc/passwd"
	echo root:x:0:0::/:/bin/sh >>"$scratch/root/etc/passwd"
}

# start_program NAME CALLS PREFIX...: a program with a function of its own; CALLS: it makes system calls.
start_program() {
	"${CC:-gcc}" -O1 -g -DINNERMOST="in_$1" -DCALLS="$2" -o "$scratch/$1" "$scratch/spin.c" || exit 1
	chown 12345:12345 "$scratch/$1"
	chmod 700 "$scratch/$1"
	setpriv --reuid=12345 --regid=12345 --clear-groups "$scratch/$1" &
	programs+=($!)
	# Until it is what it will be.
	until [[ $(readlink "/proc/$!/exe") == "$scratch/$1" ]]; do sleep 0.01; done
}

# start_server WITHOUT: a container without this right; nothing: with all rights.
start_server() {
	mkdir "$scratch/volume.$1"
	# Unwind tables and symbols take most of the time. The server may rename or remove a file meanwhile, which is then left out.
	[[ ! -d $scratch/volume.nothing/cache ]] || cp -r "$scratch/volume.nothing/cache" "$scratch/volume.$1" 2>/dev/null || true
	# Their control group is the root of the container's cgroup namespace.
	# shellcheck disable=SC2016
	timeout $((2 * hang)) bash -c '[[ ! $0 ]] || echo $$ >"$0/pod/cgroup.procs"; exec "$@"' "$group" python3 "$top/tests/cli/container.py" "$manifest" "$scratch/root" "$scratch/volume.$1" "$1" \
		-F 199 --window 1 --listen unix:/var/lib/stackbeat/socket >"$scratch/messages.$1" 2>&1 </dev/null &
	servers[$1]=$!
}

# get WITHOUT PATH: prints the answer, or fails.
get() {
	serve_get "$scratch/volume.$1/socket" "$2" 2>>"$scratch/get"
}

is_running() {
	kill -0 "${servers[$1]}" 2>/dev/null
}

# await WITHOUT COMMAND...: until it succeeds. Fails if the server ends, or if that has hung.
await() {
	serve_await "${servers[$1]}" "${@:2}"
}

# lacks WITHOUT: prints what does not work; nothing if all does.
lacks() {
	local folded=$scratch/folded.$1
	get "$1" '/debug/pprof/profile?seconds=2' >"$scratch/profile.$1" || { echo "an answer" && return; }
	"$stackbeat" report --folded "$scratch/profile.$1" >"$folded" 2>/dev/null || { echo "samples" && return; }
	grep -q 'main;in_private' "$folded" || echo "symbols of another user's program"
	grep -q 'main;in_deleted' "$folded" || echo "symbols of a deleted program"
	grep -q 'main;in_calls;.*;vfs_read' "$folded" || echo "symbols of the kernel"
	grep -q 'by copies of 2 to 32 KiB' "$scratch/messages.$1" || echo "whole copies"
	compgen -G "$scratch/volume.$1/store/*.pb.gz" >/dev/null || echo "a stored window"
}

has_all() {
	lacks "$1" >"$scratch/lacks"
	[[ ! -s $scratch/lacks ]]
}

with_all_rights_everything_works() {
	start_server nothing
	: >"$scratch/lacks"
	await nothing get nothing /healthz >/dev/null || fail "no start"
	await nothing has_all nothing ||
		fail "lacks $(<"$scratch/lacks"): $(<"$scratch/messages.nothing")"
}

# In a cgroup namespace, the others are above it.
services_are_named_by_their_control_groups() {
	[[ $group ]] || { skip "no control groups of version 2 here" && return; }
	await nothing has_service || fail "services: $(get nothing /api/services)"
	await nothing has_group || fail "groups: $(grep -a '^cgroup' "$scratch/groups")"
}

has_service() {
	get nothing /api/services | input_has '"service":"stackbeat-test.service"'
}

has_group() {
	get nothing '/debug/pprof/profile?seconds=1' >"$scratch/profile" &&
		"$stackbeat" report --group cgroup "$scratch/profile" >"$scratch/groups" 2>/dev/null &&
		grep -q '^cgroup /stackbeat-test.service: ' "$scratch/groups"
}

the_root_file_system_stays_as_it_is() {
	local pid
	pid=$(pgrep -P "${servers[nothing]}")
	! touch "/proc/$pid/root/usr/bin/x" 2>/dev/null || fail "the root can be written"
	grep -q '^NoNewPrivs:.1$' "/proc/$pid/status" || fail "new privileges"
}

# The first six capabilities of docs/containers.md: PERFMON, SYS_PTRACE, CHECKPOINT_RESTORE, DAC_READ_SEARCH, SYSLOG, IPC_LOCK.
other_capabilities_are_given_up() {
	local pid kept
	pid=$(pgrep -P "${servers[nothing]}")
	kept=$(awk '/^CapEff:/ { print $2 }' "/proc/$pid/status")
	((16#$kept == (1 << 38 | 1 << 19 | 1 << 40 | 1 << 2 | 1 << 34 | 1 << 14))) || fail "capabilities $kept"
}

# All of the others at once, as each waits most of the time. What the machine does not ask for can't be missed.
without_a_right_something_is_missing() {
	local right lacking
	for right in "${rights[@]}"; do
		if [[ $right == SYSLOG ]] && (($(</proc/sys/kernel/kptr_restrict) == 0 &&
			$(</proc/sys/kernel/perf_event_paranoid) <= 1)); then
			continue
		fi
		start_server "$right"
	done
	for right in "${!servers[@]}"; do
		[[ $right != nothing ]] || continue
		await "$right" get "$right" /healthz >/dev/null || true
	done
	for right in "${!servers[@]}"; do
		[[ $right != nothing ]] || continue
		(is_running "$right" && lacks "$right" || echo "start") >"$scratch/lacks.$right" &
		waits+=($!)
	done
	wait "${waits[@]}"
	for right in "${!servers[@]}"; do
		[[ $right != nothing ]] || continue
		lacking=$(paste -sd, "$scratch/lacks.$right")
		echo "# without $right, missing: ${lacking:-nothing}"
		[[ $lacking ]] || fail "$right is superfluous"
	done
}

waits=()
tests=(with_all_rights_everything_works)
! is_in_tier check || tests+=(services_are_named_by_their_control_groups the_root_file_system_stays_as_it_is other_capabilities_are_given_up)
! is_in_tier long || tests+=(without_a_right_something_is_missing)
skipped=''
if ((EUID != 0)); then
	skipped="not root"
elif ! unshare --mount --cgroup --uts --ipc --net --pid --fork true 2>/dev/null; then
	skipped="no namespaces here"
elif ! perf_events_are_refused -a; then
	chmod 755 "$scratch"
	mapfile -t rights < <(python3 "$top/tests/cli/container.py" --rights "$manifest")
	make_root
	start_program private 0
	start_program deleted 0
	rm "$scratch/deleted"
	start_program calls 1
	if group=$(findmnt -nt cgroup2 -o TARGET | head -n 1)/stackbeat-test.$$ && mkdir "$group" 2>/dev/null; then
		mkdir "$group/pod" "$group/stackbeat-test.service"
		start_program grouped 0
		echo "${programs[-1]}" >"$group/stackbeat-test.service/cgroup.procs"
	else
		group=''
	fi
fi
run_or_skip "$skipped" "${tests[@]}"
exit "$any_failed"

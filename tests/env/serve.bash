# SPDX-License-Identifier: GPL-2.0
# Functions of test scripts that ask `stackbeat serve`; they source tap.bash before.
# shellcheck shell=bash

# serve_get SOCKET PATH: prints the answer, or fails.
serve_get() {
	timeout "$hang" python3 -c '
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", sys.argv[2])
answer = connection.getresponse()
sys.stdout.buffer.write(answer.read())
sys.exit(answer.status != 200)' "$@"
}

# serve_await PID COMMAND...: waits until the command succeeds. Fails if the server ends, or if that has hung.
serve_await() {
	local server=$1 end=$((SECONDS + hang))
	shift
	until "$@"; do
		kill -0 "$server" 2>/dev/null && ((SECONDS < end)) || return
		sleep 0.1
	done
}

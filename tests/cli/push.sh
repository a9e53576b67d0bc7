#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stackbeat push, with a stub of each server.

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

exec python3 "$top/tests/cli/push.py" "$stackbeat"

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stackbeat export: its formats are held to their specifications.

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

exec python3 "$top/tests/cli/export.py" "$stackbeat"

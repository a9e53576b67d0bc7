#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# stackbeat report, on terminals and in pipes.

. "$(dirname "${BASH_SOURCE[0]}")/../env/tap.bash"

exec python3 "$top/tests/cli/report.py" "$stackbeat"

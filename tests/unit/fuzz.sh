#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The seeds of all fuzz targets, which are tried once each. `make fuzz` goes on from there.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
make -s fuzz-targets
exec tests/fuzz/run 0

# SPDX-License-Identifier: GPL-2.0
"""The instructions of a sample: the timer's interrupt, the module, the reader, and what they cause in the kernel."""

import sys

from harness import check, exact_test, ROOT, unload

sys.path.insert(0, str(ROOT / "tests/bench/guest"))
# pylint: disable=wrong-import-position
from sample_cost import AT_MOST, least_costs


@exact_test
def test_instructions_of_a_sample():
    # least_costs() loads the module itself.
    unload()
    costs = least_costs()
    for name, cost in costs.items():
        print(f"# {name}: {cost:.0f} instructions a sample, at most {AT_MOST[name]}", flush=True)
    dear = {name: round(cost) for name, cost in costs.items() if cost > AT_MOST[name]}
    check(not dear, f"a sample takes more instructions than {AT_MOST}: {dear}")

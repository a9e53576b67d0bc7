# SPDX-License-Identifier: GPL-2.0
"""The memory of a CPU's ring is on the NUMA node of the CPU.

Needs a guest with a node for each CPU: tests/env/vm/run --cpus 2 --nodes 2."""

import re
from pathlib import Path

from harness import check_equal, load, test, use
from stackbeat import Session

NODES = Path("/sys/devices/system/node")


def numa_test(function):
    """Kernels without CONFIG_NUMA have no such directory."""
    online = NODES / "online"
    return test(function) if online.exists() and online.read_text().strip() == "0-1" else function


def pages_by_node(address):
    """The numbers of pages on each node, of this process's mapping at an address."""
    line = next(line for line in Path("/proc/self/numa_maps").read_text().splitlines()
                if int(line.split()[0], 16) == address)
    return {int(node): int(pages) for node, pages in re.findall(r"\bN(\d+)=(\d+)", line)}


@numa_test
def rings_are_on_the_nodes_of_their_cpus():
    load()
    session = use(Session(rate=100))
    session.start()
    for cpu, ring in enumerate(session.rings):
        check_equal((NODES / f"node{cpu}" / "cpulist").read_text().strip(), str(cpu), f"CPUs of node {cpu}")
        pages = pages_by_node(ring.producer)
        check_equal(set(pages), {cpu}, f"nodes of the ring of CPU {cpu}: {pages}")

# SPDX-License-Identifier: GPL-2.0
"""Kernel stacks that the unwinder can't walk contain only code addresses; and the instruction that an interrupt has
interrupted is in its function.

Needs modules with such stacks: tests/stress/stray/run."""

import os
from pathlib import Path

from harness import check, check_equal, defer, load, run, Skip, start, test, workload
from stackbeat import STOP_NAMES, S, Session
from workloads import spinning

MODULE = os.environ.get("STACKBEAT_STRAY")
PARAMETERS = Path("/sys/module/stray/parameters")


def stray_module_test(function):
    return test(function) if MODULE else function


def kernel_code():
    """{name: address range} of the code of the kernel and its modules."""
    symbols = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, _, name = line.split()[:3]
        if name in ("_stext", "_etext"):
            symbols[name] = int(address, 16)
    code = {"kernel": range(symbols["_stext"], symbols["_etext"])}
    for line in Path("/proc/modules").read_text().splitlines():
        words = line.split()
        code[words[0]] = range(int(words[5], 16), int(words[5], 16) + int(words[1]))
    return code


@stray_module_test
def failed_unwinds_contain_only_code_addresses():
    load()
    run("insmod", MODULE)
    defer(run, "rmmod", "stray")
    code = kernel_code()
    word = int((PARAMETERS / "word").read_text())
    check(word >> 63 and not any(word in part for part in code.values()), f"word {word:#x}")
    reader = start(*workload("sysread", 10**9))

    def is_astray(sample):
        return bool(sample.kernel) and sample.kernel[0] in code["stray"]

    with Session(rate=1000, parts=S.PART_KERNEL, watermark=4096, budget=S.BUDGET_MAX) as session:
        session.start()
        with spinning("stray") as spinner:
            samples = session.read_until(lambda samples: reader.pid in {sample.pid for sample in samples} and sum(
                sample.pid == spinner.pid and is_astray(sample) for sample in samples) >= 100)
        session.stop()
        samples += session.read()
    astray = [sample for sample in samples if is_astray(sample)]
    for sample in astray:
        for frame in sample.kernel:
            check(any(frame in part for part in code.values()),
                  f"{frame:#x} is no code address (a word on the stack is {word:#x}), in {sample}")
        check_equal(STOP_NAMES[sample.kernel_stop], "bad frame", "stop of an incomplete stack")
    stops = {STOP_NAMES[sample.kernel_stop] for sample in samples if sample.pid == reader.pid}
    check_equal(stops, {"outermost"}, "stops of the stacks of a reading program")


@stray_module_test
def first_instruction_of_a_function_is_interrupted():
    if "PREEMPT_RT" in Path("/proc/version").read_text():
        raise Skip("a thread runs the timers of this kernel")
    load()
    run("insmod", str(Path(MODULE).with_name("interrupted.ko")))
    defer(run, "rmmod", "interrupted")
    begin = next(int(address, 16) for address, _, name, *_ in map(str.split, Path("/proc/kallsyms").open(encoding="ascii"))
                 if name == "sb_interrupted_count")

    def interrupted(samples):
        """Where samples find the function that they have not interrupted themselves. It calls none."""
        return {frame - begin for sample in samples for frame in sample.kernel[1:] if begin <= frame < begin + 8}

    with Session(rate=1000, parts=S.PART_KERNEL, watermark=4096, budget=S.BUDGET_MAX) as session:
        session.start()
        with spinning("interrupted"):
            samples = session.read_until(lambda samples: interrupted(samples) & {0, 1})
        session.stop()
    # Its instructions have 4, 2 and at least 1 bytes.
    check(interrupted(samples) <= {1, 5, 7}, f"interrupted instructions + 1: {interrupted(samples)}")

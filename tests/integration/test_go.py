# SPDX-License-Identifier: GPL-2.0
"""Stacks of a Go program reach the root of the goroutine, also during garbage collection."""

import re

from harness import (check, has_whole_stack, keep_profile, last_json, Recording, samples_of, test, user_part,
                     workload)

ROOTS = re.compile(r"runtime\.(goexit|main)(\.abi0)?")
COLLECTOR = re.compile(r"runtime\.(gcDrain|gcDrainN|gcBgMarkWorker.*)")


@test
def stacks_reach_the_root_of_their_goroutine():
    recording = Recording("-F", 997, command=workload("gowork", 60))
    samples = [user_part(sample) for sample in samples_of(recording.profile(), "gowork")
               if has_whole_stack(sample)]
    keep_profile(recording, "go")
    check(last_json(recording.out)["collections"] > 0, "no garbage collection has run")

    # Other stacks belong to the scheduler. Below runtime.mcall, and within runtime.schedule, it has parked
    # a goroutine that another thread may already run, so the caller frames are meaningless.
    goroutines = [stack for stack in samples
                  if not {"runtime.mcall", "runtime.schedule"} & set(stack)
                  and any(name.startswith("main.") or COLLECTOR.fullmatch(name) for name in stack)]
    check(goroutines, f"none of {len(samples)} stacks is of a goroutine")
    short = [stack for stack in goroutines if not ROOTS.fullmatch(stack[-1])]
    # The first function of a goroutine has no caller until it has set up its frame.
    check(all(len(stack) == 1 for stack in short) and len(short) <= len(goroutines) // 200,
          f"{len(short)} of {len(goroutines)} stacks end elsewhere: {short[:3]}")
    check(any(COLLECTOR.fullmatch(name) for stack in goroutines for name in stack),
          f"none of {len(goroutines)} stacks is of the collector")

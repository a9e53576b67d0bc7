# SPDX-License-Identifier: GPL-2.0
"""User stacks of code without frame pointers."""

from collections import Counter

from harness import check, record, samples_of, test, user_part, workload, WORKLOADS, comment


@test
def try_it():
    import os; os.environ["DEBUG_PUSH"]="1"
    import harness, threading, time, subprocess
    def look():
        time.sleep(1.5)
        print(subprocess.run(["stackbeat", "status", "--json"], capture_output=True, text=True).stdout)
    threading.Thread(target=look).start()
    profile, _, err = record("-v", "-F", 997, command=workload("nofp", 1, WORKLOADS / "libnofp_plugin.so"))
    print(err)
    for sample_comm in ("copies", "lengths", "sorts", "signals", "plugins"):
        stacks = Counter()
        for sample in profile.samples:
            if sample.labels.get("thread") == sample_comm:
                stacks[" ".join(str(f.function) for f in sample.frames) + " " + str(sample.labels.get("truncated"))] += sample.values["samples"]
        print(sample_comm)
        for stack, count in stacks.most_common(12):
            print("   ", count, stack)
    print(*profile.comments, sep="\n")

# SPDX-License-Identifier: GPL-2.0
"""User stacks of code without frame pointers, as `record` finds them: by unwind tables, and by copies of
stacks before the tables are there."""

import re
from collections import Counter

from harness import check, check_equal, exact_test, long_exact_test, record, user_part, workload, WORKLOADS

PLUGIN = WORKLOADS / "libnofp_plugin.so"
# The functions that each thread of nofp has in all of its stacks, callee first.
THREADS = {
    "copies": [["copies"], ["is_over"]],
    "lengths": [["lengths"], ["is_over"]],
    "sorts": [["sorts"], ["is_over"]],
    "signals": [["copies", "handle", "signals"], ["handle", "signals"], ["signals"], ["is_over"]],
    "plugins": [["copies", "plugin_call", "plugins"], ["plugin_call", "plugins"], ["plugins"],
                ["is_over"]],
}
# Outermost functions of programs and threads. A stripped program has no symbol for _start.
ROOTS = {"_start", "__libc_start_main_impl", "_dl_start", "clone3", "__clone3", "_dl_start_user", "clone", "__clone"}


def count(samples):
    return sum(sample.values["samples"] for sample in samples)


def has_subsequence(functions, wanted):
    iterator = iter(functions)
    return all(function in iterator for function in wanted)


def is_right(thread, functions):
    """Whether the stack of a thread of nofp is one of those that its source permits."""
    return (functions[-3:] == ["run", "start_thread", "clone3"]
            and any(has_subsequence(functions, wanted) for wanted in THREADS[thread]))


def check_threads(samples, threads):
    for thread in threads:
        of_thread = [sample for sample in samples if sample.labels.get("thread") == thread
                     and "start_thread" not in user_part(sample)[:1]]
        right = [sample for sample in of_thread if is_right(thread, user_part(sample))]
        share = count(right) / max(count(of_thread), 1)
        wrong = Counter()
        for sample in of_thread:
            if sample not in right:
                wrong[(sample.labels.get("truncated"), *user_part(sample))] += count([sample])
        print(f"{thread}: {count(of_thread)} samples, {100 * share:.2f} % right")
        check(count(of_thread) >= 100, f"only {count(of_thread)} samples of {thread}")
        check(share >= 0.99, f"{thread}: {100 * share:.2f} % right; wrong: {wrong.most_common(5)}")


def shares_of_methods(err):
    found = re.search(r"callers by unwind tables ([\d.]+) %, frame pointers ([\d.]+) %, copies ([\d.]+) %", err)
    check(found, f"no shares of methods in the summary: {err}")
    return [float(share) for share in found.groups()]


@long_exact_test
def callers_of_the_c_library():
    profile, _, err = record("-F", 997, command=workload("nofp", 0.5))
    check_threads(profile.samples, ["copies", "lengths", "sorts"])
    tables, frame_pointers, copies = shares_of_methods(err)
    check(tables > 0 and copies > 0, f"no callers by tables, or by copies: {err}")
    check(frame_pointers < 1, f"callers by frame pointers: {err}")


@long_exact_test
def signal_handlers_and_loaded_libraries():
    """The first process has the tables made: a copy does not have the stack below an alternate one."""
    script = 'sleep 0.2; "$0" 0.4 "$1"; sleep 0.5; exec "$0" 1 "$1"'
    profile, _, err = record("-F", 997, command=["sh", "-c", script, *workload("nofp"), PLUGIN])
    pids = sorted({sample.labels["pid"] for sample in profile.samples
                   if sample.labels.get("thread") == "plugins"})
    check_equal(len(pids), 2, f"processes with plugins: {err}")
    # The shell is the second process, by exec: it has the lower number.
    check_threads([sample for sample in profile.samples if sample.labels["pid"] == pids[0]], THREADS)


@long_exact_test
def processes_of_some_milliseconds():
    """No table is there when the first of them ends: all stacks come from copies."""
    script = "for i in $(seq 300); do /bin/true; done"
    profile, _, err = record("-F", 1999, command=["sh", "-c", script])
    samples = [sample for sample in profile.samples if sample.labels.get("comm") == "true"
               and user_part(sample)]
    rooted = [sample for sample in samples if user_part(sample)[-1] in ROOTS]
    share = count(rooted) / max(count(samples), 1)
    rest = Counter((sample.labels.get("truncated"), *user_part(sample)[-3:]) for sample in samples
                   if sample not in rooted)
    print(f"true: {count(samples)} samples, {100 * share:.2f} % reach a root; rest: {rest.most_common(5)}")
    check(count(samples) >= 100, f"only {count(samples)} samples: {err}")
    check(share >= 0.97, f"{100 * share:.2f} % reach a root; the rest: {rest.most_common(5)}; {err}")


@long_exact_test
def programs_of_the_distribution_have_deep_stacks():
    """With frame pointers alone, these had 1.1 user frames on average."""
    script = ("find /usr/include -name '*.h' >/dev/null;"
              "for i in 1 2 3 4; do tar cf /dev/null /usr/share/misc /usr/include/linux 2>/dev/null; done;"
              "bash -c 'for ((i = 0; i < 20000; i++)); do a=$((a + i)); done'")
    profile, _, err = record("-F", 499, command=["sh", "-c", script])
    for comm in ("find", "tar", "bash"):
        samples = [sample for sample in profile.samples if sample.labels.get("comm") == comm
                   and user_part(sample)]
        depth = sum(count([sample]) * len(user_part(sample)) for sample in samples) / max(count(samples), 1)
        rooted = count([sample for sample in samples if user_part(sample)[-1] in ROOTS])
        share = rooted / max(count(samples), 1)
        print(f"{comm}: {count(samples)} samples, {depth:.1f} user frames, {100 * share:.2f} % reach a root")
        check(count(samples) > 20, f"only {count(samples)} samples of {comm}: {err}")
        check(depth > 4, f"{comm}: {depth:.1f} user frames: {err}")
        check(share >= 0.97, f"{comm}: {100 * share:.2f} % reach a root: {err}")


@long_exact_test
def a_system_under_a_shell_load():
    script = ("for i in $(seq 120); do cp /bin/true /tmp/copy; sed s/a/b/ /etc/passwd >/tmp/sed;"
              "ls -l /usr/bin >/tmp/ls; sort /tmp/ls | uniq >/tmp/uniq; grep -c x /tmp/ls >/dev/null; done")
    profile, _, err = record("-a", "-F", 997, command=["bash", "-c", script])
    samples = [sample for sample in profile.samples if user_part(sample)]
    complete = [sample for sample in profile.samples if "truncated" not in sample.labels]
    rooted = [sample for sample in samples if user_part(sample)[-1] in ROOTS]
    causes = Counter()
    for sample in profile.samples:
        causes[sample.labels.get("truncated")] += count([sample])
    rest = Counter()
    for sample in samples:
        if sample not in rooted:
            rest[(sample.labels.get("comm"), sample.labels.get("truncated"), *user_part(sample)[-3:])] += count([sample])
    # During execve() there is no stack to be found: the memory belongs to the new program.
    of_all = (count(complete) + causes["exec"]) / count(profile.samples)
    of_user = count(rooted) / count(samples)
    print(f"{count(profile.samples)} samples, {100 * of_all:.2f} % complete or in execve(); {count(samples)} with a user part, "
          f"{100 * of_user:.2f} % reach a root")
    print(f"causes: {causes.most_common()}; rest: {rest.most_common(10)}")
    print(err)
    check(of_all >= 0.99, f"{100 * of_all:.2f} % are complete: {causes}; {err}")
    check(of_user >= 0.97, f"{100 * of_user:.2f} % reach a root: {rest.most_common(10)}; {err}")


@long_exact_test
def frame_pointers_alone():
    profile, _, err = record("-F", 997, "--unwind=fp", command=workload("nofp", 0.2))
    check("callers by" not in err, f"tables in the summary: {err}")
    check(not [line for line in profile.comments if line.startswith("unwinding: ")],
          f"tables in the comments: {profile.comments}")
    samples = [sample for sample in profile.samples if sample.labels.get("thread") == "lengths"]
    right = [sample for sample in samples if is_right("lengths", user_part(sample))]
    check(count(right) < count(samples) / 2, f"{count(right)} of {count(samples)} stacks are right")


@long_exact_test
def without_copies_the_first_stacks_are_those_of_frame_pointers():
    _, _, err = record("-F", 997, "--stack-copy=0", command=workload("nofp", 0.5))
    tables, frame_pointers, copies = shares_of_methods(err)
    check(tables > 50, f"few callers by tables: {err}")
    check_equal(copies, 0.0, f"callers by copies: {err}")


@exact_test
def stacks_are_those_of_elfutils():
    _, _, err = record("-F", 997, "--verify=2", "--stack-copy=32K", command=workload("nofp", 0.3))
    found = re.search(r"unwound again by elfutils: (\d+) user stacks: (\d+) equal", err)
    check(found, f"no comparison in the summary: {err}")
    total, equal = map(int, found.groups())
    print(err)
    check(total >= 100, f"few stacks were unwound again: {err}")
    check(equal >= 0.99 * total, f"stacks differ: {err}")
    check(re.search(r"  /\S*libc\S*: \d+ callers: \d+ equal", err), f"no callers of libc: {err}")

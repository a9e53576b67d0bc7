# SPDX-License-Identifier: GPL-2.0
"""Stacks of a Go program reach the root of the goroutine, also during garbage collection."""

import collections
import re
import subprocess

import pprof
from harness import (binomial_bounds, check, check_within, exact_test, has_whole_stack, keep_profile, last_json,
                     long_exact_test, long_test, Recording, release, run, samples_of, Skip, start, temporary_directory, test, user_part,
                     workload)
from stackbeat import S, Session
from test_table_cache import await_lines

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


# Windows of which the one with the cheapest samples is taken.
WINDOWS = 4

# Of the ID of a goroutine (measured: 80), to find that it has no labels (60), and of one label (212). The sample of
# which they are a part varies by some 10.
ID_INSTRUCTIONS = (0, 100)
NO_LABELS_INSTRUCTIONS = (0, 80)
LABEL_INSTRUCTIONS = (0, 235)

# By tests/env/vm/build-go: VERSION/NAME.
PROGRAMS = workload("")[0].parent / "go-programs"


def programs(prefix):
    found = sorted(path for path in PROGRAMS.glob("go1.*/*") if path.name.startswith(prefix))
    if not found:
        raise Skip("tests/env/vm/build-go has built no program")
    return found


def newest(found):
    """The programs of the newest version of Go."""
    return [program for program in found if program.parent == found[-1].parent]


def samples_of_second_run(program, amount, *options):
    """Samples of a program whose unwind tables an earlier run has brought to the module, and its output."""
    recording = Recording("-F", 999, "--stack-copy", 65536, *options,
                          command=["sh", "-c", f"{program} {amount} >/dev/null; {program} {amount}"])
    samples = [sample for sample in recording.profile().samples
               if sample.labels["comm"] == program.name[:15] and user_part(sample)]
    last = max(int(sample.labels["pid"]) for sample in samples)
    return ([sample for sample in samples if int(sample.labels["pid"]) == last and has_whole_stack(sample)],
            last_json(recording.out))


def names_of(sample):
    """The functions of a sample, leaf first, without functions of the kernel."""
    return [name.removesuffix(".abi0") for name in user_part(sample)]


def check_switches(found):
    switches = collections.Counter()
    for program in found:
        samples, _ = samples_of_second_run(program, 2000)
        for sample in samples:
            stack = names_of(sample)
            for name in stack[1:-1]:
                if name in ("runtime.systemstack", "runtime.morestack", "runtime.mcall", "runtime.sigtramp"):
                    switches[name] += stack[-1] == "runtime.goexit"
    for name in ("runtime.systemstack", "runtime.morestack"):
        check(switches[name], f"{name} never leads to a goroutine: {switches}")


@test
def each_switch_of_stacks():
    """What a goroutine makes the runtime do on the stack of the thread is work of the goroutine."""
    check_switches([program for program in newest(programs("goswitch")) if program.name == "goswitch"])


@long_test
def each_switch_of_stacks_of_each_version():
    """Of each version of Go, and of the newest one also stripped and position-independent."""
    found = programs("goswitch")
    check_switches([program for program in found if program.name == "goswitch" or program in newest(found)])


@long_exact_test
def each_switch_of_stacks_in_each_program():
    check_switches(programs("goswitch"))


# Where a thread, a goroutine, or the program begins.
OUTERMOST = {"runtime.goexit", "runtime.mstart", "runtime.rt0_go", "_rt0_amd64", "_rt0_amd64_linux", "_start", "clone",
             "clone3", "__clone", "__clone3", "runtime.clone"}
# Below these, the scheduler runs when it has parked the goroutine.
SWITCHES = {"runtime.mcall", "runtime.morestack"}
SCHEDULER = {"runtime.schedule", "runtime.park_m", "runtime.gopreempt_m", "runtime.gosched_m", "runtime.goschedImpl",
             "runtime.goexit0", "runtime.gdestroy", "runtime.preemptPark", "runtime.exitsyscall0"}


def reaches_the_root(stack):
    return stack[-1] in OUTERMOST or (stack[-1] in SWITCHES and bool(SCHEDULER & set(stack)))


def shares_of(stacks):
    """({function of the program: stacks that it is in}, all stacks), without the work of the scheduler, which has parked
    the goroutine."""
    counts, total = collections.Counter(), 0
    for stack, number in stacks:
        if "runtime.mcall" not in stack:
            total += number
            for name in {name for name in stack if name.startswith("main.")}:
                counts[name] += number
    return counts, total


def compare_with_own_profile(program, rounds):
    """Compares the shares of functions with the profile that Go's runtime makes of the program, and returns
    the stacks."""
    own = temporary_directory() / "own.pb.gz"
    # The first run brings the unwind tables to the module. Until the module knows the mappings of the second one, samples
    # have copies, of which the smallest ring takes none, and this one 500.
    recording = Recording("-F", 999, "--stack-copy", 65536, "--ring-size", "64M",
                          command=["sh", "-c", f"{program} {rounds} {own}; {program} {rounds}"])
    samples = [sample for sample in recording.profile().samples if sample.labels["comm"] == program.name]
    last = max(int(sample.labels["pid"]) for sample in samples)
    stacks = [(names_of(sample), sample.values["samples"]) for sample in samples
              if int(sample.labels["pid"]) == last and user_part(sample) and has_whole_stack(sample)]
    ours, our_total = shares_of(stacks)
    theirs, their_total = shares_of([([line.function for line in sample.lines], sample.values["samples"])
                                     for sample in pprof.Profile(own).samples])
    print(f"# {program}: {our_total} samples, {their_total} of its own: {ours}, {theirs}", flush=True)
    check(min(our_total, their_total) > 300, f"{program}: {our_total} samples, {their_total} of its own")
    # Of few samples, a binomial share is not normally distributed. The chance of 5.5 deviations is 1 in 25 millions.
    for name in {name for name in ours.keys() | theirs.keys()
                 if name.startswith("main.role") and ours[name] + theirs[name] >= 20}:
        pooled = (ours[name] + theirs[name]) / (our_total + their_total)
        deviation = (pooled * (1 - pooled) * (1 / our_total + 1 / their_total)) ** 0.5
        distance = abs(ours[name] / our_total - theirs[name] / their_total)
        check(distance <= 5.5 * deviation, f"{program}: {name}: {ours[name]} of {our_total} samples, {theirs[name]} of "
                                        f"{their_total} of its own")
    return stacks


def check_roots(stacks, most):
    """All but `most` samples reach an outermost function."""
    other = [(stack, number) for stack, number in stacks if not reaches_the_root(stack)]
    print(f"# {len(other)} stacks of {sum(number for _, number in stacks)} samples end elsewhere: {other}", flush=True)
    check(sum(number for _, number in other) <= most, f"more than {most} stacks end elsewhere: {other}")


def check_calls_of_c(program, stacks):
    """Each call of C, and each call back, is in the stack."""
    chain = [name for _ in range(5) for name in ("main.goBounce", "bounce", "main._Cfunc_bounce")] + ["main.rolePingPong"]
    found = 0
    for stack, number in stacks:
        calls = [name for name in stack if name in chain]
        if "main.spin" in stack:
            check(calls == chain, f"{program}: the calls in {stack}")
            found += number
    check(found > 50, f"{program}: {found} samples of calls back")


def check_own_profile(program):
    stacks = compare_with_own_profile(program, 60)
    if program.name.startswith("goself-c"):
        check_calls_of_c(program, stacks)
    return stacks


@exact_test
def shares_are_those_of_its_own_profile():
    """The samples of a program with the newest Go, which calls C that calls back."""
    program = [program for program in programs("goself-c") if program.name == "goself-c"][-1]
    stacks = check_own_profile(program)
    check_roots(stacks, binomial_bounds(sum(number for _, number in stacks), 0.001)[1])


@long_exact_test
def shares_are_those_of_each_own_profile():
    """The same for all versions of Go, without C, with it, and with a static C library: at least 99.9 % of all samples
    reach an outermost function."""
    stacks = [stack for program in programs("goself") for stack in check_own_profile(program)]
    check_roots(stacks, sum(number for _, number in stacks) // 1000)


def check_shares_of_goroutines(found):
    for program in found:
        samples, rounds = samples_of_second_run(program, 40, "--labels", "all")
        for label, expected in rounds.items():
            check_shares(program, label, samples, expected)
        check(not [sample for sample in samples if "go-labels" in sample.labels], f"{program}: labels are cut")
        forged = sum(sample.values["samples"] for sample in samples if sample.labels.get("go.pid") == "forged")
        check(forged >= sum(rounds["kind"].values()) and not {"forged"} & {sample.labels["pid"] for sample in samples},
              f"{program}: {forged} samples have the label pid of the program as go.pid")


@exact_test
def goroutines_have_their_shares():
    """The share of the samples with the ID of a goroutine, its creator and its labels equals the share of its work."""
    check_shares_of_goroutines(newest(programs("goshare")))


@long_exact_test
def goroutines_of_a_library_have_their_shares():
    """The same in a C program that has opened Go as a library: ld.so chooses where a thread has its goroutine."""
    check_shares_of_goroutines(newest(programs("golibrary")))


@long_exact_test
def goroutines_of_libraries_of_each_version_have_their_shares():
    check_shares_of_goroutines(programs("golibrary"))


@long_exact_test
def goroutines_of_each_version_have_their_shares():
    check_shares_of_goroutines(programs("goshare"))


def check_shares(program, label, samples, rounds):
    """The samples of each value of a label are in proportion to its rounds."""
    counts = collections.Counter()
    for sample in samples:
        counts[str(sample.labels.get(label))] += sample.values["samples"]
    total = sum(counts[value] for value in rounds)
    print(f"# {program.parent.name}: {counts}, {rounds}", flush=True)
    check(total > 300, f"{program}: {total} samples of {rounds}: {counts}")
    for value, number in rounds.items():
        check_within(counts[value], binomial_bounds(total, number / sum(rounds.values())),
                     f"samples of {label} {value} of {program}")


def cost_of_sample(process, goroutines, has=S.GOROUTINE_ID | S.GOROUTINE_CREATOR | S.GOROUTINE_LABELS):
    """The mean number of instructions of a sample of a program whose tables another session holds, and which has these
    STACKBEAT_GOROUTINE_*: the least of some windows, as single samples of a window have a long stack of the kernel."""
    with Session(rate=1000, no_jitter=1, budget=S.BUDGET_MAX, watermark=4096, pids=[process.pid],
                 goroutines=goroutines) as session:
        session.start()
        session.read_until(lambda samples: len(samples) >= 200)
        session.set(watermark=100_000)
        session.read()
        costs = []
        for _ in range(WINDOWS):
            before = session.stats()
            session.poll()
            after = session.stats()
            samples = session.read()
            costs.append((after["overhead_ns"] - before["overhead_ns"]) / (after["samples"] - before["samples"]))
    flags = {sample.flags // S.SAMPLE_GOROUTINE for sample in samples}
    check(goroutines & has in flags, f"flags with {goroutines}: {flags}")
    return min(costs)


def costs_of_goroutines(program, labels, *goroutines, **options):
    """cost_of_sample() of a program with `labels` labels, for each of `goroutines` (STACKBEAT_GOROUTINE_*)."""
    process = start(str(program), "1000000", labels)
    recording = Recording("-p", str(process.pid))
    session = recording.session()
    recording.wait_for(session, "unwind_tables", 1)
    costs = [cost_of_sample(process, wanted, **options) for wanted in goroutines]
    print(f"# {program.parent.name}, {labels} labels: instructions with {goroutines}: {costs}", flush=True)
    process.kill()
    process.wait()
    recording.end()
    return costs


@long_exact_test
def words_of_a_goroutine_are_cheap():
    program = programs("goshare")[-1]
    without, by_id, with_creator, with_labels = costs_of_goroutines(program, 1, 0, 1, 3, 4)
    check_within(by_id - without, ID_INSTRUCTIONS, "instructions of the ID")
    check_within(with_creator - by_id, (0, 20), "instructions of the creator")
    check_within(with_labels - without, LABEL_INSTRUCTIONS, "instructions of a label")


@long_exact_test
def goroutines_without_labels_are_cheap():
    program = programs("goshare")[-1]
    plain, no_labels = costs_of_goroutines(program, 0, 0, 4, has=0)
    check_within(no_labels - plain, NO_LABELS_INSTRUCTIONS, "instructions for no labels")


@test
def labels_divide_a_report():
    """pprof labels are recorded unless they are not wanted; reports divide the time by one of them."""
    program = programs("goshare")[-1]
    # The first run lasts until the unwind table is there.
    script = f"{program} 1000000 >/dev/null & read -r line; kill $!; wait; {program} 20 2"
    recording = Recording("-F", 999, "-v", command=["sh", "-c", script], stdin=subprocess.PIPE)
    await_lines(recording, f"unwind table of {program}:")
    release(recording.process)
    profile = recording.profile()
    kinds = {sample.labels.get("kind") for sample in profile.samples if sample.labels["comm"] == "goshare"}
    check({"small", "large"} <= kinds, f"kinds: {kinds}")
    check(all(sample.labels["pid"] != "forged" for sample in profile.samples), "a program has forged a pid")
    shown, _ = run("stackbeat", "report", "--tree", "--group", "kind", recording.path)
    check("small" in shown and "large" in shown, f"report: {shown}")
    recording = Recording("-F", 999, "--labels", "comm",
                          command=["sh", "-c", f"{program} 20 >/dev/null; {program} 20"])
    keys = {key for sample in recording.profile().samples for key in sample.labels}
    check(keys <= {"comm", "truncated"}, f"labels: {keys}")


@test
def the_runtime_is_hidden():
    """The time of the runtime at the leaf end counts for its caller, when it is recorded or shown."""
    profile = Recording("-F", 997, "--go-hide-runtime", command=workload("gowork", 60)).profile()
    stacks = [user_part(sample) for sample in samples_of(profile, "gowork") if has_whole_stack(sample)]
    leaves = [stack[0] for stack in stacks if any(name.startswith("main.") for name in stack)]
    check(leaves and not [name for name in leaves if name.startswith(("runtime.", "internal/runtime/"))],
          f"leaves of the program: {collections.Counter(leaves)}")
    check("functions of Go's runtime at the leaf end of stacks: left out" in profile.comments, f"{profile.comments}")


@long_test
def creators_without_symbols():
    """A profile without symbols names a place, which 'stackbeat symbolize' turns into the function."""
    program = programs("goshare")[-1]
    recording = Recording("-F", 999, "--labels", "comm,go-creator", "--no-symbolize",
                          command=["sh", "-c", f"{program} 20 >/dev/null; {program} 20"])
    creators = {sample.labels.get("go-creator") for sample in recording.profile().samples
                if sample.labels["comm"] == "goshare"} - {None}
    check(creators and all(re.fullmatch(re.escape(str(program)) + r"\+0x[0-9a-f]+", creator) for creator in creators),
          f"the creators are {creators}")
    run("stackbeat", "symbolize", "-q", recording.path)
    named = {sample.labels.get("go-creator") for sample in pprof.Profile(recording.path).samples}
    check({"main.startSmall", "main.(*pool).startLarge"} <= named, f"the creators are {named}")

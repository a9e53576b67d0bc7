# SPDX-License-Identifier: GPL-2.0
"""The tables of the benchmark, from the raw figures of its parts."""

import json
import statistics
from dataclasses import dataclass, field

LIMITS = {"u8": 1600, "u32": 2000, "u100": 3100, "n8": 1600, "n32": 2150, "n100": 3500,
          "k8": 1850, "k32": 2300, "k100": 3400}
# Instructions of the reader a sample, of real programs in processes that end.
READER_LIMIT = 1500
BARS = "Instructions a sample, everything included, at 1,000 Hz"
PEERS = ("stackbeat", "perf", "bpftrace")
# Notes by axis: the growth, and its causes.
GROWTH = {
    "depth": [
        "The callback grows linearly: it reads, checks, hashes and writes each frame. The reader finds a "
        "known stack by its hash and its first frames. (By default a stack is truncated at 255 user "
        "frames.)"],
    "stacks": [
        "The callback keeps no stacks. The reader finds a repeated stack by a fingerprint, and looks up "
        "the mappings of the frames of a new stack. From 10,000 stacks on, each stack is sampled about "
        "twice, so half of the samples are new. The reader has fingerprints of the latest 65,536 "
        "stacks: with more, it looks up some of them again. At 20,000 Hz, depth 20, with rings of 4 MiB."],
    "processes": [
        "From the start of the program to the end of all work, with six turns of 0.5 ms for each "
        "process. The figures include the first sample of each process (see below), and its stacks: "
        "each stack belongs to one process, so that more processes have more stacks. The rings have 16 "
        "MiB here: with many processes that hardly run, the scheduler delays the reader."],
    "new-processes": [
        "From the start of the program to the end of all work; processes have turns of 0.5 ms, so that "
        "some of them are not sampled. At the first sample of a process the kernel reads its mappings, "
        "and the reader stores them. At most 256 processes of a CPU wait for that; further processes "
        "are counted as lost, and cost less. The rings have 16 MiB here, as above."],
    "sessions": [
        "Each session has its own timer, ring and reader. It interacts with other sessions only by "
        "sampling their readers: the slight growth comes from the additional stacks."],
    "CPUs": [
        "All CPUs are busy; the figure is the median of windows of 50 ms, because the host deschedules "
        "CPUs in some windows. For a known process, a callback takes no lock and writes to no memory "
        "that the callback of another CPU writes to. The reader drains the rings one by one."],
}


@dataclass
class Table:
    """Rows of figures. A row is a name and as many values as there are columns, None for no value."""

    section: int
    title: str
    columns: list
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    source: str = ""


class Raw:
    """The raw figures of one part."""

    def __init__(self, path):
        data = json.loads(path.read_text())
        self.rows = data.pop("rows")
        self.about = data
        self.source = (f"{data['commit']}, {data['date']}, kernel {data['kernel']}, "
                       f"perf {data['perf']}, bpftrace {data['bpftrace']}; {data['minutes']:.0f} min")

    def where(self, **wanted):
        return [row for row in self.rows
                if all(row.get(key) == value for key, value in wanted.items())]

    def mean(self, of, **wanted):
        values = [of(row) for row in self.where(**wanted)]
        return statistics.fmean(values) if values else None

    def values(self, key):
        return list(dict.fromkeys(row[key] for row in self.rows))


def ticks(row):
    return row["ticks"]


def per_sample(raw, profiler, case, base_case, over_rounds=statistics.fmean):
    """The mean, or the result of `over_rounds`, of the instructions a sample, beyond the same work without a profiler.

    The base is the shortest round without a profiler: a guest that has just booted has more to do.
    """
    base = min(map(ticks, raw.where(profiler="none", case=base_case)), default=None)
    rows = raw.where(profiler=profiler, case=case)
    if base is None or not rows:
        return None
    return over_rounds((row["ticks"] - base) / row["samples"] for row in rows)


def parts_of(raw):
    """The parts with their own figures. Older raw figures have the callback instead of the ticks, which include
    the timer's interrupt."""
    return [part for part in ("callback", "ticks", "reader")
            if any(part in row.get("parts", ()) for row in raw.where(profiler="stackbeat") or raw.rows)]


def part_per_sample(raw, part, case):
    return raw.mean(lambda row: row["parts"][part] / row["count"], profiler="stackbeat", case=case)


def base_of(case):
    """The case whose work without a profiler is the same."""
    return "k8" if case[0] == "k" else "u8"


def cost_of_stack(raw, profiler, case):
    """The round with the least instructions: khugepaged takes 4 million to make a huge page, 2,000 a sample of the
    round in which it does. None if the profiler can't unwind the stack."""
    if case[0] == "n" and profiler in ("perf", "bpftrace"):
        return None
    return per_sample(raw, profiler, case, base_of(case), min)


def table_of_stacks(raw):
    cases = list(LIMITS)
    table = Table(1, BARS, cases)
    table.rows.append(["at most", *LIMITS.values()])
    table.rows.append(["floor", *(per_sample(raw, "floor", base_of(case), base_of(case)) for case in cases)])
    for name in (*PEERS, "perf dwarf"):
        table.rows.append([name, *(cost_of_stack(raw, name, case) for case in cases)])
    for part in parts_of(raw):
        table.rows.append([f"stackbeat's {part}",
                           *(part_per_sample(raw, part, case) for case in cases)])
    table.notes += [
        "u: user code with frame pointers, n: without; both have .eh_frame, as distributions build programs. k: pread of "
        "/dev/zero. The number is the depth of recursion. perf (-g) and bpftrace follow frame pointers, and so cut the "
        "stacks of n.",
        "perf dwarf: --call-graph dwarf, which copies 8 KiB of the stack with each sample; perf script unwinds the copies "
        "later, which is not included. A copied byte counts as an instruction here."]
    return table


def table_of_programs(raw):
    cases = raw.values("case")
    table = Table(1, "Real programs in processes that end: instructions a sample at 1,000 Hz", cases)
    for part in parts_of(raw):
        table.rows.append([f"stackbeat's {part}", *(part_per_sample(raw, part, case) for case in cases)])
    table.rows.append(["reader, at most", *(READER_LIMIT for _ in cases)])
    table.notes.append(
        "A shell runs python3, sqlite3, gcc (with the assembler), or true, sed and ls (shell) in a loop, the second time; "
        "the reader's work includes the stacks and names of the ended processes. Most of the samples have a stack that the "
        "reader has not seen before.")
    return table


def table_of_workloads(raw):
    cases = [case for case in raw.values("case") if case != "idle"]
    table = Table(1, "Workloads: instructions a sample at 1,000 Hz; idle: instructions a second",
                  [*cases, "idle"])
    for name in ("floor", *PEERS):
        idle = [row["ticks"] / row["seconds"] for row in raw.where(profiler=name, case="idle")]
        base = raw.mean(lambda row: row["ticks"] / row["seconds"], profiler="none", case="idle")
        table.rows.append([name, *(per_sample(raw, name, case, case) for case in cases),
                           statistics.fmean(idle) - base if idle else None])
    table.notes += [
        "pipe: two processes pass a byte back and forth; fork: a shell runs /bin/true in a loop; "
        "threads: 64 busy threads.",
        "The figures include the work of a profiler for each fork, mapping and context switch. pipe has 160 switches a "
        "sample, and stackbeat's probe of switches, which cancels the timers of idle CPUs, takes 23 instructions, "
        "most of them in the kernel's tracepoint. The figures of fork vary by tens of thousands, as the floor shows, "
        "because the scheduler's decisions vary."]
    return table


def table_of_sizes(raw):
    cases = raw.values("case")
    table = Table(2, "Bytes a sample", cases)
    for name, where in (("stackbeat", "rings"), ("stackbeat", "file"), ("perf", "file"),
                        ("bpftrace", "file")):
        table.rows.append([f"{name}, {where}", *(raw.mean(
            lambda row: row["bytes"] / row["samples"], profiler=name, where=where, case=case)
            for case in cases)])
    table.notes += [
        "u, k: user code, pread of /dev/zero, and the depth; stacks: 1,000 different stacks of depth "
        "30; processes: 200 processes in turns.",
        "In the rings, stackbeat's records are longer than perf's: a sample also holds its weight, its "
        "address space, a hash by which the reader finds its stack, and the thread's name. perf writes "
        "the records of its rings to its file. A profile of stackbeat, and bpftrace's text, hold each "
        "stack once, so that more samples hardly increase their size; this size is divided by the "
        "samples of three to six seconds. stackbeat's profile is compressed."]
    return table


def table_after(raws):
    table = Table(3, "From the end of the recording to a symbolized profile (perf script: text)",
                  ["samples", "M instructions", "peak MiB"])
    for raw in raws:
        for row in raw.rows:
            table.rows.append([f"{row['profiler']}, {row['step']}", row["samples"],
                               row["instructions"] / 1e6, row["peak_kb"] / 1024])
    table.notes += [
        "1,000 different stacks of depth 30, sampled at 20,000 Hz; all profilers have rings of 16 MiB, "
        "which are part of their peaks. 1,000 M instructions are one second at one instruction per ns. "
        "The time that the guest waits for its disk depends on the host and is not included.",
        "stackbeat's end of recording includes all work. perf's end of recording looks for build IDs in "
        "all recorded data; perf script follows, and prints each sample as text, from which another "
        "program would have to build a profile. bpftrace symbolizes the stacks that it has counted in "
        "the kernel."]
    return table


def table_of_readers(raws):
    rows = [row for raw in raws for row in raw.rows]
    table = Table(4, "The reader, a second of a recording of the whole system",
                  ["1000 instructions", "wake-ups", "peak MiB"])
    for row in rows:
        table.rows.append([f"{row['case']}: {row['profiler']}", row["instructions_per_s"] / 1e3,
                           row["wakeups_per_s"], row["peak_kb"] / 1024])
    table.notes += [
        "busy: a program runs through 100 stacks of depth 30, 0.5 ms each. With 10,000 stacks in the "
        "program, stackbeat's profile held "
        + ", ".join(f"{row['stacks']:,}" for row in rows if "stacks" in row) + " unique stacks.",
        "bpftrace counts in the kernel, in the time of each sample (section 1): its process only "
        "checks ten times a second for output. perf samples idle CPUs, too. stackbeat's process wakes "
        "at least once a second, to detect processes that have exited."]
    return table


def slower(raw, program, profiler, rate, rounds):
    """Per mille, for each of the rounds."""
    plain = {row["round"]: row["ns"] for row in raw.where(profiler="none", program=program)}
    return [1000 * (row["ns"] / plain[row["round"]] - 1)
            for row in raw.where(profiler=profiler, rate=rate, program=program)
            if row["round"] in rounds]


def table_of_slowdown(raw):
    first, *later = raw.values("round")
    programs = raw.values("program")
    table = Table(5, "Slow-down of programs in per mille: median (least to most)", list(PEERS))
    for rate in (99, 999):
        for program in programs:
            found = [slower(raw, program, name, rate, later) for name in PEERS]
            table.rows.append([f"{program}, {rate} Hz", *(
                f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
                for values in found)])
    met = ", ".join(f"{program} {slower(raw, program, 'stackbeat', 99, [first])[0]:.1f}"
                    for program in programs)
    table.notes += [
        "The programs: " + raw.about["programs"] + ". Each round is compared with the same round "
        "without a profiler; the order of the profilers is random. The figures of gofmt vary because "
        "of its garbage collector.",
        "The table excludes the first run of a program under a profiler, in which stackbeat reads the "
        f"program's symbols, once per recording. The slow-down of this run at 99 Hz: {met}."]
    return table


def slope(points):
    """Slope by least squares, for an increment of one."""
    return statistics.linear_regression(*zip(*points)).slope if len(points) > 1 else None


def growth(axis, unit, sizes, figures):
    """A table of figures by size: each row with its slope, and the steps of the first row."""
    more = f"{unit:,} more"
    table = Table(6, f"Growth with {axis.replace('-', ' ')}",
                  [*(f"{size:,}" for size in sizes), f"slope, {more}"])
    for name, values in figures.items():
        by_least_squares = slope(list(zip(sizes, values)))
        table.rows.append([name, *values, by_least_squares and by_least_squares * unit])
    name, values = next(iter(figures.items()))
    points = list(zip(sizes, values))
    table.rows.append([f"{name}, {more} since", None,
                       *(unit * slope(pair) for pair in zip(points, points[1:])), None])
    table.notes += GROWTH[axis]
    return table


def table_of_growth(raw):
    axis = raw.rows[0]["axis"]
    figures = {"everything": [(row["ticks"] - row["plain"]) / row["samples"] for row in raw.rows]}
    for part in parts_of(raw):
        figures[part] = [row["parts"][part] / row["count"] for row in raw.rows]
    table = growth(axis, 1 if axis in ("depth", "sessions") else 1000,
                   [row["size"] for row in raw.rows], figures)
    table.title += ": instructions a sample"
    lost = [f"{row['spaces_lost']:,} of {row['spaces'] + row['spaces_lost']:,} with {row['size']:,}"
            for row in raw.rows if row.get("spaces_lost")]
    if lost:
        table.notes.append(f"Processes with lost mappings: {'; '.join(lost)}.")
    return table


def table_of_cpus(raws):
    rows = [row for raw in raws for row in raw.rows]
    table = growth("CPUs", 1, [row["size"] for row in rows],
                   {"tick": [row.get("tick", row.get("callback")) for row in rows]})
    table.title += ": ns of a tick, emulated without exact time: a hint"
    return table


# Of a CPU that executes this many instructions a second.
SERVE_CPU = 3e9


def share(row):
    """CPU time of the server in % of a CPU, from the instructions of a minute."""
    return row["instructions"] / 60 / SERVE_CPU * 100


def table_of_serve(raws):
    table = Table(7, "An always-on server at 19 Hz, all of its processes",
                  ["M instructions a minute", "% of a CPU", "most, %", "MiB, first", "last", "peak", "hours"])
    for raw in raws:
        shares = [share(row) for row in raw.rows]
        rows = raw.rows
        table.rows.append([rows[0]["case"], statistics.fmean(row["instructions"] for row in rows) / 1e6,
                           statistics.fmean(shares), max(shares), rows[0]["mib"], rows[-1]["mib"],
                           max(row["peak_mib"] for row in rows), rows[-1]["minutes"] / 60])
    table.notes = [
        "`stackbeat serve` with defaults, after its first window, in a guest with two CPUs. % of a CPU: of a CPU that "
        "executes 3,000 million instructions a second; most: in a step of an hour (idle) and of a minute (busy). MiB: "
        "the proportional set size; the peak includes the whole control group, with files in the page cache. "
        "No package "
        "of debug information is installed, and the command and the module have none: lines of files that have "
        "some would be read again for each new address.",
        "For comparison, the README of the OpenTelemetry eBPF profiler (November 2026): \"1% CPU and 250MB memory are "
        "our upper limits in testing and the agent typically manages to stay way below that\". No figure of "
        "parca-agent's authors was found."]
    return table


def table_of_fleet(raw):
    table = Table(7, "Bytes of a window of 60 s, 20 services on two CPUs",
                  ["stored", "requests", "pushed", "gzipped", "unpacked", "largest"])
    for index, row in enumerate(raw.rows, 1):
        table.rows.append([f"window {index}", row["file"], row["requests"], row["bodies"], row["packed"],
                           row["unpacked"], row["largest"]])
    table.rows.append(["mean", *(statistics.fmean(row[key] for row in raw.rows)
                                 for key in ("file", "requests", "bodies", "packed", "unpacked", "largest"))])
    table.notes = [
        "Pushed: the bodies of the requests to Pyroscope, one for each service; gzipped, unpacked: the profiles in "
        "them; largest: the largest one unpacked. The services run real programs, with pauses of 2 s."]
    return table


def targets(raws):
    """Yields name, figure and limit of each measured figure that has a limit."""
    if "cost-stacks" in raws:
        raw = raws["cost-stacks"]
        for case, limit in LIMITS.items():
            yield f"1. instructions a sample, {case}", cost_of_stack(raw, "stackbeat", case), limit
        part = parts_of(raw)[0]
        cost = part_per_sample(raw, part, "u32")
        yield (f"1. {part} at 10,000 Hz and depth 32, % of a CPU", cost and cost * 10_000 / 1e9 * 100, 3)
    if "cost-programs" in raws:
        raw = raws["cost-programs"]
        for case in raw.values("case"):
            yield f"1. reader's instructions a sample, {case}", part_per_sample(raw, "reader", case), READER_LIMIT
    for name in ("after-100000", "after-1000000"):
        for row in raws[name].where(profiler="stackbeat") if name in raws else ():
            for unit, key in (("M instructions", "instructions"), ("peak MiB", "peak_kb")):
                scale = 1e6 if key == "instructions" else 1024
                peer = raws[name].mean(lambda row, key=key: row[key], step="perf script")
                yield (f"3. after {row['samples']:,} samples, {unit} (at most: perf script)",
                       row[key] / scale, peer and peer / scale)
    if "reader-stacks" in raws:
        def mean(figure, profiler):
            return raws["reader-stacks"].mean(figure, profiler=profiler, case="4,000 Hz, 10,000 stacks")
        yield ("4. reader's peak with 10,000 stacks of depth 30, MiB",
               mean(lambda row: row["peak_kb"] / 1024, "stackbeat"), 20)
        yield ("4. reader, 10,000 stacks, 1000 instructions/s (at most: perf)",
               *(mean(lambda row: row["instructions_per_s"] / 1e3, profiler)
                 for profiler in ("stackbeat", "perf")))
    for name in ("serve-idle", "serve-busy"):
        if name in raws:
            rows = raws[name].rows
            yield f"7. server, {rows[0]['case']}, % of a CPU", statistics.fmean(map(share, rows)), 0.1
            yield f"7. server, {rows[0]['case']}, MiB", max(row["mib"] for row in rows), 32


def table_of_targets(raws):
    table = Table(0, "Limits", ["measured", "at most", ""])
    for name, figure, limit in targets(raws):
        if figure is not None and limit is not None:
            table.rows.append([name, figure, limit, "met" if figure <= limit else "MISSED"])
    return table


def comparisons(raws):
    """Yields what was measured, stackbeat's figure, and {peer: its figure}. The lower figure is the better one."""
    if "cost-stacks" in raws:
        for case in LIMITS:
            yield (f"1. instructions a sample, {case}", cost_of_stack(raws["cost-stacks"], "stackbeat", case),
                   {peer: cost_of_stack(raws["cost-stacks"], peer, case) for peer in (*PEERS[1:], "perf dwarf")})
    if "cost-workloads" in raws:
        table = table_of_workloads(raws["cost-workloads"])
        rows = {name: figures for name, *figures in table.rows}
        for index, case in enumerate(table.columns):
            yield (f"1. instructions a {'second' if case == 'idle' else 'sample'}, {case}", rows["stackbeat"][index],
                   {peer: rows[peer][index] for peer in PEERS[1:]})
    if "size" in raws:
        raw = raws["size"]
        for case in raw.values("case"):
            sizes = {name: raw.mean(lambda row: row["bytes"] / row["samples"], profiler=name, where="file", case=case)
                     for name in PEERS}
            yield f"2. bytes of the file a sample, {case}", sizes.pop("stackbeat"), sizes
    for name in ("after-100000", "after-1000000"):
        if name not in raws:
            continue
        for unit, key, scale in (("M instructions", "instructions", 1e6), ("peak MiB", "peak_kb", 1024)):
            # The steps of perf follow each other.
            join = sum if key == "instructions" else max
            ends = {peer: join(row[key] for row in raws[name].where(profiler=peer)) / scale
                    for peer in PEERS if raws[name].where(profiler=peer)}
            yield f"3. profile with names, {name.partition('-')[2]} samples, {unit}", ends.pop("stackbeat"), ends
    for name in ("reader-99", "reader-1000", "reader-stacks"):
        for case in raws[name].values("case") if name in raws else ():
            for unit, key, scale in (("1000 instructions a second", "instructions_per_s", 1e3),
                                     ("peak MiB", "peak_kb", 1024)):
                ends = {peer: raws[name].mean(lambda row, key=key: row[key], profiler=peer, case=case) / scale
                        for peer in PEERS}
                yield f"4. reader, {case}, {unit}", ends.pop("stackbeat"), ends
    if "slowdown" in raws:
        raw = raws["slowdown"]
        later = raw.values("round")[1:]
        for rate in (99, 999):
            for program in raw.values("program"):
                found = {name: slower(raw, program, name, rate, later) for name in PEERS}
                ours = found.pop("stackbeat")
                # Ranges that overlap are no difference.
                yield (f"5. slow-down in per mille, {program} at {rate} Hz", statistics.median(ours),
                       {peer: statistics.median(values if max(values) < min(ours) else ours)
                        for peer, values in found.items()})


def table_of_wins(raws):
    """The comparisons that a peer wins."""
    table = Table(0, "Where a peer is better", ["stackbeat", "peer", "which"])
    compared = [(what, ours, value, peer) for what, ours, peers in comparisons(raws) if ours is not None
                for peer, value in peers.items() if value is not None]
    table.rows = [list(row) for row in compared if row[2] < row[1]]
    table.notes.append(f"Of the {len(compared)} comparisons in sections 1 to 5, these are the {len(table.rows)} in which a "
                       "peer has the lower figure. Slow-downs whose ranges overlap count as equal.")
    return table


def tables(raws):
    """All tables that have figures, by section."""
    found = []

    def add(make, *names, together=False):
        there = [raws[name] for name in names if name in raws]
        for some in [there] if together and there else there:
            table = make(some)
            table.source = (some[-1] if together else some).source
            found.append(table)

    found += [table for table in (table_of_wins(raws), table_of_targets(raws)) if table.rows]
    add(table_of_stacks, "cost-stacks")
    add(table_of_programs, "cost-programs")
    add(table_of_workloads, "cost-workloads")
    add(table_of_sizes, "size")
    add(table_after, "after-100000", "after-1000000", together=True)
    add(table_of_readers, "reader-99", "reader-1000", "reader-stacks", together=True)
    add(table_of_slowdown, "slowdown")
    add(table_of_growth, *(f"growth-{axis}" for axis in GROWTH if axis != "CPUs"))
    add(table_of_cpus, *(f"cpus-{count}" for count in (1, 2, 4, 8)), together=True)
    add(table_of_serve, "serve-idle", "serve-busy", together=True)
    add(table_of_fleet, "serve-fleet")
    return found

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""report.py DIR: makes DIR/report.txt, .json and .svg of the raw figures in DIR/raw."""

import json
import statistics
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

LIMITS = {"u8": 1500, "u32": 1900, "u100": 3000, "k8": 3700, "k32": 4100, "k100": 5200}
PEERS = ("stackbeat", "perf", "bpftrace")
SETTINGS = """\
Settings (why these: tests/bench/README.md). All record the whole system, kernel and user stacks, at the same rate; results are written to
memory. stackbeat: `record -a -F 1000`, defaults. perf: `record -a -e cpu-clock -c 1000000 -g`, without its
own limit on cost (perf_cpu_time_max_percent=0); -c instead of -F makes its records 8 bytes shorter.
bpftrace: `profile:hz:1000 { @[kstack, ustack] = count(); }`, with room for all stacks. floor: a timer whose
callback does nothing. One CPU, one instruction a nanosecond (QEMU -icount), but for section 6's CPUs."""


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
        self.source = (f"{data['commit']}, {data['date']}, kernel {data['kernel']}, "
                       f"perf {data['perf']}, bpftrace {data['bpftrace']}, {data['minutes']} min")

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


def per_sample(raw, profiler, case, base_case):
    """Mean over the rounds of what a sample costs beyond the same work without a profiler."""
    base = raw.mean(ticks, profiler="none", case=base_case)
    rows = raw.where(profiler=profiler, case=case)
    if base is None or not rows:
        return None
    return statistics.fmean((row["ticks"] - base) / row["samples"] for row in rows)


def part_per_sample(raw, part, case):
    return raw.mean(lambda row: row["parts"][part] / row["count"], profiler="stackbeat", case=case)


def table_of_stacks(raw):
    cases = list(LIMITS)
    table = Table(1, "Instructions a sample, everything included, at 1,000 Hz", cases)
    table.rows.append(["at most", *LIMITS.values()])
    table.rows.append(["floor", *(per_sample(raw, "floor", case[0] + "8", case[0] + "8")
                                  for case in cases)])
    for name in PEERS:
        table.rows.append([name, *(per_sample(raw, name, case, case[0] + "8") for case in cases)])
    for part in ("callback", "reader"):
        table.rows.append([f"stackbeat's {part}",
                           *(part_per_sample(raw, part, case) for case in cases)])
    missed = [f"{case} by {have - limit:.0f}" for case, limit, have
              in zip(cases, LIMITS.values(), table.rows[2][1:]) if have and have > limit]
    table.notes.append(f"Above the limit: {', '.join(missed)}." if missed else "All limits are kept.")
    callback = part_per_sample(raw, "callback", "u32")
    if callback:
        share = callback * 10_000 / 1e9
        table.notes.append(f"At 10,000 Hz and depth 32 the callback takes {share:.2%} of a CPU "
                           f"(at most 3 %{'' if share < 0.03 else ': MISSED'}).")
    table.notes.append("u: user code, k: pread of /dev/zero, and the depth of recursion.")
    return table


def table_of_workloads(raw):
    cases = [case for case in raw.values("case") if case != "idle"]
    table = Table(1, "Instructions a sample of workloads at 1,000 Hz; idle: instructions a second",
                  [*cases, "idle"])
    for name in ("floor", *PEERS):
        idle = [row["ticks"] / row["seconds"] for row in raw.where(profiler=name, case="idle")]
        base = raw.mean(lambda row: row["ticks"] / row["seconds"], profiler="none", case="idle")
        table.rows.append([name, *(per_sample(raw, name, case, case) for case in cases),
                           statistics.fmean(idle) - base if idle else None])
    table.notes += [
        "pipe: two processes hand a byte to and fro; fork: a shell runs /bin/true in a loop; "
        "threads: 64 at work.",
        "What a profiler does for each fork, mapping or switch is in its figure as well."]
    return table


def table_of_sizes(raw):
    cases = raw.values("case")
    table = Table(2, "Bytes a sample", cases)
    for name, where in (("stackbeat", "rings"), ("stackbeat", "file"), ("perf", "file"),
                        ("bpftrace", "file")):
        table.rows.append([f"{name}, {where}", *(raw.mean(
            lambda row: row["bytes"] / row["samples"], profiler=name, where=where, case=case)
            for case in cases)])
    table.notes.append("stacks: 1,000 different ones of depth 30; processes: 200 in turns. A profile of "
                       "stackbeat, and bpftrace's text, hold each stack once; their size is divided by all "
                       "samples. perf.data goes from the kernel to the file as it is.")
    return table


def table_after(raws):
    table = Table(3, "After the recording, until a symbolized profile (perf script: text) is there",
                  ["samples", "M instructions", "seconds", "peak MiB"])
    for raw in raws:
        for row in raw.rows:
            table.rows.append([f"{row['profiler']}, {row['step']}", row["samples"],
                               row["instructions"] / 1e6, row["ns"] / 1e9, row["peak_kb"] / 1024])
    table.notes.append("1,000 different stacks of depth 30. Seconds at one instruction a ns. perf needs both of "
                       "its steps, and has no profile by then; its end of recording looks for build ids.")
    return table


def table_of_readers(raw):
    table = Table(4, "The reader, a second of a recording of the whole system",
                  ["1000 instructions", "wake-ups", "peak MiB"])
    for row in raw.rows:
        table.rows.append([f"{row['case']}: {row['profiler']}", row["instructions_per_s"] / 1e3,
                           row["wakeups_per_s"], row["peak_kb"] / 1024])
    peak = [row["peak_kb"] / 1024 for row in raw.where(profiler="stackbeat")
            if "10,000" in row["case"]]
    if peak:
        table.notes.append(f"Peak with 10,000 stacks of depth 30: {peak[0]:.1f} MiB "
                           f"(at most 20{'' if peak[0] <= 20 else ': MISSED'}).")
    table.notes.append("busy: a program goes through 100 stacks of depth 30, 0.5 ms each.")
    return table


def table_of_slowdown(raw):
    setups = [(name, rate) for rate in (99, 999) for name in PEERS]
    table = Table(5, "Slow-down of programs, per mille (median; least to most of the pairs)",
                  [f"{name} {rate} Hz" for name, rate in setups])
    for program in raw.values("program"):
        plain = {row["round"]: row["ns"] for row in raw.where(profiler="none", program=program)}
        values = []
        for name, rate in setups:
            ratios = sorted(row["ns"] / plain[row["round"]] for row in raw.where(
                profiler=name, rate=rate, program=program) if row["round"] in plain)
            low, middle, high = ((1000 * (ratio - 1) for ratio in (
                ratios[0], statistics.median(ratios), ratios[-1])) if ratios else (None,) * 3)
            values.append(f"{middle:.1f} ({low:.1f} to {high:.1f})" if ratios else None)
        table.rows.append([program, *values])
    table.notes.append("Pairs: the same program with and without, in the same round; order drawn anew in each.")
    return table


def slope(points):
    """Instructions a sample for each one more, by least squares."""
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*points)).slope


def tables_of_growth(raw):
    for axis in raw.values("axis"):
        rows = raw.where(axis=axis)
        table = Table(6, f"Growth with {axis}: instructions a sample",
                      [f"{row['size']:,}" for row in rows] + ["slope"])
        totals = [(row["ticks"] - row["plain"]) / row["samples"] for row in rows]
        parts = {part: [row["parts"][part] / row["count"] for row in rows]
                 for part in ("callback", "reader")}
        for name, values in (("total", totals), *parts.items()):
            table.rows.append([name, *values,
                               slope([(row["size"], value) for row, value in zip(rows, values)])])
        yield table


def table_of_cpus(raws):
    rows = [row for raw in raws for row in raw.rows]
    table = Table(6, "Growth with CPUs: ns a sample, emulated, with no exact time: a hint",
                  [f"{row['size']}" for row in rows] + ["slope"])
    for part in ("callback", "reader"):
        values = [row["parts"][part] / row["count"] for row in rows]
        table.rows.append([part, *values,
                           slope([(row["size"], value) for row, value in zip(rows, values)])])
    return table


def targets(raws):
    """Name, figure, limit of all that has one and was measured."""
    if "cost-stacks" in raws:
        raw = raws["cost-stacks"]
        for case, limit in LIMITS.items():
            yield (f"1. instructions a sample, {case}",
                   per_sample(raw, "stackbeat", case, case[0] + "8"), limit)
        callback = part_per_sample(raw, "callback", "u32")
        yield ("1. callback at 10,000 Hz and depth 32, % of a CPU",
               callback and callback * 10_000 / 1e9 * 100, 3)
    for name in ("after-100000", "after-1000000"):
        for row in raws[name].where(profiler="stackbeat") if name in raws else ():
            for unit, key in (("M instructions", "instructions"), ("peak MiB", "peak_kb")):
                scale = 1e6 if key == "instructions" else 1024
                peer = raws[name].mean(lambda row, key=key: row[key], step="perf script")
                yield (f"3. after {row['samples']:,} samples, {unit} (at most: perf script alone)",
                       row[key] / scale, peer and peer / scale)
    if "reader" in raws:
        yield ("4. reader's peak with 10,000 stacks of depth 30, MiB",
               raws["reader"].mean(lambda row: row["peak_kb"] / 1024, profiler="stackbeat",
                                   case="1000 Hz, 10,000 stacks"), 20)


def table_of_targets(raws):
    table = Table(0, "What it must be", ["measured", "at most", ""])
    for name, figure, limit in targets(raws):
        if figure is not None and limit is not None:
            table.rows.append([name, figure, limit, "met" if figure <= limit else "MISSED"])
    return table


def tables(raws):
    """All tables for which there are figures, by section."""
    simple = {"cost-stacks": table_of_stacks, "cost-workloads": table_of_workloads,
              "size": table_of_sizes, "reader": table_of_readers, "slowdown": table_of_slowdown}
    found = []

    def add(table, raw):
        table.source = raw.source
        found.append(table)

    for name, make in simple.items():
        if name in raws:
            add(make(raws[name]), raws[name])
    after = [raws[name] for name in ("after-100000", "after-1000000") if name in raws]
    if after:
        add(table_after(after), after[-1])
    if "growth" in raws:
        for table in tables_of_growth(raws["growth"]):
            add(table, raws["growth"])
    cpus = [raws[f"cpus-{count}"] for count in (1, 2, 4, 8) if f"cpus-{count}" in raws]
    if cpus:
        add(table_of_cpus(cpus), cpus[-1])
    summary = table_of_targets(raws)
    if summary.rows:
        summary.source = "of the tables below"
        found.append(summary)
    return sorted(found, key=lambda table: table.section)


# --- how it looks ------------------------------------------------------------


def shown(value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_text(table):
    cells = [["", *table.columns]] + [[shown(value) for value in row] for row in table.rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    number = f"{table.section}. " if table.section else ""
    lines = [f"{number}{table.title}", f"   ({table.source})", ""]
    for row in cells:
        lines.append(f"   {row[0]:<{widths[0]}}" + "".join(
            f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:])))
    lines += [""] * bool(table.notes) + [f"   {note}" for note in table.notes]
    return "\n".join(lines) + "\n"


COLOURS = {"at most": "#bbbbbb", "floor": "#dddddd", "stackbeat": "#1f77b4", "perf": "#ff7f0e",
           "bpftrace": "#2ca02c"}


def as_svg(table):
    """Bars of the first table: a group for each case."""
    rows = [row for row in table.rows if row[0] in COLOURS]
    bar, gap, left, right = 16, 14, 60, 520
    most = max(value for row in rows for value in row[1:] if value is not None)
    height = 50 + len(table.columns) * (len(rows) * bar + gap)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right + 170}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<title>{escape(table.title)}</title>',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="10" y="22" font-size="15">{escape(table.title)}</text>']
    y = 40
    for index, case in enumerate(table.columns):
        parts.append(f'<text x="{left - 8}" y="{y + len(rows) * bar / 2 + 4}" text-anchor="end">'
                     f'{escape(case)}</text>')
        for row in rows:
            value = row[1 + index]
            if value is not None:
                width = max(value, 0) / most * right
                parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 2}" '
                             f'fill="{COLOURS[row[0]]}"/>')
                parts.append(f'<text x="{left + width + 5:.1f}" y="{y + bar - 5}">'
                             f'{escape(row[0])} {shown(value)}</text>')
            y += bar
        y += gap
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    out = Path(sys.argv[1])
    found = tables({path.stem: Raw(path) for path in sorted(out.glob("raw/*.json"))})
    if not found:
        sys.exit("report: nothing was measured yet")
    text = "\n".join([*map(as_text, found), SETTINGS]) + "\n"
    (out / "report.txt").write_text(text)
    (out / "report.json").write_text(json.dumps([vars(table) for table in found], indent=1) + "\n")
    for table in found:
        if table.title.startswith("Instructions a sample, everything"):
            (out / "report.svg").write_text(as_svg(table))
    print(text)
    print(f"bench: {out}/report.txt, .json, .svg; raw figures in {out}/raw")


main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""report.py DIR MISSING [DOCS]: makes DIR/report.txt, .json and .svg of the raw figures in DIR/raw; with
DOCS also the page DOCS/benchmark.md with its DOCS/benchmark.svg. MISSING: the parts that have no
figures, with commas between them."""

import json
import sys
import textwrap
from html import escape
from pathlib import Path

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from tables import BARS, LIMITS, Raw, tables

WIDTH = 100
SETTINGS = [
    "All record the whole system, kernel and user stacks, at the same rate, and write their results "
    "to memory. Why these settings: tests/bench/README.md.",
    "stackbeat: `record -a -F RATE`, defaults. perf: `record -a -e cpu-clock -c PERIOD -g`, without "
    "its own limit on cost (perf_cpu_time_max_percent=0); -c instead of -F makes its records 8 bytes "
    "shorter. bpftrace: `profile:hz:RATE { @[kstack, ustack] = count(); }`, with room for all "
    "stacks. floor: a timer at the same rate whose callback does nothing.",
    "One CPU, one instruction a nanosecond (QEMU -icount), so that a figure does not depend on the "
    "machine that emulates it; except section 6's CPUs.",
]


# --- how it looks ------------------------------------------------------------


def shown(value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def heading(table):
    return f"{table.section}. {table.title}" if table.section else table.title


def as_text(table):
    cells = [["", *table.columns]] + [[shown(value) for value in row] for row in table.rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    lines = [heading(table), *wrapped(f"({table.source})" if table.source else ""), ""]
    lines += [f"   {row[0]:<{widths[0]}}" + "".join(
        f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:])) for row in cells]
    if max(map(len, lines)) > WIDTH:
        sys.exit(f"report: the table '{table.title}' is wider than {WIDTH} columns")
    lines += [""] * bool(table.notes)
    for note in table.notes:
        lines += wrapped(note)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def wrapped(text):
    return textwrap.wrap(text, WIDTH - 3, initial_indent=" " * 3, subsequent_indent=" " * 3)


def as_markdown(table):
    cells = [["", *table.columns], ["---"] + ["---:"] * len(table.columns)]
    cells += [[shown(value) for value in row] for row in table.rows]
    lines = [f"## {heading(table)}", ""]
    lines += ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in cells]
    for text in (*table.notes, *([f"Measured: {table.source}."] if table.source else [])):
        lines += ["", *textwrap.wrap(text, 105)]
    return "\n".join(lines) + "\n"


def page(found, raws):
    """What a reader of the repository sees."""
    about = next(iter(raws.values())).about
    return "\n".join([
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        "<!-- Made by tests/bench/run --publish: changes are lost. -->",
        "# What it costs, beside perf and bpftrace",
        "",
        *textwrap.wrap(
            f"Measured in a guest of {about['qemu']} with Debian's kernel {about['kernel']}, one CPU that "
            f"executes one instruction a nanosecond; emulated by {about['machine']}. What each table's "
            "figures belong to is below it. How it is measured, and how to repeat it (`make bench`): "
            "[tests/bench](../tests/bench/README.md).", 105),
        "",
        "![Instructions a sample](benchmark.svg)",
        "",
        *map(as_markdown, found),
        "## Settings",
        *("\n" + textwrap.fill(text, 105) for text in SETTINGS),
        ""])


COLOURS = {"floor": "#bbbbbb", "stackbeat": "#1f77b4", "perf": "#ff7f0e", "bpftrace": "#2ca02c"}
LIMIT_COLOUR = "#d62728"


def as_svg(table):
    """Bars of a table: a group for each case; a line is at stackbeat's limit."""
    rows = [row for row in table.rows if row[0] in COLOURS]
    bar, gap, left, right = 16, 16, 60, 520
    scale = right / max(value for row in rows for value in row[1:] if value is not None)
    height = 70 + len(table.columns) * (len(rows) * bar + gap)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right + 170}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             "<!-- SPDX-License-Identifier: GPL-2.0 -->",
             f"<title>{escape(table.title)}</title>",
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="10" y="22" font-size="15">{escape(table.title)}</text>',
             '<text x="10" y="42">u: user code, k: a system call, and the depth of the stack; red: the '
             "most that stackbeat may take</text>"]

    def text(x, y, words, more=""):
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>')

    def rectangle(x, y, width, height, colour):
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" '
                     f'fill="{colour}"/>')

    y = 60
    for index, case in enumerate(table.columns):
        text(left - 8, y + len(rows) * bar / 2 + 3, case, ' text-anchor="end"')
        for name, *values in rows:
            if values[index] is None:
                continue
            width = end = max(values[index], 0) * scale
            words = f"{name} {shown(values[index])}"
            rectangle(left, y, width, bar - 2, COLOURS[name])
            if name == "stackbeat":
                limit = LIMITS[case] * scale
                rectangle(left + limit - 1, y - 2, 2, bar + 2, LIMIT_COLOUR)
                end = max(width, limit)
                words += f" (at most {shown(LIMITS[case])})"
            text(left + end + 6, y + bar - 4, words)
            y += bar
        y += gap
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    out, missing, docs = Path(sys.argv[1]), sys.argv[2].replace(",", ", "), map(Path, sys.argv[3:])
    raws = {path.stem: Raw(path) for path in sorted(out.glob("raw/*.json"))}
    if not raws:
        sys.exit("report: nothing was measured yet")
    found = tables(raws)
    if missing:
        SETTINGS.append(f"Not measured yet: {missing}.")
    report = "\n".join([*map(as_text, found), "Settings", *(
        "\n".join(wrapped(text)) for text in SETTINGS)]) + "\n"
    written = [(out / "report.txt", report),
               (out / "report.json", json.dumps([vars(table) for table in found], indent=1) + "\n")]
    charts = [as_svg(table) for table in found if table.title == BARS]
    written += [(out / "report.svg", chart) for chart in charts]
    for folder in docs:
        written += [(folder / "benchmark.md", page(found, raws))]
        written += [(folder / "benchmark.svg", chart) for chart in charts]
    for path, text in written:
        path.write_text(text)
    print(report)
    print("bench:", *(path for path, _ in written), f"of the raw figures in {out}/raw")


main()

# SPDX-License-Identifier: GPL-2.0
"""A graph of memory over time, as SVG."""

WIDTH, HEIGHT, MARGIN, LEGEND = 960, 420, 56, 24
SERIES = (("reader", "#c0392b", "reader, anonymous"), ("module", "#2471a3", "module, vmalloc"),
          ("slab", "#7f8c8d", "kernel, unreclaimable slab"))


def _text(x, y, text, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _step(most):
    """The distance of grid lines: a power of two, for at most six lines up to `most`."""
    step = 1
    while most / step > 6:
        step *= 2
    return step


def memory(measurements, bound):
    """`measurements` have `time` in s, and bytes by the names of SERIES; `bound` is the limit of the reader."""
    last = max(row["time"] for row in measurements) or 1
    most = max(bound, *(row[name] for row in measurements for name, *_ in SERIES)) / 2**20
    top = _step(most) * (int(most / _step(most)) + 1)

    def x_of(seconds):
        return MARGIN + seconds / last * (WIDTH - 2 * MARGIN)

    def y_of(mib):
        return HEIGHT - MARGIN - mib / top * (HEIGHT - 2 * MARGIN)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for mib in range(0, top + 1, _step(most)):
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y_of(mib):.1f}" '
                     f'y2="{y_of(mib):.1f}" stroke="#ddd"/>')
        parts.append(_text(MARGIN - 6, y_of(mib) + 4, f"{mib} MiB", "end"))
    for part in range(7):
        parts.append(_text(x_of(last * part / 6), HEIGHT - MARGIN + 18,
                           f"{last * part / 360:.1f} min"))
    parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y_of(bound / 2**20):.1f}" '
                 f'y2="{y_of(bound / 2**20):.1f}" stroke="{SERIES[0][1]}" stroke-dasharray="4"/>')
    parts.append(_text(WIDTH - MARGIN, y_of(bound / 2**20) - 6,
                       "reader memory explained by the profile", "end", SERIES[0][1]))
    for number, (name, colour, title) in enumerate(SERIES):
        points = " ".join(f"{x_of(row['time']):.1f},{y_of(row[name] / 2**20):.1f}"
                          for row in measurements)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     'stroke-width="1.5"/>')
        parts.append(_text(MARGIN + number * 240, LEGEND, title, "start", colour))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"

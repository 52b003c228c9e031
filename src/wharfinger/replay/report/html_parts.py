"""What reports as one HTML file are made of: the document, tables, a bar of shares, and lines over time.

No script, nothing from elsewhere, light and dark. Every text of the cluster is text: escaped, and with control and
direction marks spelled out. `html_report` says what stands in them.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

COLORS: Mapping[str, str] = {
    name: f"var(--{name})"
    for name in ("same", "figures", "elsewhere", "refused", "evicted", "placed", "otherwise", "unreplayable")
}
"""By verdict."""
ROWS = 100
"""Of a table, at most."""
WIDTH, LEFT, BOTTOM = 860, 52, 28
TOPS = (0.04, 0.1, 0.2, 0.4, 0.6, 1.0)
"""Where plots may end."""
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that are spelled out."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1d21;--soft:#5b6470;--line:#d7dce2;--ground:#fff;--same:#2f8f5b;
--figures:#8fb8a0;--elsewhere:#3b76c4;--refused:#c0392b;--placed:#12a5a5;--evicted:#a8457f;--otherwise:#c98a1b;--unreplayable:#8a8f98}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa4b0;--line:#39414b;--ground:#15181c;--same:#57b884;
--figures:#557a66;--elsewhere:#6ba3ec;--refused:#e8695b;--placed:#3fc6c6;--evicted:#d67ab0;--otherwise:#e0aa4a;--unreplayable:#747b85}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:60rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .25rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2rem 0 .5rem}
h3{font-size:.9rem;margin:.75rem 0 .25rem}p{margin:.25rem 0;color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}summary{cursor:pointer}dl{margin:.25rem 0 .5rem 1rem}
dt{font-weight:600}dd{margin:0 0 .25rem 0;overflow-wrap:anywhere}.key{display:inline-block;
width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem;vertical-align:-1px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1.5rem}
"""


class PlotLine(NamedTuple):
    """A line of a plot."""

    color: str
    values: Sequence[float | None]
    """From 0 to 1; None where nothing is known."""
    dash: str = ""


def document(change: Sequence[str], body: str) -> str:
    """The whole file. `change`: what was changed, for people; `body`: HTML."""
    told = text(", ".join(change) or "nothing changed")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Replay: {told}</title><style>{_STYLE}</style></head><body><main>\n"
        f"<h1>Replay: {told}</h1>\n{body}\n</main></body></html>\n"
    )


def text(said: object) -> str:
    """Any text of the cluster, harmless and visible."""
    seen = "".join(
        f"\\u{ord(one):04x}" if unicodedata.category(one) in _HIDDEN else one for one in str(said).replace("\n", " ")
    )
    return html.escape(seen)


def key(color: str) -> str:
    """A small square that says which colour is meant."""
    return f'<span class="key" style="background:{color}"></span>'


def share(count: int, of: int) -> str:
    """Per cent."""
    return f"{100 * count / of:.1f} %" if of else ""


def bar(summary: Mapping[str, int], titles: Mapping[str, str]) -> str:
    """Parts of a whole, by verdict; empty where there is nothing."""
    total = sum(summary[name] for name in titles)
    if not total:
        return ""
    parts, at = [], 0.0
    for name, title in titles.items():
        width = WIDTH * summary[name] / total
        if width:
            label = f"<title>{title}: {summary[name]:,}</title>"
            parts.append(
                f'<rect x="{at:.1f}" y="0" width="{width:.1f}" height="28" fill="{COLORS[name]}">{label}</rect>'
            )
        at += width
    told = ", ".join(f"{summary[name]:,} {title}" for name, title in titles.items() if summary[name])
    return f'<svg viewBox="0 0 {WIDTH} 28" role="img" aria-label="{text(told)}">{"".join(parts)}</svg>'


def counts(title: str, unit: str, summary: Mapping[str, int], titles: Mapping[str, str]) -> str:
    """A table of the verdicts that there are."""
    total = sum(summary[name] for name in titles)
    rows = [
        (f"{key(COLORS[name])}{told}", f"{summary[name]:,}", share(summary[name], total))
        for name, told in titles.items()
        if summary[name]
    ]
    return table(title, ("", f"#{unit}", "#share"), rows)


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already; heads that begin with # are of numbers. Empty without rows."""
    if not rows:
        return ""
    numbers = [head.startswith("#") for head in heads]

    def line(cells: Sequence[str], tag: str) -> str:
        told = (
            f"<{tag}{' class=n' if number else ''}>{cell}</{tag}>" for cell, number in zip(cells, numbers, strict=True)
        )
        return f"<tr>{''.join(told)}</tr>"

    head = line([name.removeprefix("#") for name in heads], "th")
    body = "".join(line(row, "td") for row in rows[:ROWS])
    more = f"<p>… and {len(rows) - ROWS:,} more</p>" if len(rows) > ROWS else ""
    return f'<h2>{title}</h2><div class="scroll"><table>{head}{body}</table></div>{more}'


def counted(name: str, found: Mapping[str, int], titles: Mapping[str, str]) -> tuple[str, ...]:
    """A row of a table of verdicts. `name`: HTML."""
    return (name, *(f"{found[verdict]:,}" for verdict in titles))


def plot(label: str, lines: Sequence[PlotLine], ends: tuple[str, str], *, width: int = WIDTH, height: int = 240) -> str:
    """Lines from 0 % to the round number above all of them. `ends`: what the first and the last point are."""
    right, top = width - 10, 10
    floor = height - BOTTOM - top
    highest = max((value for one in lines for value in one.values if value is not None), default=1.0)
    most = next((one for one in TOPS if one >= highest), 1.0)

    def line(one: PlotLine) -> str:
        steps = max(1, len(one.values) - 1)
        places = (
            f"{LEFT + (right - LEFT) * number / steps:.1f},{top + floor * (1 - min(1.0, max(0.0, value / most))):.1f}"
            for number, value in enumerate(one.values)
            if value is not None
        )
        return (
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{one.color}" stroke-width="2" '
            f'stroke-dasharray="{one.dash}"/>'
        )

    grid = "".join(
        f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{100 * most * quarter / 4:g} %</text>'
        for quarter in range(5)
        for y in (top + floor * (1 - quarter / 4),)
    )
    told = (
        f'<text x="{LEFT}" y="{height - 6}">{text(ends[0])}</text>'
        f'<text x="{right}" y="{height - 6}" text-anchor="end">{text(ends[1])}</text>'
    )
    drawn = "".join(map(line, lines))
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">{grid}{told}{drawn}</svg>'

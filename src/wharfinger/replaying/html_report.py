"""A report as one HTML file with plots that opens anywhere: no script, nothing from elsewhere, light and dark.

Every text of the cluster stands there as text: escaped, and with control and direction marks spelled out. Input is the
report as plain values (docs/json-outputs.md).
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

VERDICTS: Mapping[str, tuple[str, str]] = {
    "same": ("the same, to the letter", "var(--same)"),
    "figures": ("the same node, other figures", "var(--figures)"),
    "elsewhere": ("on another node", "var(--elsewhere)"),
    "refused": ("newly refused", "var(--refused)"),
    "placed": ("newly placed", "var(--placed)"),
    "otherwise": ("refused for other reasons", "var(--otherwise)"),
    "unreplayable": ("cannot be made again", "var(--lacking)"),
}
ROWS = 100
"""Of a table, at most."""
WIDTH, HEIGHT, LEFT, BOTTOM = 860, 240, 48, 28
_HIDDEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that are spelled out."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1d21;--soft:#5b6470;--line:#d7dce2;--ground:#fff;--same:#2f8f5b;
--figures:#8fb8a0;--elsewhere:#3b76c4;--refused:#c0392b;--placed:#12a5a5;--otherwise:#c98a1b;--lacking:#8a8f98}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa4b0;--line:#39414b;--ground:#15181c;--same:#57b884;
--figures:#557a66;--elsewhere:#6ba3ec;--refused:#e8695b;--placed:#3fc6c6;--otherwise:#e0aa4a;--lacking:#747b85}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:60rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.25rem 0;color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}summary{cursor:pointer}dl{margin:.25rem 0 .5rem 1rem}
dt{font-weight:600}dd{margin:0 0 .25rem 0;overflow-wrap:anywhere}.key{display:inline-block;
width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem;vertical-align:-1px}
"""


def page(report: Mapping[str, Any]) -> str:
    """The whole file."""
    change = ", ".join(report["change"]) or "nothing changed"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    parts = "\n".join(filter(None, _parts(report)))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Replay: {text(change)}</title><style>{_STYLE}</style></head><body><main>\n"
        f"<h1>Replay: {text(change)}</h1>\n{parts}\n</main></body></html>\n"
    )


def text(said: object) -> str:
    """Any text of the cluster, harmless and visible."""
    seen = "".join(
        f"\\u{ord(one):04x}" if unicodedata.category(one) in _HIDDEN else one for one in str(said).replace("\n", " ")
    )
    return html.escape(seen)


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    summary, decisions = report["summary"], report["decisions"]
    span = f"since {report['since']}" if report["since"] else "of an archive"
    yield f"<p>{decisions:,} decisions of {report['runs']:,} runs, {text(span)}. {_same(report)}</p>"
    yield _bar(summary, decisions)
    yield _table(
        "Decisions",
        ("", "#decisions", "#share"),
        [
            (
                f'<span class="key" style="background:{color}"></span>{title}',
                f"{summary[name]:,}",
                _share(summary[name], decisions),
            )
            for name, (title, color) in VERDICTS.items()
            if summary[name]
        ],
    )
    yield _over_time(report["packingOverTime"])
    yield _table(
        "Not made again",
        ("because", "#decisions", "for example"),
        [
            (
                text(one["lack"]),
                f"{one['decisions']:,}",
                "<br>".join(text(f"{each['pod']}: {each['detail']}") for each in one["examples"]),
            )
            for one in report["unreplayable"]
        ],
    )
    changed = [one for one in report["workloads"] if any(one[name] for name in VERDICTS if name != "same")]
    heads = ("workload", *(f"#{name}" for name in VERDICTS))
    yield _table("Workloads that differ", heads, [_counted(text(one["workload"]), one) for one in changed])
    yield _table(
        "Profiles", ("profile", *heads[1:]), [_counted(text(name), one) for name, one in report["profiles"].items()]
    )
    yield _table(
        "Reasons",
        ("", "#decisions", "message"),
        [(text(one["verdict"]), f"{one['decisions']:,}", text(one["message"])) for one in report["reasons"]],
    )
    yield _pods(report["pods"])
    yield _table(
        "Who decided",
        ("build", "packages", "#decisions"),
        [
            (
                text(one["build"] or "an earlier release"),
                text(", ".join(f"{name} {version}" for name, version in one["packages"].items())),
                f"{one['decisions']:,}",
            )
            for one in report["builds"]
        ],
    )


def _same(report: Mapping[str, Any]) -> str:
    made = report["decisions"] - report["summary"]["unreplayable"]
    return f"{100 * report['sameShare']:.2f} % of those that could be made again are the same." if made else ""


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else ""


def _bar(summary: Mapping[str, int], decisions: int) -> str:
    if not decisions:
        return ""
    parts, at = [], 0.0
    for name, (title, color) in VERDICTS.items():
        width = WIDTH * summary[name] / decisions
        if width:
            label = f"<title>{title}: {summary[name]:,}</title>"
            parts.append(f'<rect x="{at:.1f}" y="0" width="{width:.1f}" height="28" fill="{color}">{label}</rect>')
        at += width
    told = ", ".join(f"{summary[name]:,} {title}" for name, (title, _) in VERDICTS.items() if summary[name])
    return f'<svg viewBox="0 0 {WIDTH} 28" role="img" aria-label="{text(told)}">{"".join(parts)}</svg>'


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already; heads that begin with # are of numbers."""
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


def _counted(name: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    return (name, *(f"{counts[verdict]:,}" for verdict in VERDICTS))


def _over_time(points: Sequence[Mapping[str, Any]]) -> str:
    """Two lines: how full the chosen nodes were, and would have been."""
    if len(points) < 2:
        return ""
    right, top = WIDTH - 10, 10

    def place(number: int, share: float) -> str:
        x = LEFT + (right - LEFT) * number / (len(points) - 1)
        return f"{x:.1f},{top + (HEIGHT - BOTTOM - top) * (1 - min(1.0, max(0.0, share))):.1f}"

    def line(name: str, color: str, dash: str) -> str:
        told = " ".join(place(number, one[name]) for number, one in enumerate(points) if one[name] is not None)
        return f'<polyline points="{told}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>'

    grid = "".join(
        f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
        for percent in (0, 25, 50, 75, 100)
        for y in (top + (HEIGHT - BOTTOM - top) * (1 - percent / 100),)
    )
    ends = (
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{text(points[0]["time"])}</text>'
        f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{text(points[-1]["time"])}</text>'
    )
    lines = line("again", "var(--elsewhere)", "") + line("recorded", "var(--same)", "6 4")
    return (
        "<h2>How full the chosen nodes are</h2><p>Share of cpu and memory in use on the nodes that were chosen in each "
        'minute, with the pod on them: <span class="key" style="background:var(--same)"></span>as it was (dashed), '
        '<span class="key" style="background:var(--elsewhere)"></span>as it would have been.</p>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Packing over time">{grid}{ends}{lines}</svg>'
    )


def _pods(pods: Sequence[Mapping[str, Any]]) -> str:
    if not pods:
        return ""
    told = "".join(_pod(one) for one in pods[:ROWS])
    return f"<h2>Pods that differ most</h2>{told}"


def _pod(pod: Mapping[str, Any]) -> str:
    before, after = pod["recorded"], pod["again"]
    head = f"{text(pod['pod'])}: {VERDICTS[pod['verdict']][0]}, {text(_where(before))} → {text(_where(after))}"
    names = dict.fromkeys((*before["scores"], *after["scores"]))
    rows = [
        (text(name), *(str(side["scores"].get(name, "")) for side in (before, after)))
        for name in names
        if before["scores"].get(name) != after["scores"].get(name)
    ]
    scores = "".join(
        f"<tr><td>{name}</td><td class=n>{one}</td><td class=n>{other}</td></tr>" for name, one, other in rows
    )
    table = (
        f"<table><tr><th>plugin</th><th class=n>recorded</th><th class=n>again</th></tr>{scores}</table>"
        if rows
        else ""
    )
    messages = "".join(
        f"<dt>{title}</dt><dd>{text(side['message'])}</dd>"
        for title, side in (("Recorded", before), ("Again", after))
        if side["message"]
    )
    run = f"<p>Revision {pod['revision']}, run {text(pod['runId'])} of {text(pod['workflowId'])}</p>"
    return f"<details><summary>{head}</summary><dl>{messages}</dl>{table}{run}</details>"


def _where(said: Mapping[str, Any]) -> str:
    if said["node"]:
        return f"{said['node']} ({said['total']})" if said["total"] is not None else str(said["node"])
    return f"refused, nominated to {said['nominatedNode']}" if said["nominatedNode"] else "refused"

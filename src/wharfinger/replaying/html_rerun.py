"""The report of a rerun as one HTML file: where pods ended, and how full and fragmented both clusters were.

Looks as that of a shadow replay (`html_report`). Input is the report as plain values (docs/json-outputs.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wharfinger.replaying.html_parts import (
    COLORS,
    ROWS,
    PlotLine,
    bar,
    counts,
    document,
    key,
    plot,
    table,
    text,
)
from wharfinger.replaying.html_report import by_group

ENDS: Mapping[str, str] = {
    "same": "on the same node",
    "elsewhere": "on another node",
    "refused": "bound in the record only",
    "evicted": "evicted for another pod in the rerun only",
    "placed": "bound in the rerun only",
    "otherwise": "bound in neither",
    "unreplayable": "a plugin failed",
}
PLOTTED = 8
"""Resources."""
_HEIGHT, _WIDTH = 200, 520
_SIDES = ("recorded", "again")
_FIGURES = (("use", 100.0, "{} in use"), ("fragmentation", 1.0, "free {} that pods do not fit on"))
"""Name of the figure, its value for all, and what it is."""


def page(report: Mapping[str, Any]) -> str:
    """The whole file."""
    return document(report["change"], "\n".join(filter(None, _parts(report))))


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    span = f"since {report['since']}" if report["since"] else "of an archive"
    yield (
        f"<p>{report['decisions']:,} pods of {report['runs']:,} runs lived again, {text(span)}, with all consequences. "
        "A change is to be compared with a rerun without one: some difference comes from how a span is lived again."
        "</p>"
    )
    if report["stopped"]:
        yield "<p>Pods went on waking each other, and some were left undecided.</p>"
    yield bar(report["summary"], ENDS)
    yield counts("Pods", "pods", report["summary"], ENDS)
    yield from _over_time(report["overTime"])
    yield _at_the_end(report["overTime"])
    yield from by_group(report, ENDS)
    yield _pods(report["pods"])
    yield table(
        f"Evicted for others: {report['evictionCount']:,}",
        ("victim", "for"),
        [(text(one["victim"]), text(one["preemptor"])) for one in report["evictions"]],
    )


def plotted(moments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The resources that are in use at any time, in the record or in the rerun; at most `PLOTTED`."""
    used = dict.fromkeys(
        name for one in moments for side in _SIDES for name, percent in one[side]["use"].items() if percent
    )
    return list(used)[:PLOTTED]


def _over_time(moments: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(moments) < 2:
        return
    names = plotted(moments)
    legend = f"{key(COLORS['same'])}the record (dashed), {key(COLORS['elsewhere'])}the rerun"
    yield f"<h2>In use</h2><p>Share of what all nodes offer: {legend}.</p>"
    yield _plots(moments, names, "use", 100.0)
    cut = [name for name in names if any(name in one[side]["fragmentation"] for one in moments for side in _SIDES)]
    yield (
        "<h2>Fragmentation</h2><p>Share of what is free that lies on nodes where a pod that asks for it does not fit: "
        f"{legend}.</p>"
    )
    yield _plots(moments, cut, "fragmentation", 1.0)


def _plots(moments: Sequence[Mapping[str, Any]], names: Sequence[str], figure: str, whole: float) -> str:
    ends = _when(moments[0]), _when(moments[-1])

    def values(side: str, name: str) -> list[float | None]:
        return [one[side][figure][name] / whole if name in one[side][figure] else None for one in moments]

    drawn = (
        f"<div><h3>{text(name)}</h3>"
        + plot(
            f"{name} over time",
            [
                PlotLine(COLORS["elsewhere"], values("again", name)),
                PlotLine(COLORS["same"], values("recorded", name), "6 4"),
            ],
            ends,
            width=_WIDTH,
            height=_HEIGHT,
        )
        + "</div>"
        for name in names
    )
    return f'<div class="plots">{"".join(drawn)}</div>'


def _when(moment: Mapping[str, Any]) -> str:
    return moment["time"] or f"revision {moment['revision']}"


def _at_the_end(moments: Sequence[Mapping[str, Any]]) -> str:
    if not moments:
        return ""
    last = moments[-1]
    rows = [
        (text(title), *(f"{100 * last[side][figure].get(name, 0.0) / whole:.1f} %" for side in _SIDES))
        for figure, whole, titled in (
            ("use", 100.0, "{} in use"),
            ("fragmentation", 1.0, "free {} that pods do not fit on"),
        )
        for name in last["recorded"][figure]
        if figure == "fragmentation" or any(last[side][figure].get(name) for side in _SIDES)
        for title in (titled.format(name),)
    ]
    return table("At the end", ("", "#record", "#rerun"), rows)


def _pods(pods: Sequence[Mapping[str, Any]]) -> str:
    told = "".join(_pod(one) for one in pods[:ROWS])
    return f"<h2>Pods that differ most</h2>{told}" if pods else ""


def _pod(pod: Mapping[str, Any]) -> str:
    sides = (pod["recorded"], pod["recordedTotal"]), (pod["again"], pod["againTotal"])
    before, after = (f"{node} ({total})" if node and total is not None else node or "no node" for node, total in sides)
    head = f"{text(pod['pod'])}: {ENDS[pod['verdict']]}, {text(before)} → {text(after)}"
    scores = ", ".join(f"{name} {points}" for name, points in pod["recordedScores"].items())
    said = [
        ("Recorded", pod["recordedMessage"] or scores),
        ("Rerun", pod["message"] or ("evicted for another pod" if pod["evicted"] else "")),
    ]
    told = "".join(f"<dt>{title}</dt><dd>{text(words)}</dd>" for title, words in said if words)
    return f"<details><summary>{head}</summary><dl>{told}</dl></details>"

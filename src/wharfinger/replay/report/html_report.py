"""The report of a replay as one HTML file with plots that opens anywhere: of a shadow replay, or of a rerun.

Input is the report as plain values (docs/json-outputs.md). `html_parts` has what the file is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wharfinger.replay.ends import chosen, chosen_or_refused
from wharfinger.replay.report.html_parts import (
    COLORS,
    ROWS,
    PlotLine,
    bar,
    counted,
    counts,
    document,
    key,
    plot,
    table,
    text,
)

VERDICTS: Mapping[str, str] = {
    "same": "the same, to the letter",
    "figures": "the same node, other figures",
    "elsewhere": "on another node",
    "refused": "newly refused",
    "placed": "newly placed",
    "otherwise": "refused for other reasons",
    "unreplayable": "cannot be made again",
}
"""Of a shadow replay."""
ENDS: Mapping[str, str] = {
    "same": "on the same node",
    "elsewhere": "on another node",
    "refused": "bound in the record only",
    "evicted": "evicted for another pod in the rerun only",
    "placed": "bound in the rerun only",
    "otherwise": "bound in neither",
    "unreplayable": "a plugin failed",
}
"""Of a rerun."""
PLOTTED = 8
"""Resources."""
_HEIGHT, _WIDTH = 200, 520
_SIDES = ("recorded", "again")
_FIGURES = (("use", 100.0, "{} in use"), ("fragmentation", 1.0, "free {} that pods do not fit on"))
"""Name of the figure, its value for all, and what it is."""


def page(report: Mapping[str, Any]) -> str:
    """The whole file."""
    parts = _of_rerun(report) if report["mode"] == "rerun" else _of_shadow(report)
    return document(report["change"], "\n".join(filter(None, parts)))


def _of_shadow(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"<p>{report['decisions']:,} decisions of {report['runs']:,} runs, {_span(report)}. {_same(report)}</p>"
    yield bar(report["summary"], VERDICTS)
    yield counts("Decisions", "decisions", report["summary"], VERDICTS)
    yield _packing_over_time(report["packingOverTime"])
    yield table(
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
    yield from _by_group(report, VERDICTS)
    yield _pods(map(_decided_pod, report["pods"][:ROWS]))
    yield table(
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


def _of_rerun(report: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"<p>{report['decisions']:,} pods of {report['runs']:,} runs lived again, {_span(report)}, with all "
        "consequences. A change is to be compared with a rerun without one: some difference comes from how a span is "
        "lived again.</p>"
    )
    if report["stopped"]:
        yield "<p>Pods went on waking each other, and some were left undecided.</p>"
    yield bar(report["summary"], ENDS)
    yield counts("Pods", "pods", report["summary"], ENDS)
    yield from _clusters_over_time(report["overTime"])
    yield _at_the_end(report["overTime"])
    yield from _by_group(report, ENDS)
    yield _pods(map(_lived_pod, report["pods"][:ROWS]))
    yield table(
        f"Evicted for others: {report['evictionCount']:,}",
        ("victim", "for"),
        [(text(one["victim"]), text(one["preemptor"])) for one in report["evictions"]],
    )


def _span(report: Mapping[str, Any]) -> str:
    return text(f"since {report['since']}" if report["since"] else "of an archive")


def _same(report: Mapping[str, Any]) -> str:
    made = report["decisions"] - report["summary"]["unreplayable"]
    return f"{100 * report['sameShare']:.2f} % of those that could be made again are the same." if made else ""


def _by_group(report: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
    """Tables by workload, namespace, profile and reason."""

    def differs(one: Mapping[str, Any]) -> bool:
        return any(one[name] for name in titles if name != "same")

    heads = tuple(f"#{name}" for name in titles)
    for title, what, found in (("Workloads", "workload", "workloads"), ("Namespaces", "namespace", "namespaces")):
        rows = [counted(text(one[what]), one, titles) for one in report[found] if differs(one)]
        yield table(f"{title} that differ", (what, *heads), rows)
    profiles = [counted(text(name), one, titles) for name, one in report["profiles"].items()]
    yield table("Profiles", ("profile", *heads), profiles)
    yield table(
        "Reasons",
        ("", "#count", "message"),
        [(text(one["verdict"]), f"{one['decisions']:,}", text(one["message"])) for one in report["reasons"]],
    )


# --- over time ------------------------------------------------------------------------------------


def _lines(sides: Mapping[str, Sequence[float | None]]) -> list[PlotLine]:
    return [PlotLine(COLORS["elsewhere"], sides["again"]), PlotLine(COLORS["same"], sides["recorded"], "6 4")]


def _packing_over_time(points: Sequence[Mapping[str, Any]]) -> str:
    """Two lines: how full the chosen nodes were, and would have been."""
    if len(points) < 2:
        return ""
    lines = _lines({side: [one[side] for one in points] for side in _SIDES})
    return (
        "<h2>How full the chosen nodes are</h2><p>Share of cpu and memory in use on the nodes that were chosen at each "
        f"time, with the pod on them: {key(COLORS['same'])}as it was (dashed), "
        f"{key(COLORS['elsewhere'])}as it would have been.</p>"
        f"{plot('Packing over time', lines, (points[0]['time'], points[-1]['time']))}"
    )


def plotted(moments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The resources that are in use at any time, in the record or in the rerun; at most `PLOTTED`."""
    used = dict.fromkeys(
        name for one in moments for side in _SIDES for name, percent in one[side]["use"].items() if percent
    )
    return list(used)[:PLOTTED]


def _clusters_over_time(moments: Sequence[Mapping[str, Any]]) -> Iterator[str]:
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

    def drawn(name: str) -> str:
        lines = _lines({side: values(side, name) for side in _SIDES})
        return plot(f"{name} over time", lines, ends, width=_WIDTH, height=_HEIGHT)

    return f'<div class="plots">{"".join(f"<div><h3>{text(name)}</h3>{drawn(name)}</div>" for name in names)}</div>'


def _when(moment: Mapping[str, Any]) -> str:
    return moment["time"] or f"revision {moment['revision']}"


def _at_the_end(moments: Sequence[Mapping[str, Any]]) -> str:
    if not moments:
        return ""
    last = moments[-1]
    rows = [
        (text(title.format(name)), *(f"{100 * last[side][figure].get(name, 0.0) / whole:.1f} %" for side in _SIDES))
        for figure, whole, title in _FIGURES
        for name in last["recorded"][figure]
        if figure == "fragmentation" or any(last[side][figure].get(name) for side in _SIDES)
    ]
    return table("At the end", ("", "#record", "#rerun"), rows)


# --- pods -----------------------------------------------------------------------------------------


def _pods(told: Iterable[str]) -> str:
    found = "".join(told)
    return f"<h2>Pods that differ most</h2>{found}" if found else ""


def _details(
    pod: Mapping[str, Any], verdict: str, sides: Sequence[str], said: Mapping[str, str], more: str = ""
) -> str:
    """One pod. `sides`: where it was, and would be; `said`: what is said of each, by title; `more`: HTML."""
    before, after = map(text, sides)
    told = "".join(f"<dt>{title}</dt><dd>{text(words)}</dd>" for title, words in said.items() if words)
    summary = f"<summary>{text(pod['pod'])}: {verdict}, {before} → {after}</summary>"
    return f"<details>{summary}<dl>{told}</dl>{more}</details>"


def _decided_pod(pod: Mapping[str, Any]) -> str:
    sides = before, after = pod["recorded"], pod["again"]
    names = dict.fromkeys((*before["scores"], *after["scores"]))
    scores = "".join(
        f"<tr><td>{text(name)}</td>{''.join(f'<td class=n>{one}</td>' for one in points)}</tr>"
        for name in names
        for points in ([side["scores"].get(name, "") for side in sides],)
        if points[0] != points[1]
    )
    heads = "<tr><th>plugin</th><th class=n>recorded</th><th class=n>again</th></tr>"
    scored = f"<table>{heads}{scores}</table>" if scores else ""
    run = f"<p>Revision {pod['revision']}, run {text(pod['runId'])} of {text(pod['workflowId'])}</p>"
    said = {"Recorded": before["message"], "Again": after["message"]}
    return _details(pod, VERDICTS[pod["verdict"]], [*map(chosen_or_refused, sides)], said, scored + run)


def _lived_pod(pod: Mapping[str, Any]) -> str:
    sides = [chosen(pod[side], pod[f"{side}Total"]) or "no node" for side in _SIDES]
    scores = ", ".join(f"{name} {points}" for name, points in pod["recordedScores"].items())
    said = {
        "Recorded": pod["recordedMessage"] or scores,
        "Rerun": pod["message"] or ("evicted for another pod" if pod["evicted"] else ""),
    }
    return _details(pod, ENDS[pod["verdict"]], sides, said)

"""The report of a shadow replay as one HTML file with plots that opens anywhere.

Input is the report as plain values (docs/json-outputs.md). `html_parts` has what it is made of, and `html_rerun` the
same for a rerun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wharfinger.replaying.html_parts import (
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


def page(report: Mapping[str, Any]) -> str:
    """The whole file."""
    return document(report["change"], "\n".join(filter(None, _parts(report))))


def _parts(report: Mapping[str, Any]) -> Iterator[str]:
    summary, decisions = report["summary"], report["decisions"]
    span = f"since {report['since']}" if report["since"] else "of an archive"
    yield f"<p>{decisions:,} decisions of {report['runs']:,} runs, {text(span)}. {_same(report)}</p>"
    yield bar(summary, VERDICTS)
    yield counts("Decisions", "decisions", summary, VERDICTS)
    yield _over_time(report["packingOverTime"])
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
    yield from by_group(report, VERDICTS)
    yield _pods(report["pods"])
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


def by_group(report: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
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


def _same(report: Mapping[str, Any]) -> str:
    made = report["decisions"] - report["summary"]["unreplayable"]
    return f"{100 * report['sameShare']:.2f} % of those that could be made again are the same." if made else ""


def _over_time(points: Sequence[Mapping[str, Any]]) -> str:
    """Two lines: how full the chosen nodes were, and would have been."""
    if len(points) < 2:
        return ""
    lines = [
        PlotLine(COLORS["elsewhere"], [one["again"] for one in points]),
        PlotLine(COLORS["same"], [one["recorded"] for one in points], "6 4"),
    ]
    return (
        "<h2>How full the chosen nodes are</h2><p>Share of cpu and memory in use on the nodes that were chosen at each "
        f"time, with the pod on them: {key(COLORS['same'])}as it was (dashed), "
        f"{key(COLORS['elsewhere'])}as it would have been.</p>"
        f"{plot('Packing over time', lines, (points[0]['time'], points[-1]['time']))}"
    )


def _pods(pods: Sequence[Mapping[str, Any]]) -> str:
    if not pods:
        return ""
    told = "".join(_pod(one) for one in pods[:ROWS])
    return f"<h2>Pods that differ most</h2>{told}"


def _pod(pod: Mapping[str, Any]) -> str:
    before, after = pod["recorded"], pod["again"]
    head = f"{text(pod['pod'])}: {VERDICTS[pod['verdict']]}, {text(_where(before))} → {text(_where(after))}"
    names = dict.fromkeys((*before["scores"], *after["scores"]))
    rows = [
        (text(name), *(str(side["scores"].get(name, "")) for side in (before, after)))
        for name in names
        if before["scores"].get(name) != after["scores"].get(name)
    ]
    scores = "".join(
        f"<tr><td>{name}</td><td class=n>{one}</td><td class=n>{other}</td></tr>" for name, one, other in rows
    )
    scored = (
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
    return f"<details><summary>{head}</summary><dl>{messages}</dl>{scored}{run}</details>"


def _where(said: Mapping[str, Any]) -> str:
    if said["node"]:
        return f"{said['node']} ({said['total']})" if said["total"] is not None else str(said["node"])
    return f"refused, nominated to {said['nominatedNode']}" if said["nominatedNode"] else "refused"

"""What the page tells of a report of replay: in short, in full, and how the ends of two reruns compare. Pure.

With a namespace, everything that a report knows by namespace is that namespace's: counts, workloads, reasons, pods.
What was measured of the whole cluster stays as it is, and `ofAll` names it. Texts and lists have limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wharfinger.page.follow.plain import text
from wharfinger.replay.ends import GRAVEST, VERDICTS, verdict_of
from wharfinger.replay.kept_form import KeptReport, LivedEnds, NamespaceCounts, ShadowFigures

POINTS = 500
"""Of a line over time, at most; of more, neighbours are taken together."""
MOST = {
    "workloads": 1000,
    "namespaces": 1000,
    "reasons": 200,
    "pods": 100,
    "evictions": 100,
    "builds": 100,
    "gaps": 100,
}
"""Of lists."""
MOST_NAMES = 200
"""Of fields by name, and of lists that are not named."""
SHOWN = 100
"""Pods that differ between two reruns."""
OF_ALL = ("packingOverTime", "overTime", "profiles", "builds", "differs")
"""What no report knows by namespace."""
CPU = "cpu"
BETWEEN = tuple(verdict for verdict in VERDICTS if verdict != "unreplayable")
"""What two reruns can come to: whether a plugin failed is not kept."""


@dataclass(frozen=True, slots=True)
class ReportInShort:
    """A report as a row of the list."""

    told: dict[str, Any]
    """What is the same for every namespace."""
    figures: dict[str, Any]
    """Of all namespaces."""
    namespaces: dict[str, NamespaceCounts]

    @classmethod
    def of(cls, kept: KeptReport) -> ReportInShort:
        """The row of a report."""
        report = kept.report
        counts = report.summary.model_dump()
        told = _origin(kept) | {
            "change": [text(one) for one in report.change[:50]],
            "since": _short(report.since),
            "until": _short(report.until),
            "runs": report.runs,
        }
        figures = {
            "decisions": report.decisions,
            "summary": counts,
            "sameShare": _share(counts),
            "packing": _packing(kept),
        }
        return cls(told, figures, {one.namespace: one for one in report.namespaces[: MOST["namespaces"]]})

    def row(self, namespace: str) -> dict[str, Any]:
        """`namespace`: of which the figures are; empty = of all."""
        if not namespace:
            return self.told | self.figures
        found = self.namespaces.get(namespace) or NamespaceCounts(namespace=namespace)
        return self.told | _figures_of(found)


def in_full(name: str, kept: KeptReport, namespace: str) -> dict[str, Any]:
    """Everything of a report but where each pod ended."""
    report = kept.report.model_dump(by_alias=True)
    names = sorted(one.namespace for one in kept.report.namespaces)[: MOST["namespaces"]]
    report["sameShare"] = _share(report["summary"])
    if namespace:
        found = next((one for one in kept.report.namespaces if one.namespace == namespace), None)
        report |= _narrowed(report, found or NamespaceCounts(namespace=namespace), namespace)
    if isinstance(kept.report, ShadowFigures):
        report["packingOverTime"] = _thinned(report["packingOverTime"])
    else:
        report["overTime"] = report["overTime"][:: 1 + len(report["overTime"]) // POINTS]
    for one in (*report["reasons"], *report.get("unreplayable", ())):
        del one["namespaces"]
    return {
        "name": text(name),
        **_origin(kept),
        "command": text(kept.command),
        "namespaces": [text(one) for one in names],
        "ofAll": [field for field in OF_ALL if namespace and field in report],
        "report": _bounded(report, ""),
    }


def between(here: KeptReport, beside: KeptReport, namespace: str) -> dict[str, Any] | None:
    """Where pods of both reruns ended, `beside` taken for the record; None where that is not known."""
    if here.ends is None or beside.ends is None:
        return None
    ours, theirs = _ends(here.ends, namespace), _ends(beside.ends, namespace)
    counts = dict.fromkeys(BETWEEN, 0)
    victims = _victims(here.ends) - _victims(beside.ends)
    differing: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in GRAVEST}
    for life, node in ours.items():
        if life not in theirs:
            continue
        verdict = verdict_of(theirs[life], node, evicted=life in victims)
        counts[verdict] += 1
        if verdict != "otherwise" and verdict in differing and len(differing[verdict]) < SHOWN:
            row = {"pod": text(life[0]), "verdict": verdict, "beside": text(theirs[life]), "here": text(node)}
            differing[verdict].append(row)
    return {
        "pods": sum(counts.values()),
        "onlyHere": len(ours.keys() - theirs.keys()),
        "onlyBeside": len(theirs.keys() - ours.keys()),
        "summary": counts,
        "differing": [one for verdict in GRAVEST for one in differing[verdict]][:SHOWN],
    }


def _victims(ends: LivedEnds) -> set[tuple[str, int]]:
    return {ends.pods[place][:2] for place in ends.evicted if place < len(ends.pods)}


def _ends(ends: LivedEnds, namespace: str) -> dict[tuple[str, int], str]:
    prefix = f"{namespace}/" if namespace else ""
    names = (*ends.nodes, "")
    known = len(ends.nodes)
    return {
        (pod, created): names[place if place < known else -1]
        for pod, created, place in ends.pods
        if pod.startswith(prefix)
    }


def _origin(kept: KeptReport) -> dict[str, Any]:
    return {
        "made": kept.made.isoformat().replace("+00:00", "Z"),
        "mode": kept.report.mode,
        "build": text(kept.build),
        "cluster": text(kept.cluster),
        "archive": text(kept.archive) or None,
    }


def _packing(kept: KeptReport) -> dict[str, float | None]:
    report = kept.report
    if isinstance(report, ShadowFigures):
        return report.packing.model_dump()
    last = report.over_time[-1] if report.over_time else None
    sides = (last.recorded, last.again) if last is not None else ()
    found = [one.use[CPU] / 100 if CPU in one.use else None for one in sides] or [None, None]
    return {"recorded": found[0], "again": found[1]}


def _figures_of(found: NamespaceCounts) -> dict[str, Any]:
    counts = {name: count for name, count in found.model_dump().items() if isinstance(count, int)}
    return {
        "decisions": sum(counts.values()),
        "summary": counts,
        "sameShare": _share(counts),
        "packing": found.packing.model_dump(),
    }


def _share(counts: dict[str, int]) -> float | None:
    """Of those that could be made again, from 0 to 1; None where there was none."""
    made = sum(counts.values()) - counts["unreplayable"]
    return counts["same"] / made if made else None


def _narrowed(report: dict[str, Any], found: NamespaceCounts, namespace: str) -> dict[str, Any]:
    """What a report knows of one namespace."""
    prefix = f"{namespace}/"

    def of_it(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [one | {"decisions": one["namespaces"][namespace]} for one in found if one["namespaces"].get(namespace)]

    narrowed = _figures_of(found) | {
        "workloads": [one for one in report["workloads"] if one["workload"].startswith(f"{namespace}: ")],
        "namespaces": [one for one in report["namespaces"] if one["namespace"] == namespace],
        "reasons": of_it(report["reasons"]),
        "pods": [one for one in report["pods"] if one["pod"].startswith(prefix)],
    }
    if "evictions" in report:
        narrowed["evictions"] = [
            one
            for one in report["evictions"]
            if one["victim"].startswith(prefix) or one["preemptor"].startswith(prefix)
        ]
    if "unreplayable" in report:
        narrowed["unreplayable"] = [
            one | {"examples": [each for each in one["examples"] if each["pod"].startswith(prefix)]}
            for one in of_it(report["unreplayable"])
        ]
    return narrowed


def _thinned(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `POINTS`: neighbours become their mean, under the time of the first."""
    step = -(-len(points) // POINTS) or 1
    if step == 1:
        return list(points)
    return [
        {"time": some[0]["time"], **{side: _mean([one[side] for one in some]) for side in ("recorded", "again")}}
        for some in (points[at : at + step] for at in range(0, len(points), step))
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


def _short(found: str | None) -> str | None:
    return text(found) if found is not None else None


def _bounded(value: Any, name: str) -> Any:
    """The same with texts and lists of bounded length."""
    most = POINTS + 1 if name in ("packingOverTime", "overTime") else MOST_NAMES
    match value:
        case str():
            return text(value)
        case dict():
            some = list(value.items())[:MOST_NAMES]
            return {text(str(key)): _bounded(one, key) for key, one in some}
        case list():
            return [_bounded(one, name) for one in value[: MOST.get(name, most)]]
    return value

"""Answers of `simulate`, `simulate --compare` and `capacity`, as text for people and as plain values for JSON.

The shapes of plain values are kept stable and documented in docs/json-outputs.md. Amounts in them are integers: cpu in
milli-units, everything else in bytes or pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from wharfinger.cli.output import Columns, plain
from wharfinger.objects.model.node import CPU
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.quantities import format_bytes
from wharfinger.whatif.capacity import Capacity
from wharfinger.whatif.comparison import ComparedPod, Comparison, NodeVerdict, differences
from wharfinger.whatif.outcome import Amount, Answer, Cause, PodOutcome, Result, Use

LISTED = 50
"""Pods that are listed one by one; more are grouped, unless all are asked for."""
NAMED = 3
"""Pods that stand for a group."""
NODES_LISTED = 20
MANY_CORES = 100
"""From so many on, one decimal will do."""
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_CAUSES = {
    Cause.GIVEN: "",
    Cause.WAITING: "waits already",
    Cause.DRAINED: "from drained {}",
    Cause.EVICTED: "evicted from {}",
}


def simulation_text(
    answer: Answer, revision: int | None, *, every: bool = False, hint: str = "", unmade: Sequence[str] = ()
) -> str:
    """The whole answer, without the last line's end.

    `hint`: how there would be pods to place, where there are none. `unmade`: the kinds whose pods are not made.
    """
    parts = [_headline(answer, revision, hint, unmade)]
    if every or len(answer.pods) <= LISTED:
        parts.append(_pods(answer.pods))
    else:
        parts += [_groups(answer), _reasons(answer)]
    return _joined(*parts, _evictions(answer), _use(answer.before, answer.after), _notes(answer.notes))


def capacity_text(found: Capacity, revision: int | None) -> str:
    """How many fit, where, and why not more."""
    where = f" on {_number(len(found.nodes), 'node')}" if found.fits else ""
    at = f", on the state of revision {revision}" if revision is not None else ""
    least = "at least " if found.limited else ""
    head = typer.style(f"{least}{found.fits:,} more of {found.pod} fit{where}", bold=True) + at
    parts = [head]
    if found.nodes:
        shown = list(found.nodes.items())[:NODES_LISTED]
        rest = len(found.nodes) - len(shown)
        table = Columns("NODE", "PODS").render([(node, f"{count:,}") for node, count in shown])
        parts.append(table + (f"\n... and {_number(rest, 'more node')}" if rest else ""))
    if not found.limited:
        rows = [
            (plugin, f"{count:,}", reason)
            for plugin, reasons in found.refusals.items()
            for reason, count in reasons.items()
        ]
        table = Columns("REFUSED BY", "NODES", "REASON").render(rows) if rows else ""
        parts.append("\n".join(filter(None, (plain(f"The next one: {found.message}"), table))))
    return _joined(*parts, _use(found.before, found.after), _notes(found.notes))


def _joined(*parts: str) -> str:
    """The parts that are not empty, with a blank line between two."""
    return "\n\n".join(filter(None, parts))


def _headline(answer: Answer, revision: int | None, hint: str, unmade: Sequence[str]) -> str:
    placed = sum(pod.placed for pod in answer.pods)
    pods = _number(len(answer.pods), "pod")
    said = f"{placed:,} of {pods} would be placed" if answer.pods else f"no pod is to be placed{hint and ': '}{hint}"
    evicted = f", {_number(len(answer.evictions), 'pod')} evicted for others" if answer.evictions else ""
    at = f", on the state of revision {revision}" if revision is not None else ""
    without = f", without the pods of {', '.join(unmade)}" if unmade else ""
    return typer.style(said, bold=True) + evicted + at + without


def _pods(pods: Sequence[PodOutcome]) -> str:
    if not pods:
        return ""
    rows = [(str(one.pod), one.result.value, one.node or "<none>", "; ".join(_remarks(one))) for one in pods]
    return Columns("POD", "RESULT", "NODE", "WHY").render(rows)


def _remarks(one: PodOutcome) -> Iterator[str]:
    cause = _CAUSES[one.cause].format(one.left)
    if cause:
        yield cause + ("" if one.workload or one.cause is Cause.WAITING else ", and nothing makes it again")
    if one.victims:
        yield f"nominated to {one.nominated_node}, evicting {', '.join(map(str, one.victims))}"
    if one.message:
        yield one.message
    if one.leans_on:
        yield _lacking(one.leans_on)


def _lacking(leans_on: Sequence[str]) -> str:
    """What a decision leans on and the question does not contain; empty for nothing."""
    return f"not given, and may matter: {', '.join(leans_on)}" if leans_on else ""


def _groups(answer: Answer) -> str:
    """Pods that are placed, by workload, or else by namespace."""
    totals: Counter[tuple[str, str]] = Counter()
    placed: Counter[tuple[str, str]] = Counter()
    for one in answer.pods:
        group = (one.pod.namespace, one.workload or "<none>")
        totals[group] += 1
        placed[group] += one.placed
    rows = [
        (namespace, workload, f"{placed[namespace, workload]:,}", f"{count:,}")
        for (namespace, workload), count in totals.most_common(LISTED)
    ]
    rest = len(totals) - len(rows)
    table = Columns("NAMESPACE", "WORKLOAD", "PLACED", "PODS").render(rows)
    return table + (f"\n... and {_number(rest, 'more workload')}" if rest else "")


def _reasons(answer: Answer) -> str:
    reasons = answer.reasons
    if not reasons:
        return ""
    rows = [(f"{len(pods):,}", "; ".join(why), _some(pods)) for why, pods in list(reasons.items())[:LISTED]]
    rest = len(reasons) - len(rows)
    table = Columns("PODS", "REASON", "SUCH AS").render(rows)
    return table + (f"\n... and {_number(rest, 'more reason')}" if rest else "")


def _evictions(answer: Answer) -> str:
    listed = len(answer.pods) <= LISTED
    if not answer.evictions or listed:
        return ""
    by = Counter(one.preemptor for one in answer.evictions)
    rows = [(str(preemptor), f"{count:,}") for preemptor, count in by.most_common(NODES_LISTED)]
    return Columns("PREEMPTOR", "EVICTS").render(rows)


def _use(before: Use, after: Use) -> str:
    rows = [("nodes", f"{before.nodes:,}", "", f"{after.nodes:,}", "")]
    for name in dict.fromkeys((*before.resources, *after.resources)):
        amounts = [use.resources.get(name, Amount(0, 0)) for use in (before, after)]
        first, last = (f"{_amount(name, one.requested)}/{_amount(name, one.allocatable)}" for one in amounts)
        rows.append((name, first, f"{amounts[0].percent:.1f}", last, f"{amounts[1].percent:.1f}"))
    return Columns("USE", "BEFORE", "%", "AFTER", "%").render(rows)


def _amount(name: str, amount: int) -> str:
    if name == CPU:
        digits = 3 if amount < MANY_CORES * 1000 else 1
        return f"{amount / 1000:,.{digits}f}".rstrip("0").rstrip(".")
    return format_bytes(amount) if name.startswith(_BYTES) else f"{amount:,}"


def _notes(notes: Sequence[str]) -> str:
    return "\n".join(plain(f"Note: {note}.") for note in notes)


def _some(pods: Sequence[PodKey]) -> str:
    return ", ".join(map(str, pods[:NAMED])) + (", ..." if len(pods) > NAMED else "")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


_TITLES = {
    NodeVerdict.SAME: "on the node that would be chosen",
    NodeVerdict.TIED: "on another node of the same score",
    NodeVerdict.LOWER: "on a node of a lower score",
    NodeVerdict.REFUSED: "on a node that would be refused",
    NodeVerdict.NOWHERE: "that would not be placed at all",
    NodeVerdict.UNDECIDED: "that cannot be compared",
}


def comparison_text(comparison: Comparison, revision: int | None, *, every: bool = False) -> str:
    """The whole answer, without the last line's end."""
    pods, counts = comparison.pods, comparison.counts
    alike = counts[NodeVerdict.SAME] + counts[NodeVerdict.TIED]
    at = f", on the state of revision {revision}" if revision is not None else ""
    found = f"{alike:,} of {len(pods):,} bound pods are where they would be placed"
    head = typer.style(found if pods else "no pod is compared: none that is given is bound to a node", bold=True) + at
    summary = Columns("PODS", "").render([(f"{count:,}", _TITLES[verdict]) for verdict, count in counts.items()])
    shown = list(pods if every else differences(comparison))
    listed = shown if every else shown[:LISTED]
    rows = [(str(one.pod), one.verdict.value, one.node, one.chosen or "<none>", _why(one)) for one in listed]
    table = Columns("POD", "RESULT", "NODE", "WOULD BE", "WHY").render(rows) if rows else ""
    rest = len(shown) - len(listed)
    more = f"... and {rest:,} more: --all lists every pod" if rest else ""
    reasons = [(f"{count:,}", plugin, reason) for (plugin, reason), count in comparison.reasons.items()][:LISTED]
    refused = Columns("PODS", "REFUSED BY", "REASON").render(reasons) if reasons else ""
    listing = "\n".join(filter(None, (table, more)))
    return _joined(head, summary, refused, listing, _notes(comparison.notes))


def comparison_values(comparison: Comparison, revision: int | None) -> dict[str, Any]:
    """`revision`: of the live state; None when there was none."""
    return {
        "revision": revision,
        "summary": {"pods": len(comparison.pods), **{str(key): count for key, count in comparison.counts.items()}},
        "pods": [
            {
                "pod": str(one.pod),
                "result": one.verdict.value,
                "node": one.node,
                "chosen": one.chosen,
                "score": one.score,
                "chosenScore": one.chosen_score,
                "refusals": {plugin: list(reasons) for plugin, reasons in one.refusals.items()},
                "message": one.message,
                **({"leansOn": list(one.leans_on)} if one.leans_on else {}),
            }
            for one in comparison.pods
        ],
        "reasons": [
            {"plugin": plugin, "reason": reason, "pods": count}
            for (plugin, reason), count in comparison.reasons.items()
        ],
        "notes": list(comparison.notes),
    }


def _why(one: ComparedPod) -> str:
    reason = one.message or "; ".join(f"{plugin}: {', '.join(said)}" for plugin, said in one.refusals.items())
    if not reason and one.chosen_score is not None and one.score is not None:
        reason = f"score {one.score}" + (f", not {one.chosen_score}" if one.score < one.chosen_score else "")
    return "; ".join(filter(None, (reason, _lacking(one.leans_on))))


def simulation_values(answer: Answer, revision: int | None) -> dict[str, Any]:
    """`revision`: of the live state that it began with; None when there was none."""
    return {
        "revision": revision,
        "summary": {
            "pods": len(answer.pods),
            "placed": sum(pod.placed for pod in answer.pods),
            "preempting": sum(pod.result is Result.PREEMPTING for pod in answer.pods),
            "notPlaced": sum(not pod.placed for pod in answer.pods),
            "evictions": len(answer.evictions),
        },
        "pods": [_pod(pod) for pod in answer.pods],
        "reasons": [{"reasons": list(reasons), "pods": len(pods)} for reasons, pods in answer.reasons.items()],
        "evictions": [
            {"pod": str(one.pod), "node": one.node, "preemptor": str(one.preemptor)} for one in answer.evictions
        ],
        "before": use_values(answer.before),
        "after": use_values(answer.after),
        "notes": list(answer.notes),
    }


def capacity_values(found: Capacity, revision: int | None) -> dict[str, Any]:
    """`revision` as for a simulation."""
    return {
        "revision": revision,
        "pod": str(found.pod),
        "fits": found.fits,
        "limited": found.limited,
        "nodes": dict(found.nodes),
        "message": found.message,
        "refusals": {plugin: dict(reasons) for plugin, reasons in found.refusals.items()},
        "before": use_values(found.before),
        "after": use_values(found.after),
        "notes": list(found.notes),
    }


def use_values(of: Use) -> dict[str, Any]:
    """Nodes, and per resource what is requested, what is offered, and the per cent."""
    return {
        "nodes": of.nodes,
        "resources": {
            name: {"requested": amount.requested, "allocatable": amount.allocatable, "percent": amount.percent}
            for name, amount in of.resources.items()
        },
    }


def _pod(outcome: PodOutcome) -> dict[str, Any]:
    return {
        "pod": str(outcome.pod),
        "cause": outcome.cause.value,
        "workload": outcome.workload or None,
        "from": outcome.left or None,
        "result": outcome.result.value,
        "node": outcome.node,
        "nominatedNode": outcome.nominated_node,
        "victims": [str(victim) for victim in outcome.victims],
        "message": outcome.message,
        "refusals": {plugin: dict(reasons) for plugin, reasons in outcome.refusals.items()},
        **({"leansOn": list(outcome.leans_on)} if outcome.leans_on else {}),
    }

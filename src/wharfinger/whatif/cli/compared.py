"""The answer of `simulate --compare`, as text for people and as plain values."""

from __future__ import annotations

from typing import Any

import typer

from wharfinger.cli.output import Columns, plain
from wharfinger.whatif.cli.simulated import LISTED, lacking
from wharfinger.whatif.comparison import ComparedPod, Comparison, NodeVerdict, differences

_TITLES = {
    NodeVerdict.SAME: "on the node that would be chosen",
    NodeVerdict.TIED: "on another node of the same score",
    NodeVerdict.LOWER: "on a node of a lower score",
    NodeVerdict.REFUSED: "on a node that would be refused",
    NodeVerdict.NOWHERE: "that would not be placed at all",
    NodeVerdict.UNDECIDED: "that cannot be compared",
}


def tell(comparison: Comparison, revision: int | None, *, every: bool = False) -> str:
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
    notes = "\n".join(plain(f"Note: {note}.") for note in comparison.notes)
    return "\n\n".join(filter(None, (head, summary, refused, "\n".join(filter(None, (table, more))), notes)))


def values(comparison: Comparison, revision: int | None) -> dict[str, Any]:
    """For JSON and YAML; documented in docs/json-outputs.md. `revision`: of the live state, None without one."""
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
    return "; ".join(filter(None, (_reason(one), lacking(one.leans_on))))


def _reason(one: ComparedPod) -> str:
    if one.message:
        return one.message
    if one.refusals:
        return "; ".join(f"{plugin}: {', '.join(reasons)}" for plugin, reasons in one.refusals.items())
    if one.chosen_score is not None and one.score is not None:
        return f"score {one.score}, not {one.chosen_score}" if one.score < one.chosen_score else f"score {one.score}"
    return ""

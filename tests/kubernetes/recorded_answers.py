"""What a scheduler decided on a Kubernetes API, beside what was recorded: where they are equal, and a table of all.

::

    node         one of the best nodes that were recorded; after preemption, the recorded one; none where none was
    condition    PodScheduled: status, reason, message
    nomination   status.nominatedNodeName beside the first refusal
    victims      the pods with the condition DisruptionTarget that were deleted, as a set
    events       reason, action, type and note of every event about the pod and its victims

Messages are compared as `tests/conformance/data/README.md` says. The message of a pod that then preempted was not
recorded; its event must have the text of its condition. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.conformance.scenarios import best, parts

Expected = Mapping[str, Any]
ASPECTS = ("node", "condition", "nomination", "victims", "events")
ENOUGH = 0.999
"""Share of decisions that must be equal in every aspect."""
FAILED = "FailedScheduling"
"""Reason of the event of a refusal."""


class SeenCondition(NamedTuple):
    """PodScheduled."""

    status: str
    reason: str = ""
    message: str = ""


class SeenEvent(NamedTuple):
    """Of an event, what both schedulers must have in common."""

    about: str
    """Recorded name of the pod."""
    reason: str
    action: str
    type: str
    note: str


@dataclass(frozen=True)
class Answer:
    """What the API showed of one decision."""

    where: str
    """`<family>-<seed> <pod>`."""
    pod: str
    """`<namespace>/<name>`, as in events."""
    uid: str
    node: str = ""
    """Empty = it was not bound."""
    refused: SeenCondition | None = None
    """The condition of the first refusal."""
    bound: SeenCondition | None = None
    """The condition when it was bound."""
    nominated: str = ""
    victims: tuple[str, ...] = ()
    """Recorded names, sorted."""
    events: tuple[SeenEvent, ...] = ()


class Difference(NamedTuple):
    """One aspect of one decision that is not as recorded."""

    where: str
    aspect: str
    recorded: str
    seen: str

    def __str__(self) -> str:
        return f"{self.where}: {self.aspect}: recorded {self.recorded}, seen {self.seen}"


class NotReplayed(NamedTuple):
    """A decision that cannot be asked for on a real API server."""

    where: str
    reason: str


def differences(answer: Answer, expected: Expected, allowed: Sequence[str] | None = None) -> list[Difference]:
    """Every aspect that is not as recorded. `allowed`: the best nodes, where the recording has no scores."""
    compared = {
        "node": _node(answer, expected, best(dict(expected)) if allowed is None and "node" in expected else allowed),
        "condition": _condition(answer, expected),
        "nomination": (expected.get("nominated", ""), answer.nominated),
        "victims": (sorted(expected.get("victims", ())), sorted(answer.victims)),
        "events": _events(answer, expected),
    }
    return [
        Difference(answer.where, aspect, repr(recorded), repr(seen))
        for aspect, (recorded, seen) in compared.items()
        if recorded != seen
    ]


def _node(answer: Answer, expected: Expected, allowed: Sequence[str] | None) -> tuple[object, object]:
    if "nominated" in expected or "node" not in expected:
        return expected.get("node", ""), answer.node
    assert allowed is not None
    return (answer.node if answer.node in allowed else sorted(allowed)), answer.node


def _condition(answer: Answer, expected: Expected) -> tuple[object, object]:
    """Of a pod that preempted: refused first, with a text that was not recorded, and bound then."""
    bound = SeenCondition("True") if "node" in expected else None
    if "nominated" in expected:
        first = answer.refused and answer.refused[:2]
        return (("False", "Unschedulable"), bound), (first, answer.bound)
    if "gated" in expected:
        return (("False", "SchedulingGated"), None), (answer.refused and answer.refused[:2], answer.bound)
    if "message" in expected:
        refused = answer.refused and (*answer.refused[:2], parts(answer.refused.message))
        return (("False", "Unschedulable", parts(expected["message"])), None), (refused, answer.bound)
    return (None, bound), (answer.refused, answer.bound)


def _events(answer: Answer, expected: Expected) -> tuple[object, object]:
    """As sets: a series is one event. A preemptor may be tried while only some victims have left; that says nothing."""
    name = expected["pod"]
    wanted = set()
    if "node" in expected:
        wanted.add(scheduled(name, answer.pod, answer.node))
    if "message" in expected:
        wanted.add(_read(failed(name, expected["message"])))
    if "nominated" in expected:
        wanted.add(_read(failed(name, answer.refused.message if answer.refused else "")))
        note = f"Preempted by pod {answer.uid} on node {expected['nominated']}"
        wanted |= {SeenEvent(victim, "Preempted", "Preempting", "Normal", note) for victim in expected["victims"]}
    seen = {_read(event) for event in answer.events}
    if "nominated" in expected:
        seen -= {one for one in seen - wanted if (one.about, one.reason) == (name, FAILED)}
    return wanted, seen


def scheduled(name: str, pod: str, node: str) -> SeenEvent:
    """The event of a bind."""
    return SeenEvent(name, "Scheduled", "Binding", "Normal", f"Successfully assigned {pod} to {node}")


def failed(name: str, message: str) -> SeenEvent:
    """The event of a refusal."""
    return SeenEvent(name, FAILED, "Scheduling", "Warning", message)


def _read(event: SeenEvent) -> SeenEvent:
    """With the text as it is compared."""
    return event._replace(note=" | ".join(parts(event.note))) if event.reason == FAILED else event


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """One family, or all of them."""

    name: str
    decisions: int
    equal: Mapping[str, int]
    """By aspect."""
    whole: int
    """Decisions that are equal in every aspect."""
    apart: int
    """Decisions that could not be asked for; they are not among `decisions`."""

    @property
    def share(self) -> float:
        """Of the decisions, those that are equal in every aspect."""
        return self.whole / self.decisions if self.decisions else 0.0


def tally(name: str, judged: Iterable[Sequence[Difference]], apart: int = 0) -> Tally:
    """Count the decisions of a family, each given by its differences."""
    found = [{difference.aspect for difference in one} for one in judged]
    equal = {aspect: sum(aspect not in aspects for aspects in found) for aspect in ASPECTS}
    return Tally(name, len(found), equal, sum(not aspects for aspects in found), apart)


def total(tallies: Sequence[Tally]) -> Tally:
    """All families together."""
    equal = {aspect: sum(one.equal[aspect] for one in tallies) for aspect in ASPECTS}
    counts = (
        sum(one.decisions for one in tallies),
        sum(one.whole for one in tallies),
        sum(one.apart for one in tallies),
    )
    return Tally("all", counts[0], equal, counts[1], counts[2])


def table(tallies: Sequence[Tally]) -> str:
    """A line for each family, and one for all."""
    lines: list[tuple[str, ...]] = [("file", "decisions", *ASPECTS, "all equal", "share", "apart")]
    for one in (*tallies, total(tallies)):
        counts = (one.decisions, *(one.equal[aspect] for aspect in ASPECTS), one.whole)
        lines.append((one.name, *map(str, counts), f"{100 * one.share:.2f} %", str(one.apart)))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(row))
        for row in (list(zip(line, widths, strict=True)) for line in lines)
    )


def same_refusals(ours: Sequence[Answer], theirs: Sequence[Answer]) -> tuple[int, int]:
    """Of two schedulers: how many refusals of both have one text, and how many there are.

    That of a pod which then preempted was not recorded, so only this compares it.
    """
    texts = [{one.where: parts(one.refused.message) for one in side if one.refused} for side in (ours, theirs)]
    both = texts[0].keys() & texts[1].keys()
    return sum(texts[0][where] == texts[1][where] for where in both), len(both)

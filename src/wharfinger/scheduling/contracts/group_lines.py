"""What people read of a group in the Temporal UI: a title, a line for each step, and a line for each pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wharfinger.objects.model.texts import listed, within
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, PlacedMany, Seat, Unbound

LINE = 300
"""Bytes of a title, or of a step's line. The server takes 400 of a summary as JSON."""
REASON = 160
"""Bytes of why pods wait, within a line."""
DETAILS = 16_000
"""Bytes of the lines for the pods of a run."""


def title(pods: Iterable[tuple[str, str]]) -> str:
    """The pods (namespace, name), as many as there is room for."""
    return listed([f"{namespace}/{name}" for namespace, name in pods], LINE)


def seats_line(placed: PlacedMany) -> str:
    """Which pods go where: `default/web-1 → n1, default/web-2 → n2 and 3 more`."""
    return listed([f"{_pod(seat)} → {seat.node}" for seat in placed.seats], LINE)


def waiting_line(placed: PlacedMany) -> str:
    """Which pods wait, and why: `default/big: 0/3 nodes are available: 3 Insufficient cpu.`"""
    waiting: dict[int, list[str]] = {}
    for one in placed.turned_away:
        waiting.setdefault(one.reasons, []).append(f"{one.namespace}/{one.name}")
    why = {number: within(placed.reasons[number].message, REASON) for number in waiting}
    return within("; ".join(f"{listed(pods, LINE // 2)}: {why[number]}" for number, pods in waiting.items()), LINE)


def details(placed: PlacedMany, bound: BoundMany) -> str:
    """What became of each pod, in Markdown: a line each."""
    told: list[str] = []
    left = DETAILS
    lines = list(_lines(placed, bound))
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            told.append(f"- and {len(lines) - len(told)} more")
            break
        told.append(line)
    return "\n".join(told)


def _lines(placed: PlacedMany, bound: BoundMany) -> Iterator[str]:
    nodes = {(one.namespace, one.name): one for one in bound.bound}
    lost = {(one.namespace, one.name): one for one in bound.unbound}
    for seat in placed.seats:
        key = seat.namespace, seat.name
        if key in nodes:
            notes = f"; {'; '.join(nodes[key].notes)}" if nodes[key].notes else ""
            yield f"- {_pod(seat)} → {nodes[key].node}{_among(seat)}{notes}"
        else:
            yield f"- {_pod(seat)}: {_lost(lost[key]) if key in lost else 'not bound'} (was to go to {seat.node})"
    for one in placed.turned_away:
        room = f"; room is made on {one.nominated_node}" if one.victims else ""
        yield f"- {one.namespace}/{one.name} waits: {placed.reasons[one.reasons].message}{room}"
    for skipped in placed.skipped:
        yield f"- {skipped.namespace}/{skipped.name}: not decided, {skipped.reason}"


def _among(seat: Seat) -> str:
    score = f", score {seat.score}" if seat.score is not None else ""
    return f" (one of {seat.feasible} that fit{score})" if seat.feasible > 1 else " (the only node that fits)"


def _lost(one: Unbound) -> str:
    plugin = f" by {one.plugin}" if one.plugin else ""
    return f"{one.kind}{plugin}, {one.message}" if one.message else f"{one.kind}{plugin}"


def _pod(seat: Seat) -> str:
    return f"{seat.namespace}/{seat.name}"

"""A decision made again as text for people: what every plugin said of every node."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from wharfinger.cli.output import Columns, plain
from wharfinger.scheduling.reading.comparing import DecisionSaid, in_words
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.scheduling.reading.recomputation import NodeVerdicts, Recomputation


def tell(attempt: Attempt, found: Recomputation) -> str:
    """The whole, without the last line's end."""
    parts = ["\n".join(_headline(attempt, found)), _filters(found), _scores(found)]
    return "\n\n".join(part for part in parts if part)


def _headline(attempt: Attempt, found: Recomputation) -> Iterator[str]:
    computation = found.computation
    yield typer.style(f"pod {found.pod}, attempt {attempt.attempt}: decided again", bold=True)
    yield (
        f"On {len(found.nodes):,} nodes of revision {computation.revision}, by profile {computation.profile_name} "
        f"({computation.profile[:12]})"
    )
    overlay = [f"{one.pod} on {one.node}" for one in computation.assumed]
    if overlay:
        yield plain(f"Counted already, before etcd said so: {', '.join(overlay)}")
    own = computation.own_nodes
    if own is not None:
        points = f"{own.margin} point{'' if own.margin == 1 else 's'}"
        yield plain(f"Up to {points} below the best, nodes that were the worker's own went first: {own.me}")
    nominated = [f"{one.pod} to {one.node}" for one in computation.nominated]
    if nominated:
        yield plain(f"Nominated were: {', '.join(nominated)}")
    yield from _comparison(found)
    for note in found.notes:
        yield plain(f"Note: {note}.")


def _comparison(found: Recomputation) -> Iterator[str]:
    if found.same and found.recomputed is not None:  # the record may name fewer victims
        yield f"The same decision as recorded: {_decision(found.recomputed)}"
        return
    told = "Not the decision that is recorded:" if found.same is False else "It cannot be told whether it is the same:"
    yield typer.style(told, fg=typer.colors.YELLOW)
    for lack in found.lacks:
        yield plain(f"  {lack}. `wharfinger replay` goes through the worker's earlier decisions and may know more.")
    yield f"  recorded: {_decision(found.recorded)}"
    yield f"  now:      {_decision(found.recomputed) if found.recomputed is not None else 'not decided'}"
    if found.differs:
        yield plain(f"  differs:  {in_words(found.differs)}")


def _decision(said: DecisionSaid) -> str:
    if said.node:
        return plain(said.node) + ("" if said.total is None else f", score {said.total}")
    text = f"refused. {said.message}"
    if said.nominated_node:
        text += f" Nominated to {said.nominated_node}, evicting {', '.join(said.victims)}"
    return plain(text)


def _filters(found: Recomputation) -> str:
    if not found.filters or found.refused_by:
        return ""
    lines = [f"Filters: {', '.join(found.filters)}"]
    if found.skipped:
        lines.append(f"Nothing to look at for this pod: {', '.join(found.skipped)}")
    rows = [(one.node, _verdict(one), plain(_refusals(one))) for one in found.nodes]
    lines.append(Columns("NODE", "VERDICT", "REFUSED BY (all others let it pass)").render(rows))
    return "\n".join(lines)


def _verdict(one: NodeVerdicts) -> str:
    if one.feasible:
        return "fits"
    return "refused" if one.examined else "not looked at"


def _refusals(one: NodeVerdicts) -> str:
    return "; ".join(f"{plugin}: {', '.join(reasons)}" for plugin, reasons in one.refusals.items())


def _scores(found: Recomputation) -> str:
    scored = sorted(
        (one for one in found.nodes if one.total is not None), key=lambda one: (-(one.total or 0), one.node)
    )
    if not scored:
        only = sum(one.feasible for one in found.nodes) == 1
        return "Scores: none, as only one node fits." if only else ""
    rows = [
        (one.node, str(one.total), *(str(one.scores.get(plugin, "-")) for plugin in found.scorers)) for one in scored
    ]
    return Columns("NODE", "SCORE", *found.scorers).render(rows)

"""Explanations as text: the pod's story, attempt by attempt; and of a decision made again, what every plugin said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from wharfinger.cli.output import Columns, plain
from wharfinger.scheduling.cli.rows import preemption
from wharfinger.scheduling.reading.explanation import PROMISED, Explanation
from wharfinger.scheduling.reading.history import Attempt, Step

if TYPE_CHECKING:  # both import the engine, which only `explain --nodes` needs
    from wharfinger.scheduling.reading.comparing import DecisionSaid
    from wharfinger.scheduling.reading.recomputation import NodeVerdicts, Recomputation

_INDENT = "  "
_NOTHING_TO_PLACE = {
    "deleted": "The pod was gone",
    "finished": "The pod had ended already",
    "terminating": "The pod was about to end",
    "not-ours": "The pod was for other schedulers",
    "replaced": "The pod was gone, and another one had its name",
    "other-scheduler": "The pod was for another scheduler",
    "other-pool": "The pod was for the instances of another tenant, or the common ones",
    "unreadable": "The stored object could not be read",
}
"""By the cause that workers record; by its reason where it has none of its own here, or an older worker recorded it."""
_COLOURS = {"bound": typer.colors.GREEN, "refused": typer.colors.YELLOW, "waiting": typer.colors.YELLOW}
_STEP_NAMES = {
    "ask_extenders": "extenders asked",
    "call_plugin": "plugin called",
    "record_refusal": "recorded",
    "record_many": "recorded",
    "bind_many": "bind",
    "evict": "evicted",
}


def tell(explanation: Explanation) -> str:
    """The whole story, without the last line's end."""
    parts = ["\n".join(_headline(explanation))]
    chain, last = "", 0
    for attempt in explanation.attempts:
        lines = list(_attempt(attempt))
        if attempt.workflow_id != chain:  # another life of the name, or started under another id
            chain = attempt.workflow_id
            lines.insert(0, f"Workflow {chain}")
        elif attempt.attempt <= last and not _found_it_bound(attempt):
            lines.insert(0, f"Workflow {chain}, started anew")
        last = last if _found_it_bound(attempt) else attempt.attempt
        parts.append("\n".join(lines))
    if not explanation.attempts:
        parts.append("No attempt is recorded.")
    if explanation.query:
        parts.append(f"In the Temporal UI: {plain(explanation.query)}")
    return "\n\n".join(parts)


def _headline(explanation: Explanation) -> Iterator[str]:
    where = f" to {plain(explanation.node)}" if explanation.node and explanation.state in ("bound", PROMISED) else ""
    yield typer.style(f"pod {explanation.pod} is {explanation.state}{where}", bold=True)
    if explanation.record is not None and explanation.state == "pending":
        record = explanation.record
        yield f"Waits since attempt {record.attempt} ({record.time}): {plain(record.message)}"
        if record.plugins:
            yield f"An event that may help {plain(' or '.join(record.plugins))} wakes it."
        if record.nominated_node:
            yield f"It {plain(preemption(record.nominated_node, record.victims))}."
    for sentence in explanation.kubernetes.sentences() if explanation.kubernetes is not None else ():
        yield f"{plain(sentence)}."
    if explanation.left is not None:
        yield f"{plain(explanation.left.sentence())}."
    elif explanation.left_unknown:
        yield f"Not known to have been preempted: {plain(explanation.left_unknown)}."
    if explanation.calling:
        yield f"Bound once its plugin agrees: {plain(explanation.calling)}."
    if explanation.held:
        yield f"Not tried now: {plain(explanation.held)}."
    for problem in explanation.doubts:
        yield f"Note: an API server of Kubernetes 1.36 would refuse the pod: {plain(problem)}"
    for sentence in explanation.missing:
        yield f"Not shown: {plain(sentence)}."


def _attempt(attempt: Attempt) -> Iterator[str]:
    outcome = typer.style(attempt.outcome, fg=_COLOURS.get(attempt.outcome), bold=True)
    took = f", took {_seconds((attempt.ended - attempt.started).total_seconds())}" if attempt.ended else ""
    if _found_it_bound(attempt):  # such as a run that was started by hand; its number is that of a chain of its own
        found = typer.style("bound already", fg=_COLOURS["bound"], bold=True)
        yield f"No new attempt: {found}   {_clock(attempt.started)}{took}"
    else:
        yield f"Attempt {attempt.attempt}: {outcome}   {_clock(attempt.started)}{took}"
    yield plain(f"{_INDENT}{attempt.cause[:1].upper()}{attempt.cause[1:]}.")
    yield from _decision(attempt)
    for note in attempt.notes:
        yield plain(f"{_INDENT}On the way: {note}.")
    if attempt.steps:
        yield f"{_INDENT}Steps: " + " → ".join(_step(step) for step in attempt.steps)
    yield f"{_INDENT}Run {attempt.run_id}"


def _decision(attempt: Attempt) -> Iterator[str]:
    computation = attempt.computation
    if attempt.message:
        yield _INDENT + plain(attempt.message)
    elif (nothing := _nothing_to_place(attempt)) is not None:
        yield f"{_INDENT}{plain(nothing)}."
    elif attempt.node:
        yield f"{_INDENT}{plain(attempt.node)}, {_among(attempt)}."
        if attempt.passed_over:
            yield _INDENT + plain(_before(attempt))
        for plugin, data in attempt.plugin_data.items():
            yield f"{_INDENT}{plain(plugin)}: {plain(_recorded(data))}."
    if attempt.nominated_node:
        yield f"{_INDENT}The pod {plain(preemption(attempt.nominated_node, attempt.victims, attempt.victim_count))}."
    if computation:
        took, worker = _seconds(computation.get("micros", 0) / 1e6), computation.get("worker") or "a worker"
        yield (
            f"{_INDENT}{_nodes(computation.get('nodes', 0))} at revision {computation.get('revision', 0)}, "
            f"decided in {took}{_together(attempt)} by {worker}{_configured(computation)}"
        )
    yield from _table(_refusals(attempt))
    yield from _table(_ranking(attempt))


def _found_it_bound(attempt: Attempt) -> bool:
    """Whether the run decided nothing, as it found the pod bound."""
    return attempt.outcome == "gone" and attempt.placement.get("kind") == "gone" and _reason(attempt) == "bound"


def _reason(attempt: Attempt) -> str:
    return str(attempt.placement.get("reason", ""))


def _nothing_to_place(attempt: Attempt) -> str | None:
    """Why nothing was decided; None when something was."""
    if attempt.placement.get("kind") != "gone":
        return None
    reason = _reason(attempt)
    if reason == "bound":
        return f"It was bound already, to {attempt.placement.get('node') or 'a node'}"
    cause = str(attempt.placement.get("cause", ""))
    return _NOTHING_TO_PLACE.get(cause) or _NOTHING_TO_PLACE.get(
        reason, reason or "There was nothing to place any more"
    )


def _configured(computation: Mapping[str, Any]) -> str:
    """By which configuration: `profiles/<hash>` in etcd is its content."""
    digest = str(computation.get("profile") or "")
    return f", profile {plain(str(computation.get('profile_name') or ''))} ({plain(digest[:12])})" if digest else ""


def _together(attempt: Attempt) -> str:
    """For how many pods that time was: those that a cohort decided on one snapshot, or a gang's."""
    many = attempt.many
    if many is None:
        return ""
    number = attempt.computation.get("number", 0)
    alike = {index for index, one in enumerate(many.stretches) if one.computation.number == number}
    pods = sum(one.stretch in alike for one in many.decided)
    return f" for {pods:,} pods" if pods > 1 else ""


def _among(attempt: Attempt) -> str:
    """What the chosen node was chosen from."""
    fitting, nodes = attempt.computation.get("feasible", 0), attempt.computation.get("nodes", 0)
    if fitting > 1:
        return f"one of {fitting:,} that fit"
    if nodes > 1 and not attempt.refusals:  # it is nominated, or the pod names it
        return f"the only one of {nodes:,} nodes that was looked at"
    return "the only node that fits"


def _before(attempt: Attempt) -> str:
    """Which node the worker's own one was chosen before."""
    other = attempt.passed_over
    points = other["total"] - attempt.placement["score"]
    better = f"{points} point{'' if points == 1 else 's'} better" if points else "as good"
    return f"{attempt.placement['node']} was chosen before {other['node']}, {better}: it is this worker's own."


def _recorded(data: Any) -> str:
    """What a plugin recorded: `cards 4-5` for `{"cards": "4-5"}`; as JSON what is no mapping of words."""
    if not isinstance(data, Mapping):
        return data if isinstance(data, str) else json.dumps(data)
    return ", ".join(f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in data.items())


def _refusals(attempt: Attempt) -> list[list[str]]:
    rows = [
        [plugin, str(count), reason]
        for plugin, reasons in attempt.refusals.items()
        for reason, count in sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    ]
    return [["REFUSED BY", "NODES", "REASON"], *rows] if rows else []


def _ranking(attempt: Attempt) -> list[list[str]]:
    ranking = attempt.ranking
    if not ranking:
        return []
    plugins = list(ranking[0].get("plugins", {}))
    rows = [
        [one["node"], str(one["total"]), *(str(one.get("plugins", {}).get(plugin, "")) for plugin in plugins)]
        for one in ranking
    ]
    return [["NODE", "SCORE", *plugins], *rows]


def _table(rows: list[list[str]]) -> Iterator[str]:
    if rows:
        for line in Columns(*rows[0]).render(rows[1:]).splitlines():
            yield _INDENT * 2 + line


def _step(step: Step) -> str:
    name = _STEP_NAMES.get(step.name, step.name)
    if step.seconds is None:
        return f"{name} since {_clock(step.started)}" + (f" ({plain(step.detail)})" if step.detail else "")
    tries = f" in {step.tries} tries" if step.tries > 1 else ""
    detail = f" ({plain(step.detail)})" if step.detail.startswith("failed") else ""
    return f"{name} {_seconds(step.seconds)}{tries}{detail}"


def _nodes(count: int) -> str:
    return f"{count:,} node" + ("" if count == 1 else "s")


def _clock(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}Z"


def _seconds(seconds: float) -> str:
    """A duration with two or three telling digits."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def tell_verdicts(attempt: Attempt, found: Recomputation) -> str:
    """The whole, without the last line's end."""
    parts = ["\n".join(_verdict_headline(attempt, found)), _filters(found), _scores(found)]
    return "\n\n".join(part for part in parts if part)


def _verdict_headline(attempt: Attempt, found: Recomputation) -> Iterator[str]:
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
    from wharfinger.scheduling.reading.comparing import in_words

    if found.same and found.recomputed is not None:  # the record may name fewer victims
        yield f"The same decision as recorded: {_verdict_decision(found.recomputed)}"
        return
    told = "Not the decision that is recorded:" if found.same is False else "It cannot be told whether it is the same:"
    yield typer.style(told, fg=typer.colors.YELLOW)
    for lack in found.lacks:
        yield plain(f"  {lack}. `wharfinger replay` goes through the worker's earlier decisions and may know more.")
    yield f"  recorded: {_verdict_decision(found.recorded)}"
    yield f"  now:      {_verdict_decision(found.recomputed) if found.recomputed is not None else 'not decided'}"
    if found.differs:
        yield plain(f"  differs:  {in_words(found.differs)}")


def _verdict_decision(said: DecisionSaid) -> str:
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
    rows = [(one.node, _verdict(one), plain(_node_refusals(one))) for one in found.nodes]
    lines.append(Columns("NODE", "VERDICT", "REFUSED BY (all others let it pass)").render(rows))
    return "\n".join(lines)


def _verdict(one: NodeVerdicts) -> str:
    if one.feasible:
        return "fits"
    return "refused" if one.examined else "not looked at"


def _node_refusals(one: NodeVerdicts) -> str:
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

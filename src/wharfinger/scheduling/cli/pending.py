"""`wharfinger pending`: the pods that wait, grouped by why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.cli.output import Output, OutputOption, plain, show
from wharfinger.objects.documents.times import duration, seconds_since
from wharfinger.objects.model.conditions import SCHEDULING_GATED
from wharfinger.objects.model.gang import GangKey, gang_key
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.process.records import AttemptRecord
from wharfinger.process.stored_objects import Stored, doubts
from wharfinger.scheduling.cli import rows
from wharfinger.scheduling.reading.held_back import Unserved, gates, held_of, unserved
from wharfinger.scheduling.reading.pods_and_nodes import every_pod, held_rooms, lost_pods, record_of

CHECKED = 1000
"""Pods of which is asked whether an API server would refuse them."""
EXAMPLES = 3
"""Names shown of each group."""
NOT_TRIED = "NotTried"
NOT_SERVED = "NotServed"
NODE_LOST = "NodeLost"
CALLING_PLUGINS = "CallingPlugins"
NONE_HELD: Mapping[PodKey, str] = {}
ALL_SERVED: Mapping[PodKey, Unserved] = {}
NO_ROOMS: Mapping[PodKey, HeldPlace] = {}


@dataclass(slots=True)
class PodsByReason:
    """Pods that wait for the same reason."""

    reason: str
    message: str
    pods: list[Pod] = field(default_factory=list)
    preemptions: list[str] = field(default_factory=list)
    """Sentences about those for which room is being made."""

    def oldest(self, now: datetime) -> float | None:
        """Seconds since the first of them was created; None when none has a time."""
        ages = [seconds_since(pod.creation_timestamp, now) for pod in self.pods]
        return max((age for age in ages if age is not None), default=None)


@configured
async def pending(
    *,
    namespace: Annotated[str, namespace_option("Only this namespace.", "all")] = "",
    lost: Annotated[
        bool, typer.Option("--lost", help="Instead, the pods that are bound to a node that does not exist.")
    ] = False,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the pods that wait for a node, grouped by reason."""
    groups, notes = await (_lost_groups if lost else _groups)(connection, namespace)
    now = datetime.now(UTC)
    if output is not Output.TABLE:
        show([_mapping(entry, now) for entry in groups], output)
    elif groups:
        typer.echo("\n".join(_text(entry, now) for entry in groups))
    else:
        where = f" in namespace {plain(namespace)}" if namespace else ""
        waits = "is bound to a node that does not exist" if lost else "waits for a node"
        typer.echo(f"no pod{where} {waits}", err=True)
    for note in notes:
        typer.echo(plain(f"note: {note}"), err=True)


async def _groups(connection: ConnectionOptions, namespace: str) -> tuple[list[PodsByReason], list[str]]:
    """The groups of pending pods, and notes on pods that cannot be read or that an API server would refuse."""
    async with connection.store() as store:
        _, found = await every_pod(store, namespace)
        nominated = [entry for entry in found if entry.pod is not None and entry.pod.nominated_node_name]
        read = {(entry.namespace, entry.name): await record_of(store, entry) for entry in nominated}
        pods = [entry.pod for entry in found if entry.pod is not None]
        held = await held_of(store, pods, namespace)
        reasons = await unserved(store, [pod for pod in pods if pod.pending])
        rooms = await held_rooms(store, namespace)
    records = {PodKey(*key): record for key, record in read.items() if record is not None}
    unread = len(found) - len(pods)
    some = "1 pod" if unread == 1 else f"{unread} pods"
    notes = [f"{some} cannot be read: see `wharfinger get pods --invalid`"] if unread else []
    return group(pods, records, held, reasons, rooms), notes + doubtful(found)


def doubtful(found: Iterable[Stored]) -> list[str]:
    """A note on the waiting pods that an API server would refuse: they are decided as they are stored."""
    waiting = islice((entry for entry in found if entry.pod is not None and entry.pod.pending), CHECKED)
    problems = {f"{entry.namespace}/{entry.name}": wrong for entry in waiting if (wrong := doubts(entry))}
    if not problems:
        return []
    name, wrong = next(iter(problems.items()))
    some = "1 pod" if len(problems) == 1 else f"{len(problems)} pods"
    return [f"an API server of Kubernetes 1.36 would refuse {some}, such as {name}: {wrong[0]}"]


async def _lost_groups(connection: ConnectionOptions, namespace: str) -> tuple[list[PodsByReason], list[str]]:
    """The groups of lost pods; pods that cannot be read are not looked for."""
    async with connection.store() as store:
        lost = await lost_pods(store, namespace)
    found = ((NODE_LOST, f"node {node} does not exist", pods) for node, pods in lost.items())
    return sorted((PodsByReason(*entry) for entry in found), key=lambda entry: (-len(entry.pods), entry.message)), []


def group(
    pods: Iterable[Pod],
    records: Mapping[PodKey, AttemptRecord],
    held: Mapping[PodKey, str] = NONE_HELD,
    unserved: Mapping[PodKey, Unserved] = ALL_SERVED,
    rooms: Mapping[PodKey, HeldPlace] = NO_ROOMS,
) -> list[PodsByReason]:
    """The pending ones of these pods by reason and message, the largest group first.

    `held`: what members of gangs wait for, that are held back for the others. `unserved`: why no instance takes a pod;
    an unserved scheduler name is the reason of any pod, an absent worker only of pods that were not tried yet.
    `rooms`: those that are held while plugins are called.
    """
    groups: dict[tuple[str, str], PodsByReason] = {}
    pods = list(pods)
    refused = _refused_gangs(pods)
    for pod in pods:
        if pod.pending:
            why = _why(pod, held.get(pod.key, ""), rooms.get(pod.key))
            reason = unserved.get(pod.key)
            if reason is not None and reason.by_name:
                why = NOT_SERVED, _with_condition(reason.sentence, pod)
            elif why[0] == NOT_TRIED:
                why = refused.get(gang_key(pod), (NOT_TRIED, reason.sentence) if reason is not None else why)
            entry = groups.setdefault(why, PodsByReason(*why))
            entry.pods.append(pod)
            if pod.nominated_node_name:
                record = records.get(pod.key)
                victims = record.victims if record is not None else ()
                entry.preemptions.append(f"{pod.key}: {rows.preemption(pod.nominated_node_name, victims)}")
    return sorted(groups.values(), key=lambda entry: (-len(entry.pods), entry.reason, entry.message))


def _refused_gangs(pods: Iterable[Pod]) -> dict[GangKey | None, tuple[str, str]]:
    """What the members of gangs wait for, all of them: of a very large gang not every one has it in its condition."""
    told: dict[GangKey | None, tuple[str, str]] = {}
    running: set[GangKey | None] = set()
    for pod in pods:
        if pod.group and pod.bound:
            running.add(gang_key(pod))  # what is left of it is placed one by one
        elif pod.group and pod.pending and not gates(pod) and _refused(pod):
            told[gang_key(pod)] = _why(pod, "", None)
    return {key: why for key, why in told.items() if key not in running}


def _with_condition(sentence: str, pod: Pod) -> str:
    """The sentence, and the refusal of the scheduler that tried the pod before."""
    if pod.condition is None or not _refused(pod):
        return sentence
    _, reason, message = pod.condition
    return f"{sentence} (PodScheduled=False, {reason}: {message})"


def _refused(pod: Pod) -> bool:
    return pod.condition is not None and pod.condition[0] != "True" and bool(pod.condition[1])


def _why(pod: Pod, held: str, room: HeldPlace | None) -> tuple[str, str]:
    """Reason and message: of the pod's gates, of its gang, of its room, of its condition, else that nothing has tried
    yet.
    """
    if pod.scheduling_gates or pod.class_missing:
        return SCHEDULING_GATED, gates(pod)
    if held:
        return SCHEDULING_GATED, held
    if room is not None and room.is_for(pod):  # a refusal is of an earlier attempt: one that refuses holds no room
        return CALLING_PLUGINS, f"{room.sentence()}: see `wharfinger explain pod NAMESPACE/NAME`"
    if pod.condition is not None and _refused(pod):
        return pod.condition[1], pod.condition[2]
    return NOT_TRIED, f"no attempt has ended yet (scheduler {pod.scheduler_name})"


def _text(entry: PodsByReason, now: datetime) -> str:
    age = entry.oldest(now)
    since = f", the oldest since {duration(age)}" if age is not None else ""
    names = ", ".join(str(pod.key) for pod in entry.pods[:EXAMPLES])
    more = len(entry.pods) - EXAMPLES
    return "\n".join(
        [
            f"{len(entry.pods)} {plain(entry.reason)}{since}",
            f"  {plain(entry.message)}",
            f"  {names}" + (f" and {more} more" if more > 0 else ""),
            *(f"  {sentence}" for sentence in entry.preemptions[:EXAMPLES]),
        ]
    )


def _mapping(entry: PodsByReason, now: datetime) -> dict[str, object]:
    age = entry.oldest(now)
    return {
        "reason": entry.reason,
        "message": entry.message,
        "count": len(entry.pods),
        "oldestSeconds": None if age is None else round(age, 3),
        "pods": [str(pod.key) for pod in entry.pods],
        "preemptions": entry.preemptions,
    }

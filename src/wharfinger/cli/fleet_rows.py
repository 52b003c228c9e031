"""Fleets and hosts as the rows of tables: pure functions from what etcd shows to texts.

Where the status, which the fleet's actor wrote, and the records of the instances themselves disagree, the records are
right: the actor may be behind, or away. Neighbours: `cli.fleet_sentences` says what is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from wharfinger.cli.fleet_pictures import Estate, Life, Picture
from wharfinger.cli.rows import age
from wharfinger.contracts.fleet_records import ExitRecord, HostRecord
from wharfinger.model.rollout import Condition, SlotStatus

FLEET_HEADINGS = ("TENANT", "WANTED", "READY", "UPDATED", "OUTDATED", "REVISION", "ROLLOUT", "AGE")
SLOT_HEADINGS = ("SLOT", "INCARNATION", "PHASE", "REVISION", "HOST", "CRASHES", "NOTE")
CONDITION_HEADINGS = ("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")
HISTORY_HEADINGS = ("REVISION", "OUTCOME", "AGE", "WHO", "WHY")
HOST_HEADINGS = ("NAME", "STATUS", "INSTANCES", "CAPACITY", "INSTALLS", "CONTROL", "AGE", "REASON")

NOTHING = "-"
AGENTS_OWN = "(own)"
"""The agent's own executable, which every host has."""
_DECIDING = ("Deleting", "SpecInvalid", "Paused", "CanaryWaiting", "PartitionComplete")
"""Conditions that say more of a rollout than its state does, the strongest first."""


def fleet_row(picture: Picture, now: datetime) -> tuple[str, ...]:
    """Cells under `FLEET_HEADINGS`."""
    ready = _wanted_ready(picture)
    return (
        picture.tenant,
        str(picture.replicas),
        str(len(ready)),
        str(updated(picture)),
        str(outdated(picture)),
        str(picture.target or NOTHING),
        rollout_word(picture),
        age(created(picture), now),
    )


def ready_count(picture: Picture) -> int:
    """How many of the wanted slots have an instance that serves."""
    return len(_wanted_ready(picture))


def updated(picture: Picture, wanted: Collection[int] = ()) -> int:
    """How many of the wanted slots serve on the wanted template; `wanted`: its numbers, where they are known better."""
    numbers = wanted or picture.wanted
    return sum(1 for revision in _wanted_ready(picture).values() if revision in numbers)


def outdated(picture: Picture) -> int:
    """How many incarnations that may live are of another template than the wanted one; none while none is wanted."""
    if not picture.target:
        return 0
    wanted = picture.wanted
    return sum(1 for grant in picture.grants.values() if grant.revision not in wanted)


def _wanted_ready(picture: Picture) -> dict[int, int]:
    return {slot: revision for slot, revision in picture.ready_slots.items() if slot < picture.replicas}


def rollout_word(picture: Picture) -> str:
    """One word about the rollout, as conditions are written: `Running`, `CanaryWaiting`, `Completed`, ..."""
    if picture.deleting:
        return "Deleting"
    if picture.status is None or not picture.observed:
        return "Pending"
    status = picture.status.status
    holding = {condition.type for condition in status.conditions if condition.status}
    for condition in _DECIDING:
        if condition in holding:
            return condition
    return NOTHING if status.rollout == "none" else status.rollout.capitalize()


def created(picture: Picture) -> str:
    """When the fleet was made, RFC 3339; empty when nobody wrote it."""
    metadata = picture.written.get("metadata")
    stamp = metadata.get("creationTimestamp") if isinstance(metadata, Mapping) else None
    if isinstance(stamp, str):
        return stamp
    return min((record.time for record in picture.revisions.values() if record.time), default="")


# --- slots ----------------------------------------------------------------------------------------


def slot_rows(picture: Picture) -> list[tuple[str, ...]]:
    """Cells under `SLOT_HEADINGS`: a row for every incarnation, and for every slot that has none but should."""
    told = _told(picture)
    wanted = range(picture.replicas)
    lives = picture.lives
    empty = [Life(slot, 0) for slot in {*wanted, *told} - {life.slot for life in lives} if slot in wanted]
    return [_slot_row(picture, life, told.get(life.slot)) for life in sorted([*lives, *empty])]


def _slot_row(picture: Picture, life: Life, told: SlotStatus | None) -> tuple[str, ...]:
    slot, grant, instance = picture.slots.get(life.slot), picture.grants.get(life), picture.instances.get(life)
    assigned = slot.revision if slot is not None else told.assigned if told is not None else 0
    revision = str(grant.revision) if grant is not None else instance.revision if instance is not None else ""
    host = grant.host if grant is not None else instance.host if instance is not None else ""
    return (
        str(life.slot),
        str(life.incarnation or NOTHING),
        phase(picture, life),
        revision or str(assigned or NOTHING),
        host or NOTHING,
        str(crashes(picture, life.slot)),
        _note(picture, life, told),
    )


def crashes(picture: Picture, slot: int) -> int:
    """Ends in a row of a slot's instances. What the actor says may be ahead of the record, or behind."""
    record, told = picture.slots.get(slot), _told(picture).get(slot)
    return max(record.crashes if record is not None else 0, told.crashes if told is not None else 0)


def phase(picture: Picture, life: Life) -> str:
    """What an incarnation is about, by its own records first."""
    grant, instance, exited = picture.grants.get(life), picture.instances.get(life), picture.exits.get(life)
    if not life.incarnation:
        return "empty"
    if exited is not None:
        return "ended" if exited.planned or exited.how == "drained" else "crashed"
    if grant is None:
        return "revoked"
    if instance is not None:
        return "draining" if grant.want == "drain" and instance.state != "withdrawn" else instance.state
    if grant.want == "drain":
        return "draining"
    return "granted" if told_phase(picture, life) in ("", "starting") else "unknown"


def told_phase(picture: Picture, life: Life) -> str:
    """What the status says of an incarnation; empty when it says nothing."""
    told = _told(picture).get(life.slot)
    phases = {number: found for number, found, _, _ in told.incarnations} if told is not None else {}
    return phases.get(life.incarnation, "")


def _told(picture: Picture) -> dict[int, SlotStatus]:
    return {told.slot: told for told in picture.status.status.slots} if picture.status is not None else {}


def _note(picture: Picture, life: Life, told: SlotStatus | None) -> str:
    """What stands in the way, in few words: the instance's own, else what the status says of its slot."""
    exited, instance = picture.exits.get(life), picture.instances.get(life)
    newest = max((found for found in picture.lives if found.slot == life.slot), default=life)
    parts = []
    if exited is not None:
        parts.append(exit_words(exited))
    elif instance is not None and instance.waiting_for and instance.state != "ready":
        parts.append(instance.waiting_for)
    better = exited is None and bool(parts)
    if told is not None and life == newest and not better and (told.ready or not picture.ready(life)):
        parts.append(told.note)
    parts += [f"{kind}: {problem}" for kind, problem in picture.problems(life).items()]
    if life.slot >= picture.replicas and life in picture.grants:
        parts.append("not wanted any more")
    return "; ".join(dict.fromkeys(part for part in parts if part))


def exit_words(exited: ExitRecord) -> str:
    """How an incarnation ended: `code 1 after 12 s`."""
    words = {
        "drained": "drained",
        "code": "ended with exit code",
        "signal": "ended by signal",
        "probe": "killed: /livez failed",
        "never-started": "never started",
    }[exited.how]
    detail = exited.detail.removeprefix("code ").removeprefix("signal ")
    if detail:
        words = f"{words} {detail}" if exited.how in ("code", "signal") else f"{words} ({detail})"
    return f"{words} after {exited.lived:.0f} s" if exited.lived else words


# --- conditions, history --------------------------------------------------------------------------


def condition_rows(picture: Picture, now: datetime) -> list[tuple[str, ...]]:
    """Cells under `CONDITION_HEADINGS`."""
    if picture.status is None:
        return []
    times = picture.status.condition_times

    def row(condition: Condition) -> tuple[str, ...]:
        since = times.get(condition.type, "")
        shown = age(since, now) if since else NOTHING
        return (condition.type, str(condition.status), condition.reason, shown, condition.message)

    return [row(condition) for condition in picture.status.status.conditions]


def outcome_word(picture: Picture, number: int) -> str:
    """How the rollout of a revision ended, or how it stands."""
    outcome = picture.outcomes.get(number)
    if outcome is not None:
        return outcome.outcome
    return "wanted" if number == picture.target else NOTHING


def history_rows(picture: Picture, now: datetime) -> list[tuple[str, ...]]:
    """Cells under `HISTORY_HEADINGS`, the oldest first."""
    rows: list[tuple[str, ...]] = []
    for number, record in sorted(picture.revisions.items()):
        outcome = picture.outcomes.get(number)
        ended = f"({outcome.why})" if outcome is not None and outcome.why else ""
        wanted = number == picture.target
        changed = f"(last change {picture.last_change})" if wanted and picture.last_change is not None else ""
        why = " ".join(part for part in (record.why, ended, changed) if part)
        marked = f"{number} *" if wanted else str(number)
        rows.append((marked, outcome_word(picture, number), age(record.time, now), record.who or NOTHING, why))
    return rows


# --- hosts ----------------------------------------------------------------------------------------


def host_rows(estate: Estate, now: datetime) -> list[tuple[str, ...]]:
    """Cells under `HOST_HEADINGS`: live agents, cordoned hosts, and hosts that grants name though no agent lives."""
    counts = instances_by_host(estate.fleets.values())
    names = sorted({*estate.hosts, *estate.cordons, *counts})
    return [_host_row(estate, name, counts.get(name, 0), now) for name in names]


def instances_by_host(fleets: Iterable[Picture]) -> dict[str, int]:
    """Grants on each host, of all fleets."""
    counts: dict[str, int] = {}
    for picture in fleets:
        for grant in picture.grants.values():
            counts[grant.host] = counts.get(grant.host, 0) + 1
    return counts


def _host_row(estate: Estate, name: str, instances: int, now: datetime) -> tuple[str, ...]:
    host, cordon = estate.hosts.get(name), estate.cordons.get(name)
    why = ""
    if cordon is not None:
        since = f"{age(cordon.time, now)} ago" if cordon.time else ""
        by = f"by {cordon.who}" if cordon.who else ""
        why = "; ".join(part for part in (cordon.why, " ".join(word for word in (by, since) if word)) if part)
    return (
        name,
        host_status(estate, name),
        str(instances),
        str(host.capacity) if host is not None and host.capacity else NOTHING,
        _installs(host),
        ("yes" if host.control else "no") if host is not None else NOTHING,
        age(host.time, now) if host is not None else NOTHING,
        why,
    )


def host_status(estate: Estate, name: str) -> str:
    """`Ready`, or `NoAgent`, with what the operator said."""
    words = "Ready" if name in estate.hosts else "NoAgent"
    cordon = estate.cordons.get(name)
    return f"{words},{'Draining' if cordon.action == 'drain' else 'Cordoned'}" if cordon is not None else words


def _installs(host: HostRecord | None) -> str:
    return ",".join(name or AGENTS_OWN for name in ("", *host.installs)) if host is not None else NOTHING

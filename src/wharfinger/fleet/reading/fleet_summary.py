"""What the records of a fleet say together: counts, phases and the words for them. Pure.

Where the status, which the fleet's actor wrote, and the records of the instances themselves disagree, the records are
right: the actor may be behind, or away. Neighbours: `fleet_status` says what is waited for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from wharfinger.fleet.model.fleet import Exit
from wharfinger.fleet.model.rollout import SlotStatus
from wharfinger.fleet.state.fleet_pictures import Estate, Picture, SlotIncarnation
from wharfinger.objects.documents.fields import part

NOTHING = "-"
_DECIDING = ("Deleting", "SpecInvalid", "Paused", "CanaryWaiting", "PartitionComplete")
"""Conditions that say more of a rollout than its state does, the strongest first."""


def ready_count(picture: Picture) -> int:
    """How many of the wanted slots have an instance that serves."""
    return len(wanted_ready(picture))


def updated(picture: Picture, wanted: Collection[int] = ()) -> int:
    """How many of the wanted slots serve on the wanted template; `wanted`: its numbers, where they are known better."""
    numbers = wanted or picture.wanted
    return sum(1 for revision in wanted_ready(picture).values() if revision in numbers)


def outdated(picture: Picture) -> int:
    """How many incarnations that may live are of another template than the wanted one; none while none is wanted."""
    if not picture.target:
        return 0
    wanted = picture.wanted
    return sum(1 for grant in picture.grants.values() if grant.revision not in wanted)


def wanted_ready(picture: Picture) -> dict[int, int]:
    """Revision of the ready instance of each wanted slot that has one."""
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
    """When the fleet was made, RFC 3339; empty when the object does not say."""
    stamp = part(picture.written, "metadata").get("creationTimestamp")
    if isinstance(stamp, str):
        return stamp
    return min((record.time for record in picture.revisions.values() if record.time), default="")


def crashes(picture: Picture, slot: int) -> int:
    """Ends in a row of a slot's instances. The actor's status may be ahead of the record, or behind."""
    record, told = picture.slots.get(slot), told_slots(picture).get(slot)
    return max(record.crashes if record is not None else 0, told.crashes if told is not None else 0)


def unproven(picture: Picture, life: SlotIncarnation) -> bool:
    """Whether it is the updated instance of a slot that the open rollout still observes."""
    told = told_slots(picture).get(life.slot)
    if told is None or not told.unproven or not picture.observed:
        return False
    return life.incarnation == max((number for number, *_ in told.incarnations), default=0)


def phase(picture: Picture, life: SlotIncarnation) -> str:
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
    told = told_slots(picture).get(life.slot)
    said = {number: found for number, found, _, _ in told.incarnations} if told is not None else {}
    return "granted" if said.get(life.incarnation, "") in ("", "starting") else "unknown"


def told_slots(picture: Picture) -> dict[int, SlotStatus]:
    """The status of each slot."""
    return {told.slot: told for told in picture.status.status.slots} if picture.status is not None else {}


def note(picture: Picture, life: SlotIncarnation, told: SlotStatus | None) -> str:
    """What stands in the way, in few words: the instance's own, else its slot's."""
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


def exit_words(exited: Exit) -> str:
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


def outcome_word(picture: Picture, number: int) -> str:
    """How the rollout of a revision ended, or how it stands."""
    outcome = picture.outcomes.get(number)
    if outcome is not None:
        return outcome.outcome
    return "wanted" if number == picture.target else NOTHING


def host_status(estate: Estate, name: str) -> str:
    """`Ready`, `NoAgent` or `Lost`, with what the operator said."""
    words = "Ready" if name in estate.hosts else "Lost" if name in estate.lost else "NoAgent"
    cordon = estate.cordons.get(name)
    return f"{words},{'Draining' if cordon.action == 'drain' else 'Cordoned'}" if cordon is not None else words


def revision_rows(picture: Picture) -> list[dict[str, Any]]:
    """The templates that were wanted as plain values, the oldest first: who wanted each, and how its rollout ended."""
    found = []
    for number, record in sorted(picture.revisions.items()):
        outcome = picture.outcomes.get(number)
        found.append(
            {
                "revision": number,
                "wanted": number == picture.target,
                "outcome": outcome.outcome if outcome is not None else None,
                "outcomeWhy": outcome.why if outcome is not None else None,
                "ended": outcome.time if outcome is not None else None,
                "who": record.who,
                "why": record.why,
                "time": record.time,
                "digest": record.digest,
            }
        )
    return found

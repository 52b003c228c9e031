"""Fleets and hosts as they are printed: rows of tables for people, plain mappings for programs (`-o json`). Pure.

Mappings have names as in the objects, camelCase. Neighbours: `reading.fleet_summary` counts and finds the words,
`reading.fleet_status` has what is waited for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic.alias_generators import to_camel

from wharfinger.cli.objects.tables import age
from wharfinger.fleet.contracts.fleet_records import LostHostRecord, mapping
from wharfinger.fleet.model.fleet import Cordon
from wharfinger.fleet.model.rollout import Condition, SlotStatus
from wharfinger.fleet.reading.fleet_status import FleetInstance, FleetStatus
from wharfinger.fleet.reading.fleet_summary import (
    NOTHING,
    crashes,
    created,
    host_status,
    note,
    outcome_word,
    outdated,
    phase,
    revision_rows,
    rollout_word,
    told_slots,
    updated,
    wanted_ready,
)
from wharfinger.fleet.state.fleet_pictures import Estate, Picture, SlotIncarnation

FLEET_HEADINGS = ("TENANT", "WANTED", "READY", "UPDATED", "OUTDATED", "REVISION", "ROLLOUT", "AGE")
SLOT_HEADINGS = ("SLOT", "INCARNATION", "PHASE", "REVISION", "HOST", "CRASHES", "NOTE")
CONDITION_HEADINGS = ("CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE")
HISTORY_HEADINGS = ("REVISION", "OUTCOME", "AGE", "WHO", "WHY")
HOST_HEADINGS = ("NAME", "STATUS", "INSTANCES", "CAPACITY", "INSTALLS", "CONTROL", "AGE", "REASON")

AGENTS_OWN = "(own)"
"""The agent's own executable, which every host has."""


def fleet_row(picture: Picture, now: datetime) -> tuple[str, ...]:
    """Cells under `FLEET_HEADINGS`."""
    return (
        picture.tenant,
        str(picture.replicas),
        str(len(wanted_ready(picture))),
        str(updated(picture)),
        str(outdated(picture)),
        str(picture.target or NOTHING),
        rollout_word(picture),
        age(created(picture), now),
    )


# --- slots ----------------------------------------------------------------------------------------


def slot_rows(picture: Picture) -> list[tuple[str, ...]]:
    """Cells under `SLOT_HEADINGS`: a row for every incarnation, and for every slot that has none but should."""
    told = told_slots(picture)
    wanted = range(picture.replicas)
    lives = picture.lives
    empty = [SlotIncarnation(slot, 0) for slot in {*wanted, *told} - {life.slot for life in lives} if slot in wanted]
    return [_slot_row(picture, life, told.get(life.slot)) for life in sorted([*lives, *empty])]


def _slot_row(picture: Picture, life: SlotIncarnation, told: SlotStatus | None) -> tuple[str, ...]:
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
        note(picture, life, told),
    )


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
    """Cells under `HOST_HEADINGS`: live agents, what people said of hosts, and hosts that grants name without agent."""
    return [_host_row(estate, name, now) for name in estate.host_names]


def _host_row(estate: Estate, name: str, now: datetime) -> tuple[str, ...]:
    host = estate.hosts.get(name)
    said: Cordon | LostHostRecord | None = estate.lost.get(name) if host is None else None
    said = said or estate.cordons.get(name)
    why = ""
    if said is not None:
        since = f"{age(said.time, now)} ago" if said.time else ""
        by = f"by {said.who}" if said.who else ""
        why = "; ".join(part for part in (said.why, " ".join(word for word in (by, since) if word)) if part)
    return (
        name,
        host_status(estate, name),
        str(estate.granted.get(name, 0)),
        str(host.capacity) if host is not None and host.capacity else NOTHING,
        ",".join(name or AGENTS_OWN for name in ("", *host.installs)) if host is not None else NOTHING,
        ("yes" if host.control else "no") if host is not None else NOTHING,
        age(host.time, now) if host is not None else NOTHING,
        why,
    )


def fleet_object(picture: Picture) -> dict[str, Any]:
    """The object as it was written, with the etcd revision as `resourceVersion`, and a `status`."""
    obj = dict(picture.written) or {"metadata": {"name": picture.tenant}}
    metadata = obj.get("metadata")
    if picture.kv is not None and isinstance(metadata, Mapping):
        obj["metadata"] = {**metadata, "resourceVersion": str(picture.kv.mod_revision)}
    return {**obj, "status": {**summary(picture), **_told(picture)}}


def summary(picture: Picture) -> dict[str, Any]:
    """The counts of one line of `fleet get`."""
    return {
        "replicas": picture.replicas,
        "ready": len(wanted_ready(picture)),
        "updated": updated(picture),
        "outdated": outdated(picture),
        "revision": picture.target,
        "rollout": rollout_word(picture),
        "observed": picture.observed,
    }


def status_mapping(found: FleetStatus) -> dict[str, Any]:
    """All that `fleet status` shows."""
    return {
        "tenant": found.tenant,
        "generation": found.generation,
        **summary(found.picture),
        **_told(found.picture),
        "lastChange": _last_change(found.picture),
        "slots": [_instance(one) for one in found.instances],
        "waiting": list(found.waiting),
        "hints": list(found.hints),
    }


def _told(picture: Picture) -> dict[str, Any]:
    """What the fleet's actor said, and when."""
    if picture.status is None:
        return {"conditions": []}
    status = picture.status.status
    times = picture.status.condition_times
    conditions = [
        {**camel(dataclasses.asdict(condition)), "since": times.get(condition.type)} for condition in status.conditions
    ]
    return {
        "observedGeneration": status.observed_generation,
        "completedRevision": status.completed,
        "rolloutGeneration": status.generation,
        "phase": status.phase,
        "written": picture.status.time,
        "conditions": conditions,
    }


def _last_change(picture: Picture) -> dict[str, str] | None:
    """Who changed the object last, and why, when that is not the wanted revision's own."""
    return picture.last_change._asdict() if picture.last_change is not None else None


def _instance(one: FleetInstance) -> dict[str, Any]:
    exited = mapping(one.exit) if one.exit is not None else None
    return {**camel(dataclasses.asdict(one)), "exit": exited}


def history_list(picture: Picture) -> list[dict[str, Any]]:
    """The revisions with their outcomes, the oldest first."""
    return [
        {
            **{name: value for name, value in row.items() if name != "digest"},
            "lastChange": _last_change(picture) if row["wanted"] else None,
            "digest": row["digest"],
            "template": picture.revisions[row["revision"]].template,
        }
        for row in revision_rows(picture)
    ]


def host_list(estate: Estate) -> list[dict[str, Any]]:
    """Hosts with their agents, and what people said of them."""
    found = []
    for name in estate.host_names:
        host, cordon = estate.hosts.get(name), estate.cordons.get(name)
        lost = estate.lost.get(name) if host is None else None
        found.append(
            {
                "name": name,
                "status": host_status(estate, name),
                "instances": estate.granted.get(name, 0),
                "agent": camel(host.model_dump(mode="json")) if host is not None else None,
                "cordon": camel(mapping(cordon)) if cordon is not None else None,
                "lost": camel(lost.model_dump(mode="json")) if lost is not None else None,
            }
        )
    return found


def camel(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same mapping with names in camelCase; inner ones are left as they are."""
    return {to_camel(name): inner for name, inner in value.items()}

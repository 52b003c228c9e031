"""Fleets as plain mappings for programs (`-o json`): names as in the objects, camelCase."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wharfinger.fleet.contracts.fleet_records import mapping
from wharfinger.fleet.reading import fleet_summary
from wharfinger.fleet.reading.fleet_status import FleetInstance, status_of
from wharfinger.fleet.state.fleet_pictures import Estate, Picture


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
        "ready": fleet_summary.ready_count(picture),
        "updated": fleet_summary.updated(picture),
        "outdated": fleet_summary.outdated(picture),
        "revision": picture.target,
        "rollout": fleet_summary.rollout_word(picture),
        "observed": picture.observed,
    }


def status_mapping(estate: Estate, picture: Picture, now: datetime) -> dict[str, Any]:
    """All that `fleet status` shows."""
    found = status_of(estate, picture, now)
    return {
        "tenant": found.tenant,
        "generation": found.generation,
        **summary(picture),
        **_told(picture),
        "lastChange": _last_change(picture),
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
        for row in fleet_summary.revision_rows(picture)
    ]


def host_list(estate: Estate) -> list[dict[str, Any]]:
    """Hosts with their agents, and what people said of them."""
    counts = estate.granted
    found = []
    for name in sorted({*estate.hosts, *estate.cordons, *estate.lost, *counts}):
        host, cordon = estate.hosts.get(name), estate.cordons.get(name)
        lost = estate.lost.get(name) if host is None else None
        found.append(
            {
                "name": name,
                "status": fleet_summary.host_status(estate, name),
                "instances": counts.get(name, 0),
                "agent": camel(host.model_dump(mode="json")) if host is not None else None,
                "cordon": camel(mapping(cordon)) if cordon is not None else None,
                "lost": camel(lost.model_dump(mode="json")) if lost is not None else None,
            }
        )
    return found


def camel(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same mapping with names in camelCase; inner ones are left as they are."""
    return {_camel(name): inner for name, inner in value.items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)

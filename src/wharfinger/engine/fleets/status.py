"""A fleet's status as it is kept for readers: when it is another one, and since when its conditions are what they are.

Seconds that a step has waited are no change: readers count them on from the time of the record.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from pydantic import TypeAdapter

from wharfinger.contracts.fleet_records import FleetStatusRecord
from wharfinger.model.rollout import Status

_STATUS = TypeAdapter(Status)


def digest(status: Status) -> str:
    """SHA-256 of all of it but the seconds."""
    still = replace(status, running=tuple(replace(one, seen=0.0) for one in status.running))
    return hashlib.sha256(_STATUS.dump_json(still)).hexdigest()


def status_record(status: Status, before: FleetStatusRecord | None, now: str) -> FleetStatusRecord:
    """The record of a status. `now`: RFC 3339, UTC."""
    known = {one.type: one.status for one in before.status.conditions} if before is not None else {}
    times = before.condition_times if before is not None else {}
    return FleetStatusRecord(
        status=status,
        digest=digest(status),
        time=now,
        condition_times={
            one.type: times.get(one.type, now) if known.get(one.type) is one.status else now
            for one in status.conditions
        },
    )

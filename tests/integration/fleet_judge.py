"""What etcd's own history says of a fleet: every grant, registration and exit, revision by revision.

Read through a client that is none of ours, so that a mistake of our code cannot hide itself. Rules of the fleet's
design that can be seen in etcd are judged here; what a rollout may do to the number of ready slots is left to the test,
which knows what it broke.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.integration.gateway import Gateway

OURS = "/registry/wharfinger.dev/"
INSTANCES = OURS + "instances/"
GRANTS = OURS + "grants/"
EXITS = OURS + "exits/"

Life = tuple[int, int]
"""Slot and incarnation."""


class Drain(NamedTuple):
    """An instance was asked to leave."""

    revision: int
    life: Life
    ready: bool
    """Whether it said that it was ready."""
    replaced: bool
    """Whether another one of its slot is ready, and not asked to leave."""


class Given(NamedTuple):
    """An instance was allowed."""

    revision: int
    life: Life
    of: int
    """The fleet's revision that it is made from."""
    living: int
    """Grants from then on, without those whose end is told."""


@dataclass
class FleetVerdict:
    """What was seen from one revision to another."""

    ready: list[tuple[int, int]] = field(default_factory=list)
    """(revision, slots with a ready incarnation), whenever that changed.

    One that went out of sight, its lease lost or by its own withdrawal, though no grant had asked it to and it had not
    ended, counts until its slot is ready again: that is the machine's doing.
    """
    living: list[tuple[int, int]] = field(default_factory=list)
    """(revision, grants), whenever that changed."""
    given: list[Life] = field(default_factory=list)
    """Incarnations in the order of their grants."""
    creates: list[Given] = field(default_factory=list)
    """The same, with what was seen then."""
    drains: list[Drain] = field(default_factory=list)
    """In the order in which they were asked for."""
    dropped: list[Life] = field(default_factory=list)
    """Incarnations whose grants were deleted without a record of their end."""
    ended: list[tuple[Life, str]] = field(default_factory=list)
    """Incarnations and how they ended, in the order of their exit records."""
    wrong: list[str] = field(default_factory=list)
    """Rules that were broken."""

    def least_ready(self, since: int = 0, until: int | None = None) -> int:
        """The lowest number of ready slots between two revisions."""
        before = [count for revision, count in self.ready if revision <= since][-1:]
        within = [count for revision, count in self.ready if since < revision and (until is None or revision <= until)]
        return min(before + within)

    def most_living(self, since: int = 0) -> int:
        """The highest number of grants that a create led to."""
        return max((one.living for one in self.creates if one.revision > since), default=0)

    def asked(self, since: int) -> list[Life]:
        """Who was asked to leave."""
        return [one.life for one in self.drains if one.revision > since]

    def taken(self, since: int) -> list[Life]:
        """Ready instances that were drained though no other instance was in their slot.

        How many slots were ready just then says less: some may have been out of sight, by a lease that was lost.
        """
        return [one.life for one in self.drains if one.revision > since and one.ready and not one.replaced]

    def made(self, since: int) -> dict[int, list[int]]:
        """Slot -> the fleet's revisions of its incarnations given after an etcd revision, in order."""
        found: dict[int, list[int]] = {}
        for one in self.creates:
            if one.revision > since:
                found.setdefault(one.life[0], []).append(one.of)
        return found


def judge(etcd: Gateway, tenant: str, first: int = 1) -> FleetVerdict:
    """Follow one fleet from revision `first` to now."""
    verdict = FleetVerdict()
    grants: dict[Life, dict[str, Any]] = {}
    instances: dict[Life, dict[str, Any]] = {}
    over: set[Life] = set()
    unseen: dict[int, Life] = {}
    highest: dict[int, int] = {}
    last, ready, living = etcd.revision(), -1, -1
    for revision, key, value in etcd.history(OURS, first, last):
        kind, life = _life(key, tenant)
        record = json.loads(value) if value is not None else None
        if kind == GRANTS:
            if unseen.get(life[0]) == life and (record is None or record["want"] == "drain"):
                del unseen[life[0]]  # it was to come back
            if record is None:
                if grants.pop(life, None) is not None and life not in over:
                    verdict.dropped.append(life)
            else:
                if life not in grants:
                    verdict.given.append(life)
                    now = len(grants.keys() - over) + 1
                    verdict.creates.append(Given(revision, life, record["revision"], now))
                    if life[1] <= highest.get(life[0], 0):
                        verdict.wrong.append(f"{revision}: incarnation {life} was given again")
                    highest[life[0]] = max(life[1], highest.get(life[0], 0))
                elif grants[life]["want"] == "drain" and record["want"] == "run":
                    verdict.wrong.append(f"{revision}: draining {life} was taken back")
                elif grants[life]["want"] == "run" and record["want"] == "drain":
                    verdict.drains.append(_drain(revision, life, grants, instances))
                grants[life] = record
        elif kind == INSTANCES:
            unasked = life not in over and grants.get(life, {}).get("want") == "run"
            was_ready = instances.get(life, {}).get("state") == "ready"
            if record is None:
                instances.pop(life, None)
            else:
                if life not in grants and record["state"] in ("starting", "ready"):
                    verdict.wrong.append(f"{revision}: {life} registered as {record['state']} without a grant")
                instances[life] = record
            if life[0] in _serving(instances):
                unseen.pop(life[0], None)
            elif was_ready and unasked:
                unseen[life[0]] = life
        elif kind == EXITS and record is not None:
            verdict.ended.append((life, record["how"]))
            if life in over:
                verdict.wrong.append(f"{revision}: the end of {life} was told twice")
            over.add(life)
            if unseen.get(life[0]) == life and record["how"] != "drained":
                del unseen[life[0]]
        slots = len(_serving(instances) | unseen.keys())
        if slots != ready:
            ready = slots
            verdict.ready.append((revision, ready))
        if len(grants) != living:
            living = len(grants)
            verdict.living.append((revision, living))
    return verdict


def _drain(
    revision: int, life: Life, grants: dict[Life, dict[str, Any]], instances: dict[Life, dict[str, Any]]
) -> Drain:
    ready = {one for one, record in instances.items() if record["state"] == "ready"}
    staying = {one for one in ready if one != life and grants.get(one, {}).get("want") == "run"}
    return Drain(revision, life, life in ready, any(slot == life[0] for slot, _ in staying))


def _serving(instances: dict[Life, dict[str, Any]]) -> set[int]:
    """Slots with one that says that it is ready."""
    return {slot for (slot, _), record in instances.items() if record["state"] == "ready"}


def _life(key: str, tenant: str) -> tuple[str, Life]:
    for kind in (INSTANCES, GRANTS, EXITS):
        prefix = f"{kind}{tenant}/"
        if key.startswith(prefix):
            slot, _, incarnation = key[len(prefix) :].partition("/")
            if slot.isdigit() and incarnation.isdigit():
                return kind, (int(slot), int(incarnation))
    return "", (0, 0)

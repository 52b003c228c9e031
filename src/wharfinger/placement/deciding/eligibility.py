"""Whether a member can take anything at all: it has not left, its agent is heard, has joined and is healthy.

And whether KubeFleet could name what binds a placement to it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from wharfinger.placement.deciding import texts
from wharfinger.placement.model.members import Member

TOO_OLD = 300.0
"""Seconds since the last heart-beat, and since a member became unhealthy, from which on it takes nothing."""
EVER = (2**63 - 1) / 1e9
"""Seconds: KubeFleet's age of a moment that is not told. Its clock reads no larger span."""
PART = 26
"""Characters of a placement's name in the name of a binding; a member's has one more."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class Ages(NamedTuple):
    """What is said in seconds of a member's agent; None: there was no such moment."""

    heartbeat: float | None
    """Since the last heart-beat."""
    health: float | None
    """Since its health changed."""


def why_not_eligible(member: Member, ages: Ages, *, upstream: bool = False) -> str:
    """Why a member takes nothing; empty when it does. `upstream` gives a missing heart-beat KubeFleet's age."""
    if member.leaving:
        return texts.LEFT
    agent = member.agent
    if agent is None:
        return texts.NOT_ONLINE
    heartbeat = ages.heartbeat
    if heartbeat is None:
        return texts.silent(EVER) if upstream else texts.NO_HEARTBEAT
    if heartbeat > TOO_OLD:
        return texts.silent(heartbeat)
    if agent.joined is None or not agent.joined.true:
        return texts.NOT_JOINED
    healthy = agent.healthy
    if healthy is None:
        return texts.NO_HEALTH
    health = EVER if ages.health is None else ages.health
    if not healthy.true and health > TOO_OLD:
        return texts.unhealthy(health)
    return ""


def nameable(placement: str, member: str) -> bool:
    """Whether KubeFleet can name a binding: it admits dots in both names, but not in a binding's."""
    return _NAME.fullmatch(f"{placement[:PART]}-{member[: PART + 1]}-0") is not None

"""Whether a member can take anything at all: it has not left, its agent is heard, has joined and is healthy."""

from __future__ import annotations

from typing import NamedTuple

from wharfinger.model.members import Member
from wharfinger.placement import texts

TOO_OLD = 300.0
"""Seconds since the last heart-beat, and since a member became unhealthy, from which on it takes nothing."""
EVER = (2**63 - 1) / 1e9
"""Seconds: KubeFleet's age of a moment that is not told. Its clock reads no larger span."""


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

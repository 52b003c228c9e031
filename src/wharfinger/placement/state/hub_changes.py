"""What has to be reconciled anew: which fields of a member have changed, and which placements are decided by them.

Neighbours: `state.hub_view` reports changes, `hub.placement_controller` reconciles what they concern.
"""

from __future__ import annotations

from enum import Flag, auto
from typing import NamedTuple

from wharfinger.placement.model.delivery import Override
from wharfinger.placement.model.members import Member
from wharfinger.placement.model.placement import Placement


class MemberChange(Flag):
    """What of a member is another one."""

    LABELS = auto()
    TAINTS = auto()
    PROPERTIES = auto()
    NAMESPACES = auto()
    ELIGIBILITY = auto()
    """Whether it can take anything at all."""
    STANDING = auto()
    """Gone, leaving, of another identity, cordoned, drained: it may have to leave decisions."""


class HubChange(NamedTuple):
    """What has to be reconciled anew: a placement, or what reads these fields of a member."""

    placement: str = ""
    member: str = ""
    fields: MemberChange = MemberChange(0)
    own: bool = False
    """Whether a user changed the placement itself."""
    delivered: bool = False
    """Whether what is delivered of it changed; without a placement: of those that the overrides change."""
    overrides: tuple[Override, ...] = ()


def difference(old: Member, new: Member) -> MemberChange:
    """What of a member changed."""
    found = MemberChange(0)
    if old.labels != new.labels:
        found |= MemberChange.LABELS
    if old.taints != new.taints:
        found |= MemberChange.TAINTS
    if old.properties != new.properties or old.usage != new.usage:
        found |= MemberChange.PROPERTIES
    if (old.collects_namespaces, old.namespaces) != (new.collects_namespaces, new.namespaces):
        found |= MemberChange.NAMESPACES
    if old.agent != new.agent:
        found |= MemberChange.ELIGIBILITY
    if (old.identity, old.leaving) != (new.identity, new.leaving):
        found |= MemberChange.STANDING | MemberChange.ELIGIBILITY
    return found


class Readers:
    """Which placements are decided by which fields of a member."""

    def __init__(self) -> None:
        self._reads: dict[str, MemberChange] = {}
        self._readers: dict[MemberChange, set[str]] = {one: set() for one in MemberChange}

    def note(self, reference: str, placement: Placement | None) -> None:
        """The placement is another one now; None: it is gone."""
        fields = reads(placement) if placement is not None else MemberChange(0)
        for one in self._reads.pop(reference, MemberChange(0)) & ~fields:
            self._readers[one].discard(reference)
        for one in fields:
            self._readers[one].add(reference)
        if fields:
            self._reads[reference] = fields

    def reads(self, reference: str) -> MemberChange:
        """Which fields a placement is decided by."""
        return self._reads.get(reference, MemberChange.STANDING)

    def of(self, fields: MemberChange) -> set[str]:
        """The placements that are decided by any of these."""
        return set[str]().union(*(self._readers[one] for one in fields))


def reads(placement: Placement) -> MemberChange:
    """Which fields of a member a placement is decided by."""
    policy = placement.policy
    found = MemberChange.ELIGIBILITY | MemberChange.STANDING | MemberChange.TAINTS
    if placement.ref.namespace:
        found |= MemberChange.NAMESPACES
    if policy.spread or any(term.labels is not None for term in policy.required):
        found |= MemberChange.LABELS
    if any(term.properties for term in policy.required):
        found |= MemberChange.PROPERTIES
    for one in policy.preferred:
        found |= MemberChange.LABELS if one.labels is not None else MemberChange(0)
        found |= MemberChange.PROPERTIES if one.sorter is not None else MemberChange(0)
    return found

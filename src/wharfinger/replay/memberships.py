"""Which workers shared the nodes: a decision that has no room for their names has a digest of them.

Memberships that etcd's registrations made are kept by their digest, from the first state on: the last ones, as a
decision is made on one of now.
"""

from __future__ import annotations

from wharfinger.framework.scoring import members_digest
from wharfinger.scheduling.contracts.computation import OwnNodes
from wharfinger.scheduling.loops.shards import Roster
from wharfinger.scheduling.state.informer.changes import Changes

MOST = 1000
"""Memberships that are kept: a rollout of all workers makes two for each of them."""


class Memberships:
    """Of all pools."""

    def __init__(self) -> None:
        self._rosters: dict[str, Roster] = {}
        self._by_digest: dict[str, tuple[str, ...]] = {}
        """The latest one last."""

    def __len__(self) -> int:
        return len(self._by_digest)

    def apply(self, changes: Changes) -> None:
        """Follow the registrations."""
        moved: dict[str, Roster] = {}
        for one in changes.instances:
            roster = self._rosters.setdefault(one.tenant, Roster(one.tenant))
            roster.set(one.slot, one.incarnation, one.new)
            moved[one.tenant] = roster
        for roster in moved.values():
            members = tuple(sorted(roster.ready()))
            digest = members_digest(members)
            self._by_digest.pop(digest, None)
            self._by_digest[digest] = members
        while len(self._by_digest) > MOST:
            del self._by_digest[next(iter(self._by_digest))]

    def of(self, own: OwnNodes) -> tuple[str, ...]:
        """Who shared the nodes; empty when nobody knows any more."""
        return own.members or self._by_digest.get(own.digest, ())

"""Which workers shared the nodes: a decision that has no room for their names has a digest of them.

Every membership that etcd's registrations ever made is kept by its digest, from the first state on.
"""

from __future__ import annotations

from wharfinger.contracts.computation import OwnNodes
from wharfinger.framework.preferred_nodes import members_digest
from wharfinger.informer.changes import Changes
from wharfinger.worker_loops.shards import Roster


class Memberships:
    """Of all pools."""

    def __init__(self) -> None:
        self._rosters: dict[str, Roster] = {}
        self._by_digest: dict[str, tuple[str, ...]] = {}

    def apply(self, changes: Changes) -> None:
        """Follow the registrations."""
        moved: dict[str, Roster] = {}
        for one in changes.instances:
            roster = self._rosters.setdefault(one.tenant, Roster(one.tenant))
            roster.set(one.slot, one.incarnation, one.new)
            moved[one.tenant] = roster
        for roster in moved.values():
            members = tuple(sorted(roster.ready()))
            self._by_digest[members_digest(members)] = members

    def of(self, own: OwnNodes) -> tuple[str, ...]:
        """Who shared the nodes; empty when nobody knows any more."""
        return own.members or self._by_digest.get(own.digest, ())

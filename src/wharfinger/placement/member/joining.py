"""Joins a member to one hub: a token in the member's own etcd says which, and under which name.

So a member that another hub has, one etcd under two names, and the hub itself are told, not placed on.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

from wharfinger.etcd.store import Compare, Delete, Get, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.process.records import Record

JOIN_CONFLICT = "JoinConflict"
"""Begins what is told of a member that cannot be this hub's."""


class JoinToken(Record):
    """Whose member an etcd is."""

    hub: str
    """The hub's id."""
    name: str
    """Of the MemberCluster."""
    identity: int = 0
    """Its create revision; 0 = any, of an earlier release."""

    def names_same(self, other: JoinToken) -> bool:
        """Whether both are of the same hub and name, perhaps of another life of it."""
        return (self.hub, self.name) == (other.hub, other.name)


async def hub_id(store: Store) -> str:
    """What tells this hub's etcd from every other; made by the first that asks. Raises the store's errors."""
    made = uuid.uuid4().hex.encode()
    answered = await store.txn(
        [Compare(placement_keys.HUB_ID, "create", 0)], [Put(placement_keys.HUB_ID, made)], [Get(placement_keys.HUB_ID)]
    )
    found = answered.reads[0] if answered.reads else None
    return (found.value if found is not None else made).decode(errors="replace")


async def join(member: Store, token: JoinToken) -> str:
    """Make the token the member's; why that cannot be, empty when it is. Raises the store's errors."""
    own = (await member.get(placement_keys.HUB_ID)).kv
    if own is not None and own.value.decode(errors="replace") == token.hub:
        return f"{JOIN_CONFLICT}: this is the etcd of the hub itself"
    put = Put(placement_keys.PLACED_MEMBER, token.to_bytes())
    answered = await member.txn(
        [Compare(placement_keys.PLACED_MEMBER, "create", 0)], [put], [Get(placement_keys.PLACED_MEMBER)]
    )
    found = answered.reads[0] if answered.reads else None
    if answered.succeeded or found is None:
        return ""
    theirs = JoinToken.from_bytes(found.value)
    if theirs is None:
        return f"{JOIN_CONFLICT}: {placement_keys.PLACED_MEMBER} of the member cannot be read"
    if theirs.names_same(token):
        if theirs.identity < token.identity:
            # of an earlier life: whoever is about to take that one away must not take this one
            await member.txn([Compare(placement_keys.PLACED_MEMBER, "mod", found.mod_revision)], [put])
        return ""
    if theirs.hub == token.hub:
        return f"{JOIN_CONFLICT}: the cluster is a member under the name {theirs.name[:80]}"
    return f"{JOIN_CONFLICT}: the cluster is a member of another hub"


async def stay(member: Store, token: JoinToken) -> str:
    """Look whether the member has the token yet, and join again where it has not; as `join`."""
    found = (await member.get(placement_keys.PLACED_MEMBER)).kv
    return "" if found is not None and found.value == token.to_bytes() else await join(member, token)


async def leave(member: Store, token: JoinToken, gone: Callable[[], Awaitable[bool]]) -> None:
    """Take a token of this hub and name away, so that another hub may have the member. Raises the stores' errors.

    `gone`: whether the MemberCluster is gone; asked after the token was read, so that a next life's is not meant.
    """
    found = (await member.get(placement_keys.PLACED_MEMBER)).kv
    theirs = JoinToken.from_bytes(found and found.value)
    if found is None or theirs is None or not theirs.names_same(token):
        return
    if token.identity and theirs.identity > token.identity:
        return
    if await gone():
        await member.txn(
            [Compare(placement_keys.PLACED_MEMBER, "mod", found.mod_revision)], [Delete(placement_keys.PLACED_MEMBER)]
        )

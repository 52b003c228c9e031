"""Writes one object by compare-and-set, also while other clients write it; and who does so, and why."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from wharfinger.errors import DoesNotApply, InvalidObject, Unavailable
from wharfinger.etcd.store import Compare, Get, KeyValue, Put, Read, Store
from wharfinger.objects.documents import documents
from wharfinger.objects.model.texts import plain

TRIES = 10
"""Compare-and-sets of one object; each fails only because another writer changed it in between."""
_NAME_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something, and why."""

    who: str
    why: str = ""


def author(reason: str = "", *, who: str = "") -> Author:
    """Who changes something: this process's user and machine, unless `who` names another author."""
    if who:
        return Author(plain(who)[:_NAME_LIMIT], plain(reason))
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        user = f"uid-{os.getuid()}"
    return Author(plain(f"{user}@{socket.gethostname()}")[:_NAME_LIMIT], plain(reason))


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of one object."""

    result: Literal["created", "configured", "unchanged"]
    mod_revision: int
    """Of the object as it is now; 0 = there is none."""
    create_revision: int

    @property
    def written(self) -> bool:
        """Whether anything was."""
        return self.result != "unchanged"


@dataclass(frozen=True, slots=True)
class Deletion:
    """What became of the deletion of one object."""

    sentence: str
    """One line for people."""
    written: bool = True
    """False: it was being deleted already."""


async def commit(
    store: Store, key: str, over: Callable[[KeyValue | None], bytes | None], title: str, *, read: Read | None = None
) -> Committed:
    """Write what `over` makes of the stored value, unless it is None; repeat until no other client wrote in between.

    `read`: what was read of the key already, which spares a round trip; it may be out of date.
    Raises `Unavailable`, `RequestTooLarge`, and `DoesNotApply` when others write the object all the time.
    """
    stored = (read or await store.get(key)).kv
    result: Literal["created", "configured", "unchanged"] = "unchanged"
    for _ in range(TRIES):
        value = over(stored)
        there = stored.revisions if stored is not None else {"mod_revision": 0, "create_revision": 0}
        if value is None:
            return Committed(result, **there)
        compare = Compare(key, "mod", there["mod_revision"])
        result = "created" if stored is None else "configured"
        try:
            answer = await store.txn([compare], [Put(key, value)], [Get(key)])
        except Unavailable as error:
            if not error.maybe_applied:
                raise
            stored = (await store.get(key)).kv  # only a read shows it; nothing is written twice
            continue
        if answer.succeeded:
            return Committed(result, answer.revision, there["create_revision"] or answer.revision)
        stored, result = answer.reads[0], "unchanged"
    raise DoesNotApply(f"{title} is changed by others all the time; gave up after {TRIES} tries")


def readable(value: bytes) -> dict[str, Any] | None:
    """The object that is stored; None for bytes that are none."""
    try:
        obj = documents.parse(value)
    except InvalidObject:
        return None
    parts = ("metadata", "spec", "status")
    readable = isinstance(obj, dict) and all(isinstance(obj.get(part), dict | None) for part in parts)
    return obj if readable else None


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Equal as JSON: the order of keys means nothing, but `1` is not `true`."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

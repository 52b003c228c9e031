"""What etcd says happened, revision by revision, and the proof that nothing of it is missing."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class Gap(Exception):
    """A revision was not heard of."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key at one revision."""

    key: str
    value: bytes | None
    """None: it was deleted."""
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Revision:
    """All that one transaction did."""

    number: int
    time: float
    """When it was heard of, in seconds since the epoch."""
    changes: tuple[Change, ...]


@dataclass(slots=True)
class Continuity:
    """Takes the messages of a watch over all keys. Every revision of etcd changes a key, so none may be left out."""

    last: int = 1
    """etcd begins at 1, with nothing in it."""

    def take(self, message: Mapping[str, Any], time: float) -> list[Revision]:
        """The revisions of one message, which holds each whole. Raises `Gap`."""
        found: dict[int, list[Change]] = {}
        for event in message.get("events", ()):
            change = change_of(event)
            found.setdefault(change.mod_revision, []).append(change)
        revisions = []
        for number in sorted(found):
            if number != self.last + 1:
                raise Gap(f"revision {number} follows revision {self.last}")
            self.last = number
            revisions.append(Revision(number, time, tuple(found[number])))
        return revisions


def change_of(event: Mapping[str, Any]) -> Change:
    """An event as the JSON gateway tells it."""
    kv = event["kv"]
    deleted = event.get("type") == "DELETE"
    return Change(
        base64.b64decode(kv["key"]).decode(errors="surrogateescape"),
        None if deleted else base64.b64decode(kv.get("value", "")),
        int(kv.get("create_revision", 0)),
        int(kv["mod_revision"]),
    )


def state_after(revisions: Iterable[Revision]) -> dict[str, Change]:
    """Every key there is after these revisions."""
    state: dict[str, Change] = {}
    for revision in revisions:
        for change in revision.changes:
            if change.value is None:
                state.pop(change.key, None)
            else:
                state[change.key] = change
    return state

"""A role of etcd's users: which keys its users may read and write; and the two roles that every etcd has.

A transaction needs the permission for each key that it compares, reads or writes, in both branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.etcd import keys
from wharfinger.etcd.etcd_wire import key_bytes, prefix_end

TREES = (keys.ROOT, keys.ASIDE)
"""Everything that wharfinger keeps."""


class KeyRange(NamedTuple):
    """Keys from `start` to before `end`; without an end, the one key."""

    start: bytes
    end: bytes = b""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and (self.start <= key < self.end if self.end else key == self.start)


@dataclass(frozen=True, slots=True)
class EtcdRole:
    """What the users of a role may do. Keys that end with a slash stand for all keys below them."""

    name: str
    what: str
    """Which component has it."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    without: str = ""
    """A tree that it may not write, below one that it may."""

    def permissions(self) -> Mapping[KeyRange, str]:
        """Ranges with etcd's names of permissions: READ, WRITE, READWRITE."""
        read = {_range(key) for key in self.reads}
        write = {part for key in self.writes for part in _but(_range(key), self.without)}
        return {
            one: "READWRITE" if one in read and one in write else "READ" if one in read else "WRITE"
            for one in sorted(read | write)
        }

    def mapping(self) -> dict[str, object]:
        """For programs; the exception only where there is one."""
        found = {"role": self.name, "what": self.what, "reads": list(self.reads), "writes": list(self.writes)}
        return {**found, **({"without": self.without} if self.without else {})}

    def may_write(self, key: str) -> bool:
        """Whether it may put and delete the key."""
        return any(key_bytes(key) in one for one, kind in self.permissions().items() if kind != "READ")


def _range(key: str) -> KeyRange:
    start = key_bytes(key)
    return KeyRange(start, prefix_end(start)) if key.endswith("/") else KeyRange(start)


def _but(whole: KeyRange, without: str) -> Iterable[KeyRange]:
    """The range, or what is left of it before and behind the tree."""
    hole = _range(without) if without else None
    if hole is None or hole.start not in whole or hole == whole:
        return (whole,)
    return (KeyRange(whole.start, hole.start), KeyRange(hole.end, whole.end))


ROOT = EtcdRole("root", "etcd's administrator: users, snapshots, compaction; etcd defines what it may do")
ADMIN = EtcdRole(
    "admin", "people: `apply`, `delete`, `fleet`, `config`, `placement` and all other commands", TREES, TREES
)

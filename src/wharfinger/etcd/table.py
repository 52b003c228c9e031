"""Tables: a prefix of keys in etcd, and the names that follow it in each key of one kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from wharfinger.etcd.store import KeyValue, Store

R = TypeVar("R")

PATH = "..."
"""What the name of a part ends with that may have slashes: the reference of a placement, the target of a value."""


class Table:
    """The keys of one kind: makes them, takes them apart, and reads what they hold.

    Called with the names, in their order, a table returns the key::

        pod = Table("/registry/pods/", "namespace", "name")
        pod("default", "web")  # /registry/pods/default/web
    """

    __slots__ = ("_after", "_open", "_path", "_pattern", "names", "prefix")

    def __init__(self, prefix: str, *names: str) -> None:
        """`names`: what the parts of a key behind the prefix are; at most one of them ends with `PATH`.

        Behind the reference of a placement, the last one may end with `PATH`, too.
        """
        self.prefix = prefix
        self.names = names
        self._pattern = prefix + "/".join(["%s"] * len(names))
        paths = [place for place, name in enumerate(names) if name.endswith(PATH)]
        self._path = paths[0] if paths else None
        self._open = len(paths) > 1
        self._after = len(names) - 1 - paths[0] if paths else 0

    def __call__(self, *names: str | int) -> str:
        """The key of these names. Raises `TypeError` for too few or too many."""
        return self._pattern % names

    def below(self, *names: str | int) -> str:
        """What the keys of the table begin with that have these names first; empty names are left out."""
        return self.prefix + "".join(f"{name}/" for name in names if name != "")

    def fits(self, parts: tuple[str, ...]) -> bool:
        """Whether a key with these parts behind the prefix is one of the table."""
        enough = len(parts) >= len(self.names) if self._path is not None else len(parts) == len(self.names)
        return enough and all(parts)

    def parse(self, key: str) -> tuple[str, ...] | None:
        """The names in a key; None for a key of no such table."""
        if not key.startswith(self.prefix):
            return None
        parts = tuple(key[len(self.prefix) :].split("/"))
        if not self.fits(parts):
            return None
        if self._path is None:
            return parts
        end = len(parts) - self._after
        if self._open:
            end = self._path + (2 if parts[self._path] == "cluster" else 3)
            if len(parts) < end + self._after:
                return None
            last = end + self._after - 1
            parts = (*parts[:last], "/".join(parts[last:]))
        return (*parts[: self._path], "/".join(parts[self._path : end]), *parts[end:])

    async def read(self, store: Store, decode: Callable[[bytes], R], *names: str | int) -> R | None:
        """What the key of these names holds, now; None where it is absent. Raises the errors of both."""
        kv = (await store.get(self(*names))).kv
        return None if kv is None else decode(kv.value)

    async def rows(
        self, store: Store, *names: str | int, revision: int = 0
    ) -> AsyncIterator[tuple[tuple[str, ...], KeyValue]]:
        """Each key that has these names first, with its names, at one revision (0 = now); no key of another shape."""
        async for kv in store.each(self.below(*names), revision=revision):
            found = self.parse(kv.key)
            if found is not None:
                yield found, kv

    async def records(
        self, store: Store, decode: Callable[[bytes], R], *names: str | int, revision: int = 0
    ) -> AsyncIterator[tuple[tuple[str, ...], R]]:
        """What these keys hold, with their names; values for which `decode` raises `ValueError` are passed over."""
        async for found, kv in self.rows(store, *names, revision=revision):
            with suppress(ValueError):
                yield found, decode(kv.value)


class ParsedKey(NamedTuple):
    """A key taken apart: the kind's prefix and what follows it, split at slashes."""

    prefix: str
    parts: tuple[str, ...]


class Prefixes:
    """Several kinds of keys, told apart by what they begin with."""

    __slots__ = ("_inner", "_known", "_root")

    def __init__(self, known: Iterable[str], inner: str, root: str) -> None:
        """`known`: the prefixes, each a word longer than the tree that it lies in: `inner`, or `root` around that."""
        self._known = frozenset(known)
        self._inner = inner
        self._root = root

    def parse(self, key: str) -> ParsedKey | None:
        """The kind and the names; None for a key of no such kind."""
        end = key.find("/", len(self._inner if key.startswith(self._inner) else self._root)) + 1
        if not end:
            return ParsedKey(key, ()) if key in self._known else None
        prefix = key[:end]
        return ParsedKey(prefix, tuple(key[end:].split("/"))) if prefix in self._known else None

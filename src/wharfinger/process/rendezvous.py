"""Sharing keys out among processes by rendezvous hashing: everyone works out the same owner without asking."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


class Ring:
    """The members at one time. A key belongs to the member with the highest hash of both."""

    def __init__(self, members: Iterable[str] = ()) -> None:
        self.members = frozenset(members)
        self._seeds = [
            (member, hashlib.blake2b(member.encode() + b"\0", digest_size=8)) for member in sorted(self.members)
        ]

    def owner(self, key: str) -> str | None:
        """The member that owns the key; None when there are no members."""
        if len(self._seeds) <= 1:
            return self._seeds[0][0] if self._seeds else None
        encoded = key.encode(errors="surrogateescape")
        best, owner = b"", None
        for member, seed in self._seeds:
            digest = seed.copy()
            digest.update(encoded)
            weight = digest.digest()
            if weight > best or owner is None:
                best, owner = weight, member
        return owner

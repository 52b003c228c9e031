"""Mod revisions of the small keys that binds compare and rewrite, as this worker last saw them.

Told by the watch together with the pods behind them, or by the header of a transaction of our own that had compared
the key; never by a read, which says nothing of what lies behind the key.
"""

from __future__ import annotations


class Versions:
    """Known mod revisions by name; 0 = the key does not exist, as far as we know."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._known.get(name, 0)

    def set(self, name: str, revision: int) -> None:
        """The key is at this mod revision; an older one than known is ignored."""
        self._known[name] = max(revision, self._known.get(name, 0))

    def remove(self, name: str) -> None:
        """Etcd holds the key no more."""
        self._known.pop(name, None)

"""What is checked of pods, nodes and priority classes before they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.cli.kinds import WriteCheck
from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import Store
from wharfinger.objects.documents import decode
from wharfinger.process.stored_objects import priority_classes


class PodCheck(WriteCheck):
    """The scheduler must be able to read it."""

    def readable(self, obj: Mapping[str, Any]) -> None:
        """Raises `InvalidObject`."""
        decode.pod_from_mapping(obj)


class NodeCheck(WriteCheck):
    """The scheduler must be able to read it."""

    def readable(self, obj: Mapping[str, Any]) -> None:
        """Raises `InvalidObject`."""
        decode.node_from_mapping(obj)


class PriorityClassCheck(WriteCheck):
    """The scheduler must be able to read it, and there is one global default only."""

    one_at_a_time = True  # else two could both become the default
    _default = ""
    """The stored class that is the global default; empty = none is."""

    async def prepare(self, store: Store) -> tuple[str, ...]:
        """Read which class is the default."""
        default = (await priority_classes(store)).default
        self._default = default.name if default is not None else ""
        return ()

    def readable(self, obj: Mapping[str, Any]) -> None:
        """Raises `InvalidObject`."""
        decode.surrounding_from_mapping(obj, self.about.kind.name)

    def written(self, obj: Mapping[str, Any]) -> None:
        """Raises `InvalidObject`."""
        self.readable(obj)
        if self._default not in ("", self.about.name) and obj.get("globalDefault") is True:
            raise InvalidObject(
                f"globalDefault: PriorityClass {self._default} is the default, of which there is one only"
            )

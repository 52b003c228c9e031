"""What a record says beside pods that carry no marks, as those of rk8s: who bound a pod, and who was evicted.

Both are in keys of our own. Who bound a pod stands there while the pod lives; for whom a pod is evicted, in the attempt
record of that other pod until it is bound. `rerun` asks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import AttemptRecord, binder_of


class Unmarked:
    """Follows these keys."""

    def __init__(self) -> None:
        self._bound_by: dict[PodKey, bytes] = {}
        self._victims: dict[PodKey, frozenset[str]] = {}
        """By the pod for which they are evicted."""

    def take(self, events: Iterable[Event]) -> None:
        """Changes of one revision, or a whole state."""
        for event in events:
            parsed = keys.parse(event.kv.key)
            if parsed is None or len(parsed.parts) != len(PodKey._fields):
                continue
            if parsed.prefix == keys.BOUND_BY:
                self._bound_by.pop(PodKey(*parsed.parts), None)
                if not event.deleted:
                    self._bound_by[PodKey(*parsed.parts)] = event.kv.value
            elif parsed.prefix == keys.ATTEMPTS:
                self._victims.pop(PodKey(*parsed.parts), None)
                if not event.deleted and (found := _victims(event.kv.value)):
                    self._victims[PodKey(*parsed.parts)] = found

    def attempt_of(self, key: PodKey, create_revision: int, node: str) -> str:
        """`<workflow id>@<run id>` of what bound this life of the pod to the node; empty when another writer did."""
        return binder_of(self._bound_by.get(key), create_revision, node)

    def is_victim(self, key: PodKey) -> bool:
        """Whether the pod is being evicted for another one."""
        return any(str(key) in names for names in self._victims.values())


def _victims(record: bytes) -> frozenset[str]:
    found = AttemptRecord.from_bytes(record)
    return frozenset(found.victims if found is not None else ())

"""Pods of lost nodes get another life, and no other pod does.

requeued    a pod was taken off a node that is there, or was not deleted with the record of its new life, or its new
            life was not put
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from tests.faults.history import Change, Revision
from tests.faults.ledger import PodChange
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import Pod, PodKey

GROUP = "pod-group.scheduling.sigs.k8s.io/name"


@dataclass(slots=True)
class Requeues:
    """Follows the records of pods between two lives."""

    open: dict[PodKey, str] = field(default_factory=dict)
    """Pods that are deleted and not yet put anew, with the node they were on."""
    gangs: set[tuple[str, str]] = field(default_factory=set)
    """Those that lost a member: the rest runs on, and the member is placed alone."""
    count: int = 0

    def take(
        self, revision: Revision, moved: list[PodChange], nodes: Set[str], pods: Mapping[PodKey, Pod]
    ) -> Iterator[str]:
        """What is wrong with the revision. `nodes`: before it; `pods`: after it."""
        changes = {key: change for change in moved for key in change.keys}
        for change in revision.changes:
            if change.key.startswith(keys.REQUEUED):
                node, namespace, name = change.key.removeprefix(keys.REQUEUED).split("/")
                key = PodKey(namespace, name)
                if change.value is None:
                    yield from self._ended(key, pods)
                else:
                    yield from self._begun(change, node, key, changes.get(key), nodes)

    def _begun(self, change: Change, node: str, key: PodKey, moved: PodChange | None, nodes: Set[str]) -> Iterator[str]:
        self.open[key] = node
        self.count += 1
        before = moved.before if moved is not None else None
        if moved is None or before is None or moved.after is not None:
            yield f"{key} was not deleted with {change.key}"
            return
        if before.labels.get(GROUP):
            self.gangs.add((key.namespace, before.labels[GROUP]))
        if before.node_name != node or before.finished or before.deletion_timestamp:
            yield f"{key} was on {before.node_name or 'no node'}, finished or about to end"
        if node in nodes:
            yield f"{key} was taken off {node}, which is there"

    def _ended(self, key: PodKey, pods: Mapping[PodKey, Pod]) -> Iterator[str]:
        self.open.pop(key, None)
        if key not in pods:
            yield f"{key} fell out between two lives"

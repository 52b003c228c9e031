"""Judges the recorded history of an etcd with a cluster of rk8s, by its documents alone.

bound-once   node_name goes from null to one node, and never changes again
bytes        nothing else of a document changes
record       what a bind leaves says, at the same revision, which pod got which node
room         no node holds more than its allocatable, at any revision
pending      at the end, every pod has a node
left-over    at the end, no attempt record is left
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.history import Change, Revision
from tests.rk8s import rk8s_documents as docs
from wharfinger.etcd import keys

PENDING = b"\n  node_name: null\n"
_SIZES = {"Mi": 2**20, "Gi": 2**30}


@dataclass
class Rk8sJudge:
    """Takes the revisions in order."""

    violations: list[str] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)
    """The node of each pod."""
    _put: dict[str, Change] = field(default_factory=dict)
    """Each pod as it was put."""
    _room: dict[str, Counter[str]] = field(default_factory=dict)
    _records: dict[str, Change] = field(default_factory=dict)
    _attempts: set[str] = field(default_factory=set)

    def take_all(self, revisions: Iterable[Revision]) -> Rk8sJudge:
        """Judge every revision, and how it ended."""
        for revision in revisions:
            self._take(revision)
        self.violations += [f"pending: {name}" for name in sorted(self._put.keys() - self.bound.keys())]
        self.violations += [f"left-over: {key}" for key in sorted(self._attempts)]
        return self

    def _take(self, revision: Revision) -> None:
        bound: list[str] = []
        for change in revision.changes:
            kind, _, name = change.key.removeprefix(keys.ROOT).partition("/")
            if kind == "nodes" and change.value is not None:
                self._room[name] = _amounts(docs.read(change.value)["status"]["allocatable"])
            elif kind == "pods":
                bound += self._pod(name, change)
            elif change.key.startswith(keys.BOUND_BY):
                self._records[change.key.removeprefix(f"{keys.BOUND_BY}default/")] = change
            elif change.key.startswith(keys.ATTEMPTS):
                (self._attempts.discard if change.value is None else self._attempts.add)(change.key)
        for name in bound:
            self._record(name, revision.number)
        for node in {self.bound[name] for name in bound} & self._room.keys():
            self._fits(node, revision.number)

    def _pod(self, name: str, change: Change) -> list[str]:
        """The pod when it was bound by this change."""
        at, first = change.mod_revision, self._put.get(name)
        if change.value is None:
            self.violations.append(f"bound-once at {at}: {name} was deleted")
            return []
        if first is None:
            self._put[name] = change
            if PENDING not in change.value:
                self.violations.append(f"bound-once at {at}: {name} was not put unbound")
            return []
        node = docs.read(change.value)["spec"]["node_name"]
        if self.bound.get(name, node) != node or node not in self._room:
            self.violations.append(f"bound-once at {at}: {name} had {self.bound.get(name)} and gets {node}")
        assert first.value is not None
        if node is None:
            self.bound.pop(name, None)
            return []
        if change.value != first.value.replace(PENDING, f"\n  node_name: {node}\n".encode()):
            self.violations.append(f"bytes at {at}: {name}")
        again = name in self.bound
        self.bound[name] = node
        return [] if again else [name]

    def _record(self, name: str, at: int) -> None:
        change = self._records.get(name)
        found: dict[str, Any] = json.loads(change.value) if change is not None and change.value is not None else {}
        expected = (self.bound[name], self._put[name].create_revision)
        if (found.get("node"), found.get("create_revision")) != expected or not found.get("attempt"):
            self.violations.append(f"record at {at}: {name} is on {expected} and its record says {found}")
        elif change is not None and change.mod_revision != at:
            self.violations.append(f"record at {at}: {name} has one of {change.mod_revision}")

    def _fits(self, node: str, at: int) -> None:
        used: Counter[str] = Counter()
        for name, its in self.bound.items():
            value = self._put[name].value
            if its == node and value is not None:
                for container in docs.read(value)["spec"]["containers"]:
                    used.update(_amounts(container["resources"]["limits"]))
        for resource, amount in used.items():
            if amount > self._room[node][resource]:
                self.violations.append(f"room at {at}: {node} holds {amount} {resource}")


def _amounts(given: dict[str, Any]) -> Counter[str]:
    """CPU in thousandths, memory in bytes."""
    cpu, memory = str(given["cpu"]), str(given["memory"])
    thousandths = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    return Counter(cpu=thousandths, memory=int(memory[:-2]) * _SIZES[memory[-2:]])

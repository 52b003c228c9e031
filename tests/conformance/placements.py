"""Recorded placements, played on a simulator: before each step it has the recorded state."""

from __future__ import annotations

import functools
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from wharfinger.placement.kubefleet.placement_simulator import PlacementSimulator, SimulatedPlacement

DATA = Path(__file__).parent / "data" / "placement"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))


class Step(NamedTuple):
    """One step, and what was decided in it."""

    where: str
    recorded: Mapping[str, Any]
    decided: SimulatedPlacement
    admitted: bool

    @property
    def ends(self) -> Sequence[Mapping[str, Any]]:
        """What may come out of it."""
        return [self.recorded, *self.recorded.get("alternatives", ())]


PARTS = 4


def scenarios(family: str, part: int = 0, parts: int = 1) -> Iterator[Mapping[str, Any]]:
    """The scenarios of a family, or a part of them."""
    for line in _lines(family)[part::parts]:
        yield orjson.loads(line)


@functools.lru_cache(1)
def _lines(family: str) -> list[bytes]:
    return gzip.decompress((DATA / f"{family}.jsonl.gz").read_bytes()).splitlines()


def play(scenario: Mapping[str, Any], *, upstream: bool) -> Iterator[Step]:
    """Decide at every step of a scenario."""
    namespace, name = scenario.get("namespace", ""), scenario["placement"]
    reference = f"ns/{namespace}/{name}" if namespace else f"cluster/{name}"
    simulator = PlacementSimulator(upstream=upstream, unselected_limit=scenario["unselectedLimit"])
    hand = _Hand(simulator, reference, namespace, name)
    before, status = None, None
    for number, recorded in enumerate(scenario["steps"]):
        simulator.now = recorded["now"]
        if before is not None:
            simulator.restore(reference, before["snapshot"], before["bindings"], status)
        for happened in recorded["do"]:
            getattr(hand, happened["op"])(happened)
        admitted = not any("notAdmitted" in one for one in recorded["do"])
        where = f"{scenario['family']} {scenario['seed']} step {number}"
        yield Step(where, recorded, simulator.decide(reference), admitted)
        if before is not None and before["snapshot"]["name"] != recorded["snapshot"]["name"]:
            status = None  # of a new snapshot
        status = recorded.get("status", status)
        before = recorded


class _Hand:
    """Does what happened."""

    def __init__(self, simulator: PlacementSimulator, reference: str, namespace: str, name: str) -> None:
        self._simulator = simulator
        self._reference = reference
        self._metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        self._kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
        self._policy: Any = None
        self._generation = 0
        self._clusters: dict[str, Any] = {}

    def cluster(self, happened: Mapping[str, Any]) -> None:
        obj = {**happened["cluster"], "kind": "MemberCluster"}
        self._clusters[obj["metadata"]["name"]] = obj
        self._simulator.add(obj)

    def leave(self, happened: Mapping[str, Any]) -> None:
        obj = self._clusters[happened["cluster"]]
        left = {**obj["metadata"], "deletionTimestamp": self._simulator.now}
        self._simulator.add({**obj, "metadata": left})

    def gone(self, happened: Mapping[str, Any]) -> None:
        self._simulator.delete("MemberCluster", happened["cluster"])

    def policy(self, happened: Mapping[str, Any]) -> None:
        self._policy = happened["policy"]
        self.touch(happened)

    def touch(self, _: Mapping[str, Any]) -> None:
        self._generation += 1
        spec = {} if self._policy is None else {"policy": self._policy}
        metadata = {**self._metadata, "generation": self._generation}
        self._simulator.add({"kind": self._kind, "metadata": metadata, "spec": spec})

    def bind(self, happened: Mapping[str, Any]) -> None:
        self._simulator.bind(self._reference, happened["binding"])

    def delete(self, happened: Mapping[str, Any]) -> None:
        self._simulator.delete_binding(self._reference, happened["binding"], happened["lingers"])

    def finish(self, happened: Mapping[str, Any]) -> None:
        self._simulator.finish(self._reference, happened["binding"])


def unordered(values: Sequence[Mapping[str, Any]], key: str = "id", without: str = "") -> list[Mapping[str, Any]]:
    """Values that may come in any order, by one of their fields, and without one."""
    found = [{name: value for name, value in one.items() if name != without} for one in values]
    return sorted(found, key=lambda one: str(one[key]))

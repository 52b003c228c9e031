"""What the machines of a cluster write: heart-beats of all nodes, statuses of the pods they run, the end of others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

from tests.faults.history import Change
from tests.faults.recorder import Recorder
from tests.faults.writer import Away, Background, Writer
from tests.integration.gateway import NODES, PODS

BEAT = 5.0
"""Seconds between two heart-beats of a node."""
LOOK = 0.3
"""Seconds between two looks at the pods."""


class Kubelet(Background):
    """All nodes' agents, in one thread."""

    def __init__(self, url: str, recorder: Recorder, seed: int, *, collects: bool = True) -> None:
        """`collects`: whether pods of nodes that are gone are deleted, as Kubernetes' garbage collector does."""
        self._collects = collects
        self._rng = Random(f"kubelet {seed}")
        self._recorder = recorder
        self._writer = Writer(url)
        super().__init__("kubelet")
        self._looked: dict[str, int] = {}
        """Revision at which nothing was to be done for a pod."""
        self._nodes: set[str] = set()
        self.jobs_end = True
        """Whether some pods are done after a while."""
        self.beats = 0

    def _run(self) -> None:
        looks = 0
        while not self._stop.wait(LOOK):
            try:
                if looks % round(BEAT / LOOK) == 0:
                    self._beat()
                self._look()
            except Away:
                self._stop.wait(0.2)
            looks += 1

    def _beat(self) -> None:
        now = _now()
        for change in self._recorder.latest(NODES):
            node = _object(change)
            for condition in node["status"]["conditions"]:
                condition["lastHeartbeatTime"] = now
            self.beats += self._writer.replace(change, node)

    def _look(self) -> None:
        there = self._recorder.latest(PODS)
        nodes = {change.key[len(NODES) :] for change in self._recorder.latest(NODES)}
        if not self._nodes <= nodes:  # pods of those that went are looked at anew
            self._looked.clear()
        self._nodes = nodes
        for change in there:
            if self._looked.get(change.key) == change.mod_revision and self._rng.random() > 0.02:
                continue
            pod = _object(change)
            if not self._tend(change, pod, nodes):
                self._looked[change.key] = change.mod_revision

    def _tend(self, change: Change, pod: Any, nodes: set[str]) -> bool:
        """Whether there was something to do for the pod."""
        node, phase = pod["spec"].get("nodeName"), pod.get("status", {}).get("phase", "")
        if pod["metadata"].get("deletionTimestamp") or phase == "Succeeded":
            return self._writer.delete(change)
        if node and node not in nodes:
            return self._collects and self._writer.delete(change)
        if not node:
            return False
        if not phase:
            status = pod.setdefault("status", {})
            status |= {"phase": "Running", "startTime": _now(), "podIP": "10.0.0.1"}
            status.setdefault("conditions", []).append({"type": "Ready", "status": "True"})
            return self._writer.replace(change, pod)
        if self.jobs_end and "/bulk/" in change.key and self._rng.random() < 0.1:
            pod["status"]["phase"] = "Succeeded"
            return self._writer.replace(change, pod)
        return False


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(change: Change) -> Any:
    assert change.value is not None
    return json.loads(change.value)

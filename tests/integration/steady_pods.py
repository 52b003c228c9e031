"""Pods that come at a steady pace, and how long each waits for its node.

Times are those at which etcd's watch tells this process: of the put, and of the bind. On a machine that cannot keep the
pace none is put while many wait: a backlog that only grows would say nothing of a rollout, and those that wait have
their delay all the same.
"""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.integration.dev_tree import wait_until
from tests.integration.gateway import PODS, Gateway, pod

MARK = "/zzz-over"
BACKLOG = 1.0
"""Seconds of the pace that may wait before the next one is put."""
STANDSTILL = 10.0
"""Seconds for which a process may stand still on a machine that it shares, whatever is being tested."""
FEW = 0.02
"""Share of the pods that may wait for such a process."""


@dataclass
class SteadyPods:
    """Puts pods of one namespace from a thread of its own until it is told to stop."""

    url: str
    namespace: str
    rate: float
    """Pods a second."""
    labels: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    """Put so far."""
    put: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    """Pod -> when etcd told of it, by this process's clock."""

    @property
    def delays(self) -> dict[str, float]:
        """Pod -> seconds from its put to its bind."""
        bound = dict(self.bound)  # taken in before `put`, whom another thread may add to
        return {name: when - self.put[name] for name, when in bound.items()}

    @property
    def slowest(self) -> tuple[str, float]:
        """Who waited longest until now, and how many seconds."""
        return max(self.delays.items(), key=lambda one: one[1])

    def had_nodes_within(self, seconds: float) -> None:
        """Fails unless they had: all but the few that waited for a process that stood still, and these soon after."""
        late = {name: delay for name, delay in self.delays.items() if delay > seconds}
        assert len(late) <= FEW * self.count, (seconds, late)
        assert self.slowest[1] <= seconds + STANDSTILL, (seconds, late)

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Pods come during the block; after it none is put, and at most a minute is left for those that wait."""
        stop = threading.Event()
        revision = Gateway(self.url).revision() + 1
        watching = threading.Thread(target=self._watch, args=(revision,), daemon=True)
        putting = threading.Thread(target=self._put, args=(stop,), daemon=True)
        watching.start()
        putting.start()
        try:
            yield
            stop.set()
            putting.join(30)
            wait_until(lambda: len(self.bound) == self.count, 60, "every pod has a node")
        finally:
            stop.set()
            putting.join(30)
            Gateway(self.url).put(f"{PODS}{self.namespace}{MARK}", "{}")
            watching.join(30)
            Gateway(self.url).delete(f"{PODS}{self.namespace}{MARK}")

    def _put(self, stop: threading.Event) -> None:
        etcd, due = Gateway(self.url), time.monotonic()
        while not stop.wait(max(due - time.monotonic(), 0)):
            due = max(due + 1 / self.rate, time.monotonic() - 1)
            if self.count - len(self.bound) > self.rate * BACKLOG:
                continue
            name = f"s{self.count:04}"
            etcd.put(f"{PODS}{self.namespace}/{name}", pod(name, namespace=self.namespace, labels=dict(self.labels)))
            self.count += 1

    def _watch(self, revision: int) -> None:
        prefix = f"{PODS}{self.namespace}/".encode()
        request = {
            "create_request": {
                "key": base64.b64encode(prefix).decode(),
                "range_end": base64.b64encode(prefix[:-1] + b"0").decode(),
                "start_revision": str(revision),
            }
        }
        connection = http.client.HTTPConnection(Gateway(self.url).host, timeout=600)
        connection.request("POST", "/v3/watch", json.dumps(request))
        answer = connection.getresponse()
        while line := answer.readline():
            now = time.monotonic()
            for event in json.loads(line)["result"].get("events", ()):
                key = base64.b64decode(event["kv"]["key"]).decode()
                if key.endswith(MARK):
                    connection.close()
                    return
                if event.get("type") == "DELETE":
                    continue
                name = key.rsplit("/", 1)[1]
                self.put.setdefault(name, now)
                if json.loads(base64.b64decode(event["kv"]["value"]))["spec"].get("nodeName"):
                    self.bound.setdefault(name, now)

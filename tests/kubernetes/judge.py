"""What a Kubernetes API shows of the binds of its pods, revision by revision, and whether that is right.

`PodHistory` records one watch of all pods with the standard library, so that a mistake of our own client cannot hide
itself. The functions below it judge what was recorded. Neighbours: `site` runs the servers, `settled` judges the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple

from tests.apiserver.api_server_process import ApiServerProcess
from tests.patience import patient
from wharfinger.objects.documents.metadata import attempt_of

PODS = "/api/v1/pods"
GONE = 410
CPU_OF_POD = 250
"""Thousandths of a CPU, unless a test says otherwise."""


class SeenPod(NamedTuple):
    """One pod at one revision."""

    revision: int
    uid: str
    name: str
    node: str
    """Empty = it is not bound."""
    attempt: str
    """`<workflow id>@<run id>` of what bound it; empty = another scheduler did, or nothing has."""
    cpu: int
    """Thousandths."""
    deleted: bool = False
    at: float = 0.0
    """`time.monotonic()` when it was seen."""


def seen(pod: Mapping[str, Any], *, deleted: bool = False, at: float = 0.0) -> SeenPod:
    """A pod as the API printed it."""
    metadata, spec = pod["metadata"], pod["spec"]
    requests = [one.get("resources", {}).get("requests", {}).get("cpu", "0") for one in spec["containers"]]
    node = spec.get("nodeName", "")
    revision, cpu = int(metadata["resourceVersion"]), sum(map(thousandths, requests))
    return SeenPod(revision, metadata["uid"], metadata["name"], node, attempt_of(pod), cpu, deleted, at)


def thousandths(quantity: str) -> int:
    """`4` and `250m` as thousandths of a CPU."""
    return int(quantity[:-1]) if quantity.endswith("m") else int(quantity) * 1000


class PodHistory:
    """One watch of all pods, from its beginning on; resumed where it was when the server ends it, or ends itself."""

    def __init__(self, api: ApiServerProcess) -> None:
        """The API server is up."""
        self._api = api
        self._ended = threading.Event()
        self._response: HTTPResponse | None = None
        self._revision = 0
        self._now: dict[str, SeenPod] = {}
        self.events: list[SeenPod] = []
        self.lists = 0
        """How often the history has a gap, because what came in between was not kept any more."""
        self._list()
        self._thread = threading.Thread(target=self._follow, name="pod history", daemon=True)
        self._thread.start()

    @property
    def now(self) -> dict[str, SeenPod]:
        """The pods that there are, by name, as far as was seen."""
        return {pod.name: pod for pod in list(self._now.values())}

    @property
    def unbound(self) -> list[str]:
        """The pods that are not bound, as far as was seen: a look that costs the API server nothing."""
        return [pod.name for pod in list(self._now.values()) if not pod.node]

    @property
    def bound(self) -> int:
        """How many pods are bound, as far as was seen."""
        return sum(1 for pod in list(self._now.values()) if pod.node)

    def close(self) -> None:
        """End the watch."""
        self._ended.set()
        if self._response is not None:
            with contextlib.suppress(OSError, ValueError), socket.socket(fileno=os.dup(self._response.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
        self._thread.join(patient(20))

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                self._watch()
            except urllib.error.HTTPError as error:
                if error.code == GONE:
                    self._relist()
            except (OSError, HTTPException, ValueError):
                self._ended.wait(0.05)  # the server is away; a watch that was idle for long is opened anew, too

    def _watch(self) -> None:
        path = f"{PODS}?watch=true&allowWatchBookmarks=true&resourceVersion={self._revision}"
        with self._api.open("GET", path) as response:
            self._response = response
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    if event["object"].get("code") == GONE:
                        self._relist()
                    return
                self._revision = int(event["object"]["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK":
                    deleted = event["type"] == "DELETED"
                    self._take(seen(event["object"], deleted=deleted, at=time.monotonic()))

    def _relist(self) -> None:
        with contextlib.suppress(OSError, HTTPException, ValueError, AssertionError):
            self._list()
            self.lists += 1

    def _list(self) -> None:
        answer = self._api.request("GET", PODS)
        assert answer.code == 200, answer
        revision, now = int(answer.body["metadata"]["resourceVersion"]), time.monotonic()
        found = {pod.uid: pod for pod in (seen(one, at=now) for one in answer.body["items"])}
        for gone in [pod for uid, pod in self._now.items() if uid not in found]:
            self._take(gone._replace(revision=revision, deleted=True, at=now))
        for pod in sorted(found.values()):
            if self._now.get(pod.uid, pod._replace(revision=0)).revision < pod.revision:
                self._take(pod)
        self._revision = revision

    def _take(self, pod: SeenPod) -> None:
        self.events.append(pod)
        if pod.deleted:
            self._now.pop(pod.uid, None)
        else:
            self._now[pod.uid] = pod


def bound_twice(events: Iterable[SeenPod]) -> list[str]:
    """Pods whose node, or what bound them, changed after they had been bound: one line each."""
    first: dict[str, SeenPod] = {}
    found = []
    for pod in events:
        before = first.get(pod.uid)
        if before is not None and not pod.deleted and (pod.node, pod.attempt) != (before.node, before.attempt):
            found.append(f"{pod.name} at {pod.revision}: on {before.node!r} by {before.attempt!r}, then {pod.node!r}")
        if before is None and pod.node:
            first[pod.uid] = pod
    return found


def overcommitted(events: Iterable[SeenPod], room: Mapping[str, int], *, ours_only: bool = False) -> list[str]:
    """Nodes whose pods asked for more than there is, at any revision: one line each time.

    `room`: thousandths of a CPU by node. `ours_only`: count no pods that another scheduler bound.
    """
    where: dict[str, SeenPod] = {}
    used: Counter[str] = Counter()
    found = []
    for pod in events:
        if (before := where.pop(pod.uid, None)) is not None:
            used[before.node] -= before.cpu
        if pod.deleted or not pod.node or (ours_only and not pod.attempt):
            continue
        where[pod.uid] = pod
        used[pod.node] += pod.cpu
        if used[pod.node] > room.get(pod.node, 0) and before is None:
            found.append(f"{pod.node} at {pod.revision}: {used[pod.node]}m of {room.get(pod.node, 0)}m")
    return found


def binds(events: Iterable[SeenPod]) -> list[SeenPod]:
    """The first state of each pod that is bound, in the order of their revisions."""
    first: dict[str, SeenPod] = {}
    for pod in events:
        if pod.node and not pod.deleted:
            first.setdefault(pod.uid, pod)
    return sorted(first.values())


def turns(events: Iterable[SeenPod], installations: Collection[str] = ()) -> list[str]:
    """Who bound, in order, each once a turn: the installation's name, `wharfinger` without names, or `another`."""
    found: list[str] = []
    for pod in binds(events):
        cluster = pod.attempt.partition("/")[0]
        who = "another" if not pod.attempt else cluster if cluster in installations else "wharfinger"
        if not found or found[-1] != who:
            found.append(who)
    return found


def problems(events: Sequence[SeenPod], room: Mapping[str, int], *, alone: bool = True) -> list[str]:
    """Everything that is wrong. `alone`: no other scheduler binds, so each bind has our annotation."""
    foreign = [f"{pod.name} was bound by another scheduler" for pod in binds(events) if not pod.attempt]
    return [*bound_twice(events), *overcommitted(events, room, ours_only=not alone), *(foreign if alone else ())]

"""Another client of etcd: plain HTTP to its JSON gateway, none of wharfinger's code.

The tests put objects and judge the outcome through this, so that a mistake of our adapter cannot hide
itself. Also the audit: what etcd's own revision history says of every bind.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import http.client
import itertools
import json
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import patient
from wharfinger.testing import node_manifest, pod_manifest

PODS = "/registry/pods/"
NODES = "/registry/nodes/"
TENANTS = "/registry/wharfinger.dev/tenants/"
ATTEMPTS = "/registry/wharfinger.dev/attempts/"
SECONDS = patient(30)
"""For an answer: an etcd that stands still for a while is not one that is gone."""


_ages = itertools.count()
_age = next(_ages)


def new_age() -> None:
    """Pods made from now on have other uids than those of the same names before, as in any real cluster."""
    global _age  # noqa: PLW0603 - one count for all tests
    _age = next(_ages)


def uid_of(namespace: str, name: str) -> str:
    """What `pod` gives to a pod of this name now."""
    return f"uid-{namespace}-{name}-{_age}"


def _b64(data: str | bytes) -> str:
    return base64.b64encode(data.encode(errors="surrogateescape") if isinstance(data, str) else data).decode()


def _range_end(prefix: str) -> str:
    raw = prefix.encode()
    return base64.b64encode(raw[:-1] + bytes([raw[-1] + 1])).decode()


@dataclass
class _Read:
    """What was read of a prefix, and up to which revision."""

    values: dict[str, bytes] = field(default_factory=dict)
    revision: int = 0
    server: tuple[str, str] | None = None
    """The cluster and the member that answered."""


class Gateway:
    """One connection to one etcd; reconnects when the server was replaced."""

    def __init__(self, url: str, timeout: float = SECONDS, passwords: Path | None = None) -> None:
        """`timeout`: seconds without a response. `passwords`: the folder with those of its users, where it has any."""
        self.host = urllib.parse.urlsplit(url).netloc
        self._timeout = timeout
        self._passwords = passwords
        self._headers: dict[str, str] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._read: dict[str, _Read] = {}

    def call(self, path: str, body: Mapping[str, Any]) -> Any:
        payload = json.dumps(body)
        for attempt in (1, 2):
            connection = self._connection or http.client.HTTPConnection(self.host, timeout=self._timeout)
            self._connection = connection
            try:
                connection.request("POST", "/v3" + path, payload, self._headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._connection = None
                # What is only late may have been done, and done once more it would unbind a pod.
                if attempt == 2 or isinstance(error, TimeoutError):
                    raise
                continue
            if self._passwords is not None and attempt == 1 and answer.status in (400, 401):
                said = {"name": "root", "password": (self._passwords / "root").read_text().strip()}
                login = Gateway(f"http://{self.host}", self._timeout)
                self._headers = {"Authorization": login.call("/auth/authenticate", said)["token"]}
                continue
            if answer.status != 200:
                raise RuntimeError(text.decode(errors="replace")[:300])
            return json.loads(text)
        raise AssertionError

    def put(self, key: str | bytes, value: Mapping[str, Any] | bytes | str) -> int:
        raw = json.dumps(value) if isinstance(value, Mapping) else value
        return int(self.call("/kv/put", {"key": _b64(key), "value": _b64(raw)})["header"]["revision"])

    def put_all(self, objects: Mapping[str, Mapping[str, Any] | bytes]) -> int:
        """Write them in one transaction."""
        raws = {key: json.dumps(one) if isinstance(one, Mapping) else one for key, one in objects.items()}
        puts = [{"requestPut": {"key": _b64(key), "value": _b64(raw)}} for key, raw in raws.items()]
        return int(self.call("/kv/txn", {"success": puts})["header"]["revision"])

    def get(self, key: str) -> Any:
        kvs = self.call("/kv/range", {"key": _b64(key)}).get("kvs", [])
        return json.loads(base64.b64decode(kvs[0]["value"])) if kvs else None

    def delete(self, key: str) -> None:
        self.call("/kv/deleterange", {"key": _b64(key)})

    def revision(self) -> int:
        return int(self.call("/kv/range", {"key": _b64("/none")})["header"]["revision"])

    def values(self, prefix: str) -> dict[str, bytes]:
        """Key to value of everything under the prefix.

        Tests that wait ask again and again: only what changed since is sent, unless something was deleted as well.
        """
        read = self._read.get(prefix)
        if read is None or not self._catch_up(prefix, read):
            read = self._read[prefix] = _Read()
            self._catch_up(prefix, read)
        return dict(sorted(read.values.items()))

    def _catch_up(self, prefix: str, read: _Read) -> bool:
        """Take in what changed; whether the copy is whole."""
        wanted = {"key": _b64(prefix), "range_end": _range_end(prefix), "min_mod_revision": str(read.revision + 1)}
        answer = self.call("/kv/range", wanted)
        header = answer["header"]
        server, revision = (header["cluster_id"], header["member_id"]), int(header["revision"])
        if read.server not in (None, server) or revision < read.revision:
            return False  # another etcd, or an older copy of it
        for kv in answer.get("kvs", []):
            key = base64.b64decode(kv["key"]).decode(errors="surrogateescape")
            read.values[key] = base64.b64decode(kv.get("value", ""))
        read.server, read.revision = server, revision
        return len(read.values) == int(answer.get("count", 0))

    def objects(self, prefix: str) -> dict[str, Any]:
        """Key to decoded object of everything under the prefix that is a JSON object."""
        found = {}
        for key, value in self.values(prefix).items():
            with contextlib.suppress(ValueError):
                decoded = json.loads(value)
                if isinstance(decoded, dict):
                    found[key] = decoded
        return found

    def history(self, prefix: str, first: int, last: int) -> Iterable[tuple[int, str, bytes | None]]:
        """Every change under the prefix from revision `first` to `last`: (revision, key, value or None)."""
        connection = http.client.HTTPConnection(self.host, timeout=SECONDS)
        request = {
            "create_request": {
                "key": _b64(prefix),
                "range_end": _range_end(prefix),
                "start_revision": str(first),
                "progress_notify": True,
            }
        }
        # A key of our own, written behind everything, says when the history is complete.
        last = max(last, self.put(prefix + "zzz-audit/mark", "{}"))
        self.delete(prefix + "zzz-audit/mark")
        connection.request("POST", "/v3/watch", json.dumps(request))
        answer = connection.getresponse()
        try:
            while True:
                message = json.loads(answer.readline())["result"]
                assert not message.get("canceled"), message
                for event in message.get("events", ()):
                    kv = event["kv"]
                    revision = int(kv["mod_revision"])
                    key = base64.b64decode(kv["key"]).decode(errors="surrogateescape")
                    if revision >= last:
                        return
                    deleted = event.get("type") == "DELETE"
                    yield revision, key, None if deleted else base64.b64decode(kv.get("value", ""))
        finally:
            connection.close()


@dataclass
class Verdict:
    """What etcd's history says."""

    bound: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    doubled: list[str] = field(default_factory=list)
    overcommitted: list[str] = field(default_factory=list)


def _cpu(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else int(float(quantity) * 1000)


def audit(gateway: Gateway, first: int) -> Verdict:
    """Judge every revision since `first`: nodeName set once in a pod's life, no node beyond its room.

    Looks at cpu and the number of pods, which is what these tests make scarce.
    """
    verdict = Verdict()
    room: dict[str, tuple[int, int]] = {}
    where: dict[str, tuple[str, int]] = {}
    used: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for key, value in gateway.objects(NODES).items():
        allocatable = value.get("status", {}).get("allocatable", {})
        if isinstance(allocatable, dict) and "cpu" in allocatable:
            room[key[len(NODES) :]] = (_cpu(allocatable["cpu"]), int(allocatable.get("pods", 0)))
    for revision, key, raw in gateway.history(PODS, first, gateway.revision()):
        node_before, cpu_before = where.pop(key, ("", 0))
        if node_before:
            used[node_before] -= cpu_before
            count[node_before] -= 1
        if raw is None:
            verdict.pending.discard(key)
            continue
        try:
            pod = json.loads(raw)
            node = pod["spec"].get("nodeName", "")
            cpu = sum(
                _cpu(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"]
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if node_before and node != node_before:
            verdict.doubled.append(f"{key} moved from {node_before} to {node!r} at {revision}")
        if not node:
            verdict.pending.add(key)
            continue
        verdict.pending.discard(key)
        verdict.bound.add(key)
        where[key] = (node, cpu)
        used[node] += cpu
        count[node] += 1
        limit_cpu, limit_pods = room.get(node, (1 << 60, 1 << 30))
        if used[node] > limit_cpu or count[node] > limit_pods:
            verdict.overcommitted.append(f"{node} at {revision}: {used[node]}m of {limit_cpu}m, {count[node]} pods")
    return verdict


def node(name: str, cpu: str = "4", memory: str = "32Gi", pods: int = 110, **spec: Any) -> dict[str, Any]:
    """A node object."""
    return node_manifest(name, cpu, memory, pods, **spec)


def pod(name: str, cpu: str = "100m", memory: str = "100Mi", namespace: str = "default", **more: Any) -> dict[str, Any]:
    """A pod object; `labels` go to its metadata, everything else to its spec."""
    return pod_manifest(name, cpu, memory, namespace=namespace, metadata={"uid": uid_of(namespace, name)}, **more)


def bound_pods(gateway: Gateway, namespace: str = "default") -> dict[str, str]:
    """Pod name to node name of all bound pods of a namespace."""
    found = {}
    for key, value in gateway.objects(f"{PODS}{namespace}/").items():
        name = (value.get("spec") or {}).get("nodeName")
        if name:
            found[key.rsplit("/", 1)[1]] = name
    return found


def refusal(gateway: Gateway, name: str, namespace: str = "default") -> dict[str, Any]:
    """The record of the attempt that found no node for a pod; empty without one, or when it failed otherwise."""
    record: dict[str, Any] = gateway.get(f"{ATTEMPTS}{namespace}/{name}") or {}
    return record if record.get("reason") == "Unschedulable" else {}


def refusals(gateway: Gateway, prefix: str = ATTEMPTS) -> list[dict[str, Any]]:
    """The records of all such attempts: what waits with one of these is tried again only when it is woken."""
    return [record for record in gateway.objects(prefix).values() if record.get("reason") == "Unschedulable"]


def condition(pod_object: dict[str, Any] | None) -> dict[str, Any]:
    """The pod's PodScheduled condition; empty without one."""
    conditions = ((pod_object or {}).get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == "PodScheduled"), {})

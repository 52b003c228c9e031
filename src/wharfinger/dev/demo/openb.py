"""The openb cluster as Kubernetes objects, also in a file of manifests; its README has the origin of the figures."""

from __future__ import annotations

import csv
import gzip
import itertools
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import orjson

from wharfinger.dev.binaries import examples
from wharfinger.dev.progress import progress_for
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.documents.yaml_text import to_yaml

NAMESPACE = "openb"
GPU = "example.com/gpu-milli"
GPU_MODEL = "gpu-model"
PODS_A_NODE = 256
PRIORITY = {"LS": 2000, "Guaranteed": 2000, "Burstable": 1000, "BE": 0}
TOTAL = 8152
"""Pods in the trace."""
NODES = 1523

_UIDS = uuid.uuid5(uuid.NAMESPACE_URL, "https://wharfinger.dev/examples/openb")


def nodes(*, created: str) -> Iterator[dict[str, Any]]:
    """All 1,523 nodes; `created` is their RFC 3339 time of creation."""
    with (examples() / "openb" / "nodes.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield _node(row, created)


def pods(count: int = TOTAL, *, created: str) -> Iterator[dict[str, Any]]:
    """The first `count` pods of the trace, in its order."""
    with gzip.open(examples() / "openb" / "pods.csv.gz", "rt", newline="", encoding="utf-8") as file:
        for row in itertools.islice(csv.DictReader(file), count):
            yield _pod(row, created)


def _node(row: Mapping[str, str], created: str) -> dict[str, Any]:
    name, model, gpus = row["sn"], row["model"], int(row["gpu"])
    capacity = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi", "pods": str(PODS_A_NODE)}
    if gpus:
        capacity[GPU] = str(gpus * 1000)
    labels = {"kubernetes.io/hostname": name} | ({GPU_MODEL: model} if model else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(name, created) | {"labels": labels},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(row: Mapping[str, str], created: str) -> dict[str, Any]:
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    if gpu := int(row["num_gpu"]) * int(row["gpu_milli"]):
        requests[GPU] = str(gpu)
    resources = {"requests": requests}
    if gpu:
        resources["limits"] = {GPU: str(gpu)}  # an extended resource has no request without its limit
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "openb", "resources": resources}],
        "priority": PRIORITY[row["qos"]],
        "preemptionPolicy": "Never",
    }
    if row["gpu_spec"]:
        wanted = {"key": GPU_MODEL, "operator": "In", "values": row["gpu_spec"].split("|")}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, **_metadata(row["name"], created)},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _metadata(name: str, created: str) -> dict[str, Any]:
    return {"name": name, "uid": str(uuid.uuid5(_UIDS, name)), "creationTimestamp": created}


def write(path: Path, count: int) -> None:
    """Write all nodes and the first `count` pods: a `.json` file as one List, else YAML documents; `-` is stdout."""
    created = rfc3339_now()
    objects = itertools.chain(nodes(created=created), pods(count, created=created))
    if str(path) == "-":
        _documents(objects, sys.stdout)
    elif path.suffix == ".json":
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        path.write_bytes(orjson.dumps(listed, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        with (
            path.open("w", encoding="utf-8") as file,
            progress_for(sys.stderr).counting("writing", NODES + count) as done,
        ):
            _documents(objects, file, done)


def _documents(objects: Iterator[dict[str, Any]], file: TextIO, done: Callable[[int], None] = lambda _: None) -> None:
    for number, obj in enumerate(objects, start=1):
        file.write("---\n" + to_yaml(obj))
        done(number)

"""The recorded scenarios, and a simulator set up as each of them says; see `data/README.md`."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from wharfinger.errors import UsageError
from wharfinger.programs.cli.feature_gates import check_gates
from wharfinger.whatif.simulator.simulator import Simulator

DATA = Path(__file__).parent / "data"
CONFIG_VERSION = "kubescheduler.config.k8s.io/v1"
KINDS = (
    ("nodes", "Node", "v1"),
    ("namespaces", "Namespace", "v1"),
    ("services", "Service", "v1"),
    ("poddisruptionbudgets", "PodDisruptionBudget", "policy/v1"),
)
KIND_OF = {"pods": ("Pod", "v1"), **{plural: (kind, version) for plural, kind, version in KINDS}}
"""Kind and version of an object that changes, by its plural."""
REQUEUE = "requeue"
"""The family whose pods wait, and are tried again."""


def families() -> list[str]:
    """Every family there is a file of."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))


def scenarios(*of: str) -> Iterator[Any]:
    """The scenarios of some families, as parameters of a test."""
    for family in of:
        with gzip.open(DATA / f"{family}.jsonl.gz") as lines:
            for line in lines:
                scenario = orjson.loads(line)
                yield pytest.param(scenario, id=f"{family}-{scenario['seed']}")


def set_up(scenario: dict[str, Any]) -> Simulator:
    """Everything but the pods that are decided. A gate that cannot be had here raises `UsageError`."""
    gates_of(scenario)
    simulator = Simulator(configuration(scenario.get("profile", {})))
    for plural, kind, version in KINDS:
        for fields in scenario.get(plural, ()):
            simulator.add(as_object(kind, fields, version))
    for fields in scenario.get("bound", ()):
        simulator.add(as_object("Pod", fields))
    return simulator


def gates_of(scenario: Mapping[str, Any]) -> dict[str, bool]:
    """The feature gates that were set. Raises `UsageError` where one cannot be set so here."""
    return check_gates([f"{name}={str(value).lower()}" for name, value in scenario.get("gates", {}).items()])


def changes_before(scenario: Mapping[str, Any], pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What happened to the cluster just before a pod was fed, in order."""
    return [change for change in scenario.get("changes", ()) if change["before"] == pod["metadata"]["name"]]


def changed_object(change: Mapping[str, Any]) -> dict[str, Any]:
    """The whole object of a change; of a deleted one only kind, namespace and name count."""
    kind, version = KIND_OF[change["kind"]]
    return as_object(kind, change["object"], version)


def make_change(simulator: Simulator, change: Mapping[str, Any]) -> None:
    """Put or delete the object. A pod that was refused is gone already."""
    obj = changed_object(change)
    if change["op"] == "put":
        simulator.update(obj)
        return
    namespace, name = key_of(obj)
    with suppress(UsageError):
        simulator.delete(obj["kind"], name, namespace)


def configuration(profile: dict[str, Any]) -> dict[str, Any]:
    """A whole configuration with this one profile."""
    plugins = [
        {"name": one["name"], "args": {"apiVersion": CONFIG_VERSION, "kind": f"{one['name']}Args", **one["args"]}}
        for one in profile.get("pluginConfig", ())
    ]
    return {
        "apiVersion": CONFIG_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **profile, "pluginConfig": plugins}],
    }


def as_object(kind: str, fields: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    """A recorded object with what was left out of it."""
    return {"apiVersion": version, "kind": kind, **fields}


def key_of(fields: dict[str, Any]) -> tuple[str, str]:
    """Namespace and name."""
    return fields["metadata"].get("namespace", "default"), fields["metadata"]["name"]


# --- how decisions are compared -------------------------------------------------------------------

DYNAMIC_RESOURCES = "no new claims to deallocate, "
"""What a plugin that we do not have adds to every refusal."""


def parts(message: str) -> tuple[str, str]:
    """Why no node is feasible, and why preemption does not help."""
    reasons, _, preemption = message.partition(". ")
    return reasons.rstrip("."), preemption.removeprefix(DYNAMIC_RESOURCES).rstrip(".")


def totals(expected: dict[str, Any]) -> dict[str, int]:
    """The score of each feasible node, where there were several."""
    return {node: sum(scores.values()) for node, scores in expected.get("scores", {}).items()}


def best(expected: dict[str, Any]) -> list[str]:
    """The nodes that kube-scheduler chose from in the end."""
    found = totals(expected)
    most = max(found.values(), default=0)
    return [node for node, total in found.items() if total == most] or [expected["node"]]

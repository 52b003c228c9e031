"""The recorded objects as a real API server takes them.

A recording has what decisions read, and no more. An API server asks for more, and sets some of it itself:

- `priority` comes from a PriorityClass, and `overhead` from a RuntimeClass: both are made for each value;
- a Service needs a port; the status of a pod and of a PodDisruptionBudget is written after the object;
- it gives uids, revisions and times of creation.

Nothing of this changes what is decided. Pure; `recorded_scene` writes the objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from tests.conformance.scenarios import configuration
from wharfinger.apiserver import client

Fields = Mapping[str, Any]
"""Of an object, as JSON."""
Scenario = Mapping[str, Any]

RUNTIME_CLASSES = client.ApiResource("node.k8s.io", "v1", "runtimeclasses", namespaced=False)
DEFAULT_SCHEDULER = "default-scheduler"
BACKOFF = 1
"""Seconds, of first and of later attempts: no back-off delayed an attempt where it was recorded."""
_GIVEN = ("uid", "resourceVersion", "creationTimestamp")
"""Of an object's metadata: these are the server's."""


def metadata(fields: Fields) -> dict[str, Any]:
    """An object's metadata, without what the server sets."""
    return {name: value for name, value in fields["metadata"].items() if name not in _GIVEN}


def node(fields: Fields) -> dict[str, Any]:
    """A node; its status is taken over when it is created."""
    return {"metadata": metadata(fields), "spec": fields.get("spec", {}), "status": fields.get("status", {})}


def service(fields: Fields) -> dict[str, Any]:
    """A Service with a port."""
    return {"metadata": metadata(fields), "spec": {**fields["spec"], "ports": [{"port": 80}]}}


def pod(fields: Fields, scheduler: str, name: str = "", on: str = "") -> dict[str, Any]:
    """A pod of a scheduler; `name`: another name than the recorded one; `on`: the node that it is bound to."""
    spec = {field: value for field, value in fields["spec"].items() if field not in ("priority", "preemptionPolicy")}
    if found := priority_class(fields):
        spec["priorityClassName"] = found["metadata"]["name"]
    if runtime := runtime_class(fields):
        spec["runtimeClassName"] = runtime["metadata"]["name"]
    spec |= {"schedulerName": scheduler, **({"nodeName": on} if on else {})}
    if spec.get("nodeName"):
        spec = _without_replaced(spec)
    return {"metadata": metadata(fields) | ({"name": name} if name else {}), "spec": spec}


def _without_replaced(spec: dict[str, Any]) -> dict[str, Any]:
    """A bound pod's containers without the requests that pod-level ones replace: these may not be less to an API."""
    replaced = spec.get("resources", {}).get("requests", {})
    parts = [part for part in ("containers", "initContainers") if replaced and part in spec]
    return spec | {part: [_less(container, replaced) for container in spec[part]] for part in parts}


def _less(container: dict[str, Any], replaced: Fields) -> dict[str, Any]:
    requests = container.get("resources", {}).get("requests", {})
    return container | {"resources": {"requests": {name: requests[name] for name in requests if name not in replaced}}}


def priority_class(fields: Fields) -> dict[str, Any] | None:
    """The PriorityClass that gives a pod its priority and preemption policy; None where it has the usual ones."""
    value, policy = fields["spec"].get("priority", 0), fields["spec"].get("preemptionPolicy", "PreemptLowerPriority")
    if value == 0 and policy == "PreemptLowerPriority":
        return None
    name = f"recorded-{'m' if value < 0 else ''}{abs(value)}-{policy.lower()}"
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}


def runtime_class(fields: Fields) -> dict[str, Any] | None:
    """The RuntimeClass that gives a pod its overhead; None where it has none."""
    overhead = fields["spec"].get("overhead")
    if not overhead:
        return None
    digest = blake2b(json.dumps(overhead, sort_keys=True).encode(), digest_size=4).hexdigest()
    return {"metadata": {"name": f"recorded-{digest}"}, "handler": "recorded", "overhead": {"podFixed": overhead}}


def pods_of(scenario: Scenario) -> list[Fields]:
    """Every pod that a scenario creates, also those of later changes."""
    changes = [*scenario.get("changes", ()), *scenario.get("events", ())]
    put = [change["object"] for change in changes if (change["op"], change["kind"]) == ("put", "pods")]
    return [*scenario["pods"], *scenario.get("bound", ()), *put]


def classes_of(scenario: Scenario) -> list[tuple[client.ApiResource, dict[str, Any]]]:
    """The PriorityClasses and RuntimeClasses of a scenario's pods, each once."""
    found: dict[str, tuple[client.ApiResource, dict[str, Any]]] = {}
    for fields in pods_of(scenario):
        for resource, body in (
            (client.PRIORITY_CLASSES, priority_class(fields)),
            (RUNTIME_CLASSES, runtime_class(fields)),
        ):
            if body is not None:
                found[resource.plural + body["metadata"]["name"]] = resource, body
    return list(found.values())


# --- configurations -------------------------------------------------------------------------------


def scheduler_names(scenarios: Iterable[Scenario]) -> dict[str, str]:
    """One scheduler name for each recorded profile, by the profile's JSON: of all scenarios that one process decides.

    The name is nothing that decisions read. The usual profile has the usual name.
    """
    names = {profile_key({}): DEFAULT_SCHEDULER}
    for scenario in scenarios:
        names.setdefault(profile_key(scenario.get("profile", {})), f"recorded-{len(names)}")
    return names


def profile_key(profile: Fields) -> str:
    """A profile as text, to compare it."""
    return json.dumps(profile, sort_keys=True)


def one_configuration(names: Mapping[str, str]) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with all of these profiles."""
    profiles = [
        {**configuration(json.loads(profile))["profiles"][0], "schedulerName": name} for profile, name in names.items()
    ]
    return whole_configuration(profiles)


def whole_configuration(profiles: Sequence[Fields]) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with these profiles and the shortest back-off."""
    base = {**configuration({}), "profiles": list(profiles)}
    return {**base, "podInitialBackoffSeconds": BACKOFF, "podMaxBackoffSeconds": BACKOFF}

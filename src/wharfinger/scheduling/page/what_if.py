"""*What if* as a form: a pod's request, labels, tolerations or priority, a node's labels or taints, or weights are
changed in thought, and it is decided twice: as things are, and as they would be. Nothing is changed anywhere.

The form has values only. It names no modules, no files and no plugins that the configuration does not have already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from wharfinger.errors import InvalidConfiguration
from wharfinger.framework.config.dynamic import ProfileValue
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import overlay_configuration
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.checks.metadata import check_labels
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.resources import check_container_resource
from wharfinger.objects.documents.checks.scheduling import check_taints, check_tolerations
from wharfinger.objects.model.node import CPU, MEMORY, Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.quantities import NANO, NANO_PER_MILLI, parse_quantity, round_up
from wharfinger.objects.model.selectors import Taint, Toleration
from wharfinger.page.follow.plain import text
from wharfinger.page.web.forms import read_form
from wharfinger.page.web.inputs import BadInput
from wharfinger.scheduling.page.deciding import PresentState

MOST_ENTRIES = 20
RANKED = 10
MOST_NODES_TOLD = 20

_Key = Annotated[str, Field(min_length=1, max_length=317)]
_Value = Annotated[str, Field(max_length=63)]
_Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class TaintForm(_Part):
    """A taint of a node."""

    key: _Key
    value: _Value = ""
    effect: _Effect = "NoSchedule"


class TolerationForm(_Part):
    """A toleration; an empty value tolerates every one, an empty effect every effect."""

    key: _Key
    value: _Value = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class NodeForm(_Part):
    """What is supposed of one node."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    labels: dict[_Key, _Value | None] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    """None takes a label away."""
    addTaints: tuple[TaintForm, ...] = Field(default=(), max_length=MOST_ENTRIES)  # noqa: N815 - as in the JSON
    removeTaints: tuple[_Key, ...] = Field(default=(), max_length=MOST_ENTRIES)  # noqa: N815
    cordoned: bool | None = None


class WhatIfForm(_Part):
    """Everything that is supposed."""

    requests: dict[_Key, Annotated[str, Field(max_length=40)]] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    """By resource, as Kubernetes writes quantities; `0` takes a request away."""
    labels: dict[_Key, _Value | None] = Field(default_factory=dict, max_length=MOST_ENTRIES)
    nodeSelector: dict[_Key, _Value | None] = Field(default_factory=dict, max_length=MOST_ENTRIES)  # noqa: N815
    tolerations: tuple[TolerationForm, ...] = Field(default=(), max_length=MOST_ENTRIES)
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    nodes: tuple[NodeForm, ...] = Field(default=(), max_length=MOST_ENTRIES)
    weights: dict[_Key, Annotated[int, Field(ge=1, le=100)]] = Field(default_factory=dict, max_length=50)
    """By score plugin of the pod's profile."""

    @property
    def empty(self) -> bool:
        """Whether nothing is supposed."""
        return self == WhatIfForm()


def form_of(body: bytes) -> WhatIfForm:
    """Read a form. Raises `BadInput`, which says where it is wrong."""
    form = read_form(WhatIfForm, body)
    problems = _problems(form)
    if problems:
        raise BadInput(text(problems[0]))
    return form


def _problems(form: WhatIfForm) -> list[str]:
    """What an API server would refuse of a pod or node that is changed so."""
    supposed = form.model_dump()
    for toleration in supposed["tolerations"]:
        toleration["operator"] = "Equal" if toleration["value"] else "Exists"
    place = FieldPlace.whole(documents.parse(documents.to_json(supposed)))
    check_labels(place["labels"])
    check_labels(place["nodeSelector"])
    check_tolerations(place["tolerations"])
    for name, amount in place["requests"].pairs():
        check_container_resource(name, amount)
    for node in place["nodes"].entries():
        check_labels(node["labels"])
        check_taints(node["addTaints"])
    return place.problems


def what_if(stage: PresentState, pod: Pod, form: WhatIfForm) -> dict[str, Any]:
    """Decide as things are, and as they would be. Raises `BadInput`, `ConfigurationError`, `PluginError`."""
    pod = replace(pod.unbound(), deletion_timestamp="", phase="")
    snapshot = _without(stage.snapshot, pod)
    profile = stage.profile(pod)
    supposed_pod = _pod(pod, form)
    supposed_snapshot = _nodes(snapshot, form)
    supposed_profile = _weighed(stage, pod, form)
    before = profile.evaluate(pod, snapshot)
    after = supposed_profile.evaluate(supposed_pod, supposed_snapshot)
    gained = sorted(set(after.feasible) - set(before.feasible))
    lost = sorted(set(before.feasible) - set(after.feasible))
    return {
        "pod": text(str(pod.key)),
        "revision": snapshot.revision,
        "profile": profile.name,
        "profileServed": stage.served(pod).told(),
        "before": told(before, pod),
        "after": told(after, supposed_pod),
        "sameNode": before.node == after.node,
        "nodesGained": {"count": len(gained), "nodes": [text(name) for name in gained[:MOST_NODES_TOLD]]},
        "nodesLost": {"count": len(lost), "nodes": [text(name) for name in lost[:MOST_NODES_TOLD]]},
    }


def told(evaluation: Evaluation, pod: Pod) -> dict[str, Any]:
    """A decision in short."""
    return {
        "node": evaluation.node,
        "feasible": evaluation.feasible_count,
        "nodes": len(evaluation.snapshot),
        "requests": dict(pod.requests),
        "message": text(evaluation.message),
        "refusals": {text(plugin): dict(reasons) for plugin, reasons in evaluation.refusals.items()},
        "ranking": [
            {"node": text(one.node), "total": one.total, "plugins": dict(one.plugins)}
            for one in evaluation.ranking(RANKED)
        ],
        "nominatedNode": evaluation.nominated_node,
        "victims": [text(str(victim.key)) for victim in evaluation.victims[:MOST_NODES_TOLD]],
        "victimCount": len(evaluation.victims),
    }


def weights(stage: PresentState, pod: Pod) -> dict[str, Any]:
    """The score plugins of the pod's profile with their weights, for the form. Raises `ConfigurationError`."""
    configured, served = stage.configured(pod), stage.served(pod)
    profile = configured.profiles[pod.scheduler_name]
    found = _weights(profile, configured.configuration.document())
    told = {"profile": profile.name, "digest": served.digest or None, "weights": found}
    return told | {"profileServed": served.told()}


def _weights(profile: Profile, configuration: Mapping[str, Any]) -> dict[str, int]:
    """The score plugins of a profile with their weights, as the completed configuration has them."""
    found = dict.fromkeys(profile.at.get("score", ()), 1)
    for entry in configuration.get("profiles", ()):
        if isinstance(entry, Mapping) and entry.get("schedulerName") == profile.name:
            plugins = entry.get("plugins") or {}
            for point in ("multiPoint", "score"):
                for one in (plugins.get(point) or {}).get("enabled", ()):
                    if one.get("name") in found and one.get("weight"):
                        found[one["name"]] = int(one["weight"])
    return found


def _without(snapshot: Snapshot, pod: Pod) -> Snapshot:
    """As if the pod were bound nowhere."""
    for row, info in enumerate(snapshot.rows):
        if pod.identity in info.pods:
            return snapshot.with_pods_changed({row: info.without_pods([pod.identity])})
    return snapshot


def _pod(pod: Pod, form: WhatIfForm) -> Pod:
    requests = dict(pod.requests)
    scoring_cpu, scoring_memory = pod.scoring_cpu, pod.scoring_memory
    for resource, quantity in form.requests.items():
        try:
            amount = round_up(parse_quantity(quantity), NANO_PER_MILLI if resource == CPU else NANO)
        except ValueError as error:
            raise BadInput(f"requests.{text(resource)}: {quantity[:40]!r} {error}") from None
        if amount < 0:
            raise BadInput(f"requests.{text(resource)}: less than nothing cannot be asked for")
        requests[resource] = amount
        scoring_cpu = (amount or scoring_cpu) if resource == CPU else scoring_cpu
        scoring_memory = (amount or scoring_memory) if resource == MEMORY else scoring_memory
    tolerated = tuple(
        Toleration(one.key, "Equal" if one.value else "Exists", one.value, one.effect) for one in form.tolerations
    )
    return replace(
        pod,
        requests={resource: amount for resource, amount in requests.items() if amount},
        scoring_cpu=scoring_cpu,
        scoring_memory=scoring_memory,
        labels=_laid_over(pod.labels, form.labels),
        node_selector=_laid_over(pod.node_selector, form.nodeSelector),
        tolerations=(*pod.tolerations, *tolerated),
        priority=pod.priority if form.priority is None else form.priority,
    )


def _nodes(snapshot: Snapshot, form: WhatIfForm) -> Snapshot:
    changed: dict[int, NodeInfo] = {}
    for one in form.nodes:
        row = snapshot.index.get(one.name)
        if row is None:
            raise BadInput(f"nodes: there is no node {text(one.name)}")
        info = changed.get(row, snapshot.rows[row])
        changed[row] = info.with_node(_node(info.node, one))
    return snapshot.with_nodes_changed(changed) if changed else snapshot


def _node(node: Node, form: NodeForm) -> Node:
    kept = tuple(one for one in node.taints if one.key not in form.removeTaints)
    return replace(
        node,
        labels=_laid_over(node.labels, form.labels),
        taints=(*kept, *(Taint(one.key, one.value, one.effect) for one in form.addTaints)),
        unschedulable=node.unschedulable if form.cordoned is None else form.cordoned,
    )


def _weighed(stage: PresentState, pod: Pod, form: WhatIfForm) -> Profile:
    configured = stage.configured(pod)
    profile = configured.profiles[pod.scheduler_name]
    if not form.weights:
        return profile
    unknown = sorted(form.weights.keys() - set(profile.at.get("score", ())))
    if unknown:
        raise BadInput(f"weights: {text(unknown[0])} does not score in profile {profile.name}")
    value = ProfileValue.model_validate({"profiles": {profile.name: {"weights": dict(form.weights)}}})
    try:
        return overlay_configuration(configured, value, configured).profiles[profile.name]
    except InvalidConfiguration as error:
        raise BadInput(f"weights: {text(str(error))}") from None


def _laid_over(labels: Mapping[str, str], changes: Mapping[str, str | None]) -> Mapping[str, str]:
    changed = {**labels, **changes}
    return {key: value for key, value in changed.items() if value is not None}

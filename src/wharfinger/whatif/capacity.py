"""How many more pods like one fit: copies are placed until the next one is refused.

No pod is evicted for them, and other waiting pods do not take part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.manifests.fields import mapping
from wharfinger.model.pod import PodKey
from wharfinger.whatif import daemons, workloads
from wharfinger.whatif.inventory import Obj, Ref, ended, node_of
from wharfinger.whatif.scene import Scene
from wharfinger.whatif.use import Use, use_of

MOST = 100_000
"""Copies that are tried by default."""
_NAME_LIMIT = 240
"""Characters of the pod's name that go into its copies' names; a name has 253."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many fit, where, and why not more."""

    pod: PodKey
    fits: int
    nodes: Mapping[str, int]
    """Node -> copies, the most first."""
    limited: bool
    """Whether the counting ended because enough were counted; then nothing stops the next one."""
    message: str
    """What stops the next one, in kube-scheduler's words."""
    refusals: Mapping[str, Mapping[str, int]]
    """Plugin that refused the next one first -> reason -> number of nodes."""
    before: Use
    after: Use
    notes: tuple[str, ...]


def subject(scene: Scene, *given: Iterable[tuple[Ref, Obj]]) -> Obj:
    """The pod that is meant: the one without a node, or the one workload's. To be asked before loading.

    `given`: objects to look among, as they were given; the first that hold just one are right. A Deployment's
    ReplicaSet is added to the inventory, as its pods belong to that. Raises `UsageError`, and `InvalidObject` for a
    workload without a template.
    """
    candidates: list[tuple[Ref, Obj]] = []
    for group in given:
        candidates = [(ref, obj) for ref, obj in group if _is_meant(ref, obj)]
        if len(candidates) == 1:
            return _pod_of(scene, *candidates[0])
    named = ", ".join(str(ref) for ref, _ in candidates[:5]) or "none"
    raise UsageError(f"one pod without a node, or one workload, is to be given, not {len(candidates)} ({named})")


def _pod_of(scene: Scene, ref: Ref, obj: Obj) -> Obj:
    if ref.kind == daemons.KIND:
        raise UsageError(f"{ref}: a DaemonSet has one pod a node; simulate shows which of them fit")
    if ref.kind == "Pod":
        return {**obj, "metadata": {**mapping(obj, "metadata"), "namespace": ref.namespace}}
    *others, pod = workloads.example(scene.inventory, ref, obj)
    for other in others:
        scene.inventory.put(other)
    metadata = {**mapping(pod, "metadata"), "name": ref.name}
    return {**pod, "metadata": metadata}


def capacity(scene: Scene, pod: Obj, *, most: int = MOST, progress: Callable[[int], None] = lambda _: None) -> Capacity:
    """Place copies of the pod on the loaded scene until one is refused, or `most` are placed."""
    metadata = mapping(pod, "metadata")
    key = PodKey(str(metadata.get("namespace") or "default"), str(metadata.get("name")))
    scene.withdraw(key)
    simulator = scene.simulator
    nodes: Counter[str] = Counter()
    message, refusals = "", {}
    placed = 0
    # A copy under the name of a pod would change that pod.
    names = scene.inventory.free_names("Pod", key.namespace, key.name[:_NAME_LIMIT])
    while placed < most:
        copy = _copy(pod, PodKey(key.namespace, next(names)))
        try:
            simulator.add(copy)
        except InvalidObject as error:
            *_, maker = Ref("Pod", *key), *scene.inventory.controllers(Ref("Pod", *key), copy)
            said = str(error) if maker.kind == "Pod" else workloads.by_template(maker, error)
            raise InvalidObject(f"{maker}: {said}") from None
        decision = simulator.decide((key.namespace, copy["metadata"]["name"]), preempt=False)
        if decision.node is None:
            message, refusals = decision.message, decision.first_refusals
            simulator.delete("Pod", copy["metadata"]["name"], key.namespace)
            break
        simulator.bind((key.namespace, copy["metadata"]["name"]), decision.node)
        nodes[decision.node] += 1
        placed += 1
        progress(placed)
    assert scene.before is not None
    return Capacity(
        pod=key,
        fits=placed,
        nodes=dict(sorted(nodes.items(), key=lambda entry: (-entry[1], entry[0]))),
        limited=placed >= most,
        message=message,
        refusals=refusals,
        before=scene.before,
        after=use_of(simulator.snapshot()),
        notes=(*scene.notes, *simulator.extenders.notes),
    )


def _is_meant(ref: Ref, obj: Obj) -> bool:
    if ref.kind == "Pod":
        return not node_of(obj) and not ended(obj)
    return ref.kind in workloads.KINDS or ref.kind == daemons.KIND


def _copy(pod: Obj, key: PodKey) -> Obj:
    metadata = {**mapping(pod, "metadata"), "namespace": key.namespace, "name": key.name}
    metadata.pop("uid", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": mapping(pod, "spec")}

"""How many more pods like one fit: copies are placed until the next one is refused.

No pod is evicted for them, and other waiting pods do not take part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wharfinger.errors import UsageError
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.model.pod import PodKey
from wharfinger.whatif import daemons, workloads
from wharfinger.whatif.claims import of_templates
from wharfinger.whatif.inventory import Obj, Ref, ended, node_of
from wharfinger.whatif.outcome import Use, use_of
from wharfinger.whatif.scene import Scene

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


@dataclass(frozen=True, slots=True)
class CopiedPod:
    """What is counted: copies of one pod."""

    of: Ref
    """The pod or workload that was given."""
    pod: Obj
    stateful_set: Obj | None = None
    """The StatefulSet that it is a pod of: then each copy has claims of its own."""

    @property
    def key(self) -> PodKey:
        """Under which name it is asked about."""
        return PodKey(self.of.namespace, self.of.name)

    def under(self, name: str) -> list[Obj]:
        """A copy of that name, behind its claims. Raises `InvalidObject`."""
        metadata = {**mapping(self.pod, "metadata"), "namespace": self.key.namespace, "name": name}
        metadata.pop("uid", None)
        spec = dict(mapping(self.pod, "spec"))
        claims: dict[str, Obj] = {}
        if self.stateful_set is not None:
            claims = of_templates(self.of, self.stateful_set, name)
            spec["volumes"] = workloads.with_claims(self.pod, claims)
        return [*claims.values(), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}]


def subject(scene: Scene, *given: Iterable[tuple[Ref, Obj]]) -> CopiedPod:
    """The pod that is meant: the one without a node, or the one workload's. To be asked before loading.

    `given`: objects to look among, as they were given; the first that hold just one are right. A Deployment's
    ReplicaSet is added to the inventory, as its pods belong to that. Raises `UsageError`, and `InvalidObject` for a
    workload without a template.
    """
    candidates: list[tuple[Ref, Obj]] = []
    for group in given:
        found = [(ref, obj) for ref, obj in group if _is_meant(ref, obj)]
        # DaemonSets belong to the nodes, unless there is nothing else.
        candidates = [(ref, obj) for ref, obj in found if ref.kind != daemons.KIND] or found
        if len(candidates) == 1:
            return _pod_of(scene, *candidates[0])
    named = ", ".join(str(ref) for ref, _ in candidates[:5]) or "none"
    raise UsageError(f"one pod without a node, or one workload, is to be given, not {len(candidates)} ({named})")


def _pod_of(scene: Scene, ref: Ref, obj: Obj) -> CopiedPod:
    if ref.kind == daemons.KIND:
        raise UsageError(f"{ref}: a DaemonSet has one pod a node; simulate shows which of them fit")
    if ref.kind == "Pod":
        return CopiedPod(ref, obj)
    *others, pod = workloads.example(scene.inventory, ref, obj)
    for other in others:
        if other.get("kind") == "ReplicaSet":
            scene.inventory.put(other)
    return CopiedPod(ref, pod, obj if ref.kind == "StatefulSet" else None)


def capacity(
    scene: Scene, copied: CopiedPod, *, most: int = MOST, progress: Callable[[int], None] = lambda _: None
) -> Capacity:
    """Place copies of the pod on the loaded scene until one is refused, or `most` are placed.

    Raises `InvalidObject`.
    """
    key = copied.key
    scene.withdraw(key)
    _place_daemons(scene)
    simulator = scene.simulator
    nodes: Counter[str] = Counter()
    message, refusals = "", {}
    placed = 0
    # A copy under the name of a pod would change that pod.
    names = scene.inventory.free_names("Pod", key.namespace, key.name[:_NAME_LIMIT])
    while placed < most:
        name = next(names)
        made = scene.make(copied.of, copied.under(name))
        if made.not_made:
            message = f"not made: {made.not_made}"
            break
        copy = PodKey(key.namespace, name)
        if not placed:
            scene.leans_on(copy)  # for the notes
        decision = simulator.decide(copy, preempt=False)
        if decision.node is None:
            message, refusals = decision.message, decision.first_refusals
            scene.withdraw(copy)
            break
        simulator.bind(copy, decision.node)
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
        notes=(*scene.all_notes, *simulator.extenders.notes),
    )


def _place_daemons(scene: Scene) -> None:
    """The daemon pods that the nodes lack take their room first, where there is any."""
    for daemon in scene.daemon_pods():
        node = scene.simulator.decide(daemon, preempt=False).node
        if node is None:
            scene.withdraw(daemon)
        else:
            scene.simulator.bind(daemon, node)


def _is_meant(ref: Ref, obj: Obj) -> bool:
    if ref.kind == "Pod":
        return not node_of(obj) and not ended(obj)
    return ref.kind in workloads.KINDS or ref.kind == daemons.KIND

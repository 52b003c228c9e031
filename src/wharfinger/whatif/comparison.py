"""Where the bound pods of a cluster are, compared with where they would have been placed.

Pods are decided for in the order in which they were created, each on the state that holds only the pods before it. Then
the pod counts on the node where it really is, so the state evolves as it really did. Members of gangs are decided for
one by one, no pod is evicted for another, and no node is preferred because it is a worker's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from wharfinger.errors import InvalidObject, PluginError, UsageError
from wharfinger.objects.documents.decode import pod_from_mapping
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.occupants import stand_in
from wharfinger.objects.documents.pods import GROUP_LABELS
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.priority import PRIORITY_CLASS
from wharfinger.whatif.inventory import Inventory, Obj, Ref, node_of
from wharfinger.whatif.scene import Progress
from wharfinger.whatif.simulator.cluster import KINDS as SIMULATED_KINDS
from wharfinger.whatif.simulator.simulator import SimulatedDecision, Simulator
from wharfinger.whatif.unknown import Unknown

_POD = "Pod"
NOT_SAMPLED = "its node was not among those that the profile sampled"


class NodeVerdict(StrEnum):
    """How the node of a pod compares with the one that would be chosen."""

    SAME = "same"
    TIED = "tied"
    """Another node of the same score would be chosen."""
    LOWER = "lower"
    """Another node has a higher score."""
    REFUSED = "refused"
    """Its node would be refused, and another one chosen."""
    NOWHERE = "nowhere"
    """Every node would be refused, its own too."""
    UNDECIDED = "undecided"
    """It cannot be compared: a gate holds it back, no profile serves it, a plugin fails, or its node was not in the
    profile's sample.
    """


@dataclass(frozen=True, slots=True)
class ComparedPod:
    """One bound pod."""

    pod: PodKey
    node: str
    """Where it is."""
    verdict: NodeVerdict
    chosen: str | None = None
    """The node that would be chosen; None = none."""
    score: int | None = None
    """Of the node where it is; None where it was not scored."""
    chosen_score: int | None = None
    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Plugin -> reasons, of every plugin that refuses the pod's node."""
    message: str = ""
    """Why no node would be chosen, or why it cannot be compared."""
    leans_on: tuple[str, ...] = ()
    """What the verdict may depend on and the question does not contain."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All bound pods, in the order in which they were created."""

    pods: tuple[ComparedPod, ...]
    notes: tuple[str, ...] = ()
    """What was left out, in sentences."""

    @property
    def counts(self) -> dict[NodeVerdict, int]:
        """How many pods have each verdict."""
        found = Counter(pod.verdict for pod in self.pods)
        return {verdict: found[verdict] for verdict in NodeVerdict}

    @property
    def reasons(self) -> dict[tuple[str, str], int]:
        """Plugin and reason -> number of pods whose nodes are refused for it, the most first."""
        found = Counter(
            (plugin, reason) for pod in self.pods for plugin, said in pod.refusals.items() for reason in said
        )
        return dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0])))


class _Replay:
    """The cluster as it evolves."""

    def __init__(
        self,
        inventory: Inventory,
        simulator: Simulator,
        created: Mapping[Ref, int],
        stand_ins: Iterable[Ref],
        unknown: Unknown | None,
    ) -> None:
        self._inventory = inventory
        self._simulator = simulator
        self._created = created
        self._unknown = unknown
        self._stand_ins = frozenset(stand_ins)
        self._nodes = {ref.name for ref, _ in inventory.of_kind("Node")}
        self._notes: Counter[str] = Counter()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        unknown = self._unknown.notes if self._unknown is not None else ()
        return (*(f"{count:,} {what}" for what, count in self._notes.items()), *unknown)

    def set_up(self) -> None:
        """Everything but pods; classes first, because each one is looked up for the pods there. Raises `UsageError`."""
        if not self._nodes:
            raise UsageError("there is no node: give some with -f, or take the live state's with --live")
        for missing in self._unknown.stand_ins() if self._unknown is not None else ():
            self._simulator.add(missing)
        others = [(ref, obj) for ref, obj in self._inventory if ref.kind in SIMULATED_KINDS and ref.kind != _POD]
        for _, obj in sorted(others, key=lambda entry: entry[0].kind != PRIORITY_CLASS):
            try:
                self._simulator.add(obj)
            except InvalidObject:
                self._notes["objects cannot be read and do not count"] += 1

    def pods(self) -> list[tuple[Ref, Obj]]:
        """The bound pods, in the order in which they were created; those without a create revision last.

        The latter go by their creation timestamps, and then in the order in which they were given.
        """
        bound = [(ref, obj) for ref, obj in self._inventory.of_kind(_POD) if _is_bound(obj)]
        return sorted(bound, key=lambda entry: self._age(*entry))

    def _age(self, ref: Ref, obj: Obj) -> tuple[bool, int, str]:
        revision = self._created.get(ref)
        if revision is not None:
            return False, revision, ""
        return True, 0, str(mapping(obj, "metadata").get("creationTimestamp") or "")

    def compare(self, ref: Ref, obj: Obj) -> ComparedPod | None:
        """Decide for the pod, then let it count where it is; None for one that is not compared."""
        node = node_of(obj)
        # One that is being deleted still holds its room.
        if ref not in self._stand_ins and mapping(obj, "status").get("phase") in ("Succeeded", "Failed"):
            self._notes["pods have finished, and are left out"] += 1
            return None
        if node not in self._nodes:
            self._notes["pods are bound to nodes that are not there, and count nowhere"] += 1
            return None
        if ref in self._stand_ins or not _is_readable(obj):
            self._notes["bound pods cannot be read: what they hold on their nodes counts, nothing else"] += 1
            held = stand_in(obj, namespace=ref.namespace, name=ref.name)
            if held is not None:
                self._simulator.add(held)
            return None
        found = self._decided(ref, obj, node)
        leans_on = self._unknown.of(ref, obj) if self._unknown is not None else ()
        found = replace(found, leans_on=leans_on) if leans_on else found
        self._simulator.add(obj)
        return found

    def _decided(self, ref: Ref, obj: Obj, node: str) -> ComparedPod:
        key = PodKey(ref.namespace, ref.name)
        try:
            decision = self._simulator.decide(_unbound(obj, self._created.get(ref)), preempt=False)
        except (UsageError, PluginError) as error:
            return ComparedPod(key, node, NodeVerdict.UNDECIDED, message=str(error))
        if decision.gated:
            return ComparedPod(key, node, NodeVerdict.UNDECIDED, message=decision.message)
        return _compared(key, node, decision)


def compare(
    inventory: Inventory,
    simulator: Simulator,
    *,
    created: Mapping[Ref, int] | None = None,
    stand_ins: Iterable[Ref] = (),
    unknown: Unknown | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Comparison:
    """Compare every bound pod of the inventory. `simulator`: an empty one, with the configuration to compare with.

    `created`: the create revisions of pods that etcd holds. `stand_ins`: pods that cannot be read, of which the
    inventory has what they hold. `unknown`: what the inventory lacks. Raises `UsageError`.
    """
    replay = _Replay(inventory, simulator, created or {}, stand_ins, unknown)
    replay.set_up()
    pods = replay.pods()
    found: list[ComparedPod] = []
    for done, (ref, obj) in enumerate(pods, start=1):
        one = replay.compare(ref, obj)
        if one is not None:
            found.append(one)
        progress(done, len(pods))
    return Comparison(tuple(found), (*replay.notes, *simulator.extenders.notes))


def _compared(key: PodKey, node: str, decision: SimulatedDecision) -> ComparedPod:
    chosen = decision.node
    if chosen == node:
        return ComparedPod(key, node, NodeVerdict.SAME, chosen)
    score = decision.score_of(node)
    if chosen is not None and score is not None:
        best = decision.score_of(chosen)
        verdict = NodeVerdict.TIED if best is None or score >= best else NodeVerdict.LOWER
        return ComparedPod(key, node, verdict, chosen, score, best)
    refusals = {plugin: tuple(said) for plugin, said in decision.refusals_on(node).items()}
    if chosen is None:
        return ComparedPod(key, node, NodeVerdict.NOWHERE, refusals=refusals, message=decision.message)
    if not refusals:
        return ComparedPod(key, node, NodeVerdict.UNDECIDED, chosen, message=NOT_SAMPLED)
    return ComparedPod(key, node, NodeVerdict.REFUSED, chosen, refusals=refusals)


def _is_readable(obj: Obj) -> bool:
    try:
        pod_from_mapping(obj)
    except (InvalidObject, RecursionError):
        return False
    return True


def _is_bound(obj: Obj) -> bool:
    try:
        return bool(node_of(obj))
    except InvalidObject:
        return False


def _unbound(obj: Obj, created: int | None) -> dict[str, Any]:
    """The pod as it was before it was bound, outside of any gang; ties are broken as a worker breaks them."""
    spec = {name: value for name, value in mapping(obj, "spec").items() if name not in ("nodeName", "schedulingGroup")}
    metadata = {name: value for name, value in mapping(obj, "metadata").items() if name != "deletionTimestamp"}
    if created is not None and not metadata.get("uid"):
        metadata["uid"] = f"rev-{created}"
    labels = mapping(metadata, "labels")
    if any(label in labels for label in GROUP_LABELS):
        metadata["labels"] = {name: value for name, value in labels.items() if name not in GROUP_LABELS}
    return {**obj, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def differences(comparison: Comparison) -> Iterator[ComparedPod]:
    """The pods that are not where they would have been placed, nor on a node of the same score; refused ones first."""
    order = (NodeVerdict.NOWHERE, NodeVerdict.REFUSED, NodeVerdict.UNDECIDED, NodeVerdict.LOWER)
    for verdict in order:
        yield from (pod for pod in comparison.pods if pod.verdict is verdict)

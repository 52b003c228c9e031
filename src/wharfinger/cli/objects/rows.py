"""Pods and nodes as the rows of a table: pure functions from the model to texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from wharfinger.cli.objects.stored import Stored
from wharfinger.cli.output import Columns
from wharfinger.manifests.kinds import NODE, POD, PRIORITY_CLASS, Kind
from wharfinger.manifests.times import duration, seconds_since
from wharfinger.model.conditions import PREEMPTION
from wharfinger.model.node import CPU, MEMORY, PODS, Node
from wharfinger.model.pod import NOTHING, Pod, PodKey
from wharfinger.model.quantities import format_bytes, format_cpu
from wharfinger.observe.serving import gates

POD_HEADINGS = ("NAMESPACE", "NAME", "STATUS", "NODE", "AGE", "REASON")
NODE_HEADINGS = ("NAME", "STATUS", "PODS", "CPU", "MEMORY", "AGE", "REASON")
CLASS_HEADINGS = ("NAME", "VALUE", "GLOBAL-DEFAULT", "PREEMPTIONPOLICY", "AGE", "REASON")
OTHER_HEADINGS = ("NAMESPACE", "NAME", "AGE")
CLUSTER_HEADINGS = ("NAME", "AGE")
"""Of kinds without a namespace."""
VICTIMS = 5
"""Victims named in one line."""
_UNKNOWN = "<unknown>"
_NONE = "<none>"


@dataclass(slots=True)
class Usage:
    """What the bound pods use of each node."""

    booked: dict[str, dict[str, int]] = field(default_factory=dict)
    """Node -> resource (and `pods`) -> amount."""
    _counted: dict[PodKey, Pod] = field(default_factory=dict)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Usage:
        """The usage by these pods."""
        usage = cls()
        for pod in pods:
            usage.set_pod(pod.key, pod)
        return usage

    def set_pod(self, key: PodKey, pod: Pod | None) -> tuple[str, ...]:
        """Take a pod's new state (None = gone); answers the nodes whose usage changed."""
        old = self._counted.pop(key, None)
        if old is not None:
            self._add(old, -1)
        if pod is not None and pod.bound and not pod.finished:
            self._counted[key] = pod
            self._add(pod, 1)
        now = self._counted.get(key)
        if old is not None and now is not None and (old.node_name, old.requests) == (now.node_name, now.requests):
            return ()
        return tuple(dict.fromkeys(found.node_name for found in (old, now) if found is not None))

    def on(self, node_name: str) -> Mapping[str, int]:
        """What is used on a node."""
        return self.booked.get(node_name, NOTHING)

    def _add(self, pod: Pod, sign: int) -> None:
        node = self.booked.setdefault(pod.node_name, {})
        node[PODS] = node.get(PODS, 0) + sign
        for name, amount in pod.requests.items():
            node[name] = node.get(name, 0) + sign * amount


def pod_row(stored: Stored, now: datetime) -> tuple[str, ...]:
    """Cells under `POD_HEADINGS`."""
    pod = stored.pod
    if pod is None:
        return (stored.namespace, stored.name, "Invalid", "", "", stored.invalid)
    return (
        pod.namespace,
        pod.name,
        "Promised" if stored.promised and not pod.deletion_timestamp else pod_status(pod, stored.held),
        pod.node_name or _NONE,
        age(pod.creation_timestamp, now),
        pod_reason(pod, stored.held),
    )


def pod_status(pod: Pod, held: str = "") -> str:
    """One word for where the pod stands; `held`: why its gang holds it back."""
    if pod.deletion_timestamp:
        return "Terminating"
    if pod.phase not in ("", "Pending"):
        return pod.phase
    if pod.bound:
        return "Bound"
    return "Gated" if gates(pod) or held else "Pending"


def preemption(node: str, victims: Sequence[str], count: int = 0) -> str:
    """The victims, as a sentence without its end; `count`: how many, where not all are given."""
    if not victims:
        return f"waits for room on {node}, its nominated node"
    hidden = max(count, len(victims)) - VICTIMS
    more = f" and {hidden} more" if hidden > 0 else ""
    return f"preempts {', '.join(victims[:VICTIMS])}{more} on {node}, its nominated node"


def pod_reason(pod: Pod, held: str = "") -> str:
    """Why a pending pod is not placed, or that a pod was preempted; empty for any other.

    A pod that is held back has the sentence that `pending` prints, `held` if its gang holds it back; another one has
    the reason of its condition.
    """
    if pod.disruption_target and not pod.finished:
        return PREEMPTION
    if pod.pending and (why := gates(pod) or held):
        return why
    if pod.bound or pod.condition is None or pod.condition[0] == "True":
        return ""
    return pod.condition[1]


def node_row(stored: Stored, usage: Usage, now: datetime) -> tuple[str, ...]:
    """Cells under `NODE_HEADINGS`."""
    node = stored.node
    if node is None:
        return (stored.name, "Invalid", "", "", "", "", stored.invalid)
    used, room = usage.on(node.name), node.allocatable
    return (
        node.name,
        node_status(node),
        f"{used.get(PODS, 0)}/{room.get(PODS, 0)}",
        f"{format_cpu(used.get(CPU, 0))}/{format_cpu(room.get(CPU, 0))}",
        f"{format_bytes(used.get(MEMORY, 0))}/{format_bytes(room.get(MEMORY, 0))}",
        age(created(stored), now),
        "",
    )


def node_status(node: Node) -> str:
    """`Ready` or `NotReady`, and whether new pods are kept off."""
    words = "Ready" if node.ready else "NotReady"
    return f"{words},SchedulingDisabled" if node.unschedulable else words


def class_row(stored: Stored, now: datetime) -> tuple[str, ...]:
    """Cells under `CLASS_HEADINGS`."""
    found = stored.priority_class
    if found is None:
        return (stored.name, "Invalid", "", "", "", stored.invalid)
    default = "true" if found.global_default else "false"
    return (found.name, str(found.value), default, found.preemption_policy, age(created(stored), now), "")


def other_row(kind: Kind, stored: Stored, now: datetime) -> tuple[str, ...]:
    """Cells under `OTHER_HEADINGS` or `CLUSTER_HEADINGS`, for kinds of which only the metadata is known."""
    cells = (stored.name, age(created(stored), now))
    return (stored.namespace, *cells) if kind.namespaced else cells


def created(stored: Stored) -> str:
    """`metadata.creationTimestamp`, empty when it cannot be told."""
    metadata = stored.mapping().get("metadata")
    stamp = metadata.get("creationTimestamp") if isinstance(metadata, dict) else None
    return stamp if isinstance(stamp, str) else ""


def age(stamp: str, now: datetime) -> str:
    """How long ago an RFC 3339 time was: `42s`, `7m30s`, `5h`, `12d`."""
    seconds = seconds_since(stamp, now)
    return _UNKNOWN if seconds is None else duration(seconds)


def columns(kind: Kind) -> Columns:
    """The table of a kind."""
    if kind is POD:
        return Columns(*POD_HEADINGS)
    if kind is NODE:
        return Columns(*NODE_HEADINGS)
    if kind is PRIORITY_CLASS:
        return Columns(*CLASS_HEADINGS)
    return Columns(*(OTHER_HEADINGS if kind.namespaced else CLUSTER_HEADINGS))


def table_rows(kind: Kind, found: Iterable[Stored], usage: Usage, now: datetime) -> list[tuple[str, ...]]:
    """The rows of a kind's table."""
    if kind is POD:
        return [pod_row(entry, now) for entry in found]
    if kind is NODE:
        return [node_row(entry, usage, now) for entry in found]
    if kind is PRIORITY_CLASS:
        return [class_row(entry, now) for entry in found]
    return [other_row(kind, entry, now) for entry in found]

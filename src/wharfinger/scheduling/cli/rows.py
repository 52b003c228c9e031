"""Pods, nodes and priority classes as the rows of a table: pure functions from the model to texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from wharfinger.cli.objects.tables import KindTable, age, created
from wharfinger.objects.model.conditions import PREEMPTION
from wharfinger.objects.model.node import CPU, MEMORY, Node
from wharfinger.objects.model.node import PODS as POD_COUNT
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.quantities import format_bytes, format_cpu
from wharfinger.process.stored_objects import Stored
from wharfinger.scheduling.reading.held_back import gates

POD_HEADINGS = ("NAMESPACE", "NAME", "STATUS", "NODE", "AGE", "REASON")
NODE_HEADINGS = ("NAME", "STATUS", "PODS", "CPU", "MEMORY", "AGE", "REASON")
CLASS_HEADINGS = ("NAME", "VALUE", "GLOBAL-DEFAULT", "PREEMPTIONPOLICY", "AGE", "REASON")
VICTIMS = 5
"""Victims named in one line."""
_NONE = "<none>"


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


def node_row(stored: Stored, now: datetime) -> tuple[str, ...]:
    """Cells under `NODE_HEADINGS`."""
    node = stored.node
    if node is None:
        return (stored.name, "Invalid", "", "", "", "", stored.invalid)
    used, room = stored.used, node.allocatable
    return (
        node.name,
        node_status(node),
        f"{used.get(POD_COUNT, 0)}/{room.get(POD_COUNT, 0)}",
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


PODS = KindTable(POD_HEADINGS, pod_row)
NODES = KindTable(NODE_HEADINGS, node_row)
CLASSES = KindTable(CLASS_HEADINGS, class_row)

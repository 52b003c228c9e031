"""What `wharfinger describe` prints of a pod, a node or a priority class: all that scheduling reads of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from wharfinger.cli.objects.naming import pod_key
from wharfinger.cli.objects.tables import age, created
from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import Columns, plain
from wharfinger.errors import InvalidObject, NotFound
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import Kind
from wharfinger.objects.documents.metadata import condition_met
from wharfinger.objects.model.conditions import DISRUPTION_TARGET, POD_SCHEDULED
from wharfinger.objects.model.node import CPU, MEMORY, Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.objects.model.priority import PriorityClasses, affected, missing
from wharfinger.objects.model.quantities import format_bytes, format_cpu
from wharfinger.objects.model.selectors import NodeSelectorTerm, Toleration
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.records import AttemptRecord
from wharfinger.process.stored_objects import Stored, StoredObjects, priority_classes
from wharfinger.scheduling.cli import rows
from wharfinger.scheduling.reading.attempts import bound_by
from wharfinger.scheduling.reading.held_back import unserved
from wharfinger.scheduling.reading.pods_and_nodes import (
    Usage,
    every_pod,
    held_member,
    held_room,
    is_lost,
    lost_pods,
    one_pod,
    record_of,
)

_INDENT = 18


async def describe_stored_pod(connection: ConnectionOptions, _kind: Kind, name: str, namespace: str) -> str:
    """The text about a stored pod. Raises `NotFound`, `InvalidObject`."""
    key = pod_key(name, namespace)
    async with connection.store() as store:
        try:
            found = await one_pod(store, *key)
        except NotFound as error:
            told = f"{error}; of one that is gone, `wharfinger explain pod {key}` tells whether it was preempted"
            raise NotFound(told) from error
        return await describe_pod(store, found, connection.cluster, datetime.now(UTC))


async def describe_stored_node(connection: ConnectionOptions, kind: Kind, name: str, _namespace: str) -> str:
    """The text about a stored node. Raises `NotFound`, `InvalidObject`."""
    async with connection.store() as store:
        try:
            found = await StoredObjects(store, kind).one(name)
        except NotFound as error:
            pods_of_it = (await lost_pods(store)).get(name, [])
            if not pods_of_it:
                raise
            told = f"{error}, but {len(pods_of_it)} pods are bound to it: see `wharfinger pending --lost`"
            raise NotFound(told) from error
        _, pods = await every_pod(store)
        here = [entry.pod for entry in pods if entry.pod is not None and entry.pod.node_name == name]
        return describe_node(found, here, datetime.now(UTC))


async def describe_stored_class(connection: ConnectionOptions, kind: Kind, name: str, _namespace: str) -> str:
    """The text about a stored priority class. Raises `NotFound`, `InvalidObject`."""
    async with connection.store() as store:
        found = await StoredObjects(store, kind).one(name)
        _, pods = await every_pod(store)
        named = [entry.pod for entry in pods if entry.pod is not None]
        return describe_class(found, named, await priority_classes(store), datetime.now(UTC))


async def describe_pod(store: Store, found: Stored, cluster: str, now: datetime) -> str:
    """The text about a pod, with what other keys say of it. Raises `InvalidObject` for a pod that cannot be read."""
    pod = found.pod
    if pod is None:
        raise InvalidObject(f"pod {found.namespace}/{found.name} cannot be read: {found.invalid}")
    record, binder = await record_of(store, found), await bound_by(store, found.kv, pod)
    reasons = await unserved(store, [pod] if pod.pending else [])
    lines = [
        *_fields(
            ("Name", pod.name),
            ("Namespace", pod.namespace),
            ("UID", pod.uid),
            ("Created", _when(pod.creation_timestamp, now)),
            ("Status", rows.pod_status(pod)),
            ("Disruption", _disruption(found)),
            ("Node", pod.node_name or "<none>"),
            ("Lost", f"node {pod.node_name} does not exist" if await is_lost(store, pod) else ""),
            ("Nominated node", pod.nominated_node_name),
            ("Calls plugins", _calls(await held_room(store, pod), now)),
            ("Scheduler", pod.scheduler_name),
            ("Not served", next((reason.sentence for reason in reasons.values()), "")),
            ("Priority", str(pod.priority)),
            ("Priority class", pod.class_terms.name if pod.class_terms is not None else _class_name(found)),
            ("Group", pod.group),
            ("Held back", missing(pod) or await held_member(store, pod)),
        ),
        *_block("Labels", [f"{key}={value}" for key, value in pod.labels.items()]),
        *_block("Requests", [f"{name}: {_shown(name, amount)}" for name, amount in pod.requests.items()]),
        *_block("Host ports", [f"{port.protocol} {port.ip}:{port.port}" for port in pod.host_ports]),
        *_block("Node selector", [f"{key}={value}" for key, value in pod.node_selector.items()]),
        *_block("Required nodes", [_term(term) for term in pod.required_node_terms or ()]),
        *_block("Preferred nodes", [f"{term.weight}: {_term(term.term)}" for term in pod.preferred_node_terms]),
        *_block("Tolerations", [_toleration(toleration) for toleration in pod.tolerations]),
        *_block("Gates", pod.scheduling_gates),
        *_block("Not supported", pod.unsupported),
        *_scheduling(pod, record, now, binder),
        *_fields(("Workflow id", _chain(pod, record, binder, cluster))),
    ]
    return "\n".join(lines)


def describe_node(found: Stored, pods: Iterable[Pod], now: datetime) -> str:
    """The text about a node and the pods on it. Raises `InvalidObject` for one that cannot be read."""
    node = found.node
    if node is None:
        raise InvalidObject(f"node {found.name} cannot be read: {found.invalid}")
    here = sorted((pod for pod in pods if not pod.finished), key=lambda pod: pod.key)
    lines = [
        *_fields(
            ("Name", node.name),
            ("UID", node.uid),
            ("Created", _when(created(found), now)),
            ("Status", rows.node_status(node)),
        ),
        *_block("Labels", [f"{key}={value}" for key, value in node.labels.items()]),
        *_block("Taints", [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints]),
        *_block("Conditions", [f"{name} {status}" for name, status in node.conditions.items()]),
        "",
        _room(node, Usage.of(here).on(node.name)),
        "",
        _pods_on(here, now),
    ]
    return "\n".join(lines)


def describe_class(found: Stored, pods: Iterable[Pod], classes: PriorityClasses, now: datetime) -> str:
    """The text about a priority class and the pods that have their priority by it.

    Raises `InvalidObject` for one that cannot be read.
    """
    this = found.priority_class
    if this is None:
        raise InvalidObject(f"priorityclass {found.name} cannot be read: {found.invalid}")
    default = "true" if this.global_default else "false"
    if this.global_default and classes.default != this and classes.default is not None:
        default += f", but {classes.default.name} counts: its value is lower"
    names = ("", this.name) if classes.default == this else (this.name,)
    asking = [pod for pod in affected(pods, frozenset(names)) if not pod.finished]
    bound = sum(pod.bound for pod in asking)
    description = found.mapping().get("description")
    lines = [
        *_fields(
            ("Name", this.name),
            ("Created", _when(created(found), now)),
            ("Value", str(this.value)),
            ("Global default", default),
            ("Preemption", this.preemption_policy),
            ("Description", description if isinstance(description, str) else ""),
            ("Pods", f"{len(asking) - bound} pending, {bound} bound leave priority or preemption policy to it"),
        ),
    ]
    return "\n".join(lines)


def _calls(room: HeldPlace | None, now: datetime) -> str:
    """For which plugins the pod's room is held, and where."""
    if room is None:
        return ""
    since = f" since {_when(room.since, now)}" if room.since else ""
    return f"{room.sentence()} on {room.node}{since}"


def _class_name(found: Stored) -> str:
    spec = found.mapping().get("spec")
    name = spec.get("priorityClassName") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def _scheduling(pod: Pod, record: AttemptRecord | None, now: datetime, binder: str) -> list[str]:
    """What became of the attempts so far."""
    lines: list[str] = []
    if pod.condition is not None:
        status, reason, message = pod.condition
        lines += _fields((POD_SCHEDULED, " ".join(word for word in (status, reason) if word)), ("Message", message))
    if record is not None and not pod.bound:
        refused = f"{record.attempt} ({record.reason}, {_when(record.time, now)})"
        lines += _fields(("Last attempt", refused), ("Refused by", ", ".join(record.plugins)))
        lines += _block("Preempts", record.victims)
    lines += _fields(("Bound by", binder))
    return lines


def _chain(pod: Pod, record: AttemptRecord | None, binder: str, cluster: str) -> str:
    """The workflow of the pod's last attempt, such as its group's; of a new pod, its own."""
    if pod.bound and binder:
        return binder.partition("@")[0]
    if record is not None and record.workflow_id and not pod.bound:
        return record.workflow_id
    return pod_workflow_id(cluster, pod.namespace, pod.name, pod.uid)


def _disruption(found: Stored) -> str:
    """For whom the pod has to leave, or why else it is about to: what its condition DisruptionTarget says."""
    condition = condition_met(found.mapping(), DISRUPTION_TARGET)
    return str(condition.get("message") or condition.get("reason") or "")


def _room(node: Node, used: Mapping[str, int]) -> str:
    table = Columns("RESOURCE", "USED", "ALLOCATABLE", "FREE")
    names = dict.fromkeys((*node.allocatable, *used))
    cells = []
    for name in names:
        taken, room = used.get(name, 0), node.allocatable.get(name, 0)
        cells.append((name, _shown(name, taken), _shown(name, room), _shown(name, room - taken)))
    return table.render(cells)


def _pods_on(pods: list[Pod], now: datetime) -> str:
    if not pods:
        return "No pods."
    table = Columns("NAMESPACE", "NAME", "CPU", "MEMORY", "AGE")
    return table.render(
        [
            (
                pod.namespace,
                pod.name,
                _shown(CPU, pod.requests.get(CPU, 0)),
                _shown(MEMORY, pod.requests.get(MEMORY, 0)),
                age(pod.creation_timestamp, now),
            )
            for pod in pods
        ]
    )


def _fields(*pairs: tuple[str, str]) -> list[str]:
    """Aligned `Name:  value` lines; empty values are left out."""
    return [f"{name + ':':<{_INDENT}}{plain(value)}" for name, value in pairs if value]


def _block(name: str, values: Iterable[str]) -> list[str]:
    """One field of several lines; nothing when there are none."""
    lines = [f"{'':<{_INDENT}}{plain(value)}" for value in values]
    return [f"{name + ':':<{_INDENT}}{lines[0].lstrip()}", *lines[1:]] if lines else []


def _when(stamp: str, now: datetime) -> str:
    return f"{stamp} ({age(stamp, now)} ago)" if stamp else ""


def _shown(name: str, amount: int) -> str:
    if name == CPU:
        return format_cpu(amount)
    binary = name == MEMORY or name.endswith("storage") or name.startswith("hugepages-")
    return format_bytes(amount) if binary else str(amount)


def _term(term: NodeSelectorTerm) -> str:
    parts = [
        f"{requirement.key} {requirement.operator} {','.join(requirement.values)}".rstrip()
        for requirement in (*term.expressions, *term.fields)
    ]
    return " and ".join(parts) or "<nothing>"


def _toleration(toleration: Toleration) -> str:
    what = toleration.key or "<every taint>"
    value = f"={toleration.value}" if toleration.operator == "Equal" else ""
    return f"{what}{value}:{toleration.effect or '*'}"

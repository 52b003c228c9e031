"""A `v1.PodSpec` as a mapping to those fields of the model's pod that follow from it.

Names that differ from pod to pod (its node, its group, its claims) are read in `pods`: equal specifications are many,
and `decode.Recurring` reads them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import (
    boolean,
    choice,
    integer,
    mapping,
    mappings,
    sequence,
    text,
    text_map,
    texts,
)
from wharfinger.objects.documents.in_tree_volumes import SOURCES, in_tree_volume
from wharfinger.objects.documents.pod_requests import SPEC, requests_of
from wharfinger.objects.documents.selectors import (
    AFFINITY,
    ANTI_AFFINITY,
    PodTerms,
    node_affinity,
    preferred_node_terms,
    required_node_terms,
    spread_constraints,
    tolerations,
)
from wharfinger.objects.documents.spelling import CONTAINER, POD_SPEC, SHAPES, VOLUME, Excerpt
from wharfinger.objects.documents.surroundings import PREEMPTION_POLICIES
from wharfinger.objects.model.names import is_dns_label
from wharfinger.objects.model.pod import (
    DEFAULT_SCHEDULER,
    HOST_NETWORK_IN_USER_NAMESPACE,
    NO_FEATURES,
    RESTART_ALL_CONTAINERS,
    ClassTerms,
    HostPort,
)
from wharfinger.objects.model.priority import NO_CLASSES
from wharfinger.objects.model.volumes import DiskKind, ExclusiveDisk, InLineVolume, PodClaim

_INT32 = 2**31 - 1
_DEFAULT_GRACE = 30

_VOLUMES = "spec.volumes"
_CLAIM = SHAPES["core/v1.PersistentVolumeClaimVolumeSource"]
_RBD_POOL = "rbd"
CLAIM_VOLUMES = ("persistentVolumeClaim", "ephemeral")
IN_LINE = tuple(sorted({*SOURCES, *DiskKind}))
"""Fields of a volume whose disks are read here."""
RESOURCE_CLAIMS = "resource claims"
VOLUMES_READ = (*CLAIM_VOLUMES, *IN_LINE)
"""Kinds of volumes that mean something here; a pod's claims are read in `pods`."""

_READ = (
    "affinity",
    "containers",
    "hostNetwork",
    "hostUsers",
    "initContainers",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
_SPEC = Excerpt(POD_SPEC, _READ)
_CONTAINER = Excerpt(CONTAINER, ("image", "ports", "resources", "restartPolicy", "restartPolicyRules"))
_ENTRIES = {
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "volumes": Excerpt(VOLUME, ("image", *IN_LINE)),
}


def what_is_read(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification without what no decision reads, such as the names of volumes that an API server makes up.

    `fields_of` reads nothing else. Raises `InvalidObject` for containers and volumes that are none, and for a misspelt
    field among those that are left out.
    """
    read = _SPEC.of(spec, SPEC[:-1])
    for part, excerpt in _ENTRIES.items():
        if part in read:
            entries = enumerate(mappings(read, part, SPEC))
            read[part] = [excerpt.of(entry, f"{SPEC}{part}", index) for index, entry in entries]
    return read


def fields_of(spec: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of `Pod` that follow from `what_is_read` of its specification; raises `InvalidObject`.

    `namespace` and `labels`, the pod's, mean something only where there is an `affinity`.
    """
    POD_SPEC.check_below(spec, SPEC)
    containers = mappings(spec, "containers", SPEC)
    init_containers = mappings(spec, "initContainers", SPEC)
    affinity = node_affinity(spec)
    terms = PodTerms(spec, namespace, labels)
    required, required_anti = terms.required(AFFINITY), terms.required(ANTI_AFFINITY)
    constraints = spread_constraints(spec)
    request, once_bound = requests_of(spec)
    class_terms = _class_terms(spec)
    priority, preemption_policy, class_missing = NO_CLASSES.give(class_terms)
    return {
        "priority": priority,
        "preemption_policy": preemption_policy,
        "class_terms": None if class_terms.complete else class_terms,
        "class_missing": class_missing,
        "scheduler_name": text(spec, "schedulerName", SPEC) or DEFAULT_SCHEDULER,
        **request._asdict(),
        "once_moved": once_bound,
        "host_ports": _host_ports(spec, containers, init_containers),
        "node_selector": text_map(spec, "nodeSelector", SPEC),
        "required_node_terms": required_node_terms(affinity) if affinity else None,
        "preferred_node_terms": preferred_node_terms(affinity) if affinity else (),
        "tolerations": tolerations(spec),
        "required_affinity": required,
        "required_anti_affinity": required_anti,
        "preferred_affinity": terms.preferred(AFFINITY),
        "preferred_anti_affinity": terms.preferred(ANTI_AFFINITY),
        "spread_constraints": constraints,
        "images": _images(spec, containers, init_containers),
        "container_count": len(init_containers) + len(containers),
        "in_line_volumes": in_line_volumes(spec),
        "termination_grace_seconds": _grace(spec),
        "scheduling_gates": _gates(spec),
        "required_features": required_features(spec, [*containers, *init_containers]),
        "unsupported": unsupported_features(spec, [*init_containers, *containers]),
        "hard_terms_across_nodes": bool(required or required_anti or any(entry.hard for entry in constraints)),
    }


def _class_terms(spec: Mapping[str, Any]) -> ClassTerms:
    return ClassTerms(
        text(spec, "priorityClassName", SPEC),
        integer(spec, "priority", SPEC, low=-_INT32 - 1, high=_INT32),
        choice(spec, "preemptionPolicy", SPEC, PREEMPTION_POLICIES, ""),
    )


def _gates(spec: Mapping[str, Any]) -> tuple[str, ...]:
    gates = mappings(spec, "schedulingGates", SPEC)
    return tuple([text(gate, "name", f"spec.schedulingGates[{index}].") for index, gate in enumerate(gates)])


def _images(
    spec: Mapping[str, Any], containers: Sequence[Mapping[str, Any]], init_containers: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """What must be on the node to run the pod, one entry a use."""
    names = [text(entry, "image", f"spec.initContainers[{index}].") for index, entry in enumerate(init_containers)]
    names += [text(entry, "image", f"spec.containers[{index}].") for index, entry in enumerate(containers)]
    for index, volume in enumerate(mappings(spec, "volumes", SPEC)):
        if volume.get("image") is not None:
            where = f"spec.volumes[{index}]."
            names.append(text(mapping(volume, "image", where), "reference", f"{where}image."))
    return tuple([name for name in names if name])


def _grace(spec: Mapping[str, Any]) -> int:
    """Seconds the pod gets to end; a negative number means one, as in Kubernetes."""
    seconds = integer(spec, "terminationGracePeriodSeconds", SPEC, low=-(2**63), high=_INT32)
    if seconds is None:
        return _DEFAULT_GRACE
    return seconds if seconds >= 0 else 1


def _host_ports(
    spec: Mapping[str, Any], containers: Sequence[Mapping[str, Any]], init_containers: Sequence[Mapping[str, Any]]
) -> tuple[HostPort, ...]:
    """Ports wanted on the node: of containers, and of init containers that keep running.

    On the host's network every container port is one, as the API server has it.
    """
    on_host = boolean(spec, "hostNetwork", SPEC)
    found: dict[HostPort, None] = {}
    for index, entry in enumerate(containers):
        _collect_ports(found, entry, f"spec.containers[{index}].", on_host)
    for index, entry in enumerate(init_containers):
        if entry.get("restartPolicy") == "Always":
            _collect_ports(found, entry, f"spec.initContainers[{index}].", on_host)
    return tuple(found)


def _collect_ports(found: dict[HostPort, None], container: Mapping[str, Any], where: str, on_host: bool) -> None:
    for index, entry in enumerate(mappings(container, "ports", where)):
        path = f"{where}ports[{index}]."
        port = integer(entry, "hostPort", path, low=0, high=65535)
        if not port and on_host:
            port = integer(entry, "containerPort", path, low=0, high=65535)
        if port:
            protocol = text(entry, "protocol", path) or "TCP"
            found[HostPort(protocol, text(entry, "hostIP", path) or "0.0.0.0", port)] = None  # noqa: S104 - a wildcard


def unsupported_features(spec: Mapping[str, Any], containers: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the pod asks for and this version cannot honour, in words and a fixed order; such a pod is refused."""
    claims = sequence(spec, "resourceClaims", SPEC) or any(
        sequence(mapping(one, "resources", f"{SPEC}containers."), "claims", f"{SPEC}containers.resources.")
        for one in containers
    )
    return (RESOURCE_CLAIMS,) if claims else ()


def required_features(spec: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The features that a node must declare to run the pod.

    Those that Kubernetes 1.36 infers from a pod to be scheduled (`k8s.io/component-helpers/nodedeclaredfeatures`).
    """
    found = set()
    if (
        boolean(spec, "hostNetwork", SPEC)
        and spec.get("hostUsers") is not None
        and not boolean(spec, "hostUsers", SPEC)
    ):
        found.add(HOST_NETWORK_IN_USER_NAMESPACE)
    for container in containers:
        for rule in mappings(container, "restartPolicyRules", SPEC):
            if rule.get("action") == "RestartAllContainers":
                found.add(RESTART_ALL_CONTAINERS)
    return frozenset(found) if found else NO_FEATURES


# --- volumes: the claims they use, and the disks they name themselves ---------------------------------


def claims_of(spec: Mapping[str, Any], pod_name: str) -> tuple[PodClaim, ...]:
    """The claims that a pod's volumes use, each once, in the order of its volumes.

    That of an ephemeral volume is named after the pod and the volume. Raises `InvalidObject`.
    """
    if not spec.get("volumes"):
        return ()
    found: dict[PodClaim, None] = {}
    for index, volume in enumerate(mappings(spec, "volumes", "spec.")):
        if volume.get("persistentVolumeClaim") is not None:
            where = f"{_VOLUMES}[{index}]."
            source = mapping(volume, "persistentVolumeClaim", where)
            where = f"{where}persistentVolumeClaim."
            _CLAIM.check(source, where)
            found[PodClaim(text(source, "claimName", where))] = None
        elif volume.get("ephemeral") is not None:
            where = f"{_VOLUMES}[{index}]."
            mapping(volume, "ephemeral", where)
            name = text(volume, "name", where)
            if not is_dns_label(name):
                raise InvalidObject(f"{where}name {name[:80]!r} is no DNS label, and its claim is named after it")
            found[PodClaim(f"{pod_name}-{name}", ephemeral=True)] = None
    return tuple(found)


def in_line_volumes(spec: Mapping[str, Any]) -> tuple[InLineVolume, ...]:
    """The disks that the pod's volumes name themselves, of the kinds in `IN_LINE`; raises `InvalidObject`."""
    if not spec.get("volumes"):
        return ()
    found = []
    for index, volume in enumerate(mappings(spec, "volumes", "spec.")):
        if any(volume.get(field) is not None for field in IN_LINE):
            where = f"{_VOLUMES}[{index}]."
            found.append(InLineVolume(_disk(volume, where), in_tree_volume(volume, where)))
    return tuple(found)


def _disk(volume: Mapping[str, Any], where: str) -> ExclusiveDisk | None:
    for kind in DiskKind:
        if volume.get(kind) is None:
            continue
        source = mapping(volume, kind, where)
        where = f"{where}{kind}."
        identity: tuple[str, ...]
        monitors: tuple[str, ...] = ()
        match kind:
            case DiskKind.GCE_PERSISTENT_DISK:
                identity = (text(source, "pdName", where),)
            case DiskKind.AWS_ELASTIC_BLOCK_STORE:
                identity = (text(source, "volumeID", where),)
            case DiskKind.ISCSI:
                identity = (text(source, "iqn", where),)
            case DiskKind.RBD:
                identity = (text(source, "pool", where) or _RBD_POOL, text(source, "image", where))
                monitors = texts(source, "monitors", where)
        return ExclusiveDisk(kind, identity, boolean(source, "readOnly", where), frozenset(monitors))
    return None

"""Pods, the templates of pods, and their containers and init containers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from wharfinger.objects.documents.checks import metadata
from wharfinger.objects.documents.checks.metadata import check_annotations, check_labels
from wharfinger.objects.documents.checks.place import FieldPlace
from wharfinger.objects.documents.checks.resources import check_container_resources, check_overhead, check_pod_resources
from wharfinger.objects.documents.checks.scheduling import check_affinity, check_spread_constraints, check_tolerations
from wharfinger.objects.documents.checks.volumes import check_volumes

PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_SUBDOMAINS = ("nodeName", "priorityClassName", "runtimeClassName", "serviceAccountName")
_LABELS = ("hostname", "subdomain")


def check_pod(pod: FieldPlace) -> None:
    """A pod as it is created."""
    spec = pod["spec"]
    check_pod_spec(spec, pod["metadata"]["name"].text, of_pod=True)
    if spec["nodeName"].text and spec["schedulingGates"].entries():
        spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared")


def check_template(template: FieldPlace, own_volumes: Sequence[Mapping[str, Any]] = ()) -> None:
    """The template of a workload's pods. `own_volumes`: which the workload's controller adds."""
    check_labels(template["metadata"]["labels"])
    check_annotations(template["metadata"]["annotations"])
    spec = template["spec"]
    if own_volumes:
        names = {volume["name"] for volume in own_volumes}
        others = [volume for volume in spec["volumes"].value or () if volume and volume.get("name") not in names]
        spec = spec.at({**spec.map, "volumes": [*others, *own_volumes]})
    check_pod_spec(spec, of_pod=False)


def check_pod_spec(spec: FieldPlace, pod_name: str = "", *, of_pod: bool) -> None:
    """A pod's specification. `of_pod`: it is no template."""
    volumes = check_volumes(spec["volumes"], pod_name)
    _check_claims(spec["resourceClaims"])
    check_containers(spec, volumes, of_pod=of_pod)
    check_pod_resources(spec["resources"], spec)
    check_overhead(spec["overhead"])
    spec["restartPolicy"].one_of("Always", "OnFailure", "Never")
    spec["dnsPolicy"].one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    spec["preemptionPolicy"].one_of(*PREEMPTION_POLICIES)
    check_labels(spec["nodeSelector"])
    check_affinity(spec["affinity"])
    check_spread_constraints(spec["topologySpreadConstraints"])
    check_tolerations(spec["tolerations"])
    _check_gates(spec["schedulingGates"])
    for field in _SUBDOMAINS:
        if spec[field].text:
            spec[field].each(metadata.dns_subdomain(spec[field].text))
    for field in _LABELS:
        if spec[field].text:
            spec[field].each(metadata.dns_label(spec[field].text))
    deadline = spec["activeDeadlineSeconds"]
    if deadline.given:
        deadline.each(metadata.in_range(deadline.value, 1, 2**31 - 1))
    group = spec["schedulingGroup"]["podGroupName"]
    if group.text:
        group.each(metadata.dns_subdomain(group.text))


def _check_gates(gates: FieldPlace) -> None:
    seen: set[str] = set()
    for gate in gates.entries():
        name = gate["name"].text
        gate.each(metadata.label_key(name), name)
        if name in seen:
            gate.duplicate(name)
        seen.add(name)


def _check_claims(claims: FieldPlace) -> None:
    seen: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for claim in claims.entries():
        name = claim["name"]
        if not name.text:
            name.required()
        elif name.text in seen:
            name.duplicate()
        else:
            name.each(metadata.dns_label(name.text))
        seen.add(name.text)
        given = [claim[field] for field in sources if claim[field].given]
        if len(given) > 1:
            claim.invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
        elif not given:
            claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for source in given:
            source.each(metadata.dns_subdomain(source.text), source.text)


_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS = ("Always", "Never", "OnFailure")
_OF_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
"""What only a container that keeps running has."""


def check_containers(spec: FieldPlace, volumes: Collection[str], *, of_pod: bool) -> None:
    """All containers of a specification. `volumes`: names of its volumes; `of_pod`: it is no template."""
    containers, starting = spec["containers"], spec["initContainers"]
    claims = [claim["name"].text for claim in spec["resourceClaims"].entries()]
    if not containers.entries():
        containers.required()
    names: set[str] = set()
    for container in containers.entries():
        _check(container, names, volumes, claims, of_pod=of_pod)
        container["restartPolicy"].one_of(*_RESTARTS)
    _check_host_ports(containers.entries(), of_pod=of_pod, on_host=spec["hostNetwork"].value is True)
    for container in starting.entries():
        _check(container, names, volumes, claims, of_pod=of_pod)
        container["restartPolicy"].one_of(*_RESTARTS)
        _check_host_ports([container], of_pod=of_pod, on_host=False)
        if container["restartPolicy"].text != "Always":
            for field in _OF_RUNNING:
                if container[field].given:
                    container[field].forbidden("may not be set for init containers without restartPolicy=Always")


def _check(
    container: FieldPlace, names: set[str], volumes: Collection[str], claims: Sequence[str], *, of_pod: bool
) -> None:
    name, image = container["name"], container["image"]
    if name.text:
        name.each(metadata.dns_label(name.text))
        if name.text in names:
            name.duplicate()
        names.add(name.text)
    else:
        name.required()
    if not image.text:
        image.required()
    elif of_pod and image.text != image.text.strip():
        image.invalid("must not have leading or trailing whitespace")
    container["terminationMessagePolicy"].one_of("File", "FallbackToLogsOnError")
    container["imagePullPolicy"].one_of("Always", "IfNotPresent", "Never")
    _check_ports(container["ports"])
    _check_environment(container["env"])
    _check_mounts(container["volumeMounts"], volumes)
    check_container_resources(container["resources"], of_pod=of_pod, claims=claims)


def _check_ports(ports: FieldPlace) -> None:
    names: set[str] = set()
    for port in ports.entries():
        name, inner, outer, protocol = port["name"], port["containerPort"], port["hostPort"], port["protocol"]
        if name.text:
            wrong = metadata.port_name(name.text)
            name.each(wrong)
            if not wrong and name.text in names:
                name.duplicate()
            names.add(name.text)
        if not inner.value:
            inner.required()
        else:
            inner.each(metadata.port(inner.value))
        if outer.value:
            outer.each(metadata.port(outer.value))
        if protocol.text:
            protocol.one_of(*_PROTOCOLS)


def _check_host_ports(containers: Sequence[FieldPlace], *, of_pod: bool, on_host: bool) -> None:
    """Ports of the node: each once, and equal to the container's on the host's network, where a pod has them all."""
    seen: set[str] = set()
    for container in containers:
        for port in container["ports"].entries():
            inner, outer = port["containerPort"].value or 0, port["hostPort"].value or 0
            if on_host and outer not in (0, inner):
                port["hostPort"].invalid("must match `containerPort` when `hostNetwork` is true")
            number = outer or (inner if on_host and of_pod else 0)
            if not number:
                continue
            used = f"{port['protocol'].text or 'TCP'}/{port['hostIP'].text}/{number}"
            if used in seen:
                port["hostPort"].duplicate(used)
            seen.add(used)


def _check_environment(variables: FieldPlace) -> None:
    for variable in variables.entries():
        name, source = variable["name"], variable["valueFrom"]
        if name.text:
            name.each(metadata.environment_name(name.text))
        else:
            name.required()
        if source.given and variable["value"].text:
            source.invalid("may not be specified when `value` is not empty", "")


def _check_mounts(mounts: FieldPlace, volumes: Collection[str]) -> None:
    paths: set[str] = set()
    for mount in mounts.entries():
        name, path = mount["name"], mount["mountPath"]
        if not name.text:
            name.required()
        if name.text not in volumes:
            name.not_there(name.text)
        if not path.text:
            path.required()
        if path.text in paths:
            path.invalid("must be unique", path.text)
        paths.add(path.text)

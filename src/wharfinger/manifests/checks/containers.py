"""Containers and init containers of a pod or of a template."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wharfinger.manifests.checks import words
from wharfinger.manifests.checks.place import FieldPlace
from wharfinger.manifests.checks.resources import check_container_resources

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
        name.each(words.dns_label(name.text))
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
            wrong = words.port_name(name.text)
            name.each(wrong)
            if not wrong and name.text in names:
                name.duplicate()
            names.add(name.text)
        if not inner.value:
            inner.required()
        else:
            inner.each(words.port(inner.value))
        if outer.value:
            outer.each(words.port(outer.value))
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
            name.each(words.environment_name(name.text))
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

"""Pods, and the templates of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.manifests.checks import words
from wharfinger.manifests.checks.containers import check_containers
from wharfinger.manifests.checks.metadata import check_annotations, check_labels, check_metadata
from wharfinger.manifests.checks.place import FieldPlace
from wharfinger.manifests.checks.resources import check_overhead, check_pod_resources
from wharfinger.manifests.checks.scheduling import check_affinity, check_spread_constraints, check_tolerations
from wharfinger.manifests.checks.volumes import check_volumes

PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_SUBDOMAINS = ("nodeName", "priorityClassName", "runtimeClassName", "serviceAccountName")
_LABELS = ("hostname", "subdomain")


def check_pod(pod: FieldPlace) -> None:
    """A pod as it is created."""
    check_metadata(pod["metadata"])
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
            spec[field].each(words.dns_subdomain(spec[field].text))
    for field in _LABELS:
        if spec[field].text:
            spec[field].each(words.dns_label(spec[field].text))
    deadline = spec["activeDeadlineSeconds"]
    if deadline.given:
        deadline.each(words.in_range(deadline.value, 1, 2**31 - 1))
    group = spec["schedulingGroup"]["podGroupName"]
    if group.text:
        group.each(words.dns_subdomain(group.text))


def _check_gates(gates: FieldPlace) -> None:
    seen: set[str] = set()
    for gate in gates.entries():
        name = gate["name"].text
        gate.each(words.label_key(name), name)
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
            name.each(words.dns_label(name.text))
        seen.add(name.text)
        given = [claim[field] for field in sources if claim[field].given]
        if len(given) > 1:
            claim.invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
        elif not given:
            claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for source in given:
            source.each(words.dns_subdomain(source.text), source.text)

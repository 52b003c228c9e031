"""Claims that controllers make: those of a StatefulSet's templates, and those of generic ephemeral volumes.

As in Kubernetes 1.36 (`pkg/controller/statefulset`, `pkg/controller/volume/ephemeral`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.objects.documents.fields import mapping, mappings, text, text_map
from wharfinger.whatif.inventory import Obj, Ref

CLAIM = "PersistentVolumeClaim"
_TEMPLATES = "volumeClaimTemplates"


def of_templates(ref: Ref, obj: Obj, pod_name: str) -> dict[str, Obj]:
    """The claims of one pod of a StatefulSet, by the names of its volumes. Raises `InvalidObject`."""
    found: dict[str, Obj] = {}
    for index, template in enumerate(mappings(mapping(obj, "spec"), _TEMPLATES, "spec.")):
        where = f"spec.{_TEMPLATES}[{index}]."
        volume = text(mapping(template, "metadata", where), "name", f"{where}metadata.")
        found[volume] = _claim(ref.namespace, f"{volume}-{pod_name}", template, where)
    return found


def of_ephemeral_volumes(ref: Ref, pod: Obj) -> Iterator[Obj]:
    """The claims of a pod's generic ephemeral volumes, which it owns. Raises `InvalidObject`."""
    for index, volume in enumerate(mappings(mapping(pod, "spec"), "volumes", "spec.")):
        if volume.get("ephemeral") is None:
            continue
        where = f"spec.volumes[{index}].ephemeral."
        template = mapping(mapping(volume, "ephemeral", where), "volumeClaimTemplate", where)
        owner = {"kind": "Pod", "name": ref.name, "controller": True}
        uid = text(mapping(pod, "metadata"), "uid", "metadata.")
        owner = {**owner, "uid": uid} if uid else owner
        name = f"{ref.name}-{text(volume, 'name', f'spec.volumes[{index}].')}"
        yield _claim(ref.namespace, name, template, f"{where}volumeClaimTemplate.", owner)


def named_by(ref: Ref, pod: Obj) -> Iterator[Ref]:
    """The claims that a pod's volumes name; not those of ephemeral ones. Raises `InvalidObject`."""
    for index, volume in enumerate(mappings(mapping(pod, "spec"), "volumes", "spec.")):
        where = f"spec.volumes[{index}].persistentVolumeClaim."
        name = text(mapping(volume, "persistentVolumeClaim", where[:-1]), "claimName", where)
        if name:
            yield Ref(CLAIM, ref.namespace, name)


def owned_by(ref: Ref, pod: Obj) -> Iterator[Ref]:
    """The claims of a pod's ephemeral volumes. Raises `InvalidObject`."""
    for claim in of_ephemeral_volumes(ref, pod):
        yield Ref(CLAIM, ref.namespace, claim["metadata"]["name"])


def _claim(
    namespace: str, name: str, template: Obj, where: str, owner: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    metadata = mapping(template, "metadata", where)
    about: dict[str, Any] = {
        "namespace": namespace,
        "name": name,
        "labels": text_map(metadata, "labels", f"{where}metadata."),
        "annotations": text_map(metadata, "annotations", f"{where}metadata."),
    }
    if owner:
        about["ownerReferences"] = [owner]
    spec = dict(mapping(template, "spec", where))
    return {"apiVersion": "v1", "kind": CLAIM, "metadata": about, "spec": spec}

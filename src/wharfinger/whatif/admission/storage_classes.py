"""The default StorageClass for claims that ask for none.

As in Kubernetes 1.36 (`plugin/pkg/admission/storage/storageclass/setdefault`; the controller of volumes does the same
for claims that were made before there was a default).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.objects.documents.fields import mapping, text, text_map
from wharfinger.objects.documents.storage import CLASS_ANNOTATION

_IS_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def default_class(classes: Iterable[Mapping[str, Any]]) -> str:
    """The name of the default class: the newest, then the first by name; empty for none. Raises `InvalidObject`."""
    found = []
    for obj in classes:
        metadata = mapping(obj, "metadata")
        annotations = text_map(metadata, "annotations", "metadata.")
        if any(annotations.get(name) == "true" for name in _IS_DEFAULT):
            found.append((_created(metadata), text(metadata, "name", "metadata.")))
    newest = max((created for created, _ in found), default="")
    return min((name for created, name in found if created == newest), default="")


def with_default(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The claim with that class, if it asks for none; an empty class asks for volumes without one."""
    spec = mapping(obj, "spec")
    annotations = text_map(mapping(obj, "metadata"), "annotations", "metadata.")
    if not name or spec.get("storageClassName") is not None or CLASS_ANNOTATION in annotations:
        return obj
    return {**obj, "spec": {**spec, "storageClassName": name}}


def _created(metadata: Mapping[str, Any]) -> str:
    written = metadata.get("creationTimestamp")
    return str(written) if written else ""

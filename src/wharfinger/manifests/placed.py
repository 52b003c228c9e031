"""Which kinds of objects can be placed on members, by the format of a member's cluster."""

from __future__ import annotations

from wharfinger.errors import InvalidObject
from wharfinger.manifests import kinds
from wharfinger.model.formats import ClusterFormat


def check_taken(format_: ClusterFormat, group: str, kind: str) -> None:
    """Whether members of a format can have objects of a kind. Raises `InvalidObject` with the reason if not."""
    if format_ is not ClusterFormat.KUBERNETES:
        raise InvalidObject(f"objects cannot be placed on members of the format {format_.value}")
    kinds.of_object({"apiVersion": f"{group}/v1" if group else "v1", "kind": kind})

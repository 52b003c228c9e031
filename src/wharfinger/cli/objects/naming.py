"""Names of stored objects, as people write them."""

from __future__ import annotations

from wharfinger.errors import UsageError
from wharfinger.objects.model.pod import PodKey

NAME_LIMIT = 253
"""Characters of a name, as Kubernetes has it."""


def pod_key(text: str, namespace: str) -> PodKey:
    """`NS/NAME`, or `NAME` in the namespace that `-n` says. Raises `UsageError`."""
    parts = text.split("/")
    if not all(parts) or len(parts) > 2:
        raise UsageError(f"{text!r} is no name: NAMESPACE/NAME is meant, or NAME with -n NAMESPACE")
    return PodKey(*parts) if len(parts) == 2 else PodKey(namespace, text)


def check_name(what: str, name: str) -> None:
    """Refuse what no stored object can be called; empty is for none. Raises `UsageError`."""
    if len(name) > NAME_LIMIT:
        raise UsageError(f"{what} {name[:40] + '...'!r} has {len(name)} characters, and {NAME_LIMIT} are the most")
    if "/" in name or not name.isprintable() or " " in name:
        raise UsageError(f"{what} {name!r} is no name: it has a slash, a blank or a control character")

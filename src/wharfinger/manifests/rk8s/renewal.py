"""Making a pod of rk8s anew, after its node was lost: the document of a new pod in the place of the old one.

As for a bind, only the bytes change whose meaning does: the node, the uid, the time of creation and the status. The
result is read again before it is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from wharfinger.errors import InvalidObject
from wharfinger.manifests.rk8s.edit import NODE_NAME
from wharfinger.manifests.rk8s.fields import mapping
from wharfinger.manifests.rk8s.metadata import check_head, metadata
from wharfinger.manifests.rk8s.tree import decoded, parse

_STATUS: Mapping[str, Any] = {
    "podIP": None,
    "containerStatuses": [],
    "phase": "Pending",
    "conditions": None,
    "message": None,
    "reason": None,
    "start_time": None,
}
"""What rk8s gives a pod that was just created; all fields, because its reader may ask for each."""
_WRITTEN_STATUS = (
    '{"podIP": null, "containerStatuses": [], "phase": "Pending", "conditions": null, "message": null, '
    '"reason": null, "start_time": null}'
)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def made_anew(raw: bytes, *, uid: str, now: str) -> bytes | None:
    """The document of a new pod: unbound, with this uid where the old one has one, and with an empty status.

    None where the pod must not be made anew: its controller makes another one, or its deletion was asked for already.
    Raises `InvalidObject`.
    """
    text = decoded(raw)
    known = parse(text)
    given = check_head(known, "Pod", "")
    head = metadata(mapping(given, "metadata"))
    if head.get("deletionTimestamp") or any(owner["controller"] for owner in head.get("ownerReferences", ())):
        return None
    wanted: dict[tuple[str, ...], tuple[str, Any]] = {
        ("spec", NODE_NAME): ("null", None),
        ("metadata", "uid"): (f'"{uid}"', uid),
        ("metadata", "creationTimestamp"): (f'"{now}"', now),
        ("status",): (_WRITTEN_STATUS, _STATUS),
    }
    changes: list[tuple[int, int, str]] = []
    expected: dict[str, Any] = {**given}
    for path, (written, value) in wanted.items():
        found = _place(text, path)
        if found is None:
            continue
        changes.append((*found, written))
        if len(path) == 1:
            expected[path[0]] = value
        else:
            expected[path[0]] = {**expected[path[0]], path[1]: value}
    for start, end, written in sorted(changes, reverse=True):
        line_end = "\n" if text[start:end].endswith("\n") else ""
        text = f"{text[:start]} {written}{line_end}{text[end:]}"
    if parse(text) != expected:
        raise InvalidObject("it is written in a way that cannot be made anew")
    return text.encode()


def _place(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    """Where the value of a field begins, behind the colon of its key, and where it ends; None without the field."""
    node: Any = yaml.compose(text, Loader=_Loader)
    start = 0
    for name in path:
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in entries if key.value == name), None)
        if found is None:
            return None
        key, node = found
        start = text.index(":", key.end_mark.index) + 1
    return start, max(start, node.end_mark.index)

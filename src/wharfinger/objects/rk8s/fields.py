"""Reading single fields by the type that rk8s declares: from the text of a scalar, whatever YAML would make of it.

As in rk8s, unknown fields are ignored; null is absent. Every reader raises `InvalidObject` naming the field; `where`
is the path of the mapping with its dot, such as `spec.`. Beside them: amounts of CPU and memory, what pods and nodes
say of themselves, and how a document of another format is recognised.

Amounts mean what rk8s reads. What it silently takes for nothing (`1Ti`, `1.5Gi`, `1e9`) is read as Kubernetes does,
because a pod that asks for nothing fits anywhere; what neither can read is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.fields import LIST_LIMIT, TEXT_LIMIT
from wharfinger.objects.documents.yaml_events import INTEGER
from wharfinger.objects.model.quantities import NANO, NANO_PER_MILLI, parse_quantity
from wharfinger.objects.rk8s.tree import Plain, Tagged

EMPTY: Mapping[str, Any] = {}
_DIGITS = 20
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
T = TypeVar("T")


def mapping(obj: Mapping[str, Any], key: str, where: str = "") -> Mapping[str, Any]:
    """A nested mapping; empty when absent."""
    value = obj.get(key)
    if value is None:
        return EMPTY
    if not isinstance(value, dict):
        raise InvalidObject(f"{where}{key} is {_shape(value)}, not a mapping")
    return value


def sequence(obj: Mapping[str, Any], key: str, where: str = "") -> Sequence[Any]:
    """A list; empty when absent."""
    value = obj.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidObject(f"{where}{key} is {_shape(value)}, not a list")
    if len(value) > LIST_LIMIT:
        raise InvalidObject(f"{where}{key} has more than {LIST_LIMIT} entries")
    return value


def mappings(obj: Mapping[str, Any], key: str, where: str = "") -> Sequence[tuple[str, Mapping[str, Any]]]:
    """A list of mappings, each with its path; empty when absent."""
    found = []
    for index, entry in enumerate(sequence(obj, key, where)):
        path = f"{where}{key}[{index}]."
        if not isinstance(entry, dict):
            raise InvalidObject(f"{path[:-1]} is {_shape(entry)}, not a mapping")
        found.append((path, entry))
    return found


def text(obj: Mapping[str, Any], key: str, where: str = "") -> str | None:
    """A text, also from a number's or a truth value's letters; None when absent."""
    value = obj.get(key)
    return None if value is None else checked_text(value, f"{where}{key}")


def needed_text(obj: Mapping[str, Any], key: str, where: str = "") -> str:
    """A text that must be there, and may be empty."""
    value = text(obj, key, where)
    if value is None:
        raise InvalidObject(f"{where}{key} is missing")
    return value


def texts(obj: Mapping[str, Any], key: str, where: str = "") -> list[str]:
    """A list of texts; empty when absent."""
    return [checked_text(value, f"{where}{key}[{index}]") for index, value in enumerate(sequence(obj, key, where))]


def text_map(obj: Mapping[str, Any], key: str, where: str = "") -> dict[str, str]:
    """A mapping of texts; empty when absent."""
    value = mapping(obj, key, where)
    if len(value) > LIST_LIMIT:
        raise InvalidObject(f"{where}{key} has more than {LIST_LIMIT} entries")
    return {str(name): checked_text(entry, f"{where}{key}[{name[:80]!r}]") for name, entry in value.items()}


def integer(obj: Mapping[str, Any], key: str, where: str = "", *, low: int, high: int) -> int | None:
    """A number without quotes, within its type's range; None when absent."""
    value = obj.get(key)
    if value is None:
        return None
    if not isinstance(value, Plain) or len(value) > _DIGITS or not INTEGER.fullmatch(value):
        raise InvalidObject(f"{where}{key} is {_shape(value)}, not a whole number")
    number = int(value, 0) if value[:2] in ("0x", "0o") else int(value)
    if not low <= number <= high:
        raise InvalidObject(f"{where}{key} is {number}, not within {low} and {high}")
    return number


def boolean(obj: Mapping[str, Any], key: str, where: str = "") -> bool:
    """A truth value without quotes; false when absent."""
    value = obj.get(key)
    if value is None:
        return False
    if not isinstance(value, Plain) or value not in _TRUTH:
        raise InvalidObject(f"{where}{key} is {_shape(value)}, neither true nor false")
    return _TRUTH[value]


def one_of(obj: Mapping[str, Any], key: str, where: str, names: Collection[str], default: str = "") -> str:
    """A unit variant of an enum; `default` when absent."""
    value = text(obj, key, where)
    if value is None:
        return default
    if value not in names:
        raise InvalidObject(f"{where}{key} {value[:40]!r} is none of {', '.join(names)}")
    return value


def checked_text(value: Any, path: str) -> str:
    """The text of a scalar; refuses what is none, and what is too long."""
    if not isinstance(value, str):
        raise InvalidObject(f"{path} is {_shape(value)}, not a text")
    if len(value) > TEXT_LIMIT:
        raise InvalidObject(f"{path} is longer than {TEXT_LIMIT} characters")
    return str(value)


def _shape(value: Any) -> str:
    if isinstance(value, Tagged):
        return f"tagged !{value.variant[:40]}"
    if isinstance(value, str):
        return f"{value[:40]!r}" + ("" if isinstance(value, Plain) else " in quotes")
    return {type(None): "null", dict: "a mapping"}.get(type(value), "a list")


_SMALL = re.compile(r"([+]?[0-9]+)(ki|mi|gi|k|m|g)", re.ASCII | re.IGNORECASE)
"""Whole numbers with the suffixes that rk8s knows for memory, in any case: its `m` is a million, never a thousandth."""
_FACTORS = {"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "k": 10**3, "m": 10**6, "g": 10**9}


def cpu(text: str, path: str) -> str:
    """Cores as a quantity in thousandths, rounded up; raises `InvalidObject` below zero and for what is no amount."""
    return f"{-(-_amount(text, path) // NANO_PER_MILLI)}m"


def memory(text: str, path: str) -> str:
    """Bytes as a quantity without a suffix, rounded up; raises `InvalidObject` as `cpu` does."""
    known = _SMALL.fullmatch(text.strip()) if len(text) <= 64 else None
    if known is not None:
        return str(int(known[1]) * _FACTORS[known[2].lower()])
    return str(-(-_amount(text, path) // NANO))


def _amount(text: str, path: str) -> int:
    try:
        amount = parse_quantity(text.strip())
    except ValueError as error:
        raise InvalidObject(f"{path} {text[:40]!r} {error}") from None
    if amount < 0:
        raise InvalidObject(f"{path} {text[:40]!r} is below zero")
    return amount


METADATA = "metadata."
NAMESPACE = "default"
"""Of every pod: keys have no namespace, so two pods of one name are one pod whatever `metadata.namespace` says."""
_OWNERS = ("Pod", "Service", "Deployment", "ReplicaSet", "Endpoint", "Job", "Unknown")


def check_head(obj: object, kind: str, name: str) -> Mapping[str, Any]:
    """The document of that kind, which its key calls `name` (empty = not asked). Raises `InvalidObject`."""
    if not isinstance(obj, dict):
        raise InvalidObject("is no mapping")
    for field in ("apiVersion", "kind"):
        needed_text(obj, field)
    if obj["kind"] != kind:
        raise InvalidObject(f"kind is {obj['kind'][:40]!r}, not {kind!r}")
    for field in ("metadata", "spec"):
        if obj.get(field) is None:
            raise InvalidObject(f"{field} is missing")
    found = text(mapping(obj, "metadata"), "name", METADATA) or ""
    if name and found != name:
        raise InvalidObject(f"metadata.name is {found[:300]!r}, in its key {name[:300]!r}")
    return obj


def metadata(given: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
    """`metadata` as Kubernetes has it, as far as scheduling reads it; no uid: the create revision of the key tells pods
    of one name apart, and a document without a uid gets another one whenever rk8s reads it.
    """
    found: dict[str, Any] = {
        "name": needed_text(given, "name", METADATA),
        "labels": text_map(given, "labels", METADATA),
        "annotations": text_map(given, "annotations", METADATA),
    }
    if namespace:
        found["namespace"] = namespace
    for field in ("creationTimestamp", "deletionTimestamp"):
        value = text(given, field, METADATA)
        if value:
            found[field] = value
    owners = [_owner(entry, where) for where, entry in mappings(given, "ownerReferences", METADATA)]
    if owners:
        found["ownerReferences"] = owners
    return found


def _owner(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        "kind": one_of(entry, "kind", where, _OWNERS),
        "name": needed_text(entry, "name", where),
        "controller": boolean(entry, "controller", where),
    }


def refuse_foreign(obj: Mapping[str, Any], theirs: Mapping[str, str], where: str) -> None:
    """Raise `InvalidObject` for a mapping with a field of Kubernetes' spelling; `theirs`: such fields, and rk8s'.

    rk8s ignores them, so the pod would be placed as if it had not asked. An empty text: rk8s has no such field.
    """
    for field, own in theirs.items():
        if field in obj:
            instead = f"it has {own} instead" if own else "it has no such field"
            raise InvalidObject(f"{where}{field} is Kubernetes', and this cluster's objects are rk8s': {instead}")

"""The types of values: a number where a text belongs cannot be read by an API server at all.

The types are those of the Go structs (`kubernetes_fields`). As in Kubernetes' decoding, null means absent. Fields that
Kubernetes does not have are left to `strict`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wharfinger.manifests.checks.place import FieldPlace
from wharfinger.manifests.kubernetes_fields import kubernetes_fields
from wharfinger.model.quantities import parse_quantity

_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value)
    except ValueError:
        return False
    return True


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return False
    return True


_SCALARS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "must be a string: write it in quotes"),
    "time": (lambda value: isinstance(value, str), "must be a string: a time such as 2026-01-31T12:00:00Z"),
    "bool": (lambda value: isinstance(value, bool), "must be true or false"),
    "int32": (lambda value: _is_integer(value) and -(2**31) <= value < 2**31, "must be an integer of 32 bits"),
    "int64": (lambda value: _is_integer(value) and -(2**63) <= value < 2**63, "must be an integer of 64 bits"),
    "float64": (lambda value: _is_integer(value) or isinstance(value, float), "must be a number"),
    "quantity": (_is_quantity, _QUANTITY),
    "int-or-string": (lambda value: _is_integer(value) or isinstance(value, str), "must be an integer or a string"),
    "bytes": (_is_base64, "must be a string in base64"),
    "any": (lambda _value: True, ""),
}


def check_types(place: FieldPlace, kind: str) -> None:
    """Find all values of other types than Kubernetes has, at and below a place.

    `kind`: a type of `kubernetes_fields`.
    """
    if not _fits(place.value, kind):
        for wrong, why in _wrong(place, kind):
            wrong.invalid(why)


def _fits(value: Any, kind: str) -> bool:
    """Whether all is of the right type. Almost everything is, and this costs a fifth of looking for places."""
    if value is None:
        return True
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar[0](value)
    if kind.startswith("[]"):
        return isinstance(value, list) and all(_fits(entry, kind[2:]) for entry in value)
    if not isinstance(value, dict):
        return False
    if kind.startswith("{}"):
        return all(_fits(entry, kind[2:]) for entry in value.values())
    fields = kubernetes_fields().values[kind]
    return all(_fits(entry, fields[key]) for key, entry in value.items() if key in fields)


def _wrong(place: FieldPlace, kind: str) -> Iterator[tuple[FieldPlace, str]]:
    if not place.given:
        return
    if kind.startswith("[]"):
        if not isinstance(place.value, list):
            yield place, "must be a list"
            return
        for entry in place.entries():
            yield from _wrong(entry, kind[2:])
    elif kind.startswith("{}"):
        if not isinstance(place.value, dict):
            yield place, "must be a mapping"
            return
        for _, entry in place.pairs():
            yield from _wrong(entry, kind[2:])
    elif kind in _SCALARS:
        is_right, why = _SCALARS[kind]
        if not is_right(place.value):
            yield place, why
    elif not isinstance(place.value, dict):
        yield place, "must be a mapping"
    else:
        fields = kubernetes_fields().values[kind]
        for key in place.value:
            if key in fields:
                yield from _wrong(place[key], fields[key])

"""What lies in etcd where a Kubernetes API is the store, as JSON. Keys: `etcd.keys`.

::

    promises/<namespace>/<name>  model Promise    `bind`, in its transaction; the importer, and who gives it up
    importer                     model Importer   the importer, under its lease, create-only
    imported                     model Imported   the importer, each second
    active                       model MayBind    the importer, under a short lease, while it holds the Lease of the API

Each write of the importer compares the mod revision of `importer`; each bind compares that of `active`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import TypeAdapter

from wharfinger.scheduling.model.promises import Imported, Importer, MayBind, Promise

UNREADABLE = "the promise cannot be read"
Fact = Promise | Imported | MayBind | Importer
F = TypeVar("F", Promise, Imported, MayBind, Importer)

_ADAPTERS: Mapping[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Promise, Imported, MayBind, Importer)
}


def stored(record: Fact) -> bytes:
    """As stored in etcd: compact JSON, without fields that have their usual values."""
    return _ADAPTERS[type(record)].dump_json(record, exclude={"mod_revision"}, exclude_defaults=True)


def read_value(kind: type[F], value: bytes) -> F:
    """The record in a value. Raises `ValueError`."""
    found: F = _ADAPTERS[kind].validate_json(value)
    return found


def at(promise: Promise, mod_revision: int) -> Promise:
    """The promise with what its key says."""
    return replace(promise, mod_revision=mod_revision)


def promise_in(value: bytes, mod_revision: int) -> Promise:
    """A stored promise. One that cannot be read counts as given up: it is never sent."""
    try:
        found = read_value(Promise, value)
    except ValueError:
        found = Promise(uid="", revision=0, node="", attempt="", since="", withdrawn=UNREADABLE)
    return at(found, mod_revision)

"""Decodes stored keys and values without touching any state, and reports those that cannot be read.

Apart from `state.informer.view`, so that a long list can be decoded page by page beside the old state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from pydantic import ValidationError

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.framework.config.dynamic import is_target
from wharfinger.objects.documents.decode import decode_surrounding
from wharfinger.objects.documents.formats import KUBERNETES, ObjectFormat, decode_made_anew
from wharfinger.objects.documents.kinds import KINDS
from wharfinger.objects.documents.surroundings import KINDS as SURROUNDINGS
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.pod_records import HeldPlace, Refusal
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClasses
from wharfinger.objects.model.surroundings import Surrounding
from wharfinger.process.records import AttemptRecord, HoldRecord, InstanceRecord
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported, Promise
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

SURROUNDING_KINDS = {keys.stored_prefix(kind.folder): kind.name for kind in KINDS if kind.name in SURROUNDINGS}
"""Kinds that decisions read beside nodes and pods, by prefix."""

INCARNATION_DIGITS = 18
"""A number of more digits is no incarnation (and beyond some thousands, Python refuses to read it)."""


class OwnKey(NamedTuple):
    """A key that this worker alone follows, because it lives by it: one of `keys.GRANTS`."""

    key: str
    decode: Callable[[KeyValue], object]
    """What its value means. Raises `InvalidObject`."""


class ObservedKey(NamedTuple):
    """One key as the store shows it now."""

    kv: KeyValue
    prefix: str
    parts: tuple[str, ...]
    value: object = None
    """None for kinds whose value means nothing (versions, tenants), for deleted and for invalid keys, and for
    objects that mean nothing to any decision.

    Of an invalid pod that is bound: what it holds on its node.
    """
    deleted: bool = False
    invalid: str = ""
    """Why it cannot be read; empty when it can, or is deleted."""


def observe(
    event: Event,
    own: OwnKey | None = None,
    classes: PriorityClasses = NO_CLASSES,
    format_: ObjectFormat = KUBERNETES,
) -> ObservedKey | None:
    """What an event says; None when its key is of no kind we follow.

    `own`: the only grant that is followed; `classes`: the priority classes that are known now; `format_`: the
    cluster's.
    """
    kv = event.kv
    parsed = keys.parse(kv.key)
    if parsed is None or parsed.prefix not in keys.FOLLOWED:
        return None
    prefix, parts = parsed.prefix, parsed.parts
    if prefix in SURROUNDING_KINDS and not format_.has_surroundings:
        return None
    if prefix == keys.GRANTS and (own is None or kv.key != own.key):
        return None
    if not _fits(prefix, parts):
        reason = f"its key is not {prefix}{_names(prefix, format_)}"
        return ObservedKey(kv, prefix, parts, deleted=event.deleted, invalid="" if event.deleted else reason)
    if event.deleted:
        return ObservedKey(kv, prefix, parts, deleted=True)
    try:
        if own is not None and kv.key == own.key:
            return ObservedKey(kv, prefix, parts, own.decode(kv))
        return ObservedKey(kv, prefix, parts, _decode(kv, prefix, parts, classes, format_))
    except ValidationError as error:
        return ObservedKey(kv, prefix, parts, invalid=first_line(error))
    except InvalidObject as error:
        held = None
        if prefix == keys.PODS:
            held = format_.decode_occupant(kv.value, namespace=parts[0], name=parts[1], **kv.revisions)
        return ObservedKey(kv, prefix, parts, held, invalid=str(error))
    except Exception as error:  # one object must never stop all workers, whatever a decoder did not think of
        log.exception("decoder_failed key=%r", kv.key)
        return ObservedKey(kv, prefix, parts, invalid=f"{type(error).__name__}: {error}")


def well_formed(observed: ObservedKey) -> bool:
    """Whether the key names an object at all, readable or not."""
    return _fits(observed.prefix, observed.parts)


def _names(prefix: str, format_: ObjectFormat) -> str:
    """What follows the prefix in a key of that kind."""
    if prefix == keys.PODS and not format_.has_surroundings:
        return format_.pod_key
    return "<kind>/<target>" if prefix == keys.CONFIG else "/".join("<name>" for _ in keys.FOLLOWED[prefix].names)


def _fits(prefix: str, parts: tuple[str, ...]) -> bool:
    if prefix == keys.CONFIG:
        return bool(parts[0]) and is_target("/".join(parts[1:]))
    return keys.FOLLOWED[prefix].fits(parts)


def incarnation_number(text: str) -> int | None:
    """The incarnation that the last part of a registration's key names; None when it is no number of ours."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= INCARNATION_DIGITS else None


def _decode(
    kv: KeyValue, prefix: str, parts: tuple[str, ...], classes: PriorityClasses, format_: ObjectFormat
) -> Pod | Node | Surrounding | Refusal | InstanceRecord | Promise | HeldPlace | Imported | None:
    if prefix in SURROUNDING_KINDS:
        *namespace, name = parts
        return decode_surrounding(kv.value, SURROUNDING_KINDS[prefix], namespace="".join(namespace), name=name)
    match prefix:
        case keys.PODS:
            return format_.decode_pod(kv.value, namespace=parts[0], name=parts[1], classes=classes, **kv.revisions)
        case keys.NODES:
            return format_.decode_node(kv.value, name=parts[0], **kv.revisions)
        case keys.ATTEMPTS:
            return _refusal(kv)
        case keys.INSTANCES:
            return _instance(kv, parts[2])
        case keys.PROMISES:
            return promise_records.at(promise_records.read_value(Promise, kv.value), kv.mod_revision)
        case keys.HOLDS:
            return HoldRecord.model_validate_json(kv.value).place(kv.mod_revision)
        case keys.IMPORTED:
            return promise_records.read_value(Imported, kv.value)
        case keys.REQUEUED:
            decode_made_anew(format_, kv.value, namespace=parts[1], name=parts[2])
            return None
        case _:
            return None


def _refusal(kv: KeyValue) -> Refusal:
    record = AttemptRecord.model_validate_json(kv.value)
    if record.revision > kv.mod_revision:
        raise InvalidObject("its revision is later than its own write: no event would ever be newer")
    return Refusal(
        attempt=record.attempt,
        reason=intern(record.reason),
        rejectors=_alike(record.plugins),
        revision=record.revision,
        message=intern(record.message),
        workflow_id=intern(record.workflow_id),  # a cohort's records name it hundreds of times
        run_id=intern(record.run_id),
        parked=record.parked,
        urgent=record.urgent,
        create_revision=record.create_revision,
        record_revision=kv.mod_revision,
        nominated_node=intern(record.nominated_node),
    )


@lru_cache(1024)
def _alike(plugins: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for equal ones: thousands of pods wait for the same reason."""
    return plugins


def _instance(kv: KeyValue, incarnation: str) -> InstanceRecord:
    if incarnation_number(incarnation) is None:
        raise InvalidObject(f"incarnation {incarnation[:80]!r} is no number")
    if not kv.lease:
        raise InvalidObject("no lease holds it: pods would be shared out to a worker that need not live")
    return InstanceRecord.model_validate_json(kv.value)


def first_line(error: ValidationError) -> str:
    """Where the first mistake is, and what it is."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


_KINDS = {
    **{prefix: kind.singular for kind in KINDS if (prefix := keys.stored_prefix(kind.folder)) in keys.FOLLOWED},
    keys.BINDINGS: "binding",
    keys.ATTEMPTS: "attempt",
    keys.BOUND_BY: "boundby",
    keys.INSTANCES: "instance",
    keys.TENANTS: "tenant",
    keys.REQUEUED: "requeued",
    keys.GRANTS: "grant",
    keys.CONFIG: "config",
}

SHOWN = 512
"""Characters of a key in a line of the log; a key may be as long as a value."""


def kind_of(key: str) -> str:
    """The kind of object a key names, for people."""
    return next((kind for prefix, kind in _KINDS.items() if key.startswith(prefix)), "object")


class InvalidObjects:
    """Which keys hold unreadable values, and why. Each is reported once; none stops a loop."""

    def __init__(self, metrics: Metrics, as_stored: Callable[[str], str] = str) -> None:
        """`as_stored`: a key as etcd has it, for the log."""
        self._metrics = metrics
        self._as_stored = as_stored
        self._reasons: dict[str, str] = {}
        for kind in _KINDS.values():
            metrics.invalid_objects.labels(kind).set(0)

    @property
    def reasons(self) -> dict[str, str]:
        """Key -> reason, of all that are invalid now."""
        return dict(self._reasons)

    def __contains__(self, key: str) -> bool:
        return key in self._reasons

    def add(self, key: str, reason: str) -> None:
        """The key holds an invalid object; said again only when the reason is another one."""
        before = self._reasons.get(key)
        self._reasons[key] = reason
        if before is None:
            self._metrics.invalid_objects.labels(kind_of(key)).inc()
        if before != reason:
            log.warning(
                "object_invalid kind=%s key=%s reason=%r", kind_of(key), printable(self._as_stored(key)), reason
            )

    def clear(self, key: str) -> None:
        """The key holds a valid object, or none."""
        if self._reasons and self._reasons.pop(key, None) is not None:
            self._metrics.invalid_objects.labels(kind_of(key)).dec()


def printable(key: str) -> str:
    """A key, or a part of one, for a line of the log: bounded; bytes that are no UTF-8, and controls, are spelt out."""
    shown = key if len(key) <= SHOWN else f"{key[:SHOWN]}...({len(key)} characters)"
    text = shown.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)

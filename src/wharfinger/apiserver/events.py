"""Events of `events.k8s.io/v1`: which there are, what they say, how they are named, and which repeat an earlier one.

Pure; `event_lane.py` sends them. Reasons, actions, types and texts are those of kube-scheduler 1.36 where it has the
event (`pkg/scheduler/schedule_one.go`, `framework/preemption/executor.go`); `GangTorn` and `DryRunUnsupported` are
ours.

An event's name follows from the attempt (run id), the reason and the object. An activity that is retried creates the
same name again, and the server answers 409: the event is there.

Warnings that repeat become a series, as client-go's recorder makes it. The first repeat is written at once. Later ones
are counted here, and their count is written each `REFRESH` and when the series ends::

    new ──► created ──► said again: PATCH count 2 ──► said again ... ──► PATCH count n ──► forgotten
                                                      counted            each 30 min, or 6 min after the last
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any, NamedTuple

from wharfinger.apiserver.client import EVENTS
from wharfinger.objects.model.names import is_dns_subdomain

NORMAL = "Normal"
WARNING = "Warning"

SCHEDULED = "Scheduled"
FAILED_SCHEDULING = "FailedScheduling"
PREEMPTED = "Preempted"
GANG_TORN = "GangTorn"
DRY_RUN_UNSUPPORTED = "DryRunUnsupported"

NOTE_LIMIT = 1024
"""Bytes of UTF-8 that the server accepts for a note."""
INSTANCE_LIMIT = 128
"""Likewise, of `reportingInstance`."""
NAME_LIMIT = 253
_CUT = " ..."
WINDOW = 6 * 60.0
"""Seconds after which an event that is said again is a new event; client-go's."""
REFRESH = 30 * 60.0
"""Seconds between two writes of a series that goes on; client-go's. The server forgets an event after an hour."""
LIMIT = 20_000
"""Events remembered; the one that was said longest ago is forgotten first. About 0.5 KB each."""


class ObjectReference(NamedTuple):
    """An object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    """Empty for objects without namespace."""
    uid: str = ""
    revision: str = ""
    """resourceVersion at which it was seen; empty = not said."""

    def body(self) -> dict[str, str]:
        """As an ObjectReference of the API, without empty fields."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.revision,
        }
        return {name: value for name, value in fields.items() if value}


def pod_reference(namespace: str, name: str, uid: str, revision: int = 0) -> ObjectReference:
    """A pod; revision 0 = not said."""
    return ObjectReference("v1", "Pod", name, namespace, uid, str(revision) if revision else "")


@dataclass(frozen=True, slots=True)
class ApiEvent:
    """One event, before it is sent."""

    name: str
    regarding: ObjectReference
    type: str
    """`NORMAL` or `WARNING`."""
    reason: str
    action: str
    note: str
    controller: str
    """Scheduler name of the profile."""
    instance: str
    """Which process of it."""
    time: datetime
    """When it happened; with a zone."""
    related: ObjectReference | None = None

    @property
    def namespace(self) -> str:
        """Where the event lies: the namespace of the object, `default` for objects without one."""
        return self.regarding.namespace or "default"

    @property
    def key(self) -> bytes:
        """Equal for two events that say the same; the repeats of one form a series.

        client-go's key, and the note besides. Without it, a repeat with another note would count as the first one
        and its text would be lost.
        """
        parts = (
            *(self.type, self.action, self.reason, self.controller, self.instance, self.note),
            *self.regarding,
            *(self.related or ()),
        )
        return _digest(parts, 16)

    def body(self, count: int = 1) -> dict[str, Any]:
        """The Event to create; with a series when it was said more than once, the last time at `time`."""
        body: dict[str, Any] = {
            "apiVersion": f"{EVENTS.group}/{EVENTS.version}",
            "kind": "Event",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "eventTime": micro_time(self.time),
            "type": self.type,
            "reason": self.reason,
            "action": self.action,
            "note": self.note,
            "reportingController": self.controller,
            "reportingInstance": self.instance,
            "regarding": self.regarding.body(),
        }
        if self.related is not None:
            body["related"] = self.related.body()
        return body | series_patch(count, self.time) if count > 1 else body


@dataclass(frozen=True, slots=True)
class EventReporter:
    """Makes the events of one attempt that are about one object, and passes them on."""

    scheduler: str
    """Scheduler name of the profile."""
    host: str
    """Name of the process or its host, unique among the workers of the installation."""
    run: str
    """Run id of the attempt."""
    now: datetime
    regarding: ObjectReference
    say: Callable[[ApiEvent], object] = lambda _event: None

    def scheduled(self, node: str) -> ApiEvent:
        """The pod was bound."""
        note = f"Successfully assigned {self.regarding.namespace}/{self.regarding.name} to {node}"
        return self._said(NORMAL, SCHEDULED, "Binding", note)

    def failed_scheduling(self, message: str) -> ApiEvent:
        """The pod fits nowhere, or could not be bound; `message` is that of the condition."""
        return self._said(WARNING, FAILED_SCHEDULING, "Scheduling", message)

    def preempted(self, preemptor: ObjectReference, node: str) -> ApiEvent:
        """The pod was evicted for another. The note has the preemptor's uid only; `related` has its name."""
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        return self._said(NORMAL, PREEMPTED, "Preempting", note, related=preemptor)

    def gang_torn(self, gang: str, *, bound: int, members: int, cause: str, policy: str) -> ApiEvent:
        """A gang is bound in part, and the rest cannot follow.

        `gang`: `<namespace>/<name>`. `cause`: why the rest cannot follow. `policy`: what happens to the bound
        members (`Keep` or `Evict`).
        """
        note = f"gang {gang} is torn: {bound} of {members} members are bound, tornPolicy {policy}: {cause}"
        return self._said(WARNING, GANG_TORN, "Binding", note)

    def dry_run_unsupported(self, gang: str, message: str) -> ApiEvent:
        """The server refuses dry runs of a gang's binds; they are sent without. `message`: the server's words."""
        note = f"the binds of gang {gang} are sent without a dry run, because the API server refuses one: {message}"
        return self._said(WARNING, DRY_RUN_UNSUPPORTED, "Binding", note)

    def _said(
        self, type_: str, reason: str, action: str, note: str, *, related: ObjectReference | None = None
    ) -> ApiEvent:
        event = ApiEvent(
            name=event_name(self.regarding, self.run, reason),
            regarding=self.regarding,
            type=type_,
            reason=reason,
            action=action,
            note=cut_note(note),
            controller=self.scheduler,
            instance=f"{self.scheduler}-{self.host}"[:INSTANCE_LIMIT],
            time=self.now,
            related=related,
        )
        self.say(event)
        return event


def event_name(regarding: ObjectReference, run: str, reason: str) -> str:
    """`<object>.<hash>`, a DNS subdomain of at most 253 characters; the same for the same arguments.

    The object's name is cut where it is too long, and left out where it is no DNS subdomain.
    """
    unique = _digest((run, reason, regarding.kind, regarding.namespace, regarding.name, regarding.uid), 8).hex()
    readable = regarding.name[: NAME_LIMIT - len(unique) - 1].rstrip(".-")
    return f"{readable}.{unique}" if is_dns_subdomain(readable) else unique


def cut_note(text: str) -> str:
    """At most `NOTE_LIMIT` bytes of UTF-8; " ..." shows that text is missing. Cuts between characters."""
    whole = text.encode(errors="replace")
    if len(whole) <= NOTE_LIMIT:
        return whole.decode()
    return whole[: NOTE_LIMIT - len(_CUT)].decode(errors="ignore") + _CUT


def series_patch(count: int, last: datetime) -> dict[str, Any]:
    """Patch of an event that was said `count` times (at least 2), the last time at `last`."""
    return {"series": {"count": count, "lastObservedTime": micro_time(last)}}


def micro_time(time: datetime) -> str:
    """A time as the API's MicroTime: UTC, six digits, `2026-03-01T12:00:00.000000Z`. Needs a zone."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _digest(parts: tuple[str, ...], size: int) -> bytes:
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        digest.update(part.encode(errors="surrogatepass") + b"\0")
    return digest.digest()


class Said(Enum):
    """What an event is to those before it."""

    FIRST = auto()
    AGAIN = auto()
    """A repeat: another attempt says the same."""
    RETRIED = auto()
    """The same attempt again, because its activity was retried: nothing to do."""


@dataclass(slots=True, eq=False)
class Series:
    """An event, and how often it was said."""

    key: bytes
    namespace: str
    name: str
    """Of the event in the server, usually that of the first time."""
    latest: str
    """Name of the latest repeat."""
    last: datetime
    """When it was said last, time of day."""
    seen: float
    """Likewise, in seconds of the lane's clock."""
    count: int = 1
    told: int = 0
    """Count that the server has; 0 until the event is created."""
    told_at: float = 0.0
    queued: bool = False
    """Whether a write is in the queue or under way."""

    @property
    def behind(self) -> bool:
        """Whether the server has the event with a lower count."""
        return 0 < self.told < self.count

    @property
    def due(self) -> bool:
        """Whether its first repeat has to be written, and no write is on its way."""
        return self.told == 1 < self.count and not self.queued

    def tell(self, count: int, now: float) -> None:
        """The server has this count."""
        self.told, self.told_at = count, now


class RecentEvents:
    """The series that are open."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._series: OrderedDict[bytes, Series] = OrderedDict()
        """By key of the event; that which was said longest ago comes first."""
        self._ended: list[Series] = []

    def __len__(self) -> int:
        return len(self._series)

    def say(self, event: ApiEvent, now: float) -> tuple[Said, Series]:
        """Take in an event; `now` in seconds of a clock that does not go back."""
        key = event.key
        series = self._series.get(key)
        if series is None or now - series.seen > WINDOW:
            if series is not None:
                self._end(series)
            elif len(self._series) >= self._limit:
                self._end(next(iter(self._series.values())))
            series = Series(key, event.namespace, event.name, event.name, event.time, now)
            self._series[key] = series
            return Said.FIRST, series
        if event.name in (series.name, series.latest):
            return Said.RETRIED, series
        series.count += 1
        series.latest, series.last, series.seen = event.name, event.time, now
        self._series.move_to_end(key)
        return Said.AGAIN, series

    def forget(self, series: Series) -> None:
        """The server does not have the event: the next repeat is a first one. Idempotent."""
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def sweep(self, now: float) -> list[Series]:
        """End the series without repeats for `WINDOW`; returns those whose count has to be written now."""
        while self._series and now - (oldest := next(iter(self._series.values()))).seen > WINDOW:
            self._end(oldest)
        ended, self._ended = self._ended, []
        refreshed = [series for series in self._series.values() if series.behind and now - series.told_at >= REFRESH]
        return [series for series in (*ended, *refreshed) if not series.queued]

    def close(self) -> list[Series]:
        """End all series; returns those whose count has to be written."""
        for series in tuple(self._series.values()):
            self._end(series)
        ended, self._ended = self._ended, []
        return ended

    def _end(self, series: Series) -> None:
        del self._series[series.key]
        if series.behind:
            self._ended.append(series)

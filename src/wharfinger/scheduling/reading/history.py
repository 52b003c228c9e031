"""One recorded run, read as the attempt that it was.

Input is the run's history as Temporal keeps it; output an `Attempt` of plain values. Pure: `reading.attempts` fetches
histories, and `reading.explanation` puts them together. `reading.causes` has why a run was started, and
`reading.group_members` a pod's part in the run of a cohort or a gang.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from wharfinger.process.contract import Contract
from wharfinger.process.names import SEARCH_NODE, SEARCH_OUTCOME
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.extenders import NO_ANSWERS, AskExtenders, ExtenderAnswers, ExtendersAnswered
from wharfinger.scheduling.contracts.plugin_calls import Held, PluginAnswer, PluginStep
from wharfinger.scheduling.reading.causes import cause_of, cohort_before, count_in, first_of, number_of, woken_by

C = TypeVar("C", bound=Contract)

WAITED = "waited"
"""The step of a pause: refused, for a permission, for volumes, or after a plugin's Wait."""
CALL = "call_plugin"
"""The activity that calls an asynchronous plugin."""
PLACE_MARKER = "core_local_activity"
"""How the SDK records a local activity."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that an attempt did, and how long it took."""

    name: str
    """`backed off`, `place`, `ask_extenders`, `bind`, `call_plugin`, `record_refusal`, `evict` or `waited`."""
    started: datetime
    seconds: float | None
    """None while it goes on."""
    tries: int = 1
    detail: str = ""


@dataclass(slots=True)
class Attempt:
    """One run of a pod's chain."""

    attempt: int
    workflow_id: str
    run_id: str
    started: datetime
    cause: str
    """Why it was started, or what woke it."""
    ended: datetime | None = None
    outcome: str = "running"
    """As `WharfingerOutcome`, or `running`, `waiting`, `terminated`, `timed out`."""
    node: str | None = None
    message: str = ""
    """Of the refusal or the failure."""
    placement: dict[str, Any] = field(default_factory=dict)
    """What `place` answered (`contracts.scheduling`), empty when it never did."""
    steps: list[Step] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    """What happened on the way of the bind."""
    after_cohort: str = ""
    """`<workflow id>@<run id>` of the cohort that left the pod to this chain; empty for none."""
    answers: ExtenderAnswers = NO_ANSWERS
    """Of extenders, by which the last `place` decided."""
    many: PlacedMany | None = None
    """The whole decision of a cohort or a gang, of which this is the pod's part; None where it was decided alone."""

    @property
    def refusals(self) -> dict[str, dict[str, int]]:
        """Plugin that refused first -> reason -> nodes."""
        return {one["plugin"]: one["reasons"] for one in self.placement.get("refusals", ())}

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """The best nodes with their scores, the chosen one first; empty when scoring was skipped."""
        return list(self.placement.get("ranking", ()))

    @property
    def passed_over(self) -> dict[str, Any]:
        """The node that would have been chosen had the worker not preferred its own; empty when it is the same."""
        return dict(self.placement.get("passed_over") or {})

    @property
    def plugin_data(self) -> dict[str, Any]:
        """What plugins recorded of the chosen node, by plugin."""
        return dict(self.placement.get("plugin_data") or {})

    @property
    def nominated_node(self) -> str:
        """Where the pod was to fit once its victims were gone; empty when no pod could be preempted."""
        return str(self.placement.get("nominated_node", ""))

    @property
    def victims(self) -> list[str]:
        """Who had to leave for it, `namespace/name`, most important first; the first ones of many."""
        return [one["pod"] for one in self.placement.get("victims", ())]

    @property
    def victim_count(self) -> int:
        """How many had to leave for it."""
        return int(self.placement.get("victim_count", 0)) or len(self.victims)

    @property
    def computation(self) -> dict[str, Any]:
        """Snapshot revision, profile, numbers of nodes, who decided and how fast."""
        recorded = dict(self.placement.get("computation", {}))
        if "profile" in recorded:  # the name is not written where it is the default
            recorded.setdefault("profile_name", Computation.model_fields["profile_name"].default)
        return recorded


def is_only_continued(events: Sequence[HistoryEvent]) -> bool:
    """Whether the run did nothing but continue as new with the chain's retry policy."""
    return bool(events) and events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


def read_attempt(workflow_id: str, run_id: str, events: Iterable[HistoryEvent]) -> Attempt | None:
    """The attempt that a run's history records; None when its beginning is missing."""
    reader: _Reader | None = None
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            reader = _Reader(workflow_id, run_id, event)
        elif reader is not None:
            reader.read(event)
    if reader is None:
        return None
    reader.close()
    return reader.attempt


class _Open(NamedTuple):
    """An ordinary activity that has not ended yet."""

    name: str
    time: datetime
    about: str = ""
    """Which plugin it calls, if it calls one: `PreBind of Licences`."""

    @classmethod
    def of(cls, event: HistoryEvent) -> _Open:
        """What this event scheduled."""
        scheduled = event.activity_task_scheduled_event_attributes
        request = first_of(scheduled.input.payloads)
        step = request.get("step") if isinstance(request, dict) else None
        due = _read(PluginStep, step) if isinstance(step, dict) else None
        return cls(scheduled.activity_type.name, _time(event), f"{due.point} of {due.plugin}" if due else "")


class _Reader:
    """Walks along the events of one run."""

    def __init__(self, workflow_id: str, run_id: str, event: HistoryEvent) -> None:
        started = event.workflow_execution_started_event_attributes
        self.attempt = Attempt(
            attempt=number_of(event),
            workflow_id=workflow_id,
            run_id=run_id,
            started=_time(event),
            cause=cause_of(event),
            after_cohort=cohort_before(event),
        )
        backoff = started.first_workflow_task_backoff.ToTimedelta().total_seconds()
        if backoff:
            self.attempt.steps.append(Step("backed off", self.attempt.started, backoff))
        self._scheduled: dict[int, _Open] = {}
        """The ordinary activities that have not ended."""
        self._tries: dict[int, int] = {}
        self._parked_at: datetime | None = None
        self._asked: AskExtenders | None = None
        """What the last `place` answered, where that is a question to extenders."""
        self._task_started = _time(event)

    def read(self, event: HistoryEvent) -> None:
        """Take in one event; kinds that tell nothing are passed over."""
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                self._task_started = _time(event)
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                self._placed(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                self._scheduled[event.event_id] = _Open.of(event)
                self._go_on(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                begun = event.activity_task_started_event_attributes
                self._tries[begun.scheduled_event_id] = begun.attempt
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED | EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                self._acted(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
                self._timed_out(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
                self._scheduled.pop(event.activity_task_canceled_event_attributes.scheduled_event_id, None)
            case EventType.EVENT_TYPE_TIMER_STARTED:
                self._parked_at = _time(event)
                self.attempt.outcome = "waiting"
            case EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
                self._published(event)
            case _:
                self._ended(event)

    def _go_on(self, event: HistoryEvent) -> None:
        """End a pause between two activities: for a permission, for volumes, or after a plugin's Wait."""
        if self._parked_at is None:
            return
        seconds = (_time(event) - self._parked_at).total_seconds()
        self.attempt.steps.append(Step(WAITED, self._parked_at, seconds))
        self._parked_at, self.attempt.outcome = None, "running"

    def _placed(self, event: HistoryEvent) -> None:
        marker = event.marker_recorded_event_attributes
        if marker.marker_name != PLACE_MARKER:
            return
        if marker.HasField("failure"):
            detail = f"failed: {marker.failure.message}"
        else:
            detail = self._decided(first_of(marker.details["result"].payloads) or {})
        seconds = (_time(event) - self._task_started).total_seconds()
        self.attempt.steps.append(Step("place", self._task_started, seconds, detail=detail))

    def _decided(self, answer: dict[str, Any]) -> str:
        """Take in what `place` answered: of which kind it is."""
        kind = str(answer.get("kind", ""))
        self._asked = _read(AskExtenders, answer) if kind == "ask" else None
        if kind != "ask":  # a question is no decision yet
            self.attempt.placement = answer
            self.attempt.attempt = max(self.attempt.attempt, count_in(answer, "attempts") + 1)
            self.attempt.message = answer.get("message", "")
            self.attempt.node = answer.get("node")
        return kind

    def _acted(self, event: HistoryEvent) -> None:
        """An ordinary activity ended."""
        if event.HasField("activity_task_completed_event_attributes"):
            completed = event.activity_task_completed_event_attributes
            number, answer = completed.scheduled_event_id, first_of(completed.result.payloads) or {}
            detail = answer.get("kind", "")
            self.attempt.notes += tuple(answer.get("notes", ()))
            self.attempt.node = answer.get("node") or self.attempt.node
            if detail == "answered":
                self._answered(answer)
            elif detail == "plugin":
                detail = self._called(answer)
            elif detail == "held" and (held := _read(Held, answer)) is not None:
                calls = ", ".join(f"{step.point} of {step.plugin}" for step in held.steps)
                self.attempt.notes += (f"its room on {held.node} is held for {calls}",)
            elif detail == "failed":
                detail = f"failed: {answer.get('message', '')}"
        else:
            failed = event.activity_task_failed_event_attributes
            number, detail = failed.scheduled_event_id, f"failed: {failed.failure.message}"
        self._did(number, event, detail)

    def _timed_out(self, event: HistoryEvent) -> None:
        """An ordinary activity did not end in its time; its last failure before that says more than the time-out."""
        timed_out = event.activity_task_timed_out_event_attributes
        why = timed_out.failure.cause.message or timed_out.failure.message
        began = self._scheduled.get(timed_out.scheduled_event_id)
        about = f" ({began.about})" if began is not None and began.about else ""
        self._did(timed_out.scheduled_event_id, event, f"failed in its time{about}: {why}")

    def _did(self, number: int, event: HistoryEvent, detail: str) -> None:
        """Note the step that ends with this event. `number`: of the event that scheduled it."""
        began = self._scheduled.pop(number, _Open("activity", _time(event)))
        seconds = (_time(event) - began.time).total_seconds()
        self.attempt.steps.append(Step(began.name, began.time, seconds, self._tries.get(number, 1), detail))

    def _answered(self, answer: dict[str, Any]) -> None:
        """Take in what extenders answered."""
        answered = _read(ExtendersAnswered, answer)
        if self._asked is not None and answered is not None:
            self.attempt.answers = self.attempt.answers.with_one(self._asked, answered)

    def _called(self, answer: dict[str, Any]) -> str:
        """Take in what an asynchronous plugin answered: in words."""
        called = _read(PluginAnswer, answer)
        if called is None:
            return "plugin"
        why = f" ({called.message})" if called.message else ""
        told = f"{called.point} of {called.plugin}: {called.code}{why}"
        self.attempt.notes += (told,)
        return told

    def _published(self, event: HistoryEvent) -> None:
        fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        if SEARCH_OUTCOME in fields:
            self.attempt.outcome = json.loads(fields[SEARCH_OUTCOME].data)
        self.attempt.node = json.loads(fields[SEARCH_NODE].data) if SEARCH_NODE in fields else None

    def _ended(self, event: HistoryEvent) -> None:
        ends = {
            EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: None,
            EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: None,
            EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: None,
            EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "terminated",
            EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "timed out",
        }
        if event.event_type not in ends:
            return
        self.attempt.ended = _time(event)
        self.attempt.outcome = ends[event.event_type] or self.attempt.outcome
        failure = event.workflow_execution_failed_event_attributes.failure
        if failure.message and not self.attempt.message:
            self.attempt.message = failure.message
        if self._parked_at is not None:
            seconds = (_time(event) - self._parked_at).total_seconds()
            self.attempt.steps.append(Step(WAITED, self._parked_at, seconds, detail=woken_by(failure)))

    def close(self) -> None:
        """The history ends here; a run that still waits, or has something done, has a step without an end."""
        if self.attempt.ended is not None:
            return
        if self._parked_at is not None:
            self.attempt.steps.append(Step(WAITED, self._parked_at, None))
        for one in self._scheduled.values():
            self.attempt.steps.append(Step(one.name, one.time, None, detail=one.about))


def results(events: Iterable[HistoryEvent], activity: str) -> list[Any]:
    """What the completed runs of an ordinary activity answered, in order, as plain JSON."""
    names: dict[int, str] = {}
    found: list[Any] = []
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            if names.get(completed.scheduled_event_id) == activity:
                found.append(first_of(completed.result.payloads))
    return found


def _read(model: type[C], plain: dict[str, Any]) -> C | None:
    """The contract; None for what is none, as no release of ours wrote it."""
    try:
        return model.model_validate(plain)
    except ValidationError:
        return None


def _time(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(tzinfo=UTC)

"""A sandboxed worker on the real server, with scripted activities under the names of the real ones."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tests import garbage
from tests.conftest import TemporalServer
from wharfinger.client import start_attempt
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import SEARCH_PODS, cohort_workflow_id, gang_workflow_id, pod_workflow_id, task_queue
from wharfinger.scheduling.contracts.attempts import AttemptResult, AttemptTimings, Wake
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    BoundPod,
    CohortPod,
    CohortResult,
    CohortScheduling,
    GangName,
    PlacedMany,
    PlaceManyInput,
    Reasons,
    RecordedMany,
    RecordManyInput,
    Seat,
    Stretch,
    Turn,
    TurnedAway,
    Unbound,
)
from wharfinger.scheduling.contracts.computation import Computation, PluginRefusal, ScoredNode
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput, Victim
from wharfinger.scheduling.contracts.extenders import AskExtenders, ExtendersAnswered
from wharfinger.scheduling.contracts.plugin_calls import Held, PluginAnswer, PluginStep
from wharfinger.scheduling.contracts.scheduling import (
    AskInput,
    AskOutcome,
    BindInput,
    BindOutcome,
    Bound,
    CallInput,
    EvictOutcome,
    Gone,
    Placed,
    PlaceInput,
    PlaceOutcome,
    Recorded,
    RefusalInput,
    RefusalOutcome,
    Refused,
    Scheduling,
)
from wharfinger.scheduling.loops.attempts import TemporalAttempts
from wharfinger.scheduling.loops.run_ends import RunEnds
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort

PASSED_THROUGH = (
    *(f"wharfinger.{wing}.{room}" for wing in ("scheduling", "fleet", "placement") for room in ("contracts", "model")),
    *(f"wharfinger.process.{name}" for name in ("contract", "conversion", "names", "records", "search")),
    "wharfinger.objects.model",
    "wharfinger.errors",
)
"""By room, never the whole package: the workflow's own file stays isolated."""

TEAM = GangName(namespace="default", name="team")
QUICK = AttemptTimings(park=60.0, backoff_initial=0.05, backoff_maximum=0.2)


class _PreparedOnce(SandboxedWorkflowRunner):
    """Imports a workflow on trial for the first worker of a process only: that is half of what a short run costs."""

    _prepared: ClassVar[set[type]] = set()

    def prepare_workflow(self, defn: Any) -> None:
        if defn.cls not in self._prepared:
            super().prepare_workflow(defn)
            self._prepared.add(defn.cls)


def sandbox() -> SandboxedWorkflowRunner:
    """The runner of tests: workflow code that looks at the clock, the dice or the disk fails."""
    return _PreparedOnce(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))


def placed(node: str = "node-1", *, revision: int = 10) -> Placed:
    return Placed(
        uid="uid-1",
        create_revision=5,
        pod_revision=5,
        node=node,
        node_revision=3,
        score=180,
        ranking=(ScoredNode(node=node, total=180), ScoredNode(node="node-2", total=150)),
        computation=Computation(revision=revision, nodes=3, feasible=2),
    )


def refused(*, revision: int = 10, only_assumed: bool = False) -> Refused:
    return Refused(
        uid="uid-1",
        create_revision=5,
        pod_revision=5,
        message="0/3 nodes are available: 3 Insufficient cpu.",
        refusals=(PluginRefusal(plugin="NodeResourcesFit", reasons={"Insufficient cpu": 3}),),
        rejectors=("NodeResourcesFit",),
        only_assumed=only_assumed,
        computation=Computation(revision=revision, nodes=3),
    )


def preempting(*names: str, node: str = "node-1") -> Refused:
    """Refused, but room could be made."""
    victims = tuple(Victim(pod=f"default/{name}", create_revision=3, uid=f"uid-{name}") for name in names or ("low",))
    return refused().model_copy(update={"nominated_node": node, "victims": victims})


def asking(about: Literal["nodes", "victims"] = "nodes", question: str = "which?") -> AskExtenders:
    """Not decided: an extender is to be asked first."""
    return AskExtenders(
        uid="uid-1",
        create_revision=5,
        pod_revision=5,
        about=about,
        question=question,
        count=3,
        extenders=("http://extender",),
        seconds=5.0,
    )


def held(*steps: PluginStep, node: str = "node-1") -> Held:
    """The room is held; a plugin is to be called before the pod is bound."""
    return Held(node=node, revision=11, steps=steps or (step(),))


def step(plugin: str = "Licences", point: Literal["PreBind", "Bind"] = "PreBind", **limits: Any) -> PluginStep:
    return PluginStep(point=point, plugin=plugin, **{"timeout": 5.0, "deadline": 60.0, **limits})


def agreed(plugin: str = "Licences", code: Any = "success", **more: Any) -> PluginAnswer:
    return PluginAnswer(point=more.pop("point", "PreBind"), plugin=plugin, code=code, **more)


@dataclass
class Scripted:
    """Answers in turn what the test wrote down (the last answer for ever), and keeps what it was asked.

    An exception in a script is raised.
    """

    asked: list[Any] = field(default_factory=list)

    def _next(self, request: Any, script: list[Any]) -> Any:
        self.asked.append(request)
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def requests(self, kind: type) -> list[Any]:
        return [request for request in self.asked if isinstance(request, kind)]


@dataclass
class ScriptedScheduling(Scripted, Scheduling):
    """The activities of single pods."""

    places: list[PlaceOutcome | BaseException] = field(default_factory=lambda: [placed()])
    binds: list[BindOutcome | BaseException] = field(default_factory=lambda: [Bound(node="node-1", revision=11)])
    records: list[RefusalOutcome | BaseException] = field(default_factory=lambda: [Recorded(revision=12)])
    evictions: list[EvictOutcome | BaseException] = field(default_factory=lambda: [Evicted(evicted=("default/low",))])
    answers: list[AskOutcome | BaseException] = field(default_factory=lambda: [ExtendersAnswered(answer="all")])
    calls: list[PluginAnswer | BaseException] = field(default_factory=lambda: [agreed()])
    on_place: Callable[[], Any] | None = None
    on_bind: Callable[[], Any] | None = None
    on_call: Callable[[], Any] | None = None

    @activity.defn(name="place")
    async def place(self, request: PlaceInput) -> PlaceOutcome:
        if self.on_place is not None:
            await self.on_place()
        return self._next(request, self.places)

    @activity.defn(name="ask_extenders")
    async def ask_extenders(self, request: AskInput) -> AskOutcome:
        return self._next(request, self.answers)

    @activity.defn(name="bind")
    async def bind(self, request: BindInput) -> BindOutcome:
        if self.on_bind is not None:
            await self.on_bind()
        return self._next(request, self.binds)

    @activity.defn(name="call_plugin")
    async def call_plugin(self, request: CallInput) -> PluginAnswer:
        if self.on_call is not None:
            await self.on_call()
        return self._next(request, self.calls)

    @activity.defn(name="record_refusal")
    async def record_refusal(self, request: RefusalInput) -> RefusalOutcome:
        return self._next(request, self.records)

    @activity.defn(name="evict")
    async def evict(self, request: EvictInput) -> EvictOutcome:
        return self._next(request, self.evictions)


def seat(name: str, node: str = "node-1", **more: Any) -> Seat:
    return Seat(namespace="default", name=name, uid=f"uid-{name}", create_revision=5, pod_revision=5, node=node, **more)


def away(name: str, **more: Any) -> TurnedAway:
    fields = {"namespace": "default", "name": name, "uid": f"uid-{name}", "create_revision": 5, "pod_revision": 5}
    return TurnedAway(**{**fields, "reasons": 0, **more})


def decided(
    *seats: Seat, turned_away: tuple[TurnedAway, ...] = (), revision: int = 10, message: str = "no room", **more: Any
) -> PlacedMany:
    """Seats for some, and others turned away for one reason."""
    return PlacedMany(
        seats=seats,
        turned_away=turned_away,
        reasons=(Reasons(message=message, rejectors=("NodeResourcesFit",)),),
        stretches=(Stretch(first_seat=0, computation=Computation(revision=revision, nodes=3)),),
        **more,
    )


def committed(*names: str, revision: int = 11, unbound: tuple[Unbound, ...] = ()) -> BoundMany:
    bound = tuple(BoundPod(namespace="default", name=name, node="node-1", revision=revision) for name in names)
    return BoundMany(bound=bound, unbound=unbound, transactions=1)


def lost(name: str, kind: Literal["contended", "rejected", "gone"] = "contended", **more: Any) -> Unbound:
    return Unbound(namespace="default", name=name, uid=f"uid-{name}", create_revision=5, kind=kind, **more)


@dataclass
class ScriptedCohorts(Scripted, CohortScheduling):
    """The activities of cohorts."""

    places: list[PlacedMany | BaseException] = field(default_factory=lambda: [decided(seat("a"), seat("b"))])
    binds: list[BoundMany | BaseException] = field(default_factory=lambda: [committed("a", "b")])
    records: list[RecordedMany | BaseException] = field(default_factory=lambda: [RecordedMany(recorded=2, revision=12)])
    on_bind: Callable[[], Any] | None = None

    @activity.defn(name="place_many")
    async def place_many(self, request: PlaceManyInput) -> PlacedMany:
        return self._next(request, self.places)

    @activity.defn(name="bind_many")
    async def bind_many(self, request: BindManyInput) -> BoundMany:
        if self.on_bind is not None:
            await self.on_bind()
        return self._next(request, self.binds)

    @activity.defn(name="record_many")
    async def record_many(self, request: RecordManyInput) -> RecordedMany:
        return self._next(request, self.records)


def worker_for(stage: Stage) -> Worker:
    """A sandboxed worker with the stage's scripted activities."""
    single, many = stage.activities, stage.cohorts
    return Worker(
        stage.client,
        task_queue=stage.queue,
        workflows=[ScheduleAttempt, ScheduleCohort],
        activities=[
            single.place, single.ask_extenders, single.bind, single.call_plugin, single.record_refusal, single.evict,
            many.place_many, many.bind_many, many.record_many,
        ],
        workflow_runner=sandbox(),
        interceptors=[stage.run_ends],
    )  # fmt: skip


@dataclass
class Stage:
    """One worker on a task queue of its own, and ways to start and read attempts there."""

    client: Client
    activities: ScriptedScheduling
    cluster: str
    cohorts: ScriptedCohorts = field(default_factory=ScriptedCohorts)
    run_ends: RunEnds = field(default_factory=RunEnds)
    _names: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def queue(self) -> str:
        return task_queue(self.cluster)

    def new_name(self) -> str:
        return f"web-{next(self._names)}"

    def workflow_id(self, name: str) -> str:
        return pod_workflow_id(self.cluster, "default", name, "uid-1")

    async def start(self, *, timings: AttemptTimings = QUICK, **more: Any) -> WorkflowHandle[Any, AttemptResult]:
        name = more.pop("name", None) or self.new_name()
        return await start_attempt(
            self.client, cluster=self.cluster, namespace="default", name=name, uid="uid-1", timings=timings, **more
        )

    async def start_cohort(self, *names: str, **more: Any) -> WorkflowHandle[Any, CohortResult]:
        """A cohort of these pods, as a dispatcher starts it."""
        starter = TemporalAttempts(self.client, cluster=self.cluster, tenant="common")
        name = uuid.uuid4().hex
        pods = [CohortPod(namespace="default", name=pod, uid=f"uid-{pod}", **more) for pod in names]
        await starter.start_cohort(name, pods, cause="seen", turn=Turn(dispatcher="d", number=1))
        return self._handle(cohort_workflow_id(self.cluster, name))

    async def start_gang(
        self, *, timings: AttemptTimings = QUICK, wake: Wake | None = None, members: Sequence[str] = ()
    ) -> WorkflowHandle[Any, CohortResult]:
        """The gang `team`, as a dispatcher starts it that knows these members."""
        starter = TemporalAttempts(self.client, cluster=self.cluster, tenant="common", timings=timings)
        known = [PodKey(TEAM.namespace, name) for name in members]
        await starter.start_gang(
            GangKey(TEAM.namespace, TEAM.name), known, revision=7, cause="seen", check_queue=False, wake=wake
        )
        return self._handle(gang_workflow_id(self.cluster, TEAM.namespace, TEAM.name))

    def _handle(self, workflow_id: str) -> WorkflowHandle[Any, CohortResult]:
        return self.client.get_workflow_handle_for(ScheduleCohort.run, workflow_id)

    async def runs(self, workflow_id: str) -> list[str]:
        """Run ids of a chain, first to last, read from each run's last event."""
        description = await self.client.get_workflow_handle(workflow_id).describe()
        first = await self.events(workflow_id, description.run_id)
        run = first[0].workflow_execution_started_event_attributes.first_execution_run_id
        chain = []
        while run:
            chain.append(run)
            last = (await self.events(workflow_id, run))[-1]
            attributes = getattr(last, last.WhichOneof("attributes"))
            run = getattr(attributes, "new_execution_run_id", "")
        return chain

    async def first_run_failed(self, handle: WorkflowHandle[Any, AttemptResult]) -> ApplicationError:
        """How the first run of a chain failed, once it has; that the next run is due is checked.

        Quicker than awaiting the chain: the server holds runs of a chain apart by a second.
        """
        first = self.client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        with pytest.raises(WorkflowContinuedAsNewError):  # how the client calls a failure that is retried
            await first.result(follow_runs=False)
        last = (await self.events(handle.id, handle.first_execution_run_id))[-1]
        failed = last.workflow_execution_failed_event_attributes
        assert failed.new_execution_run_id
        failure = await self.client.data_converter.decode_failure(failed.failure)
        assert isinstance(failure, ApplicationError)
        return failure

    async def events(self, workflow_id: str, run_id: str | None = None) -> list[Any]:
        handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
        return list((await handle.fetch_history()).events)

    async def attributes(self, workflow_id: str, run_id: str | None = None) -> dict[str, str]:
        """Search attributes as the run's history has them."""
        found: dict[str, str] = {}
        for event in await self.events(workflow_id, run_id):
            for holder in (
                event.workflow_execution_started_event_attributes,
                event.upsert_workflow_search_attributes_event_attributes,
            ):
                for key, payload in holder.search_attributes.indexed_fields.items():
                    found[key] = payload.data.decode().strip('"')
        return found

    async def listings(self, workflow_id: str, run_id: str | None = None) -> list[list[str]]:
        """The values of `WharfingerPods` in the run's history, first to last."""
        holders = [
            holder.search_attributes.indexed_fields
            for event in await self.events(workflow_id, run_id)
            for holder in (
                event.workflow_execution_started_event_attributes,
                event.upsert_workflow_search_attributes_event_attributes,
            )
        ]
        return [json.loads(fields[SEARCH_PODS].data) for fields in holders if SEARCH_PODS in fields]

    async def parked(self, workflow_id: str, *, run: int | None = None, timers: int = 1) -> None:
        """Return once the (run-th) run of the chain waits: its timer is started, the second one after a hold."""
        runs = await self.runs(workflow_id)
        number, run_id = len(runs), runs[-1]
        while run_id:
            started = 0
            handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
            async for event in handle.fetch_history_events(wait_new_event=True):
                started += event.event_type == EventType.EVENT_TYPE_TIMER_STARTED
                if started >= timers and (run is None or number >= run):
                    return
            run_id = getattr(getattr(event, str(event.WhichOneof("attributes"))), "new_execution_run_id", "")
            number += 1
        raise AssertionError(f"{workflow_id} is over and did not wait")

    async def cancelled_while_parked(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Cancel a run that waits: it ends cancelled, for Temporal and in its search attributes."""
        await self.parked(handle.id)
        await handle.cancel()

        with pytest.raises(WorkflowFailureError) as raised:
            await handle.result()
        assert isinstance(raised.value.cause, CancelledError)
        assert (await self.attributes(handle.id))["WharfingerOutcome"] == "cancelled"


@pytest.fixture
async def world(temporal_server: TemporalServer) -> AsyncIterator[Any]:
    """A small world for fleets."""
    from tests.workflows.fleet_world import fleet_world  # which takes the sandbox from here

    async with fleet_world(temporal_server.address) as world:
        yield world
    garbage.collect()


@pytest.fixture
async def stage(temporal_server: TemporalServer) -> AsyncIterator[Stage]:
    client = await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)
    activities = ScriptedScheduling()
    stage = Stage(client, activities, cluster=f"test-{uuid.uuid4().hex[:8]}")
    async with worker_for(stage):
        yield stage
    garbage.collect()


def gone(reason: Any = "deleted", node: str | None = None, **more: Any) -> Gone:
    return Gone(reason=reason, node=node, **more)

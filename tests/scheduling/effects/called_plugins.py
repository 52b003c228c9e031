"""Asynchronous plugins that answer what a test tells them to, and hands that call them as the workflow does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from temporalio.testing import ActivityEnvironment

from tests.scheduling.world import CLUSTER, Hand
from wharfinger.framework.async_plugins import BindCall, CallLimits, PluginCall
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.plugins import builtin
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.objects.model.pod import Pod
from wharfinger.process.names import pod_workflow_id
from wharfinger.scheduling.contracts.plugin_calls import CallsMade, Held, PluginAnswer, first_answers
from wharfinger.scheduling.contracts.scheduling import BindOutcome, CallInput, Placed


@dataclass
class Licences:
    """An asynchronous PreBind, with Reserve and PostBind that note what happens."""

    name: str = "Licences"
    answers: list[Status | BaseException] = field(default_factory=lambda: [SUCCESS])
    """In turn; the last one for ever."""
    carries: Any = None
    waits_for: Callable[[], Awaitable[object]] | None = None
    """Awaited by each call."""
    limits: CallLimits | None = None
    diary: list[str] = field(default_factory=list)
    calls: list[PluginCall] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    @property
    def call_limits(self) -> CallLimits:
        return self.limits or CallLimits()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        state.carry(self.name, {"node": node_name})
        self.diary.append("reserve")
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.diary.append(f"unreserve {node_name} {state.carried(self.name)}")

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, call: PluginCall) -> Status:
        self.diary.append("pre_bind")
        self.calls.append(call)
        self.pods.append(pod)
        if self.waits_for is not None:
            await self.waits_for()
        if self.carries is not None:
            state.carry(self.name, self.carries)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.diary.append(f"post_bind {node_name}")


@dataclass
class Crane:
    """An asynchronous Bind that does what a test wants."""

    does: Callable[[BindCall], Awaitable[Status]]
    name: str = "Crane"
    calls: list[BindCall] = field(default_factory=list)

    async def bind(self, state: CycleState, pod: Pod, node_name: str, call: BindCall) -> Status:
        self.calls.append(call)
        return await self.does(call)


def profiles_with(*plugins: Any) -> Mapping[str, Profile]:
    """The default profile and these plugins; those that bind come before the default binder."""
    catalog = Catalog([*builtin.catalog(), *(CatalogEntry(one.name, lambda one=one: one) for one in plugins)])
    binders = [{"name": one.name} for one in plugins if hasattr(one, "bind")]
    order = {"bind": {"enabled": [*binders, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}}
    return load_profiles({"profiles": [{"plugins": order}]} if binders else None, catalog=catalog)


async def call_step(
    hand: Hand, name: str, placed: Placed, held: Held, calls: CallsMade | None = None, *, step: int = 0, **more: Any
) -> PluginAnswer:
    """The activity `call_plugin`, for a step of a room that is held. `more`: of its environment's `info`."""
    run_id = more.pop("run_id", "run-1")
    request = CallInput(
        namespace="default",
        name=name,
        placed=placed,
        step=held.steps[step],
        calls=calls or first_answers(held),
        workflow_id=pod_workflow_id(CLUSTER, "default", name, placed.uid),
        run_id=run_id,
    )
    environment = ActivityEnvironment()
    if more:
        environment.info = ActivityEnvironment.default_info().__class__(
            **{**ActivityEnvironment.default_info().__dict__, **more}
        )
    return await environment.run(hand.activities.call_plugin, request)


async def held(hand: Hand, name: str = "web") -> tuple[Placed, Held]:
    """The pod's room is held; the watch has shown it to all."""
    placed = await hand.placed(name)
    outcome = await hand.bind(name, placed)
    assert isinstance(outcome, Held), outcome
    await hand.seen()
    return placed, outcome


async def bound_with_calls(hand: Hand, name: str, placed: Placed, **more: Any) -> BindOutcome:
    """Bind, calling what is due, as the workflow does without its retries; Wait is called again at once."""
    calls: CallsMade | None = None
    for _ in range(9):
        outcome = await hand.bind(name, placed, calls=calls, **more)
        if not isinstance(outcome, Held):
            return outcome
        calls = calls or first_answers(outcome)
        for number in range(len(outcome.steps)):
            answer = await call_step(hand, name, placed, outcome, calls, step=number, **more)
            while answer.code == "wait":
                answer = await call_step(hand, name, placed, outcome, calls, step=number, **more)
            calls = calls.with_one(answer)
            if not answer.done:
                break
    raise AssertionError("it never ends")


def answered(code: Any, plugin: str = "Licences", *, point: Literal["PreBind", "Bind"] = "PreBind") -> CallsMade:
    """One answer, for a room on node n1."""
    return CallsMade(node="n1", answers=(PluginAnswer(point=point, plugin=plugin, code=code, message="so"),))

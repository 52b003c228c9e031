"""How long each extension point of a live decision takes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pytest

from tests.framework.conftest import MakeProfile
from tests.framework.doubles import Bookkeeper, Broken, Gatekeeper, Refuser
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Permission, Plugin, PostFilterResult, PreFilterResult
from wharfinger.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from wharfinger.framework.timing import Lap, measured
from wharfinger.objects.model.pod import Pod
from wharfinger.telemetry import PointDurations
from wharfinger.testing.builders import node, pod, snapshot


class Kept:
    """A clock that moves a second at each look, and what was measured."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.observed: list[tuple[str, str, str, float]] = []

    def now(self) -> float:
        self.seconds += 1.0
        return self.seconds

    def observe(self, point: str, status: str, profile: str, seconds: float) -> None:
        self.observed.append((point, status, profile, seconds))

    def points(self) -> list[tuple[str, str]]:
        return [(point, status) for point, status, _, _ in self.observed]


class OneMethod:
    """As a profile, with one point whose answer the test chooses."""

    name = "one"
    at: Mapping[str, tuple[str, ...]] = {"permit": ("P",)}

    def __init__(self, answer: object, times: Kept | None) -> None:
        self.times = times
        self._answer = answer

    @measured("Permit", "permit")
    def run(self) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (SUCCESS, "Success"),
        (None, "Success"),
        (unschedulable("no"), "Unschedulable"),
        (Permission(Status(Code.WAIT), 3.0), "Wait"),
        (PluginError("p", "Permit", "raised"), "Error"),
    ],
)
def test_answer_of_a_point_is_its_status(answer: object, status: str) -> None:
    times = Kept()
    try:
        OneMethod(answer, times).run()
    except PluginError:
        assert status == "Error"

    assert times.observed == [("Permit", status, "one", 1.0)]


def test_nothing_is_measured_without_a_clock() -> None:
    assert OneMethod(SUCCESS, None).run() is SUCCESS
    Lap().done("Filter")


def test_lap_measures_one_point_after_the_other() -> None:
    times = Kept()
    lap = Lap(times, "p")
    lap.done("PreFilter")
    lap.begin()
    lap.done("Score", Code.ERROR)

    assert times.observed == [("PreFilter", "Success", "p", 1.0), ("Score", "Error", "p", 1.0)]


THREE = snapshot(node("a"), node("b"), node("c"))
NONE_FITS = {"a": unschedulable("no"), "b": unschedulable("no"), "c": unschedulable("no")}


class RoomMaker:
    """PostFilter that finds a node, or none."""

    name = "RoomMaker"

    def __init__(self, found: str) -> None:
        self.answer = PostFilterResult(SUCCESS if found else unschedulable("no room"), found)

    def post_filter(self, state: CycleState, pod: Pod, search: object) -> PostFilterResult:
        return self.answer


@pytest.mark.parametrize(
    ("plugins", "points"),
    [
        (
            [Refuser("R")],
            [("PreFilter", "Success"), ("Filter", "Success"), ("PreScore", "Success"), ("Score", "Success")],
        ),
        (
            [Refuser("R", {"a": unschedulable("no"), "b": unschedulable("no")})],
            [("PreFilter", "Success"), ("Filter", "Success")],
        ),
        ([Gatekeeper("G", PreFilterResult(unresolvable("no")))], [("PreFilter", "UnschedulableAndUnresolvable")]),
        (
            [Refuser("R", NONE_FITS), RoomMaker("a")],
            [("PreFilter", "Success"), ("Filter", "Success"), ("PostFilter", "Success")],
        ),
        (
            [Refuser("R", NONE_FITS), RoomMaker("")],
            [("PreFilter", "Success"), ("Filter", "Success"), ("PostFilter", "Unschedulable")],
        ),
        ([Broken()], [("PreFilter", "Success"), ("Filter", "Error")]),
    ],
    ids=["scored", "one feasible", "refused at once", "nominated", "no room", "raises"],
)
def test_points_of_a_decision_in_order(profile_of: MakeProfile, plugins: list[Plugin], points: list[object]) -> None:
    profile, times = profile_of(*plugins), Kept()
    profile.times = times
    with contextlib.suppress(PluginError):
        profile.evaluate(pod(), THREE, timed=True)

    assert times.points() == points
    assert {seconds for *_, seconds in times.observed} == {1.0}


def test_questions_beside_live_decisions_do_not_count(profile_of: MakeProfile) -> None:
    profile, times = profile_of(Refuser("R")), Kept()
    profile.times = times
    profile.evaluate(pod(), THREE)

    assert times.observed == []


def test_points_of_binding_count(profile_of: MakeProfile) -> None:
    profile, times = profile_of(Bookkeeper("B", [])), Kept()
    profile.times = times
    state = CycleState()
    for run in (profile.reserve, profile.permit, profile.pre_bind, profile.bind, profile.post_bind, profile.unreserve):
        run(state, pod(), "a")
    profile.gate(pod())

    assert [point for point, _ in times.points()] == ["Reserve", "Permit", "Bind", "Unreserve"]  # the others have none
    assert {status for _, status in times.points()} == {"Success"}


def test_durations_are_exposed_as_a_histogram() -> None:
    durations = PointDurations()
    for seconds in (0.00005, 0.0001, 0.003, 9.0):
        durations.observe("Filter", "Success", "p", seconds)
    (family,) = durations.collect()
    buckets = {one.labels["le"]: one.value for one in family.samples if one.name.endswith("_bucket")}

    assert family.name == "scheduler_framework_extension_point_duration_seconds"
    assert [buckets["0.0001"], buckets["0.0032"], buckets["+Inf"]] == [2.0, 3.0, 4.0]
    assert {one.value for one in family.samples if one.name.endswith("_count")} == {4.0}
    assert len(buckets) == 13

"""Plugins of one's own at each extension point: which are called after another one refused, failed or skipped."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.framework.conftest import MakeProfile
from tests.framework.doubles import Gatekeeper, Refuser, Scorer
from wharfinger.errors import PluginError
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import PostFilterResult, PreFilterResult, RowSelection, Trial
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.node_independent import PrioritySort
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Code, Status, unresolvable, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

THREE = snapshot(node("a"), node("b"), node("c"))
NOWHERE = {name: unschedulable("full") for name in "abc"}
FAILURE = Status(Code.ERROR, ("the server is down",))


@dataclass
class RoomMaker:
    """PostFilter with a fixed answer."""

    name: str
    answer: PostFilterResult
    asked: list[str] = field(default_factory=list)

    def post_filter(self, state: CycleState, pod: Pod, trial: Trial) -> PostFilterResult:
        self.asked.append(pod.name)
        return self.answer


@dataclass
class Preparer:
    """PreScore with a fixed answer, and a Score that raises when it is called without it."""

    name: str
    answer: Status
    prepared: bool = False
    scored: int = 0

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:
        self.prepared = True
        return self.answer

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert self.prepared
        self.scored += 1
        return 0


class Sinking:
    """Raises at the point that a test names, and allows everything elsewhere."""

    name = "Sinking"

    def __init__(self, point: str) -> None:
        self._point = point

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        self._sink("PreFilter")
        return PreFilterResult()

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self._sink("Filter")
        return SUCCESS

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:
        self._sink("PreScore")
        return SUCCESS

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        self._sink("Score")
        return 0

    def _sink(self, point: str) -> None:
        if point == self._point:
            raise RuntimeError("no idea")


def nominating(name: str, node_name: str) -> RoomMaker:
    return RoomMaker(name, PostFilterResult(SUCCESS, node_name))


def answering(name: str, status: Status) -> RoomMaker:
    return RoomMaker(name, PostFilterResult(status))


@pytest.mark.parametrize("point", ["PreFilter", "Filter", "PreScore", "Score"])
def test_a_plugin_that_raises_ends_the_attempt(profile_of: MakeProfile, point: str) -> None:
    later = nominating("Later", "a")

    with pytest.raises(PluginError, match=f"plugin Sinking failed in {point}: RuntimeError: no idea"):
        profile_of(Sinking(point), later).evaluate(pod(), THREE)

    assert later.asked == []  # there is no refusal that preemption could turn


# --- PreFilter ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "feasible"),
    [({"a", "b"}, ("a", "b")), ({"a", "not-there"}, ("a",)), ({"not-there", "nor-there"}, ())],
)
def test_of_the_named_nodes_those_that_exist_are_examined(
    profile_of: MakeProfile, named: set[str], feasible: tuple[str, ...]
) -> None:
    filters = Refuser("Filter")

    evaluation = profile_of(Gatekeeper("Picky", PreFilterResult(nodes=frozenset(named))), filters).evaluate(
        pod(), THREE
    )

    assert evaluation.feasible == feasible
    assert filters.asked == list(feasible)
    if not feasible:
        assert evaluation.message == "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Picky]."


# --- PostFilter -----------------------------------------------------------------------------------


def test_post_filter_is_not_called_where_a_node_is_feasible(profile_of: MakeProfile) -> None:
    maker = nominating("Maker", "b")

    evaluation = profile_of(Refuser("Filter", {"a": unschedulable("full")}), maker).evaluate(pod(), THREE)

    assert evaluation.node in ("b", "c")
    assert (maker.asked, evaluation.nominated_node) == ([], None)


@pytest.mark.parametrize("code", [Code.ERROR, Code.UNSCHEDULABLE])
def test_post_filter_is_not_called_after_scoring_failed(profile_of: MakeProfile, code: Code) -> None:
    """A PreScore that fails is an error of the attempt, even where it means to refuse."""
    maker = nominating("Maker", "b")

    with pytest.raises(PluginError, match=r"plugin Preparer failed in PreScore: .*the server is down"):
        profile_of(Preparer("Preparer", Status(code, ("the server is down",))), maker).evaluate(pod(), THREE)

    assert maker.asked == []


@pytest.mark.parametrize(
    ("first", "asked", "nominated", "told"),
    [
        (SUCCESS, 0, "a", ""),
        (unschedulable("no victims"), 1, "b", " no victims"),
        (unresolvable("never"), 0, None, " never"),
        (FAILURE, 0, None, " the server is down"),
    ],
    ids=["succeeds", "refuses", "refuses for good", "fails"],
)
def test_the_second_post_filter_is_asked_after_a_plain_refusal_only(
    profile_of: MakeProfile, first: Status, asked: int, nominated: str | None, told: str
) -> None:
    one = RoomMaker("One", PostFilterResult(first, "a" if first.ok else None))
    two = nominating("Two", "b")

    evaluation = profile_of(Refuser("Filter", NOWHERE), one, two).evaluate(pod(), THREE)

    assert (len(one.asked), len(two.asked)) == (1, asked)
    assert evaluation.nominated_node == nominated
    assert evaluation.message == f"0/3 nodes are available: 3 full.{told}"


@pytest.mark.parametrize("second", [unschedulable("no"), unresolvable("no"), FAILURE])
def test_a_second_post_filter_that_is_broken_nominates_nothing(profile_of: MakeProfile, second: Status) -> None:
    one, two = answering("One", unschedulable("no victims")), answering("Two", second)

    evaluation = profile_of(Refuser("Filter", NOWHERE), one, two).evaluate(pod(), THREE)

    assert (len(one.asked), len(two.asked)) == (1, 1)
    assert evaluation.nominated_node is None
    assert evaluation.post_filter_messages == ("no victims", *second.reasons)
    assert evaluation.rejectors == ("Filter",)


def test_both_post_filters_are_asked_where_score_would_fail_too(profile_of: MakeProfile) -> None:
    """Nothing is scored where no node is feasible."""
    one, two = answering("One", unschedulable("no")), answering("Two", unschedulable("no"))

    evaluation = profile_of(Refuser("Filter", NOWHERE), Sinking("Score"), one, two).evaluate(pod(), THREE)

    assert (len(one.asked), len(two.asked), evaluation.nominated_node) == (1, 1, None)


# --- PreScore -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "scored"), [(SUCCESS, 3), (SKIP, 0)])
def test_pre_score_runs_before_score_and_may_skip_it(profile_of: MakeProfile, answer: Status, scored: int) -> None:
    plugin, other = Preparer("Preparer", answer), Scorer("Other", {"b": 9})

    evaluation = profile_of(plugin, other).evaluate(pod(), THREE)

    assert evaluation.node == "b"
    assert (plugin.prepared, plugin.scored) == (True, scored)


def test_pre_score_is_not_called_for_a_single_feasible_node(profile_of: MakeProfile) -> None:
    plugin = Preparer("Preparer", FAILURE)

    evaluation = profile_of(Refuser("Filter", NOWHERE | {"a": SUCCESS}), plugin).evaluate(pod(), THREE)

    assert (evaluation.node, plugin.prepared) == ("a", False)


# --- Bind -----------------------------------------------------------------------------------------


@dataclass
class OwnBinder:
    """Bind with a fixed answer."""

    name: str
    answer: Status
    asked: int = 0

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.asked += 1
        return self.answer


@pytest.mark.parametrize(
    ("answers", "asked", "code"),
    [
        ((SKIP, SUCCESS), 2, Code.SUCCESS),
        ((SUCCESS, FAILURE), 1, Code.SUCCESS),
        ((unschedulable("no"), SUCCESS), 1, Code.UNSCHEDULABLE),
        ((FAILURE, SUCCESS), 1, Code.ERROR),
        ((SKIP, SKIP), 2, Code.ERROR),
    ],
)
def test_the_first_bind_plugin_that_does_not_skip_answers(answers: tuple[Status, ...], asked: int, code: Code) -> None:
    plugins = [OwnBinder(f"B{number}", answer) for number, answer in enumerate(answers)]
    profile = Profile("default-scheduler", Enabled.everywhere([PrioritySort(), *plugins], {}))

    status = profile.bind(CycleState(), pod(), "a")

    assert (status.code, sum(plugin.asked for plugin in plugins)) == (code, asked)

"""One pod's part in a cohort, as the decision for a lone pod; and who is recorded as waiting after the binds."""

from __future__ import annotations

from wharfinger.scheduling.contracts.cohort_scheduling import (
    BoundMany,
    BoundPod,
    PlacedMany,
    Reasons,
    Seat,
    SeatRanking,
    Stretch,
    TurnedAway,
    Unbound,
)
from wharfinger.scheduling.contracts.computation import Assumed, Computation, OwnNodes, PluginRefusal, ScoredNode
from wharfinger.scheduling.contracts.group_payloads import contended, placed_alone, refused_alone, turned_away


def seat(name: str, node: str, *, stretch: int = 0) -> Seat:
    return Seat(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        create_revision=int(name),
        pod_revision=int(name),
        node=node,
        score=90,
        plugins={"NodeResourcesFit": 90},
        others={"node-8": 80, "node-9": 70},
        feasible=3,
        reasons=0,
        stretch=stretch,
    )


TAINTED = Reasons(refusals=(PluginRefusal(plugin="TaintToleration", reasons={"taint": 2}),))
FULL = Reasons(
    refusals=(PluginRefusal(plugin="NodeResourcesFit", reasons={"Insufficient cpu": 5}),),
    rejectors=("NodeResourcesFit",),
    message="0/5 nodes are available: 5 Insufficient cpu.",
)
ELSEWHERE = Assumed(pod="other/web", create_revision=3, node="node-7")
PLACED = PlacedMany(
    seats=(
        seat("11", "node-1"),
        seat("12", "node-2"),
        seat("13", "node-3", stretch=1),
        seat("14", "node-4", stretch=1),
    ),
    turned_away=(
        TurnedAway(
            namespace="default",
            name="15",
            uid="u",
            create_revision=15,
            pod_revision=15,
            reasons=1,
            after_seat=3,
            stretch=1,
        ),
    ),
    reasons=(TAINTED, FULL),
    stretches=(
        Stretch(first_seat=0, computation=Computation(revision=20, nodes=5, assumed=(ELSEWHERE,))),
        Stretch(first_seat=2, computation=Computation(revision=21, nodes=5)),
    ),
)


def overlay(computation: Computation) -> list[tuple[str, str]]:
    return [(one.pod, one.node) for one in computation.assumed]


def test_seat_becomes_a_placement_with_its_runners_up_and_reasons() -> None:
    placed = placed_alone(PLACED, 1)

    assert (placed.node, placed.score, placed.uid) == ("node-2", 90, "uid-12")
    assert [(one.node, one.total) for one in placed.ranking] == [("node-2", 90), ("node-8", 80), ("node-9", 70)]
    assert placed.ranking[0].plugins == {"NodeResourcesFit": 90}
    assert placed.refusals == TAINTED.refusals
    assert placed.computation.feasible == 3


def test_a_small_group_tells_the_ranking_of_a_lone_pod() -> None:
    nodes = (ScoredNode(node="node-1", total=90, plugins={"Fit": 90}), ScoredNode(node="node-8", total=90))
    told = (SeatRanking(nodes=nodes, passed_over=nodes[1]), SeatRanking(), *[SeatRanking()] * 2)
    small = PLACED.model_copy(update={"rankings": told})

    assert (placed_alone(small, 0).ranking, placed_alone(small, 0).passed_over) == (nodes, nodes[1])
    assert placed_alone(small, 1).ranking == placed_alone(PLACED, 1).ranking


def test_a_better_runner_up_was_passed_over_for_the_workers_own_node() -> None:
    preferring = OwnNodes(me="common/a", members=("common/a", "common/b"), margin=4)
    own = Stretch(first_seat=0, computation=Computation(revision=20, nodes=5, own_nodes=preferring))
    worse = seat("11", "node-1").model_copy(update={"others": {"node-8": 90, "node-9": 93, "node-7": 91}})

    def passed_over(stretch: Stretch, one: Seat) -> str | None:
        told = placed_alone(PLACED.model_copy(update={"stretches": (stretch,), "seats": (one,)}), 0).passed_over
        return told.node if told else None

    assert passed_over(own, worse) == "node-9"
    assert passed_over(own, seat("11", "node-1")) is None
    assert passed_over(PLACED.stretches[0], worse) is None


def test_a_decision_saw_the_overlay_and_the_seats_of_its_stretch_before_it() -> None:
    assert overlay(placed_alone(PLACED, 0).computation) == [("other/web", "node-7")]
    assert overlay(placed_alone(PLACED, 1).computation) == [("other/web", "node-7"), ("default/11", "node-1")]


def test_a_later_stretch_has_its_own_snapshot_which_holds_the_former_seats() -> None:
    computation = placed_alone(PLACED, 3).computation

    assert computation.revision == 21
    assert overlay(computation) == [("default/13", "node-3")]


def test_pod_that_was_turned_away_becomes_a_refusal() -> None:
    refused = refused_alone(PLACED, PLACED.turned_away[0])

    assert refused.message == FULL.message
    assert refused.rejectors == ("NodeResourcesFit",)
    assert overlay(refused.computation) == [("default/13", "node-3")]
    assert refused.computation.revision == 21


# --- who is recorded as waiting -------------------------------------------------------------------

WHO = {"namespace": "default", "create_revision": 1, "pod_revision": 1}
COHORT = PlacedMany(
    seats=tuple(Seat(name=f"seat-{number}", uid=f"u{number}", node=f"n{number}", **WHO) for number in range(4)),
    turned_away=tuple(
        TurnedAway(name=f"away-{after}", uid=f"a{after}", reasons=0, after_seat=after, **WHO) for after in range(5)
    ),
    reasons=(Reasons(message="0/4 nodes are available"),),
)


def bound(*numbers: int, **elsewhere: str) -> tuple[BoundPod, ...]:
    return tuple(
        BoundPod(namespace="default", name=f"seat-{number}", node=elsewhere.get(f"n{number}", f"n{number}"), revision=9)
        for number in numbers
    )


def urgent(answer: BoundMany) -> list[str]:
    away = turned_away(COHORT, answer)
    assert away is not None
    return [one.name for one in away.turned_away if one.own_attempt]


def test_no_refused_pod_is_urgent_when_all_seats_are_taken() -> None:
    assert urgent(BoundMany(bound=bound(0, 1, 2, 3))) == []


def test_room_that_was_only_assumed_makes_those_decided_after_it_urgent() -> None:
    lost = Unbound(namespace="default", name="seat-2", kind="gone")

    assert urgent(BoundMany(bound=bound(0, 1, 3), unbound=(lost,))) == ["away-3", "away-4"]


def test_a_seat_taken_elsewhere_left_its_room_to_others() -> None:
    assert urgent(BoundMany(bound=bound(0, 1, 2, 3, n0="n9"))) == ["away-1", "away-2", "away-3", "away-4"]


def test_rejected_seat_keeps_its_own_reason_and_contended_one_retries() -> None:
    rejected = Unbound(namespace="default", name="seat-1", kind="rejected", plugin="Volumes", message="no disk")
    lost = Unbound(namespace="default", name="seat-3", kind="contended", message="taken")
    answer = BoundMany(bound=bound(0, 2), unbound=(rejected, lost))

    away, again = turned_away(COHORT, answer), contended(COHORT, answer)

    assert away is not None
    assert again is not None
    waiting = away.turned_away[-1]
    assert (waiting.name, waiting.own_attempt) == ("seat-1", False)
    assert away.reasons[waiting.reasons] == Reasons(message="no disk", rejectors=("Volumes",))
    assert [(one.name, one.own_attempt) for one in again.turned_away] == [("seat-3", True)]

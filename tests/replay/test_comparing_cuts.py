"""What is recorded was cut to what travels: what was made again is cut in the same way, and in no other."""

from __future__ import annotations

import random

import pytest

from wharfinger.scheduling.contracts.computation import Assumed, Computation, OwnNodes, PluginRefusal, ScoredNode
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.effects.placing import payload
from wharfinger.scheduling.reading.comparing import compare_alone
from wharfinger.scheduling.state.cache.assumptions import digest_of


def computation(overlay: int = 0, length: int = 5, **more: object) -> Computation:
    """Of a worker that had assumed so many pods."""
    assumed = tuple(
        Assumed(pod=f"default/{'p' * length}-{number}", create_revision=number, node="n") for number in range(overlay)
    )
    told: dict[str, object] = {"assumed": assumed}
    if overlay > payload.OVERLAY_LIMIT:
        digest = digest_of((one.pod, one.create_revision, one.node) for one in assumed)
        told = {"approximate": True, "overlay": digest}
    found = {"revision": 5, "profile": "d", "profile_name": "default-scheduler", "number": 7, "micros": 900}
    return Computation.model_validate(found | told | more)


def placed(made: Computation, *refusals: PluginRefusal, ranking: tuple[ScoredNode, ...] = ()) -> Placed:
    return Placed(
        uid="u",
        create_revision=1,
        pod_revision=1,
        node="n0",
        node_revision=1,
        score=ranking[0].total if ranking else None,
        ranking=ranking,
        refusals=refusals,
        computation=made,
    )


def test_reasons_that_the_record_never_had_are_a_difference() -> None:
    """Its overlay had to go, and without its reasons the other decision would be the same."""
    made = computation(overlay=40, feasible=1)
    again = placed(made, PluginRefusal(plugin="NodeResourcesFit", reasons={"Insufficient cpu": 3}))

    assert compare_alone(placed(made), again).differs == ("reasons",)


def test_another_number_of_listed_victims_is_a_difference() -> None:
    made = computation(overlay=40)
    victims = tuple(Victim(pod=f"default/v{number}", uid=f"u{number}", create_revision=number) for number in range(3))
    one, many = (
        Refused(
            uid="u", create_revision=1, pod_revision=1, nominated_node="n", victims=some, message="no", computation=made
        )
        for some in (victims[:1], victims)
    )

    assert compare_alone(one, many).differs == ("victims",)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_decision_is_the_same_however_it_was_cut(seed: int) -> None:
    chance = random.Random(seed)
    overlay, length = chance.choice((0, 5, 25, 32, 33, 80)), chance.choice((5, 60, 200))
    members = tuple(f"common/{number}" for number in range(chance.choice((0, 3, 16))))
    own = OwnNodes(me="common/0", members=members, digest="" if members else "d", margin=4)
    made = computation(overlay, length, own_nodes=chance.choice((None, own)))
    refusals = tuple(
        PluginRefusal(
            plugin=f"Plugin{number}",
            reasons={f"{'r' * chance.randint(5, 150)} {place}": 20 - place for place in range(chance.randint(1, 10))},
        )
        for number in range(chance.randint(0, 6))
    )
    nodes = tuple(
        ScoredNode(node=f"n{number}", total=500 - number, plugins={"A" * 30: number, "B" * 30: 5})
        for number in range(chance.choice((0, 2, 5)))
    )
    whole = placed(made, *refusals, ranking=nodes)
    recorded = payload.fitted(whole)

    assert compare_alone(recorded, whole).differs == ()
    assert len(recorded.model_dump_json()) <= payload.LIMIT

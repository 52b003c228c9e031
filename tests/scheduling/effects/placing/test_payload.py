"""What is kept of a decision stays small, however large the cluster and however many the reasons."""

from __future__ import annotations

import pytest

from wharfinger.framework.catalog import Enabled
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.contracts.computation import Assumed, Computation, Nominated
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.effects.placing import payload

NODES = 20_000
LONG = "ж" * 253
[DEFAULT] = load_profiles().values()


class Talkative:
    """A user's plugin with another reason for every node, in a script of two bytes a character."""

    name = "Talkative"

    def __init__(self, lets_pass: int) -> None:
        self.lets_pass = lets_pass

    def filter_node(self, _state: object, _pod: Pod, node: NodeInfo) -> Status:
        number = int(node.node.name.rpartition("-")[2])
        return SUCCESS if number < self.lets_pass else unschedulable(f"узел {number} не подходит {LONG}")


def evaluated(lets_pass: int) -> Evaluation:
    room = {"cpu": 4000, "memory": 1 << 34, "pods": 110}
    nodes = (NodeInfo(Node(f"{'n' * 240}-{number}", allocatable=room)) for number in range(NODES))
    plugins = [*DEFAULT.plugins, Talkative(lets_pass)]
    profile = Profile("default-scheduler", Enabled.everywhere(plugins, {}))
    return profile.evaluate(Pod("n" * 63, "p" * 253, "u" * 36, requests={"cpu": 100}), Snapshot.of(nodes))


def computation() -> Computation:
    """With the largest overlay that is named."""
    every = range(payload.OVERLAY_LIMIT)
    return Computation(
        revision=2**40,
        profile="f" * 64,
        assumed=tuple(Assumed(pod=f"{LONG}/{number}", create_revision=2**40, node=LONG) for number in every),
        nominated=tuple(Nominated(pod=f"{LONG}/{number}", create_revision=2**40, node=LONG) for number in every),
        nodes=NODES,
        worker="w" * 64,
    )


def size(outcome: Placed | Refused) -> int:
    return len(outcome.model_dump_json().encode())


@pytest.fixture(scope="module")
def refusing() -> Evaluation:
    return evaluated(0)


def test_a_refusal_by_twenty_thousand_reasons_fits_into_four_kibibytes(refusing: Evaluation) -> None:
    outcome = payload.fitted(
        Refused(
            uid="u" * 36,
            create_revision=2**40,
            pod_revision=2**40,
            message=payload.message(refusing.message),
            refusals=payload.refusals(refusing.refusals),
            rejectors=refusing.rejectors,
            computation=computation(),
        )
    )

    assert isinstance(outcome, Refused)
    assert size(outcome) <= payload.LIMIT
    assert outcome.message.startswith("0/20000 nodes are available: ")
    assert outcome.rejectors == ("Talkative",)
    assert outcome.computation.approximate, "and it is said that the overlay is not all there"


def test_a_placement_among_twenty_thousand_nodes_fits_too() -> None:
    evaluation = evaluated(NODES // 2)
    assert evaluation.node is not None
    best = evaluation.ranking(payload.RANKED_LIMIT)
    outcome = payload.fitted(
        Placed(
            uid="u" * 36,
            create_revision=2**40,
            pod_revision=2**40,
            node=evaluation.node,
            node_revision=2**40,
            score=best[0].total,
            ranking=payload.ranking(best),
            refusals=payload.refusals(evaluation.refusals),
            computation=computation(),
        )
    )

    assert isinstance(outcome, Placed)
    assert size(outcome) <= payload.LIMIT
    assert outcome.ranking[0].node == evaluation.node


def test_reasons_that_are_cut_are_counted_in_one_sum(refusing: Evaluation) -> None:
    [told] = payload.refusals(refusing.refusals)

    assert len(told.reasons) == payload.REASONS_LIMIT + 1
    assert sum(told.reasons.values()) == NODES
    assert told.reasons[payload.OTHER_REASONS] == NODES - payload.REASONS_LIMIT


def test_a_message_of_four_bytes_a_character_is_cut_further() -> None:
    outcome = payload.fitted(
        Refused(
            uid="u",
            create_revision=1,
            pod_revision=1,
            message=payload.message("🚢" * 5000),
            computation=Computation(revision=1),
        )
    )

    assert isinstance(outcome, Refused)
    assert size(outcome) <= payload.LIMIT
    assert outcome.message.endswith("…")

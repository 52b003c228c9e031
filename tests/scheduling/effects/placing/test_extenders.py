"""Placing pods that concern extenders: `place` asks, and decides on the answers. No extender is called."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.scheduling.world import CLUSTER, NOW, QUICK, Hand, World
from wharfinger.errors import PluginError
from wharfinger.framework.extenders.extender_chain import FilterAnswer, FilterChain
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    PreemptionQuestion,
    PreemptionVerdicts,
)
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import STOCK
from wharfinger.scheduling.contracts.extenders import (
    NO_ANSWERS,
    AskExtenders,
    ExtenderAnswers,
    ExtendersAnswered,
    ExtendersFailed,
)
from wharfinger.scheduling.contracts.scheduling import Placed, PlaceInput, PlaceOutcome, Refused
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.placing.deciding import Decider
from wharfinger.scheduling.effects.placing.extenders import MOST_ROUNDS, outcome_of, question_of
from wharfinger.scheduling.effects.placing.placing_lone import LonePlacements
from wharfinger.scheduling.reading.recomputation import RecordedDecision, read_past, recompute
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool

URL = "http://extender"
GPU = "example.com/gpu"


def profiles(**fields: Any) -> dict[str, Profile]:
    return load_profiles({"extenders": [{"urlPrefix": URL, **fields}]})


FILTERS = profiles(filterVerb="filter")


class Attempts:
    """Attempts of the pods of one worker, with extenders that a test plays."""

    def __init__(self, hand: Hand, by: dict[str, Profile]) -> None:
        self.profile = by["default-scheduler"]
        core = Core(
            ProcessParts(hand.store, hand.metrics, utc_now=lambda: NOW),
            Pool(hand.cache, by, Ownership(frozenset(by)), PreferredNodes()),
            Identity(CLUSTER, hand.name, ""),
            QUICK,
            STOCK,
        )
        self.placements = LonePlacements(Decider(core))

    async def place(self, name: str, answers: ExtenderAnswers = NO_ANSWERS) -> PlaceOutcome:
        return await self.placements.place(self.request(name).model_copy(update={"answers": answers}))

    @staticmethod
    def request(name: str) -> PlaceInput:
        workflow = pod_workflow_id(CLUSTER, "default", name, f"uid-{name}")
        return PlaceInput(namespace="default", name=name, workflow_id=workflow, run_id="run-1")

    async def ask(self, name: str, answers: ExtenderAnswers = NO_ANSWERS) -> AskExtenders:
        outcome = await self.place(name, answers)
        assert isinstance(outcome, AskExtenders), outcome
        return outcome

    def answer(self, ask: AskExtenders, answers: ExtenderAnswers = NO_ANSWERS, **refused: str) -> ExtenderAnswers:
        """The answer of the one extender that refuses these nodes, without what would travel beside it."""
        question = question_of(ask)
        assert isinstance(question, ExtenderQuestion)
        chain = FilterChain(question, self.profile.extenders)
        passed = tuple(name for name in question.nodes if name not in refused)
        chain.filtered(chain.filters()[0], FilterAnswer(passed, refused))
        return with_one(answers, ask, chain.verdicts())


def with_one(answers: ExtenderAnswers, ask: AskExtenders, verdicts: Any) -> ExtenderAnswers:
    outcome = outcome_of(verdicts)
    assert isinstance(outcome, ExtendersAnswered)
    travelled = ExtendersAnswered.model_validate_json(outcome.model_dump_json())
    return ExtenderAnswers.model_validate_json(answers.with_one(ask, travelled).model_dump_json())


async def test_a_pod_is_placed_where_the_extender_allows_it(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.put_node(name)
    revision = await world.put_pod("web")
    hand = await world.hand()
    attempts = Attempts(hand, FILTERS)

    ask = await attempts.ask("web")
    assert (ask.about, ask.count, ask.extenders, ask.pod_revision) == ("nodes", 3, (URL,), revision)
    assert ask.seconds == 5
    assert not list(hand.cache.assumed())

    placed = await attempts.place("web", attempts.answer(ask, a="no licence", c="no licence"))
    assert isinstance(placed, Placed)
    assert (placed.node, placed.computation.feasible) == ("b", 1)
    assert [(one.plugin, one.reasons) for one in placed.refusals] == [(URL, {"no licence": 2})]
    assert [one.identity.name for one in hand.cache.assumed()] == ["web"]


async def test_the_decision_is_made_again_from_the_recorded_answers(world: World) -> None:
    for name in ("a", "b"):
        await world.put_node(name)
    await world.put_pod("web")
    hand = await world.hand()
    attempts = Attempts(hand, FILTERS)
    answers = attempts.answer(await attempts.ask("web"), a="no licence")
    placed = await attempts.place("web", answers)
    assert isinstance(placed, Placed)

    past = partial(read_past, hand.store, placed.computation.revision)
    decision = RecordedDecision(PodKey("default", "web"), placed, answers=answers)
    again = recompute(await past(), decision, attempts.profile)
    assert again.same
    assert again.filters[-1] == URL
    assert {one.node: dict(one.refusals) for one in again.nodes} == {"a": {URL: ("no licence",)}, "b": {}}
    assert not recompute(await past(), decision._replace(answers=NO_ANSWERS), attempts.profile).same


async def test_a_refusal_names_extenders_as_the_rejector(world: World) -> None:
    await world.put_node("a")
    await world.put_pod("web")
    attempts = Attempts(await world.hand(), FILTERS)

    refused = await attempts.place("web", attempts.answer(await attempts.ask("web"), a="no licence"))
    assert isinstance(refused, Refused)
    assert refused.message.startswith("0/1 nodes are available: 1 no licence.")
    assert (refused.rejectors, refused.only_assumed) == (("Extender",), False)


async def test_assumed_pods_are_not_blamed_for_what_an_extender_refuses(world: World) -> None:
    """Else the attempt would be repeated at once, for ever: the pod fits as soon as nobody asks the extender."""
    await world.put_node("a")
    await world.put_pod("web")
    await world.put_pod("other")
    hand = await world.hand()
    attempts = Attempts(hand, FILTERS)
    await attempts.place("other", attempts.answer(await attempts.ask("other")))
    assert list(hand.cache.assumed())

    refused = await attempts.place("web", attempts.answer(await attempts.ask("web"), a="no licence"))
    assert isinstance(refused, Refused)
    assert not refused.only_assumed


async def test_the_question_is_put_again_where_all_nodes_changed(world: World) -> None:
    await world.put_node("a")
    await world.put_pod("web")
    hand = await world.hand()
    attempts = Attempts(hand, FILTERS)
    answers = NO_ANSWERS
    for number in range(MOST_ROUNDS):
        there = ["a", *(f"new-{each}" for each in range(number))]
        answers = attempts.answer(await attempts.ask("web", answers), answers, **dict.fromkeys(there, "no"))
        await world.put_node(f"new-{number}")
        await hand.seen()

    with pytest.raises(PluginError, match=f"changed in each of {MOST_ROUNDS} rounds"):
        await attempts.place("web", answers)


async def test_victims_are_asked_about_and_named_by_the_extender(world: World) -> None:
    for name in ("a", "b"):
        await world.put_node(name, cpu="1")
        await world.put_pod(f"old-{name}", spec={"nodeName": name, "priority": 0})
    await world.put_pod("vip", spec={"priority": 9})
    attempts = Attempts(await world.hand(), profiles(preemptVerb="preempt"))

    ask = await attempts.ask("vip")
    question = question_of(ask)
    assert isinstance(question, PreemptionQuestion)
    assert (ask.about, ask.count) == ("victims", 2)
    left = PreemptionVerdicts(tuple(one for one in question.candidates if one.node == "b"))
    refused = await attempts.place("vip", with_one(NO_ANSWERS, ask, left))
    assert isinstance(refused, Refused)
    assert (refused.nominated_node, [victim.pod for victim in refused.victims]) == ("b", ["default/old-b"])

    failed = PreemptionVerdicts((), "no answer within 5 s")
    refused = await attempts.place("vip", with_one(NO_ANSWERS, ask, failed))
    assert isinstance(refused, Refused)
    assert refused.nominated_node == ""
    assert refused.message == "0/2 nodes are available: 2 Insufficient cpu. preemption: no answer within 5 s"


def test_a_new_answer_about_nodes_forgets_the_victims() -> None:
    ask = AskExtenders(
        uid="u", create_revision=1, pod_revision=1, about="nodes", question="q", count=1, extenders=(URL,)
    )
    victims = ask.model_copy(update={"about": "victims"})
    answers = NO_ANSWERS.with_one(ask, ExtendersAnswered(answer="n1")).with_one(victims, ExtendersAnswered(answer="v"))
    assert (answers.nodes, answers.victims, answers.rounds) == ("n1", "v", 1)
    again = answers.with_one(ask, ExtendersAnswered(answer="n2"))
    assert (again.nodes, again.victims, again.rounds) == ("n2", "", 2)


def test_a_failure_travels_as_one() -> None:
    outcome = outcome_of(ExtenderFailure(URL, "filter", "code 500"))
    assert outcome == ExtendersFailed(extender=URL, verb="filter", message="code 500")


async def test_a_pod_that_concerns_no_extender_is_placed_at_once(world: World) -> None:
    await world.put_node("a")
    await world.put_pod("web")
    hand = await world.hand()
    managed = profiles(filterVerb="filter", managedResources=[{"name": GPU}])
    placed = await Attempts(hand, managed).place("web")
    assert isinstance(placed, Placed)
    assert (await hand.placed("web")).ranking == placed.ranking


async def test_a_cohort_leaves_such_pods_to_attempts_of_their_own(world: World) -> None:
    await world.put_node("a")
    await world.put_pod("web-1")
    await world.put_pod("card", spec={"containers": [{"name": "c", "resources": {"limits": {GPU: "1"}}}]})
    await world.put_pod("web-2")
    hand = await world.hand(profiles=profiles(filterVerb="filter", managedResources=[
        {"name": GPU, "ignoredByScheduler": True}]))  # fmt: skip

    placed = await hand.place_many("web-1", "card", "web-2")
    assert [seat.name for seat in placed.seats] == ["web-1", "web-2"]
    assert [(one.name, one.own_attempt) for one in placed.turned_away] == [("card", True)]


async def test_a_gang_with_such_a_member_is_refused(world: World) -> None:
    await world.put_node("a")
    group = "pod-group.scheduling.sigs.k8s.io/"
    for number in range(2):
        await world.put_pod(f"m{number}", labels={f"{group}name": "team", f"{group}min-available": "2"})
    hand = await world.hand(profiles=FILTERS)

    placed = await hand.place_gang()
    assert placed.seats == ()
    assert placed.reasons[0].message == (
        f"PodGroup: default/m0 concerns extender {URL}, and extenders are not asked for gangs"
    )
    assert placed.reasons[0].rejectors == ("GangScheduling",)

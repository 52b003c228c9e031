"""Decisions with extenders: what is asked, and what is decided on the answers. No extender is called."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.consulting import Consulted, consult
from wharfinger.framework.extenders.extender_chain import FilterAnswer, FilterChain
from wharfinger.framework.extenders.extender_verdicts import (
    CandidateVictims,
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
)
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

A, B = "http://a", "http://b"
GPU = "example.com/gpu"


def profile(*extenders: dict[str, Any], **fields: Any) -> Profile:
    return load_profiles({"extenders": list(extenders), **fields})["default-scheduler"]


def filters(url: str = A, **fields: Any) -> dict[str, Any]:
    return {"urlPrefix": url, "filterVerb": "filter", **fields}


def scores(url: str = A, weight: int = 1, **fields: Any) -> dict[str, Any]:
    return {"urlPrefix": url, "prioritizeVerb": "prioritize", "weight": weight, **fields}


def preempts(url: str = A, **fields: Any) -> dict[str, Any]:
    return {"urlPrefix": url, "preemptVerb": "preempt", **fields}


def question(answer: Consulted) -> ExtenderQuestion:
    assert isinstance(answer, ExtenderQuestion)
    return answer


def decided(answer: Consulted) -> Evaluation:
    assert isinstance(answer, Evaluation)
    return answer


def answers(
    asked: ExtenderQuestion, by: Profile, *said: FilterAnswer, points: dict[str, dict[str, int]] | None = None
) -> ExtenderVerdicts:
    """The verdicts of extenders that give these answers, in order."""
    chain = FilterChain(asked, by.extenders)
    for extender, answer in zip(chain.filters(), said, strict=False):
        assert chain.filtered(extender, answer) is None
    for extender in chain.prioritizers():
        chain.prioritized(extender, (points or {}).get(extender.name, {}).items())
    return chain.verdicts()


NODES = snapshot(node("n1"), node("n2"), node("n3"), node("small", cpu=10))
WEB = pod("web", cpu=100)


class TestAsking:
    def test_nodes_that_plugins_refuse_are_not_asked_about(self) -> None:
        asked = question(consult(profile(filters()), WEB, NODES))
        assert (asked.nodes, asked.extenders, asked.revision) == (("n1", "n2", "n3"), (A,), 1)

    def test_a_pod_that_asks_for_no_managed_resource_is_decided_at_once(self) -> None:
        managed = profile(filters(managedResources=[{"name": GPU}]))
        assert decided(consult(managed, WEB, NODES)).node is not None
        nodes = snapshot(node("n1", extended={GPU: 2}), node("n2"))
        assert question(consult(managed, pod("card", extended={GPU: 1}), nodes)).nodes == ("n1",)

    def test_an_extender_without_any_verb_of_a_decision_is_not_asked(self) -> None:
        assert decided(consult(profile({"urlPrefix": A, "bindVerb": "bind"}), WEB, NODES)).node is not None

    def test_one_feasible_node_is_not_scored(self) -> None:
        one = snapshot(node("n1"), node("small", cpu=10))
        assert decided(consult(profile(scores()), WEB, one)).node == "n1"
        assert question(consult(profile(filters(), scores(B)), WEB, one)).nodes == ("n1",)

    def test_no_feasible_node_asks_no_filter(self) -> None:
        refused = decided(consult(profile(filters()), pod(cpu=9000), NODES))
        assert refused.message.startswith("0/4 nodes are available: 4 Insufficient cpu.")
        assert refused.rejectors == ("NodeResourcesFit",)

    def test_ignorable_extenders_are_asked_last(self) -> None:
        both = profile(filters(A, ignorable=True), filters(B))
        assert question(consult(both, WEB, NODES)).extenders == (B, A)

    def test_the_nominated_node_is_asked_about_alone_first(self) -> None:
        own, by = pod("own", cpu=100, nominated_node_name="n2"), profile(filters())
        asked = question(consult(by, own, NODES))
        assert asked.nodes == ("n2",)
        passed = answers(asked, by, FilterAnswer(("n2",)))
        assert decided(consult(by, own, NODES, verdicts=passed)).node == "n2"

        declined = answers(asked, by, FilterAnswer((), {"n2": "no"}))
        again = question(consult(by, own, NODES, verdicts=declined))
        assert again.nodes == ("n1", "n2", "n3")

    def test_a_sampling_search_asks_about_its_sample_and_decides_on_it(self) -> None:
        by = profile(filters(), percentageOfNodesToScore=1)
        many = snapshot(*(node(f"n{number:03}") for number in range(300)))
        asked = question(consult(by, WEB, many, start=250))
        assert (len(asked.nodes), asked.start) == (100, 250)
        final = decided(consult(by, WEB, many, verdicts=answers(asked, by, FilterAnswer(asked.nodes[5:7]))))
        assert final.feasible == asked.nodes[5:7]
        assert final.next_start == 50

    def test_an_extender_alone_makes_a_sampling_search_look_for_more(self) -> None:
        """kube-scheduler takes the first feasible node only where nothing scores and no extender filters."""
        unscored = [{"plugins": {"score": {"disabled": [{"name": "*"}]}}, "percentageOfNodesToScore": 50}]
        many = snapshot(*(node(f"n{number:03}") for number in range(300)))
        assert profile(profiles=unscored).evaluate(WEB, many).feasible_count == 1
        assert len(question(consult(profile(filters(), profiles=unscored), WEB, many)).nodes) == 150


class TestFiltering:
    def test_filters_are_chained_on_what_is_left(self) -> None:
        by = profile(filters(A), filters(B))
        asked = question(consult(by, WEB, NODES))
        chain = FilterChain(asked, by.extenders)
        first, second = chain.filters()
        chain.filtered(first, FilterAnswer(("n3", "n1"), {"n2": "a says no"}))
        assert chain.left == ["n1", "n3"]
        chain.filtered(second, FilterAnswer(("n3",), {"n1": "b says no", "n2": "b was not asked about it"}))
        assert chain.left == ["n3"]

        final = decided(consult(by, WEB, NODES, verdicts=chain.verdicts()))
        assert final.node == "n3"
        assert final.refusals == {"NodeResourcesFit": {"Insufficient cpu": 1}, A: {"a says no": 1}, B: {"b says no": 1}}

    def test_the_message_counts_reasons_of_plugins_and_extenders_alike(self) -> None:
        by = profile(filters())
        asked = question(consult(by, WEB, NODES))
        said = FilterAnswer(
            (), {"n1": "no licence", "n2": "no licence"}, {"n2": "rack is locked", "n3": "rack is locked"}
        )
        final = decided(consult(by, WEB, NODES, verdicts=answers(asked, by, said)))
        assert final.node is None
        assert final.message.startswith("0/4 nodes are available: 1 Insufficient cpu, 1 no licence, 2 rack is locked.")
        assert final.rejectors == ("Extender", "NodeResourcesFit")

    def test_a_node_left_out_without_a_word_gives_no_reason(self) -> None:
        by, nodes = profile(filters()), snapshot(node("n1"), node("n2"))
        asked = question(consult(by, WEB, nodes))
        final = decided(consult(by, WEB, nodes, verdicts=answers(asked, by, FilterAnswer(()))))
        assert final.message == (
            "0/2 nodes are available: preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        assert final.rejectors == ("Extender",)

    def test_an_explanation_shows_the_extender_beside_the_plugins(self) -> None:
        by = profile(filters())
        asked = question(consult(by, WEB, NODES))
        final = decided(consult(by, WEB, NODES, verdicts=answers(asked, by, FilterAnswer(("n1",), {"n2": "no"}))))
        verdicts = final.verdicts()
        assert {name: list(said) for name, said in verdicts.items()} == {
            "n1": [], "n2": [A], "n3": [A], "small": ["NodeResourcesFit"],
        }  # fmt: skip
        assert verdicts["n2"][A].message == "no"
        assert all(final.verdicts_on(name) == said for name, said in verdicts.items())

    def test_an_unknown_node_is_a_failure(self) -> None:
        by = profile(filters())
        chain = FilterChain(question(consult(by, WEB, NODES)), by.extenders)
        failure = chain.filtered(chain.filters()[0], FilterAnswer(("n1", "small")))
        assert isinstance(failure, ExtenderFailure)
        assert 'claims a filtered node "small" which is not found in the input node list' in failure.message

    def test_the_failure_of_an_ignorable_extender_passes_all_nodes(self) -> None:
        by = profile(filters(ignorable=True))
        chain = FilterChain(question(consult(by, WEB, NODES)), by.extenders)
        assert chain.failed(chain.filters()[0], "filter", "no answer within 5 s") is None
        verdicts = chain.verdicts()
        assert verdicts.verdicts[0].failure == "no answer within 5 s"
        assert decided(consult(by, WEB, NODES, verdicts=verdicts)).feasible_count == 3

    def test_a_question_to_an_extender_that_is_gone_fails(self) -> None:
        asked = question(consult(profile(filters()), WEB, NODES))
        failure = FilterChain(asked, profile().extenders).missing()
        assert failure is not None
        assert failure.message == f"extender {A} is not configured here"


class TestTheClusterMoves:
    BY = profile(filters())

    def test_a_node_that_became_feasible_since_is_not_chosen(self) -> None:
        asked = question(consult(self.BY, WEB, NODES))
        verdicts = answers(asked, self.BY, FilterAnswer(("n2",)))
        grown = snapshot(node("n1"), node("n2"), node("n3"), node("small"), node("new"))
        final = decided(consult(self.BY, WEB, grown, verdicts=verdicts))
        assert final.feasible == ("n2",)

    def test_where_no_other_is_left_the_question_is_put_again(self) -> None:
        asked = question(consult(self.BY, WEB, NODES))
        verdicts = answers(asked, self.BY, FilterAnswer((), {"n1": "no", "n2": "no", "n3": "no"}))
        grown = snapshot(node("n1"), node("n2"), node("n3"), node("new"), revision=2)
        again = question(consult(self.BY, WEB, grown, verdicts=verdicts))
        assert (again.nodes, again.revision) == (("n1", "n2", "n3", "new"), 2)

    def test_a_node_that_filled_up_counts_under_the_plugin(self) -> None:
        asked = question(consult(self.BY, WEB, NODES))
        verdicts = answers(asked, self.BY, FilterAnswer(("n1", "n2"), {"n3": "no"}))
        fuller = snapshot(node("n1", cpu=0), node("n2"), node("n3", cpu=0))
        final = decided(consult(self.BY, WEB, fuller, verdicts=verdicts))
        assert (final.node, final.refusals) == ("n2", {"NodeResourcesFit": {"Insufficient cpu": 2}})

    def test_a_node_that_went_is_forgotten(self) -> None:
        asked = question(consult(self.BY, WEB, NODES))
        verdicts = answers(asked, self.BY, FilterAnswer(("n1", "n2"), {"n3": "no"}))
        assert decided(consult(self.BY, WEB, snapshot(node("n2")), verdicts=verdicts)).node == "n2"


class TestScoring:
    ALIKE = snapshot(node("n1"), node("n2"), node("n3"))

    def final(self, by: Profile, points: dict[str, dict[str, int]], nodes: Snapshot = ALIKE) -> Evaluation:
        asked = question(consult(by, WEB, nodes))
        return decided(consult(by, WEB, nodes, verdicts=answers(asked, by, points=points)))

    def test_points_count_times_weight_times_ten(self) -> None:
        plain = profile().evaluate(WEB, self.ALIKE)
        assert plain.chosen is not None
        final = self.final(profile(scores(A, 3), scores(B, 1)), {A: {"n2": 10, "n3": 4}, B: {"n3": 5}})
        totals = {one.node: one.total - plain.chosen.total for one in final.ranking(3)}
        assert totals == {"n2": 300, "n3": 170, "n1": 0}
        assert final.chosen is not None
        assert (final.chosen.plugins[A], final.chosen.plugins[B]) == (300, 0)
        assert final.total_of("n3") == plain.chosen.total + 170

    def test_points_below_zero_keep_the_node_feasible(self) -> None:
        plain = profile().evaluate(WEB, self.ALIKE)
        assert plain.chosen is not None
        final = self.final(profile(scores(A, 100)), {A: {"n1": -9, "n2": -10, "n3": -10}})
        assert [one.total - plain.chosen.total for one in final.ranking(9)] == [-9000, -10_000, -10_000]
        assert (final.node, final.feasible_count) == ("n1", 3)

    def test_ties_are_broken_as_without_extenders(self) -> None:
        plain = profile().evaluate(WEB, self.ALIKE)
        same = self.final(profile(scores()), {A: dict.fromkeys(("n1", "n2", "n3"), 7)})
        assert [one.node for one in same.ranking(3)] == [one.node for one in plain.ranking(3)]
        assert self.final(profile(scores()), {}).node == plain.node

    def test_a_node_that_is_named_twice_gets_both_and_strangers_nothing(self) -> None:
        by = profile(scores())
        chain = FilterChain(question(consult(by, WEB, self.ALIKE)), by.extenders)
        chain.prioritized(chain.prioritizers()[0], [("n1", 3), ("nowhere", 10), ("n1", 4)])
        assert chain.verdicts().verdicts[0].scores == {0: 7}

    @pytest.mark.parametrize("score", [2**62, -(2**62)])
    def test_points_too_large_to_be_added_are_no_points(self, score: int) -> None:
        final = self.final(profile(scores(A, 5)), {A: {"n1": score}})
        assert final.chosen is not None
        assert final.extender_verdicts is not None
        assert A not in final.chosen.plugins
        assert final.extender_verdicts.verdicts[0].failure == "a score is too large to be added"

    def test_only_what_all_filters_left_is_scored(self) -> None:
        by = profile(filters(A), scores(B))
        chain = FilterChain(question(consult(by, WEB, NODES)), by.extenders)
        chain.filtered(chain.filters()[0], FilterAnswer(("n1", "n2")))
        assert [one.name for one in chain.prioritizers()] == [B]
        chain.filtered(chain.filters()[0], FilterAnswer(("n1",)))
        assert chain.prioritizers() == []


class TestPreemption:
    VICTIMS: ClassVar = {
        name: pod(f"old-{name}", cpu=4000, node_name=name, uid=f"u-{name}", start_time=f"2026-01-01T00:0{number}:00Z")
        for number, name in enumerate(("n1", "n2"))
    }
    FULL = snapshot(node("n1"), node("n2"), n1=[VICTIMS["n1"]], n2=[VICTIMS["n2"]])
    VIP = pod("vip", cpu=4000, priority=9)

    def asked(self, by: Profile) -> PreemptionQuestion:
        answer = consult(by, self.VIP, self.FULL)
        assert isinstance(answer, PreemptionQuestion)
        return answer

    def final(self, by: Profile, verdicts: PreemptionVerdicts, nodes: Snapshot = FULL) -> Evaluation:
        return decided(consult(by, self.VIP, nodes, preemption=verdicts))

    def test_extenders_are_asked_about_the_candidates(self) -> None:
        asked = self.asked(profile(preempts(), filters(B)))
        assert asked.extenders == (A,)
        assert {one.node: [victim.uid for victim in one.victims] for one in asked.candidates} == {
            "n1": ["u-n1"], "n2": ["u-n2"],
        }  # fmt: skip

    def test_without_a_verb_for_it_preemption_decides_alone(self) -> None:
        assert decided(consult(profile(filters()), self.VIP, self.FULL)).nominated_node == "n2"

    def test_a_candidate_that_an_extender_drops_is_not_nominated(self) -> None:
        by = profile(preempts())
        left = tuple(one for one in self.asked(by).candidates if one.node == "n1")
        final = self.final(by, PreemptionVerdicts(left))
        assert (final.node, final.nominated_node, [one.name for one in final.victims]) == (None, "n1", ["old-n1"])

    def test_violations_that_an_extender_counts_decide(self) -> None:
        by = profile(preempts())
        recounted = tuple(
            CandidateVictims(one.node, one.victims, 1 if one.node == "n2" else 0) for one in self.asked(by).candidates
        )
        assert self.final(by, PreemptionVerdicts(recounted)).nominated_node == "n1"

    def test_no_candidate_left_evicts_no_pod(self) -> None:
        final = self.final(profile(preempts()), PreemptionVerdicts(()))
        assert final.nominated_node is None
        assert final.message == (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: no candidate node for preemption"
        )

    def test_the_error_of_an_extender_stands_in_the_message(self) -> None:
        final = self.final(profile(preempts()), PreemptionVerdicts((), "no answer within 5 s"))
        assert final.message.endswith("2 Insufficient cpu. preemption: no answer within 5 s")

    @pytest.mark.parametrize(
        "there",
        [
            pytest.param([], id="gone"),
            pytest.param([pod("old-n1", cpu=4000, node_name="n1", uid="another")], id="made anew"),
            pytest.param([pod("old-n1", cpu=4000, node_name="n1", uid="u-n1", priority=9)], id="as important"),
        ],
    )
    def test_a_victim_that_may_not_be_evicted_any_more_drops_the_node(self, there: list[Pod]) -> None:
        by = profile(preempts())
        left = tuple(one for one in self.asked(by).candidates if one.node == "n1")
        filler = pod("filler", cpu=1000, node_name="n1", priority=10)
        final = self.final(by, PreemptionVerdicts(left), snapshot(node("n1"), n1=[*there, filler]))
        assert final.nominated_node is None

    def test_evicting_does_not_help_against_an_extender(self) -> None:
        """As in kube-scheduler: the plugins would take the pod as it is, so there is nobody to evict."""
        by = profile(filters())
        nodes = snapshot(node("n1", cpu=5000), n1=[pod("small", cpu=10, node_name="n1")])
        asked = question(consult(by, self.VIP, nodes))
        said = answers(asked, by, FilterAnswer((), {"n1": "no licence"}))
        final = decided(consult(by, self.VIP, nodes, verdicts=said))
        assert final.message == (
            '0/1 nodes are available: 1 no licence. preemption: expected at least one victim pod on node "n1"'
        )

    def test_what_an_extender_refuses_for_good_is_no_candidate(self) -> None:
        by = profile(filters())
        nodes = snapshot(node("n1", cpu=9000), n1=[pod("small", cpu=10, node_name="n1")])
        asked = question(consult(by, self.VIP, nodes))
        said = answers(asked, by, FilterAnswer((), {}, {"n1": "wrong rack"}))
        final = decided(consult(by, self.VIP, nodes, verdicts=said))
        assert final.message.endswith("1 Preemption is not helpful for scheduling.")


class TestWaking:
    def test_every_event_may_help_a_pod_that_an_extender_refused(self) -> None:
        by = profile(filters())
        for resource in (Resource.NODE, Resource.ASSIGNED_POD, Resource.ANY):
            event = ClusterEvent(resource, Action.DELETE, 2)
            assert by.concerns(event, ("Extender",))
            assert by.may_help(event, WEB, ("Extender",)) == "Extender"

    def test_waking_takes_extenders_to_allow_everything(self) -> None:
        by = profile(filters())
        asked = question(consult(by, WEB, NODES))
        refused = answers(asked, by, FilterAnswer(()))
        assert decided(consult(by, WEB, NODES, verdicts=refused)).node is None
        assert by.evaluate(WEB, NODES, preempt=False).node is not None


def test_pods_without_extenders_are_decided_as_before() -> None:
    """Same ranking, same refusals, with extenders that the pod does not concern."""
    concerned = profile(filters(managedResources=[{"name": GPU}]), scores(B, 5, managedResources=[{"name": GPU + "s"}]))
    assert decided(consult(concerned, WEB, NODES)).decide() == profile().evaluate(WEB, NODES).decide()


def test_victims_are_facts_of_the_pods() -> None:
    asked = TestPreemption().asked(profile(preempts()))
    victim = TestPreemption.VICTIMS["n1"]
    named = next(one for one in asked.candidates if one.node == "n1")
    assert named.victims == (VictimPod(victim.key, victim.uid, victim.create_revision),)
    assert isinstance(profile(preempts()).extenders[0], Extender)

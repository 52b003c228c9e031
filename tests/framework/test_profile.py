"""Running a profile: who is asked, whose refusal counts, and which node is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.framework.conftest import MakeProfile
from tests.framework.doubles import (
    Bookkeeper,
    Broken,
    ColumnRefuser,
    ColumnScorer,
    Doorkeeper,
    Gatekeeper,
    Refuser,
    Scorer,
)
from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CARRIED_LIMIT, CycleState
from wharfinger.framework.interface import Permission, PreFilterResult
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Code, Status, unresolvable, unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

THREE = snapshot(node("a"), node("b"), node("c"))


class TestGate:
    @pytest.mark.parametrize("answer", [Status(Code.ERROR, ("cannot tell",)), SKIP], ids=["error", "skip"])
    def test_plugin_that_fails_in_pre_enqueue_raises_instead_of_gating(
        self, profile_of: MakeProfile, answer: Status
    ) -> None:
        profile = profile_of(Doorkeeper("D", answer))
        with pytest.raises(PluginError, match=r"plugin D failed in PreEnqueue: (cannot tell|answered SKIP)"):
            profile.gate(pod())

    def test_the_first_refusal_counts(self, profile_of: MakeProfile) -> None:
        profile = profile_of(Doorkeeper("A", SUCCESS), Doorkeeper("B", unresolvable("no")), Doorkeeper("C", SKIP))
        assert profile.gate(pod()) == unresolvable("no").by("B")


class TestPreFilter:
    def test_skip_leaves_out_the_plugins_own_filter(self, profile_of: MakeProfile) -> None:
        class Both(Refuser):
            def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
                return PreFilterResult(SKIP)

        assert profile_of(Both("Both", {"a": unschedulable("no")})).evaluate(pod(), THREE).feasible == ("a", "b", "c")

    def test_an_unresolvable_refusal_ends_the_round_at_once(self, profile_of: MakeProfile) -> None:
        later = Gatekeeper("Later")
        evaluation = profile_of(Gatekeeper("First", PreFilterResult(unresolvable("never"))), later).evaluate(
            pod(), THREE
        )
        assert evaluation.message == "0/3 nodes are available: never."
        assert evaluation.rejectors == ("First",)
        assert later.asked == 0

    def test_a_resolvable_refusal_lets_the_others_speak(self, profile_of: MakeProfile) -> None:
        later = Gatekeeper("Later")
        evaluation = profile_of(Gatekeeper("First", PreFilterResult(unschedulable("not now"))), later).evaluate(
            pod(), THREE
        )
        assert evaluation.node is None
        assert evaluation.rejectors == ("First",)
        assert later.asked == 1

    def test_nodes_that_are_not_named_count_as_not_satisfying_the_plugin(self, profile_of: MakeProfile) -> None:
        profile = profile_of(
            Gatekeeper("Picky", PreFilterResult(nodes=frozenset({"a", "elsewhere"}))),
            Refuser("Other", {"a": unschedulable("full"), "b": unschedulable("unasked")}),
        )
        evaluation = profile.evaluate(pod(), THREE)
        assert evaluation.message == "0/3 nodes are available: 1 full, 2 node(s) didn't satisfy plugin(s) [Picky]."
        assert evaluation.rejectors == ("Other", "Picky")

    def test_node_sets_without_a_common_node_end_the_round_at_once(self, profile_of: MakeProfile) -> None:
        later = Gatekeeper("Later", PreFilterResult(unresolvable("never")))
        evaluation = profile_of(
            Gatekeeper("One", PreFilterResult(nodes=frozenset("a"))),
            Gatekeeper("Two", PreFilterResult(nodes=frozenset("b"))),
            later,
        ).evaluate(pod(), THREE)
        assert evaluation.message.endswith("node(s) didn't satisfy plugin(s) [One Two] simultaneously.")
        assert later.asked == 0

    def test_node_sets_without_a_common_node_refuse_the_pod(self, profile_of: MakeProfile) -> None:
        profile = profile_of(
            Gatekeeper("One", PreFilterResult(nodes=frozenset({"a"}))),
            Gatekeeper("Two", PreFilterResult(nodes=frozenset({"b"}))),
        )
        evaluation = profile.evaluate(pod(), THREE)
        assert (
            evaluation.message == "0/3 nodes are available: node(s) didn't satisfy plugin(s) [One Two] simultaneously."
        )
        assert set(evaluation.rejectors) == {"One", "Two"}


class TestFilter:
    def test_a_node_counts_under_the_plugin_that_refused_it_first(self, profile_of: MakeProfile) -> None:
        first = Refuser("First", {"a": unschedulable("x"), "b": unschedulable("x")})
        second = Refuser("Second", {"b": unschedulable("y"), "c": unschedulable("y")})
        evaluation = profile_of(first, second).evaluate(pod(), THREE)
        assert evaluation.refusals == {"First": {"x": 2}, "Second": {"y": 1}}
        assert evaluation.message == "0/3 nodes are available: 1 y, 2 x."

    def test_one_node_plugins_are_not_asked_about_refused_nodes(self, profile_of: MakeProfile) -> None:
        second = Refuser("Second")
        profile_of(Refuser("First", {"a": unschedulable("x")}), second).evaluate(pod(), THREE)
        assert second.asked == ["b", "c"]

    def test_every_refusal_is_returned_on_request(self, profile_of: MakeProfile) -> None:
        first = Refuser("First", {"a": unschedulable("x")})
        second = Refuser("Second", {"a": unschedulable("y")})
        verdicts = profile_of(first, second).evaluate(pod(), THREE).verdicts()
        assert {plugin: status.reasons for plugin, status in verdicts["a"].items()} == {
            "First": ("x",),
            "Second": ("y",),
        }
        assert verdicts["b"] == {}

    def test_no_nodes_has_words_of_its_own(self, profile_of: MakeProfile) -> None:
        evaluation = profile_of().evaluate(pod(), snapshot())
        assert evaluation.message == "no nodes available to schedule pods"
        assert evaluation.rejectors == ()

    def test_counts_are_sorted_as_texts(self, profile_of: MakeProfile) -> None:
        nodes = [node(f"n{number:02}") for number in range(12)]
        refused = {each.name: unschedulable("many" if number < 10 else "few") for number, each in enumerate(nodes)}
        evaluation = profile_of(Refuser("R", refused)).evaluate(pod(), snapshot(*nodes))
        assert evaluation.message == "0/12 nodes are available: 10 many, 2 few."


class TestScore:
    def test_one_feasible_node_is_chosen_without_scoring(self, profile_of: MakeProfile) -> None:
        scorer = Scorer("S")
        evaluation = profile_of(Refuser("R", {"a": unschedulable("x"), "b": unschedulable("x")}), scorer).evaluate(
            pod(), THREE
        )
        assert evaluation.node == "c"
        assert scorer.asked == []
        assert evaluation.decision.ranking == ()

    def test_only_feasible_nodes_are_scored(self, profile_of: MakeProfile) -> None:
        scorer = Scorer("S", {"a": 100})
        evaluation = profile_of(Refuser("R", {"a": unschedulable("x")}), scorer).evaluate(pod(), THREE)
        assert scorer.asked == ["b", "c"]
        assert evaluation.node in ("b", "c")

    def test_weights_multiply_and_totals_add_up(self, profile_of: MakeProfile) -> None:
        profile = profile_of(Scorer("S", {"a": 10, "b": 20}), Scorer("T", {"a": 9}), weights={"S": 2, "T": 3})
        decision = profile.evaluate(pod(), THREE).decide()
        assert decision.totals == {"a": 47, "b": 40, "c": 0}
        assert decision.scores["a"] == {"S": 20, "T": 27}
        assert decision.node == "a"

    def test_the_ranking_is_best_first_and_cut_to_five(self, profile_of: MakeProfile) -> None:
        nodes = snapshot(*(node(f"n{number}") for number in range(8)))
        evaluation = profile_of(Scorer("S", {f"n{number}": number for number in range(8)})).evaluate(pod(), nodes)
        assert [ranked.node for ranked in evaluation.decision.ranking] == ["n7", "n6", "n5", "n4", "n3"]
        assert tuple(evaluation.runners_up(2)) == ("n6", "n5")
        assert len(evaluation.decide().ranking) == 8

    def test_equal_nodes_share_the_load(self, profile_of: MakeProfile) -> None:
        profile = profile_of(Scorer("S"))
        nodes = snapshot(*(node(f"n{number}") for number in range(10)))
        chosen = [profile.evaluate(pod(uid=f"uid-{number}"), nodes).node for number in range(1000)]
        shares = [chosen.count(f"n{number}") for number in range(10)]
        assert min(shares) > 60
        assert max(shares) < 140

    def test_the_tie_break_is_the_same_on_every_machine(self, profile_of: MakeProfile) -> None:
        """Written down from one run: another answer here would make recorded decisions come out differently."""
        nodes = snapshot(*(node(f"n{number}") for number in range(10)))
        evaluate = profile_of(Scorer("S")).evaluate
        assert [evaluate(pod(uid=f"uid-{number}"), nodes).node for number in range(4)] == TIES


TIES = ["n7", "n1", "n8", "n6"]


class TestBrokenPlugins:
    def test_one_that_raises_is_named_with_its_point(self, profile_of: MakeProfile) -> None:
        with pytest.raises(PluginError, match=r"plugin Broken failed in Filter: ZeroDivisionError: oh"):
            profile_of(Broken()).evaluate(pod(), THREE)

    @pytest.mark.parametrize("answer", [None, True, Status(Code.WAIT), SKIP], ids=str)
    def test_a_filter_answers_success_or_a_refusal(self, profile_of: MakeProfile, answer: Any) -> None:
        with pytest.raises(PluginError, match="answered"):
            profile_of(Refuser("R", {"a": answer})).evaluate(pod(), THREE)

    @pytest.mark.parametrize(
        "verdicts",
        [
            Verdicts(np.array([0, 1, 2]), (SUCCESS, unschedulable("no"), Status(Code.ERROR, ("cannot tell",)))),
            Verdicts(np.array([0, 1, 0]), (SUCCESS, "no")),  # type: ignore[arg-type]
            Verdicts(np.array([0, 1, 2]), (SUCCESS, unschedulable("no"))),
            Verdicts(np.array([0, 0, -1]), (SUCCESS, unschedulable("no"))),
            Verdicts(np.array([0, 0]), (SUCCESS,)),
            Verdicts(np.zeros(3), (SUCCESS,)),
            Verdicts([0, 0, 1], (SUCCESS, unschedulable("no"))),  # type: ignore[arg-type]
        ],
        ids=["error", "no status", "too large", "negative", "short", "floats", "list"],
    )
    def test_verdicts_hold_a_refusal_for_every_code_they_use(self, profile_of: MakeProfile, verdicts: Verdicts) -> None:
        with pytest.raises(PluginError, match="plugin C failed in Filter"):
            profile_of(ColumnRefuser("C", verdicts)).evaluate(pod(), THREE)

    def test_a_status_that_is_not_used_may_be_anything(self, profile_of: MakeProfile) -> None:
        table = (SUCCESS, unschedulable("no"), Status(Code.ERROR))
        answer = profile_of(ColumnRefuser("C", Verdicts(np.array([0, 1, 0]), table))).evaluate(pod(), THREE)
        assert answer.feasible == ("a", "c")

    def test_lazy_statuses_are_checked_when_a_reason_is_requested(self, profile_of: MakeProfile) -> None:
        statuses = {1: Status(Code.ERROR, ("cannot tell",))}
        profile = profile_of(ColumnRefuser("C", Verdicts(np.ones(3, dtype=np.int8), statuses)))
        with pytest.raises(PluginError, match="cannot tell"):
            profile.verify(pod(), THREE, "a")
        with pytest.raises(PluginError, match="cannot tell"):
            _ = profile.evaluate(pod(), THREE).message

    def test_reasons_are_a_tuple(self, profile_of: MakeProfile) -> None:
        class Careless(Refuser):
            def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
                return Status(Code.UNSCHEDULABLE, "no")  # type: ignore[arg-type]

        with pytest.raises(PluginError, match="tuple of texts"):
            profile_of(Careless("R")).evaluate(pod(), THREE)

    def test_a_pre_filter_names_nodes_as_a_set(self, profile_of: MakeProfile) -> None:
        with pytest.raises(PluginError, match="not a set of names"):
            profile_of(Gatekeeper("G", PreFilterResult(nodes=["a"]))).evaluate(pod(), THREE)  # type: ignore[arg-type]

    def test_a_pre_filter_answers_its_result(self, profile_of: MakeProfile) -> None:
        with pytest.raises(PluginError, match="not a PreFilterResult"):
            profile_of(Gatekeeper("G", None)).evaluate(pod(), THREE)  # type: ignore[arg-type]

    @pytest.mark.parametrize("score", [-1, 101])
    def test_scores_lie_between_0_and_100(self, profile_of: MakeProfile, score: int) -> None:
        with pytest.raises(PluginError, match=r"outside 0\.\.100"):
            profile_of(Scorer("S", {"b": score})).evaluate(pod(), THREE)

    @pytest.mark.parametrize("score", [0.5, 10**30])
    def test_scores_are_whole_numbers(self, profile_of: MakeProfile, score: Any) -> None:
        with pytest.raises(PluginError, match="not a whole number"):
            profile_of(Scorer("S", {"b": score})).evaluate(pod(), THREE)

    def test_a_numpy_integer_is_a_whole_number_too(self, profile_of: MakeProfile) -> None:
        scorer = Scorer("S", {"b": np.int64(7)})  # type: ignore[dict-item]
        assert profile_of(scorer).evaluate(pod(), THREE).node == "b"

    @pytest.mark.parametrize(
        "column", [np.zeros(2, dtype=np.int64), np.zeros(3), [0, 0, 0]], ids=["short", "floats", "list"]
    )
    def test_a_column_of_scores_is_an_int64_per_node(self, profile_of: MakeProfile, column: Any) -> None:
        with pytest.raises(PluginError, match="not an int64 per node"):
            profile_of(ColumnScorer("S", column)).evaluate(pod(), THREE)

    def test_data_that_is_carried_is_small_json(self) -> None:
        state = CycleState()
        state.carry("P", {"device": 3})
        assert CycleState(state.baggage).carried("P") == {"device": 3}
        with pytest.raises(PluginError, match="at most 1024"):
            state.carry("P", "x" * CARRIED_LIMIT)
        with pytest.raises(PluginError, match="no JSON"):
            state.carry("P", object())


class TestVerify:
    def test_verify_names_the_plugin_that_refuses_the_node(self, profile_of: MakeProfile) -> None:
        profile = profile_of(Refuser("R", {"a": unschedulable("x")}))
        assert profile.verify(pod(), THREE, "a") == Status(Code.UNSCHEDULABLE, ("x",), "R")
        assert profile.verify(pod(), THREE, "b").ok

    def test_a_node_that_is_gone_is_refused(self, profile_of: MakeProfile) -> None:
        assert profile_of().verify(pod(), THREE, "z").rejected


class TestReserveAndPermit:
    def test_a_refused_reservation_is_undone_in_reverse_order(self, profile_of: MakeProfile) -> None:
        diary: list[str] = []
        profile = profile_of(
            Bookkeeper("A", diary), Bookkeeper("B", diary, unschedulable("no")), Bookkeeper("C", diary)
        )
        status = profile.reserve(CycleState(), pod(), "a")
        assert status == Status(Code.UNSCHEDULABLE, ("no",), "B")
        assert diary == ["A reserve", "B reserve", "C unreserve", "B unreserve", "A unreserve"]

    @pytest.mark.parametrize("code", [Code.WAIT, Code.SKIP])
    def test_reserve_refuses_on_a_status_it_may_not_answer(self, profile_of: MakeProfile, code: Code) -> None:
        """A plugin that asks for a wait in Reserve, where only Permit may, gives the pod no seat."""
        diary: list[str] = []
        profile = profile_of(Bookkeeper("A", diary), Bookkeeper("B", diary, Status(code, ("later",))))
        status = profile.reserve(CycleState(), pod(), "a")
        assert (status.code, status.plugin) == (Code.UNSCHEDULABLE, "B")
        assert status.message == f"B answered {code.name} to Reserve, which is neither success nor a refusal"
        assert diary == ["A reserve", "B reserve", "B unreserve", "A unreserve"]

    def test_reserve_passes_an_error_on(self, profile_of: MakeProfile) -> None:
        profile = profile_of(Bookkeeper("A", [], Status(Code.ERROR, ("cannot tell",))))
        assert profile.reserve(CycleState(), pod(), "a") == Status(Code.ERROR, ("cannot tell",), "A")

    def test_unreserve_calls_the_other_plugins_when_one_raises(
        self, profile_of: MakeProfile, caplog: pytest.LogCaptureFixture
    ) -> None:
        diary: list[str] = []
        raising = Bookkeeper("B", diary, unreserve_error=RuntimeError("no idea"))
        profile = profile_of(Bookkeeper("A", diary), raising, Bookkeeper("C", diary))
        profile.unreserve(CycleState(), pod(), "a")
        assert diary == ["C unreserve", "B unreserve", "A unreserve"]
        [line] = [record.getMessage() for record in caplog.records]
        assert line.startswith("plugin_failed error='plugin B failed in Unreserve: RuntimeError: no idea")

    def test_a_refusal_of_reserve_stands_when_unreserve_raises(self, profile_of: MakeProfile) -> None:
        diary: list[str] = []
        raising = Bookkeeper("B", diary, unschedulable("no"), unreserve_error=RuntimeError("no idea"))
        status = profile_of(Bookkeeper("A", diary), raising).reserve(CycleState(), pod(), "a")
        assert status == unschedulable("no").by("B")
        assert diary == ["A reserve", "B reserve", "B unreserve", "A unreserve"]

    def test_the_longest_wait_wins_and_is_cut_to_15_minutes(self, profile_of: MakeProfile) -> None:
        wait = Status(Code.WAIT)
        profile = profile_of(
            Bookkeeper("A", [], permission=Permission(wait, 5)), Bookkeeper("B", [], permission=Permission(wait, 5000))
        )
        permission = profile.permit(CycleState(), pod(), "a")
        assert (permission.status.code, permission.status.plugin, permission.timeout) == (Code.WAIT, "B", 900.0)

    def test_a_refusal_beats_a_wait(self, profile_of: MakeProfile) -> None:
        profile = profile_of(
            Bookkeeper("A", [], permission=Permission(Status(Code.WAIT), 5)),
            Bookkeeper("B", [], permission=Permission(unschedulable("no"))),
        )
        assert profile.permit(CycleState(), pod(), "a").status.rejected


class TestBind:
    def test_the_next_is_asked_when_one_skips(self, profile_of: MakeProfile) -> None:
        class Shy:
            name = "Shy"

            def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
                return SKIP

        assert profile_of(Shy()).bind(CycleState(), pod(), "a").ok

    def test_a_profile_needs_one_queue_sort_and_a_binder(self) -> None:
        with pytest.raises(ConfigurationError, match="exactly one queueSort"):
            Profile("p", Enabled.everywhere((), {}))

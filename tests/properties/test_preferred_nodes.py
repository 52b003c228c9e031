"""A preferred node goes before the others only when it is nearly as good, by a plain reading of the rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.doubles import Refuser, Scorer
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.plugins.node_independent import DefaultBinder, PrioritySort
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import unschedulable
from wharfinger.testing.builders import node, pod, snapshot


@dataclass(frozen=True)
class Case:
    """Nodes with their scores; some refuse, some are preferred."""

    scores: dict[str, int]
    refusing: frozenset[str]
    preferred: frozenset[str]
    margin: int
    percentage: int | None

    @property
    def snapshot(self) -> Snapshot:
        return snapshot(*(node(name) for name in self.scores))

    def evaluate(self, preference: Preference | None) -> Evaluation:
        refuser = Refuser("Refuser", dict.fromkeys(self.refusing, unschedulable("no")))
        plugins = (PrioritySort(), refuser, Scorer("Scorer", self.scores), DefaultBinder())
        profile = Profile("default-scheduler", Enabled.everywhere(plugins, {}), percentage=self.percentage)
        return profile.evaluate(pod(uid="uid-1"), self.snapshot, preference=preference)

    def preference(self) -> Preference:
        column = np.array([name in self.preferred for name in self.scores], dtype=np.bool_)
        return Preference(column, self.margin)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = [f"n{number}" for number in draw(st.permutations(range(draw(st.integers(1, 8)))))]
    some = st.frozensets(st.sampled_from(names))
    return Case(
        scores={name: draw(st.integers(0, 6)) for name in names},
        refusing=draw(some),
        preferred=draw(some),
        margin=draw(st.integers(0, 7)),
        percentage=draw(st.sampled_from([None, 50])),
    )


@given(cases())
def test_the_order_is_that_of_the_plain_rule(case: Case) -> None:
    plain, chosen = case.evaluate(None), case.evaluate(case.preference())

    by_total = [(one.node, one.total) for one in plain.ranking(len(case.scores))]
    best = max((total for _, total in by_total), default=0)
    first = [one for one in by_total if one[0] in case.preferred and one[1] >= best - case.margin]
    rest = [one for one in by_total if one not in first]
    assert [(one.node, one.total) for one in chosen.ranking(len(case.scores))] == first + rest
    assert tuple(chosen.runners_up(3)) == tuple(name for name, _ in (first + rest)[1:4])
    assert chosen.node == ((first + rest)[0][0] if by_total else plain.node)
    over = chosen.passed_over
    assert (over.node if over is not None else chosen.node) == plain.node
    assert chosen.by_preference == (plain.feasible_count > 1)


@given(cases())
def test_nothing_else_of_the_decision_changes(case: Case) -> None:
    plain, chosen = case.evaluate(None).decide(), case.evaluate(case.preference()).decide()

    assert chosen.totals == plain.totals
    assert chosen.scores == plain.scores
    assert (chosen.feasible, chosen.refusals, chosen.message) == (plain.feasible, plain.refusals, plain.message)


@given(cases())
def test_worker_that_prefers_no_or_all_nodes_decides_as_without(case: Case) -> None:
    plain = case.evaluate(None).decide()

    for preferred in (np.zeros, np.ones):
        same = case.evaluate(Preference(preferred(len(case.scores), dtype=np.bool_), case.margin)).decide()
        assert (same.node, same.ranking) == (plain.node, plain.ranking)

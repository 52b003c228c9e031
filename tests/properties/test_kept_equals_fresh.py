"""A profile that has decided before decides like a new one, whatever happened in between and in whatever order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.clusters import a_node, a_pod, clusters, pods
from tests.properties.shares import in_quarters
from tests.properties.whole_clusters import World
from wharfinger.framework.config.drafts import ProfileDraft
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.interface import Filter, NodeFilter, NodeScore, PreFilter, Score, Selective
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_configuration
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.pod import Pod

CATALOG = catalog()
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
COMPLETED = {
    percentage: load_configuration({**CONFIGURATION, **sampling}, catalog=CATALOG).configuration.profiles[0]
    for percentage, sampling in ((None, {}), (50, {"percentageOfNodesToScore": 50}))
}
"""The default profile, and a sampling one. Thousands are made of them, so they are read once."""


def fresh(percentage: int | None = None) -> Profile:
    """A new default profile, perhaps a sampling one."""
    return ProfileDraft(COMPLETED[percentage], CATALOG).profile()


changes = st.sampled_from(["place", "remove", "node", "resize"])


@st.composite
def histories(draw: st.DrawFn) -> list[Snapshot]:
    """Snapshots that came one from another, each of them perhaps from an older one."""
    known = [Snapshot.of(draw(clusters()))]
    for number in range(draw(st.integers(1, 5))):
        last = draw(st.sampled_from(known))
        row = draw(st.integers(0, len(last) - 1))
        info = last.rows[row]
        match draw(changes):
            case "place":
                known.append(last.place(a_pod(draw, f"placed-{number}"), info.node.name))
            case "remove":
                known.append(last.with_pods_changed({row: info.without_pods(list(info.pods)[:1])}))
            case "node":
                known.append(last.with_nodes_changed({row: info.with_node(a_node(draw, info.node.name))}))
            case "resize":
                known.append(last.resized({row}, [NodeInfo.of(a_node(draw, f"new-{number}"))]))
    return known


@in_quarters(25)
@given(histories(), st.lists(pods(), min_size=1, max_size=2), st.data())
def test_what_is_kept_between_decisions_changes_none(
    quarter: int, history: list[Snapshot], subjects: list[Pod], data: st.DataObject
) -> None:
    kept = fresh()
    order = data.draw(st.lists(st.sampled_from(history), min_size=2, max_size=6))
    for snapshot in order:
        for subject in subjects:
            found, expected = kept.evaluate(subject, snapshot), fresh().evaluate(subject, snapshot)
            assert found.decide(None) == expected.decide(None)
            assert found.verdicts() == expected.verdicts()
            for name in snapshot.names:
                assert kept.verify(subject, snapshot, name) == expected_status(expected, name, subject)


@in_quarters(40)
@given(st.integers(0, 2**32))
def test_nor_with_everything_at_play(quarter: int, seed: int) -> None:
    """Terms, spread, preemption, nominations, budgets, sampling; snapshots in any order, one node alone among them."""
    world = World(seed)
    history = [world.snapshot()]
    for _ in range(world.rng.randrange(2, 7)):
        history.append(world.changed(world.rng.choice(history)))
    subjects = [world.pod() for _ in range(2)]
    subjects.append(replace(world.pod(), nominated_node_name="n0"))
    percentage = world.rng.choice((None, 50))
    kept = fresh(percentage)
    for _ in range(6):
        snapshot, subject = world.rng.choice(history), world.rng.choice(subjects)
        start = world.rng.randrange(3)
        found = kept.evaluate(subject, snapshot, start=start)
        expected = fresh(percentage).evaluate(subject, snapshot, start=start)
        assert found.decide(None) == expected.decide(None)
        assert found.victims == expected.victims
        assert found.next_start == expected.next_start
        assert found.verdicts() == expected.verdicts()
        check_the_verdicts(found)
        for name in snapshot.names:
            status = fresh().verify(subject, snapshot, name)
            assert kept.verify(subject, snapshot, name) == status
            assert kept.verify(subject, snapshot.only(name), name) == fresh().verify(subject, snapshot.only(name), name)
            if percentage is None and not subject.nominated_node_name:
                assert status.ok is (name in found.feasible)


def check_the_verdicts(evaluation: Evaluation) -> None:
    """A node is feasible exactly if no plugin refuses it; the first refusing plugin is among the refusing ones.

    One node alone has the verdicts and the total that it has among all.
    """
    totals = evaluation.decide(None).totals
    for name, refused in evaluation.verdicts().items():
        assert evaluation.verdicts_on(name) == refused
        assert evaluation.total_of(name) == totals.get(name)
        if name in evaluation.feasible:
            assert not refused
    assert {plugin for refused in evaluation.verdicts().values() for plugin in refused} >= set(evaluation.refusals)


def expected_status(evaluation: object, name: str, pod: Pod) -> Status:
    return fresh().verify(pod, evaluation.snapshot, name)  # type: ignore[attr-defined]


@in_quarters(80)
@given(clusters(), pods())
def test_both_forms_of_a_plugin_agree(quarter: int, infos: list[NodeInfo], pod: Pod) -> None:
    snapshot = Snapshot.of(infos)
    for plugin in fresh().plugins:
        state = CycleState()
        prepared = not isinstance(plugin, PreFilter) or plugin.pre_filter(state, pod, snapshot).status.ok
        if not prepared and isinstance(plugin, Selective):  # its filter is never asked about this pod
            continue
        if isinstance(plugin, Filter) and isinstance(plugin, NodeFilter):
            verdicts = plugin.filter(state, pod, snapshot)
            for row, info in enumerate(infos):
                one = plugin.filter_node(state, pod, info)
                column = verdicts.at(row) if verdicts is not None else Status(Code.SUCCESS)
                assert (one.code, one.reasons) == (column.code, column.reasons), plugin.name
        if isinstance(plugin, Score) and isinstance(plugin, NodeScore):
            scores = plugin.score(CycleState(), pod, snapshot, slice(None)).tolist()
            assert [plugin.score_node(CycleState(), pod, info) for info in infos] == scores, plugin.name

"""Every recorded decision of a real kube-scheduler, through etcd, `place` and `bind`: pods one by one, and in cohorts.

Where the recording has several best nodes, ours may be any of them, and the recorded one is bound. `bind` verifies it,
so it must be feasible. Scores are compared as totals; `test_conformance` compares them plugin by plugin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.conformance.live import Key, Live, live
from tests.conformance.scenarios import (
    REQUEUE,
    as_object,
    best,
    changes_before,
    families,
    key_of,
    parts,
    scenarios,
    totals,
)
from tests.conformance.test_requeue import KINDS
from tests.conftest import EtcdServer, start_etcd
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.documents.decode import pod_from_mapping
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, Seat
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.settings import EtcdSettings

pytestmark = pytest.mark.servers

DECIDED = tuple(family for family in families() if family != REQUEUE)

Expected = dict[str, Any]


@pytest.fixture(scope="module")
def own_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """An etcd that is emptied for each scenario."""
    with start_etcd(tmp_path_factory.mktemp("conformance")) as server:
        yield server


@pytest.fixture
async def store(own_etcd: EtcdServer) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(own_etcd.url,)))
    yield store
    await store.close()


def check_seat(seat: Placed | Seat, feasible: int, expected: Expected) -> None:
    assert feasible == max(1, len(expected.get("scores", ())))
    assert seat.node in best(expected)
    if "scores" in expected:
        assert seat.score == max(totals(expected).values())


def check_refused(message: str, expected: Expected) -> None:
    assert parts(message) == parts(expected["message"])


# --- one by one -----------------------------------------------------------------------------------


async def decide_alone(scene: Live, key: Key, expected: Expected) -> None:
    """One pod: decided, and then placed as recorded, or taken out again."""
    outcome = await scene.place(key)
    if "nominated" in expected:
        assert isinstance(outcome, Refused), outcome
        assert outcome.nominated_node == expected["nominated"]
        assert sorted(one.pod.partition("/")[2] for one in outcome.victims) == sorted(expected["victims"])
        await scene.preempt(key, outcome)
        outcome = await scene.place(key)
        assert isinstance(outcome, Placed), outcome
        assert outcome.node == expected["node"]
    elif "message" in expected:
        assert isinstance(outcome, Refused), outcome
        assert (outcome.nominated_node, outcome.victims) == ("", ())
        check_refused(outcome.message, expected)
        await scene.delete("Pod", key)
        return
    else:
        assert isinstance(outcome, Placed), outcome
        check_seat(outcome, outcome.computation.feasible, expected)
    await scene.bind(key, outcome, expected["node"])


@pytest.mark.parametrize("scenario", list(scenarios(*DECIDED)))
async def test_live_attempts_decide_what_kube_scheduler_decided(store: EtcdStore, scenario: dict[str, Any]) -> None:
    async with live(store, scenario) as scene:
        await scene.put_pods(*scenario["pods"])
        for pod, expected in zip(scenario["pods"], scenario["expect"], strict=True):
            await scene.change(changes_before(scenario, pod))
            await decide_alone(scene, key_of(pod), expected)


# --- in cohorts -----------------------------------------------------------------------------------


def counts(earlier: Pod, later: Pod) -> bool:
    """Whether a hard spread or required affinity of the earlier pod counts the later one.

    Its bind is verified with all pods of the cohort in place. It may then be decided anew, on a state never recorded.
    """
    spread = [one.selector for one in earlier.spread_constraints if one.hard and earlier.namespace == later.namespace]
    affinity = [term.selector for term in earlier.required_affinity]
    return any(selector is not None and selector.matches(later.labels) for selector in (*spread, *affinity))


def cohorts(scenario: dict[str, Any]) -> Iterator[list[tuple[dict[str, Any], Expected]]]:
    """The pods, cut where the recording does not say what a cohort does next.

    That is behind a pod with several best nodes, which may go to another one than was recorded; around preemptions and
    changes of the cluster; and before a pod that the rules of one before it count.
    """
    cohort: list[tuple[dict[str, Any], Expected]] = []
    members: list[Pod] = []
    for pod, expected in zip(scenario["pods"], scenario["expect"], strict=True):
        read = pod_from_mapping(as_object("Pod", pod))
        begins = "nominated" in expected or changes_before(scenario, pod)
        if cohort and (begins or any(counts(earlier, read) for earlier in members)):
            yield cohort
            cohort, members = [], []
        cohort.append((pod, expected))
        members.append(read)
        if "nominated" in expected or ("node" in expected and len(best(expected)) > 1):
            yield cohort
            cohort, members = [], []
    if cohort:
        yield cohort


def check_cohort(placed: PlacedMany, expected: dict[Key, Expected]) -> None:
    seats = {(seat.namespace, seat.name): seat for seat in placed.seats}
    assert placed.skipped == ()
    assert set(seats) == {key for key, one in expected.items() if "node" in one}
    for key, seat in seats.items():
        check_seat(seat, seat.feasible, expected[key])
    for away in placed.turned_away:
        check_refused(placed.reasons[away.reasons].message, expected[away.namespace, away.name])


@pytest.mark.parametrize("scenario", list(scenarios(*DECIDED)))
async def test_live_cohorts_decide_what_kube_scheduler_decided(store: EtcdStore, scenario: dict[str, Any]) -> None:
    async with live(store, scenario) as scene:
        await scene.put_pods(*scenario["pods"])
        for cohort in cohorts(scenario):
            await scene.change(changes_before(scenario, cohort[0][0]))
            expected = {key_of(pod): one for pod, one in cohort}
            if "nominated" in cohort[0][1]:
                await decide_alone(scene, key_of(cohort[0][0]), cohort[0][1])
                continue
            placed = await scene.place_many(list(expected))
            check_cohort(placed, expected)
            await scene.bind_many(placed, {key: one["node"] for key, one in expected.items() if "node" in one})
            for key, one in expected.items():
                if "node" not in one:
                    await scene.delete("Pod", key)


@pytest.mark.parametrize("scenario", list(scenarios("sampling"))[:3])
async def test_attempts_and_cohorts_sample_nodes_in_one_round(store: EtcdStore, scenario: dict[str, Any]) -> None:
    """Each decision begins where the one before ended, whichever kind that was."""
    async with live(store, scenario) as scene:
        await scene.put_pods(*scenario["pods"])
        for number, (pod, expected) in enumerate(zip(scenario["pods"], scenario["expect"], strict=True)):
            key = key_of(pod)
            if number % 2:
                await decide_alone(scene, key, expected)
                continue
            placed = await scene.place_many([key])
            check_cohort(placed, {key: expected})
            await scene.bind_many(placed, {key: expected["node"]})


def test_cohorts_of_the_recordings_have_many_pods() -> None:
    sizes = [len(cohort) for scenario in scenarios(*DECIDED) for cohort in cohorts(scenario.values[0])]

    assert sum(size > 1 for size in sizes) > 200
    assert max(sizes) >= 20


# --- after changes of the cluster -----------------------------------------------------------------


@pytest.mark.parametrize("scenario", list(scenarios(REQUEUE)))
async def test_live_attempts_after_each_change_bind_whom_kube_scheduler_bound(
    store: EtcdStore, scenario: dict[str, Any]
) -> None:
    async with live(store, scenario) as scene:
        for pod in scenario["pods"]:
            await scene.put_pods(pod)
            key, first = key_of(pod), scenario["first"].get(pod["metadata"]["name"])
            outcome = await scene.place(key)
            if first is None:  # its gates hold it back
                assert isinstance(outcome, Refused), outcome
                assert outcome.rejectors == ("SchedulingGates",)
            elif "node" in first:
                assert isinstance(outcome, Placed), outcome
                await scene.bind(key, outcome, first["node"])
            else:
                assert isinstance(outcome, Refused), outcome
                check_refused(outcome.message, first)
        for event in scenario["events"]:
            if event["op"] == "delete":
                await scene.delete(KINDS[event["kind"]], key_of(event["object"]))
            elif event["kind"] == "pods":
                await scene.put_pods(event["object"])
            else:
                await scene.put([as_object(KINDS[event["kind"]], event["object"])])
            await try_again(scene, event)


async def try_again(scene: Live, event: dict[str, Any]) -> None:
    """The attempted pods: the recorded ones are bound, each as soon as it fits, and the others are refused then."""
    waiting = {("default", name) for name in event["attempted"]}
    bound = {("default", name): node for name, node in event["bound"].items()}
    while bound:
        fitting = [(key, outcome) for key in bound if isinstance(outcome := await scene.place(key), Placed)]
        assert fitting, f"{event['what']}: none of {sorted(bound)} fits"
        key, placed = fitting[0]
        await scene.bind(key, placed, bound.pop(key))
        waiting.discard(key)
    for key in sorted(waiting):
        outcome = await scene.place(key)
        assert isinstance(outcome, Refused), f"{event['what']}: {outcome}"

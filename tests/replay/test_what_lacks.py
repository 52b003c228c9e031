"""What cannot be made again is counted apart, and named."""

from __future__ import annotations

from typing import Any

from tests.replay.replay_stage import Stage
from tests.scheduling.world import PROFILES, Hand
from wharfinger.etcd import keys
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.process.records import InstanceRecord
from wharfinger.replay.recorded import DecidedRun, Lack
from wharfinger.scheduling.contracts.computation import LateVerdict
from wharfinger.scheduling.contracts.scheduling import Placed, Refused

[USUAL] = PROFILES.values()


async def decided(stage: Stage, *names: str, **more: Any) -> Hand:
    for node in ("a", "b"):
        await stage.world.put_node(node, cpu="8")
    hand = await stage.world.hand(**more)
    for name in names:
        await stage.world.put_pod(name)
        await stage.world.seen()
        await stage.alone(hand, name)
    return hand


def with_computation(run: DecidedRun, **changed: Any) -> DecidedRun:
    assert run.lone is not None
    computation = run.lone.computation.model_copy(update=changed)
    return run.model_copy(update={"lone": run.lone.model_copy(update={"computation": computation})})


async def test_decisions_before_the_first_kept_revision_are_counted(stage: Stage) -> None:
    await decided(stage, "old", "new")
    [_, newer] = stage.runs
    assert newer.lone is not None
    stage.world.store.compact(newer.lone.computation.revision)

    replayed = await stage.replay()

    assert replayed.lacking["old"].lack is Lack.COMPACTED
    assert replayed.compared["new"].differs == ()


async def test_decisions_that_etcd_has_not_come_to_are_counted(stage: Stage) -> None:
    """It was restored from a backup since."""
    await decided(stage, "web")

    replayed = await stage.replay(runs=[with_computation(stage.runs[0], revision=10_000)])

    assert replayed.lacking["web"].lack is Lack.FUTURE


async def test_a_profile_that_is_gone_is_named(stage: Stage) -> None:
    await decided(stage, "web")
    await stage.world.store.delete(keys.profile(USUAL.digest))

    replayed = await stage.replay()

    assert replayed.lacking["web"].lack is Lack.PROFILE
    assert USUAL.digest[:12] in replayed.lacking["web"].detail


async def test_another_state_than_the_one_that_was_decided_on_is_told(stage: Stage) -> None:
    await decided(stage, "web", "next")
    first, second = stage.runs
    assert first.lone is not None
    assert second.lone is not None
    changed = first.model_copy(update={"lone": first.lone.model_copy(update={"pod_revision": 1})})
    gone = second.model_copy(update={"lone": second.lone.model_copy(update={"create_revision": 1})})

    replayed = await stage.replay(runs=[changed, gone])

    assert {name: one.lack for name, one in replayed.lacking.items()} == {"web": Lack.STATE, "next": Lack.STATE}


async def test_nominations_that_are_not_those_of_then_are_told(stage: Stage) -> None:
    """The record has none, or another one, and etcd shows the pod of higher priority nominated."""
    await stage.world.put_node("a", cpu="2")
    hand = await stage.world.hand()
    await stage.world.put_pod("low", cpu="2", spec={"priority": 1})
    await stage.world.seen()
    await stage.alone(hand, "low")
    await stage.world.put_pod("vip", cpu="2", spec={"priority": 9})
    await stage.world.seen()
    await stage.alone(hand, "vip")
    await stage.world.put_pod("next", cpu="1")
    await stage.world.seen()
    await stage.alone(hand, "next")
    [*before, last] = stage.runs
    [told] = last.computations()[0].nominated
    moved = told.model_copy(update={"node": "b"})

    right = await stage.replay()
    none = await stage.replay(runs=[*before, with_computation(last, nominated=())])
    other = await stage.replay(runs=[*before, with_computation(last, nominated=(moved,))])

    assert right.strange == []
    assert none.lacking["next"].lack is Lack.STATE
    assert "nominations in etcd are not those that were decided on: default/vip to a" in none.lacking["next"].detail
    assert other.lacking["next"].detail.endswith("default/vip to a, default/vip to b")


async def test_another_number_of_nodes_is_another_state(stage: Stage) -> None:
    await decided(stage, "web")

    replayed = await stage.replay(runs=[with_computation(stage.runs[0], nodes=3)])

    assert replayed.lacking["web"].detail == "etcd held 2 nodes, and 3 were decided on"
    assert replayed.lacking["web"].lack is Lack.STATE


async def test_an_earlier_releases_record_without_its_overlay_is_not_guessed(stage: Stage) -> None:
    await decided(stage, "web")

    replayed = await stage.replay(runs=[with_computation(stage.runs[0], approximate=True, number=0)])

    assert replayed.lacking["web"].lack is Lack.OVERLAY


async def test_an_earlier_releases_refusal_at_reserve_is_named(stage: Stage) -> None:
    await decided(stage, "web")
    run = with_computation(stage.runs[0], number=0)
    placed = run.lone
    assert isinstance(placed, Placed)
    refused = Refused(
        uid=placed.uid,
        create_revision=placed.create_revision,
        pod_revision=placed.pod_revision,
        message="no volume",
        rejectors=("VolumeBinding",),
        computation=placed.computation,
    )
    assert "VolumeBinding" in USUAL.at["reserve"]
    late = refused.model_copy(update={"late": LateVerdict(point="reserve", plugin="VolumeBinding", node=placed.node)})
    counts = placed.refusals

    old = await stage.replay(runs=[run.model_copy(update={"lone": refused})])
    new = await stage.replay(runs=[run.model_copy(update={"lone": late})])

    assert counts == ()
    assert old.lacking["web"].lack is Lack.VERDICT
    assert new.compared["web"].again.message == "no volume"
    assert set(new.compared["web"].differs) == {"feasible", "reasons"} - {"feasible"}


async def test_nobody_knowing_who_shared_the_nodes_is_told(stage: Stage) -> None:
    many = tuple(f"common/{number:02}" for number in range(20))
    nodes = PreferredNodes(margin=4)
    nodes.share(many, many[0])
    await decided(stage, "web", preferred_nodes=nodes)

    replayed = await stage.replay()

    assert replayed.lacking["web"].lack is Lack.MEMBERSHIP


async def test_workers_that_shared_the_nodes_are_found_by_registrations(stage: Stage) -> None:
    many = tuple(f"common/{number}" for number in range(20))
    lease = await stage.world.store.grant_lease(60)
    for number in range(20):
        record = InstanceRecord(state="ready", host="h", pid=number)
        await stage.world.store.put(keys.instance("common", str(number), 1), record.to_bytes(), lease=lease.id)
    nodes = PreferredNodes(margin=4)
    nodes.share(many, many[0])
    await decided(stage, "web", preferred_nodes=nodes)

    replayed = await stage.replay()

    assert replayed.strange == []
    [run] = stage.runs
    assert run.lone is not None
    assert run.lone.computation.own_nodes is not None
    assert run.lone.computation.own_nodes.members == ()


async def test_what_lacks_has_examples_and_never_counts_as_the_same(stage: Stage) -> None:
    names = [f"pod-{number}" for number in range(8)]
    await decided(stage, *names)
    await stage.world.store.delete(keys.profile(USUAL.digest))

    plain = (await stage.replay()).report.to_plain()

    [lack] = plain["unreplayable"]
    assert (lack["lack"], lack["decisions"], len(lack["examples"])) == ("profile", 8, 5)
    assert plain["summary"]["same"] == 0
    assert plain["summary"]["unreplayable"] == plain["decisions"] == 8

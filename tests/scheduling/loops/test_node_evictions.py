"""Which workflows of nodes a worker starts and signals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.scheduling.stage import Stage, node_bytes, pod_bytes
from wharfinger.etcd import keys
from wharfinger.scheduling.loops.node_evictions import OPEN
from wharfinger.settings import NodeEvictionSettings
from wharfinger.testing.memory_store import MemoryStore

BOTH = NodeEvictionSettings(lost_pods="requeue", taint_eviction=True)
TAINT = {"key": "flaky", "effect": "NoExecute"}


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with Stage(node_evictions=BOTH) as stage:
        yield stage


async def looked(stage: Stage) -> list[tuple[str, str, str]]:
    """What one look asks for."""
    await stage.caught_up()
    stage.nodes.asked.clear()
    await stage.loops.scheduling.node_evictions.look()
    return stage.nodes.asked


async def put_tolerating(stage: Stage, name: str, seconds: int | None, *, node: str = "n") -> None:
    pod = json.loads(pod_bytes(name, node=node))
    toleration = {"key": "flaky", "operator": "Exists"} | ({} if seconds is None else {"tolerationSeconds": seconds})
    pod["spec"]["tolerations"] = [toleration]
    await stage.store.put(keys.pod("default", name), json.dumps(pod).encode())


async def test_workflow_of_a_lost_node_is_started_again_until_its_pods_are_gone(stage: Stage) -> None:
    await stage.put_pod("web", node="gone")

    assert await looked(stage) == [("start", "gone", "")]
    assert await looked(stage) == []
    stage.clock.advance(60)
    assert await looked(stage) == [("start", "gone", "")]
    await stage.store.delete(keys.pod("default", "web"))
    assert await looked(stage) == [("signal", "gone", "poke")]
    stage.clock.advance(600)
    assert await looked(stage) == []


async def test_return_of_a_node_is_signalled_though_it_is_gone_again(stage: Stage) -> None:
    await stage.put_pod("web", node="n")
    assert await looked(stage) == [("start", "n", "")]

    await stage.put_node("n")
    await stage.store.delete(keys.node("n"))

    assert await looked(stage) == [("signal", "n", "returned")]


async def test_open_run_of_another_worker_gets_a_signal_that_the_node_returned(stage: Stage) -> None:
    await stage.put_node("n")
    await stage.put_pod("web", node="n")
    assert await looked(stage) == []

    await stage.store.delete(keys.node("n"))

    assert await looked(stage) == [("start", "n", "returned")]
    stage.clock.advance(60)
    assert await looked(stage) == [("start", "n", "")]


async def test_nodes_that_vanish_without_pods_are_not_kept(stage: Stage) -> None:
    await stage.put_node("n")
    await looked(stage)
    await stage.store.delete(keys.node("n"))
    assert await looked(stage) == []

    await stage.put_pod("web", node="n")

    assert await looked(stage) == [("start", "n", "")]


async def test_what_temporal_did_not_take_is_asked_for_again(stage: Stage) -> None:
    await stage.put_pod("web", node="n")
    stage.nodes.away = True
    with pytest.raises(Exception, match="no answer"):
        await looked(stage)

    stage.nodes.away = False

    assert await looked(stage) == [("start", "n", "")]


async def test_node_that_temporal_refuses_keeps_no_other_waiting(stage: Stage) -> None:
    stage.nodes.refused = {"gone-0"}
    for number in range(3):
        await stage.put_pod(f"web-{number}", node=f"gone-{number}")

    assert [node for _, node, _ in await looked(stage)] == ["gone-1", "gone-2"]
    assert await looked(stage) == []


@pytest.mark.parametrize("node", ["a/b", "UPPER", "n" * 254, "two words", "-n", "\u00e4"])
async def test_text_that_is_no_name_of_a_node_starts_nothing(stage: Stage, node: str) -> None:
    await stage.put_pod("web", node=node)

    assert await looked(stage) == []
    stage.loops.refresh_metrics()
    assert stage.metrics.registry.get_sample_value("wharfinger_lost_pods") == 1


async def test_open_workflows_are_bounded(stage: Stage) -> None:
    """Pods may name any number of nodes that never were."""
    for number in range(OPEN + 10):
        await stage.put_pod(f"web-{number}", node=f"never-{number}")

    assert len(await looked(stage)) == OPEN
    assert await looked(stage) == []
    await stage.store.delete(keys.pod("default", "web-0"))
    assert [what for what, _, _ in await looked(stage)] == ["signal", "start"]


async def test_at_rest_nothing_is_started(stage: Stage) -> None:
    await stage.put_node("n")
    await stage.put_pod("web", node="n")
    await stage.put_pod("done", node="gone", phase="Succeeded")
    await stage.store.put(keys.node("unreadable"), node_bytes("unreadable").replace(b"allocatable", b"allocatabel"))
    await stage.put_pod("there", node="unreadable")

    assert await looked(stage) == []


async def test_pods_that_cannot_be_read_start_nothing(stage: Stage) -> None:
    broken = json.loads(pod_bytes("web", node="gone"))
    broken["spec"]["tolerations"] = "none"
    await stage.store.put(keys.pod("default", "web"), json.dumps(broken).encode())

    assert await looked(stage) == []
    assert stage.cache.absent_nodes


async def test_tainted_node_needs_a_workflow_while_pods_have_to_leave(stage: Stage) -> None:
    await stage.put_node("n", taints=[TAINT])
    await put_tolerating(stage, "stays", None)
    assert await looked(stage) == []

    await put_tolerating(stage, "later", 300)
    assert await looked(stage) == [("start", "n", "")]
    await stage.put_pod("now", node="n")
    assert await looked(stage) == [("start", "n", "poke")]
    await stage.put_node("n", taints=[TAINT], cpu="5")
    assert await looked(stage) == []
    await stage.put_node("n", taints=[TAINT | {"timeAdded": "2026-03-01T12:00:00Z"}])
    assert await looked(stage) == [("start", "n", "poke")]
    await stage.put_node("n")
    assert await looked(stage) == [("signal", "n", "poke")]


async def test_half_requeued_pods_start_the_workflow_under_any_options() -> None:
    async with Stage() as stage:
        await stage.put_pod("lost", node="gone")
        await stage.put_node("n", taints=[TAINT])
        await stage.put_pod("tainted", node="n")
        await stage.store.put(keys.requeued("gone", "default", "web"), pod_bytes("web"))
        assert await looked(stage) == [("start", "gone", "")]

        await stage.store.delete(keys.requeued("gone", "default", "web"))

        assert await looked(stage) == [("signal", "gone", "poke")]
        assert stage.loops.scheduling.view.requeued == {}


async def test_record_that_holds_no_pod_is_reported_and_starts_nothing() -> None:
    async with Stage() as stage:
        key = keys.requeued("gone", "default", "web")
        await stage.store.put(key, pod_bytes("web", node="gone"))

        assert await looked(stage) == []
        assert "made anew unbound" in stage.loops.scheduling.view.invalid.reasons[key]


async def test_a_worker_that_does_not_dispatch_clears_no_node() -> None:
    async with Stage(dispatch="none", node_evictions=BOTH) as stage:
        await stage.until(lambda: stage.loops.checks()["serving"] == "ok")
        await stage.put_pod("lost", node="gone")
        await stage.put_node("n", taints=[TAINT])
        await stage.put_pod("tainted", node="n")

        assert await looked(stage) == []


async def test_each_node_has_one_caretaker() -> None:
    store = MemoryStore()
    async with (
        Stage(store, slot="one", node_evictions=BOTH) as one,
        Stage(store, slot="two", node_evictions=BOTH) as two,
    ):
        await one.until(lambda: all(len(each.loops.scheduling.shards.members) == 2 for each in (one, two)))
        for number in range(8):
            await one.put_pod(f"lost-{number}", node=f"gone-{number}")

        started = [*await looked(one), *await looked(two)]

    assert sorted(node for _, node, _ in started) == [f"gone-{number}" for number in range(8)]

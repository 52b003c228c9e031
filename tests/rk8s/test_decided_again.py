"""A worker's decisions on a cluster of rk8s, as commands and programs see them afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from contextlib import aclosing
from typing import Any

from tests import forked
from tests.conftest import TemporalServer
from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster
from wharfinger.client import Wharfinger
from wharfinger.settings import EtcdSettings


async def run(rk8s: Rk8sCluster, temporal: TemporalServer, *arguments: str, stdin: str = "") -> str:
    """What a command prints that succeeds."""
    env = {**os.environ, "WHARFINGER_ETCD": rk8s.etcd, "WHARFINGER_TEMPORAL": temporal.address}

    def command() -> subprocess.CompletedProcess[str]:
        return forked.run(*arguments, env=env, stdin=stdin, timeout=patient(30))

    done = await asyncio.to_thread(command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def connected(rk8s: Rk8sCluster, temporal: TemporalServer) -> Any:
    return Wharfinger.connect(etcd=EtcdSettings(endpoints=(rk8s.etcd,)), temporal=temporal.address)


async def test_a_refusal_is_explained_and_mended_by_apply(rk8s: Rk8sCluster, temporal_server: TemporalServer) -> None:
    await rk8s.put(docs.node("worker1", taints=[docs.taint("NodeOutOfService")]), docs.pod("web"))
    await rk8s.worker()
    await rk8s.record_of("web", "TaintToleration")
    again = json.loads(await run(rk8s, temporal_server, "explain", "pod", "web", "--nodes", "-o", "json"))
    assert again["same"]
    assert again["nodes"][0]["filters"]["TaintToleration"]["verdict"] == "refuses"
    node = await run(rk8s, temporal_server, "get", "node", "worker1", "-o", "yaml")
    mended = node[: node.index("  taints:")] + node[node.index("status:") :]
    assert await run(rk8s, temporal_server, "apply", "-f", "-", stdin=mended) == "node/worker1 configured\n"
    assert await rk8s.bound("web") == {"web": "worker1"}
    told = json.loads(await run(rk8s, temporal_server, "explain", "pod", "web", "-o", "json"))
    assert (told["state"], told["node"], told["missing"]) == ("bound", "worker1", [])
    bound = await run(rk8s, temporal_server, "describe", "pod", "web")
    assert f"@{told['attempts'][-1]['runId']}" in bound
    decided = json.loads(await run(rk8s, temporal_server, "explain", "pod", "web", "--nodes", "-o", "json"))
    assert (decided["same"], decided["recomputed"]["node"]) == (True, "worker1")


async def test_assignments_name_the_runs_of_lone_pods_and_cohorts(
    rk8s: Rk8sCluster, temporal_server: TemporalServer
) -> None:
    names = {f"pod-{number}" for number in range(60)}
    await rk8s.put(*(docs.node(f"worker{number}", cpu="32") for number in range(3)))
    await rk8s.worker()
    async with connected(rk8s, temporal_server) as wharfinger:
        submitted = await wharfinger.submit(docs.pod("lone"), timeout=patient(20))
        assert submitted.outcome == "bound"
        found = {}
        async with asyncio.timeout(patient(60)), aclosing(wharfinger.watch_assignments(0)) as stream:
            first = await anext(stream)
            assert f"{first.workflow_id}@{first.run_id}" == submitted.bound_by
            await rk8s.put(*(docs.pod(name, cpu="100m", memory="10Mi") for name in names))
            while len(found) < len(names):
                one = await anext(stream)
                found[one.name] = one
        assert set(found) == names
        assert await rk8s.nodes_of(names) == {name: one.node for name, one in found.items()}
        assert all(one.workflow_id.startswith("wharfinger/") and one.run_id for one in found.values())
        async with aclosing(wharfinger.watch_assignments(first.revision + 1)) as resumed:
            late = [await anext(resumed) for _ in names]
        assert {(one.name, one.run_id) for one in late} == {(one.name, one.run_id) for one in found.values()}
        seventh = found["pod-7"]
        await rk8s.client.get_workflow_handle(seventh.workflow_id, run_id=seventh.run_id).result()
        explained = await wharfinger.explain("default", "pod-7")
        assert (explained.state, explained.attempts[-1].outcome) == ("bound", "bound")

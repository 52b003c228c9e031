"""`wharfinger explain` as a person runs it, against real servers."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from dataclasses import dataclass

from tests import forked
from tests.conftest import EtcdServer, TemporalServer
from tests.scheduling.world import pod_object
from tests.workflows.conftest import Stage, refused, stage
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.process.records import InstanceRecord
from wharfinger.settings import EtcdSettings

__all__ = ["stage"]


@dataclass
class Answer:
    code: int
    out: str
    err: str


async def wharfinger(etcd: EtcdServer, temporal: TemporalServer, *arguments: str) -> Answer:
    """Run the command in a process of its own."""
    servers = {"WHARFINGER_ETCD": etcd.url, "WHARFINGER_TEMPORAL": temporal.address}
    process = await asyncio.create_subprocess_exec(
        *forked.COMMAND,
        *arguments,
        env=forked.variables(os.environ | servers),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Answer(process.returncode or 0, out.decode(), err.decode())


async def test_a_waiting_pod_is_explained_to_people_and_to_programs(
    etcd_server: EtcdServer, temporal_server: TemporalServer, stage: Stage
) -> None:
    name = f"web-{uuid.uuid4().hex[:8]}"
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    await store.put(keys.pod("default", name), json.dumps(pod_object(name, uid="uid-1")).encode())
    stage.activities.places = [refused()]
    handle = await stage.start(name=name)
    await stage.parked(handle.id)
    try:
        cluster = ("--cluster", stage.cluster)
        told = await wharfinger(etcd_server, temporal_server, "explain", "pod", f"default/{name}", *cluster)
        plain = await wharfinger(
            etcd_server, temporal_server, "explain", "pod", name, "-n", "default", "-o", "json", *cluster
        )
    finally:
        await handle.terminate()
        await store.delete(keys.pod("default", name))
        await store.close()

    assert (told.code, told.err) == (0, "")
    assert f"pod default/{name} is pending" in told.out
    assert "0/3 nodes are available: 3 Insufficient cpu." in told.out
    assert "waited since" in told.out
    assert plain.code == 0
    [attempt] = json.loads(plain.out)["attempts"]
    assert attempt["outcome"] == "waiting"
    assert attempt["refusals"] == {"NodeResourcesFit": {"Insufficient cpu": 3}}


async def test_pod_without_an_object_or_attempt_is_unknown(
    etcd_server: EtcdServer, temporal_server: TemporalServer
) -> None:
    answer = await wharfinger(etcd_server, temporal_server, "explain", "pod", "default/nobody")

    assert answer.code == 1
    assert answer.err == "error: there is no pod default/nobody, and Temporal keeps no attempt of one\n"


async def test_only_pods_can_be_explained(etcd_server: EtcdServer, temporal_server: TemporalServer) -> None:
    answer = await wharfinger(etcd_server, temporal_server, "explain", "node", "node-1")

    assert answer.code == 2
    assert answer.err.count("\n") == 1


async def test_unserved_scheduler_name_is_explained_and_listed(
    etcd_server: EtcdServer, temporal_server: TemporalServer
) -> None:
    name, instance = f"web-{uuid.uuid4().hex[:8]}", keys.instance("common", uuid.uuid4().hex[:8], 1)
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    pod = pod_object(name, uid="uid-1", spec={"schedulerName": "volcano"})
    await store.put(keys.pod("default", name), json.dumps(pod).encode())
    lease = await store.grant_lease(30)
    record = InstanceRecord(state="ready", host="h", pid=1, scheduler_names=("default-scheduler",))
    await store.put(instance, record.to_bytes(), lease=lease.id)
    try:
        told = await wharfinger(etcd_server, temporal_server, "explain", "pod", f"default/{name}")
        pending = await wharfinger(etcd_server, temporal_server, "pending", "-o", "json")
    finally:
        await lease.revoke()
        await store.delete(keys.pod("default", name))
        await store.close()

    sentence = "no live wharfinger instance serves volcano; another scheduler may"
    assert f"Not tried now: {sentence}." in told.out
    [group] = [one for one in json.loads(pending.out) if f"default/{name}" in one["pods"]]
    assert (group["reason"], group["message"]) == ("NotServed", sentence)

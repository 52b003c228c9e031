"""The real agent, real instances, real servers: what is started, adopted, ended, and told."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError

from tests.conftest import EtcdServer, TemporalServer, start_etcd, start_temporal
from tests.integration.agent_process import FIRST, Site
from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.fleet.agent.instances import asking
from wharfinger.fleet.agent.processes import Processes
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.process.children.limits import ProcessLimits
from wharfinger.process.connecting import data_converter, temporal_configuration
from wharfinger.process.names import fleet_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.agent import Agent
from wharfinger.settings import EtcdSettings, LeaseSettings, TemporalSettings

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

SECRET = "well-kept-secret"


@pytest.fixture(scope="module")
def etcd_of_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with start_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(scope="module")
def temporal_of_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    with start_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture
async def site(etcd_of_agents: EtcdServer, temporal_of_agents: TemporalServer, tmp_path: Path) -> AsyncIterator[Site]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_of_agents.url,)))
    configuration = temporal_configuration(TemporalSettings(address=temporal_of_agents.address))
    client = await Client.connect(**configuration, data_converter=data_converter)
    options = (f"--etcd={etcd_of_agents.url}", f"--temporal={temporal_of_agents.address}", "--no-control")
    site = Site(store, client, options, tmp_path, f"host-{uuid.uuid4().hex[:8]}", [])
    # Registrations too: that of an instance which was killed at the end of a test stays until its lease is over.
    for prefix in (keys.GRANTS, keys.EXITS, keys.INSTANCES):
        async for page in store.list(prefix):
            for kv in page.items:
                await store.delete(kv.key)
    try:
        yield site
    finally:
        site.end()
        await store.close()


async def test_instance_lives_drains_and_has_an_exit_record(site: Site, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets" / "own"
    secrets.mkdir(parents=True)
    (secrets / "1").write_text(SECRET)
    agent = site.start(f"--secrets-dir={tmp_path / 'secrets'}", "--allow-env=ALLOWED", "--allow-env=FROM_TEMPLATE")
    await site.until(agent.ready)
    await site.grant(
        secrets=[{"name": "own", "version": "1"}], environment={"FROM_TEMPLATE": "yes", "NOT_ALLOWED": "no"}
    )

    created = await site.create()
    assert created["kind"] == "created"
    record = await site.ready()

    assert record.pid == created["pid"]
    process = Path(f"/proc/{record.pid}")
    environ = (process / "environ").read_bytes().decode()
    assert "ALLOWED=passes" in environ
    assert "FROM_TEMPLATE=yes" in environ
    for hidden in (SECRET, "agents-own-secret", "NOT_ALLOWED"):
        assert hidden not in environ
        assert hidden not in (process / "cmdline").read_text()
    kept = site.lock().with_suffix("") / "secrets" / "own"
    assert kept.read_text() == SECRET
    assert stat.S_IMODE(kept.stat().st_mode) == 0o400
    assert agent.metric("wharfinger_host_instances") == 1
    assert await site.create() == {"kind": "created", "pid": record.pid, "adopted": True}

    await site.drain()
    await site.until(lambda: _ended(site))
    exited = await site.exit()
    assert exited is not None
    assert (exited.how, exited.planned) == ("drained", True)
    assert (await site.create())["kind"] == "not-granted"
    assert site.lock().exists()

    await site.store.delete(keys.grant(*FIRST))
    await site.until(lambda: not site.lock().exists())
    assert not kept.exists()
    assert SECRET not in agent.said
    assert agent.stop() == 0


async def test_instances_outlive_their_agent_and_the_next_one_adopts_them(site: Site) -> None:
    second = FIRST._replace(slot=1)
    agent = site.start()
    await site.until(agent.ready)
    for instance in (FIRST, second):
        await site.grant(instance)
        assert (await site.create(instance))["kind"] == "created"
    before = await site.ready()

    agent.kill()
    (other,) = {*site.alive()} - {before.pid}
    os.kill(other, signal.SIGKILL)  # while no agent looks
    agent = site.start()
    await site.until(agent.ready)

    assert await site.create() == {"kind": "created", "pid": before.pid, "adopted": True}
    await site.until(lambda: _ended(site, second))
    exited = await site.exit(second)
    assert exited is not None
    assert not exited.planned
    assert exited.detail.startswith("it ended while no agent looked")

    assert agent.stop() == 0
    assert site.alive() == [before.pid]
    agent = site.start()
    await site.until(agent.ready)
    assert (await site.kill())["found"]
    exited = await site.exit()
    assert exited is not None
    assert site.alive() == []


async def _ended(site: Site, instance: tuple[str, int, int] = FIRST) -> bool:
    return (await site.store.get(keys.exited(*instance))).kv is not None


async def test_grant_deleted_without_an_agent_ends_the_process_later(site: Site) -> None:
    agent = site.start()
    await site.until(agent.ready)
    await site.grant()
    await site.create()
    await site.ready()
    (pid,) = site.alive()
    os.kill(pid, signal.SIGSTOP)  # it cannot follow the grant itself
    agent.kill()
    await site.store.delete(keys.grant(*FIRST))
    agent = site.start()

    await site.until(lambda: not site.lock().exists())
    assert site.alive() == []
    assert (await site.create())["kind"] == "not-granted"


async def test_agent_killed_during_create_leaves_at_most_one_process_for_retry(site: Site) -> None:
    agent = site.start()
    await site.until(agent.ready)
    await site.grant()
    creating = asyncio.create_task(site.create(silence=5.0))
    await site.until(lambda: site.lock().exists())
    agent.kill()
    born = site.alive()

    agent = site.start()
    created = await creating

    assert created["kind"] == "created"
    await site.ready()
    assert site.alive() == [created["pid"]]
    assert born in ([], [created["pid"]])


async def test_crash_is_recorded_with_its_last_words_and_not_restarted(site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'the disk is on fire'\nexit 7\n")
    broken.chmod(0o755)
    agent = site.start(f"--install=v2={broken}")
    await site.until(agent.ready)
    await site.grant(version="v2")

    assert (await site.create())["kind"] in ("created", "ended")
    await site.until(lambda: _ended(site))

    exited = await site.exit()
    assert exited is not None
    assert (exited.how, exited.planned) == ("code", False)
    assert exited.detail == "exit code 7: the disk is on fire"
    assert (await site.create())["kind"] == "ended"


async def test_a_second_agent_of_the_name_does_not_start(site: Site) -> None:
    agent = site.start("--lease-ttl=15")  # though it stands still for a while, it keeps its name
    await site.until(agent.ready)

    same_folder = site.start()
    assert same_folder.ended() == 2
    assert "another agent is running there" in same_folder.said

    same_name = site.start(data="elsewhere")
    assert same_name.ended() == 2
    (line,) = [line for line in same_name.said.splitlines() if line.startswith("error:")]
    assert f"host {site.host} has an agent already" in line
    await site.until(agent.ready)


async def test_agent_whose_name_was_taken_over_ends_and_leaves_its_instances(site: Site) -> None:
    agent = site.start()
    await site.until(agent.ready)
    await site.grant()
    created = await site.create()

    other = HostRecord(boot_id="elsewhere", pid=7, time="later")  # as after a lease that was lost
    await site.store.put(keys.host(site.host), other.to_bytes())

    assert await asyncio.to_thread(agent.ended) == 2
    line = agent.said.splitlines()[-1]
    assert f"host {site.host} has an agent already (pid 7 since later)" in line
    assert Path(f"/proc/{created['pid']}").exists()


async def test_an_agent_records_after_how_long_it_gives_hosts_up(site: Site) -> None:
    """`fleet plan` reads both, because it waits as long as the agent that plans."""
    agent = site.start("--host-lost=90", "--lease-ttl=7")
    await site.until(agent.ready)

    kv = (await site.store.get(keys.host(site.host))).kv
    assert kv is not None
    record = HostRecord.model_validate_json(kv.value)
    assert (record.host_lost, record.lease_ttl, record.control) == (90.0, 7.0, False)


async def test_an_agent_may_take_its_instances_along(site: Site) -> None:
    agent = site.start(f"--stop-instances={patient(15):g}")
    await site.until(agent.ready)
    await site.grant()
    await site.create()
    await site.ready()

    assert agent.stop() == 0

    assert site.alive() == []
    exited = await site.exit()
    assert exited is not None
    assert exited.planned


async def test_stuck_instance_is_killed_and_recorded_as_such(
    site: Site, etcd_of_agents: EtcdServer, temporal_of_agents: TemporalServer
) -> None:
    """In this process, for the agent's command line has no option for the pace of probes."""
    settings = AgentSettings(
        host=site.host,
        data_dir=site.data,
        etcd=EtcdSettings(endpoints=(etcd_of_agents.url,)),
        temporal=TemporalSettings(temporal_of_agents.address, "default"),
        lease=LeaseSettings(ttl=2),
        control=False,
        probe_every=0.3,
    )
    stop, runtime = asyncio.Event(), Processes(site.data, ProcessLimits(None))
    async with aiohttp.ClientSession() as session:
        ask, stuck = asking(session, 1.0), asyncio.Event()

        async def forgiving(url: str) -> str:
            """One that is only slow to come up is no matter here."""
            answer = await ask(url)
            return answer if stuck.is_set() else ""

        agent = Agent(settings, ProcessParts(site.store), site.client, runtime=runtime, ask=forgiving)
        running = asyncio.create_task(agent.run(stop))
        await site.grant()
        await site.create()
        await site.ready()
        (pid,) = site.alive()

        os.kill(pid, signal.SIGSTOP)
        stuck.set()
        await site.until(lambda: _ended(site))

        exited = await site.exit()
        assert exited is not None
        assert exited.how == "probe"
        assert exited.detail.startswith("/livez failed 3 times: no answer within 1 s")
        stop.set()
        await running
    await runtime.close()


async def test_agent_with_control_signals_a_fleet(site: Site) -> None:
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    agent = site.start("--control")
    await site.until(agent.ready)

    await site.store.put(keys.fleet(tenant), b"{}")

    handle = site.client.get_workflow_handle(fleet_workflow_id("wharfinger", tenant))

    async def signalled() -> bool:
        try:
            events = [event async for event in handle.fetch_history_events()]
        except RPCError:
            return False
        return any(
            event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
            and event.workflow_execution_signaled_event_attributes.signal_name == "poke"
            for event in events
        )

    await site.until(signalled)
    await handle.terminate()
    await site.store.delete(keys.fleet(tenant))

"""`create_instance` and `kill_instance` on a runtime of virtual processes, and on one of real ones."""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.conftest import free_port
from tests.patience import patient
from tests.scheduling.intercepted import intercepted
from wharfinger.activities.hosts import HostActivities
from wharfinger.etcd import keys
from wharfinger.etcd.store import Read
from wharfinger.fleet.agent.host_exits import HostExits
from wharfinger.fleet.contracts.fleet_records import RevisionRecord, read_value, stored
from wharfinger.fleet.contracts.fleets import Created, CreateInput, Ended, FleetFailure, KillInput, NotGranted
from wharfinger.fleet.effects.fencing import FLEETS
from wharfinger.fleet.model.fleet import Exit, Grant
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.process.children.runtime import Command, InstanceId, Process
from wharfinger.process.parts import ProcessParts
from wharfinger.settings import EtcdSettings, TemporalSettings
from wharfinger.testing.fake_runtime import FakeRuntime
from wharfinger.testing.memory_store import MemoryStore

FIRST = InstanceId("common", 0, 1)
CREATE = CreateInput(tenant="common", slot=0, incarnation=1)
KILL = KillInput(tenant="common", slot=0, incarnation=1, timeout=1.0)


@dataclass
class Host:
    """A host's activities on a store and a runtime of the test's own."""

    store: MemoryStore
    runtime: FakeRuntime
    exits: HostExits
    settings: AgentSettings
    environ: dict[str, str]

    @property
    def activities(self) -> HostActivities:
        return intercepted(
            HostActivities(self.store, self.runtime, self.exits, self.settings, environ=self.environ), FLEETS
        )

    async def grant(self, instance: InstanceId = FIRST, **more: Any) -> None:
        record = Grant(**{"revision": 1, "host": "here", **more})
        await self.store.put(keys.grant(*instance), stored(record))

    async def revision(self, number: int = 1, **template: Any) -> None:
        await self.store.put(keys.revision("common", number), RevisionRecord(template=template).to_bytes())

    async def exit(self, instance: InstanceId = FIRST) -> Exit | None:
        kv = (await self.store.get(keys.exited(*instance))).kv
        return read_value(Exit, kv.value) if kv is not None else None

    @property
    def command(self) -> Command:
        (_, command), *_ = self.runtime.started
        return command

    def option(self, name: str) -> str:
        return next(said.partition("=")[2] for said in self.command.arguments if said.startswith(f"--{name}="))


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    store, runtime = MemoryStore(), FakeRuntime(tmp_path / "instances")
    exits = HostExits(ProcessParts(store, rng=random.Random(1)), runtime, "here")
    settings = AgentSettings(
        host="here",
        data_dir=tmp_path,
        etcd=EtcdSettings(endpoints=("http://etcd:2379",)),
        temporal=TemporalSettings("temporal:7233", "default"),
        worker_options=("--cohorts=off",),
    )
    running = asyncio.create_task(exits.run())
    host = Host(store, runtime, exits, settings, {})
    await host.revision()
    try:
        yield host
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def failing(kind: FleetFailure, *, retried: bool) -> AsyncIterator[None]:
    with pytest.raises(ApplicationError) as caught:
        yield
    assert caught.value.type == kind
    assert caught.value.non_retryable is not retried


async def test_granted_instance_starts_with_its_grant_and_agent_options(host: Host) -> None:
    await host.grant()

    created = await host.activities.create_instance(CREATE)

    assert isinstance(created, Created)
    assert not created.adopted
    arguments = host.command.arguments
    assert arguments[:3] == ("-m", "wharfinger", "worker")
    assert host.option("instance") == "common/0/1"
    assert host.option("instance-revision") == "1"
    assert host.option("instance-lock") == str(host.runtime.lock(FIRST))
    assert host.option("etcd") == "http://etcd:2379"
    assert host.option("temporal") == "temporal:7233"
    assert host.option("lease-ttl") == "10"
    assert host.option("cohorts") == "off"
    assert host.command.environment == {}


@pytest.mark.parametrize(
    "grant", [None, {"want": "drain"}, {"host": "elsewhere"}], ids=["no grant", "drains", "of another host"]
)
async def test_without_a_grant_to_run_here_nothing_is_started(host: Host, grant: dict[str, str] | None) -> None:
    if grant is not None:
        await host.grant(**grant)

    assert isinstance(await host.activities.create_instance(CREATE), NotGranted)
    assert host.runtime.started == []


async def test_instance_drained_before_its_start_is_reported_as_ended(host: Host) -> None:
    await host.grant(want="drain")

    assert isinstance(await host.activities.create_instance(CREATE), NotGranted)

    exited = await host.exit()
    assert exited is not None
    assert (exited.how, exited.planned) == ("never-started", True)


async def test_a_second_create_finds_the_first_process(host: Host) -> None:
    await host.grant()
    activities = host.activities

    first, second = await asyncio.gather(activities.create_instance(CREATE), activities.create_instance(CREATE))

    assert isinstance(first, Created)
    assert second == Created(pid=first.pid, adopted=True)
    assert len(host.runtime.started) == 1


async def test_what_has_an_exit_record_is_not_started_again(host: Host) -> None:
    await host.grant()
    await host.store.put(keys.exited(*FIRST), stored(Exit(how="code")))

    assert isinstance(await host.activities.create_instance(CREATE), Ended)
    assert host.runtime.started == []


async def test_incarnation_that_ended_is_not_restarted_without_an_exit_in_etcd(host: Host) -> None:
    await host.grant()
    await host.activities.create_instance(CREATE)
    host.runtime.end(FIRST, "code", 1)

    assert isinstance(await host.activities.create_instance(CREATE), Ended)
    assert len(host.runtime.started) == 1


async def test_end_that_is_not_recorded_yet_is_an_end(host: Host) -> None:
    await host.grant()
    host.runtime = FakeRuntime(host.runtime.root / "other")
    host.exits = HostExits(ProcessParts(host.store, rng=random.Random(1)), host.runtime, "here")
    await host.runtime.start(FIRST, Command(Path("/bin/instance"), (), {}))
    host.runtime.end(FIRST, "code", 1)

    assert isinstance(await host.activities.create_instance(CREATE), Ended)


async def test_a_kill_ends_the_process_and_leaves_an_exit_record(host: Host) -> None:
    await host.grant()
    await host.activities.create_instance(CREATE)

    killed = await host.activities.kill_instance(KILL)

    assert killed.found
    exited = await host.exit()
    assert exited is not None
    assert (exited.how, exited.planned) == ("code", False)


async def test_kill_without_timeout_is_sigkill_and_planned_under_a_drain_grant(host: Host) -> None:
    await host.grant()
    await host.activities.create_instance(CREATE)
    await host.grant(want="drain")

    await host.activities.kill_instance(KILL.model_copy(update={"timeout": 0.0}))

    exited = await host.exit()
    assert exited is not None
    assert (exited.how, exited.detail, exited.planned) == ("signal", "SIGKILL", True)


async def test_a_stubborn_process_is_killed(host: Host) -> None:
    await host.grant()
    await host.activities.create_instance(CREATE)
    host.runtime.stubborn.add(FIRST)

    assert (await host.activities.kill_instance(KILL)).found
    assert host.runtime.find(FIRST) is None


async def test_a_create_that_comes_after_its_kill_starts_nothing(host: Host) -> None:
    await host.grant()

    killed = await host.activities.kill_instance(KILL)

    assert not killed.found
    exited = await host.exit()
    assert exited is not None
    assert exited.how == "never-started"
    assert isinstance(await host.activities.create_instance(CREATE), Ended)
    assert host.runtime.started == []


async def test_a_kill_after_the_grant_was_deleted_writes_no_exit(host: Host) -> None:
    await host.grant()
    await host.activities.create_instance(CREATE)
    await host.store.delete(keys.grant(*FIRST))

    assert (await host.activities.kill_instance(KILL)).found
    assert await host.exit() is None
    assert isinstance(await host.activities.create_instance(CREATE), NotGranted)


async def test_a_kill_waits_for_the_create_that_runs(host: Host) -> None:
    await host.grant()
    activities = host.activities

    created, killed = await asyncio.gather(activities.create_instance(CREATE), activities.kill_instance(KILL))

    assert isinstance(created, Created)
    assert killed.found
    assert host.runtime.running() == []


@pytest.mark.parametrize("exited", [False, True], ids=["its grant is gone", "it has an exit record"])
async def test_a_create_looks_again_right_before_the_fork(host: Host, exited: bool) -> None:
    class Meanwhile(MemoryStore):
        async def get(self, key: str, *, revision: int = 0) -> Read:
            if key.startswith(keys.REVISIONS):
                if exited:
                    await self.put(keys.exited(*FIRST), stored(Exit(how="never-started")))
                else:
                    await self.delete(keys.grant(*FIRST))
            return await super().get(key, revision=revision)

    host.store = Meanwhile()
    await host.revision()
    await host.grant()

    outcome = await host.activities.create_instance(CREATE)

    assert isinstance(outcome, Ended if exited else NotGranted)
    assert host.runtime.started == []


async def test_a_start_is_left_alone_when_it_is_the_agent_that_leaves(host: Host) -> None:
    await host.grant()
    environment = ActivityEnvironment()
    creating = asyncio.ensure_future(environment.run(host.activities.create_instance, CREATE))

    def leave(_: InstanceId) -> None:
        environment.worker_shutdown()
        environment.cancel()

    host.runtime.before_start = leave

    with pytest.raises(asyncio.CancelledError):
        await creating

    assert len(host.runtime.running()) == 1


async def test_a_grant_that_vanishes_during_the_fork_undoes_it(host: Host) -> None:
    await host.grant()
    store = host.store
    vanishing: list[asyncio.Task[bool]] = []
    host.runtime.before_start = lambda _: vanishing.append(asyncio.ensure_future(store.delete(keys.grant(*FIRST))))

    assert isinstance(await host.activities.create_instance(CREATE), NotGranted)
    assert len(host.runtime.started) == 1
    assert host.runtime.running() == []


async def test_a_create_that_is_cancelled_leaves_no_process(host: Host) -> None:
    await host.grant()
    creating = asyncio.ensure_future(host.activities.create_instance(CREATE))
    host.runtime.before_start = lambda _: creating.cancel()

    with pytest.raises(asyncio.CancelledError):
        await creating

    assert len(host.runtime.started) == 1
    assert host.runtime.running() == []


@pytest.mark.parametrize("moment", ["the fork", "the end"])
async def test_a_create_that_is_cancelled_twice_leaves_no_process_either(host: Host, moment: str) -> None:
    """The second time while its start is undone: the fork goes on, or the process is being ended."""
    reached, passed = asyncio.Event(), asyncio.Event()

    async def pause(at: str) -> None:
        if at == moment:
            reached.set()
            await passed.wait()

    class Slow(FakeRuntime):
        async def start(self, instance: InstanceId, command: Command) -> Process:
            creating.cancel()
            await pause("the fork")
            return await super().start(instance, command)

        async def kill(self, instance: InstanceId) -> None:
            await pause("the end")
            await super().kill(instance)

    host.runtime = Slow(host.runtime.root)
    await host.grant()
    creating = asyncio.ensure_future(host.activities.create_instance(CREATE))

    async with asyncio.timeout(patient(20)):
        await reached.wait()
        for _ in range(2):
            creating.cancel()
            await asyncio.sleep(0)
        assert not creating.done()
        passed.set()
        with pytest.raises(asyncio.CancelledError):
            await creating

    assert len(host.runtime.started) == 1
    assert host.runtime.running() == []


async def test_a_host_takes_no_more_than_it_has_room_for(host: Host) -> None:
    host.settings = replace(host.settings, capacity=1)
    await host.grant()
    await host.grant(InstanceId("common", 1, 1))
    activities = host.activities
    await activities.create_instance(CREATE)

    async with failing(FleetFailure.NO_ROOM, retried=True):
        await activities.create_instance(CreateInput(tenant="common", slot=1, incarnation=1))


async def test_few_are_started_at_a_time(host: Host) -> None:
    host.settings = replace(host.settings, concurrent_creates=2)
    requests = [CreateInput(tenant="common", slot=slot, incarnation=1) for slot in range(5)]
    for request in requests:
        await host.grant(InstanceId("common", request.slot, 1))
    activities = host.activities

    outcomes = await asyncio.gather(*map(activities.create_instance, requests), return_exceptions=True)

    refused = [outcome for outcome in outcomes if isinstance(outcome, ApplicationError)]
    assert {error.type for error in refused} == {FleetFailure.NO_ROOM}
    assert len(host.runtime.started) == 5 - len(refused) == 2


async def test_a_version_that_is_not_installed_is_not_tried_again(host: Host) -> None:
    await host.grant(revision=2)
    await host.revision(2, version="v2")

    async with failing(FleetFailure.UNKNOWN_VERSION, retried=False):
        await host.activities.create_instance(CREATE)

    host.settings = replace(host.settings, installs=(("v2", Path("/opt/v2/wharfinger")),))
    await host.activities.create_instance(CREATE)
    assert host.command.executable == Path("/opt/v2/wharfinger")
    assert host.command.arguments[0] == "worker"


async def test_an_earlier_release_gets_no_option_that_it_does_not_know(host: Host, tmp_path: Path) -> None:
    """A password over plain http, which it does not check, is accepted by a variable."""
    etcd = EtcdSettings(user="worker", password_file=tmp_path / "worker", allow_insecure=True)
    host.settings = replace(host.settings, etcd=etcd, installs=(("v0", Path("/opt/v0/wharfinger")),))
    await host.grant(revision=2)
    await host.revision(2, version="v0")

    await host.activities.create_instance(CREATE)

    assert not [said for said in host.command.arguments if "insecure" in said]
    assert host.command.environment["WHARFINGER_ALLOW_INSECURE_ETCD"] == "true"


async def test_an_executable_that_cannot_be_run_is_not_tried_again(host: Host) -> None:
    host.settings = replace(host.settings, installs=(("v2", Path("/opt/v2")),))
    host.runtime.broken.add(Path("/opt/v2"))
    await host.grant(revision=2)
    await host.revision(2, version="v2")

    async with failing(FleetFailure.CANNOT_START, retried=False):
        await host.activities.create_instance(CREATE)


def secret(root: Path, name: str, version: str, value: str) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / version).write_text(value)


async def test_secrets_reach_the_instance_as_files_only(host: Host, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    values = {"etcd-password": "pass-word", "etcd-ca": "authority", "etcd-cert": "cert", "etcd-key": "key", "own": "x1"}
    for name, value in values.items():
        secret(secrets, name, "3", f"secret-{value}")
    host.settings = replace(host.settings, secrets_dir=secrets, etcd=EtcdSettings(user="scheduler", protocol="grpc"))
    await host.grant(revision=2)
    await host.revision(2, secrets=[{"name": name, "version": "3"} for name in values])

    await host.activities.create_instance(CREATE)

    folder = host.runtime.folder(FIRST) / "secrets"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        name: f"secret-{value}" for name, value in values.items()
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o400}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert host.option("etcd-user") == "scheduler"
    assert host.option("etcd-protocol") == "grpc"
    assert host.option("etcd-password-file") == str(folder / "etcd-password")
    assert host.option("etcd-ca") == str(folder / "etcd-ca")
    assert host.option("etcd-cert") == str(folder / "etcd-cert")
    assert host.option("etcd-key") == str(folder / "etcd-key")
    assert "secret-" not in repr(host.command)


async def test_instances_log_in_as_a_user_of_their_own(host: Host, tmp_path: Path) -> None:
    """Never with the agent's credential, which may end and replace them."""
    own = EtcdSettings(user="agent", password_file=tmp_path / "agent")
    of_instances = replace(own, user="worker", password_file=tmp_path / "worker")
    host.settings = replace(host.settings, etcd=own, instance_etcd=of_instances)
    await host.grant()

    await host.activities.create_instance(CREATE)

    assert (host.option("etcd-user"), host.option("etcd-password-file")) == ("worker", str(tmp_path / "worker"))
    assert str(tmp_path / "agent") not in repr(host.command)


@pytest.mark.parametrize(("name", "version"), [("own", "4"), ("..", "3"), ("own", "../own/3"), ("own", "")])
async def test_a_secret_that_is_not_there_is_not_tried_again(
    host: Host, tmp_path: Path, name: str, version: str
) -> None:
    secret(tmp_path / "secrets", "own", "3", "hidden")
    host.settings = replace(host.settings, secrets_dir=tmp_path / "secrets")
    await host.grant(revision=2)
    await host.revision(2, secrets=[{"name": name, "version": version}])

    with pytest.raises(ApplicationError) as caught:
        await host.activities.create_instance(CREATE)

    assert caught.value.non_retryable
    assert caught.value.type in (FleetFailure.SECRET_MISSING, FleetFailure.CANNOT_START)
    assert "hidden" not in str(caught.value)
    assert host.runtime.started == []


async def test_a_second_try_replaces_the_files_of_the_first(host: Host, tmp_path: Path) -> None:
    secret(tmp_path / "secrets", "own", "3", "value")
    host.settings = replace(host.settings, secrets_dir=tmp_path / "secrets")
    await host.grant(revision=2)
    await host.revision(2, secrets=[{"name": "own", "version": "3"}], version="v2")
    for _ in range(2):
        async with failing(FleetFailure.UNKNOWN_VERSION, retried=False):
            await host.activities.create_instance(CREATE)

    await host.revision(2, secrets=[{"name": "own", "version": "3"}])
    host.runtime.broken.add(Path("/nothing"))
    await host.activities.create_instance(CREATE)

    assert (host.runtime.folder(FIRST) / "secrets" / "own").read_text() == "value"


async def test_only_allowed_variables_pass(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.settings = replace(host.settings, allow_env=frozenset({"PROXY", "REGION"}))
    host.environ = {"PROXY": "agent's", "REGION": "agent's", "AWS_SECRET": "hidden"}
    await host.grant(revision=2)
    await host.revision(2, environment={"PROXY": "template's", "LD_PRELOAD": "evil"})

    await host.activities.create_instance(CREATE)

    assert host.command.environment == {"PROXY": "template's", "REGION": "agent's"}
    assert "LD_PRELOAD" in caplog.text
    assert "evil" not in caplog.text


async def test_a_configuration_lies_in_the_instances_folder(host: Host, tmp_path: Path) -> None:
    written = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    await host.grant(revision=2)
    await host.revision(2, schedulerConfiguration=written)

    await host.activities.create_instance(CREATE)

    config = Path(host.option("config"))
    assert config.parent == host.runtime.folder(FIRST)
    assert "KubeSchedulerConfiguration" in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o400


async def test_the_agents_configuration_is_copied_for_those_that_have_none(host: Host, tmp_path: Path) -> None:
    default = tmp_path / "default.yaml"
    default.write_text("kind: KubeSchedulerConfiguration\n")
    host.settings = replace(host.settings, config=default)
    await host.grant()

    await host.activities.create_instance(CREATE)

    config = Path(host.option("config"))
    assert config != default
    assert config.read_text() == default.read_text()


async def test_limits_of_the_template_are_the_processs(host: Host) -> None:
    await host.grant(revision=2)
    await host.revision(2, resources={"memory": "1Gi", "cpu": "500m"})

    await host.activities.create_instance(CREATE)

    assert (host.command.memory, host.command.cpu) == (1024**3, 500)


async def test_configured_health_port_is_given_to_one_instance(host: Host) -> None:
    host.settings = replace(host.settings, instance_health_port=(port := free_port()))
    other = InstanceId("other", 0, 1)
    await host.grant()
    await host.grant(other)
    await host.store.put(keys.revision("other", 1), RevisionRecord(template={}).to_bytes())
    activities = host.activities

    await activities.create_instance(CREATE)
    await activities.create_instance(CreateInput(tenant="other", slot=0, incarnation=1))

    ports = [said for _, command in host.runtime.started for said in command.arguments if "health-port" in said]
    assert ports == [f"--health-port={port}", "--health-port=0"]


async def test_a_revision_that_is_not_there_is_tried_again(host: Host) -> None:
    await host.grant(revision=9)

    async with failing(FleetFailure.FLEET_ERROR, retried=True):
        await host.activities.create_instance(CREATE)


async def test_our_own_interpreter_finds_us_as_we_were_found(host: Host) -> None:
    host.environ = {"PYTHONPATH": os.defpath, "PATH": "/bin"}
    await host.grant()

    await host.activities.create_instance(CREATE)

    assert host.command.environment == {"PYTHONPATH": os.defpath}

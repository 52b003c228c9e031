"""etcd, Temporal and an agent as one tree of processes on one data folder; the workers are the common fleet's.

::

    supervisor ─► etcd, Temporal
              ├─► agent (`dev.agent_part`) ─► instances of the common fleet (`dev.common_fleet` looks at them)
              ├─► an API server, whose pods they schedule, where one is wanted (`dev.kubernetes_part`)
              ├─► a hub and members, where they are wanted (`dev.placing`)
              └─► the web page (`dev.page_part`)

Used by `wharfinger dev`, by the demo, by benchmarks and tests: all of them run the same thing. A program that
opens a tree must do so on the main thread (children die with the thread that started them).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.dev import agent_part, common_fleet, etcd_users, kubernetes_part, page_part, ports, processes
from wharfinger.dev.agent_part import AgentPart
from wharfinger.dev.chosen_servers import chosen
from wharfinger.dev.common_fleet import InstanceFollower
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.folder import DataFolder, write_atomically
from wharfinger.dev.kubernetes_part import KubernetesPart
from wharfinger.dev.page_part import PagePart
from wharfinger.dev.placing import PlacingPart
from wharfinger.dev.ready_file import ready_file
from wharfinger.dev.settings import DevSettings, Servers
from wharfinger.dev.supervisor import ChildSpec, Say, Supervisor, clean_environment
from wharfinger.dev.temporal import ENVIRONMENT, TemporalServer, forward
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_users import ADMIN, EtcdRole
from wharfinger.process.children.lives import life
from wharfinger.process.installation_record import in_its_format
from wharfinger.process.names import COMMON
from wharfinger.programs.etcd_roles import AGENT, PAGE, WORKER

START_WITHIN = 55.0
"""Seconds for everything to be up; the ready file is promised within a minute."""
AT_LEAST = 15.0
"""Seconds that each process gets, however long those before it took, and as many times more as others start beside it:
a busy machine is late, and nothing is wrong."""
TRIES = 3
"""Starts of a process before it is up: another one may take its port between our look and its start."""
LOOK_AFTER = 10.0
"""Seconds between two looks at how long the logs are, and at processes that were left to us and have ended."""


@dataclass(slots=True)
class DevTree:
    """A running tree."""

    settings: DevSettings
    folder: DataFolder
    supervisor: Supervisor
    etcd: EtcdServer
    temporal: TemporalServer
    progressed: Callable[[DevTree], None] = lambda _: None
    """Called until the first time that all is up, whenever a process was started or came up."""
    started: bool = False
    settled: set[str] = field(default_factory=set)
    """Servers that were up: from then on they keep their ports, whatever happens."""
    placing: PlacingPart | None = None
    """The hub, and what it places on."""
    kubernetes: KubernetesPart | None = None
    agent: AgentPart = field(init=False)
    page: PagePart | None = field(init=False)
    instances: InstanceFollower = field(init=False)
    """The workers: those of the common fleet, in slot order."""
    store: EtcdStore | None = None
    stopping: bool = False
    """Whether it is being stopped: from then on no ready file says that all is up."""
    _following: asyncio.Task[None] | None = None
    _told: Mapping[str, Any] | None = None
    _forwarder: asyncio.Server | None = None

    def __post_init__(self) -> None:
        self.agent = AgentPart(self.settings, self.folder, self._connection_of_agent)
        self.page = (
            PagePart(
                self.folder,
                lambda: self.connection(PAGE),
                lambda: self.temporal.ui,
                self.settings.page_port,
                self.settings.bind_address,
            )
            if self.settings.page
            else None
        )
        self.instances = InstanceFollower(self.changed)

    @property
    def page_url(self) -> str:
        """Base URL of the web page; empty where there is none."""
        return self.page.url if self.page is not None else ""

    def changed(self) -> None:
        """A process was started, came up or ended: keep the record of processes, and tell when all is up."""
        if not (self.started or self.stopping):
            self.progressed(self)
        try:
            self._record()
        except OSError as error:  # a full disk, a folder taken away: no reason to stop looking after processes
            self.supervisor.say(f"cannot be written: {error}")

    @property
    def up(self) -> bool:
        """Whether everything that is wanted runs and is ready."""
        return all(child.up for child in self.supervisor.children) and self.instances.complete

    def _record(self) -> None:
        lives = (life(child.pid) for child in self.supervisor.children)
        self.folder.remember_processes(known for known in lives if known is not None)
        if self.started and not self.stopping and self.up and (ready := ready_file(self)) != self._told:
            self._told = ready
            if self.settings.ready_file is not None:
                write_atomically(self.settings.ready_file, ready)

    async def start(self) -> None:
        """Start everything: the servers beside each other, then all that needs them beside each other.

        Raises `ServerError` naming what did not come up; several at once are an `ExceptionGroup`.
        """
        deadline = time.monotonic() + START_WITHIN
        self.folder.remember_format(self.settings.format)
        self.folder.remember_kubernetes(bool(self.settings.kubernetes))
        async with asyncio.TaskGroup() as servers:
            servers.create_task(self._start_cluster(deadline))
            servers.create_task(self._start_temporal(deadline))
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._start_agent(deadline))
            if self.placing is not None:
                parts.create_task(self._start_placing(self.placing, deadline))
            if self.page is not None:
                parts.create_task(self._start_page(self.page, deadline))
        await self._all_up(deadline)
        self.started = True
        self.changed()

    async def _start_cluster(self, deadline: float) -> None:
        """etcd, what must be in it, and the API server that keeps its objects there."""
        if self.etcd.tls_port:
            etcd_users.prepare_certificate(self.etcd)
        await self.supervisor.start(self._etcd_spec(), within=_left(deadline), tries=TRIES)
        self.settled.add("etcd")
        self.folder.remember_ports({"etcd": self.etcd.port})
        await etcd_users.prepare(self.etcd)
        if self.settings.etcd_open:
            self.supervisor.say(etcd_users.WARNING)
        self.store = await EtcdStore.connect(self.etcd.settings(ADMIN))
        await in_its_format(self.store, self.settings.format)  # else its workers would refuse to start
        await kubernetes_part.check_installation(self.store, self.folder, kubernetes=bool(self.settings.kubernetes))
        if self.kubernetes is not None:
            await self.supervisor.start(self.kubernetes.spec(), within=_left(deadline), tries=TRIES)
            self.kubernetes.came_up(without_kubelets=self.settings.eviction == "immediate")
        if not await common_fleet.want(self.store, self.settings.workers):
            self.supervisor.say(
                f"The fleet {COMMON} is being deleted: there are no workers until you start again when it is gone, or "
                "put one by `wharfinger fleet apply`"
            )
        self._following = asyncio.create_task(self.instances.follow(self.store))

    async def _start_temporal(self, deadline: float) -> None:
        """Temporal, unless it runs elsewhere."""
        if not self.settings.temporal_address:
            await self.supervisor.start(self._temporal_spec(), within=_left(deadline), tries=TRIES)
            await self.temporal.keep_histories(self.settings.retention)
            if self.temporal.listening != self.temporal.host:
                self._forwarder = await forward(self.temporal.host, self.temporal.port, self.temporal.listening)
        self.settled.add("temporal")
        self.folder.remember_ports({"temporal": self.temporal.port, "ui": self.temporal.ui_port or 0})

    async def _start_agent(self, deadline: float) -> None:
        kubeconfig = self.kubernetes.kubeconfig if self.kubernetes is not None else None
        await self._start_beside([self.agent.spec(kubeconfig)], deadline)
        self.agent.came_up()

    async def _start_page(self, page: PagePart, deadline: float) -> None:
        await self._start_beside([page.spec()], deadline)
        page.came_up()

    async def _start_placing(self, placing: PlacingPart, deadline: float) -> None:
        """The hub, and beside it the members: their etcds first, then what works on them."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._start_beside([placing.hub_spec()], deadline))
            parts.create_task(self._start_members(placing, deadline))

    async def _start_members(self, placing: PlacingPart, deadline: float) -> None:
        await self._start_beside(placing.member_specs(), deadline)
        if placing.members and self.store is not None:
            await placing.prepare_users()
            placing.write_connections()
            await placing.join(self.store)
            await self._start_beside([placing.agents_spec(), *placing.worker_specs()], deadline)

    async def _start_beside(self, specs: Sequence[ChildSpec], deadline: float) -> None:
        """Start processes at the same time, beside those that others start."""
        left = _left(deadline, self._beside)
        async with asyncio.TaskGroup() as parts:  # when one fails, the others are not waited for, and none is started
            for spec in specs:
                parts.create_task(self.supervisor.start(spec, within=left, tries=TRIES))

    @property
    def _beside(self) -> int:
        """How many processes of this program may be starting at the same time, each with a second or two of work."""
        return 2 + (self.page is not None) + (self.placing.processes if self.placing is not None else 0)

    async def _all_up(self, deadline: float) -> None:
        """Wait for the workers; a fleet that does not come up is reported, and can be repaired while the rest runs."""
        while not self.up:
            if time.monotonic() > deadline:
                slots = {one.slot for one in self.instances.ready} ^ set(range(self.instances.wanted))
                which = ", ".join(map(str, sorted(slots)))
                self.supervisor.say(
                    f"The fleet is not complete after {START_WITHIN:.0f} s (slots {which}): `wharfinger fleet status "
                    f"{COMMON}` shows what it waits for, logs are in {self.folder.agent / 'instances'}"
                )
                return
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop everything, the agent with its instances first: at most 17 seconds, then whatever is left is killed."""
        self.stopping = True
        if self.settings.ready_file is not None:
            with suppress(OSError):  # its folder was taken away: no reason to leave processes running
                self.settings.ready_file.unlink(missing_ok=True)
        if self._forwarder is not None:
            self._forwarder.close()
        servers = {child.spec.name: child for child in self.supervisor.children}
        members = self.placing.names if self.placing is not None else []
        workers = [f"worker-{name}" for name in members]
        if self.kubernetes is not None:
            await self.kubernetes.stop()
        last = ["temporal", kubernetes_part.NAME, *members]
        for names in ([agent_part.NAME, "hub", "member", page_part.NAME, *workers], last, ["etcd"]):
            await self.supervisor.stop([servers[name] for name in names if name in servers])
            name = names[0]
            if name == agent_part.NAME:
                if self._following is not None:
                    self._following.cancel()
                    await asyncio.gather(self._following, return_exceptions=True)
                if self.store is not None:
                    await self.store.close()

    def kill(self) -> None:
        """Do not wait for anything any more: what runs is killed, and `stop` ends at once."""
        self.supervisor.kill()

    async def look_after(self) -> None:
        """Keep logs from growing without end, and workers whose agent died from staying as zombies; until cancelled."""
        while True:
            await asyncio.sleep(LOOK_AFTER)
            await asyncio.to_thread(self.folder.bound_logs)
            processes.reap(child.pid for tree in _RUNNING for child in tree.supervisor.children)

    def _etcd_spec(self) -> ChildSpec:
        async def is_up() -> bool:
            return await asyncio.to_thread(self.etcd.is_up)

        def command() -> list[str]:
            if "etcd" not in self.settled and self.settings.etcd_port is None:
                self.etcd = replace(self.etcd, port=self._free(self.etcd.port))
            if "etcd" not in self.settled and self.etcd.tls_port:
                self.etcd = replace(self.etcd, tls_port=ports.preferred((self.etcd.tls_port,)))
            return self.etcd.command()

        return ChildSpec("etcd", command, clean_environment(), self.folder.log("etcd"), is_up, 2.0)

    def _temporal_spec(self) -> ChildSpec:
        async def is_up() -> bool:
            return await self.temporal.is_up()

        def command() -> list[str]:
            if "temporal" not in self.settled and self.settings.temporal_port is None:
                self.temporal = replace(self.temporal, port=self._free(self.temporal.port))
            if "temporal" not in self.settled and self.settings.ui_port is None:
                self.temporal = replace(self.temporal, ui_port=self._free(self.temporal.ui_port))
            return self.temporal.command()

        environment = ENVIRONMENT | clean_environment()
        return ChildSpec("temporal", command, environment, self.folder.log("temporal"), is_up, 2.5)

    def _free(self, wanted: int | None) -> int:
        """The port wanted unless another process took it since it was chosen, or just before us."""
        return ports.preferred((wanted,), self.settings.bind_address)

    def connection(self, role: EtcdRole) -> list[str]:
        """The options by which processes find this tree's servers, and log in to etcd with this role."""
        return [
            f"--etcd={self.etcd.url}",
            *self.etcd.login(role),
            f"--temporal={self.temporal.near}",
            f"--temporal-namespace={self.temporal.namespace}",
            f"--cluster={self.settings.cluster}",
        ]

    def _connection_of_agent(self) -> list[str]:
        """Its own, and what its instances log in with."""
        return [*self.connection(AGENT), *self.etcd.login(WORKER, "instance-")]


@asynccontextmanager
async def running(
    settings: DevSettings,
    servers: Servers,
    *,
    say: Say,
    progressed: Callable[[DevTree], None] = lambda _: None,
) -> AsyncIterator[DevTree]:
    """A tree that is up; stopped, orphans included, at the end of the block.

    `progressed` is called while it starts, whenever a process was started or came up.

    Raises `UsageError` for an address that nothing can listen on, `InstallationMismatch` for a folder whose cluster has
    another format, and `ServerError`: the folder is in use, a named port is taken, something does not come up.
    """
    ports.check_address(settings.bind_address)
    folder = DataFolder(settings.data_dir.resolve())
    with folder.locked():
        processes.become_subreaper()
        survivors = [*folder.processes(), *folder.instances()]
        for survivor in processes.end_survivors(survivors):
            say(f"ended process {survivor.pid}, left over from an earlier life on this folder")
        tree = _compose(settings, folder, servers, say)
        tree.progressed = progressed
        _RUNNING.append(tree)
        looking = asyncio.create_task(tree.look_after())
        try:
            try:
                await tree.start()
            except ExceptionGroup as errors:  # parts that start together: the first failure says what to do
                raise _first(errors) from None
            yield tree
        finally:
            looking.cancel()
            try:
                await tree.stop()
            finally:
                _RUNNING.remove(tree)
            if not _RUNNING and (orphans := processes.end_orphans()):
                say(f"ended {orphans} orphaned process{'es' if orphans > 1 else ''}")


_RUNNING: list[DevTree] = []
"""The trees of this process, which inherits the orphans of all: a child that one does not know may be another's."""


def _first(error: Exception) -> Exception:
    """The first failure of parts that started together, some of them with parts of their own."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _compose(settings: DevSettings, folder: DataFolder, servers: Servers, say: Say) -> DevTree:
    etcd, temporal = chosen(settings, folder, servers)
    supervisor = Supervisor(say=say)
    tree = DevTree(settings, folder, supervisor, etcd=etcd, temporal=temporal)
    supervisor.changed = tree.changed
    if settings.kubernetes:
        program = servers.kube_apiserver or kubernetes_part.executable()
        tree.kubernetes = KubernetesPart.of(folder, program, lambda: tree.etcd, settings.kubernetes_port)
    if settings.hub or settings.members:
        tree.placing = PlacingPart(
            folder,
            tree.connection,
            servers.etcd,
            settings.members,
            settings.bind_address,
            guarded=not settings.etcd_open,
        )
    return tree


def _left(deadline: float, beside: int = 1) -> float:
    """Seconds that a process may take that starts now. `beside`: how many share the machine, itself included."""
    return max(AT_LEAST * beside, deadline - time.monotonic())

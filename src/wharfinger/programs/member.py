"""The process of members' agents: one agent for each file of its folder.

It runs on the hub's side of trust: it alone reaches the members, and no credential of theirs leaves its folder. A
second process on the same members stands by.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from wharfinger.errors import ConfigurationError, UsageError
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Store
from wharfinger.placement.member.folder import FolderOfMembers, MemberConnection, members_in, read_folder
from wharfinger.placement.member.member_agent import MemberReporter
from wharfinger.placement.member.presence import Presence
from wharfinger.placement.member.works import Works
from wharfinger.process.opening import Opened, serve
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import first_to_end
from wharfinger.programs.process_settings import MemberAgentSettings
from wharfinger.serving.content import OK
from wharfinger.serving.options import ServingOptions

log = logging.getLogger(__name__)

AGAIN = 10.0
"""Seconds between two looks at the folder."""


class MemberAgents:
    """All agents of one process, on a store of the hub that the caller opened and closes."""

    def __init__(self, settings: MemberAgentSettings, process: ProcessParts) -> None:
        self._settings = settings
        self._process = process
        self._works = Works(process.store, rng=process.rng)
        self._presence = Presence(process.store, settings.lease, clock=process.clock, rng=process.rng)
        self._broken: Mapping[str, Sequence[str]] = {}
        """What was said of broken files."""
        self._running: dict[str, tuple[MemberConnection, MemberReporter, asyncio.Task[None]]] = {}

    def checks(self) -> Mapping[str, str]:
        """What readiness depends on: that the folder was read. A member that is away makes no process unready."""
        return {"members": OK if self._running else "the folder has no members"}

    def refresh_metrics(self) -> None:
        """Bring the gauges up to date."""
        online = sum(agent.state == OK for _, agent, _ in self._running.values())
        self._process.metrics.member_clusters.labels("true").set(online)
        self._process.metrics.member_clusters.labels("false").set(len(self._running) - online)
        self._process.metrics.ready.set(all(said == OK for said in self.checks().values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set.

        Raises `UsageError`, `InvalidConfiguration` for the folder at the start, and `RevisionWentBack` when the hub's
        etcd was restored from a backup.
        """
        self._take(members_in(self._settings.members_dir))
        following = asyncio.create_task(first_to_end(self._works.run(), self._presence.run()), name="works")
        stopped = asyncio.create_task(stop.wait(), name="stopped")
        try:
            while not stop.is_set():
                await asyncio.wait({following, stopped}, timeout=AGAIN, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()
                self._start_again()
                try:
                    self._take(self._as_far_as_right(read_folder(self._settings.members_dir)))
                except (ConfigurationError, UsageError, OSError) as error:
                    log.warning("members_unreadable effect=as_they_were error=%r", str(error))
        finally:
            tasks = [following, stopped, *(task for _, _, task in self._running.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, connection: MemberConnection) -> None:
        agent = MemberReporter(
            connection,
            self._process,
            partial(_connect, connection),
            lease=self._settings.lease,
            report_every=self._settings.report_every,
            works=self._works,
            presence=self._presence,
        )
        name = connection.name
        self._running[name] = connection, agent, asyncio.create_task(agent.run(), name=f"member {name}")

    def _start_again(self) -> None:
        """An agent runs for ever: one that has ended was hit by something that nobody thought of."""
        for name, (connection, _, task) in list(self._running.items()):
            if task.done():
                why = None if task.cancelled() else task.exception()
                log.error("member_agent_ended effect=started_again member=%s error=%r", name, why)
                self._start(connection)

    def _as_far_as_right(self, found: FolderOfMembers) -> Mapping[str, MemberConnection]:
        """The members with what their files say now; one whose file is broken stays as it was, if it was there."""
        for name, told in found.problems.items():
            if self._broken.get(name) != told:
                kept = "as_it_was" if name in self._running else "not_served"
                log.warning("member_unreadable effect=%s member=%s error=%r", kept, name, "; ".join(told))
        self._broken = found.problems
        kept_as_they_were = {name: self._running[name][0] for name in found.problems if name in self._running}
        return {**found.members, **kept_as_they_were}

    def _take(self, members: Mapping[str, MemberConnection]) -> None:
        """Run an agent for each of these, and for no others."""
        for name in [name for name, (known, _, _) in self._running.items() if members.get(name) != known]:
            self._running.pop(name)[2].cancel()
        for name, connection in members.items():
            if name not in self._running:
                self._start(connection)


async def _connect(connection: MemberConnection) -> Store:
    return store_of(await EtcdStore.connect(connection.etcd), connection.format)


async def run_members(settings: MemberAgentSettings, serving: ServingOptions) -> int:
    """Run a process of members' agents until a signal stops it; returns its exit code."""
    members_in(settings.members_dir)  # better reported before anything is opened

    async def make(found: Opened) -> MemberAgents:
        return MemberAgents(settings, found.process)

    return await serve(settings.etcd, settings.format, None, serving, make)

"""What a dev tree runs for placements: a hub, member clusters with an etcd each, and the process of their agents.

::

    hub ─── the tree's etcd ─── member agents ─── etcd of member-1 ─── worker of member-1
                                           └───── etcd of member-2 ─── worker of member-2 ...

Each member is a wharfinger of its own, a cluster of that name; all share one Temporal. Members are made known once,
each with two nodes, and are their user's from then on.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from wharfinger.dev import asking, etcd_users, ports
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.supervisor import ChildSpec, clean_environment, python_command
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_users import ADMIN, EtcdRole
from wharfinger.etcd.store import Compare, Put, Store
from wharfinger.objects.documents import documents, merge
from wharfinger.objects.documents.kinds import MEMBER_CLUSTER, NODE, Reference
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.placement_kinds import CLUSTER_GROUP
from wharfinger.placement.contracts import placement_keys
from wharfinger.process.children.ports import free_port
from wharfinger.programs.etcd_roles import APPLIER, HUB, MEMBER, WORKER

STOP_WITHIN = 8.0
"""Seconds that a hub and the agents get to stop."""
REGION = "topology.kubernetes.io/region"
"""A label of each member; two of three share a value."""


NODES = 2
"""Of a new member."""
ALLOCATABLE = {"cpu": "4", "memory": "16Gi", "pods": "110"}
"""Of each of them."""


@dataclass(slots=True)
class PlacingPart:
    """The children, as specifications; ports are chosen when a child starts."""

    folder: DataFolder
    connection: Callable[[EtcdRole], list[str]]
    """The options by which they find the tree's servers, and log in."""
    executable: Path
    """Of etcd."""
    members: int
    host: str
    """Address to listen on."""
    guarded: bool
    """Whether the members' etcds want users."""
    etcds: dict[str, EtcdServer] = field(default_factory=dict)
    """By the member's name."""
    _ports: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Of the members."""
        return [f"member-{number}" for number in range(1, self.members + 1)]

    @property
    def processes(self) -> int:
        """How many processes of this program it has: a hub and, with members, their agents' and a worker of each."""
        return 1 + (1 + self.members if self.members else 0)

    @property
    def _files(self) -> Path:
        return self.folder.root / "members" / "connections"

    def hub_spec(self) -> ChildSpec:
        """The hub."""
        return self._process("hub", "--name=dev", connection=lambda: self.connection(HUB))

    def member_specs(self) -> list[ChildSpec]:
        """The etcd of each member."""
        return [self._etcd(name) for name in self.names]

    def worker_specs(self) -> list[ChildSpec]:
        """The worker of each member; to be started after its etcd."""
        return [self._worker(name) for name in self.names]

    def agents_spec(self) -> ChildSpec:
        """The process of all agents; to be started after the members."""
        options = (f"--members-dir={self._files}", "--report-every=5")
        return self._process("member", *options, connection=lambda: self.connection(MEMBER))

    async def prepare_users(self) -> None:
        """Make the users of the members' etcds, which are up. Raises `ServerError`."""
        await asyncio.gather(*(etcd_users.prepare(etcd) for etcd in self.etcds.values()))

    def write_connections(self) -> None:
        """Say how each member is reached."""
        self._files.mkdir(parents=True, exist_ok=True)
        for old in self._files.glob("*.yaml"):
            old.unlink()
        for name, etcd in self.etcds.items():
            path = self._files / f"{name}.yaml"
            found: dict[str, object] = {"etcd": [etcd.url]}
            if self.guarded:
                login = etcd.settings(APPLIER)
                found |= {"user": login.user, "passwordFile": str(login.password_file)}
                found |= {"allowInsecure": login.allow_insecure}
            path.write_text(json.dumps(found) + "\n", encoding="utf-8")
            path.chmod(0o400)

    async def join(self, store: Store) -> None:
        """Make the members known that are not."""
        for number, name in enumerate(self.names):
            manifest = {
                "apiVersion": f"{CLUSTER_GROUP}/v1",
                "kind": MEMBER_CLUSTER.name,
                "metadata": {"name": name, "labels": {REGION: "east" if number % 3 < 2 else "west"}},
                "spec": {},
            }
            about = Reference(MEMBER_CLUSTER, "", name)
            obj = merge.created(manifest, about, uid=str(uuid4()), now=rfc3339_now())
            key = placement_keys.member_cluster(name)
            answered = await store.txn([Compare(key, "create", 0)], [Put(key, documents.to_json(obj))])
            if answered.succeeded:
                await self._furnish(name)

    async def _furnish(self, name: str) -> None:
        """Give a new member its nodes."""
        member = await EtcdStore.connect(self.etcds[name].settings(ADMIN))
        try:
            for number in range(1, NODES + 1):
                node = f"{name}-node-{number}"
                obj = {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}},
                    "status": {"allocatable": ALLOCATABLE, "conditions": [{"type": "Ready", "status": "True"}]},
                }
                made = merge.created(obj, Reference(NODE, "", node), uid=str(uuid4()), now=rfc3339_now())
                key = keys.node(node)
                await member.txn([Compare(key, "create", 0)], [Put(key, documents.to_json(made))])
        finally:
            await member.close()

    def _etcd(self, name: str) -> ChildSpec:
        data = self.folder.root / "members" / name
        wanted = self.folder.ports().get(name)
        port = wanted or free_port()
        self.etcds[name] = EtcdServer(self.executable, data, port, host=self.host, guarded=self.guarded)

        async def is_up() -> bool:
            return await asyncio.to_thread(self.etcds[name].is_up)

        def command() -> list[str]:
            etcd = self.etcds[name]
            self.etcds[name] = replace(etcd, port=ports.preferred((etcd.port,), self.host))
            self.folder.remember_ports({name: self.etcds[name].port})
            data.parent.mkdir(parents=True, exist_ok=True)
            return self.etcds[name].command()

        return ChildSpec(name, command, clean_environment(), self.folder.log(name), is_up, 2.0)

    def _worker(self, member: str) -> ChildSpec:
        def connection() -> list[str]:
            etcd = self.etcds[member]
            shared = [one for one in self.connection(WORKER) if not one.startswith(("--etcd", "--cluster="))]
            return [f"--etcd={etcd.url}", *etcd.login(WORKER), f"--cluster={member}", *shared]

        options = ("--eviction=immediate", f"--state-dir={self.folder.root / 'members' / f'{member}.worker'}")
        return self._process("worker", *options, name=f"worker-{member}", connection=connection)

    def _process(self, kind: str, *options: str, connection: Callable[[], list[str]], name: str = "") -> ChildSpec:
        """A process of the tree's, named by its kind where nothing else is said."""
        name = name or kind

        async def is_up() -> bool:
            url = f"http://{asking.found_at(self.host)}:{self._ports[name]}/readyz"
            return await asyncio.to_thread(asking.answer, url, within=2.0) is not None

        def command() -> list[str]:
            wanted = (self._ports.get(name, 0), self.folder.ports().get(name, 0), free_port())
            self._ports[name] = ports.preferred(wanted, self.host)
            self.folder.remember_ports({name: self._ports[name]})
            return python_command(
                kind,
                *options,
                *connection(),
                f"--bind-address={self.host}",
                f"--health-port={self._ports[name]}",
                f"--end-with={os.getpid()}",
            )

        return ChildSpec(name, command, clean_environment(), self.folder.log(name), is_up, STOP_WITHIN)

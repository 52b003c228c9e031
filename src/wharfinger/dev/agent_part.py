"""What a dev tree runs for its workers: the agent of its only host, which forks the instances of the common fleet.

The agent's options are those that its instances get: where the servers are, the format, the configuration, ports.
Neighbours: `dev.tree` starts it, `dev.common_fleet` follows the workers, `wharfinger.programs.agent` is the process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wharfinger.dev import asking, ports
from wharfinger.dev.etcd import MAX_TXN_OPS
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.settings import HEALTH_PORT, DevSettings
from wharfinger.dev.supervisor import ChildSpec, clean_environment, python_command
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.children.ports import free_port

NAME = "agent"
"""Of the process, in the ready file and in the table."""
HOST = "dev"
"""The agent's name among the hosts."""
STOP_INSTANCES = 8.0
"""Seconds that instances get to drain when the tree stops."""


@dataclass(slots=True)
class AgentPart:
    """The agent of one tree."""

    settings: DevSettings
    folder: DataFolder
    connection: Callable[[], list[str]]
    """The options by which it finds the tree's servers."""
    port: int = 0
    """Of its health endpoints; 0 = it was not started yet."""

    def spec(self, kubeconfig: Path | None) -> ChildSpec:
        """The process; to be started after the servers.

        `kubeconfig`: of the API server whose pods the workers schedule; None = etcd itself has the pods.
        """

        async def is_up() -> bool:
            host = asking.found_at(self.settings.bind_address)
            return await asyncio.to_thread(asking.answer, f"http://{host}:{self.port}/readyz", within=2.0) is not None

        def command() -> list[str]:
            wanted = (self.port, self.folder.ports().get(NAME, 0), free_port())
            self.port = ports.preferred(wanted, self.settings.bind_address)
            return python_command(
                "agent",
                f"--host={HOST}",
                f"--data-dir={self.folder.agent}",
                *self.connection(),
                f"--bind-address={self.settings.bind_address}",
                f"--health-port={self.port}",
                f"--instance-health-port={self._first_health_port()}",
                f"--lease-ttl={self.settings.lease_ttl:g}",
                *self._config(),
                *self._format(),
                *([f"--kubeconfig={kubeconfig}"] if kubeconfig is not None else []),
                f"--eviction={self.settings.eviction}",
                f"--cohorts={self.settings.cohorts}",
                f"--max-txn-ops={MAX_TXN_OPS}",
                *self.settings.agent_options,
                f"--stop-instances={STOP_INSTANCES:g}",
                f"--end-with={os.getpid()}",
            )

        return ChildSpec(NAME, command, clean_environment(), self.folder.log(NAME), is_up, STOP_INSTANCES + 3.0)

    def came_up(self) -> None:
        """The agent is up for the first time."""
        self.folder.remember_ports({NAME: self.port})

    def _config(self) -> list[str]:
        config = self.settings.config
        return [] if config is None else [f"--config={config.resolve()}"]

    def _format(self) -> list[str]:
        format_ = self.settings.format
        return [] if format_ is ClusterFormat.KUBERNETES else [f"--format={format_}"]

    def _first_health_port(self) -> int:
        """Of slot 0: the named one, else that of the last life, else the usual one."""
        first = self.settings.health_port or self.folder.ports().get("health") or HEALTH_PORT
        self.folder.remember_ports({"health": first})
        return first

"""The Temporal dev server as an embedded server: its command line, its settings, and whether it is up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from wharfinger.dev import asking
from wharfinger.errors import ServerError
from wharfinger.process.names import SEARCH_ATTRIBUTES

DYNAMIC_CONFIGURATION: Mapping[str, object] = {
    # bind goes straight back to the worker that placed
    "system.enableActivityEagerExecution": True,
    # a retry's timer fires when it is due, not up to a second later
    "history.timerProcessorMaxTimeShift": "50ms",
    # our attributes are registered as the server starts, so no start has to read them again
    "system.forceSearchAttributesCacheRefreshOnRead": False,
    # one node: partitions only forward to each other
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
    # rates meant for shared clusters; here the machine is the limit
    "frontend.rps": 20000,
    "frontend.namespaceRPS": 20000,
    "frontend.namespaceRPS.visibility": 1000,
    "history.rps": 20000,
    "matching.rps": 20000,
    "frontend.persistenceMaxQPS": 50000,
    "history.persistenceMaxQPS": 100000,
    "matching.persistenceMaxQPS": 50000,
}

LOOPBACK = "127.0.0.1"
ANYWHERE = (LOOPBACK, "0.0.0.0")  # noqa: S104 - compared, and listened on only when asked for
"""Where the dev server works: on any other address its frontend does not find its history on loopback."""

PRAGMAS = ("journal_mode=wal", "synchronous=normal", "wal_autocheckpoint=8000")
"""Of the SQLite file. Without the first two, every transaction waits for the disk twice: half the throughput. The
third, in pages, gives another tenth: the one connection stands still while the log is carried over."""

ENVIRONMENT = {"GOGC": "300"}
"""Where the user's own has no other value. The server makes much garbage and keeps little: by Go's default it collects
every two seconds under load. So it takes about a twentieth less processor time, and up to 100 MiB more memory."""


@dataclass(frozen=True, slots=True)
class TemporalServer:
    """Frontend, history, matching, visibility and UI in one process, on one SQLite file."""

    executable: Path
    port: int
    """Where clients and workers connect."""
    database: Path | None = None
    """The file; None keeps everything in memory."""
    ui_port: int | None = None
    """None starts no UI."""
    host: str = "127.0.0.1"
    """Address that clients and browsers may come in on."""
    namespace: str = "default"

    @property
    def address(self) -> str:
        """Where clients on this machine find it."""
        return f"{asking.found_at(self.host)}:{self.port}"

    @property
    def listening(self) -> str:
        """Address that it listens on itself: its services find each other on loopback only."""
        return self.host if self.host in ANYWHERE else LOOPBACK

    @property
    def near(self) -> str:
        """Where this machine finds it without a forwarder between."""
        return f"{asking.found_at(self.listening)}:{self.port}"

    @property
    def ui(self) -> str:
        """URL of the UI, empty without one."""
        return f"http://{asking.found_at(self.host)}:{self.ui_port}" if self.ui_port else ""

    def command(self) -> list[str]:
        """The command line. Search attributes may be there already; naming them again is no error."""
        command = [str(self.executable), "server", "start-dev", "--log-level", "error"]
        command += ["--ip", self.listening, "--port", str(self.port)]
        ui = ["--ui-ip", self.host, "--ui-port", str(self.ui_port), "--ui-disable-news-fetch"]
        command += ui if self.ui_port else ["--headless"]
        if self.namespace != "default":
            command += ["--namespace", self.namespace]
        if self.database is not None:
            command += ["--db-filename", str(self.database)]
            for pragma in PRAGMAS:
                command += ["--sqlite-pragma", pragma]
        for name, type_ in SEARCH_ATTRIBUTES.items():
            command += ["--search-attribute", f"{name}={type_}"]
        for key, value in DYNAMIC_CONFIGURATION.items():
            command += ["--dynamic-config-value", f"{key}={json.dumps(value)}"]
        return command

    async def is_up(self) -> bool:
        """Whether the namespace and our search attributes can be used now."""
        from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
        from temporalio.client import Client
        from temporalio.service import RPCError

        try:
            client = await Client.connect(self.near, namespace=self.namespace)
            known = await client.operator_service.list_search_attributes(
                ListSearchAttributesRequest(namespace=self.namespace), timeout=timedelta(seconds=2), retry=False
            )
        except (RPCError, RuntimeError):
            return False
        return set(SEARCH_ATTRIBUTES) <= set(known.custom_attributes)

    async def keep_histories(self, retention: timedelta) -> None:
        """Set how long the history of an ended run is kept; raises `ServerError` when Temporal refuses."""
        from google.protobuf.duration_pb2 import Duration
        from temporalio.api.namespace.v1 import NamespaceConfig
        from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
        from temporalio.client import Client
        from temporalio.service import RPCError

        time_to_live = Duration()
        time_to_live.FromTimedelta(retention)
        request = UpdateNamespaceRequest(
            namespace=self.namespace, config=NamespaceConfig(workflow_execution_retention_ttl=time_to_live)
        )
        try:
            client = await Client.connect(self.near, namespace=self.namespace)
            await client.workflow_service.update_namespace(request, timeout=timedelta(seconds=10), retry=True)
        except RPCError as error:
            raise ServerError(f"Temporal refuses to keep histories for {retention}: {error}") from error


PIECE = 64 * 1024
"""Bytes read at a time."""
CONNECT_WITHIN = 5.0
"""Seconds for the connection to the server behind."""


async def forward(host: str, port: int, behind: str) -> asyncio.Server:
    """Pass on what comes in at `host:port` to `behind:port`, until it is closed. Raises `ServerError`."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                there, answers = await asyncio.open_connection(behind, port)
        except (OSError, TimeoutError):
            writer.close()
            return
        with suppress(OSError):
            await asyncio.gather(_pipe(reader, answers), _pipe(there, writer))

    try:
        return await asyncio.start_server(accepted, host, port)
    except OSError as error:
        raise ServerError(f"nothing can listen on {host}:{port}: {error.strerror or error}") from error


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()

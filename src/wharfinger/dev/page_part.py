"""What a dev tree runs for people: the web page, and the one-time link that lets a browser in.

The page listens on loopback only, whatever the other processes listen on. Its port is the named one, else that of its
last life, else the usual one. Neighbours: `dev.tree` starts it, `wharfinger.programs.page_process` is the process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.dev import asking, ports
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.settings import PAGE_PORT
from wharfinger.dev.supervisor import ChildSpec, clean_environment, python_command

NAME = "page"
"""Of the process, in the ready file and in the table."""


@dataclass(slots=True)
class PagePart:
    """The web page of one tree."""

    folder: DataFolder
    connection: Callable[[], list[str]]
    """The options by which it finds the tree's servers."""
    temporal_ui: Callable[[], str]
    """URL of Temporal's own pages."""
    named: int | None
    """The port that the user named, which must be free."""
    bind_address: str = "127.0.0.1"
    """Where the tree's workers and hubs listen: the page reads their metrics there."""
    port: int = 0
    """0 = it was not started yet."""

    @property
    def url(self) -> str:
        """Base URL; empty before the first start."""
        return f"http://127.0.0.1:{self.port}" if self.port else ""

    def link(self) -> str:
        """The one-time link; empty while there is none."""
        try:
            return self.folder.page_link.read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def spec(self) -> ChildSpec:
        """The process; to be started after the servers. Starting it raises `ServerError` when a named port is taken."""

        async def is_up() -> bool:
            return await asyncio.to_thread(asking.answer, f"{self.url}/readyz", within=2.0) is not None

        def command() -> list[str]:
            usual = (self.port, self.folder.ports().get(NAME, 0), PAGE_PORT)
            self.port = ports.required(self.named, "--page-port") if self.named is not None else ports.preferred(usual)
            return python_command(
                "ui",
                f"--port={self.port}",
                *self.connection(),
                f"--metrics-host={asking.found_at(self.bind_address)}",
                f"--link-file={self.folder.page_link}",
                f"--replays-dir={self.folder.replays}",
                f"--temporal-ui={self.temporal_ui()}",
                f"--end-with={os.getpid()}",
            )

        return ChildSpec(NAME, command, clean_environment(), self.folder.log(NAME), is_up, 2.0)

    def came_up(self) -> None:
        """The page is up for the first time."""
        self.folder.remember_ports({NAME: self.port})

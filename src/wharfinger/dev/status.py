"""What `wharfinger dev` shows: a live table of its processes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from wharfinger.dev.kubernetes_part import NAME
from wharfinger.dev.tree import DevTree

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table


class StatusLines:
    """Lines that stay, above a table that moves. A context: the table is gone at its end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console: Console | None = None
        self._live: Live | None = None
        if stream.isatty():
            from rich.console import Console

            self._console = Console(file=stream, highlight=False)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self.hide()

    def say(self, line: str) -> None:
        """Print one line, with the time."""
        stamped = f"{time.strftime('%H:%M:%S')} {line}"
        if self._console is not None:
            self._console.print(stamped, markup=False)
        else:
            print(stamped, file=self._stream, flush=True)

    def show(self, tree: DevTree) -> None:
        """Show the tree's processes from now on; in plain lines, once."""
        if self._console is None:
            for name, pid, address, _ in _rows(tree):
                self.say(f"{name} ({pid}) {address}".rstrip())
            return
        from rich.live import Live

        self._live = Live(
            get_renderable=lambda: _table(tree), console=self._console, refresh_per_second=2, transient=True
        )
        self._live.start()

    def hide(self) -> None:
        """Take the table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _rows(tree: DevTree) -> list[tuple[str, int, str, bool]]:
    addresses = {"etcd": tree.etcd.url, "temporal": f"{tree.temporal.address}, UI {tree.temporal.ui}"}
    addresses["page"] = tree.page_url
    if tree.kubernetes is not None:
        addresses[NAME] = f"{tree.kubernetes.server.url}, kubeconfig {tree.kubernetes.kubeconfig}"
    servers = [
        (child.spec.name, child.pid, addresses.get(child.spec.name, ""), child.up) for child in tree.supervisor.children
    ]
    instances = [(one.name, one.pid, f"{one.health}/readyz", one.up) for one in tree.instances.ready]
    return [*servers, *instances]


def _table(tree: DevTree) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("process", "pid", "", "where"):
        table.add_column(column)
    for name, pid, address, up in _rows(tree):
        table.add_row(name, str(pid), Text("up", "green") if up else Text("starting", "yellow"), address)
    return table

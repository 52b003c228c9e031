"""What `wharfinger dev` shows: a live table of its processes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from wharfinger.dev.tree import DevTree

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table


class Status:
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
            for name, pid, address in _rows(tree):
                self.say(f"{name} ({pid}) {address}")
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


def _rows(tree: DevTree) -> list[tuple[str, int, str]]:
    addresses = {"etcd": tree.etcd.url, "temporal": f"{tree.temporal.address}, UI {tree.temporal.ui}"}
    for worker, url in zip(tree.workers, tree.health_urls, strict=True):
        addresses[worker.spec.name] = f"{url}/readyz"
    return [(child.spec.name, child.pid, addresses[child.spec.name]) for child in tree.supervisor.children]


def _table(tree: DevTree) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("process", "pid", "", "where"):
        table.add_column(column)
    up = {child.spec.name: child.up for child in tree.supervisor.children}
    for name, pid, address in _rows(tree):
        state = Text("up", "green") if up[name] else Text("starting", "yellow")
        table.add_row(name, str(pid), state, address)
    return table

"""What `wharfinger dev` shows: a line for each process once it is up, and on a terminal a live table of them.

Neighbours: `dev.tree` calls while it starts; `dev.cli.dev` says what comes before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from wharfinger.dev.kubernetes_part import NAME
from wharfinger.dev.settings import DevSettings
from wharfinger.dev.tree import DevTree

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table


class StatusLines:
    """Lines that stay, above a table that moves. A context: the table is gone at its end."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds; the times of the lines count from now."""
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._told: set[str] = set()
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

    @property
    def elapsed(self) -> str:
        """How long ago it began: `9.2 s`."""
        return f"{self._clock() - self._began:.1f} s"

    def tell(self, tree: DevTree) -> None:
        """Print a line for each process that is up and was not before."""
        for name, pid, address, up in _rows(tree):
            if up and name not in self._told:
                self._told.add(name)
                self.say(f"{name} ({pid}) is up after {self.elapsed}{': ' if address else ''}{address}")

    def show(self, tree: DevTree) -> None:
        """Show the tree's processes from now on, where the stream is a terminal."""
        if self._console is None:
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


def starting(settings: DevSettings, workers: int | None) -> str:
    """What is about to be started, and how many processes these are.

    `workers`: how many the common fleet has; None = that is known only when etcd is up.
    """
    members = settings.members
    servers = ["etcd"]
    servers += [] if settings.temporal_address else ["Temporal"]
    servers += ["an API server"] if settings.kubernetes else []
    own = "its workers" if workers is None else _counted(workers, "worker")
    parts = [*servers, "an agent", own]
    parts += ["a hub"] if settings.hub or members else []
    parts += ["the web page"] if settings.page else []
    parts += [f"{_counted(members, 'member cluster')} with an etcd and a worker each"] if members else []
    agents = ["the process of their agents"] if members else []
    count = len(parts) + len(agents) - 1 - bool(members) + 2 * members
    what = ", ".join([*parts, *agents][:-1]) + " and " + [*parts, *agents][-1]
    return f"Starting {what}: {count + (workers or 0)} processes{' and the workers' if workers is None else ''} ..."


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


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

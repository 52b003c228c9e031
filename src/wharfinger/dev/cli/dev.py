"""`wharfinger dev`: etcd, Temporal with its UI, an agent and the common fleet, run by one command.

It prints a line for each process once it is up, and on a terminal a live table of them.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from wharfinger.cli.options import After, config_option, configured, plugins_option, variable
from wharfinger.cli.processes.process_options import (
    Eviction,
    NodeEvictionOptions,
    cohorts_option,
    compatible_option,
    eviction_of,
    eviction_option,
)
from wharfinger.dev.cli.stopping import Stopping
from wharfinger.dev.settings import DevSettings
from wharfinger.errors import UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import arguments, nested
from wharfinger.process.names import DEFAULT_CLUSTER
from wharfinger.programs.cli.agent import InstanceOptions
from wharfinger.settings import format_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from wharfinger.dev.folder import DataFolder
    from wharfinger.dev.settings import Servers
    from wharfinger.dev.tree import DevTree


@dataclass(frozen=True, slots=True)
class DevOptions:
    """How the workers schedule."""

    format: ClusterFormat | None = format_option(None, shown="as in the folder; kubernetes in a new one")
    config: Path | None = config_option()
    all_plugins: bool = plugins_option()
    eviction: Eviction = eviction_option("immediate")
    cohorts: bool = cohorts_option()
    node_evictions: NodeEvictionOptions = nested(NodeEvictionOptions)
    compatible: bool = compatible_option()


@configured
def dev(
    *, settings: DevSettings, options: Annotated[DevOptions, After("lease_ttl")], instances: InstanceOptions
) -> None:
    """Run etcd, Temporal (with its UI), an agent and workers here, as one tree of processes.

    The workers are the fleet `common`: `wharfinger fleet status common` shows them, `fleet scale` and `fleet apply`
    change them. A process that dies is started again. Ctrl-C stops everything; data and ports are kept for the next
    start.
    """
    ready_file = settings.ready_file
    if ready_file is not None and not ready_file.parent.is_dir():
        raise UsageError(f"--ready-file: there is no folder {ready_file.parent}")
    from wharfinger.dev.folder import DataFolder
    from wharfinger.dev.progress import progress_for
    from wharfinger.dev.settings import prepare
    from wharfinger.framework.profiles import load_configuration
    from wharfinger.process.running import tune_garbage_collection

    tune_garbage_collection()
    folder = DataFolder(settings.data_dir.resolve())
    chosen, placing = _format_of(folder, options.format), settings.hub or settings.members > 0
    with_api = _with_api(folder, settings.kubernetes, chosen)
    if with_api and placing:
        raise UsageError("--hub and --members exclude --kubernetes: a hub keeps what it places in its own etcd")
    if with_api and options.node_evictions.given:
        raise UsageError(
            "--lost-pods, --lost-after and --taint-eviction exclude --kubernetes: Kubernetes' controllers do that"
        )
    if settings.kubernetes_port is not None and not with_api:
        raise UsageError("--kubernetes-port goes with --kubernetes")
    if placing and chosen is not ClusterFormat.KUBERNETES:
        raise UsageError(f"--hub and --members: placements are not kept in a cluster of the format {chosen}")
    # Better reported here than by workers that do not come up.
    load_configuration(options.config, all_plugins=options.all_plugins, format_=chosen)
    handed_on = DevOptions(
        all_plugins=options.all_plugins,
        node_evictions=options.node_evictions.handed_on(chosen),
        compatible=options.compatible,
    )
    settings = replace(
        settings,
        format=chosen,
        config=options.config,
        eviction=eviction_of(chosen, options.eviction),
        cohorts="auto" if options.cohorts else "off",
        agent_options=(*arguments(handed_on), *arguments(instances)),
        hub=placing,
        kubernetes=with_api,
    )
    if ready_file is not None:
        with folder.locked():  # of a life that goes on there it is the truth
            ready_file.unlink(missing_ok=True)  # one of an earlier life would say that all is up
    asyncio.run(_run(settings, prepare(progress_for(sys.stderr), kubernetes=with_api)))


def _format_of(folder: DataFolder, asked: ClusterFormat | None) -> ClusterFormat:
    """The format of the folder's cluster. Raises `UsageError` when another one is asked for."""
    known = folder.format()
    if None not in (asked, known) and asked is not known:
        raise UsageError(
            f"--data-dir {folder.root}: its cluster keeps pods and nodes in the format {known}, not {asked}: leave out "
            "--format, or name another folder"
        )
    return asked or known or ClusterFormat.KUBERNETES


def _with_api(folder: DataFolder, asked: bool | None, format_: ClusterFormat) -> bool:
    """Whether an API server has the pods of the folder's cluster. Raises `UsageError` when that cannot be as asked."""
    from wharfinger.dev.kubernetes_part import other_store

    known = folder.kubernetes()
    if asked and format_ is not ClusterFormat.KUBERNETES:
        raise UsageError(f"--kubernetes: an API server has Kubernetes' objects, and the format here is {format_}")
    if None not in (asked, known) and asked is not known:
        raise UsageError(other_store(folder.root, kubernetes=bool(known)))
    return bool(asked if known is None else known)


async def _run(settings: DevSettings, servers: Servers) -> None:
    from wharfinger.dev.folder import DataFolder
    from wharfinger.dev.tree import running

    stopping = Stopping()
    status = StatusLines(sys.stdout)
    with suppress(asyncio.CancelledError), stopping, status:
        first = 1 if DataFolder(settings.data_dir.resolve()).format() is None else None  # of a fleet not made yet
        status.say(starting(settings, first if settings.workers is None else settings.workers))
        async with running(settings, servers, say=status.say, progressed=status.tell) as tree:
            stopping.tree = tree
            status.show(tree)
            status.say(f"Everything is up after {status.elapsed}. Data: {tree.folder.root}")
            for line in _what_next(tree, settings):
                status.say(line)
            try:
                await asyncio.Event().wait()
            finally:
                status.hide()
                status.say("Stopping; once more Ctrl-C does not wait for anything.")
    status.say("Stopped.")


def _etcdctl(tree: DevTree) -> str:
    """How etcd's own client lists what is kept; its password is in no command line, which others could see."""
    from wharfinger.dev.settings import ETCD_PORT

    at = "" if tree.etcd.url == f"http://127.0.0.1:{ETCD_PORT}" else f"--endpoints {tree.etcd.url} "
    words = f"{at}get --prefix --keys-only /registry/"
    if not tree.etcd.guarded:
        return f"  etcdctl {words}"
    password = shlex.quote(os.path.relpath(tree.etcd.passwords / "root"))
    return f"  ETCDCTL_PASSWORD=$(cat {password}) etcdctl --user root {words}"


def _what_next(tree: DevTree, settings: DevSettings) -> list[str]:
    """Lines that a newcomer can copy; with variables where ports are not the usual ones."""
    from wharfinger.dev import binaries
    from wharfinger.dev.settings import ETCD_PORT, TEMPORAL_PORT

    variables = {}
    if tree.etcd.url != f"http://127.0.0.1:{ETCD_PORT}":
        variables[variable("etcd")] = tree.etcd.url
    login = tree.etcd.settings()
    if login.allow_insecure:  # at another address than loopback no command looks for the password
        variables[variable("etcd-user")] = login.user
        variables[variable("etcd-password-file")] = str(login.password_file)
        variables[variable("allow-insecure-etcd")] = "true"
    if tree.temporal.address != f"127.0.0.1:{TEMPORAL_PORT}":
        variables[variable("temporal")] = tree.temporal.address
    if settings.cluster != DEFAULT_CLUSTER:
        variables[variable("cluster")] = settings.cluster
    lines = [f"  export {name}={shlex.quote(value)}" for name, value in variables.items()]
    folder = "quickstart" if settings.format is ClusterFormat.KUBERNETES else f"{settings.format}/quickstart"
    example = shlex.quote(os.path.relpath(binaries.examples() / folder))
    if tree.kubernetes is not None:
        kubeconfig = shlex.quote(os.path.relpath(tree.kubernetes.kubeconfig))
        lines += [
            f"  export KUBECONFIG={kubeconfig}",
            f"  wharfinger kubernetes apply -f {example}     # or kubectl apply: four nodes, three pods",
        ]
    else:
        lines.append(f"  wharfinger apply -f {example}     # four nodes, three pods")
    lines.append("  wharfinger get pods -w")
    lines.append(_etcdctl(tree))
    if settings.members:
        placement = shlex.quote(os.path.relpath(binaries.examples() / "placement-live"))
        lines += [f"  wharfinger apply -f {placement}", "  wharfinger placement list", "  wharfinger cluster list"]
    link = tree.page.link() if tree.page is not None else ""
    page = [f"The web page, for one browser: {link}", f"  (the next one: {tree.folder.page_link})"] if link else []
    replays = shlex.quote(os.path.relpath(tree.folder.replays))
    lines += (
        [f"  wharfinger replay --since 1h --keep-in {replays}     # decided again; the page shows it"] if link else []
    )
    ends = [f"Every attempt, live: {tree.temporal.ui}", *page, "Ctrl-C stops everything."]
    return ["In another terminal:", *lines, *ends]


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
    from wharfinger.dev.kubernetes_part import NAME

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

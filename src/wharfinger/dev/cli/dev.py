"""`wharfinger dev`: etcd, Temporal with its UI, an agent and the common fleet, run by one command."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import RUN, After, config_option, configured, plugins_option, variable
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
from wharfinger.programs.cli.instance_options import InstanceOptions
from wharfinger.settings import format_option

if TYPE_CHECKING:
    from wharfinger.dev.folder import DataFolder
    from wharfinger.dev.settings import Servers
    from wharfinger.dev.tree import DevTree


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dev", rich_help_panel=RUN)(dev)


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
    from wharfinger.process.garbage import tune_garbage_collection

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
    from wharfinger.dev.status import StatusLines, starting
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

"""`wharfinger dev`: etcd, Temporal with its UI, an agent and the common fleet, run by one command."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import RUN, ConfigOption, PluginPackages, PluginsOption, option, variable
from wharfinger.cli.processes.instance_options import AllowEnv, Install, SecretsDir, arguments
from wharfinger.cli.processes.process_options import (
    DEFAULT_LEASE_TTL,
    FORMAT_HELP,
    CohortChoice,
    CohortsOption,
    CompatibleOption,
    DevEvictionMode,
    EvictionChoice,
    LeaseTtl,
    LostAfter,
    LostPodsOption,
    TaintEviction,
    eviction_of,
    node_eviction_arguments,
)
from wharfinger.cli.processes.stopping import Stopping
from wharfinger.contracts.names import DEFAULT_CLUSTER, check_cluster
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat

if TYPE_CHECKING:
    from wharfinger.dev.folder import DataFolder
    from wharfinger.dev.settings import DevSettings, Servers
    from wharfinger.dev.tree import DevTree


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dev", rich_help_panel=RUN)(dev)


def dev(
    *,
    data_dir: Annotated[
        Path,
        option("data-dir", "Everything is kept here; the next start goes on from it.", "DIR"),
    ] = Path("wharfinger-data"),
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            metavar="N",
            help="How many workers to run: replicas of the fleet `common`.",
            show_default="1 in a new folder, else as they are",
        ),
    ] = None,
    etcd_port: Annotated[
        int | None, typer.Option(min=1, max=65535, metavar="PORT", help="Port of etcd.", show_default="2379 if free")
    ] = None,
    temporal_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Port of Temporal.", show_default="7233 if free"),
    ] = None,
    ui_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Port of Temporal's UI.", show_default="8233 if free"),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535 - 64,
            metavar="PORT",
            help="Health port of the first worker; the others follow, as far as theirs are free.",
            show_default="10259 if free",
        ),
    ] = None,
    retention: Annotated[
        str, typer.Option(metavar="DURATION", help="How long Temporal keeps the history of an ended attempt.")
    ] = "30d",
    ready_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Written once all is up, and whenever a process was replaced: JSON with URLs and pids. Removed when "
            "all is to stop.",
        ),
    ] = None,
    bind_address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where everything listens, without encryption; only etcd wants users. The API server of --kubernetes "
            "always listens on loopback.",
        ),
    ] = "127.0.0.1",
    cluster: Annotated[str, option("cluster", "Name of the cluster.", "NAME")] = DEFAULT_CLUSTER,
    lease_ttl: LeaseTtl = DEFAULT_LEASE_TTL,
    format_: Annotated[
        ClusterFormat | None,
        option("format", FORMAT_HELP, shown="as in the folder; kubernetes in a new one"),
    ] = None,
    config: ConfigOption = None,
    plugins: PluginsOption = PluginPackages.NAMED,
    eviction: DevEvictionMode = EvictionChoice.IMMEDIATE,
    cohorts: CohortsOption = CohortChoice.AUTO,
    lost_pods: LostPodsOption = None,
    lost_after: LostAfter = None,
    taint_eviction: TaintEviction = False,
    compatible: CompatibleOption = False,
    install: Install = None,
    secrets_dir: SecretsDir = None,
    allow_env: AllowEnv = None,
    hub: Annotated[
        bool, typer.Option("--hub", help="Run a hub too, which places resources on member clusters.")
    ] = False,
    members: Annotated[
        int,
        typer.Option(
            min=0, max=16, metavar="N", help="Run a hub and so many member clusters, each with an etcd of its own."
        ),
    ] = 0,
    kubernetes: Annotated[
        bool | None,
        typer.Option(
            "--kubernetes/--no-kubernetes",
            help="Run a Kubernetes API server too, whose pods the workers schedule. Its kubeconfig is written into the "
            "data folder.",
            show_default="as in the folder; --no-kubernetes in a new one",
        ),
    ] = None,
    kubernetes_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Port of the API server.", show_default="6443 if free"),
    ] = None,
    etcd_open: Annotated[
        bool,
        typer.Option(
            "--etcd-open",
            envvar=variable("etcd-open"),
            show_envvar=False,
            help="Leave etcd without users, for trials with other tools. Any web page that a browser on this machine "
            "shows can then write to it.",
        ),
    ] = False,
    page: Annotated[
        bool,
        typer.Option(
            "--page/--no-page", envvar=variable("page"), show_envvar=False, help="Serve the web page too, on loopback."
        ),
    ] = True,
    page_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Port of the web page.", show_default="10280 if free"),
    ] = None,
) -> None:
    """Run etcd, Temporal (with its UI), an agent and workers here, as one tree of processes.

    The workers are the fleet `common`: `wharfinger fleet status common` shows them, `fleet scale` and `fleet apply`
    change them. A process that dies is started again. Ctrl-C stops everything; data and ports are kept for the next
    start.
    """
    if ready_file is not None and not ready_file.parent.is_dir():
        raise UsageError(f"--ready-file: there is no folder {ready_file.parent}")
    from wharfinger.dev import durations
    from wharfinger.dev.folder import DataFolder
    from wharfinger.dev.progress import progress_for
    from wharfinger.dev.settings import DevSettings, prepare
    from wharfinger.process.garbage import tune_garbage_collection
    from wharfinger.profiles import load_configuration

    tune_garbage_collection()
    folder = DataFolder(data_dir.resolve())
    chosen = _format_of(folder, format_)
    with_api = _with_api(folder, kubernetes, chosen)
    if with_api and (hub or members):
        raise UsageError("--hub and --members exclude --kubernetes: a hub keeps what it places in its own etcd")
    if with_api and (lost_pods or lost_after or taint_eviction):
        raise UsageError(
            "--lost-pods, --lost-after and --taint-eviction exclude --kubernetes: Kubernetes' controllers do that"
        )
    if kubernetes_port is not None and not with_api:
        raise UsageError("--kubernetes-port goes with --kubernetes")
    if (hub or members) and chosen is not ClusterFormat.KUBERNETES:
        raise UsageError(f"--hub and --members: placements are not kept in a cluster of the format {chosen}")
    # Better reported here than by workers that do not come up.
    load_configuration(config, all_plugins=plugins is PluginPackages.ALL, format_=chosen)
    settings = DevSettings(
        data_dir=data_dir,
        workers=workers,
        etcd_port=etcd_port,
        temporal_port=temporal_port,
        ui_port=ui_port,
        health_port=health_port,
        retention=durations.parse(retention),
        ready_file=ready_file,
        bind_address=bind_address,
        cluster=check_cluster(cluster),
        format=chosen,
        lease_ttl=lease_ttl,
        config=config,
        eviction=eviction_of(chosen, eviction).value,
        cohorts=cohorts.value,
        agent_options=(
            *node_eviction_arguments(chosen, lost_pods, lost_after, taint_eviction),
            *(["--compatible"] if compatible else []),
            *arguments(install or (), secrets_dir, allow_env or ()),
            f"--plugins={plugins.value}",
        ),
        hub=hub or members > 0,
        members=members,
        kubernetes=with_api,
        kubernetes_port=kubernetes_port,
        page=page,
        page_port=page_port,
        etcd_open=etcd_open,
    )
    if ready_file is not None:
        with DataFolder(data_dir.resolve()).locked():  # of a life that goes on there it is the truth
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
    from wharfinger.registry.etcd_roles import ADMIN

    variables = {}
    if tree.etcd.url != f"http://127.0.0.1:{ETCD_PORT}":
        variables[variable("etcd")] = tree.etcd.url
    login = tree.etcd.settings(ADMIN)
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

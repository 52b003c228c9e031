"""`wharfinger worker`: one scheduler process."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli.options import (
    RUN,
    ConfigOption,
    ConnectionOptions,
    PluginPackages,
    PluginsOption,
    connected,
    option,
)
from wharfinger.cli.processes.process_options import (
    DEFAULT_LEASE_TTL,
    DEFAULT_MAX_TXN_OPS,
    DEFAULT_OWN_NODE_MARGIN,
    DEFAULT_TENANT_LABEL,
    BindAddress,
    CohortChoice,
    CohortsOption,
    CompatibleOption,
    EvictionMode,
    FormatOption,
    HealthPort,
    LeaseTtl,
    Level,
    LogLevel,
    LostAfter,
    LostPodsOption,
    MaxTxnOps,
    OwnNodeMargin,
    StateDir,
    TaintEviction,
    TenantLabel,
    bind_settings,
    eviction_of,
    node_evictions,
    state_dir,
)
from wharfinger.cli.processes.serving_options import ServingChoices, serves
from wharfinger.cli.processes.upstream_options import check_alone, schedules_kubernetes
from wharfinger.contracts.names import COMMON, check_tenant, check_tenant_label
from wharfinger.errors import ServerError, UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import DispatchSettings, GrantSettings, LeaseSettings, UpstreamSettings, WorkerSettings

_DEFAULTS = WorkerSettings()
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")

INSTANCE_PANEL = "Instance (set by an agent)"
LOCKED = 4
"""Exit code when another process is this instance."""


class Dispatch(StrEnum):
    """Which attempts a worker starts."""

    SHARDED = "sharded"
    NONE = "none"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker", rich_help_panel=RUN)(worker)


@connected
@serves
@schedules_kubernetes
def worker(
    *,
    dispatch: Annotated[
        Dispatch,
        option(
            "dispatch",
            "`sharded`: start attempts for this worker's share of the pods. `none`: run only what others start.",
        ),
    ] = Dispatch.SHARDED,
    tenant: Annotated[
        str, option("tenant", "Whose pods it takes: a tenant's, or the common pool's (`common`).", "NAME")
    ] = COMMON,
    health_port: HealthPort = _DEFAULTS.health_port,
    bind_address: BindAddress = _DEFAULTS.bind_address,
    lease_ttl: LeaseTtl = DEFAULT_LEASE_TTL,
    format_: FormatOption = ClusterFormat.KUBERNETES,
    config: ConfigOption = None,
    plugins: PluginsOption = PluginPackages.NAMED,
    eviction: EvictionMode = None,
    cohorts: CohortsOption = CohortChoice.AUTO,
    lost_pods: LostPodsOption = None,
    lost_after: LostAfter = None,
    taint_eviction: TaintEviction = False,
    max_txn_ops: MaxTxnOps = DEFAULT_MAX_TXN_OPS,
    own_node_margin: OwnNodeMargin = DEFAULT_OWN_NODE_MARGIN,
    compatible: CompatibleOption = False,
    tenant_label: TenantLabel = DEFAULT_TENANT_LABEL,
    state_directory: StateDir = None,
    log_level: LogLevel = Level.INFO,
    instance: Annotated[
        str,
        typer.Option(
            "--instance",
            metavar="TENANT/SLOT/INCARNATION",
            show_default=False,
            rich_help_panel=INSTANCE_PANEL,
            help="Which incarnation of which slot this process is. It runs only under that grant: exit code 3 when the "
            "grant is gone.",
        ),
    ] = "",
    instance_revision: Annotated[
        int,
        typer.Option(
            "--instance-revision",
            metavar="N",
            min=0,
            show_default=False,
            rich_help_panel=INSTANCE_PANEL,
            help="The fleet's revision that this process runs.",
        ),
    ] = 0,
    instance_lock: Annotated[
        Path | None,
        typer.Option(
            "--instance-lock",
            metavar="FILE",
            rich_help_panel=INSTANCE_PANEL,
            help="File that the process keeps locked: exit code 4 when another process has locked it.",
        ),
    ] = None,
    end_with: Annotated[
        int,
        typer.Option(
            "--end-with",
            metavar="PID",
            min=0,
            show_default=False,
            rich_help_panel=INSTANCE_PANEL,
            help="End at once when the process with this id has ended.",
        ),
    ] = 0,
    connection: ConnectionOptions,
    serving: ServingChoices,
    upstream: UpstreamSettings | None,
) -> None:
    """Place pods: run one scheduler process until a signal stops it.

    Any number may run beside each other; they divide the pods among themselves. The first SIGTERM or Ctrl-C drains the
    worker, the second ends the process at once.

    If the configuration is wrong, each mistake is printed on a line of its own, and the exit code is 2.
    """
    granted, grant = _granted(instance, instance_revision, instance_lock)
    tenant = granted or check_tenant(tenant)
    if instance_lock is not None:  # before anything else: a look must find this process alive
        _lock(instance_lock)
    if end_with:
        from wharfinger.runtime.ending_with import end_with as watch

        watch(end_with)
    import uvloop

    from wharfinger.observe.logs import quiet_sdk, write_lines
    from wharfinger.worker_process import run_worker

    write_lines(log_level.value, serving.logging_format.value)
    quiet_sdk()
    check_alone(upstream, format_, node_evictions=bool(lost_pods or lost_after or taint_eviction))
    settings = WorkerSettings(
        etcd=replace(connection.etcd, max_txn_ops=max_txn_ops),
        upstream=upstream,
        temporal=connection.temporal,
        cluster=connection.cluster,
        format=format_,
        tenant=tenant,
        dispatch=dispatch.value,
        config=config,
        all_plugins=plugins is PluginPackages.ALL,
        bind_address=bind_address,
        health_port=health_port,
        grant=grant,
        state_dir=state_dir(state_directory, connection.etcd, connection.cluster, tenant),
        tenant_label=check_tenant_label(tenant_label),
        lease=LeaseSettings(ttl=lease_ttl),
        binding=bind_settings(own_node_margin, compatible=compatible),
        eviction=eviction_of(format_, eviction).value,
        node_evictions=node_evictions(format_, lost_pods, lost_after, taint_eviction),
        dispatching=DispatchSettings(cohorts=cohorts is CohortChoice.AUTO),
    )
    code = uvloop.run(run_worker(settings, serving.at(bind_address, health_port)))
    if code:
        raise typer.Exit(code)


def _granted(instance: str, revision: int, lock: Path | None) -> tuple[str, GrantSettings | None]:
    """The tenant and the grant that `--instance` names; empty and None without it. Raises `UsageError`."""
    if not instance:
        if revision or lock is not None:
            raise UsageError("--instance-revision and --instance-lock need --instance")
        return "", None
    tenant, *numbers = instance.split("/")
    if len(numbers) != 2 or not all(_NUMBER.fullmatch(number) for number in numbers):
        raise UsageError(f"--instance: {instance!r} is no TENANT/SLOT/INCARNATION, such as common/0/1")
    slot, incarnation = map(int, numbers)
    return check_tenant(tenant), GrantSettings(slot, incarnation, revision, lock)


def _lock(path: Path) -> None:
    """Lock the file until this process has ended."""
    from wharfinger.runtime.locks import hold

    try:
        hold(path)
    except ServerError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(LOCKED) from None

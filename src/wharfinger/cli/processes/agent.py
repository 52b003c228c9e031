"""`wharfinger agent`: one host's agent, which starts, watches and ends scheduler instances, and looks after fleets."""

from __future__ import annotations

import socket
from dataclasses import replace
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
    variable,
)
from wharfinger.cli.processes.instance_options import (
    INSTANCES_PANEL,
    AllowEnv,
    Install,
    InstanceEtcdPasswordFile,
    InstanceEtcdUser,
    SecretsDir,
    etcd_of_instances,
    installs,
    secrets_folder,
    variables,
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
    TaintEviction,
    TenantLabel,
    bind_settings,
    eviction_of,
    format_arguments,
    node_eviction_arguments,
)
from wharfinger.cli.processes.serving_options import ServingChoices, serves
from wharfinger.cli.processes.upstream_options import check_alone, schedules_kubernetes, upstream_arguments
from wharfinger.contracts.names import check_tenant_label
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.model.names import is_dns_subdomain
from wharfinger.settings import AgentSettings, LeaseSettings, UpstreamSettings

_DEFAULTS = AgentSettings(host="", data_dir=Path())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("agent", rich_help_panel=RUN)(agent)


@connected
@serves
@schedules_kubernetes
def agent(
    *,
    host: Annotated[
        str, option("host", "Name of the host; no other agent may have it.", "NAME", shown="this machine's")
    ] = "",
    data_dir: Annotated[
        Path, option("data-dir", "Instances' files are kept here; the next agent on it adopts what runs.", "DIR")
    ] = Path("wharfinger-agent"),
    control: Annotated[
        bool,
        typer.Option(
            "--control/--no-control",
            envvar=variable("control"),
            show_envvar=False,
            help="Whether it also acts on fleets; at least one agent must.",
        ),
    ] = True,
    health_port: HealthPort = _DEFAULTS.health_port,
    bind_address: BindAddress = _DEFAULTS.bind_address,
    log_level: LogLevel = Level.INFO,
    install: Install = None,
    secrets_dir: SecretsDir = None,
    allow_env: AllowEnv = None,
    instance_etcd_user: InstanceEtcdUser = "",
    instance_etcd_password_file: InstanceEtcdPasswordFile = None,
    capacity: Annotated[
        int,
        option("capacity", "How many instances may run here. 0: no bound.", "N", min=0, panel=INSTANCES_PANEL),
    ] = _DEFAULTS.capacity,
    instance_health_port: Annotated[
        int,
        option(
            "instance-health-port",
            "Slot n's health port is this + n where that is free. 0: any free one.",
            "PORT",
            min=0,
            max=65535,
            panel=INSTANCES_PANEL,
        ),
    ] = _DEFAULTS.instance_health_port,
    stop_instances: Annotated[
        float | None,
        option(
            "stop-instances",
            "End the instances too when a signal stops the agent; they get this long.",
            "SECONDS",
            min=0,
            shown="they go on",
            panel=INSTANCES_PANEL,
        ),
    ] = None,
    end_with: Annotated[
        int, typer.Option(min=0, metavar="PID", hidden=True, help="Agent and instances end at once when this does.")
    ] = 0,
    lease_ttl: LeaseTtl = DEFAULT_LEASE_TTL,
    host_lost: Annotated[
        float,
        option(
            "host-lost",
            "How long a host may have no agent until it counts as lost: longer than a machine takes to start again, "
            "and the same for all agents that act on fleets.",
            "SECONDS",
            min=5,
            max=3600,
        ),
    ] = _DEFAULTS.host_lost,
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
    connection: ConnectionOptions,
    serving: ServingChoices,
    upstream: UpstreamSettings | None,
) -> None:
    """Run scheduler instances on this host, as fleets want them: one agent a host.

    Instances outlive it: SIGTERM or Ctrl-C stops the agent alone, unless --stop-instances is given. The next agent on
    the same folder adopts them. Instances get the agent's own options (etcd, Temporal, --config, --eviction, ...), but
    log in to etcd as --instance-etcd-user where that is given. A template may replace --config by its
    schedulerConfiguration, and etcd's password and certificates by secrets.
    """
    if end_with:
        from wharfinger.runtime.ending_with import end_with as watch

        watch(end_with)
    import uvloop

    from wharfinger.agent import run_agent
    from wharfinger.observe.logs import quiet_sdk, write_lines

    check_alone(upstream, format_, node_evictions=bool(lost_pods or lost_after or taint_eviction))
    etcd = replace(connection.etcd, max_txn_ops=max_txn_ops)
    settings = AgentSettings(
        host=host_name(host),
        data_dir=data_dir,
        etcd=etcd,
        instance_etcd=etcd_of_instances(etcd, instance_etcd_user, instance_etcd_password_file),
        temporal=connection.temporal,
        cluster=connection.cluster,
        format=format_,
        control=control,
        installs=installs(install or ()),
        secrets_dir=secrets_folder(secrets_dir),
        allow_env=variables(allow_env or ()),
        capacity=capacity,
        bind_address=bind_address,
        health_port=health_port,
        instance_health_port=instance_health_port,
        config=config,
        all_plugins=plugins is PluginPackages.ALL,
        worker_options=(
            f"--cohorts={cohorts.value}",
            f"--eviction={eviction_of(format_, eviction).value}",
            *node_eviction_arguments(format_, lost_pods, lost_after, taint_eviction),
            *format_arguments(format_),
            *binding_options(own_node_margin, compatible=compatible),
            f"--tenant-label={check_tenant_label(tenant_label)}",
            f"--log-level={log_level.value}",
            *(
                ["--plugins=all"] if plugins is PluginPackages.ALL else []
            ),  # a release before this one has no such option
            *([f"--end-with={end_with}"] if end_with else []),
            *serving.arguments(),
            *upstream_arguments(upstream),
        ),
        upstream=upstream,
        lease=LeaseSettings(ttl=lease_ttl),
        host_lost=host_lost,
        tenant_label=tenant_label,
        stop_instances=stop_instances,
    )
    write_lines(log_level.value, serving.logging_format.value)
    quiet_sdk()
    code = uvloop.run(run_agent(settings, serving.at(bind_address, health_port)))
    if code:
        raise typer.Exit(code)


def binding_options(own_node_margin: int, *, compatible: bool) -> tuple[str, ...]:
    """The options by which instances choose nodes. Raises `UsageError`."""
    bind_settings(own_node_margin, compatible=compatible)
    return (f"--own-node-margin={own_node_margin}", *(["--compatible"] if compatible else []))


def host_name(given: str) -> str:
    """The host's name; by default the machine's. Raises `UsageError`."""
    name = given or socket.gethostname().lower()
    if not is_dns_subdomain(name):
        raise UsageError(f"--host: {name!r} is no name of a host (lower case letters, digits, dashes, dots)")
    return name

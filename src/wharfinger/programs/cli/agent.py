"""`wharfinger agent`: one host's agent, which starts, watches and ends scheduler instances, and looks after fleets."""

from __future__ import annotations

import socket
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import typer

from wharfinger.cli.options import RUN, ConnectionOptions, configured
from wharfinger.cli.processes.process_options import SchedulingOptions
from wharfinger.cli.processes.running import run_process
from wharfinger.cli.processes.serving_options import ServingChoices
from wharfinger.cli.processes.upstream_options import UpstreamOptions, check_alone, upstream_arguments
from wharfinger.errors import UsageError
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.options import arguments
from wharfinger.programs.cli.instance_options import InstanceLogin, InstanceOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("agent", rich_help_panel=RUN)(agent)


@configured
def agent(
    *,
    instances: InstanceOptions,
    login: InstanceLogin,
    settings: AgentSettings,
    scheduling: SchedulingOptions,
    upstream: UpstreamOptions,
    serving: ServingChoices,
    connection: ConnectionOptions,
) -> None:
    """Run scheduler instances on this host, as fleets want them: one agent a host.

    Instances outlive it: SIGTERM or Ctrl-C stops the agent alone, unless --stop-instances is given. The next agent on
    the same folder adopts them. Instances get the agent's own options (etcd, Temporal, --config, --eviction, ...), but
    log in to etcd as --instance-etcd-user where that is given. A template may replace --config by its
    schedulerConfiguration, and etcd's password and certificates by secrets.
    """
    api = upstream.settings()
    check_alone(api, scheduling.format, node_evictions=scheduling.node_evictions.given)
    etcd = replace(connection.etcd, max_txn_ops=scheduling.max_txn_ops)
    settings = replace(
        settings,
        host=host_name(settings.host),
        etcd=etcd,
        instance_etcd=login.etcd(etcd),
        temporal=connection.temporal,
        cluster=connection.cluster,
        format=scheduling.format,
        installs=instances.install,
        secrets_dir=instances.secrets_dir,
        allow_env=instances.allow_env,
        config=scheduling.config,
        all_plugins=scheduling.all_plugins,
        worker_options=(
            *scheduling.handed_on(),
            f"--log-level={settings.log_level}",
            *([f"--end-with={settings.end_with}"] if settings.end_with else []),
            *arguments(serving),
            *upstream_arguments(api),
        ),
        upstream=api,
    )

    def main() -> Coroutine[Any, Any, int]:
        from wharfinger.programs.agent import run_agent

        return run_agent(settings, serving.at(settings.bind_address, settings.health_port))

    run_process(main, end_with=settings.end_with, log_level=settings.log_level, log_format=serving.logging_format)


def host_name(given: str) -> str:
    """The host's name; by default the machine's. Raises `UsageError`."""
    name = given or socket.gethostname().lower()
    if not is_dns_subdomain(name):
        raise UsageError(f"--host: {name!r} is no name of a host (lower case letters, digits, dashes, dots)")
    return name

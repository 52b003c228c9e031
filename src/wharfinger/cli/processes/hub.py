"""`wharfinger hub`: decides which member clusters placements get, and delivers them."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import RUN, ConnectionOptions, connected, option
from wharfinger.cli.processes.process_options import (
    DEFAULT_LEASE_TTL,
    BindAddress,
    FormatOption,
    HealthPort,
    LeaseTtl,
    Level,
    LogLevel,
)
from wharfinger.cli.processes.serving_options import ServingChoices, serves
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.model.names import is_dns_subdomain
from wharfinger.settings import HubSettings, LeaseSettings

_DEFAULTS = HubSettings()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("hub", rich_help_panel=RUN)(hub)


@connected
@serves
def hub(
    *,
    name: Annotated[
        str, option("name", "Name of the hub; no other hub may have it.", "NAME", shown="of machine and process")
    ] = "",
    health_port: HealthPort = _DEFAULTS.health_port,
    bind_address: BindAddress = _DEFAULTS.bind_address,
    log_level: LogLevel = Level.INFO,
    lease_ttl: LeaseTtl = DEFAULT_LEASE_TTL,
    end_with: Annotated[int, typer.Option(min=0, metavar="PID", hidden=True, help="Ends at once when this does.")] = 0,
    format_: FormatOption = ClusterFormat.KUBERNETES,
    connection: ConnectionOptions,
    serving: ServingChoices,
) -> None:
    """Decide which member clusters placements get, and deliver them; several hubs share the work.

    It follows member clusters, placements and what they select in etcd. It starts an attempt where a decision would
    change, a rollout where a member must change, and update runs. SIGTERM or Ctrl-C lets running activities finish; a
    second one ends it at once.
    """
    if end_with:
        from wharfinger.runtime.ending_with import end_with as watch

        watch(end_with)
    import uvloop

    from wharfinger.hub import run_hub
    from wharfinger.observe.logs import quiet_sdk, write_lines

    if name and not is_dns_subdomain(name):
        raise UsageError(f"--name: {name[:80]!r} is no name (lower case letters, digits, dashes, dots)")
    settings = HubSettings(
        name=name,
        etcd=connection.etcd,
        temporal=connection.temporal,
        cluster=connection.cluster,
        format=format_,
        bind_address=bind_address,
        health_port=health_port,
        lease=LeaseSettings(ttl=lease_ttl),
    )
    write_lines(log_level.value, serving.logging_format.value)
    quiet_sdk()
    code = uvloop.run(run_hub(settings, serving.at(bind_address, health_port)))
    if code:
        raise typer.Exit(code)

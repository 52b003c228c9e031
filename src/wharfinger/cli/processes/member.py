"""`wharfinger member`: the agents of member clusters, which apply what placements deliver, and report."""

from __future__ import annotations

from pathlib import Path
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
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import LeaseSettings, MemberAgentSettings

_DEFAULTS = MemberAgentSettings(members_dir=Path())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("member", rich_help_panel=RUN)(member)


@connected
@serves
def member(
    *,
    members_dir: Annotated[
        Path,
        option(
            "members-dir",
            "A file <member>.yaml for each member says how its own etcd is reached; nobody else may read it.",
            "DIR",
        ),
    ] = Path("members"),
    report_every: Annotated[
        float,
        option("report-every", "How often what a member has is looked at.", "SECONDS", min=1, max=600),
    ] = _DEFAULTS.report_every,
    health_port: HealthPort = _DEFAULTS.health_port,
    bind_address: BindAddress = _DEFAULTS.bind_address,
    log_level: LogLevel = Level.INFO,
    lease_ttl: LeaseTtl = DEFAULT_LEASE_TTL,
    end_with: Annotated[int, typer.Option(min=0, metavar="PID", hidden=True, help="Ends at once when this does.")] = 0,
    format_: FormatOption = ClusterFormat.KUBERNETES,
    connection: ConnectionOptions,
    serving: ServingChoices,
) -> None:
    """Join member clusters to the hub, apply what placements deliver, and report what each has.

    The connection options are the hub's. A second process on the same members stands by, and takes over when the first
    one dies. SIGTERM or Ctrl-C stops it.
    """
    if end_with:
        from wharfinger.runtime.ending_with import end_with as watch

        watch(end_with)
    import uvloop

    from wharfinger.member import run_members
    from wharfinger.observe.logs import quiet_sdk, write_lines

    settings = MemberAgentSettings(
        members_dir=members_dir,
        etcd=connection.etcd,
        format=format_,
        bind_address=bind_address,
        health_port=health_port,
        lease=LeaseSettings(ttl=lease_ttl),
        report_every=report_every,
    )
    write_lines(log_level.value, serving.logging_format.value)
    quiet_sdk()
    code = uvloop.run(run_members(settings, serving.at(bind_address, health_port)))
    if code:
        raise typer.Exit(code)

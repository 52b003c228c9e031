"""`wharfinger worker`: one scheduler process."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from wharfinger.cli.options import (
    DEFAULT_LEASE_TTL,
    DEFAULT_MAX_TXN_OPS,
    RUN,
    Cohorts,
    CohortsOption,
    ConfigOption,
    Connection,
    Eviction,
    EvictionMode,
    LeaseTtl,
    MaxTxnOps,
    connected,
    variable,
)
from wharfinger.settings import BindSettings, DispatchSettings, LeaseSettings, WorkerSettings

_DEFAULTS = WorkerSettings()


class Dispatch(StrEnum):
    """Which attempts a worker starts."""

    SHARDED = "sharded"
    NONE = "none"


class Level(StrEnum):
    """How much a worker says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker", rich_help_panel=RUN)(worker)


@connected
def worker(
    *,
    dispatch: Annotated[
        Dispatch,
        typer.Option(
            "--dispatch",
            envvar=variable("dispatch"),
            show_envvar=False,
            help="`sharded`: start attempts for this worker's share of the pods. `none`: run only what others start.",
        ),
    ] = Dispatch.SHARDED,
    health_port: Annotated[
        int,
        typer.Option(
            "--health-port",
            envvar=variable("health-port"),
            show_envvar=False,
            min=-1,
            max=65535,
            help="Port of /livez, /readyz and /metrics. 0: any free one, -1: none.",
        ),
    ] = _DEFAULTS.health_port,
    bind_address: Annotated[
        str,
        typer.Option(
            "--bind-address",
            envvar=variable("bind-address"),
            show_envvar=False,
            metavar="ADDRESS",
            help="Where the health endpoints listen.",
        ),
    ] = _DEFAULTS.bind_address,
    lease_ttl: LeaseTtl = DEFAULT_LEASE_TTL,
    config: ConfigOption = None,
    eviction: EvictionMode = Eviction.GRACEFUL,
    cohorts: CohortsOption = Cohorts.AUTO,
    max_txn_ops: MaxTxnOps = DEFAULT_MAX_TXN_OPS,
    own_node_margin: Annotated[
        int,
        typer.Option(
            "--own-node-margin",
            envvar=variable("own-node-margin"),
            show_envvar=False,
            min=0,
            max=100,
            metavar="POINTS",
            help="How much worse than the best a node of this worker's own may score to go first, so that several "
            "workers seldom contend. 0: the best node always.",
        ),
    ] = _DEFAULTS.binding.own_node_margin,
    log_level: Annotated[
        Level,
        typer.Option("--log-level", envvar=variable("log-level"), show_envvar=False, help="How much is said."),
    ] = Level.INFO,
    connection: Connection,
) -> None:
    """Place pods: run one scheduler process until it is told to stop.

    Any number may run beside each other; they share the pods out. The first SIGTERM or Ctrl-C
    finishes what is being done, the second ends the process at once. A configuration that is wrong
    is told line by line, with exit code 2.
    """
    import uvloop

    from wharfinger.observe.logs import quiet_sdk, write_lines
    from wharfinger.worker import run_worker

    write_lines(log_level.value)
    quiet_sdk()
    settings = WorkerSettings(
        etcd=replace(connection.etcd, max_txn_ops=max_txn_ops),
        temporal=connection.temporal,
        cluster=connection.cluster,
        tenant=connection.tenant,
        dispatch=dispatch.value,
        config=config,
        bind_address=bind_address,
        health_port=health_port,
        lease=LeaseSettings(ttl=lease_ttl),
        binding=BindSettings(own_node_margin=own_node_margin),
        eviction=eviction.value,
        dispatching=DispatchSettings(cohorts=cohorts is Cohorts.AUTO),
    )
    code = uvloop.run(run_worker(settings))
    if code:
        raise typer.Exit(code)

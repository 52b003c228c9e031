"""`wharfinger member`: the agents of member clusters, which apply what placements deliver, and report."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.process_options import ServingChoices
from wharfinger.cli.processes.running import run_process
from wharfinger.programs.process_settings import MemberAgentSettings


@configured
def member(*, settings: MemberAgentSettings, serving: ServingChoices, connection: ConnectionOptions) -> None:
    """Join member clusters to the hub, apply what placements deliver, and report what each has.

    The connection options are the hub's. A second process on the same members stands by, and takes over when the first
    one dies. SIGTERM or Ctrl-C stops it.
    """

    def main() -> Coroutine[Any, Any, int]:
        from wharfinger.programs.member import run_members

        served = serving.at(settings.bind_address, settings.health_port)
        return run_members(replace(settings, etcd=connection.etcd), served)

    run_process(main, end_with=settings.end_with, log_level=settings.log_level, log_format=serving.logging_format)

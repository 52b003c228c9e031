"""`wharfinger ui`: the web page for operators."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.running import run_process
from wharfinger.options import setting
from wharfinger.page.options import PageOptions
from wharfinger.settings import LogLevel, log_level_option


@dataclass(frozen=True, slots=True)
class UiOptions:
    """How the process runs."""

    log_level: LogLevel = log_level_option()
    end_with: int = setting(0, "Ends at once when this does.", "PID", min=0, hidden=True)


@configured
def ui(*, options: PageOptions, process: UiOptions, connection: ConnectionOptions) -> None:
    """Serve the web page: overview, cluster map, waiting pods, single pods, gangs, fleets. Nothing is changed by
    it, unless --allow-actions or --allow-actions-to.

    It follows etcd as a worker does, and asks Temporal only for what is opened. It prints a one-time link, which lets
    one browser in; when that was used, the next one, unless tokens or client certificates let in others. SIGTERM or
    Ctrl-C stops it.
    """

    def main() -> Coroutine[Any, Any, int]:
        from wharfinger.programs.page_process import run_page

        return run_page(
            options,
            connection.etcd,
            connection.temporal,
            cluster=connection.cluster,
            format_=connection.format,
            say=lambda link: typer.echo(
                f"The page, for one browser: {link}"
                if options.link_file is None
                else f"The link is in {options.link_file}"
            ),
        )

    run_process(main, end_with=process.end_with, log_level=process.log_level)

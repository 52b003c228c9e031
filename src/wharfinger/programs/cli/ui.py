"""`wharfinger ui`: the web page for operators."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import typer

from wharfinger.cli.options import RUN, ConnectionOptions, configured
from wharfinger.cli.processes.running import run_process
from wharfinger.options import nested, setting
from wharfinger.page.options import PORT, ScrapeOptions, page_options
from wharfinger.settings import LogLevel, log_level_option

_access = partial(setting, panel="Access")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ui", rich_help_panel=RUN)(ui)


@dataclass(frozen=True, slots=True)
class PageChoices:
    """What the options said: the parameters of `page_options`."""

    port: int = setting(PORT, "Where the page listens. 0: any free one.", "PORT", min=0, max=65535)
    address: str = setting(
        "127.0.0.1",
        "Where the page listens. Elsewhere than on loopback only over TLS.",
        "ADDRESS",
        name="bind-address",
    )
    hosts: tuple[str, ...] = _access(
        (), "A name by which browsers call the page; repeat for more.", "NAME", name="host", variable=False
    )
    static_token_file: Path | None = _access(None, "Tokens that open the page. Lines: TOKEN,USER,UID.", "FILE")
    client_ca_file: Path | None = _access(
        None, "Certificates of these authorities (PEM) open the page; needs TLS.", "FILE"
    )
    cert_file: Path | None = _access(
        None, "Serve over TLS with this certificate and its chain (PEM).", "FILE", name="tls-cert-file"
    )
    key_file: Path | None = _access(None, "Private key of --tls-cert-file (PEM).", "FILE", name="tls-private-key-file")
    link_file: Path | None = _access(
        None, "Keep the one-time link that is good now in this file, for this user only.", "FILE"
    )
    temporal_ui: str = setting("", "Base URL of Temporal's UI: attempts are linked there.", "URL", shown="no links")
    scrape: ScrapeOptions = nested(ScrapeOptions)
    allow_actions: bool = _access(
        False,
        "Let viewers pause, resume, promote, abort and undo rollouts, and approve, stop, resume and retry update runs.",
    )
    actor_groups: tuple[str, ...] = _access(
        (),
        "Let only members of this group do what --allow-actions lets all do; repeat for more. Tokens name groups in "
        "their fourth field, certificates as organisations.",
        "GROUP",
        name="allow-actions-to",
        variable=False,
        shown="all viewers, with --allow-actions",
    )
    replays_dir: Path | None = setting(
        None, "Show the reports of this folder: `wharfinger replay --keep-in` writes them.", "DIR"
    )


@dataclass(frozen=True, slots=True)
class UiOptions:
    """How the process runs."""

    log_level: LogLevel = log_level_option()
    end_with: int = setting(0, "Ends at once when this does.", "PID", min=0, hidden=True)


@configured
def ui(*, choices: PageChoices, process: UiOptions, connection: ConnectionOptions) -> None:
    """Serve the web page: overview, cluster map, waiting pods, single pods, gangs, fleets. Nothing is changed by
    it, unless --allow-actions or --allow-actions-to.

    It follows etcd as a worker does, and asks Temporal only for what is opened. It prints a one-time link, which lets
    one browser in; when that was used, the next one, unless tokens or client certificates let in others. SIGTERM or
    Ctrl-C stops it.
    """
    options = page_options(**{one.name: getattr(choices, one.name) for one in fields(choices)})

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

"""`wharfinger ui`: the web page for operators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli.options import RUN, ConnectionOptions, connected, option, variable
from wharfinger.cli.processes.process_options import Level, LogLevel
from wharfinger.page.options import PORT

PANEL_ACCESS = "Access"
PANEL_METRICS = "Metrics"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ui", rich_help_panel=RUN)(ui)


def _file(name: str, text: str, panel: str) -> object:
    return option(name, text, "FILE", panel=panel)


@connected
def ui(
    *,
    port: Annotated[int, option("port", "Where the page listens. 0: any free one.", "PORT", min=0, max=65535)] = PORT,
    bind_address: Annotated[
        str, option("bind-address", "Where the page listens. Elsewhere than on loopback only over TLS.", "ADDRESS")
    ] = "127.0.0.1",
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="A name by which browsers call the page; repeat for more.",
            rich_help_panel=PANEL_ACCESS,
        ),
    ] = None,
    static_token_file: Annotated[
        Path | None, _file("static-token-file", "Tokens that open the page. Lines: TOKEN,USER,UID.", PANEL_ACCESS)
    ] = None,
    client_ca_file: Annotated[
        Path | None,
        _file("client-ca-file", "Certificates of these authorities (PEM) open the page; needs TLS.", PANEL_ACCESS),
    ] = None,
    tls_cert_file: Annotated[
        Path | None, _file("tls-cert-file", "Serve over TLS with this certificate and its chain (PEM).", PANEL_ACCESS)
    ] = None,
    tls_private_key_file: Annotated[
        Path | None, _file("tls-private-key-file", "Private key of --tls-cert-file (PEM).", PANEL_ACCESS)
    ] = None,
    link_file: Annotated[
        Path | None,
        _file("link-file", "Keep the one-time link that is good now in this file, for this user only.", PANEL_ACCESS),
    ] = None,
    temporal_ui: Annotated[
        str, option("temporal-ui", "Base URL of Temporal's UI: attempts are linked there.", "URL", shown="no links")
    ] = "",
    metrics_token_file: Annotated[
        Path | None,
        _file(
            "metrics-token-file",
            "Holds the token for workers' metrics; over a network it needs --metrics-ca-file.",
            PANEL_METRICS,
        ),
    ] = None,
    metrics_ca_file: Annotated[
        Path | None, _file("metrics-ca-file", "Authorities of the workers' certificates (PEM).", PANEL_METRICS)
    ] = None,
    metrics_cert_file: Annotated[
        Path | None,
        _file("metrics-cert-file", "The client certificate by which metrics are read (PEM).", PANEL_METRICS),
    ] = None,
    metrics_key_file: Annotated[
        Path | None, _file("metrics-key-file", "Private key of --metrics-cert-file (PEM).", PANEL_METRICS)
    ] = None,
    metrics_host: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics-host",
            metavar="HOST",
            help="Where workers and hubs may be whose metrics are read: a name, *.SUFFIX, an address or a network; "
            "repeat for more.",
            show_default="this machine",
            rich_help_panel=PANEL_METRICS,
        ),
    ] = None,
    etcd_metrics_url: Annotated[
        list[str] | None,
        typer.Option(
            "--etcd-metrics-url",
            metavar="URL",
            help="Where a member of etcd serves its metrics; repeat for more.",
            show_default="the endpoints of etcd",
            rich_help_panel=PANEL_METRICS,
        ),
    ] = None,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            envvar=variable("allow-actions"),
            show_envvar=False,
            rich_help_panel=PANEL_ACCESS,
            help="Let viewers pause, resume, promote, abort and undo rollouts, and approve, stop, resume and retry "
            "update runs.",
        ),
    ] = False,
    allow_actions_to: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-actions-to",
            metavar="GROUP",
            help="Let only members of this group do what --allow-actions lets all do; repeat for more. Tokens name "
            "groups in their fourth field, certificates as organisations.",
            show_default="all viewers, with --allow-actions",
            rich_help_panel=PANEL_ACCESS,
        ),
    ] = None,
    replays_dir: Annotated[
        Path | None,
        option("replays-dir", "Show the reports of this folder: `wharfinger replay --keep-in` writes them.", "DIR"),
    ] = None,
    log_level: LogLevel = Level.INFO,
    end_with: Annotated[int, typer.Option(min=0, metavar="PID", hidden=True, help="Ends at once when this does.")] = 0,
    connection: ConnectionOptions,
) -> None:
    """Serve the web page: overview, cluster map, waiting pods, single pods, gangs, fleets. Nothing is changed by
    it, unless --allow-actions or --allow-actions-to.

    It follows etcd as a worker does, and asks Temporal only for what is opened. It prints a one-time link, which lets
    one browser in; when that was used, the next one, unless tokens or client certificates let in others. SIGTERM or
    Ctrl-C stops it.
    """
    if end_with:
        from wharfinger.runtime.ending_with import end_with as watch

        watch(end_with)
    import uvloop

    from wharfinger.observe.logs import quiet_sdk, write_lines
    from wharfinger.page.options import ScrapeOptions, page_options
    from wharfinger.page_process import run_page

    options = page_options(
        bind_address,
        port,
        hosts=tuple(host or ()),
        cert_file=tls_cert_file,
        key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
        static_token_file=static_token_file,
        link_file=link_file,
        temporal_ui=temporal_ui,
        allow_actions=allow_actions,
        actor_groups=tuple(allow_actions_to or ()),
        replays_dir=replays_dir,
        scrape=ScrapeOptions(
            metrics_token_file,
            metrics_ca_file,
            metrics_cert_file,
            metrics_key_file,
            tuple(metrics_host or ()),
            tuple(url.rstrip("/") for url in etcd_metrics_url or ()),
        ),
    )
    write_lines(log_level.value)
    quiet_sdk()
    code = uvloop.run(
        run_page(
            options,
            connection.etcd,
            connection.temporal,
            cluster=connection.cluster,
            format_=connection.format,
            say=lambda link: typer.echo(
                f"The page, for one browser: {link}" if link_file is None else f"The link is in {link_file}"
            ),
        )
    )
    if code:
        raise typer.Exit(code)

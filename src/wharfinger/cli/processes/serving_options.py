"""The options by which every process serves its pages, and `serves`, which gives them to a command.

Without any of them health pages and metrics are plain HTTP, and metrics are readable on loopback only. The command
`kube-scheduler` has kube-scheduler's own options instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from wharfinger.cli.option_groups import grouped
from wharfinger.cli.options import option, variable
from wharfinger.serving.options import ServingOptions, of_process

PANEL = "Serving"
"""Panel of these options in a command's help."""


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ServingChoices:
    """What the options said."""

    metrics_open: bool = False
    allowed_host: list[str] | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    client_ca_file: Path | None = None
    static_token_file: Path | None = None
    logging_format: LogFormat = LogFormat.TEXT

    def at(self, address: str, port: int) -> ServingOptions:
        """How the process serves on this address. Raises `UsageError`."""
        return of_process(
            address,
            port,
            metrics_open=self.metrics_open,
            allowed_hosts=tuple(self.allowed_host or ()),
            cert_file=self.tls_cert_file,
            key_file=self.tls_private_key_file,
            client_ca_file=self.client_ca_file,
            static_token_file=self.static_token_file,
        )

    def arguments(self) -> tuple[str, ...]:
        """The same options for another process here, which may be of an earlier release: defaults are left out."""
        files = {
            "tls-cert-file": self.tls_cert_file,
            "tls-private-key-file": self.tls_private_key_file,
            "client-ca-file": self.client_ca_file,
            "static-token-file": self.static_token_file,
        }
        return (
            *(["--metrics-open"] if self.metrics_open else []),
            *(f"--allowed-host={name}" for name in self.allowed_host or ()),
            *(f"--{name}={path.resolve()}" for name, path in files.items() if path is not None),
            *(["--logging-format=json"] if self.logging_format is LogFormat.JSON else []),
        )


def _file(name: str, text: str) -> Any:
    return Annotated[Path | None, option(name, text, "FILE", panel=PANEL)]


_OPTIONS: Mapping[str, Any] = {
    "metrics_open": Annotated[
        bool,
        typer.Option(
            "--metrics-open",
            envvar=variable("metrics-open"),
            show_envvar=False,
            rich_help_panel=PANEL,
            help="Serve /metrics without credentials also where --bind-address is not loopback.",
        ),
    ],
    "allowed_host": Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            envvar=variable("allowed-host"),
            show_envvar=False,
            rich_help_panel=PANEL,
            show_default="addresses, names without a dot, and names of private networks",
            help="Let plain HTTP be called by this name, too: others are refused, because a web page may be behind "
            "them; repeat for more.",
        ),
    ],
    "tls_cert_file": _file(
        "tls-cert-file",
        "Serve over TLS with this certificate and its chain (PEM), and require credentials for all pages but health.",
    ),
    "tls_private_key_file": _file("tls-private-key-file", "Private key of --tls-cert-file (PEM)."),
    "client_ca_file": _file(
        "client-ca-file",
        "Callers with a certificate of these authorities (PEM) may read metrics; turns TLS on.",
    ),
    "static_token_file": _file(
        "static-token-file",
        "Callers with a token of this file may read metrics; turns TLS on. Lines: TOKEN,USER,UID.",
    ),
    "logging_format": Annotated[
        LogFormat, option("logging-format", "Log lines as text, or as JSON in the form of Kubernetes.", panel=PANEL)
    ],
}
"""Field of `ServingChoices` -> annotation."""


_DEFAULTS = {field.name: field.default for field in fields(ServingChoices)}

serves = grouped(
    "serving", {name: (annotation, _DEFAULTS[name]) for name, annotation in _OPTIONS.items()}, ServingChoices
)
"""Gives a command these options, and its function one `ServingChoices` as its parameter `serving`."""

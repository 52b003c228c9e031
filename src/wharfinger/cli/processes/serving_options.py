"""The options by which every process serves its pages.

Without any of them health pages and metrics are plain HTTP, and metrics are readable on loopback only. The command
`kube-scheduler` has kube-scheduler's own options instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from wharfinger.options import setting
from wharfinger.serving.options import ServingOptions, of_process

_serving = partial(setting, panel="Serving")


@dataclass(frozen=True, slots=True)
class ServingChoices:
    """What the options said."""

    metrics_open: bool = _serving(
        False, "Serve /metrics without credentials also where --bind-address is not loopback."
    )
    allowed_host: tuple[str, ...] = _serving(
        (),
        "Let plain HTTP be called by this name, too: others are refused, because a web page may be behind them; repeat "
        "for more.",
        "NAME",
        shown="addresses, names without a dot, and names of private networks",
    )
    tls_cert_file: Path | None = _serving(
        None,
        "Serve over TLS with this certificate and its chain (PEM), and require credentials for all pages but health.",
        "FILE",
    )
    tls_private_key_file: Path | None = _serving(None, "Private key of --tls-cert-file (PEM).", "FILE")
    client_ca_file: Path | None = _serving(
        None, "Callers with a certificate of these authorities (PEM) may read metrics; turns TLS on.", "FILE"
    )
    static_token_file: Path | None = _serving(
        None,
        "Callers with a token of this file may read metrics; turns TLS on. Lines: TOKEN,USER,UID.",
        "FILE",
    )
    logging_format: Literal["text", "json"] = _serving(
        "text", "Log lines as text, or as JSON in the form of Kubernetes."
    )

    def at(self, address: str, port: int) -> ServingOptions:
        """How the process serves on this address. Raises `UsageError`."""
        return of_process(
            address,
            port,
            metrics_open=self.metrics_open,
            allowed_hosts=self.allowed_host,
            cert_file=self.tls_cert_file,
            key_file=self.tls_private_key_file,
            client_ca_file=self.client_ca_file,
            static_token_file=self.static_token_file,
        )

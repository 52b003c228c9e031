"""How the page is served and what it asks: where it listens, who may look, and how workers' metrics are read.

Quick to import, because the command line does.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wharfinger.errors import UsageError
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.options import nested, setting
from wharfinger.serving.options import AuthenticationOptions, TlsOptions

PORT = 10280
"""Where the page listens unless told otherwise."""
MOST_HOSTS = 64
LONGEST_GROUP = 253
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]|\d{1,3}(\.\d{1,3}){3}")
_access = partial(setting, panel="Access")
_metrics = partial(setting, panel="Metrics")


@dataclass(frozen=True, slots=True)
class ScrapeOptions:
    """The page's own credential for `/metrics` of workers; without one, only workers that ask for none are read."""

    token_file: Path | None = _metrics(
        None,
        "Holds the token for workers' metrics; over a network it needs --metrics-ca-file.",
        "FILE",
        name="metrics-token-file",
    )
    """One line; it is sent on loopback, and over TLS where `ca_file` is given."""
    ca_file: Path | None = _metrics(
        None, "Authorities of the workers' certificates (PEM).", "FILE", name="metrics-ca-file"
    )
    """None = the system's, to which no token is sent."""
    cert_file: Path | None = _metrics(
        None, "The client certificate by which metrics are read (PEM).", "FILE", name="metrics-cert-file"
    )
    key_file: Path | None = _metrics(None, "Private key of --metrics-cert-file (PEM).", "FILE", name="metrics-key-file")
    hosts: tuple[str, ...] = _metrics(
        (),
        "Where workers and hubs may be whose metrics are read: a name, *.SUFFIX, an address or a network; repeat for "
        "more.",
        "HOST",
        name="metrics-host",
        variable=False,
        shown="this machine",
    )
    """As `page.follow.scraping.FollowedHosts` reads them."""
    etcd_urls: tuple[str, ...] = _metrics(
        (),
        "Where a member of etcd serves its metrics; repeat for more.",
        "URL",
        name="etcd-metrics-url",
        variable=False,
        shown="the endpoints of etcd",
        read=lambda urls: tuple(url.rstrip("/") for url in urls),
    )

    def __post_init__(self) -> None:
        wrong = next((url for url in self.etcd_urls if not re.fullmatch(r"https?://[^\s\"'<>/@?#]{1,300}", url)), None)
        if wrong is not None:
            raise UsageError(f"--etcd-metrics-url: {wrong[:80]!r} is no http(s)://HOST:PORT")
        if (self.cert_file is None) is not (self.key_file is None):
            raise UsageError("--metrics-cert-file and --metrics-key-file belong together: give both, or neither")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """All that the page's server is started with. Raises `UsageError` where the page would be readable on the way."""

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
    """None = it is printed only."""
    temporal_ui: str = setting(
        "",
        "Base URL of Temporal's UI: attempts are linked there.",
        "URL",
        shown="no links",
        read=lambda url: url.rstrip("/"),
    )
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
    """Viewers that came by a link are in no group."""
    replays_dir: Path | None = setting(
        None, "Show the reports of this folder: `wharfinger replay --keep-in` writes them.", "DIR"
    )

    def __post_init__(self) -> None:
        if self.cert_file is None and not is_loopback(self.address):
            raise UsageError(
                f"--bind-address {self.address}: the page is served on other addresses than loopback only over TLS: "
                "give --tls-cert-file and --tls-private-key-file"
            )
        if self.client_ca_file is not None and self.cert_file is None:
            raise UsageError(
                "--client-ca-file: certificates of clients are asked for over TLS only: give --tls-cert-file"
            )
        wrong = next((host for host in self.named_hosts if not _HOST.fullmatch(host)), None)
        if wrong is not None or len(self.hosts) > MOST_HOSTS:
            raise UsageError(
                f"--host {(wrong or '')[:80]!r} is no name of a host (without a port), or there are too many"
            )
        if any(not group or len(group) > LONGEST_GROUP or not group.isprintable() for group in self.actor_groups):
            raise UsageError(f"--allow-actions-to: a group is 1 to {LONGEST_GROUP} printable characters")
        if self.actor_groups and not self.has_credentials:
            raise UsageError(
                "--allow-actions-to: groups come with tokens and certificates: give --static-token-file or "
                "--client-ca-file"
            )
        if self.temporal_ui and not re.fullmatch(r"https?://[^\s\"'<>]{1,500}", self.temporal_ui):
            raise UsageError(f"--temporal-ui: {self.temporal_ui[:80]!r} is no http(s) URL")

    @property
    def tls(self) -> TlsOptions | None:
        """None = plain HTTP, on loopback only."""
        return TlsOptions(self.cert_file, self.key_file, pair_name="wharfinger-ui") if self.cert_file else None

    @property
    def authentication(self) -> AuthenticationOptions:
        """Whose tokens and certificates open the page."""
        return AuthenticationOptions(self.client_ca_file, self.static_token_file)

    @property
    def named_hosts(self) -> tuple[str, ...]:
        """The names that were given, in lower case."""
        return tuple(host.strip().lower() for host in self.hosts)

    @property
    def takes_actions(self) -> bool:
        """Whether rollouts and staged runs may be changed."""
        return self.allow_actions or bool(self.actor_groups)

    def may_act(self, groups: Iterable[str]) -> bool:
        """Whether a viewer of these groups may change something."""
        return self.takes_actions and (not self.actor_groups or not set(groups).isdisjoint(self.actor_groups))

    @property
    def has_credentials(self) -> bool:
        """Whether viewers come in by tokens or certificates, so that no second link is needed."""
        return self.static_token_file is not None or self.client_ca_file is not None

    def allowed_hosts(self) -> frozenset[str]:
        """What the Host header may name, without the port."""
        own = set() if is_loopback(self.address) else {socket.gethostname().lower()}
        if is_loopback(self.address) or self.everywhere:
            own |= {"localhost", "127.0.0.1", "[::1]"}  # a name that was made to point here is none of them
        if not self.everywhere and self.address != "localhost":
            own.add(f"[{self.address}]" if ":" in self.address else self.address.lower())
        return frozenset(own | set(self.named_hosts))

    @property
    def everywhere(self) -> bool:
        """Whether it listens on every address of the machine: such an address is no name of it."""
        return self.address in ("", "0.0.0.0", "::")  # noqa: S104 - the user asks for it

    @property
    def announced(self) -> str:
        """The host of the links that are announced; one that `allowed_hosts` has. IPv6 without brackets."""
        if not self.everywhere:
            return self.address
        return self.named_hosts[0].strip("[]") if self.hosts else socket.gethostname().lower()

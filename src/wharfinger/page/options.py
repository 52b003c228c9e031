"""How the page is served and what it asks: where it listens, who may look, and how workers' metrics are read.

Quick to import, because the command line does.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from wharfinger.errors import UsageError
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.options import setting
from wharfinger.serving.options import AuthenticationOptions, TlsOptions

PORT = 10280
"""Where the page listens unless told otherwise."""
MOST_HOSTS = 64
LONGEST_GROUP = 253
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]|\d{1,3}(\.\d{1,3}){3}")
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
    """As `page.follow.followed_hosts` reads them."""
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
    """All that the page's server is started with."""

    address: str = "127.0.0.1"
    port: int = PORT
    """0 = any free one."""
    tls: TlsOptions | None = None
    """None = plain HTTP, on loopback only."""
    authentication: AuthenticationOptions = field(default_factory=AuthenticationOptions)
    hosts: tuple[str, ...] = ()
    """More names by which browsers may call the page, lower case."""
    link_file: Path | None = None
    """Where the one-time link that is good now is kept; None = it is printed only."""
    temporal_ui: str = ""
    """Base URL of Temporal's own UI; empty = nothing is linked."""
    scrape: ScrapeOptions = field(default_factory=ScrapeOptions)
    allow_actions: bool = False
    """Whether rollouts and staged runs may be changed."""
    actor_groups: tuple[str, ...] = ()
    """Whose members may change them; the others, and who came by a link, may only look. Empty = all may."""
    replays_dir: Path | None = None
    """Where reports are that `replay --keep-in` wrote; None = none are shown."""

    def may_act(self, groups: Iterable[str]) -> bool:
        """Whether a viewer of these groups may change something."""
        return self.allow_actions and (not self.actor_groups or not set(groups).isdisjoint(self.actor_groups))

    @property
    def has_credentials(self) -> bool:
        """Whether viewers come in by tokens or certificates, so that no second link is needed."""
        return self.authentication.static_token_file is not None or self.authentication.client_ca_file is not None

    def allowed_hosts(self) -> frozenset[str]:
        """What the Host header may name, without the port."""
        own = set() if is_loopback(self.address) else {socket.gethostname().lower()}
        if is_loopback(self.address) or self.everywhere:
            own |= {"localhost", "127.0.0.1", "[::1]"}  # a name that was made to point here is none of them
        if not self.everywhere and self.address != "localhost":
            own.add(f"[{self.address}]" if ":" in self.address else self.address.lower())
        return frozenset(own | set(self.hosts))

    @property
    def everywhere(self) -> bool:
        """Whether it listens on every address of the machine: such an address is no name of it."""
        return self.address in ("", "0.0.0.0", "::")  # noqa: S104 - the user asks for it

    @property
    def announced(self) -> str:
        """The host of the links that are announced; one that `allowed_hosts` has. IPv6 without brackets."""
        if not self.everywhere:
            return self.address
        return self.hosts[0].strip("[]") if self.hosts else socket.gethostname().lower()


def page_options(
    address: str,
    port: int,
    *,
    hosts: tuple[str, ...] = (),
    cert_file: Path | None = None,
    key_file: Path | None = None,
    client_ca_file: Path | None = None,
    static_token_file: Path | None = None,
    link_file: Path | None = None,
    temporal_ui: str = "",
    scrape: ScrapeOptions | None = None,
    allow_actions: bool = False,
    actor_groups: tuple[str, ...] = (),
    replays_dir: Path | None = None,
) -> PageOptions:
    """Put the options together. Raises `UsageError` where the page would be readable on the way."""
    loopback = is_loopback(address)
    if cert_file is None and not loopback:
        raise UsageError(
            f"--bind-address {address}: the page is served on other addresses than loopback only over TLS: give "
            "--tls-cert-file and --tls-private-key-file"
        )
    if client_ca_file is not None and cert_file is None:
        raise UsageError("--client-ca-file: certificates of clients are asked for over TLS only: give --tls-cert-file")
    named = tuple(host.strip().lower() for host in hosts)
    wrong = next((host for host in named if not _HOST.fullmatch(host)), None)
    if wrong is not None or len(named) > MOST_HOSTS:
        raise UsageError(f"--host {(wrong or '')[:80]!r} is no name of a host (without a port), or there are too many")
    if any(not group or len(group) > LONGEST_GROUP or not group.isprintable() for group in actor_groups):
        raise UsageError(f"--allow-actions-to: a group is 1 to {LONGEST_GROUP} printable characters")
    if actor_groups and static_token_file is None and client_ca_file is None:
        raise UsageError(
            "--allow-actions-to: groups come with tokens and certificates: give --static-token-file or --client-ca-file"
        )
    if temporal_ui and not re.fullmatch(r"https?://[^\s\"'<>]{1,500}", temporal_ui):
        raise UsageError(f"--temporal-ui: {temporal_ui[:80]!r} is no http(s) URL")
    return PageOptions(
        address=address,
        port=port,
        tls=TlsOptions(cert_file, key_file, pair_name="wharfinger-ui") if cert_file is not None else None,
        authentication=AuthenticationOptions(client_ca_file, static_token_file),
        hosts=named,
        link_file=link_file,
        temporal_ui=temporal_ui.rstrip("/"),
        scrape=scrape or ScrapeOptions(),
        allow_actions=allow_actions or bool(actor_groups),
        actor_groups=actor_groups,
        replays_dir=replays_dir,
    )

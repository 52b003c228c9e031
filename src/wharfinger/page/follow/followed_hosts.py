"""Which hosts the page asks for metrics. Addresses in etcd are written by any client, so not all are followed.

Without more, only addresses of this machine are: loopback, its own name, and the unspecified address, which connects to
loopback. `--metrics-host` adds names, `*.SUFFIX`, addresses and networks.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from wharfinger.errors import UsageError
from wharfinger.objects.model.addresses import is_loopback

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class FollowedHosts:
    """The hosts of one page."""

    def __init__(self, hosts: Iterable[str] = (), *, own: str | None = None) -> None:
        """`hosts`: as `--metrics-host` gives them; `own`: the machine's name, None = as the system says.

        Raises `UsageError`.
        """
        self._names = {own.lower() if own is not None else socket.gethostname().lower()}
        self._suffixes: list[str] = []
        self._networks: list[Network] = []
        for host in (host.strip().lower() for host in hosts):
            if host.startswith("*."):
                self._suffixes.append(host[1:])
            elif (network := _network(host)) is not None:
                self._networks.append(network)
            elif host and not set(host) & set("/*:@?# "):
                self._names.add(host)
            else:
                raise UsageError(f"--metrics-host {host[:80]!r} is no host, *.SUFFIX, address or network")

    def follow(self, url: str) -> bool:
        """Whether the page may ask this URL."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").removesuffix(".")
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or "@" in parts.netloc or not host:
            return False
        if is_loopback(host) or host in self._names or host.endswith(tuple(self._suffixes)):
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_unspecified or any(address in network for network in self._networks)


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None

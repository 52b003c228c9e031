"""Which names a server may be called by: it prevents DNS rebinding.

Another site's name is made to point at our address, so that a browser takes our pages for that site's. Such a request
has that name in its Host header. Allowed are addresses, names that cannot be registered in the public DNS, the
machine's own name and those of `--allowed-host`.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

PRIVATE = (".svc", ".cluster.local", ".local", ".internal", ".localhost", ".home.arpa")
"""Ends of names that have no meaning in the public DNS: those of Kubernetes' services, and RFC 6762, 6761 and 8375."""


class AllowedHosts:
    """The names of one server."""

    def __init__(self, more: Iterable[str] = (), *, own: str | None = None) -> None:
        """`more`: as `--allowed-host` gives them; `own`: the machine's name, None = as the system says."""
        self._names = frozenset(name.lower() for name in (*more, own if own is not None else socket.gethostname()))

    def allow(self, header: str | None) -> bool:
        """Whether a Host header may call this server; without one no browser has sent the request."""
        if header is None:
            return True
        host = host_of(header)
        if host in self._names or host.endswith(PRIVATE):
            return True
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return bool(host) and "." not in host  # a name without a dot is looked up in this network alone
        return True


def host_of(header: str) -> str:
    """The host that a Host header names: lower case, without the port and a last dot; IPv6 in brackets."""
    text = header.strip().lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].removesuffix(".")

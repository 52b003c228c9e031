"""Where an API server is and who we are there: what a kubeconfig, or a pod's service account, comes down to.

`kubeconfig.py` and `in_cluster.py` make it, `transport.py` uses it. Nothing secret is in any `repr`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ApiIdentity:
    """What is shown to the server with each request; without both, we are anonymous."""

    token: str = field(default="", repr=False)
    """Bearer token."""
    username: str = ""
    """Of basic authentication, for a proxy that asks for it; servers of today do not."""
    password: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    """PEM, with its chain; empty = no client certificate."""
    key: bytes = field(default=b"", repr=False)
    """PEM, of the certificate."""


class Credentials(Protocol):
    """Who we are now. Files and plugins behind it are read again when they are due."""

    async def current(self) -> ApiIdentity:
        """The identity for the next request; quick where nothing is due. Raises `UpstreamDenied`, with one line
        that names the file or the plugin, when there is none to be had.
        """

    def refused(self) -> None:
        """The server answered 401: `current` reads everything again the next time."""


@dataclass(frozen=True, slots=True)
class Access:
    """One API server, as one user."""

    server: str
    """`https://host:port`, perhaps with a path; `http` only where the file says so."""
    credentials: Credentials = field(repr=False)
    ca: bytes = field(default=b"", repr=False)
    """PEM of the authorities that may sign the server's certificate; empty = the system's."""
    verify: bool = True
    """False only where the user asked for it twice: in the file and by `--allow-insecure-upstream`."""
    tls_server_name: str = ""
    """Name that the certificate must have; empty = the host of the URL."""
    proxy: str = field(default="", repr=False)
    """`http://` or `https://` URL of a proxy, perhaps with a password; empty = none."""
    namespace: str = ""
    """What the context names; empty = `default`."""

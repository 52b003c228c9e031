"""Where the servers of a tree listen: the address and ports that are named, and which port to prefer otherwise."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from wharfinger.errors import ServerError, UsageError
from wharfinger.process.children.ports import free_port, is_free


def check_address(host: str) -> None:
    """Raise `UsageError` for what is no IPv4 address of this machine: the servers take no names."""
    try:
        free_port(str(ipaddress.IPv4Address(host)))
    except ValueError:
        raise UsageError(f"--bind-address: {host!r} is no IPv4 address, such as 127.0.0.1 or 0.0.0.0") from None
    except OSError as error:
        raise UsageError(f"--bind-address: nothing here can listen on {host} ({error.strerror})") from None


def required(port: int, option: str, host: str = "127.0.0.1") -> int:
    """The named port; raises `ServerError` when it is taken."""
    if not is_free(port, host):
        raise ServerError(f"{option}: port {port} is taken by another process")
    return port


def preferred(candidates: Iterable[int | None], host: str = "127.0.0.1", *, taken: Iterable[int] = ()) -> int:
    """The first candidate that is free and not in `taken`, else any free port."""
    used = set(taken)
    for port in candidates:
        if port and port not in used and is_free(port, host):
            return port
    while True:
        free = free_port(host)
        if free not in used:
            return free

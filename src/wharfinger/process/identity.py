"""Who this process is to Temporal and to the other agents."""

from __future__ import annotations

import os
import socket
from importlib.metadata import PackageNotFoundError, version


def identity() -> str:
    """This process among all: `<pid>@<host>`, as Temporal names workers."""
    return f"{os.getpid()}@{socket.gethostname()}"


def release() -> str:
    """Our version, by which Temporal tells releases of workers apart."""
    try:
        return version("wharfinger")
    except PackageNotFoundError:
        return "checkout"

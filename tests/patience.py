"""How long tests wait for real servers before they call it a failure.

Limits are written for a machine of its own, as an operator would be told them. Test processes that run side by side
share it: two others' dozens of workers take what they can; what is done within 30 s alone may then take a minute, and
nothing is broken.
"""

from __future__ import annotations

import os

PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
"""Test processes on this machine; pytest-xdist tells each of them."""


def patient(seconds: float) -> float:
    """The limit on this machine's share, for what takes so many seconds at most on all of it."""
    return seconds * PROCESSES

"""How many test processes share this machine, and so how long tests wait for real servers before they fail.

Limits are written for a machine of its own, as an operator would be told them. Test processes that run side by side
share it: two others' dozens of workers take what they can; what is done within 30 s alone may then take a minute, and
nothing is broken.
"""

from __future__ import annotations

import os

PROCESSES = int(os.environ.get("TESTS_PROCESSES") or "1")
"""Test processes on this machine, forks of one pytest (tests/forked_session.py)."""
PROCESS = "TESTS_PROCESS"
"""Variable with the number of such a fork."""


def process_number() -> int:
    """Which of the test processes this one is, below `PROCESSES`."""
    return int(os.environ.get(PROCESS) or "0") % PROCESSES


def patient(seconds: float) -> float:
    """The limit on this machine's share, for what takes so many seconds at most on all of it."""
    return seconds * PROCESSES

"""The clock of leases goes on while the machine is suspended."""

from __future__ import annotations

import time

import pytest

from wharfinger.objects.model.boot_time import since_boot
from wharfinger.process.parts import ProcessParts
from wharfinger.testing import MemoryStore


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_it_is_the_clock_that_counts_suspension() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    seen = since_boot()
    assert before <= seen <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_process_counts_leases_by_it() -> None:
    assert ProcessParts(MemoryStore()).lease_clock is since_boot

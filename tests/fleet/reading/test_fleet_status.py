"""The note about more instances than CPUs."""

from __future__ import annotations

import pytest

from tests.fleet.fleet_records import Records
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.reading.fleet_status import crowding
from wharfinger.fleet.state.fleet_pictures import Estate
from wharfinger.fleet.state.fleet_reading import estate_of


def estate(*cpus: int, replicas: int = 3) -> Estate:
    """Two fleets, one of which wants one instance, and hosts with so many CPUs."""
    written = [*Records("gold").fleet(replicas).stored(), *Records("silver").fleet(1).stored()]
    found = estate_of(written, 1)
    found.hosts = {f"h{number}": HostRecord(boot_id="b", pid=1, cpus=each) for number, each in enumerate(cpus)}
    return found


def test_more_instances_than_cpus_are_told() -> None:
    told = crowding(estate(1, 2))
    assert told.startswith("all fleets together want 4 instances, and the hosts have 3 CPUs: ")
    assert "agent --capacity N" in told


@pytest.mark.parametrize(("cpus", "why"), [((2, 2), "enough"), ((1, 0), "one does not say"), ((), "no host")])
def test_nothing_is_told_where_there_is_enough_or_nobody_knows(cpus: tuple[int, ...], why: str) -> None:
    assert crowding(estate(*cpus)) == "", why

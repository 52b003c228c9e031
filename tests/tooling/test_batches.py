"""Tests that share servers are run by one process, and those that compute a few at a time (tests/batches.py)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import batches
from tests.batches import Batch

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Item:
    """As much of a collected test as is looked at."""

    file: str
    number: int
    servers: bool

    @property
    def path(self) -> Path:
        return TESTS / self.file

    def get_closest_marker(self, name: str) -> bool | None:
        return True if self.servers and name == "servers" else None


def items(file: str, count: int, *, servers: bool = False) -> list[Any]:
    return [Item(file, number, servers) for number in range(count)]


def files(found: list[Batch]) -> list[tuple[set[str], int]]:
    return [({one.path.relative_to(TESTS).as_posix() for one in batch}, len(batch)) for batch in found]


WAKING, REPLAYS = "integration/test_waking.py", "integration/test_replay_command.py"
LIVES, RANDOM, QUICK = "properties/test_worker_lives.py", "properties/test_hubs_at_random.py", "cli/test_main.py"


def test_session_with_servers_keeps_files_and_shared_trees_together() -> None:
    found = [*items(LIVES, 2), *items(QUICK, 9), *items(RANDOM, 1)]
    found += items("etcd/test_etcd_lease.py", 12, servers=True)
    found += [*items(WAKING, 1, servers=True), *items(REPLAYS, 2, servers=True)]
    batches.order(found)

    busy, calm = batches.batches(found)

    assert files(busy) == [({WAKING, REPLAYS}, 3), ({"etcd/test_etcd_lease.py"}, 12), ({QUICK}, 8), ({QUICK}, 1)]
    assert files(calm) == [({LIVES}, 1), ({LIVES}, 1), ({RANDOM}, 1)]


def test_session_without_servers_begins_with_what_takes_long() -> None:
    found = [*items(QUICK, 9), *items(RANDOM, 1), *items(LIVES, 1)]

    assert files(batches.batches(found)[0]) == [({RANDOM}, 1), ({LIVES}, 1), ({QUICK}, 8), ({QUICK}, 1)]
    assert batches.batches(found)[1] == []

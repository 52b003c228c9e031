"""What tests one process gets together, and in which order (tests/handing_out.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import handing_out

TESTS = Path(__file__).parents[1]


def items_of(file: str, count: int, *markers: str) -> list[Any]:
    path = TESTS / file
    return [
        SimpleNamespace(
            path=path,
            nodeid=f"{file}::test_{number}",
            get_closest_marker=lambda name: name if name in markers else None,
        )
        for number in range(count)
    ]


def files(portions: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [sorted({test.path.name for test in portion}) for portion in portions]


def test_without_servers_a_few_tests_of_one_file_go_together() -> None:
    quick = [*items_of("model/test_gang.py", 9), *items_of("properties/test_spellings.py", 3)]

    others, calm = handing_out.shares(quick)

    assert [(portion[0].path.name, len(portion)) for portion in others] == [
        ("test_spellings.py", 3),
        ("test_gang.py", 8),
        ("test_gang.py", 1),
    ]
    assert calm == []


def test_beside_servers_whole_files_and_files_on_one_tree_go_together() -> None:
    items = [
        *items_of("integration/test_restart.py", 2, "servers"),
        *items_of("integration/test_crashes.py", 20, "servers"),
        *items_of("integration/test_waking.py", 3, "servers"),
        *items_of("registry/test_etcd_faults.py", 30, "servers"),
        *items_of("model/test_gang.py", 2),
    ]

    others, calm = handing_out.shares(handing_out.in_order(items))

    shared = [portion for portion in files(others) if len(portion) > 1]
    assert shared == [["test_crashes.py", "test_waking.py"]]
    assert sorted(map(len, others)) == [2, 2, 23, 30]
    assert calm == []


def test_what_only_computes_is_kept_apart_and_ends_with_single_tests() -> None:
    items = [
        *items_of("properties/test_fleets_under_faults.py", 2, "long"),
        *items_of("properties/test_promises_at_random.py", 3, "long"),
        *items_of("properties/test_binds_never_overcommit.py", 2, "servers"),
        *items_of("integration/test_restart.py", 1, "servers"),
    ]

    others, calm = handing_out.shares(handing_out.in_order(items))

    assert files(others) == [["test_restart.py"], ["test_binds_never_overcommit.py"]]
    assert files(calm) == [["test_promises_at_random.py"], *2 * [["test_fleets_under_faults.py"]]]


def test_every_test_is_handed_out_once() -> None:
    items = [*items_of("integration/test_waking.py", 3, "servers"), *items_of("placement/test_rolling.py", 4)]

    others, calm = handing_out.shares(items)

    given = [test.nodeid for portion in (*others, *calm) for test in portion]
    assert sorted(given) == sorted(item.nodeid for item in items)

"""The table of kinds: every name in it can be imported, and is of the sort that the commands expect."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pkgutil import resolve_name

import pytest

from wharfinger.cli.kinds import KINDS, WriteCheck
from wharfinger.cli.objects.tables import KindTable
from wharfinger.objects.documents import kinds
from wharfinger.process.stored_objects import StoredObjects

PARTS = sorted({one for parts in KINDS.values() for one in asdict(parts).items() if ":" in one[1]})


@pytest.mark.parametrize(("part", "dotted"), PARTS)
def test_every_part_of_a_kind_can_be_imported(part: str, dotted: str) -> None:
    found = resolve_name(dotted)

    if part == "stored":
        assert issubclass(found, StoredObjects)
    elif part == "check":
        assert issubclass(found, WriteCheck)
    elif part == "table":
        assert isinstance(found, KindTable)
    else:
        assert inspect.iscoroutinefunction(found)


def test_only_known_kinds_have_parts() -> None:
    assert KINDS.keys() <= set(kinds.KINDS)

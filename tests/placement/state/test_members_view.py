"""What a hub has seen of members, record by record, and which fields each record changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.clock import Clock
from tests.placement.objects import agent_record, member_object, status_record
from wharfinger.etcd.store import KeyValue
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DrainRecord
from wharfinger.placement.state.hub_changes import MemberChange
from wharfinger.placement.state.members_view import ANOTHER, UNCHANGED, MembersView


class Seen:
    """A view of one member `a`, whose object was created at revision 7."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.came_back: list[str] = []
        self.unreadable: list[str] = []
        self.view = MembersView(
            self.clock, back=self.came_back.append, note_unreadable=lambda key, _: self.unreadable.append(key)
        )

    def put(self, obj: Mapping[str, Any] | bytes, *, identity: int = 7, revision: int = 7) -> MemberChange:
        value = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        return self.view.take("a", KeyValue(placement_keys.member_cluster("a"), value, identity, revision))


@pytest.fixture
def seen() -> Seen:
    seen = Seen()
    assert seen.put(member_object("a")) == ANOTHER
    return seen


def test_only_what_differs_is_a_change(seen: Seen) -> None:
    first = seen.view.in_order
    assert seen.put(member_object("a"), revision=8) == UNCHANGED
    assert seen.view.in_order is first
    assert seen.put(member_object("a", labels={"region": "east"}), revision=9) == MemberChange.LABELS
    assert [(one.name, dict(one.labels)) for one in seen.view.in_order] == [("a", {"region": "east"})]


def test_a_member_that_went_and_came_back_is_another_one(seen: Seen) -> None:
    assert seen.view.take("a", None) == ANOTHER
    assert (seen.view.by_name, seen.view.in_order) == ({}, ())
    assert seen.put(member_object("a"), identity=20, revision=20) == ANOTHER


def test_an_object_that_cannot_be_read_leaves_the_member_as_it_was(seen: Seen) -> None:
    before = seen.view.by_name["a"].member
    assert seen.put(b"[]", revision=8) == MemberChange.ELIGIBILITY
    assert seen.view.by_name["a"].member is before
    assert seen.view.by_name["a"].unreadable == "is no object"
    assert seen.unreadable == [placement_keys.member_cluster("a")]

    assert seen.put(member_object("a"), revision=9) == MemberChange.ELIGIBILITY
    assert seen.view.by_name["a"].unreadable == ""


def test_a_record_before_its_member_counts_once_the_member_is_there() -> None:
    seen = Seen()
    assert seen.view.take_agent("a", agent_record(7)) == UNCHANGED
    assert seen.view.by_name == {}
    seen.put(member_object("a"))
    assert seen.view.by_name["a"].there


def test_an_agent_that_comes_back_is_reported_once(seen: Seen) -> None:
    seen.view.take_status("a", status_record(7))
    assert MemberChange.ELIGIBILITY in seen.view.take_agent("a", agent_record(7))
    assert seen.came_back == ["a"]
    assert seen.view.take_agent("a", agent_record(7)) == UNCHANGED
    assert seen.came_back == ["a"]

    seen.clock.advance(5.0)
    assert seen.view.take_agent("a", None) == MemberChange.ELIGIBILITY
    seen.clock.advance(60.0)
    assert seen.view.by_name["a"].ages(seen.clock()).heartbeat == 60.0


def test_a_record_that_cannot_be_read_changes_nothing(seen: Seen) -> None:
    seen.view.take_agent("a", agent_record(7))
    with pytest.raises(ValueError, match="json"):
        seen.view.take_agent("a", b"{")
    assert seen.view.by_name["a"].there


def test_a_drain_is_of_one_identity_of_the_member(seen: Seen) -> None:
    drain = DrainRecord(want="drain", identity=7)
    assert seen.view.take_drain("a", drain.to_bytes()) == ANOTHER
    assert seen.view.take_drain("a", drain.to_bytes()) == UNCHANGED
    assert seen.view.drains == {"a": drain}

    seen.put(member_object("a"), identity=20, revision=20)
    assert (seen.view.drain_of("a"), seen.view.drains) == (None, {})
    assert seen.view.take_drain("a", None) == ANOTHER

"""Facts of the model as they lie in etcd."""

from __future__ import annotations

import pytest

from wharfinger.fleet.contracts.fleet_records import Fact, mapping, read_value, stored
from wharfinger.fleet.model.fleet import Actor, Cordon, Decisions, Exit, Grant, Slot
from wharfinger.process.records import Record

STORED = [
    (Slot(3, incarnation=2, revision=1, mod_revision=9), b'{"incarnation":2,"revision":1,"crashes":0}'),
    (
        Grant(3, 2, revision=1, host="a", identity=7, settle=5.0, token="t", mod_revision=9),
        b'{"revision":1,"host":"a","want":"run","identity":7,"settle":5.0,"token":"t"}',
    ),
    (
        Exit(3, 2, how="code", detail="exit 1", lived=0.5),
        b'{"how":"code","detail":"exit 1","lived":0.5,"planned":false,"host_restarted":false,"time":""}',
    ),
    (Cordon("a", action="drain", who="ann"), b'{"action":"drain","who":"ann","why":"","time":""}'),
    (Actor(4, "w", "r", 2, mod_revision=9), b'{"epoch":4,"workflow_id":"w","run_id":"r","target":2}'),
]


@pytest.mark.parametrize(("fact", "value"), STORED, ids=lambda one: type(one).__name__ if isinstance(one, Fact) else "")
def test_what_the_key_says_is_not_in_the_value(fact: Fact, value: bytes) -> None:
    assert stored(fact) == value


def test_what_is_read_has_what_the_key_says() -> None:
    grant = Grant(3, 2, revision=1, host="a", want="drain", mod_revision=9)

    assert read_value(Grant, stored(grant), slot=3, incarnation=2, mod_revision=9) == grant


def test_decisions_are_read_as_they_were_written() -> None:
    actor = Actor(4, "w", "r", 2, Decisions(number=1, target=2, canary=(3, 4), halted="it failed"))

    assert read_value(Actor, stored(actor)) == actor


def test_fields_of_a_newer_release_are_kept_out_of_the_way() -> None:
    assert read_value(Slot, b'{"incarnation":2,"revision":1,"later":true}') == Slot(incarnation=2, revision=1)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Slot, b'{"incarnation":2}'),
        (Grant, b'{"revision":1,"host":"a","want":"walk"}'),
        (Exit, b'{"how":"never"}'),
        (Cordon, b"drain"),
        (Actor, b"[]"),
    ],
)
def test_what_is_no_such_record_is_refused(kind: type[Record | Fact], value: bytes) -> None:
    with pytest.raises(ValueError, match=kind.__name__):
        read_value(kind, value)


def test_json_for_readers_shows_every_field_but_the_key() -> None:
    assert mapping(Cordon("a", action="cordon")) == {"action": "cordon", "who": "", "why": "", "time": ""}

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from wharfinger.etcd import etcd_json_wire as wire
from wharfinger.etcd import etcd_wire
from wharfinger.etcd.store import Compare, Delete, Event, Get, KeyValue, Put, Unmoved


@given(st.binary(max_size=12))
def test_every_key_survives_being_text(raw: bytes) -> None:
    stored = wire.key_value({"key": wire.base64(raw), "mod_revision": "1"})

    assert etcd_wire.key_bytes(stored.key) == raw


@given(st.binary(min_size=1, max_size=5), st.binary(max_size=5))
def test_a_prefix_range_holds_exactly_the_keys_with_the_prefix(prefix: bytes, key: bytes) -> None:
    end = etcd_wire.prefix_end(prefix)

    for candidate in (key, prefix + key):
        inside = prefix <= candidate and (end == b"\0" or candidate < end)
        assert inside == candidate.startswith(prefix)


def test_the_range_of_the_empty_prefix_goes_to_the_very_end() -> None:
    assert etcd_wire.prefix_end(b"") == b"\0"
    assert etcd_wire.prefix_end(b"\xff\xff") == b"\0"


def test_a_transaction_is_spelled_as_etcd_reads_it() -> None:
    request = etcd_wire.txn(
        [Compare("k", "mod", 0), Compare("k", "create", 7), Unmoved("k", 4)],
        [Put("k", b"v", 5), Put("k", b"")],
        [Delete("k"), Get("k")],
    )

    assert orjson.loads(wire.encoded(request)) == {
        "compare": [
            {"key": "aw==", "target": 2, "result": 0, "mod_revision": 0},
            {"key": "aw==", "target": 1, "result": 0, "create_revision": 7},
            {"key": "aw==", "range_end": "bA==", "target": 2, "result": 2, "mod_revision": 5},
        ],
        "success": [
            {"request_put": {"key": "aw==", "value": "dg==", "lease": 5}},
            {"request_put": {"key": "aw==", "value": "", "lease": 0}},
        ],
        "failure": [{"request_delete_range": {"key": "aw=="}}, {"request_range": {"key": "aw=="}}],
    }


def test_fields_that_answers_leave_out_are_zero_empty_and_false() -> None:
    event = wire.event({"kv": {"key": "aw==", "mod_revision": "9"}})
    result = wire.txn_result({"header": {"revision": "9"}}, [Put("k", b"")], [])

    assert event == Event(KeyValue("k", b"", 0, 9))
    assert (result.succeeded, result.revision, result.reads) == (False, 9, ())
    assert wire.header_revision({}) == 0


def test_events_are_cut_into_a_batch_a_revision() -> None:
    events = [Event(KeyValue(name, b"", 1, revision)) for name, revision in [("a", 3), ("b", 3), ("a", 5)]]

    batches = list(etcd_wire.batches(events))

    assert [(batch.revision, len(batch.events)) for batch in batches] == [(3, 2), (5, 1)]

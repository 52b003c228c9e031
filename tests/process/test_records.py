"""Records in etcd: read by the release before and after this one."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from wharfinger.placement.contracts.delivery_records import SnapshotRecord
from wharfinger.placement.contracts.placement_rollouts import TakenSnapshot
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.attempts import AttemptInput


def test_a_record_is_compact_json_and_reads_back_equal() -> None:
    record = AttemptRecord(attempt=2, plugins=("A", "B"), revision=7, message="no", create_revision=3)

    assert AttemptRecord.model_validate(json.loads(record.to_bytes())) == record
    assert b" " not in record.to_bytes()


def test_fields_of_a_newer_release_are_ignored_and_missing_get_defaults() -> None:
    assert AttemptRecord.model_validate({"attempt": 1, "mood": "bad"}) == AttemptRecord(attempt=1)


@pytest.mark.parametrize("stored", [b"", b"null", b"[]", b"{}", b'{"attempt": "many"}', b"\xff"], ids=str)
def test_bytes_that_are_no_record_are_refused(stored: bytes) -> None:
    with pytest.raises(ValidationError):
        AttemptRecord.model_validate_json(stored)


def test_negative_attempt_number_is_refused() -> None:
    """Any client may write a record: a chain that counts on from there would fail for good, again and again."""
    assert AttemptRecord.from_bytes(b'{"attempt": -1}') is None


@pytest.mark.parametrize(("written", "counted"), [(0, 0), (3, 3), (10**9 + 1, 10**9), (10**400, 10**9)], ids=str)
def test_chain_counts_on_from_every_number_that_a_record_has(written: int, counted: int) -> None:
    record = AttemptRecord.from_bytes(f'{{"attempt": {written}}}'.encode())

    assert record is not None
    chain = AttemptInput(namespace="default", name="web", attempts_before=record.attempt)
    assert AttemptRecord(attempt=chain.attempts_before + 1).attempt == min(counted + 1, 10**9)


@pytest.mark.parametrize("kind", [SnapshotRecord, TakenSnapshot])
def test_errors_do_not_repeat_what_was_read(kind: type[SnapshotRecord | TakenSnapshot]) -> None:
    """They reach logs and Temporal, and a value may hold contents of objects."""
    with pytest.raises(ValidationError) as raised:
        kind.model_validate({"digest": ["s3cret"], "outcome": "s3cret"})
    assert "s3cret" not in str(raised.value)

"""The record of a real etcd: whole through a restart and a compaction, and no gap is overlooked."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import free_port, start_etcd
from tests.faults.history import Change, Continuity, Gap, state_after
from tests.faults.recorder import Recorder, read_back
from tests.integration.gateway import Gateway
from tests.patience import patient


def event(revision: int, key: str = "/k", *, deleted: bool = False) -> dict[str, Any]:
    kv = {"key": base64.b64encode(key.encode()).decode(), "mod_revision": str(revision), "create_revision": "2"}
    return {"type": "DELETE", "kv": kv} if deleted else {"kv": {**kv, "value": "dg=="}}


def test_revisions_follow_each_other() -> None:
    continuity = Continuity()

    taken = continuity.take({"events": [event(2), event(2, "/l"), event(3, deleted=True)]}, 1.0)

    assert [(revision.number, len(revision.changes)) for revision in taken] == [(2, 2), (3, 1)]
    assert state_after(taken) == {"/l": Change("/l", b"v", 2, 2)}


def test_a_revision_that_is_missing_is_a_gap() -> None:
    with pytest.raises(Gap):
        Continuity().take({"events": [event(2), event(4)]}, 1.0)


def test_a_revision_that_comes_again_is_one_as_well() -> None:
    continuity = Continuity()
    continuity.take({"events": [event(2)]}, 1.0)
    with pytest.raises(Gap):
        continuity.take({"events": [event(2)]}, 1.0)


@pytest.mark.servers
def test_the_record_of_a_real_etcd_is_whole(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "history.jsonl"
    with start_etcd(tmp_path, port) as server:
        recorder = Recorder(server.url, file)
        recorder.start()
        gateway = Gateway(server.url)
        for number in range(50):
            gateway.put(f"/k{number % 7}", str(number))
        gateway.delete("/k3")
        assert recorder.prove(gateway) == []
        gateway.call("/kv/compaction", {"revision": str(recorder.read)})
    with start_etcd(tmp_path, port) as server:
        last = gateway.put("/after", "restart")
        assert recorder.prove(gateway) == []
        recorder.stop()

    assert [revision.number for revision in read_back(file)] == list(range(2, last + 1))
    assert recorder.revisions == read_back(file)


@pytest.mark.servers
def test_a_record_that_is_not_what_etcd_has_is_found_out(tmp_path: Path) -> None:
    with start_etcd(tmp_path) as server:
        recorder = Recorder(server.url, tmp_path / "history.jsonl")
        recorder.start()
        gateway = Gateway(server.url)
        gateway.put("/k", "1")
        last = gateway.put("/l", "2")
        assert recorder.wait_for(last, patient(20))
        recorder.revisions.pop()
        assert recorder.prove(gateway) == [f"/l: etcd has another state than the record at {last}"]
        recorder.stop()


@pytest.mark.servers
def test_what_was_compacted_before_it_was_read_is_a_failure(tmp_path: Path) -> None:
    with start_etcd(tmp_path) as server:
        gateway = Gateway(server.url)
        for number in range(5):
            last = gateway.put("/k", str(number))
        gateway.call("/kv/compaction", {"revision": str(last)})
        recorder = Recorder(server.url, tmp_path / "history.jsonl")
        recorder.start()
        assert recorder.prove(gateway) != []
        recorder.stop()

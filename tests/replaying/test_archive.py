"""An archive has what replay needs; it is written on from wherever it ended, and shows what is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine.conftest import CLUSTER
from tests.replaying.replay_stage import Replayed, Stage
from wharfinger.errors import Compacted, InvalidObject, UsageError
from wharfinger.registry import keys
from wharfinger.replaying import archive_format
from wharfinger.replaying.archived import Archive
from wharfinger.replaying.archiving import ArchiveFile, Passed, needed
from wharfinger.replaying.changes import ProfileChange
from wharfinger.replaying.recorded import DecidedRun, Unit, units
from wharfinger.replaying.report import Report
from wharfinger.replaying.shadow import Shadow
from wharfinger.replaying.spool import Spool
from wharfinger.replaying.unreplayable import Lack


async def a_pass(stage: Stage, path: Path, runs: list[DecidedRun], until: float = 1.0) -> Passed:
    async def given() -> AsyncIterator[DecidedRun]:
        for run in runs:
            yield run

    first = min((one.revision for run in runs for one in run.computations()), default=0)
    return await ArchiveFile(path, CLUSTER, block=600).write(
        stage.world.store, given(), first=lambda: first, until=until
    )


async def from_archive(path: Path) -> Replayed:
    spool, found, replayed = Spool(), list[Unit](), Replayed(Report())
    archive = Archive.open(path)
    for run in archive.runs():
        found += units(run, spool.add(run))
    for store, part in archive.split(sorted(found)):
        await Shadow(store, spool, part, ProfileChange(), archive.cluster).run(replayed.add)
    spool.close()
    return replayed


async def some_decisions(stage: Stage, *names: str) -> None:
    if not stage.world.hands:
        for node in ("a", "b"):
            await stage.world.put_node(node, cpu="8")
        await stage.world.hand()
    for name in names:
        await stage.world.put_pod(name)
        await stage.world.seen()
        await stage.alone(stage.world.hands[0], name)


async def test_an_archive_is_replayed_without_any_server(stage: Stage, tmp_path: Path) -> None:
    await some_decisions(stage, "one", "two")
    await stage.world.put_pod("three")
    await stage.world.put_pod("huge", cpu="99")
    await stage.world.seen()
    await stage.together(stage.world.hands[0], "three", "huge")
    file = tmp_path / "archive"

    passed = await a_pass(stage, file, stage.runs)
    replayed = await from_archive(file)

    assert (passed.runs, passed.decisions, passed.gap) == (3, 4, None)
    assert replayed.strange == []
    assert replayed.report.counts == {"same": 4}


async def test_a_later_pass_goes_on_where_the_last_ended(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one", "two")
    await a_pass(stage, file, stage.runs, until=5.0)
    size = file.stat().st_size
    await some_decisions(stage, "three", "four")

    assert ArchiveFile(file, CLUSTER).reached.until == 5.0
    await a_pass(stage, file, stage.runs[1:])  # one run is given twice, as where two passes overlap
    replayed = await from_archive(file)

    assert len(Archive.open(file).segments) == 1
    assert file.stat().st_size < 3 * size
    assert replayed.report.counts == {"same": 4}


@pytest.mark.parametrize("lost", [1, 7, 40, 200])
async def test_a_pass_that_was_killed_is_done_again(stage: Stage, tmp_path: Path, lost: int) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    whole = file.read_bytes()
    await some_decisions(stage, "two")
    await a_pass(stage, file, stage.runs[1:])
    file.write_bytes(file.read_bytes()[:-lost])

    torn = await from_archive(file)
    await a_pass(stage, file, stage.runs[1:])
    replayed = await from_archive(file)

    assert torn.report.counts == {"same": 1}, "what has no checkpoint behind it does not count"
    assert file.read_bytes().startswith(whole)
    assert replayed.report.counts == {"same": 2}


async def test_what_etcd_has_forgotten_is_a_gap_and_decisions_in_it_are_named(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    await some_decisions(stage, "two", "three", "four")
    last = stage.runs[-1].computations()[0].revision
    stage.world.store.compact(last)

    passed = await a_pass(stage, file, stage.runs[1:])
    replayed = await from_archive(file)

    archive = Archive.open(file)
    assert passed.gap is not None
    assert archive.gaps == [passed.gap]
    assert {name: one.lack for name, one in replayed.lacking.items()} == dict.fromkeys(("two", "three"), Lack.COMPACTED)
    assert replayed.report.counts == {"same": 2, "unreplayable": 2}


async def test_no_decision_is_an_archive_too(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await a_pass(stage, file, [])
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)

    assert (await from_archive(file)).report.counts == {"same": 1}


async def test_every_flipped_byte_is_found(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    whole = file.read_bytes()
    for place in range(0, len(whole), 13):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            said = dict((await from_archive(file)).report.counts)
        except InvalidObject as error:
            said = {str(error): 0}
        assert said == {} or str(file) in str(said), f"byte {place}: a longer last block only hides its checkpoint"


def test_a_block_may_not_grow_beyond_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "archive"
    block = bytearray(archive_format.packed(archive_format.RUNS, {"runs": ["x" * 10_000]}))
    block[1:5] = (100).to_bytes(4, "big")
    file.write_bytes(archive_format.HEADER + bytes(block))

    with pytest.raises(InvalidObject, match="another length"):
        list(archive_format.blocks(file))
    block[1:5] = (archive_format.MOST_RAW + 1).to_bytes(4, "big")
    file.write_bytes(archive_format.HEADER + bytes(block))
    with pytest.raises(InvalidObject, match="no block"):
        list(archive_format.blocks(file))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "archive"
    file.write_bytes(b"kind: Pod\n")

    with pytest.raises(InvalidObject, match="no archive"):
        Archive.open(file)
    with pytest.raises(InvalidObject, match="no archive"):
        ArchiveFile(file, CLUSTER)


async def test_another_clusters_archive_is_not_written_on(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await a_pass(stage, file, [])

    with pytest.raises(UsageError, match="cluster test"):
        ArchiveFile(file, "other")


async def test_a_segment_answers_as_etcd_does(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one", "two")
    first = stage.runs[0].computations()[0].revision
    await a_pass(stage, file, stage.runs)
    [(store, _)] = Archive.open(file).split([])
    live = stage.world.store

    for revision in (first, first + 2, live.revision):
        ours = [kv for page in [page async for page in store.list(keys.PODS, revision=revision)] for kv in page.items]
        theirs = [kv for page in [page async for page in live.list(keys.PODS, revision=revision)] for kv in page.items]
        assert ours == theirs
    with pytest.raises(Compacted):
        [page async for page in store.list(keys.PODS, revision=first - 1)]


def test_values_that_are_no_text_are_kept_as_they_are() -> None:
    kv = archive_format.KeyValue("/registry/pods/default/a", b"\xff\x00", 1, 2, 3)
    event = archive_format.Event(kv)
    gone = archive_format.Event(archive_format.KeyValue("k", b"", 0, 9), deleted=True)

    assert archive_format.event_of(archive_format.plain_event(event)) == event
    assert archive_format.event_of(archive_format.plain_event(gone)) == gone


@pytest.mark.parametrize(
    ("key", "is_needed"),
    [
        (keys.pod("default", "web"), True),
        (keys.node("a"), True),
        (keys.INSTALLATION, True),
        (keys.profile("d"), True),
        (keys.binding("a"), False),
        (keys.stored("secrets", "default", "s"), False),
        ("/registry/", False),
    ],
)
def test_only_what_decisions_read_is_kept(key: str, is_needed: bool) -> None:
    assert needed(key) is is_needed

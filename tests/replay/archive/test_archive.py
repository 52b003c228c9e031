"""An archive has what replay needs; it is written on from wherever it ended, and shows what is missing."""

from __future__ import annotations

import resource
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.replay.replay_stage import Replayed, Stage
from tests.scheduling.world import CLUSTER, World
from wharfinger.errors import Compacted, InvalidObject, UsageError
from wharfinger.etcd import keys
from wharfinger.replay.archive import archive_format, archive_pass
from wharfinger.replay.archive.archive_pass import Passed, needed
from wharfinger.replay.archive.archived import Archive
from wharfinger.replay.archive.archiving import OVERLAP, ArchiveFile, ArchiveNotWritten
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.histories import RunName, UnreadRun
from wharfinger.replay.recorded import DecidedRun, Lack
from wharfinger.replay.report.report import Report
from wharfinger.replay.shadow import Shadow


async def a_pass(
    stage: Stage, path: Path, runs: Sequence[DecidedRun | UnreadRun], until: float = 1.0, *, block: int = 600
) -> Passed:
    async def given() -> AsyncIterator[DecidedRun | UnreadRun]:
        for run in runs:
            yield run

    return await ArchiveFile(path, CLUSTER, block=block).write(stage.world.store, given(), until=until)


def gone(count: int) -> list[UnreadRun]:
    return [UnreadRun(RunName("workflow", f"gone-{number}"), "gone") for number in range(count)]


async def from_archive(path: Path) -> Replayed:
    spool, replayed = Spool(), Replayed(Report())
    archive = Archive.open(path)
    archive.read_into(spool)
    for store, part in archive.split(spool.units()):
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


async def test_runs_that_have_not_decided_are_named_for_the_next_pass(stage: Stage, tmp_path: Path) -> None:
    file, late = tmp_path / "archive", RunName("cluster/pod/default/late", "run-9")
    await some_decisions(stage, "one")
    passed = await a_pass(stage, file, [*stage.runs, UnreadRun(late, "undecided")])

    again = ArchiveFile(file, CLUSTER).reached
    await a_pass(stage, file, [])

    assert passed.reached.undecided == again.undecided == (late,)
    assert ArchiveFile(file, CLUSTER).reached.undecided == ()
    assert (await from_archive(file)).report.counts == {"same": 1}


async def test_large_objects_of_one_page_go_to_blocks_of_their_own(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    for number in range(20):
        await stage.world.put_pod(f"large-{number}", annotations={"notes": "x" * 5000})
    await some_decisions(stage, "two")

    await a_pass(stage, file, stage.runs[1:])
    [(state, _)] = Archive.open(file).split([])
    pages = [page async for page in state.list(keys.PODS, revision=stage.world.store.revision, page_size=7)]

    sizes = [len(block.content.model_dump_json()) for block in archive_format.blocks(file)]
    assert max(sizes) < 10_000
    assert sorted(kv.key for page in pages for kv in page.items) == [kv.key for page in pages for kv in page.items]
    assert [len(page.items) for page in pages] == [7, 7, 7, 1]


@pytest.mark.parametrize("more", [0, 60])
async def test_a_restored_etcd_begins_another_segment(stage: Stage, tmp_path: Path, more: int) -> None:
    """Whether its revisions are lower than those of then, or have passed them meanwhile."""
    file = tmp_path / "archive"
    await some_decisions(stage, "one", "two", "three", "four", "five", "six")
    await a_pass(stage, file, stage.runs)
    restored = Stage(World())
    await restored.keep_profiles()
    try:
        for number in range(more):
            await restored.world.put_pod(f"filler-{number}", cpu="0")
        await some_decisions(restored, "seven", "eight")
        runs = [run.model_copy(update={"run_id": f"again-{run.run_id}"}) for run in restored.runs]
        assert (restored.world.store.revision > stage.world.store.revision) is bool(more)

        passed = await a_pass(restored, file, runs, until=9.0)
        later = await a_pass(restored, file, [], until=10.0)
        archive, replayed = Archive.open(file), await from_archive(file)
    finally:
        await restored.world.close()

    assert passed.gap is not None
    assert passed.gap.restored
    assert archive.gaps == [passed.gap]
    assert (later.gap, len(archive.segments)) == (None, 2)
    assert replayed.strange == [], "each decision is made on the state of its own history"
    assert replayed.report.counts == {"same": 8}


async def test_a_run_is_written_once_though_passes_overlap(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one", "two")
    await a_pass(stage, file, stage.runs, until=5.0)
    later = [run.model_copy(update={"started": 500.0}) for run in stage.runs]
    first = [RunName(run.workflow_id, run.run_id) for run in stage.runs]

    again = ArchiveFile(file, CLUSTER)
    known = [again.has(name) for name in first]
    passed = await a_pass(stage, file, [*stage.runs, *stage.runs], until=5.0 + OVERLAP)
    await a_pass(stage, file, [], until=400.0)
    forgotten = [ArchiveFile(file, CLUSTER).has(name) for name in first]

    assert known == [True, True]
    assert (passed.runs, passed.decisions) == (0, 0)
    assert forgotten == [False, False], "no pass asks for runs of so long ago"
    assert [run.run_id for run in Archive.open(file).runs()] == ["run-0", "run-1"]
    assert (await a_pass(stage, file, later, until=501.0)).runs == 2


async def test_runs_that_are_lost_are_counted(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "archive"
    monkeypatch.setattr(archive_pass, "MOST_WAITING", 2)
    names = [RunName("workflow", f"late-{number}") for number in range(5)]

    first = await a_pass(stage, file, [*(UnreadRun(name, "undecided") for name in names), *gone(1)])
    second = await a_pass(stage, file, [UnreadRun(names[1], "undecided")])

    assert (first.lost, first.reached.undecided) == (4, (names[0], names[1]))
    assert (second.lost, second.reached.undecided) == (0, (names[1],))
    assert ArchiveFile(file, CLUSTER).reached == second.reached
    assert Archive.open(file).lost == 4


async def test_only_runs_of_the_span_that_is_asked_for_are_read(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one", "two", "three")
    await a_pass(stage, file, stage.runs)
    spool = Spool()

    Archive.open(file).read_into(spool, since=1.0, until=2.0)

    assert [spool.get(number).name for number in range(len(spool))] == ["two"]
    spool.close()


async def test_an_archive_is_for_its_owner_only(stage: Stage, tmp_path: Path) -> None:
    await a_pass(stage, tmp_path / "archive", [])

    assert (tmp_path / "archive").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 10, 28, 40, 70, 200])
async def test_a_file_without_a_whole_pass_is_no_result(stage: Stage, tmp_path: Path, size: int) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    file.write_bytes(file.read_bytes()[:size])

    with pytest.raises(InvalidObject, match=r"no archive of replay|holds no complete pass"):
        Archive.open(file)
    await a_pass(stage, file, stage.runs)
    assert (await from_archive(file)).report.counts == {"same": 1}


async def test_bytes_behind_the_last_checkpoint_are_told(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await a_pass(stage, file, [])
    whole = file.stat().st_size
    block = archive_format.packed(archive_format.RUNS, {"runs": []}, whole)
    file.write_bytes(file.read_bytes() + block[:-1])

    assert Archive.open(file).uncounted == len(block) - 1
    assert ArchiveFile(file, CLUSTER).reached.until == 1.0


async def test_a_full_disk_leaves_what_was_there(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    whole = file.stat().st_size
    await some_decisions(stage, *(f"more-{number}" for number in range(9)))
    out = ArchiveFile(file, CLUSTER, block=600)

    async def given() -> AsyncIterator[DecidedRun]:
        for run in stage.runs[1:]:
            yield run

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (whole + 100, before[1]))
    try:
        with pytest.raises(ArchiveNotWritten, match="File too large"):
            await out.write(stage.world.store, given(), until=2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    torn = await from_archive(file)
    await out.write(stage.world.store, given(), until=2.0)

    assert torn.report.counts == {"same": 1}
    assert (await from_archive(file)).report.counts == {"same": 10}


async def test_no_decision_is_an_archive_too(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await a_pass(stage, file, [])
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)

    assert (await from_archive(file)).report.counts == {"same": 1}


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

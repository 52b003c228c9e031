"""What an archive shows of itself, so that somebody is told when it falls behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.archive.test_archive import a_pass, gone, some_decisions
from tests.replay.replay_stage import Stage
from tests.scheduling.world import CLUSTER
from wharfinger.errors import UsageError
from wharfinger.replay.archive.archiving import BEHIND, ArchiveFile, ArchiveMetrics
from wharfinger.replay.cli.archive import ArchiveServing


def read(metrics: ArchiveMetrics) -> dict[str, float]:
    """The values by name, `wharfinger_archive_` left out."""
    metrics.refresh()
    return {
        sample.name.removeprefix("wharfinger_archive_") + "".join(sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


async def test_a_pass_resets_the_age_and_tells_what_the_file_has(stage: Stage, tmp_path: Path) -> None:
    file, now = tmp_path / "archive", [100.0]
    metrics = ArchiveMetrics(file, clock=lambda: now[0])
    empty = read(metrics)
    await some_decisions(stage, "one")
    await a_pass(stage, file, stage.runs)
    await some_decisions(stage, "two", "three")
    stage.world.store.compact(stage.world.store.revision)
    await a_pass(stage, file, [*stage.runs[1:], *gone(3)])
    now[0] = 130.0
    before = read(metrics)
    out = ArchiveFile(file, CLUSTER)
    metrics.passed(out)
    after = read(metrics)

    assert empty == {"seconds_since_pass": 0, "gaps": 0, "lost_runs": 0, "bytes": 0, "revision": 0}
    assert before["seconds_since_pass"] == 30
    assert after == {
        "passes_totalwritten": 1,
        "seconds_since_pass": 0,
        "gaps": 1,
        "lost_runs": 3,
        "bytes": file.stat().st_size,
        "revision": stage.world.store.revision,
    }


def test_an_archive_that_falls_behind_is_not_ready(tmp_path: Path) -> None:
    now = [0.0]
    metrics = ArchiveMetrics(tmp_path / "archive", clock=lambda: now[0])
    metrics.failed()
    now[0] = BEHIND
    fine = metrics.checks()
    now[0] += 1

    assert fine == {"archive": "ok"}
    assert metrics.checks() == {"archive": "no pass succeeded for 601 s"}
    assert read(metrics)["passes_totalfailed"] == 1


def test_the_address_of_metrics_is_one_with_a_port() -> None:
    addresses = ("127.0.0.1:0", "[::1]:9000", "0.0.0.0:10290")
    found = [ArchiveServing(metrics_bind_address=address).served() for address in addresses]

    assert ArchiveServing().served() is None
    assert [(one.address, one.port, one.open) for one in found if one is not None] == [
        ("127.0.0.1", 0, True),
        ("::1", 9000, True),
        ("0.0.0.0", 10290, False),
    ]
    for wrong in ("9000", "127.0.0.1", "127.0.0.1:", "host:port", "host:70000"):
        with pytest.raises(UsageError, match="ADDRESS:PORT"):
            ArchiveServing(metrics_bind_address=wrong).served()

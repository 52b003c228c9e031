"""`wharfinger demo` with fewer pods: once as a newcomer types it, then as a fork (tests/forked.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.patience import patient
from wharfinger.dev.demo.audit import Audit
from wharfinger.dev.demo.story import Flood, summary
from wharfinger.objects.documents.documents import objects

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


def test_it_binds_a_real_clusters_pods_and_outlives_a_killed_worker() -> None:
    command = [*forked.COMMAND, "demo", "--pods", "80", "--json"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=patient(220), check=False)

    assert told.returncode == 0, told.stderr
    assert list(json.loads(told.stdout)) == [
        "pods", "bound", "refused", "attempts", "flood", "flood_seconds", "flood_pods_per_s", "seconds", "pods_per_s",
        "lost", "doubled", "overcommitted",
    ]  # fmt: skip
    assert (json.loads(told.stdout)["pods"], json.loads(told.stdout)["bound"]) == (80, 80)
    assert json.loads(told.stdout)["flood"] == 40
    flood, crash = told.stderr.index("40 are bound, 0 refused"), told.stderr.index("Part 2")
    assert flood < told.stderr.index("scaled to 2 workers") < crash < told.stderr.index("SIGKILL to worker common/0")
    assert "brought worker common/0 up again" in told.stderr


def test_an_interrupted_demo_ends_with_one_clear_line() -> None:
    command = [*forked.COMMAND, "demo", "--pods", "300"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=forked.variables()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Part 2" in line:
                break
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=patient(60))

    assert process.returncode == 143
    assert errors.splitlines() == ["wharfinger: interrupted by SIGTERM: everything was stopped"]


@pytest.mark.parametrize("name", ["openb.yaml", "openb.json"])
def test_its_objects_can_be_written_for_others_to_apply(name: str, tmp_path: Path) -> None:
    words = ("demo", "--write", str(tmp_path / name), "--pods", "3")
    assert forked.run(*words, env=os.environ, timeout=patient(60)).returncode == 0

    written = list(objects((tmp_path / name).read_text()))
    assert [obj["kind"] for obj in written] == ["Node"] * 1523 + ["Pod"] * 3


def test_pods_that_never_came_to_be_in_etcd_are_lost() -> None:
    nothing = Audit(revision=1, pods=2, bound=2, waiting={}, attempts=2, lost=(), doubled=(), overcommitted=())

    told = summary(nothing, pods=3, seconds=1.0, flood=Flood(1, 1.0))

    assert told.lost == 1
    assert not told.sound

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.patience import patient
from wharfinger.cli.main import run
from wharfinger.dev.folder import DataFolder, write_atomically
from wharfinger.dev.processes import end_survivors
from wharfinger.errors import ServerError
from wharfinger.fleet.agent import processes
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.children.lives import ProcessLife, life


def test_a_folder_is_held_by_one_supervisor_at_a_time(tmp_path: Path) -> None:
    with (
        DataFolder(tmp_path).locked(),
        pytest.raises(ServerError, match="another `wharfinger dev` is running there"),
        DataFolder(tmp_path).locked(),
    ):
        pass

    with DataFolder(tmp_path).locked():
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ServerError, match="--data-dir"), DataFolder(tmp_path / "file" / "data").locked():
        pass


def test_the_format_of_a_cluster_is_remembered_from_its_first_start(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.remember_format(ClusterFormat.RK8S)
    assert folder.format() is None
    folder.etcd.mkdir()
    assert folder.format() is ClusterFormat.RK8S
    folder.remember_format(ClusterFormat.KUBERNETES)
    assert folder.format() is ClusterFormat.KUBERNETES


def test_a_folder_of_an_earlier_release_has_kubernetes_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etcd").mkdir()
    assert DataFolder(tmp_path).format() is ClusterFormat.KUBERNETES
    assert run(["dev", "--data-dir", str(tmp_path), "--format", "rk8s"]) == 2
    assert capsys.readouterr().err == (
        f"error: --data-dir {tmp_path}: its cluster keeps pods and nodes in the format kubernetes, not rk8s: leave out "
        "--format, or name another folder\n"
    )


def test_ports_are_remembered_and_a_damaged_memory_is_forgotten(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.remember_ports({"etcd": 1})
    folder.remember_ports({"ui": 2})

    assert folder.ports() == {"etcd": 1, "ui": 2}

    (tmp_path / "ports.json").write_text("{")

    assert folder.ports() == {}


def test_a_long_log_is_set_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.locked(), folder.log("etcd").open("ab") as writer:
        os.truncate(folder.log("etcd"), processes.LOG_LIMIT + 1)
        folder.bound_logs()
        writer.write(b"more")

    assert folder.log("etcd").read_bytes() == b"more"
    assert folder.log("etcd").with_suffix(".log.1").stat().st_size == processes.LOG_LIMIT + 1


def test_a_long_log_that_cannot_be_set_aside_is_let_go(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.locked():
        for name in ("etcd", "temporal"):
            folder.log(name).touch()
            os.truncate(folder.log(name), processes.LOG_LIMIT + 1)
            folder.log(name).with_suffix(".log.1").mkdir()
        folder.bound_logs()

    assert [folder.log(name).stat().st_size for name in ("etcd", "temporal")] == [0, 0]


def test_json_is_written_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write_atomically(tmp_path / "ready", {"a": 1})
    write_atomically(tmp_path / "ready", {"a": 2})

    assert json.loads((tmp_path / "ready").read_text()) == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["ready"]


def test_a_survivor_is_ended_but_never_another_process_with_its_number(tmp_path: Path) -> None:
    survivor, other = (subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) for _ in range(2))
    try:
        known, earlier = life(survivor.pid), ProcessLife(other.pid, "an earlier life of the number")
        assert known is not None

        ended = end_survivors([known, earlier])

        assert ended == [known]
        assert survivor.wait(patient(5)) == -9
        assert other.poll() is None
    finally:
        for process in (survivor, other):
            process.kill()
            process.wait()

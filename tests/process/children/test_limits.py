from __future__ import annotations

import logging
import os
import resource
from pathlib import Path

import pytest

from wharfinger.process.children.limits import Bounds, ProcessLimits, delegated


def hierarchy(root: Path, own: str, controllers: str = "cpu memory pids") -> tuple[Path, Path]:
    ours = root / own.strip("/")
    ours.mkdir(parents=True)
    (ours / "cgroup.controllers").write_text(controllers)
    membership = root / "membership"
    membership.write_text(f"3:memory:/else\n0::{own}\n")
    return ours, membership


def test_a_delegated_cgroup_hands_its_controllers_down(tmp_path: Path) -> None:
    ours, membership = hierarchy(tmp_path, "/system.slice/agent.service/agent")

    group = delegated(tmp_path, membership)

    assert group == ours.parent
    assert (ours.parent / "cgroup.subtree_control").read_text() == "+memory +cpu"


def test_an_agent_that_is_not_in_a_leaf_leaves_cgroups_alone(tmp_path: Path) -> None:
    ours, membership = hierarchy(tmp_path, "/system.slice/wharfinger-agent.service")

    assert delegated(tmp_path, membership) is None
    assert not (ours / "cgroup.subtree_control").exists()


def test_without_controllers_or_at_the_root_there_is_none(tmp_path: Path) -> None:
    _, membership = hierarchy(tmp_path, "/user.slice/agent", controllers="pids")
    assert delegated(tmp_path, membership) is None

    membership.write_text("0::/\n")
    assert delegated(tmp_path, membership) is None
    assert delegated(tmp_path, tmp_path / "absent") is None


def test_an_instance_gets_a_cgroup_with_its_limits(tmp_path: Path) -> None:
    ProcessLimits(tmp_path).apply("common.0.1", 4711, Bounds(memory=1024, cpu=1500))

    group = tmp_path / "common.0.1"
    assert (group / "memory.max").read_text() == "1024"
    assert (group / "cpu.max").read_text() == "150000 100000"
    assert (group / "cgroup.procs").read_text() == "4711"


def test_limits_can_be_put_on_again(tmp_path: Path) -> None:
    for pid in (4711, 4711):
        ProcessLimits(tmp_path).apply("common.0.1", pid, Bounds(memory=1024))

    assert (tmp_path / "common.0.1" / "memory.max").read_text() == "1024"
    assert not (tmp_path / "common.0.1" / "cpu.max").exists()


def test_cgroup_bound_is_kept_when_the_next_agent_has_no_cgroup(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = os.getpid()
    (tmp_path / str(own)).mkdir()
    (tmp_path / str(own) / "cgroup").write_text("0::/system.slice/agent.service/common.0.1\n")
    before = resource.getrlimit(resource.RLIMIT_DATA)

    ProcessLimits(None, tmp_path).apply("common.0.1", own, Bounds(memory=1 << 40))

    assert caplog.text == ""
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_limits_are_kept_in_an_instances_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert Bounds.kept(tmp_path) == Bounds()
    assert caplog.text == ""

    Bounds(memory=1024, cpu=1500).keep(tmp_path)
    Bounds(memory=2048).keep(tmp_path)
    assert Bounds.kept(tmp_path) == Bounds(memory=2048)

    (kept,) = tmp_path.iterdir()
    kept.write_text('{"memory": [')
    with caplog.at_level(logging.WARNING):
        assert Bounds.kept(tmp_path) == Bounds()
    assert "instance_limits_unreadable" in caplog.text

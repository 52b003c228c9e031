from __future__ import annotations

import re
from pathlib import Path

import pytest

from wharfinger.dev import binaries
from wharfinger.dev.binaries import (
    ETCD,
    KUBE_APISERVER,
    KUBE_SCHEDULER,
    PROMTOOL,
    TEMPORAL,
    kept,
    locate,
    on_path,
    pinned,
    version_of,
)


def program(folder: Path, name: str, says: str) -> Path:
    """An executable that says something about its version."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_the_pinned_versions_are_read_from_go_mod() -> None:
    assert pinned(ETCD).startswith("3.6.")
    assert pinned(TEMPORAL).startswith("1.31.")
    assert pinned(KUBE_APISERVER) == pinned(KUBE_SCHEDULER)
    assert pinned(KUBE_APISERVER).startswith("1.36.")
    assert pinned(PROMTOOL).startswith("3.")


def test_the_version_of_a_temporal_is_that_of_its_server(tmp_path: Path) -> None:
    path = program(tmp_path, "temporal", "temporal version 1.8.2 (Server 1.31.2, UI 2.50.1)")

    assert version_of(TEMPORAL, path) == "1.31.2"


def test_kubernetes_programs_print_their_version_without_a_name(tmp_path: Path) -> None:
    path = program(tmp_path, "kube-scheduler", "Kubernetes v1.36.2")

    assert version_of(KUBE_SCHEDULER, path) == "1.36.2"


@pytest.mark.parametrize(("module", "release"), [("0.316.0", "3.16.0"), ("0.305.2", "3.5.2"), ("0.310.11", "3.10.11")])
def test_the_release_of_prometheus_is_that_of_its_module(module: str, release: str) -> None:
    assert re.sub(*PROMTOOL.renumbered, module) == release


@pytest.mark.parametrize("says", ["etcd Version: 3.5.9", "etcd Version: 3.7.0", "etcd Version: 3.6.0-rc.1", "hello"])
def test_another_series_on_the_path_is_passed_over(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "etcd", says)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert on_path(ETCD) is None


@pytest.mark.parametrize("patch", [0, 1])
def test_the_pinned_version_or_a_later_patch_on_the_path_is_taken(
    patch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    major, minor, pin = (int(part) for part in pinned(ETCD).split("."))
    path = program(tmp_path, "etcd", f"etcd Version: {major}.{minor}.{pin + patch}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert on_path(ETCD) == path


@pytest.mark.servers  # where nothing is set up yet, they are built
def test_the_servers_of_the_set_up_are_found() -> None:
    for wanted in binaries.PROGRAMS:
        assert locate(wanted) in (on_path(wanted), kept(wanted))


@pytest.mark.servers
def test_programs_are_made_by_name_and_an_unknown_name_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert binaries.main(["etcd", "postgres"]) == 2
    assert "postgres" in capsys.readouterr().err
    assert binaries.main(["etcd"]) == 0
    assert capsys.readouterr().out.startswith(f"etcd {pinned(ETCD)}: ")


def test_programs_that_are_on_the_path_are_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go, so that a build would fail."""
    programs = (KUBE_APISERVER, ETCD, KUBE_SCHEDULER)
    says = (
        f"Kubernetes v{pinned(KUBE_APISERVER)}",
        f"etcd Version: {pinned(ETCD)}",
        f"Kubernetes v{pinned(KUBE_SCHEDULER)}",
    )
    paths = [program(tmp_path, wanted.name, said) for wanted, said in zip(programs, says, strict=True)]
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")

    assert binaries.locate_all(programs) == paths

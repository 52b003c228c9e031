"""No test starts a server without the marker `servers`, by which `make check` leaves it out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import server_marker
from tests.server_marker import server_started_by

ROOT = Path(__file__).parents[2]
CONFORMANCE = "tests/etcd/conformance/test_leases.py"


def test_unmarked_test_that_starts_a_server_fails(tmp_path: Path) -> None:
    """This test has no marker, so the guard of this very session refuses the process before it begins."""
    begun = tmp_path / "begun"
    program = tmp_path / "etcd"
    program.write_text(f"#!/bin/sh\ntouch {begun}\n")
    program.chmod(0o755)

    with pytest.raises(pytest.fail.Exception, match="starts etcd and lacks the marker `servers`"):
        subprocess.run([program], check=True)

    assert not begun.exists()


@pytest.mark.servers
def test_marked_test_may_start_a_server(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    program = tmp_path / "etcd"
    program.write_text(f"#!/bin/sh\ntouch {begun}\n")
    program.chmod(0o755)

    subprocess.run([program], check=True)

    assert begun.exists()


@pytest.mark.parametrize(
    ("command", "server"),
    [
        ("/opt/etcd --data-dir x", "etcd"),
        ("temporal server start-dev", "temporal"),
        ("/usr/lib/postgresql/15/bin/postgres -D x", "postgres"),
        ("go build ./etcd", "go"),
        (f"{sys.executable} -m wharfinger dev --workers 1", "wharfinger dev"),
        (".venv/bin/wharfinger demo", "wharfinger demo"),
        ("etcd --version", None),
        ("etcdctl version", None),
        ("wharfinger dev --help", None),
        ("wharfinger worker --etcd http://127.0.0.1:2379", None),
        ("cat etcd", None),
        ("", None),
    ],
)
def test_commands_that_start_servers_are_recognized(command: str, server: str | None) -> None:
    assert server_started_by(command.split()) == server


@pytest.mark.long  # sessions of pytest of its own
def test_tests_are_marked_by_their_fixtures_and_parameters() -> None:
    """The same tests of the conformance suite run on the store in memory, and on etcd with the marker."""
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", CONFORMANCE, "tests/etcd/test_etcd_lease.py"]

    def collected(marker: str) -> list[str]:
        done = subprocess.run([*collect, "-m", marker], cwd=ROOT, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if "::" in line]

    without, marked = collected("not servers"), collected("servers")

    assert {line.partition("[")[2].split("-")[0].rstrip("]") for line in without} == {"memory", "memory, rk8s"}
    assert all(any(f"[{protocol}" in line for line in marked) for protocol in ("json", "grpc"))
    assert any("test_etcd_lease.py" in line for line in marked)
    assert not any("[memory" in line for line in marked)


def test_every_listed_fixture_exists() -> None:
    """A renamed fixture would otherwise lose its tests the marker."""
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("conftest.py"))

    assert [name for name in sorted(server_marker.FIXTURES) if f"def {name}(" not in sources] == []

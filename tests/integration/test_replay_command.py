"""`wharfinger replay` on real servers: what was decided is decided again, also by workers that share the work."""

from __future__ import annotations

import json
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.forked import Forked
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods, node, pod, refusal
from wharfinger.process.children.ports import free_port

pytestmark = pytest.mark.timeout(180)


def now() -> str:
    """This moment; the thousands of decisions that tests before have left on the tree are older."""
    return datetime.now(UTC).isoformat()


def replayed(tree: DevTree, *more: str, since: str = "1h", code: int = 0) -> Any:
    answer = tree.cli("replay", "--since", since, "-o", "json", *more, check=False)
    assert answer.returncode == code, answer.stderr
    return json.loads(answer.stdout)


def test_recorded_decisions_are_made_again_to_the_letter(cluster: DevTree) -> None:
    etcd, since, before = cluster.etcd, now(), cluster.etcd.revision()
    for number in range(4):
        etcd.put(f"{NODES}node-{number}", node(f"node-{number}", cpu="8"))
    names = [f"web-{number}" for number in range(20)]
    for name in names:
        etcd.put(f"{PODS}default/{name}", pod(name, cpu="1"))
    etcd.put(f"{PODS}default/huge", pod("huge", cpu="99"))
    wait_until(lambda: bound_pods(etcd).keys() >= set(names) and refusal(etcd, "huge"), 30, "all decided")

    same = replayed(cluster, "--fail-on", "refused > 0")
    ours = [one for one in same["pods"] if one["revision"] > before]
    packed = replayed(
        cluster,
        "--set",
        "NodeResourcesFit.scoringStrategy.type=MostAllocated",
        "--fail-on",
        "elsewhere > 0",
        since=since,
        code=1,
    )
    text = cluster.cli("replay", "--since", since).stdout

    assert ours == []
    assert same["summary"]["same"] + same["summary"]["unreplayable"] == same["decisions"] >= 21
    assert {one["lack"] for one in same["unreplayable"]} <= {"compacted", "state"}, same["unreplayable"]
    assert same["summary"]["same"] >= 21
    assert same["sameShare"] == 1
    assert [one["build"] for one in same["builds"] if one["digest"]] != []
    moved = {one["pod"] for one in packed["pods"] if one["verdict"] == "elsewhere"}
    assert moved & {f"default/{name}" for name in names}
    assert packed["packing"]["again"] > packed["packing"]["recorded"]
    assert "with nothing changed: 100.00 % the same" in text


def test_what_is_wrong_is_told_in_one_line(cluster: DevTree) -> None:
    for arguments in (
        ("--since", "yesterday"),
        ("--since", "1h", "--until", "2h"),
        ("--set", "weight=3"),
        ("--plugin", "nothing"),
        ("--fail-on", "refused"),
        ("--keep-in", "/none/deep"),
        ("--memory-limit", "much"),
        ("--memory-limit", "64Mi"),
    ):
        answer = cluster.cli("replay", *arguments, check=False)
        assert answer.returncode == 2, arguments
        assert answer.stderr.count("\n") == 1


def test_an_archive_is_written_on_and_replayed_without_servers(cluster: DevTree, tmp_path: Path) -> None:
    etcd, file, since = cluster.etcd, tmp_path / "archive", now()
    etcd.put(f"{NODES}node", node("node", cpu="8"))
    etcd.put(f"{PODS}default/first", pod("first"))
    wait_until(lambda: "first" in bound_pods(etcd), 30, "first bound")
    first = cluster.cli("archive", str(file), "--since", since).stdout
    etcd.put(f"{PODS}default/second", pod("second"))
    wait_until(lambda: "second" in bound_pods(etcd), 30, "second bound")
    second = cluster.cli("archive", str(file)).stdout
    nowhere = {"WHARFINGER_ETCD": "http://127.0.0.1:1", "WHARFINGER_TEMPORAL": "127.0.0.1:1"}

    answer = cluster.cli("replay", "--archive", str(file), "-o", "json", env=nowhere)
    spans = (("--since", "0s"), ("--until", "1h"), ("--since", "1h", "--until", "0s"))
    asked = [cluster.cli("replay", "--archive", str(file), "-o", "json", *span, env=nowhere).stdout for span in spans]
    damaged = tmp_path / "damaged"
    damaged.write_bytes(file.read_bytes()[:40] + b"x" + file.read_bytes()[41:])
    refused = cluster.cli("replay", "--archive", str(damaged), check=False)
    missing = cluster.cli("replay", "--archive", str(tmp_path / "none"), check=False)

    page = tmp_path / "report.html"
    cluster.cli("replay", "--archive", str(file), "--html", str(page), env=nowhere)
    lived_page, kept = tmp_path / "lived.html", tmp_path / "kept"
    files = "--html", str(lived_page), "--keep-in", str(kept)
    lived = cluster.cli("replay", "--archive", str(file), "--mode", "rerun", "-o", "json", *files, env=nowhere)

    assert page.read_text().startswith("<!doctype html>")
    assert "<h2>In use</h2>" in lived_page.read_text()
    [report_file] = kept.iterdir()
    assert f"kept as {report_file}" in lived.stderr
    assert report_file.name.endswith("-rerun-unchanged.json")
    assert json.loads(report_file.read_text())["report"] == json.loads(lived.stdout)
    assert json.loads(lived.stdout)["decisions"] >= 2
    assert "up to revision" in first
    assert second.startswith(("1 decisions of 1 runs", "2 decisions of 2 runs"))
    report = json.loads(answer.stdout)
    assert (report["sameShare"], report["gaps"]) == (1, [])
    assert report["summary"]["same"] >= 2
    assert [json.loads(one)["decisions"] for one in asked] == [0, 0, report["decisions"]]
    assert (report["since"], json.loads(asked[0])["until"]) == (None, None)
    assert file.stat().st_mode & 0o777 == 0o600
    assert refused.returncode == 1
    assert "is damaged at byte 28" in refused.stderr
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1


def test_an_archive_that_is_written_on_serves_its_metrics(cluster: DevTree, tmp_path: Path) -> None:
    file, log, port = tmp_path / "archive", tmp_path / "archive.log", free_port()
    line = ("archive", str(file), "--follow", "--since", "1h", f"--metrics-bind-address=127.0.0.1:{port}")
    process = Forked(line, cluster.environment, log, log)

    def pages() -> tuple[str, str] | None:
        try:
            found = [
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) for page in ("metrics", "readyz")
            ]
        except OSError:
            assert process.poll() is None, log.read_text()
            return None
        metrics, ready = (one.read().decode() for one in found)
        return (metrics, ready) if 'passes_total{result="written"} 1.0' in metrics else None

    try:
        wait_until(pages, 30, "the first pass")
        found = pages()
    finally:
        process.terminate()
        process.wait()
    once = cluster.cli("archive", str(file), "--metrics-bind-address", "127.0.0.1:0", check=False)

    assert found is not None
    values = dict(line.rsplit(" ", 1) for line in found[0].splitlines() if line.startswith("wharfinger_archive_"))
    assert float(values["wharfinger_archive_revision"]) > 1
    assert float(values["wharfinger_archive_bytes"]) == file.stat().st_size
    assert float(values["wharfinger_archive_seconds_since_pass"]) < 60
    assert values["wharfinger_archive_gaps"] == "0.0"
    assert "ok" in found[1]
    assert (once.returncode, once.stderr.count("\n")) == (2, 1)
    assert "is for --follow" in once.stderr

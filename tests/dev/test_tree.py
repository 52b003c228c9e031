"""`wharfinger dev` as a user starts it: real servers, a real worker, real signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.dev.conftest import NewTree
from tests.dev.web_page import asked
from tests.integration.dev_tree import HOSTS, DevTree, processes_of, wait_until
from tests.patience import patient
from wharfinger.dev import binaries
from wharfinger.process.children.lives import ProcessLife, life

pytestmark = pytest.mark.timeout(240)

KEY = "/registry/nodes/kept"


def lives(tree: DevTree) -> list[ProcessLife]:
    """Every process of the tree but the supervisor."""
    pids = tree.ready["pids"]
    found = [life(pid) for pid in (pids["etcd"], pids["temporal"], pids["agent"], *pids["workers"])]
    assert None not in found
    return [life for life in found if life is not None]


def all_gone(known: list[ProcessLife]) -> bool:
    return not any(life.alive for life in known)


def environment(pid: int) -> list[str]:
    """A process's variables."""
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


def test_tree_serves_prints_addresses_and_stops_clean(dev_tree: NewTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    tree = dev_tree(1, usual_ports=True, own_interpreter=True)
    tree.start()
    ready, known = tree.ready, lives(tree)

    assert set(ready) == {"etcd", "temporal", "namespace", "ui", "health", "pids"}
    assert len(ready["health"]) == len(ready["pids"]["workers"]) == 1
    assert "GOGC=300" in environment(ready["pids"]["temporal"])
    for url in (f"{ready['etcd']}/health", ready["ui"], f"{ready['health'][0]}/readyz"):
        with urllib.request.urlopen(url, timeout=patient(30)) as answer:
            assert answer.status == 200

    assert tree.stop() == 0
    assert all_gone(known)
    assert not tree.ready_file.exists()  # who waits for it waits for the next start


def test_what_is_killed_comes_back_on_its_ports_and_is_in_the_ready_file(dev_tree: NewTree) -> None:
    tree = dev_tree(1)
    tree.start()
    tree.etcd.put(KEY, {"kept": True})
    before = tree.ready

    for what in ("etcd", "temporal", "agent", "workers"):
        tree.kill(what)
    after, known = tree.ready, lives(tree)

    assert tree.etcd.values(KEY)
    assert {name: after[name] for name in ("etcd", "temporal", "ui")} == {
        name: before[name] for name in ("etcd", "temporal", "ui")
    }
    assert after["pids"]["etcd"] != before["pids"]["etcd"]
    assert "died: killed by SIGKILL" in (tree.folder / "dev.log").read_text()
    assert tree.stop() == 0
    assert all_gone(known)


def test_one_at_a_time_on_a_folder_and_the_next_goes_on_there(dev_tree: NewTree, tmp_path: Path) -> None:
    first = dev_tree(0)
    first.start()
    first.etcd.put(KEY, {"kept": True})
    before = first.ready

    same = ("--data-dir", str(tmp_path / "data"), "--ready-file", str(first.ready_file))
    refused = first.cli("dev", *same, check=False)

    assert refused.returncode == 1
    assert "another `wharfinger dev` is running there" in refused.stderr
    assert first.ready_file.exists()
    assert first.stop() == 0

    second = dev_tree(0)
    second.start()

    assert second.etcd.values(KEY)
    assert second.ready["etcd"] == before["etcd"]
    assert second.ready["temporal"] == before["temporal"]
    assert second.stop() == 0


def test_a_cluster_of_rk8s_binds_its_example_and_gets_users(dev_tree: NewTree) -> None:
    """Its folder had none: it was open to other tools."""
    first = dev_tree(1)
    first.start("--format", "rk8s")
    example = Path(__file__).parents[2] / "examples" / "rk8s" / "quickstart"
    first.cli("apply", "-f", str(example / "cluster.yaml"))
    first.cli("apply", "-f", str(example / "pods.yaml"))
    log = (first.folder / "dev.log").read_text()
    assert "examples/rk8s/quickstart     # four nodes, three pods" in log
    assert "etcd is open (--etcd-open): any web page" in log

    def rows() -> dict[str, list[str]]:
        lines = first.cli("get", "pods").stdout.splitlines()[1:]
        return {row[1]: row for row in (line.split() for line in lines)}

    wait_until(lambda: {row[2] for row in rows().values()} == {"Bound", "Pending"}, patient(30), "two of three bound")
    wait_until(lambda: rows()["big-1"][-1] == "Unschedulable", patient(30), "a reason")
    assert first.stop() == 0

    second = dev_tree(1, guarded=True)
    second.start()
    refuses_pages(second.ready["etcd"])
    node = second.cli("get", "node", "elm-2", "-o", "yaml").stdout
    path = second.folder / "node.yaml"
    path.write_text(node[: node.index("  taints:")] + node[node.index("status:") :])
    second.cli("apply", "-f", str(path))
    wait_until(lambda: rows()["big-1"][2:4] == ["Bound", "elm-2"], patient(30), "the third one bound")
    lists_keys_as_printed(second)
    assert second.stop() == 0


def refuses_pages(etcd: str) -> None:
    """A simple request, which a browser sends for a page of any origin, neither reads nor writes."""
    for path, body in (
        ("kv/put", {"key": "L3JlZ2lzdHJ5L3BvZHMvdw==", "value": "e30="}),
        ("kv/range", {"key": "AA==", "range_end": "AA=="}),
        ("auth/disable", {}),
    ):
        status, headers, said = asked(etcd, path, json.dumps(body).encode(), Origin="https://elsewhere.example")
        assert (status, "user name is empty" in said.decode()) == (400, True)
        assert "access-control-allow-origin" not in headers


def lists_keys_as_printed(tree: DevTree) -> None:
    """The line for etcd's own client; with a password in no command line."""
    etcdctl = binaries.at_hand(binaries.ETCDCTL)
    line = next(
        line for line in (tree.folder / "dev.log").read_text().splitlines() if "etcdctl" in line and "--user" in line
    )
    if etcdctl is not None:
        words = line[line.index("ETCDCTL_PASSWORD") :].replace(" etcdctl ", f" {etcdctl} ")
        listed = subprocess.run(["sh", "-c", words], check=False, capture_output=True, text=True, timeout=patient(30))
        assert "/registry/nodes/elm-2" in listed.stdout, listed.stderr
    assert "--user root" in line


def test_workers_outlive_their_agent_and_nothing_the_supervisor(dev_tree: NewTree) -> None:
    first = dev_tree(2)
    first.start()
    first.etcd.put(KEY, {"kept": True})
    before = first.ready["pids"]

    first.kill("agent")

    after = first.ready["pids"]
    assert after["agent"] != before["agent"]
    assert after["workers"] == before["workers"]

    known = lives(first)
    assert first.process is not None
    first.process.kill()
    first.process.wait()

    wait_until(lambda: all_gone(known), 30, "children die with their supervisor")
    second = dev_tree(2)
    second.start()

    assert second.etcd.values(KEY)
    assert len(second.ready["pids"]["workers"]) == 2
    assert second.stop() == 0


def test_a_taken_named_port_is_one_line_and_old_ready_file_goes(dev_tree: NewTree) -> None:
    tree = dev_tree(0)
    tree.ready_file.write_text(json.dumps({"old": True}))
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(AssertionError, match=r"error: --etcd-port: port \d+ is taken by another process"),
    ):
        tree.start("--etcd-port", str(other.getsockname()[1]))

    assert tree.process is not None
    assert tree.process.returncode == 1
    assert not tree.ready_file.exists()


def test_of_parts_that_start_together_one_failure_is_told(dev_tree: NewTree) -> None:
    """The page cannot start, while the hub and a member do: all are stopped, and one line says why."""
    tree = dev_tree(0)
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(AssertionError, match=r"\nerror: --page-port: port \d+ is taken by another process\n$"),
    ):
        tree.start("--members", "1", "--page", "--page-port", str(other.getsockname()[1]))

    assert tree.process is not None
    assert tree.process.returncode == 1
    assert not [line for line in processes_of(tree.folder).values() if "etcd" in line or "wharfinger" in line]


def test_named_ports_are_used(dev_tree: NewTree) -> None:
    etcd, temporal, ui = free_port(), free_port(), free_port()
    tree = dev_tree(0)
    tree.start("--etcd-port", str(etcd), "--temporal-port", str(temporal), "--ui-port", str(ui))

    assert tree.ready["etcd"] == f"http://127.0.0.1:{etcd}"
    assert tree.ready["temporal"] == f"127.0.0.1:{temporal}"
    assert tree.ready["ui"] == f"http://127.0.0.1:{ui}"
    assert tree.stop() == 0


def test_host_record_has_the_variables_and_installs_of_dev(
    dev_tree: NewTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secrets" / "own" / "1"
    secret.parent.mkdir(parents=True)
    secret.write_text("kept")
    monkeypatch.setenv("WHARFINGER_ALLOW_ENV", "TZ FROM_HERE")
    monkeypatch.setenv("FROM_HERE", "passes")
    monkeypatch.setenv("GOGC", "150")
    tree = dev_tree(1)
    tree.start("--secrets-dir", str(secret.parents[1]), "--install", f"own={sys.executable}")
    (host,) = tree.etcd.objects(HOSTS).values()
    before = tree.ready["pids"]["workers"]

    assert (host["allow_env"], host["installs"]) == (["FROM_HERE", "TZ"], ["own"])
    assert "FROM_HERE=passes" in environment(before[0])
    assert "GOGC=150" in environment(tree.ready["pids"]["temporal"])

    template = {"environment": {"TZ": "Asia/Tokyo", "OTHER": "x"}, "secrets": [{"name": "own", "version": "1"}]}
    file = tmp_path / "fleet.json"
    about = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": "common"}}
    strategy = {"rollingUpdate": {"soakSeconds": 0}}
    file.write_text(json.dumps({**about, "spec": {"template": template, "minReadySeconds": 1, "strategy": strategy}}))
    applied = tree.cli("fleet", "apply", "-f", str(file), "--wait", "--timeout", "120s")
    wait_until(lambda: len(now := tree.ready["pids"]["workers"]) == 1 and now != before, 30, "the ready file says so")

    assert "note: host dev does not pass OTHER to instances: start its agent with --allow-env OTHER" in applied.stderr
    assert "TZ=Asia/Tokyo" in environment(tree.ready["pids"]["workers"][0])
    assert [path.read_text() for path in (tmp_path / "data").glob("**/secrets/own")] == ["kept"]
    assert tree.stop() == 0


def test_it_is_asked_where_it_listens_and_past_any_proxy(dev_tree: NewTree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    tree = dev_tree(1)
    tree.start("--bind-address", "127.0.0.2")
    ready = tree.ready

    for url in (ready["etcd"], f"http://{ready['temporal']}", ready["ui"], ready["health"][0]):
        host, port = url.removeprefix("http://").split(":")
        assert host == "127.0.0.2"
        socket.create_connection((host, int(port)), timeout=patient(30)).close()


@pytest.mark.parametrize("address", ["here", "::1", "192.0.2.77"])
def test_an_address_that_nothing_can_listen_on_is_refused(address: str, dev_tree: NewTree) -> None:
    tree = dev_tree(0)
    with pytest.raises(AssertionError, match="error: --bind-address: "):
        tree.start("--bind-address", address)

    assert tree.process is not None
    assert tree.process.returncode == 2


def test_it_stops_in_time_even_when_nothing_in_it_can_answer(dev_tree: NewTree) -> None:
    """Stopped processes take no SIGTERM: they are killed, and the exit is clean all the same."""
    tree = dev_tree(1)
    tree.start()
    known = lives(tree)
    for one in known:
        os.kill(one.pid, signal.SIGSTOP)

    assert tree.stop() == 0  # within 20 s of a machine of its own
    assert all_gone(known)

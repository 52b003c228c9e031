"""Asynchronous PreBind and Bind plugins in real workers on bare etcd: killed in the middle, and called by another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, bound_pods, condition, node, pod, refusal
from tests.integration.plugin_package import put_plugin

pytestmark = pytest.mark.timeout(240)

SPACE = "licences"
HOLDS = "/registry/wharfinger.dev/holds/"
SOURCE = '''
import asyncio
import json
import os
from pathlib import Path

from wharfinger.framework.async_plugins import CallLimits
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable

FOLDER = Path(os.environ["LICENCES"])


def note(**fields):
    with (FOLDER / "calls").open("a") as calls:
        calls.write(json.dumps(fields) + "\\n")


class Licences:
    """Asks a licence server, which is a folder: files in it say what becomes of a call."""

    name = "Licences"
    call_limits = CallLimits(timeout=60, deadline=120, heartbeat=2)

    def concerns(self, pod):
        return "licence" in pod.labels

    def reserve(self, state, pod, node_name):
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        if self.concerns(pod):
            note(unreserved=pod.name, data=state.carried(self.name))

    async def pre_bind(self, state, pod, node_name, call):
        note(pre_bind=pod.name, key=call.key, attempt=call.attempt, worker=os.getpid(), node=node_name)
        state.carry(self.name, {"licence": 7})
        while (FOLDER / "hangs").exists():
            await asyncio.sleep(0.02)
        if (FOLDER / "waits").exists():
            return Status(Code.WAIT, ("the licence is being made",))
        if (FOLDER / "refuses").exists():
            return unschedulable("no licence is free")
        return SUCCESS


class Crane:
    """Binds by the default binder, and may die between that and its answer."""

    name = "Crane"
    call_limits = CallLimits(timeout=60, deadline=120, heartbeat=2)

    async def bind(self, state, pod, node_name, call):
        note(bind=pod.name, key=call.key, attempt=call.attempt, worker=os.getpid())
        status = await call.bind()
        note(bound=pod.name)
        while (FOLDER / "hangs").exists():
            await asyncio.sleep(0.02)
        return status
'''


class Desk:
    """The folder that the plugins read and write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.environment = {"LICENCES": str(folder)}
        for name in ("Licences", "Crane"):
            put_plugin(self.site, name, SOURCE)

    def config(self, *, crane: bool = False) -> Path:
        path = self.folder / "config.json"
        binders = {"disabled": [{"name": "*"}], "enabled": [{"name": "Crane"}, {"name": "DefaultBinder"}]}
        plugins = {"multiPoint": {"enabled": [{"name": "Licences"}]}, **({"bind": binders} if crane else {})}
        path.write_text(json.dumps({"profiles": [{"plugins": plugins}]}))
        return path

    def noted(self, what: str) -> list[dict[str, Any]]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [one for one in map(json.loads, lines) if what in one]

    def put(self, what: str) -> None:
        (self.folder / what).touch()

    def take(self, what: str) -> None:
        (self.folder / what).unlink()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def licensed(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, namespace=SPACE, labels={"licence": "yes"}, **more)


def binds_of(etcd: Gateway, name: str, first: int) -> list[str]:
    """The nodes that etcd's history shows the pod on, each as often as it was put there anew."""
    nodes = [
        json.loads(value)["spec"].get("nodeName", "")
        for _, key, value in etcd.history(PODS, first, etcd.revision())
        if key == f"{PODS}{SPACE}/{name}" and value is not None
    ]
    return [node for before, node in zip(["", *nodes], nodes, strict=False) if node and node != before]


def test_a_call_that_died_with_its_worker_is_made_by_another(
    servers: DevTree, start_worker: StartWorker, desk: Desk
) -> None:
    """The room stays held, for the killed worker and for its successor, and the key is the same."""
    etcd, first = servers.etcd, servers.etcd.revision()
    options = f"--config={desk.config()}"
    worker = start_worker(options, env=desk.environment, folder=desk.site)
    desk.put("hangs")
    etcd.put(f"{NODES}small", node("small", cpu="1"))
    etcd.put(f"{PODS}{SPACE}/web", licensed("web", cpu="1"))
    wait_until(lambda: len(desk.noted("pre_bind")) == 1, 40, "the plugin is called")
    assert etcd.get(f"{HOLDS}{SPACE}/web")["node"] == "small"

    worker.process.kill()
    worker.process.wait()
    start_worker(options, env=desk.environment, folder=desk.site)
    etcd.put(f"{PODS}{SPACE}/rival", pod("rival", namespace=SPACE, cpu="1"))
    wait_until(lambda: refusal(etcd, "rival", SPACE), 40, "the room is not given to another pod")
    wait_until(lambda: len(desk.noted("pre_bind")) == 2, 60, "another worker calls the plugin")
    assert bound_pods(etcd, SPACE) == {}
    desk.take("hangs")
    wait_until(lambda: bound_pods(etcd, SPACE) == {"web": "small"}, 40, "bound once the plugin agrees")

    calls = desk.noted("pre_bind")
    assert len({one["key"] for one in calls}) == 1
    assert len({one["worker"] for one in calls}) == 2
    assert [one["attempt"] for one in calls] == [1, 2]
    wait_until(lambda: etcd.get(f"{HOLDS}{SPACE}/web") is None, 10, "nothing is held any more")
    assert binds_of(etcd, "web", first) == ["small"]
    assert desk.noted("unreserved") == []
    told = servers.cli("explain", "pod", f"{SPACE}/web").stdout
    assert "PreBind of Licences: success" in told


def test_a_bind_whose_worker_dies_afterwards_is_made_once(
    servers: DevTree, start_worker: StartWorker, desk: Desk
) -> None:
    etcd, first = servers.etcd, servers.etcd.revision()
    options = f"--config={desk.config(crane=True)}"
    worker = start_worker(options, env=desk.environment, folder=desk.site)
    desk.put("hangs")
    etcd.put(f"{NODES}a", node("a"))
    etcd.put(f"{PODS}{SPACE}/plain", pod("plain", namespace=SPACE))
    wait_until(lambda: desk.noted("bound"), 40, "the plugin has bound it, and has not said so")
    assert bound_pods(etcd, SPACE) == {"plain": "a"}

    worker.process.kill()
    worker.process.wait()
    desk.take("hangs")
    start_worker(options, env=desk.environment, folder=desk.site)
    etcd.put(f"{PODS}{SPACE}/next", pod("next", namespace=SPACE))
    wait_until(lambda: "next" in bound_pods(etcd, SPACE), 40, "others follow")

    def outcome() -> str:
        told = json.loads(servers.cli("explain", "pod", f"{SPACE}/plain", "-o", "json").stdout)
        return str(told["attempts"][-1]["outcome"])

    wait_until(lambda: outcome() == "bound", 60, "its attempt ends, too")
    assert [one["bind"] for one in desk.noted("bind")].count("plain") == 1
    assert binds_of(etcd, "plain", first) == ["a"]
    assert etcd.get(f"{HOLDS}{SPACE}/plain") is None


def test_a_refusal_is_told_and_frees_the_room(servers: DevTree, start_worker: StartWorker, desk: Desk) -> None:
    etcd = servers.etcd
    start_worker(f"--config={desk.config()}", env=desk.environment, folder=desk.site)
    desk.put("hangs")
    desk.put("refuses")
    etcd.put(f"{NODES}small", node("small", cpu="1"))
    etcd.put(f"{PODS}{SPACE}/web", licensed("web", cpu="1"))
    wait_until(lambda: desk.noted("pre_bind"), 40, "the plugin is called")
    etcd.put(f"{PODS}{SPACE}/rival", pod("rival", namespace=SPACE, cpu="1"))
    wait_until(lambda: refusal(etcd, "rival", SPACE), 40, "the room is held")

    desk.take("hangs")
    wait_until(lambda: refusal(etcd, "web", SPACE), 40, "the refusal is recorded")
    said = condition(etcd.get(f"{PODS}{SPACE}/web"))
    assert (said["reason"], said["message"]) == ("Unschedulable", "no licence is free")
    assert desk.noted("unreserved")[0]["data"] == {"licence": 7}
    told = servers.cli("explain", "pod", f"{SPACE}/web").stdout
    assert "PreBind of Licences: refused (no licence is free)" in told
    wait_until(lambda: bound_pods(etcd, SPACE) == {"rival": "small"}, 20, "the pod that waited has the room")


def test_a_plugin_that_waits_holds_no_worker(servers: DevTree, start_worker: StartWorker, desk: Desk) -> None:
    """It is called again, by whichever worker; a deleted pod ends the calls, and its room is free."""
    etcd = servers.etcd
    options = f"--config={desk.config()}"
    worker = start_worker(options, env=desk.environment, folder=desk.site)
    desk.put("waits")
    etcd.put(f"{NODES}small", node("small", cpu="2"))
    for name in ("web", "gone"):
        etcd.put(f"{PODS}{SPACE}/{name}", licensed(name, cpu="1"))

    def called(name: str) -> int:
        return sum(1 for one in desk.noted("pre_bind") if one["pre_bind"] == name)

    wait_until(lambda: min(called("web"), called("gone")) >= 2, 40, "both are asked again")
    etcd.delete(f"{PODS}{SPACE}/gone")
    etcd.put(f"{PODS}{SPACE}/rival", pod("rival", namespace=SPACE, cpu="1"))
    wait_until(lambda: bound_pods(etcd, SPACE) == {"rival": "small"}, 40, "the room of the deleted pod is free")
    wait_until(lambda: etcd.get(f"{HOLDS}{SPACE}/gone") is None, 40, "nothing is left of it")

    assert worker.stop() == 0
    start_worker(options, env=desk.environment, folder=desk.site)
    desk.take("waits")
    wait_until(lambda: bound_pods(etcd, SPACE) == {"rival": "small", "web": "small"}, 90, "bound in the end")
    assert len({one["key"] for one in desk.noted("pre_bind") if one["pre_bind"] == "web"}) == 1

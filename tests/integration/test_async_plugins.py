"""Asynchronous PreBind and Bind plugins in real workers on bare etcd: killed in the middle, and called by another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, bound_pods, condition, node, pod, refusal
from tests.integration.plugin_desk import PluginDesk

pytestmark = pytest.mark.timeout(240)

SPACE = "licences"
HOLDS = "/registry/wharfinger.dev/holds/"
CRANE = '''

class Crane:
    """Binds by the default binder, and may die between that and its answer."""

    name = "Crane"
    call_limits = LIMITS

    async def bind(self, state, pod, node_name, call):
        note(bind=pod.name, key=call.key, attempt=call.attempt, worker=os.getpid())
        status = await call.bind()
        note(bound=pod.name)
        await hang()
        return status
'''


@pytest.fixture
def desk(tmp_path: Path) -> PluginDesk:
    return PluginDesk(tmp_path, CRANE)


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
    servers: DevTree, start_worker: StartWorker, desk: PluginDesk
) -> None:
    """The room stays held, for the killed worker and for its successor, and the key is the same."""
    etcd, first = servers.etcd, servers.etcd.revision()
    options = f"--config={desk.config(crane=False)}"
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
    servers: DevTree, start_worker: StartWorker, desk: PluginDesk
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


def test_a_refusal_is_told_and_frees_the_room(servers: DevTree, start_worker: StartWorker, desk: PluginDesk) -> None:
    etcd = servers.etcd
    start_worker(f"--config={desk.config(crane=False)}", env=desk.environment, folder=desk.site)
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


def test_a_plugin_that_raises_is_told_while_it_is_called_again(
    servers: DevTree, start_worker: StartWorker, desk: PluginDesk
) -> None:
    etcd = servers.etcd
    start_worker(f"--config={desk.config(crane=False)}", env=desk.environment, folder=desk.site)
    desk.put("raises")
    etcd.put(f"{NODES}small", node("small", cpu="1"))
    etcd.put(f"{PODS}{SPACE}/web", licensed("web", cpu="1"))
    wait_until(lambda: len(desk.noted("pre_bind")) >= 2, 40, "the plugin is called again")

    def said() -> str:
        return str(json.loads(servers.cli("explain", "pod", f"{SPACE}/web", "-o", "json").stdout)["calling"])

    wait_until(lambda: said().startswith("PreBind of Licences: try "), 20, "the failed call is told")
    assert " failed (OSError: the server answered 500), and try " in said()
    told = servers.cli("explain", "pod", f"{SPACE}/web").stdout
    assert "Bound once its plugin agrees: PreBind of Licences: try " in told
    [group] = json.loads(servers.cli("pending", "-n", SPACE, "-o", "json").stdout)
    assert (group["reason"], group["pods"]) == ("CallingPlugins", [f"{SPACE}/web"])
    assert group["message"].startswith("its room is held for PreBind of Licences: ")
    described = servers.cli("describe", "pod", f"{SPACE}/web").stdout
    assert "its room is held for PreBind of Licences on small since " in described

    desk.take("raises")
    wait_until(lambda: bound_pods(etcd, SPACE) == {"web": "small"}, 60, "bound once the plugin agrees")
    told = json.loads(servers.cli("explain", "pod", f"{SPACE}/web", "-o", "json").stdout)
    assert told["calling"] == ""


def test_a_plugin_that_waits_holds_no_worker(servers: DevTree, start_worker: StartWorker, desk: PluginDesk) -> None:
    """It is called again, by whichever worker; a deleted pod ends the calls, and its room is free."""
    etcd = servers.etcd
    options = f"--config={desk.config(crane=False)}"
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

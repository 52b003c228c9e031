"""An API that cannot be used: the process stays, says why in one line, and goes on by itself once that is mended."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest
from aiohttp import web

from tests.apiserver.api_server_process import ApiServerProcess
from tests.apiserver.kubeconfigs import SECRET, KubeconfigFolder, printed
from tests.apiserver.scripted_server import scripted_server, status
from tests.conftest import TemporalServer, start_etcd
from tests.programs.cli.kube_scheduler.scheduler_process import SchedulerProcess

_numbers = itertools.count()
READABLE = "--authorization-always-allow-paths=/healthz,/livez,/readyz,/readyz/*"
"""Each check of `/readyz` has a page of its own with the reason; here they are read without credentials."""
KINDS = {
    "": ["pods", "nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumes",
         "persistentvolumeclaims"],
    "apps": ["replicasets", "statefulsets"],
    "policy": ["poddisruptionbudgets"],
    "scheduling.k8s.io": ["priorityclasses"],
    "storage.k8s.io": ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
    "coordination.k8s.io": ["leases"],
}  # fmt: skip
Start = Callable[..., SchedulerProcess]


@pytest.fixture
def start(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[Start]:
    """Starts a scheduler on an etcd of its own; it ends with the test, and has logged no secret."""
    with start_etcd(tmp_path) as etcd:
        started: list[SchedulerProcess] = []

        def begin(kubeconfig: Path | str, *more: str) -> SchedulerProcess:
            name = f"trouble-{os.getpid()}-{next(_numbers)}"
            options = (f"--kubeconfig={kubeconfig}", "--etcd", etcd.url, "--temporal", temporal_server.address,
                       "--cluster", name, f"--leader-elect-resource-name={name}", READABLE, "-v=4")  # fmt: skip
            started.append(SchedulerProcess(tmp_path, *options, *more, name=name))
            return started[-1]

        yield begin
        for one in started:
            one.__exit__()
            assert SECRET not in one.said
            assert "Traceback" not in one.said, one.said.partition("Traceback")[2]


def of(home: KubeconfigFolder, api: ApiServerProcess) -> KubeconfigFolder:
    """The kubeconfig, but of an API server that runs; who it calls as stays."""
    home.cluster = {"server": api.url, "certificate-authority": str(api.server.files.certificate)}
    return home


def waits(scheduler: SchedulerProcess, why: str, check: str = "kubernetes") -> None:
    """It serves, is not ready, and one line of the check says why; the log has said so once."""
    path = f"/readyz/{check}"
    scheduler.wait_until(lambda: why in scheduler.page(path)[1], f"{path} says {why!r}")
    code, text = scheduler.page(path)
    assert (code, text.count("\n")) == (500, 1)
    assert text.startswith("internal server error: ")
    assert scheduler.page("/livez") == (200, "ok")
    lines = [line.split() for line in scheduler.said.splitlines() if why in line and " WARNING " in line]
    events = Counter(line[3] for line in lines)
    assert events
    assert max(events.values()) == 1, events


def test_token_that_is_not_accepted_is_read_again(
    start: Start, home: KubeconfigFolder, kube_apiserver: ApiServerProcess
) -> None:
    of(home, kube_apiserver).user = {"tokenFile": "token"}
    right = kube_apiserver.server.files.token()
    scheduler = start(home.write())
    waits(scheduler, "Unauthorized")

    (home.folder / "token").write_text(right)

    scheduler.wait_ready()
    assert scheduler.stop() == 0
    assert right not in scheduler.said


def test_plugin_that_fails_is_run_again(start: Start, home: KubeconfigFolder, kube_apiserver: ApiServerProcess) -> None:
    token = kube_apiserver.server.files.token()
    of(home, kube_apiserver).with_exec(command="./login")
    home.script(f"echo {SECRET} >&2; exit 3")
    scheduler = start(home.write())
    waits(scheduler, "code 3")

    (home.folder / "answer").write_bytes(printed({"token": token}))
    home.script(f"cat {home.folder}/answer", "new").rename(home.folder / "login")

    scheduler.wait_ready()
    assert scheduler.stop() == 0
    assert token not in scheduler.said


def test_plugin_that_hangs_hinders_neither_pages_nor_the_end(
    start: Start, home: KubeconfigFolder, kube_apiserver: ApiServerProcess
) -> None:
    of(home, kube_apiserver).with_exec(command="./login")
    home.script("exec sleep 600")
    scheduler = start(home.write())
    scheduler.wait_until(lambda: "has not answered yet" in scheduler.page("/readyz/kubernetes")[1], "it waits")

    assert scheduler.page("/livez") == (200, "ok")
    assert scheduler.stop() == 0


def test_kind_that_may_not_be_read_is_named(start: Start, kube_apiserver: ApiServerProcess) -> None:
    def rules(kinds: Mapping[str, list[str]]) -> list[dict[str, list[str]]]:
        return [{"apiGroups": [group], "resources": found, "verbs": ["*"]} for group, found in kinds.items()]

    name = f"limited-{os.getpid()}"
    lacking = {group: [kind for kind in kinds if kind != "csinodes"] for group, kinds in KINDS.items()}
    user = kube_apiserver.user(name, rules(lacking))
    scheduler = start(user.kubeconfig)
    waits(scheduler, "csinodes", "import")

    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"
    role = kube_apiserver.request("GET", path).body
    assert kube_apiserver.request("PUT", path, {**role, "rules": rules(KINDS)}).code == 200

    scheduler.wait_ready()
    assert scheduler.stop() == 0
    assert user.token not in scheduler.said


# --- a server that answers wrongly ------------------------------------------------------------------

NAMESPACE = {"kind": "Namespace", "metadata": {"name": "kube-system", "uid": "u-1", "resourceVersion": "1"}}
ASKED = "GET /api/v1/namespaces/kube-system at https://127.0.0.1"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def failing(_request: web.Request) -> web.StreamResponse:
    return status(500, "etcdserver: request timed out")


async def forbidden(_request: web.Request) -> web.StreamResponse:
    return status(403, 'namespaces "kube-system" is forbidden', "Forbidden")


async def half_a_line(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"kind": "Namespace", "metad')
    assert request.transport is not None
    request.transport.close()
    return response


async def no_json(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>a proxy's page</html>", content_type="text/html")


async def mended(request: web.Request) -> web.StreamResponse:
    if request.path == "/api/v1/namespaces/kube-system":
        return web.json_response(NAMESPACE)
    if request.path == "/apis":
        return web.json_response({"groups": []})
    return status(503, "starting", "ServiceUnavailable")


@pytest.mark.parametrize(
    ("answer", "why"),
    [(failing, "etcdserver: request timed out"), (forbidden, "is forbidden"), (half_a_line, ASKED), (no_json, ASKED)],
    ids=["500", "403", "half a line", "no JSON"],
)
async def test_server_that_answers_wrongly_is_asked_again(
    start: Start, home: KubeconfigFolder, tmp_path: Path, answer: Answer, why: str
) -> None:
    async with scripted_server(tmp_path, answer) as server:
        home.cluster = {"server": server.url, "certificate-authority": str(server.authority.pem)}
        scheduler = start(home.write())
        await asyncio.to_thread(_waits_for_upstream, scheduler, why)

        server.answer = mended

        await asyncio.to_thread(scheduler.wait_said, "importer_begins")
        assert await asyncio.to_thread(scheduler.stop) == 0


def test_server_that_is_down_is_waited_for(start: Start, mortal_kube_apiserver: ApiServerProcess) -> None:
    api = mortal_kube_apiserver
    api.kill()
    scheduler = start(api.kubeconfig)
    _waits_for_upstream(scheduler, "cannot connect")

    api.start()

    scheduler.wait_ready()
    assert scheduler.said.count("waiting_for_upstream") <= 3  # while it starts, it answers in other ways
    assert scheduler.stop() == 0
    assert api.server.files.token() not in scheduler.said


def _waits_for_upstream(scheduler: SchedulerProcess, why: str) -> None:
    scheduler.wait_said("waiting_for_upstream")
    (line,) = [line for line in scheduler.said.splitlines() if "waiting_for_upstream" in line]
    assert why in line
    code, text = scheduler.page("/readyz/kubernetes")
    assert (code, text.count("\n")) == (500, 1)
    assert why in text
    assert scheduler.page("/livez") == (200, "ok")

"""The plugins of docs/async-plugins.md work as the guide says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.conftest import free_port
from tests.framework.test_guide import GUIDE, blocks
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.plugins import builtin
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import Code
from wharfinger.objects.model.pod import Pod
from wharfinger.testing import plugin_call, pod

ASYNC_GUIDE = GUIDE.with_name("async-plugins.md")
LICENCES, CRANE, TRIED = (
    next(text for text in blocks("python", ASYNC_GUIDE) if text.startswith(begins))
    for begins in ("# licences.py", "# crane.py", "import asyncio")
)
WEB = pod("web", labels={"example.com/licence": "cad"})


@pytest.fixture
def guide() -> dict[str, Any]:
    """What the guide's modules define."""
    found: dict[str, Any] = {}
    exec(LICENCES, found)
    exec(CRANE, found)
    return found


class LicenceServer:
    """Leases by key; `states` are what it says of them, in turn, the last one for ever."""

    def __init__(self) -> None:
        self.states = ["granted"]
        self.leases: dict[str, Any] = {}
        self.url = ""

    async def put(self, request: web.Request) -> web.Response:
        self.leases[request.match_info["key"]] = await request.json()
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return web.Response(status=500) if state == "down" else web.json_response({"state": state})


@contextmanager
def serving(server: LicenceServer) -> Iterator[None]:
    """On a thread of its own, because the guide runs an event loop itself."""
    port = free_port()
    server.url = f"http://127.0.0.1:{port}"
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_put("/leases/{key:.*}", server.put)
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", port).start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(runner.cleanup())
        loop.close()


@pytest.fixture
def server() -> Iterator[LicenceServer]:
    made = LicenceServer()
    with serving(made):
        yield made


def test_what_the_guide_tries_holds(guide: dict[str, Any], server: LicenceServer) -> None:
    exec(TRIED.replace("http://127.0.0.1:8080", server.url), guide)
    assert server.leases == {"web/1": {"product": "cad", "node": "n1"}}


@pytest.mark.parametrize(
    ("state", "code"),
    [("granted", Code.SUCCESS), ("being made", Code.WAIT), ("none free", Code.UNSCHEDULABLE)],
)
def test_the_licences_answer_as_their_server_does(
    guide: dict[str, Any], server: LicenceServer, state: str, code: Code
) -> None:
    server.states = [state]
    plugin, carried = guide["Licences"](guide["Licences"].Args(server=server.url)), CycleState()
    status = asyncio.run(plugin.pre_bind(carried, WEB, "n1", plugin_call("uid/run")))
    assert status.code is code
    assert carried.carried("Licences") == ({"lease": "uid/run"} if code is Code.SUCCESS else None)


def test_the_configuration_makes_both_plugins(guide: dict[str, Any]) -> None:
    licences, crane = guide["Licences"], guide["Crane"]
    catalog = Catalog(
        [
            *builtin.catalog(),
            CatalogEntry("Licences", licences, licences.Args),
            CatalogEntry("Crane", crane, by_default=False),
        ]
    )
    written = next(text for text in blocks("yaml", ASYNC_GUIDE) if "Crane" in text)
    profile = load_profiles(yaml.safe_load(written), catalog=catalog)["default-scheduler"]
    assert profile.called.pre_binds(WEB) == ("Licences",)
    assert profile.called.pre_binds(Pod("default", "other", "u")) == ()
    assert profile.bind(CycleState(), WEB, "n1").plugin == "Crane"
    assert (profile.called.limits("Licences").timeout, profile.called.limits("Crane").timeout) == (10, 30)

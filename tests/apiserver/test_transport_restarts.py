"""`HttpApiClient` and a real API server that is killed, stopped and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.apiserver.api_server_process import ApiServerProcess
from wharfinger.apiserver.client import NAMESPACES, PODS, ApiAnswer, revision_of
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.errors import HistoryGone, UpstreamUnavailable

pytestmark = pytest.mark.servers


def namespace(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


def revision(answer: ApiAnswer) -> int:
    assert answer.object is not None, answer
    return revision_of(answer.object)


async def test_killed_server_breaks_watches_and_forgets_history(mortal_kube_apiserver: ApiServerProcess) -> None:
    """Its watch cache begins anew: an older revision is answered with 410, inside a 200, and the list goes on."""
    server = mortal_kube_apiserver
    apiserver = HttpApiClient(read_access(server.kubeconfig), ApiLimits(qps=-1))
    old = revision(await apiserver.create(NAMESPACES, namespace("a")))
    newer = revision(await apiserver.create(NAMESPACES, namespace("b")))
    async with apiserver.watch(NAMESPACES, revision=old, newest=newer) as batches:
        assert (await anext(batches)).revision == newer
        await asyncio.to_thread(server.kill)
        with pytest.raises(UpstreamUnavailable):
            await anext(batches)
    with pytest.raises(UpstreamUnavailable) as refused:
        await apiserver.create(NAMESPACES, namespace("c"))
    assert not refused.value.maybe_applied

    server.start()
    async with apiserver.watch(NAMESPACES, revision=old, newest=newer) as batches:
        with pytest.raises(HistoryGone):
            await anext(batches)
    async with apiserver.watch(NAMESPACES) as batches:
        batch = await anext(batches)
        while not batch.listed:
            batch = await anext(batches)
    assert batch.revision >= newer
    assert (await apiserver.get(NAMESPACES, "c")).code == 404
    await apiserver.close()


async def answered(ask: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer:
    """What the server answers in the end."""
    while True:
        with suppress(UpstreamUnavailable):
            return await ask()


async def test_write_to_a_stopped_server_is_in_doubt(mortal_kube_apiserver: ApiServerProcess) -> None:
    """SIGSTOP: the kernel takes the request, and no answer comes. Afterwards the same client goes on."""
    server = mortal_kube_apiserver
    apiserver = HttpApiClient(read_access(server.kubeconfig), ApiLimits(qps=-1, silence=1.0, deadline=0.5))
    async with asyncio.timeout(20):
        await answered(lambda: apiserver.read("/version"))
    server.pause()
    try:
        with pytest.raises(UpstreamUnavailable, match=r"no answer within 0\.5 s") as lost:
            await apiserver.create(NAMESPACES, namespace("halted"))
    finally:
        server.resume()
    async with asyncio.timeout(20):
        read = await answered(lambda: apiserver.get(NAMESPACES, "halted"))

    assert lost.value.maybe_applied
    assert read.code in {200, 404}
    await apiserver.close()


async def test_doubt_is_all_that_a_kill_leaves_behind(mortal_kube_apiserver: ApiServerProcess) -> None:
    """SIGKILL amid binds: what was answered is done, and what is certainly not applied is not."""
    server = mortal_kube_apiserver
    apiserver = HttpApiClient(read_access(server.kubeconfig), ApiLimits(qps=-1))
    names = [f"doubtful-{number}" for number in range(150)]
    containers = [{"name": "app", "image": "registry.invalid/app"}]
    for name in names:
        body = {"metadata": {"name": name}, "spec": {"containers": containers}}
        assert (await apiserver.create(PODS, body, namespace="default")).done
    became: dict[str, str] = {}
    waiting = iter(names)

    async def bind(name: str) -> str:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}
        try:
            answer = await apiserver.create(PODS, body, namespace="default", name=name, subresource="binding")
        except UpstreamUnavailable as error:
            return "doubt" if error.maybe_applied else "not applied"
        assert answer.done, answer
        return "done"

    async def lane() -> None:
        for name in waiting:
            became[name] = await bind(name)
            if len(became) == 60:
                server.kill()

    await asyncio.gather(*(lane() for _ in range(20)))
    server.start()
    bound = {
        one["metadata"]["name"]
        async for objects, _ in apiserver.list(PODS, namespace="default")
        for one in objects
        if one["spec"].get("nodeName")
    }
    deleted = server.request("DELETE", f"{PODS.path('default')}?gracePeriodSeconds=0")  # or others bind the rest
    assert deleted.code == 200
    await apiserver.close()

    of = {kind: {name for name, outcome in became.items() if outcome == kind} for kind in became.values()}
    assert len(became) == len(names)
    assert of["done"] <= bound
    assert of["not applied"].isdisjoint(bound)
    assert len(of.get("doubt", ())) <= 40, "only those that were under way, and connections that were kept"


async def test_watch_of_the_future_is_given_up(mortal_kube_apiserver: ApiServerProcess) -> None:
    server = mortal_kube_apiserver
    apiserver = HttpApiClient(read_access(server.kubeconfig), ApiLimits(qps=-1, silence=1.0))

    async with apiserver.watch(NAMESPACES, revision=10**9) as batches:
        with pytest.raises(UpstreamUnavailable):
            assert not any([batch.changes async for batch in batches])
    await apiserver.close()

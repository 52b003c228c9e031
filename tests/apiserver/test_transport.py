"""Requests of `HttpApiClient`: what is sent, what answers mean, and what is not known without one."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest
from aiohttp import web

from tests.apiserver.scripted_server import BODY, FixedCredentials, bind, gone, ok, scripted_server, status
from tests.conftest import free_port
from wharfinger.apiserver.client import LEASES, NODES, PODS, ApiAnswer, ApiClient, PatchType
from wharfinger.apiserver.credentials import Access, ApiClocks
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.errors import HistoryGone, UpstreamUnavailable

_typed: type[ApiClient] = HttpApiClient


async def test_writes_are_spelled_as_the_api_has_them(tmp_path: Path) -> None:
    async with scripted_server(tmp_path, ok) as server:
        apiserver = HttpApiClient(server.access())
        await bind(apiserver)
        await apiserver.create(PODS, BODY, namespace="ns", dry_run=True)
        await apiserver.replace(LEASES, "l", BODY, namespace="ns")
        await apiserver.patch(PODS, "a", BODY, namespace="ns", subresource="status")
        await apiserver.patch(NODES, "n", BODY, type_=PatchType.MERGE)
        await apiserver.delete(PODS, "a", namespace="ns", uid="u", revision=7, grace_seconds=0)
        await apiserver.delete(NODES, "system:n m")
        await apiserver.close()

    assert [(one.method, one.target) for one in server.heard] == [
        ("POST", "/api/v1/namespaces/ns/pods/a/binding"),
        ("POST", "/api/v1/namespaces/ns/pods?dryRun=All"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
        ("PATCH", "/api/v1/namespaces/ns/pods/a/status"),
        ("PATCH", "/api/v1/nodes/n"),
        ("DELETE", "/api/v1/namespaces/ns/pods/a"),
        ("DELETE", "/api/v1/nodes/system:n%20m"),
    ]
    types = [one.headers["Content-Type"] for one in server.heard]
    assert types[2:5] == [
        "application/json",
        "application/strategic-merge-patch+json",
        "application/merge-patch+json",
    ]
    assert server.heard[5].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
    }
    assert server.heard[6].body == {"apiVersion": "v1", "kind": "DeleteOptions"}
    headers = server.heard[0].headers
    assert headers["Authorization"] == "Bearer secret-token"
    assert headers["User-Agent"].startswith("wharfinger/")
    assert headers["Accept-Encoding"] == "identity"
    assert len(server.connections) == 1, "connections are kept open"


@pytest.mark.parametrize("name", ["a/b", "..", "."])
async def test_name_that_leads_to_another_path_is_refused(name: str) -> None:
    apiserver = HttpApiClient(Access("https://127.0.0.1:1", FixedCredentials()))

    with pytest.raises(ValueError, match="is no name of an object"):
        await apiserver.get(PODS, name, namespace="ns")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            lambda: status(409, 'Operation cannot be\nfulfilled on pods "a"', "Conflict"),
            ApiAnswer(409, None, "Conflict", 'Operation cannot be fulfilled on pods "a"'),
        ),
        (
            lambda: web.Response(status=404, text="404 page not found\n"),
            ApiAnswer(404, None, "NotFound", "404 page not found"),
        ),
        (lambda: web.json_response([1], status=403), ApiAnswer(403, None, "Forbidden", "")),
        (
            lambda: status(400, "x" * 5000, "BadRequest"),
            ApiAnswer(400, None, "BadRequest", "x" * 1020 + " ..."),
        ),
        (lambda: web.Response(status=200), ApiAnswer(200)),
    ],
    ids=["status", "plain text", "no object", "long", "empty"],
)
async def test_decided_requests_are_answers(
    tmp_path: Path, answer: Callable[[], web.Response], expected: ApiAnswer
) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return answer()

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        assert await bind(apiserver) == expected
        await apiserver.close()


@pytest.mark.parametrize(
    ("code", "header", "maybe_applied", "retry_after"),
    [
        (429, "7", False, 7.0),
        (429, "", False, None),
        (500, "", True, None),
        (503, "2", True, 2.0),
        (504, "soon", True, None),
        (503, formatdate(1_000_030.0, usegmt=True), True, 30.0),
    ],
)
async def test_failures_of_the_server_are_unavailable(
    tmp_path: Path, code: int, header: str, maybe_applied: bool, retry_after: float | None
) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return status(code, "too\nbusy", **({"Retry-After": header} if header else {}))

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), clocks=ApiClocks(now=lambda: 1_000_000.0))
        with pytest.raises(UpstreamUnavailable, match=f"code {code}: too busy$") as write:
            await bind(apiserver)
        with pytest.raises(UpstreamUnavailable) as read:
            await apiserver.get(PODS, "a", namespace="ns")
        with pytest.raises(UpstreamUnavailable) as dry:
            await apiserver.create(PODS, BODY, namespace="ns", dry_run=True)
        await apiserver.close()

    assert (write.value.maybe_applied, write.value.retry_after) == (maybe_applied, retry_after)
    assert (read.value.maybe_applied, dry.value.maybe_applied) == (False, False)


async def test_write_without_an_answer_in_time_may_be_applied(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return await (ok(request) if request.path == "/version" else gone(request))

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), ApiLimits(deadline=0.5))
        await apiserver.read("/version")
        with pytest.raises(UpstreamUnavailable, match=r"no answer within 0\.5 s") as write:
            await bind(apiserver)
        with pytest.raises(UpstreamUnavailable) as read:
            await apiserver.get(PODS, "a", namespace="ns")
        await apiserver.close()

    assert write.value.maybe_applied
    assert not read.value.maybe_applied


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_cut_connection_may_have_applied_and_is_not_sent_twice(tmp_path: Path, method: str) -> None:
    """aiohttp would repeat PUT and DELETE on its own: their second answer would hide what the first one did."""
    cut = False

    async def answering(request: web.Request) -> web.StreamResponse:
        if cut and request.method == method:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({})

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        await apiserver.read("/version")
        cut = True
        sent = {
            "POST": lambda: bind(apiserver),
            "PUT": lambda: apiserver.replace(LEASES, "l", BODY, namespace="ns"),
            "DELETE": lambda: apiserver.delete(PODS, "a", namespace="ns"),
        }
        with pytest.raises(UpstreamUnavailable) as broken:
            await sent[method]()
        await apiserver.close()

    assert broken.value.maybe_applied
    assert [one.method for one in server.heard] == ["GET", method]


async def test_connection_that_cannot_be_opened_has_applied_nothing() -> None:
    apiserver = HttpApiClient(Access(f"https://127.0.0.1:{free_port()}", FixedCredentials()))

    with pytest.raises(UpstreamUnavailable, match="cannot connect: ") as refused:
        await bind(apiserver)
    await apiserver.close()

    assert not refused.value.maybe_applied


async def test_answer_that_is_no_json_is_no_answer(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>welcome</html>")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        with pytest.raises(UpstreamUnavailable, match="is this an API server") as write:
            await bind(apiserver)
        await apiserver.close()

    assert write.value.maybe_applied


@pytest.mark.parametrize("chunked", [True, False])
async def test_answers_have_a_limit(tmp_path: Path, chunked: bool) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        response = web.Response(body=b"[" + b" " * 100_000 + b"]")
        if chunked:
            response.enable_chunked_encoding()
        return response

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), ApiLimits(answer=50_000))
        with pytest.raises(UpstreamUnavailable, match="more than 50000 bytes"):
            await apiserver.read("/version")
        await apiserver.close()


async def test_list_gives_pages_until_the_last(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        if token == "old":
            return status(410, "the provided continue parameter is too old", "Expired")
        metadata = {"resourceVersion": "12", "continue": {"": "more", "more": "old"}[token]}
        return web.json_response({"metadata": metadata, "items": [{"metadata": {"name": token or "first"}}]})

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        pages = apiserver.list(PODS, field_selector="status.phase!=Failed", page=1)
        shown = [await anext(pages), await anext(pages)]
        with pytest.raises(HistoryGone, match="too old"):
            await anext(pages)
        await apiserver.close()

    assert [(objects[0]["metadata"]["name"], revision) for objects, revision in shown] == [("first", 12), ("more", 12)]
    assert server.heard[0].target == "/api/v1/pods?limit=1&fieldSelector=status.phase%21%3DFailed"
    assert all("resourceVersion" not in one.target for one in server.heard)


async def test_requests_are_observed(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    async def answering(request: web.Request) -> web.StreamResponse:
        return status(409, "no", "Conflict")

    def observe(method: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        seen.append((method, code))

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), observe=observe)
        await bind(apiserver)
        await apiserver.close()
        with pytest.raises(UpstreamUnavailable):
            await apiserver.read("/version")

    assert seen == [("POST", 409), ("GET", 0)]

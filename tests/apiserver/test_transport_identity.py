"""Who `HttpApiClient` is to a server, whom it trusts, and that its secrets stay with the two."""

from __future__ import annotations

import logging
import socket
import traceback
from pathlib import Path

import pytest
from aiohttp import web

from tests.apiserver.connect_proxy import connect_proxy
from tests.apiserver.scripted_server import FixedCredentials, bind, ok, scripted_server, status
from tests.conftest import free_port
from wharfinger.apiserver import connection
from wharfinger.apiserver.client import PODS
from wharfinger.apiserver.credentials import ApiIdentity
from wharfinger.apiserver.transport import HttpApiClient
from wharfinger.errors import UpstreamDenied, UpstreamUnavailable


async def test_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    async with scripted_server(tmp_path, ok, host="other.example") as server:
        apiserver = HttpApiClient(server.access())
        with pytest.raises(UpstreamUnavailable, match="its certificate is not trusted") as refused:
            await bind(apiserver)
        named = HttpApiClient(server.access(tls_server_name="other.example"))
        answer = await bind(named)
        await apiserver.close()
        await named.close()

    assert not refused.value.maybe_applied
    assert answer.done


async def test_after_a_401_credentials_are_read_again_once(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        right = request.headers["Authorization"] == "Bearer new"
        return web.json_response({}, status=201) if right else status(401, "Unauthorized", "Unauthorized")

    credentials = FixedCredentials("old", "new")
    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(credentials))
        answers = [await bind(apiserver), await bind(apiserver)]
        await apiserver.close()

    assert [answer.done for answer in answers] == [True, True]
    assert credentials.refusals == 1
    assert [one.headers["Authorization"] for one in server.heard] == ["Bearer old", "Bearer new", "Bearer new"]


async def test_credentials_refused_twice_are_denied(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return status(401, "Unauthorized", "Unauthorized")

    credentials = FixedCredentials("old")
    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(credentials))
        with pytest.raises(UpstreamDenied, match="does not accept our credentials"):
            await bind(apiserver)
        async with apiserver.watch(PODS, revision=1) as batches:
            with pytest.raises(UpstreamDenied):
                await anext(batches)
        await apiserver.close()

    assert credentials.refusals == 2
    assert len(server.heard) == 4


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"https://127.0.0.1:{free_port()}/elsewhere")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        with pytest.raises(UpstreamUnavailable, match="redirected with code 307, which is not followed"):
            await bind(apiserver)
        await apiserver.close()

    assert len(server.heard) == 1


async def test_secrets_are_in_no_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not in errors, their causes, representations or logs; also if a server repeats what it was sent."""
    caplog.set_level(logging.DEBUG)

    async def answering(request: web.Request) -> web.StreamResponse:
        if request.path == "/broken":
            assert request.transport is not None
            request.transport.write(b"HTTP/1.1 nonsense\r\n\r\n")  # type: ignore[attr-defined]
            request.transport.close()
        return status(503 if request.path == "/busy" else 403, f"you sent {request.headers['Authorization']}")

    texts: list[str] = []
    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        answer = await apiserver.read("/forbidden")
        for path in ("/broken", "/busy"):
            with pytest.raises(UpstreamUnavailable) as raised:
                await apiserver.read(path)
            error: BaseException | None = raised.value
            texts += traceback.format_exception(raised.value)
            while error is not None:
                texts += [str(error), repr(error), repr(error.args)]
                error = error.__cause__ or error.__context__
        texts += [repr(apiserver), repr(server.access()), repr(answer)]
        await apiserver.close()

    assert answer.message == "you sent Bearer ..."
    assert "secret-token" not in "".join(texts) + caplog.text


async def test_client_certificate_is_shown_and_renewed(tmp_path: Path) -> None:
    """After a 401, a new certificate goes with a new connection."""
    seen: list[str] = []

    async def answering(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        seen.append(subject[0][0][1])
        return status(401) if seen[-1] == "old" else await ok(request)

    async with scripted_server(tmp_path, answering, clients=True) as server:
        credentials = FixedCredentials()
        signed = [server.authority.sign(name) for name in ("old", "new")]
        credentials.identities = [
            ApiIdentity(certificate=one.cert.read_bytes(), key=one.key.read_bytes()) for one in signed
        ]
        apiserver = HttpApiClient(server.access(credentials))
        answers = [await bind(apiserver), await bind(apiserver)]
        nobody = HttpApiClient(server.access())
        with pytest.raises(UpstreamUnavailable):
            await bind(nobody)
        await nobody.close()
        await apiserver.close()

    assert [answer.code for answer in answers] == [201, 201]
    assert seen == ["old", "new", "new"]


async def test_user_and_password_are_sent(tmp_path: Path) -> None:
    async with scripted_server(tmp_path, ok) as server:
        credentials = FixedCredentials()
        credentials.identities = [ApiIdentity(username="ada", password="pass word")]
        apiserver = HttpApiClient(server.access(credentials))
        await bind(apiserver)
        await apiserver.close()

    assert server.heard[0].headers["Authorization"] == "Basic YWRhOnBhc3Mgd29yZA=="


async def test_proxy_passes_what_it_cannot_read(tmp_path: Path) -> None:
    """CONNECT: TLS, and with it the token, goes through the proxy to the server."""
    async with scripted_server(tmp_path, ok) as server, connect_proxy() as proxy:
        apiserver = HttpApiClient(server.access(proxy=proxy.url))
        answer = await bind(apiserver)
        await apiserver.close()

    assert answer.done
    assert proxy.asked == [server.url.removeprefix("https://")]
    assert b"secret-token" not in proxy.passed
    assert server.heard[0].headers["Authorization"] == "Bearer secret-token"


async def test_proxy_that_refuses_has_sent_nothing(tmp_path: Path) -> None:
    async with scripted_server(tmp_path, ok) as server, connect_proxy(code=407) as proxy:
        apiserver = HttpApiClient(server.access(proxy=proxy.url.replace("http://", "http://user:hidden@")))
        with pytest.raises(UpstreamUnavailable, match="the proxy refuses the connection with code 407") as refused:
            await bind(apiserver)
        await apiserver.close()

    assert not refused.value.maybe_applied
    assert "hidden" not in "".join(traceback.format_exception(refused.value))


def test_sockets_notice_that_the_other_side_is_gone() -> None:
    with connection.api_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
        assert not made.getblocking()

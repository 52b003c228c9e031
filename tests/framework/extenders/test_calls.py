"""Calls over real connections: what comes back, and what is said of failures."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.clock import Clock
from tests.etcd.certificates import Authority, Signed
from tests.framework.extenders.extender_server import ExtenderServer
from wharfinger.framework.extenders.calls import REREAD_AFTER, CallFailed, ExtenderCalls
from wharfinger.objects.model.extenders import Extender, ExtenderTls


@pytest.fixture
async def calls() -> AsyncIterator[ExtenderCalls]:
    made = ExtenderCalls(smallest_limit=1000)
    yield made
    await made.close()


def extender(url: str, *, timeout: float = 30, tls: ExtenderTls | None = None) -> Extender:
    return Extender(url, url, timeout=timeout, tls=tls)


async def failure(calls: ExtenderCalls, called: Extender, verb: str = "filter") -> str:
    answer = await calls.call(called, verb, b"{}")
    assert isinstance(answer, CallFailed)
    return answer.message


class TestPlain:
    async def test_a_body_goes_there_and_one_comes_back(self, calls: ExtenderCalls) -> None:
        server = ExtenderServer()
        server.verbs["filter"] = lambda asked: {"said": asked["a"]}
        async with server.serving() as url:
            assert await calls.call(extender(f"{url}/"), "filter", b'{"a":1}') == b'{"said":1}'
        assert server.headers[0]["Content-Type"] == "application/json"

    async def test_one_connection_serves_many_calls(self, calls: ExtenderCalls) -> None:
        server = ExtenderServer()
        server.verbs["filter"] = lambda _: {}
        async with server.serving() as url:
            for _ in range(5):
                await calls.call(extender(url), "filter", b"{}")
        assert (len(server.asked), server.connections) == (5, 1)

    async def test_any_code_but_200_is_a_failure(self, calls: ExtenderCalls) -> None:
        server = ExtenderServer()
        for code in (201, 404, 500):

            async def answer(_: web.Request, code: int = code) -> web.StreamResponse:
                return web.Response(status=code, text="secret details")

            server.verbs["filter"] = answer
            async with server.serving() as url:
                expected = f"failed filter with extender at URL {url}/filter, code {code}"
                assert await failure(calls, extender(url)) == expected

    async def test_a_redirect_is_not_followed(self, calls: ExtenderCalls) -> None:
        server = ExtenderServer()

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect("/other")

        server.verbs.update({"filter": redirect, "other": lambda _: {}})
        async with server.serving() as url:
            assert (await failure(calls, extender(url))).endswith("code 307")
        assert [verb for verb, _ in server.asked] == ["filter"]

    async def test_a_slow_extender_is_given_up_in_time(self, calls: ExtenderCalls) -> None:
        server, never = ExtenderServer(), asyncio.Event()

        async def slow(_: web.Request) -> web.StreamResponse:
            await never.wait()
            return web.Response()

        server.verbs["filter"] = slow
        async with server.serving() as url:
            expected = f"extender at URL {url}/filter: no answer within 0.05 s"
            assert await failure(calls, extender(url, timeout=0.05)) == expected
            never.set()

    async def test_an_answer_that_never_ends_is_given_up_in_time(self, calls: ExtenderCalls) -> None:
        server, never = ExtenderServer(), asyncio.Event()

        async def endless(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"{")
            await never.wait()
            return response

        server.verbs["filter"] = endless
        async with server.serving() as url:
            assert (await failure(calls, extender(url, timeout=0.05))).endswith("no answer within 0.05 s")
            never.set()

    @pytest.mark.parametrize("chunked", [False, True])
    async def test_a_huge_answer_is_cut_off(self, calls: ExtenderCalls, chunked: bool) -> None:
        server = ExtenderServer()

        async def huge(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            if chunked:
                response.enable_chunked_encoding()
            else:
                response.content_length = 1 << 20
            await response.prepare(request)
            try:
                for _ in range(1024):
                    await response.write(b" " * 1024)
            except ConnectionResetError:
                pass  # the scheduler hung up
            return response

        server.verbs["filter"] = huge
        async with server.serving() as url:
            assert await failure(calls, extender(url)) == "the answer has more than 1000 bytes"

    async def test_the_limit_grows_with_the_request(self, calls: ExtenderCalls) -> None:
        server = ExtenderServer()
        server.verbs["filter"] = lambda _: "x" * 3000
        async with server.serving() as url:
            assert isinstance(await calls.call(extender(url), "filter", b'"%s"' % (b"x" * 1000)), bytes)

    async def test_no_server_is_said_so(self, calls: ExtenderCalls) -> None:
        server = ExtenderServer()
        async with server.serving() as url:
            pass
        assert (
            await failure(calls, extender(url)) == f"extender at URL {url}/filter: cannot connect: Connection refused"
        )

    async def test_after_closing_no_call_is_made(self, calls: ExtenderCalls) -> None:
        await calls.close()
        assert await failure(calls, extender("http://127.0.0.1:1")) == "this process is stopping"


class TestAConnectionThatWasClosed:
    """A server may close an idle connection at the moment when a call is sent on it."""

    @staticmethod
    def server() -> ExtenderServer:
        made = ExtenderServer()

        async def hang_up_the_first_time(request: web.Request) -> web.StreamResponse:
            if len(made.asked) == 1:
                assert request.transport is not None
                request.transport.abort()
            return web.Response(body=b"{}")

        made.verbs["filter"] = hang_up_the_first_time
        return made

    async def test_a_question_is_sent_again(self, calls: ExtenderCalls) -> None:
        server = self.server()
        async with server.serving() as url:
            assert await calls.call(extender(url), "filter", b"{}") == b"{}"
        assert len(server.asked) == 2

    async def test_a_bind_is_sent_once(self, calls: ExtenderCalls) -> None:
        server = self.server()
        async with server.serving() as url:
            answer = await calls.call(extender(url), "filter", b"{}", once=True)
        assert isinstance(answer, CallFailed)
        assert len(server.asked) == 1


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        return Authority(tmp_path, "ours")

    @staticmethod
    def context(signed: Signed, clients: Authority | None = None) -> ssl.SSLContext:
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.load_cert_chain(signed.cert, signed.key)
        if clients is not None:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(clients.pem)
        return made

    @staticmethod
    def server() -> ExtenderServer:
        made = ExtenderServer()
        made.verbs["filter"] = lambda _: {}
        return made

    @pytest.mark.parametrize("by_data", [False, True])
    async def test_a_named_authority_is_trusted(
        self, calls: ExtenderCalls, authority: Authority, by_data: bool
    ) -> None:
        pem = authority.pem.read_bytes()
        tls = ExtenderTls(ca_data=pem, ca_file="nowhere") if by_data else ExtenderTls(ca_file=str(authority.pem))
        async with self.server().serving(self.context(authority.sign("server", host="127.0.0.1"))) as url:
            assert await calls.call(extender(url, tls=tls), "filter", b"{}") == b"{}"

    async def test_another_authority_is_not_trusted(
        self, calls: ExtenderCalls, authority: Authority, tmp_path: Path
    ) -> None:
        other = Authority(tmp_path, "other")
        async with self.server().serving(self.context(authority.sign("server", host="127.0.0.1"))) as url:
            for tls in (ExtenderTls(ca_file=str(other.pem)), None):
                assert "its certificate is not trusted" in await failure(calls, extender(url, tls=tls))

    async def test_insecure_trusts_anybody(self, calls: ExtenderCalls, authority: Authority) -> None:
        async with self.server().serving(self.context(authority.sign("server", host="10.0.0.9"))) as url:
            assert await calls.call(extender(url, tls=ExtenderTls(insecure=True)), "filter", b"{}") == b"{}"

    async def test_the_name_may_be_another_than_the_host(self, calls: ExtenderCalls, authority: Authority) -> None:
        pem = authority.pem.read_bytes()
        async with self.server().serving(self.context(authority.sign("server", host="extender.example"))) as url:
            assert "not trusted" in await failure(calls, extender(url, tls=ExtenderTls(ca_data=pem)))
            named = ExtenderTls(ca_data=pem, server_name="extender.example")
            assert await calls.call(extender(url, tls=named), "filter", b"{}") == b"{}"

    @pytest.mark.parametrize("by_data", [False, True])
    async def test_a_client_certificate_is_shown(
        self, calls: ExtenderCalls, authority: Authority, by_data: bool
    ) -> None:
        client, pem = authority.sign("client"), authority.pem.read_bytes()
        if by_data:
            tls = ExtenderTls(ca_data=pem, cert_data=client.cert.read_bytes(), key_data=client.key.read_bytes())
        else:
            tls = ExtenderTls(ca_data=pem, cert_file=str(client.cert), key_file=str(client.key))
        context = self.context(authority.sign("server", host="127.0.0.1"), authority)
        async with self.server().serving(context) as url:
            assert await calls.call(extender(url, tls=tls), "filter", b"{}") == b"{}"
            await failure(calls, extender(url, tls=ExtenderTls(ca_data=pem)))

    @pytest.mark.parametrize(
        ("tls", "reason"),
        [
            (ExtenderTls(ca_file="/nowhere/ca.crt"), "cannot read /nowhere/ca.crt: No such file or directory"),
            (ExtenderTls(ca_data=b"secret"), "the authorities under tlsConfig cannot be used by OpenSSL"),
            (ExtenderTls(cert_data=b"secret", key_data=b"secret"), "the client certificate under tlsConfig "),
        ],
    )
    async def test_what_cannot_be_used_is_said_without_its_content(
        self, calls: ExtenderCalls, tls: ExtenderTls, reason: str
    ) -> None:
        said = await failure(calls, extender("https://127.0.0.1:1", tls=tls))
        assert said.startswith(reason)
        assert "secret" not in said

    async def test_rotated_files_are_read_again(self, authority: Authority, tmp_path: Path) -> None:
        clock = Clock()
        calls = ExtenderCalls(clock=clock)
        wrong = Authority(tmp_path, "wrong")
        file = tmp_path / "ca.crt"
        file.write_bytes(authority.pem.read_bytes())
        context = self.context(authority.sign("server", host="127.0.0.1"))
        async with self.server().serving(context) as url:
            called = extender(url, tls=ExtenderTls(ca_file=str(file)))
            assert await calls.call(called, "filter", b"{}") == b"{}"
            file.write_bytes(wrong.pem.read_bytes())
            assert await calls.call(called, "filter", b"{}") == b"{}"
            clock.advance(REREAD_AFTER)
            assert "not trusted" in await failure(calls, called)
            file.write_bytes(authority.pem.read_bytes())
            assert await calls.call(called, "filter", b"{}") == b"{}"
        await calls.close()

"""Users, tokens and certificates against a real etcd."""

from __future__ import annotations

import asyncio
import base64
import time
import traceback
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.conftest import free_port
from tests.etcd.certificates import Authority
from tests.etcd.conftest import Spoken, StartEtcd
from tests.etcd.etcd_process import EtcdProcess
from tests.etcd.lease_times import with_time_enough
from wharfinger.errors import AccessDenied, ConfigurationError, Unavailable
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.settings import EtcdSettings

pytestmark = pytest.mark.servers

PASSWORD = "open sesame / \u00e9"


def with_users(etcd: EtcdProcess) -> EtcdProcess:
    """`root` may everything, `clerk` only what lies under `/open/`."""
    for name in ("root", "clerk"):
        etcd.post("/v3/auth/user/add", {"name": name, "password": PASSWORD})
        etcd.post("/v3/auth/role/add", {"name": name})
        etcd.post("/v3/auth/user/grant", {"user": name, "role": name})
    key, end = (base64.b64encode(raw).decode() for raw in (b"/open/", b"/open0"))
    permission = {"permType": "READWRITE", "key": key, "range_end": end}
    etcd.post("/v3/auth/role/grant", {"name": "clerk", "perm": permission})
    etcd.post("/v3/auth/enable", {})
    return etcd


@pytest.fixture(scope="module")
def guarded_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """Has users; no test stops or cuts it."""
    etcd = EtcdProcess(tmp_path_factory.mktemp("guarded-etcd"), options=["--bcrypt-cost", "4"]).start()
    try:
        yield with_users(etcd)
    finally:
        etcd.kill()


def _password_file(folder: Path, password: str = PASSWORD) -> Path:
    file = folder / "password"
    file.write_text(password + "\n", encoding="utf-8")
    return file


async def test_a_user_works_on_while_tokens_expire_and_etcd_restarts(
    start_etcd: StartEtcd, tmp_path: Path, spoken: Spoken
) -> None:
    etcd = with_users(start_etcd(options=["--auth-token-ttl", "1", "--bcrypt-cost", "4"]))
    settings = spoken(endpoints=(etcd.url,), user="clerk", password_file=_password_file(tmp_path))

    async def story(ttl: int) -> None:
        async with EtcdStore(settings) as store:
            first = await store.put("/open/a", b"1")
            granted = time.monotonic()
            lease = await store.grant_lease(ttl)
            async with store.watch("/open/", first) as batches:
                assert (await anext(batches)).revision == first
                await asyncio.sleep(1.6)  # the tokens are dead: those of the store, of the watch and of the lease
                await asyncio.gather(*(store.put(f"/open/{number}", b"", lease=lease.id) for number in range(50)))
                seen = 0
                while seen < 50:
                    seen += len((await anext(batches)).events)
                etcd.kill()
                etcd.start()
                assert (await store.get("/open/49")).kv is not None
                await store.put("/open/last", b"")
                while not (await anext(batches)).events:
                    pass

            await asyncio.sleep(granted + ttl - time.monotonic())
            assert not lease.lost

    await with_time_enough(etcd, 3, story)


async def test_what_a_user_may_not_do_is_denied_calls_and_watches_alike(
    guarded_etcd: EtcdProcess, tmp_path: Path, spoken: Spoken
) -> None:
    etcd = guarded_etcd
    settings = spoken(endpoints=(etcd.url,), user="clerk", password_file=_password_file(tmp_path))
    async with EtcdStore(settings) as store:
        with pytest.raises(AccessDenied, match="permission denied"):
            await store.put("/closed/a", b"")
        with pytest.raises(AccessDenied, match="permission denied"):
            await store.get("/closed/a")
        async with store.watch("/closed/", 1) as batches:
            with pytest.raises(AccessDenied, match="permission denied"):
                await anext(batches)


async def test_no_user_where_one_is_wanted_is_denied(guarded_etcd: EtcdProcess, spoken: Spoken) -> None:
    etcd = guarded_etcd

    with pytest.raises(AccessDenied, match="wants a user"):
        await EtcdStore.connect(spoken(endpoints=(etcd.url,)))


async def test_a_wrong_password_is_denied_and_never_shown(
    guarded_etcd: EtcdProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture, spoken: Spoken
) -> None:
    etcd = guarded_etcd
    caplog.set_level("DEBUG")
    wrong = _password_file(tmp_path, "hunter-2-secret")
    settings = spoken(endpoints=(etcd.url,), user="clerk", password_file=wrong)

    with pytest.raises(AccessDenied) as refused:
        await EtcdStore.connect(settings)

    told = "".join(traceback.format_exception(refused.value)) + caplog.text + repr(settings)
    assert "hunter-2-secret" not in told


async def test_a_token_is_never_shown_when_an_answer_makes_no_sense(tmp_path: Path) -> None:
    """The HTTP library's own words for such an answer hold the headers of the request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/auth/authenticate" in head:
            writer.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"token": "the-token"}')
        else:
            writer.write(b"no HTTP\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = EtcdSettings(endpoints=(url,), user="clerk", password_file=_password_file(tmp_path), deadline=1.0)
    async with server, EtcdStore(settings) as store:
        with pytest.raises(Unavailable, match="the write may have happened") as refused:
            await store.put("/a", b"")

    assert "the-token" not in "".join(traceback.format_exception(refused.value))


async def test_user_for_an_etcd_without_authentication_is_reported(
    steady_etcd: EtcdProcess, tmp_path: Path, spoken: Spoken
) -> None:
    settings = spoken(endpoints=(steady_etcd.url,), user="clerk", password_file=_password_file(tmp_path))

    with pytest.raises(AccessDenied, match="authentication is not enabled"):
        await EtcdStore.connect(settings)


@pytest.mark.parametrize(
    "settings",
    [
        EtcdSettings(endpoints=("http://me:secret@127.0.0.1:1",)),
        EtcdSettings(endpoints=("127.0.0.1:2379",)),
        EtcdSettings(endpoints=("http://127.0.0.1:1/path",)),
        EtcdSettings(endpoints=()),
        EtcdSettings(endpoints=("https://127.0.0.1:1",), ca=Path("/missing.pem")),
        EtcdSettings(endpoints=("http://127.0.0.1:port",)),
        EtcdSettings(endpoints=("http://127.0.0.1:1",), ca=Path("ours.pem")),
    ],
    ids=[
        "user in the URL",
        "no scheme",
        "a path",
        "none",
        "no such file",
        "port is no number",
        "an authority for nothing",
    ],
)
async def test_settings_that_cannot_work_are_refused_at_once(settings: EtcdSettings) -> None:
    with pytest.raises(ConfigurationError) as refused:
        await EtcdStore.connect(settings)

    assert "secret" not in str(refused.value)


class Tls:
    """An etcd behind TLS, and the certificates of friends and strangers."""

    def __init__(self, folder: Path, start: StartEtcd, *, host: str = "127.0.0.1", mutual: bool = False) -> None:
        self.ours = Authority(folder, "ours")
        self.theirs = Authority(folder, "theirs")
        server = self.ours.sign("server", host=host)
        options = ["--cert-file", str(server.cert), "--key-file", str(server.key)]
        if mutual:
            options += ["--client-cert-auth", "--trusted-ca-file", str(self.ours.pem)]
        self.etcd = start(scheme="https", options=options)

    def settings(self, spoken: Spoken, **more: object) -> EtcdSettings:
        return spoken(endpoints=(self.etcd.url,), **more)


async def test_an_authority_of_our_own_is_trusted(start_etcd: StartEtcd, tmp_path: Path, spoken: Spoken) -> None:
    tls = Tls(tmp_path, start_etcd)
    async with EtcdStore(tls.settings(spoken, ca=tls.ours.pem)) as store:
        revision = await store.put("/a", b"1")
        async with store.watch("/", revision) as batches:
            assert (await anext(batches)).revision == revision


@pytest.mark.parametrize("trusted", ["theirs", "the system's"])
async def test_a_server_of_an_unknown_authority_is_refused(
    start_etcd: StartEtcd, tmp_path: Path, trusted: str, spoken: Spoken
) -> None:
    tls = Tls(tmp_path, start_etcd)
    settings = tls.settings(spoken, ca=tls.theirs.pem) if trusted == "theirs" else tls.settings(spoken)
    async with EtcdStore(settings) as store:
        with pytest.raises(AccessDenied, match="no trust"):
            await store.put("/a", b"1")
        async with store.watch("/", 1) as batches:
            with pytest.raises(AccessDenied, match="no trust"):
                await anext(batches)


async def test_untrusted_member_is_not_final_while_another_is_only_down(
    start_etcd: StartEtcd, tmp_path: Path, spoken: Spoken
) -> None:
    tls = Tls(tmp_path, start_etcd)
    endpoints = (tls.etcd.url, f"https://127.0.0.1:{free_port()}")
    async with EtcdStore(spoken(endpoints=endpoints, ca=tls.theirs.pem, deadline=1.0)) as store:
        with pytest.raises(Unavailable):
            await store.get("/a")
        async with store.watch("/", 1) as batches:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(batches), 1.0)


async def test_a_server_under_another_name_is_refused(start_etcd: StartEtcd, tmp_path: Path, spoken: Spoken) -> None:
    tls = Tls(tmp_path, start_etcd, host="elsewhere.example")

    with pytest.raises(AccessDenied, match="no trust"):
        await EtcdStore.connect(tls.settings(spoken, ca=tls.ours.pem))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_mutual_tls_takes_our_certificate_and_refuses_none_and_strangers(
    start_etcd: StartEtcd, tmp_path: Path, run: Callable[[Coroutine[Any, Any, None]], None], spoken: Spoken
) -> None:
    tls = Tls(tmp_path, start_etcd, mutual=True)
    friend, stranger = tls.ours.sign("friend"), tls.theirs.sign("stranger")

    async def welcome() -> None:
        async with EtcdStore(tls.settings(spoken, ca=tls.ours.pem, cert=friend.cert, key=friend.key)) as store:
            lease = await store.grant_lease(5)
            assert await store.put("/a", b"1", lease=lease.id)
            await lease.revoke()

    async def refuse(settings: EtcdSettings) -> None:
        async with EtcdStore(settings) as store:
            with pytest.raises(AccessDenied):
                await store.put("/a", b"1")
            async with store.watch("/", 1) as batches:
                with pytest.raises(AccessDenied):
                    await anext(batches)

    run(welcome())
    run(refuse(tls.settings(spoken, ca=tls.ours.pem)))
    run(refuse(tls.settings(spoken, ca=tls.ours.pem, cert=stranger.cert, key=stranger.key)))

"""What only gRPC can meet: servers that are no etcd, a package that is not there, certificates that name a user."""

from __future__ import annotations

import asyncio
import sys
import traceback
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.etcd.certificates import Authority
from tests.etcd.conftest import StartEtcd
from tests.etcd.etcd_process import EtcdProcess
from tests.etcd.grpc_server import serving
from tests.etcd.test_etcd_faults import STRANGE_ANSWERS, hasty, strange_server
from tests.etcd.test_etcd_security import with_users
from wharfinger.errors import AccessDenied, ConfigurationError, Unavailable
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_grpc_wire import MESSAGES
from wharfinger.etcd.etcd_wire import Method
from wharfinger.settings import EtcdSettings


def spoken(**settings: Any) -> EtcdSettings:
    return EtcdSettings(protocol="grpc", **settings)


@pytest.mark.parametrize("answer", STRANGE_ANSWERS.values(), ids=STRANGE_ANSWERS.keys())
async def test_server_without_http2_gets_no_request(steady_etcd: EtcdProcess, answer: bytes | None) -> None:
    async with strange_server(answer) as url:
        async with EtcdStore(hasty(spoken, url)) as store:
            with pytest.raises(Unavailable) as refused:
                await store.put("/strange", b"1")
        async with EtcdStore(hasty(spoken, url, steady_etcd.url, deadline=20.0)) as store:
            assert (await store.get("/strange")).kv is None
            async with store.watch("/strange", 0) as batches, asyncio.timeout(20.0):
                assert (await anext(batches)).events == ()

    assert not refused.value.maybe_applied


@pytest.mark.parametrize(
    "answer",
    [
        (grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed"),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service"),
        (grpc.StatusCode.INTERNAL, "something"),
    ],
    ids=["changes its leader", "is no etcd", "is in trouble"],
)
async def test_reads_leave_a_server_in_trouble_and_writes_to_it_are_in_doubt(
    steady_etcd: EtcdProcess, answer: tuple[grpc.StatusCode, str]
) -> None:
    async def fail(_: Any) -> Any:
        return answer

    async with serving({Method.RANGE: fail, Method.TXN: fail}) as url:
        async with EtcdStore(hasty(spoken, url, steady_etcd.url)) as store:
            with pytest.raises(Unavailable) as refused:
                await store.put("/troubled", b"1")
        async with EtcdStore(hasty(spoken, url, steady_etcd.url, deadline=20.0)) as store:
            assert (await store.get("/troubled")).kv is None

    assert refused.value.maybe_applied


async def test_an_answer_without_a_revision_is_not_believed() -> None:
    async def empty(_: Any) -> Any:
        return MESSAGES["RangeResponse"]()

    async with serving({Method.RANGE: empty}) as url, EtcdStore(hasty(spoken, url)) as store:
        with pytest.raises(Unavailable, match="no etcd"):
            await store.get("/a")


async def test_a_token_is_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    password = tmp_path / "password"
    password.write_text("hunter-2-secret")

    async def login(_: Any) -> Any:
        return MESSAGES["AuthenticateResponse"](token="the-token")

    async def fail(_: Any) -> Any:
        return grpc.StatusCode.INTERNAL, "something"

    async with serving({Method.AUTHENTICATE: login, Method.TXN: fail}) as url:
        settings = spoken(endpoints=(url,), user="clerk", password_file=password, deadline=1.0)
        async with EtcdStore(settings) as store:
            with pytest.raises(Unavailable, match="the write may have happened: something") as refused:
                await store.put("/a", b"")

    shown = "".join(traceback.format_exception(refused.value)) + caplog.text + repr(settings)
    assert "the-token" not in shown
    assert "hunter-2-secret" not in shown


async def test_certificate_with_a_common_name_is_a_user(start_etcd: StartEtcd, tmp_path: Path) -> None:
    """The JSON gateway takes no such certificate; gRPC takes its name for the user's."""
    ours = Authority(tmp_path, "ours")
    server = ours.sign("server", host="127.0.0.1")
    etcd = start_etcd(
        scheme="https",
        options=[
            "--cert-file", str(server.cert), "--key-file", str(server.key), "--client-cert-auth",
            "--trusted-ca-file", str(ours.pem), "--bcrypt-cost", "4",
        ],
    )  # fmt: skip
    clerk = ours.sign("clerk")
    etcd.identify(ours.pem, ours.sign("operator", common_name=False))
    with_users(etcd)

    async with EtcdStore(spoken(endpoints=(etcd.url,), ca=ours.pem, cert=clerk.cert, key=clerk.key)) as store:
        assert await store.put("/open/a", b"")
        with pytest.raises(AccessDenied, match="permission denied"):
            await store.put("/closed/a", b"")


def test_missing_package_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wharfinger.etcd.etcd_grpc", raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'wharfinger\[grpc\]'"):
        EtcdStore(spoken())

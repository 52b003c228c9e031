"""The context by which etcd's certificates are verified, and why a server that never answered ended the connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.etcd.certificates import Authority
from wharfinger.errors import AccessDenied, ConfigurationError, Unavailable
from wharfinger.etcd import etcd_json_wire, etcd_tls
from wharfinger.etcd.etcd_connection import Connection
from wharfinger.etcd.etcd_gateway import Stream, Unanswered
from wharfinger.etcd.etcd_wire import Method, Wire
from wharfinger.settings import EtcdSettings


def test_certificates_and_names_are_verified_alike_on_every_python(tmp_path: Path) -> None:
    context = etcd_tls.context(EtcdSettings(endpoints=("https://x:2379",), ca=Authority(tmp_path, "ours").pem))

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert [dict(pair for (pair,) in one["subject"])["commonName"] for one in context.get_ca_certs()] == ["ours"]


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"

    with pytest.raises(ConfigurationError, match=r"cannot use the certificates for etcd \(.*none\.pem\)"):
        etcd_tls.context(EtcdSettings(endpoints=("https://x:2379",), ca=missing))


class Resetting:
    """A gateway whose connections are reset before anything of the answer is read."""

    endpoint = ""
    token: str | None = None
    wire: Wire = etcd_json_wire

    async def exchange(self, method: Method, request: Any, seconds: float) -> Any:
        raise Unanswered("Connection reset by peer")

    async def open_stream(self, method: Method, request: Any, idle: float) -> Stream:
        raise Unanswered("Connection reset by peer")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("certified", [False, True])
async def test_a_reset_hides_no_refused_certificate(tmp_path: Path, certified: bool) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    server, friend = ours.sign("server", host="127.0.0.1"), (ours if certified else theirs).sign("friend")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    context.load_verify_locations(ours.pem)
    context.verify_mode = ssl.CERT_REQUIRED

    def answer_one(listening: socket.socket) -> None:
        accepted, _ = listening.accept()  # asyncio's server would end without a word
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(accepted, server_side=True):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(2.0)  # where nobody asks, the test fails rather than waits
        answering = asyncio.create_task(asyncio.to_thread(answer_one, listening))
        endpoint = f"https://127.0.0.1:{listening.getsockname()[1]}"
        settings = EtcdSettings(endpoints=(endpoint,), ca=ours.pem, cert=friend.cert, key=friend.key)
        connection = Connection(settings, lambda *_: Resetting(), Random(1))
        with pytest.raises(Unavailable if certified else AccessDenied):
            await connection.call(Method.TXN, {}, repeatable=False)
        await answering

"""What passes on the way between a worker and a server, and what does not."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from tests.faults.proxy import Mode, Network, Proxy, Trap
from tests.patience import patient

SOON = 0.2
"""Seconds for which nothing comes when nothing may."""


class Echo(socketserver.ThreadingTCPServer):
    """Answers what it is sent, and remembers it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.heard = b""
        self.news = threading.Condition()
        super().__init__(("127.0.0.1", 0), Handler)

    def hears(self, data: bytes) -> bool:
        with self.news:
            return self.news.wait_for(lambda: data in self.heard, patient(20))


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Echo)
        with contextlib.suppress(OSError):
            while data := self.request.recv(4096):
                with self.server.news:
                    self.server.heard += data
                    self.server.news.notify_all()
                self.request.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def way(echo: Echo) -> Iterator[Proxy]:
    network = Network()
    yield network.proxy(echo.server_address[1])
    network.close()


def connect(way: Proxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", way.port), timeout=20)
    client.sendall(b"hello")
    assert client.recv(4096) == b"hello"
    return client


def silent(client: socket.socket) -> bool:
    client.settimeout(SOON)
    try:
        client.recv(4096)
    except TimeoutError:
        return True
    finally:
        client.settimeout(20)
    return False


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(4096) == b""
    except ConnectionError:
        return True


def test_what_is_stalled_arrives_later(way: Proxy, echo: Echo) -> None:
    with connect(way) as client:
        way.set(Mode.STALL)
        client.sendall(b"late")
        assert silent(client)
        assert b"late" not in echo.heard
        way.set(Mode.OPEN)
        assert client.recv(4096) == b"late"


def test_a_cut_ends_old_connections_and_new_ones(way: Proxy) -> None:
    with connect(way) as client:
        way.set(Mode.CUT)
        assert ended(client)
    with socket.create_connection(("127.0.0.1", way.port), timeout=20) as client:
        assert ended(client)
    way.set(Mode.OPEN)
    connect(way).close()


def test_deaf_proxy_forwards_requests_and_drops_responses(way: Proxy, echo: Echo) -> None:
    with connect(way) as client:
        way.set(Mode.DEAF)
        client.sendall(b"done?")
        assert echo.hears(b"done?")
        assert silent(client)
        way.set(Mode.OPEN)
        assert ended(client)


def test_only_what_is_watched_comes_late(way: Proxy) -> None:
    with connect(way) as watching, connect(way) as other:
        way.set(Mode.WATCH)
        watching.sendall(b"POST /v3/watch HTTP/1.1")
        other.sendall(b"POST /v3/kv/txn HTTP/1.1")
        assert other.recv(4096).startswith(b"POST /v3/kv/txn")
        assert silent(watching)
        way.set(Mode.OPEN)
        assert watching.recv(4096).startswith(b"POST /v3/watch")


@pytest.mark.parametrize("answer", [False, True])
def test_a_trap_keeps_the_one_connection_whose_request_has_the_bait(way: Proxy, echo: Echo, answer: bool) -> None:
    trap = Trap(b"cheese", answer)
    with connect(way) as caught, connect(way) as other:
        way.lay(trap)
        caught.sendall(b"some cheese")
        assert trap.sprung.wait(patient(20))
        assert silent(caught)
        assert echo.hears(b"cheese") if answer else b"cheese" not in echo.heard
        other.sendall(b"more cheese")
        assert other.recv(4096) == b"more cheese"
        way.release(trap)
        assert caught.recv(4096) == b"some cheese"

"""What a person at a terminal is told of servers that do not answer, and how long a closed port is tried."""

from __future__ import annotations

import asyncio
import io
import socket

import pytest

from tests.conftest import free_port
from tests.patience import patient
from wharfinger.cli.connect import open_store, open_temporal, telling
from wharfinger.cli.options import ConnectionOptions
from wharfinger.errors import ServerError, Unavailable
from wharfinger.settings import EtcdSettings, TemporalSettings


class Terminal(io.StringIO):
    """A person reads it."""

    def isatty(self) -> bool:
        return True


def etcd_at(url: str) -> ConnectionOptions:
    return ConnectionOptions(etcd=EtcdSettings(endpoints=(url,)))


async def test_a_closed_port_here_is_not_tried_for_long() -> None:
    connection = etcd_at(f"http://127.0.0.1:{free_port()}")
    async with asyncio.timeout(patient(30)):
        with pytest.raises(Unavailable, match=r"cannot reach etcd at .*refused"):
            async with open_store(connection, within=300, told=Terminal()):
                pass


async def test_a_script_tries_a_closed_port_until_its_time_is_over() -> None:
    told = io.StringIO()
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(Unavailable, match="cannot reach etcd"):
        async with open_store(etcd_at(f"http://127.0.0.1:{free_port()}"), within=2.5, told=told):
            pass

    assert clock() - began >= 1.5  # the last pause, of a second at most, is not begun
    assert told.getvalue() == ""


async def test_a_person_is_told_that_etcd_does_not_answer_yet() -> None:
    told = Terminal()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match="cannot reach etcd"):
            async with open_store(etcd_at(url), within=2.0, told=told):
                pass

    assert told.getvalue() == f"etcd at {url} does not answer yet ...\n"


async def test_a_person_is_told_that_temporal_does_not_answer_yet() -> None:
    told = Terminal()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        connection = ConnectionOptions(temporal=TemporalSettings(address=address))
        with pytest.raises(ServerError, match="cannot reach Temporal"):
            await open_temporal(connection, within=1.5, told=told)

    assert told.getvalue() == f"Temporal at {address} does not answer yet ...\n"


async def test_nothing_is_told_once_there_is_an_answer() -> None:
    told = Terminal()
    with telling("not yet", told, after=0.0):
        pass
    await asyncio.sleep(0)

    assert told.getvalue() == ""

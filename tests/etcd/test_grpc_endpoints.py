"""Endpoints that gRPC cannot reach: unsent calls go to the next one, and a dead connection is not used again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.etcd.etcd_process import EtcdProcess
from tests.patience import patient
from wharfinger.errors import Unavailable
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.settings import EtcdSettings

NOWHERE = "http://no-such-host.invalid:2379"
ENDED = "http://127.0.0.1:1"


async def test_a_write_goes_to_the_next_endpoint_where_a_name_has_no_address(steady_etcd: EtcdProcess) -> None:
    settings = replace(steady_etcd.settings, protocol="grpc", endpoints=(NOWHERE, *steady_etcd.settings.endpoints))
    async with EtcdStore(settings) as store:
        assert await store.put("/names/a", b"1") > 0


async def test_a_write_that_found_no_address_did_not_happen() -> None:
    settings = EtcdSettings(protocol="grpc", endpoints=(NOWHERE, ENDED), deadline=1.0)
    async with EtcdStore(settings) as store:
        with pytest.raises(Unavailable) as failed:
            await store.put("/names/a", b"1")
    assert not failed.value.maybe_applied


class Hole:
    """A proxy before etcd. The connections that are open when it is dug carry nothing any more."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0
        self.deaf = 0
        """Connections up to this number are dead."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, ours]

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                if number > self.deaf:
                    target.write(data)

        await asyncio.gather(copy(reader, ours), copy(theirs, writer), return_exceptions=True)

    def dig(self) -> None:
        self.deaf = self.connections

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


async def test_a_call_after_one_without_an_answer_has_another_connection(steady_etcd: EtcdProcess) -> None:
    port = int(steady_etcd.settings.endpoints[0].rpartition(":")[2])
    hole = Hole(port)
    server = await asyncio.start_server(hole.serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = replace(
        steady_etcd.settings, protocol="grpc", endpoints=(address,), attempt_timeout=patient(1.0), deadline=patient(20)
    )
    try:
        async with EtcdStore(settings) as store:
            await store.put("/hole/a", b"1")
            before = hole.connections
            hole.dig()
            found = await store.get("/hole/a")
            assert found.kv is not None
            assert hole.connections > before
    finally:
        hole.close()
        server.close()

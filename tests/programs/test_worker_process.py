"""`wharfinger worker` as a process: signals, exit codes, what it says of servers that are not up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests import forked
from tests.conftest import EtcdServer, TemporalServer, free_port
from tests.patience import patient
from tests.programs.conftest import Site

WORKER = (*forked.COMMAND, "worker")


@contextlib.asynccontextmanager
async def process(log: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    with log.open("wb") as out:
        started = await asyncio.create_subprocess_exec(
            *WORKER, *arguments, stdout=out, stderr=out, env=forked.variables()
        )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def checks(port: int) -> dict[str, str]:
    """The answer of `/readyz`; empty while no server listens."""
    with contextlib.suppress(aiohttp.ClientError):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/readyz?format=json") as answer,
        ):
            found: dict[str, str] = (await answer.json())["checks"]
            return found
    return {}


async def ready(port: int) -> None:
    async with asyncio.timeout(patient(30)):
        while set((await checks(port)).values()) != {"ok"} or "serving" not in await checks(port):
            await asyncio.sleep(0.05)


async def metrics(port: int) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


@pytest.mark.usefixtures("site")
async def test_the_first_sigterm_drains_and_exits_0(
    etcd_server: EtcdServer, temporal_server: TemporalServer, tmp_path: Path, site: Site
) -> None:
    port = free_port()
    options = ("--etcd", etcd_server.url, "--temporal", temporal_server.address, "--health-port", str(port))
    async with process(tmp_path / "log", *options) as worker:
        await ready(port)
        await site.node("node")
        await site.pod("p")
        await site.all_bound(["p"])
        text = await metrics(port)
        worker.send_signal(signal.SIGTERM)
        code = await asyncio.wait_for(worker.wait(), patient(30))

    assert code == 0
    for name in ("wharfinger_ready 1.0", "temporal_num_pollers", 'scheduler_pending_pods{queue="active"} 0.0'):
        assert name in text
    said = (tmp_path / "log").read_text()
    assert "drained" in said
    assert "Traceback" not in said


async def test_servers_that_are_not_up_are_waited_for_with_one_line_each(tmp_path: Path) -> None:
    port = free_port()
    options = ("--etcd", f"http://127.0.0.1:{free_port()}", "--health-port", str(port))
    async with process(tmp_path / "log", *options) as worker:
        async with asyncio.timeout(patient(30)):
            while "waiting_for_etcd" not in (tmp_path / "log").read_text():
                await asyncio.sleep(0.05)
        assert (await checks(port))["etcd"] == "has not answered yet"
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/livez") as answer,
        ):
            assert answer.status == 200
        worker.send_signal(signal.SIGINT)
        code = await asyncio.wait_for(worker.wait(), patient(30))

    assert code == 0
    assert (tmp_path / "log").read_text().count("waiting_for_etcd") == 1


async def test_a_second_signal_exits_at_once(
    etcd_server: EtcdServer, temporal_server: TemporalServer, tmp_path: Path, site: Site
) -> None:
    """Draining cannot end while etcd hangs, and would end with exit code 0: only the second signal gives another."""
    port = free_port()
    options = ("--etcd", etcd_server.url, "--temporal", temporal_server.address, "--health-port", str(port))
    async with process(tmp_path / "log", *options) as worker:
        await ready(port)
        os.kill(etcd_server.pid, signal.SIGSTOP)
        try:
            worker.send_signal(signal.SIGTERM)
            async with asyncio.timeout(patient(30)):
                while "draining" not in (tmp_path / "log").read_text():
                    await asyncio.sleep(0.01)
            worker.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(worker.wait(), patient(30))
        finally:
            os.kill(etcd_server.pid, signal.SIGCONT)

    assert code == 128 + signal.SIGTERM


async def test_a_health_port_that_is_taken_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    async with asyncio.timeout(patient(30)):
        listener = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with process(tmp_path / "log", "--health-port", str(port)) as worker:
            code = await worker.wait()
        listener.close()

    assert code == 2
    assert "another --health-port" in (tmp_path / "log").read_text()
    assert "Traceback" not in (tmp_path / "log").read_text()

"""The folder of members while files change: a broken file is its own member's trouble."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.patience import patient
from wharfinger.placement.member import member_agent
from wharfinger.process.parts import ProcessParts
from wharfinger.programs.member import MemberAgents
from wharfinger.programs.process_settings import MemberAgentSettings
from wharfinger.testing import MemoryStore


def write(folder: Path, name: str, text: str, mode: int = 0o400) -> None:
    path = folder / f"{name}.yaml"
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


async def test_a_broken_file_does_not_keep_others_from_their_new_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[str] = []

    async def run(self: member_agent.MemberReporter) -> None:
        started.append(self.name)
        await asyncio.sleep(3600)

    def served() -> dict[str, str]:
        return {name: connection.etcd.endpoints[0] for name, (connection, _, _) in agents._running.items()}

    monkeypatch.setattr(member_agent.MemberReporter, "run", run)
    monkeypatch.setattr("wharfinger.programs.member.AGAIN", 0.01)
    write(tmp_path, "east", "etcd: [http://a:1]")
    write(tmp_path, "west", "etcd: [http://b:1]")
    stop = asyncio.Event()
    agents = MemberAgents(MemberAgentSettings(members_dir=tmp_path), ProcessParts(MemoryStore()))
    serve = asyncio.create_task(agents.run(stop))
    async with asyncio.timeout(patient(10)):
        while len(started) < 2:
            await asyncio.sleep(0.01)
        write(tmp_path, "east", "etcd: [")
        write(tmp_path, "south", "etcd: [http://s:1]", mode=0o644)
        write(tmp_path, "west", "etcd: [http://b:2]")
        write(tmp_path, "north", "etcd: [http://n:1]")
        with caplog.at_level(logging.WARNING):
            while served() != {"east": "http://a:1", "west": "http://b:2", "north": "http://n:1"}:
                await asyncio.sleep(0.01)
    stop.set()
    await serve
    assert started.count("east") == 1, "it goes on with what it had"
    said = [line for line in caplog.messages if "member_unreadable" in line]
    assert [line.split(" error=")[0] for line in said] == [
        "member_unreadable effect=as_it_was member=east",
        "member_unreadable effect=not_served member=south",
    ]

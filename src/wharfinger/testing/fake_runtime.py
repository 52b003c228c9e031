"""A runtime of virtual processes: the same promises, no operating system. For tests and simulations of agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wharfinger.errors import ServerError
from wharfinger.process.children.runtime import Command, Ending, InstanceId, Process


@dataclass(slots=True)
class FakeRuntime:
    """Processes that are only counted. They end when told to, unless they are `stubborn`."""

    root: Path
    """Where the instances' folders are made: what is put there is real."""
    clock: Callable[[], float] = lambda: 0.0
    stubborn: set[InstanceId] = field(default_factory=set)
    """Those that do not mind SIGTERM."""
    broken: set[Path] = field(default_factory=set)
    """Executables that cannot be run."""
    started: list[tuple[InstanceId, Command]] = field(default_factory=list)
    """Every start that there was."""
    before_start: Callable[[InstanceId], None] = lambda _: None
    """Called where a real one forks: what happens at that moment."""
    left_running: set[InstanceId] = field(default_factory=set)
    """What an earlier runtime left, for `adopt`."""
    left_ended: set[InstanceId] = field(default_factory=set)
    _running: dict[InstanceId, Process] = field(default_factory=dict)
    _began: dict[InstanceId, float] = field(default_factory=dict)
    _lived: set[InstanceId] = field(default_factory=set)
    _endings: asyncio.Queue[Ending] = field(default_factory=asyncio.Queue)

    def folder(self, instance: InstanceId) -> Path:
        """A folder under the root."""
        folder = self.root / instance.tenant / str(instance.slot) / str(instance.incarnation)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def lock(self, instance: InstanceId) -> Path:
        """Where a real one's lock would lie."""
        return self.folder(instance).with_suffix(".lock")

    async def start(self, instance: InstanceId, command: Command) -> Process:
        """Start it, or answer the running one."""
        if instance in self._running:
            return self._running[instance]
        if instance in self._lived:
            raise ServerError(f"instance {instance} has lived already")
        self.before_start(instance)
        if command.executable in self.broken:
            raise ServerError(f"{command.executable} cannot be run: no such file")
        self.started.append((instance, command))
        return self._begin(instance, adopted=False)

    def running(self) -> Sequence[Process]:
        """All that run."""
        return list(self._running.values())

    def find(self, instance: InstanceId) -> Process | None:
        """The running one of that life."""
        return self._running.get(instance)

    def lived(self, instance: InstanceId) -> bool:
        """Whether there ever was one."""
        return instance in self._lived

    def remains(self) -> Sequence[InstanceId]:
        """Those that have ended and are not forgotten."""
        return sorted(self._lived - self._running.keys())

    async def adopt(self) -> Sequence[Ending]:
        """What was left."""
        for instance in sorted(self.left_running):
            self._begin(instance, adopted=True)
        self._lived |= self.left_ended
        ended = [Ending(instance, "unknown") for instance in sorted(self.left_ended)]
        self.left_running, self.left_ended = set(), set()
        return ended

    async def terminate(self, instance: InstanceId) -> None:
        """Ends it, unless it is stubborn."""
        if instance not in self.stubborn:
            self.end(instance, "code", 0)

    async def kill(self, instance: InstanceId) -> None:
        """Ends it."""
        self.end(instance, "signal", 9)

    async def wait(self, instance: InstanceId, timeout: float) -> bool:  # noqa: ARG002 - the protocol's
        """Whether it has ended; a virtual process does nothing meanwhile, so it is not waited for."""
        return instance not in self._running

    async def endings(self) -> AsyncIterator[Ending]:
        """Every end, once."""
        while True:
            yield await self._endings.get()

    async def forget(self, instance: InstanceId) -> None:
        """As if it had never been, when it has ended."""
        if instance not in self._running:
            self._lived.discard(instance)

    def end(self, instance: InstanceId, how: Literal["code", "signal", "unknown"], number: int = 0) -> None:
        """Let a process end; nothing when it does not run."""
        if self._running.pop(instance, None) is not None:
            self._endings.put_nowait(Ending(instance, how, number, self.clock() - self._began[instance]))

    def _begin(self, instance: InstanceId, *, adopted: bool) -> Process:
        process = Process(instance, 100_000 + len(self._lived), self.root / f"{instance.incarnation}.log", adopted)
        self._running[instance], self._began[instance] = process, self.clock()
        self._lived.add(instance)
        return process

"""`wharfinger agent` processes on servers of their own, and a workflow by which tests ask a host's queue."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.conftest import free_port
from tests.forked import Forked
from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.fleet.contracts.fleet_records import RevisionRecord, read_value, stored
from wharfinger.fleet.model.fleet import Exit, Grant
from wharfinger.process.children import locks
from wharfinger.process.children.runtime import InstanceId
from wharfinger.process.names import host_queue
from wharfinger.process.records import InstanceRecord

TTL = 2
FIRST = InstanceId("common", 0, 1)


@workflow.defn(name="AskHost")
class AskHost:
    """One activity on a host's queue."""

    @workflow.run
    async def run(self, queue: str, activity: str, request: dict[str, Any], silence: float) -> dict[str, Any]:
        answer: dict[str, Any] = await workflow.execute_activity(
            activity,
            request,
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=silence),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=200)),
        )
        return answer


@dataclass
class Site:
    """Servers, a data folder, and the agents on it."""

    store: Store
    client: Client
    options: tuple[str, ...]
    folder: Path
    host: str
    started: list[Forked]
    pause: float = 0.05
    """Seconds between two looks of a test that waits."""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self, *options: str, data: str = "data") -> AgentProcess:
        """Start an agent."""
        port = free_port()
        log = self.folder / f"agent{len(self.started)}.log"
        line = (
            "agent",
            *self.options,
            f"--host={self.host}",
            f"--data-dir={self.folder / data}",
            f"--health-port={port}",
            f"--lease-ttl={TTL}",
            *options,
        )
        own = {"OWN_SECRET": "agents-own-secret", "ALLOWED": "passes"}
        process = Forked(line, {**os.environ, **own}, log, log)
        self.started.append(process)
        return AgentProcess(process, log, f"http://127.0.0.1:{port}")

    async def ask(self, activity: str, silence: float = 60.0, **request: Any) -> dict[str, Any]:
        """Let the host's agent do something. `silence`: seconds without a heartbeat after which it is asked anew."""
        queue = f"tests-{uuid.uuid4().hex}"
        async with Worker(
            self.client, task_queue=queue, workflows=[AskHost], workflow_runner=UnsandboxedWorkflowRunner()
        ):
            answer: dict[str, Any] = await self.client.execute_workflow(
                AskHost.run,
                args=[host_queue("wharfinger", self.host), activity, request, silence],
                id=queue,
                task_queue=queue,
                run_timeout=timedelta(seconds=patient(90)),
            )
            return answer

    async def create(self, instance: InstanceId = FIRST, silence: float = 60.0) -> dict[str, Any]:
        """`create_instance`."""
        return await self.ask("create_instance", silence, **instance._asdict())

    async def kill(self, instance: InstanceId = FIRST, timeout: float = 10.0) -> dict[str, Any]:
        """`kill_instance`."""
        return await self.ask("kill_instance", **instance._asdict(), timeout=timeout)

    async def grant(self, instance: InstanceId = FIRST, want: str = "run", **template: Any) -> None:
        """Put revision 1 and a grant."""
        await self.store.put(keys.revision(instance.tenant, 1), RevisionRecord(template=template).to_bytes())
        record = Grant(revision=1, host=self.host, want=want)  # type: ignore[arg-type]
        await self.store.put(keys.grant(*instance), stored(record))

    async def drain(self, instance: InstanceId = FIRST) -> None:
        """Turn the grant to drain."""
        kv = (await self.store.get(keys.grant(*instance))).kv
        assert kv is not None
        record = replace(read_value(Grant, kv.value), want="drain")
        await self.store.put(keys.grant(*instance), stored(record))

    async def registered(self, instance: InstanceId = FIRST) -> InstanceRecord | None:
        """What the instance says of itself."""
        kv = (await self.store.get(keys.instance(instance.tenant, str(instance.slot), instance.incarnation))).kv
        return InstanceRecord.model_validate_json(kv.value) if kv is not None else None

    async def ready(self, instance: InstanceId = FIRST) -> InstanceRecord:
        """Its registration, as soon as that says ready."""
        async with asyncio.timeout(patient(60)):
            while True:
                record = await self.registered(instance)
                if record is not None and record.state == "ready":
                    return record
                await asyncio.sleep(0.05)

    async def exit(self, instance: InstanceId = FIRST) -> Exit | None:
        """How it ended."""
        kv = (await self.store.get(keys.exited(*instance))).kv
        return read_value(Exit, kv.value) if kv is not None else None

    def lock(self, instance: InstanceId = FIRST) -> Path:
        """Its lock file."""
        return self.data / "instances" / instance.tenant / str(instance.slot) / f"{instance.incarnation}.lock"

    def alive(self) -> list[int]:
        """Pids of all instances that live, by their locks."""
        held = [locks.holder(lock) for lock in self.folder.glob("*/instances/*/*/*.lock") if locks.locked(lock)]
        return [life.pid for life in held if life is not None]

    async def until(self, true: Callable[[], Any], seconds: float = 60.0) -> None:
        """Wait for what must come."""
        async with asyncio.timeout(patient(seconds)):
            while True:
                answer = true()
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer:
                    return
                await asyncio.sleep(self.pause)

    def end(self) -> None:
        """Kill whatever is left."""
        for process in self.started:
            process.kill()
            process.wait()
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class AgentProcess:
    """One agent."""

    process: Forked
    log: Path
    health: str

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def ready(self) -> bool:
        """Whether /readyz says so."""
        assert self.process.poll() is None, self.said
        try:
            with urllib.request.urlopen(f"{self.health}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def metric(self, name: str) -> float:
        """One of its figures."""
        with urllib.request.urlopen(f"{self.health}/metrics", timeout=patient(30)) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.ended()

    def ended(self) -> int:
        """The exit code, once it has ended."""
        return self.process.wait(patient(60))

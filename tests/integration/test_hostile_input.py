"""Thousands of objects, inputs and signals that no sane client sends, to one worker at work: it serves the others.

Real etcd, real Temporal, one worker in a tree of its own. What the objects do to the core alone is in
`tests/properties/test_hostile_objects`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import RawValue

from tests.integration.dev_tree import DevTree, running_tree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, bound_pods, node, pod, uid_of
from tests.integration.histories import deadlocked
from tests.integration.worker_process import cpu_seconds, mistakes, scrape
from tests.patience import patient
from tests.properties import hostile
from wharfinger.etcd import keys

pytestmark = [pytest.mark.servers, pytest.mark.timeout(360)]

HOSTILE = int(os.environ.get("WHARFINGER_TEST_HOSTILE", "2000"))
GOOD = 300
HIGHEST = 1_000_000_000
"""Priority of the good pods: a hostile pod that can be read is a pod like others, and may even preempt."""
STALL = 2.0
"""Seconds for which a worker may work at something without an answer."""
TICK = 0.05
MEMORY = 400
"""MiB of the worker at the most, at its worst moment."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    """A tree with one worker, which these tests spoil."""
    with running_tree(tmp_path_factory.mktemp("hostile"), workers=1) as tree:
        yield tree


class Probes:
    """How long the health endpoints took at the worst, and whatever they said besides that all is well.

    What counts is the time in which the worker worked at something else: the whole machine may stand still, the worker
    alone, who uses no processor then, or this process, which counts the moments that it waited.
    """

    def __init__(self, url: str, pid: int) -> None:
        self.longest = 0.0
        self.bad: set[tuple[str, int]] = set()
        self._url = url
        self._pid = pid
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self._probe)
            try:
                yield
            finally:
                self._over.set()
            done.result()

    def _probe(self) -> None:
        with ThreadPoolExecutor(1) as pool:
            while not self._over.wait(TICK):
                for path in ("/livez", "/readyz"):
                    used, waited = cpu_seconds(self._pid), 0.0
                    asking = pool.submit(self._ask, path)
                    while wait([asking], TICK).not_done:
                        waited += TICK
                    self.longest = max(self.longest, min(waited, cpu_seconds(self._pid) - used))
                    if asking.result() != 200:
                        self.bad.add((path, asking.result()))

    def _ask(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self._url + path, timeout=patient(30)) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def hostile_writes(url: str, seed: int) -> dict[str, bytes]:
    """Write and now and then delete, over one connection; answers what is stored in the end."""
    etcd, rng = Gateway(url), random.Random(seed)
    stored: dict[str, bytes] = {}
    for number, (key, value) in enumerate([*hostile.stored(rng, HOSTILE), *hostile.huge(rng)]):
        if key == keys.INSTALLATION:  # a worker that starts would rightly refuse this etcd: see below
            continue
        etcd.put(key, value)
        stored[key] = value
        if number % 20 == 0:
            meddle(etcd, rng)
        if number % 10 == 0:
            gone = rng.choice(sorted(stored))
            etcd.delete(gone)
            del stored[gone]
    return stored


def meddle(etcd: Gateway, rng: random.Random) -> None:
    """Write over, or delete, what the worker itself keeps about good pods, nodes and its own registration."""
    (mine,) = [key for key in etcd.values(keys.INSTANCES) if "/hand-" in key] or [keys.tenant("nobody")]
    key = rng.choice(
        [
            keys.binding(f"good{rng.randrange(40):02}"), keys.bound("good"), keys.terms("good"), keys.terms("*"),
            keys.attempt("good", f"p{rng.randrange(GOOD):03}"), mine,
        ]
    )  # fmt: skip
    if rng.random() < 0.3:
        etcd.delete(key)
    else:
        etcd.put(key, hostile.value(rng, keys.ATTEMPTS, 0))


def is_no_object(value: bytes) -> bool:
    """Whether a value certainly means nothing, as JSON or as YAML: it is no text, or holds a NUL."""
    try:
        return "\0" in value.decode()
    except UnicodeDecodeError:
        return True


def peak_memory(pid: int) -> float:
    """MiB that a process had at its worst."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def test_good_pods_are_bound_while_thousands_of_hostile_objects_come_in(tree: DevTree) -> None:
    etcd, (health,), pids = tree.etcd, tree.ready["health"], tree.ready["pids"]
    for number in range(40):
        etcd.put(f"{NODES}good{number:02}", node(f"good{number:02}", cpu="64", memory="256Gi"))
    probes = Probes(health, pids["workers"][0])
    with probes.watching(), ThreadPoolExecutor(1) as pool:
        writing = pool.submit(hostile_writes, tree.ready["etcd"], 1)
        for number in range(GOOD):
            etcd.put(f"{PODS}good/p{number:03}", pod(f"p{number:03}", namespace="good", priority=HIGHEST))
            time.sleep(0.02)
        stored = writing.result(patient(120))
        wait_until(lambda: len(bound_pods(etcd, "good")) == GOOD, 90, "all good pods bound")
        revision = etcd.revision()
        wait_until(lambda: scrape(health)["wharfinger_watch_revision"] >= revision, 10, "caught up")

    assert tree.ready["pids"] == pids
    assert probes.bad == set()
    assert probes.longest < patient(STALL)
    assert peak_memory(pids["workers"][0]) < MEMORY
    metrics = scrape(health)
    for kind, prefix, parts in (("pods", PODS, 2), ("nodes", NODES, 1)):
        listed = json.loads(tree.cli("get", kind, "--invalid", "-o", "json").stdout)
        told = {entry["key"] for entry in listed}
        assert all(entry["reason"] for entry in listed)
        written = {key: value for key, value in stored.items() if key.startswith(prefix)}
        for key, value in written.items():
            names = key.removeprefix(prefix).split("/")
            if len(names) != parts or not all(names) or is_no_object(value):
                assert key.encode(errors="surrogateescape").decode(errors="backslashreplace") in told
        assert len(told) > len(written) / 2
        assert metrics[f'wharfinger_invalid_objects{{kind="{kind.removesuffix("s")}"}}'] == len(told)
    (written_log,) = (tree.folder / "data" / "agent" / "instances" / "common" / "0").glob("*.log")
    log = written_log.read_text()
    lines = [line.partition(" invalid ")[2] for line in log.splitlines() if " invalid " in line and "...(" not in line]
    lines = [line for line in lines if "hostile" in line]  # keys without a name were written more than once
    assert [line for line, times in Counter(lines).items() if times > 1] == []
    assert max(map(len, log.splitlines())) < 4000
    assert mistakes(log) == []


# --- Temporal -------------------------------------------------------------------------------------


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    """A payload as it is, whatever it holds."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


FAILED_TASK = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
BETWEEN = (
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)
LONG = "x" * 1_000_000
UNREADABLE = {
    "no text": raw(b"\xff\xfe\0"), "half": raw(b"{"), "deep": raw(b"[" * 50_000),
    "other": raw(b"{}", b"binary/odd"), "proto": raw(b"\x01", b"binary/protobuf"),
    "surrogate": raw(b'{"namespace":"default","name":"\\ud800","event":"\\ud800","reason":"\\ud800"}'),
    "digits": raw(b'{"namespace":"default","name":"a","revision":' + b"9" * 5000 + b"}"),
}  # fmt: skip
WRONG: dict[str, Any] = {
    "null": None, "list": [], "pair": [1, "a"], "long": LONG, "number": 5, "true": True,
    "types": {"namespace": 5, "name": {}},
    "part": {"namespace": "default"}, "timings": {"namespace": "default", "name": "a", "timings": {"park": -1}},
    "infinite": raw(b'{"namespace":"default","name":"a","timings":{"park":1e999}}'), **UNREADABLE,
}  # fmt: skip
"""Inputs of an attempt that name no pod."""
ODD: dict[str, Any] = {
    "controls": {"namespace": "de\0fault\n", "name": "a\x1b[31m"},
    "uid": {"namespace": "default", "name": "a", "uid": LONG},
    "names": {"namespace": "ü" * 63, "name": "é" * 253}, "why": {"namespace": "a", "name": "b", "woken_by": LONG},
    "revision": {"namespace": "default", "name": "a", "revision": 10**30},
}  # fmt: skip
"""Inputs that name pods which cannot be."""
NO_COHORT: dict[str, Any] = {
    **{name: each for name, each in WRONG.items() if name not in ("types", "part")},  # these mean no pods at all
    "pods": {"pods": [{"a": 1}] * 5000}, "number": {"pods": 5}, "gang": {"gang": 5}, "turn": {"turn": {"number": "x"}},
}  # fmt: skip
"""Inputs of a cohort that mean nothing."""
ODD_COHORT: dict[str, Any] = {
    "nobody": {}, "ghosts": {"pods": [{"namespace": "a", "name": f"ghost{number}"} for number in range(500)]},
    "same": {"pods": [{"namespace": "a", "name": "b", "uid": "c", "recorded": True, "chained": True}] * 50},
    "names": {"pods": [{"namespace": "a/b\0", "name": "../x\n"}, {"namespace": "", "name": ""}]},
    "long": {"pods": [{"namespace": LONG, "name": "a"}]},
    "turns": {"pods": [{"namespace": "a", "name": "b"}], "turn": {"dispatcher": "nobody", "number": 10**9}},
    "back": {"pods": [{"namespace": "a", "name": "b"}], "turn": {"dispatcher": "nobody", "number": -(10**9)}},
    "future": {"pods": [{"namespace": "a", "name": "b", "revision": 10**30, "attempt": 10**30}]},
    "ghost gang": {"gang": {"namespace": "a", "name": "ghost"}},
}  # fmt: skip
"""Cohorts of pods that are not, or cannot be."""
SIGNALS: dict[str, Any] = {
    "null": None, "list": [], "text": "x", "long": LONG, "number": 5, "types": {"revision": "x", "allowed": "maybe"},
    "future": {"revision": 2**62, "event": LONG}, "beyond": {"revision": 10**30}, "negative": {"revision": -1},
    "reason": {"allowed": False, "reason": LONG}, **UNREADABLE,
}  # fmt: skip


def failed_tasks(events: Iterable[HistoryEvent]) -> list[str]:
    """Why workflow tasks failed, but for what is only repeated: a signal came in between, or the worker stood still.

    A task that really takes too long does so every time, and its run never comes to what is waited for.
    """
    failed = [each for each in events if each.event_type == FAILED_TASK and not deadlocked(each)]
    causes = [each.workflow_task_failed_event_attributes.cause for each in failed]
    return [WorkflowTaskFailedCause.Name(cause) for cause in causes if cause not in BETWEEN]


async def looked_at(client: Client, workflow_id: str) -> tuple[WorkflowExecutionStatus, list[str], str]:
    """A run's status, why its workflow tasks failed, and the message of its failure."""
    handle = client.get_workflow_handle(workflow_id)
    status = (await handle.describe()).status
    events = (await handle.fetch_history()).events
    message = events[-1].workflow_execution_failed_event_attributes.failure.message
    assert status is not None
    return status, failed_tasks(events), message


@pytest.mark.parametrize(
    ("workflow", "wrong", "odd"), [("ScheduleAttempt", WRONG, ODD), ("ScheduleCohort", NO_COHORT, ODD_COHORT)]
)
async def test_invalid_input_fails_the_run_with_one_line_and_holds_no_task(
    tree: DevTree, workflow: str, wrong: dict[str, Any], odd: dict[str, Any]
) -> None:
    client = await Client.connect(tree.ready["temporal"])
    inputs = {f"wrong/{name}": each for name, each in wrong.items()} | {
        f"odd/{name}": each for name, each in odd.items()
    }
    ids = {f"hostile/{workflow}/{name}": each for name, each in inputs.items()}
    for workflow_id, each in ids.items():
        await client.start_workflow(workflow, each, id=workflow_id, task_queue="wharfinger/common")

    for workflow_id in ids:
        status, failed, message = await ended(client, workflow_id)
        assert failed == [], workflow_id
        assert status is WorkflowExecutionStatus.FAILED or "/odd/" in workflow_id, workflow_id
        assert status is WorkflowExecutionStatus.COMPLETED or 0 < len(message) < 2000
        assert "\n" not in message


async def ended(client: Client, workflow_id: str) -> tuple[WorkflowExecutionStatus, list[str], str]:
    async with asyncio.timeout(patient(20)):
        while True:
            found = await looked_at(client, workflow_id)
            if found[0] not in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW):
                return found
            await asyncio.sleep(0.1)


async def test_signals_that_mean_nothing_keep_no_pod_from_its_node(tree: DevTree) -> None:
    etcd = tree.etcd
    names = [f"s-{name.replace(' ', '-')}" for name in SIGNALS]
    for name in names:
        etcd.put(f"{PODS}signals/{name}", pod(name, namespace="signals", cpu="900", priority=HIGHEST))
    records = "/registry/wharfinger.dev/attempts/signals/"
    wait_until(lambda: len(etcd.values(records)) == len(names), 40, "all wait")
    client = await Client.connect(tree.ready["temporal"])
    handles = {
        name: client.get_workflow_handle(f"wharfinger/pod/signals/{name}/{uid_of('signals', name)}") for name in names
    }
    for (kind, signal), handle in zip(SIGNALS.items(), handles.values(), strict=True):
        for which in ("wake", "permit", "nobody-handles-this"):
            await handle.signal(which, signal)
        if kind == "number":
            await asyncio.gather(*(handle.signal("wake", index) for index in range(300)))
    for number in range(len(names)):
        etcd.put(f"{NODES}large{number}", node(f"large{number}", cpu="1000"))

    wait_until(lambda: len(bound_pods(etcd, "signals")) == len(names), 40, "all bound")
    for handle in handles.values():
        run = await handle.describe()
        while run is not None:
            events = (await client.get_workflow_handle(handle.id, run_id=run.run_id).fetch_history()).events
            assert failed_tasks(events) == [], handle.id
            before = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
            run = await client.get_workflow_handle(handle.id, run_id=before).describe() if before else None


def test_worker_reports_an_unreadable_installation_record(tree: DevTree) -> None:
    etcd = tree.etcd
    before = etcd.values(keys.INSTALLATION)[keys.INSTALLATION]
    etcd.put(keys.INSTALLATION, b"\xff\0")
    try:
        done = tree.cli("worker", "--health-port", "0", check=False)
    finally:
        etcd.put(keys.INSTALLATION, before)

    assert done.returncode == 1
    assert "/registry/wharfinger.dev/installation cannot be read" in done.stderr.splitlines()[-1]

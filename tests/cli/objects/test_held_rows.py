"""`get pods` names why pods are held back, as `pending` does; also while it watches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.patience import patient
from wharfinger.cli.objects.get import show_changes
from wharfinger.cli.output import Output
from wharfinger.etcd import keys
from wharfinger.objects.documents import documents, kinds
from wharfinger.testing.memory_store import MemoryStore

GROUP = "pod-group.scheduling.sigs.k8s.io/name"
LEAST = "pod-group.scheduling.sigs.k8s.io/min-available"


def member(pod: dict[str, Any], group: str, least: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "labels": {GROUP: group, LEAST: least}}}


def rows(table: str) -> dict[str, tuple[str, str]]:
    """Status and reason by the names of the pods."""
    cells = (line.split(maxsplit=5) for line in table.splitlines()[1:])
    return {name: (status, " ".join(reason)) for _, name, status, _, _, *reason in cells}


@pytest.mark.servers
def test_get_names_why_pods_are_held_back(shell: Shell) -> None:
    pods = [
        shell.pod("class", priorityClassName="nosuch"),
        shell.pod("gate", schedulingGates=[{"name": "example.com/quota"}]),
        shell.pod("object", schedulingGroup={"podGroupName": "none"}),
        member(shell.pod("few"), "team", "3"),
        member(shell.pod("wrong"), "other", "many"),
        shell.pod("free"),
    ]
    assert shell("apply", "-f", shell.file(pods)).code == 0

    found = rows(shell("get", "pods", "-n", shell.namespace).out)

    assert found.pop("free") == ("Pending", "")
    assert {name: status for name, (status, _) in found.items()} == dict.fromkeys(found, "Gated")
    assert found["class"][1] == "held back: no PriorityClass with name nosuch was found, or it is invalid"
    assert found["gate"][1] == "held back by its scheduling gates: example.com/quota"
    assert found["object"][1].endswith(f"PodGroup {shell.namespace}/none does not exist")
    assert found["few"][1] == "PodGroup: 1 of 3 members exist"
    assert "min-available 'many' is no positive number" in found["wrong"][1]
    pending = shell("pending", "-n", shell.namespace).out
    assert all(f"  {reason}\n" in pending for _, reason in found.values())
    assert rows(shell("get", "pod", "few", "-n", shell.namespace).out) == {"few": found["few"]}


async def put(store: MemoryStore, name: str, least: int) -> None:
    metadata = {"name": name, "namespace": "default", "labels": {GROUP: "team", LEAST: str(least)}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}
    await store.put(keys.pod("default", name), documents.to_json(pod))


async def test_watch_shows_when_a_gang_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()
    await put(store, "a", 2)
    watch = asyncio.create_task(show_changes(store, kinds.POD, "default", "", Output.TABLE))
    lines: list[list[str]] = []

    async def shown(count: int) -> None:
        """Return when so many lines were printed."""
        async with asyncio.timeout(patient(10)):
            while len(lines) < count:
                await asyncio.sleep(0)
                lines.extend(line.split() for line in capsys.readouterr().out.splitlines())

    await shown(2)
    assert (lines[1][1:3], lines[1][5:]) == (["a", "Gated"], ["PodGroup:", "1", "of", "2", "members", "exist"])
    await put(store, "b", 2)
    await shown(4)
    assert sorted(line[1:3] for line in lines[2:]) == [["a", "Pending"], ["b", "Pending"]]
    await store.delete(keys.pod("default", "b"))
    await shown(6)
    assert lines[4] == ["default/b", "deleted"]
    assert (lines[5][1:3], lines[5][5:]) == (["a", "Gated"], ["PodGroup:", "1", "of", "2", "members", "exist"])
    watch.cancel()

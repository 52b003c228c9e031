"""apply, get, describe, pending, workflow-id and delete, on a real etcd."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests import forked
from tests.cli.shell import Shell
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.placement.contracts import placement_keys
from wharfinger.process.names import decisions_query
from wharfinger.process.records import InstanceRecord
from wharfinger.settings import EtcdSettings


def put(url: str, key: str, value: bytes) -> None:
    """Write as another client would."""

    async def write() -> None:
        store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
        try:
            await store.put(key, value)
        finally:
            await store.close()

    asyncio.run(write())


def stored(shell: Shell, name: str) -> dict[str, Any]:
    found: dict[str, Any] = shell("get", "pod", name, "-n", shell.namespace, "-o", "json").json
    return found


def test_apply_creates_then_leaves_then_changes(shell: Shell) -> None:
    file = shell.file([shell.pod("web"), shell.node()])
    node, pod = f"node/node-{shell.namespace}", f"pod/{shell.namespace}/web"

    assert shell("apply", "-f", file).out == f"{node} created\n{pod} created\n"
    first = stored(shell, "web")
    assert shell("apply", "-f", file).out == f"{node} unchanged\n{pod} unchanged\n"
    changed = shell("apply", "-f", shell.file([shell.pod("web", priority=5)]), "-o", "json")

    assert changed.json == [{"object": pod, "result": "configured"}]
    second = stored(shell, "web")
    assert second["spec"]["priority"] == 5
    assert len(first["metadata"]["uid"]) == 36
    for field in ("uid", "creationTimestamp"):
        assert second["metadata"][field] == first["metadata"][field]


def test_apply_keeps_what_the_cluster_wrote(shell: Shell, url: str) -> None:
    pod = shell.pod("web", nodeName="n9")
    pod["metadata"] |= {"uid": "u", "annotations": {"wharfinger.dev/attempt": "w@r"}}
    put(url, keys.pod(shell.namespace, "web"), json.dumps({**pod, "status": {"phase": "Running"}}).encode())
    again = shell.pod("web")
    again["metadata"]["labels"] = {"a": "b"}

    assert shell("apply", "-f", shell.file([again])).out.endswith("configured\n")

    after = stored(shell, "web")
    assert (after["spec"]["nodeName"], after["status"]) == ("n9", {"phase": "Running"})
    assert (after["metadata"]["uid"], after["metadata"]["labels"]) == ("u", {"a": "b"})
    assert after["metadata"]["annotations"] == {"wharfinger.dev/attempt": "w@r"}
    moved = shell("apply", "-f", shell.file([shell.pod("web", nodeName="n1")]))
    assert (moved.code, "bound to 'n9'" in moved.err) == (1, True)


def test_apply_refuses_what_is_wrong_and_goes_on(shell: Shell) -> None:
    big = shell.pod("big")
    big["spec"]["containers"][0]["args"] = ["x" * 1_600_000]
    bad = shell.pod("bad", containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "-1"}}}])
    unknown = {"apiVersion": "example.com/v1", "kind": "Unicorn", "metadata": {"name": "u"}}

    file = shell.file([bad, 7, unknown, big, shell.pod("good")])

    answer = shell("apply", "-f", file, "-f", shell.file("{", "b.json"))

    assert answer.code == 1
    assert answer.out == f"pod/{shell.namespace}/good created\n"
    errors = "\n".join(sorted(answer.err.splitlines()))
    for reason in (
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        "'Unicorn' is not known",
        "one of its documents is a number, not an object",
        f"pod/{shell.namespace}/big: ",
        "b.json: is no JSON",
    ):
        assert reason in errors
    assert errors.count("error: ") == 5


def test_apply_reads_folders_standard_input_and_what_get_prints(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.file([shell.pod("a")], "a.json")
    shell.file("not a manifest", "notes.txt")
    assert shell("apply", "-f", str(shell.folder)).out == f"pod/{shell.namespace}/a created\n"
    printed = shell("get", "pods", "-n", shell.namespace, "-o", "yaml").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))

    assert shell("apply", "-f", "-").out == f"pod/{shell.namespace}/a unchanged\n"


def test_get_shows_rows_or_the_objects_themselves(shell: Shell) -> None:
    shell(
        "apply",
        "-f",
        shell.file([shell.pod("a"), shell.pod("b", nodeName=shell.node()["metadata"]["name"]), shell.node()]),
    )

    table = shell("get", "pods", "-n", shell.namespace).out.splitlines()
    assert table[0].split() == ["NAMESPACE", "NAME", "STATUS", "NODE", "AGE", "REASON"]
    assert [line.split()[1:4] for line in table[1:]] == [
        ["a", "Pending", "<none>"],
        ["b", "Bound", f"node-{shell.namespace}"],
    ]
    row = shell("get", "nodes", f"node-{shell.namespace}").out.splitlines()[1]
    assert row.split()[1:5] == ["Ready", "1/10", "100m/4", "0/8Gi"]
    listed = yaml.safe_load(shell("get", "pods", "-n", shell.namespace, "-o", "yaml").out)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert shell("get", "pod", f"{shell.namespace}/a", "-o", "json").json["kind"] == "Pod"
    assert shell("get", "pod", "nobody", "-n", shell.namespace).code == 1


def test_get_invalid_lists_what_cannot_be_read_with_its_reason(shell: Shell, url: str) -> None:
    prefix = f"{keys.PODS}{shell.namespace}/"
    wrong = {"bytes": b"\xff", "list": b"[]", "other": json.dumps(shell.pod("name")).encode()}
    for name, value in wrong.items():
        put(url, prefix + name, value)
    shell("apply", "-f", shell.file([shell.pod("fine")]))

    found = shell("get", "pods", "--invalid", "-n", shell.namespace, "-o", "json").json

    assert found == [
        {"key": f"{prefix}bytes", "reason": "is no UTF-8 text (byte 0)"},
        {"key": f"{prefix}list", "reason": "is a list, not an object"},
        {"key": f"{prefix}other", "reason": "metadata.name is 'name', in its key 'other'"},
    ]
    alone = shell("get", "pod", "list", "-n", shell.namespace, "-o", "yaml")
    assert (alone.code, alone.out, alone.err) == (1, "", "error: pod list cannot be read: is a list, not an object\n")
    everywhere = shell("get", "pods", "--invalid", "-o", "json").json
    assert all(entry in everywhere for entry in found)
    for name in wrong:
        shell("delete", "pod", name, "-n", shell.namespace)
    assert shell("get", "pods", "--invalid", "-n", shell.namespace, "-o", "json").json == []


def test_get_watch_goes_on_with_every_change(shell: Shell, url: str) -> None:
    shell("apply", "-f", shell.file([shell.pod("a")]))
    command = [*forked.COMMAND, "get", "pods", "-w", "-n", shell.namespace]
    with subprocess.Popen(command, env=forked.variables(), stdout=subprocess.PIPE, text=True, bufsize=1) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().startswith("NAMESPACE")
        assert watch.stdout.readline().split()[1:3] == ["a", "Pending"]
        shell("apply", "-f", shell.file([shell.pod("b")]))
        assert watch.stdout.readline().split()[1:3] == ["b", "Pending"]
        shell("delete", "pod", "a", "-n", shell.namespace)
        assert watch.stdout.readline() == f"{shell.namespace}/a deleted\n"
        watch.send_signal(signal.SIGINT)

    assert watch.returncode == 130


def test_describe_shows_the_scheduling_state(shell: Shell, url: str) -> None:
    node = shell.node()["metadata"]["name"]
    shell("apply", "-f", shell.file([shell.node(), shell.pod("here", nodeName=node), shell.pod("waits")]))
    create_revision = int(stored(shell, "waits")["metadata"]["resourceVersion"])
    record = {
        "attempt": 3,
        "plugins": ["NodeResourcesFit"],
        "create_revision": create_revision,
        "victims": ["default/low"],
        "time": "2026-01-01T00:00:00Z",
    }
    put(url, keys.attempt(shell.namespace, "waits"), json.dumps(record).encode())

    pod = shell("describe", "pod", f"{shell.namespace}/waits").out
    assert "cpu: 100m" in pod
    assert "Last attempt:     3 (Unschedulable, 2026-01-01T00:00:00Z" in pod
    assert "Refused by:       NodeResourcesFit" in pod
    assert "Preempts:         default/low" in pod
    about_node = shell("describe", "node", node).out
    assert ["cpu", "100m", "4", "3900m"] in [line.split() for line in about_node.splitlines()]
    assert [shell.namespace, "here", "100m", "0"] in [line.split()[:4] for line in about_node.splitlines()]


def test_describe_and_get_show_that_a_victim_leaves(shell: Shell) -> None:
    message = "default-scheduler: preempting to accommodate a higher priority pod prod/high"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message}
    victim = {**shell.pod("victim", nodeName="n"), "status": {"conditions": [condition]}}
    shell("apply", "-f", shell.file([victim]))

    assert f"Disruption:       {message}" in shell("describe", "pod", f"{shell.namespace}/victim").out.splitlines()
    assert "PreemptionByScheduler" in shell("get", "pods", "-n", shell.namespace).out


def test_pending_groups_pods_by_reason(shell: Shell, url: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    for name in ("a", "b"):
        pod = {**shell.pod(name), "status": {"conditions": [condition]}}
        put(url, keys.pod(shell.namespace, name), json.dumps(pod).encode())
    gated = shell.pod("c", schedulingGates=[{"name": "quota"}])
    shell("apply", "-f", shell.file([gated, shell.pod("bound", nodeName="n")]))

    groups = shell("pending", "-n", shell.namespace, "-o", "json").json

    assert [(group["reason"], group["message"], group["count"]) for group in groups] == [
        ("Unschedulable", "0/1 nodes", 2),
        ("SchedulingGated", "held back by its scheduling gates: quota", 1),
    ]
    assert groups[0]["pods"] == [f"{shell.namespace}/a", f"{shell.namespace}/b"]
    assert shell("pending", "-n", shell.namespace).out.startswith("2 Unschedulable\n  0/1 nodes\n")


def test_pending_names_the_pod_for_which_victims_leave(shell: Shell, url: str) -> None:
    put(
        url,
        keys.pod(shell.namespace, "a"),
        json.dumps({**shell.pod("a"), "status": {"nominatedNodeName": "n"}}).encode(),
    )
    create_revision = int(stored(shell, "a")["metadata"]["resourceVersion"])
    record = {"attempt": 1, "create_revision": create_revision, "victims": ["default/low", "default/lower"]}
    put(url, keys.attempt(shell.namespace, "a"), json.dumps(record).encode())

    sentence = f"{shell.namespace}/a: preempts default/low, default/lower on n, its nominated node"
    assert shell("pending", "-n", shell.namespace, "-o", "json").json[0]["preemptions"] == [sentence]
    assert f"  {sentence}\n" in shell("pending", "-n", shell.namespace).out


def test_workflow_id_is_made_of_the_stored_uid_or_of_the_create_revision(shell: Shell, url: str) -> None:
    shell("apply", "-f", shell.file([shell.pod("web")]))
    put(url, keys.pod(shell.namespace, "raw"), json.dumps(shell.pod("raw")).encode())
    uid = stored(shell, "web")["metadata"]["uid"]
    revision = stored(shell, "raw")["metadata"]["resourceVersion"]

    assert shell("workflow-id", "pod", f"{shell.namespace}/web").out == f"wharfinger/pod/{shell.namespace}/web/{uid}\n"
    raw = shell("workflow-id", "pod", "raw", "-n", shell.namespace, "--cluster", "c").out
    assert raw == f"c/pod/{shell.namespace}/raw/rev-{revision}\n"
    assert shell("workflow-id", "gang", "team", "-n", "ml").out == "wharfinger/cohort/ml/team\n"
    missing = shell("workflow-id", "pod", f"{shell.namespace}/nobody")
    assert (missing.code, missing.err) == (1, f"error: there is no pod {shell.namespace}/nobody\n")


def test_workflow_id_prints_a_query_for_every_run_that_decided_a_pod(shell: Shell) -> None:
    member = shell.pod("w-0")
    member["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io/name": "train"}
    shell("apply", "-f", shell.file([member]))
    space = shell.namespace

    deleted = shell("workflow-id", "pod", f"{space}/gone", "--query", "--cluster", "c").out
    assert deleted == decisions_query("c", space, "gone") + "\n"
    known = shell("workflow-id", "pod", f"{space}/w-0", "--query").out
    assert known == decisions_query("wharfinger", space, "w-0", group="train") + "\n"
    gang = shell("workflow-id", "gang", f"{space}/train", "--query")
    assert (gang.code, gang.err) == (2, "error: --query is for pods; a gang has one workflow id\n")


def test_delete_goes_on_behind_an_object_that_cannot_be_marked(shell: Shell, url: str) -> None:
    """A hub could not remove a placement that nobody can read, so it is no deletion to mark it."""
    broken, node = f"broken-{shell.namespace}", shell.file([shell.node()])
    key = placement_keys.placement(f"cluster/{broken}")
    put(url, key, b"garbage")
    shell("apply", "-f", node)
    manifest = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement"}
    found = shell("delete", "-f", node, "-f", shell.file([manifest | {"metadata": {"name": broken}}], "crp.json"))
    asyncio.run(removed(url, key))

    assert (found.code, found.out) == (1, f"node/node-{shell.namespace} deleted\n")
    assert f"{broken} cannot be read, so it cannot be marked" in found.err


def test_delete_takes_names_or_manifests(shell: Shell) -> None:
    file = shell.file([shell.pod("a"), shell.pod("b"), shell.pod("c")])
    shell("apply", "-f", file)

    one = shell("delete", "pod", "a", "nobody", "-n", shell.namespace)
    assert (one.code, one.out) == (1, f"pod/{shell.namespace}/a deleted\n")
    assert one.err == f"error: pod/{shell.namespace}/nobody does not exist\n"
    rest = shell("delete", "-f", file, "-f", shell.file("{", "broken.json"), "--ignore-not-found")
    assert "broken.json: is no JSON" in rest.err
    assert (rest.code, sorted(rest.out.splitlines())) == (
        1,
        [f"pod/{shell.namespace}/b deleted", f"pod/{shell.namespace}/c deleted"],
    )


def test_held_gang_members_show_what_they_wait_for(shell: Shell) -> None:
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "team",
        "pod-group.scheduling.sigs.k8s.io/min-available": "3",
    }
    pods = [shell.pod("a"), shell.pod("b"), shell.pod("c", schedulingGroup={"podGroupName": "none"})]
    for pod in pods[:2]:
        pod["metadata"]["labels"] = labels
    shell("apply", "-f", shell.file(pods))

    told = shell("pending", "-n", shell.namespace).out
    assert "2 SchedulingGated" in told
    assert "  PodGroup: 2 of 3 members exist\n" in told
    assert f"PodGroup {shell.namespace}/none does not exist" in told
    assert "PodGroup: 2 of 3 members exist" in shell("describe", "pod", "a", "-n", shell.namespace).out

    metadata = {"name": "none", "namespace": shell.namespace}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata}
    shell("apply", "-f", shell.file([group]))
    assert "does not exist" not in shell("pending", "-n", shell.namespace).out
    assert "none" in shell("get", "podgroups", "-n", shell.namespace).out


def test_pending_counts_pods_that_cannot_be_read(shell: Shell, url: str) -> None:
    pod = shell.pod("misspelt", node_name="n") | {"metadata": {"namespace": shell.namespace, "name": "misspelt"}}
    put(url, keys.pod(shell.namespace, "misspelt"), json.dumps(pod).encode())

    answer = shell("pending", "-n", shell.namespace)

    note = "note: 1 pod cannot be read: see `wharfinger get pods --invalid`\n"
    assert (answer.code, answer.out, answer.err) == (
        0,
        "",
        f"no pod in namespace {shell.namespace} waits for a node\n{note}",
    )


def test_describe_names_a_scheduler_that_no_instance_serves(shell: Shell, url: str) -> None:
    shell("apply", "-f", shell.file([shell.pod("foreign", schedulerName="volcano")]))
    record = InstanceRecord(state="ready", host="h", pid=1, scheduler_names=("default-scheduler",))
    instance = keys.instance("common", "described", 1)
    put(url, instance, record.to_bytes())

    told = shell("describe", "pod", "foreign", "-n", shell.namespace).out
    asyncio.run(removed(url, instance))

    assert "Not served:       no live wharfinger instance serves volcano; another scheduler may" in told.splitlines()


async def removed(url: str, key: str) -> None:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
    try:
        await store.delete(key)
    finally:
        await store.close()

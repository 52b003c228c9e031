"""Placements and member clusters on the command line, on a real etcd; attempts are carried out by the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.conftest import EtcdServer
from tests.placement.objects import agent_record, in_region, pick, placement_object, status_record
from wharfinger.cli.output import Output
from wharfinger.errors import UsageError
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.placement.cli.watching import Listing, watch_list
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placements import CommitDecisionInput, DecideInput
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.reading.observe_placements import read_all, reference_of
from wharfinger.placement.state.hub_view import HubView
from wharfinger.settings import EtcdSettings
from wharfinger.testing.memory_store import MemoryStore

OWN = (placement_keys.HUB, placement_keys.member_cluster.prefix, placement_keys.PLACEMENT_OBJECTS)
TIME = "2026-01-01T00:00:00Z"

On = Callable[[Callable[[EtcdStore], Awaitable[None]]], None]


@pytest.fixture
def on(shell: Shell, etcd_server: EtcdServer) -> Iterator[On]:
    """Runs something on the store; nothing of placements is left behind."""

    def run(work: Callable[[EtcdStore], Awaitable[None]]) -> None:
        async def connected() -> None:
            store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
            try:
                await work(store)
            finally:
                await store.close()

        asyncio.run(connected())

    async def clean(store: EtcdStore) -> None:
        for prefix in OWN:
            for key in [kv.key async for page in store.list(prefix) for kv in page.items]:
                await store.delete(key)

    yield run
    run(clean)


async def go_online(store: EtcdStore) -> None:
    """The agents of all members come."""
    async for page in store.list(placement_keys.member_cluster.prefix):
        for kv in page.items:
            name = kv.key.rpartition("/")[2]
            await store.put(placement_keys.member(name), agent_record(kv.create_revision))
            usage = {"resourceUsage": {"allocatable": {"cpu": "8"}, "available": {"cpu": "3"}}}
            await store.put(placement_keys.member_status(name), status_record(kv.create_revision, **usage))


async def decide_all(store: EtcdStore) -> None:
    """An attempt of each placement."""
    view = await read_all(store)
    for reference in sorted(view.references):
        request = DecideInput(placement=reference, workflow_id=f"w/{reference}", run_id="r")
        decided = draft(view, request, clock=time.monotonic(), time=TIME, token=reference)
        if decided.action != "nothing":
            await commit(
                store,
                CommitDecisionInput(placement=reference, decided=decided, workflow_id="w", run_id="r"),
                TIME,
            )


@pytest.fixture
def clusters(shell: Shell, on: On) -> On:
    """Three members that are online, and two placements that are decided."""
    for name, region in (("a", "east"), ("b", "east"), ("c", "west")):
        assert shell("cluster", "join", name, "--label", f"region={region}").code == 0
    shell("apply", "-f", shell.file([placement_object(**pick(1, **in_region("east"))), placement_object("all")]))
    on(go_online)
    on(decide_all)
    return on


def cells(text: str, name: str) -> list[str]:
    """The row of a table that begins with a name."""
    (row,) = [line.split() for line in text.splitlines() if line.startswith(f"{name} ")]
    return row


def test_placements_are_listed_with_what_they_want_and_have(shell: Shell, clusters: On) -> None:
    listed = shell("placement", "list")
    assert cells(listed.out, "cluster/web") == ["cluster/web", "PickN", "1", "1", "0", "0", "fulfilled"]
    assert cells(listed.out, "cluster/all") == ["cluster/all", "PickAll", "all", "3", "0", "0", "fulfilled"]
    assert [row["chosen"] for row in shell("placement", "list", "-o", "json").json] == [3, 1]


def test_what_no_hub_has_decided_is_told(shell: Shell, on: On) -> None:
    shell("apply", "-f", shell.file([placement_object()]))
    assert "undecided" in shell("placement", "list").out
    refused = shell("placement", "status", "web")
    assert (refused.code, refused.err) == (
        1,
        "error: placement cluster/web is not decided yet: does a hub run? (`wharfinger hub`)\n",
    )
    assert shell("placement", "explain", "nothing").err == "error: there is no placement cluster/nothing\n"


def test_a_status_names_members_and_says_when_it_is_behind(shell: Shell, clusters: On) -> None:
    told = shell("placement", "status", "web", "-o", "json").json
    assert [(one["cluster"], one["online"], one["work"]) for one in told["members"]] == [("b", "yes", "none yet")]
    assert not told["behind"]
    shell("apply", "-f", shell.file([placement_object(**pick(2, **in_region("east")))]))
    assert "it was changed since" in shell("placement", "status", "web").out


def test_every_member_has_a_verdict_and_it_is_decided_again(shell: Shell, clusters: On) -> None:
    explained = shell("placement", "explain", "web")
    assert explained.code == 0
    assert cells(explained.out, "c")[:3] == ["c", "no", "ClusterAffinity"]
    assert cells(explained.out, "b")[1] == "yes"
    assert "decided again from revisions" in explained.out
    assert "the same" in explained.out
    told = shell("placement", "explain", "web", "--cluster", "c", "-o", "json").json
    assert [one["code"] for one in told["verdicts"]] == ["ClusterUnschedulable"]
    assert told["again"]["same"]


def test_a_cluster_that_no_decision_names_is_an_error(shell: Shell, clusters: On) -> None:
    refused = shell("placement", "explain", "web", "--cluster", "x")
    assert (refused.code, refused.err) == (1, "error: the decision of cluster/web does not name cluster 'x'\n")


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        (["--leave", "b"], {"cluster/web": (["a"], ["b"]), "cluster/all": ([], ["b"])}),
        (["--drain", "b"], {"cluster/web": (["a"], ["b"]), "cluster/all": ([], ["b"])}),
        (["--cordon", "b"], {}),
        (["--label", "c:region=east"], {}),
        (["--label", "b:region-"], {}),
        (["--taint", "c:k=v"], {}),
        (["--delete", "all"], {"cluster/all": ([], ["a", "b", "c"])}),
        ([], {}),
    ],
)
def test_a_plan_tells_what_would_be_chosen(shell: Shell, clusters: On, options: list[str], moves: Any) -> None:
    planned = shell("placement", "plan", *options, "-o", "json").json
    assert {one["placement"]: (one["added"], one["removed"]) for one in planned} == moves


def test_a_plan_reads_files_of_placements_and_new_members(shell: Shell, clusters: On) -> None:
    objects = [
        placement_object(generation=2, **pick(3, **in_region("east", "north"))),
        {
            "apiVersion": "cluster.kubernetes-fleet.io/v1",
            "kind": "MemberCluster",
            "metadata": {"name": "d", "labels": {"region": "north"}},
            "spec": {},
        },
    ]
    planned = shell("placement", "plan", "-f", shell.file(objects), "-o", "json").json
    assert {one["placement"]: one["added"] for one in planned} == {"cluster/all": ["d"], "cluster/web": ["a", "d"]}
    assert "d" not in shell("cluster", "list").out.split()


@pytest.mark.parametrize(
    "options", [["--label", "b"], ["--label", "b:=x"], ["--taint", "../b:k=v"], ["--delete", "a/b/c/d"]]
)
def test_what_cannot_be_supposed_is_one_line(shell: Shell, on: On, options: list[str]) -> None:
    refused = shell("placement", "plan", *options)
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1


def test_clusters_are_listed_with_their_state(shell: Shell, clusters: On) -> None:
    shell("cluster", "join", "d", "--taint", "edge=yes")
    shell("cluster", "cordon", "a", "--why", "new disks")
    listed = shell("cluster", "list").out
    assert cells(listed, "a") == ["a", "Ready,Cordoned", "1", "3/8", "new", "disks"]
    assert cells(listed, "b")[:3] == ["b", "Ready", "2"]
    assert cells(listed, "d")[:4] == ["d", "NotReady", "0", "edge=yes"]


def test_what_keeps_an_agent_from_joining_is_shown(shell: Shell, clusters: On) -> None:
    async def conflict(store: EtcdStore) -> None:
        kv = (await store.get(placement_keys.member_cluster("a"))).kv
        assert kv is not None
        told = {"type": "Joined", "status": "False", "message": "JoinConflict: it is another hub's"}
        agent = {"type": "MemberAgent", "conditions": [told]}
        await store.put(placement_keys.member_status("a"), status_record(kv.create_revision, agentStatus=[agent]))

    clusters(conflict)
    assert "member agent not joined yet: JoinConflict: it is another hub's" in shell("cluster", "list").out


def test_a_cluster_joins_again_with_more_labels_and_keeps_the_others(shell: Shell, on: On) -> None:
    assert shell("cluster", "join", "a", "--label", "x=1").out == "membercluster/a created\n"
    assert shell("cluster", "join", "a", "--label", "y=2", "--taint", "t=v").out == "membercluster/a configured\n"
    assert shell("cluster", "join", "a").out == "membercluster/a unchanged\n"
    (obj,) = shell("get", "memberclusters", "-o", "json").json["items"]
    assert obj["metadata"]["labels"] == {"x": "1", "y": "2"}
    assert obj["spec"]["taints"] == [{"key": "t", "value": "v", "effect": "NoSchedule"}]


def test_drained_members_are_exchanged_and_taken_back(shell: Shell, clusters: On) -> None:
    assert shell("cluster", "drain", "b").out == "membercluster/b drained\n"
    clusters(decide_all)
    assert [row["chosen"] for row in shell("placement", "list", "-o", "json").json] == [2, 1]
    assert shell("cluster", "uncordon", "b").out == "membercluster/b uncordoned\n"
    assert shell("cluster", "uncordon", "b").out == "membercluster/b was not cordoned\n"
    clusters(decide_all)
    assert [row["chosen"] for row in shell("placement", "list", "-o", "json").json] == [3, 1]


def test_an_absent_cluster_cannot_be_drained_or_leave(shell: Shell, on: On) -> None:
    assert shell("cluster", "drain", "x").err == "error: there is no member cluster 'x'\n"
    assert shell("cluster", "leave", "x").code == 1


def test_a_leaving_cluster_cannot_join(shell: Shell, clusters: On) -> None:
    assert shell("cluster", "leave", "a").out == "membercluster/a marked for deletion\n"
    refused = shell("cluster", "join", "a")
    assert (refused.code, refused.err) == (2, "error: member cluster a is leaving: join again when it is gone\n")


def test_a_deleted_placement_goes(shell: Shell, clusters: On) -> None:
    shell("delete", "crp", "web")
    clusters(decide_all)
    assert "deleting" in shell("placement", "list").out
    clusters(decide_all)
    assert "cluster/web" not in shell("placement", "list").out


@pytest.mark.parametrize(
    ("text", "namespace", "reference"),
    [
        ("web", "", "cluster/web"),
        ("web", "team", "ns/team/web"),
        ("cluster/web", "", "cluster/web"),
        ("ns/team/web.a", "", "ns/team/web.a"),
    ],
)
def test_placements_are_named_as_people_do(text: str, namespace: str, reference: str) -> None:
    assert reference_of(text, namespace) == reference


@pytest.mark.parametrize("text", ["", "..", "ns/web", "ns/../web", "cluster/", "a/b", "cluster/a/b", "x" * 300])
def test_what_names_no_placement_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        reference_of(text)


def test_objects_are_described_with_what_follows_from_them(shell: Shell, clusters: On) -> None:
    placed = shell("describe", "crp", "web").out
    assert cells(placed, "Chosen:")[1:] == ["b"]
    assert "numberOfClusters: 1" in placed
    shell("cluster", "drain", "b", "--why", "new disks")
    described = shell("describe", "membercluster", "b").out
    assert "Placements:   2: cluster/all, cluster/web" in described
    assert ": new disks" in described
    eviction = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacementEviction",
        "metadata": {"name": "e"},
        "spec": {"placementName": "web", "clusterName": "b"},
    }
    shell("apply", "-f", shell.file([eviction]))
    assert "it has not ended yet" in shell("describe", "crpe", "e").out
    clusters(decide_all)
    assert "Outcome:      blocked: Eviction is blocked" in shell("describe", "crpe", "e").out
    assert shell("describe", "rp", "team/web").err == "error: there is no resourceplacement team/web\n"


async def test_a_watched_list_goes_on_with_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    read = iter([[{"n": "a", "v": "1"}, {"n": "b", "v": "1"}], [{"n": "a", "v": "2"}]])
    ended = asyncio.Event()

    def rows(_: HubView) -> list[dict[str, str]]:
        try:
            return next(read)
        except StopIteration:
            ended.set()
            return [{"n": "a", "v": "2"}]

    listing = Listing(rows, "n", ("NAME", "V"), lambda one: (one["n"], one["v"]), "nothing")
    task = asyncio.create_task(watch_list(MemoryStore(), listing, Output.TABLE, apart=0.0, anyway=0.01))
    await ended.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert capsys.readouterr().out.splitlines() == ["NAME   V", "a      1", "b      1", "a      2", "b deleted"]


def test_a_real_etcd_is_followed_until_the_time_is_over(shell: Shell, clusters: On) -> None:
    told = shell("placement", "wait", "web", "--timeout", "0.2")
    assert (told.code, told.out) == (1, "")
    assert "is not settled after 0.2 s: b: waits for a snapshot" in told.err
    assert "has no snapshot 1; there are: none yet" in shell("placement", "rollback", "web", "--to", "1").err
    assert "waits for a snapshot" in shell("placement", "status", "web").out
    assert shell("placement", "diff", "web").code == 0
    evicted = shell("placement", "evict", "web", "--cluster", "b")
    name = evicted.out.split()[0].removeprefix("clusterresourceplacementeviction/")
    clusters(decide_all)
    assert "Outcome:      blocked: Eviction is blocked" in shell("describe", "crpe", name).out


def test_a_placement_is_deleted_by_its_own_command(shell: Shell, clusters: On) -> None:
    assert shell("placement", "delete", "web").out == "clusterresourceplacement/web marked for deletion\n"
    for _ in range(2):
        clusters(decide_all)
    assert shell("placement", "wait", "web", "--for", "gone", "--timeout", "10").code == 0

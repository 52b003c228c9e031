"""The tour of placements on three clusters: each step is settled within seconds, and objects are where rules say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.dev_tree import DevTree, end_all, processes_of, wait_until
from tests.integration.gateway import bound_pods
from tests.integration.printed_commands import Terminal, document
from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "placement-live"
WITHIN = 20
"""Seconds for each step."""
PODS = {"web-1", "web-2", "web-3", "web-4"}
MEMBERS = {"member-1", "member-2", "member-3"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    folder = tmp_path_factory.mktemp("tour")
    tree = DevTree(folder, workers=0, guarded=True)
    try:
        tree.start("--members", "3")
        yield tree
        assert tree.stop() == 0
    finally:
        tree.end()
        end_all(folder)


def holders(tree: DevTree) -> set[str]:
    """Members on which all pods of the shop are bound, and its Secret is."""
    secret = keys.stored("secrets", "web", "database")
    return {
        name
        for name, etcd in tree.members.items()
        if bound_pods(etcd, "web").keys() == PODS and etcd.get(secret) is not None
    }


def objects(tree: DevTree, name: str) -> set[str]:
    """Keys of the shop on a member."""
    return {key for key in tree.members[name].values("/registry/") if "/web" in key and "wharfinger.dev" not in key}


def chosen(tree: DevTree) -> set[str]:
    told = tree.cli("placement", "status", "web", "-o", "json", check=False).stdout
    return {one["cluster"] for one in json.loads(told)["members"]} if told else set()


def joined(tree: DevTree) -> dict[str, str]:
    """Members, and their states."""
    listed = json.loads(tree.cli("cluster", "list", "-o", "json").stdout)
    return {one["name"]: ",".join(one["state"]) for one in listed}


def shop(**policy: Any) -> str:
    """The example with another policy, on which the spread over regions is not asked for."""
    documents = list(yaml.safe_load_all((EXAMPLE / "web.yaml").read_text()))
    documents[-1]["spec"]["policy"] = policy
    return yaml.safe_dump_all(documents)


def settled(tree: DevTree, count: int) -> set[str]:
    """Wait until so many members have everything, and no others anything; answers them."""

    def is_so() -> bool:
        have = holders(tree)
        return len(have) == count and have == chosen(tree) and not any(objects(tree, n) for n in MEMBERS - have)

    wait_until(is_so, WITHIN, f"{count} members have the shop", every=0.3)
    return holders(tree)


def test_commands_of_the_page(tree: DevTree) -> None:
    """First, so that the members are as the page shows them."""
    Terminal(tree).runs(document("docs/placement-tour.md"))

    for name in MEMBERS:  # the member that left and came back keeps what was released there
        for key in objects(tree, name):
            tree.members[name].delete(key)


def test_the_tour(tree: DevTree) -> None:
    tree.cli("apply", "-f", str(EXAMPLE))
    before = settled(tree, 2)
    assert "member-3" in before  # the only one of its region

    tree.cli("apply", "-f", "-", stdin=shop(placementType="PickN", numberOfClusters=3))
    settled(tree, 3)
    tree.cli("apply", "-f", "-", stdin=shop(placementType="PickN", numberOfClusters=1))
    (one,) = settled(tree, 1)
    tree.cli("cluster", "drain", one)
    wait_until(lambda: one not in chosen(tree), WITHIN, "it is exchanged")
    (other,) = settled(tree, 1)
    assert other != one
    tree.cli("cluster", "uncordon", one)

    tree.cli("cluster", "leave", other)
    wait_until(lambda: len(chosen(tree)) == 1 and other not in chosen(tree), WITHIN, "a successor is chosen")
    wait_until(lambda: holders(tree) > {other}, WITHIN, "the successor has the shop", every=0.3)
    wait_until(
        lambda: tree.members[other].get(placement_keys.mark(keys.stored("secrets", "web", "database"))) is None,
        WITHIN,
        "the marks are gone",
    )
    assert other in holders(tree)  # what was there stays
    wait_until(lambda: other not in joined(tree), WITHIN, "it has left")
    tree.cli("cluster", "join", other)
    wait_until(lambda: joined(tree).get(other) == "Ready", WITHIN, "it is back")

    tree.cli("apply", "-f", "-", stdin=shop(placementType="PickN", numberOfClusters=3))
    settled(tree, 3)

    newer = shop(placementType="PickN", numberOfClusters=3).replace("example/web:1", "example/web:2")
    tree.cli("apply", "-f", "-", stdin=newer)

    def images() -> set[str]:
        found = [pod for etcd in tree.members.values() for pod in etcd.objects("/registry/pods/web/").values()]
        return {one["spec"]["containers"][0]["image"] for one in found}

    wait_until(lambda: images() == {"example/web:2"}, 60, "the new contents are there", every=0.5)
    settled(tree, 3)
    tree.etcd.put(placement_keys.pin("cluster/web"), PinRecord(snapshot=1).to_bytes())
    wait_until(lambda: images() == {"example/web:1"}, WITHIN, "they are taken back", every=0.3)
    settled(tree, 3)

    tree.cli("delete", "clusterresourceplacement", "web")
    wait_until(lambda: not any(objects(tree, name) for name in MEMBERS), WITHIN, "nothing is left", every=0.3)
    wait_until(lambda: "web" not in tree.cli("placement", "list").stdout, WITHIN, "the placement is gone")
    left = [key for key in tree.etcd.values("/wharfinger.dev/") if "cluster/web" in key]
    assert left == []


def test_no_secret_is_where_people_look(tree: DevTree) -> None:
    told = (tree.folder / "dev.log").read_text(errors="replace")
    for log in (tree.folder / "data" / "logs").glob("*.log"):
        told += log.read_text(errors="replace")
    for name in ("temporal.db", "temporal.db-wal"):
        told += (tree.folder / "data" / name).read_bytes().decode("latin-1")
    for pid in processes_of(tree.folder):
        told += Path(f"/proc/{pid}/environ").read_bytes().decode("latin-1")
    assert "correct-horse" not in told
    results = tree.etcd.values(placement_keys.result.prefix)
    assert not any(b"correct-horse" in value for value in results.values())

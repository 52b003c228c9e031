"""Volumes over all nodes at once, on one node, and by a plain reading of kube-scheduler's rules: always the same."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.clusters import clusters, pods
from tests.properties.shares import shared_out
from tests.volumes import (
    GIB,
    ONCE,
    PROFILE,
    bound_claim,
    claim,
    cluster,
    host,
    refusals,
    selector,
    storage,
    term,
    volume,
)
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import Operator, Requirement
from wharfinger.objects.model.storage import (
    ClaimReference,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from wharfinger.objects.model.storage_index import Storage
from wharfinger.objects.model.surroundings import Surroundings
from wharfinger.objects.model.volume_matching import plan_of
from wharfinger.objects.model.volumes import CsiVolume, DiskKind, ExclusiveDisk, InLineVolume, InTreeVolume, PodClaim
from wharfinger.testing import builders

PLUGIN, DRIVER = "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"
CLAIMS = [f"c{number}" for number in range(6)]
MODES = (ONCE, frozenset({"ReadOnlyMany"}), ONCE | {"ReadOnlyMany"}, frozenset({"ReadWriteOncePod"}))
ZONES = ("a", "b", None)
ZONE = "topology.kubernetes.io/zone"


class World:
    """A small cluster with volumes, by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = [self.node(f"n{number}") for number in range(self.rng.randrange(1, 6))]
        self.storage = storage(*self.objects())
        there = {node.name: self.there() for node in self.nodes}
        self.snapshot = cluster(*self.nodes, around=self.storage, **there)

    def node(self, name: str) -> Node:
        labels = {"kubernetes.io/hostname": name}
        for key in ("zone", ZONE, "failure-domain.beta.kubernetes.io/zone"):
            value = self.rng.choice(ZONES)
            if value is not None:
                labels[key] = value
        return builders.node(name, labels=labels)

    def objects(self) -> Iterator[StorageObject]:
        rng = self.rng
        topologies = rng.choice(((), ((Requirement("zone", Operator.IN, ("a",)),),), (((),))))
        yield StorageClass("narrow", "csi.example.com", waits=True, allowed_topologies=topologies)
        yield StorageClass("in-tree", PLUGIN, waits=True)
        yield CsiDriver("csi.example.com", storage_capacity=rng.random() < 0.5)
        for number in range(rng.randrange(3)):
            topology = rng.choice((None, selector("zone", "a"), selector("zone", "a", "b")))
            yield StorageCapacity("s", f"q{number}", self.of_class(), topology, rng.choice((None, GIB, 3 * GIB)))
        for number in range(rng.randrange(8, 19)):
            yield self.volume(f"v{number}")
        for name in CLAIMS[: rng.choice((4, 6, 6, 6))]:
            yield self.claim(name)
        for node in self.nodes:
            if rng.random() < 0.7:
                migrated = frozenset({PLUGIN}) if rng.random() < 0.5 else frozenset[str]()
                limits = ((DRIVER, rng.choice((None, 1, 2))), ("csi.example.com", rng.choice((1, 2, 4))))
                yield CsiNode(node.name, limits, migrated)
        for number in range(rng.randrange(3)):
            yield VolumeAttachment(f"va{number}", rng.choice(self.nodes).name, "csi.example.com", f"v{number}")

    def of_class(self) -> str:
        return self.rng.choice(("wait",) * 5 + ("local",) * 5 + ("narrow", "in-tree", "immediate", "gone", ""))

    def volume(self, name: str) -> PersistentVolume:
        rng = self.rng
        nodes = [node.name for node in self.nodes]
        terms = rng.choice(
            (
                None,
                term("kubernetes.io/hostname", rng.choice(nodes)),
                None,
                term("kubernetes.io/hostname", *nodes[:2], "gone"),
                term("zone", "a"),
                (*term("zone", "b"), *term("kubernetes.io/hostname", nodes[0])),
                (),
            )
        )
        kept = None
        if rng.random() < 0.25:
            key = claim(rng.choice(CLAIMS)).key
            kept = ClaimReference(key, rng.choice(("", f"uid-{key.name}", "other")))
        source = rng.choice(("csi", "in-tree", "none"))
        return volume(
            name,
            rng.randrange(1, 5),
            claim=kept,
            node_terms=terms,
            storage_class=self.of_class(),
            mode=rng.choice(("Filesystem", "Filesystem", "Filesystem", "Block")),
            phase=rng.choice(("Available",) * 5 + ("Released",)),
            access_modes=rng.choice((ONCE, *MODES)),
            deleting=rng.random() < 0.1,
            labels=rng.choice(({}, {ZONE: "a"}, {"failure-domain.beta.kubernetes.io/zone": "a__b"}, {"speed": "fast"})),
            csi=CsiVolume("csi.example.com", name) if source == "csi" else None,
            in_tree=InTreeVolume(PLUGIN, CsiVolume(DRIVER, name)) if source == "in-tree" else None,
            migrated_terms=term("topology.gke.io/zone", "a") if source == "in-tree" else None,
        )

    def claim(self, name: str) -> PersistentVolumeClaim:
        rng = self.rng
        fields = {
            "storage_class": self.of_class(),
            "access_modes": rng.choice((ONCE, ONCE, *MODES)),
            "request": rng.choice((None, GIB, 2 * GIB, 3 * GIB)),
            "selector": rng.choice((None, None, None, selector("speed", "fast"))),
        }
        match rng.randrange(6):
            case 0:
                return bound_claim(name, f"v{rng.randrange(5)}", **fields)
            case 1:
                return claim(name, selected_node=rng.choice(self.nodes).name, **fields)
            case _:
                return claim(name, **{**fields, "storage_class": rng.choice(("wait", "local", "narrow", "in-tree"))})

    def pod(self, name: str) -> Pod:
        rng = self.rng
        named = tuple(PodClaim(each) for each in rng.sample(CLAIMS, rng.choice((0, 1, 1, 2, 3))))
        disk = ExclusiveDisk(rng.choice(list(DiskKind)), (rng.choice("xy"),), rng.random() < 0.5, frozenset("m"))
        in_tree = InTreeVolume(PLUGIN, CsiVolume(DRIVER, rng.choice(("v0", "x"))))
        in_line = (InLineVolume(disk, rng.choice((None, in_tree))),) if rng.random() < 0.4 else ()
        return builders.pod(
            name, claims=named, in_line_volumes=in_line, namespace=rng.choice(("default",) * 4 + ("other",))
        )

    def there(self) -> list[Pod]:
        return [self.pod(f"there{self.rng.randrange(10**9)}") for _ in range(self.rng.randrange(4))]


@pytest.mark.parametrize("shard", shared_out(10, quick=2))
def test_all_nodes_at_once_and_one_node_say_the_same(shard: int) -> None:
    for seed in range(shard * 60, shard * 60 + 60):
        world = World(seed)
        for number in range(4):
            pod = world.pod(f"p{number}")
            refusals(pod, world.snapshot, [node.name for node in world.nodes])  # compares all ways to ask


@pytest.mark.parametrize("shard", shared_out(5, quick=1))
def test_volumes_are_chosen_as_a_plain_reading_has_it(shard: int) -> None:
    chosen = 0
    for seed in range(shard * 200, shard * 200 + 200):
        world = World(seed)
        pod = world.pod("p")
        for node in world.nodes:
            plan = plan_of(pod, node, world.storage)
            if plan is None:
                continue
            expected = plain_choice(pod, node, world.storage)
            assert {one.key: found.name for one, found in plan.static} == {
                key: found for key, found in expected.items() if found is not None
            }
            assert {one.key for one in plan.provision} == {key for key, found in expected.items() if found is None}
            chosen += len(plan.static)
    assert chosen > 15


def plain_choice(pod: Pod, node: Node, around: Storage) -> dict[object, str | None]:
    """The volume that each unbound claim gets, None = one is made; as the loops of kube-scheduler read."""
    unbound = [around.claims[claim(named.name).key] for named in pod.claims]
    unbound = [one for one in unbound if not one.bound]
    found: dict[object, str | None] = {one.key: None for one in unbound if one.selected_node is not None}
    taken: set[str] = set()
    for one in sorted((one for one in unbound if one.selected_node is None), key=lambda each: each.request or 0):
        name = plain_match(one, node, around, taken)
        found[one.key] = name
        taken.update({name} if name else ())
    return found


def plain_match(wanted: PersistentVolumeClaim, node: Node, around: Storage, taken: set[str]) -> str | None:
    smallest: PersistentVolume | None = None
    for one in sorted(around.volumes.values(), key=lambda each: each.name):
        kept = one.claim is not None and one.claim.key == wanted.key and one.claim.uid in ("", wanted.uid)
        if one.storage_class != wanted.storage_class or one.name in taken or (one.claim is not None and not kept):
            continue
        if one.capacity < (wanted.request or 0) or one.mode != wanted.mode or one.deleting:
            continue
        reached = one.node_terms is None or any(each.matches("", node.labels) for each in one.node_terms)
        if kept:
            return one.name if reached else None
        if one.phase != "Available" or (wanted.selector and not wanted.selector.matches(one.labels)):
            continue
        if reached and wanted.access_modes <= one.access_modes and (not smallest or smallest.capacity > one.capacity):
            smallest = one
    return smallest.name if smallest else None


VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
WITHOUT = load_profiles(
    {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": name} for name in VOLUME_PLUGINS]}}}]},
    catalog=catalog(),
)["default-scheduler"]


@given(clusters(), pods(), st.integers(0, 500))
@settings(max_examples=60)
def test_a_pod_without_volumes_is_decided_as_if_there_were_none(infos: list[NodeInfo], pod: Pod, seed: int) -> None:
    around = Surroundings(storage=World(seed).storage)

    found = PROFILE.evaluate(pod, Snapshot.of(infos, surroundings=around))

    assert found.decide() == WITHOUT.evaluate(pod, Snapshot.of(infos)).decide()


def test_many_local_volumes_are_each_found_on_their_node() -> None:
    nodes = [host(f"n{number}") for number in range(300)]
    disks = [volume(f"v{number}", on=f"n{number}", storage_class="local") for number in range(300) if number % 3]
    around = storage(claim("a", storage_class="local"), *disks)

    evaluation = PROFILE.evaluate(builders.pod(claims=(PodClaim("a"),)), cluster(*nodes, around=around))

    assert set(evaluation.feasible) == {f"n{number}" for number in range(300) if number % 3}

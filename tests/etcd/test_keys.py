"""Keys as every release has written them, made, taken apart and read by tables."""

from __future__ import annotations

import pytest

from wharfinger.etcd import keys
from wharfinger.etcd.table import Table
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.placement.contracts import placement_keys
from wharfinger.testing.memory_store import MemoryStore

P = "ns/team/web"
OURS = "/registry/wharfinger.dev/"
HUB = "/wharfinger.dev/hub/"
MADE = [
    (keys.pod, ("team", "web"), "/registry/pods/team/web"),
    (keys.node, ("n1",), "/registry/nodes/n1"),
    (keys.binding, ("n1",), f"{OURS}bindings/n1"),
    (keys.bound, ("team",), f"{OURS}bound/team"),
    (keys.terms, ("team",), f"{OURS}terms/team"),
    (keys.attempt, ("team", "web"), f"{OURS}attempts/team/web"),
    (keys.bound_by, ("team", "web"), f"{OURS}boundby/team/web"),
    (keys.volume, ("v",), f"{OURS}volumes/v"),
    (keys.promise, ("team", "web"), f"{OURS}promises/team/web"),
    (keys.hold, ("team", "web"), f"{OURS}holds/team/web"),
    (keys.instance, ("common", "3", "7"), f"{OURS}instances/common/3/7"),
    (keys.requeued, ("n1", "team", "web"), f"{OURS}requeued/n1/team/web"),
    (keys.tenant, ("blue",), f"{OURS}tenants/blue"),
    (keys.profile, ("abc",), f"{OURS}profiles/abc"),
    (keys.software, ("abc",), f"{OURS}software/abc"),
    (keys.fleet, ("common",), f"{OURS}schedulerfleets/common"),
    (keys.revision, ("common", "4"), f"{OURS}revisions/common/4"),
    (keys.outcome, ("common", "4"), f"{OURS}outcomes/common/4"),
    (keys.actor, ("common",), f"{OURS}actors/common"),
    (keys.fleet_status, ("common",), f"{OURS}fleetstatus/common"),
    (keys.slot, ("common", "4"), f"{OURS}slots/common/4"),
    (keys.grant, ("common", "3", "7"), f"{OURS}grants/common/3/7"),
    (keys.exited, ("common", "3", "7"), f"{OURS}exits/common/3/7"),
    (keys.host, ("h1",), f"{OURS}hosts/h1"),
    (keys.cordon, ("h1",), f"{OURS}cordons/h1"),
    (keys.lost_host, ("h1",), f"{OURS}losthosts/h1"),
    (keys.config, ("profile", "tenant/common"), f"{OURS}config/profile/tenant/common"),
    (keys.config_status, ("common", "3", "7"), f"{OURS}configstatus/common/3/7"),
    (
        keys.config_history,
        ("profile", "instance/common/3", "000000004"),
        "/wharfinger.dev/confighistory/profile/instance/common/3/000000004",
    ),
    (placement_keys.member_cluster, ("m1",), "/registry/cluster.kubernetes-fleet.io/memberclusters/m1"),
    (placement_keys.decision, (P,), f"{HUB}decisions/ns/team/web"),
    (placement_keys.policy, (P, "4"), f"{HUB}policies/ns/team/web/4"),
    (placement_keys.rollout, (P,), f"{HUB}rollouts/ns/team/web"),
    (placement_keys.work, (P, "m1"), f"{HUB}works/ns/team/web/m1"),
    (placement_keys.result, (P, "m1"), f"{HUB}results/ns/team/web/m1"),
    (placement_keys.losses, (P,), f"{HUB}losses/ns/team/web"),
    (placement_keys.snapshot, (P, "4"), f"{HUB}snapshots/ns/team/web/4"),
    (placement_keys.contents, (P, "abc"), "/wharfinger.dev/contents/ns/team/web/abc"),
    (placement_keys.pin, (P,), f"{HUB}pins/ns/team/web"),
    (placement_keys.run_record, (P, "r1", "12", "plan"), f"{HUB}runs/ns/team/web/r1/12/plan"),
    (
        placement_keys.run_record,
        (P, "r1", "12", "approvals/s.before"),
        f"{HUB}runs/ns/team/web/r1/12/approvals/s.before",
    ),
    (
        placement_keys.run_record,
        ("cluster/web", "r1", "12", "approvals/s.after"),
        f"{HUB}runs/cluster/web/r1/12/approvals/s.after",
    ),
    (placement_keys.member, ("m1",), f"{HUB}members/m1"),
    (placement_keys.member_status, ("m1",), f"{HUB}memberstatus/m1"),
    (placement_keys.evicted, ("e",), f"{HUB}evictions/e"),
    (placement_keys.drain, ("m1",), f"{HUB}drains/m1"),
    (placement_keys.hub, ("h",), f"{HUB}hubs/h"),
    (placement_keys.applied, (P,), "/wharfinger.dev/placed/applied/ns/team/web"),
]
"""Table, names, key."""


@pytest.mark.parametrize(("table", "names", "key"), MADE, ids=lambda value: value if isinstance(value, str) else "")
def test_table_makes_and_parses_the_keys_of_earlier_releases(table: Table, names: tuple[str, ...], key: str) -> None:
    assert table(*names) == key
    assert table.parse(key) == names
    assert table.parse(f"{key}/") is None
    assert table.parse(f"/registry{key}") is None


def test_keys_with_a_shape_of_their_own_are_those_of_earlier_releases() -> None:
    made = {
        keys.stored("pods", "team", "web"): "/registry/pods/team/web",
        keys.stored("nodes", "", "n1"): "/registry/nodes/n1",
        keys.stored_prefix("pods", "team"): "/registry/pods/team/",
        keys.claim("team", "web"): f"{OURS}volumes/team:web",
        keys.instance("common", "3", 7): f"{OURS}instances/common/3/7",
        keys.requeued.below("n1"): f"{OURS}requeued/n1/",
        keys.promise.below(""): f"{OURS}promises/",
        placement_keys.policy.below(P): f"{HUB}policies/ns/team/web/",
        placement_keys.run_approval(P, "r1", 12, "s.before"): f"{HUB}runs/ns/team/web/r1/12/approvals/s.before",
        placement_keys.placement(P): "/registry/placement.kubernetes-fleet.io/resourceplacements/team/web",
        placement_keys.placement("cluster/web"): (
            "/registry/placement.kubernetes-fleet.io/clusterresourceplacements/web"
        ),
        placement_keys.update_run("team", "r"): "/registry/placement.kubernetes-fleet.io/stagedupdateruns/team/r",
        placement_keys.update_strategy("", "s"): (
            "/registry/placement.kubernetes-fleet.io/clusterstagedupdatestrategies/s"
        ),
        placement_keys.mark("/registry/pods/team/web"): "/wharfinger.dev/placed/marks/pods/team/web",
    }
    assert list(made) == list(made.values())


def test_every_table_has_a_key_of_earlier_releases() -> None:
    """A new table needs a line above, which holds its keys for the releases to come."""
    tables = [one for module in (keys, placement_keys) for one in vars(module).values() if isinstance(one, Table)]
    assert {one.prefix for one in tables} == {table.prefix for table, _, _ in MADE}


@pytest.mark.parametrize("key", ["/registry/pods/web", "/registry/pods/team/web/x", "/registry/pods//web"])
def test_table_parses_no_key_of_another_shape(key: str) -> None:
    assert keys.pod.parse(key) is None


def test_table_refuses_too_few_and_too_many_names() -> None:
    for names in (("team",), ("team", "web", "x")):
        with pytest.raises(TypeError, match="arguments"):
            keys.pod(*names)


@pytest.mark.parametrize("rest", ["cluster/web", "ns/team/web/release/7", "cluster/web/release/7"])
def test_table_parses_no_key_of_an_incomplete_record(rest: str) -> None:
    assert placement_keys.run_record.parse(f"{placement_keys.run_record.prefix}{rest}") is None


async def test_table_reads_records_and_passes_over_what_is_none() -> None:
    store = MemoryStore()
    good = HostRecord(boot_id="b", pid=1)
    await store.put(keys.host("a"), good.to_bytes())
    await store.put(keys.host("b"), b"{")
    await store.put(f"{keys.HOSTS}c/d", good.to_bytes())
    found = [one async for one in keys.host.records(store, HostRecord.model_validate_json)]
    assert found == [(("a",), good)]
    assert await keys.host.read(store, HostRecord.model_validate_json, "a") == good
    assert await keys.host.read(store, HostRecord.model_validate_json, "z") is None

"""What an object becomes when it is applied, and which fields conflict."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.placement.applying.objects import Object, deployment, deployments, pods, service
from wharfinger.objects.documents.kinds import KINDS
from wharfinger.placement.applying.merge import FILE, conflicts, merge_keys, merged


def spec_of(last: Object | None, wanted: Object, live: Object) -> Any:
    """The spec of a Deployment that becomes of these specs."""
    before = None if last is None else deployment(last)
    return merged(before, deployment(wanted), deployment(live), "apps")["spec"]


def container_of(last: Object, wanted: Object, live: Object) -> Any:
    """The container that becomes of these containers of one name."""
    three = [pods({"name": "c", **one}) for one in (last, wanted, live)]
    return spec_of(*three)["template"]["spec"]["containers"][0]


def names(elements: list[Object]) -> list[str]:
    return [one["name"] for one in elements]


CUSTOM = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "foo"}}


@pytest.mark.parametrize("kind", [deployment(), CUSTOM], ids=["strategic merge", "JSON merge"])
@pytest.mark.parametrize(
    ("last", "wanted", "live", "expected"),
    [
        pytest.param(None, {"a": 1}, {"o": "x"}, {"a": 1, "o": "x"}, id="nil original"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 1}, {"a": 1}, id="nil patch"),
        pytest.param({"a": 1}, {"a": 1, "b": 1}, {"a": 1, "o": 2}, {"a": 1, "b": 1, "o": 2}, id="add field to map"),
        pytest.param({"a": 1}, {"a": 1, "b": 1}, {"a": "x"}, {"a": 1, "b": 1}, id="add field to map with conflict"),
        pytest.param({"a": 1}, {"b": 1}, {"a": 1, "o": 2}, {"b": 1, "o": 2}, id="add field and delete field from map"),
        pytest.param({"a": 1}, {"b": 1}, {"a": 9}, {"b": 1}, id="add field and delete field from map with conflict"),
        pytest.param(
            {"m": {"a": 1, "b": 1}},
            {"m": {"a": 1}},
            {"m": {"a": 1, "b": 1, "o": 2}},
            {"m": {"a": 1, "o": 2}},
            id="delete field from nested map",
        ),
        pytest.param({"a": 1, "b": 1}, {}, {"a": 1, "b": 1, "o": 2}, {"o": 2}, id="delete all fields from map"),
        pytest.param({"l": [1, 2]}, {"l": [2, 3]}, {"l": [1, 4]}, {"l": [2, 3]}, id="replace list with conflict"),
        pytest.param({"a": 1}, {"a": None}, {"a": 2}, {}, id="defined null values remove fields"),
        pytest.param({"m": {"a": 1}}, {}, {"m": {"a": 1, "o": 2}}, {}, id="delete map with a field of others"),
        pytest.param(None, {"m": {"a": None, "b": 1}}, {}, {"m": {"b": 1}}, id="nulls of a new map are dropped"),
        pytest.param(None, {"m": {"a": 1}}, {"m": "text"}, {"m": {"a": 1}}, id="map replaces a scalar"),
        pytest.param(None, {"m": "text"}, {"m": {"a": 1}}, {"m": "text"}, id="scalar replaces a map"),
        pytest.param({"m": "text"}, {"m": {"a": 1}}, {"m": {"o": 2}}, {"m": {"o": 2, "a": 1}}, id="map was a scalar"),
    ],
)
def test_mappings_merge_three_ways(
    kind: Object, last: Object | None, wanted: Object, live: Object, expected: Object
) -> None:
    before = None if last is None else {**kind, "spec": last}
    group = "apps" if kind["kind"] == "Deployment" else "example.com"
    assert merged(before, {**kind, "spec": wanted}, {**kind, "spec": live}, group)["spec"] == expected


@pytest.mark.parametrize(
    ("field", "key", "values"),
    [
        ("env", "name", ["A", "B", "C"]),
        ("ports", "containerPort", [80, 81, 82]),
        ("volumeMounts", "mountPath", ["/a", "/b", "/c"]),
    ],
)
def test_lists_of_a_container_merge_by_their_keys(field: str, key: str, values: list[Any]) -> None:
    dropped, kept, foreign = ({key: value} for value in values)
    live = {field: [{**dropped, "o": 1}, {**kept, "o": 2}, foreign]}
    found = container_of({field: [dropped, kept]}, {field: [{**kept, "x": 1}]}, live)
    assert found[field] == [{**kept, "o": 2, "x": 1}, foreign]


@pytest.mark.parametrize(
    ("last", "wanted", "live", "expected"),
    [
        pytest.param("", "ab", "ba", "ab", id="order of the wanted list"),
        pytest.param("", "ac", "abc", "abc", id="element of others stays in its place"),
        pytest.param("", "ca", "abc", "bca", id="element of others before the first it preceded"),
        pytest.param("", "ad", "ab", "adb", id="new element before the rest"),
        pytest.param("ab", "b", "abc", "bc", id="element that is no longer wanted goes"),
        pytest.param("ab", "", "ab", "", id="delete all maps from merging list"),
        pytest.param("", "", "", "", id="merge empty merging lists"),
    ],
)
def test_containers_keep_the_wanted_order(last: str, wanted: str, live: str, expected: str) -> None:
    three = [pods(*({"name": name} for name in one)) for one in (last, wanted, live)]
    assert names(spec_of(*three)["template"]["spec"]["containers"]) == list(expected)


def test_image_pull_secrets_merge_and_tolerations_are_replaced() -> None:
    wanted = pods(imagePullSecrets=[{"name": "a"}], tolerations=[{"key": "a"}])
    live = pods(imagePullSecrets=[{"name": "b"}], tolerations=[{"key": "b"}])
    found = spec_of(None, wanted, live)["template"]["spec"]
    assert names(found["imagePullSecrets"]) == ["a", "b"]
    assert found["tolerations"] == [{"key": "a"}]


def test_fields_that_retain_keys_drop_all_others() -> None:
    volume = {"name": "v", "emptyDir": {}}
    found = spec_of(
        None,
        {"strategy": {"type": "Recreate"}, **pods(volumes=[{"name": "v", "secret": {"secretName": "s"}}])},
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, **pods(volumes=[volume])},
    )
    assert found["strategy"] == {"type": "Recreate"}
    assert found["template"]["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_a_selector_of_a_disruption_budget_is_replaced() -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}}
    live = {**budget, "spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}}
    wanted = {**budget, "spec": {"selector": {"matchLabels": {"b": "1", "c": None}}}}
    assert merged(None, wanted, live, "policy")["spec"] == {"selector": {"matchLabels": {"b": "1"}}, "minAvailable": 1}


def test_finalizers_merge_as_a_set_and_owners_by_uid() -> None:
    last = deployment(finalizers=["a"], ownerReferences=[{"uid": "1"}])
    wanted = deployment(finalizers=["b"], ownerReferences=[{"uid": "2"}])
    live = deployment(finalizers=["c", "a"], ownerReferences=[{"uid": "1"}, {"uid": "3"}])
    found = merged(last, wanted, live, "apps")["metadata"]
    assert sorted(found["finalizers"]) == ["b", "c"]
    assert found["ownerReferences"] == [{"uid": "2"}, {"uid": "3"}]


def test_ports_of_one_number_are_matched_by_protocol() -> None:
    tcp, udp = {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}
    live = service({"ports": [{**udp, "nodePort": 1}, {**tcp, "nodePort": 2}, {"port": 80}]})
    both = merged(None, service({"ports": [tcp, udp]}), live, "")["spec"]["ports"]
    assert both == [{**tcp, "nodePort": 2}, {**udp, "nodePort": 1}, {"port": 80}]
    one = merged(service({"ports": [tcp, udp]}), service({"ports": [{"port": 53}]}), live, "")["spec"]["ports"]
    assert one == [{"port": 53, "nodePort": 2}, {"port": 80}]


@pytest.mark.parametrize("broken", [[{"image": "x"}], ["c"], [{"name": {}}], [None]])
def test_a_list_without_keys_is_replaced(broken: list[Any]) -> None:
    good = [{"name": "c"}]
    for wanted, live in ((good, broken), (broken, good)):
        assert spec_of(None, pods(*wanted), pods(*live))["template"]["spec"]["containers"] == wanted
    assert spec_of(pods(*broken), pods(*good), pods({"name": "d"}))["template"]["spec"]["containers"] == [
        {"name": "c"},
        {"name": "d"},
    ]


def test_lists_of_custom_resources_are_replaced() -> None:
    wanted = {**CUSTOM, "spec": {"containers": [{"name": "a"}]}}
    live = {**CUSTOM, "spec": {"containers": [{"name": "b"}]}}
    assert merged(None, wanted, live, "example.com") == wanted


OWN = {"uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": "4", "managedFields": [5]}
FOREIGN = {"uid": "9", "resourceVersion": "9", "generation": 9, "selfLink": "9", "deletionTimestamp": "9"}


@pytest.mark.parametrize("wanted", [deployment(status={"a": 1}, **FOREIGN), {"kind": "Deployment", "metadata": 5}])
def test_what_a_cluster_writes_is_never_touched(wanted: Object) -> None:
    live = deployment(status={"b": 2}, **OWN)
    found = merged(deployment(status={"b": 2}, **FOREIGN), wanted, live, "apps")
    assert found["metadata"] == live["metadata"]
    assert found["status"] == {"b": 2}
    assert conflicts(None, wanted, live, "apps") == ()


def test_arguments_are_not_changed_nor_shared() -> None:
    three = [deployment({"a": {"b": [1]}}), deployment({"c": {"b": [1]}}), deployment({"d": {"b": [1]}})]
    before = deepcopy(three)
    found = merged(three[0], three[1], three[2], "apps")
    found["spec"]["c"]["b"].append(2)
    found["spec"]["d"]["b"].append(2)
    assert three == before


def nested(levels: int) -> Object:
    found: Object = {}
    for _ in range(levels - 1):
        found = {"a": found}
    return found


@pytest.mark.parametrize("place", [0, 1, 2])
def test_objects_may_be_nested_a_hundred_levels_deep(place: int) -> None:
    three: list[Object] = [{}, {}, {}]
    three[place] = nested(100)
    merged(*three, "apps")
    conflicts(*three, "apps")
    three[place] = nested(10_000)
    for function in (merged, conflicts):
        with pytest.raises(ValueError, match="more than 100 levels deep"):
            function(*three, "apps")


@pytest.mark.parametrize(
    ("last", "wanted", "live", "expected"),
    [
        pytest.param({"a": 1}, {"a": 2}, {"a": 1}, (), id="as applied last"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, (), id="as wanted"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 3}, ("/spec/a",), id="changed by others"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 3}, ("/spec/a",), id="changed by others, same wanted"),
        pytest.param(None, {"a": 2}, {"a": 3}, ("/spec/a",), id="set by others"),
        pytest.param({"a": 1}, {"a": 2}, {}, (), id="missing"),
        pytest.param(None, {"a": 2}, {"a": None}, (), id="null"),
        pytest.param({"a": 1}, {}, {"a": 3}, (), id="not wanted"),
        pytest.param(None, {"a": True}, {"a": 1}, ("/spec/a",), id="true is not 1"),
        pytest.param(
            None, {"m": {"a/b": 1, "c~": 1}}, {"m": {"a/b": 2, "c~": 2}}, ("/spec/m/a~1b", "/spec/m/c~0"), id="map"
        ),
        pytest.param(None, {"m": {"a": 1}}, {"m": [1]}, ("/spec/m",), id="another type"),
        pytest.param(None, {"l": [1]}, {"l": [1, 2]}, ("/spec/l",), id="list"),
        pytest.param(
            pods({"name": "c", "image": "1"}, {"name": "d", "image": "1"}),
            pods({"name": "c", "image": "2"}, {"name": "d", "image": "2"}),
            pods({"name": "e"}, {"name": "d", "image": "3"}, {"name": "c", "image": "1"}),
            ("/spec/template/spec/containers/1/image",),
            id="containers",
        ),
        pytest.param(pods("c"), pods({"name": "c"}), pods("c"), (), id="list without keys, as applied last"),
    ],
)
def test_a_field_that_others_changed_conflicts(
    last: Object | None, wanted: Object, live: Object, expected: tuple[str, ...]
) -> None:
    before = None if last is None else deployment(last)
    assert conflicts(before, deployment(wanted), deployment(live), "apps") == expected


def test_sets_never_conflict() -> None:
    assert conflicts(None, deployment(finalizers=["a"]), deployment(finalizers=["b"]), "apps") == ()


def kept(wanted: Any, live: Any) -> bool:
    """Whether all that `live` has and `wanted` does not mention is in the merged object."""
    found = merged(wanted, wanted, live, "apps")
    return found["metadata"].get("uid") == live["metadata"].get("uid") and _kept(
        wanted["spec"], live["spec"], found["spec"]
    )


def _kept(wanted: Object, live: Object, found: Object) -> bool:
    return all(
        _kept(wanted[key], value, found[key])
        if isinstance(value, dict) and isinstance(wanted.get(key), dict)
        else key in wanted or found.get(key) == value
        for key, value in live.items()
        if key != "strategy"
    )


@settings(max_examples=40, deadline=None)
@given(deployments, deployments)
def test_an_object_applied_again_leaves_fields_of_others(wanted: Object, live: Object) -> None:
    assert kept(wanted, live)


@settings(max_examples=60, deadline=None)
@given(deployments, deployments, deployments)
def test_merging_again_changes_nothing(last: Object, wanted: Object, live: Object) -> None:
    once = merged(last, wanted, live, "apps")
    assert merged(last, wanted, once, "apps") == once
    assert merged(wanted, wanted, once, "apps") == once


@settings(max_examples=60, deadline=None)
@given(deployments, deployments, deployments)
def test_nothing_conflicts_after_a_merge(last: Object, wanted: Object, live: Object) -> None:
    once = merged(last, wanted, live, "apps")
    assert conflicts(None, wanted, once, "apps") == ()
    assert conflicts(live, wanted, live, "apps") == ()


def test_merge_keys_are_listed_for_every_kind_of_kubernetes() -> None:
    ours = ("wharfinger.dev", "cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io")
    expected = {f"{kind.group}/{kind.name}" for kind in KINDS if kind.group not in ours}
    assert set(merge_keys().kinds) == expected


def test_merge_keys_are_of_the_release_that_the_generator_pins() -> None:
    tools = Path(FILE).resolve().parents[4] / "tools"
    origin = merge_keys().origin
    assert f"{origin['module']} {origin['version']}\n" in (tools / "kubernetes-merge-keys" / "go.mod").read_text()
    sums = (tools / "kubernetes-merge-keys" / "go.sum").read_text()
    assert f"{origin['module']} {origin['version']} {origin['sum']}\n" in sums
    assert f"{origin['module']} {origin['version']}\n" in (tools / "kubernetes-fields" / "go.mod").read_text()

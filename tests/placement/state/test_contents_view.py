"""Stamps of what placements may select: they change with every change that may matter, and with no other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clock import Clock
from tests.placement.scene import P
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.placement.spec.placement_fields import stored_selectors
from wharfinger.placement.state.contents_view import ContentsView

RBAC = "rbac.authorization.k8s.io"
ROLES, SPACES, CONFIGS = f"{keys.ROOT}clusterroles/", f"{keys.ROOT}namespaces/", f"{keys.ROOT}configmaps/"
R = "ns/web/web"


def role(**more: Any) -> dict[str, Any]:
    return {"group": RBAC, "version": "v1", "kind": "ClusterRole", **more}


def space(**more: Any) -> dict[str, Any]:
    return {"group": "", "version": "v1", "kind": "Namespace", **more}


def config(**more: Any) -> dict[str, Any]:
    return {"group": "", "version": "v1", "kind": "ConfigMap", **more}


def value(revision: int, key: str, **labels: str) -> KeyValue:
    name = key.rpartition("/")[2]
    return KeyValue(key, json.dumps({"metadata": {"name": name, "labels": labels}}).encode(), 1, revision, 0)


class View:
    """A view in which all kinds are listed that are wanted."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.view = ContentsView(self.clock)

    def read(self, *selectors: dict[str, Any], reference: str = P) -> None:
        self.view.read(reference, stored_selectors({"resourceSelectors": list(selectors)}))
        for folder in self.view.wanted - self.view._seen.keys():
            self.view.listed(folder, [])

    def put(self, revision: int, key: str, **labels: str) -> set[str]:
        return self.view.changed(self._folder(key), Event(value(revision, key, **labels), False))

    def put_raw(self, revision: int, key: str, raw: bytes) -> set[str]:
        return self.view.changed(self._folder(key), Event(KeyValue(key, raw, 1, revision, 0), False))

    def delete(self, revision: int, key: str) -> set[str]:
        return self.view.changed(self._folder(key), Event(KeyValue(key, b"", 0, revision, 0), True))

    def _folder(self, key: str) -> str:
        return next(folder for folder in self.view.wanted if key.startswith(folder))

    def stamp(self, reference: str = P) -> str:
        found = self.view.stamp(reference)
        assert found is not None
        return found


@pytest.fixture
def view() -> View:
    return View()


def test_named_objects_change_the_stamp_and_others_do_not(view: View) -> None:
    view.read(role(name="role"))
    stamps = [view.stamp()]
    assert view.put(5, f"{ROLES}role") == {P}
    stamps.append(view.stamp())
    assert view.put(6, f"{ROLES}other") == set()
    assert view.stamp() == stamps[-1]
    assert view.put(7, f"{ROLES}role", a="b") == {P}
    stamps.append(view.stamp())
    assert view.delete(8, f"{ROLES}role") == {P}
    assert len(set(stamps)) == 3
    assert view.stamp() == stamps[0]


def test_labels_decide_whose_stamp_changes(view: View) -> None:
    view.read(role(labelSelector={"matchLabels": {"app": "web"}}))
    before = view.stamp()
    assert view.put(5, f"{ROLES}a", app="db") == set()
    assert view.stamp() == before
    assert view.put(6, f"{ROLES}a", app="web") == {P}
    caught = view.stamp()
    assert view.put(7, f"{ROLES}a", app="db") == {P}
    assert before == view.stamp() != caught


def test_an_object_that_cannot_be_read_may_be_selected(view: View) -> None:
    view.read(role(labelSelector={"matchLabels": {"app": "web"}}))
    before = view.stamp()
    assert view.put_raw(5, f"{ROLES}a", b"{") == {P}
    assert view.stamp() != before


def test_a_namespace_brings_what_is_in_it(view: View) -> None:
    view.read(space(name="web"))
    before = view.stamp()
    assert view.put(5, f"{CONFIGS}web/c") == {P}
    inside = view.stamp()
    assert inside != before
    assert view.put(6, f"{CONFIGS}other/c") == set()
    assert view.stamp() == inside
    assert view.put(7, f"{SPACES}web") == {P}
    assert view.stamp() != inside


def test_namespaces_by_labels_may_bring_anything(view: View) -> None:
    view.read(space(labelSelector={"matchLabels": {"team": "a"}}))
    before = view.stamp()
    assert view.put(5, f"{CONFIGS}any/c") == {P}
    assert view.stamp() != before


def test_a_namespace_alone_brings_nothing(view: View) -> None:
    view.read(space(name="web", selectionScope="NamespaceOnly"))
    assert CONFIGS not in view.view.wanted
    assert view.put(5, f"{SPACES}web") == {P}


def test_a_resource_placement_selects_in_its_namespace(view: View) -> None:
    view.read(config(name="c"), config(labelSelector={"matchLabels": {"a": "b"}}), reference=R)
    before = view.stamp(R)
    assert view.put(5, f"{CONFIGS}other/c", a="b") == set()
    assert view.put(6, f"{CONFIGS}web/d") == set()
    assert view.stamp(R) == before
    assert view.put(7, f"{CONFIGS}web/c") == {R}
    assert view.put(8, f"{CONFIGS}web/d", a="b") == {R}


def test_edited_selectors_are_another_stamp(view: View) -> None:
    view.read(role(name="role"))
    before = view.stamp()
    view.read(role(name="role"), role(name="other"))
    assert view.stamp() != before
    assert view.put(5, f"{ROLES}other") == {P}
    view.read(role(name="role"))
    assert view.stamp() == before
    assert view.put(6, f"{ROLES}other") == set()


def test_a_folder_that_was_not_listed_has_no_stamp() -> None:
    view = ContentsView(Clock())
    assert view.stamp(P) is None
    view.read(P, stored_selectors({"resourceSelectors": [role(name="role"), space(name="web")]}))
    for folder in sorted(view.wanted):
        assert view.stamp(P) is None
        assert view.listed(folder, []) == {P}
    assert view.stamp(P) is not None
    view.forget(ROLES)
    assert view.stamp(P) is None
    assert view.listed(ROLES, [value(9, f"{ROLES}role")]) == {P}
    assert view.stamp(P) is not None


def test_a_new_list_concerns_what_changed_meanwhile(view: View) -> None:
    view.read(role(name="role"))
    view.read(role(name="other"), reference="cluster/other")
    view.put(5, f"{ROLES}role")
    view.put(6, f"{ROLES}other")
    same = [value(5, f"{ROLES}role"), value(6, f"{ROLES}other")]
    assert view.view.listed(ROLES, same) == set()
    assert view.view.listed(ROLES, [value(9, f"{ROLES}role"), same[1]]) == {P}
    assert view.view.listed(ROLES, [value(9, f"{ROLES}role")]) == {"cluster/other"}


def test_a_placement_that_is_gone_needs_no_kind(view: View) -> None:
    view.read(role(name="role"))
    view.read()
    assert view.view.wanted == frozenset()
    assert view.view.stamp(P) is None


def test_the_first_change_since_it_was_looked_at_counts(view: View) -> None:
    view.read(role(name="role"))
    view.put(5, f"{ROLES}role")
    first = view.clock()
    view.clock.advance(9)
    view.put(6, f"{ROLES}role")
    assert view.view.since(P) == first
    view.view.looked_at(P)
    view.clock.advance(9)
    view.put(7, f"{ROLES}role")
    assert view.view.since(P) == view.clock()


def test_the_stamp_does_not_depend_on_the_order_of_changes() -> None:
    found = set()
    for order in ((5, 6, 7), (7, 6, 5), (6, 5, 7)):
        view = View()
        view.read(role())
        for number in order:
            view.put(number, f"{ROLES}r{number}")
        found.add(view.stamp())
    assert len(found) == 1


def test_nothing_is_kept_of_placements_that_are_gone() -> None:
    view = ContentsView(Clock())
    for selectors in ([role(name="r"), space(name="s")], [role(name="r")], []):
        view.read(P, stored_selectors({"resourceSelectors": selectors}))
    assert (view._by_key, view._by_prefix, view._readers) == ({}, {}, {})

"""After any sequence of events the cache's snapshot is the one that its facts and assumptions give from nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.properties.clusters import nodes, pods
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.objects.model.surroundings import DisruptionBudget, Namespace, PodCollection, Surrounding, Surroundings
from wharfinger.scheduling.state.cache.cache import Cache

NODES = st.sampled_from(["n0", "n1", "n2", "n3"])
NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])
EXPIRY = 30.0
SELECTORS = st.sampled_from([LabelSelector(), LabelSelector((Requirement("app", Operator.EXISTS),))])
SPACES = st.sampled_from(["default", "team"])
SURROUNDINGS = (
    st.builds(Namespace, SPACES, st.dictionaries(st.just("tier"), st.sampled_from(["gold", "tin"])))
    | st.builds(PodCollection, st.sampled_from(["Service", "ReplicaSet"]), SPACES, st.sampled_from("ab"), SELECTORS)
    | st.builds(DisruptionBudget, SPACES, st.sampled_from("ab"), SELECTORS, st.integers(0, 2))
)
Identity = tuple[type[Surrounding], str, str, str]


def identity_of(thing: Surrounding) -> Identity:
    namespace = "" if isinstance(thing, Namespace) else thing.namespace
    return type(thing), namespace, thing.name, getattr(thing, "kind", "")


def same(snapshot: Snapshot, expected: Snapshot) -> None:
    """Same rows, same columns, whatever was shared or patched to make them."""
    assert snapshot.names == expected.names
    assert snapshot.index == expected.index
    resources = {*snapshot.node_columns.allocatable, *expected.node_columns.allocatable}
    resources |= {*snapshot.pod_columns.requested, *expected.pod_columns.requested}
    for resource in resources:
        assert snapshot.allocatable(resource).tolist() == expected.allocatable(resource).tolist(), resource
        assert snapshot.requested(resource).tolist() == expected.requested(resource).tolist(), resource
        assert snapshot.requested_for_scoring(resource).tolist() == expected.requested_for_scoring(resource).tolist()
    for key in ("zone", "disk"):
        assert decoded(snapshot.label(key)) == decoded(expected.label(key))
    assert decoded(snapshot.taints) == decoded(expected.taints)
    assert decoded(snapshot.host_ports) == decoded(expected.host_ports)
    assert snapshot.unschedulable.tolist() == expected.unschedulable.tolist()
    assert snapshot.any_unschedulable == expected.any_unschedulable
    assert [dict(info.pods) for info in snapshot.rows] == [dict(info.pods) for info in expected.rows]
    assert [info.node for info in snapshot.rows] == [info.node for info in expected.rows]
    assert dict(snapshot.nominated) == dict(expected.nominated)
    assert snapshot.surroundings == expected.surroundings


def decoded(column) -> list[object]:  # type: ignore[no-untyped-def]
    assert column.plain == (not column.codes.any())
    return [column.values[code] for code in column.codes.tolist()]


class CacheEqualsRebuilt(RuleBasedStateMachine):
    """Events as the informer and the activities make them, against the plainest book-keeping there is."""

    @initialize(every_step=st.booleans(), data=st.data())
    def start(self, every_step: bool, data: st.DataObject) -> None:
        """`every_step`: a snapshot is taken after each event; else only now and then, so that events pile up."""
        self.every_step = every_step
        self.now = 0.0
        self.cache = Cache(clock=lambda: self.now, assume_expiry=EXPIRY)
        self.revision = 0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[PodKey, Pod] = {}
        self.assumed: dict[PodIdentity, tuple[Pod, str, float, bool]] = {}
        self.surroundings: dict[Identity, Surrounding] = {}
        for name in ("n0", "n1"):
            self.put_node(name, data)
        for name in ("p0", "p1"):
            self.put_pod(name, "", "", data)

    def advance(self) -> int:
        self.revision += 1
        self.cache.progress.advance(self.revision)
        return self.revision

    @rule(name=NODES, data=st.data())
    def node_is_put(self, name: str, data: st.DataObject) -> None:
        self.put_node(name, data)

    def put_node(self, name: str, data: st.DataObject) -> None:
        self.nodes[name] = data.draw(nodes(name))
        self.cache.set_node(self.nodes[name])
        self.advance()

    @rule(name=NODES)
    def heart_beat(self, name: str) -> None:
        if name in self.nodes:
            self.nodes[name] = replace(self.nodes[name], mod_revision=self.revision, conditions={"Ready": "True"})
            self.cache.set_node(self.nodes[name])
            self.advance()

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.remove_node(name)
        self.advance()

    @rule(name=NAMES, node=st.just("") | NODES, phase=st.sampled_from(["", "", "Succeeded"]), data=st.data())
    def pod_is_put(self, name: str, node: str, phase: str, data: st.DataObject) -> None:
        self.put_pod(name, node, phase, data)

    def put_pod(self, name: str, node: str, phase: str, data: st.DataObject) -> None:
        key = PodKey("default", name)
        known = self.pods.get(key)
        revision = self.advance()
        again = known is not None and data.draw(st.booleans())
        created = known.create_revision if known is not None and again else revision
        if known is not None and again and known.node_name:
            node = known.node_name
        if known is not None and not again:
            self.assumed.pop(known.identity, None)
        nominated = data.draw(st.just("") | NODES)
        pod = replace(
            data.draw(pods(name)), node_name=node, phase=phase, create_revision=created, nominated_node_name=nominated
        )
        self.pods[key] = pod
        if pod.bound or pod.finished:
            self.assumed.pop(pod.identity, None)
        self.cache.set_pod(pod, b"raw")

    @rule(thing=SURROUNDINGS)
    def surrounding_is_put(self, thing: Surrounding) -> None:
        self.surroundings[identity_of(thing)] = thing
        self.cache.set_surrounding(thing)
        self.advance()

    @rule(thing=SURROUNDINGS)
    def remove_surrounding(self, thing: Surrounding) -> None:
        what, namespace, name, kind = identity_of(thing)
        self.surroundings.pop((what, namespace, name, kind), None)
        self.cache.remove_surrounding(what, namespace, name, kind)
        self.advance()

    @rule(name=NAMES)
    def remove_pod(self, name: str) -> None:
        known = self.pods.pop(PodKey("default", name), None)
        if known is not None:
            self.assumed.pop(known.identity, None)
        self.cache.remove_pod(PodKey("default", name))
        self.advance()

    @rule(name=NAMES, node=NODES)
    def assume(self, name: str, node: str) -> None:
        known = self.pods.get(PodKey("default", name))
        if known is None:
            return
        self.cache.assume(known, node)
        if not known.bound and not known.finished:
            self.assumed[known.identity] = (known, node, self.now, False)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), what=st.sampled_from(["send", "forget", "forget_unsent", "settle"]))
    def treat(self, data: st.DataObject, what: str) -> None:
        identity = data.draw(st.sampled_from(sorted(self.assumed)))
        pod, node, since, sent = self.assumed[identity]
        if what == "send":
            self.cache.mark_sent(identity)
            self.assumed[identity] = (pod, node, since, True)
        elif what == "forget":
            self.cache.forget(identity)
            del self.assumed[identity]
        elif what == "forget_unsent":
            self.cache.forget_unsent(identity)
            if not sent:
                del self.assumed[identity]
        else:
            self.cache.settle(identity, self.revision)
            del self.assumed[identity]

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        expired = {assumption.identity for assumption in self.cache.expire()}
        due = {
            identity for identity, (_, _, since, sent) in self.assumed.items() if not sent and since < self.now - EXPIRY
        }
        assert expired == due
        for identity in due:
            del self.assumed[identity]

    def rebuilt(self, *, without: frozenset[PodIdentity] = frozenset()) -> Snapshot:
        on: dict[str, list[Pod]] = {name: [] for name in self.nodes}
        for pod in self.pods.values():
            if pod.bound and not pod.finished:
                on.setdefault(pod.node_name, []).append(pod)
        for identity, (pod, node, _, _) in self.assumed.items():
            if identity not in without:
                on.setdefault(node, []).append(pod)
        return Snapshot.of(
            (NodeInfo.of(node, on[name]) for name, node in self.nodes.items()),
            self.revision,
            surroundings=reduce(Surroundings.with_object, self.surroundings.values(), Surroundings()),
            nominated=self.nominated(),
        )

    def nominated(self) -> dict[str, tuple[Pod, ...]]:
        """By node: who waits for room there; an assumed pod waits no more, even where a snapshot leaves it out."""
        waiting = [pod for pod in self.pods.values() if pod.pending and pod.identity not in self.assumed]
        there = {pod.nominated_node_name for pod in waiting} - {""}
        return {
            node: tuple(
                sorted(
                    (pod for pod in waiting if pod.nominated_node_name == node),
                    key=lambda pod: (-pod.priority, pod.key),
                )
            )
            for node in there
        }

    @rule()
    def a_snapshot_is_taken(self) -> None:
        self.a_snapshot_equals_one_made_from_nothing()

    def a_snapshot_equals_one_made_from_nothing(self) -> None:
        snapshot = self.cache.snapshot()
        assert snapshot.revision == self.revision
        same(snapshot, self.rebuilt())
        same(self.cache.snapshot(without_assumed=True), self.rebuilt(without=frozenset(self.assumed)))
        for identity in self.assumed:
            same(self.cache.snapshot(excluding=identity), self.rebuilt(without=frozenset({identity})))
        same(self.cache.snapshot(), self.rebuilt())

    @rule(name=NODES)
    def one_node_alone_is_the_same_as_in_the_whole(self, name: str) -> None:
        same(self.cache.snapshot(only=name), self.rebuilt().only(name))

    @invariant()
    def the_assumptions_are_those_expected(self) -> None:
        found = {each.identity: (each.node, each.sent) for each in self.cache.assumed()}
        assert found == {identity: (node, sent) for identity, (_, node, _, sent) in self.assumed.items()}
        if self.every_step:
            self.a_snapshot_equals_one_made_from_nothing()


CacheEqualsRebuilt.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestCacheEqualsRebuilt = CacheEqualsRebuilt.TestCase

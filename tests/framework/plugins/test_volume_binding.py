"""Where a pod's claims have their volumes, or can have some: refusals, choices and plans."""

from __future__ import annotations

from typing import Any

import pytest

from tests.volumes import (
    GIB,
    LOCAL,
    ONCE,
    PROFILE,
    bound_claim,
    bound_volume,
    claim,
    cluster,
    host,
    reference,
    refusal,
    selector,
    storage,
    term,
    user,
    volume,
)
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.plugins.arguments import VolumeBindingArgs
from wharfinger.framework.plugins.volume_binding import VolumeBinding
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, Requirement
from wharfinger.objects.model.storage import (
    ClaimKey,
    ClaimReference,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    StorageObject,
)
from wharfinger.objects.model.volume_matching import VolumePlan, plan_of
from wharfinger.objects.model.volumes import InTreeVolume, PodClaim

NAME = "VolumeBinding"
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
HOSTS = (host("n1", zone="a"), host("n2", zone="b"))


def refused(pod: Pod, *things: StorageObject, node: str = "n1") -> tuple[str, ...]:
    """The reasons of VolumeBinding on a node of two; empty = it has none."""
    found = refusal(pod, cluster(*HOSTS, around=storage(*things)), node)
    assert found is None or found[0] == NAME
    return () if found is None else found[1]


def plan(pod: Pod, *things: StorageObject, node: str = "n1") -> VolumePlan | None:
    return plan_of(pod, next(one for one in HOSTS if one.name == node), storage(*things))


def chosen(pod: Pod, *things: StorageObject, node: str = "n1") -> dict[str, str]:
    """The volume that each claim gets on a node; `?` = one is to be made."""
    found = plan(pod, *things, node=node)
    assert found is not None
    return {claim.name: volume.name for claim, volume in found.static} | {each.name: "?" for each in found.provision}


def local(name: str = "data", **fields: Any) -> PersistentVolumeClaim:
    """A claim of a class whose volumes are all made beforehand."""
    return claim(name, storage_class="local", **fields)


def disk(name: str, size: int = 1, *, on: str = "", **fields: Any) -> PersistentVolume:
    """A free volume of that class."""
    return volume(name, size, on=on, **{"storage_class": "local", **fields})


class TestBeforeAnyNode:
    def ask(self, pod: Pod, *things: StorageObject) -> Status:
        plugin = VolumeBinding(VolumeBindingArgs())
        return plugin.pre_filter(CycleState(), pod, cluster(around=storage(*things))).status

    @pytest.mark.parametrize(
        ("things", "reason"),
        [
            ((), 'persistentvolumeclaim "data" not found'),
            (
                (claim(phase="Lost", volume_name="v"),),
                'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
            ),
            ((bound_claim("data", "v", deleting=True),), 'persistentvolumeclaim "data" is being deleted'),
            ((claim(storage_class="immediate"),), "pod has unbound immediate PersistentVolumeClaims"),
            ((claim(storage_class=""),), "pod has unbound immediate PersistentVolumeClaims"),
            ((claim(storage_class="gone"),), "pod has unbound immediate PersistentVolumeClaims"),
            ((claim(volume_name="v"),), "pod has unbound immediate PersistentVolumeClaims"),
        ],
        ids=["missing", "lost", "deleted", "immediate", "no class", "class is gone", "prebound"],
    )
    def test_a_claim_that_cannot_be_had_refuses_the_pod(self, things: tuple[StorageObject, ...], reason: str) -> None:
        status = self.ask(user("p1", "data"), *things)

        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))

    def test_one_of_several_is_enough(self) -> None:
        things = (claim("ready"), claim("late", storage_class="immediate"))

        assert self.ask(user("p1", "ready", "late"), *things).rejected
        assert self.ask(user("p1", "ready"), *things).ok

    @pytest.mark.parametrize(
        ("things", "reason"),
        [
            ((), 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p1-tmp"'),
            ((claim("p1-tmp"),), "PVC default/p1-tmp was not created for pod default/p1 (pod is not owner)"),
            (
                (claim("p1-tmp", owner=("p1", "another")),),
                "PVC default/p1-tmp was not created for pod default/p1 (pod is not owner)",
            ),
            ((claim("p1-tmp", owner=("p1", "uid-p1")),), None),
        ],
        ids=["missing", "not owned", "another life", "owned"],
    )
    def test_an_ephemeral_claim_has_to_be_the_pods_own(
        self, things: tuple[StorageObject, ...], reason: str | None
    ) -> None:
        status = self.ask(user("p1", PodClaim("p1-tmp", ephemeral=True)), *things)

        assert status.reasons == ((reason,) if reason else ())

    def test_without_uids_the_name_of_the_owner_must_do(self) -> None:
        mine = claim("p1-tmp", owner=("p1", ""))

        assert self.ask(user("p1", PodClaim("p1-tmp", ephemeral=True), uid="rev-7", create_revision=7), mine).ok
        assert self.ask(user("p1", PodClaim("p1-tmp", ephemeral=True), uid="u-7", create_revision=7), mine).rejected

    def test_a_pod_without_claims_is_skipped(self) -> None:
        assert self.ask(user("p1")).code is Code.SKIP


class TestBoundClaims:
    def test_a_volume_is_used_where_it_can_be_reached(self) -> None:
        things = (bound_volume("v", on="n1"), bound_claim("data", "v"))

        assert refused(user("p1", "data"), *things) == ()
        assert refused(user("p1", "data"), *things, node="n2") == (CONFLICT,)
        assert plan(user("p1", "data"), *things) == VolumePlan("n1")
        assert plan(user("p1", "data"), *things, node="n2") is None

    def test_a_volume_without_affinity_is_used_anywhere(self) -> None:
        assert refused(user("p1", "data"), bound_volume("v"), bound_claim("data", "v")) == ()

    def test_an_affinity_without_terms_reaches_no_node(self) -> None:
        things = (bound_volume("v", node_terms=()), bound_claim("data", "v"))

        assert refused(user("p1", "data"), *things) == (CONFLICT,)

    def test_terms_are_alternatives(self) -> None:
        either = (*term("zone", "a"), NodeSelectorTerm((Requirement("gpu", Operator.EXISTS),)))
        things = (bound_volume("v", node_terms=either), bound_claim("data", "v"))

        assert refused(user("p1", "data"), *things) == ()
        assert refused(user("p1", "data"), *things, node="n2") == (CONFLICT,)

    def test_every_volume_has_to_be_reached(self) -> None:
        things = (
            bound_volume("v", on="n1"),
            bound_claim("data", "v"),
            bound_volume("w", "more", on="n2"),
            bound_claim("more", "w"),
        )

        assert refused(user("p1", "data", "more"), *things) == (CONFLICT,)
        assert refused(user("p1", "data", "more"), *things, node="n2") == (CONFLICT,)

    def test_a_volume_that_is_gone_has_words_of_its_own(self) -> None:
        plugin, subject = VolumeBinding(VolumeBindingArgs()), user("p1", "data")
        snapshot, state = cluster(*HOSTS, around=storage(bound_claim("data", "gone"))), CycleState()
        assert plugin.pre_filter(state, subject, snapshot).status.ok

        verdicts = plugin.filter(state, subject, snapshot)

        assert verdicts is not None
        assert verdicts.at(0).reasons == plugin.filter_node(state, subject, snapshot.rows[0]).reasons == (GONE,)

    def test_in_the_old_way_a_migrated_nodes_labels_count(self) -> None:
        source = InTreeVolume("kubernetes.io/gce-pd")
        old, new = term("zone", "a"), term("topology.gke.io/zone", "a")
        things = (
            bound_volume("v", in_tree=source, node_terms=old, migrated_terms=new),
            bound_claim("data", "v"),
        )
        migrated = CsiNode("n1", (), frozenset({source.plugin}))

        assert refused(user("p1", "data"), *things) == ()
        assert refused(user("p1", "data"), *things, migrated) == (CONFLICT,)
        assert refused(user("p1", "data"), *things, CsiNode("n1", (), frozenset({"kubernetes.io/cinder"}))) == ()


class TestChoosingAVolume:
    def test_a_free_volume_on_the_node_is_chosen(self) -> None:
        things = (local(), disk("here", on="n1"), disk("there", on="n2"))

        assert chosen(user("p1", "data"), *things) == {"data": "here"}
        assert chosen(user("p1", "data"), *things, node="n2") == {"data": "there"}
        assert refused(user("p1", "data"), *things) == ()

    def test_without_one_the_node_is_refused(self) -> None:
        things = (local(), disk("there", on="n2"))

        assert refused(user("p1", "data"), *things) == (NOTHING,)
        assert refused(user("p1", "data"), *things, node="n2") == ()

    def test_the_smallest_that_is_large_enough_is_chosen(self) -> None:
        sizes = (disk("huge", 9), disk("tiny", 1), disk("right", 3), disk("larger", 4))

        assert chosen(user("p1", "data"), local(request=2 * GIB), *sizes) == {"data": "right"}
        assert refused(user("p1", "data"), local(request=10 * GIB), *sizes) == (NOTHING,)

    def test_of_equal_ones_the_name_decides(self) -> None:
        assert chosen(user("p1", "data"), local(), disk("b"), disk("a"), disk("c")) == {"data": "a"}

    @pytest.mark.parametrize(
        "fields",
        [
            {"storage_class": "other"},
            {"mode": "Block"},
            {"attributes_class": "gold"},
            {"phase": "Released"},
            {"phase": "Pending"},
            {"deleting": True},
            {"access_modes": frozenset({"ReadOnlyMany"})},
            {"claim": reference("other")},
            {"claim": ClaimReference(ClaimKey("default", "data"), "uid-of-another-life")},
            {"node_terms": ()},
        ],
        ids=str,
    )
    def test_what_does_not_suit_is_not_chosen(self, fields: dict[str, Any]) -> None:
        assert refused(user("p1", "data"), local(), disk("v", **fields)) == (NOTHING,)
        assert refused(user("p1", "data"), local(), disk("v", **fields), disk("w")) == ()

    def test_labels_have_to_match_the_claims_selector(self) -> None:
        wanted = local(selector=selector("speed", "fast"))

        assert refused(user("p1", "data"), wanted, disk("v", labels={"speed": "slow"})) == (NOTHING,)
        assert refused(user("p1", "data"), wanted, disk("v", labels={"speed": "fast"})) == ()

    def test_all_access_modes_have_to_be_there(self) -> None:
        both = ONCE | {"ReadOnlyMany"}

        assert refused(user("p1", "data"), local(access_modes=both), disk("v")) == (NOTHING,)
        assert refused(user("p1", "data"), local(), disk("v", access_modes=both)) == ()

    def test_a_claim_that_asks_for_no_size_gets_any(self) -> None:
        assert chosen(user("p1", "data"), local(request=None), disk("v")) == {"data": "v"}

    def test_several_claims_get_different_volumes(self) -> None:
        things = (local("one"), local("two"), disk("a", 1, on="n1"), disk("b", 2, on="n1"), disk("c", on="n2"))

        assert chosen(user("p1", "one", "two"), *things) == {"one": "a", "two": "b"}
        assert refused(user("p1", "one", "two"), *things) == ()
        assert refused(user("p1", "one", "two"), *things, node="n2") == (NOTHING,)

    def test_small_claims_choose_first(self) -> None:
        things = (local("large", request=5 * GIB), local("small"), disk("a", 5), disk("b", 9))

        assert chosen(user("p1", "large", "small"), *things) == {"small": "a", "large": "b"}

    def test_two_volumes_named_once_are_one_claim(self) -> None:
        assert chosen(user("p1", "data"), local(), disk("a"), disk("b")) == {"data": "a"}


class TestAVolumeThatIsKept:
    """`spec.claimRef` names the claim, which is not bound yet."""

    def test_it_goes_before_smaller_ones(self) -> None:
        kept = disk("kept", 9, claim=reference("data"))

        assert chosen(user("p1", "data"), local(), disk("small"), kept) == {"data": "kept"}

    def test_a_reference_without_uid_is_enough(self) -> None:
        kept = disk("kept", 9, claim=ClaimReference(ClaimKey("default", "data")))

        assert chosen(user("p1", "data"), local(), disk("small"), kept) == {"data": "kept"}

    def test_where_it_cannot_be_reached_no_other_is_taken(self) -> None:
        things = (local(), disk("small"), disk("kept", claim=reference("data"), on="n2"))

        assert refused(user("p1", "data"), *things) == (NOTHING,)
        assert refused(user("p1", "data"), *things, node="n2") == ()

    def test_phase_labels_and_access_modes_do_not_matter(self) -> None:
        wanted = local(selector=selector("speed", "fast"))
        kept = disk("kept", claim=reference("data"), phase="Pending", access_modes=frozenset())

        assert chosen(user("p1", "data"), wanted, kept) == {"data": "kept"}

    @pytest.mark.parametrize("fields", [{"capacity": 1}, {"mode": "Block"}, {"deleting": True}], ids=str)
    def test_one_that_does_not_suit_is_passed_over(self, fields: dict[str, Any]) -> None:
        kept = disk("kept", **{"claim": reference("data"), **fields})

        assert chosen(user("p1", "data"), local(), disk("small"), kept) == {"data": "small"}

    def test_one_of_another_class_is_passed_over(self) -> None:
        kept = volume("kept", claim=reference("data"))

        assert chosen(user("p1", "data"), local(), disk("small"), kept) == {"data": "small"}


class TestMakingAVolume:
    def test_a_claim_without_a_volume_gets_one_made(self) -> None:
        assert chosen(user("p1", "data"), claim()) == {"data": "?"}
        assert refused(user("p1", "data"), claim()) == ()

    def test_a_free_volume_goes_before_a_new_one(self) -> None:
        things = (claim(), volume("v", on="n1"))

        assert chosen(user("p1", "data"), *things) == {"data": "v"}
        assert chosen(user("p1", "data"), *things, node="n2") == {"data": "?"}

    def test_one_claim_may_get_a_volume_and_another_a_new_one(self) -> None:
        things = (claim("one"), claim("two"), volume("v", on="n1"))

        assert chosen(user("p1", "one", "two"), *things) == {"one": "v", "two": "?"}

    @pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
    def test_a_class_that_makes_none_refuses_the_node(self, provisioner: str) -> None:
        bare = StorageClass("bare", provisioner, waits=True)

        assert refused(user("p1", "data"), claim(storage_class="bare"), bare) == (NOTHING,)

    @pytest.mark.parametrize(
        ("topologies", "fits"),
        [
            ((), True),
            (((Requirement("zone", Operator.IN, ("a", "c")),),), True),
            (((Requirement("zone", Operator.IN, ("b",)),),), False),
            (((Requirement("zone", Operator.IN, ("b",)),), (Requirement("zone", Operator.IN, ("a",)),)), True),
            (((Requirement("zone", Operator.IN, ("a",)), Requirement("disk", Operator.IN, ("x",))),), False),
            (((),), False),
        ],
        ids=str,
    )
    def test_it_is_made_where_the_class_allows(self, topologies: Any, fits: bool) -> None:
        only = StorageClass("only", "csi.example.com", waits=True, allowed_topologies=topologies)

        assert refused(user("p1", "data"), claim(storage_class="only"), only) == (() if fits else (NOTHING,))

    def test_a_claim_with_a_selected_node_is_made_there_alone(self) -> None:
        """Although a volume is free elsewhere: it was decided before."""
        things = (claim(selected_node="n1"), volume("v", on="n2"))

        assert chosen(user("p1", "data"), *things) == {"data": "?"}
        assert refused(user("p1", "data"), *things, node="n2") == (NOTHING,)

    @pytest.mark.parametrize("selected", ["", "gone"])
    def test_a_node_that_is_not_there_refuses_all(self, selected: str) -> None:
        assert refused(user("p1", "data"), claim(selected_node=selected)) == (NOTHING,)

    def test_both_kinds_of_reasons_are_told(self) -> None:
        things = (bound_volume("v", "more", on="n2"), bound_claim("more", "v"), local())

        assert refused(user("p1", "data", "more"), *things) == (CONFLICT, NOTHING)

    def test_a_bound_claim_and_one_to_be_made(self) -> None:
        things = (bound_volume("v", "more", on="n1"), bound_claim("more", "v"), claim())

        assert chosen(user("p1", "data", "more"), *things) == {"data": "?"}
        assert refused(user("p1", "data", "more"), *things, node="n2") == (CONFLICT,)


class TestRoom:
    """CSIStorageCapacity, where the driver publishes it."""

    DRIVER = CsiDriver("csi.example.com", storage_capacity=True)
    EVERYWHERE = selector("zone", "a", "b")

    def capacity(self, limit: int | None, **fields: Any) -> StorageCapacity:
        return StorageCapacity(
            "kube-system", "c", **{"storage_class": "wait", "topology": self.EVERYWHERE, "limit": limit, **fields}
        )

    @pytest.mark.parametrize(
        ("capacity", "fits"),
        [
            ({"limit": GIB}, True),
            ({"limit": GIB - 1}, True),  # a fraction of a byte is rounded up
            ({"limit": GIB - 1000}, False),
            ({"limit": 0}, False),
            ({"limit": None}, False),
            ({"limit": GIB, "topology": None}, False),
            ({"limit": GIB, "topology": selector("zone", "b")}, False),
            ({"limit": GIB, "topology": selector("zone", "a")}, True),
            ({"limit": GIB, "storage_class": "other"}, False),
        ],
        ids=str,
    )
    def test_a_volume_is_made_where_there_is_room(self, capacity: dict[str, Any], fits: bool) -> None:
        things = (claim(), self.DRIVER, self.capacity(**capacity))

        assert refused(user("p1", "data"), *things) == (() if fits else (NO_SPACE,))

    def test_any_of_several_is_enough(self) -> None:
        small = StorageCapacity("kube-system", "d", "wait", self.EVERYWHERE, 5)

        assert refused(user("p1", "data"), claim(), self.DRIVER, small, self.capacity(GIB)) == ()

    @pytest.mark.parametrize("driver", [None, CsiDriver("csi.example.com"), CsiDriver("other", storage_capacity=True)])
    def test_drivers_that_publish_nothing_always_have_room(self, driver: CsiDriver | None) -> None:
        assert refused(user("p1", "data"), claim(), *([driver] if driver else [])) == ()

    def test_a_claim_that_asks_for_no_size_needs_none(self) -> None:
        assert refused(user("p1", "data"), claim(request=None), self.DRIVER) == ()

    def test_a_volume_that_is_there_needs_none(self) -> None:
        assert refused(user("p1", "data"), claim(), volume("v"), self.DRIVER) == ()

    def test_the_first_claim_that_fails_decides(self) -> None:
        things = (claim("a"), local("b", request=2 * GIB), LOCAL, self.DRIVER)

        assert refused(user("p1", "a", "b"), *things) == (NO_SPACE,)
        assert refused(user("p1", "a", "b"), *things, self.capacity(GIB)) == (NOTHING,)


class TestDecisions:
    def test_a_pod_goes_where_its_volume_is(self) -> None:
        around = storage(bound_volume("v", on="n2"), bound_claim("data", "v"))

        evaluation = PROFILE.evaluate(user("p1", "data"), cluster(*HOSTS, around=around))

        assert evaluation.node == "n2"

    def test_refusals_are_counted_by_reason(self) -> None:
        things = (bound_volume("v", "more", on="n2"), bound_claim("more", "v"), local())

        evaluation = PROFILE.evaluate(user("p1", "data", "more"), cluster(*HOSTS, around=storage(*things)))

        assert evaluation.message.startswith(
            "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
            "2 node(s) didn't find available persistent volumes to bind."
        )
        assert evaluation.rejectors == (NAME,)
        assert "2 Preemption is not helpful for scheduling" in evaluation.message

    def test_a_refusal_before_any_node_is_told_once(self) -> None:
        evaluation = PROFILE.evaluate(
            user("p1", "data"), cluster(*HOSTS, around=storage(claim(storage_class="immediate")))
        )

        assert evaluation.message.startswith(
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        )

    def test_the_next_pod_finds_the_volume_taken(self) -> None:
        around = storage(local("one"), local("two"), disk("v", on="n1"), disk("w", on="n2"))
        before = cluster(*HOSTS, around=around)

        after = before.place(user("p1", "one"), "n1")

        assert PROFILE.evaluate(user("p2", "two"), before).feasible == ("n1", "n2")
        assert PROFILE.evaluate(user("p2", "two"), after).feasible == ("n2",)

    def test_a_claim_that_is_being_made_ties_later_pods_to_its_node(self) -> None:
        after = cluster(*HOSTS, around=storage(claim())).place(user("p1", "data"), "n2")

        assert PROFILE.evaluate(user("p2", "data"), after).feasible == ("n2",)


class TestReserving:
    """What the decision carries, for explanations."""

    def carried(self, pod: Pod, *things: StorageObject) -> Any:
        evaluation = PROFILE.evaluate(pod, cluster(HOSTS[0], around=storage(*things)))
        assert PROFILE.reserve(evaluation.state, pod, "n1").ok
        return evaluation.state.carried(NAME)

    def test_nothing_where_all_is_bound(self) -> None:
        assert self.carried(user("p1", "data"), bound_volume("v"), bound_claim("data", "v")) is None
        assert self.carried(user("p1")) is None

    def test_what_becomes_of_claims_without_a_volume(self) -> None:
        found = self.carried(user("p1", "data", "more"), local(), disk("v"), claim("more"))

        assert found == ["claim default/data gets volume v", "claim default/more gets a volume made for node n1"]

    def test_many_claims_fit_into_what_may_be_carried(self) -> None:
        names = [f"{'c' * 240}{number}" for number in range(20)]

        found = self.carried(user("p1", *names), *(claim(name) for name in names))

        assert found[-1] == "and 17 more"

    def test_a_node_that_cannot_have_the_volumes_is_refused(self) -> None:
        state, subject = CycleState(), user("p1", "data")
        state.snapshot = cluster(*HOSTS, around=storage(bound_volume("v", on="n2"), bound_claim("data", "v")))

        status = PROFILE.reserve(state, subject, "n1")

        assert (status.plugin, status.reasons) == (
            NAME,
            ("the volumes that were found for node n1 are not there any more",),
        )

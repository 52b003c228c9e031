"""Gangs on a real Kubernetes API: bound by several POSTs, between which a member goes, or the API server.

Row 15 of the table of interleavings. After the dry runs a gang is completed, whatever comes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import creating, deleting, names
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import Installation, KubernetesSite
from wharfinger.apiserver import client
from wharfinger.etcd import keys

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

LABEL = "pod-group.scheduling.sigs.k8s.io/"
MEMBERS = 8
SLOW = 4.0
"""Requests a second of a worker: the binds of a gang take two seconds."""
TRIES = 5


POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
POD_GROUPS = client.ApiResource("scheduling.x-k8s.io", "v1alpha1", "podgroups", namespaced=True)
DEFINITIONS = client.ApiResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
DEFINITION: dict[str, Any] = {
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
    },
    "spec": {
        "group": POD_GROUPS.group,
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": POD_GROUPS.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""The PodGroup of the scheduler-plugins, without its schema."""


def labels_of(gang: str) -> dict[str, str]:
    return {LABEL + "name": gang, LABEL + "min-available": str(MEMBERS)}


def begin_gang(site: KubernetesSite, history: PodHistory) -> str:
    """A gang of which some members are bound in the API and some are not; tried with a few."""
    for number in range(TRIES):
        kind = f"gang{number}"
        site.create_pods(names(kind, MEMBERS), labels=labels_of(kind))
        before = number * MEMBERS
        wait_until(lambda before=before: history.bound > before, 40, "the API binds the first", every=0.02)
        if len(site.unbound()) >= 3:
            return kind
        wait_until(lambda: all_bound(site, history), 60, "the gang is bound")
    raise AssertionError("each gang was bound before it was looked at")


def test_gang_is_completed_when_a_member_goes_between_its_binds(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    installation.start_workers(2, qps=SLOW)
    kind = begin_gang(site, history)
    gone = sorted(site.unbound())[-1]

    site.delete_pods([gone])
    wait_until(lambda: all_bound(site, history), 60, "the others are bound all the same")
    wait_until(lambda: installation.open_workflows() == [], 30, "their attempt has ended")
    site.create_pods([gone], labels=labels_of(kind))

    until_settled(site, [installation], history, room)
    runs = {history.now[name].attempt for name in names(kind, MEMBERS) if name != gone}
    assert len(runs) == 1, "one run has bound all that stayed"


def test_gang_is_completed_when_the_api_server_was_away(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """Away for as long as its Lease is renewed in vain: ten seconds, then the holder's process ends."""
    installation.start_workers(2, qps=SLOW)
    kind = begin_gang(site, history)
    holder = installation.until_importer()
    promised = {name: one["node"] for name, one in installation.promises().items()}

    site.api.kill()
    assert holder.wait_exit(20) == 1
    site.api.start()

    until_settled(site, [installation], history, room)
    assert {name: history.now[name].node for name in promised} == promised
    assert len({history.now[name].attempt for name in names(kind, MEMBERS)}) == 1


def test_gang_of_the_scheduler_plugins_waits_for_its_pod_group(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """The API begins to serve PodGroups after the worker has started."""
    installation.start_workers(1)
    installation.until_importer()
    site.create_pods(names("g", MEMBERS), labels={POD_GROUP_LABEL: "g"})
    site.create_pods(["other"])
    wait_until(lambda: history.bound == 1, 20, "the pod without a gang is bound")

    site.send([creating(DEFINITIONS, DEFINITION)])
    wait_until(lambda: site.api.request("GET", POD_GROUPS.path()).code == 200, 30, "PodGroups are served")
    group = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "g"}}
    site.send([creating(POD_GROUPS, {**group, "spec": {"minMember": MEMBERS, "scheduleTimeoutSeconds": 10}})])

    until_settled(site, [installation], history, room)
    assert len({history.now[name].attempt for name in names("g", MEMBERS)}) == 1, "one run has bound all"
    site.send([deleting(DEFINITIONS, DEFINITION["metadata"]["name"], "")])
    wait_until(lambda: installation.gateway.objects(keys.POD_GROUPS) == {}, 20, "its copy goes")
    site.create_pods(["last"])
    wait_until(lambda: all_bound(site, history), 20, "pods are still placed")

"""Gangs on a real Kubernetes API: bound by several POSTs, between which a member goes, or the API server.

Row 15 of the table of interleavings. After the dry runs a gang is completed, whatever comes.
"""

from __future__ import annotations

import pytest

from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import Installation, KubernetesSite

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

LABEL = "pod-group.scheduling.sigs.k8s.io/"
MEMBERS = 8
SLOW = 4.0
"""Requests a second of a worker: the binds of a gang take two seconds."""
TRIES = 5


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

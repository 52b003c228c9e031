"""The Kubernetes API server is killed, and stands still, while a real installation binds.

Rows 3 and 13 of the table of interleavings: a server that dies with binds unanswered; a holder of the Lease that
cannot reach the API.
"""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.integration.dev_tree import wait_until
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import ALL, LEASE, Installation, KubernetesSite

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

LEASE_DURATION = 15.0
"""Seconds, as usual."""
RATE = 100.0
"""Binds a second."""


def test_binds_are_as_promised_when_the_api_server_is_killed(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """Killed twice in 180 binds, with answers on the way: every promise is kept, on its node."""
    installation.start_workers(2, qps=RATE)
    site.create_pods(names("web", ALL))
    promised: dict[str, str] = {}

    for share in (0.1, 0.4):
        wait_until(lambda least=share * ALL: _goes_on(installation, history, least), 60, "binds go on", every=0.02)
        site.api.kill()
        promised |= {name: one["node"] for name, one in installation.promises().items()}
        site.api.start()

    assert promised
    until_settled(site, [installation], history, room)
    assert {name: history.now[name].node for name in promised} == promised


def _goes_on(installation: Installation, history: PodHistory, least: float) -> bool:
    """Whether so many are bound; where the server starts slowly, the holder of the Lease has ended meanwhile."""
    installation.revive()
    return history.bound >= least


def test_right_to_bind_ends_before_the_lease_when_the_api_is_away(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """The holder's process ends with exit code 1, and another worker of the installation goes on."""
    installation.start_workers(2)
    site.create_pods(names("before", 40))
    wait_until(lambda: all_bound(site, history), 60, "they are bound")
    holder = installation.until_importer()

    renewed = datetime.fromisoformat(site.api.request("GET", LEASE).body["spec"]["renewTime"]).timestamp()
    site.api.pause()
    try:
        wait_until(lambda: not installation.may_bind(), 20, "the right to bind has ended", every=0.05)
        assert time.time() - renewed < LEASE_DURATION
        assert holder.wait_exit(20) == 1
        assert "leader election lost" in holder.said
    finally:
        site.api.resume()
    site.create_pods(names("after", 40))

    wait_until(installation.may_bind, 60, "another worker has the Lease", every=0.05)
    until_settled(site, [installation], history, room)
    assert installation.until_importer() is not holder

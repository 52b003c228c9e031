"""Readiness of a worker on a Kubernetes API: which trouble is shown, and when `active` begins to count."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from tests.kubernetes.loops.importing_stage import Site
from tests.virtual_time import VirtualTime
from wharfinger.apiserver.client import LEASES
from wharfinger.kubernetes.loops.worker_loops import KubernetesLoops
from wharfinger.scheduling.model.promises import Imported, KubernetesSide
from wharfinger.scheduling.state.informer.changes import Changes

TOLD = Imported({"pods": 7})


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    site.node("n1")
    yield site
    await site.close()


class Watching:
    """The loops of a worker that only looks at what etcd shows."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.side = KubernetesSide()
        self.trouble: dict[str, str] = {}
        self.loops = KubernetesLoops(
            self.side,
            self,  # type: ignore[arg-type]  # of the importer only `trouble` is read
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            lane=self,  # type: ignore[arg-type]
            review=self,  # type: ignore[arg-type]
            behind_after=10.0,
            clock=self.time,
            resumed=lambda: None,
        )

    def apply(self, _changes: Changes) -> None:
        """As the sweep of promises."""

    def see(self, imported: Imported, *, active: int = 0, listed: bool = False) -> Mapping[str, str]:
        """Let the watch, or a list, show this; the checks then."""
        self.side.imported, self.side.active, self.side.told_at = imported, active, self.time()
        self.loops.apply(Changes(1, listed=listed, kubernetes=True))
        return self.loops.checks()


def test_what_a_list_shows_is_no_sign_of_an_importer() -> None:
    worker = Watching()
    assert worker.see(TOLD, active=5, listed=True)["import"] == "no importer has said anything yet"
    assert not worker.side.signed
    assert worker.loops.paused()
    assert worker.see(Imported({"pods": 8}), active=5)["import"] == "ok"
    assert worker.side.signed
    assert not worker.loops.paused()


def test_after_another_list_a_new_sign_is_waited_for() -> None:
    """An etcd that was restored with later revisions has to be listed again."""
    worker = Watching()
    worker.see(TOLD, active=5, listed=True)
    worker.see(Imported({"pods": 8}), active=5)
    worker.see(TOLD, active=5, listed=True)
    assert worker.loops.paused()
    worker.see(Imported({"pods": 9}), active=5)
    assert not worker.loops.paused()


def test_an_installation_that_cannot_take_the_lease_is_not_ready() -> None:
    worker = Watching()
    hindered = Imported({"pods": 8}, hindered="the API server does not answer")
    worker.see(TOLD, listed=True)
    assert worker.see(hindered) == {"import": "ok", "leaderElection": "the API server does not answer"}
    assert worker.see(hindered, active=5)["leaderElection"] == "ok"


def test_a_standby_is_ready() -> None:
    worker = Watching()
    worker.see(TOLD, listed=True)
    assert worker.see(Imported({"pods": 8})) == {"import": "ok", "leaderElection": "ok"}


# --- what the importer says of it -----------------------------------------------------------------


async def test_a_refused_lease_is_told_after_some_seconds(site: Site) -> None:
    hand = await site.hand(before=lambda api: api.faults.forbid("create", LEASES))
    assert (await site.imported()).hindered == ""
    await site.time.advance(5)
    assert "cannot be held: 403" in (await site.imported()).hindered
    hand.api.faults.clear()
    await site.time.advance(4)
    assert (await site.imported()).hindered == ""


async def test_a_standby_lacks_nothing(site: Site) -> None:
    site.rival_holds()
    await site.hand(seconds=12)
    assert await site.active() == ""
    assert (await site.imported()).hindered == ""


async def test_a_lease_that_is_lost_from_sight_is_told(site: Site) -> None:
    """Watches go on, so the copies are fresh; only requests about the Lease fail."""
    first, second = await site.hand(), await site.hand()
    for hand in (first, second):
        hand.api.faults.disconnect(None, resource=LEASES)
    await site.time.advance(25)
    assert await site.importer() == second.name
    assert "cannot connect" in (await site.imported()).hindered

"""Workers of a real Kubernetes API stand still (SIGSTOP) and wake when others have gone on without them.

Rows 1, 7 and 8 of the table of interleavings: a late POST whose room was given away; an importer that was replaced;
an importer whose revisions are no longer kept.
"""

from __future__ import annotations

import base64
import random

import pytest

from tests.integration.dev_tree import wait_until
from tests.integration.gateway import Gateway
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.objects import names
from tests.kubernetes.settled import all_bound, unlike, until_settled
from tests.kubernetes.site import ALL, Installation, KubernetesSite, resume, stop
from wharfinger.etcd import keys
from wharfinger.kubernetes.loops.connecting import COPIED_KINDS

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

SLOW = 30.0
"""Binds a second of one worker: a flood's promises wait for seconds."""
STOPS = 4


def test_late_posts_bind_nothing_whose_room_was_given_away(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """Promised pods are deleted and made anew while their worker stands still; others fill the room to the last pod."""
    rng = random.Random(1)
    site.create_pods(names("web", ALL))
    installation.start_workers(2, qps=SLOW)
    given_away: set[str] = set()

    for turn in range(STOPS):
        wait_until(lambda least=20 + 30 * turn: history.bound >= least, 60, "the flood goes on", every=0.05)
        stopped = installation.others(installation.until_importer())[0]
        wait_until(lambda: rng.random() < 0.3, 10, "a moment has come", every=0.05)
        stop(stopped)
        promised = installation.promised_and_unbound()[:15]
        uids = {name: history.now[name].uid for name in promised if name in history.now}
        site.delete_pods(promised)
        site.create_pods(promised)
        wait_until(lambda uids=uids: not _promised(installation, uids), 20, "their room is free", every=0.05)
        given_away.update(promised)
        resume(stopped)

    assert len(given_away) > STOPS
    until_settled(site, [installation], history, room)
    assert history.lists == 0


def _promised(installation: Installation, uids: dict[str, str]) -> bool:
    """Whether the pods of these lives are promised still."""
    promises = installation.promises()
    return any(promises.get(name, {}).get("uid") == uid for name, uid in uids.items())


def test_importer_that_wakes_when_it_was_replaced_writes_nothing(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    installation.start_workers(2)
    site.create_pods(names("early", 60))
    wait_until(lambda: all_bound(site, history) and not installation.promises(), 60, "they are bound")
    old = installation.until_importer()

    site.delete_pods(names("early", 15))
    stop(old)  # with changes that it has not read
    site.delete_pods(names("early", 15, first=15))
    site.create_pods(names("foreign", 30), scheduler="another")  # of ours, some would be given to it by Temporal
    site.label_nodes(room, seen="never")
    installation.until_importer(30, but=old)
    site.label_nodes(room, seen="by-the-new-one")
    site.delete_pods(names("foreign", 15))
    wait_until(lambda: unlike(installation) == [], 30, "nothing is left to be copied", every=0.5)
    before = _revisions(installation.gateway)
    resume(old)

    # Which it sees first is chance: that the lease in etcd is gone, or that the API's was not renewed, which ends it.
    wait_until(lambda: "importer_ended" in old.said or old.process.poll() is not None, 30, "it gives up")
    assert _revisions(installation.gateway) == before
    site.delete_pods(names("foreign", 30))
    site.create_pods(names("late", 60))
    until_settled(site, [installation], history, room)


def _revisions(etcd: Gateway) -> dict[str, str]:
    """Key -> mod revision of every copy."""
    begin, end = (base64.b64encode(key).decode() for key in (b"/registry/", b"/registry0"))
    found = etcd.call("/kv/range", {"key": begin, "range_end": end, "keys_only": True})["kvs"]
    revisions = {base64.b64decode(kv["key"]).decode(): kv["mod_revision"] for kv in found}
    prefixes = tuple(keys.stored_prefix(kind.plural) for kind in COPIED_KINDS)
    return {key: revision for key, revision in revisions.items() if key.startswith(prefixes)}


def test_importer_lists_again_when_its_revisions_are_compacted(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory
) -> None:
    """The API server starts anew meanwhile, and so has nothing in memory either."""
    worker = installation.start_worker()
    site.create_pods(names("before", 60))
    wait_until(lambda: all_bound(site, history), 60, "they are bound")

    stop(worker)
    site.delete_pods(names("before", 30))
    site.create_pods(names("new", 40))
    site.api.kill()
    site.api.etcd.compact(Gateway(site.api.etcd.url).revision())
    site.api.start()
    resume(worker)

    wait_until(lambda: "upstream_watch_expired" in worker.said, 60, "its watches have expired")
    until_settled(site, [installation], history, room)
    assert "upstream_was_restored" not in worker.said

"""The end of every test on a real Kubernetes API: what fits is bound, nothing is promised, the copies are the API's.

Both sides are read without our own client: the API by the standard library, our etcd by its JSON gateway. The audit of
the command line, which is what operators have, must say the same. Neighbours: `judge` judges the way to this end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tests import forked
from tests.integration.dev_tree import wait_until
from tests.integration.worker_process import mistakes
from tests.kubernetes.judge import PodHistory, problems
from tests.kubernetes.site import Installation, KubernetesSite
from tests.patience import patient
from wharfinger.apiserver import client
from wharfinger.etcd import keys
from wharfinger.kubernetes.loops.connecting import COPIED_KINDS

WITHIN = 60.0
"""Seconds from the last fault to the end: sweeps begin after 15 s."""


def until_settled(
    site: KubernetesSite,
    installations: Sequence[Installation],
    history: PodHistory,
    room: Mapping[str, int],
    *,
    seconds: float = WITHIN,
    alone: bool = True,
) -> None:
    """Wait for the end, then judge it and how it was reached. `room`: thousandths of a CPU by node; every pod fits.

    `alone`: no other scheduler has bound anything. Workers that could not renew the Lease are started anew.
    """

    def bound() -> bool:
        for installation in installations:
            installation.revive()
        return all_bound(site, history)

    wait_until(bound, seconds, f"all are bound; {_state(site, installations)}")
    for installation in installations:
        wait_until(
            lambda each=installation: each.promises() == {}, seconds, f"no promise is left in {installation.cluster}"
        )
        wait_until(
            lambda each=installation: unlike(each) == [], 20, f"copies of {installation.cluster} are right", every=0.5
        )
    until_seen(site, history)
    wrong = problems(history.events, room, alone=alone)
    assert not wrong, wrong
    for installation in installations:
        audited(installation)
        tracebacks = [mistake for worker in installation.workers for mistake in mistakes(worker.said)]
        assert not tracebacks, tracebacks


def all_bound(site: KubernetesSite, history: PodHistory) -> bool:
    """Whether every pod is bound. The API is asked only when the history says so: a list of a flood is dear."""
    return not history.unbound and site.unbound() == []


def until_seen(site: KubernetesSite, history: PodHistory) -> None:
    """Wait until the history has what the API has now."""

    def same() -> bool:
        listed = {name: (one["metadata"]["uid"], one["spec"].get("nodeName", "")) for name, one in site.pods().items()}
        return listed == {pod.name: (pod.uid, pod.node) for pod in history.now.values()}

    wait_until(same, 20, "the history is complete")


def unlike(installation: Installation) -> list[str]:
    """The objects of all kinds that the copies have otherwise than the API: by uid; pods by node, others by labels."""
    found = []
    for kind in COPIED_KINDS:
        there = {keys.stored(kind.plural, *_place(one)): _main(kind, one) for one in installation.site.listed(kind)}
        prefix = keys.stored_prefix(kind.plural)
        here = {key: _main(kind, one) for key, one in installation.gateway.objects(prefix).items()}
        found += [key for key in sorted(there.keys() | here.keys()) if there.get(key) != here.get(key)]
    return found


def _place(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _main(kind: client.ApiResource, obj: Mapping[str, Any]) -> tuple[str, object]:
    what = obj["spec"].get("nodeName", "") if kind == client.PODS else obj["metadata"].get("labels", {})
    return obj["metadata"]["uid"], what


def audited(installation: Installation) -> None:
    """`wharfinger kubernetes audit` finds nothing."""
    answer = forked.run(
        "kubernetes", "audit", f"--kubeconfig={installation.site.api.kubeconfig}", "--between=1", "--output=json",
        f"--etcd={installation.etcd.url}", f"--cluster={installation.cluster}",
        env=dict(os.environ), timeout=patient(60),
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found = json.loads(answer.stdout)
    assert (found["clean"], found["differences"], found["oldPromises"]) == (True, [], []), found


def _state(site: KubernetesSite, installations: Sequence[Installation]) -> str:
    waiting = len(site.unbound())
    promised = {each.cluster: len(each.promises()) for each in installations}
    return f"at first {waiting} were not, promised were {promised}"

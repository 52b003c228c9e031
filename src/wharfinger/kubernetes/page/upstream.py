"""The Kubernetes API's side, where there is one: how old the copies are, and which binds it does not show yet."""

from __future__ import annotations

from typing import Any

from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.follow.plain import text
from wharfinger.scheduling.model.promises import Promise
from wharfinger.scheduling.page.following import Following

MOST_PROMISES = 5000


def is_copied(following: Following) -> bool:
    """Whether etcd has copies of a Kubernetes API's objects."""
    side = following.cache.upstream
    return side is not None and side.imported is not None


def upstream(following: Following, namespace: str = "") -> dict[str, Any]:
    """How the copies and the promises stand; `copied` alone says false where etcd itself is the store.

    `namespace`: only the promises of one.
    """
    side = following.cache.upstream
    if side is None or side.imported is None:
        return {
            "copied": False,
            "mayBind": None,
            "importedSeconds": None,
            "hindered": None,
            "kinds": [],
            "count": 0,
            "promises": [],
        }
    now = following.utc_now()
    chosen = [one for one in side.promises.items() if not namespace or one[0].namespace == namespace]
    ordered = sorted(chosen, key=lambda one: (one[1].since, one[0]))
    return {
        "copied": True,
        "mayBind": bool(side.active),
        "importedSeconds": round(following.clock() - side.told_at, 1),
        "hindered": text(side.imported.hindered) or None,
        "kinds": [{"plural": text(kind), "revision": told} for kind, told in sorted(side.imported.revisions.items())],
        "count": len(ordered),
        "promises": [
            _told(key, promise) | {"ageSeconds": seconds_since(promise.since, now)}
            for key, promise in ordered[:MOST_PROMISES]
        ],
    }


def _told(key: PodKey, promise: Promise) -> dict[str, Any]:
    return {
        "namespace": text(key.namespace),
        "name": text(key.name),
        "node": text(promise.node),
        "since": promise.since,
        "ready": promise.ready,
        "together": promise.together,
        "volumes": [text(step.claim) for step in promise.volumes],
        "calls": [text(call) for call in promise.calls],
        "withdrawn": text(promise.withdrawn) or None,
        "answer": text(promise.told) or None,
    }

"""What the page shows of a Kubernetes API that is the store: the age of the copies, promises that wait, and alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.alerts.rules import AlertRule, AlertSource, largest
from wharfinger.page.follow.plain import text
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.views import MenuEntry
from wharfinger.page.web.routes import Route, get
from wharfinger.scheduling.model.promises import Promise
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.view import SchedulingView

MOST_PROMISES = 5000
_ICON = (
    "M12 3l7.8 3.8 1.9 8.4-5.4 6.8H7.7l-5.4-6.8 1.9-8.4z"
    "M12 9.500a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM12 9.500V3.500M14.3 13l5 2.500M9.7 13l-5 2.5"
)
RULES = (
    AlertRule("CopiesOld", largest("wharfinger_upstream_import_lag_seconds"), 10, " s", "/kubernetes"),
    AlertRule("PromisesOld", largest("wharfinger_upstream_oldest_promise_seconds"), 60, " s", "/kubernetes"),
)


def is_copied(following: Following) -> bool:
    """Whether etcd has copies of a Kubernetes API's objects."""
    side = following.cache.kubernetes
    return side is not None and side.imported is not None


def copies_and_promises(following: Following, namespace: str = "") -> dict[str, Any]:
    """How the copies and the promises stand; `copied` alone says false where etcd itself is the store.

    `namespace`: only the promises of one.
    """
    side = following.cache.kubernetes
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


class KubernetesAlerts(AlertSource):
    """Evaluated on workers, where a Kubernetes API is the store."""

    rules = RULES

    def __init__(self, following: Following, scraper: Scraper) -> None:
        super().__init__(scraper)
        self._following = following

    def unused(self) -> str:
        """Nothing is copied where etcd itself is the store."""
        return "" if is_copied(self._following) else "no Kubernetes API is the store here"


class KubernetesView(PageView):
    """Copies and promises."""

    menu = (MenuEntry("Kubernetes", 80, {"/kubernetes": "kubernetes.js"}, _ICON, needs="kubernetes"),)
    moments: Mapping[str, int] = {"kubernetes": 0}

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        scheduling = page.view(SchedulingView)
        self._following = scheduling.following
        self.alerts = KubernetesAlerts(self._following, scheduling.scraper)

    def routes(self) -> Iterable[Route]:
        """How copies and promises stand."""
        return [get("kubernetes", lambda asked: copies_and_promises(self._following, asked.namespace))]

    def status(self, namespace: str) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """Whether an API is the store."""
        return {"kubernetes": is_copied(self._following)}

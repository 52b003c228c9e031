"""What the page shows of a Kubernetes API that is the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.kubernetes.page.upstream import is_copied, upstream
from wharfinger.kubernetes.page.upstream_alerts import UpstreamAlerts
from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.web.routes import Route, get
from wharfinger.scheduling.page.view import SchedulingView


class KubernetesView(PageView):
    """Copies and promises."""

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        scheduling = page.view(SchedulingView)
        self._following = scheduling.following
        self.alerts = UpstreamAlerts(self._following, scheduling.scraper)

    def routes(self) -> Iterable[Route]:
        """How copies and promises stand."""
        return [get("kubernetes", lambda asked: upstream(self._following, asked.namespace))]

    def status(self, namespace: str) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """Whether an API is the store."""
        return {"kubernetes": is_copied(self._following)}

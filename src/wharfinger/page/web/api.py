"""The addresses under `/api/v1/` and what each answers; docs/ui.md has their fields.

Most of them are the views'. A route reads its request and asks for an answer, which is plain values; `server` turns
them into responses. Errors that are expected have a status of their own; every other one is the server's.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.errors import (
    ConfigurationError,
    DoesNotApply,
    InvalidObject,
    NotFound,
    PluginError,
    ServerError,
    StoreError,
    UsageError,
    WharfingerError,
)
from wharfinger.page.access.guard import Viewer
from wharfinger.page.parts import PageParts
from wharfinger.page.web.inputs import BadInput, TooLong
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.process.build import release
from wharfinger.serving.access import Barred


def routes(parts: PageParts, mark_of: Callable[[Viewer], str]) -> list[Route]:
    """All of them; those that change something only where that is allowed. `mark_of`: what a viewer's POSTs carry."""
    alerts = parts.alerts
    return [
        get("session", lambda asked: _session(parts, asked, mark_of)),
        get("status", lambda asked: parts.status(asked.namespace)),
        get("alerts", lambda _: {"alerts": [one._asdict() for one in alerts.all()], "sources": alerts.sources()}),
        *(route for route in parts.routes() if parts.options.takes_actions or not route.acts),
    ]


def _session(parts: PageParts, asked: PageRequest, mark_of: Callable[[Viewer], str]) -> Answer:
    """Who looks, and what its POSTs have to carry."""
    return {
        "viewer": asked.viewer.name,
        "mark": mark_of(asked.viewer) or None,
        "version": release(),
        "cluster": parts.cluster,
        "temporalUi": parts.options.temporal_ui or None,
        "actions": asked.viewer.acts,
        "signOut": asked.viewer.of_session,
    }


def barred(error: WharfingerError) -> Barred | None:
    """The answer for an error that is expected; None for any other."""
    match error:
        case BadInput():
            return Barred(400, "BadRequest", str(error))
        case NotFound():
            return Barred(404, "NotFound", str(error))
        case DoesNotApply():
            return Barred(409, "Conflict", str(error))
        case TooLong():
            return Barred(503, "Timeout", str(error))
        case ServerError():
            return Barred(503, "TemporalUnavailable", str(error))
        case StoreError():
            return Barred(503, "EtcdUnavailable", str(error))
        case ConfigurationError() | InvalidObject() | PluginError() | UsageError():
            return Barred(422, "Unprocessable", str(error))
    return None

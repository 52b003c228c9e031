"""The addresses under `/api/v1/` and what each answers; docs/ui.md has their fields.

Each route reads its request and asks a view, whose answer are plain values; `server` turns them into responses. Errors
that are expected have a status of their own; every other one is the server's.
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
from wharfinger.observe.placements import reference_of
from wharfinger.page.access.guard import Viewer
from wharfinger.page.follow.read_model import STATES
from wharfinger.page.parts import PageParts
from wharfinger.page.trying import helping
from wharfinger.page.trying import what_if as supposing
from wharfinger.page.views.holding import held_help
from wharfinger.page.views.pending import NONE_WAITS
from wharfinger.page.views.upstream import upstream
from wharfinger.page.web import inputs as read
from wharfinger.page.web.actions import RUN_VERBS, VERBS
from wharfinger.page.web.inputs import BadInput, TooLong
from wharfinger.page.web.routes import Answer, Handler, PageRequest, Route
from wharfinger.process.build import release
from wharfinger.serving.authentication import Barred

HELPED = 200
"""Pods of a reason that are looked at for what would help."""
_ATTEMPTS = 10**9
"""The highest number of an attempt."""


def routes(parts: PageParts, mark_of: Callable[[Viewer], str]) -> list[Route]:
    """All of them; those that change something only where that is allowed. `mark_of`: what a viewer's POSTs carry."""
    return [*_looking(parts, mark_of), *(acting(parts) if parts.options.allow_actions else ())]


def _looking(parts: PageParts, mark_of: Callable[[Viewer], str]) -> list[Route]:
    looking, pod, gang = parts.looking, "pods/{namespace}/{name}", "gangs/{namespace}/{name}"

    def get(path: str, handler: Handler) -> Route:
        return Route("GET", f"/api/v1/{path}", handler)

    return [
        get("session", lambda asked: _session(parts, asked, mark_of)),
        get("status", lambda asked: parts.status(asked.namespace)),
        get("namespaces", lambda _: {"namespaces": parts.following.model.namespaces()[:5000]}),
        get("overview", lambda asked: parts.overview.now(asked.namespace) | {"alerts": parts.alerts.told()}),
        get("trends", lambda asked: parts.overview.trends(asked.namespace)),
        get("alerts", lambda _: _alerts(parts)),
        get("pending", lambda asked: {"reasons": parts.pending.reasons(asked.namespace)}),
        get("pending/{slug}", lambda asked: _reason(parts, asked)),
        get("pending/{slug}/help", lambda asked: _help(parts, asked)),
        get("nodes", lambda asked: parts.map.whole(asked.namespace)),
        get("node-matches", lambda asked: parts.map.matching(asked.selector())),
        get("nodes/{name}", lambda asked: looking.node(asked.name("node"))),
        get("nodes/{name}/refusals", lambda asked: looking.refused_on(asked.name("node"), asked.namespace)),
        get("pods", lambda asked: _pods(parts, asked)),
        get(pod, lambda asked: looking.pod(asked.pod, optional="optional" in asked.query)),
        get(f"{pod}/attempts", lambda asked: _attempts(parts, asked)),
        get(f"{pod}/preemption", lambda asked: parts.departures.of(asked.pod)),
        get(f"{pod}/decision", lambda asked: _decision(parts, asked)),
        get(f"{pod}/difference", lambda asked: _difference(parts, asked)),
        get(f"{pod}/weights", lambda asked: _weights(parts, asked)),
        Route("POST", f"/api/v1/{pod}/what-if", lambda asked: _what_if(parts, asked)),
        get("gangs", lambda asked: looking.gangs(asked.namespace)),
        get(gang, lambda asked: looking.gang(*asked.pod)),
        get(f"{gang}/domains", lambda asked: looking.gang_verdicts(*asked.pod)),
        get("fleets", lambda _: parts.fleets.all()),
        get("fleets/{tenant}/plan", lambda asked: parts.fleets.planned(asked.name("fleet", "tenant"))),
        get("kubernetes", lambda asked: upstream(parts.following, asked.namespace)),
        get("placements", lambda asked: _placements(parts, asked)),
        get("placements/{placement}", lambda asked: parts.placements.one(_reference(asked))),
        get("placements/{placement}/history", lambda asked: parts.placements.history(_reference(asked))),
        get("update-runs/{name}", lambda asked: parts.update_runs.one(asked.name("run"), asked.namespace)),
        get("replays", lambda asked: parts.replays.all(asked.namespace)),
        get("replays/{name}", lambda asked: _replay(parts, asked)),
    ]


def acting(parts: PageParts) -> list[Route]:
    """Those that change something."""
    return [
        Route("POST", "/api/v1/fleets/{tenant}/actions/{verb}", lambda asked: _act_on_fleet(parts, asked), acts=True),
        Route("POST", "/api/v1/update-runs/{name}/{verb}", lambda asked: _act_on_run(parts, asked), acts=True),
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


def _alerts(parts: PageParts) -> Answer:
    """Every alert, quiet ones too."""
    return {"alerts": [alert._asdict() for alert in parts.alerts.all()], "sources": parts.alerts.sources()}


# --- pods -----------------------------------------------------------------------------------------


def _reason(parts: PageParts, asked: PageRequest) -> Answer:
    """The pods of one reason."""
    namespace, most = asked.namespace, asked.number("limit", 1000, least=1, most=5000)
    return parts.pending.pods(asked.names["slug"], namespace, most)


async def _help(parts: PageParts, asked: PageRequest) -> Answer:
    """What would help the pods of one reason."""
    key, waiting = parts.pending.group(asked.names["slug"], asked.namespace)
    pods = parts.following.cache.pods
    chosen = [pod for one in waiting if (pod := pods.get(one)) is not None and pod.pending][:HELPED]
    if not chosen:
        raise NotFound(NONE_WAITS)
    held = held_help(parts.following, key, chosen)
    return held if held is not None else await parts.questions.ask(lambda stage: helping.helps(stage, chosen))


async def _pods(parts: PageParts, asked: PageRequest) -> Answer:
    """A list."""
    state, words = asked.query.get("state", ""), asked.query.get("name", "")
    if state and state not in STATES:
        raise BadInput(f"state: one of {', '.join(STATES)}")
    if len(words) > read.LONGEST_NAME:
        raise BadInput("name: too long")
    return await parts.looking.pods(
        namespace=asked.namespace,
        state=state,
        selector=asked.selector() if asked.query.get("selector") else None,
        words=words,
        most=asked.number("limit", 500, least=1, most=5000),
    )


async def _attempts(parts: PageParts, asked: PageRequest) -> Answer:
    """What is recorded of a pod."""
    most = asked.number("limit", 50, least=1, most=200)
    return await parts.temporal.soon(parts.attempts.explained(asked.pod, most))


async def _decision(parts: PageParts, asked: PageRequest) -> Answer:
    """One decision, made again."""
    number = asked.number("attempt", 0, least=0, most=_ATTEMPTS)
    return await parts.attempts.decision(asked.pod, number or None)


async def _difference(parts: PageParts, asked: PageRequest) -> Answer:
    """Two attempts."""
    first, second = (asked.number(one, 0, least=1, most=_ATTEMPTS) for one in ("first", "second"))
    if not first or not second:
        raise BadInput("first and second: the numbers of two attempts")
    return await parts.attempts.difference(asked.pod, first, second)


async def _weights(parts: PageParts, asked: PageRequest) -> Answer:
    """The score plugins of the pod's profile, for the form."""
    pod = parts.looking.found(asked.pod)
    return await parts.questions.ask(lambda stage: supposing.weights(stage, pod))


async def _what_if(parts: PageParts, asked: PageRequest) -> Answer:
    """Decide as it would be."""
    form = supposing.form_of(await asked.form())
    pod = parts.looking.found(asked.pod)
    return await parts.what_if.ask(lambda stage: supposing.what_if(stage, pod, form))


# --- others ---------------------------------------------------------------------------------------


async def _placements(parts: PageParts, asked: PageRequest) -> Answer:
    """All of them, on all members; `namespace`: without those of other namespaces, and without their runs."""
    namespace, told = asked.namespace, await parts.placements.all()
    if not namespace:
        return told
    own = ("cluster/", f"ns/{namespace}/")
    chosen, runs = ([one for one in told[name] if one["placement"].startswith(own)] for name in ("placements", "runs"))
    return told | {"count": len(chosen), "placements": chosen, "runs": runs}


def _reference(asked: PageRequest) -> str:
    """The placement that an address names: `cluster/<name>` or `ns/<namespace>/<name>` as one part of it."""
    try:
        return reference_of(asked.names["placement"])
    except UsageError as error:
        raise BadInput(str(error)) from error


async def _replay(parts: PageParts, asked: PageRequest) -> Answer:
    """One report; `beside`: with another one."""
    namespace, beside = asked.namespace, read.optional_name(asked.query, "beside")
    return await parts.replays.one(asked.name("replay"), namespace, beside)


async def _act_on_fleet(parts: PageParts, asked: PageRequest) -> Answer:
    """Pause, resume, promote, abort or undo a rollout."""
    tenant, verb = asked.name("fleet", "tenant"), asked.verb(VERBS)
    return await parts.actions.fleet(tenant, verb, await asked.form(), asked.viewer.name)


async def _act_on_run(parts: PageParts, asked: PageRequest) -> Answer:
    """Approve a stage of an update run, stop, resume or retry it; `namespace`: of a run that has one."""
    name, namespace, verb = asked.name("run"), asked.namespace, asked.verb(RUN_VERBS)
    return await parts.actions.update_run(name, namespace, verb, await asked.form(), asked.viewer.name)


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

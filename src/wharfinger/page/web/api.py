"""The addresses under `/api/v1/` and what each answers; docs/ui.md has their fields.

A handler gets the request and answers plain values, or a `Barred`; `server` turns both into responses. Errors that are
expected have a status of their own; every other one is the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
from wharfinger.model.pod import Pod
from wharfinger.observe.placements import reference_of
from wharfinger.page.access.guard import Viewer
from wharfinger.page.follow.read_model import STATES
from wharfinger.page.parts import PageParts
from wharfinger.page.trying import helping
from wharfinger.page.trying import what_if as supposing
from wharfinger.page.trying.deciding import PresentState, TooLong
from wharfinger.page.views.holding import held_help
from wharfinger.page.views.upstream import upstream
from wharfinger.page.web import inputs as read
from wharfinger.page.web.actions import RUN_VERBS, VERBS
from wharfinger.page.web.inputs import BadInput
from wharfinger.page.web.routes import Answer, PageRequest, Route, body_of
from wharfinger.process.build import release
from wharfinger.serving.authentication import Barred

MOST_FORM = 64 * 1024
"""Bytes of a form."""
HELPED = 200
"""Pods of a reason that are looked at for what would help."""


class Api:
    """The handlers."""

    def __init__(self, parts: PageParts, mark_of: Callable[[Viewer], str]) -> None:
        """`mark_of`: what a viewer's POSTs have to carry."""
        self._parts = parts
        self._mark_of = mark_of

    def routes(self) -> list[Route]:
        """All of them; those that change something only where that is allowed."""
        pod, gang = "/api/v1/pods/{namespace}/{name}", "/api/v1/gangs/{namespace}/{name}"
        return [
            Route("GET", "/api/v1/session", self.session),
            Route("GET", "/api/v1/status", self.status),
            Route("GET", "/api/v1/namespaces", self.namespaces),
            Route("GET", "/api/v1/overview", self.overview),
            Route("GET", "/api/v1/trends", self.trends),
            Route("GET", "/api/v1/alerts", self.alerts),
            Route("GET", "/api/v1/pending", self.pending),
            Route("GET", "/api/v1/pending/{slug}", self.reason),
            Route("GET", "/api/v1/pending/{slug}/help", self.help),
            Route("GET", "/api/v1/nodes", self.nodes),
            Route("GET", "/api/v1/node-matches", self.node_matches),
            Route("GET", "/api/v1/nodes/{name}", self.node),
            Route("GET", "/api/v1/nodes/{name}/refusals", self.node_refusals),
            Route("GET", "/api/v1/pods", self.pods),
            Route("GET", pod, self.pod),
            Route("GET", f"{pod}/attempts", self.attempts),
            Route("GET", f"{pod}/preemption", self.preemption),
            Route("GET", f"{pod}/decision", self.decision),
            Route("GET", f"{pod}/difference", self.difference),
            Route("GET", f"{pod}/weights", self.weights),
            Route("POST", f"{pod}/what-if", self.what_if),
            Route("GET", "/api/v1/gangs", self.gangs),
            Route("GET", gang, self.gang),
            Route("GET", f"{gang}/domains", self.gang_domains),
            Route("GET", "/api/v1/fleets", self.fleets),
            Route("GET", "/api/v1/kubernetes", self.kubernetes),
            Route("GET", "/api/v1/placements", self.placements),
            Route("GET", "/api/v1/placements/{placement}", self.placement),
            Route("GET", "/api/v1/placements/{placement}/history", self.placement_history),
            Route("GET", "/api/v1/update-runs/{name}", self.update_run),
            Route("GET", "/api/v1/fleets/{tenant}/plan", self.fleet_plan),
            Route("GET", "/api/v1/replays", self.replays),
            Route("GET", "/api/v1/replays/{name}", self.replay),
            *(self.acting() if self._parts.options.allow_actions else ()),
        ]

    def acting(self) -> list[Route]:
        """Those that change something."""
        return [
            Route("POST", "/api/v1/fleets/{tenant}/actions/{verb}", self.act_on_fleet, acts=True),
            Route("POST", "/api/v1/update-runs/{name}/{verb}", self.act_on_update_run, acts=True),
        ]

    # --- the whole ----------------------------------------------------------------------------

    async def session(self, asked: PageRequest) -> Answer:
        """Who looks, and what its POSTs have to carry."""
        options = self._parts.options
        return {
            "viewer": asked.viewer.name,
            "mark": self._mark_of(asked.viewer) or None,
            "version": release(),
            "cluster": self._parts.cluster,
            "temporalUi": options.temporal_ui or None,
            "actions": asked.viewer.acts,
            "signOut": asked.viewer.of_session,
        }

    async def status(self, asked: PageRequest) -> Answer:
        """Whether what is shown is current."""
        return self._parts.status(read.optional_name(asked.query, "namespace"))

    async def namespaces(self, _asked: PageRequest) -> Answer:
        """Namespaces with pods."""
        return {"namespaces": self._parts.following.model.namespaces()[:5000]}

    async def overview(self, asked: PageRequest) -> Answer:
        """The overview as it is now."""
        namespace = read.optional_name(asked.query, "namespace")
        return self._parts.overview.now(namespace) | {"alerts": self._parts.alerts.told()}

    async def trends(self, asked: PageRequest) -> Answer:
        """The last quarter of an hour."""
        return self._parts.overview.trends(read.optional_name(asked.query, "namespace"))

    async def alerts(self, _asked: PageRequest) -> Answer:
        """Every alert, quiet ones too."""
        alerts = self._parts.alerts
        return {"alerts": [alert._asdict() for alert in alerts.all()], "sources": alerts.sources()}

    # --- waiting pods -------------------------------------------------------------------------

    async def pending(self, asked: PageRequest) -> Answer:
        """The reasons."""
        return {"reasons": self._parts.pending.reasons(read.optional_name(asked.query, "namespace"))}

    async def reason(self, asked: PageRequest) -> Answer:
        """The pods of one reason."""
        namespace = read.optional_name(asked.query, "namespace")
        most = read.number(asked.query, "limit", 1000, least=1, most=5000)
        found = self._parts.pending.pods(asked.names["slug"], namespace, most)
        if found is None:
            raise NotFound("no pod waits for that now")
        return found

    async def help(self, asked: PageRequest) -> Answer:
        """What would help the pods of one reason."""
        namespace = read.optional_name(asked.query, "namespace")
        pods = self._parts.following.cache.pods
        for key, waiting in self._parts.pending.groups(namespace):
            if key.slug == asked.names["slug"]:
                chosen = [pod for one in waiting if (pod := pods.get(one)) is not None and pod.pending][:HELPED]
                held = held_help(self._parts.following, key, chosen)
                if held is not None:
                    return held
                if not chosen:
                    break
                return await self._parts.questions.ask(partial(_helps, chosen))
        raise NotFound("no pod waits for that now")

    # --- nodes --------------------------------------------------------------------------------

    async def nodes(self, asked: PageRequest) -> Answer:
        """Every node, in columns."""
        return self._parts.map.whole(read.optional_name(asked.query, "namespace"))

    async def node_matches(self, asked: PageRequest) -> Answer:
        """Which rows a selector matches."""
        rows = self._parts.map.matching(read.selector_of(asked.query.get("selector", "")))
        return {"layout": self._parts.map.layout, "rows": rows}

    async def node(self, asked: PageRequest) -> Answer:
        """One node."""
        return self._parts.looking.node(read.name_of(asked.names["name"], "node"))

    async def node_refusals(self, asked: PageRequest) -> Answer:
        """Why waiting pods are not there."""
        namespace = read.optional_name(asked.query, "namespace")
        return await self._parts.looking.refused_on(read.name_of(asked.names["name"], "node"), namespace)

    # --- pods ---------------------------------------------------------------------------------

    async def pods(self, asked: PageRequest) -> Answer:
        """A list."""
        query = asked.query
        state, words = query.get("state", ""), query.get("name", "")
        if state and state not in STATES:
            raise BadInput(f"state: one of {', '.join(STATES)}")
        if len(words) > read.LONGEST_NAME:
            raise BadInput("name: too long")
        selector = query.get("selector", "")
        return await self._parts.looking.pods(
            namespace=read.optional_name(query, "namespace"),
            state=state,
            selector=read.selector_of(selector) if selector else None,
            words=words,
            most=read.number(query, "limit", 500, least=1, most=5000),
        )

    async def pod(self, asked: PageRequest) -> Answer:
        """One pod; with `optional`, null for one that is not there."""
        key = read.pod_key(asked.names)
        if "optional" in asked.query and key not in self._parts.following.cache.pods:
            return None
        return self._parts.looking.pod(key)

    async def attempts(self, asked: PageRequest) -> Answer:
        """What is recorded of it."""
        most = read.number(asked.query, "limit", 50, least=1, most=200)
        return await self._parts.temporal.soon(self._parts.attempts.explained(read.pod_key(asked.names), most))

    async def preemption(self, asked: PageRequest) -> Answer:
        """For whom it left, and who left for it."""
        return await self._parts.departures.of(read.pod_key(asked.names))

    async def decision(self, asked: PageRequest) -> Answer:
        """One decision, made again."""
        number = read.number(asked.query, "attempt", 0, least=0, most=10**9)
        return await self._parts.attempts.decision(read.pod_key(asked.names), number or None)

    async def difference(self, asked: PageRequest) -> Answer:
        """Two attempts."""
        first = read.number(asked.query, "first", 0, least=1, most=10**9)
        second = read.number(asked.query, "second", 0, least=1, most=10**9)
        if not first or not second:
            raise BadInput("first and second: the numbers of two attempts")
        return await self._parts.attempts.difference(read.pod_key(asked.names), first, second)

    async def weights(self, asked: PageRequest) -> Answer:
        """The score plugins of the pod's profile, for the form."""
        pod = self._parts.looking.found(read.pod_key(asked.names))

        def weighed(stage: PresentState) -> Answer:
            configured, served = stage.configured(pod), stage.served(pod)
            profile = configured.profiles[pod.scheduler_name]
            weights = supposing.weights_of(profile, configured.configuration.document())
            return {"profile": profile.name, "digest": served.digest or None, "weights": weights} | {
                "profileServed": served.told()
            }

        return await self._parts.questions.ask(weighed)

    async def what_if(self, asked: PageRequest) -> Answer:
        """Decide as it would be."""
        form = supposing.form_of(await body_of(asked.request, MOST_FORM))
        pod = self._parts.looking.found(read.pod_key(asked.names))
        return await self._parts.what_if.ask(lambda stage: supposing.what_if(stage, pod, form))

    # --- gangs --------------------------------------------------------------------------------

    async def gangs(self, asked: PageRequest) -> Answer:
        """All of them."""
        return self._parts.looking.gangs(read.optional_name(asked.query, "namespace"))

    async def gang(self, asked: PageRequest) -> Answer:
        """One."""
        return self._parts.looking.gang(*read.pod_key(asked.names))

    async def gang_domains(self, asked: PageRequest) -> Answer:
        """What would be decided for one now, domain by domain."""
        return await self._parts.looking.gang_verdicts(*read.pod_key(asked.names))

    # --- fleets -------------------------------------------------------------------------------

    async def fleets(self, _asked: PageRequest) -> Answer:
        """All of them."""
        return await self._parts.fleets.all()

    async def placements(self, asked: PageRequest) -> Answer:
        """All of them, on all members; `namespace`: without those of other namespaces."""
        namespace = read.optional_name(asked.query, "namespace")
        return _without_others(await self._parts.placements.all(), namespace)

    async def placement(self, asked: PageRequest) -> Answer:
        """One, by its reference (`cluster/<name>` or `ns/<namespace>/<name>`) as one part of the address."""
        return await self._parts.placements.one(_reference(asked))

    async def placement_history(self, asked: PageRequest) -> Answer:
        """What happened to one."""
        return await self._parts.placements.history(_reference(asked))

    async def update_run(self, asked: PageRequest) -> Answer:
        """One staged update run; `namespace`: of a run that has one."""
        name, namespace = read.name_of(asked.names["name"], "run"), read.optional_name(asked.query, "namespace")
        return await self._parts.update_runs.one(name, namespace)

    async def kubernetes(self, asked: PageRequest) -> Answer:
        """Copies and promises."""
        return upstream(self._parts.following, read.optional_name(asked.query, "namespace"))

    async def fleet_plan(self, asked: PageRequest) -> Answer:
        """What would happen to one from here on."""
        return await self._parts.fleets.planned(read.name_of(asked.names["tenant"], "fleet"))

    # --- replays ------------------------------------------------------------------------------

    async def replays(self, asked: PageRequest) -> Answer:
        """The reports of the folder."""
        return await self._parts.replays.all(read.optional_name(asked.query, "namespace"))

    async def replay(self, asked: PageRequest) -> Answer:
        """One report; `beside`: with another one."""
        namespace, beside = (read.optional_name(asked.query, name) for name in ("namespace", "beside"))
        return await self._parts.replays.one(read.name_of(asked.names["name"], "replay"), namespace, beside)

    # --- actions ------------------------------------------------------------------------------

    async def act_on_fleet(self, asked: PageRequest) -> Answer:
        """Pause, resume, promote, abort or undo a rollout."""
        tenant, verb = read.name_of(asked.names["tenant"], "fleet"), asked.names["verb"]
        if verb not in VERBS:
            raise NotFound(f"there is no action {verb[:40]!r}")
        return await self._parts.actions.fleet(tenant, verb, await body_of(asked.request, MOST_FORM), asked.viewer.name)

    async def act_on_update_run(self, asked: PageRequest) -> Answer:
        """Approve a stage of an update run, stop, resume or retry it; `namespace`: of a run that has one."""
        name, namespace = read.name_of(asked.names["name"], "run"), read.optional_name(asked.query, "namespace")
        verb = asked.names["verb"]
        if verb not in RUN_VERBS:
            raise NotFound(f"there is no action {verb[:40]!r}")
        body = await body_of(asked.request, MOST_FORM)
        return await self._parts.actions.update_run(name, namespace, verb, body, asked.viewer.name)


def _reference(asked: PageRequest) -> str:
    """The placement that an address names. Raises `BadInput`."""
    try:
        return reference_of(asked.names["placement"])
    except UsageError as error:
        raise BadInput(str(error)) from error


def _without_others(told: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Placements and their runs that are cluster-wide or of the namespace."""
    if not namespace:
        return told
    own = ("cluster/", f"ns/{namespace}/")
    chosen = [one for one in told["placements"] if one["placement"].startswith(own)]
    runs = [run for run in told["runs"] if run["placement"].startswith(own)]
    return told | {"count": len(chosen), "placements": chosen, "runs": runs}


def _helps(pods: Sequence[Pod], stage: PresentState) -> Answer:
    return helping.helps(stage, pods)


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

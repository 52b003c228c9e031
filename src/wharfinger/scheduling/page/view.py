"""What the page shows of pods, nodes and workers: its addresses, topics and loops."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Set
from typing import Any, cast

from wharfinger.errors import NotFound
from wharfinger.page.follow.rings import SLOT_SECONDS
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.parts import PageParts, PageView, namespace_of
from wharfinger.page.views import MenuEntry
from wharfinger.page.web.inputs import LONGEST_NAME, BadInput
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.scheduling.page import helping
from wharfinger.scheduling.page import what_if as supposing
from wharfinger.scheduling.page.attempts import PodAttempts
from wharfinger.scheduling.page.deciding import Deciders
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.leaving import PodDepartures
from wharfinger.scheduling.page.looking import Looking
from wharfinger.scheduling.page.node_map import NodeMap
from wharfinger.scheduling.page.overview import Overview
from wharfinger.scheduling.page.pending import NONE_WAITS, PendingPods, held_help
from wharfinger.scheduling.page.read_model import STATES
from wharfinger.scheduling.page.worker_alerts import WorkerAlerts

HELPED = 200
"""Pods of a reason that are looked at for what would help."""
_ATTEMPTS = 10**9
"""The highest number of an attempt."""
WHAT_IF_SLOTS = 2
LOOK_SLOTS = 1

_OVERVIEW = "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z"
_MAP = "".join(f"M{x} {y}h4v4h-4z" for y in (4, 10, 16) for x in (4, 10, 16))
_PENDING = "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4.5l3 2"
_PODS = "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9"
_GANGS = (
    "M8 4.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM16 4.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z"
    "M12 13.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM9.5 9l1.5 4.5M14.5 9L13 13.5M10.5 7h3"
)
MENU = (
    MenuEntry("Overview", 10, {"/": "overview.js", "/alerts": "alerts.js"}, _OVERVIEW, key="o"),
    MenuEntry("Map", 20, {"/map": "map.js", "/nodes/{node}": "map.js"}, _MAP, key="m"),
    MenuEntry(
        "Pending", 30, {"/pending": "pending.js", "/pending/{slug}": "pending.js"}, _PENDING, key="p", counts="pending"
    ),
    MenuEntry("Pods", 40, {"/pods": "pods.js", "/pods/{namespace}/{name}": "pod.js"}, _PODS, key="d"),
    MenuEntry("Gangs", 50, {"/gangs": "gangs.js", "/gangs/{namespace}/{name}": "gang.js"}, _GANGS, key="g"),
)


class SchedulingView(PageView):
    """Pods, nodes, gangs and workers."""

    menu = MENU
    deltas = frozenset({"nodes"})
    moments: Mapping[str, int] = {"pods": 0, "gangs": 0, "pod": 2, "gang": 2, "node": 1}

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        following = self.following = cast("Following", page.following)  # whoever makes the page makes it with one
        self.scraper = Scraper(page.options.scrape, self._health_urls, following.clock, follows=page.follows)
        self.pending = PendingPods(following)
        self.overview = Overview(following, self.pending, self.scraper)
        self.alerts = WorkerAlerts(following, self.pending, self.scraper)
        self.map = NodeMap(following)
        self.what_if = Deciders(following, slots=WHAT_IF_SLOTS)
        self.questions = Deciders(following, slots=LOOK_SLOTS)
        self.looking = Looking(following, self.pending, self.questions)
        self.attempts = PodAttempts(
            following.store,
            page.temporal.client,
            cluster=page.cluster,
            ui=page.options.temporal_ui,
            namespace=page.namespace,
        )
        self.departures = PodDepartures(following, lambda: self.attempts, page.temporal.client, cluster=page.cluster)
        self.topics = {
            "overview": self._overview,
            "trends": self._trends_of,
            "pending": lambda namespace: {"reasons": self.pending.reasons(namespace)},
            "nodes": self.map.changed,
        }
        self._noted = 0.0
        self._trends: dict[str, tuple[int, dict[str, Any]]] = {}
        self._everywhere: dict[str, Any] | None = None
        """What overviews of all namespaces have in common, made once a tick."""

    def routes(self) -> Iterable[Route]:
        """The addresses of pods, nodes and gangs, and what all of them come to."""
        looking, pod, gang = self.looking, "pods/{namespace}/{name}", "gangs/{namespace}/{name}"
        return [
            get("namespaces", lambda _: {"namespaces": self.following.model.namespaces()[:5000]}),
            get("overview", lambda asked: self.overview.now(asked.namespace) | {"alerts": self.page.alerts.told()}),
            get("trends", lambda asked: self.overview.trends(asked.namespace)),
            get("pending", lambda asked: {"reasons": self.pending.reasons(asked.namespace)}),
            get("pending/{slug}", self._reason),
            get("pending/{slug}/help", self._help),
            get("nodes", lambda asked: self.map.whole(asked.namespace)),
            get("node-matches", lambda asked: self.map.matching(asked.selector())),
            get("nodes/{name}", lambda asked: looking.node(asked.name("node"))),
            get("nodes/{name}/refusals", lambda asked: looking.refused_on(asked.name("node"), asked.namespace)),
            get("pods", self._pods),
            get(pod, lambda asked: looking.pod(asked.pod, optional="optional" in asked.query)),
            get(f"{pod}/attempts", self._attempts),
            get(f"{pod}/preemption", lambda asked: self.departures.of(asked.pod)),
            get(f"{pod}/decision", self._decision),
            get(f"{pod}/difference", self._difference),
            get(f"{pod}/weights", self._weights),
            Route("POST", f"/api/v1/{pod}/what-if", self._what_if),
            get("gangs", lambda asked: looking.gangs(asked.namespace)),
            get(gang, lambda asked: looking.gang(*asked.pod)),
            get(f"{gang}/domains", lambda asked: looking.gang_verdicts(*asked.pod)),
        ]

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Metrics of workers."""
        return [self.scraper.run()]

    def status(self, namespace: str) -> dict[str, Any]:
        """Whether etcd is followed and answers, and how many pods wait."""
        following, silent = self.following, self.following.silent_seconds
        return {
            "inStep": following.in_step.is_set(),
            "revision": following.revision,
            "etcd": {"answers": not silent, "silentSeconds": round(silent)},
            "temporal": self.page.temporal.told(),
            "pending": self.pending.number(namespace) if following.in_step.is_set() else None,
            "restarts": following.restarts,
            "cluster": self.page.cluster,
        }

    def tick(self, touched: Set[str]) -> None:  # noqa: ARG002 - its views say what changed by themselves
        """Count what waits, and what changed on the map."""
        self._everywhere = None
        clock, topics = self.following.clock(), self.page.stream.topics
        if clock - self._noted >= SLOT_SECONDS / 2:
            self._noted = clock
            self.pending.note({namespace_of(topic) for topic in topics} - {""})
        if any(topic.startswith("nodes") for topic in topics):
            self.map.tick()

    def close(self) -> None:
        """End the threads that decide."""
        self.what_if.close()
        self.questions.close()

    # --- answers ------------------------------------------------------------------------------

    def _overview(self, namespace: str) -> dict[str, Any]:
        if self._everywhere is None:
            self._everywhere = self.overview.everywhere() | {"alerts": self.page.alerts.told()}
        return self.overview.now(namespace, self._everywhere)

    def _trends_of(self, namespace: str) -> dict[str, Any]:
        """Made anew when a slot is over."""
        slot = int(self.following.clock() / SLOT_SECONDS)
        known = self._trends.get(namespace)
        if known is None or known[0] != slot:
            if len(self._trends) > 100:
                self._trends.clear()
            known = self._trends[namespace] = slot, self.overview.trends(namespace)
        return known[1]

    def _reason(self, asked: PageRequest) -> Answer:
        """The pods of one reason."""
        namespace, most = asked.namespace, asked.number("limit", 1000, least=1, most=5000)
        return self.pending.pods(asked.names["slug"], namespace, most)

    async def _help(self, asked: PageRequest) -> Answer:
        """What would help the pods of one reason."""
        key, waiting = self.pending.group(asked.names["slug"], asked.namespace)
        pods = self.following.cache.pods
        chosen = [pod for one in waiting if (pod := pods.get(one)) is not None and pod.pending][:HELPED]
        if not chosen:
            raise NotFound(NONE_WAITS)
        held = held_help(self.following, key, chosen)
        return held if held is not None else await self.questions.ask(lambda stage: helping.helps(stage, chosen))

    async def _pods(self, asked: PageRequest) -> Answer:
        """A list."""
        state, words = asked.query.get("state", ""), asked.query.get("name", "")
        if state and state not in STATES:
            raise BadInput(f"state: one of {', '.join(STATES)}")
        if len(words) > LONGEST_NAME:
            raise BadInput("name: too long")
        return await self.looking.pods(
            namespace=asked.namespace,
            state=state,
            selector=asked.selector() if asked.query.get("selector") else None,
            words=words,
            most=asked.number("limit", 500, least=1, most=5000),
        )

    async def _attempts(self, asked: PageRequest) -> Answer:
        """What is recorded of a pod."""
        most = asked.number("limit", 50, least=1, most=200)
        return await self.page.temporal.soon(self.attempts.explained(asked.pod, most))

    async def _decision(self, asked: PageRequest) -> Answer:
        """One decision, made again."""
        number = asked.number("attempt", 0, least=0, most=_ATTEMPTS)
        return await self.attempts.decision(asked.pod, number or None)

    async def _difference(self, asked: PageRequest) -> Answer:
        """Two attempts."""
        first, second = (asked.number(one, 0, least=1, most=_ATTEMPTS) for one in ("first", "second"))
        if not first or not second:
            raise BadInput("first and second: the numbers of two attempts")
        return await self.attempts.difference(asked.pod, first, second)

    async def _weights(self, asked: PageRequest) -> Answer:
        """The score plugins of the pod's profile, for the form."""
        pod = self.looking.found(asked.pod)
        return await self.questions.ask(lambda stage: supposing.weights(stage, pod))

    async def _what_if(self, asked: PageRequest) -> Answer:
        """Decide as it would be."""
        form = supposing.form_of(await asked.form())
        pod = self.looking.found(asked.pod)
        return await self.what_if.ask(lambda stage: supposing.what_if(stage, pod, form))

    def _health_urls(self) -> list[str]:
        return [record.health for record in self.following.model.instances.values()]

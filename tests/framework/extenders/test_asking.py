"""One question put to real extenders: which calls are made, with what, and what comes of failures."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web

from tests.framework.extenders.extender_server import ExtenderServer
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.asking import ask, ask_preemption, ask_to_bind
from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.framework.extenders.consulting import consult
from wharfinger.framework.extenders.extender_verdicts import (
    CandidateVictims,
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
)
from wharfinger.framework.extenders.wire import Json
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import PodKey
from wharfinger.testing.builders import node, pod, snapshot

NAMES = ("n1", "n2", "n3")
POD: Json = {"metadata": {"name": "web", "namespace": "default"}}


def victim(name: str) -> VictimPod:
    return VictimPod(PodKey("default", name), f"u-{name}", 1)


class Stored:
    """Nodes n1 to n3, each with one pod."""

    def pod(self, key: PodKey) -> Json | None:
        return {"metadata": {"name": key.name}, "spec": {"whole": True}}

    def node(self, name: str) -> Json | None:
        return {"metadata": {"name": name}, "status": {"whole": True}} if name in NAMES else None

    def pods_of(self, node: str) -> Mapping[str, VictimPod] | None:
        return {f"u-{node}": victim(node)} if node in NAMES else None


@pytest.fixture
async def calls() -> AsyncIterator[ExtenderCalls]:
    made = ExtenderCalls()
    yield made
    await made.close()


Serve = Callable[..., Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts an extender that is given its verbs, and is configured as told."""
    async with AsyncExitStack() as stack:

        async def start(verbs: dict[str, Any], **fields: Any) -> tuple[ExtenderServer, Extender]:
            server = ExtenderServer()
            server.verbs.update(verbs)
            url = await stack.enter_async_context(server.serving())
            return server, Extender(url, url, **{f"{verb}_verb": verb for verb in verbs}, **fields)

        yield start


def question(*extenders: Extender, nodes: tuple[str, ...] = NAMES) -> ExtenderQuestion:
    return ExtenderQuestion(7, nodes, tuple(one.name for one in extenders))


def names(answer: dict[str, Any]) -> list[str]:
    return list(answer["NodeNames"])


async def broken(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500)


async def no_json(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>", content_type="text/html")


class TestFiltersAndScores:
    async def test_each_is_asked_about_what_those_before_left(self, serve: Serve, calls: ExtenderCalls) -> None:
        first, a = await serve(
            {"filter": lambda asked: {"NodeNames": names(asked)[1:], "FailedNodes": {"n1": "no"}},
             "prioritize": lambda asked: [{"Host": name, "Score": 3} for name in names(asked)]},
            node_cache_capable=True,
        )  # fmt: skip
        second, b = await serve({"filter": lambda asked: {"Nodes": asked["Nodes"]}})
        third, c = await serve({"prioritize": lambda _: [{"Host": "n3", "Score": 9}]}, weight=2)
        verdicts = await ask(question(a, b, c), POD, (a, b, c), calls, Stored())
        assert isinstance(verdicts, ExtenderVerdicts)

        assert [verb for verb, _ in first.asked] == ["filter", "prioritize"]
        assert first.asked[0][1] == {"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2", "n3"]}
        assert [item["metadata"]["name"] for item in second.asked[0][1]["Nodes"]["items"]] == ["n2", "n3"]
        assert second.asked[0][1]["Nodes"]["items"][0]["status"] == {"whole": True}
        assert second.asked[0][1]["NodeNames"] is None
        assert first.asked[1][1]["NodeNames"] == ["n2", "n3"]
        assert len(third.asked) == 1
        assert [dict(one.scores) for one in verdicts.verdicts] == [{1: 3, 2: 3}, {}, {2: 9}]

    async def test_once_no_node_is_left_no_further_one_is_asked(self, serve: Serve, calls: ExtenderCalls) -> None:
        _, a = await serve({"filter": lambda _: {"FailedNodes": dict.fromkeys(NAMES, "no")}})
        second, b = await serve({"filter": lambda _: {}, "prioritize": lambda _: []})
        verdicts = await ask(question(a, b), POD, (a, b), calls, Stored())
        assert isinstance(verdicts, ExtenderVerdicts)
        assert (second.asked, verdicts.verdicts[0].refusals[0].nodes) == ([], 0b111)

    async def test_a_decision_end_to_end(self, serve: Serve, calls: ExtenderCalls) -> None:
        _, a = await serve(
            {"filter": lambda asked: {"NodeNames": names(asked)[:2], "FailedNodes": {"n3": "no licence"}},
             "prioritize": lambda _: [{"Host": "n2", "Score": 10}]},
            node_cache_capable=True,
        )  # fmt: skip
        written = {"urlPrefix": a.url_prefix, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
        profile = load_profiles({"extenders": [{**written, "nodeCacheCapable": True}]})["default-scheduler"]
        nodes, subject = snapshot(*map(node, NAMES)), pod("web", cpu=100)
        asked = consult(profile, subject, nodes)
        assert isinstance(asked, ExtenderQuestion)
        verdicts = await ask(asked, POD, profile.extenders, calls, Stored())
        assert isinstance(verdicts, ExtenderVerdicts)
        final = consult(profile, subject, nodes, verdicts=verdicts)
        assert isinstance(final, Evaluation)
        assert (final.node, final.refusals) == ("n2", {a.name: {"no licence": 1}})

    @pytest.mark.parametrize(
        ("verb", "reason"),
        [
            pytest.param(broken, "failed filter with extender at URL {url}/filter, code 500", id="500"),
            pytest.param(no_json, "extender at URL {url}/filter: the answer is no JSON", id="no JSON"),
            pytest.param(lambda _: {"Error": "down"}, "extender at URL {url}/filter: down", id="its own error"),
            pytest.param(
                lambda _: {"Nodes": {"items": [{"metadata": {"name": "n9"}}]}},
                'extender "{url}" claims a filtered node "n9" which is not found in the input node list',
                id="unknown node",
            ),
        ],
    )
    async def test_a_failed_filter_fails_the_decision_unless_it_is_ignorable(
        self, serve: Serve, calls: ExtenderCalls, caplog: pytest.LogCaptureFixture, verb: Any, reason: str
    ) -> None:
        caplog.set_level(logging.WARNING)
        _, strict = await serve({"filter": verb})
        failure = await ask(question(strict), POD, (strict,), calls, Stored())
        assert isinstance(failure, ExtenderFailure)
        assert failure.message.startswith(reason.format(url=strict.url_prefix))
        assert (failure.extender, failure.verb) == (strict.name, "filter")

        _, lenient = await serve({"filter": verb}, ignorable=True)
        verdicts = await ask(question(lenient), POD, (lenient,), calls, Stored())
        assert isinstance(verdicts, ExtenderVerdicts)
        assert verdicts.verdicts[0].refusals == ()
        assert verdicts.verdicts[0].failure.startswith(reason.format(url=lenient.url_prefix))

    @pytest.mark.parametrize("verb", [broken, no_json, lambda _: {}], ids=["500", "no JSON", "wrong JSON"])
    async def test_failed_scores_are_no_scores(self, serve: Serve, calls: ExtenderCalls, verb: Any) -> None:
        _, a = await serve({"prioritize": verb})
        _, b = await serve({"prioritize": lambda _: [{"Host": "n1", "Score": 1}]})
        verdicts = await ask(question(a, b), POD, (a, b), calls, Stored())
        assert isinstance(verdicts, ExtenderVerdicts)
        assert [dict(one.scores) for one in verdicts.verdicts] == [{}, {0: 1}]
        assert verdicts.verdicts[0].failure

    async def test_a_node_that_went_is_not_sent(self, serve: Serve, calls: ExtenderCalls) -> None:
        server, a = await serve({"filter": lambda asked: {"Nodes": asked["Nodes"]}})
        verdicts = await ask(question(a, nodes=("n1", "gone")), POD, (a,), calls, Stored())
        assert isinstance(verdicts, ExtenderVerdicts)
        assert len(server.asked[0][1]["Nodes"]["items"]) == 1
        assert [(one.reason, one.resolvable, one.nodes) for one in verdicts.verdicts[0].refusals] == [(None, False, 2)]

    async def test_many_whole_nodes_go_and_come_back(self, serve: Serve, calls: ExtenderCalls) -> None:
        """Beyond the size from which JSON is read on another thread."""
        many = tuple(f"n{number}" for number in range(3000))

        class Whole(Stored):
            def node(self, name: str) -> Json | None:
                return b'{"metadata":{"name":"%s","annotations":{"a":"%s"}}}' % (name.encode(), b"x" * 500)

        _, a = await serve({"filter": lambda asked: {"Nodes": asked["Nodes"]}})
        verdicts = await ask(question(a, nodes=many), POD, (a,), calls, Whole())
        assert isinstance(verdicts, ExtenderVerdicts)
        assert verdicts.verdicts[0].refusals == ()

    async def test_a_long_error_is_cut(self, serve: Serve, calls: ExtenderCalls) -> None:
        _, a = await serve({"filter": lambda _: {"Error": "down\n" * 10_000}})
        failure = await ask(question(a), POD, (a,), calls, Stored())
        assert isinstance(failure, ExtenderFailure)
        assert len(failure.message) < 500
        assert "\n" not in failure.message


class TestPreemption:
    CANDIDATES = tuple(CandidateVictims(name, (victim(name),), 0) for name in NAMES)

    def question(self, *extenders: Extender) -> PreemptionQuestion:
        return PreemptionQuestion(7, self.CANDIDATES, tuple(one.name for one in extenders))

    async def asked(self, calls: ExtenderCalls, *extenders: Extender) -> PreemptionVerdicts:
        return await ask_preemption(self.question(*extenders), POD, extenders, calls, Stored())

    async def test_one_after_the_other_edits_the_candidates(self, serve: Serve, calls: ExtenderCalls) -> None:
        def drop_first(asked: dict[str, Any]) -> dict[str, Any]:
            left = dict(list(asked["NodeNameToMetaVictims"].items())[1:])
            return {"NodeNameToMetaVictims": left}

        def recount(asked: dict[str, Any]) -> dict[str, Any]:
            (name,) = list(asked["NodeNameToVictims"])[:1]
            return {"NodeNameToMetaVictims": {name: {"Pods": [{"UID": f"u-{name}"}], "NumPDBViolations": 4}}}

        _, a = await serve({"preempt": drop_first}, node_cache_capable=True)
        second, b = await serve({"preempt": recount})
        assert await self.asked(calls, a, b) == PreemptionVerdicts((CandidateVictims("n2", (victim("n2"),), 4),))
        sent = second.asked[0][1]["NodeNameToVictims"]["n2"]
        assert sent == {"Pods": [{"metadata": {"name": "n2"}, "spec": {"whole": True}}], "NumPDBViolations": 0}

    @pytest.mark.parametrize(
        ("verb", "error"),
        [
            pytest.param(broken, "code 500", id="500"),
            pytest.param(
                lambda _: {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "x"}]}}},
                "claims to preempt pod (UID: x) on node: n1, but no pod that may be preempted is found on that node",
                id="unknown pod",
            ),
            pytest.param(
                lambda _: {"NodeNameToMetaVictims": {"n9": {"Pods": [{"UID": "x"}]}}},
                'nodeinfo not found for node name "n9"',
                id="unknown node",
            ),
        ],
    )
    async def test_a_failure_evicts_nobody_unless_it_is_ignorable(
        self, serve: Serve, calls: ExtenderCalls, verb: Any, error: str
    ) -> None:
        _, strict = await serve({"preempt": verb})
        verdicts = await self.asked(calls, strict)
        assert (verdicts.candidates, verdicts.error.endswith(error)) == ((), True)

        _, lenient = await serve({"preempt": verb}, ignorable=True)
        assert await self.asked(calls, lenient) == PreemptionVerdicts(self.CANDIDATES)

    async def test_a_node_without_victims_is_an_error_or_is_dropped(self, serve: Serve, calls: ExtenderCalls) -> None:
        def nobody(_: Any) -> dict[str, Any]:
            return {"NodeNameToMetaVictims": {"n1": {"Pods": []}, "n2": {"Pods": [{"UID": "u-n2"}]}}}

        _, strict = await serve({"preempt": nobody})
        verdicts = await self.asked(calls, strict)
        assert verdicts == PreemptionVerdicts((), 'expected at least one victim pod on node "n1"')

        _, lenient = await serve({"preempt": nobody}, ignorable=True)
        assert [one.node for one in (await self.asked(calls, lenient)).candidates] == ["n2"]

    async def test_once_no_candidate_is_left_no_further_one_is_asked(self, serve: Serve, calls: ExtenderCalls) -> None:
        _, a = await serve({"preempt": lambda _: {}})
        second, b = await serve({"preempt": lambda _: {}})
        assert await self.asked(calls, a, b) == PreemptionVerdicts(())
        assert second.asked == []


class TestBinding:
    async def test_the_extender_binds(self, serve: Serve, calls: ExtenderCalls) -> None:
        server, a = await serve({"bind": lambda _: {}})
        assert await ask_to_bind(a, PodKey("default", "web"), "u1", "n1", calls) == ""
        assert server.asked == [
            ("bind", {"PodName": "web", "PodNamespace": "default", "PodUID": "u1", "Node": "n1"})
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("verb", "reason"), [(lambda _: {"Error": "taken"}, "taken"), (broken, "code 500"), (no_json, "no JSON")]
    )
    async def test_or_says_why_not(self, serve: Serve, calls: ExtenderCalls, verb: Any, reason: str) -> None:
        _, a = await serve({"bind": verb})
        assert reason in await ask_to_bind(a, PodKey("default", "web"), "u1", "n1", calls)

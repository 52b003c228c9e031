"""Bytes as kube-scheduler and extenders written in Go exchange them."""

from __future__ import annotations

import pytest

from wharfinger.framework.extenders import wire
from wharfinger.framework.extenders.extender_chain import FilterAnswer, MetaVictims
from wharfinger.framework.extenders.extender_verdicts import CandidateVictims, VictimPod
from wharfinger.framework.extenders.wire import WrongAnswer
from wharfinger.objects.model.pod import PodKey

POD = b'{"metadata":{"name":"web","namespace":"default","uid":"u1"},"spec":{"containers":[{"name":"c"}]}}'
NODE = b'{"metadata":{"name":"n1","labels":{"a":"b"}},"status":{}}'
CANDIDATES = (
    CandidateVictims("n2", (VictimPod(PodKey("ns", "q"), "u3", 1),), 1),
    CandidateVictims("n1", (VictimPod(PodKey("ns", "p"), "u2", 1),), 0),
)


class TestRequests:
    def test_an_extender_that_knows_nodes_is_sent_names(self) -> None:
        expected = b'{"Pod":' + POD + b',"Nodes":null,"NodeNames":["n1","n2"]}'
        assert wire.arguments(POD, ["n1", "n2"], None) == expected

    def test_others_are_sent_the_objects_as_they_are_stored(self) -> None:
        expected = b'{"Pod":' + POD + b',"Nodes":{"metadata":{},"items":[' + NODE + b',{"metadata":{"name":"n2"}}]}'
        given = [NODE, {"metadata": {"name": "n2"}}]
        assert wire.arguments(POD, ["n1", "n2"], given) == expected + b',"NodeNames":null}'

    def test_victims_travel_by_uid_or_as_objects_by_node_in_order(self) -> None:
        assert wire.preemption_arguments(POD, CANDIDATES, None) == (
            b'{"Pod":' + POD + b',"NodeNameToVictims":null,"NodeNameToMetaVictims":{'
            b'"n1":{"Pods":[{"UID":"u2"}],"NumPDBViolations":0},"n2":{"Pods":[{"UID":"u3"}],"NumPDBViolations":1}}}'
        )
        assert wire.preemption_arguments(POD, CANDIDATES[1:], lambda key: {"metadata": {"name": key.name}}) == (
            b'{"Pod":' + POD + b',"NodeNameToVictims":{"n1":{"Pods":[{"metadata":{"name":"p"}}],'
            b'"NumPDBViolations":0}},"NodeNameToMetaVictims":null}'
        )

    def test_a_bind_names_pod_and_node(self) -> None:
        assert wire.binding_arguments(PodKey("ns", "p"), "u", "n1") == (
            b'{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n1"}'
        )


class TestFilterAnswers:
    @pytest.mark.parametrize(
        ("content", "capable", "expected"),
        [
            (
                b'{"Nodes":null,"NodeNames":["n1"],"FailedNodes":{"n2":"no"},"FailedAndUnresolvableNodes":{"n3":"never"},'
                b'"Error":""}\n',
                True,
                FilterAnswer(("n1",), {"n2": "no"}, {"n3": "never"}),
            ),
            (b'{"nodenames":["n1"],"failedNodes":{"n2":"no"}}', True, FilterAnswer(("n1",), {"n2": "no"})),
            (b'{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"n1"}}]}}', False, FilterAnswer(("n1",))),
            (b'{"nodes":{"items":[{"metadata":{"name":"n1"}}]}}', True, FilterAnswer(("n1",))),
            (b'{"NodeNames":["n1"]}', False, FilterAnswer(())),
            (b'{"NodeNames":[],"Nodes":{"items":[{"metadata":{"name":"n1"}}]}}', True, FilterAnswer(())),
            (b'{"Nodes":{"items":null},"FailedNodes":null,"Error":null,"more":1}', False, FilterAnswer(())),
            (b"null", True, FilterAnswer(())),
            (b"{}", False, FilterAnswer(())),
        ],
    )
    def test_are_read_as_go_reads_them(self, content: bytes, capable: bool, expected: FilterAnswer) -> None:
        assert wire.filter_answer(content, node_cache_capable=capable) == expected

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b'{"Error":"licence server is down"}', "^licence server is down$"),
            (b"", "no JSON"),
            (b"<html>", "no JSON"),
            (b"[]", "the answer is no object"),
            (b'{"NodeNames":"n1"}', "NodeNames is no list"),
            (b'{"NodeNames":[1]}', "NodeNames holds no text"),
            (b'{"Nodes":[]}', "Nodes is no object"),
            (b'{"Nodes":{"items":["n1"]}}', "a node is no object"),
            (b'{"FailedNodes":["n1"]}', "FailedNodes is no object"),
            (b'{"FailedNodes":{"n1":1}}', "FailedNodes holds no text"),
        ],
    )
    def test_anything_else_is_wrong(self, content: bytes, reason: str) -> None:
        with pytest.raises(WrongAnswer, match=reason):
            wire.filter_answer(content, node_cache_capable=True)


class TestOtherAnswers:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (b'[{"Host":"n1","Score":10},{"host":"n2","score":-1},{"Host":"n3"}]', [("n1", 10), ("n2", -1), ("n3", 0)]),
            (b"null", []),
            (b"[null]", [("", 0)]),
        ],
    )
    def test_points_by_node(self, content: bytes, expected: list[tuple[str, int]]) -> None:
        assert wire.priorities(content) == expected

    @pytest.mark.parametrize(
        "content",
        [b"{}", b'["n1"]', b'[{"Host":1}]', b'[{"Host":"n","Score":1.5}]', b'[{"Host":"n","Score":true}]',
         b'[{"Host":"n","Score":9223372036854775808}]'],
    )  # fmt: skip
    def test_wrong_points(self, content: bytes) -> None:
        with pytest.raises(WrongAnswer):
            wire.priorities(content)

    def test_victims_by_node(self) -> None:
        content = b'{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u1"}],"NumPDBViolations":2},"n2":null,"n3":{}}}'
        nobody = MetaVictims((), 0)
        expected = {"n1": MetaVictims(("u1",), 2), "n2": nobody, "n3": nobody}
        assert wire.preemption_answer(content) == expected
        assert wire.preemption_answer(b"{}") == {}

    @pytest.mark.parametrize(
        "content",
        [b"[]", b'{"NodeNameToMetaVictims":[]}', b'{"NodeNameToMetaVictims":{"n":[]}}',
         b'{"NodeNameToMetaVictims":{"n":{"Pods":["u"]}}}'],
    )  # fmt: skip
    def test_wrong_victims(self, content: bytes) -> None:
        with pytest.raises(WrongAnswer):
            wire.preemption_answer(content)

    def test_a_bind_answers_with_its_error(self) -> None:
        assert wire.binding_answer(b'{"Error":"taken"}') == "taken"
        assert wire.binding_answer(b"{}") == ""

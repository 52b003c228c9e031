"""Reading and binding in parts is only quicker: it says what reading the whole says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.objects.rk8s.samples import POD, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s import documents, edit, pods
from wharfinger.objects.rk8s.format import RK8S
from wharfinger.objects.rk8s.tree import parse

_CARDS = "        memory: 512Mi\n        gpu: 2\n        gpu_memory: 20Gi\n"
_GANG = "  gang:\n    id: train-1\n    size: 4\n  topology_constraints:\n  - topology_key: zone\n    same_value: true\n"
WITH_GANG = POD.replace("        memory: 512Mi\n", _CARDS).replace("status:\n", f"{_GANG}status:\n")
"""The same pod as documents of May 2026 have it."""
DOCUMENTS = st.sampled_from([POD, WITH_GANG])
ODD = [
    "status:\n",
    "  node_name: here\n",
    '  x: "\n',
    '"\n',
    "  - |\n",
    "spec: {}\n",
    "---\n",
    "# spec:\n",
    "  node_name: ''\n",
]
"""Lines at which a hasty cut would go wrong."""
PIECES = [
    "",
    "\t",
    "x",
    ": ",
    "- ",
    "? ",
    "*a",
    "&a ",
    "!x ",
    "'",
    '"',
    "{",
    "]",
    "|\n",
    "#",
    "---\n",
    "\x00",
    "\ufeff",
    "node_name: a",
]


def whole(text: str) -> object:
    """What reading at once says; the reason where it is refused."""
    try:
        return pods.pod(parse(text))
    except InvalidObject as error:
        return str(error)


def in_parts(text: str) -> object:
    """What `parse_pod` says."""
    try:
        return documents.parse_pod(text.encode())
    except InvalidObject as error:
        return str(error)


def bound(text: str, bind: Callable[[bytes, str], bytes], node: str = "worker1") -> bytes | str:
    """The document with the pod on a node; the reason where it is refused."""
    try:
        return bind(text.encode(), node)
    except InvalidObject as error:
        return str(error)


@st.composite
def with_odd_lines(draw: st.DrawFn) -> str:
    """The writer's document with some lines more, mostly around the name, and some less."""
    lines = draw(DOCUMENTS).splitlines(keepends=True)
    name = lines.index("  node_name: null\n")
    for line in draw(st.lists(st.sampled_from(ODD), max_size=4)):
        lines.insert(draw(st.integers(0, len(lines)) | st.integers(name, name + 4)), line)
    for _ in range(draw(st.integers(0, 3))):
        del lines[len(lines) // 2]
    return "".join(lines)


@st.composite
def with_a_piece(draw: st.DrawFn) -> str:
    """The writer's document with something cut out and put in."""
    document = draw(DOCUMENTS)
    at, without = draw(st.integers(0, len(document) - 1)), draw(st.integers(0, 9))
    return document[:at] + draw(st.sampled_from(PIECES)) + document[at + without :]


@given(with_odd_lines() | with_a_piece())
def test_reading_in_parts_and_at_once_say_the_same(text: str) -> None:
    assert in_parts(text) == whole(text)


@settings(max_examples=200)
@given(with_odd_lines() | with_a_piece(), st.sampled_from(["worker1", "null", "w_1", "1e3", "Node-A"]))
def test_binding_in_the_line_and_by_reading_again_write_the_same(text: str, node: str) -> None:
    assert bound(text, documents.bind_pod, node) == bound(text, edit.bind_pod, node)


def test_pods_that_differ_in_their_gang_alone_are_kept_apart() -> None:
    other = changed(WITH_GANG, "id: train-1", "id: train-2")

    names = [
        documents.parse_pod(value)["spec"]["schedulingGroup"]["podGroupName"] for value in (WITH_GANG.encode(), other)
    ]
    assert names == ["train-1", "train-2"]


@pytest.mark.parametrize(
    ("old", "new"), [("\nspec:\n", "\nspec:: \n"), ("status:\n", "status:: \n"), ("kind: Pod", "kind:: Pod")]
)
def test_a_word_that_only_looks_like_a_key_is_none(old: str, new: str) -> None:
    text = changed(POD, old, new).decode()

    assert in_parts(text) == whole(text)


@pytest.mark.parametrize("name", ["here", "'here'", "null", "''", "1e3", "a_b"])
def test_the_line_with_the_name_is_read_alike_in_every_spelling(name: str) -> None:
    text = changed(POD, "node_name: null", f"node_name: {name}").decode()

    assert in_parts(text) == whole(text)


def test_a_line_inside_a_text_is_no_name() -> None:
    start = POD.index("  node_name: null\n")
    text = POD[:start] + POD[start:].replace("  node_name: null\n", "").replace(
        "env: null", 'env:\n    - {name: a, value: "\n  node_name: there\n  "}'
    )

    assert "nodeName" not in documents.parse_pod(text.encode())["spec"]


def test_a_text_before_the_name_is_not_taken_for_it() -> None:
    text = changed(POD, "spec:\n", 'spec:\n  x: "\n  node_name: there\n  "\n').decode()

    assert "nodeName" not in documents.parse_pod(text.encode())["spec"]
    assert b"node_name: worker1" in documents.bind_pod(text.encode(), "worker1")
    assert b"node_name: there" in documents.bind_pod(text.encode(), "worker1")


def test_pods_of_one_template_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    documents.parse_pod(POD.encode())
    read: list[str] = []

    def noted(text: str) -> object:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(documents, "parse", noted)

    for number in range(3):
        named = changed(POD, "node_name: null", f"node_name: n{number}").decode()
        other = changed(named, "name: web-1", f"name: web-{number}")
        assert documents.parse_pod(other)["spec"]["nodeName"] == f"n{number}"

    assert read == []


def test_an_unreadable_pod_that_runs_holds_what_can_be_read() -> None:
    """Its phase stands without quotes, as rk8s writes it."""
    value = POD
    for old, new in {"node_name: null": "node_name: worker1", "Pending": "Running", "r: In": "r: Like"}.items():
        value = changed(value, old, new).decode()
    with pytest.raises(InvalidObject, match="operator 'Like' is none of"):
        RK8S.decode_pod(value.encode(), name="web-1")
    found = RK8S.decode_occupant(value.encode(), namespace="default", name="web-1")
    assert found is not None
    assert (found.node_name, found.phase) == ("worker1", "Running")
    assert found.requests["cpu"] == 500

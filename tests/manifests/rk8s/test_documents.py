"""Reading in parts is only quicker: it says what reading the whole says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manifests.rk8s.samples import POD, changed
from wharfinger.errors import InvalidObject
from wharfinger.manifests.formats import RK8S
from wharfinger.manifests.rk8s import documents, pods
from wharfinger.manifests.rk8s.tree import parse

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


@given(DOCUMENTS, st.lists(st.tuples(st.integers(0, 99), st.sampled_from(ODD)), max_size=4), st.integers(0, 3))
def test_reading_in_parts_and_at_once_say_the_same(document: str, extra: list[tuple[int, str]], without: int) -> None:
    lines = document.splitlines(keepends=True)
    for at, line in extra:
        lines.insert(at, line)
    for _ in range(without):
        del lines[len(lines) // 2]
    text = "".join(lines)

    assert in_parts(text) == whole(text)


@given(DOCUMENTS, st.integers(0, len(WITH_GANG) - 1), st.integers(0, 9), st.sampled_from(PIECES))
def test_whatever_is_cut_out_or_put_in_both_say_the_same(document: str, at: int, without: int, piece: str) -> None:
    text = document[:at] + piece + document[at + without :]

    assert in_parts(text) == whole(text)


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


def test_pods_of_one_template_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    documents.parse_pod(POD.encode())
    read: list[str] = []

    def noted(text: str) -> object:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(documents, "parse", noted)

    for number in range(3):
        bound = changed(POD, "node_name: null", f"node_name: n{number}").decode()
        other = changed(bound, "name: web-1", f"name: web-{number}")
        assert documents.parse_pod(other)["spec"]["nodeName"] == f"n{number}"

    assert len(read) == 3
    assert not any("containers" in text for text in read)


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
